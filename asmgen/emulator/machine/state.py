"""The registers, LDS and modes of all resident waves, as arrays over waves, and groups of waves that stand together.

Vector registers are `[register, wave, lane]`: the arch VGPRs, and from the accumulation offset on the AGPRs, of one
unified file. Scalar registers are `[hardware number, wave]`. A group is the waves that execute the next instruction
together; where they are neighbours its arrays are views, else copies.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.machine.compiled import Work
from asmgen.emulator.machine.devicememory import Memory
from asmgen.emulator.machine.matrix_cache import MatrixUnit
from asmgen.isa.arch import Architecture
from asmgen.isa.registers import SGPR_COUNT, Reg
from asmgen.program.program import Instruction

LANES = 64
LINE = 64
"""Bytes of a line of the host's caches."""
RUN_ROWS = 8
"""Rows of lanes that compiled runs have for what stands in no register."""
EXEC, VCC, M0 = 126, 106, 124
DTYPES: dict[str, type[np.generic]] = {"f32": np.float32, "i32": np.int32, "u32": np.uint32, "b32": np.uint32}
Array = NDArray[np.generic]

# The MODE register (CDNA3 ISA, MODE): rounding 3:0, denormals 7:4, DX10_CLAMP 8, IEEE 9, FP16_OVFL 23, GPR_IDX_EN 27, VSKIP 28, CSP 31:29.
MODE_GPR_INDEX, MODE_VSKIP, MODE_CSP = 1 << 27, 1 << 28, 7 << 29
# Apertures of flat addresses: upper halves of 64-bit addresses that no host address has. Any such values would do.
SHARED_BASE, PRIVATE_BASE = 1 << 48, 2 << 48
APERTURE_LIMIT = 0xFFFFFFFF


MemoryWatcher = Callable[["Group", Instruction, str, NDArray[np.int64], NDArray[np.int64], int, int, int], None]
"""Is told of vector memory accesses: group, instruction, the memory's name (addresses.Access), byte addresses [waves, 64] in it, counts
[waves, 64] of elements, their size in bytes, and for device memory the bytes (from, to) in which all lie."""
ScalarWatcher = Callable[["Group", Instruction, NDArray[np.int64]], None]
"""Is told of scalar loads: group, instruction, byte address of each wave."""


