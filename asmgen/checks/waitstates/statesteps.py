"""The step of one instruction past those that are still too near: which wait states it lacks, and what it leaves for later ones.

The pass and the check (`waitstates.passes`) walk over a finished program with it, the frontier of a program that is being written
(`checks.frontier`) instruction by instruction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from asmgen.checks.waitstates.match import HazardFacts, HazardModel, PairNeed
from asmgen.isa.registers import NAMED
from asmgen.program.program import Instruction

CONTROL = NAMED["exec"].mask | NAMED["m0"].mask
"""What some rows take as read by instructions that do not name it."""
_VCC = NAMED["vcc"].mask
_MANY = 8  # producers, from which on it pays to look for those that nobody asks about any more
Ages = dict[int, int]
"""Wait states since each producer, by position, the youngest over all paths."""
Lack = tuple[int, int, list[PairNeed]]
"""A producer (position) that is too near: its age, and the rows that ask for more."""
_Entry = tuple[int, int, int, int]  # of a producer: clock at which nobody asks any more, registers that it leaves, kind, position


class HazardTable:
    """Which kinds of producers a kind of consumer meets in any row, as far as kinds are known.

    `reaches` is the most that any consumer asks for after a kind of producer: any known kind of consumer, or with `open_ended`, where
    more instructions are to come, any there is.
    """

    def __init__(self, model: HazardModel, kinds: Iterable[int] = (), open_ended: bool = False) -> None:
        self.model = model
        self.open_ended = open_ended
        self.rows: dict[int, frozenset[int]] = {}
        self.reaches: dict[int, int] = {}
        self.simple: set[int] = set()  # kinds that produce through what they write alone
        self.add(kinds)

    def add(self, kinds: Iterable[int]) -> None:
        """Take in kinds that come to be known."""
        new = [kind for kind in kinds if kind not in self.reaches]
        self.reaches.update({kind: self.model.reach(kind) if self.open_ended else 0 for kind in new})
        candidates = self.model.candidates
        for kind in new:
            if self.model.writes_alone(kind):
                self.simple.add(kind)
        known = list(self.reaches)
        for consumer in known:
            producers = known if consumer in new else new
            met = {producer: found for producer in producers if (found := candidates(producer, consumer))}
            self.rows[consumer] = self.rows.get(consumer, frozenset()).union(met)
            for producer, found in met.items():
                self.reaches[producer] = max(self.reaches[producer], *(candidate.states for candidate in found))

    def meet(self, facts: HazardFacts) -> None:
        """Take in the kind of an instruction, if it is new."""
        if facts.kind not in self.reaches:
            self.add((facts.kind,))


class Producers:
    """Instructions that something after them may still stand too near to, at one point of a straight piece of code."""

    __slots__ = ("clock", "entries", "most", "watched")

    def __init__(self, entries: list[_Entry], clock: int = 0) -> None:
        self.clock = clock
        self.entries = entries
        self.watched = _union(entries)  # the registers that any of them leaves
        self.most = _MANY

    def copy(self) -> Producers:
        """An independent copy."""
        return Producers([entry for entry in self.entries if entry[0] > self.clock], self.clock)


class HazardSteps:
    """Passing instructions, each by its position in `instructions` and `samples` (`HazardModel.samples`)."""

    def __init__(self, table: HazardTable, instructions: Sequence[Instruction] | Mapping[int, Instruction],
                 samples: Sequence[HazardFacts] | Mapping[int, HazardFacts]) -> None:
        self.model = table.model
        self.table = table
        self.instructions = instructions
        self.samples = samples

    def facts(self, position: int) -> HazardFacts:
        """The description of an instruction."""
        return self.model.facts(self.instructions[position])

    def entering(self, ages: Ages) -> Producers:
        """The producers where code is entered at which those are of that age."""
        return Producers([self._producer(origin, -age) for origin, age in ages.items()])

    def lacking(self, producers: Producers, position: int) -> list[Lack]:
        """The producers that an instruction is too near to."""
        rows = self.table.rows[self.samples[position].kind]
        if not rows:
            return []
        # Few instructions meet a producer at all: rows are looked at only where registers are shared.
        instruction = self.instructions[position]
        touched = instruction.reads | instruction.writes | CONTROL
        if not producers.watched & touched:
            return []
        clock, found = producers.clock, []
        consumer = None
        for end, left, kind, origin in producers.entries:
            if end > clock and kind in rows and left & touched:
                consumer = consumer or self.facts(position)
                age = clock - end + self.table.reaches[kind]
                missing = self.model.needs(self.facts(origin), consumer, age)
                if missing:
                    found.append((origin, age, missing))
        return found

    def issue(self, producers: Producers, position: int, again: bool = False) -> None:
        """Pass an instruction, what it lacked counted on the clock; `again` where it may be among the producers already."""
        sample = self.samples[position]
        producers.clock += sample.states
        if self.table.reaches[sample.kind]:
            if again or len(producers.entries) > producers.most:
                producers.entries = [entry for entry in producers.entries if entry[0] > producers.clock and entry[3] != position]
                producers.watched, producers.most = _union(producers.entries), max(_MANY, 2 * len(producers.entries))
            entry = self._producer(position, producers.clock)
            producers.entries.append(entry)
            producers.watched |= entry[1]

    def ages(self, producers: Producers) -> Ages:
        """The age of each producer that still matters."""
        return {position: producers.clock - end + self.table.reaches[kind] for end, _, kind, position in producers.entries
                if end > producers.clock}

    def _producer(self, position: int, birth: int) -> _Entry:
        kind, instruction = self.samples[position].kind, self.instructions[position]
        if kind not in self.table.simple:
            known: tuple[HazardModel, int] | None = instruction.shared.get("leaves")
            if known is None or known[0] is not self.model:
                known = instruction.shared["leaves"] = self.model, self.model.leaves(self.facts(position), instruction.writes)
            written = known[1]
        else:
            written = instruction.writes
            if written & _VCC:
                written |= _VCC
        return birth + self.table.reaches[kind], written, kind, position


def join(ages: Ages, others: Ages) -> bool:
    """Take the younger of each producer's ages; whether that changed anything."""
    changed = False
    for position, age in others.items():
        if age < ages.get(position, 1 << 30):
            ages[position] = age
            changed = True
    return changed


def _union(producers: Iterable[_Entry]) -> int:
    """The registers that any of these producers leaves."""
    mask = 0
    for entry in producers:
        mask |= entry[1]
    return mask
