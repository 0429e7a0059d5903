"""Where the scalar code at the end of a copy stands: it advances the sources and counts steps.

It stands before the last unit, so that the branch of a loop follows that unit. Beside matrix instructions each scalar instruction takes a
gap of its own, between two of them where nothing else stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from asmgen.author.schedule.schedules import Sync, is_matrix
from asmgen.author.step.effects import Unit
from asmgen.isa.registers import scc

Entries = Sequence[Sync | Unit]


def end_positions(entries: Entries, count: int, follows: Callable[[Unit], bool]) -> list[int]:
    """The entries before which `count` scalar instructions stand, in order; the number of entries stands for the copy's end.

    They change SCC. `follows` says of a unit that it reads a source's offset.
    """
    last = max((position for position, entry in enumerate(entries) if isinstance(entry, Unit)), default=len(entries))
    final = entries[last] if last < len(entries) else None
    # They stand after all units if the last one changes SCC, is a block or still reads a source's offset.
    if not isinstance(final, Unit) or final.effects.writes & scc.mask or final.is_block or follows(final):
        return [len(entries)] * count
    last = _before_vector_work(entries, last, follows)
    # A cold block that copies share ends with comparisons: nothing tests an SCC from before it.
    last = max([last, *(position + 1 for position, entry in enumerate(entries) if isinstance(entry, Unit) and entry.tag.cold)])
    gaps = _gaps(entries, last, follows)
    gaps = gaps[max(0, len(gaps) - count):]
    return [*gaps, *[last] * (count - len(gaps))]


def _gaps(entries: Entries, last: int, follows: Callable[[Unit], bool]) -> list[int]:
    """The positions of matrix units up to `last` with another one right before each, after all that the scalar code must follow."""
    found: list[int] = []
    for position in range(last, 0, -1):
        one, before = entries[position], entries[position - 1]
        if isinstance(one, Unit) and isinstance(before, Unit) and is_matrix(one) and is_matrix(before):
            found.append(position)
        if isinstance(before, Unit) and (before.is_block or follows(before) or (before.effects.reads | before.effects.writes) & scc.mask):
            break
    return found[::-1]


def _before_vector_work(entries: Entries, last: int, follows: Callable[[Unit], bool]) -> int:
    """The position of the last unit of the previous memory stage, if the last stage has vector work: its gaps then have no room."""
    units = [(position, entry) for position, entry in enumerate(entries) if isinstance(entry, Unit)]
    stage = units[-1][1].tag.stage
    mine = [unit for _, unit in units if unit.tag.stage == stage]
    if not any(is_matrix(unit) for unit in mine) or all(is_matrix(unit) for unit in mine):
        return last
    for position, unit in reversed(units):
        if follows(unit) or (unit.effects.writes | unit.effects.reads) & scc.mask:
            break
        if unit.tag.stage != stage and not unit.is_block:
            return position
    return last
