"""Evaluating the rows of waitstates.py: which of them hold for a pair of instructions, and how many wait states the pair needs.

`HazardModel.facts` describes one instruction, `HazardModel.needs` says which rows hold between two descriptions. There is no
walking of code here: the passes (asmgen.hazards) and the emulator each do their own.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from asmgen.isa.hazardforms import VECTOR_FILE, Deciding, Kind, Parts, Subject, deciding, describe, states_of
from asmgen.isa.operands import Operand
from asmgen.isa.waitstates import RULES, WaitRule

_REGISTER_ROLES = frozenset({"write", "srcc", "data"})


class HazardFacts(NamedTuple):
    """One instruction as the rows see it.

    `kind` numbers its classes and passes: instructions of one kind differ in registers only. `states` is how many wait states it
    is itself, `window` the most that a row may ask for behind it.
    """

    kind: int
    states: int
    window: int
    parts: Parts
    operands: tuple[Operand, ...]

    def mask(self, role: str) -> int:
        """Its registers in a role (waitstates.ROLES)."""
        part = self.parts.get(role)
        if part is None:
            return 0
        mask = part.always
        for place in part.places:
            mask |= part.count(self.operands[place])
        return mask


@dataclass(frozen=True)
class Need:
    """One row that holds for a pair: `states` wait states, because of the registers in `mask` (0 where the row names none)."""

    rule: WaitRule
    states: int
    mask: int


@dataclass(frozen=True)
class _Shape:
    """What the instructions of one form share that agree in everything else that decides."""

    kind: int
    states: int
    window: int
    parts: Parts


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

    An instance remembers the forms and kinds that it has met; `hazard_model` hands out one for all programs.
    """

    arch: str
    match_llvm: bool = False
    _numbers: dict[Kind, int] = field(default_factory=dict)
    _kinds: list[Kind] = field(default_factory=list)
    _windows: list[int] = field(default_factory=list)
    _producer_roles: list[frozenset[str]] = field(default_factory=list)
    _deciding: dict[int, Deciding] = field(default_factory=dict)
    _shapes: dict[tuple[Hashable, ...], _Shape] = field(default_factory=dict)
    _pairs: dict[tuple[int, int], tuple[_Candidate, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.match_llvm:
            self._rules = tuple(rule for rule in RULES if rule.asked_by != "isa" and self.arch in rule.archs)
        else:
            self._rules = tuple(rule for rule in RULES if not rule.artefact and self.arch in rule.archs)

    def facts(self, instruction: Subject) -> HazardFacts:
        """Describe one instruction."""
        form = instruction.form
        decides = self._deciding.get(id(form))
        if decides is None:
            decides = self._deciding[id(form)] = deciding(instruction.opcode, form)
        key = decides.key(instruction)
        shape = self._shapes.get(key)
        if shape is None:
            kind, parts = describe(self.arch, instruction)
            number = self._number(kind)
            shape = self._shapes[key] = _Shape(number, states_of(instruction), self._windows[number], parts)
        return HazardFacts(shape.kind, shape.states, shape.window, shape.parts, instruction.operands)

    def leaves(self, facts: HazardFacts) -> int:
        """The vector registers through which an instruction can be the producer of any row; -1 where not these alone make it one."""
        mask = 0
        for role in self._producer_roles[facts.kind]:
            if role not in _REGISTER_ROLES:
                return -1
            mask |= facts.mask(role)
        return mask if mask <= VECTOR_FILE else -1

    def needs(self, producer: HazardFacts, consumer: HazardFacts) -> list[Need]:
        """Every row that holds where `consumer` comes behind `producer`, whatever lies between."""
        candidates = self.candidates(producer.kind, consumer.kind)
        if not candidates:
            return []
        found = []
        for candidate in candidates:
            if candidate.producer == "any":
                found.append(Need(candidate.rule, candidate.states, 0))
                continue
            first, second = producer.mask(candidate.producer), consumer.mask(candidate.consumer)
            common = first & second
            if common and (candidate.same is None or (first == second) is candidate.same):
                found.append(Need(candidate.rule, candidate.states, common))
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

    def _number(self, kind: Kind) -> int:
        number = self._numbers.get(kind)
        if number is None:
            number = self._numbers[kind] = len(self._kinds)
            self._kinds.append(kind)
            rules = [rule for rule in self._rules if rule.producer in kind.classes]
            self._windows.append(max((rule.states_on(self.arch, kind.passes) for rule in rules), default=0))
            self._producer_roles.append(frozenset(rule.roles[0] for rule in rules))
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
