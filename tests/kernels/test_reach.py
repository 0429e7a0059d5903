"""Example shapes execute all code that shapes can reach; what they do not execute is listed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asmgen as ag
from asmgen.kernels.registry import family
from asmgen.tools import reach
from asmgen.tools.running.build import build_kernel


def problem(p: ag.Values, seed: int) -> ag.Problem:
    return ag.Problem({"d": np.zeros(64, np.float32), "n": p["n"]}, (ag.Output("d", np.full(64, p["n"] // 64, float)),))


def counting(wrong: bool = False) -> ag.Family:
    """d = n / 64, by code of its own for some n: 7 * 64 is a length that is drawn, 70 * 64 none that is worth a try."""
    made = ag.Family(name="counting", title="d = n / 64", problem=problem, example={"n": 64},
                     arguments=(ag.ContractArgument("d", "pointer", "d"), ag.ContractArgument("n", "u32", "a size")),
                     parameters=(ag.Parameter("n", "run", int, "a size", minimum=64, maximum=6400, multiple_of=64),),
                     grid=ag.GridRule("one workgroup", lambda p, variant: (1, 1, 1)))

    @made.variant("gfx950")
    def count(k: ag.TileBuilder) -> None:
        steps, at, value = k.registers.sgprs(1, "steps"), k.registers.vgprs(1, "at"), k.registers.vgprs(1, "value")
        k.s_lshr_b32(steps, k.argument("n"), 6)
        k.v_lshlrev_b32(at, 2, k.work_item)
        k.v_cvt_f32_u32(value, steps)
        for special in (7, 70):
            k.s_cmp_lg_u32(steps, special)
            k.s_cbranch_scc1(f"not_{special}")
            k.v_mov_b32(value, float(special) + wrong)
            k.label(f"not_{special}")
        k.global_store_dword(at, value, k.argument("d"))
        k.s_endpgm()

    return made


def test_code_that_no_shape_reaches_is_listed() -> None:
    library = counting()
    (found,) = reach.reach(library, build_kernel(library, "gfx950", {}))
    assert len(found.executed.missing) == 1 and {"n": 448} in found.kept and found.wrong == ()
    head, line = found.lines("counting")
    assert head.startswith("counting: ") and f"by {len(found.kept)} of {found.runs} launches" in head
    assert line.startswith("  never: 1 from number ") and "test_reach.py" in line and "v_mov_b32" in line


def test_a_wrong_result_is_listed() -> None:
    library = counting(wrong=True)
    (found,) = reach.reach(library, build_kernel(library, "gfx950", {}))
    assert found.wrong == ({"n": 448},) and "  wrong: {'n': 448}" in found.lines("counting")


@pytest.mark.parametrize(("name", "build"), [("gemm-bf16", {"tile": "64x64x64"}), ("03-transpose", {})])
@pytest.mark.slow
def test_shapes_of_the_library_execute_all_code(name: str, build: dict[str, Any]) -> None:
    """Of these; `python -m asmgen.tools.reach` runs all variants."""
    library = family(name)
    (found,) = reach.reach(library, build_kernel(library, "gfx950", build))
    assert found.lines(name)[1:] == []


def test_unknown_kernel_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        reach.main(["gemm-bf61"])
    assert ended.value.code == 2 and "gemm-bf16" in capsys.readouterr().err


def test_the_command_says_what_is_left(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    made: dict[str, Any] = {"counting": counting()}
    monkeypatch.setattr(reach, "find_family", made.__getitem__)
    with pytest.raises(SystemExit) as ended:
        reach.main(["counting"])
    assert ended.value.code == 1 and "never: 1 from number" in capsys.readouterr().out
