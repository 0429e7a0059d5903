"""norm-backward on the emulator against float64: kinds, residual, bias, types, odd columns, strides."""

from __future__ import annotations

import pytest

from asmgen.kernels.registry import family
from tests.kernels.rows_harness import Case, run, wrong

LIBRARY = family("norm-backward")
CASES: list[Case] = [
    ("gfx950", {"columns": 61, "bias": True}, {"rows": 67, "each": 2}, "serial"),
    ("gfx942", {"columns": 509, "kind": "rms", "dtype": "f16", "residual": True}, {"rows": 19, "each": 2, "x_stride": 514}, "random:1"),
    ("gfx950", {"columns": 1001, "bias": True, "residual": True}, {"rows": 40, "dx_stride": 1004}, "lockstep"),
    ("gfx942", {"columns": 3000, "dtype": "f32", "bias": True}, {"rows": 5, "each": 2}, "lockstep"),
    ("gfx950", {"columns": 17003, "bias": True, "residual": True, "dropout": True, "dresidual": True},  # sums by a kernel of their own
     {"rows": 3, "each": 2, "p": 0.3}, "lockstep"),  # other orders take the waves of 266 workgroups one by one
    ("gfx942", {"columns": 2047, "dtype": "f32", "bias": True, "residual": True}, {"rows": 9, "each": 2}, "lockstep"),
    ("gfx950", {"columns": 1}, {"rows": 600, "each": 1}, "lockstep"),  # more parts than a workgroup adds at once
    ("gfx950", {"columns": 16384, "bias": True}, {"rows": 2, "each": 1}, "lockstep"),  # parts in 64 lanes
    ("gfx950", {"columns": 1001, "bias": True, "residual": True, "dropout": True, "dresidual": True},
     {"rows": 9, "each": 2, "p": 0.3, "seed": 1 << 40 | 3, "offset": 1 << 33 | 9, "dresidual_stride": 1010}, "lockstep"),
    ("gfx942", {"columns": 111, "kind": "rms", "dropout": True, "rounds": 10, "dtype": "f32"}, {"rows": 35, "p": 0.5}, "serial"),
    ("gfx950", {"columns": 1}, {"rows": 3}, "random:4"),
]


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.slow_after_first
def test_right_within_the_bound(case: int) -> None:
    for seed in (case, case + 1) if CASES[case][1]["columns"] < 1500 else (case | 1,):  # even ones have NaN and infinities
        report = run(LIBRARY, CASES[case], seed=seed)
        assert not wrong(report), report
