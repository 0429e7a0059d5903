"""Merging streams: units in a given order become placed code if each read still gets the definition that emission order gives it.

*Emission order over all streams together is the meaning.* The definitions that reach a read of a register (SCC, VCC, EXEC and M0 too) must
be those of emission order. Accesses of the same memory, one of them a write, keep their order. Overwriting after a read is an edge, not an
error. Merge refuses an order that breaks this, with the lines of reader, definition and intruder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from asmgen.author.step.effects import Unit
from asmgen.author.step.reaching import BEFORE, ENTRY, Definitions, Parts, Reaching
from asmgen.isa.errors import AsmgenError
from asmgen.isa.registers import mask_names
from asmgen.program.program import Item


class MergeError(AsmgenError):
    """In an order of units some read gets another definition, or memory accesses are reordered."""


def merge(units: Sequence[Unit], order: Sequence[int], live_out: int = -1) -> tuple[Item, ...]:
    """The items of the units, placed in that order (numbers of units; each exactly once).

    `live_out` are the registers, as bits, whose last values matter after the units (default: all). Raises MergeError for an order that
    changes a reaching definition, with reader, definition and intruder, and for an order that is no permutation.
    """
    if sorted(order) != list(range(len(units))):
        missing = sorted(set(range(len(units))) - set(order))
        raise MergeError(f"the order names {len(order)} of {len(units)} units; each must stand in it once"
                         + (f" (unit {missing[0]}, {units[missing[0]]}, does not)" if missing else ""))
    parts = Parts(units, live_out)
    meant, placed = Reaching(parts), Reaching(parts)
    wanted = [meant.pass_unit(number, unit) for number, unit in enumerate(units)]
    _check_fences(units, order)
    _check_memory(units, order)
    for number in order:
        given = placed.pass_unit(number, units[number])
        if given != wanted[number]:
            raise MergeError(difference(units[number], parts, wanted[number], given, units.__getitem__), units[number].first.where())
    _compare_end(units, meant, placed, live_out)
    return tuple(item for number in order for item in units[number].items)


def difference(unit: Unit, parts: Parts, wanted: Sequence[Definitions | None], given: Sequence[Definitions | None],
               unit_of: Callable[[Any], Unit]) -> str:
    """What is wrong where a unit reads other definitions than wanted; `unit_of` gives the unit of a definition's name."""
    read = zip(parts.of(unit.effects.reads), wanted, given, strict=True)
    bit, want, have = next((bit, one or BEFORE, other or BEFORE) for bit, one, other in read if one != other)
    name = mask_names(1 << bit)[0]
    missing = [one for one in want if one not in have]
    strange = [one for one in have if one not in want]
    if strange and strange[-1] is not ENTRY:
        intruder = f"{_who(unit_of, strange[-1])} is placed between"
    elif missing:
        intruder = f"{_who(unit_of, missing[-1])} is placed behind it"
    else:
        intruder = f"{_who(unit_of, have[-1])} is placed last"
    return f"{unit} reads {name} from {_who(unit_of, want[-1])}, but {intruder}"


def _compare_end(units: Sequence[Unit], meant: Reaching, placed: Reaching, live_out: int) -> None:
    for bit, wanted in meant.now.items():
        given = placed.now[bit]
        if given != wanted and live_out >> bit & 1:
            name = mask_names(1 << bit)[0]
            last: Any = wanted[-1]
            where = "" if last is ENTRY else units[last].first.where()
            raise MergeError(f"behind the merged streams {name} should hold what {_who(units.__getitem__, wanted[-1])} writes, and "
                             f"{_who(units.__getitem__, given[-1])} is placed behind it", where)


def _who(unit_of: Callable[[Any], Unit], name: Any) -> str:
    return "what it held before" if name is ENTRY else described(unit_of(name))


def described(unit: Unit) -> str:
    """A unit with its author's line."""
    where = unit.first.where()
    return f"{unit} ({where})" if where else str(unit)


def _check_fences(units: Sequence[Unit], order: Sequence[int]) -> None:
    """Fences keep their order among all units; waits and priorities keep theirs in their stream."""
    highest, last_fence = -1, -1
    streams: dict[str, list[int]] = {}
    for number in order:
        unit = units[number]
        if number < last_fence or unit.effects.fence and number < highest:
            other = last_fence if number < last_fence else highest
            first, second = sorted((number, other))
            raise MergeError(f"{described(units[second])} is placed before {described(units[first])}: nothing crosses a barrier or a "
                             "branch", units[second].first.where())
        highest = max(highest, number)
        if unit.effects.fence:
            last_fence = number
        streams.setdefault(unit.stream, []).append(number)
    for numbers in streams.values():
        last = -1
        for number in numbers:
            if units[number].effects.in_place and number < last:
                raise MergeError(f"{described(units[last])} is placed before {described(units[number])}, which may not move in its stream",
                                 units[number].first.where())
            last = max(last, number)
        ahead = len(units)
        for number in reversed(numbers):
            if units[number].effects.in_place and number > ahead:
                raise MergeError(f"{described(units[ahead])} is placed after {described(units[number])}, which may not move in its stream",
                                 units[number].first.where())
            ahead = min(ahead, number)


def _check_memory(units: Sequence[Unit], order: Sequence[int]) -> None:
    position = {number: index for index, number in enumerate(order)}
    touching = [(position[unit.number], unit) for unit in units if unit.effects.memory]
    for index, (mine, first) in enumerate(touching):
        for second in [unit for at, unit in touching[index + 1:] if at < mine]:
            for access in first.effects.memory:
                other = next((other for other in second.effects.memory if access.conflicts(other)), None)
                if other is not None:
                    what = f"LDS {access.part or other.part or 'data'}" if access.space == "lds" else "global memory"
                    raise MergeError(f"{described(second)} is placed before {described(first)}, and both touch "
                                     f"{what}, one of them writing", second.first.where())


def order_of_streams(units: Sequence[Unit], names: Sequence[str]) -> list[int]:
    """The order of units that a list of stream names gives: each name takes the next unit of that stream.

    Raises MergeError for a stream that has no unit left, and if units are left over.
    """
    waiting: dict[str, list[int]] = {}
    for unit in reversed(units):
        waiting.setdefault(unit.stream, []).append(unit.number)
    order = []
    for name in names:
        if not waiting.get(name):
            raise MergeError(f"the order asks for one more unit of stream {name!r}, which has no more; streams are "
                             f"{', '.join(sorted({unit.stream for unit in units}))}")
        order.append(waiting[name].pop())
    left = {name: len(numbers) for name, numbers in waiting.items() if numbers}
    if left:
        raise MergeError("the order leaves units over: " + ", ".join(f"{count} of {name!r}" for name, count in left.items()))
    return order

