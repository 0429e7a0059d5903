"""The builder: errors at the author's line, and what it appends."""

from __future__ import annotations

import inspect
import os

import pytest

from asmgen.author.emit.builder import Builder
from asmgen.author.emit.kernel import KernelBuilder
from asmgen.isa.errors import AsmgenError, OperandError
from asmgen.isa.operands import OFF
from asmgen.isa.registers import Modified, a, s, v
from asmgen.kernels.gemm_bf16.library import GEMM
from asmgen.program.text import program_text
from asmgen.regalloc.plan import RegisterPlan
from asmgen.regalloc.ranges import shown_file

HERE = shown_file(__file__, "", os.getcwd())
"""How places name this file."""


def here() -> int:
    """The caller's line number."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


def test_an_operand_error_names_the_line_the_place_and_what_it_expects() -> None:
    k = Builder("k", "gfx950")
    line = here() + 2
    with pytest.raises(OperandError, match=r"vdst expects 4 registers, got a\[0:1\] \(2\)") as caught:
        k.v_mfma_f32_16x16x32_bf16(a[0:1], v[0:3], v[4:7], 0)
    assert caught.value.where == f"{HERE}:{line}"


@pytest.mark.parametrize(("arch", "name", "operands", "modifiers", "what"), [
    ("gfx942", "v_mfma_f32_16x16x32_bf16", (v[0:3], v[4:7], v[8:11], 0), {}, "gfx942"),
    ("gfx950", "v_add_f32", (v[0], s[0], s[1]), {}, "s1"),
    ("gfx950", "v_add_f32", (a[0], v[0], v[1]), {}, "vdst"),
    ("gfx950", "global_load_dwordx2", (v[1:2], v[4:5], OFF), {}, "even"),
    ("gfx950", "buffer_load_dword", (v[0], v[1], s[4:7], 0), {"offen": True, "offset": 4096}, "offset"),
    ("gfx950", "s_nop", (16,), {}, "15"),
    ("gfx950", "v_frobnicate_b32", (v[0],), {}, "v_"),
    ("gfx950", "v_mov_b32", (v[0],), {}, "v_mov_b32"),
])
def test_refusals(arch: str, name: str, operands: tuple[object, ...], modifiers: dict[str, object], what: str) -> None:
    with pytest.raises(OperandError) as caught:
        Builder("k", arch).emit(name, *operands, **modifiers)  # type: ignore[arg-type]
    assert what in caught.value.sentence
    assert caught.value.where.startswith(HERE)


def test_text_of_operands_modifiers_and_labels() -> None:
    k = Builder("k", "gfx950")
    k.label("loop")
    k.v_fma_f32(v[0], Modified(v[1], neg=True), Modified(v[2], abs=True), 1.0, clamp=True)
    k.buffer_load_dwordx4(v[4:7], v[0], s[4:7], 0, offen=True, offset=16, sc1=True)
    k.s_cbranch_scc1("loop", comment="again")
    assert program_text(k.program()).splitlines() == [
        "loop:", "\tv_fma_f32 v0, -v1, |v2|, 1.0 clamp", "\tbuffer_load_dwordx4 v[4:7], v0, s[4:7], 0 offen offset:16 sc1",
        f"{chr(9) + 's_cbranch_scc1 loop':64} ; again"]


def test_a_branch_to_nowhere_and_a_label_twice() -> None:
    k = Builder("k", "gfx950")
    k.s_branch("nowhere")
    with pytest.raises(AsmgenError, match="nowhere"):
        k.program()
    k.label("nowhere")
    with pytest.raises(AsmgenError, match="twice"):
        k.label("nowhere")


def test_a_released_register_is_refused_at_its_use() -> None:
    plan = RegisterPlan("gfx950")
    k = Builder("k", "gfx950", plan)
    x = plan.vgprs(2, "x")
    k.v_mov_b32(x[1], 0)
    plan.release(x)
    with pytest.raises(AsmgenError, match="'x'") as caught:
        k.v_mov_b32(x[1], 0)
    assert caught.value.where.startswith(HERE)
    taken = plan.vgprs(2, "y")
    assert taken == x
    with pytest.raises(AsmgenError, match="'x'"):
        k.v_mov_b32(Modified(x[1]).value, 0)  # type: ignore[arg-type]


def test_an_attribute_that_is_no_instruction() -> None:
    with pytest.raises(AttributeError):
        Builder("k", "gfx950").frobnicate  # noqa: B018


def test_lds_beyond_the_architecture() -> None:
    k = KernelBuilder(GEMM.contract(), "gfx942", {})
    k.lds.take("A", 65536)
    with pytest.raises(AsmgenError, match="65536 bytes a workgroup"):
        k.lds.take("B", 16)
    KernelBuilder(GEMM.contract(), "gfx950", {}).lds.take("A", 163840)


def test_a_branch_past_the_last_instruction_is_refused() -> None:
    """With an instruction after the label it stands."""
    for ends in (False, True):
        k = KernelBuilder(GEMM.contract(), "gfx950", {})
        k.s_cmp_eq_u32(s[2], 0)
        k.s_cbranch_scc1("others")
        k.s_endpgm()
        k.label("others")
        if ends:
            k.s_endpgm()
            assert k.finish().program.instructions[-1].name == "s_endpgm"
        else:
            with pytest.raises(AsmgenError, match=r"test_builder.*: `s_cbranch_scc1 others` goes to the end of the kernel"):
                k.finish()


def test_an_unknown_argument() -> None:
    with pytest.raises(AsmgenError, match="lda"):
        KernelBuilder(GEMM.contract(), "gfx950", {}).argument("nothing")


def test_scratch_keeps_out_of_the_authors_names() -> None:
    k = Builder("k", "gfx950", plan := RegisterPlan("gfx950"))
    plan.sgprs(1, "first")
    with k.scratch("first", file="s") as one, k.scratch("first", file="s") as other:
        assert one.index != other.index
        assert [held.name for held in plan.live()] == ["first", "first_2", "first_3"]
    assert [held.name for held in plan.live()] == ["first"]
