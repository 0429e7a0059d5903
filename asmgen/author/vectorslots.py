"""Which windows of an interleaved step its vector work stands in: evenly by clk, and not before what it wants is there.

Slot i is the window behind matrix unit i of N. Vector units keep their order. The first stands in the first window whose matrix units
have given it its data, the last before the first that wants its result; between them a window takes so many clk as the whole step needs
of each. What is seldom there stands as early as it may, and keeps up only what wants it.
"""

from __future__ import annotations

from collections.abc import Sequence

from asmgen.author.effects import Unit, depends
from asmgen.author.schedules import is_matrix, issue_clk
from asmgen.author.steps import PipelineError

_RESULT = 64  # clk from a matrix unit of 32 clk to who may read its result without waiting: 16 passes and the wait states behind them


def is_transcendental(unit: Unit) -> bool:
    """Whether a unit is one instruction that holds the vector port for twice as long as others."""
    return not unit.is_block and "trans" in unit.first.opcode.classes


def vector_slots(phases: Sequence[Sequence[Unit]], stream: str, cycles: int) -> dict[int, int]:
    """The slots of the units of a stream, by ordinal; `cycles` are clk of a matrix unit, `phases` as schedules get them.

    Raises PipelineError where a unit has no slot in its step.
    """
    units = [unit for unit in phases[0] if stream and unit.stream == stream and not is_matrix(unit)]
    if not units:
        return {}
    bounds = _Bounds(phases, cycles)
    total = sum(map(issue_clk, units))
    done, slot, apart = 0, 0, 0
    found: dict[int, int] = {}
    seldom: list[Unit] = []
    for unit in units:
        first, last = bounds.of(unit)
        if unit.tag.seldom:
            apart = found[unit.tag.ordinal] = max(slot, apart, first)
            seldom.append(unit)
            continue
        wanted = [found[other.tag.ordinal] for other in seldom if depends(unit, other)]
        slot = max(slot, first, done * bounds.length // max(1, total), *wanted)
        if slot > min(last, bounds.length - 1):
            raise PipelineError(f"{unit} has no slot: it wants what matrix unit {first} gives, what is before it takes until slot {slot}, "
                                f"and its result is due in slot {last}", unit.first.where())
        found[unit.tag.ordinal] = slot
        done += issue_clk(unit)
    return found


class _Bounds:
    """The first and last slots that matrix units leave to others, over the seams to the steps before and behind."""

    def __init__(self, phases: Sequence[Sequence[Unit]], cycles: int) -> None:
        self.length = sum(map(is_matrix, phases[0]))
        self._result = -(-_RESULT // cycles)
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
