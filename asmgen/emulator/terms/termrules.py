"""The rules of address terms: integers are terms of what the launch gives; what memory holds is unknown; the rest are functions of terms.

A term is that of its own lane: bits of the work-item's number are variables. A value that goes to a scalar register is the term with the
bits of the lane that it is from; between lanes, through LDS or memory, nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from asmgen.codeobject.descriptor import KernelDescriptor
from asmgen.emulator.carried.carrier import HandleCarrier
from asmgen.emulator.carried.cells import UNKNOWN, whole
from asmgen.emulator.carried.comparisons import compared
from asmgen.emulator.carried.moves import bind_move
from asmgen.emulator.carried.tracker import Rules
from asmgen.emulator.hashes.nibblecells import NibbleCells
from asmgen.emulator.machine.dispatch import Dispatch
from asmgen.emulator.machine.state import EXEC, Group
from asmgen.emulator.semantics import meaning
from asmgen.emulator.shadow.undefineduses import scalars_in, use_of, vectors_in
from asmgen.emulator.terms.accesses import AccessTerms
from asmgen.emulator.terms.comparisonterms import ComparisonTerms
from asmgen.emulator.terms.decisions import DecisionTerms
from asmgen.emulator.terms.polynomials import WORD, Term
from asmgen.emulator.terms.terminstructions import bind_comparison, bind_function, bind_scalar, bind_to_exec, bind_to_scalar, bind_vector
from asmgen.emulator.terms.termstate import TermState
from asmgen.emulator.terms.usedterms import UsedTerms, runs_of
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction

Action = Callable[[Group], None]
POINTER = (1 << 47) - 1
"""The largest address that a program has on x86-64 and aarch64 hosts."""
_ACROSS = ("v_swap", "v_permlane", "v_writelane")


@dataclass(frozen=True)
class GivenArgument:
    """One argument of the kernarg segment, and what values it may have."""

    name: str
    offset: int
    size: int
    low: int
    high: int


class TermRules(Rules):
    """Address terms as a domain of `carried.tracker`. `accesses` are the terms of what the launch touched, `decisions` those of its
    branches, `comparisons` those of truths, `used` those that end in data, in lane masks and in other SCC; they name terms, so all stay.
    Terms hold for launches of up to `grid` workgroups along each axis, those of the dispatch where it is None."""

    def __init__(self, arguments: Sequence[GivenArgument], grid: tuple[int, int, int] | None = None) -> None:
        self.cells = NibbleCells()
        self.state = TermState()
        self.arguments = arguments
        self.grid = grid
        self.decisions = DecisionTerms(self.state)
        self.accesses = AccessTerms(self.state, self.decisions)
        self.comparisons = ComparisonTerms(self.state)
        self.used = UsedTerms(self.state)

    def begin(self, carrier: HandleCarrier, descriptor: KernelDescriptor, dispatch: Dispatch) -> None:
        """Name what the hardware gives to waves: arguments, ids of workgroups, bits of the work-item's number."""
        table, algebra, shadow = self.state.table, self.state.table.algebra, carrier.shadow
        given = {argument.offset + 4 * number: table.number(term) for argument in self.arguments
                 for number, term in enumerate(self._terms(argument)) if argument.offset % 4 == 0}
        words = carrier.device.of(dispatch.kernarg_address)
        words[:] = UNKNOWN
        for offset, number in given.items():
            words[offset // 4] = number
        for name, index, count in descriptor.sgpr_layout():
            if name.startswith("workgroup_id_"):
                axis = "xyz".index(name[-1])
                most = max(dispatch.grid[axis], self.grid[axis] if self.grid is not None else 0)
                shadow.scalar[index] = table.number(algebra.variable(f"workgroup.{name[-1]}", 0, most - 1))
            elif name == "kernarg_preload" and dispatch.preload:
                for word in range(count):
                    shadow.scalar[index + word] = given.get(4 * (descriptor.preload_offset + word), UNKNOWN)
        shadow.vector[0] = table.number(self._item(dispatch.block[0])) if dispatch.block[1] * dispatch.block[2] == 1 else UNKNOWN

    def _item(self, count: int) -> Term:
        algebra = self.state.table.algebra
        item: Term = ()
        self.state.item_bits.clear()
        for bit in range((count - 1).bit_length()):
            one = algebra.variable(f"item.{bit}", 0, 1)
            self.state.item_bits.append(one[0][0][0])
            item = algebra.add(item, one, 1 << bit)
        return item

    def _terms(self, argument: GivenArgument) -> list[Term]:
        """The terms of an argument's words."""
        algebra = self.state.table.algebra
        if argument.size == 4:
            return [algebra.variable(argument.name, argument.low, argument.high)]
        if argument.size == 8:
            pointer = algebra.variable(argument.name, argument.low, argument.high)
            return [pointer, algebra.quotient(pointer, 32)]
        return []

    def bind(self, instruction: Instruction, carrier: HandleCarrier) -> Action | None:
        """What an instruction that computes does to terms. Results of one without a rule are unknown, and what it takes ends there."""
        act = self._ruled(instruction, carrier)
        truth = instruction.name.startswith("v_cmp")
        ruled = act is not None or truth and compared(instruction.name) is not None
        act = act or self._written(instruction, carrier, 0 if truth or "salu" in instruction.opcode.classes else UNKNOWN)
        act = self.used.with_sources(instruction, carrier, act, ruled)
        return self.used.with_mask(instruction, carrier, act) if "salu" in instruction.opcode.classes else act

    def _ruled(self, instruction: Instruction, carrier: HandleCarrier) -> Action | None:
        classes, name = instruction.opcode.classes, instruction.name
        if name in ("v_readfirstlane_b32", "v_readlane_b32"):
            return bind_to_scalar(instruction, carrier, self.state)
        if "salu" in classes:
            rules = (bind_scalar, bind_comparison, bind_to_exec)
            return next((act for rule in rules if (act := rule(instruction, carrier, self.state)) is not None), None)
        if "valu" not in classes or "mfma" in classes or name.startswith("v_cmp"):
            return None
        means = meaning.vector_meaning(name, instruction.modifiers)
        if means is not None:
            return bind_vector(instruction, means, carrier, self.state)
        return bind_function(instruction, carrier, self.state)

    def moves(self, instruction: Instruction, position: int, carrier: HandleCarrier) -> Action | None:
        """Loads of arguments alone keep terms: what else is loaded, or comes from another lane, is unknown."""
        row, name = instruction.opcode.memory, instruction.name
        data = instruction.operands[0] if instruction.operands else None
        if row is not None and row.space == "scalar" and row.kind == "load" and isinstance(data, Reg):
            load, scalar, first, last = bind_move(instruction, position, carrier), carrier.shadow.scalar, data.index, data.last + 1

            def step(group: Group) -> None:
                assert load is not None
                load(group)
                found = scalar[first:last, group.select]
                scalar[first:last, group.select] = np.where((found == 0) | ~whole(found), np.uint32(UNKNOWN), found)

            return step
        if row is not None or "lds" in instruction.opcode.classes or name.startswith(_ACROSS):
            return self.used.with_sources(instruction, carrier, self._written(instruction, carrier, UNKNOWN), ruled=False)
        return None

    def _written(self, instruction: Instruction, carrier: HandleCarrier, number: int) -> Action:
        """All that is written has one term: none (a value of the run) or UNKNOWN."""
        use, shadow, state = use_of(instruction, carrier.shadow.accum_offset), carrier.shadow, self.state
        vectors = vectors_in(use.writes, shadow.registers - 1)
        scalars = scalars_in(use.writes)
        scc = "scc" in instruction.opcode.writes
        scalars += [EXEC, EXEC + 1] if use.to_exec else []
        runs = runs_of(vectors)

        def step(group: Group) -> None:
            for low, high in runs:
                shadow.vector[low:high, group.select] = number
            for bit in scalars:
                shadow.scalar[bit, group.select] = number
                state.keep_carries(carrier.machine, bit, group, None)
            if scc:
                state.keep_scc(carrier.machine, group, None)

        return step

    def watch(self, instruction: Instruction, position: int, carrier: HandleCarrier) -> Action | None:
        """Notes where an instruction goes, and which way waves do."""
        if instruction.opcode.memory is not None:
            return self.accesses.note(instruction, carrier)
        notes = [note for one in (self.decisions, self.comparisons, self.used) if (note := one.note(instruction, carrier)) is not None]
        if len(notes) < 2:
            return notes[0] if notes else None

        def both(group: Group) -> None:
            for note in notes:
                note(group)

        return both


def integer(name: str, offset: int, low: int = 0, high: int = WORD - 1) -> GivenArgument:
    """An argument of 32 bits."""
    return GivenArgument(name, offset, 4, low, high)


def pointer(name: str, offset: int) -> GivenArgument:
    """An argument that is an address."""
    return GivenArgument(name, offset, 8, 0, POINTER)
