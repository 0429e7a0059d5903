"""The dependences of a step, within a copy and over the seams to the next ones.

An edge says: in the copy `distance` after that of `before`, `after` issues at least `latency` ticks after `before`. Emission order is the
meaning, so of two units that touch one register, one of them writing, the earlier one stays the earlier one. Accesses of global memory are
ordered too. LDS that waves share is no edge here: barriers order it (`handoffs`), but a wave's own accesses of it keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from asmgen.author.schedule.unitcosts import UnitCost, UnitKind
from asmgen.author.step.effects import Unit
from asmgen.isa.registers import scc
from asmgen.program.program import Instruction

_SCC = scc.mask.bit_length() - 1
_COPIES = 3  # in which two units of neighbouring copies meet, and those of one copy between


_Copied = tuple[int, Unit]
"""A copy's number and a unit of it."""
_Note = Callable[..., None]


class Edge(NamedTuple):
    """A dependence between two ordinals; `distance` in copies, `latency` in ticks. `result`: in some phase the later unit reads what the
    earlier one writes."""

    before: int
    after: int
    latency: int
    distance: int
    result: bool = False


def dependences(phases: Sequence[Sequence[Unit]], kinds: Mapping[int, UnitKind], costs: Mapping[int, UnitCost]) -> list[Edge]:
    """The edges of a step, of any phase, each pair and distance once with its longest latency."""
    found: dict[tuple[int, int, int], int] = {}
    results: set[tuple[int, int, int]] = set()

    def note(before: _Copied, after: _Copied, latency: int, result: bool = False) -> None:
        distance = after[0] - before[0]
        if distance < _COPIES and before[1] is not after[1]:
            key = before[1].tag.ordinal, after[1].tag.ordinal, distance
            if (before[1].tag.seldom or after[1].tag.seldom) and UnitKind.MATRIX not in (kinds[key[0]], kinds[key[1]]):
                latency = 0  # a plain copy does not wait for them
            found[key] = max(latency, found.get(key, latency))
            if result:
                results.add(key)

    line = [(copy, unit) for copy in range(len(phases) + _COPIES - 1) for unit in phases[copy % len(phases)]]
    _registers(line, kinds, costs, note)
    _memory(line, kinds, note)
    return [Edge(before, after, latency, distance, (before, after, distance) in results)
            for (before, after, distance), latency in found.items()]


def _registers(line: Sequence[_Copied], kinds: Mapping[int, UnitKind], costs: Mapping[int, UnitCost], note: _Note) -> None:
    """Units that touch one register, one of them writing."""
    writer: dict[int, _Copied] = {}
    readers: dict[int, list[_Copied]] = {}
    bits: dict[int, tuple[int, ...]] = {}
    own = {id(one[1]): _reads_scc(one[1]) for one in line}
    unread = _unread_scc(line, own)
    idle: list[_Copied] = []  # those that wrote an SCC which nobody reads, since the last one that somebody reads
    for number, one in enumerate(line):
        unit = one[1]
        effects, kind = unit.effects, kinds[unit.tag.ordinal]
        asked = effects.reads if own[id(unit)] else effects.reads & ~scc.mask
        reads, writes = (_bits(bits, mask) for mask in (asked, effects.writes & ~(scc.mask if number in unread else 0)))
        if number in unread:
            for before in readers.get(_SCC, ()):
                note(before, one, 1)
            idle.append(one)
        elif effects.writes & scc.mask:
            for before in idle:
                note(before, one, 1)
            idle = []
        for before in {id(found): found for bit in reads if (found := writer.get(bit)) is not None}.values():
            waited = kinds[before[1].tag.ordinal] in (UnitKind.LDS_READ, UnitKind.LOAD)  # a wait holds their users
            note(before, one, 1 if waited else result_after(before[1], unit, kinds, costs), True)
        for before in {id(found): found for bit in writes for found in readers.get(bit, ())}.values():
            note(before, one, costs[before[1].tag.ordinal].issue)
        for before in {id(found): found for bit in writes if (found := writer.get(bit)) is not None}.values():
            late = kinds[before[1].tag.ordinal] is UnitKind.MATRIX and kind is not UnitKind.MATRIX
            note(before, one, costs[before[1].tag.ordinal].ready if late else costs[before[1].tag.ordinal].issue)
        for bit in reads:
            readers.setdefault(bit, []).append(one)
        for bit in writes:
            writer[bit] = one
            readers[bit] = [one] if bit in reads else []


def _unread_scc(line: Sequence[_Copied], own: Mapping[int, bool]) -> frozenset[int]:
    """The positions of units whose SCC is overwritten before anyone reads it. Most scalar instructions write one; they need no order among
    themselves."""
    found = set()
    read = False  # nobody reads an SCC over the end of a copy
    for number in reversed(range(len(line))):
        unit = line[number][1]
        if unit.effects.writes & scc.mask:
            if not read and not own[id(unit)]:
                found.add(number)
            read = False
        read |= own[id(unit)]
    return frozenset(found)


def _reads_scc(unit: Unit) -> bool:
    """Whether a unit reads an SCC from before it. In a block, each read without a write before it in the same straight code may."""
    written = False
    for item in unit.items:
        if not isinstance(item, Instruction):
            written = False
            continue
        if item.reads & scc.mask and not written:
            return True
        written = (written or bool(item.writes & scc.mask)) and not item.is_branch
    return False


def result_after(before: Unit, after: Unit, kinds: Mapping[int, UnitKind], costs: Mapping[int, UnitCost]) -> int:
    """The ticks from the issue of a unit to that of one that reads its result."""
    cost = costs[before.tag.ordinal]
    both = kinds[before.tag.ordinal] is kinds[after.tag.ordinal] is UnitKind.MATRIX
    chained = both and before.effects.writes == after.effects.writes and before.first.name == after.first.name
    return cost.chained if chained else cost.ready


def _memory(line: Sequence[_Copied], kinds: Mapping[int, UnitKind], note: _Note) -> None:
    """Accesses of one memory that may not be reordered. A wave's own LDS accesses run in order, so that a tick apart is enough. Fills stand
    between barriers."""
    touching = [(one, access) for one in line if kinds[one[1].tag.ordinal] is not UnitKind.FILL for access in one[1].effects.memory]
    for number, (before, access) in enumerate(touching):
        for after, other in touching[number + 1:]:
            if after[0] - before[0] < _COPIES and access.conflicts(other):
                note(before, after, 1)


def _bits(known: dict[int, tuple[int, ...]], mask: int) -> tuple[int, ...]:
    found = known.get(mask)
    if found is None:
        bits, left = [], mask
        while left:
            low = left & -left
            bits.append(low.bit_length() - 1)
            left ^= low
        found = known[mask] = tuple(bits)
    return found
