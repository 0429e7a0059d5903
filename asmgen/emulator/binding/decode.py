"""From an instruction to a step: one Python function on a group of waves, bound once and run many times."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from asmgen.emulator.arrival.boundstep import Action, Late, Step, queue_of, registers_of, touch_of, wait_of
from asmgen.emulator.arrival.findings import Finding
from asmgen.emulator.machine.codemap import CodeMap
from asmgen.emulator.machine.errors import EmulatorError
from asmgen.emulator.machine.state import MODE_GPR_INDEX, MODE_VSKIP, Group, Machine
from asmgen.emulator.memory.ldsops import LdsContext, bind_lds
from asmgen.emulator.memory.smem import bind_scalar_memory
from asmgen.emulator.memory.vmem import Context, bind_vector_memory
from asmgen.emulator.semantics.matrix import bind_matrix
from asmgen.emulator.semantics.refused import REFUSED
from asmgen.emulator.semantics.salu import bind_scalar
from asmgen.emulator.semantics.valu import bind_vector
from asmgen.emulator.semantics.values import store_scalar
from asmgen.isa.opcode import OperandSpec
from asmgen.isa.operands import Operand
from asmgen.isa.registers import Modified, Reg
from asmgen.program.program import Instruction, Program

PLAIN = frozenset({"s_nop", "s_setprio", "s_icache_inv", "s_dcache_inv", "s_dcache_wb", "s_dcache_inv_vol", "s_dcache_wb_vol",
                   "s_dcache_discard", "s_dcache_discard_x2", "s_atc_probe", "s_atc_probe_buffer", "buffer_inv", "buffer_wbl2", "s_wakeup",
                   "s_ttracedata", "s_incperflevel", "s_decperflevel", "s_sendmsg", "s_waitcnt", "s_sleep", "s_sethalt", "s_trap",
                   "s_setkill", "s_sendmsghalt", "s_barrier", "s_endpgm", "s_endpgm_saved", "s_endpgm_ordered_ps_done"})
"""Instructions that change no data: the scheduler or the arrival model deals with them, or nothing does.

