"""The emulator's own reading of the rows of isa/waitrules.py: what a producer asks of those after it, and who it concerns.

The passes read the same rows by kinds of instructions and pairs of kinds (checks/waitstates/match.py). Here each instruction lays out the
masks of all its roles and the rows that it begins, and a consumer is held against these: nothing is shared but isa's data.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from asmgen.isa.hazardforms import Deciding, Kind, Parts, Subject, deciding, describe, states_of
from asmgen.isa.registers import NAMED
from asmgen.isa.waitrules import RULES, WaitRule

_ANY = "any"
_ALWAYS = NAMED["exec"].mask | NAMED["m0"].mask


class Ask(NamedTuple):
    """A row that an instruction begins: `states` wait states for whom it concerns, because of the producer's `registers`."""

    row: WaitRule
    states: int
    registers: int

    @property
    def anyone(self) -> bool:
        """Whether no register has to be shared."""
        return self.row.overlap == _ANY


class Demand(NamedTuple):
    """A row that holds between two instructions, and the registers that they share (0 where the row names none)."""

    row: WaitRule
    states: int
    shared: int


class Described(NamedTuple):
    """An instruction as the rows see it: its kind, wait states of its own, registers by role, and the rows that it begins.

    `touches` has every register of any role, `leaves` those of the rows it begins (-1: they need none): where the two do not meet, no row
    holds. `longest` is the most wait states that it asks for.
    """

    kind: Kind
    states: int
    roles: dict[str, int]
    asks: tuple[Ask, ...]
    touches: int
    leaves: int
    longest: int

    @property
    def passes(self) -> int:
        """How many issue slots it keeps the matrix core busy; 0 for one that is no matrix instruction."""
        return self.kind.passes


def described(arch: str, instructions: Sequence[Subject]) -> list[Described]:
    """Every instruction of a program."""
    reading = _Reading(arch)
    found = []
    for instruction in instructions:
        kept: dict[str, tuple[str, Described]] = instruction.__dict__  # programs that share instructions ask for the same
        known = kept.get("_described")
        if known is None or known[0] != arch:
            known = kept["_described"] = arch, reading.of(instruction)
        found.append(known[1])
    return found


class _Reading:
    """The rows of an architecture, and what those instructions have in common that differ in registers alone."""

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self.rows = [row for row in RULES if not row.artefact and arch in row.archs]
        self.deciding: dict[int, Deciding] = {}  # by the identity of a form
        self.sorts: dict[Hashable, tuple[Kind, Parts, tuple[tuple[WaitRule, int, str], ...]]] = {}

    def of(self, instruction: Subject) -> Described:
        """One instruction."""
        form = instruction.form
        decides = self.deciding.get(id(form))
        if decides is None:
            decides = self.deciding[id(form)] = deciding(instruction.opcode, form)
        key = decides.key(instruction)
        sort = self.sorts.get(key)
        if sort is None:
            kind, parts = describe(self.arch, instruction)
            begun = [(row, row.states_on(self.arch, kind.passes)) for row in self.rows if row.producer in kind.classes]
            sort = self.sorts[key] = kind, parts, tuple((row, states, row.roles[0]) for row, states in begun if states > 0)
        kind, parts, rows = sort
        roles, touches = {}, _ALWAYS
        for role, (locations, count, registers) in parts.items():
            for location in locations:
                registers |= count(instruction.operands[location])
            roles[role] = registers
            touches |= registers
        asks = []
        leaves = longest = 0
        for row, states, role in rows:
            anyone = role == _ANY
            registers = 0 if anyone else roles.get(role, 0)
            if registers or anyone:
                asks.append(Ask(row, states, registers))
                leaves |= -1 if anyone else registers
                longest = max(longest, states)
        return Described(kind, states_of(instruction), roles, tuple(asks), touches, leaves, longest)


def demands(producer: Described, consumer: Described) -> list[Demand]:
    """The rows that hold where `consumer` comes after `producer`."""
    if not producer.leaves & consumer.touches:
        return []
    found = []
    for ask in producer.asks:
        row = ask.row
        if row.consumer not in consumer.kind.classes:
            continue
        mine = 0 if ask.anyone else consumer.roles.get(row.roles[1], 0)
        if (ask.anyone or ask.registers & mine) and _related(row.relation, producer.kind, consumer.kind, ask.registers == mine):
            found.append(Demand(row, ask.states, ask.registers & mine))
    return found


def _related(relation: str, producer: Kind, consumer: Kind, same: bool) -> bool:
    """Whether a row's further condition (waitstates.RELATIONS) holds; `same`: the registers of the two roles are the same ones."""
    alike = producer.matrix == consumer.matrix and producer.passes == consumer.passes
    match relation:
        case "":
            return True
        case "identical":
            return same and alike
        case "identical_other":
            return same and not alike
        case "identical_opcode":
            return same and alike and producer.mnemonic != consumer.mnemonic
        case "overlapping":
            return not same
        case "same_opcode":
            return producer.dot == consumer.dot
        case "other_opcode":
            return producer.dot != consumer.dot
    raise ValueError(f"a row of isa/waitrules.py has the relation {relation!r}, which is none of RELATIONS")
