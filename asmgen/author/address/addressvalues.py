"""Values of address arithmetic at many points at once: the alphabet of the search in `addresscode`.

A value's results at all points stand in one big integer, 64 bits a point, so that an operation on all points is one of Python's.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from asmgen.isa.records import dataclass

SLOT = 64
LIMIT = 31
"""Values stay below 2**31, so that no operation truncates; products have factors of 24 bits."""
INLINE = range(-16, 65)
"""Constants that any operand takes without a literal (CDNA3 ISA, operand encodings 128 to 208)."""


@dataclass(frozen=True, eq=False)
class Computed:
    """An input (no opcode) or the result of an operation; `cost` counts the operations that it needs, shared ones once."""

    bits: int
    scalar: bool
    opcode: str = ""
    operands: tuple[Computed | int, ...] = ()
    name: str = ""
    cost: int = 0

    @property
    def key(self) -> tuple[int, bool]:
        """What a second computation of the same value has in common with it."""
        return self.bits, self.scalar


def ops_of(value: Computed) -> list[Computed]:
    """The value and all that it is made of, operands first, each once."""
    order: dict[tuple[int, bool], Computed] = {}

    def visit(one: Computed) -> None:
        if one.key not in order:
            for part in one.operands:
                if isinstance(part, Computed):
                    visit(part)
            order[one.key] = one

    visit(value)
    return list(order.values())


class Space:
    """The points at which values are compared, and what operations give there."""

    def __init__(self, inputs: Sequence[tuple[str, bool, Sequence[int]]]) -> None:
        self.points = len(inputs[0][2])
        self._ones = self.pack([1] * self.points)
        self._borrow = self._ones << SLOT - 1
        self._high = self._ones * ((1 << SLOT) - (1 << LIMIT))
        self._wide = self._ones * ((1 << SLOT) - (1 << 24))
        self._masks: dict[int, int] = {}
        self.inputs = [Computed(self.pack(values), scalar, name=name) for name, scalar, values in inputs]

    def pack(self, values: Sequence[int]) -> int:
        """One integer of a number for each point."""
        return int.from_bytes(b"".join(value.to_bytes(SLOT // 8, "little") for value in values), "little")

    def masked(self, bits: int, mask: int) -> int:
        """`mask` at each point."""
        spread = self._masks.get(mask)
        if spread is None:
            spread = self._masks[mask] = self._ones * mask
        return bits & spread

    def minus(self, bits: int, less: int) -> int | None:
        """The difference, None where it is negative at a point."""
        rest = (bits | self._borrow) - less
        return rest ^ self._borrow if rest & self._borrow == self._borrow else None

    def factor(self, bits: int) -> int:
        """Low bits that are 0 at all points: how far the value can be shifted right without loss."""
        low = 0
        while bits and low < LIMIT and not self.masked(bits, 1 << low):
            low += 1
        return low

    def _value(self, bits: int, name: str, operands: tuple[Computed | int, ...]) -> Computed:
        parts = [part for part in operands if isinstance(part, Computed)]
        scalar = all(part.scalar for part in parts)
        opcode = (_SCALAR if scalar else _VECTOR)[name]
        shaped = _scalar_operands(name, operands) if scalar else operands
        return _counted(bits, scalar, opcode, shaped)

    def shifted(self, value: Computed, shift: int) -> Computed:
        """value << shift; the caller keeps it below 2**31."""
        return self._value(value.bits << shift, "left", (shift, value))

    def cut(self, value: Computed, mask: int) -> Computed:
        """value & mask."""
        return self._value(self.masked(value.bits, mask), "and", (mask, value))

    def sum(self, one: Computed, other: Computed) -> Computed:
        """one + other, a scalar first."""
        return self.both("add", one, other)

    def both(self, name: str, one: Computed, other: Computed) -> Computed:
        """An operation ("add", "xor") that takes its operands in any order; a scalar stands first, where the encoding takes it."""
        if other.scalar and not one.scalar:
            one, other = other, one
        return self._value(one.bits + other.bits if name == "add" else one.bits ^ other.bits, name, (one, other))

    def made_from(self, value: Computed, inputs: Sequence[Computed], shifts: Sequence[int], masks: Sequence[int],
                  fields: Sequence[tuple[int, int]], strides: Sequence[int], known: Container[int]) -> Iterator[Computed]:
        """All but the `known` bits that one operation makes of the value, with an input as second operand of those that have two."""
        bits = value.bits
        for mask in masks:
            kept = self.masked(bits, mask)
            if kept and kept not in known:
                yield self.cut(value, mask)
        for shift in shifts:
            if shift > 0 and not (bits << shift) & self._high and bits << shift not in known:
                yield self.shifted(value, shift)
            if shift < 0:
                low = self.masked(bits, (1 << -shift) - 1)
                if bits != low and (bits - low) >> -shift not in known:
                    yield self._value((bits - low) >> -shift, "right", (-shift, value))
        if not value.opcode:
            for offset, width in fields:
                kept = self.masked(bits, (1 << width) - 1 << offset) >> offset
                if offset and kept and kept not in known:
                    yield self._value(kept, "field", (value, offset, width))
        for other in inputs:
            if other is not value:
                if bits ^ other.bits not in known:
                    yield self.both("xor", value, other)
                if not (bits + other.bits) & self._high and bits + other.bits not in known:
                    yield self.sum(value, other)
        for stride in strides:
            if not bits & self._wide and not bits * stride & self._high and bits * stride not in known:
                yield self._value(bits * stride, "times", (stride, value))


_VECTOR = {"left": "v_lshlrev_b32", "right": "v_lshrrev_b32", "and": "v_and_b32", "add": "v_add_u32", "xor": "v_xor_b32",
           "field": "v_bfe_u32", "times": "v_mul_u32_u24"}
_SCALAR = {"left": "s_lshl_b32", "right": "s_lshr_b32", "and": "s_and_b32", "add": "s_add_u32", "xor": "s_xor_b32",
           "field": "s_bfe_u32", "times": "s_mul_i32"}


def _scalar_operands(name: str, operands: tuple[Computed | int, ...]) -> tuple[Computed | int, ...]:
    """SALU instructions take the value first, and a field as one number: offset in bits 4:0, width from bit 16 on."""
    if name == "field":
        value, offset, width = operands
        assert isinstance(offset, int) and isinstance(width, int)
        return value, width << 16 | offset
    return operands[::-1] if isinstance(operands[0], int) else operands


def _counted(bits: int, scalar: bool, opcode: str, operands: tuple[Computed | int, ...]) -> Computed:
    parts = [part for part in operands if isinstance(part, Computed)]
    if len(parts) == 1:
        return Computed(bits, scalar, opcode, operands, cost=parts[0].cost + 1)
    made = {one.key for part in parts for one in ops_of(part) if one.opcode}
    return Computed(bits, scalar, opcode, operands, cost=len(made) + 1)


def fused(space: Space, value: Computed) -> Computed:
    """The value by a three-operand instruction, where one of its operands is made by a two-operand one that nothing else needs."""
    options = [value, *_fusions(value)]
    return min(options, key=lambda option: option.cost)


def _fusions(value: Computed) -> Iterator[Computed]:
    if value.scalar:
        return
    if value.opcode == "v_lshlrev_b32":
        shift, inner = value.operands
        assert isinstance(inner, Computed)
        if inner.opcode == "v_add_u32":
            yield from _legal(value, "v_add_lshl_u32", (*inner.operands, shift))
        return
    one, other = value.operands
    for inner, rest in ((one, other), (other, one)):
        if not isinstance(inner, Computed) or not isinstance(rest, Computed) or not inner.opcode:
            continue
        if value.opcode == "v_add_u32" and inner.opcode in ("v_lshlrev_b32", "s_lshl_b32"):
            shift, base = inner.operands if inner.opcode[0] == "v" else inner.operands[::-1]
            disjoint = not inner.bits & rest.bits
            yield from _legal(value, "v_lshl_or_b32" if disjoint else "v_lshl_add_u32", (base, shift, rest))
        elif value.opcode == "v_add_u32" and inner.opcode == "v_mul_u32_u24":
            stride, base = inner.operands
            yield from _legal(value, "v_mad_u32_u24", (base, stride, rest))
        elif value.opcode == "v_add_u32" and inner.opcode == "v_and_b32" and not inner.bits & rest.bits:
            mask, base = inner.operands
            yield from _legal(value, "v_and_or_b32", (base, mask, rest))
        elif value.opcode == "v_add_u32" and inner.opcode == "v_xor_b32":
            yield from _legal(value, "v_xad_u32", (*inner.operands, rest))
        elif value.opcode == "v_add_u32" and inner.opcode == "v_add_u32":
            yield from _legal(value, "v_add3_u32", (*inner.operands, rest))


def _legal(value: Computed, opcode: str, operands: tuple[Computed | int, ...]) -> Iterator[Computed]:
    """The operation if its encoding takes the operands: no literal, at most one scalar register."""
    scalars = {part.bits for part in operands if isinstance(part, Computed) and part.scalar}
    if len(scalars) <= 1 and all(part in INLINE for part in operands if isinstance(part, int)):
        yield _counted(value.bits, False, opcode, operands)
