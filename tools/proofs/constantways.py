"""The blocks that code can come to from a branch, as far as constants decide: flags that say what happens later are set before it.

A way that returns to a loop with a flag leaves it where the flag says, which the graph of the code does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from asmgen.emulator.shadow.undefineduses import use_of
from asmgen.emulator.terms.polynomials import WORD
from asmgen.isa.registers import SGPR_BIT, Reg
from asmgen.program.controlflow import ControlFlow
from asmgen.program.program import Instruction, Program
from asmgen.program.wavesteps import COMPARED
from asmgen.regalloc.dataflow import reached

_MOST = 4000
"""States; where code has more, constants count no longer."""


_COUNTED = ("s_add_u32", "s_sub_u32")


@dataclass
class _Known:
    """Constants in SGPRs, and SCC, None where it is not known."""

    registers: dict[int, int]
    scc: bool | None = None

    def value(self, operand: object) -> int | None:
        """Of a source."""
        if isinstance(operand, Reg):
            return self.registers.get(operand.index) if _register(operand) is not None else None
        return operand % WORD if isinstance(operand, int) else None

    def run(self, instruction: Instruction, written: int, deciding: frozenset[int]) -> None:
        """What it leaves known in registers that decide, of those that it writes, as bits."""
        name = instruction.name
        sources = [self.value(one) for one in instruction.operands]
        result, scc = None, self.scc if "scc" not in instruction.opcode.writes else None
        if name == "s_mov_b32":
            result = sources[1]
        elif name in _COUNTED and sources[1] is not None and sources[2] is not None:
            total = sources[1] + sources[2] if name == "s_add_u32" else sources[1] - sources[2]
            result, scc = total % WORD, not 0 <= total < WORD
        elif name.startswith("s_cmp_") and name.endswith("_u32") and sources[0] is not None and sources[1] is not None:
            scc = bool(COMPARED[name.split("_")[2]](sources[0], sources[1]))
        for index in [one for one in self.registers if written >> one & 1 or name.startswith("s_movrel")]:
            del self.registers[index]
        if result is not None and (target := _register(instruction.operands[0])) in deciding and target is not None:
            self.registers[target] = result
        self.scc = scc


def _register(operand: object) -> int | None:
    """The number of a single SGPR."""
    return operand.index if isinstance(operand, Reg) and operand.file == "s" and operand.index == operand.last else None


class ConstantWays:
    """Of a program. Constants count where they are compared, or go into what is, as other registers decide nothing."""

    def __init__(self, program: Program, flow: ControlFlow) -> None:
        self._program, self._flow = program, flow
        self._deciding = _deciding(program, flow)
        self._steps: list[list[tuple[Instruction, int]]] = []
        for block in flow.blocks:
            steps = [(one, use_of(one, 0).writes >> SGPR_BIT) for one in program.instructions[block.first:block.last + 1]]
            self._steps.append([(one, written) for one, written in steps if "scc" in one.opcode.writes or one.name.startswith("s_movrel")
                                or any(written >> index & 1 for index in self._deciding)])

    def after(self, branch: int, taken: bool, once: bool = False) -> frozenset[int]:
        """The blocks that can follow the branch on SCC at a position where it is `taken` or not; with `once` up to where waves meet it
        again."""
        program, flow = self._program, self._flow
        end = flow.block_of[branch] if once else None
        known = _Known({})
        for number in _leading(program, flow, flow.block_of[branch]):
            self._run(number, known)
        known.scc = taken == (program.instructions[branch].name == "s_cbranch_scc1")
        last = _after(program, flow, branch, known)
        waiting: list[tuple[int, frozenset[tuple[int, int]], bool | None]] = []
        waiting += [(number, frozenset(known.registers.items()), known.scc) for number in last]
        seen = set(waiting)
        while waiting and len(seen) < _MOST:
            number, registers, scc = waiting.pop()
            if number == end:
                continue
            known = _Known(dict(registers), scc)
            self._run(number, known)
            for following in _after(program, flow, flow.blocks[number].last, known):
                state = following, frozenset(known.registers.items()), known.scc
                if state not in seen:
                    seen.add(state)
                    waiting.append(state)
        return frozenset(number for number, _, _ in seen) if not waiting else reached(
            [block.successors for block in flow.blocks], last)

    def _run(self, number: int, known: _Known) -> None:
        for instruction, written in self._steps[number]:
            known.run(instruction, written, self._deciding)


def _deciding(program: Program, flow: ControlFlow) -> frozenset[int]:
    """The SGPRs that comparisons read, or sums whose carry a branch follows, and those that they are moved and added from."""
    found, moves = set[int | None](), list[tuple[int | None, set[int | None]]]()
    for block in flow.blocks:
        decides: Instruction | None = None
        for instruction in program.instructions[block.first:block.last + 1]:
            name, sources = instruction.name, set(map(_register, instruction.operands[1:]))
            if name.startswith("s_cmp_") and name.endswith("_u32"):
                found.update(map(_register, instruction.operands))
            elif name == "s_mov_b32" or name in _COUNTED:
                moves.append((_register(instruction.operands[0]), sources))
            decides = instruction if "scc" in instruction.opcode.writes else decides
        if decides is not None and decides.name in _COUNTED:
            found.update(map(_register, decides.operands[1:]))
    before = -1
    while before != len(found):
        before = len(found)
        for target, sources in moves:
            found |= sources if target in found else set()
    return frozenset(one for one in found if one is not None)


def _leading(program: Program, flow: ControlFlow, number: int) -> list[int]:
    """The blocks that always run just before a block, and itself."""
    found, starts = [number], {0, flow.block_of[program.labels[program.entry]] if program.entry else 0}
    while found[0] not in starts:
        before = flow.blocks[found[0]].predecessors
        if len(before) != 1 or before[0] in found:
            break
        found.insert(0, before[0])
    return found


def _after(program: Program, flow: ControlFlow, position: int, known: _Known) -> Sequence[int]:
    """The blocks that follow the last instruction of a block."""
    instruction = program.instructions[position]
    successors = flow.blocks[flow.block_of[position]].successors
    if instruction.name not in ("s_cbranch_scc0", "s_cbranch_scc1") or known.scc is None:
        return successors
    taken = known.scc == (instruction.name == "s_cbranch_scc1")
    to = program.labels.get(instruction.target or "", len(program.instructions)) if taken else position + 1
    return [flow.block_of[to]] if to < len(program.instructions) else []
