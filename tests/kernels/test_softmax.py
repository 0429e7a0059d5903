"""softmax on the emulator against float64: logarithms, masks, gradients, types, odd columns and rows, strides, one and two passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asmgen.author.contract.contract import ContractError
from asmgen.author.contract.problem import Output, Problem
from asmgen.kernels.registry import family
from asmgen.tools.running.runner import emulator, launch
from tests.kernels.rows_harness import Case, built, run, wrong

LIBRARY = family("softmax")
CASES: list[Case] = [
    ("gfx950", {"columns": 64}, {"rows": 67, "each": 2}, "serial"),
    ("gfx942", {"columns": 61, "log": True, "dtype": "f16", "out": "f32"}, {"rows": 33, "x_stride": 64}, "random:1"),
    ("gfx950", {"columns": 509, "mask": "causal", "out": "f32"}, {"rows": 9, "each": 2, "queries": 7, "d_stride": 512}, "random:2"),
    ("gfx942", {"columns": 1001, "access": "element", "mask": "length", "log": True}, {"rows": 11, "each": 3}, "lockstep"),
    ("gfx950", {"columns": 3000, "mask": "length"}, {"rows": 9, "each": 4}, "random:3"),
    ("gfx942", {"columns": 4096, "lanes": 64, "dtype": "f32", "out": "f32"}, {"rows": 5, "each": 2}, "serial"),
    ("gfx950", {"columns": 1, "log": True}, {"rows": 5}, "lockstep"),
    ("gfx950", {"columns": 16383, "log": True, "mask": "causal", "dtype": "f32"}, {"rows": 3, "each": 2, "queries": 16390}, "random:4"),
    ("gfx942", {"columns": 33001}, {"rows": 2, "each": 2}, "random:5"),
    ("gfx950", {"columns": 33000, "log": True, "mask": "length", "out": "f16"}, {"rows": 3, "each": 2}, "serial"),
    ("gfx950", {"columns": 100, "backward": True}, {"rows": 37, "each": 2}, "serial"),
    ("gfx942", {"columns": 1003, "backward": True, "access": "element", "log": True}, {"rows": 5, "y_stride": 1005}, "random:6"),
    ("gfx950", {"columns": 5000, "backward": True, "dtype": "f16"}, {"rows": 3, "each": 2, "dy_stride": 5002}, "lockstep"),
    ("gfx942", {"columns": 2047, "backward": True, "dtype": "f32", "log": True}, {"rows": 4, "each": 3}, "random:7"),
    ("gfx950", {"columns": 16500, "backward": True, "access": "element", "lanes": 512}, {"rows": 2, "each": 2}, "serial"),
]


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.slow_after_first
def test_right_within_the_bound(case: int) -> None:
    report = run(LIBRARY, CASES[case], seed=case)
    assert not wrong(report), report


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "build"), [("gfx950", {"columns": 65535}), ("gfx942", {"columns": 65536, "mask": "causal", "log": True}),
                                             ("gfx950", {"columns": 32768, "backward": True}),
                                             ("gfx950", {"columns": 32769, "backward": True, "log": True, "dtype": "f32"}),
                                             ("gfx942", {"columns": 65535, "backward": True})])
def test_the_longest_rows(arch: str, build: dict[str, Any]) -> None:
    report = run(LIBRARY, (arch, build, {"rows": 2, "each": 2}, "random:8"), seed=1)
    assert not wrong(report), report


@pytest.mark.parametrize(("values", "sentence"), [
    ({"columns": 100, "mask": "causal", "lanes": 16}, "mask"), ({"columns": 65537}, "columns"),
    ({"columns": 100, "mask": "length", "backward": True}, "mask must be none where backward is true"),
    ({"columns": 33000, "access": "element"}, "access must be wide")])
def test_what_is_not_offered_is_refused(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        LIBRARY.contract("gfx950", values).resolve_build(values)


def test_rows_of_which_nothing_is_seen_and_huge_numbers() -> None:
    """Without a mask a row of minus infinity is NaN, with one it is 0; and numbers up to the largest one are numbers."""
    x = np.array([[-np.inf] * 8, [3e38] * 4 + [-3e38] * 4, [1e9, 1e9 + 64] * 4, [2.0**25 + 4, 2.0**25] * 4], np.float32)
    wanted = [[0.25] * 4 + [0] * 4, [np.exp(-64) / 4, 0.25] * 4, [np.exp(4) / (4 * np.exp(4) + 4), 1 / (4 * np.exp(4) + 4)] * 4]
    for mask in ("none", "length"):
        one = built(LIBRARY, "gfx950", {"columns": 8, "out": "f32", "dtype": "f32", "mask": mask})
        values = one.kernel.contract.resolve_run({**one.kernel.parameters, "rows": 4})
        given = {"x": x, "d": np.zeros_like(x), "lengths": np.full(4, 8, np.int32)} | {name: values[name] for name in
                                                                                         ("rows", "each", "x_stride", "d_stride")}
        with emulator(one, "gfx950", None, lambda line: None, None) as device:
            d = launch(device, one, Problem(given, (Output("d", x),)), values)["d"]
        np.testing.assert_array_equal(d[0], 0.0 if mask == "length" else np.nan)
        np.testing.assert_allclose(d[1:], wanted, rtol=1e-6)
