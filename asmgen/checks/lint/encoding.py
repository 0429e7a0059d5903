"""Encoding traps: what the assembler lets through although the hardware means something else."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from asmgen.checks.finding.finding import LintFinding
from asmgen.checks.lint.facts import KernelFacts
from asmgen.isa.arch import architecture
from asmgen.isa.operands import Operand
from asmgen.isa.registers import SGPR_BIT, Reg
from asmgen.isa.table import opcode as opcode_row
from asmgen.program.controlflow import ControlFlow
from asmgen.program.knowncalls import CALLS
from asmgen.program.program import Instruction, Program

_OFFSET_LIMIT = 4096  # MUBUF and MTBUF: 12 bits (docs/facts/instructions.md section 5)
_WIDE_RESULT = 4  # registers of D up to which an overlap is harmless (docs/facts/instructions.md section 5)
_SMALL_FORMATS = 2  # cbsz and blgp of f8f6f4: 0 fp8, 1 bf8, then fp6, bf6, fp4 (docs/facts/instructions.md section 1)
_BUFFER = frozenset({"MUBUF", "MTBUF"})
_STAYS = CALLS | {"s_trap", "s_sethalt"}  # compilers end code so that never returns
_WORD = (1 << 32) - 1
_SGPRS = ((1 << 128) - 1) << SGPR_BIT


def encoding_findings(program: Program, flow: ControlFlow, runs: frozenset[int], facts: KernelFacts) -> Iterator[LintFinding]:
    """E001 to E008. `runs` are the blocks that can run."""
    profile = architecture(program.arch)
    if facts.lds is not None and facts.lds > profile.lds_bytes:
        yield LintFinding("E003", "error", f"the kernel asks for {facts.lds} bytes of LDS, a workgroup has {profile.lds_bytes} on "
                                       f"{profile.name}",
                          None, None, facts.lds, profile.lds_bytes)
    if facts.user_sgprs is not None and facts.user_sgprs > profile.user_sgprs:
        yield LintFinding("E004", "error", f"the kernel asks for {facts.user_sgprs} user SGPRs, the hardware fills at most "
                                       f"{profile.user_sgprs}", None, None, facts.user_sgprs, profile.user_sgprs)
    small_floats = False
    for position, instruction in enumerate(program.instructions):
        opcode = instruction.opcode
        if not _asked_of(opcode.name):
            continue
        encoding = opcode.encoding
        if encoding in _BUFFER:
            offset = instruction.modifiers.get("offset", 0)
            if offset >= _OFFSET_LIMIT:
                yield LintFinding("E001", "error", f"offset {offset} of {opcode.name} does not fit 12 bits; the assembler encodes "
                              f"{offset % _OFFSET_LIMIT}", None, instruction, offset, _OFFSET_LIMIT - 1, position)
        elif opcode.name == "s_nop":
            count = instruction.operands[0]
            if isinstance(count, int) and count > profile.snop_max:
                yield LintFinding("E002", "warning", f"s_nop {count} is {count % (profile.snop_max + 1) + 1} wait states, not {count + 1}: "
                                                 f"only bits 3:0 "
                              "count", None, instruction, count, profile.snop_max, position)
        elif "mfma" in opcode.classes and flow.block_of[position] in runs:
            yield from _matrix_overlap(instruction, position)
        if not small_floats and "f8" in opcode.name and _has_small_floats(instruction):
            small_floats = True
            kind = "FNUZ (the other architecture, gfx950, has OCP formats)" if profile.fp8 == "fnuz" else \
                "OCP e4m3fn and e5m2 (the other architecture, gfx942, has FNUZ formats)"
            yield LintFinding("E006", "note", f"{opcode.name} means {kind}", None, instruction, position=position)
    yield from _descriptor_offsets(program, flow, runs)
    yield from _past_the_end(program, flow, runs, facts)


@cache
def _asked_of(name: str) -> bool:
    """Whether any rule looks at instructions of that name: buffers, s_nop, matrix instructions, small floats."""
    row = opcode_row(name)
    return row.encoding in _BUFFER or name == "s_nop" or "mfma" in row.classes or "f8" in name


def _has_small_floats(instruction: Instruction) -> bool:
    """Whether fp8 or bf8 are among what an instruction surely takes or makes: not so f8f6f4, whose formats cbsz and blgp choose."""
    name = instruction.name
    if "f8f6f4" in name:
        return any(int(instruction.modifiers.get(key) or 0) < _SMALL_FORMATS for key in ("cbsz", "blgp"))
    return "fp8" in name or "bf8" in name


def _matrix_overlap(instruction: Instruction, position: int) -> Iterator[LintFinding]:
    result = instruction.operands[0]
    if not isinstance(result, Reg) or result.count <= _WIDE_RESULT:
        return
    for slot, operand in zip("AB", instruction.operands[1:3], strict=False):
        if isinstance(operand, Reg) and operand.overlaps(result):
            yield LintFinding("E005", "warning", f"{slot} ({operand}) of {instruction.name} overlaps its D ({result}), which is wider "
                              f"than {_WIDE_RESULT} registers", None, instruction, position=position)


def _descriptor_offsets(program: Program, flow: ControlFlow, runs: frozenset[int]) -> Iterator[LintFinding]:
    """E007, where a block itself makes the constants."""
    instructions = program.instructions
    asked = {flow.block_of[position] for position, instruction in enumerate(instructions) if instruction.opcode.encoding in _BUFFER}
    for block in flow.blocks:
        if block.number not in runs or block.number not in asked:
            continue
        known: dict[int, int] = {}
        for position in range(block.first, block.last + 1):
            instruction = instructions[position]
            opcode = instruction.opcode
            if opcode.encoding in _BUFFER:
                yield from _offsets(instruction, known, position)
            elif not instruction.writes & _SGPRS:
                continue
            elif opcode.name in ("s_mov_b32", "s_movk_i32"):
                target, value = instruction.operands
                if isinstance(target, Reg) and type(value) is int:
                    known[target.index] = value & _WORD
                elif isinstance(target, Reg):
                    known.pop(target.index, None)
            elif known:
                for reg in instruction.written_registers:
                    if reg.file == "s":
                        for index in range(reg.index, reg.last + 1):
                            known.pop(index, None)


def _offsets(instruction: Instruction, known: dict[int, int], position: int) -> Iterator[LintFinding]:
    slots = {slot.name: operand for slot, operand in zip(instruction.form.operands, instruction.operands, strict=True)}
    descriptor, scalar = slots.get("srsrc"), _constant(slots.get("soffset"), known)
    if scalar is None or not isinstance(descriptor, Reg):
        return
    total = scalar + int(instruction.modifiers.get("offset", 0))
    records = known.get(descriptor.index + 2)
    if total > _WORD:
        yield LintFinding("E007", "warning", f"scalar and immediate offset of {instruction.name} make {total:#x}, beyond 32 bits", None,
                          instruction, total, _WORD, position)
    elif records is not None and scalar > records:
        yield LintFinding("E007", "warning", f"the scalar offset {scalar:#x} of {instruction.name} is beyond the descriptor's {records:#x} "
                                         f"records",
                      None, instruction, scalar, records, position)


def _constant(operand: Operand | None, known: dict[int, int]) -> int | None:
    if isinstance(operand, Reg):
        return known.get(operand.index) if operand.file == "s" else None
    return operand & _WORD if type(operand) is int else None


def _past_the_end(program: Program, flow: ControlFlow, runs: frozenset[int], facts: KernelFacts) -> Iterator[LintFinding]:
    """A kernel whose last instruction lets waves go on after it."""
    if facts.filled is None or not program.instructions:
        return
    position = len(program.instructions) - 1
    last = program.instructions[position]
    if flow.block_of[position] in runs and not last.ends_block and last.name not in _STAYS:
        yield LintFinding("E008", "warning", f"waves go on after the kernel's last instruction, {last.text}, into what stands there: "
                          "s_endpgm is missing", None, last, position=position)
