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


@dataclass
class _Known:
    """Constants in SGPRs, and SCC, None where it is not known."""

    registers: dict[int, int]
    scc: bool | None = None

    def value(self, operand: object) -> int | None:
        """Of a source."""
        if isinstance(operand, Reg):
            return self.registers.get(operand.index) if operand.file == "s" and operand.index == operand.last else None
        return operand % WORD if isinstance(operand, int) else None

    def run(self, instruction: Instruction) -> None:
        """What it leaves known."""
        name, sources = instruction.name, [self.value(one) for one in instruction.operands]
        result, scc = None, self.scc if "scc" not in instruction.opcode.writes else None
        if name == "s_mov_b32":
            result = sources[1]
        elif name in ("s_add_u32", "s_sub_u32") and sources[1] is not None and sources[2] is not None:
            total = sources[1] + sources[2] if name == "s_add_u32" else sources[1] - sources[2]
            result, scc = total % WORD, not 0 <= total < WORD
        elif name.startswith("s_cmp_") and name.endswith("_u32") and sources[0] is not None and sources[1] is not None:
            scc = bool(COMPARED[name.split("_")[2]](sources[0], sources[1]))
        written = use_of(instruction, 0).writes >> SGPR_BIT
        for index in [one for one in self.registers if written >> one & 1 or name.startswith("s_movrel")]:
            del self.registers[index]
        if result is not None and isinstance(instruction.operands[0], Reg) and instruction.operands[0].file == "s":
            self.registers[instruction.operands[0].index] = result
        self.scc = scc


def ways_from(program: Program, flow: ControlFlow, branch: int, taken: bool) -> frozenset[int]:
    """The blocks that can follow the branch on SCC at a position where it is `taken` or not."""
    known = _Known({})
    for number in _leading(program, flow, flow.block_of[branch]):
        for position in range(flow.blocks[number].first, flow.blocks[number].last + 1):
            known.run(program.instructions[position])
    known.scc = taken == (program.instructions[branch].name == "s_cbranch_scc1")
    last = _after(program, flow, branch, known)
    waiting: list[tuple[int, frozenset[tuple[int, int]], bool | None]] = []
    waiting += [(number, frozenset(known.registers.items()), known.scc) for number in last]
    seen = set(waiting)
    while waiting and len(seen) < _MOST:
        number, registers, scc = waiting.pop()
        known = _Known(dict(registers), scc)
        for position in range(flow.blocks[number].first, flow.blocks[number].last + 1):
            known.run(program.instructions[position])
        for following in _after(program, flow, flow.blocks[number].last, known):
            state = following, frozenset(known.registers.items()), known.scc
            if state not in seen:
                seen.add(state)
                waiting.append(state)
    return frozenset(number for number, _, _ in seen) if not waiting else reached(
        [block.successors for block in flow.blocks], last)


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
