"""Evaluating the rows of waitrules.py: which of them hold for a pair of instructions, and how many wait states the pair needs.

`HazardModel.facts` describes one instruction, `HazardModel.needs` says which rows hold between two descriptions. There is no
walking of code here: the passes (asmgen.checks.waitstates.passes) and the emulator each do their own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import field
from functools import cache
from typing import NamedTuple

from asmgen.isa.hazardforms import VECTOR_FILE as VECTOR_FILE  # for those who look at the masks of needs
from asmgen.isa.hazardforms import Deciding, Kind, Parts, deciding, describe, states_of
from asmgen.isa.operands import Operand
from asmgen.isa.records import dataclass
from asmgen.isa.registers import NAMED
from asmgen.isa.waitrules import RULES, WaitRule
from asmgen.program.program import Instruction

_REGISTER_ROLES = frozenset({"srcc", "data"})
"""Producers' roles, besides what is written, that stand for registers of a file."""
_VCC = NAMED["vcc"].mask


class HazardFacts(NamedTuple):
    """One instruction as the rows see it.

    `kind` numbers its classes and passes: instructions of one kind differ in registers only. `states` is how many wait states it
    is itself, `reach` the most that a row may ask for after it.
    """

    kind: int
    states: int
    reach: int
    parts: Parts
    operands: tuple[Operand, ...]

    def mask(self, role: str) -> int:
        """Its registers in a role (waitstates.ROLES)."""
        part = self.parts.get(role)
        if part is None:
            return 0
        locations, count, mask = part
        for location in locations:
            mask |= count(self.operands[location])
        return mask


@dataclass(frozen=True)
class PairNeed:
    """One row that holds for a pair: `states` wait states, because of the registers in `mask` (0 where the row names none)."""

    rule: WaitRule
    states: int
    mask: int


@dataclass(frozen=True)
class _Candidate:
    """A row that two kinds allow; `same` says whether D and SrcC must be the same registers, must not be, or may be (None)."""

    rule: WaitRule
    states: int
    producer: str
    consumer: str
    same: bool | None


