import queue

import pytest

from sgl_core.api.sampling import SamplingParams
from sgl_core.engine.assembly import assemble
from sgl_core.engine.inline import QueueInbox
from sgl_core.engine.limits import EngineLimits
from sgl_core.engine.loop import EngineLoop
from sgl_core.engine.messages import Abort, Control, ControlResult, Fatal, Generate, Outputs, Ready, Shutdown, Stats
from sgl_core.engine.null_worker import NullOptions, NullWorker
from sgl_core.testing.engine_driver import oracle


def generate(rid, prompt=(1, 2, 3), count=4):
    return Generate(rid=rid, input_ids=list(prompt), sampling=SamplingParams(temperature=0.0, max_new_tokens=count))


class Idle(Exception):
    """The loop asked to wait for ever."""


class Script(QueueInbox):
    """An inbox with everything in it from the start; when the loop would block, it shuts down."""

    def __init__(self, *messages):
        super().__init__()
        self.waits = []
        for message in messages:
            self.queue.put(message)

    def receive(self, timeout):
        self.waits.append(timeout)
        if timeout is None and self.queue.empty():
            return [Shutdown()]
        return super().receive(timeout)


def make(*messages, limits=None, worker=None):
    worker = worker or NullWorker(NullOptions(num_pages=64, page_size=4, max_requests=4, vocab_size=1000))
    capacity = worker.load(lambda what, done, total: None)
    sent, inbox = [], Script(*messages)
    loop = EngineLoop(assemble(worker, capacity, limits or EngineLimits()), worker, inbox, sent.append)
    loop.announce(capacity)
    return loop, inbox, sent


def run(*messages, **fields):
    loop, inbox, sent = make(*messages, **fields)
    loop.run()
    return sent, inbox


def tokens(sent, rid):
    return [t for m in sent if isinstance(m, Outputs) for o in m.items if o.rid == rid for t in o.token_ids]


def results(sent):
    return {m.id: m for m in sent if isinstance(m, ControlResult)}


def test_ready_tells_the_capacity():
    sent, _ = run()
    assert isinstance(sent[0], Ready)
    assert (sent[0].capacity["num_pages"], sent[0].capacity["vocab_size"]) == (64, 1000)


def test_requests_are_served_then_the_loop_waits_without_spinning():
    sent, inbox = run(generate("a"), generate("b"))
    assert tokens(sent, "a") == tokens(sent, "b") == oracle([1, 2, 3], 4, 1000)
    assert inbox.waits[-1] is None
    assert len(inbox.waits) < 10


def test_one_message_carries_all_of_a_steps_outputs():
    sent, _ = run(generate("a"), generate("b"))
    assert max(len(m.items) for m in sent if isinstance(m, Outputs)) == 2


def test_stats_come_when_it_falls_idle():
    sent, _ = run(generate("a"))
    last = [m for m in sent if isinstance(m, Stats)][-1]
    assert (last.running, last.waiting, last.generated_tokens) == (0, 0, 4)
    assert last.free_pages + last.cached_pages == last.total_pages == 64
    assert len([m for m in sent if isinstance(m, Stats)]) <= 2


def test_control_operations():
    sent, _ = run(
        Control(id=1, op="flush_cache"),
        Control(id=2, op="stats"),
        Control(id=3, op="internal_state"),
        Control(id=4, op="no_such_thing"),
        Control(id=5, op="null_log", args={"a": 1}),
        Control(id=6, op="pause", args={"mode": "never"}),
    )
    found = results(sent)
    assert found[1].value is True
    assert found[2].value["total_pages"] == 64
    assert found[3].value["paused"] is False
    assert (found[4].status, "no_such_thing" in found[4].error) == (404, True)
    assert found[5].value == 1
    assert (found[6].status, "never" in found[6].error) == (400, True)


def test_flushing_in_use_is_refused_with_a_reason():
    sent, _ = run(generate("a"), Control(id=1, op="flush_cache"))
    assert results(sent)[1].status == 400
    assert tokens(sent, "a") == oracle([1, 2, 3], 4, 1000)


def test_pause_and_continue():
    sent, _ = run(Control(id=1, op="pause"), generate("a"), Control(id=2, op="stats"), Control(id=3, op="continue"))
    assert results(sent)[2].value["waiting"] == 1
    assert tokens(sent, "a") == oracle([1, 2, 3], 4, 1000)


def test_an_abort_of_all():
    sent, _ = run(generate("a"), generate("b"), Abort(all=True))
    ends = [o.finish_reason for m in sent if isinstance(m, Outputs) for o in m.items]
    assert ends == ["abort", "abort"]


class Dead(NullWorker):
    """Its steps say that the worker is no more."""

    def submit(self, batch):
        error = RuntimeError("device lost")
        error.worker_died = True
        raise error


def test_a_dead_worker_is_reported_with_its_traceback_after_its_requests_ended():
    worker = Dead(NullOptions(num_pages=64, page_size=4, max_requests=4, vocab_size=1000))
    loop, _, sent = make(generate("a"), worker=worker)
    with pytest.raises(RuntimeError, match="device lost"):
        loop.run()
    outputs, fatal = sent[-2:]
    assert outputs.items[0].status == 500
    assert "device lost" not in outputs.items[0].message
    assert isinstance(fatal, Fatal)
    assert "device lost" in fatal.message
    assert "Traceback" in fatal.traceback


def test_an_inbox_waits_only_when_asked():
    inbox = QueueInbox()
    assert inbox.receive(0) == []
    assert inbox.receive(0.001) == []
    inbox.queue.put(Shutdown())
    assert len(inbox.receive(None)) == 1
    with pytest.raises(queue.Empty):
        inbox.queue.get_nowait()


def test_while_more_requests_are_expected_the_loop_sleeps():
    now, late = [100.0], [generate("late")]

    class Returning(Script):
        def receive(self, timeout):
            if timeout:
                self.waits.append(timeout)
                now[0] += timeout
                return []
            return [late.pop()] if timeout is None and self.queue.empty() and late else super().receive(timeout)

    worker = NullWorker(NullOptions(num_pages=64, page_size=4, max_requests=4, vocab_size=1000))
    capacity = worker.load(lambda what, done, total: None)
    scheduler = assemble(worker, capacity, EngineLimits(prefill_step_ms=200), clock=lambda: now[0])
    sent, inbox = [], Returning(generate("a"), generate("b"))
    EngineLoop(scheduler, worker, inbox, sent.append).run()
    assert tokens(sent, "late") == oracle((1, 2, 3), 4, 1000)
    assert sum(wait for wait in inbox.waits if wait) == pytest.approx(0.02)
