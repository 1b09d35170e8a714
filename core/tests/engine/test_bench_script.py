import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "engine.py"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("bench_engine_script", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_a_measurement_keeps_every_request_decoding(bench):
    row = bench.measure(16, 20)
    assert row.requests == 16
    assert 0 < row.engine < row.step
    assert row.rate > 0
    assert row.rate_with_arrivals > 0