Caches need none: every access reaches memory at once. A message to the host (s_sendmsg) has no receiver.
"""

SCALAR_ENCODINGS = frozenset({"SOP1", "SOP2", "SOPC", "SOPK", "SOPP", "SMEM"})
"""What VSKIP does not skip (CDNA3 ISA, S_SETVSKIP)."""

_MOVED = {"src0": 1 << 12, "src1": 1 << 13, "src2": 1 << 14, "vdst": 1 << 15}


class Decoder:
    """Binds instructions when they are first reached, so that unused paths cost nothing and need no semantics. Those at the positions in
    `idle` do nothing."""

    def __init__(self, program: Program, code: CodeMap, machine: Machine, memory: Context, lds: LdsContext,
                 idle: frozenset[int] = frozenset()) -> None:
        self.program = program
        self.code = code
        self.machine = machine
        self.memory = memory
        self.lds = lds
        self.idle = idle

    def step(self, position: int, mode: int, index: int) -> Step | None:
        """The step of an instruction for waves whose MODE is `mode` and whose relative index is `index`; None where VSKIP skips it."""
        instruction = self.program.instructions[position]
        vector = instruction.opcode.encoding not in SCALAR_ENCODINGS
        if vector and mode & MODE_VSKIP:
            return None
        if vector and mode & MODE_GPR_INDEX:
            instruction = moved(instruction, index)
        queue = queue_of(instruction)
        return Step(position, instruction, self._run(position, instruction, mode), touch_of(position, instruction, self.machine, queue),
                    queue, wait_of(instruction))

    def _run(self, position: int, instruction: Instruction, mode: int) -> Action | None:
        if instruction.is_branch or instruction.name in PLAIN or position in self.idle:
            return None
        if instruction.name == "s_getpc_b64":
            return self._program_counter(position, instruction)
        beyond = beyond_allocation(instruction, self.machine)
        if beyond is not None:
            return self._refuse_register(instruction, beyond)
        classes, self.machine.binding_mode = instruction.opcode.classes, mode
        if "mfma" not in classes and ("valu" in classes or "salu" in classes):
            return Late(lambda: self._bound(position, instruction, mode))
        return self._bound(position, instruction, mode)

    def _bound(self, position: int, instruction: Instruction, mode: int) -> Action:
        self.machine.binding_mode = mode
        try:
            return bind(position, instruction, self.machine, self.memory, self.lds)
        except UNBINDABLE as problem:
            return _without_semantics(instruction, problem)

    def _program_counter(self, position: int, instruction: Instruction) -> Action:
        destination = instruction.operands[0]
        assert isinstance(destination, Reg)
        store, address = store_scalar(self.machine, destination, "b64"), np.array(self.code.ends[position], np.uint64)
        return lambda group: store(group, address)

    def _refuse_register(self, instruction: Instruction, reg: Reg) -> Action:
        """A register that the wave does not have: the hardware reads v0 or drops the write; here the instruction does nothing."""
        machine, findings = self.machine, self.memory.findings

        def report(group: Group) -> None:
            wave = int(group.waves[0])
            findings.add(Finding("register-beyond-allocation", "error",
                                 f"{reg} is beyond the {machine.registers} vector registers that the descriptor allocates",
                                 None, instruction, wave, int(machine.workgroup[wave])))

        return report


UNBINDABLE = (KeyError, ValueError, TypeError)
"""What binding an instruction without semantics raises."""


def bind(position: int, instruction: Instruction, machine: Machine, memory: Context, lds: LdsContext) -> Action:
    """The function of an instruction that changes data. Raises one of UNBINDABLE for one without semantics."""
    classes = instruction.opcode.classes
    if instruction.name in REFUSED:
        raise ValueError(REFUSED[instruction.name])
    if "mfma" in classes:
        return bind_matrix(instruction, machine)
    if "valu" in classes:
        return bind_vector(instruction, machine)
    if "salu" in classes or instruction.opcode.encoding == "SOPP":
        return bind_scalar(instruction, machine)
    if "smem" in classes:
        return bind_scalar_memory(instruction, memory)
    if "lds" in classes:
        return bind_lds(instruction, position, lds)
    return bind_vector_memory(instruction, position, memory)


def _without_semantics(instruction: Instruction, problem: Exception) -> Action:
    def refuse(group: Group) -> None:
        raise EmulatorError(f"the emulator has no semantics for `{instruction.text}` ({problem})", instruction.where())

    return refuse


def moved(instruction: Instruction, index: int) -> Instruction:
    """The instruction as relative addressing makes it: bits 15:12 of `index` say which operands move by bits 7:0.

    Only VGPRs and AGPRs of vector ALU instructions move, scalars and constants stay; memory instructions do not take
    part (docs/facts/semantics.md section 9).
    """
    if not instruction.opcode.classes & {"valu", "mfma"}:
        return instruction
    operands = tuple(_moved(spec, operand, index) for spec, operand in zip(instruction.form.operands, instruction.operands, strict=True))
    return instruction if operands == instruction.operands else replace(instruction, operands=operands)


def _moved(spec: OperandSpec, operand: Operand, index: int) -> Operand:
    if isinstance(operand, Modified):
        value = _moved(spec, operand.value, index)
        return replace(operand, value=value) if isinstance(value, Reg) else operand
    if not isinstance(operand, Reg) or operand.file not in "va" or not index & _MOVED.get(spec.name, 0):
        return operand
    return Reg(operand.file, operand.index + (index & 255), operand.count)


def beyond_allocation(instruction: Instruction, machine: Machine) -> Reg | None:
    """A vector register that the wave was not given."""
    kept: dict[str, tuple[tuple[int, int], Reg | None]] = instruction.__dict__  # launches ask again
    for_whom = machine.accum_offset, machine.registers
    known, reg = kept.get("_beyond", (None, None))
    if known != for_whom:
        reg = _first_beyond(instruction, machine)
        kept["_beyond"] = for_whom, reg
    return reg


def _first_beyond(instruction: Instruction, machine: Machine) -> Reg | None:
    for operand in instruction.operands:
        for reg in registers_of(operand):
            if reg.file in "va" and machine.slot(reg) + reg.count > machine.registers:
                return reg
    return None
