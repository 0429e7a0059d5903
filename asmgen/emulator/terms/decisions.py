"""Which way waves go, as terms: each branch on SCC, with what was compared. What scalar instructions select is a term itself.

Code that only some sizes run follows such branches. A formula of an address there holds for these sizes alone.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.carried.carrier import HandleCarrier
from asmgen.emulator.carried.cells import Handles
from asmgen.emulator.machine.state import Group
from asmgen.emulator.terms.polynomials import WORD, Term
from asmgen.emulator.terms.termstate import TermState
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction

Action = Callable[[Group], None]
Numbers = NDArray[Any]
# Its own table: the emulator judges what program.wavesteps computes and takes nothing from it.
_COMPARED = {"eq": operator.eq, "lg": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
_BITWISE = {"s_and_b32": operator.and_, "s_or_b32": operator.or_, "s_xor_b32": operator.xor}
_NOTHING = ("", 0, 0)
_SELECTS = ("s_cselect_", "s_cmov")


@dataclass(frozen=True)
class Decision:
    """A wave at a branch: `name` is the instruction that wrote SCC, of the terms `parts`, and SCC was `held`."""

    branch: Instruction
    name: str
    parts: tuple[Term, Term]
    held: bool

    @property
    def taken(self) -> bool:
        """Whether the wave went to the label."""
        return self.held == (self.branch.name == "s_cbranch_scc1")

    def holds(self, first: Numbers, second: Numbers) -> NDArray[np.bool_]:
        """What SCC is for other values of the parts, of arrays of them."""
        if self.name in _BITWISE:
            return np.asarray(_BITWISE[self.name](first % WORD, second % WORD), bool)
        _, _, how, kind = self.name.split("_")
        return np.asarray(_COMPARED[how](*(_read(value, kind) for value in (first, second))), bool)


def _read(value: Numbers, kind: str) -> Numbers:
    signed = WORD // 2 if kind == "i32" else 0
    return (value + signed) % WORD - signed


@dataclass
class DecisionTerms:
    """The branches of all waves of a launch, in their order. `selected` says what SCC was, by scalar selection that other launches may make
    otherwise, `flags` the terms of SCC there."""

    state: TermState
    selected: dict[int, set[bool]] = field(default_factory=dict)
    flags: dict[int, set[Term]] = field(default_factory=dict)
    by_wave: dict[int, list[tuple[Instruction, tuple[str, int, int], bool]]] = field(default_factory=dict)
    _written: dict[int, list[tuple[str, int, int]]] = field(default_factory=dict)  # by machine and wave: what SCC is

    def note(self, instruction: Instruction, carrier: HandleCarrier) -> Action | None:
        """What to note before an instruction runs."""
        machine, written, state = carrier.machine, self._written, self.state
        if instruction.name.startswith(_SELECTS):
            def select(group: Group) -> None:
                flag = state.scc(machine, group)
                if flag.ids is not None:
                    varies = [not state.words.is_constant(number) for number in flag.ids.tolist()]
                    self.selected.setdefault(id(instruction), set()).update(flag.value[varies].tolist())
                    terms = {state.table.terms[number] for number in flag.ids[varies].tolist()}
                    self.flags.setdefault(id(instruction), set()).update(term for term in terms if term is not None)

            return select
        if instruction.name in ("s_cbranch_scc0", "s_cbranch_scc1"):
            def branch(group: Group) -> None:
                first = machine.first_workgroup * (machine.waves // machine.workgroups)
                known = written.get(id(machine), [_NOTHING] * machine.waves)
                for wave, scc in zip(np.arange(machine.waves)[group.select].tolist(), machine.scc[group.select].tolist(), strict=True):
                    self.by_wave.setdefault(wave + first, []).append((instruction, known[wave], bool(scc)))

            return branch
        if "scc" not in instruction.opcode.writes:
            return None
        sources = self._sources(instruction, carrier)

        def write(group: Group) -> None:
            known = written.setdefault(id(machine), [_NOTHING] * machine.waves)
            waves = np.arange(machine.waves)[group.select]
            parts = [np.broadcast_to(source(group), waves.shape).tolist() for source in sources] or [[0] * len(waves)] * 2
            for wave, one, other in zip(waves.tolist(), *parts, strict=True):
                known[wave] = (instruction.name, one, other) if sources else _NOTHING

        return write

    def _sources(self, instruction: Instruction, carrier: HandleCarrier) -> list[Callable[[Group], Handles]]:
        """The terms of both sources of a comparison or a bitwise instruction of 32 bits; nothing for others."""
        name = instruction.name
        compares = name.startswith("s_cmp_") and name.endswith(("_u32", "_i32"))
        if not compares and name not in _BITWISE:
            return []
        operands = instruction.operands[-2:]
        return [self._source(operand, carrier) for operand in operands] if all(map(_plain, operands)) else []

    def _source(self, operand: Any, carrier: HandleCarrier) -> Callable[[Group], Handles]:
        if not isinstance(operand, Reg):
            number = np.array([self.state.table.number(self.state.table.algebra.number(int(operand) % WORD))], np.uint32)
            return lambda group: number
        machine, shadow, index = carrier.machine, carrier.shadow, operand.index
        return lambda group: self.state.filled(shadow.scalar[index, group.select], machine.scalar[index, group.select])

    def of(self, wave: int) -> list[tuple[int, Decision]]:
        """The decisions of a wave whose parts are known, each with the number of branches that the wave met before."""
        found = [(number, self._known(*met)) for number, met in enumerate(self.by_wave.get(wave, []))]
        return [(number, decision) for number, decision in found if decision is not None]

    def _known(self, instruction: Instruction, written: tuple[str, int, int], held: bool) -> Decision | None:
        name, one, other = written
        first, second = (self.state.table.terms[one], self.state.table.terms[other]) if name else (None, None)
        return None if first is None or second is None else Decision(instruction, name, (first, second), held)


def _plain(operand: Any) -> bool:
    return isinstance(operand, int) or isinstance(operand, Reg) and operand.file == "s" and operand.index < 106
