"""Measures the engine without a model: tokens per second through scheduler and messages, and how a step's cost grows.

    python core/bench/engine.py [--quick] [--json FILE]

Each row keeps N requests decoding on the null worker, in this thread, with every message encoded and decoded as between two
processes. Times are CPU time of this one thread, so that neighbours on the machine do not count. "engine" is scheduler and
messages without the null worker's own time; "with arrivals" is a closed loop in which each request that ends is followed by a new one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from dataclasses import dataclass

import msgspec

from sgl_core.api.sampling import SamplingParams
from sgl_core.api.worker import Step, StepBatch
from sgl_core.engine.assembly import assemble
from sgl_core.engine.limits import EngineLimits
from sgl_core.engine.messages import FromWorker, Generate, Outputs, ToWorker
from sgl_core.engine.null_worker import NullOptions, NullWorker

SIZES = (16, 64, 256, 1024, 4096)
WANTED_TOKENS_PER_SECOND = 50_000
PROMPT, PAGE = 64, 16


@dataclass(frozen=True)
class Row:
    """One measurement. Times in microseconds per step (medians); ``rate`` in tokens per second over the whole run."""

    requests: int
    step: float
    engine: float
    per_request: float
    rate: float
    rate_with_arrivals: float


class Timed(NullWorker):
    """Adds up the time it takes itself, so that it can be told from the engine's."""

    spent = 0.0

    def submit(self, batch: StepBatch) -> Step:
        begin = time.thread_time()
        step = super().submit(batch)
        self.spent += time.thread_time() - begin
        return step


class Wire:
    """Encodes and decodes every message, as the two processes would."""

    def __init__(self) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._buffer = bytearray()
        self._to_worker = msgspec.msgpack.Decoder(ToWorker)
        self._from_worker = msgspec.msgpack.Decoder(FromWorker)

    def there(self, message: ToWorker) -> ToWorker:
        return self._to_worker.decode(self._encoder.encode(message))

    def back(self, message: FromWorker) -> FromWorker:
        self._encoder.encode_into(message, self._buffer)
        return self._from_worker.decode(self._buffer)


def measure(requests: int, new_tokens: int) -> Row:
    """``requests`` greedy requests with distinct prompts, all decoding; then the same as a closed loop of arrivals and ends."""
    worker = Timed(
        NullOptions(
            num_pages=requests * (-(-(PROMPT + 2 * new_tokens + 1) // PAGE) + 1),
            page_size=PAGE,
            max_requests=requests,
            context_length=PROMPT + 4 * new_tokens,
        )
    )
    limits = EngineLimits(chunked_prefill_size=8192, enable_mixed_chunk=True, schedule_conservativeness=0.0)
    scheduler = assemble(worker, worker.load(lambda what, done, total: None), limits)
    wire = Wire()

    def feed(number: int) -> None:
        prompt = [(number * 7919 + place * 31) % 32000 for place in range(PROMPT)]
        sampling = SamplingParams(temperature=0.0, max_new_tokens=new_tokens)
        message = wire.there(Generate(rid=f"request-{number}", input_ids=prompt, sampling=sampling))
        assert isinstance(message, Generate)
        scheduler.add(message)

    def turn() -> tuple[int, int]:
        """One turn with its messages: tokens that came out, requests that ended."""
        scheduler.turn()
        if not scheduler.outputs:
            return 0, 0
        outputs = wire.back(Outputs(list(scheduler.outputs)))
        scheduler.outputs.clear()
        assert isinstance(outputs, Outputs)
        return sum(len(item.token_ids) for item in outputs.items), sum(
            1 for item in outputs.items if item.finish_reason
        )

    for number in range(requests):
        feed(number)
    while len(scheduler.state.queue) or scheduler.state.prefilling:
        turn()
    steps: list[float] = []
    own: list[float] = []
    tokens = 0
    begin = time.thread_time()
    for _ in range(new_tokens // 2):
        at, before = time.thread_time(), worker.spent
        tokens += turn()[0]
        took = time.thread_time() - at
        steps.append(took)
        own.append(took - (worker.spent - before))
    elapsed = time.thread_time() - begin
    count, total, begin = requests, 0, time.thread_time()
    while time.thread_time() - begin < elapsed or total < requests:
        made, ended = turn()
        total += made
        for _ in range(ended):
            feed(count)
            count += 1
    arrivals = time.thread_time() - begin
    step, engine = statistics.median(steps) * 1e6, statistics.median(own) * 1e6
    return Row(requests, step, engine, engine / requests, tokens / elapsed, total / arrivals)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="fewer steps, for tests")
    options.add_argument("--json", metavar="FILE", help="write the rows here too")
    chosen = options.parse_args()
    rows = [measure(size, 40 if chosen.quick else 400 if size <= 1024 else 100) for size in SIZES]
    print(
        f"{'requests':>9} {'us/step':>10} {'engine us':>10} {'us/request':>11} {'tokens/s':>10} {'with arrivals':>14}"
    )
    for row in rows:
        print(
            f"{row.requests:>9} {row.step:>10.0f} {row.engine:>10.0f} {row.per_request:>11.2f}"
            f" {row.rate:>10.0f} {row.rate_with_arrivals:>14.0f}"
        )
    if chosen.json:
        with open(chosen.json, "w", encoding="utf-8") as file:
            json.dump([vars(row) for row in rows], file, indent=2)
    at_256 = next(row.rate for row in rows if row.requests == 256)
    growth = (rows[-1].engine / rows[0].engine) / (rows[-1].requests / rows[0].requests)
    print(f"256 requests: {at_256:,.0f} tokens/s (wanted {WANTED_TOKENS_PER_SECOND:,})")
    print(
        f"16 to 4,096 requests: engine time per step grows {growth:.2f} times as fast as the number of requests (wanted at most 1)"
    )
    return 0 if at_256 >= WANTED_TOKENS_PER_SECOND and growth <= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
