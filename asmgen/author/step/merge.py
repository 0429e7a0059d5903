"""Merging streams: units in a given order become placed code if each read still gets the definition that emission order gives it.

*Emission order over all streams together is the meaning.* The definitions that reach a read of a register (SCC, VCC, EXEC and M0 too) must
be those of emission order. Accesses of the same memory, one of them a write, keep their order. Overwriting after a read is an edge, not an
error. Merge refuses an order that breaks this, with the lines of reader, definition and intruder.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from operator import or_

from asmgen.author.step.effects import Unit
from asmgen.isa.errors import AsmgenError
from asmgen.isa.registers import SGPR_BIT, exec_, mask_names
from asmgen.program.program import Item

_ENTRY = -1
_BEFORE = (_ENTRY,)
_EXEC_BITS = tuple(SGPR_BIT + exec_.index + half for half in range(2))
Definitions = tuple[int, ...]
"""The units whose writes a register may hold, oldest first; -1 is the value before all units."""


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
    parts = _Parts(units, live_out)
    meant = _Reaching(units, parts)
    placed = _Reaching(units, parts)
    for number in range(len(units)):
        meant.pass_unit(number)
    _check_fences(units, order)
    _check_memory(units, order)
    for number in order:
        placed.pass_unit(number)
        _compare(units, number, meant, placed)
    _compare_end(units, meant, placed, live_out)
    return tuple(item for number in order for item in units[number].items)


class _Parts:
    """The registers in sets that no unit divides, each named by its lowest bit. Definitions are kept once for each set."""

    def __init__(self, units: Sequence[Unit], live_out: int) -> None:
        masks = {mask for unit in units for mask in (unit.effects.reads, unit.effects.writes, unit.effects.masked)}
        masks.update(1 << bit for bit in _EXEC_BITS)
        every = functools.reduce(or_, masks)
        masks.add(live_out & every)
        inside: dict[int, list[int]] = {}  # the masks that hold a register, by number: the same for all registers of a set
        for number, mask in enumerate(masks):
            for bit in _bits(mask):
                inside.setdefault(bit, []).append(number)
        lowest: dict[tuple[int, ...], int] = {}
        self._part = {bit: lowest.setdefault(tuple(inside[bit]), bit) for bit in _bits(every)}
        self._of: dict[int, tuple[int, ...]] = {}

    def of(self, mask: int) -> tuple[int, ...]:
        """The sets of a unit's mask, lowest first, by the numbers of their lowest bits."""
        found = self._of.get(mask)
        if found is None:
            found = self._of[mask] = tuple([bit for bit in _bits(mask) if self._part[bit] == bit])
        return found


def _bits(mask: int) -> list[int]:
    """The numbers of a mask's bits, lowest first."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


class _Reaching:
    """Reaching definitions, unit by unit: `at[n]` are those of the register sets that unit n reads, `now` those after the last unit.

    A vector write ends the definitions that were made under the same definition of EXEC; if EXEC is known to be full, it ends all of
    them. Other definitions may still hold some lanes.
    """

    def __init__(self, units: Sequence[Unit], parts: _Parts) -> None:
        self.units, self.parts = units, parts
        self.now: dict[int, Definitions] = {}
        self.at: dict[int, list[Definitions]] = {}
        self.under: tuple[Definitions, ...] = (_BEFORE, _BEFORE)  # the definitions of EXEC
        self.full = False
        self.exec_of: dict[int, tuple[Definitions, ...]] = {}

    def pass_unit(self, number: int) -> None:
        effects = self.units[number].effects
        now = self.now
        self.at[number] = [now.get(bit, _BEFORE) for bit in self.parts.of(effects.reads)]
        under = self.exec_of[number] = self.under
        masked = 0 if self.full else effects.masked
        alone = (number,)
        for bit in self.parts.of(effects.writes):
            if effects.keeps:
                now[bit] = (*now.get(bit, _BEFORE), number)
            elif masked >> bit & 1:
                now[bit] = (*[other for other in now.get(bit, _BEFORE) if other == _ENTRY or self.exec_of[other] != under], number)
            else:
                now[bit] = alone
        if effects.writes & exec_.mask:
            self.under = (now.get(_EXEC_BITS[0], _BEFORE), now.get(_EXEC_BITS[1], _BEFORE))
            self.full = self._full(self.under)

    def _full(self, under: tuple[Definitions, ...]) -> bool:
        low, high = under
        if low != high or len(low) != 1 or low[0] == _ENTRY:
            return False
        unit = self.units[low[0]]
        return not unit.is_block and unit.first.name == "s_mov_b64" and unit.first.operands[1] == -1


def _compare(units: Sequence[Unit], number: int, meant: _Reaching, placed: _Reaching) -> None:
    if meant.at[number] == placed.at[number]:
        return
    read = zip(meant.parts.of(units[number].effects.reads), meant.at[number], placed.at[number], strict=True)
    bit, wanted, given = next(one for one in read if one[1] != one[2])
    raise MergeError(_sentence(units, units[number], bit, wanted, given), units[number].first.where())


def _compare_end(units: Sequence[Unit], meant: _Reaching, placed: _Reaching, live_out: int) -> None:
    for bit, wanted in meant.now.items():
        given = placed.now[bit]
        if given != wanted and live_out >> bit & 1:
            name = mask_names(1 << bit)[0]
            raise MergeError(f"behind the merged streams {name} should hold what {_who(units, wanted[-1])} writes, and "
                             f"{_who(units, given[-1])} is placed behind it", units[wanted[-1]].first.where() if wanted[-1] >= 0 else "")


def _sentence(units: Sequence[Unit], reader: Unit, bit: int, wanted: Definitions, given: Definitions) -> str:
    name = mask_names(1 << bit)[0]
    missing = [number for number in wanted if number not in given]
    strange = [number for number in given if number not in wanted]
    if strange and strange[-1] != _ENTRY:
        intruder = f"{_who(units, strange[-1])} is placed between"
    elif missing:
        intruder = f"{_who(units, missing[-1])} is placed behind it"
    else:
        intruder = f"{_who(units, given[-1])} is placed last"
    return f"{reader} reads {name} from {_who(units, wanted[-1])}, but {intruder}"


def _who(units: Sequence[Unit], number: int) -> str:
    if number == _ENTRY:
        return "what it held before"
    unit = units[number]
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
            raise MergeError(f"{_who(units, second)} is placed before {_who(units, first)}: nothing crosses a barrier or a branch",
                             units[second].first.where())
        highest = max(highest, number)
        if unit.effects.fence:
            last_fence = number
        streams.setdefault(unit.stream, []).append(number)
    for numbers in streams.values():
        last = -1
        for number in numbers:
            if units[number].effects.in_place and number < last:
                raise MergeError(f"{_who(units, last)} is placed before {_who(units, number)}, which may not move in its stream",
                                 units[number].first.where())
            last = max(last, number)
        ahead = len(units)
        for number in reversed(numbers):
            if units[number].effects.in_place and number > ahead:
                raise MergeError(f"{_who(units, ahead)} is placed after {_who(units, number)}, which may not move in its stream",
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
                    raise MergeError(f"{_who(units, second.number)} is placed before {_who(units, first.number)}, and both touch "
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

