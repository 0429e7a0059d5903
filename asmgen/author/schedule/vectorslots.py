"""Which windows of an interleaved step its vector work stands in: evenly by clk, and not before what it wants is there.

Slot i is the window behind matrix unit i of N. Vector units keep their order. The first stands in the first window whose matrix units
have given it its data, the last before the first that wants its result; between them a window takes so many clk as the whole step needs
of each, less what other work takes there. Packed f32 in numbers, which no product covers, stands at a window's end, and what follows it
in the next one. What is seldom there stands as early as it may, and keeps up only what wants it.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Sequence

from asmgen.author.schedule.schedules import clocks, is_matrix, is_packed, issue_clk
from asmgen.author.step.effects import Unit, depends
from asmgen.author.step.iterations import PipelineError
from asmgen.isa.waitrules import XDL_COMMIT

_GROUP = 4  # packed instructions in a row for which a window is made longer: a choice


def vector_slots(phases: Sequence[Sequence[Unit]], stream: str, cycles: int, taken: Sequence[int] = ()) -> dict[int, int]:
    """The slots of the units of a stream, by ordinal; `cycles` are clk of a matrix unit, `phases` as schedules get them, `taken` what other
    work takes of each window, in clk.

    Raises PipelineError where a unit has no slot in its step.
    """
    units = [unit for unit in phases[0] if stream and unit.stream == stream and not is_matrix(unit)]
    if not units:
        return {}
    bounds = _Bounds(phases, cycles)
    grouped = in_groups(units)
    paced = _paced([unit for unit in units if not unit.tag.seldom], grouped,
                   [max(1, cycles - clocks("mfma_operand_read") - clk) for clk in taken or [0] * bounds.length])
    slot, apart, packed = 0, 0, -1
    found: dict[int, int] = {}
    seldom: list[Unit] = []
    for unit in units:
        first, last = bounds.of(unit)
        if unit.tag.seldom:
            apart = found[unit.tag.ordinal] = max(slot, apart, first)
            seldom.append(unit)
            continue
        wanted = [found[other.tag.ordinal] for other in seldom if depends(unit, other)]
        group = unit.tag.ordinal in grouped
        slot = max(slot if group or slot > packed else slot + 1, first, paced[unit.tag.ordinal], *wanted)
        packed = slot if group else packed
        if slot > min(last, bounds.length - 1):
            raise PipelineError(f"{unit} has no slot: it wants what matrix unit {first} gives, what is before it takes until slot {slot}, "
                                f"and its result is due in slot {last}", unit.first.where())
        found[unit.tag.ordinal] = slot
    return found


def in_groups(units: Sequence[Unit]) -> frozenset[int]:
    """The ordinals of vector units that stand at a window's end: packed f32, where it comes in numbers."""
    runs = [list(run) for packed, run in itertools.groupby((unit for unit in units if not unit.tag.seldom), is_packed) if packed]
    return frozenset(unit.tag.ordinal for run in runs if len(run) >= _GROUP for unit in run)


def _paced(units: Sequence[Unit], grouped: frozenset[int], windows: Sequence[int]) -> dict[int, int]:
    """Slots by the clk that windows have. A group of packed f32 stands at the end of the window nearest to where it would, and what is
    before and behind it shares its own windows evenly; that one has more room, as packed f32 does not follow a product at once."""
    room = list(windows)
    taken = {unit.tag.ordinal: 0 if unit.tag.ordinal in grouped else _clk(unit) for unit in units}
    share = sum(room) / max(1, sum(taken.values()))
    runs: list[tuple[list[Unit], int]] = []  # up to which window, at its end
    done, begin = 0, 0
    for packed, members in itertools.groupby(units, lambda unit: unit.tag.ordinal in grouped):
        run = list(members)
        if packed:
            room[max(0, begin - 1)] += clocks("packed_hazard")
        else:
            done += sum(taken[unit.tag.ordinal] for unit in run)
            begin = min(range(begin + 1, len(room) + 1), key=lambda end: abs(sum(windows[:end]) - done * share), default=len(room))
        runs.append((run, begin))
    ends = [0, *itertools.accumulate(room)]
    found: dict[int, int] = {}
    first = 0
    for run, end in runs:
        clk, whole = 0, max(1, sum(taken[unit.tag.ordinal] for unit in run))
        for unit in run:
            place = ends[first] + clk * (ends[end] - ends[first]) / whole
            found[unit.tag.ordinal] = max(0, end - 1) if unit.tag.ordinal in grouped else min(bisect_right(ends, place), end) - 1
            clk += taken[unit.tag.ordinal]
        first = end
    return found


def _clk(unit: Unit) -> int:
    """What a unit takes of its window; a block that is mostly skipped, a branch's slot."""
    return clocks("slot") if unit.is_block else issue_clk(unit)


class _Bounds:
    """The first and last slots that matrix units leave to others, over the seams to the steps before and behind."""

    def __init__(self, phases: Sequence[Sequence[Unit]], cycles: int) -> None:
        self.length = sum(map(is_matrix, phases[0]))
        # Whoever reads a result without waiting issues as many slots behind the passes of its matrix unit.
        self._result = -(-(cycles + clocks("slot") * (1 + XDL_COMMIT.on("gfx950"))) // cycles)
        line = [unit for step in range(3) for unit in phases[step % len(phases)]]
        products = [place for place, unit in enumerate(line) if is_matrix(unit)]
        effects = [line[place].effects for place in products]
        self._products = [(place, slot, effect.reads, effect.writes)
                          for slot, (place, effect) in enumerate(zip(products, effects, strict=True), -self.length)]
        self._middle = {unit.tag.ordinal: (len(phases[0]) + place, unit.effects) for place, unit in enumerate(phases[1 % len(phases)])}

    def of(self, unit: Unit) -> tuple[int, int]:
        """The first and the last slot of a unit."""
        at, own = self._middle[unit.tag.ordinal]
        first, last = 0, 2 * self.length
        for place, slot, reads, writes in self._products:
            if writes & own.reads:
                first, last = (first, min(last, slot - 1)) if place > at else (max(first, slot + self._result), last)
            elif own.writes & (reads | writes):
                first, last = (first, min(last, slot - 1)) if place > at else (max(first, slot), last)
        return first, last
