"""What integer and bit instructions mean, once for every interpreter: functions over a `Domain`, by mnemonic.

A meaning takes the domain and the sources in the order of the instruction. It gives the result, or (result, flag) where the instruction
writes SCC or lanes too. Values are bit patterns of the operand's width; whether they are signed is said by the operation. Flags are truths.

`integers` interprets the tables on numpy arrays, `shadow.shadowinteger` on values with undefined bits. The compiled runs (`binding`) have
code of their own, because a call for each operation costs more than the operation; tests compare them with the arrays. So do the sums
that clamp limits, and instructions with results of several registers (both in `integers`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from asmgen.emulator.semantics.domain import Domain, Flag, Value

Meaning = Callable[..., Any]


def _add(d: Domain, a: Value, b: Value) -> Value:
    return d.add(a, b)


def _sub(d: Domain, a: Value, b: Value) -> Value:
    return d.sub(a, b)


def _sub_reversed(d: Domain, a: Value, b: Value) -> Value:
    return d.sub(b, a)


def _mul(d: Domain, a: Value, b: Value) -> Value:
    return d.mul(a, b)


def _mul_add(d: Domain, a: Value, b: Value, c: Value) -> Value:
    return d.add(d.mul(a, b), c)


def _same(d: Domain, a: Value) -> Value:
    return a


def _by_number(d: Domain, operation: Callable[[Value, Value], Value], a: Value, number: int) -> Value:
    return operation(a, d.number(number, a))


def _left(d: Domain, a: Value, number: int) -> Value:
    return _by_number(d, d.shl, a, number)


def _right(d: Domain, a: Value, number: int) -> Value:
    return _by_number(d, d.shr, a, number)


def _masked(d: Domain, a: Value, number: int) -> Value:
    return _by_number(d, d.and_, a, number)


def _part(d: Domain, a: Value, low: int, size: int) -> Value:
    return _masked(d, _right(d, a, low) if low else a, (1 << size) - 1)


def _low24(d: Domain, a: Value, signed: bool) -> Value:
    return d.sar(_left(d, a, 8), d.number(8, a)) if signed else _masked(d, a, 0xFFFFFF)


def _mul24(signed: bool) -> Meaning:
    return lambda d, a, b: d.mul(_low24(d, a, signed), _low24(d, b, signed))


def _mul_high24(signed: bool) -> Meaning:
    return lambda d, a, b: _mul_high(signed)(d, _low24(d, a, signed), _low24(d, b, signed))


def _mad24(signed: bool) -> Meaning:
    return lambda d, a, b, c: d.add(d.mul(_low24(d, a, signed), _low24(d, b, signed)), c)


def _wide_product(d: Domain, a: Value, b: Value, bits: int, signed: bool) -> Value:
    return d.mul(d.resized(a, bits, signed), d.resized(b, bits, signed))


def _mul_high(signed: bool) -> Meaning:
    return lambda d, a, b: d.resized(_right(d, _wide_product(d, a, b, 64, signed), 32), 32)


def _mad_wide(signed: bool) -> Meaning:
    """v_mad_u64_u32 and v_mad_i64_i32: the flag is the 65th bit of the exact sum."""

    def meaning(d: Domain, a: Value, b: Value, c: Value) -> tuple[Value, Flag]:
        product = _wide_product(d, a, b, 64, signed)
        if not signed:
            return d.add_carry(product, c)
        total = d.add(product, c)
        return total, d.bit(d.bitwise(MAJORITY, product, c, total), 63)  # sources of unlike signs cannot overflow

    return meaning


MAJORITY, ADD_OVERFLOW, SUB_OVERFLOW = 0xE8, 0x42, 0x18
"""Truth tables of (a, b, result): their sign bits give the 65th bit of a sum, and the overflow of a sum and of a difference."""


def _extract(signed: bool) -> Meaning:
    """v_bfe: `width` bits from bit `offset` on."""

    def meaning(d: Domain, a: Value, offset: Value, width: Value) -> Value:
        size = _masked(d, width, 31)
        one = d.number(1, a)
        if not signed:
            return d.and_(d.shr(a, offset), d.sub(d.shl(one, size), one))
        lift = d.sub(d.number(32, a), d.extreme(False, False, size, one))
        field = d.sar(d.shl(d.sar(a, offset), lift), lift)
        return d.select(d.nonzero(size), field, d.number(0, a))

    return meaning


def _field(signed: bool) -> Meaning:
    """s_bfe: the second source names the field, its first bit in the low bits, its width in 22:16."""

    def meaning(d: Domain, a: Value, field: Value) -> Value:
        bits = d.width(a)
        offset = _masked(d, field, bits - 1)
        size = d.extreme(True, False, _part(d, field, 16, 7), d.number(bits, field))
        lift = d.sub(d.number(bits, size), d.extreme(False, False, size, d.number(1, size)))
        moved = d.sar(a, offset) if signed else d.shr(a, offset)
        moved = d.shl(moved, lift)
        return d.select(d.nonzero(size), d.sar(moved, lift) if signed else d.shr(moved, lift), d.number(0, a))

    return meaning


def _ones(d: Domain, count: Value, bits: int) -> Value:
    """`count` low bits set, of fewer than `bits`."""
    one = d.number(1, d.resized(count, bits))
    return d.sub(d.shl(one, count), one)


def _field_mask(bits: int) -> Meaning:
    return lambda d, a, b: d.shl(_ones(d, _masked(d, a, bits - 1), bits), b)


def _align(scale: int) -> Meaning:
    """Two registers shifted right by a count of 2**scale bits."""

    def meaning(d: Domain, a: Value, b: Value, count: Value) -> Value:
        both = d.or_(_left(d, d.resized(a, 64), 32), d.resized(b, 64))
        steps = _masked(d, count, 31 >> scale)
        return d.resized(d.shr(both, _left(d, steps, scale) if scale else steps), 32)

    return meaning


def _bytes(d: Domain, a: Value) -> list[Value]:
    return [_part(d, a, 8 * n, 8) for n in range(4)]


def _summed(d: Domain, parts: Sequence[Value]) -> Value:
    total = parts[0]
    for part in parts[1:]:
        total = d.add(total, part)
    return total


def _joined(d: Domain, parts: Sequence[Value], size: int) -> Value:
    """Fields of `size` bits side by side, lowest first."""
    total = parts[0]
    for number, part in enumerate(parts[1:], 1):
        total = d.or_(total, _left(d, part, size * number))
    return total


def _distance(d: Domain, a: Value, b: Value) -> Value:
    return d.sub(d.extreme(False, False, a, b), d.extreme(True, False, a, b))


def byte_distances(d: Domain, a: Value, b: Value, masked: bool = False) -> Value:
    """The sum of four absolute byte differences; with `masked` without the bytes for which the second source is 0."""
    parts = []
    for x, y in zip(_bytes(d, a), _bytes(d, b), strict=True):
        apart = _distance(d, x, y)
        parts.append(d.select(d.nonzero(y), apart, d.number(0, apart)) if masked else apart)
    return _summed(d, parts)


def half_distances(d: Domain, a: Value, b: Value) -> Value:
    """The sum of two absolute differences of halves."""
    return d.add(*(_distance(d, _part(d, a, low, 16), _part(d, b, low, 16)) for low in (0, 16)))


def _lerp(d: Domain, a: Value, b: Value, c: Value) -> Value:
    parts = zip(_bytes(d, a), _bytes(d, b), _bytes(d, c), strict=True)
    return _joined(d, [_right(d, d.add(d.add(x, y), _masked(d, z, 1)), 1) for x, y, z in parts], 8)


def _prefix(upper: bool) -> Meaning:
    """v_mbcnt: how many of the mask's ones belong to lower lanes (of the wave's lower or upper half), plus the second source."""
    below = [((1 << lane) - 1) >> (32 if upper else 0) & 0xFFFFFFFF for lane in range(64)]
    return lambda d, mask, addend: d.add(d.count_ones(d.and_(mask, d.lanes(below))), addend)


def _median(signed: bool) -> Meaning:
    def meaning(d: Domain, a: Value, b: Value, c: Value) -> Value:
        inner = d.extreme(True, signed, d.extreme(False, signed, a, b), c)
        return d.extreme(False, signed, d.extreme(True, signed, a, b), inner)

    return meaning


def _limited(d: Domain, a: Value, low: int, high: int) -> Value:
    return d.extreme(True, True, d.extreme(False, True, a, d.number(low, a)), d.number(high, a))


def _saturate_shift(low: int, high: int) -> Meaning:
    def meaning(d: Domain, a: Value, b: Value, c: Value) -> Value:
        parts = [_masked(d, _limited(d, d.sar(x, _masked(d, c, 31)), low, high), 0xFF) for x in (a, b)]
        return d.resized(_joined(d, parts, 8), 16)

    return meaning


def _saturate_bytes(d: Domain, a: Value) -> Value:
    halves = [_limited(d, d.resized(_part(d, a, low, 16), 16), 0, 255) for low in (0, 16)]
    return _joined(d, [d.resized(half, 32) for half in halves], 8)


def _pack_limited(signed: bool) -> Meaning:
    """v_cvt_pk_u16_u32 and v_cvt_pk_i16_i32: both sources limited to 16 bits."""

    def meaning(d: Domain, a: Value, b: Value) -> Value:
        parts = [_limited(d, x, -0x8000, 0x7FFF) if signed else d.extreme(True, False, x, d.number(0xFFFF, x)) for x in (a, b)]
        return _joined(d, [_masked(d, part, 0xFFFF) for part in parts], 16)

    return meaning


def _step_random(d: Domain, a: Value) -> Value:
    return d.xor(_left(d, a, 1), _by_number(d, d.mul, _right(d, a, 31), 197))


def _reversed(d: Domain, a: Value) -> Value:
    bits = d.width(a)
    for step in [1 << n for n in range(bits.bit_length() - 1)]:
        keep = ((1 << bits) - 1) // ((1 << step) + 1)
        a = d.or_(_masked(d, _right(d, a, step), keep), _left(d, _masked(d, a, keep), step))
    return a


def _or_minus_one(d: Domain, a: Value, found: Value) -> Value:
    """-1 where a is 0."""
    result = d.resized(found, 32)
    return d.select(d.nonzero(a), result, d.number(-1, result))


def _first_one(d: Domain, a: Value) -> Value:
    """The position of the lowest one."""
    lowest = d.and_(a, d.sub(d.number(0, a), a))
    return _or_minus_one(d, a, d.sub(d.bit_length(lowest), d.number(1, a)))


def _leading_zeros(d: Domain, a: Value) -> Value:
    return _or_minus_one(d, a, d.sub(d.number(d.width(a), a), d.bit_length(a)))


def _sign_run(d: Domain, a: Value) -> Value:
    """How many of the leading bits equal the sign, -1 where all do."""
    return _leading_zeros(d, d.xor(a, d.sar(a, d.number(d.width(a) - 1, a))))


def _extended(bits: int) -> Meaning:
    return lambda d, a: d.sar(_left(d, a, 32 - bits), d.number(32 - bits, a))


def _some_of_quads(d: Domain, a: Value) -> Value:
    """The lowest bit of each quad of bits: whether one of them is set."""
    found = d.or_(d.or_(a, _right(d, a, 1)), d.or_(_right(d, a, 2), _right(d, a, 3)))
    return _masked(d, found, ((1 << d.width(a)) - 1) // 15)


def _whole_quads(d: Domain, a: Value) -> Value:
    return _by_number(d, d.mul, _some_of_quads(d, a), 15)


def _quad_mask(d: Domain, a: Value) -> Value:
    found, size = _some_of_quads(d, a), 1
    while 4 * size < d.width(a):
        keep = sum(((1 << 2 * size) - 1) << position for position in range(0, d.width(a), 8 * size))
        found, size = _masked(d, d.or_(found, _right(d, found, 3 * size)), keep), 2 * size
    return found


def _replicated(d: Domain, a: Value) -> Value:
    """s_bitreplicate: each bit twice."""
    wide = d.resized(a, 64)
    for step in (16, 8, 4, 2, 1):
        keep = sum(((1 << step) - 1) << position for position in range(0, 64, 2 * step))
        wide = _masked(d, d.or_(wide, _left(d, wide, step)), keep)
    return d.or_(wide, _left(d, wide, 1))


def _tested(meaning: Meaning) -> Meaning:
    """The most common rule of SCC: whether the result differs from 0."""

    def both(d: Domain, *sources: Value) -> tuple[Value, Flag]:
        result = meaning(d, *sources)
        return result, d.nonzero(result)

    return both


def _overflow(subtract: bool) -> Meaning:
    def meaning(d: Domain, a: Value, b: Value) -> tuple[Value, Flag]:
        total = d.sub(a, b) if subtract else d.add(a, b)
        return total, d.bit(d.bitwise(SUB_OVERFLOW if subtract else ADD_OVERFLOW, a, b, total), 31)

    return meaning


def _absolute(d: Domain, a: Value) -> Value:
    """The smallest integer is its own absolute value, as in the ISA's examples."""
    return d.select(d.bit(a, 31), d.sub(d.number(0, a), a), a)


