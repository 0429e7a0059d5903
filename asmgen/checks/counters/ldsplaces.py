"""Which bytes of LDS instructions without tokens fill and read, where constants and the work-item's number say so.

A load into LDS writes at M0 + offset + 4 or 16 bytes for each lane (ISA, "LDS Direct"; docs/facts/instructions.md section 4). M0 is known
where it follows from constants and the wave's number, in every round of a loop the same; addresses of LDS reads likewise. Places are those
of all waves of the workgroup together: every wave may read what another one's load brings. This file needs numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray

from asmgen.isa.arch import LANES, Architecture, architecture
from asmgen.isa.opcode import is_lds_dma
from asmgen.isa.registers import NAMED, Reg
from asmgen.program.controlflow import ControlFlow
from asmgen.program.program import Instruction, Program
from asmgen.program.wavestate import State
from asmgen.program.wavevalues import WaveValues

_GLOBAL_M0 = 0x3FFFC  # the bits of M0 that a global load into LDS takes
_MOST_BYTES = 1 << 20

_Seen = dict[tuple[int, int, int, int], tuple[int, object]]
"""Bytes of an address register's lanes at offset 0, by the identity of its value, of EXEC and of the waves, which are kept beside them."""


@dataclass(frozen=True)
class LdsBytes:
    """Bytes of LDS as a bit mask, a bit a byte."""

    mask: int

    def meets(self, other: LdsBytes) -> bool:
        """Whether the two share a byte."""
        return bool(self.mask & other.mask)

    def common(self, other: LdsBytes) -> LdsBytes:
        """The bytes of both, those of the other alone where they have none in common."""
        return LdsBytes(self.mask & other.mask or other.mask)

    def __or__(self, other: LdsBytes) -> LdsBytes:
        return LdsBytes(self.mask | other.mask)

    def __str__(self) -> str:
        low = (self.mask & -self.mask).bit_length() - 1
        return f"{low:#x}:{self.mask.bit_length():#x}"


def known_places(program: Program, flow: ControlFlow, block: tuple[int, int, int] | None, writes: bool = False) -> dict[int, LdsBytes]:
    """By position, what loads into LDS fill and LDS reads (with `writes` also LDS writes and atomics) touch; without those that are not
    known. `block` is the workgroup's size."""
    asked = []
    wanted = 0
    for position, instruction in enumerate(program.instructions):
        row = instruction.opcode.memory
        if row is None or instruction.tokens:
            continue
        if is_lds_dma(instruction.opcode, instruction.form):
            asked.append(position)
            wanted |= NAMED["m0"].mask
        elif row.space == "lds" and (writes or row.kind == "load") and (address := _address(instruction)) is not None:
            asked.append(position)
            wanted |= address.mask
    found = {}
    arch = architecture(program.arch)
    seen: _Seen = {}
    for position, state in WaveValues(program, flow, block, wanted).at(asked):
        instruction = program.instructions[position]
        into = is_lds_dma(instruction.opcode, instruction.form)
        places = _filled(instruction, state, arch) if into else _read(instruction, state, seen)
        if places is not None:
            found[position] = places
    return found


def _address(instruction: Instruction) -> Reg | None:
    """The register that holds a read's byte address; None for what counts otherwise."""
    for place, operand, reads, _ in instruction.accesses:
        if place.name == "addr" and reads and isinstance(operand, Reg):
            return operand
    return None


def _filled(instruction: Instruction, state: State, arch: Architecture) -> LdsBytes | None:
    row, m0 = instruction.opcode.memory, state.m0
    if row is None or m0 is None:
        return None
    lane = 16 if row.bytes > 4 else 4
    bits = (1 << arch.m0_dma_bits) - 1 if row.space == "buffer" else _GLOBAL_M0
    starts = (m0[state.waves] & bits) + int(instruction.modifiers.get("offset", 0))
    written = min(16, max(4, row.bytes))
    whole = (1 << lane * (LANES - 1) + written) - 1
    mask = 0
    for start in set(starts.tolist()):
        mask |= whole << start if start >= 0 else whole >> -start  # what lies below LDS is not written
    return LdsBytes(mask) if mask else None


def _read(instruction: Instruction, state: State, seen: _Seen) -> LdsBytes | None:
    row, address = instruction.opcode.memory, _address(instruction)
    at = state.vector(address) if address is not None else None
    if row is None or at is None:
        return None
    size, offsets = row.bytes, [int(instruction.modifiers.get("offset", 0))]
    if "two" in instruction.opcode.flags:
        size //= 2
        step = size * (64 if "st64" in instruction.opcode.flags else 1)
        offsets = [int(instruction.modifiers.get(name, 0)) * step for name in ("offset0", "offset1")]
    lanes = state.known_exec
    key = id(at), id(lanes), id(state.waves), size
    if key not in seen:
        chosen = at[state.waves] if lanes is None else at[(lanes != 0) & state.waves[:, None]]
        starts = np.unique(chosen)
        seen[key] = _mask(starts[starts + size <= _MOST_BYTES], size), (at, lanes, state.waves)
    mask = seen[key][0]
    return LdsBytes(reduce(or_, (mask << offset for offset in offsets))) if mask else None


def _mask(starts: NDArray[np.int64], size: int) -> int:
    if not len(starts):
        return 0
    touched = np.zeros(int(starts.max()) + size, np.uint8)
    touched[(starts[:, None] + np.arange(size)).ravel()] = 1
    return int.from_bytes(np.packbits(touched, bitorder="little").tobytes(), "little")
