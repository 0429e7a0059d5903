"""Index mutants of a finished program: an instruction takes another register, offset, stride, swizzle or matrix operand than it should.

Mistakes that people make in index arithmetic, each of one instruction. Most give wrong numbers, so a run finds them; one that no run finds
says that the launches or their data are too tame, or that it computes the same.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from asmgen.checks.counters.ledger import RETURNS
from asmgen.checks.mutants.mutants import Mutant
from asmgen.isa.check import resolve
from asmgen.isa.errors import AsmgenError
from asmgen.isa.opcode import group_of
from asmgen.isa.operands import Operand
from asmgen.isa.registers import SGPR_COUNT, VGPR_COUNT, Modified, Reg
from asmgen.program.controlflow import control_flow
from asmgen.program.knowncalls import CALLS
from asmgen.program.live import program_liveness
from asmgen.program.mix import address_instructions
from asmgen.program.program import Instruction, Program

INDEX_KINDS = ("register", "element", "stride", "swizzle constant", "matrix operands")
_OFFSETS = ("offset", "offset0", "offset1")
_SHIFTED = {"v_lshlrev_b32": 1, "v_lshrrev_b32": 1, "v_ashrrev_i32": 1, "v_lshlrev_b64": 1, "v_lshl_add_u32": 2, "v_lshl_or_b32": 2,
            "v_add_lshl_u32": 3, "s_lshl_b32": 2, "s_lshr_b32": 2, "s_ashr_i32": 2, "s_lshl_b64": 2, "s_lshr_b64": 2}
"""Where shifts have their amount, among the operands with the destination."""
_MULTIPLIES = ("v_mul_", "v_mad_", "s_mul_")
_MATRIX = "mfma"
_A, _B = 1, 2  # of a matrix instruction D, A, B, C
_Change = tuple[str, str, Instruction]
"""Kind, words, and the instruction that stands there instead."""


class IndexMutants:
    """The index mutants of one program.

    Sites are instructions that can be reached and have an operand that may be another one. Each is as likely as any other, so is each
    kind of change that it takes, and each change of that kind.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        flow = control_flow(program)
        instructions = program.instructions
        self._addresses = address_instructions(program, flow)
        self._liveness = program_liveness(program, flow)
        blocks = flow.reachable(program, any(instruction.name in CALLS or instruction.name in RETURNS for instruction in instructions))
        self._reached = [position for position, number in enumerate(flow.block_of) if number in blocks]
        self._matrix: dict[str, list[Instruction]] = {}
        for position in self._reached:
            if _MATRIX in instructions[position].opcode.classes:
                self._matrix.setdefault(instructions[position].name, []).append(instructions[position])
        self._numbers = {id(item): number for number, item in enumerate(program.items)}

    def drawn(self, count: int, seed: int, kinds: Collection[str] = INDEX_KINDS) -> list[Mutant]:
        """`count` mutants of these kinds, each of another instruction; fewer where a program has fewer sites."""
        chance = random.Random(seed)
        found: list[Mutant] = []
        sites = self._reached.copy()
        chance.shuffle(sites)
        for position in sites:
            if len(found) == count:
                break
            original = self._program.instructions[position]
            changes = [change for change in self._changes(position, original, chance) if change[0] in kinds]
            if changes:
                kind = chance.choice(sorted({kind for kind, _, _ in changes}))
                _, words, made = chance.choice([change for change in changes if change[0] == kind])
                number = self._numbers[id(original)]
                program = self._program.with_items(self._program.items[:number] + (made,) + self._program.items[number + 1:])
                found.append(Mutant(kind, words, original, program))
        return found

    def _changes(self, position: int, item: Instruction, chance: random.Random) -> Iterator[_Change]:
        yield from self._registers(position, item, chance)
        yield from self._offsets(item)
        if position in self._addresses or group_of(item.opcode, item.form) == "salu":
            yield from self._constants(item)
        if _MATRIX in item.opcode.classes:
            yield from self._matrix_operands(item, chance)

    def _registers(self, position: int, item: Instruction, chance: random.Random) -> Iterator[_Change]:
        """Each register range that is read or written, exchanged for a live one of its file, size and alignment."""
        live = self._liveness.live_before(position)
        for slot, (spec, operand, _, _) in enumerate(item.accesses):
            old = operand.value if isinstance(operand, Modified) else operand
            if not isinstance(old, Reg) or old.file == "scc" or old.file == "s" and old.last >= SGPR_COUNT:
                continue
            step = 2 if old.count == 2 or old.file != "s" and old.count > 2 else 4 if old.count > 2 else 1
            beyond = (SGPR_COUNT if old.file == "s" else VGPR_COUNT) - old.count + 1
            others = [other for index in range(old.index % step, beyond, step)
                      if not (other := Reg(old.file, index, old.count)).overlaps(old) and not other.mask & ~live]
            if others:
                new = chance.choice(others)
                wrapped: Operand = replace(operand, value=new) if isinstance(operand, Modified) else new
                yield from self._operand(item, "register", slot, wrapped, f"{spec.name} {old} made {new}")

    def _offsets(self, item: Instruction) -> Iterator[_Change]:
        """Offsets of memory instructions, one access further or nearer. Those of two elements count in elements."""
        memory = item.opcode.memory
        if memory is None:
            return
        for name in _OFFSETS:
            if name in item.form.modifiers:
                old = int(item.modifiers.get(name, 0))
                for step in (memory.bytes, -memory.bytes) if name == "offset" else (1, -1):
                    yield from self._made(item, "element", f"{name} {old} made {old + step}", item.operands,
                                          {**item.modifiers, name: old + step})

    def _constants(self, item: Instruction) -> Iterator[_Change]:
        """Constants of address arithmetic: an amount of a shift or a factor is a stride, a mask of an exclusive or a swizzle, any other one
        an index that is one off, or one off in its lowest bit."""
        for slot, operand in enumerate(item.operands):
            spec = item.form.operands[slot]
            if isinstance(operand, bool) or not isinstance(operand, int) or not set(spec.accepts) & set("ilkn"):
                continue
            low = operand & -operand or 1
            others: tuple[int, ...]
            if "xor" in item.name:
                kind, others = "swizzle constant", (operand ^ low, operand ^ low << 1)
            elif _SHIFTED.get(item.name) == slot:
                kind, others = "stride", (operand + 1, operand - 1)
            elif item.name.startswith(_MULTIPLIES):
                kind, others = "stride", (2 * operand, operand + low, operand - low)
            else:
                kind, others = "element", (operand + 1, operand - 1, operand + low, operand - low)
            for other in dict.fromkeys(others):
                yield from self._operand(item, kind, slot, other, f"{operand:#x} made {other:#x}")

    def _matrix_operands(self, item: Instruction, chance: random.Random) -> Iterator[_Change]:
        """A and B exchanged; C and D taken from another matrix instruction of the same name."""
        operands = list(item.operands)
        if operands[_A] != operands[_B]:
            operands[_A], operands[_B] = operands[_B], operands[_A]
            yield from self._made(item, "matrix operands", "A and B exchanged", operands, item.modifiers)
        others = [other for other in self._matrix[item.name] if other.operands[0] != item.operands[0]]
        if others:
            other = chance.choice(others)
            both = item.operands[3] == item.operands[0] and other.operands[3] == other.operands[0]
            operands = [other.operands[0] if slot == 0 or both and slot == 3 else operand for slot, operand in enumerate(item.operands)]
            yield from self._made(item, "matrix operands", f"{'C and D' if both else 'D'} made those of {other.text}", operands,
                                  item.modifiers)

    def _operand(self, item: Instruction, kind: str, slot: int, operand: Operand, words: str) -> Iterator[_Change]:
        yield from self._made(item, kind, words, [*item.operands[:slot], operand, *item.operands[slot + 1:]], item.modifiers)

    def _made(self, item: Instruction, kind: str, words: str, operands: Sequence[Operand], modifiers: Any) -> Iterator[_Change]:
        """The change, where the assembler takes it."""
        try:
            form = resolve(item.opcode, tuple(operands), modifiers, self._program.arch, item.suffix)
        except AsmgenError:
            return
        made = replace(item, form=form, operands=tuple(operands), modifiers=modifiers)
        if made.text != item.text:
            yield kind, f"{item.text}: {words}", made


