"""activation on the emulator against float64: functions, gates, limits, gradients, types, odd columns and rows, strides, long rows."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from asmgen.author.contract.contract import ContractError
from asmgen.author.contract.problem import Output, Problem
from asmgen.kernels.registry import family
from asmgen.kernels.rows.bounded import Bounded
from asmgen.tools.proofs.algebrarun import run_algebra
from asmgen.tools.running.runner import emulator, judge, launch
from tests.kernels.rows_harness import Case, built, run, wrong

LIBRARY = family("activation")
CASES: list[Case] = [
    ("gfx950", {"columns": 64}, {"rows": 67, "each": 2}, "serial"),
    ("gfx942", {"columns": 61, "kind": "gelu", "dtype": "f16"}, {"rows": 33, "x_stride": 64}, "random:1"),
    ("gfx950", {"columns": 509, "kind": "gelu", "approximate": "tanh", "gated": True}, {"rows": 9, "each": 2, "d_stride": 512}, "random:2"),
    ("gfx942", {"columns": 1001, "access": "element", "kind": "swiglu"}, {"rows": 11, "each": 3, "up_stride": 1003}, "lockstep"),
    ("gfx950", {"columns": 3000, "gated": True, "limit": 2.0}, {"rows": 9, "each": 4}, "random:3"),
    ("gfx942", {"columns": 2048, "lanes": 64, "dtype": "f32", "gated": True}, {"rows": 5, "each": 2}, "serial"),
    ("gfx950", {"columns": 1, "kind": "gelu"}, {"rows": 5}, "lockstep"),
    ("gfx950", {"columns": 100, "backward": True}, {"rows": 37, "each": 2}, "serial"),
    ("gfx942", {"columns": 2041, "lanes": 64, "backward": True, "access": "element", "kind": "gelu", "gated": True, "limit": 1.5},
     {"rows": 5, "dy_stride": 2043}, "random:6"),
    ("gfx950", {"columns": 5000, "backward": True, "dtype": "f16", "kind": "swiglu"}, {"rows": 3, "each": 2, "dup_stride": 5002},
     "lockstep"),
    ("gfx942", {"columns": 2047, "backward": True, "dtype": "f32", "kind": "gelu", "approximate": "tanh", "gated": True},
     {"rows": 4, "each": 3}, "random:7"),
    ("gfx950", {"columns": 33001}, {"rows": 2, "each": 2}, "random:5"),
]


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("finite", [0, 1])
@pytest.mark.slow_after_first
def test_right_within_the_bound(case: int, finite: int) -> None:
    report = run(LIBRARY, CASES[case], seed=2 * case + finite)
    assert not wrong(report), report


@pytest.mark.parametrize(("arch", "build"), [
    ("gfx950", {"columns": 40, "kind": "gelu"}), ("gfx942", {"columns": 40, "kind": "gelu", "backward": True}),
    ("gfx950", {"columns": 40, "kind": "gelu", "approximate": "tanh", "backward": True}),
    ("gfx950", {"columns": 40, "kind": "swiglu"}), ("gfx942", {"columns": 40, "kind": "swiglu", "backward": True})])
@pytest.mark.slow_after_first
def test_equal_in_exact_residues(arch: str, build: dict[str, Any]) -> None:
    one = built(LIBRARY, arch, build)
    report = run_algebra(LIBRARY, one, one.kernel.contract.resolve_run({**one.kernel.parameters, "rows": 20}))
    assert report.equal, [found.sentence() for found in report.mismatches]


@pytest.mark.parametrize(("values", "sentence"), [
    ({"columns": 100, "approximate": "tanh"}, "approximate must be none where kind is not gelu"),
    ({"columns": 100, "kind": "relu"}, "kind"), ({"columns": 65537}, "columns"), ({"columns": 100, "limit": -2.0}, "limit"),
    ({"columns": 20000, "access": "element"}, "access must be wide"), ({"columns": 9, "dtype": "f32", "access": "element"}, "access")])
def test_what_is_not_offered_is_refused(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        LIBRARY.contract("gfx950", values).resolve_build(values)


def forward(build: dict[str, Any], x: Any, up: Any = None) -> Any:
    """d of rows that are given, of 8 columns in f32."""
    one = built(LIBRARY, "gfx950", {"columns": 8, "dtype": "f32", **build})
    parameters = one.kernel.contract.resolve_run({**one.kernel.parameters, "rows": len(x)})
    arguments = {"x": x, "up": up, "d": np.zeros_like(x), **{name: parameters[name] for name in ("rows", "each")},
                 **{f"{name}_stride": 8 for name in ("x", "up", "d")}}
    problem = Problem(arguments, (Output("d", np.zeros(x.shape), np.ones(x.shape)),))
    with emulator(one, "gfx950", None, lambda sentence: None, None) as device:
        return launch(device, one, problem, parameters)["d"]


@pytest.mark.slow
def test_known_numbers() -> None:
    """Typed from tables of the functions; huge and infinite numbers; what is cut and what is not."""
    x = np.array([[0.0, 1.0, -1.0, 3.0, -3.0, 3e38, -3e38, np.nan]], np.float32)
    silu = [0.0, 0.7310586, -0.2689414, 2.8577224, -0.1422776, 3e38, 0.0, np.nan]
    gelu = [0.0, 0.8413447, -0.1586553, 2.9959503, -0.0040497, 3e38, 0.0, np.nan]
    by_tanh = [0.0, 0.8411920, -0.1588080, 2.9963627, -0.0036373, 3e38, 0.0, np.nan]
    for build, wanted in (({}, silu), ({"kind": "gelu"}, gelu), ({"kind": "gelu", "approximate": "tanh"}, by_tanh)):
        np.testing.assert_allclose(forward(build, x), [wanted], rtol=2e-6, atol=4e-7)
    gate = np.array([[1.0, 7.0, 9.0, 1.0, 1.0, np.nan, np.inf, -np.inf]], np.float32)
    up = np.array([[2.0, 7.0, 2.0, 9.0, -9.0, 1.0, 1.0, 1.0]], np.float32)
    at_1, at_7 = 1 / (1 + math.exp(-1.702)), 7 / (1 + math.exp(-7 * 1.702))
    np.testing.assert_allclose(forward({"kind": "swiglu"}, gate, up),
                               [[3 * at_1, 8 * at_7, 3 * at_7, 8 * at_1, -6 * at_1, np.nan, 2 * at_7, np.nan]], rtol=1e-6)
    np.testing.assert_allclose(forward({"kind": "swiglu", "limit": 0.0}, gate, up)[0, 2:5], [27 / (1 + math.exp(-9 * 1.702)), 10 * at_1,
                                                                                            -8 * at_1], rtol=1e-6)


def test_bounds_hold_what_float32_does() -> None:
    """Random chains of operations in float32, against float64; a bound of nothing would fail."""
    random = np.random.default_rng(5)
    x, y = (random.standard_normal(4000).astype(np.float32) * np.float32(3) for _ in range(2))
    a, b = Bounded.exact(x.astype(float)), Bounded.exact(y.astype(float))
    chains = [((a * b + 1.5) * 0.3, (x * y + np.float32(1.5)) * np.float32(0.3)), ((a * 1.7).exp2() + b, np.exp2(x * np.float32(1.7)) + y),
              (((a * b).exp2() + 1.0).reciprocal(), 1 / (np.exp2(x * y) + np.float32(1)))]
    for bounded, found in chains:
        off = np.abs(found.astype(float) - bounded.value)
        assert (off <= bounded.error).all() and off.max() > 0 and (bounded.error < 1e-4 * (1 + np.abs(bounded.value))).mean() > 0.9


def test_a_wrong_limit_is_seen() -> None:
    """The problem's data reaches the limit: a result without it fails."""
    one = built(LIBRARY, "gfx950", {"columns": 64, "kind": "swiglu"})
    parameters = one.kernel.contract.resolve_run({**one.kernel.parameters, "rows": 8})
    problem = LIBRARY.problem(parameters, 1)
    uncut = LIBRARY.problem({**parameters, "limit": 0.0}, 1)
    found = np.full(problem.arguments["d"].shape, -123.0, ml_dtypes.bfloat16)
    found[:, :64] = uncut.outputs[0].expected.astype(ml_dtypes.bfloat16)
    assert judge(problem.outputs[0], problem.arguments["d"], found)[2] > 1
