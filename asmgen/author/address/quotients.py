"""Addresses that depend on a lane's number by its quotient or rest by 3, 6, 12 or 24: LDS-DMA of rows of 48 or 96 bytes, 16
or 4 bytes a lane.

A quotient is the upper part of a product: x // d is x M >> s for all x of a lane, with M = ceil(2^s / d).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from asmgen.author.address.addresscode import Address, AddressCode, Input, Op, plan
from asmgen.isa.layout import LayoutError

_DIVISORS = (3, 6, 12, 24)
_SHIFT = 16  # x / 65536 times what M is too large, below 1, is less than 1 / d for all x of some lines of lanes


def plan_address(address: Address, inputs: Sequence[Input]) -> AddressCode:
    """As `plan`, also for an address that is the sum of a function of the first input's quotient or rest and one of the other inputs.

    Raises LayoutError as `plan` does."""
    lane = inputs[0] if inputs and not inputs[0].scalar else None
    begin = dict.fromkeys([one.name for one in inputs[1:]], 0)
    plain = lane is None or _is_of_bits([address(**{lane.name: number}, **begin) for number in range(lane.size)])
    if not plain:  # `plan` finds out late
        found = _by_quotient(address, inputs)
        if found is not None:
            return found
    try:
        return plan(address, inputs)
    except LayoutError:
        found = _by_quotient(address, inputs) if lane is not None and plain else None
        if found is None:
            raise
        return found


def _is_of_bits(values: Sequence[int]) -> bool:
    """Whether each bit of a number adds, or inverts, what it does to the first value, whatever the others are."""
    rest = [(number & -number, number & (number - 1)) for number in range(len(values))]
    first = values[0]
    return all(values[number] - first == values[bit] - first + values[other] - first for number, (bit, other) in enumerate(rest)) \
        or all(values[number] ^ first == values[bit] ^ values[other] for number, (bit, other) in enumerate(rest) if number)


def _by_quotient(address: Address, inputs: Sequence[Input]) -> AddressCode | None:
    lane, *others = inputs
    origin = {one.name: 0 for one in others}
    by_lane = [address(**{lane.name: number}, **origin) for number in range(lane.size)]

    def of_others(**values: int) -> int:
        return address(**{lane.name: 0}, **values) - by_lane[0]

    points = [dict(zip(origin, values, strict=True)) for values in itertools.product(*(range(one.size) for one in others))]
    sums = [of_others(**point) for point in points]
    if min(sums) < 0 or any(address(**{lane.name: number}, **point) != by_lane[number] + more
                            for number in range(lane.size) for point, more in zip(points, sums, strict=True)):
        return None
    rest = plan(of_others, others) if any(sums) else AddressCode((), None, 0)
    for divisor, whole in itertools.product(_DIVISORS, (True, False)):
        for start in range(min(divisor, lane.size)):
            found = _of_lane(by_lane, lane, divisor, start, whole)
            if found is not None:
                return _sum(found, rest)
    return None


def _of_lane(wanted: Sequence[int], lane: Input, divisor: int, start: int, whole: bool) -> AddressCode | None:
    """The code of a function of (lane + start) // divisor, or of its rest."""
    values: dict[int, int] = {}
    for number, value in enumerate(wanted):
        if values.setdefault((number + start) // divisor if whole else (number + start) % divisor, value) != value:
            return None
    try:
        code = plan(lambda q: values[q], (Input("q", len(values)),))
    except LayoutError:
        return None
    return _after_division(code, lane, divisor, start, whole)


def _after_division(code: AddressCode, lane: Input, divisor: int, start: int, whole: bool) -> AddressCode:
    factor = -(-(1 << _SHIFT) // divisor)
    assert all((x * factor >> _SHIFT) == x // divisor for x in range(lane.size + divisor))
    x = "q0" if start else lane.name
    ops = [Op("v_add_u32", "q0", (start, lane.name))] if start else []
    ops += [Op("v_mul_u32_u24", "q1", (factor, x)), Op("v_lshrrev_b32", "q2", (_SHIFT, "q1"))]
    if not whole:
        ops += [Op("v_mul_u32_u24", "q3", (divisor, "q2")), Op("v_sub_u32", "q4", (x, "q3"))]
    own = {"q": ops[-1].result}
    return AddressCode((*ops, *_renamed(code.ops, own)), own.get(str(code.result), code.result), code.constant)


def _renamed(ops: Sequence[Op], names: Mapping[str, str]) -> list[Op]:
    return [Op(op.opcode, names.get(op.result, op.result),
               tuple([part if isinstance(part, int) else names.get(part, part) for part in op.operands])) for op in ops]


def _sum(one: AddressCode, other: AddressCode) -> AddressCode:
    """Both together, the second one's results under names of their own."""
    constant = one.constant + other.constant
    if other.result is None or one.result is None:
        return AddressCode((*one.ops, *other.ops), one.result or other.result, constant)
    names = {op.result: f"r{number}" for number, op in enumerate(other.ops)}
    last = Op("v_add_u32", "r", (names.get(other.result, other.result), one.result))
    return AddressCode((*one.ops, *_renamed(other.ops, names), last), "r", constant)
