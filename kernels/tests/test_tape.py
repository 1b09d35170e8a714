"""The tape: recording runs nothing, replay equals the direct calls, buffers may be refilled, Python breaks keep their place."""

from __future__ import annotations

import numpy as np
import pytest

import sgl_ops
from sgl_ops import Tape, fused, linear


def test_replay_equals_direct_calls_and_reads_refilled_buffers() -> None:
    rng = np.random.default_rng(0)
    weight = linear.pack("F32", rng.standard_normal((24, 40), dtype=np.float32), 24, 40)
    x, norm, h, out = (
        np.zeros((3, 40), np.float32),
        np.ones(40, np.float32),
        np.zeros((3, 40), np.float32),
        np.zeros((3, 24), np.float32),
    )
    tape = Tape()
    with tape.record():
        fused.rms_norm(x, norm, h, rows=3, dim=40, eps=1e-6)
        weight.run(h, out)
        fused.act_mul(out, None, out, rows=3, dim=24)
    assert len(tape) == 3
    assert not h.any()
    assert not out.any()
    for seed in (1, 2):
        x[:] = np.random.default_rng(seed).standard_normal(x.shape)
        tape.replay()
        h2, out2 = np.empty_like(h), np.empty_like(out)
        fused.rms_norm(x, norm, h2, rows=3, dim=40, eps=1e-6)
        weight.run(h2, out2)
        fused.act_mul(out2, None, out2, rows=3, dim=24)
        np.testing.assert_array_equal(out, out2)
    times = tape.profile(2)
    assert {name: count for name, (count, _) in times.items()} == {"rms_norm_run": 1, "linear_run": 1, "act_mul_run": 1}


def test_python_breaks_run_in_place() -> None:
    x, one = np.zeros(16, np.float32), np.ones(16, np.float32)
    tape, seen = Tape(), []
    with tape.record():
        fused.add(x, one, rows=1, dim=16)
        tape.call(lambda: seen.append(float(x[0])))
        fused.add(x, one, rows=1, dim=16)
    assert (tape.breaks, len(tape), seen) == (1, 3, [])
    tape.replay()
    assert seen == [1.0]
    assert (x == 2).all()


def test_misuse_is_refused() -> None:
    tape = Tape()
    with pytest.raises(sgl_ops.OpsError, match="belongs inside"):
        tape.call(lambda: None)
    with tape.record(), pytest.raises(sgl_ops.OpsError, match="do not nest"), Tape().record():
        pass
    with tape.record(), pytest.raises(sgl_ops.OpsError, match="replay inside"):
        tape.replay()
    x = np.zeros(16, np.float32)
    fused.add(x, np.ones(16, np.float32), rows=1, dim=16)  # nothing is recorded any more
    assert (x == 1).all()