def _extreme(least: bool, signed: bool) -> Meaning:
    return lambda d, a, b: d.extreme(least, signed, a, b)


def _extreme3(least: bool, signed: bool) -> Meaning:
    return lambda d, a, b, c: d.extreme(least, signed, d.extreme(least, signed, a, b), c)


def _scalar_extreme(least: bool, signed: bool) -> Meaning:
    return lambda d, a, b: (d.extreme(least, signed, a, b), d.compare("lt" if least else "ge", signed, a, b))


def _shifted_add(shift: int) -> Meaning:
    def meaning(d: Domain, a: Value, b: Value) -> tuple[Value, Flag]:
        total = d.add(_left(d, d.resized(a, 64), shift), d.resized(b, 64))
        return d.resized(total, 32), d.nonzero(_right(d, total, 32))

    return meaning


def _set_bit(one: int) -> Meaning:
    def meaning(d: Domain, old: Value, position: Value) -> Value:
        bit = d.shl(d.number(1, old), position)
        return d.or_(old, bit) if one else d.and_(old, d.inverted(bit))

    return meaning


def _bit_is(one: int) -> Meaning:
    def meaning(d: Domain, a: Value, position: Value) -> Flag:
        found = d.bit(d.shr(a, position), 0)
        return found if one else d.contrary(found)

    return meaning


