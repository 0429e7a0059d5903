"""Lower bounds of loops: by hand for small ones, and never above what the cycle model says of library loops and drawn ones."""

from __future__ import annotations

import pytest

from asmgen.kernels.registry import family
from asmgen.reader.assembly import read_text
from asmgen.tools.inspection.matrixpairs import matrix_stream
from asmgen.tools.loopgaps import ALLOWED
from asmgen.tools.profile_command import lower_bound, report_traced, trace_kernel
from asmgen.tools.running.build import build_kernel
from asmgen.tuning.loopbounds import LoopBound, loop_bound
from tests.random_loops import NARROW, TABLE, WIDE, above


def bound(body: str, waves: int = 4) -> LoopBound | None:
    (code,) = read_text("L:\n" + body + "s_cbranch_scc1 L\ns_endpgm\nseldom:\ns_branch L\n", "gfx950")
    return loop_bound(code, 0, len(code.instructions) - 3, waves, TABLE)


@pytest.mark.parametrize(("body", "waves", "clk", "binding"), [
    ("v_add_f32 v0, v1, v2\n" * 10, 4, 10 * 4 + 24, "one wave"),  # and a branch that is taken
    (WIDE * 4, 4, 128, "one wave"), (WIDE * 4, 8, 256, "matrix"),
    (WIDE + "v_add_f32 v8, v9, v10\n" * 10, 4, 8 + 40 + 24, "one wave"),
    ("v_exp_f32 v8, v9\nv_exp_f32 v10, v11\n", 4, 8 + 4 + 24, "one wave"),
    ("v_exp_f32 v8, v9\nv_mov_b32 v10, v8\n", 4, 12 + 4 + 24, "one wave"),  # its result comes 12 clk after it
    (WIDE + "v_pk_add_f32 v[8:9], v[10:11], v[12:13]\n", 4, 32 + 12 + 4 + 24, "one wave"),
    (NARROW.format(0, 3) + NARROW.format(4, 7), 4, 16 + 8 + 24, "one wave"),
    ("s_nop 4\ns_waitcnt vmcnt(0)\n", 4, 20 + 4 + 24, "one wave"),
    ("ds_read_b128 v[8:11], v0\n" * 4, 16, 16 * 4 * 4, "lds banks"),
    ("global_load_dwordx4 v[8:11], v0, s[0:1]\n" * 4, 16, 16 * 4 * 16, "cache")])
def test_bounds_by_hand(body: str, waves: int, clk: float, binding: str) -> None:
    found = bound(body, waves)
    assert found is not None and (found.least, found.binding) == (clk, binding)


def test_a_loop_of_which_a_branch_skips_a_part_has_no_bound() -> None:
    assert bound("s_cbranch_vccz past\nv_mov_b32 v0, v1\npast:\nv_mov_b32 v2, v3\n") is None
    assert bound("v_mov_b32 v0, v1\ns_cbranch_vccz seldom\nv_mov_b32 v2, v3\n") is not None


@pytest.mark.parametrize("seed", range(10))
def test_no_bound_is_above_what_the_model_says_of_a_drawn_loop(seed: int) -> None:
    assert not above(seed)


@pytest.mark.slow
def test_the_fp8_loop_stands_at_its_bound() -> None:
    library, parameters = family("gemm-fp8"), {"tile": "256x256x128", "schedule": "interleave"}
    values = library.contract("gfx950", parameters).resolve_run({**parameters, "m": 256, "n": 256, "k": 2048})
    run = trace_kernel(library, build_kernel(library, "gfx950", parameters), values, 1)
    found = report_traced(run, TABLE, "l2", 1).profile
    steady = max(found.loops, key=lambda one: one.rounds)
    least = lower_bound(steady, found)
    assert least is not None and least.least <= steady.cycles * ALLOWED and steady.cycles <= 1.01 * least.least
    stream = matrix_stream(found.program.instructions[steady.first:steady.last + 1], loops=True)
    assert 2 * stream.holding >= stream.pairs
