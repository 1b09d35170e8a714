"""Two engines in processes of their own, without HTTP, measured in turns with the same token ids."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from processes import StartError, stop, weigh

SCRIPT = Path(__file__).parent / "in_process.py"


@dataclass(frozen=True, slots=True)
class Case:
    """``requests`` at once of ``prompt`` tokens, ``output`` new ones each."""

    name: str
    requests: int
    prompt: int
    output: int


CASES = (Case("decode1", 1, 32, 256), Case("prefill", 1, 1500, 1), Case("batch16", 16, 64, 128))
QUICK = (Case("decode1", 1, 32, 96), Case("prefill", 1, 1500, 1), Case("batch16", 16, 64, 32))


@dataclass(slots=True)
class Engine:
    """One engine's process, spoken to by lines of JSON."""

    name: str
    process: subprocess.Popen[str]
    log: Path
    load_seconds: float = 0.0

    def ask(self, case: dict[str, Any] | None) -> dict[str, float]:
        """The answer to one case, or the first line where ``case`` is None. Raises StartError where the process ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            if case is not None:
                self.process.stdin.write(json.dumps(case) + "\n")
                self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise StartError(f"{self.name} in process ended:\n{self.log.read_text(errors='replace')[-3000:]}")
        answer: dict[str, float] = json.loads(line)
        return answer


@contextlib.contextmanager
def engine(name: str, python: Path, model: Path, threads: int, log: Path, nice: int = 0) -> Iterator[Engine]:
    """The process until the block ends."""
    words = [str(python), str(SCRIPT), "--engine", name, "--model", str(model), "--threads", str(threads)]
    with log.open("wb") as out:
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=out, text=True, start_new_session=True
        )
    weigh(process.pid, nice)
    made = Engine(name, process, log)
    try:
        made.load_seconds = made.ask(None)["seconds"]
        yield made
    finally:
        stop(process)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def rates(
    engines: Sequence[Engine], cases: Sequence[Case], rounds: int, tell: Callable[[str], None]
) -> dict[str, dict[str, list[float]]]:
    """Tokens per second by case and engine, a value for each round.

    decode1: new tokens after the first over the time beyond that of a single token. prefill: prompt tokens over the
    time of a single token. batch: all new tokens over the whole time.
    """
    out: dict[str, dict[str, list[float]]] = {case.name: {member.name: [] for member in engines} for case in cases}
    for case in cases:  # whatever an engine compiles or records for a batch size is done before the first round
        for member in engines:
            for output in {1, min(case.output, 16)}:
                member.ask({"requests": case.requests, "prompt": case.prompt, "output": output, "seed": -1})
    for number in range(rounds):
        for case in cases:
            for member in engines if number % 2 == 0 else reversed(engines):
                rate = _rate(member, case, number)
                out[case.name][member.name].append(rate)
                tell(f"in process, round {number + 1} of {rounds}: {case.name}, {member.name}: {rate:.4g} tokens/s")
    return out


def _rate(member: Engine, case: Case, seed: int) -> float:
    asked = {"requests": case.requests, "prompt": case.prompt, "output": case.output, "seed": seed}
    whole = member.ask(asked)
    if whole["tokens"] != case.requests * case.output:
        raise StartError(f"{member.name} in process gave {whole['tokens']} tokens for {case}")
    if case.output == 1:
        return case.prompt / whole["seconds"]
    if case.requests > 1:
        return whole["tokens"] / whole["seconds"]
    first = member.ask({**asked, "output": 1, "seed": seed + 1000})
    return (case.output - 1) / max(whole["seconds"] - first["seconds"], 1e-9)