def _pack(first: int, second: int) -> Meaning:
    return lambda d, a, b: _joined(d, [_part(d, a, 16 * first, 16), _part(d, b, 16 * second, 16)], 16)


def _both_widths(stem: str, meaning: Meaning) -> dict[str, Meaning]:
    return {f"{stem}_b32": _tested(meaning), f"{stem}_b64": _tested(meaning)}


VECTOR: dict[str, Meaning] = {
    **dict.fromkeys(("v_mov_b32", "v_mov_b64", "v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32"), _same),
    "v_not_b32": lambda d, a: d.inverted(a), "v_bfrev_b32": _reversed,
    "v_ffbh_u32": _leading_zeros, "v_ffbh_i32": _sign_run, "v_ffbl_b32": _first_one,
    "v_prng_b32": _step_random, "v_sat_pk_u8_i16": _saturate_bytes,
    "v_cndmask_b32": lambda d, a, b, condition: d.select(condition, b, a),
    **dict.fromkeys(("v_add_u32", "v_add_u16", "v_add_i32", "v_add_i16"), _add),
    **dict.fromkeys(("v_sub_u32", "v_sub_u16", "v_sub_i32", "v_sub_i16"), _sub),
    **dict.fromkeys(("v_subrev_u32", "v_subrev_u16"), _sub_reversed),
    **dict.fromkeys(("v_add_co_u32", "v_addc_co_u32"), lambda d, a, b, carry=None: d.add_carry(a, b, carry)),
    **dict.fromkeys(("v_sub_co_u32", "v_subb_co_u32"), lambda d, a, b, borrow=None: d.sub_borrow(a, b, borrow)),
    **dict.fromkeys(("v_subrev_co_u32", "v_subbrev_co_u32"), lambda d, a, b, borrow=None: d.sub_borrow(b, a, borrow)),
    **dict.fromkeys(("v_mul_lo_u32", "v_mul_lo_u16"), _mul),
    "v_mul_hi_u32": _mul_high(False), "v_mul_hi_i32": _mul_high(True),
    "v_mul_u32_u24": _mul24(False), "v_mul_i32_i24": _mul24(True),
    "v_mul_hi_u32_u24": _mul_high24(False), "v_mul_hi_i32_i24": _mul_high24(True),
    "v_and_b32": lambda d, a, b: d.and_(a, b), "v_or_b32": lambda d, a, b: d.or_(a, b), "v_xor_b32": lambda d, a, b: d.xor(a, b),
    "v_xnor_b32": lambda d, a, b: d.inverted(d.xor(a, b)),
    **dict.fromkeys(("v_lshlrev_b16", "v_lshlrev_b32", "v_lshlrev_b64"), lambda d, a, b: d.shl(b, a)),
    **dict.fromkeys(("v_lshrrev_b16", "v_lshrrev_b32", "v_lshrrev_b64"), lambda d, a, b: d.shr(b, a)),
    **dict.fromkeys(("v_ashrrev_i16", "v_ashrrev_i32", "v_ashrrev_i64"), lambda d, a, b: d.sar(b, a)),
    "v_mad_u32_u24": _mad24(False), "v_mad_i32_i24": _mad24(True),
    "v_mad_u32_u16": lambda d, a, b, c: d.add(_wide_product(d, a, b, 32, False), c),
    "v_mad_i32_i16": lambda d, a, b, c: d.add(_wide_product(d, a, b, 32, True), c),
    **dict.fromkeys(("v_mad_u16", "v_mad_i16", "v_mad_legacy_u16", "v_mad_legacy_i16"), _mul_add),
    "v_mad_u64_u32": _mad_wide(False), "v_mad_i64_i32": _mad_wide(True),
    "v_lshl_add_u32": lambda d, a, b, c: d.add(d.shl(a, b), c), "v_add_lshl_u32": lambda d, a, b, c: d.shl(d.add(a, b), c),
    "v_lshl_add_u64": lambda d, a, b, c: d.add(d.shl(a, _masked(d, b, 7)), c),
    "v_add3_u32": lambda d, a, b, c: d.add(d.add(a, b), c), "v_xad_u32": lambda d, a, b, c: d.add(d.xor(a, b), c),
    "v_lshl_or_b32": lambda d, a, b, c: d.or_(d.shl(a, b), c), "v_and_or_b32": lambda d, a, b, c: d.or_(d.and_(a, b), c),
    "v_or3_b32": lambda d, a, b, c: d.or_(d.or_(a, b), c),
    "v_bfe_u32": _extract(False), "v_bfe_i32": _extract(True), "v_bfi_b32": lambda d, a, b, c: d.bitwise(0xCA, a, b, c),
    "v_bfm_b32": _field_mask(32), "v_lerp_u8": _lerp, "v_perm_b32": lambda d, a, b, c: d.permuted(a, b, c),
    "v_alignbit_b32": _align(0), "v_alignbyte_b32": _align(3),
    "v_bcnt_u32_b32": lambda d, a, b: d.add(d.count_ones(a), b),
    "v_mbcnt_lo_u32_b32": _prefix(False), "v_mbcnt_hi_u32_b32": _prefix(True),
    "v_sad_u8": lambda d, a, b, c: d.add(byte_distances(d, a, b), c),
    "v_msad_u8": lambda d, a, b, c: d.add(byte_distances(d, a, b, True), c),
    "v_sad_hi_u8": lambda d, a, b, c: d.add(_left(d, byte_distances(d, a, b), 16), c),
    "v_sad_u16": lambda d, a, b, c: d.add(half_distances(d, a, b), c), "v_sad_u32": lambda d, a, b, c: d.add(_distance(d, a, b), c),
    "v_cvt_pk_u16_u32": _pack_limited(False), "v_cvt_pk_i16_i32": _pack_limited(True),
    "v_ashr_pk_i8_i32": _saturate_shift(-128, 127), "v_ashr_pk_u8_i32": _saturate_shift(0, 255),
}
"""Of the vector ALU, lane by lane; conditions and carries of lanes are flags."""

