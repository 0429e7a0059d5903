"""The architectures asmgen knows: one frozen profile each. An unknown one is an error, never a guess."""

from __future__ import annotations

from asmgen.isa.records import dataclass

COUNTER_MAX = {"vmcnt": 63, "expcnt": 7, "lgkmcnt": 15}
"""What the fields of s_waitcnt can hold; a wait for that many waits for nothing (docs/facts/instructions.md section 4)."""
ACCUM_GRANULE = 4
"""accum_offset is a multiple of it, 4 to 256 (docs/facts/instructions.md section 5)."""

LANES = 64
"""Work-items of a wave (docs/facts/instructions.md section 6)."""
MOST_WORK_ITEMS = 1024
"""The most work-items of a workgroup (LLVM 22, AMDGPU::IsaInfo::getMaxFlatWorkGroupSize)."""
SIMDS = 4
"""SIMDs of a compute unit; the waves of a workgroup go round them (docs/facts/microarchitecture.md section 2.1)."""
LANE_SWAPS = {4: "v_permlane16_swap_b32", 5: "v_permlane32_swap_b32"}
"""gfx950's swaps by the bit of the lane's number that each exchanges with the choice between its two registers
(docs/facts/semantics.md section 6)."""
PRELOAD_ENTRY = 256
"""Bytes after a kernel's entry at which firmware that preloads arguments starts (docs/facts/instructions.md section 6)."""
XCDS = 8
"""Chiplets of a GPU in one partition, each with its own L2; workgroups go to them in turn (docs/facts/microarchitecture.md section 2.5)."""


def accum_offset(vgprs: int) -> int:
    """The register of the unified file that is a0, after so many arch VGPRs."""
    return max(ACCUM_GRANULE, -(-vgprs // ACCUM_GRANULE) * ACCUM_GRANULE)


@dataclass(frozen=True)
class Architecture:
    """What differs between chips, with units in the names' comments.

    Sources: docs/facts/instructions.md sections 4 to 6 (LLVM 22: registers, LDS, descriptor, ELF flags).
    """

    name: str
    lds_bytes: int  # per workgroup
    lds_granule: int  # bytes
    lds_banks: int  # of 4 bytes
    elf_mach: int  # EF_AMDGPU_MACH in e_flags
    m0_dma_bits: int  # bits of M0 that address LDS in a buffer LDS-DMA
    fp8: str  # "fnuz" or "ocp"
    vgpr_total: int = 512  # unified file, per lane and SIMD
    vgpr_granule: int = 8
    waves_per_simd: int = 8
    user_sgprs: int = 16
    vmcnt_max: int = COUNTER_MAX["vmcnt"]
    lgkmcnt_max: int = COUNTER_MAX["lgkmcnt"]
    snop_max: int = 15

    def allocated_vgprs(self, total: int) -> int:
        """Registers that a kernel which uses `total` of the unified file really gets."""
        return max(self.vgpr_granule, -(-total // self.vgpr_granule) * self.vgpr_granule)

    def waves_for_vgprs(self, total: int) -> int:
        """Occupancy by registers: waves per SIMD (docs/facts/instructions.md section 5)."""
        return min(self.waves_per_simd, self.vgpr_total // self.allocated_vgprs(total))

    def vgprs_for_waves(self, waves: int) -> int:
        """The most registers a kernel may use to run `waves` waves per SIMD."""
        return self.vgpr_total // waves // self.vgpr_granule * self.vgpr_granule

    def allocated_lds(self, lds: int) -> int:
        """Bytes of LDS that a workgroup which uses `lds` really gets."""
        return -(-lds // self.lds_granule) * self.lds_granule

    def workgroups_per_cu(self, total: int, lds: int, waves: int) -> int:
        """How many workgroups of `waves` waves, each with `total` registers, and `lds` bytes a compute unit holds; 0 where not one fits."""
        by_registers = self.waves_for_vgprs(total) * SIMDS // waves
        granted = self.allocated_lds(lds)
        return min(by_registers, self.lds_bytes // granted) if granted else by_registers

    def waves_for_lds(self, lds: int, waves: int) -> int:
        """Occupancy by LDS: waves per SIMD of workgroups with `lds` bytes and `waves` waves each; at least 1, as one workgroup always fits
        (docs/facts/instructions.md section 5)."""
        granted = self.allocated_lds(lds)
        workgroups = self.lds_bytes // granted if granted else self.waves_per_simd * SIMDS
        return min(self.waves_per_simd, max(1, workgroups * waves // SIMDS))


GFX942 = Architecture("gfx942", lds_bytes=65536, lds_granule=512, lds_banks=32, elf_mach=0x4C, m0_dma_bits=16, fp8="fnuz")
GFX950 = Architecture("gfx950", lds_bytes=163840, lds_granule=1280, lds_banks=64, elf_mach=0x4F, m0_dma_bits=18, fp8="ocp")
ARCHITECTURES = {arch.name: arch for arch in (GFX942, GFX950)}


def architecture(name: str) -> Architecture:
    """The profile of that name; raises ValueError with the known ones for any other."""
    try:
        return ARCHITECTURES[name]
    except KeyError:
        raise ValueError(f"unknown architecture {name!r}; known are {', '.join(ARCHITECTURES)}") from None
