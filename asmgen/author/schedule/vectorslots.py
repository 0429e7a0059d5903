"""The slots of vector work in an interleaved step: evenly by clk, each unit after its operands have arrived.

Slot i is the gap after matrix unit i of N. Vector units keep their order. The first one stands in the first gap after the matrix units that
produce its operands; the last one stands before the first matrix unit that reads its result. Between them each gap takes the same clk, less
what other work takes there. Groups of packed f32 do not run beside a matrix instruction: a group stands at the end of a gap, and the next
unit in the next gap. Units that are `seldom` there stand as early as they may and delay only the units that read their results.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Sequence

from asmgen.author.schedule.schedules import clocks, is_matrix, is_packed, issue_clk
from asmgen.author.step.effects import Unit, depends
from asmgen.author.step.iterations import PipelineError
from asmgen.isa.waitrules import XDL_COMMIT

_GROUP = 4  # packed instructions in a row for which a gap is made longer: a choice


def vector_slots(phases: Sequence[Sequence[Unit]], stream: str, cycles: int, taken: Sequence[int] = ()) -> dict[int, int]:
    """The slots of the units of a stream, by ordinal.

    `phases` are as schedules get them, `cycles` the clk of a matrix unit, `taken` the clk that other work takes of each gap. Raises
    PipelineError if a unit has no slot in its step.
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
            raise PipelineError(f"{unit} has no slot: it reads a result of matrix unit {first}, the units before it take all slots up to "
                                f"{slot}, and its result is due in slot {last}", unit.first.where())
        found[unit.tag.ordinal] = slot
    return found


def in_groups(units: Sequence[Unit]) -> frozenset[int]:
    """The ordinals of vector units that stand at the end of a gap: packed f32 in groups."""
    runs = [list(run) for packed, run in itertools.groupby((unit for unit in units if not unit.tag.seldom), is_packed) if packed]
    return frozenset(unit.tag.ordinal for run in runs if len(run) >= _GROUP for unit in run)


def _paced(units: Sequence[Unit], grouped: frozenset[int], gaps: Sequence[int]) -> dict[int, int]:
    """Slots by the clk of the gaps. A group of packed f32 stands at the end of the gap nearest to its even position.

    The units before and after the group share the gaps on their side evenly. The group's gap has more room, as packed f32 does not issue
    right after a matrix instruction.
    """
    room = list(gaps)
    taken = {unit.tag.ordinal: 0 if unit.tag.ordinal in grouped else _clk(unit) for unit in units}
    share = sum(room) / max(1, sum(taken.values()))
    runs: list[tuple[list[Unit], int]] = []  # each with the gap at whose end it ends
    done, begin = 0, 0
    for packed, members in itertools.groupby(units, lambda unit: unit.tag.ordinal in grouped):
        run = list(members)
        if packed:
            room[max(0, begin - 1)] += clocks("packed_hazard")
        else:
            done += sum(taken[unit.tag.ordinal] for unit in run)
            begin = min(range(begin + 1, len(room) + 1), key=lambda end: abs(sum(gaps[:end]) - done * share), default=len(room))
        runs.append((run, begin))
    ends = [0, *itertools.accumulate(room)]
    found: dict[int, int] = {}
    first = 0
    for run, end in runs:
        clk, whole = 0, max(1, sum(taken[unit.tag.ordinal] for unit in run))
        for unit in run:
            position = ends[first] + clk * (ends[end] - ends[first]) / whole
            found[unit.tag.ordinal] = max(0, end - 1) if unit.tag.ordinal in grouped else min(bisect_right(ends, position), end) - 1
            clk += taken[unit.tag.ordinal]
        first = end
    return found


def _clk(unit: Unit) -> int:
    """The clk that a unit takes of its gap. A block is mostly skipped and takes the slot of a branch."""
    return clocks("slot") if unit.is_block else issue_clk(unit)


class _Bounds:
    """The first and last slots that matrix units allow for other units, over the seams to the previous and the next step."""

    def __init__(self, phases: Sequence[Sequence[Unit]], cycles: int) -> None:
        self.length = sum(map(is_matrix, phases[0]))
        # A reader that must not wait issues as many slots after the passes of the matrix unit.
        self._result = -(-(cycles + clocks("slot") * (1 + XDL_COMMIT.on("gfx950"))) // cycles)
        line = [unit for step in range(3) for unit in phases[step % len(phases)]]
        products = [position for position, unit in enumerate(line) if is_matrix(unit)]
        effects = [line[position].effects for position in products]
        self._products = [(position, slot, effect.reads, effect.writes)
                          for slot, (position, effect) in enumerate(zip(products, effects, strict=True), -self.length)]
        middle = enumerate(phases[1 % len(phases)], len(phases[0]))
        self._middle = {unit.tag.ordinal: (position, unit.effects) for position, unit in middle}

    def of(self, unit: Unit) -> tuple[int, int]:
        """The first and the last slot of a unit."""
        at, own = self._middle[unit.tag.ordinal]
        first, last = 0, 2 * self.length
        for position, slot, reads, writes in self._products:
            if writes & own.reads:
                first, last = (first, min(last, slot - 1)) if position > at else (max(first, slot + self._result), last)
            elif own.writes & (reads | writes):
                first, last = (first, min(last, slot - 1)) if position > at else (max(first, slot), last)
        return first, last