for _kind in ("i32", "u32", "i16", "u16"):
    for _name, _least in (("min", True), ("max", False)):
        VECTOR[f"v_{_name}_{_kind}"] = _extreme(_least, _kind[0] == "i")
        VECTOR[f"v_{_name}3_{_kind}"] = _extreme3(_least, _kind[0] == "i")
    VECTOR[f"v_med3_{_kind}"] = _median(_kind[0] == "i")


def vector_meaning(name: str, modifiers: Mapping[str, Any]) -> Meaning | None:
    """Of an instruction of the vector ALU: that of v_bitop3 is its truth table's. None for one that has none, or is limited."""
    if modifiers.get("clamp"):
        return None
    if name.startswith("v_bitop3"):
        table = int(modifiers.get("bitop3") or 0)
        return lambda d, a, b, c: d.bitwise(table, a, b, c)
    return VECTOR.get(name)


PACKED: dict[str, Meaning] = {
    "v_pk_mul_lo_u16": _mul,
    "v_pk_lshlrev_b16": VECTOR["v_lshlrev_b16"], "v_pk_lshrrev_b16": VECTOR["v_lshrrev_b16"], "v_pk_ashrrev_i16": VECTOR["v_ashrrev_i16"],
    **{f"v_pk_{name}_{kind}": VECTOR[f"v_{name}_{kind}"] for name in ("mad", "add", "sub", "min", "max") for kind in ("u16", "i16")},
}
"""On one half of packed registers."""

