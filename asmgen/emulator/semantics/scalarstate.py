"""Scalar instructions that read or write a wave's state: EXEC, MODE, M0, hardware registers, relatively addressed SGPRs.

Sources: CDNA3 ISA, sections 12.1 to 12.5 and the register chapters; what other fields hold is said where they are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asmgen.emulator.machine.state import EXEC, M0, MODE_GPR_INDEX, MODE_VSKIP, PRIVATE_BASE, SHARED_BASE, VCC, Group, Machine
from asmgen.emulator.semantics.values import fetch_scalar, store_scalar
from asmgen.isa.arch import SIMDS
from asmgen.isa.operands import GprIdx, HwReg, Operand
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction

Step = Callable[[Group], None]
Values = Any  # arrays over waves

_PAIR = Reg("s", EXEC, 2)
_CHIPLETS = 8  # compute dies of MI300X and MI350X; workgroups are dealt to them in turn (docs/facts/microarchitecture.md section 2.5)

SAVE_EXEC: dict[str, Callable[[Values, Values], Values]] = {
    "and": lambda a, old: a & old,
    "or": lambda a, old: a | old,
    "xor": lambda a, old: a ^ old,
    "andn2": lambda a, old: a & ~old,
    "orn2": lambda a, old: a | ~old,
    "nand": lambda a, old: ~(a & old),
    "nor": lambda a, old: ~(a | old),
    "xnor": lambda a, old: ~(a ^ old),
    "andn1": lambda a, old: ~a & old,
    "orn1": lambda a, old: ~a | old,
}
"""The new EXEC from the source and the old one, by the first part of s_X_saveexec_b64."""


def _bind_exec(instruction: Instruction, machine: Machine) -> Step:
    """s_X_saveexec saves the old EXEC; s_X_wrexec gives its destination the new one. SCC: the new EXEC is not 0."""
    destination, source = instruction.operands
    assert isinstance(destination, Reg)
    _, operation, kind, _ = instruction.name.split("_")
    combine = SAVE_EXEC[operation]
    given = fetch_scalar(machine, source, "b64")
    old_exec, put_exec = fetch_scalar(machine, _PAIR, "b64"), store_scalar(machine, _PAIR, "b64")
    put = store_scalar(machine, destination, "b64")

    def step(group: Group) -> None:
        old = old_exec(group)
        new = np.asarray(combine(given(group), old))
        put_exec(group, new)
        put(group, old if kind == "saveexec" else new)
        machine.scc[group.select] = new != 0

    return step


def hardware_register(operand: Operand) -> HwReg:
    """The hardware register that s_getreg and s_setreg name, as HwReg or as its encoding."""
    return operand if isinstance(operand, HwReg) else HwReg.decode(int(operand))  # type: ignore[arg-type]


def _zero(pair: int) -> Callable[[Machine, Group], Values]:
    return lambda machine, group: (machine.scalar[pair, group.select] | machine.scalar[pair + 1, group.select]) == 0


def _status(machine: Machine, group: Group) -> Values:
    """STATUS: SCC in bit 0, EXECZ 9, VCCZ 10, IN_TG 11, VALID 16."""
    bits = machine.scc[group.select].astype(np.uint32)
    bits |= _zero(EXEC)(machine, group).astype(np.uint32) << np.uint32(9)
    bits |= _zero(VCC)(machine, group).astype(np.uint32) << np.uint32(10)
    return bits | np.uint32(1 << 11 | 1 << 16)


def _hardware_id(machine: Machine, group: Group) -> Values:
    """HW_ID: wave slot in 3:0, SIMD 5:4, compute unit 11:8, workgroup slot 19:16. Waves of a workgroup go round the four SIMDs."""
    wave, home = machine.wave_in_group[group.select], machine.workgroup[group.select]
    return (wave // SIMDS % 8 | wave % SIMDS << 4 | home % 16 << 8 | home % 16 << 16).astype(np.uint32)


def _register_allocation(machine: Machine, group: Group) -> Values:
    """GPR_ALLOC: bases 0, VGPR_SIZE in 13:8 (granules of 8, minus 1), SGPR_SIZE in 27:24 (granules of 16, minus 1)."""
    size = (machine.registers - 1) // 8 << 8 | (112 // 16 - 1) << 24
    return np.full(group.size, size, np.uint32)


def _lds_allocation(machine: Machine, group: Group) -> Values:
    """LDS_ALLOC: base 0, LDS_SIZE in 20:12, in the architecture's granules."""
    return np.full(group.size, machine.lds_bytes // machine.arch.lds_granule << 12, np.uint32)


def _same(value: int) -> Callable[[Machine, Group], Values]:
    return lambda machine, group: np.full(group.size, value, np.uint32)


HARDWARE: dict[int, Callable[[Machine, Group], Values]] = {
    1: lambda machine, group: machine.mode[group.select],
    2: _status,
    3: _same(0),  # TRAPSTS: no exception has happened
    4: _hardware_id,
    5: _register_allocation,
    6: _lds_allocation,
    7: _same(0),  # IB_STS: nothing outstanding
    15: _same(PRIVATE_BASE >> 48 | SHARED_BASE >> 48 << 16),
    20: lambda machine, group: (machine.first_workgroup + machine.workgroup[group.select]).astype(np.uint32) % np.uint32(_CHIPLETS),
}
"""What s_getreg reads, by register number."""


def _bind_getreg(instruction: Instruction, machine: Machine) -> Step:
    destination, source = instruction.operands
    assert isinstance(destination, Reg)
    register = hardware_register(source)
    read, store = HARDWARE[register.number], store_scalar(machine, destination, "b32")
    field = np.uint32((1 << register.size) - 1)
    return lambda group: store(group, read(machine, group) >> np.uint32(register.offset) & field)


def _bind_setreg(instruction: Instruction, machine: Machine) -> Step:
    """Only MODE can be written by a user's code with an effect here; TRAPSTS takes the write and nothing reads it (no traps)."""
    target, source = instruction.operands
    register = hardware_register(target)
    if register.number not in (1, 3):
        raise KeyError(f"{register} cannot be written")
    fetch: Callable[[Group], Values] = fetch_scalar(machine, source, "b32")
    field = np.uint32((1 << register.size) - 1 << register.offset & 0xFFFFFFFF)

    def step(group: Group) -> None:
        if register.number == 1:
            shifted = fetch(group) << np.uint32(register.offset)
            machine.mode[group.select] = machine.mode[group.select] & ~field | shifted & field

    return step


def _bind_skip(instruction: Instruction, machine: Machine) -> Step:
    """VSKIP = S0[S1[4:0]]: while it is set, no vector, LDS, buffer or flat instruction is issued."""
    fetches: list[Callable[[Group], Values]] = [fetch_scalar(machine, operand, "u32") for operand in instruction.operands]
    value, location = fetches

    def step(group: Group) -> None:
        on = (value(group) >> (location(group) & np.uint32(31)) & np.uint32(1)).astype(bool)
        mode = machine.mode[group.select]
        machine.mode[group.select] = np.where(on, mode | np.uint32(MODE_VSKIP), mode & np.uint32(~MODE_VSKIP & 0xFFFFFFFF))

    return step


def _index_modes(operand: Operand) -> np.uint32:
    return np.uint32((operand.modes if isinstance(operand, GprIdx) else int(operand)) & 15)  # type: ignore[arg-type]


def _bind_index(instruction: Instruction, machine: Machine) -> Step:
    """s_set_gpr_idx_*: the index is M0[7:0], which operands it moves M0[15:12], and MODE.GPR_IDX_EN whether it does."""
    name, m0 = instruction.name, machine.scalar[M0]
    keep_index, keep_modes = np.uint32(0xFFFFFF00), np.uint32(0xFFFF0FFF)
    if name == "s_set_gpr_idx_mode":
        modes = _index_modes(instruction.operands[0]) << np.uint32(12)

        def set_modes(group: Group) -> None:
            m0[group.select] = m0[group.select] & keep_modes | modes

        return set_modes
    fetch: Callable[[Group], Values] = fetch_scalar(machine, instruction.operands[0], "u32")
    if name == "s_set_gpr_idx_idx":

        def set_index(group: Group) -> None:
            m0[group.select] = m0[group.select] & keep_index | fetch(group) & np.uint32(255)

        return set_index
    modes = _index_modes(instruction.operands[1]) << np.uint32(12)

    def enable(group: Group) -> None:
        m0[group.select] = m0[group.select] & (keep_index & keep_modes) | fetch(group) & np.uint32(255) | modes
        machine.mode[group.select] |= np.uint32(MODE_GPR_INDEX)

    return enable


def _bind_index_off(instruction: Instruction, machine: Machine) -> Step:
    def disable(group: Group) -> None:
        machine.mode[group.select] &= np.uint32(~MODE_GPR_INDEX & 0xFFFFFFFF)

    return disable


def _bind_relative(instruction: Instruction, machine: Machine) -> Step:
    """s_movrels reads the SGPR that M0 places after the source's, s_movreld writes after the destination's.

    Beyond the last register the hardware's result is unspecified; here the number wraps in the scalar file.
    """
    destination, source = instruction.operands
    assert isinstance(destination, Reg)
    scalar, count = machine.scalar, 2 if instruction.name.endswith("_b64") else 1
    if instruction.name.startswith("s_movrels"):
        assert isinstance(source, Reg)
        store = store_scalar(machine, destination, f"b{32 * count}")
        first = source.index

        def read(group: Group) -> None:
            at = (scalar[M0, group.select].astype(np.int64) + first) & 127
            value = scalar[at, group.waves]
            if count == 2:
                value = value | scalar[at + 1 & 127, group.waves].astype(np.uint64) << np.uint64(32)
            store(group, value)

        return read
    fetch = fetch_scalar(machine, source, f"b{32 * count}")

    def write(group: Group) -> None:
        at = (scalar[M0, group.select].astype(np.int64) + destination.index) & 127
        value = np.broadcast_to(fetch(group), group.size).astype(np.uint64)
        for word in range(count):
            scalar[at + word & 127, group.waves] = (value >> np.uint64(32 * word)).astype(np.uint32)
        group.refresh_mask()

    return write


STATE: dict[str, Callable[[Instruction, Machine], Step]] = {
    **{f"s_{name}_saveexec_b64": _bind_exec for name in SAVE_EXEC},
    "s_andn1_wrexec_b64": _bind_exec,
    "s_andn2_wrexec_b64": _bind_exec,
    "s_getreg_b32": _bind_getreg,
    "s_setreg_b32": _bind_setreg,
    "s_setreg_imm32_b32": _bind_setreg,
    "s_setvskip": _bind_skip,
    "s_set_gpr_idx_on": _bind_index,
    "s_set_gpr_idx_off": _bind_index_off,
    "s_set_gpr_idx_idx": _bind_index,
    "s_set_gpr_idx_mode": _bind_index,
    "s_movrels_b32": _bind_relative,
    "s_movrels_b64": _bind_relative,
    "s_movreld_b32": _bind_relative,
    "s_movreld_b64": _bind_relative,
}
"""How each is bound."""

CHANGES_STATE = frozenset({"s_setreg_b32", "s_setreg_imm32_b32", "s_setvskip", "s_set_gpr_idx_on", "s_set_gpr_idx_off", "s_set_gpr_idx_idx",
                           "s_set_gpr_idx_mode"})
"""Instructions after which MODE or the relative index may differ, between waves too."""
