"""Packed, mixed and dot-product instructions: functions (mode, *sources) on halves and elements, by mnemonic.

`PACKED` works on one half at a time: typed 16-bit arrays whose last axis is the half, or for *_f32 whose first axis is the register.
Dot products accumulate as the ISA's pseudo-code adds up, each step rounded to f32; f32 ones flush denormals whatever MODE says (CDNA ISA,
6.4). Unconfirmed: that a step's product is fused into its sum, and the order of gfx950's v_dot2_f32_bf16 (products first, addend last).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asmgen.emulator.machine.floatmode import FloatMode
from asmgen.emulator.semantics import meaning
from asmgen.emulator.semantics.floats import by_three, maximum, minimum, propagating
from asmgen.emulator.semantics.integers import i64, on_arrays
from asmgen.emulator.semantics.rounding import flush, fused, narrow, odd_sum, product_of, sum_of, wide
from asmgen.emulator.semantics.valuconversions import from_bf16

Values = Any
Function = Callable[..., Values]


def _without_mode(function: Function) -> Function:
    return lambda mode, *sources: function(*sources)


PACKED: dict[str, Function] = {
    **{name: _without_mode(on_arrays(means)) for name, means in meaning.PACKED.items()},
    "v_pk_fma_f16": fused("f16"), "v_pk_fmac_f16": fused("f16"), "v_pk_add_f16": sum_of("f16"), "v_pk_mul_f16": product_of("f16"),
    "v_pk_min_f16": minimum, "v_pk_max_f16": maximum,
    "v_pk_minimum3_f16": by_three(propagating(False)), "v_pk_maximum3_f16": by_three(propagating(True)),
    "v_pk_fma_f32": fused("f32"), "v_pk_mul_f32": product_of("f32"), "v_pk_add_f32": sum_of("f32"),
}
"""By mnemonic, on one half."""

PACKED_SATURATING: dict[str, Function] = {}
"""With clamp: exact results in int64, to be limited."""

for _kind in ("i16", "u16"):
    PACKED_SATURATING |= {
        f"v_pk_mad_{_kind}": lambda mode, a, b, c: i64(a) * i64(b) + i64(c), f"v_pk_add_{_kind}": lambda mode, a, b: i64(a) + i64(b),
        f"v_pk_sub_{_kind}": lambda mode, a, b: i64(a) - i64(b),
    }
PACKED_SATURATING["v_pk_mul_lo_u16"] = lambda mode, a, b: i64(a) * i64(b)


def mixed(mode: FloatMode, a: Values, b: Values, c: Values) -> Values:
    """v_fma_mix in f64, rounded to odd: a*b + c of f32 sources, to be rounded to f32 or f16."""
    return odd_sum(wide(a) * wide(b), c, mode.round32)


def _round_to(kind: str) -> Function:
    return lambda mode, a, b, c: narrow(mixed(mode, a, b, c), kind, mode)


def _mix_half(mode: FloatMode, a: Values, b: Values, c: Values) -> Values:
    # The sum is an f32 that is then converted: two roundings (ISA: f32_to_f16(in[0] * in[1] + in[2])).
    single = narrow(mixed(mode, a, b, c), "f32", mode)
    return narrow(flush(single) if mode.flush32_out else single, "f16", mode)


MIXED: dict[str, Function] = {"v_fma_mix_f32": _round_to("f32"), "v_fma_mixlo_f16": _mix_half, "v_fma_mixhi_f16": _mix_half}
"""By mnemonic, on f32 sources."""


def elements(words: Values, bits: int, signed: bool) -> list[Values]:
    """The integers of `bits` bits in a register, in int64, lowest first."""
    result = []
    for n in range(32 // bits):
        field = i64(np.asarray(words) >> np.uint32(n * bits) & np.uint32((1 << bits) - 1))
        result.append((field ^ 1 << bits - 1) - (1 << bits - 1) if signed else field)
    return result


def dot_integers(bits: int, signed: bool) -> Function:
    """The exact sum of products plus the addend, in int64; the binder wraps it, or limits it under clamp."""

    def function(mode: FloatMode, a: Values, b: Values, c: Values) -> Values:
        pairs = zip(elements(a, bits, signed), elements(b, bits, signed), strict=True)
        return sum((x * y for x, y in pairs), i64(c))

    return function


def _floats_of(words: Values, kind: str) -> list[Values]:
    halves = [np.asarray(words) & np.uint32(0xFFFF), np.asarray(words) >> np.uint32(16)]
    if kind == "bf16":
        return [flush(from_bf16(half)) for half in halves]
    return [flush(half.astype(np.uint16).view(np.float16)).astype(np.float32) for half in halves]


def dot_floats(kind: str, addend_last: bool = False) -> Function:
    """Two products of halves and an f32 addend, added up in f32."""
    fma, multiply, add = fused("f32"), product_of("f32"), sum_of("f32")

    def function(mode: FloatMode, a: Values, b: Values, c: Values) -> Values:
        (a0, a1), (b0, b1), c = _floats_of(a, kind), _floats_of(b, kind), flush(c)
        if addend_last:
            return flush(add(mode, flush(fma(mode, a1, b1, flush(multiply(mode, a0, b0)))), c))
        return flush(fma(mode, a1, b1, flush(fma(mode, a0, b0, c))))

    return function


DOT: dict[str, Function] = {
    "v_dot2_f32_f16": dot_floats("f16"), "v_dot2c_f32_f16": dot_floats("f16"),
    "v_dot2_f32_bf16": dot_floats("bf16", True), "v_dot2c_f32_bf16": dot_floats("bf16"),
    "v_dot2_i32_i16": dot_integers(16, True), "v_dot2c_i32_i16": dot_integers(16, True), "v_dot2_u32_u16": dot_integers(16, False),
    "v_dot4_i32_i8": dot_integers(8, True), "v_dot4c_i32_i8": dot_integers(8, True), "v_dot4_u32_u8": dot_integers(8, False),
    "v_dot8_i32_i4": dot_integers(4, True), "v_dot8c_i32_i4": dot_integers(4, True), "v_dot8_u32_u4": dot_integers(4, False),
}
"""By mnemonic, on whole registers; the c forms have their destination last."""
