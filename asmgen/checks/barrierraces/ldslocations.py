"""Which bytes of LDS instructions without tokens fill and read, where constants and the work-item's number say so.

A load into LDS writes at M0 + offset + 4 or 16 bytes for each lane (ISA, "LDS Direct"; docs/facts/instructions.md section 4). M0 is known
where it follows from constants and the wave's number, in every round of a loop the same; addresses of LDS reads likewise. Places are known
for each wave, and for all waves of the workgroup together: every wave may read what another one's load brings. This file needs numpy.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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

_Seen = dict[tuple[int, int, int, int], tuple[tuple[int, ...], object]]
"""Bytes of an address register's lanes at offset 0, by the identity of its value, of EXEC and of the waves, which are kept beside them."""


@dataclass(frozen=True)
class LdsBytes:
    """Bytes of LDS as a bit mask, a bit a byte: of all waves, and where an instruction touches them of each (0: of none). They are `sure`
    where the lanes that run are known, else some of them may not be touched."""

    mask: int
    waves: tuple[int, ...] = ()
    sure: bool = False

    @classmethod
    def of(cls, waves: Sequence[int], sure: bool) -> LdsBytes | None:
        """The bytes that an instruction touches in each wave, None where it touches none."""
        mask = reduce(or_, waves, 0)
        return cls(mask, tuple(waves), sure) if mask else None

    def meets(self, other: LdsBytes) -> bool:
        """Whether the two share a byte."""
        return bool(self.mask & other.mask)

    def surely_meets(self, other: LdsBytes) -> bool:
        """Whether some wave's own bytes are of both, in lanes that are known to run."""
        return self.sure and other.sure and any(mine & its for mine, its in zip(self.waves, other.waves, strict=False))

    def common(self, other: LdsBytes) -> LdsBytes:
        """The bytes of both, those of the other alone where they have none in common."""
        return LdsBytes(self.mask & other.mask or other.mask)

    def part(self, mask: int) -> LdsBytes:
        """Some of them, of whatever waves."""
        return LdsBytes(self.mask & mask)

    def __or__(self, other: LdsBytes) -> LdsBytes:
        return LdsBytes(self.mask | other.mask)

    def __str__(self) -> str:
        low = (self.mask & -self.mask).bit_length() - 1
        return f"{low:#x}:{self.mask.bit_length():#x}"


def known_locations(program: Program, flow: ControlFlow, block: tuple[int, int, int] | None) -> dict[int, LdsBytes]:
    """`LdsPlaces.known` of a program."""
    return LdsLocations(program, flow, block).known


class LdsLocations:
    """`known`: by position, what loads into LDS fill and LDS reads, writes and atomics touch; without those that are not known, and with
    those that have tokens only at positions `told`. `values` say which waves go where. `block` is the workgroup's size."""

    def __init__(self, program: Program, flow: ControlFlow, block: tuple[int, int, int] | None, told: Collection[int] = ()) -> None:
        asked = [position for position, instruction in enumerate(program.instructions)
                 if instruction.opcode.memory is not None and (not instruction.tokens or position in told) and address_mask(instruction)]
        wanted = reduce(or_, (address_mask(program.instructions[position]) for position in asked), 0)
        self.values = WaveValues(program, flow, block, wanted)
        self.known: dict[int, LdsBytes] = {}
        addressing = LdsAddressing(architecture(program.arch))
        for position, state in self.values.at(asked):
            patterns = addressing.patterns(program.instructions[position], state)
            locations = patterns.bytes if patterns is not None else None
            if locations is not None:
                self.known[position] = locations


