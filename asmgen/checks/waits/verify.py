"""Verification of the waits that stand in a program, anyone's.

What is an error and what is not. A register that is touched while a load of it is in flight is a mistake on the path that leads there.
Joined paths may be impossible ones, so it is an error only where a certain path (`paths`) has it, a warning elsewhere. It is
a warning too where EXEC was replaced in between, since a load and a write of one register under disjoint lane masks do
not meet, and where the counter must have been full in between, since a full counter lets nothing more issue before the oldest has arrived.
In foreign code a register that is only overwritten makes a warning: the last prefetch of a loop, which nobody wants, has often landed long
before its register is used again, and the author may know. In programs of asmgen's own (with tokens, or built with a mode) it is an error.
With tokens, data of other waves and reuse of buffers are errors. Without, they are where known addresses prove them (`barrierraces`); else
LDS data in flight at a barrier is a note, one for each group of loads (`barriers`): a kernel with several buffers has
newer loads in flight on purpose. It is a warning where no wait ever ends the flight. Everything about speed is a note.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING

from asmgen.checks.barrierraces.barrierraces import READ, LdsRace, LdsRaces, lds_kinds, race_sentence
from asmgen.checks.barrierraces.roundraces import races_by_rounds
from asmgen.checks.counters.barriers import LdsGroup, described, groups_in_flight, sections
from asmgen.checks.counters.flow import Arrival, WaitFlow, WaitNeed
from asmgen.checks.counters.ledger import COUNTERS, LGKM, MOST_ROUNDS, VM, Flight, Ledger, split_of, unified
from asmgen.checks.counters.paths import find_route, reachable
from asmgen.checks.counters.tokens import TooEarly, cells_of, shared
from asmgen.checks.finding.finding import LintFinding
from asmgen.checks.waits.ownbytes import own_bytes
from asmgen.checks.waits.ownloads import LDS_IN_FLIGHT, OwnLoads
from asmgen.checks.wavegroups.outofphase import Phases
from asmgen.checks.wavegroups.partings import Partings
from asmgen.isa.registers import Reg
from asmgen.program.controlflow import control_flow
from asmgen.program.knowncalls import CALLS
from asmgen.program.program import Program

if TYPE_CHECKING:
    from asmgen.checks.barrierraces.ldslocations import LdsBytes, LdsLocations

MISSING = "W001"
TOKEN = "W002"
BARRIERS = "W003"
LDS_AT_BARRIER = "W004"
TOO_STRICT = "W005"
IDLE = "W006"
NO_WAIT = "W007"
FULL = "W008"
LDS_ORDER = "W009"
LOOP = "W010"
OUT_OF_PHASE = "W012"
MEETING = "W013"
PARTING = "W014"

_KINDS = {"register": MISSING, "own-dma": MISSING, "own-write": MISSING, "token": TOKEN, "lds-order": LDS_ORDER}
_OWN = ("own-dma", "own-write")
_LOOSE = {(None, None, None): "warning", (63, 7, 15): "note"}  # objdump names every field where a compiler left a needless wait
_ORDER = ("error", "warning", "note")


def verify(program: Program, notes: bool = True, block: tuple[int, int, int] | None = None) -> list[LintFinding]:
    """Everything wrong with a program's waits, in program order. Without `notes`, errors and warnings alone, which is quicker; rounds of
    loops with buffers that take turns are not told apart then.

    `block` is the workgroup's size, None where not known.
    """
    return Verifier(program, notes, block).findings()


class Verifier:
    """One verification; it keeps the solved flow for who wants to know more (`flow`). With `errors` it looks for nothing milder."""

    def __init__(self, program: Program, notes: bool = True, block: tuple[int, int, int] | None = None, errors: bool = False) -> None:
        self.program = program
        self.notes = notes and not errors
        self._errors = errors
        self.flow = WaitFlow(program, automatic=False, watching=self.notes,
                             own=lambda flow, operations: own_bytes(program, flow, operations, block))
        self.instructions = program.instructions
        self.operations = self.flow.operations
        self.own = self.flow.tokens or any(instruction.waits for instruction in self.instructions)
        self.runs = reachable(program, self.flow.flow, self.flow.told)
        self._split = split_of(program)
        self._sections = sections(self.flow.flow, self.operations)
        self._own_told: set[tuple[int, int, str]] = set()
        self._reads_lds = any(operation.queue == "lds" and operation.arrives for operation in self.flow.told)
        self._block = block
        self._kinds = lds_kinds(program)
        self._races = self._new_races()
        self._rounds = self.notes and block is not None  # whether rounds of loops are told apart: that takes another verification
        self._locations = self._known_locations()
        self._own_loads = OwnLoads(self.instructions, self._locations, self._kinds, self._sections, self.flow.limits)
        self._found: list[LintFinding] = []
        self._idle: set[tuple[int, str]] = set()
        self._unsure: set[tuple[int, str]] = set()
        self._full: dict[tuple[int, str], list[int]] = {}

    def findings(self) -> list[LintFinding]:
        """All of them, in program order, worse ones first."""
        self._found = []
        self.flow.visit(self._visit)
        self._lds_races()
        self._roles()
        if not self._errors:
            phases = Phases(self.program, self.flow.flow)
            self._out_of_phase(phases)
            self._partings(phases)
        if self.notes:
            self._meetings(phases)
            self._strict_waits()
            self._full_counters()
            self._loops()
        return sorted(self._found, key=lambda finding: (finding.position, _ORDER.index(finding.severity)))

    def weakened(self, program: Program, position: int) -> list[LintFinding]:
        """Those findings on a missing wait or barrier that this program, with one wait or barrier weaker (`WaitFlow.weakened`), may have
        more than the verified one; quicker than to verify it."""
        return self.weaker(program, position)[1]

    def weaker(self, program: Program, position: int) -> tuple[Verifier, list[LintFinding]]:
        """The verification of such a program, to go on from, and what `weakened` finds."""
        other = copy(self)
        other.program, other.instructions = program, program.instructions
        other.flow, blocks = self.flow.weakened(program, position)
        other.operations = other.flow.operations
        other._found, other._idle, other._unsure, other._full = [], set(), set(), {}
        other._own_told = set()
        barrier = self.operations[position].barrier
        if barrier:
            other._sections = sections(other.flow.flow, other.operations)
        other._own_loads = OwnLoads(other.instructions, other._locations, other._kinds, other._sections, other.flow.limits)
        other._races, other._rounds = other._new_races(), False
        other.flow.visit(other._visit, blocks)
        other._lds_races()
        if barrier:
            phases = Phases(program, other.flow.flow)
            other._out_of_phase(phases)
            other._partings(phases)
            if other.notes:
                other._meetings(phases)
        return other, other._found

    def _new_races(self) -> LdsRaces | None:
        return LdsRaces(self.program, self.flow.flow, self.operations, self._kinds, self._sections, lambda: self._lds_locations) \
            if self._kinds and any(operation.barrier for operation in self.flow.told) else None

    @cached_property
    def _lds_locations(self) -> LdsLocations:
        from asmgen.checks.barrierraces.ldslocations import LdsLocations  # needs numpy

        return LdsLocations(self.program, self.flow.flow, self._block)

    def _known_locations(self) -> Mapping[int, LdsBytes]:
        into = {position for position, operation in enumerate(self.operations)
                if operation.fills_lds and operation.queue == "vm" and not operation.fills}
        if not into or not any(operation.queue == "lds" for operation in self.flow.told):
            return {}
        locations = self._lds_locations.known
        return locations if into & locations.keys() else {}

    def _visit(self, position: int, ledger: Ledger, need: WaitNeed | None, early: list[TooEarly], full: list[str]) -> None:
        if self.flow.flow.block_of[position] not in self.runs:
            return
        instruction = self.instructions[position]
        if need is not None and instruction.waits != "off":
            self._missing(position, need)
            for counter in COUNTERS:
                due = [arrival.producer for arrival in need.because if arrival.kind == "lds" and arrival.counter == counter]
                if due:
                    self._lds_at_barrier(position, counter, ledger[counter], groups_in_flight(ledger[counter], due, self._sections))
        operation = self.operations[position]
        if (operation.fills or operation.uses) and instruction.waits != "off":
            for other in (*early, *self._never_settled(position, ledger)):
                if other.other not in self.flow.own_bytes:
                    self._barriers(position, other)
        if position in self._locations and position in self._kinds and operation.queue:
            own = self._own_loads
            self._found += own.touched(position, ledger) if operation.queue == "lds" else own.filled(position, ledger)
        if operation.barrier and self._races is not None and instruction.waits != "off":
            self._races.crossing(position, ledger)
        if operation.wait is not None:
            self._wait(position, ledger)
        for counter in full:
            self._full.setdefault((self.flow.flow.block_of[position], counter), []).append(position)

    def _missing(self, position: int, need: WaitNeed) -> None:
        returning = [arrival for arrival in need.because if arrival.kind == "return" and self.operations[arrival.producer].arrives]
        if returning and self.instructions[position].reads & self._return_addresses:
            self._returning(position, min(returning, key=lambda arrival: arrival.newer))
        groups: dict[tuple[str, str], list[Arrival]] = {}
        for arrival in need.because:
            if arrival.kind in _KINDS and not (arrival.kind in _OWN and self._told(arrival.producer, position, arrival.kind)):
                groups.setdefault((_KINDS[arrival.kind], arrival.counter), []).append(arrival)
        for (rule, counter), arrivals in groups.items():
            severity, message, first = self._judge(rule, position, counter, arrivals)
            if severity == "note" and not self.notes:
                continue
            self._found.append(LintFinding(rule, severity, message, self.instructions[first.producer], self.instructions[position], None,
                                       self._count(counter, arrivals), position))

    def _returning(self, position: int, worst: Arrival) -> None:
        count = self._count(worst.counter, [worst])
        message = f"code that was called returns while {self._flight(worst)}: its caller waits for nothing that it did not issue, so " \
                  f"s_waitcnt {worst.counter}({count}) belongs before it"
        first, last = self.instructions[worst.producer], self.instructions[position]
        self._found.append(LintFinding(MISSING, "warning", message, first, last, None, count, position))

    @cached_property
    def _return_addresses(self) -> int:
        """The registers, as a mask, that hold where calls come back to: those that calls here write, in LLVM's convention s[30:31]; not
        those that anything else writes, as jumps into tables do."""
        written = [(instruction.name in CALLS, instruction.writes) for instruction in self.instructions]
        calls = reduce(or_, (mask for call, mask in written if call), Reg("s", 30, 2).mask)
        return calls & ~reduce(or_, (mask for call, mask in written if not call), 0)

    def _told(self, producer: int, position: int, kind: str) -> bool:
        """Whether what is in flight was told of in this straight piece of code: several instructions may touch what one brings."""
        key = (producer, self._sections[position], kind)
        if key in self._own_told:
            return True
        self._own_told.add(key)
        return False

    def _lds_at_barrier(self, position: int, counter: str, flight: Flight, groups: list[LdsGroup]) -> None:
        # With a wait in the loop, no more are outstanding than it allows and than one round issues.
        endless = flight.outstanding >= self.flow.limits[counter] and self._reads_lds
        for group in groups:
            forever = endless and group.rounds == MOST_ROUNDS
            severity = "warning" if self.flow.tokens or forever else "note"
            if severity == "note" and not self.notes:
                continue
            self._found.append(LintFinding(LDS_AT_BARRIER, severity, self._lds_sentence(counter, group, forever),
                                       self.instructions[group.last], self.instructions[position], None,
                                       min(group.newer, self.flow.limits[counter] - 1) if self.operations[group.last].ordered else 0,
                                       position, group.rounds))

    def _lds_sentence(self, counter: str, group: LdsGroup, forever: bool) -> str:
        shown = described(group, self.instructions)
        locations = [self._locations[position] for position in range(group.first, group.last + 1) if position in self._locations
                  and self.operations[position].fills_lds]
        if len(locations) == group.count:
            shown += f", bytes {reduce(or_, locations)}"
        newer = f", {group.newer} newer" if group.newer and self.operations[group.last].ordered else ""
        if forever:
            return f"no wait ends the flight of {shown}, round after round: other waves may read the data after this barrier, which only "\
                   f"a full {counter} holds back; an s_waitcnt {counter} belongs before the barrier after which they do"
        count = min(group.newer, self.flow.limits[counter] - 1) if self.operations[group.last].ordered else 0
        return f"LDS data is in flight at this barrier ({shown}{newer}): it may be read by other waves after the barrier; " \
               f"if so, s_waitcnt {counter}({count}) belongs before it"

    def _count(self, counter: str, arrivals: list[Arrival]) -> int:
        return min(min(arrival.newer, self.flow.limits[counter] - 1) if self.operations[arrival.producer].ordered else 0
                   for arrival in arrivals)

    def _judge(self, rule: str, position: int, counter: str, arrivals: list[Arrival]) -> tuple[str, str, Arrival]:
        """(severity, message, the arrival that is worst)."""
        count = self._count(counter, arrivals)
        worst = max(arrivals, key=lambda arrival: -arrival.newer)
        consumer = self.instructions[position]
        wait = f"{counter}({count})"
        if rule == TOKEN:
            names = ", ".join(dict.fromkeys(arrival.what for arrival in arrivals))
            barriers = 1 + self.program.stagger
            return "error", f"{names} is not waited for before this barrier, though another wave relies on it within {barriers} " \
                            f"barrier{'s' * (barriers > 1)}: {self._flight(worst)} needs s_waitcnt {wait}", worst
        if rule == LDS_ORDER:
            return "note", f"{worst.what} is loaded again while {self._flight(worst)}; LDS keeps the order, LLVM waits with {wait}", worst
        severity, doubt, worst = self._certainty(position, counter, arrivals)
        verb, what = "reads" if self._reads(worst, position) else "overwrites", worst.what
        if worst.kind == "own-dma" and shared(self.operations[worst.producer].fills, self.operations[position].uses):
            verb = "reads LDS data of"
        elif worst.kind == "own-dma":
            what = f"LDS bytes of {what} that a load still fills"
        elif worst.kind == "own-write":
            what = f"LDS bytes of {what}, which an LDS operation may reach later,"
        return severity, f"{consumer.name} {verb} {what} while {self._flight(worst)}{doubt}: s_waitcnt {wait} is needed before it", worst

    def _flight(self, arrival: Arrival) -> str:
        producer = self.instructions[arrival.producer]
        where = producer.where()
        newer = f", {arrival.newer} newer" if arrival.newer and self.operations[arrival.producer].ordered else ""
        return f"{producer.text}{f' ({where})' if where else ''} is in flight{newer}"

    def _certainty(self, position: int, counter: str, arrivals: list[Arrival]) -> tuple[str, str, Arrival]:
        """The worst arrival's severity, and why it is not an error."""
        judged = []
        for arrival in arrivals:
            route = find_route(self.program, self.flow.flow, self.operations, self.flow.touches, arrival.producer, position, counter,
                               self.flow.calls)
            held_back = self.operations[arrival.producer].ordered and arrival.newer >= self.flow.limits[counter]
            if held_back and not self.own:
                judged.append(("note", " as far as waits go (the full counter has held newer operations back until it arrived)", arrival))
            elif not route.certain:
                judged.append(("warning", " on some path, if that path is ever taken", arrival))
            elif self.operations[arrival.producer].ordered and route.newer >= self.flow.limits[counter]:
                judged.append(("warning", " as far as waits go (so many newer operations that the full counter must have held them back)",
                               arrival))
            elif not (self.own or arrival.kind in _OWN or self._reads(arrival, position)):
                judged.append(("warning", " (right only if it has landed all the same)", arrival))
            elif route.counted and not self.own:
                judged.append(("warning", " (right only if global loads into LDS count on lgkmcnt too, as LLVM takes them to)", arrival))
            elif route.lanes:
                judged.append(("warning", " (EXEC was replaced in between: right only if the lanes differ)", arrival))
            else:
                judged.append(("error", "", arrival))
        return min(judged, key=lambda entry: (_ORDER.index(entry[0]), entry[2].newer))

    def _reads(self, arrival: Arrival, position: int) -> bool:
        """Whether the instruction reads, not only overwrites, what arrives."""
        reads = self.instructions[position].reads
        return bool(self.operations[arrival.producer].arrives & (reads if self._split is None else unified(reads, self._split)))

    def _never_settled(self, position: int, ledger: Ledger) -> list[TooEarly]:
        """Token fills and uses that are still in flight, without even a barrier after them, where their bytes are used or refilled."""
        operation = self.operations[position]
        need = 1 + self.program.stagger
        fills, uses = self._cells[position]
        found = []
        for flight in (ledger.vm, ledger.lgkm):
            for producer in flight.births.keys() & self._cells.keys():
                filled, used = self._cells[producer]
                other = self.operations[producer]
                if uses & filled and not self._told(producer, position, "unsettled"):
                    found.append(TooEarly(producer, -1, need, shared(operation.uses, other.fills)[0], False))
                if fills & used:
                    found.append(TooEarly(producer, -1, need, shared(operation.fills, other.uses)[0], True))
        return sorted(found, key=lambda early: early.other)

    @cached_property
    def _cells(self) -> dict[int, tuple[int, int]]:
        return cells_of(self.operations)

    def _barriers(self, position: int, other: TooEarly) -> None:
        producer = self.instructions[other.other]
        where = f" ({producer.where()})" if producer.where() else ""
        have = "is not waited for" if other.have < 0 else f"is waited for {other.have or 'no'} barrier{'s' * (other.have != 1)} before"
        verb = "refills" if other.refill else "reads"
        what = "its last read" if other.refill else "its fill"
        message = f"{self.instructions[position].name} {verb} {other.name}, but {what}, {producer.text}{where}, {have}; with a stagger " \
                  f"of {self.program.stagger} it takes {other.need}"
        self._found.append(LintFinding(BARRIERS, "error", message, producer, self.instructions[position], max(other.have, 0), other.need,
                                   position))

    def _out_of_phase(self, phases: Phases) -> None:
        for position, shifts in phases.apart_at_the_end().items():
            if self.flow.flow.block_of[position] not in self.runs:
                continue
            apart = max(shifts, key=abs)
            message = f"waves end {abs(apart)} barrier{'s' * (abs(apart) != 1)} apart on a path to here: of the branches over s_barrier, " \
                      f"which delay half of the waves (stagger {self.program.stagger}) and bring the other half level again, one " \
                      f"has no counterpart"
            self._found.append(LintFinding(OUT_OF_PHASE, "warning", message, None, self.instructions[position], abs(apart), 0, position))

    def _partings(self, phases: Phases) -> None:
        if not (self.flow.tokens or self.program.stagger):
            return
        for parting in Partings(self.program, self.flow.flow, phases).found():
            if self.flow.flow.block_of[parting.position] not in self.runs:
                continue
            (taken, shifted), (passed, _) = parting.taken, parting.passed
            where = "end"
            if parting.meets is not None:
                meets = self.instructions[parting.meets]
                where = f"meet again at {meets.text}{f' ({meets.where()})' if meets.where() else ''}"
            if taken == passed:
                message = f"waves of a workgroup part here, and {'those that take the branch' if shifted else 'the others'} alone pass a " \
                          f"branch over s_barrier, which delays half of them or brings it level again, before they {where}"
            else:
                message = f"waves of a workgroup part here, and those that take the branch pass {taken or 'no'} " \
                          f"barrier{'s' * (taken != 1)}, the others {passed or 'no'}, before they {where}: a barrier of the ones meets " \
                          f"another one of the others from there on"
            self._found.append(LintFinding(PARTING, "warning", message, None, self.instructions[parting.position], taken, passed,
                                           parting.position))

    def _meetings(self, phases: Phases) -> None:
        for before, position in phases.meetings():
            if self.flow.flow.block_of[position] not in self.runs:
                continue
            other, mine = self.instructions[before], self.instructions[position]
            where = f" ({other.where()})" if other.where() else ""
            message = f"while half of the waves compute from here on, the other half, {self.program.stagger} " \
                      f"barrier{'s' * (self.program.stagger != 1)} late, compute from {other.text}{where} on: both want the matrix " \
                      f"cores, where a barrier between them and what stands before would keep the halves in turn"
            self._found.append(LintFinding(MEETING, "note", message, other, mine, None, None, position))

    def races(self) -> list[LdsRace]:
        """LDS races of the program as it stands, without rounds of loops told apart."""
        if self._races is None:
            return []
        races = self._races
        self.flow.visit(lambda position, ledger, *_: races.crossing(position, ledger) if self.operations[position].barrier else None)
        return list(races.found())

    def _judged_races(self) -> list[LdsRace]:
        races = list(self._races.found()) if self._races is not None else []
        if not self._rounds or all(race.bytes is not None for race in races):
            return races
        from asmgen.checks.barrierraces.ldslocations import LdsLocations  # needs numpy

        def known(program: Program) -> frozenset[int]:
            return frozenset(self._lds_locations.known if program is self.program else
                             LdsLocations(program, control_flow(program), self._block).known)

        return races_by_rounds(self.program, self.flow.flow, races, known,
                               lambda program: Verifier(program, False, self._block, errors=True).races())

    def _lds_races(self) -> None:
        """What other waves do to LDS bytes that are in use yet, as far as addresses are known."""
        for race in self._judged_races():
            last, kind = race.first[-1], self._kinds[race.first[-1]]
            if race.bytes is None and (kind != READ or not self.notes):
                continue  # of what fills LDS a note tells without knowing where
            severity = "note" if race.bytes is None else "warning" if race.doubt else "error"
            at = race.at if race.flying else race.second
            counter, count = self.operations[last].counters[0], 0
            if race.flying and self.operations[last].ordered:
                count = min(race.newer, self.flow.limits[counter] - 1)
            rule = LDS_AT_BARRIER if race.bytes is None else TOKEN if race.flying else BARRIERS
            message = race_sentence(race, self.program, self._kinds, f"s_waitcnt {counter}({count})")
            have, need = (None, count) if race.flying else (race.distance + 1, race.distance + 2)
            if severity == "error":  # the same loads are no warning at the reads too
                same = {id(self.instructions[first]) for first in race.first}
                self._found = [one for one in self._found if one.rule != LDS_IN_FLIGHT or id(one.producer) not in same]
            self._found.append(LintFinding(rule, severity, message, self.instructions[last], self.instructions[at], have, need, at))

    def _roles(self) -> None:
        """What a role reads while another one fills it."""
        for reader, filler in sorted(self.flow.meetings.together):
            consumer, producer = self.instructions[reader], self.instructions[filler]
            if consumer.waits == "off" or producer.waits == "off":
                continue
            where = f" ({producer.where()})" if producer.where() else ""
            names = ", ".join(shared(self.operations[reader].uses, self.operations[filler].fills))
            self._found.append(LintFinding(BARRIERS, "error", f"{consumer.name} reads {names} between the same two barriers between which "
                                           f"waves of another role fill it, {producer.text}{where}: a barrier must stand between, after "
                                           "the wait for the fill or for the read", producer, consumer, 0, 1, reader))

    def _wait(self, position: int, ledger: Ledger) -> None:
        wait, instruction = self.operations[position].wait, self.instructions[position]
        assert wait is not None
        if (loose := _LOOSE.get((wait.vmcnt, wait.expcnt, wait.lgkmcnt))) is not None:
            self._found.append(LintFinding(NO_WAIT, loose, "this s_waitcnt waits for nothing: every field has its largest value",
                                           consumer=instruction, position=position))
            return
        for counter, given in ((VM, wait.vmcnt), (LGKM, wait.lgkmcnt)):
            if given is not None and given >= self.flow.limits[counter]:
                self._found.append(LintFinding(NO_WAIT, "warning", f"{counter}({given}) waits for nothing: {given} is the largest value of "
                                           f"the field, {given - 1} the loosest wait with an effect", None, instruction, given, given - 1,
                                           position))
            elif given is not None and ledger[counter].unknown:
                self._unsure.add((position, counter))
            elif given is not None and ledger[counter].outstanding <= given:
                self._idle.add((position, counter))
        if wait.vmcnt is None and wait.lgkmcnt is None and wait.expcnt is None:
            self._found.append(LintFinding(NO_WAIT, "warning", "this s_waitcnt waits for nothing: every field has its largest value", None,
                                       instruction, None, None, position))

    def _strict_waits(self) -> None:
        for position, operation in enumerate(self.operations):
            if operation.wait is None or self.flow.flow.block_of[position] not in self.runs:
                continue
            for counter, given in ((VM, operation.wait.vmcnt), (LGKM, operation.wait.lgkmcnt)):
                if given is None or given >= self.flow.limits[counter] or (position, counter) in self._unsure:
                    continue
                need = self.flow.needed_by.get((position, counter))
                instruction = self.instructions[position]
                if (position, counter) in self._idle:
                    message = f"{counter}({given}) does nothing: no more than {given} can be outstanding here"
                    self._found.append(LintFinding(IDLE, "note", message, None, instruction, given, None, position))
                elif need is None:
                    self._found.append(LintFinding(IDLE, "note", f"{counter}({given}) is not needed for any register or LDS data that "
                                                   "follows",
                                               None, instruction, given, None, position))
                elif need > given:
                    self._found.append(LintFinding(TOO_STRICT, "note", f"{counter}({given}) could be {counter}({need}): {need - given} "
                                                   f"newer operation{'s' * (need - given > 1)} could stay in flight", None, instruction,
                                                   given, need, position))

    def _full_counters(self) -> None:
        for (_, counter), positions in self._full.items():
            limit = self.flow.limits[counter]
            times = f"{len(positions)} operations from here on" if len(positions) > 1 else "this operation"
            self._found.append(LintFinding(FULL, "note", f"{times} may be issued while {limit} are outstanding on {counter}, and would "
                                                     f"stall until "
                                       "one has completed", None, self.instructions[positions[0]], limit, limit - 1, positions[0]))

    def _loops(self) -> None:
        for state in self.flow.loops():
            head = state.loop.first
            if not state.steady and self.flow.flow.block_of[head] in self.runs:
                self._found.append(LintFinding(LOOP, "note", f"the loop up to {self.instructions[state.loop.last].text} is not steady from "
                                           f"its first round on: {state.sentence}", None, self.instructions[head], None, None, head))


def counts(need: WaitNeed) -> str:
    """A need as the assembler writes it."""
    return " ".join(f"{counter}({need.counts[counter]})" for counter in COUNTERS if counter in need.counts)
