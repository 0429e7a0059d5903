"""A kernel's registers and LDS, the waves per SIMD that they allow, and how far the next step of occupancy is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from asmgen.checks.lint.facts import KernelFacts
from asmgen.codeobject.load import KernelRecord
from asmgen.isa.arch import LANES, SIMDS, Architecture, architecture
from asmgen.isa.registers import SGPR_BIT, SGPR_COUNT, VGPR_COUNT
from asmgen.program.program import Program

_FILE = (1 << VGPR_COUNT) - 1


@dataclass(frozen=True)
class OccupancyStep:
    """What decides the waves per SIMD, and the way to more: `limit` is registers, lds or wave slots.

    `spare_registers` and `spare_lds` may be added without losing a wave; for `next_waves` a SIMD so many registers and bytes of LDS must
    go (0 where they are no obstacle). Of LDS None where the workgroup's size is not known; `next_waves` is None at the hardware's most.
    """

    limit: str
    spare_registers: int
    spare_lds: int | None
    next_waves: int | None
    excess_registers: int
    excess_lds: int | None

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return dict(vars(self))


def resources(program: Program, kernel: KernelRecord | None, facts: KernelFacts, metadata: Mapping[str, Any]
              ) -> tuple[dict[str, int], OccupancyStep]:
    """From the code object's metadata and descriptor; from directives, a text's metadata and the instructions where there is none.

    AGPRs are the metadata's, and those that the instructions name where it does not count as many, as hand-written kernels leave it out.
    """
    arch = architecture(program.arch)
    used = program.registers
    named, arch_vgprs = (used >> VGPR_COUNT & _FILE).bit_length(), (used & _FILE).bit_length()
    if kernel is not None:
        given = kernel.resources
        vgpr, agpr, sgpr = given.vgpr_count, max(given.agpr_count, named), given.sgpr_count
        lds, scratch, spills = given.lds, given.scratch, given.vgpr_spills + given.sgpr_spills
        total = vgpr if arch.allocated_vgprs(vgpr) == kernel.descriptor.vgprs else max(vgpr, kernel.descriptor.vgprs)
        waves = -(-given.max_flat_workgroup_size // LANES)
    else:
        agpr = named
        vgpr = total = max(-(-arch_vgprs // 4) * 4 + agpr if agpr else arch_vgprs, facts.wanted or 0)
        said = {name: value for name, value in metadata.items() if isinstance(value, int)}
        sgpr = said.get(".sgpr_count", (used >> SGPR_BIT & (1 << SGPR_COUNT) - 1).bit_length())
        lds, scratch = facts.lds or 0, said.get(".private_segment_fixed_size", 0)
        spills = said.get(".vgpr_spill_count", 0) + said.get(".sgpr_spill_count", 0)
        waves = -(-facts.block[0] * facts.block[1] * facts.block[2] // LANES) if facts.block is not None else 0
    step = _step(arch, total, lds, waves)
    return {"vgpr": vgpr, "agpr": agpr, "arch_vgpr": arch_vgprs, "sgpr": sgpr, "lds": lds, "scratch": scratch, "spills": spills,
            "occupancy": _waves(arch, total, lds, waves)}, step


def _waves(arch: Architecture, total: int, lds: int, waves: int) -> int:
    """Waves per SIMD by registers, and by LDS where the workgroup's waves are known (not 0)."""
    by_registers = arch.waves_for_vgprs(max(total, 1))
    return min(by_registers, arch.waves_for_lds(lds, waves)) if lds and waves else by_registers


def _step(arch: Architecture, total: int, lds: int, waves: int) -> OccupancyStep:
    now, by_registers = _waves(arch, total, lds, waves), arch.waves_for_vgprs(max(total, 1))
    spare_lds = _most_lds(arch, now, waves) - lds if waves else None
    spare = arch.vgprs_for_waves(now) - total
    if now >= arch.waves_per_simd:
        return OccupancyStep("wave slots", spare, spare_lds, None, 0, 0 if waves else None)
    wanted = next((more for more in range(now + 1, arch.waves_per_simd + 1) if not waves or _reachable(arch, more, now, waves)), None)
    if wanted is None:
        return OccupancyStep("lds" if now < by_registers else "registers", spare, spare_lds, None, 0, None)
    return OccupancyStep("lds" if now < by_registers else "registers", spare, spare_lds, wanted,
                         max(0, total - arch.vgprs_for_waves(wanted)), max(0, lds - _most_lds(arch, wanted, waves)) if waves else None)


def _reachable(arch: Architecture, wanted: int, now: int, waves: int) -> bool:
    """Whether whole workgroups of so many waves can make it that many a SIMD."""
    groups = -(-wanted * SIMDS // waves)
    return groups * waves // SIMDS == wanted > now


def _most_lds(arch: Architecture, wanted: int, waves: int) -> int:
    """The most bytes of LDS with which so many waves run on a SIMD."""
    groups = max(1, -(-wanted * SIMDS // waves))
    return arch.lds_bytes // groups // arch.lds_granule * arch.lds_granule
