"""The registers of row kernels: what the contract takes is built within the registers that plans count on."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from asmgen.isa.errors import AsmgenError
from asmgen.kernels.norm.registers import plan_of as norm_plan
from asmgen.kernels.norm_backward.registers import plan_of as backward_plan
from asmgen.kernels.norm_backward.registers import sums_are_apart
from asmgen.kernels.registry import family
from asmgen.kernels.rows.budget import MOST, RowPlan, first_that_fits, plans
from asmgen.kernels.rows.rowshape import ROW_LANES, RowShape

EVERYTHING = {"norm": {"residual": True, "dropout": True, "bias": True, "save": "mask"},
              "norm-backward": {"residual": True, "bias": True, "dropout": True, "dresidual": True}, "softmax": {}}
WIDEST: list[tuple[str, dict[str, Any]]] = [
    *(("norm", {"columns": columns, **build}) for columns, build in product((32767, 20001, 16383, 500), (
        {"dtype": "f32", "out": "fp8"}, {"dtype": "bf16", "out": "f32"}, {"dtype": "f16", "out": "bf16", "access": "element"}))),
    *(("norm", {"columns": columns, "dtype": dtype, "out": out, "layout": "shuffled"}) for columns in (32767, 3001)
      for dtype, out in (("f32", "mxfp8"), ("bf16", "mxfp4"))),
    *(("norm-backward", {"columns": columns, "dtype": dtype}) for columns in (32767, 28000, 20001, 16383, 2047, 500)
      for dtype in ("bf16", "f32")),
    *(("softmax", {"columns": columns, **build}) for columns in (32767, 16384) for build in (
        {"dtype": "f32", "backward": True}, {"access": "element", "backward": True}, {"log": True, "mask": "causal", "dtype": "f32"})),
]


@pytest.mark.parametrize("number", range(len(WIDEST)))
@pytest.mark.slow_after_first
def test_the_widest_rows_are_built(number: int) -> None:
    name, build = WIDEST[number]
    arch = "gfx950" if number % 2 or "layout" in build else "gfx942"
    kernel = family(name).build(arch, {**EVERYTHING[name], **build}, verify=False)
    assert kernel.resources.total_vgprs <= MOST


def test_plans_give_up_what_costs_least() -> None:
    """Loads ahead last."""
    shape = RowShape(2048, 64, ROW_LANES[64])
    order = list(plans(shape, draws=True, in_place=True))
    assert order[0] == RowPlan(True, True, True, 4) and order[-1] == RowPlan(False, False, False, 1)
    assert [plan.ahead for plan in order] == sorted((plan.ahead for plan in order), reverse=True)
    assert first_that_fits(shape, order, lambda plan: 300 if plan.together > 1 else 0) == RowPlan(True, True, True, 1)
    with pytest.raises(AsmgenError, match=r"wants 1026 VGPRs of a wave, which has 256; more lanes"):
        first_that_fits(shape, order, lambda plan: 1000)


def test_registers_decide_what_stays_in_them() -> None:
    build = {"columns": 4096, "lanes": 128, "dtype": "bf16", "access": "wide", "residual": True, "dropout": True, "bias": True,
             "out": "bf16", "save": "none"}
    assert norm_plan(build, RowShape(4096, 128, 2)) == RowPlan(True, True, True, 4)
    element = norm_plan({**build, "columns": 32767, "access": "element"}, RowShape(32767, 512, 8))
    assert element.ahead and not element.second_ahead and not element.keeps_weights
    gradients = {"columns": 16384, "lanes": 512, "dtype": "bf16", "residual": True, "bias": True, "dropout": False, "dresidual": False}
    assert not sums_are_apart(gradients) and sums_are_apart({**gradients, "columns": 32768})
    assert backward_plan(gradients).ahead and not backward_plan({**gradients, "dtype": "f32"}).ahead


@pytest.mark.parametrize(("lanes", "counted"), [(64, False), (128, True)])
def test_only_waves_that_share_a_row_count_their_runs(lanes: int, counted: bool) -> None:
    """A wave with rows of its own has all runs of a row: it computes no first one of them."""
    kernel = family("softmax").build("gfx950", {"columns": 1024, "lanes": lanes}, verify=False)
    assert any(one.name == "first_run" for one in kernel.plan.ranges) is counted
