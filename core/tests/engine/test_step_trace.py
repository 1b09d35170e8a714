"""Profiles: a timeline of steps that ends by itself or when told, and what is asked wrongly."""

import itertools
import json

import pytest

from sgl_core.api.sampling import SamplingParams
from sgl_core.engine.loop import EngineLoop
from sgl_core.engine.messages import Control
from sgl_core.engine.step_trace import StepTrace
from sgl_core.testing.engine_driver import Driver

GREEDY = SamplingParams(temperature=0.0, max_new_tokens=6)


def events_of(path):
    found = json.loads(path.read_text())["traceEvents"]
    return [event for event in found if event["ph"] == "X"]


def test_steps_and_their_parts(tmp_path):
    driver = Driver(lazy=True)
    driver.scheduler.trace = StepTrace(tmp_path)
    driver.add("a", [1, 2, 3], GREEDY)
    driver.run()
    path = driver.scheduler.stop_trace()
    (file,) = tmp_path.iterdir()
    assert str(file) == path
    events = events_of(file)
    computed = [event for event in events if event["tid"] == 1]
    assert [event["name"] for event in computed[:2]] == ["prefill 3", "decode 1"]
    assert len({event["args"]["step"] for event in computed}) == len(computed) == len(driver.steps)
    assert len(events) == 3 * len(computed)
    assert all(event["dur"] >= 0 for event in events)
    for before, after in itertools.pairwise(computed):
        assert before["ts"] + before["dur"] <= after["ts"] + 1e-3, "steps run one after the other"


def test_a_number_of_steps_ends_by_itself(tmp_path):
    driver = Driver()
    driver.scheduler.trace = StepTrace.from_request({"output_dir": str(tmp_path), "num_steps": 2, "start_step": 1})
    driver.generate([1, 2, 3], GREEDY)
    assert driver.scheduler.trace is None
    (file,) = tmp_path.iterdir()
    assert [event["name"] for event in events_of(file) if event["tid"] == 1] == ["decode 1", "decode 1"]


def test_by_control_operations(tmp_path):
    driver, sent = Driver(), []
    loop = EngineLoop(driver.scheduler, driver.worker, None, sent.append)

    def ask(op, **args):
        loop._handle(Control(id=1, op=op, args=args))
        return sent[-1]

    assert ask("stop_profile").status == 400
    assert ask("start_profile", num_steps=-1).status == 400
    assert "output_dir" in ask("start_profile", output_dir="/proc/nothing/here").error
    assert ask("start_profile", output_dir=str(tmp_path), activities=["CPU"]).value == str(tmp_path)
    assert "already" in ask("start_profile").error
    driver.generate([1, 2, 3], GREEDY)
    assert ask("stop_profile").value.startswith(str(tmp_path))


@pytest.mark.parametrize("steps", [True, "5", 1.5])
def test_numbers_of_steps_are_numbers(steps):
    with pytest.raises(ValueError, match="num_steps"):
        StepTrace.from_request({"num_steps": steps if steps is not True else "yes"})
