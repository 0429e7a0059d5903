"""The loops of attention-forward: every number of steps, maxima that rise, instructions of a steady step."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.attention_forward.library import ATTENTION
from asmgen.program.controlflow import control_flow
from asmgen.program.program import Program
from asmgen.tools.profile_command import trace_kernel
from asmgen.tools.running.build import Built, build_kernel
from asmgen.tools.running.runner import RunReport, run_kernel

ORDERS = ("lockstep", "serial", "random:5")
ONE = {"b": 1, "hq": 1, "hkv": 1, "lse": True}
SHORT = {"d": 64, "waves": 8}


@cache
def built(build: tuple[tuple[str, Any], ...]) -> Built:
    return build_kernel(ATTENTION, "gfx950", dict(build))


def run(build: dict[str, Any], shape: dict[str, Any], order: str = "lockstep") -> RunReport:
    parameters = ATTENTION.contract("gfx950", build).resolve_run({**build, **shape})
    return run_kernel(ATTENTION, built(tuple(build.items())), parameters, "emulator", options=Options(order=order, count_banks=True))


def good(report: RunReport) -> bool:
    return report.passed and report.untouched and report.findings == () and report.bank_conflicts == 0


@pytest.mark.parametrize("sk", [1, 192, 449, 577])
def test_every_number_of_plain_and_masked_steps(sk: int) -> None:
    assert good(run({"lse": True}, ONE | {"sq": 40, "sk": sk}, ORDERS[sk % 3]))


def test_the_raise_of_maxima_stands_aside() -> None:
    """Of each loop, one branch for each of its four blocks; all that they do stands behind the end."""
    program = built((("lse", True), ("causal", True))).kernel.program
    plain, masked = steady(program)
    for names in (plain, masked):
        assert names.count("s_cbranch_vccnz") == 4 and "s_cbranch_vccz" not in names and "s_branch" not in names
        assert not {"v_permlane32_swap_b32", "v_mul_f32"} & set(names)
    behind = [instruction.name for instruction in program.instructions]
    behind = behind[behind.index("s_endpgm") + 1:]
    assert {"v_permlane32_swap_b32", "v_mul_f32"} <= set(behind) and "s_endpgm" not in behind and behind[-1] == "s_branch"


@pytest.mark.parametrize("scale", [4.0])
def test_scores_whose_maximum_rises_again_and_again(scale: float) -> None:
    """Scores of a normal distribution times 64 in log2: the maximum rises in most of the first steps."""
    assert good(run({"lse": True}, ONE | {"sq": 256, "sk": 448, "softmax_scale": scale}))


def steady(program: Program) -> list[list[str]]:
    """The mnemonics of a step of each loop with matrix instructions."""
    loops = [[instruction.name for instruction in program.instructions[loop.first:loop.last + 1]] for loop in control_flow(program).loops()]
    return [names for names in loops if any("mfma" in name for name in names)]


def test_instructions_of_a_step() -> None:
    """Of two steps: 64 products, 2 x 230 in all, none of them a copy, a nop or an address; masked 2 more a score and 5, of
    which three find the limit: the number of the step, the keys before it, what is left."""
    (alone,) = steady(built((("lse", True),)).kernel.program)  # the drain masks the last step
    plain, masked = steady(built((("lse", True), ("causal", True))).kernel.program)
    assert len(alone) == len(plain) <= 2 * 230 and sum("mfma" in name for name in plain) == 64
    assert not {"s_nop", "v_mov_b32", "v_add_u32", "v_lshlrev_b32"} & set(plain)
    assert sum("exp" in name for name in plain) == 64 and sum(name.startswith("ds_read") for name in plain) == 96
    assert len(masked) <= len(plain) + 2 * 70


def test_a_wave_masks_the_steps_that_hold_an_end_of_its_windows() -> None:
    """Queries 224 to 255 of 256, whose own keys are the last of 1024, in steps of 64: on the right the last step; on the left those up to
    the first key that query 255 sees, key 1023 - left, from that on that query 0 sees. Of 64 scores a lane has 32, with two ends each."""
    assert len(steady(built((("window", True),)).kernel.program)) == 1
    masked = {}
    for left in (-1, 1023, 700):
        shape = {"window": True, "hq": 1, "sq": 256, "sk": 1024, "left": left, "right": 0}
        p = ATTENTION.contract("gfx950", {"window": True}).resolve_run(shape)
        traced = trace_kernel(ATTENTION, built((("window", True),)), p, 1)
        assert traced.trace.program is not None
        selects = {at for at, one in enumerate(traced.trace.program.instructions) if one.name == "v_cndmask_b32"}
        masked[left] = next(sum(at in selects for at in wave.positions) for wave in traced.trace.waves() if wave.wave == 7)
    assert {left: count // 64 for left, count in masked.items()} == {-1: 1, 1023: 1, 700: 6}


@pytest.mark.slow
@pytest.mark.parametrize("build", [{"scale": "folded", "causal": True}, SHORT, {**SHORT, "scale": "folded", "rescale": "eager"},
                                   {**SHORT, "window": True, "dtype": "f16"}, {"rescale": "eager", "window": True, "dtype": "f16"}])
def test_scale_rescale_and_types(build: dict[str, Any]) -> None:
    assert good(run({"lse": True} | build, ONE | {"sq": 300, "sk": 500, "softmax_scale": 1.0, "left": 150 if "window" in build else -1}))


@pytest.mark.parametrize(("build", "most"), [({"scale": "folded", "causal": True}, 198), (SHORT, 156), ({**SHORT, "scale": "folded"}, 140)])
def test_instructions_of_other_steps(build: dict[str, Any], most: int) -> None:
    plain, *_ = steady(built(tuple(({"lse": True} | build).items())).kernel.program)
    assert len(plain) <= 2 * most and "s_nop" not in plain
    assert any(name.startswith(("v_fma", "v_pk_fma")) for name in plain) == ("scale" not in build)
