"""Where instructions go, as terms: each execution of each memory instruction, and how the terms of a loop follow each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.carried.carrier import HandleCarrier
from asmgen.emulator.carried.cells import UNKNOWN, Handles
from asmgen.emulator.machine.state import LANES, M0, Group
from asmgen.emulator.terms.decisions import DecisionTerms
from asmgen.emulator.terms.polynomials import WORD, Term
from asmgen.emulator.terms.termstate import TermState, distinct
from asmgen.emulator.terms.termwords import TermTable
from asmgen.isa.opcode import is_lds_dma
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction

Action = Callable[[Group], None]


@dataclass(frozen=True)
class AddressSequence:
    """What some waves access with one instruction, execution after execution: the first `count` terms are `first` + n `step`.

    `terms` are all of them, None where unknown; `affine` says whether the formula holds for all. `what` is "address" (bytes in memory),
    "offset" (bytes from the buffer's base), "LDS" (bytes in LDS).
    """

    instruction: Instruction
    what: str
    waves: tuple[int, ...]
    terms: tuple[Term | None, ...]

    @property
    def known(self) -> bool:
        """Whether each term is."""
        return None not in self.terms

    def step(self, table: TermTable) -> Term | None:
        """What each term is more than the one before it; None where that changes."""
        if not self.known:
            return None
        algebra = table.algebra
        steps = {algebra.sub(after, before) for before, after in zip(self.terms, self.terms[1:], strict=False)}  # type: ignore[arg-type]
        return steps.pop() if len(steps) == 1 else () if not steps else None


@dataclass
class AccessTerms:
    """The terms of all executions, by instruction and by wave of the launch."""

    state: TermState
    branches: DecisionTerms
    executed: dict[tuple[int, str], dict[int, list[tuple[int, ...]]]] = field(default_factory=dict)
    met: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    """By instruction and wave: how many branches the wave had met at each execution."""
    lanes: dict[tuple[int, int], dict[int, NDArray[np.bool_]]] = field(default_factory=dict)
    """By store or atomic and wave: the lanes, of all executions, that changed what a term says, by the term's number."""
    instructions: dict[int, Instruction] = field(default_factory=dict)

    def note(self, instruction: Instruction, carrier: HandleCarrier) -> Action | None:
        """What to note when an instruction runs."""
        parts = _addresses(instruction, carrier, self.state)
        if not parts:
            return None
        self.instructions[id(instruction)] = instruction
        machine = carrier.machine
        changes = instruction.opcode.memory is not None and instruction.opcode.memory.kind != "load"

        number, met_of = id(instruction), dict[int, list[int]]()

        def step(group: Group) -> None:
            first = machine.first_workgroup * (machine.waves // machine.workgroups)
            lanes, waves, branches = group.lanes(), (group.waves + first).tolist(), self.branches.by_wave
            for wave in waves if group.mask is None else (group.waves[np.logical_or.reduce(lanes, axis=1)] + first).tolist():
                met = met_of.get(wave)
                if met is None:
                    met = met_of[wave] = self.met.setdefault((number, wave), [])
                met.append(len(branches.get(wave, ())))
            for what, terms in parts:
                found = np.broadcast_to(terms(group), (group.size, LANES))
                by_wave = self.executed.setdefault((number, what), {})
                numbers = distinct(found, lanes)
                for wave, ids in zip(waves, map(tuple, numbers), strict=True):
                    if wave in by_wave:
                        by_wave[wave].append(ids)
                    else:
                        by_wave[wave] = [ids]
                if changes and what == "address":
                    self._keep_lanes(number, waves, numbers, found, lanes)

        return step

    def _keep_lanes(self, number: int, waves: list[int], numbers: list[list[int]], found: Handles, lanes: NDArray[np.bool_]) -> None:
        """Which lanes changed what each term of a store says; `numbers` are the terms of each wave."""
        here = {one: (found == one) & lanes for one in set().union(*numbers)}
        for row, (wave, ids) in enumerate(zip(waves, numbers, strict=True)):
            own = self.lanes.setdefault((number, wave), {})
            for one in ids:
                own[one] = own[one] | here[one][row] if one in own else here[one][row]

    def sequences(self) -> Iterator[AddressSequence]:
        """All of them, waves of equal terms together. Where lanes of a wave have several terms, a sequence has those of each."""
        for (number, what), by_wave in self.executed.items():
            groups: dict[tuple[tuple[int, ...], ...], list[int]] = {}
            for wave, executions in by_wave.items():
                groups.setdefault(tuple(executions), []).append(wave)
            for sequence, waves in groups.items():
                for terms in self._each(sequence):
                    yield AddressSequence(self.instructions[number], what, tuple(waves), terms)

    def _each(self, executions: tuple[tuple[int, ...], ...]) -> Iterator[tuple[Term | None, ...]]:
        most = max((len(ids) for ids in executions), default=0)
        for number in range(most):
            yield tuple(self.state.table.terms[ids[min(number, len(ids) - 1)]] for ids in executions if ids)


Terms = Callable[[Group], Handles]


def _addresses(instruction: Instruction, carrier: HandleCarrier, state: TermState) -> list[tuple[str, Terms]]:
    """What an instruction's addresses are made of."""
    row = instruction.opcode.memory
    assert row is not None
    named: dict[str, Any] = {spec.name: operand for spec, operand in zip(instruction.form.operands, instruction.operands, strict=True)}
    builder = _Builder(carrier, state)
    immediate = int(instruction.modifiers.get("offset", 0) or 0)
    found: list[tuple[str, Terms]] = []
    if row.space == "lds" and isinstance(named.get("addr"), Reg):
        two = "two" in instruction.opcode.flags
        unit = (row.bytes // 2) * (64 if "st64" in instruction.opcode.flags else 1)
        offsets = [int(instruction.modifiers.get(name, 0)) * unit for name in ("offset0", "offset1")] if two else [immediate]
        found += [("LDS", builder.sum([builder.vector(named["addr"])], offset)) for offset in offsets]
    elif row.space == "buffer" and instruction.modifiers.get("idxen"):  # rows of the descriptor's stride, which nobody follows here
        found.append(("address", lambda group: np.full((1, 1), UNKNOWN, np.uint32)))
    elif row.space == "buffer":
        parts = [builder.vector(named["vaddr"])] if instruction.modifiers.get("offen") else []
        soffset, resource = named["soffset"], named["srsrc"]
        if isinstance(soffset, Reg) and soffset.file == "s":
            parts.append(builder.scalar(soffset.index))
        elif isinstance(soffset, int):
            immediate += soffset
        base = builder.pair(builder.scalar(resource.index), builder.scalar(resource.index + 1), 16)
        offset = builder.sum(parts, immediate)
        found += [("offset", offset), ("address", builder.added(base, offset)), ("records", builder.scalar(resource.index + 2))]
    elif row.space in ("global", "flat"):
        address, scalar = named["vaddr"], named.get("saddr")
        if isinstance(scalar, Reg) and scalar.file == "s":
            base, offset = builder.pair(builder.scalar(scalar.index), builder.scalar(scalar.index + 1), 32), builder.sum(
                [builder.vector(address)], immediate)
        else:
            base, offset = builder.pair(builder.vector(address), builder.vector(Reg(address.file, address.index + 1)), 32), builder.sum(
                [], immediate)
        found.append(("address", builder.added(base, offset)))
    if is_lds_dma(instruction.opcode, instruction.form):
        found.append(("LDS", builder.sum([builder.scalar(M0)], immediate)))
    return found


@dataclass(frozen=True)
class _Builder:
    """Terms of registers and of what is made of them."""

    carrier: HandleCarrier
    state: TermState

    def vector(self, reg: Reg) -> Terms:
        """What a vector register holds."""
        machine, shadow, slot = self.carrier.machine, self.carrier.shadow, self.carrier.machine.slot(reg)
        return lambda group: self.state.filled(shadow.vector[slot, group.select], machine.vector[slot, group.select])

    def scalar(self, index: int) -> Terms:
        """What a scalar register holds, [waves, 1]."""
        machine, shadow = self.carrier.machine, self.carrier.shadow
        return lambda group: self.state.filled(shadow.scalar[index, group.select], machine.scalar[index, group.select])[:, None]

    def sum(self, parts: list[Terms], immediate: int) -> Terms:
        """The sum of what registers hold as unsigned numbers, and a constant."""
        table, algebra = self.state.table, self.state.table.algebra

        def make(*terms: Term) -> Term:
            total = algebra.number(immediate)
            for term in terms:
                total = algebra.add(total, algebra.truncated(term, 32))
            return total

        if not parts:
            number = table.number(algebra.number(immediate))
            return lambda group: np.full((1, 1), number, np.uint32)
        return lambda group: table.applied(("offsets", immediate), make, *(part(group) for part in parts))

    def pair(self, low: Terms, high: Terms, bits: int) -> Terms:
        """A 64-bit number of two registers, of whose upper one some bits count."""
        table, algebra = self.state.table, self.state.table.algebra

        def make(x: Term, y: Term) -> Term:
            return algebra.add(algebra.truncated(x, 32), algebra.truncated(y, bits), WORD)

        return lambda group: table.applied(("pair of", bits), make, low(group), high(group))

    def added(self, one: Terms, other: Terms) -> Terms:
        """The sum of two terms."""
        table = self.state.table
        return lambda group: table.applied(("sum of two",), table.algebra.add, one(group), other(group))