def aligned_zeros(shape: tuple[int, ...], dtype: type[np.generic]) -> NDArray[Any]:
    """Zeros that begin at a cache line of the host: its vector instructions then never touch two lines."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    block = np.zeros(size + LINE, np.uint8)
    start = -block.ctypes.data % LINE
    return block[start:start + size].view(dtype).reshape(shape)


class Machine:
    """Every wave that is resident at once, and what they share."""

    def __init__(self, arch: Architecture, waves: int, workgroups: int, registers: int, accum_offset: int, lds_bytes: int,
                 memory: Memory) -> None:
        self.arch = arch
        self.memory = memory
        self.waves = waves
        self.workgroups = workgroups
        self.registers = registers
        self.accum_offset = accum_offset
        self.lds_declared = lds_bytes
        self.lds_bytes = arch.allocated_lds(lds_bytes)
        self.lds_stride = self.lds_bytes + 16  # a wide access that ends outside is masked, but must stay in the array
        # One wave more than there are: a wave's registers would else lie a power of two apart and take turns in a few lines of the caches.
        self.vector_file: NDArray[np.uint32] = aligned_zeros((registers, waves + 1, LANES), np.uint32)
        self.vector = self.vector_file[:, :waves]
        self.vector_as: dict[str, Array] = {"u32": self.vector, "b32": self.vector, "i32": self.vector.view(np.int32),
                                            "f32": self.vector.view(np.float32)}
        # First and last of the registers that the program names: the others stay 0, and most of them never get memory of the host's.
        self.touched: list[tuple[int, int]] = [(0, registers - 1)]
        self.scalar = np.zeros((128, waves), np.uint32)
        self.scalar_as: dict[str, Array] = {"u32": self.scalar, "b32": self.scalar, "i32": self.scalar.view(np.int32),
                                            "f32": self.scalar.view(np.float32)}
        self.scc = np.zeros(waves, bool)
        self.mode = np.zeros(waves, np.uint32)
        # The MODE of the waves for which an instruction is being bound: `decode` binds again for another MODE (group.mode is
        # the same number), so a binder may specialise on it and pay nothing per step. Relative register addressing (GPR_IDX_EN) and VSKIP
        # need no care in any binder: the instruction that it is given has the registers really meant, and skipped ones are not bound.
        self.binding_mode = 0
        self.first_workgroup = 0  # dispatch number of the first resident one
        self.clock = 0  # of s_memtime, in cycles of a sort: it only grows
        self.scratch_bytes = 0  # private memory of one lane, as the descriptor asks
        self.lds = np.zeros(workgroups * self.lds_stride, np.uint8)
        self.lds_u32 = self.lds.view(np.uint32)
        self.workgroup = np.zeros(waves, np.int64)  # of each wave
        self.wave_in_group = np.zeros(waves, np.int64)
        self.live = np.ones(waves, bool)
        self.matrix = MatrixUnit()
        self.work = Work()
        self.run_buffers: Array = np.zeros((0, 0))  # decoded matrix operands of compiled runs, made when the first one needs them
        self.run_rows: NDArray[np.uint32] = aligned_zeros((RUN_ROWS, LANES), np.uint32)
        self.memory_watchers: list[MemoryWatcher] = []
        self.scalar_watchers: list[ScalarWatcher] = []
        self._private: NDArray[np.uint8] | None = None
        self._unwritten = 0

    def reset(self) -> None:
        """Empty registers and LDS, for other waves to take these waves' places."""
        for first, last in self.touched:
            self.vector[first:last + 1] = 0
        for file in (self.scalar, self.scc, self.mode, self.lds):
            file.fill(0)
        self._private = None

    def fill(self, word: int) -> None:
        """Put a word wherever nothing is written yet, of an empty machine; not into EXEC and what the hardware says of a wave."""
        self._unwritten = word
        if word:
            for first, last in self.touched:
                self.vector[first:last + 1] = word
            for low, high in ((0, SGPR_COUNT), (VCC, VCC + 2), (M0, M0 + 1)):
                self.scalar[low:high] = word
            self.lds_u32.fill(word)

    def private_memory(self) -> NDArray[np.uint8]:
        """Private memory (scratch) of all lanes: `private_stride` bytes for each lane of each wave in turn."""
        if self._private is None:
            self._private = np.full(self.waves * LANES * self.private_stride // 4, self._unwritten, np.uint32).view(np.uint8)
        return self._private

    @property
    def private_stride(self) -> int:
        """Bytes from one lane's private memory to the next one's: a wide access that ends outside must stay in the array."""
        return -(-self.scratch_bytes // 16) * 16 + 16

    def slot(self, reg: Reg) -> int:
        """Where a VGPR or AGPR lies in the unified file."""
        return reg.index + (self.accum_offset if reg.file == "a" else 0)


Selection = slice | NDArray[np.int64]


@dataclass
class Group:
    """Waves (indices into the machine's arrays, ascending) that stand before instruction `position`.

    `mask` is None while all lanes of all its waves are active, else a boolean array [waves, 64].
    """

    machine: Machine
    waves: NDArray[np.int64]
    position: int
    order: int = 0
    mode: int = 0  # MODE, the same for all waves of a group (machine.mode is per wave)
    index: int = 0  # what M0 adds to registers while MODE_GPR_INDEX is set: bits 7:0, and in 15:12 to which operands
    select: Selection = field(init=False)
    mask: NDArray[np.bool_] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        first, last = int(self.waves[0]), int(self.waves[-1])
        self.select = slice(first, last + 1) if last - first + 1 == len(self.waves) else self.waves
        self.refresh_mask()

    @property
    def size(self) -> int:
        """How many waves."""
        return len(self.waves)

    def refresh_mask(self) -> None:
        """Take over EXEC after it was written."""
        halves = self.machine.scalar[EXEC:EXEC + 2, self.select]
        if (halves == 0xFFFFFFFF).all():
            self.mask = None
        else:
            self.mask = lane_mask(halves[0], halves[1])

    def lanes(self) -> NDArray[np.bool_]:
        """The active lanes, [waves, 64], spelled out."""
        return np.ones((self.size, LANES), bool) if self.mask is None else self.mask


def lane_mask(low: NDArray[np.uint32], high: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Two halves [waves] of a 64-bit lane mask as booleans [waves, 64]."""
    both = np.empty((len(low), 2), np.uint32)
    both[:, 0], both[:, 1] = low, high
    return np.unpackbits(both.view(np.uint8), axis=1, bitorder="little").view(np.bool_)


def mask_bits(lanes: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Booleans [waves, 64] as the halves [2, waves] of a lane mask."""
    packed = np.packbits(lanes, axis=1, bitorder="little")
    return np.ascontiguousarray(packed).view("<u4").T
