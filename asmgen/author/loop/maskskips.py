"""Masked operations that a prologue skips: one branch around those of a stage, if the first iterations need none.

The steady schedule spreads these operations over the stage. Here they stand together at the first one's position, so that a wave which
needs none loses no time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import or_

from asmgen.author.schedule.schedules import Sync
from asmgen.author.step.effects import Unit, depends
from asmgen.isa.registers import Reg, scc

Entries = Sequence[Sync | Unit]


def skipping(entries: Entries, labels: list[str], fresh: Callable[[str], str], counters: Iterable[Reg]) -> list[Sync | Unit]:
    """A copy with Sync("skip") and Sync("skipped") around the masked units of each stage, their levels being numbers in `labels`, which
    gets a new label for each. The units that count iterations (in `counters`) always run. A stage stays as it is where its masked units
    cannot stand together, or where another unit still reads the SCC of that position.
    """
    counting = reduce(or_, (register.mask for register in counters), 0)
    found = list(entries)
    stages = dict.fromkeys(entry.tag.stage for entry in entries if isinstance(entry, Unit) and _skipped(entry, counting))
    for stage in stages:
        mine = [at for at, entry in enumerate(found) if isinstance(entry, Unit) and entry.tag.stage == stage and _skipped(entry, counting)]
        rest = [entry for at, entry in enumerate(found[mine[0]:], mine[0]) if at not in mine]
        if _pass(found, mine) or _held(rest):
            continue
        labels.append(fresh("unmasked"))
        number = len(labels) - 1
        found = [*found[:mine[0]], Sync("skip", number), *(found[at] for at in mine), Sync("skipped", number), *rest]
    return found


def _skipped(unit: Unit, counting: int) -> bool:
    return unit.tag.condition == "masked" and not unit.effects.writes & counting


def _pass(entries: Entries, mine: Sequence[int]) -> bool:
    """Whether the units at these positions, put together at the first one, would pass a unit that they depend on."""
    for at in mine:
        unit = entries[at]
        for position in range(mine[0], at):
            other = entries[position]
            if position not in mine and isinstance(other, Unit) and isinstance(unit, Unit) and depends(unit, other):
                return True
    return False


def _held(entries: Entries) -> bool:
    """Whether a unit reads an SCC that none of these entries has written before."""
    for entry in entries:
        if isinstance(entry, Unit):
            if entry.effects.reads & scc.mask:
                return True
            if entry.effects.writes & scc.mask:
                return False
    return False
