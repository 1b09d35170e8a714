"""Both channels, the worker in a thread and in a process of its own, behave alike."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from sgl_core.api.sampling import SamplingParams
from sgl_core.engine.channel import ChannelClosed
from sgl_core.engine.inline import InlineChannel
from sgl_core.engine.messages import Abort, Control, ControlResult, Fatal, Generate, Outputs, Ready, Stats
from sgl_core.engine.process import ProcessChannel
from sgl_core.testing.engine_driver import oracle

SECONDS = 30
BOTH = pytest.mark.parametrize("kind", [InlineChannel, ProcessChannel])


def generate(rid, prompt=(1, 2, 3), count=4, **fields):
    return Generate(
        rid=rid, input_ids=list(prompt), sampling=SamplingParams(temperature=0.0, max_new_tokens=count), **fields
    )


class Front:
    """The other end of a channel: reads until what it waits for has come."""

    def __init__(self, channel):
        self.channel, self.tokens, self.ends, self.others = channel, {}, {}, []

    async def until(self, done):
        while not done():
            self.take(await asyncio.wait_for(self.channel.recv(), SECONDS))

    def take(self, message):
        if isinstance(message, Outputs):
            for output in message.items:
                self.tokens.setdefault(output.rid, []).extend(output.token_ids)
                if output.finish_reason:
                    self.ends[output.rid] = output.finish_reason
        else:
            self.others.append(message)

    async def found(self, kind):
        await self.until(lambda: any(isinstance(message, kind) for message in self.others))
        return next(message for message in self.others if isinstance(message, kind))


def with_front(kind, plan, play):
    """Run ``play(front)`` against a ready worker; the channel is closed whatever happens."""

    async def run():
        channel = kind(plan)
        try:
            front = Front(channel)
            await front.found(Ready)
            return await play(front)
        finally:
            channel.close()
            assert not channel.alive()

    return asyncio.run(run())


@BOTH
def test_requests_are_served(kind, null_plan):
    async def play(front):
        for number in range(20):
            front.channel.send(generate(f"r{number}", [number, 5], 8))
        await front.until(lambda: len(front.ends) == 20)
        for number in range(20):
            assert front.tokens[f"r{number}"] == oracle([number, 5], 8, 1000)
        front.channel.send(Control(id=7, op="stats"))
        assert (await front.found(ControlResult)).id == 7
        assert (await front.found(Stats)).total_pages == 256
        assert front.channel.alive()

    with_front(kind, null_plan(), play)


@BOTH
def test_an_abort_from_the_front(kind, null_plan):
    async def play(front):
        front.channel.send(generate("long", count=900))
        await front.until(lambda: "long" in front.tokens)
        front.channel.send(Abort(rid="long"))
        await front.until(lambda: "long" in front.ends)
        assert front.ends["long"] in ("abort", "length")

    with_front(kind, null_plan(), play)


@BOTH
def test_a_cancelled_receive_loses_no_message(kind, null_plan):
    async def play(front):
        waiting = asyncio.ensure_future(front.channel.recv())
        await asyncio.sleep(0)
        waiting.cancel()
        front.channel.send(generate("r", count=30))
        for _ in range(20):  # cut into the receiving at any point
            waiting = asyncio.ensure_future(front.channel.recv())
            await asyncio.sleep(0)
            if waiting.done():
                front.take(waiting.result())
            waiting.cancel()
        await front.until(lambda: "r" in front.ends)
        assert front.tokens["r"] == oracle([1, 2, 3], 30, 1000)

    with_front(kind, null_plan(), play)


@BOTH
def test_after_close_nothing_goes(kind, null_plan):
    channel = kind(null_plan())
    channel.close()
    channel.close()
    assert not channel.alive()
    with pytest.raises(ChannelClosed):
        channel.send(generate("late"))

    async def read():
        while True:
            await channel.recv()

    with pytest.raises(ChannelClosed):
        asyncio.run(asyncio.wait_for(read(), SECONDS))


@BOTH
def test_a_worker_that_cannot_start_says_why_once(kind, null_plan):
    async def run():
        channel = kind(null_plan(), rank=3)
        try:
            message = await asyncio.wait_for(channel.recv(), SECONDS)
            assert isinstance(message, Fatal)
            assert "rank 3" in message.message
            assert "Traceback" in message.traceback
            with pytest.raises(ChannelClosed):
                await asyncio.wait_for(channel.recv(), SECONDS)
            assert not channel.alive()
        finally:
            channel.close()

    asyncio.run(run())


def test_what_is_larger_than_the_sockets_hold_comes_whole_both_ways(null_plan):
    prompt = list(range(1000)) * 100

    async def play(front):
        for number in range(20):  # nothing is read meanwhile: the rest waits in the channel
            front.channel.send(Generate(rid=f"long{number}", input_ids=prompt, sampling=SamplingParams()))
        front.channel.send(generate("r"))
        await front.until(lambda: len(front.ends) == 21)
        assert front.ends["long0"] == "error"
        assert front.tokens["r"] == oracle([1, 2, 3], 4, 1000)

    with_front(ProcessChannel, null_plan(), play)


def test_a_worker_that_waits_for_its_reader_ends_at_close(null_plan):
    async def play(front):
        for number in range(8):
            front.channel.send(generate(f"r{number}", [number], 400))
        for number in range(200):
            front.channel.send(Control(id=number, op="null_log", args={"text": "x" * 4000}))
        front.channel.close()

    with_front(ProcessChannel, null_plan(), play)


def test_an_interrupt_to_the_group_leaves_the_worker_to_the_front(null_plan):
    async def play(front):
        os.kill(front.channel.pid, signal.SIGINT)
        os.kill(front.channel.pid, signal.SIGTERM)
        front.channel.send(generate("r"))
        await front.until(lambda: "r" in front.ends)
        assert front.tokens["r"] == oracle([1, 2, 3], 4, 1000)

    with_front(ProcessChannel, null_plan(), play)


def test_the_death_of_a_worker_is_told_within_two_seconds(null_plan):
    async def play(front):
        os.kill(front.channel.pid, signal.SIGKILL)
        message = await asyncio.wait_for(front.channel.recv(), 2)
        while not isinstance(message, Fatal):
            message = await asyncio.wait_for(front.channel.recv(), 2)
        assert "signal 9" in message.message
        assert not front.channel.alive()
        with pytest.raises(ChannelClosed):
            front.channel.send(generate("late"))
        with pytest.raises(ChannelClosed):
            await front.channel.recv()

    with_front(ProcessChannel, null_plan(), play)


def test_a_worker_ends_with_its_parent(tmp_path, null_plan):
    """A parent that is killed leaves no worker behind: its pipe closes when both are gone."""
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent(
            """
            import asyncio, os, signal, sys
            from pathlib import Path
            from sgl_core.engine.messages import Ready
            from sgl_core.engine.process import ProcessChannel
            from sgl_core.plan import Plan

            async def main():
                channel = ProcessChannel(Plan.from_json(Path(sys.argv[1]).read_text()))
                while not isinstance(await channel.recv(), Ready):
                    pass
                print(channel.pid, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)

            if __name__ == "__main__":
                asyncio.run(main())
            """
        )
    )
    plan = tmp_path / "plan.json"
    plan.write_text(null_plan().to_json())
    # The worker inherits stdout, so this returns only when the worker is gone too.
    done = subprocess.run([sys.executable, script, plan], stdout=subprocess.PIPE, timeout=SECONDS, check=False)
    assert done.returncode == -signal.SIGKILL
    assert int(done.stdout) > 0


def test_an_unclosed_channel_does_not_hang_the_interpreter(tmp_path, null_plan):
    script = tmp_path / "careless.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            from pathlib import Path
            from sgl_core.engine.process import ProcessChannel
            from sgl_core.plan import Plan

            if __name__ == "__main__":
                channel = ProcessChannel(Plan.from_json(Path(sys.argv[1]).read_text()))
            """
        )
    )
    plan = tmp_path / "plan.json"
    plan.write_text(null_plan().to_json())
    done = subprocess.run([sys.executable, script, plan], stdout=subprocess.PIPE, timeout=SECONDS, check=False)
    assert done.returncode == 0
