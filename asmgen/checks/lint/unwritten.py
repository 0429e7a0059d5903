"""R005: registers that are read before anything can have written them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from asmgen.checks.finding.finding import LintFinding
from asmgen.isa.records import dataclass
from asmgen.isa.registers import NAMED, Modified, Reg, mask_names
from asmgen.program.controlflow import ControlFlow
from asmgen.program.knowncalls import CALLS
from asmgen.program.mix import ADDRESS_SLOTS
from asmgen.program.program import Instruction, Program
from asmgen.program.registerindex import first_indexed
from asmgen.regalloc.liveness import Liveness

_JUMPS = CALLS | {"s_setpc_b64", "s_rfe_b64"}
# Compilers let vectors of which a part means nothing go through moves, shifts and conversions, and lane masks that they have not begun
# to collect through logic; they compute nothing with it.
_COMPUTES = re.compile(r"v_((?!mov|cvt|pack)\w*_(f16|bf16|f32|f64)|(add|sub|mul|mad)\w*_[iu](16|24|32|64))$")
_COMPUTES_SCALARS = re.compile(r"s_(add|sub|mul|cmp|lshl\d_add)")
_ACCUMULATES = re.compile(r"v_(pk_)?f?mac_|v_dot\w+c_|v_smfmac_")
_SUMS_PAIRS = re.compile(r"v_mad_[iu]64_[iu]32$")
_CANCELS = re.compile(r"[sv]_(xor|sub|cmp)\w*_[biu]\d+$")  # of a register and itself the result is known whatever it holds
_FRAGMENT = 4  # where more than one instruction of so many does it, the text is a piece of a kernel


@dataclass(frozen=True)
class FirstRead:
    """An instruction that reads the registers of `mask` before anything can have written them."""

    position: int
    mask: int


def unwritten_findings(program: Program, flow: ControlFlow, liveness: Liveness, filled: int | None) -> Iterator[LintFinding]:
    """`filled` are the registers that hold something when waves begin; nothing is said where the file does not say which."""
    if filled is None:
        return
    found = first_reads(program, flow, liveness, filled)
    fragment = _FRAGMENT * len(found) > len(program.instructions)
    told = 0
    for read in found:
        mask = read.mask & ~told  # a register is named once, where it is read first
        told |= read.mask
        if mask:
            instruction = program.instructions[read.position]
            names = ", ".join(mask_names(mask))
            carried = fragment or not _matters(instruction, mask) or not _matters_above(instruction, mask, liveness, read.position)
            severity = "note" if carried else "warning"
            yield LintFinding("R005", severity, f"{instruction.text} reads {names} before anything has written "
                              f"{'them' if mask.bit_count() > 1 else 'it'}; waves do not begin with {names} either", None, instruction,
                              position=read.position)


def first_reads(program: Program, flow: ControlFlow, liveness: Liveness, filled: int) -> list[FirstRead]:
    """Every such instruction, in program order.

    A destination of which a part may be kept is not among what is read, nor a pair of which packed arithmetic may take one register alone.
    Nothing is found in code that calls, that jumps to computed addresses, or in which M0 says which registers are written.
    """
    instructions = program.instructions
    if not instructions or flow.indirect or any(instruction.name in _JUMPS for instruction in instructions) or \
            first_indexed(program) is not None:
        return []
    entry = flow.block_of[program.labels[program.entry]] if program.entry else 0
    wanted = liveness.live_before(flow.blocks[entry].first) & ~filled
    if not wanted:
        return []
    writes = [0 for _ in flow.blocks]
    reads = [0 for _ in flow.blocks]
    for position, instruction in enumerate(instructions):
        writes[flow.block_of[position]] |= instruction.writes
        reads[flow.block_of[position]] |= instruction.reads
    found = []
    for block in flow.blocks:
        if not reads[block.number] & wanted:
            continue
        lost = wanted & ~_written_before(flow, writes, entry, block.number)
        for position in range(block.first, block.last + 1):
            mask = _taken(instructions[position]) & lost
            if mask:
                found.append(FirstRead(position, mask))
            lost &= ~instructions[position].writes
    return found


def _written_before(flow: ControlFlow, writes: list[int], entry: int, number: int) -> int:
    """What blocks write on the ways from the beginning to a block that do not pass it before; everything where no way leads there."""
    mask, seen, stack = 0, {entry}, [entry]
    while stack:
        other = stack.pop()
        if other == number:
            continue
        mask |= writes[other]
        for successor in flow.blocks[other].successors:
            if successor not in seen:
                seen.add(successor)
                stack.append(successor)
    return mask if number in seen else ~0


def _taken(instruction: Instruction) -> int:
    """What an instruction surely reads: its sources, not what it may keep of its destination."""
    hidden, sources = instruction.reads, 0
    taken = instruction.operands[-2:]
    cancels = len(taken) == 2 and taken[0] == taken[1] and _CANCELS.match(instruction.name) is not None
    packed = instruction.name.startswith("v_pk_")
    for _, operand, reads, writes in instruction.accesses:
        reg = operand.value if isinstance(operand, Modified) else operand
        if isinstance(reg, Reg):
            hidden &= ~reg.mask
            if reads and not cancels and not (writes and not _ACCUMULATES.match(instruction.name)) and not (packed and reg.count > 1):
                sources |= reg.mask
    return sources | hidden & ~instruction.writes


def _matters(instruction: Instruction, mask: int) -> bool:
    """Whether no compiler would do it: computing, addressing, jumping, setting EXEC."""
    classes = instruction.opcode.classes
    if "valu" in classes and "mfma" not in classes:
        return _COMPUTES.match(instruction.name) is not None
    if "salu" in classes:
        moved = instruction.name in ("s_mov_b64", "s_mov_b32") and bool(instruction.writes & NAMED["exec"].mask)
        return moved or _COMPUTES_SCALARS.match(instruction.name) is not None
    if instruction.opcode.memory is None:
        return True
    addressed = instruction.reads
    for spec, operand, reads, _ in instruction.accesses:
        if reads and spec.name not in ADDRESS_SLOTS and isinstance(operand, Reg):
            addressed &= ~operand.mask
    return bool(mask & addressed)


def _matters_above(instruction: Instruction, mask: int, liveness: Liveness, position: int) -> bool:
    """Whether a sum of two registers uses the upper one of what it adds; compilers add 32 bits so, and read the lower result alone."""
    if not _SUMS_PAIRS.match(instruction.name):
        return True
    result, added = instruction.operands[0], instruction.operands[-1]
    if not isinstance(result, Reg) or not isinstance(added, Reg):
        return True
    number, index = liveness.locate(position)
    read_later = liveness.block_masks(number)[index + 1]
    return mask != added[1].mask or bool(read_later & result[1].mask)
