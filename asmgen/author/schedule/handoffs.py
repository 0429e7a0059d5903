"""Where LDS changes hands in a step, and the barriers for it. All that places barriers or leaves them out asks here.

Waves read what all of them wrote. So between a write and a read of those bytes stand barriers, after the write has settled; and between
a read and the write that refills the bytes stand barriers, after the read's data have arrived: one, and one more for each by which half of
the waves run late (`barriers_apart`).

- Of a step: `handoffs`, with their distances in copies. Schedules place the barriers of a steady step by them. A *hold* is a stretch of
  time within which one of the step's barriers must stand, for accesses whose times are known. A fill is free to move: each set of barriers
  gives it a range (`barrierchoice`). Times are ticks; those of an access lie in its copy, or before it where the access leads.
- Of straight code, prologues and drains: `ordering_barriers` are those that must stay, `barriers_missing` how many a seam lacks.
- Of a wave that leaves early: `read_by_others` is what the other waves read after each of its barriers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import NamedTuple

from asmgen.author.schedule.schedules import Sync
from asmgen.author.step.effects import MemoryAccess, Unit
from asmgen.program.program import TokenUse

Entries = Sequence[Sync | Unit]
BARRIER = Sync("barrier")


def barriers_apart(stagger: int) -> int:
    """The barriers from a wave's wait, for its fill or its read, to the access of another wave, if half of the waves run `stagger` barriers
    late."""
    return 1 + stagger


class Handoff(NamedTuple):
    """A write of LDS and a read of the same bytes, ordinals, the read `copies` after the write. `fresh`: the read wants what is written;
    else it is the last one of the old bytes, and `copies` is negative or 0."""

    write: int
    read: int
    copies: int
    fresh: bool


def handoffs(phases: Sequence[Sequence[Unit]], offsets: Mapping[int, int]) -> list[Handoff]:
    """The handoffs of a step in any phase: for each write the nearest reads of each kind."""
    steps = 2 * len(phases) + 4
    reads: list[tuple[int, int, int, MemoryAccess]] = []
    writes: list[tuple[int, int, int, MemoryAccess]] = []
    for step in range(steps):
        for unit in phases[step % len(phases)]:
            index = step + offsets[unit.tag.ordinal]
            for access in unit.effects.memory:
                if access.space == "lds":
                    (writes if access.write else reads).append((step, index, unit.tag.ordinal, access))
    found: dict[tuple[int, int, bool], int] = {}
    for step, index, write, access in writes:
        if not len(phases) <= step - 2 < 2 * len(phases):
            continue
        for other_step, other_index, read, reading in reads:
            if reading.low < access.high and access.low < reading.high and other_index <= index:
                key = write, read, other_index == index
                copies = other_step - step
                nearest = min if key[2] else max
                found[key] = nearest(found.get(key, copies), copies)
    return [Handoff(write, read, copies, fresh) for (write, read, fresh), copies in found.items()]


def reads_lds(unit: Unit) -> bool:
    """Whether it reads bytes of LDS that others may have filled."""
    return any(use.action == "read" for instruction in unit.instructions for use in instruction.tokens)


def fills_lds(unit: Unit) -> bool:
    """Whether it fills bytes of LDS that others may read."""
    return any(use.action == "write" for instruction in unit.instructions for use in instruction.tokens)


def barriers_missing(early: Iterable[Sync | Unit], following: Entries, count: int) -> int:
    """The number of barriers that step 0, which follows, lacks before it refills the bytes of reads that stand before it, of `count`. In a
    loop the barriers at the end of the previous copy serve."""
    reads = [access for unit in early if isinstance(unit, Unit) for access in unit.effects.memory]
    needed, passed = 0, 0
    for entry in following:
        if isinstance(entry, Sync):
            passed += entry == BARRIER
        elif fills_lds(entry) and any(access.conflicts(other) for access in entry.effects.memory for other in reads):
            needed = max(needed, count - passed)
    return needed


class Ordering(NamedTuple):
    """The positions of the barriers that must stay, and, of those before which a wave waits for fills by DMA, how many vector memory
    instructions may be in flight then."""

    barriers: set[int]
    waits: Mapping[int, int]


def ordering_barriers(entries: Entries, count: int, waits: Mapping[int, int] = MappingProxyType({}),
                      stays: Set[int] = frozenset()) -> Ordering:
    """The last `count` barriers before each first access of LDS bytes, without those where others that stay order the access too
    (`_Ordered`). `waits` are those that stand there anyway, as other code that leads there needs them; the barriers in `stays` do too.

    If all entries since the opening are known, with `count` barriers before it, those barriers order the first access of all.
    """
    found: set[int] = set()
    barriers: list[int] = []
    done: list[MemoryAccess] = []  # accesses that order later ones too
    before: list[MemoryAccess] = []
    ordered = _Ordered(found, waits)
    known = False
    for position, entry in enumerate(entries):
        if isinstance(entry, Sync):
            if entry == BARRIER:
                barriers.append(position)
                ordered.meet(position)
                if position in stays:
                    found.add(position)
            known |= entry.kind == "open" and len(barriers) >= count
            continue
        ordered.use(entry, position)
        for access in entry.effects.memory:
            if access.space != "lds":
                continue
            if not access.part:
                found.update(barriers)
            elif not any(_covers(other, access) for other in done):
                done = [*(other for other in done if not access.conflicts(other)), access]
                if (not known or any(access.conflicts(other) for other in before)) and not ordered.by_others(access, count):
                    found.update(barriers[-count:])
                    ordered.by(access, barriers[-count:][:1])
                before.append(access)
            ordered.note(access, position, entry)
    return Ordering(found, ordered.waits())


class _Ordered:
    """What the barriers that stay, `found`, order of straight code.

    A refill of bytes that were read needs any barrier after the read, as the data of reads are there long before. A read of what was filled
    needs `count` after a wait for the fill: the last ones before the read, or earlier ones for which a wave waits for a later fill of the
    same kind anyway, so that no wait moves up. Once a wave has used the data of a DS instruction, all of its DS instructions before are
    done.
    """

    def __init__(self, found: Set[int], waits: Mapping[int, int]) -> None:
        self._found, self._waits = found, waits
        self._vector: list[int] = []  # positions of vector memory instructions
        self._last: dict[MemoryAccess, tuple[int, bool]] = {}  # position, and whether a DS instruction
        self._settled: dict[tuple[int, bool], int] = {}  # by barrier and kind, the last fill that is waited for
        self._coming: list[tuple[int, int]] = []  # DS instructions whose data nobody has used yet, with the registers
        self._come = -1  # the last DS instruction that is done, as its data or those of a later one were used

    def by_others(self, access: MemoryAccess, count: int) -> bool:
        """Whether `count` barriers that stay order an access; of a refill after reads it is known where one barrier is enough."""
        prior = self._prior(access)
        if prior is None or not prior[0].write:
            begin = -1 if prior is None else prior[1]
            return count == 1 and access.write and any(barrier > begin for barrier in self._found)
        _, at, kind = prior
        return any(barrier > at and self._settled.get((barrier, kind), -1) >= at and sum(other >= barrier for other in self._found) >= count
                   for barrier in self._found)

    def by(self, access: MemoryAccess, barriers: Sequence[int]) -> None:
        """The barrier, if any, is the first of those that order an access from now on: waves wait for its data before it."""
        prior = self._prior(access)
        if prior is not None and prior[0].write:
            for barrier in barriers:
                self._settled[barrier, prior[2]] = max(prior[1], self._settled.get((barrier, prior[2]), -1))

    def use(self, unit: Unit, position: int) -> None:
        """The unit stands there, and waits for the data that it touches; a block that may be skipped waits for none."""
        self._vector += [position] * sum(one.opcode.vmcnt for one in unit.instructions)
        ds = unit.first.name.startswith("ds_")  # data of DS instructions come in order, so they overwrite each other's
        touched = 0 if unit.is_block else unit.effects.reads | (0 if ds else unit.effects.writes)
        self._come = max([self._come, *(at for at, mask in self._coming if mask & touched)])
        self._coming = [(at, mask) for at, mask in self._coming if at > self._come]
        if ds and unit.effects.writes:
            self._coming.append((position, unit.effects.writes))

    def meet(self, barrier: int) -> None:
        """A barrier stands there."""
        self._settled[barrier, True] = self._come
        done = len(self._vector) - self._waits.get(barrier, len(self._vector))
        if done > 0:
            self._settled[barrier, False] = self._vector[done - 1]

    def waits(self) -> dict[int, int]:
        """How many vector memory instructions may be in flight at each barrier before which there is a wait for fills by DMA."""
        return {barrier: sum(at < one < barrier for one in self._vector) for (barrier, ds), at in self._settled.items() if not ds}

    def note(self, access: MemoryAccess, position: int, unit: Unit) -> None:
        """The access stands there."""
        self._last[access] = position, unit.first.name.startswith("ds_")

    def _prior(self, access: MemoryAccess) -> tuple[MemoryAccess, int, bool] | None:
        conflicts = ((other, *where) for other, where in self._last.items() if access.conflicts(other))
        return max(conflicts, key=lambda one: one[1], default=None)


def _covers(one: MemoryAccess, other: MemoryAccess) -> bool:
    """Whether the barriers that order one access order the other, later one too."""
    return one.low <= other.low and other.high <= one.high and not one.conflicts(other)


def read_by_others(entries: Entries, own: Set[int]) -> dict[int, tuple[TokenUse, ...]]:
    """The bytes of LDS that units read after each barrier and before the next one, by the barrier's position; without the units at the
    positions `own`, which the wave runs itself."""
    found: dict[int, dict[TokenUse, None]] = {}
    for position, entry in enumerate(entries):
        if isinstance(entry, Sync):
            if entry == BARRIER:
                found[position] = {}
        elif found and position not in own:
            found[max(found)] |= {use: None for instruction in entry.instructions for use in instruction.tokens}
    return {position: tuple(uses) for position, uses in found.items() if uses}
