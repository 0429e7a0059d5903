"""Addresses as code: what a lane's address is, as a function of lane and wave, becomes the shortest instructions that compute it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from asmgen.author.address.addresscode import Address, AddressCode, Input
from asmgen.author.address.quotients import plan_address
from asmgen.isa.arch import LANES
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg

if TYPE_CHECKING:
    from asmgen.author.emit.builder import Builder


@dataclass(frozen=True)
class WaveIndex:
    """A number that each wave has of its own, 0 to count - 1, in an SGPR: a row of waves, a column of waves, the wave itself. Of a single
    wave it is 0, and so is `register`."""

    name: str
    register: Reg | int
    count: int


def emit_address(k: Builder, name: str, address: Address, lane: Reg | None, waves: Sequence[WaveIndex] = ()) -> Reg:
    """The VGPR (or SGPR, where no lane is asked for) of `address(lane=..., NAME=...)` under that name in the register plan.

    Raises LayoutError where no code was found.
    """
    inputs = [*([Input("lane", LANES)] if lane is not None else []), *(Input(wave.name, wave.count, True) for wave in waves)]
    registers = {wave.name: wave.register for wave in waves} | ({"lane": lane} if lane is not None else {})
    code = plan_address(address, inputs)
    return emit_code(k, name, code, registers, "s" if lane is None else "v")


def emit_code(k: Builder, name: str, code: AddressCode, inputs: Mapping[str, Reg | int], file: str) -> Reg:
    """Emit planned address code; the result, its constant added, is held under `name`, everything between in temporaries."""
    assert k.registers is not None
    result = k.registers.vgprs(1, name) if file == "v" else k.registers.sgprs(1, name)
    held: dict[str, Reg | int] = dict(inputs)
    taken: list[Reg] = []
    last = len(code.ops) - 1
    for number, op in enumerate(code.ops):
        scalar = op.opcode.startswith("s_")
        if number == last and scalar == (file == "s"):
            target = result
        else:
            target = (k.registers.sgprs if scalar else k.registers.vgprs)(1, f"{name}.{op.result}")
            taken.append(target)
        k.emit(op.opcode, target, *(held[part] if isinstance(part, str) else part for part in op.operands))
        held[op.result] = target
    source: Reg | int = held[code.result] if code.result is not None else 0
    if source is not result or code.constant:
        _add_constant(k, result, source, code.constant)
    for reg in taken:
        k.registers.release(reg)
    return result


def _add_constant(k: Builder, result: Reg, source: Reg | int, constant: int) -> None:
    """result = source + constant."""
    if source == 0 or not constant:
        k.emit("s_mov_b32" if result.file == "s" else "v_mov_b32", result, constant if source == 0 else source)
    elif result.file == "s":
        k.s_add_u32(result, source, constant)
    else:
        k.v_add_u32(result, constant, source)
