"""The check for addresses that are not as aligned as their access asks.

An error: atomics anywhere else than at a multiple of their size, whatever the alignment mode; scalar memory instructions, which ignore
the two lowest bits of base, offset and SGPR offset and so reach other bytes (CDNA3 ISA, scalar memory operations). A warning, as it is
slow and needs the unaligned mode that ROCm's driver sets (SH_MEM_CONFIG.alignment_mode; in dword mode the hardware drops address bits):
dwords in device or private memory and LDS that begin at no multiple of 4, shorts at an odd address, and LDS accesses of 64 bits that
begin at no multiple of 8 and of 96 and 128 bits at no multiple of 16 (ds_read2 and ds_write2: of their elements). Several dwords of
device memory need no more than a dword's alignment.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.arrival.boundstep import Action, Step
from asmgen.emulator.arrival.findings import Finding, Findings
from asmgen.emulator.machine.state import Group, Machine
from asmgen.isa.operands import Operand
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction, Program

CHECK = "misaligned-access"
_DROPPED = 3  # address bits that scalar memory instructions ignore


def needed_in_lds(size: int, atomic: bool) -> int:
    """The multiple at which an LDS access of `size` bytes a lane should begin."""
    return size if atomic else min(16, 1 << (size - 1).bit_length())


class Alignment:
    """Watches LDS, vector memory and (as a segments.Watcher) scalar memory instructions."""

    def __init__(self, machine: Machine, program: Program, findings: Findings) -> None:
        self.machine = machine
        self.program = program
        self.findings = findings

    def in_lds(self, group: Group, position: int, at: NDArray[np.int64], size: int) -> None:
        """`size` bytes at each of `at` [waves, lanes], negative where a lane does nothing."""
        instruction = self.program.instructions[position]
        atomic = _atomic(instruction)
        needed = needed_in_lds(size, atomic)
        if needed > 1:
            self._look(group, instruction, at, at >= 0, needed, "LDS", atomic)

    def in_memory(self, group: Group, instruction: Instruction, memory_name: str, addresses: NDArray[np.int64], counts: NDArray[np.int64],
                  size: int, low: int, high: int) -> None:
        """A state.MemoryWatcher."""
        atomic = _atomic(instruction)
        needed = size if atomic else min(size, 4)
        if needed > 1 and memory_name != "LDS":
            where = "private memory" if memory_name == "private memory" else "memory"
            self._look(group, instruction, addresses, counts > 0, needed, where, atomic)

    def __call__(self, step: Step) -> Action | None:
        """What a scalar memory instruction must do before it runs."""
        instruction = step.instruction
        row = instruction.opcode.memory
        if row is None or row.space != "scalar":
            return None
        named = {spec.name: operand for spec, operand in zip(instruction.form.operands, instruction.operands, strict=True)}
        base, immediate, registers = named.get("sbase"), int(instruction.modifiers.get("offset", 0)), []
        given: Operand | None = named.get("offset", named.get("soffset"))
        if isinstance(base, Reg):
            registers.append(base.index)
        if isinstance(given, int):
            immediate |= given
        elif isinstance(given, Reg) and not instruction.name.startswith("s_scratch"):
            registers.append(given.index)
        scalar = self.machine.scalar

        def before(group: Group) -> None:
            for value in (*(scalar[index, group.select] for index in registers), np.full(1, immediate & _DROPPED, np.uint32)):
                bad = (value & np.uint32(_DROPPED)) != 0
                if bad.any():
                    wave = int(group.waves[int(np.argmax(bad))])
                    self._report(instruction, wave, "error", "its base or offset is no multiple of 4, and the hardware drops the low bits")

        return before

    def _look(self, group: Group, instruction: Instruction, at: NDArray[np.int64], active: NDArray[np.bool_], needed: int, where: str,
              atomic: bool) -> None:
        low = needed - 1
        if not int(np.bitwise_or.reduce(at, axis=None)) & low:
            return
        bad = active & (at & low != 0)
        if not bad.any():
            return
        row, lane = (int(index) for index in np.argwhere(bad)[0])
        address = int(at[row, lane]) % self.machine.lds_stride if where == "LDS" else int(at[row, lane])
        message = f"lane {lane} goes to {where} at {address:#x}"
        message += f", which is no multiple of {needed}" + (", as an atomic must" if atomic else ": slow, and right in unaligned mode only")
        self._report(instruction, int(group.waves[row]), "error" if atomic else "warning", message)

    def _report(self, instruction: Instruction, wave: int, severity: str, message: str) -> None:
        self.findings.add(Finding(CHECK, severity, message, None, instruction, wave, int(self.machine.workgroup[wave])))


def _atomic(instruction: Instruction) -> bool:
    row = instruction.opcode.memory
    return row is not None and row.kind == "atomic"