@dataclass(frozen=True)
class LdsPatterns:
    """Bytes of LDS that an instruction touches in each wave: the wave's pattern, a bit a byte, from its start on at each offset. They are
    `sure` where the lanes that run are known."""

    patterns: tuple[int, ...]
    starts: tuple[int, ...]
    offsets: tuple[int, ...]
    sure: bool

    def of(self, wave: int) -> int:
        """The bytes of one wave; what would lie below LDS is not touched."""
        pattern, start = self.patterns[wave], self.starts[wave]
        return reduce(or_, (pattern << start + offset if start + offset >= 0 else pattern >> -start - offset for offset in self.offsets))

    @property
    def alike(self) -> bool:
        """Whether all waves that come here touch the same."""
        return len({(pattern, start) for pattern, start in zip(self.patterns, self.starts, strict=True) if pattern}) < 2

    @property
    def bytes(self) -> LdsBytes | None:
        """Of all waves, None where there are none."""
        return LdsBytes.of([self.of(wave) for wave in range(len(self.patterns))], self.sure)


class LdsAddressing:
    """Which bytes an instruction touches in a state. Registers that hold the same are looked at once."""

    def __init__(self, arch: Architecture) -> None:
        self._arch = arch
        self._seen: _Seen = {}

    def patterns(self, instruction: Instruction, state: State) -> LdsPatterns | None:
        """None where the place is not known."""
        into = is_lds_dma(instruction.opcode, instruction.form)
        return _filled(instruction, state, self._arch) if into else _touched(instruction, state, self._seen)


def address_mask(instruction: Instruction) -> int:
    """The registers, as bits, from which it follows where in LDS an instruction goes; 0 where none says so."""
    if is_lds_dma(instruction.opcode, instruction.form):
        return NAMED["m0"].mask
    address = _address(instruction) if instruction.opcode.memory is not None and instruction.opcode.memory.space == "lds" else None
    return address.mask if address is not None else 0


def _address(instruction: Instruction) -> Reg | None:
    """The register that holds a read's byte address; None for what counts otherwise."""
    for location, operand, reads, _ in instruction.accesses:
        if location.name == "addr" and reads and isinstance(operand, Reg):
            return operand
    return None


def _filled(instruction: Instruction, state: State, arch: Architecture) -> LdsPatterns | None:
    row, m0 = instruction.opcode.memory, state.m0
    if row is None or m0 is None:
        return None
    lane = 16 if row.bytes > 4 else 4
    bits = (1 << arch.m0_dma_bits) - 1 if row.space == "buffer" else _GLOBAL_M0
    written = min(16, max(4, row.bytes))
    running = state.known_exec
    patterns = []
    for wave in range(len(m0)):
        lanes = range(LANES) if running is None else np.flatnonzero(running[wave]).tolist()
        if not state.waves[wave] or not lanes:
            patterns.append(0)
        else:
            patterns.append((1 << lane * (LANES - 1) + written) - 1 if len(lanes) == LANES else
                            reduce(or_, ((1 << written) - 1 << lane * number for number in lanes)))
    return LdsPatterns(tuple(patterns), tuple((m0 & bits).tolist()), (int(instruction.modifiers.get("offset", 0)),), running is not None)


def _touched(instruction: Instruction, state: State, seen: _Seen) -> LdsPatterns | None:
    row, address = instruction.opcode.memory, _address(instruction)
    at = state.running_vector(address) if address is not None else None
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
        running = np.broadcast_to(state.waves[:, None], at.shape) if lanes is None else (lanes != 0) & state.waves[:, None]
        seen[key] = tuple(_masks(at, running & (at + size <= _MOST_BYTES), size)), (at, lanes, state.waves)
    masks = seen[key][0]
    return LdsPatterns(masks, (0,) * len(masks), tuple(offsets), lanes is not None)


def _masks(starts: NDArray[np.int64], running: NDArray[np.bool_], size: int) -> list[int]:
    """The bytes of each wave, `size` from each start of a lane that runs."""
    waves, lanes = np.nonzero(running)
    if not len(waves):
        return [0] * len(starts)
    chosen = starts[waves, lanes]
    touched = np.zeros((len(starts), int(chosen.max()) + size), np.uint8)
    touched[waves[:, None], chosen[:, None] + np.arange(size)] = 1
    return [int.from_bytes(row.tobytes(), "little") for row in np.packbits(touched, axis=1, bitorder="little")]