@dataclass
class HazardModel:
    """The rows of one architecture. `match_llvm` takes LLVM 22's own rows alone, its artefacts too, and none that only the ISA text has.

    An instance remembers what it has met: a description of each kind of instruction, and the rows of each pair of kinds.
    `hazard_model` hands out one for all programs.
    """

    arch: str
    match_llvm: bool = False
    _numbers: dict[Kind, int] = field(default_factory=dict)
    _kinds: list[Kind] = field(default_factory=list)
    _reaches: list[int] = field(default_factory=list)
    _further_roles: list[frozenset[str]] = field(default_factory=list)
    _deciding: dict[int, Deciding] = field(default_factory=dict)
    _by_form: dict[int, HazardFacts] = field(default_factory=dict)
    _by_key: dict[tuple[Hashable, ...], HazardFacts] = field(default_factory=dict)
    _pairs: dict[tuple[int, int], tuple[_Candidate, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.match_llvm:
            self._rules = tuple(rule for rule in RULES if rule.asked("llvm") and self.arch in rule.archs)
        else:
            self._rules = tuple(rule for rule in RULES if not rule.artefact and self.arch in rule.archs)

    def facts(self, instruction: Instruction) -> HazardFacts:
        """Describe one instruction."""
        known: tuple[HazardModel, HazardFacts] | None = instruction.shared.get("hazards")  # asked again wherever its text stands
        if known is not None and known[0] is self:
            return known[1]
        # By identity: the table makes each form once, and a form's hash goes through all of its places.
        found = self._by_form.get(id(instruction.form)) or self._example(instruction)
        if found.parts:
            found = HazardFacts(found.kind, found.states, found.reach, found.parts, instruction.operands)
        instruction.shared["hazards"] = self, found
        return found

    def samples(self, instructions: Iterable[Instruction]) -> list[HazardFacts]:
        """A description of each that is right in all but its operands, which may be another instruction's: `facts` has its own."""
        known = self._by_form
        return [known.get(id(instruction.form)) or self.facts(instruction) for instruction in instructions]

    def writes_alone(self, kind: int) -> bool:
        """Whether an instruction of that kind is the producer of rows through the registers that it writes, and through nothing else."""
        return not self._further_roles[kind]

    def reach(self, kind: int) -> int:
        """The most wait states that any row asks for after an instruction of that kind."""
        return self._reaches[kind]

    def leaves(self, facts: HazardFacts, written: int) -> int:
        """The registers through which an instruction that writes `written` can be the producer of a row, VCC as a whole.

        It is -1 where anything else makes it one.
        """
        for role in self._further_roles[facts.kind]:
            if role not in _REGISTER_ROLES:
                return -1
            written |= facts.mask(role)
        return written | _VCC if written & _VCC else written

    def needs(self, producer: HazardFacts, consumer: HazardFacts, age: int = 0) -> list[PairNeed]:
        """Every row that holds where `consumer` comes after `producer` and asks for more than `age` wait states between."""
        candidates = self.candidates(producer.kind, consumer.kind)
        if not candidates:
            return []
        found = []
        role, first = "", 0
        for candidate in candidates:
            if candidate.states <= age:
                continue
            if candidate.producer == "any":
                found.append(PairNeed(candidate.rule, candidate.states, 0))
                continue
            if candidate.producer != role:
                role, first = candidate.producer, producer.mask(candidate.producer)
            second = consumer.mask(candidate.consumer)
            common = first & second
            if common and (candidate.same is None or (first == second) is candidate.same):
                found.append(PairNeed(candidate.rule, candidate.states, common))
        return found

    def states(self, producer: HazardFacts, consumer: HazardFacts) -> int:
        """The wait states that must lie between the two; 0 where none need to."""
        if not self.candidates(producer.kind, consumer.kind):
            return 0
        return max((need.states for need in self.needs(producer, consumer)), default=0)

    def classes(self, facts: HazardFacts) -> frozenset[str]:
        """The classes (waitstates.CLASSES) of a described instruction."""
        return self._kinds[facts.kind].classes

    def passes(self, facts: HazardFacts) -> int:
        """How many issue slots a described instruction keeps the matrix core busy; 0 for one that is no matrix instruction."""
        return self._kinds[facts.kind].passes

    def candidates(self, producer: int, consumer: int) -> tuple[_Candidate, ...]:
        """The rows that two kinds of instruction allow."""
        found = self._pairs.get((producer, consumer))
        if found is None:
            found = self._pairs[producer, consumer] = self._select(self._kinds[producer], self._kinds[consumer])
        return found

    def _example(self, instruction: Instruction) -> HazardFacts:
        """The description of the first instruction that was the same to the rows but for its registers."""
        form = instruction.form
        decides = self._deciding.get(id(form))
        if decides is None:
            decides = self._deciding[id(form)] = deciding(instruction.opcode, form)
        key = decides.key(instruction)
        found = self._by_key.get(key)
        if found is None:
            kind, parts = describe(self.arch, instruction)
            number = self._number(kind)
            found = self._by_key[key] = HazardFacts(number, states_of(instruction), self._reaches[number], parts, instruction.operands)
            if not decides.modifiers and not decides.slots:
                self._by_form[id(form)] = found
        return found

    def _number(self, kind: Kind) -> int:
        number = self._numbers.get(kind)
        if number is None:
            number = self._numbers[kind] = len(self._kinds)
            self._kinds.append(kind)
            rules = [rule for rule in self._rules if rule.producer in kind.classes]
            self._reaches.append(max((rule.states_on(self.arch, kind.passes) for rule in rules), default=0))
            self._further_roles.append(frozenset(rule.roles[0] for rule in rules) - {"write"})
        return number

    def _select(self, producer: Kind, consumer: Kind) -> tuple[_Candidate, ...]:
        chosen = []
        for rule in self._rules:
            if rule.producer not in producer.classes or rule.consumer not in consumer.classes:
                continue
            states = rule.states_on(self.arch, producer.passes)
            alike = (producer.matrix, producer.passes) == (consumer.matrix, consumer.passes)
            same: bool | None = None
            if rule.relation in ("identical", "identical_other"):
                if alike is not (rule.relation == "identical"):
                    continue
                same = True
            elif rule.relation == "identical_opcode":
                if not alike or producer.mnemonic == consumer.mnemonic:
                    continue
                same = True
            elif rule.relation == "overlapping":
                same = False
            elif rule.relation and (producer.dot == consumer.dot) is not (rule.relation == "same_opcode"):
                continue
            if states > 0:
                chosen.append(_Candidate(rule, states, *rule.roles, same))
        return tuple(chosen)


@cache
def hazard_model(arch: str, match_llvm: bool = False) -> HazardModel:
    """The model of an architecture, one for all who ask: what it remembers depends on nothing else."""
    return HazardModel(arch, match_llvm)
