"""The emulator's own reading of the rows of isa/waitstates.py: what a producer asks of those behind it, and who it concerns.

The passes read the same rows by kinds of instructions and pairs of kinds (checks/waitstates/match.py). Here each instruction lays out the
masks of all its roles and the rows that it begins, and a consumer is held against these: nothing is shared but isa's data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from asmgen.isa.hazardforms import Kind, Subject, describe, states_of
from asmgen.isa.registers import NAMED
from asmgen.isa.waitstates import RULES, WaitRule

_ANY = "any"
_ALWAYS = NAMED["exec"].mask | NAMED["m0"].mask


@dataclass(frozen=True)
class Ask:
    """A row that an instruction begins: `states` wait states for whom it concerns, because of the producer's `registers`."""

    row: WaitRule
    states: int
    registers: int

    @property
    def anyone(self) -> bool:
        """Whether no register has to be shared."""
        return self.row.overlap == _ANY


@dataclass(frozen=True)
class Demand:
    """A row that holds between two instructions, and the registers that they share (0 where the row names none)."""

    row: WaitRule
    states: int
    shared: int


@dataclass(frozen=True)
class Described:
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
    rows = [row for row in RULES if not row.artefact and arch in row.archs]
    begun: dict[frozenset[str], list[WaitRule]] = {}
    return [_one(arch, instruction, rows, begun) for instruction in instructions]


def _one(arch: str, instruction: Subject, rows: Sequence[WaitRule], begun: dict[frozenset[str], list[WaitRule]]) -> Described:
    kind, parts = describe(arch, instruction)
    roles, touches = {}, 0
    for role, part in parts.items():
        registers = part.always
        for place in part.places:
            registers |= part.count(instruction.operands[place])
        roles[role] = registers
        touches |= registers
    if kind.classes not in begun:
        begun[kind.classes] = [row for row in rows if row.producer in kind.classes]
    asks = []
    leaves = longest = 0
    for row in begun[kind.classes]:
        states = row.states_on(arch, kind.passes)
        registers = roles.get(row.roles[0], 0)
        if states > 0 and (registers or row.overlap == _ANY):
            asks.append(Ask(row, states, registers))
            leaves |= -1 if row.overlap == _ANY else registers
            longest = max(longest, states)
    return Described(kind, states_of(instruction), roles, tuple(asks), touches | _ALWAYS, leaves, longest)


def demands(producer: Described, consumer: Described) -> list[Demand]:
    """The rows that hold where `consumer` comes behind `producer`."""
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
        case "overlapping":
            return not same
        case "same_opcode":
            return producer.dot == consumer.dot
        case "other_opcode":
            return producer.dot != consumer.dot
    raise ValueError(f"a row of isa/waitstates.py has the relation {relation!r}, which is none of RELATIONS")
