"""The registers that are free, as an immutable value: what fits where, and how many registers the kernel needs in all.

Vector and accumulation registers share one file of 512 per lane and SIMD, split at accum_offset, and the number of waves that
are to run on a SIMD divides it (docs/facts/instructions.md section 5). Being a value, a pool answers "would it fit if" by making the
change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType

from asmgen.isa.arch import ACCUM_GRANULE, Architecture, accum_offset
from asmgen.isa.records import dataclass
from asmgen.isa.registers import AGPR_COUNT, SGPR_COUNT, VGPR_COUNT, Reg

FILE_SIZES: Mapping[str, int] = MappingProxyType({"v": VGPR_COUNT, "a": AGPR_COUNT, "s": SGPR_COUNT})
FILE_NAMES: Mapping[str, str] = MappingProxyType({"v": "VGPRs", "a": "AGPRs", "s": "SGPRs"})


def default_align(file: str, count: int) -> int:
    """The alignment every operand of that many registers is content with (docs/facts/instructions.md section 5)."""
    if count == 1:
        return 1
    return 4 if file == "s" and count > 2 else 2


@dataclass(frozen=True)
class PlanResources:
    """What the kernel descriptor needs of a plan.

    `vgprs`, `agprs` and `sgprs` are high-water marks: the highest register ever held, plus one. `total` counts registers of the
    unified file, `accum_offset + agprs` where AGPRs are used, else `vgprs`.
    """

    vgprs: int
    agprs: int
    sgprs: int
    accum_offset: int
    total: int
    waves_per_simd: int


@dataclass(frozen=True)
class Pool:
    """Which registers are held now (`held`, one bit a register of each file) and ever were (`high`, high-water marks)."""

    arch: Architecture
    waves: int | None = None
    held: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(FILE_SIZES, 0))
    high: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(FILE_SIZES, 0))

    @property
    def limit(self) -> int:
        """Registers of the unified file that the wanted number of waves leaves to each."""
        return self.arch.vgpr_total if self.waves is None else self.arch.vgprs_for_waves(self.waves)

    @property
    def accum_offset(self) -> int:
        """Where the AGPRs begin in the unified file."""
        return accum_offset(self.high["v"])

    @property
    def total(self) -> int:
        """Registers of the unified file in use, by the high-water marks."""
        return self.accum_offset + self.high["a"] if self.high["a"] else self.high["v"]

    def resources(self) -> PlanResources:
        """The high-water marks and what follows from them."""
        return PlanResources(self.high["v"], self.high["a"], self.high["s"], self.accum_offset, self.total,
                             self.arch.waves_for_vgprs(self.total))

    def room(self, file: str) -> int:
        """Registers of the file that may be used at all: its size, or what the limit leaves beside the other half of the unified file."""
        if file == "v":
            left = (self.limit - self.high["a"]) // ACCUM_GRANULE * ACCUM_GRANULE if self.high["a"] else self.limit
        elif file == "a":
            left = self.limit - self.accum_offset
        else:
            left = FILE_SIZES[file]
        return max(0, min(FILE_SIZES[file], left))

    def free_bits(self, file: str) -> int:
        """One bit for each register of the file that may be taken."""
        return ~self.held[file] & ((1 << self.room(file)) - 1)

    def find(self, file: str, count: int, align: int) -> int | None:
        """The lowest index, a multiple of `align`, with `count` free registers from it on; None where there is none."""
        starts = self.free_bits(file)
        have = 1
        while have < count and starts:
            # After each step, bit i says that registers i to i + have - 1 are free.
            step = min(have, count - have)
            starts &= starts >> step
            have += step
        starts &= _multiples(align, FILE_SIZES[file])
        return (starts & -starts).bit_length() - 1 if starts else None

    def runs(self, count: int, file: str, granule: int) -> list[Reg] | None:
        """So many free runs, the lowest ones, or None."""
        pool, found = self, []
        for _ in range(count):
            index = pool.find(file, granule, default_align(file, granule))
            if index is None:
                return None
            found.append(Reg(file, index, granule))
            pool = pool.take(found[-1])
        return found

    def largest_hole(self, file: str, align: int) -> Reg | None:
        """The longest run of free registers that begins at a multiple of `align` (the lowest of equals), None where nothing is free."""
        low, high = 0, self.room(file)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (low, middle - 1) if self.find(file, middle, align) is None else (middle, high)
        index = self.find(file, low, align) if low else None
        return None if index is None else Reg(file, index, low)

    def take(self, reg: Reg) -> Pool:
        """The pool with these registers held; they must be free."""
        bits = ((1 << reg.count) - 1) << reg.index
        return Pool(self.arch, self.waves, {**self.held, reg.file: self.held[reg.file] | bits},
                    {**self.high, reg.file: max(self.high[reg.file], reg.last + 1)})

    def give(self, reg: Reg) -> Pool:
        """The pool with these registers free again; the high-water marks stay."""
        bits = ((1 << reg.count) - 1) << reg.index
        return Pool(self.arch, self.waves, {**self.held, reg.file: self.held[reg.file] & ~bits}, self.high)


def _multiples(align: int, size: int) -> int:
    """One bit at each multiple of `align` below `size`."""
    # A repunit in base 2**align.
    return ((1 << -(-size // align) * align) - 1) // ((1 << align) - 1)
