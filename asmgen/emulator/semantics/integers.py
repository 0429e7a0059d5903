"""Integer and bit instructions on numpy arrays, by mnemonic: `Arrays` interprets the tables of `meaning` on typed arrays.

Sources have the types of the instruction table; results are bit patterns. `SATURATING` holds what `clamp` turns an instruction into: the
exact result in a wider type, which is then limited to the destination's range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from asmgen.emulator.semantics import meaning
from asmgen.emulator.semantics.meaning import ADD_OVERFLOW, SUB_OVERFLOW, Meaning, byte_distances, half_distances

Values = Any  # arrays, [waves, 64] of lanes, [waves] of scalars, or broadcastable to it
Function = Callable[..., Values]

_BYTE = np.uint32(0xFF)
_UNSIGNED, _SIGNED = ({size: np.dtype(f"{kind}{size}") for size in (1, 2, 4, 8)} for kind in "ui")


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


def _bytes(value: Values) -> list[Values]:
    return [np.asarray(value) >> np.uint32(8 * n) & _BYTE for n in range(4)]


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
        byte = u32(data >> u64((select & np.uint32(7)) << np.uint32(3))) & _BYTE
        sign_at = u64(((select & np.uint32(3)) << np.uint32(4)) + np.uint32(15))
        sign = (u32(data >> sign_at) & np.uint32(1)) * _BYTE
        special = np.where(select >= 13, _BYTE, np.where(select == 12, np.uint32(0), sign))
        result = result | np.where(select < 8, byte, special) << np.uint32(8 * position)
    return result


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


_FORMULAS: dict[int, Function] = {
    ADD_OVERFLOW: lambda a, b, total: (a ^ total) & (b ^ total), SUB_OVERFLOW: lambda a, b, total: (a ^ b) & (a ^ total),
    0xCA: lambda a, b, c: a & b | ~a & c,
}
"""Truth tables that instructions use, in fewer operations than `bit_function` needs."""


class Arrays:
    """The domain of numpy arrays: unsigned patterns of the operand's width, and booleans."""

    def width(self, a: Values) -> int:
        """In bits."""
        return int(a.dtype.itemsize) * 8

    def number(self, number: int, like: Values) -> Values:
        """A constant of the width of `like`."""
        kind = like.dtype
        return kind.type(number & (1 << 8 * kind.itemsize) - 1)

    def lanes(self, numbers: Sequence[int]) -> Values:
        """A constant for each lane."""
        return np.array(numbers, np.uint32)

    def resized(self, a: Values, bits: int, signed: bool = False) -> Values:
        """Cut, or extended with zeros or the sign."""
        if a.dtype.itemsize * 8 == bits:
            return a
        if not signed:
            return a.astype(_UNSIGNED[bits // 8])
        return a.view(_SIGNED[a.dtype.itemsize]).astype(_SIGNED[bits // 8]).view(_UNSIGNED[bits // 8])

    def inverted(self, a: Values) -> Values:
        """Each bit inverted."""
        return ~a

    def and_(self, a: Values, b: Values) -> Values:
        """Ones in both."""
        return a & b

    def or_(self, a: Values, b: Values) -> Values:
        """Ones in one or both."""
        return a | b

    def xor(self, a: Values, b: Values) -> Values:
        """Ones in one of the two."""
        return a ^ b

    def bitwise(self, table: int, *sources: Values) -> Values:
        """A truth table of three sources for each bit."""
        return (_FORMULAS.get(table) or bit_function(table))(*sources)

    def add(self, a: Values, b: Values) -> Values:
        """The sum."""
        return a + b

    def sub(self, a: Values, b: Values) -> Values:
        """The difference."""
        return a - b

    def mul(self, a: Values, b: Values) -> Values:
        """The product."""
        return a * b

    def add_carry(self, a: Values, b: Values, carry: Values | None = None) -> tuple[Values, Values]:
        """The sum of both and the carry, and the carry out of it."""
        total = a + b
        out = total < a
        if carry is None:
            return total, out
        more = total + np.asarray(carry).astype(a.dtype)
        return more, out | (more < total)

    def sub_borrow(self, a: Values, b: Values, borrow: Values | None = None) -> tuple[Values, Values]:
        """The difference less the borrow, and the borrow out of it."""
        total = a - b
        out = a < b
        if borrow is None:
            return total, out
        less = total - np.asarray(borrow).astype(a.dtype)
        return less, out | (less > total)

    def shl(self, a: Values, count: Values) -> Values:
        """Shifted left."""
        return a << self._steps(a, count)

    def shr(self, a: Values, count: Values) -> Values:
        """Shifted right, zeros from the left."""
        return a >> self._steps(a, count)

    def sar(self, a: Values, count: Values) -> Values:
        """Shifted right, copies of the sign from the left."""
        kind = _SIGNED[a.dtype.itemsize]
        return (a.view(kind) >> self._steps(a, count).view(kind)).view(a.dtype)

    def _steps(self, a: Values, count: Values) -> Values:
        kind = a.dtype
        steps = count & count.dtype.type(kind.itemsize * 8 - 1)
        return steps if count.dtype == kind else steps.astype(kind)

    def extreme(self, least: bool, signed: bool, a: Values, b: Values) -> Values:
        """The minimum or maximum."""
        function = np.minimum if least else np.maximum
        if not signed:
            return function(a, b)
        kind = _SIGNED[a.dtype.itemsize]
        return function(a.view(kind), b.view(kind)).view(a.dtype)

    def compare(self, relation: str, signed: bool, a: Values, b: Values) -> Values:
        """An integer comparison."""
        kind = (_SIGNED if signed else _UNSIGNED)[a.dtype.itemsize]
        return COMPARE[relation](a.view(kind), b.view(kind))

    def select(self, condition: Values, yes: Values, no: Values) -> Values:
        """One of two values."""
        return np.where(condition, yes, no)

    def bit(self, a: Values, position: int) -> Values:
        """One bit as a truth."""
        if position == a.dtype.itemsize * 8 - 1:
            return a.view(_SIGNED[a.dtype.itemsize]) < 0
        return (a >> a.dtype.type(position) & a.dtype.type(1)) != 0

    def nonzero(self, a: Values) -> Values:
        """Whether a value differs from 0."""
        return a != 0

    def contrary(self, flag: Values) -> Values:
        """The other truth."""
        return ~flag

    def count_ones(self, a: Values) -> Values:
        """How many bits are ones."""
        return np.bitwise_count(a).astype(a.dtype)

    def bit_length(self, a: Values) -> Values:
        """The position of the highest one plus 1, by filling up all ones below it."""
        for step in (1, 2, 4, 8, 16, 32)[:(a.dtype.itemsize * 8).bit_length() - 1]:
            a = a | a >> a.dtype.type(step)
        return self.count_ones(a)

    def permuted(self, a: Values, b: Values, selectors: Values) -> Values:
        """The bytes of v_perm_b32."""
        return permute_bytes(a, b, selectors)


COMPARE: dict[str, Callable[[Values, Values], Values]] = {
    "eq": np.equal, "lg": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}
"""Comparisons of typed arrays by the middle part of the mnemonic (s_cmp_lt_i32, s_cmpk_eq_u32)."""

ARRAYS = Arrays()


def on_arrays(means: Meaning) -> Function:
    """A meaning as a function of typed arrays; flags are booleans."""

    def function(*sources: Values) -> Values:
        return means(ARRAYS, *[s if s.dtype.kind in "ub" else s.view(_UNSIGNED[s.dtype.itemsize]) for s in sources])

    return function


def _quad(means: Meaning, source: Values, reference: Values) -> list[Values]:
    return [means(ARRAYS, u32(np.asarray(source) >> np.uint64(8 * n)), u32(reference)) for n in range(4)]


def _masked(d: Any, a: Values, b: Values) -> Values:
    return byte_distances(d, a, b, True)


def quad_sums(means: Meaning, wide: bool) -> Function:
    """v_qsad and v_mqsad: four sums at byte offsets 0 to 3, each with its own addend; exact, as int64 [4, ...].

    The addends are four 16-bit fields of a 64-bit source, or with `wide` four registers [4, ...].
    """

    def sums(source: Values, reference: Values, addend: Values) -> Values:
        parts = [addend[n] if wide else np.asarray(addend) >> np.uint64(16 * n) & np.uint64(0xFFFF) for n in range(4)]
        totals = [i64(total) + i64(part) for total, part in zip(_quad(means, source, reference), parts, strict=True)]
        return np.stack(np.broadcast_arrays(*totals))

    return sums


def _pack_quad(totals: Values) -> Values:
    fields = totals.astype(np.uint64) & np.uint64(0xFFFF)
    return fields[0] | fields[1] << np.uint64(16) | fields[2] << np.uint64(32) | fields[3] << np.uint64(48)


INTEGER: dict[str, Function] = {
    **{name: on_arrays(means) for name, means in meaning.VECTOR.items()},
    "v_qsad_pk_u16_u8": lambda a, b, c: _pack_quad(quad_sums(byte_distances, False)(a, b, c)),
    "v_mqsad_pk_u16_u8": lambda a, b, c: _pack_quad(quad_sums(_masked, False)(a, b, c)),
    "v_mqsad_u32_u8": lambda a, b, c: u32(quad_sums(_masked, True)(a, b, c)),
}
"""Lane-wise instructions by mnemonic: typed sources in, patterns out; where there is a scalar result too, (result, lanes)."""


def _limit_quad(totals: Values) -> Values:
    return _pack_quad(np.minimum(totals, 0xFFFF))


def _wide_mad(a: Values, b: Values, c: Values) -> Values:
    return i64(a) * i64(b) + i64(c)


def _sums(means: Meaning, shift: int = 0) -> Function:
    """What is added to the last source: small enough for 32 bits."""
    return lambda a, b, c: (i64(means(ARRAYS, a, b)) << np.int64(shift)) + i64(c)


SATURATING: dict[str, Function] = {
    "v_add_u32": lambda a, b: i64(a) + i64(b), "v_sub_u32": lambda a, b: i64(a) - i64(b), "v_subrev_u32": lambda a, b: i64(b) - i64(a),
    "v_add_co_u32": lambda a, b: i64(a) + i64(b), "v_sub_co_u32": lambda a, b: i64(a) - i64(b),
    "v_subrev_co_u32": lambda a, b: i64(b) - i64(a), "v_addc_co_u32": lambda a, b, c: i64(a) + i64(b) + i64(c),
    "v_subb_co_u32": lambda a, b, c: i64(a) - i64(b) - i64(c), "v_subbrev_co_u32": lambda a, b, c: i64(b) - i64(a) - i64(c),
    "v_mul_u32_u24": lambda a, b: i64(low24(a)) * i64(low24(b)), "v_mul_i32_i24": lambda a, b: signed24(a) * signed24(b),
    "v_mad_u32_u24": lambda a, b, c: i64(low24(a)) * i64(low24(b)) + i64(c),
    "v_mad_i32_i24": lambda a, b, c: signed24(a) * signed24(b) + i64(c),
    "v_sad_u8": _sums(byte_distances), "v_msad_u8": _sums(_masked), "v_sad_hi_u8": _sums(byte_distances, 16),
    "v_sad_u16": _sums(half_distances), "v_sad_u32": lambda a, b, c: i64(np.maximum(a, b) - np.minimum(a, b)) + i64(c),
    "v_qsad_pk_u16_u8": lambda a, b, c: _limit_quad(quad_sums(byte_distances, False)(a, b, c)),
    "v_mqsad_pk_u16_u8": lambda a, b, c: _limit_quad(quad_sums(_masked, False)(a, b, c)),
    "v_mqsad_u32_u8": lambda a, b, c: quad_sums(_masked, True)(a, b, c),
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
    plain = INTEGER["v_mad_i64_i32" if signed else "v_mad_u64_u32"]

    def unsigned(a: Values, b: Values, c: Values) -> Values:
        total, overflow = plain(a, b, c)
        return np.where(overflow, np.uint64(0xFFFFFFFFFFFFFFFF), total), overflow

    def both(a: Values, b: Values, c: Values) -> Values:
        total, sign = plain(a, b, c)
        limits = np.iinfo(np.int64)
        total = total.view(np.int64)
        return np.where(sign == (total < 0), total, np.where(sign, limits.min, limits.max)), sign

    return both if signed else unsigned