SCALAR: dict[str, Meaning] = {
    **dict.fromkeys(("s_mov_b32", "s_mov_b64", "s_movk_i32"), _same),
    **_both_widths("s_not", lambda d, a: d.inverted(a)), **_both_widths("s_wqm", _whole_quads), **_both_widths("s_quadmask", _quad_mask),
    "s_brev_b32": _reversed, "s_brev_b64": _reversed,
    **dict.fromkeys(("s_bcnt0_i32_b32", "s_bcnt0_i32_b64"), _tested(lambda d, a: d.resized(d.count_ones(d.inverted(a)), 32))),
    **dict.fromkeys(("s_bcnt1_i32_b32", "s_bcnt1_i32_b64"), _tested(lambda d, a: d.resized(d.count_ones(a), 32))),
    **dict.fromkeys(("s_ff0_i32_b32", "s_ff0_i32_b64"), lambda d, a: _first_one(d, d.inverted(a))),
    **dict.fromkeys(("s_ff1_i32_b32", "s_ff1_i32_b64"), _first_one),
    **dict.fromkeys(("s_flbit_i32_b32", "s_flbit_i32_b64"), _leading_zeros),
    **dict.fromkeys(("s_flbit_i32", "s_flbit_i32_i64"), _sign_run),
    "s_sext_i32_i8": _extended(8), "s_sext_i32_i16": _extended(16),
    **{f"s_bitset{one}_b{width}": _set_bit(one) for one in (0, 1) for width in (32, 64)},
    "s_abs_i32": _tested(_absolute), "s_absdiff_i32": _tested(lambda d, a, b: _absolute(d, d.sub(a, b))),
    "s_bitreplicate_b64_b32": _replicated,
    "s_add_u32": lambda d, a, b: d.add_carry(a, b), "s_sub_u32": lambda d, a, b: d.sub_borrow(a, b),
    "s_add_i32": _overflow(False), "s_sub_i32": _overflow(True), "s_addk_i32": _overflow(False),
    **{f"s_{name}_{kind}": _scalar_extreme(name == "min", kind == "i32") for name in ("min", "max") for kind in ("u32", "i32")},
    **_both_widths("s_and", lambda d, a, b: d.and_(a, b)), **_both_widths("s_or", lambda d, a, b: d.or_(a, b)),
    **_both_widths("s_xor", lambda d, a, b: d.xor(a, b)),
    **_both_widths("s_andn2", lambda d, a, b: d.and_(a, d.inverted(b))), **_both_widths("s_orn2", lambda d, a, b: d.or_(a, d.inverted(b))),
    **_both_widths("s_nand", lambda d, a, b: d.inverted(d.and_(a, b))), **_both_widths("s_nor", lambda d, a, b: d.inverted(d.or_(a, b))),
    **_both_widths("s_xnor", lambda d, a, b: d.inverted(d.xor(a, b))),
    **_both_widths("s_lshl", lambda d, a, b: d.shl(a, b)), **_both_widths("s_lshr", lambda d, a, b: d.shr(a, b)),
    "s_ashr_i32": _tested(lambda d, a, b: d.sar(a, b)), "s_ashr_i64": _tested(lambda d, a, b: d.sar(a, b)),
    "s_bfm_b32": _field_mask(32), "s_bfm_b64": _field_mask(64),
    "s_mul_i32": _mul, "s_mulk_i32": _mul, "s_mul_hi_u32": _mul_high(False), "s_mul_hi_i32": _mul_high(True),
    "s_bfe_u32": _tested(_field(False)), "s_bfe_i32": _tested(_field(True)),
    "s_bfe_u64": _tested(_field(False)), "s_bfe_i64": _tested(_field(True)),
    **{f"s_lshl{n}_add_u32": _shifted_add(n) for n in (1, 2, 3, 4)},
    "s_pack_ll_b32_b16": _pack(0, 0), "s_pack_lh_b32_b16": _pack(0, 1), "s_pack_hh_b32_b16": _pack(1, 1),
}
"""Of the scalar ALU; the flag is SCC (CDNA3 ISA, sections 12.1 to 12.4). One that keeps part of its destination takes that first."""

WITH_SCC: dict[str, Meaning] = {
    "s_addc_u32": lambda d, scc, a, b: d.add_carry(a, b, scc), "s_subb_u32": lambda d, scc, a, b: d.sub_borrow(a, b, scc),
    **dict.fromkeys(("s_cselect_b32", "s_cselect_b64"), lambda d, scc, a, b: d.select(scc, a, b)),
    **dict.fromkeys(("s_cmov_b32", "s_cmov_b64", "s_cmovk_i32"), lambda d, scc, old, a: d.select(scc, a, old)),
}
"""The same for those that read SCC, which comes first."""

BIT_COMPARE: dict[str, Meaning] = {f"s_bitcmp{one}_b{width}": _bit_is(one) for one in (0, 1) for width in (32, 64)}
"""To SCC alone."""
