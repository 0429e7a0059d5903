"""rope on the emulator against float64: styles, partial rotation, positions, two tensors, gradients, types, layouts by strides,
computed angles, sequences of any length, normalised heads, caches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asmgen.author.contract.contract import ContractError
from asmgen.author.contract.problem import Output, Problem
from asmgen.kernels.registry import family
from asmgen.kernels.rope.shape import shape_of
from asmgen.tools.proofs.algebrarun import run_algebra
from asmgen.tools.running.runner import emulator, launch
from tests.kernels.rows_harness import Case, built, run, wrong

LIBRARY = family("rope")
SBHD = {"x_stride_b": 3 * 128, "x_stride_s": 2 * 3 * 128, "y_stride_b": 128, "y_stride_s": 2 * 3 * 128, "y_stride_h": 2 * 128}
BHSD = {"x_stride_h": 37 * 64, "x_stride_s": 64, "x_stride_b": 5 * 37 * 64}
WOVEN = {"y_stride_h": 3 * 64, "y_stride_s": 7 * 64, "y_stride_b": 265 * 64}  # 3 x differs from 7 y for heads x to 4 and any y
CASES: list[Case] = [
    ("gfx950", {}, {"b": 2, "s": 37, "h": 3, "each": 2, **SBHD}, "serial"),
    ("gfx942", {"style": "gptj", "d": 64, "table": "bf16"}, {"b": 2, "s": 37, "h": 5, "each": 3, **BHSD, **WOVEN}, "random:1"),
    ("gfx950", {"d": 96, "rotated": 24, "positions": "given", "offsets": True, "index": "i64"},
     {"b": 3, "s": 70, "h": 2, "angles": 11, "each": 1, "position_stride": 75}, "random:2"),
    ("gfx942", {"d": 80, "rotated": 32, "style": "gptj", "dtype": "f32", "positions": "given"},
     {"b": 2, "s": 33, "h": 3, "position_stride": 0, "angle_stride": 19}, "lockstep"),
    ("gfx950", {"second": True, "dtype": "f16", "table": "f16", "backward": True},
     {"b": 1, "s": 33, "h": 4, "h2": 1, "each": 2}, "random:3"),
    ("gfx942", {"second": True, "style": "gptj", "backward": True, "d": 256, "rotated": 64},
     {"b": 1, "s": 33, "h": 2, "h2": 3, "each": 2}, "serial"),
    ("gfx950", {"d": 256, "dtype": "f32", "computed": True}, {"s": 17, "h": 2}, "random:4"),
    ("gfx942", {"d": 4, "varlen": True}, {"b": 3, "s": 300, "h": 1}, "lockstep"),
    ("gfx950", {"d": 12, "style": "gptj", "rotated": 4, "nope_first": True}, {"s": 300, "h": 2}, "serial"),
    ("gfx950", {"norm": "rms", "second": True, "cache": True, "varlen": True, "computed": True, "positions": "given", "index": "i64"},
     {"b": 3, "s": 90, "max_s": 70, "h": 4, "h2": 3, "theta": 5e5, "each": 2}, "random:5"),
    ("gfx942", {"norm": "rms", "second": True, "cache": True, "d": 192, "rotated": 64, "nope_first": True, "dtype": "f32", "table": "f16",
                "cache_dtype": "fp8"},
     {"b": 2, "s": 33, "h": 2, "h2": 3, "slots": 50, "each": 2, "v_cache_stride_s": 700}, "serial"),
]


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.slow_after_first
def test_right_within_the_bound(case: int) -> None:
    for seed in (3 * case, 3 * case + 1):
        report = run(LIBRARY, CASES[case], seed=seed)
        assert not wrong(report), report
        assert report.executed is not None and (seed % 2 or not report.executed.missing)


@pytest.mark.parametrize("case", [1, 2, 5, 8])
def test_equal_in_exact_residues(case: int) -> None:
    arch, build, shape, _ = CASES[case]
    one = built(LIBRARY, arch, build)
    report = run_algebra(LIBRARY, one, one.kernel.contract.resolve_run({**one.kernel.parameters, **shape}))
    assert report.equal, [found.sentence() for found in report.mismatches]


@pytest.mark.parametrize(("values", "sentence"), [
    ({"rotated": 132}, "rotated must be at most d"), ({"rotated": 6}, "multiple of 4"), ({"d": 516}, "512"),
    ({"d": 80}, "leave room in 256 VGPRs"), ({"rotated": 48, "dtype": "f32"}, "leave room"), ({"style": "neo"}, "style"),
    ({"cache": True}, "cache must be false where second"), ({"norm": "rms", "backward": True}, "backward must be false"),
    ({"computed": True, "table": "f16"}, "table must be f32")])
def test_builds_that_are_not_offered_are_refused(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        LIBRARY.contract("gfx950", values).resolve_build(values)


@pytest.mark.parametrize("build", [{"d": 96}, {"d": 64, "rotated": 48}, {"d": 160, "rotated": 96, "second": True},
                                   {"d": 92, "rotated": 28, "dtype": "f32", "second": True}, {"d": 168, "rotated": 24, "table": "f16"},
                                   {"d": 112, "rotated": 32, "second": True, "norm": "rms", "cache": True, "nope_first": True},
                                   {"d": 96, "rotated": 32, "second": True, "norm": "rms", "dtype": "f32", "computed": True}])
def test_what_the_registers_just_hold_is_built(build: dict[str, Any]) -> None:
    """Widths of which a lane has many columns: the estimate of registers is not below what a build takes."""
    one = built(LIBRARY, "gfx942", build)
    assert one.kernel.resources.vgprs <= shape_of(one.kernel.parameters).vgprs(one.kernel.parameters)


@pytest.mark.parametrize(("values", "sentence"), [
    ({"x_stride_h": 100}, "at least d"), ({"y_stride_s": 1001}, "multiples of 4 bytes"), ({"x_stride_b": 12801}, "x_stride_b must be"),
    ({"y_stride_h": 176, "y_stride_s": 440}, "rows of y must not overlap: they do not where each of y_stride_b"),
    ({"b": 2, "y_stride_b": 40 * 384 - 2}, "rows of y must not overlap"),
    ({"angle_stride": 60}, "angle_stride"), ({"angles": 1 << 24}, "less than 2\\^29"), ({"max_s": 30}, "max_s must be s")])
def test_launches_that_are_not_offered_are_refused(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        LIBRARY.contract("gfx950").resolve_run({"s": 40, "h": 3, **values})


@pytest.mark.parametrize(("build", "values"), [
    ({}, {"y_stride_h": 176, "y_stride_s": 480}), ({}, {"x_stride_h": 176, "x_stride_s": 440}), ({}, {"h": 1, "y_stride_h": 1 << 20}),
    ({}, {"b": 2, "y_stride_s": 128, "y_stride_h": 40 * 128}), ({}, {"b": 2, "y_stride_b": 128, "y_stride_h": 256, "y_stride_s": 768}),
    ({}, {"y2_stride_h": 176, "y2_stride_s": 440}), ({"varlen": True}, {"b": 2, "max_s": 30, "y_stride_b": 2})])
def test_rows_that_do_not_overlap_are_taken(build: dict[str, Any], values: dict[str, Any]) -> None:
    """By default batches follow rows and heads. What a build has not, and what it reads, may lie anyhow."""
    LIBRARY.contract("gfx950", build).resolve_run({**build, "s": 40, "h": 3, **values})


def test_rows_of_a_second_result_do_not_overlap() -> None:
    with pytest.raises(ContractError, match="rows of y2 must not overlap"):
        LIBRARY.contract("gfx950", {"second": True}).resolve_run({"second": True, "s": 40, "h": 3, "y2_stride_h": 176, "y2_stride_s": 440})


@pytest.mark.parametrize("name", ["y2", "v_cache"])
def test_rows_of_a_cache_do_not_overlap(name: str) -> None:
    """Heads lie one after the other, with as many rows as the cache has: fewer than there are tokens, or more."""
    build = {"second": True, "cache": True}
    contract = LIBRARY.contract("gfx950", build)
    for slots, rows, taken in ((3, 3, True), (100, 100, True), (100, 99, False), (100, 40, False)):
        launch = {**build, "s": 40, "h": 3, "slots": slots, f"{name}_stride_s": 128, f"{name}_stride_h": rows * 128}
        if taken:
            contract.resolve_run(launch)
        else:
            with pytest.raises(ContractError, match=f"rows of {name} must not overlap"):
                contract.resolve_run(launch)


def rotated(build: dict[str, Any], x: Any, angle: Any) -> Any:
    """y of one token with one head of 8 columns in float32."""
    one = built(LIBRARY, "gfx950", {"d": 8, "dtype": "f32", **build})
    parameters = one.kernel.contract.resolve_run({**one.kernel.parameters, "s": 1, "h": 1})
    arguments = {**parameters, "x": x, "y": np.zeros_like(x), "cos": np.cos(angle), "sin": np.sin(angle)}
    problem = Problem(arguments, (Output("y", np.zeros((1, 8)), np.ones((1, 8)), (np.arange(8)[None],)),))
    with emulator(one, "gfx950", None, lambda sentence: None, None) as device:
        return launch(device, one, problem, parameters)["y"]


def test_quarter_turns() -> None:
    """Angles whose results are known: a quarter turn brings (a, b) to (-b, a), and the gradient's turn brings it back."""
    x = np.arange(1.0, 9.0, dtype=np.float32)
    angle = np.array([[np.pi / 2, 0.0, np.pi, 0.0]], np.float32)
    neox, gptj = [-5, 2, -3, 4, 1, 6, -7, 8], [-2, 1, 3, 4, -5, -6, 7, 8]
    np.testing.assert_allclose(rotated({}, x, angle), neox, atol=1e-5)
    np.testing.assert_allclose(rotated({"style": "gptj"}, x, angle), gptj, atol=1e-5)
    np.testing.assert_allclose(rotated({"backward": True}, np.array(neox, np.float32), angle), x, atol=1e-5)
