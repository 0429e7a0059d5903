"""Integer and bit instructions of the vector ALU: functions on typed arrays, by mnemonic (CDNA3 and CDNA4 ISA, instruction pseudo-code).

Sources have the types of the instruction table; results are wrapped to the destination's. `SATURATING` holds what `clamp` turns an
instruction into: the exact result in a wider type, which is then limited to the destination's range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Values = Any  # typed arrays, [waves, 64] or broadcastable to it
Function = Callable[..., Values]

_5, _3 = np.uint32(31), np.uint32(7)
_BYTE = np.uint32(0xFF)


def u32(value: Values) -> Values:
    """As uint32, modulo 2**32."""
    return np.asarray(value).astype(np.uint32)


def u64(value: Values) -> Values:
    """As uint64."""
    return np.asarray(value).astype(np.uint64)


def i64(value: Values) -> Values:
    """As int64."""
    return np.asarray(value).astype(np.int64)


def low24(value: Values) -> Values:
    """The unsigned low 24 bits."""
    return value & np.uint32(0xFFFFFF)


def signed24(value: Values) -> Values:
    """The low 24 bits as a signed number, in int64."""
    bits = np.asarray(value).view(np.uint32) if np.asarray(value).dtype == np.int32 else np.asarray(value)
    return i64((bits << np.uint32(8)).view(np.int32) >> np.int32(8))


def bit_length(value: Values) -> Values:
    """Position of the highest one plus 1 of uint32 (0 for 0), as int32: exact, as every uint32 is a float64."""
    return np.frexp(np.asarray(value).astype(np.float64))[1].astype(np.int32)


def find_high(value: Values) -> Values:
    """v_ffbh_u32: leading zeros, -1 for 0."""
    value = np.asarray(value)
    return np.where(value == 0, np.int32(-1), np.int32(32) - bit_length(value))


def find_high_signed(value: Values) -> Values:
    """v_ffbh_i32: how many bits from the top are like the sign, -1 where all are."""
    return find_high((np.asarray(value) ^ (np.asarray(value) >> np.int32(31))).view(np.uint32))


def find_low(value: Values) -> Values:
    """v_ffbl_b32: trailing zeros, -1 for 0."""
    value = np.asarray(value)
    lowest = value & (~value + np.uint32(1))
    return np.where(value == 0, np.int32(-1), bit_length(lowest) - np.int32(1))


def reverse(value: Values) -> Values:
    """v_bfrev_b32."""
    value = np.asarray(value)
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF), (16, 0x0000FFFF)):
        keep, by = np.uint32(mask), np.uint32(shift)
        value = (value >> by & keep) | (value & keep) << by
    return value


def count_ones(value: Values) -> Values:
    """How many ones, as uint32."""
    return np.bitwise_count(np.asarray(value)).astype(np.uint32)


def _extract(value: Values, offset: Values, width: Values) -> Values:
    mask = (np.uint32(1) << (width & _5)) - np.uint32(1)
    return (np.asarray(value) >> (offset & _5)) & mask


def _extract_signed(value: Values, offset: Values, width: Values) -> Values:
    size = width & _5
    field = (np.asarray(value) >> (offset & _5).astype(np.int32)).view(np.uint32) & ((np.uint32(1) << size) - np.uint32(1))
    raise_by = np.uint32(32) - np.maximum(size, np.uint32(1))
    return np.where(size == 0, np.int32(0), np.asarray(field << raise_by).view(np.int32) >> raise_by.astype(np.int32))


def _bytes(value: Values) -> list[Values]:
    return [np.asarray(value) >> np.uint32(8 * n) & _BYTE for n in range(4)]


def _distance(a: Values, b: Values) -> Values:
    return np.maximum(a, b) - np.minimum(a, b)


def sad_u8(a: Values, b: Values) -> Values:
    """The sum of four absolute byte differences, without the addend."""
    return sum((_distance(x, y) for x, y in zip(_bytes(a), _bytes(b), strict=True)), np.uint32(0))


def masked_sad_u8(a: Values, b: Values) -> Values:
    """The same, without the bytes for which the second source (the reference) is 0."""
    return sum((np.where(y == 0, np.uint32(0), _distance(x, y)) for x, y in zip(_bytes(a), _bytes(b), strict=True)), np.uint32(0))


def _sad_u16(a: Values, b: Values) -> Values:
    low, high = np.uint32(0xFFFF), np.uint32(16)
    return _distance(a & low, b & low) + _distance(np.asarray(a) >> high, np.asarray(b) >> high)


def _quad(function: Function, source: Values, reference: Values) -> list[Values]:
    return [function(u32(np.asarray(source) >> np.uint64(8 * n)), u32(reference)) for n in range(4)]


def quad_sums(function: Function, wide: bool) -> Function:
    """v_qsad and v_mqsad: four sums at byte offsets 0 to 3, each with its own addend; exact, as int64 [4, ...].

    The addends are four 16-bit fields of a 64-bit source, or with `wide` four registers [4, ...].
    """

    def sums(source: Values, reference: Values, addend: Values) -> Values:
        parts = [addend[n] if wide else np.asarray(addend) >> np.uint64(16 * n) & np.uint64(0xFFFF) for n in range(4)]
        totals = [i64(total) + i64(part) for total, part in zip(_quad(function, source, reference), parts, strict=True)]
        return np.stack(np.broadcast_arrays(*totals))

    return sums


def _pack_quad(totals: Values) -> Values:
    fields = totals.astype(np.uint64) & np.uint64(0xFFFF)
    return fields[0] | fields[1] << np.uint64(16) | fields[2] << np.uint64(32) | fields[3] << np.uint64(48)


def _lerp(a: Values, b: Values, c: Values) -> Values:
    parts = zip(_bytes(a), _bytes(b), _bytes(c), strict=True)
    return sum(((x + y + (z & np.uint32(1))) >> np.uint32(1) << np.uint32(8 * n) for n, (x, y, z) in enumerate(parts)), np.uint32(0))


def permute_bytes(a: Values, b: Values, selectors: Values) -> Values:
    """v_perm_b32: bytes 0-3 are those of the second source, 4-7 of the first; 8-11 signs, 12 zero, above that ones."""
    result: Values = np.uint32(0)
    if not (np.asarray(selectors) & np.uint32(0xF8F8F8F8)).any():
        for position, select in enumerate(_bytes(selectors)):
            source = np.where(select & np.uint32(4), u32(a), u32(b))
            result = result | (source >> ((select & np.uint32(3)) << np.uint32(3)) & _BYTE) << np.uint32(8 * position)
        return result
    data = u64(a) << np.uint64(32) | u64(b)
    for position, select in enumerate(_bytes(selectors)):
        byte = u32(data >> u64((select & _3) << np.uint32(3))) & _BYTE
        sign_at = u64(((select & np.uint32(3)) << np.uint32(4)) + np.uint32(15))
        sign = (u32(data >> sign_at) & np.uint32(1)) * _BYTE
        special = np.where(select >= 13, _BYTE, np.where(select == 12, np.uint32(0), sign))
        result = result | np.where(select < 8, byte, special) << np.uint32(8 * position)
    return result


def median(a: Values, b: Values, c: Values) -> Values:
    """The middle one of three."""
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


def bit_function(table: int) -> Function:
    """v_bitop3: bit {a, b, c} of the truth table, for each bit."""

    def function(a: Values, b: Values, c: Values) -> Values:
        a, b, c = np.asarray(a), np.asarray(b), np.asarray(c)
        result: Values = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), a.dtype)
        for row in range(8):
            if table >> row & 1:
                result = result | (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        return result

    return function


def _align(first: Values, second: Values, shift: Values) -> Values:
    return u32((u64(first) << np.uint64(32) | u64(second)) >> u64(shift))


def _mad_unsigned(a: Values, b: Values, c: Values) -> Values:
    product = u64(a) * u64(b)
    total = product + np.asarray(c)
    return total, total < product


def _mad_signed(a: Values, b: Values, c: Values) -> Values:
    product = i64(a) * i64(b)
    total = product + np.asarray(c)
    # The 65th bit of the exact sum: the sign that an overflow hides.
    overflow = ((product ^ total) & (np.asarray(c) ^ total)) < 0
    return total, (total < 0) ^ overflow


def _saturate_shift(low: int, high: int) -> Function:
    def function(a: Values, b: Values, c: Values) -> Values:
        shift = (c & _5).astype(np.int32)
        parts = [np.clip(np.asarray(x) >> shift, low, high).astype(np.int32).view(np.uint32) & _BYTE for x in (a, b)]
        return (parts[0] | parts[1] << np.uint32(8)).astype(np.uint16)

    return function


def _saturate_bytes(value: Values) -> Values:
    low = np.clip((np.asarray(value) & np.uint32(0xFFFF)).astype(np.uint16).view(np.int16), 0, 255)
    high = np.clip((np.asarray(value) >> np.uint32(16)).astype(np.uint16).view(np.int16), 0, 255)
    return u32(low) | u32(high) << np.uint32(8)


def _step_random(value: Values) -> Values:
    value = np.asarray(value)
    return value << np.uint32(1) ^ (value >> np.uint32(31)) * np.uint32(197)


def lane_prefix(high: bool) -> Function:
    """v_mbcnt: how many of the mask's ones belong to lower lanes (of the wave's lower or upper half), plus the second source."""
    below = np.array([((1 << lane) - 1) >> (32 if high else 0) & 0xFFFFFFFF for lane in range(64)], np.uint32)

    def function(mask: Values, addend: Values) -> Values:
        return count_ones(np.asarray(mask) & below) + addend

    return function


def _carry(reverse_order: bool, subtract: bool) -> Function:
    def function(a: Values, b: Values, carry: Values = 0) -> Values:
        left, right = (b, a) if reverse_order else (a, b)
        total = i64(left) - i64(right) - i64(carry) if subtract else i64(left) + i64(right) + i64(carry)
        return u32(total & np.int64(0xFFFFFFFF)), (total < 0) | (total > 0xFFFFFFFF)

    return function


def pack_saturated(kind: type[np.integer[Any]]) -> Function:
    """v_cvt_pk_u16_u32 and v_cvt_pk_i16_i32: both sources limited to 16 bits."""
    limits = np.iinfo(kind)

    def function(a: Values, b: Values) -> Values:
        low, high = (u32(np.clip(np.asarray(x), limits.min, limits.max).astype(kind).view(np.uint16)) for x in (a, b))
        return low | high << np.uint32(16)

    return function


INTEGER: dict[str, Function] = {
    "v_mov_b32": lambda a: a,
    "v_mov_b64": lambda a: a,
    "v_accvgpr_read_b32": lambda a: a,
    "v_accvgpr_write_b32": lambda a: a,
    "v_accvgpr_mov_b32": lambda a: a,
    "v_not_b32": lambda a: ~a,
    "v_bfrev_b32": reverse,
    "v_ffbh_u32": find_high,
    "v_ffbh_i32": find_high_signed,
    "v_ffbl_b32": find_low,
    "v_prng_b32": _step_random,
    "v_sat_pk_u8_i16": _saturate_bytes,
    "v_cndmask_b32": lambda a, b, select: np.where(select, b, a),
    "v_add_u32": np.add, "v_sub_u32": np.subtract, "v_subrev_u32": lambda a, b: b - a,
    "v_add_u16": np.add, "v_sub_u16": np.subtract, "v_subrev_u16": lambda a, b: b - a,
    "v_add_i32": np.add, "v_sub_i32": np.subtract, "v_add_i16": np.add, "v_sub_i16": np.subtract,
    "v_add_co_u32": _carry(False, False), "v_sub_co_u32": _carry(False, True), "v_subrev_co_u32": _carry(True, True),
    "v_addc_co_u32": _carry(False, False), "v_subb_co_u32": _carry(False, True), "v_subbrev_co_u32": _carry(True, True),
    "v_mul_lo_u32": np.multiply, "v_mul_lo_u16": np.multiply,
    "v_mul_hi_u32": lambda a, b: u32(u64(a) * u64(b) >> np.uint64(32)),
    "v_mul_hi_i32": lambda a, b: (i64(a) * i64(b) >> np.int64(32)).astype(np.int32),
    "v_mul_u32_u24": lambda a, b: low24(a) * low24(b),
    "v_mul_i32_i24": lambda a, b: (signed24(a) * signed24(b)).astype(np.int32),
    "v_mul_hi_u32_u24": lambda a, b: u32(u64(low24(a)) * u64(low24(b)) >> np.uint64(32)),
    "v_mul_hi_i32_i24": lambda a, b: (signed24(a) * signed24(b) >> np.int64(32)).astype(np.int32),
    "v_and_b32": np.bitwise_and, "v_or_b32": np.bitwise_or, "v_xor_b32": np.bitwise_xor, "v_xnor_b32": lambda a, b: ~(a ^ b),
    "v_lshlrev_b32": lambda a, b: b << (a & _5), "v_lshrrev_b32": lambda a, b: b >> (a & _5),
    "v_ashrrev_i32": lambda a, b: b >> (a & np.int32(31)),
    "v_lshlrev_b16": lambda a, b: b << (a & np.uint16(15)), "v_lshrrev_b16": lambda a, b: b >> (a & np.uint16(15)),
    "v_ashrrev_i16": lambda a, b: b >> (a & np.int16(15)),
    "v_lshlrev_b64": lambda a, b: b << u64(a & np.uint32(63)), "v_lshrrev_b64": lambda a, b: b >> u64(a & np.uint32(63)),
    "v_ashrrev_i64": lambda a, b: b >> i64(a & np.uint32(63)),
    "v_mad_u32_u24": lambda a, b, c: low24(a) * low24(b) + c,
    "v_mad_i32_i24": lambda a, b, c: (signed24(a) * signed24(b) + i64(c)).astype(np.int32),
    "v_mad_u32_u16": lambda a, b, c: u32(a) * u32(b) + c,
    "v_mad_i32_i16": lambda a, b, c: np.asarray(a).astype(np.int32) * np.asarray(b).astype(np.int32) + c,
    "v_mad_u64_u32": _mad_unsigned, "v_mad_i64_i32": _mad_signed,
    "v_lshl_add_u32": lambda a, b, c: (a << (b & _5)) + c, "v_add_lshl_u32": lambda a, b, c: (a + b) << (c & _5),
    "v_lshl_add_u64": lambda a, b, c: (a << u64(b & _3)) + c, "v_add3_u32": lambda a, b, c: a + b + c,
    "v_xad_u32": lambda a, b, c: (a ^ b) + c, "v_lshl_or_b32": lambda a, b, c: a << (b & _5) | c,
    "v_and_or_b32": lambda a, b, c: a & b | c, "v_or3_b32": lambda a, b, c: a | b | c,
    "v_bfe_u32": _extract, "v_bfe_i32": _extract_signed, "v_bfi_b32": lambda a, b, c: a & b | ~a & c,
    "v_bfm_b32": lambda a, b: ((np.uint32(1) << (a & _5)) - np.uint32(1)) << (b & _5),
    "v_lerp_u8": _lerp, "v_perm_b32": permute_bytes,
    "v_alignbit_b32": lambda a, b, c: _align(a, b, c & _5), "v_alignbyte_b32": lambda a, b,
    c: _align(a, b, (c & np.uint32(3)) * np.uint32(8)),
    "v_bcnt_u32_b32": lambda a, b: count_ones(a) + b,
    "v_mbcnt_lo_u32_b32": lane_prefix(False), "v_mbcnt_hi_u32_b32": lane_prefix(True),
    "v_sad_u8": lambda a, b, c: sad_u8(a, b) + c, "v_msad_u8": lambda a, b, c: masked_sad_u8(a, b) + c,
    "v_sad_hi_u8": lambda a, b, c: (sad_u8(a, b) << np.uint32(16)) + c,
    "v_sad_u16": lambda a, b, c: _sad_u16(a, b) + c, "v_sad_u32": lambda a, b, c: _distance(a, b) + c,
    "v_qsad_pk_u16_u8": lambda a, b, c: _pack_quad(quad_sums(sad_u8, False)(a, b, c)),
    "v_mqsad_pk_u16_u8": lambda a, b, c: _pack_quad(quad_sums(masked_sad_u8, False)(a, b, c)),
    "v_mqsad_u32_u8": lambda a, b, c: u32(quad_sums(masked_sad_u8, True)(a, b, c)),
    "v_cvt_pk_u16_u32": pack_saturated(np.uint16), "v_cvt_pk_i16_i32": pack_saturated(np.int16),
    "v_ashr_pk_i8_i32": _saturate_shift(-128, 127), "v_ashr_pk_u8_i32": _saturate_shift(0, 255),
}
"""Lane-wise instructions by mnemonic: typed sources in, typed result out; where there is a scalar result too, (result, lanes)."""

for _kind in ("i32", "u32", "i16", "u16"):
    INTEGER[f"v_min_{_kind}"], INTEGER[f"v_max_{_kind}"] = np.minimum, np.maximum
    INTEGER[f"v_min3_{_kind}"] = lambda a, b, c: np.minimum(np.minimum(a, b), c)
    INTEGER[f"v_max3_{_kind}"] = lambda a, b, c: np.maximum(np.maximum(a, b), c)
    INTEGER[f"v_med3_{_kind}"] = median
for _kind in ("i16", "u16"):
    INTEGER[f"v_mad_{_kind}"] = INTEGER[f"v_mad_legacy_{_kind}"] = lambda a, b, c: a * b + c


def _limit_quad(totals: Values) -> Values:
    return _pack_quad(np.minimum(totals, 0xFFFF))


def _wide_mad(a: Values, b: Values, c: Values) -> Values:
    return i64(a) * i64(b) + i64(c)


SATURATING: dict[str, Function] = {
    "v_add_u32": lambda a, b: i64(a) + i64(b), "v_sub_u32": lambda a, b: i64(a) - i64(b), "v_subrev_u32": lambda a, b: i64(b) - i64(a),
    "v_add_co_u32": lambda a, b: i64(a) + i64(b), "v_sub_co_u32": lambda a, b: i64(a) - i64(b),
    "v_subrev_co_u32": lambda a, b: i64(b) - i64(a), "v_addc_co_u32": lambda a, b, c: i64(a) + i64(b) + i64(c),
    "v_subb_co_u32": lambda a, b, c: i64(a) - i64(b) - i64(c), "v_subbrev_co_u32": lambda a, b, c: i64(b) - i64(a) - i64(c),
    "v_mul_u32_u24": lambda a, b: i64(low24(a)) * i64(low24(b)), "v_mul_i32_i24": lambda a, b: signed24(a) * signed24(b),
    "v_mad_u32_u24": lambda a, b, c: i64(low24(a)) * i64(low24(b)) + i64(c),
    "v_mad_i32_i24": lambda a, b, c: signed24(a) * signed24(b) + i64(c),
    "v_sad_u8": lambda a, b, c: i64(sad_u8(a, b)) + i64(c), "v_msad_u8": lambda a, b, c: i64(masked_sad_u8(a, b)) + i64(c),
    "v_sad_hi_u8": lambda a, b, c: (i64(sad_u8(a, b)) << np.int64(16)) + i64(c),
    "v_sad_u16": lambda a, b, c: i64(_sad_u16(a, b)) + i64(c), "v_sad_u32": lambda a, b, c: i64(_distance(a, b)) + i64(c),
    "v_qsad_pk_u16_u8": lambda a, b, c: _limit_quad(quad_sums(sad_u8, False)(a, b, c)),
    "v_mqsad_pk_u16_u8": lambda a, b, c: _limit_quad(quad_sums(masked_sad_u8, False)(a, b, c)),
    "v_mqsad_u32_u8": lambda a, b, c: quad_sums(masked_sad_u8, True)(a, b, c),
    "v_mad_u32_u16": _wide_mad, "v_mad_i32_i16": _wide_mad,
}
"""What `clamp` makes of an instruction: the exact result, to be limited (min, max and shifts cannot leave the range and are not here).
v_mad_u64_u32 and v_mad_i64_i32 see `saturate_mad`."""

for _kind in ("i32", "i16", "u16"):
    SATURATING[f"v_add_{_kind}"] = lambda a, b: i64(a) + i64(b)
    SATURATING[f"v_sub_{_kind}"] = lambda a, b: i64(a) - i64(b)
SATURATING["v_subrev_u16"] = lambda a, b: i64(b) - i64(a)
for _kind in ("i16", "u16"):
    SATURATING[f"v_mad_{_kind}"] = SATURATING[f"v_mad_legacy_{_kind}"] = _wide_mad


def saturate_mad(signed: bool) -> Function:
    """v_mad_u64_u32 and v_mad_i64_i32 with clamp: a sum that leaves 64 bits becomes the nearest limit."""

    def unsigned(a: Values, b: Values, c: Values) -> Values:
        total, overflow = _mad_unsigned(a, b, c)
        return np.where(overflow, np.uint64(0xFFFFFFFFFFFFFFFF), total), overflow

    def both(a: Values, b: Values, c: Values) -> Values:
        total, sign = _mad_signed(a, b, c)
        limits = np.iinfo(np.int64)
        return np.where(sign == (total < 0), total, np.where(sign, limits.min, limits.max)), sign

    return both if signed else unsigned
