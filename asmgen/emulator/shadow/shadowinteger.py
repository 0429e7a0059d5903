"""How integer and bit instructions of the vector and scalar ALU pass undefined bits on, by mnemonic. All others do it as wholes.

A function takes the sources as `Bits` of the operand's width, in the order of the instruction, and gives the result, or (result, flag).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asmgen.emulator.semantics.integers import INTEGER, permute_bytes, reverse
from asmgen.emulator.semantics.salu import SCALAR
from asmgen.emulator.shadow.bitshadow import Bits, Values, bitwise, compare, extremes, number, select, table_of

Function = Callable[..., Any]


def _first(a: Bits) -> Bits:
    return a


def _carry(backwards: bool, subtract: bool) -> Function:
    def function(a: Bits, b: Bits, carry: Bits | None = None) -> tuple[Bits, Bits]:
        wide = [part.resized(64) for part in ((b, a) if backwards else (a, b))]
        total = wide[0] - wide[1] if subtract else wide[0] + wide[1]
        if carry is not None:
            third = Bits(carry.value.astype(np.uint64), carry.undefined.astype(np.uint64))
            total = total - third if subtract else total + third
        return total.resized(32), flag_of(total, 32)

    return function


def flag_of(bits: Bits, place: int) -> Bits:
    """One bit as a boolean."""
    kind = bits.value.dtype.type
    return Bits((bits.value >> kind(place) & kind(1)) != 0, (bits.undefined >> kind(place) & kind(1)) != 0)


def _wide(a: Bits, b: Bits, signed: bool = False) -> Bits:
    return a.resized(64, signed) * b.resized(64, signed)


def _high(a: Bits, b: Bits, signed: bool = False) -> Bits:
    product = _wide(a, b, signed)
    return product.shr(number(32, product)).resized(32)


def _low24(a: Bits, signed: bool) -> Bits:
    return a.extended(24) if signed else a & 0xFFFFFF


def _mad_wide(signed: bool) -> Function:
    def function(a: Bits, b: Bits, c: Bits) -> tuple[Bits, Bits]:
        total = _wide(a, b, signed) + c
        return total, Bits(np.zeros(np.shape(total.value), bool), total.any() & (total.undefined >> np.uint64(63) != 0))

    return function


def extract(signed: bool) -> Function:
    """v_bfe: whole where the place or the size of the field is not known."""

    def function(a: Bits, offset: Bits, width: Bits) -> Bits:
        size = width & 31
        mask = (np.uint32(1) << size.value) - np.uint32(1)
        moved = a.sar(offset) if signed else a.shr(offset)
        field = moved & Bits(mask, np.zeros_like(mask))
        if signed:
            up = np.uint32(32) - np.maximum(size.value, np.uint32(1))
            lift = Bits(up, np.zeros_like(up))
            field = field.shl(lift).sar(lift)
        return Bits(field.value, np.where(size.any(), ~np.uint32(0), field.undefined))

    return function


def _align(scale: int) -> Function:
    """The count is in units of 2**scale bits."""

    def function(a: Bits, b: Bits, count: Bits) -> Bits:
        lift = number(32, a.resized(64))
        both = a.resized(64).shl(lift) | b.resized(64)
        steps = count.resized(64) & (31 >> scale)
        return both.shr(steps.shl(number(scale, steps))).resized(32)

    return function


def permute(a: Bits, b: Bits, selectors: Bits) -> Bits:
    """v_perm_b32: of a selector that is not known, each byte may be any that fits."""

    def chosen(selector: Values) -> Bits:
        value = permute_bytes(a.value, b.value, selector)
        shadow = permute_bytes(a.undefined, b.undefined, selector)
        fixed: Values = np.uint32(0)
        for n in range(4):
            byte = np.asarray(selector) >> np.uint32(8 * n) & np.uint32(255)
            fixed = fixed | np.where(byte >= 12, np.uint32(255 << 8 * n), np.uint32(0))
        return Bits(value, shadow & ~fixed)

    plain = chosen(selectors.value)
    undefined = plain.undefined
    for n in range(4):
        byte = Bits(selectors.value >> np.uint32(8 * n) & np.uint32(255), selectors.undefined >> np.uint32(8 * n) & np.uint32(255))
        if np.any(byte.undefined):
            lane = np.uint32(255 << 8 * n)
            may = _permuted(byte, chosen)
            undefined = np.where(byte.any(), undefined & ~lane | may & lane, undefined)
    return Bits(plain.value, undefined)


def _permuted(selector: Bits, chosen: Callable[[Values], Bits]) -> Values:
    """The undefined bits of all bytes for a selector that is not known, 0 to 255; from 13 on all mean the same."""
    ones: Values = np.uint32(0)
    zeros: Values = np.uint32(0)
    for n in range(14):
        fits = selector.high >= 13 if n == 13 else ((selector.value ^ np.uint32(n)) & ~selector.undefined) == 0
        bits = chosen(np.uint32(n * 0x01010101))
        ones, zeros = ones | np.where(fits, bits.high, np.uint32(0)), zeros | np.where(fits, ~bits.low, np.uint32(0))
    return ones & zeros


def _count(a: Bits) -> Bits:
    return Bits(np.bitwise_count(a.value).astype(np.uint32), np.where(a.any(), np.uint32(0x7F), np.uint32(0)))


def _prefix(upper: bool) -> Function:
    below = np.array([((1 << lane) - 1) >> (32 if upper else 0) & 0xFFFFFFFF for lane in range(64)], np.uint32)

    def function(mask: Bits, addend: Bits) -> Bits:
        return _count(mask & Bits(below, np.zeros_like(below))) + addend

    return function


def _median(signed: bool) -> Function:
    def function(a: Bits, b: Bits, c: Bits) -> Bits:
        inner = extremes(True, signed, extremes(False, signed, a, b), c)
        return extremes(False, signed, extremes(True, signed, a, b), inner)

    return function


def _by_table(function: Function, sources: int) -> Function:
    table = table_of(function, sources)
    return lambda *bits: bitwise(table, *bits)


VECTOR: dict[str, Function] = {
    **dict.fromkeys(("v_mov_b32", "v_mov_b64", "v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32"), _first),
    **{name: _by_table(INTEGER[name], count) for name, count in (
        ("v_not_b32", 1), ("v_and_b32", 2), ("v_or_b32", 2), ("v_xor_b32", 2), ("v_xnor_b32", 2), ("v_bfi_b32", 3), ("v_and_or_b32", 3),
        ("v_or3_b32", 3))},
    "v_bfrev_b32": lambda a: Bits(reverse(a.value), reverse(a.undefined)),
    "v_cndmask_b32": lambda a, b, condition: select(condition, b, a),
    **dict.fromkeys(("v_add_u32", "v_add_u16", "v_add_i32", "v_add_i16"), lambda a, b: a + b),
    **dict.fromkeys(("v_sub_u32", "v_sub_u16", "v_sub_i32", "v_sub_i16"), lambda a, b: a - b),
    **dict.fromkeys(("v_subrev_u32", "v_subrev_u16"), lambda a, b: b - a),
    "v_add_co_u32": _carry(False, False), "v_sub_co_u32": _carry(False, True), "v_subrev_co_u32": _carry(True, True),
    "v_addc_co_u32": _carry(False, False), "v_subb_co_u32": _carry(False, True), "v_subbrev_co_u32": _carry(True, True),
    **dict.fromkeys(("v_mul_lo_u32", "v_mul_lo_u16"), lambda a, b: a * b),
    "v_mul_hi_u32": _high, "v_mul_hi_i32": lambda a, b: _high(a, b, True),
    **{f"v_mul_{kind}24": lambda a, b, signed=signed: _low24(a, signed) * _low24(b, signed)
       for kind, signed in (("u32_u", False), ("i32_i", True))},
    **{f"v_mad_{kind}24": lambda a, b, c, signed=signed: _low24(a, signed) * _low24(b, signed) + c
       for kind, signed in (("u32_u", False), ("i32_i", True))},
    **{f"v_mul_hi_{kind}24": lambda a, b, signed=signed: _high(_low24(a, signed), _low24(b, signed), signed)
       for kind, signed in (("u32_u", False), ("i32_i", True))},
    "v_lshlrev_b32": lambda a, b: b.shl(a), "v_lshrrev_b32": lambda a, b: b.shr(a), "v_ashrrev_i32": lambda a, b: b.sar(a),
    "v_lshlrev_b16": lambda a, b: b.shl(a), "v_lshrrev_b16": lambda a, b: b.shr(a), "v_ashrrev_i16": lambda a, b: b.sar(a),
    "v_lshlrev_b64": lambda a, b: b.shl(a), "v_lshrrev_b64": lambda a, b: b.shr(a), "v_ashrrev_i64": lambda a, b: b.sar(a),
    "v_mad_u32_u16": lambda a, b, c: a.resized(32) * b.resized(32) + c,
    "v_mad_i32_i16": lambda a, b, c: a.resized(32, True) * b.resized(32, True) + c,
    **{f"v_mad_{legacy}{kind}": lambda a, b, c: a * b + c for legacy in ("", "legacy_") for kind in ("u16", "i16")},
    "v_mad_u64_u32": _mad_wide(False), "v_mad_i64_i32": _mad_wide(True),
    "v_lshl_add_u32": lambda a, b, c: a.shl(b) + c, "v_add_lshl_u32": lambda a, b, c: (a + b).shl(c),
    "v_lshl_add_u64": lambda a, b, c: a.shl(b & 7) + c, "v_add3_u32": lambda a, b, c: a + b + c, "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_lshl_or_b32": lambda a, b, c: a.shl(b) | c,
    "v_bfe_u32": extract(False), "v_bfe_i32": extract(True),
    "v_perm_b32": permute, "v_alignbit_b32": _align(0), "v_alignbyte_b32": _align(3),
    "v_bcnt_u32_b32": lambda a, b: _count(a) + b, "v_mbcnt_lo_u32_b32": _prefix(False), "v_mbcnt_hi_u32_b32": _prefix(True),
}

for _kind in ("i32", "u32", "i16", "u16"):
    _signed = _kind[0] == "i"
    for _name, _least in (("min", True), ("max", False)):
        VECTOR[f"v_{_name}_{_kind}"] = lambda a, b, s=_signed, least=_least: extremes(least, s, a, b)
        VECTOR[f"v_{_name}3_{_kind}"] = lambda a, b, c, s=_signed, least=_least: extremes(least, s, extremes(least, s, a, b), c)
    VECTOR[f"v_med3_{_kind}"] = _median(_signed)

PACKED: dict[str, Function] = {
    "v_pk_mul_lo_u16": lambda a, b: a * b,
    "v_pk_lshlrev_b16": lambda a, b: b.shl(a), "v_pk_lshrrev_b16": lambda a, b: b.shr(a), "v_pk_ashrrev_i16": lambda a, b: b.sar(a),
    **{f"v_pk_mad_{kind}": lambda a, b, c: a * b + c for kind in ("u16", "i16")},
    **{f"v_pk_add_{kind}": lambda a, b: a + b for kind in ("u16", "i16")},
    **{f"v_pk_sub_{kind}": lambda a, b: a - b for kind in ("u16", "i16")},
    **{f"v_pk_{name}_{kind}": lambda a, b, least=name == "min", s=kind == "i16": extremes(least, s, a, b)
       for name in ("min", "max") for kind in ("u16", "i16")},
}
"""On one half of packed registers."""


def _tested(function: Function) -> Function:
    """SCC says whether the result differs from 0."""

    def both(*sources: Bits) -> tuple[Bits, Bits]:
        result = function(*sources)
        return result, result.nonzero()

    return both


def _overflow(subtract: bool) -> Function:
    """s_add_i32, s_sub_i32: SCC is the overflow; its sign bits decide."""

    def function(a: Bits, b: Bits) -> tuple[Bits, Bits]:
        total = a - b if subtract else a + b
        sign = flag_of(bitwise(0x18, a, b, total) if subtract else bitwise(0x42, a, b, total), 31)
        return total, sign

    return function


def _field(width: int, signed: bool) -> Function:
    """s_bfe: whole where the field is not known."""

    def function(a: Bits, field: Bits) -> Bits:
        kind = np.dtype(f"u{width // 8}").type
        size = np.minimum(field.value >> np.uint32(16) & np.uint32(127), np.uint32(width))
        mask = np.where(size >= width, ~kind(0), (kind(1) << (size.astype(kind) & kind(width - 1))) - kind(1))
        result = a.shr(field & (width - 1)) & Bits(mask, np.zeros_like(mask))
        if signed:
            up = (np.uint32(width) - np.maximum(size, np.uint32(1))).astype(kind)
            lift = Bits(up, np.zeros_like(up))
            result = a.sar(field & (width - 1))
            result = result.shl(lift).sar(lift)
            result = Bits(np.where(size == 0, kind(0), result.value), np.where(size == 0, kind(0), result.undefined))
        unknown = (field.undefined & np.uint32(0x7F0000 | width - 1)) != 0
        return Bits(result.value, np.where(unknown, ~kind(0), result.undefined))

    return function


def _pack(first: int, second: int) -> Function:
    def function(a: Bits, b: Bits) -> Bits:
        low, high = a.shr(number(16 * first, a)) & 0xFFFF, b.shr(number(16 * second, b)) & 0xFFFF
        return low | high.shl(number(16, high))

    return function


def _set_bit(one: bool) -> Function:
    def function(old: Bits, place: Bits) -> Bits:
        bit = number(1, old).shl(place)
        return old | bit if one else old & ~bit

    return function


def _extreme(least: bool, signed: bool) -> Function:
    def function(a: Bits, b: Bits) -> tuple[Bits, Bits]:
        return extremes(least, signed, a, b), compare("lt" if least else "ge", signed, a, b)

    return function


def _shifted_add(shift: int) -> Function:
    def function(a: Bits, b: Bits) -> tuple[Bits, Bits]:
        wide = a.resized(64)
        total = wide.shl(number(shift, wide)) + b.resized(64)
        upper = total.shr(number(32, total))
        return total.resized(32), upper.nonzero()

    return function


def _moved(name: str) -> Function:
    """What puts each bit into places of its own: done to the mask as to the value."""
    function: Function = SCALAR[name]
    return lambda a: Bits(function(a.value), function(a.undefined))


SCALARS: dict[str, Function] = {
    **dict.fromkeys(("s_mov_b32", "s_mov_b64", "s_movk_i32"), _first),
    **{f"s_{stem}_b{width}": _tested(lambda *sources, table=table: bitwise(table, *sources))
       for stem, table in (("not", 0b01), ("and", 0b1000), ("or", 0b1110), ("xor", 0b0110), ("andn2", 0b0100), ("orn2", 0b1101),
                           ("nand", 0b0111), ("nor", 0b0001), ("xnor", 0b1001)) for width in (32, 64)},
    **{name: _moved(name) for name in ("s_brev_b32", "s_brev_b64", "s_bitreplicate_b64_b32")},
    "s_sext_i32_i8": lambda a: a.extended(8), "s_sext_i32_i16": lambda a: a.extended(16),
    **{f"s_bitset{one}_b{width}": _set_bit(bool(one)) for one in (0, 1) for width in (32, 64)},
    "s_add_u32": _carry(False, False), "s_sub_u32": _carry(False, True), "s_add_i32": _overflow(False), "s_sub_i32": _overflow(True),
    "s_addk_i32": _overflow(False), "s_mulk_i32": lambda a, b: a * b, "s_mul_i32": lambda a, b: a * b,
    "s_mul_hi_u32": _high, "s_mul_hi_i32": lambda a, b: _high(a, b, True),
    **{f"s_{name}_{kind}": _extreme(name == "min", kind == "i32") for name in ("min", "max") for kind in ("u32", "i32")},
    **{f"s_lshl_b{width}": _tested(lambda a, b: a.shl(b)) for width in (32, 64)},
    **{f"s_lshr_b{width}": _tested(lambda a, b: a.shr(b)) for width in (32, 64)},
    **{f"s_ashr_i{width}": _tested(lambda a, b: a.sar(b)) for width in (32, 64)},
    "s_bfe_u32": _tested(_field(32, False)), "s_bfe_i32": _tested(_field(32, True)),
    "s_bfe_u64": _tested(_field(64, False)), "s_bfe_i64": _tested(_field(64, True)),
    **{f"s_lshl{n}_add_u32": _shifted_add(n) for n in (1, 2, 3, 4)},
    "s_pack_ll_b32_b16": _pack(0, 0), "s_pack_lh_b32_b16": _pack(0, 1), "s_pack_hh_b32_b16": _pack(1, 1),
}
"""By mnemonic, without those that read SCC; one that keeps part of its destination takes that first."""

WITH_SCC: dict[str, Function] = {
    "s_addc_u32": lambda scc, a, b: _carry(False, False)(a, b, scc),
    "s_subb_u32": lambda scc, a, b: _carry(False, True)(a, b, scc),
    **dict.fromkeys(("s_cselect_b32", "s_cselect_b64"), select),
    **dict.fromkeys(("s_cmov_b32", "s_cmov_b64", "s_cmovk_i32"), lambda scc, old, a: select(scc, a, old)),
}
"""SCC comes first, as a boolean."""


def bit_is(a: Bits, place: Bits) -> Bits:
    """s_bitcmp: one bit of a value. Which of the two answers counts does not matter to what is known."""
    return flag_of(a.shr(place), 0)
