"""LDS bytes that one wave may still read or write while another one, after a barrier, writes or reads them; without tokens.

A barrier orders what each wave has waited for before it. An access that is in flight as its wave passes a barrier (an LDS read or write
on lgkmcnt, a load into LDS on vmcnt) lives on into what stands after it, where other waves touch LDS. Two accesses of different waves,
one of them a write, to the same bytes race there. Waves that run n barriers late (`wavegroups`) meet what stands n barriers further
on; there, too few barriers race even where all is waited for.

LDS operations of one wave keep their order, so that what a wave does to its own bytes is no race (docs/facts/instructions.md section 4,
with what hardware made of such races). Addresses are those that follow from
constants and the number of the work-item (`ldslocations`); where they do not, nobody knows, and a note says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from asmgen.checks.counters.ledger import Ledger, Operation
from asmgen.isa.opcode import is_lds_dma
from asmgen.isa.records import cached_property, dataclass
from asmgen.program.controlflow import ControlFlow
from asmgen.program.program import Instruction, Program

if TYPE_CHECKING:
    from asmgen.checks.barrierraces.ldslocations import LdsBytes, LdsLocations
    from asmgen.checks.wavegroups.wavegroups import WaveGroups

READ, WRITE, ATOMIC = "read", "write", "atomic"
_VERBS = {READ: "read", WRITE: "write", ATOMIC: "change"}
_STILL = frozenset({"s_barrier", "s_branch", "s_nop", "s_waitcnt", "s_setprio"})
"""What a block may hold that waves pass only to run late by a barrier."""


@dataclass(frozen=True)
class LdsRace:
    """The accesses at positions `first` are in flight as their wave passes the barrier at position `at`, after which and `distance` more
    barriers other waves do what stands at `second`. Without `flying` all is waited for, and `distance` more barriers are too few.

    `waves` is a pair of waves that touch the same bytes of LDS there, `bytes` those bytes (None: the places are not known). It is an
    error where there is no `doubt`. `newer` operations of their counter were issued after all that is in flight.
    """

    first: tuple[int, ...]
    second: int
    at: int
    distance: int
    bytes: LdsBytes | None
    waves: tuple[int, int] = (0, 0)
    doubt: str = ""
    flying: bool = True
    newer: int = 0


def race_sentence(race: LdsRace, program: Program, kinds: Mapping[int, str], wait: str) -> str:
    """A race in words; `wait` is what would let the accesses arrive."""
    instructions = program.instructions
    first, last, second = (instructions[position] for position in (race.first[0], race.first[-1], race.second))
    shown = f"{last.text}{placed(last)}"
    if len(race.first) > 1:
        shown = f"{len(race.first)} LDS operations, {first.text} to {shown},"
    there = f"{second.text}{placed(second)}"
    more = f" and {race.distance} more" if race.distance else ""
    if race.bytes is None:
        return f"LDS reads are in flight at this barrier ({shown.rstrip(',')}): after it{more} other waves {_VERBS[kinds[race.second]]} " \
               f"LDS ({there}), where is not known; if these are the same bytes, {wait} belongs before the barrier"
    does, did = _VERBS[kinds[race.second]], _VERBS[kinds[race.first[-1]]]
    doubt = f" ({race.doubt})" if race.doubt else ""
    one, two = race.waves
    if race.flying:
        return f"{shown} may still {did} LDS bytes {race.bytes} for wave {one} as it passes this barrier, after which{more} wave {two} " \
               f"may {does} them by {there}{doubt}: {wait} belongs before the barrier"
    return f"{second.text} may {does} LDS bytes {race.bytes} for wave {two} while wave {one}, {race.distance + 1} " \
           f"barrier{'s' * (race.distance > 0)} late, may {did} them by {last.text}{placed(last)}{doubt}: {race.distance + 2} barriers " \
           f"must stand between"


def placed(instruction: Instruction) -> str:
    """Where an instruction stands, as a clause."""
    return f" ({instruction.where()})" if instruction.where() else ""


@dataclass(frozen=True)
class _Interval:
    """What is touched after a barrier up to the next ones on any path, by position."""

    accesses: frozenset[int]
    barriers: frozenset[int]


def lds_kinds(program: Program) -> dict[int, str]:
    """The instructions that touch LDS without a token, by position: READ, WRITE (loads into LDS too) or ATOMIC."""
    found = {}
    for position, instruction in enumerate(program.instructions):
        row = instruction.opcode.memory
        if row is None or instruction.tokens or instruction.waits == "off":
            continue
        if row.space == "lds":
            found[position] = {"load": READ, "store": WRITE}.get(row.kind, ATOMIC)
        elif is_lds_dma(instruction.opcode, instruction.form):
            found[position] = WRITE
    return found


class LdsRaces:
    """The races of a program. `crossing` is told what is in flight at each barrier, `found` judges. `places` are asked for only where two
    accesses may meet; `kinds` as `lds_kinds`, `sections` say which accesses one wait lets arrive."""

    def __init__(self, program: Program, flow: ControlFlow, operations: Sequence[Operation], kinds: Mapping[int, str],
                 sections: Sequence[int], locations: Callable[[], LdsLocations]) -> None:
        self._program, self._flow, self._operations = program, flow, operations
        self._kinds, self._sections = kinds, sections
        self._ask = locations
        self._crossing: dict[int, dict[int, int]] = {}  # by barrier what is in flight, with how many newer operations
        self._events = [[position for position in range(block.first, block.last + 1)
                         if operations[position].barrier or position in kinds] for block in flow.blocks]
        self._walked: dict[tuple[int, int], _Interval] = {}
        self._reached: dict[tuple[int, int, int], list[int]] = {}

    def crossing(self, barrier: int, ledger: Ledger) -> None:
        """Note what is in flight as a wave passes the barrier."""
        flying = {position: flight.newer(position) for flight in (ledger.vm, ledger.lgkm)
                  for position in sorted(flight.births.keys() & self._kinds.keys())}
        if flying:
            self._crossing[barrier] = flying

    def found(self) -> Iterator[LdsRace]:
        """All of them: the worst of each barrier and of the accesses that one wait before it would let arrive."""
        if not self._may_meet():
            return
        told: set[tuple[int, ...]] = set()
        for barrier, flying in sorted(self._crossing.items()):
            for members in self._grouped(flying):
                race = self._worst(barrier, members, True)
                if race is not None and members not in told:
                    yield replace(race, newer=min(flying[position] for position in race.first))
                    if race.bytes is not None:
                        told.add(members)
        if any(group != other for number in range(len(self._flow.blocks)) for group, other, _ in self._groups.distances(number)):
            yield from self._too_close()

    def _too_close(self) -> Iterator[LdsRace]:
        """What waves that run late have waited for, but too few barriers before the others come to it."""
        barriers = [position for events in self._events for position in events if self._operations[position].barrier]
        told: set[tuple[tuple[int, ...], int]] = set()
        for before in barriers:
            interval = self._after(before, 0)
            for barrier in sorted(interval.barriers):
                for members in self._grouped(sorted(interval.accesses)):
                    race = self._worst(barrier, members, False)
                    if race is not None and (race.first, race.second) not in told:
                        told.add((race.first, race.second))
                        yield race

    # ---- whether it is worth while to ask for places ----

    def _may_meet(self) -> bool:
        """Whether what is in flight at a barrier meets something after it, or waves may be apart by barriers."""
        if any(self._conflict(first, second) for barrier, flying in self._crossing.items()
               for second in self._after(barrier, 0).accesses for first in flying):
            return True
        instructions, blocks = self._program.instructions, self._flow.blocks
        return bool(self._kinds) and any(
            any(self._operations[position].barrier for position in self._events[block.number])
            and all(instructions[position].name in _STILL for position in range(block.first, block.last + 1)) for block in blocks)

    def _conflict(self, first: int, second: int) -> bool:
        return {self._kinds[first], self._kinds[second]} not in ({READ}, {ATOMIC})

    # ---- what stands where ----

    @cached_property
    def _locations(self) -> LdsLocations:
        return self._ask()

    @cached_property
    def _groups(self) -> WaveGroups:
        from asmgen.checks.wavegroups.wavegroups import WaveGroups  # needs numpy

        return WaveGroups(self._program, self._flow, self._operations, self._locations.values)

    def _grouped(self, positions: Iterable[int]) -> list[tuple[int, ...]]:
        groups: dict[int, list[int]] = {}
        for position in positions:
            groups.setdefault(self._sections[position], []).append(position)
        return [tuple(group) for group in groups.values()]

    def _after(self, barrier: int, waves: int) -> _Interval:
        """What some of those waves (0: any) do after a barrier."""
        key = barrier, waves
        known = self._walked.get(key)
        if known is None:
            known = self._walked[key] = self._walk(barrier, waves)
        return known

    def _walk(self, barrier: int, waves: int) -> _Interval:
        accesses, barriers = set(), set()
        waiting = [(self._flow.block_of[barrier], barrier + 1)]
        seen = set()
        while waiting:
            number, start = waiting.pop()
            for position in self._events[number]:
                if position >= start:
                    if self._operations[position].barrier:
                        barriers.add(position)
                        break
                    accesses.add(position)
            else:
                for successor in self._groups.ways(number, waves) if waves else self._flow.blocks[number].successors:
                    if successor not in seen:
                        seen.add(successor)
                        waiting.append((successor, 0))
        return _Interval(frozenset(accesses), frozenset(barriers))

    def _further(self, barrier: int, waves: int, distance: int) -> list[int]:
        """What some of those waves do after a barrier and `distance` more, up to the next, in program order."""
        key = barrier, waves, distance
        known = self._reached.get(key)
        if known is None:
            barriers = frozenset({barrier})
            for _ in range(distance):
                barriers = frozenset[int]().union(*(self._after(one, waves).barriers for one in barriers))
            known = self._reached[key] = sorted(frozenset[int]().union(*(self._after(one, waves).accesses for one in barriers)))
        return known

    # ---- judging ----

    def _worst(self, barrier: int, members: tuple[int, ...], flying: bool) -> LdsRace | None:
        """The worst race of accesses in flight at a barrier (or waited for just before it) with what other waves do after it."""
        found = None
        for race in self._meetings(barrier, members, flying):
            if race.bytes is not None and not race.doubt:
                return race
            if found is None or found.bytes is None and race.bytes is not None:
                found = race
        return found

    def _meetings(self, barrier: int, members: tuple[int, ...], flying: bool) -> Iterator[LdsRace]:
        known = self._locations.known if self._locations.values.block is not None else {}
        locations = {first: known[first] for first in members if first in known}
        touched = reduce(or_, (location.mask for location in locations.values()), 0)
        for group, other, after in self._groups.distances(self._flow.block_of[barrier]):
            if not flying and not after:
                continue
            distance = after if flying else after - 1
            for second in self._further(barrier, other, distance):
                met = tuple(first for first in members if self._conflict(first, second))
                theirs = known.get(second)
                unknown = met if theirs is None else tuple(first for first in met if first not in locations)
                if unknown and flying:
                    yield LdsRace(unknown, second, barrier, distance, None)
                if theirs is not None and theirs.mask & touched:
                    for first in met:
                        if first in locations and locations[first].mask & theirs.mask:
                            yield from self._judged(barrier, first, second, (group, other), distance, flying, met)

    def _judged(self, barrier: int, first: int, second: int, groups: tuple[int, int], distance: int, flying: bool,
                met: tuple[int, ...]) -> Iterator[LdsRace]:
        mine, theirs = self._locations.known[first], self._locations.known[second]
        pair = _pair(mine, theirs, *groups, self._kinds[first] == READ)
        if pair is None:
            return
        one, two, common, own = pair
        doubt = ""
        if own:
            doubt = "right only if all waves write the same there"
        elif not (mine.sure and theirs.sure):
            doubt = "right only if the lanes differ, as EXEC is not known"
        elif not self._certain(first, barrier, second, (1 << one, 1 << two), distance, flying):
            doubt = "on some path, if that path is ever taken"
        elif {self._flow.block_of[position] for position in (first, barrier, second)} & self._groups.uneven:
            doubt = "right only if waves that go other ways before have other barriers, which is not known"
        members = tuple(other for other in met if other in self._locations.known and self._locations.known[other].mask & theirs.mask)
        yield LdsRace(members, second, barrier, distance, mine.part(common), (one, two), doubt, flying)

    def _certain(self, first: int, barrier: int, second: int, waves: tuple[int, int], distance: int, flying: bool) -> bool:
        from asmgen.checks.barrierraces.racepaths import certain_path

        return certain_path(self._flow, self._operations, self._groups, first, barrier, second, waves, distance, flying)


def _pair(mine: LdsBytes, theirs: LdsBytes, group: int, other: int, reading: bool) -> tuple[int, int, int, bool] | None:
    """Two different waves, of the one group and of the other, that touch common bytes: (the one, the other, the bytes, whether the other
    wave's own access has them too, so that all may write the same)."""
    found = None
    for two, there in enumerate(theirs.waves):
        if not (other >> two & 1 and there):
            continue
        for one, here in enumerate(mine.waves):
            common = here & there if group >> one & 1 and one != two else 0
            if common:
                alone = common if reading else common & ~mine.waves[two]
                if alone:
                    return one, two, alone, False
                found = found or (one, two, common, True)
    return found
