"""`-x`, `abs(x)` and `-abs(x)` on registers: what is printed, assembled and computed, and where it is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.isa.errors import AsmgenError, OperandError
from asmgen.isa.registers import Modified, s, v
from asmgen.regalloc.plan import RegisterPlan
from asmgen.toolchain import assemble
from tests.emulator_harness import run

Emit = Callable[[Builder], object]


def line(emit: Emit) -> str:
    """The one instruction as text."""
    k = Builder("k", "gfx950")
    emit(k)
    return str(k.items[-1])


def test_a_register_makes_each_form() -> None:
    x = v[2:3]
    assert [str(operand) for operand in (-x, abs(x), -abs(x), abs(-x))] == ["-v[2:3]", "|v[2:3]|", "-|v[2:3]|", "|v[2:3]|"]
    assert -x == Modified(x, neg=True) and abs(x) == Modified(x, abs=True) and -abs(x) == Modified(x, neg=True, abs=True)
    negated = -abs(x)
    assert -negated == abs(x)


@pytest.mark.parametrize(("emit", "text", "code"), [
    # VOP3A (CDNA3 ISA): absolute value is a bit for each source from bit 8 on, negation one from bit 61 on.
    (lambda k: k.v_add_f32(v[0], -v[1], abs(v[2])), "v_add_f32 v0, -v1, |v2|", 0x20020501_D1010200),
    (lambda k: k.v_fma_f32(v[0], -abs(v[1]), v[2], -v[3]), "v_fma_f32 v0, -|v1|, v2, -v3", 0xA40E0501_D1CB0100),
    (lambda k: k.v_mul_f32(v[0], -s[4], v[2]), "v_mul_f32 v0, -s4, v2", 0x20020404_D1050000),
    # VOP3P: negation of the low halves from bit 61 on, of the high halves from bit 8 on; op_sel_hi is all ones (bits 59, 60 and 14).
    (lambda k: k.v_pk_add_f32(v[0:1], v[2:3], v[4:5], neg_lo=(0, 1), neg_hi=(0, 1)),
     "v_pk_add_f32 v[0:1], v[2:3], v[4:5] neg_lo:[0,1] neg_hi:[0,1]", 0x58020902_D3B24200),
])
def test_the_bytes(emit: Emit, text: str, code: int) -> None:
    assert line(emit) == text
    assert code.to_bytes(8, "little") in assemble(f".text\n{text}\n", "gfx950")


def test_the_values() -> None:
    x, y = np.linspace(-4, 4, 64, dtype=np.float32), np.linspace(3, -5, 64, dtype=np.float32)
    pairs = np.stack([x, y], 1).view(np.uint64).ravel()
    result = run("gfx950", lambda k: (k.v_add_f32(v[2], -v[0], v[1]), k.v_add_f32(v[3], abs(v[0]), -v[1]),
                                      k.v_fma_f32(v[4], -abs(v[0]), v[1], -v[0]), k.v_max_f32(v[5], abs(-v[0]), v[1]),
                                      k.v_pk_add_f32(v[6:7], v[8:9], v[8:9], neg_lo=(1, 1), neg_hi=(0, 0))),
                 vgprs={0: x, 1: y, 8: pairs})
    expected = {2: y - x, 3: np.abs(x) - y, 5: np.maximum(np.abs(x), y), 6: -2 * x, 7: 2 * y}
    for number, values in expected.items():
        assert (result.v(number, np.float32)[0] == values).all(), number
    exact = -np.abs(x.astype(float)) * y - x
    assert (result.v(4, np.float32)[0] == exact.astype(np.float32)).all()


@pytest.mark.parametrize(("emit", "sentence"), [
    (lambda k: k.v_add_u32(v[0], -v[1], v[2]), r"v_add_u32: src0 expects .* without the modifier, got -v1$"),
    (lambda k: k.v_and_b32(v[0], v[1], abs(v[2])), r"v_and_b32: src1 expects .* without the modifier, got \|v2\|$"),
    (lambda k: k.s_add_u32(s[0], -s[1], s[2]), r"ssrc0 expects .* without the modifier, got -s1$"),
    (lambda k: k.v_add_f32(-v[0], v[1], v[2]), r"vdst expects a VGPR without the modifier, got -v0$"),
    (lambda k: k.ds_write_b32(v[0], -v[1]), r"data0 expects .* without the modifier, got -v1$"),
    (lambda k: k.v_mfma_f32_16x16x32_bf16(v[0:3], -v[4:7], v[8:11], 0), r"src0 expects .* without the modifier, got -v\[4:7\]$"),
    (lambda k: k.v_pk_add_f32(v[0:1], -v[2:3], v[4:5]),
     r"without the modifier, got -v\[2:3\]; neg_lo= and neg_hi= negate the halves of packed sources$"),
    (lambda k: k.v_add_f32(v[0], v[1], v[2], neg_lo=(1, 0)), "v_add_f32: it has no modifier neg_lo"),
])
def test_refused_where_the_form_has_no_such_modifier(emit: Emit, sentence: str) -> None:
    with pytest.raises(OperandError, match=sentence):
        line(emit)


def test_a_released_register_is_refused_with_a_sign_too() -> None:
    plan = RegisterPlan("gfx950")
    k = Builder("k", "gfx950", plan)
    x, y = plan.vgprs(1, "x"), plan.vgprs(1, "y")
    k.v_add_f32(x, -x, abs(x))
    plan.release(x)
    with pytest.raises(AsmgenError, match="'x'"):
        k.v_mul_f32(y, 1.0, -x)
