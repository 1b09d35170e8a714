"""Any mix of requests, limits, aborts and pauses: every request ends once with the answer it gets alone, and the books balance."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from sgl_core.api.sampling import LogprobOptions, SamplingParams
from sgl_core.engine.limits import UNLIMITED, EngineLimits
from sgl_core.engine.null_worker import NullOptions
from sgl_core.testing.engine_driver import Driver, oracle

VOCAB = 40
CONTEXT = 90
STEMS = [[(7 * stem + 3 * place) % VOCAB for place in range(48)] for stem in range(3)]

limits = st.builds(
    EngineLimits,
    chunked_prefill_size=st.sampled_from([1, 3, 8, 24, UNLIMITED]),
    max_prefill_tokens=st.sampled_from([8, 32, 1000]),
    prefill_max_requests=st.sampled_from([1, 100]),
    prefill_step_ms=st.sampled_from([None, 0.001, 1000.0]),
    prefill_decode_interval=st.sampled_from([0, 1, 3]),
    max_running_requests=st.sampled_from([2, 100]),
    enable_mixed_chunk=st.booleans(),
    disable_overlap_schedule=st.booleans(),
    disable_radix_cache=st.booleans(),
    schedule_policy=st.sampled_from(["fcfs", "lpm", "lof", "random", "priority"]),
    radix_eviction_policy=st.sampled_from(["lru", "lfu", "slru", "priority", "fifo"]),
    enable_priority_scheduling=st.booleans(),
    priority_scheduling_preemption_threshold=st.sampled_from([1, 10]),
    retraction_policy=st.sampled_from(["length", "priority"]),
    schedule_conservativeness=st.sampled_from([0.0, 1.0]),
    stream_interval=st.sampled_from([1, 3]),
)
prompts = st.tuples(
    st.sampled_from(STEMS), st.integers(0, 48), st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=6)
).map(lambda parts: parts[0][: parts[1]] + parts[2])


class Engine(RuleBasedStateMachine):
    @initialize(
        limits=limits,
        size=st.sampled_from([1, 2, 16]),
        tokens=st.sampled_from([64, 96, 256]),
        slots=st.sampled_from([1, 3, 8]),
        lazy=st.booleans(),
    )
    def start(self, limits, size, tokens, slots, lazy):
        self.pool = tokens
        self.driver = Driver(
            NullOptions(
                check=True,
                num_pages=tokens // size,
                page_size=size,
                max_requests=slots,
                context_length=CONTEXT,
                vocab_size=VOCAB,
            ),
            limits,
            lazy=lazy,
        )
        self.asked = {}
        self.aborted = set()

    @rule(
        prompt=prompts,
        count=st.sampled_from([0, 1, 4, 30, None]),
        seed=st.none() | st.integers(0, 3),
        ends=st.lists(st.integers(0, VOCAB - 1), max_size=2),
        floor=st.sampled_from([0, 3]),
        priority=st.integers(0, 3),
        group=st.sampled_from([None, "g"]),
        salt=st.sampled_from(["", "salt"]),
        interval=st.sampled_from([1, 4]),
        logprobs=st.sampled_from([LogprobOptions(), LogprobOptions(output=True), LogprobOptions(prompt_start=0)]),
    )
    def ask(self, prompt, count, seed, ends, floor, priority, group, salt, interval, logprobs):
        rid = f"r{len(self.asked)}"
        sampling = SamplingParams(
            temperature=0.0 if seed is None else 1.0, seed=seed, max_new_tokens=count, min_new_tokens=floor
        )
        self.asked[rid] = (prompt, count, seed, ends, floor, logprobs)
        self.driver.add(
            rid,
            prompt,
            sampling,
            eos_token_ids=tuple(ends),
            priority=priority,
            group=group,
            cache_salt=salt,
            stream_interval=interval,
            logprobs=logprobs,
        )

    @rule(turns=st.integers(1, 8))
    def go_on(self, turns):
        for _ in range(turns):
            self.driver.turn()

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def abort(self, data):
        rid = data.draw(st.sampled_from(sorted(self.asked)))
        if not self.driver.records[rid].ends:
            self.aborted.add(rid)
        self.driver.abort(rid)
        self.driver.check()

    @rule(mode=st.sampled_from(["in_place", "retract"]))
    def pause_and_continue(self, mode):
        self.driver.scheduler.pause(mode)
        self.driver.turn()
        self.driver.scheduler.paused = False

    def teardown(self):
        if not hasattr(self, "driver"):
            return
        self.driver.run(20000)
        for rid, asked in self.asked.items():
            self._judge(rid, *asked)
        assert self.driver.scheduler.state.groups == {}
        assert self.driver.scheduler.flush_cache()
        assert self.driver.scheduler.stats().free_pages == self.driver.options.num_pages

    def _judge(self, rid, prompt, count, seed, ends, floor, logprobs):
        record = self.driver.records[rid]
        end = record.end
        assert record.outputs[-1] is end
        most = min(CONTEXT - len(prompt), CONTEXT if count is None else count)
        alone = oracle(prompt, most, VOCAB, ends=ends, seed=seed, floor=floor)
        if end.finish_reason == "error":
            assert (end.status, record.tokens) == (400, [])
            assert len(prompt) > self.pool
        elif rid in self.aborted:
            assert end.finish_reason == "abort"
            assert record.tokens == alone[: len(record.tokens)]
        elif end.message:  # alone in the pool, and the pool is full
            assert record.tokens == alone[: len(record.tokens)]
            assert len(prompt) + len(record.tokens) > self.pool
        else:
            assert record.tokens == alone
            stopped = alone and alone[-1] in ends and len(alone) > floor
            assert end.finish_reason == ("stop" if stopped else "length")
        if logprobs.output:
            got = [value for output in record.outputs if output.logprobs for value in output.logprobs.token_logprobs]
            assert len(got) == len(record.tokens)
        if logprobs.prompt_start == 0 and rid not in self.aborted and end.finish_reason != "error":
            assert len(record.outputs[0].prompt_logprobs.token_logprobs) == len(prompt)


TestEngine = Engine.TestCase
TestEngine.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
