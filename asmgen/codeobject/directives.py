"""The assembly text around a kernel's code: directives before it, the descriptor and metadata after it, the preload entry's loads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from asmgen.codeobject import metadata
from asmgen.codeobject.descriptor import CodeObjectError, initial_sgprs
from asmgen.codeobject.metadata import Argument
from asmgen.isa.arch import ARCHITECTURES, LANES, MOST_WORK_ITEMS, SIMDS, Architecture, accum_offset
from asmgen.isa.records import dataclass
from asmgen.isa.registers import AGPR_COUNT, SGPR_COUNT, VGPR_COUNT

CODE_OBJECT_VERSIONS = (5, 6)
_EXTRA_SGPRS = 6  # vcc, flat_scratch, xnack_mask: LLVM counts them in .sgpr_count (docs/facts/instructions.md section 6)
_SYMBOL = re.compile(r"(?!\.L)[A-Za-z_.$][\w.$]*", re.ASCII)  # .L names are local to the assembler: no runtime would find them
_NAME = re.compile(r"[\w.$]*", re.ASCII)
_KERNARG_POINTER_SGPRS = 2
# s_load_dword, x2, x4, x8, x16 with the alignment of their destination (docs/facts/instructions.md section 5)
_LOAD_ALIGNMENTS = ((16, 4), (8, 4), (4, 4), (2, 2), (1, 1))


@dataclass(frozen=True)
class KernelResources:
    """All that descriptor and metadata say about one kernel.

    Constructing one that no runtime could launch raises CodeObjectError at `where` ("file:line" of the author's kernel). Sources:
    docs/facts/instructions.md sections 4 to 6; the default FLOAT_MODE 0xc0 is docs/facts/semantics.md section 11.
    """

    name: str
    arch: str
    vgprs: int  # arch VGPRs used: the highest number plus 1
    sgprs: int  # likewise, vcc not counted
    agprs: int = 0
    lds_bytes: int = 0
    arguments: tuple[Argument, ...] = ()
    max_flat_workgroup_size: int = 256  # work-items
    reqd_workgroup_size: tuple[int, int, int] | None = None
    workgroup_ids: tuple[bool, bool, bool] = (True, False, False)  # x, y, z in SGPRs
    workitem_id: int = 0  # dimensions packed in v0: 0 x; 1 x, y; 2 x, y, z
    kernarg_preload: int = 0  # dwords, 0 for none
    kernarg_preload_offset: int = 0  # dwords
    round32: int = 0
    round16_64: int = 0
    denorm32: int = 0  # 0 flushes, 3 keeps
    denorm16_64: int = 3
    ieee_mode: bool = True
    dx10_clamp: bool = True
    fp16_overflow: bool = False
    tg_split: bool = False
    code_object_version: int = 6
    where: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise CodeObjectError(f"kernel {self.name!r}: {problem}", self.where)

    @property
    def accum_offset(self) -> int:
        """The register of the unified file that is a0: arch VGPRs rounded up to 4, at least 4."""
        return accum_offset(self.vgprs)

    @property
    def total_vgprs(self) -> int:
        """Registers of the unified file in use: accum_offset and AGPRs, or the arch VGPRs alone; at least 1."""
        return self.accum_offset + self.agprs if self.agprs else max(1, self.vgprs)

    @property
    def kernarg_size(self) -> int:
        """Bytes of the kernel argument segment."""
        return metadata.arguments_end(self.arguments)

    @property
    def user_sgprs(self) -> int:
        """The kernel argument pointer and the preloaded dwords."""
        return _KERNARG_POINTER_SGPRS + self.kernarg_preload

    @property
    def next_free_sgpr(self) -> int:
        """SGPRs of the kernel, those that the hardware fills included."""
        return max(self.sgprs, self.user_sgprs + sum(self.workgroup_ids))

    def sgpr_layout(self) -> list[tuple[str, int, int]]:
        """The SGPRs filled at start-up, as KernelDescriptor.sgpr_layout gives them for the assembled kernel."""
        system = [f"workgroup_id_{axis}" for axis, wanted in zip("xyz", self.workgroup_ids, strict=True) if wanted]
        users = [("kernarg_segment_ptr", _KERNARG_POINTER_SGPRS), ("kernarg_preload", self.kernarg_preload)]
        return initial_sgprs(users, self.user_sgprs, system)


@dataclass(frozen=True)
class ArgumentLoad:
    """One s_load of arguments: `dwords` (1, 2, 4, 8 or 16) from byte `offset` of the arguments to s[sgpr]."""

    sgpr: int
    dwords: int
    offset: int


def argument_loads(sgpr: int, dwords: int, offset: int = 0) -> tuple[ArgumentLoad, ...]:
    """The widest s_loads that put `dwords` dwords from byte `offset` of the arguments into SGPRs from `sgpr` on, all aligned.

    With preload they do at the kernel's entry what preloading firmware does by itself, before `s_waitcnt lgkmcnt(0)`, `s_branch` to the
    body and `.p2align 8`: such firmware starts 256 bytes after the entry (docs/facts/instructions.md section 4).
    """
    chunks = []
    while dwords:
        size = next(size for size, alignment in _LOAD_ALIGNMENTS if size <= dwords and sgpr % alignment == 0)
        chunks.append(ArgumentLoad(sgpr, size, offset))
        sgpr, dwords, offset = sgpr + size, dwords - size, offset + 4 * size
    return tuple(chunks)


def header(resources: KernelResources) -> str:
    """The text before the kernel's first instruction, its label included, in a file of one kernel."""
    return file_header(resources) + kernel_header(resources)


def trailer(resources: KernelResources) -> str:
    """The text after the kernel's last instruction in a file of one kernel: size, descriptor, metadata."""
    return kernel_trailer(resources) + file_trailer([resources])


def file_header(resources: KernelResources) -> str:
    """What stands once at a file's head: target and code object version."""
    return f'\t.amdgcn_target "{_target(resources.arch)}"\n\t.amdhsa_code_object_version {resources.code_object_version}\n'


def kernel_header(resources: KernelResources) -> str:
    """Section, visibility, 256-byte alignment and label of one kernel."""
    name = resources.name
    return f"\t.text\n\t.protected {name}\n\t.globl {name}\n\t.p2align 8\n\t.type {name},@function\n{name}:\n"


def kernel_trailer(resources: KernelResources) -> str:
    """Symbol size and descriptor of one kernel. The padding (as LLVM writes it) keeps instruction prefetch inside the code object."""
    name = resources.name
    block = [
        f".size {name}, .-{name}",
        ".p2alignl 6, 0xbf800000",
        ".fill 256, 4, 0xbf800000",
        '.section .rodata,"a",@progbits',
        ".p2align 6",
        f".amdhsa_kernel {name}",
        *(f"  .amdhsa_{key} {int(value)}" for key, value in _directives(resources).items()),
        ".end_amdhsa_kernel",
    ]
    return "".join(f"\t{line}\n" for line in block)


def file_trailer(kernels: Sequence[KernelResources]) -> str:
    """What stands once at a file's end: the metadata of all its kernels, which must agree on architecture and code object version."""
    if len({(kernel.arch, kernel.code_object_version) for kernel in kernels}) != 1:
        names = ", ".join(kernel.name for kernel in kernels) or "no kernel at all"
        raise CodeObjectError(f"the kernels of one file need one architecture and one code object version: {names}")
    return metadata.yaml(_target(kernels[0].arch), [_row(kernel) for kernel in kernels])


def _target(arch: str) -> str:
    return f"amdgcn-amd-amdhsa--{arch}"


def _directives(resources: KernelResources) -> dict[str, int]:
    directives = {
        "group_segment_fixed_size": resources.lds_bytes,
        "kernarg_size": resources.kernarg_size,
        "user_sgpr_kernarg_segment_ptr": 1,
    }
    if resources.kernarg_preload:
        directives["user_sgpr_kernarg_preload_length"] = resources.kernarg_preload
        directives["user_sgpr_kernarg_preload_offset"] = resources.kernarg_preload_offset
    directives |= {f"system_sgpr_workgroup_id_{axis}": wanted for axis, wanted in zip("xyz", resources.workgroup_ids, strict=True)}
    return directives | {
        "system_vgpr_workitem_id": resources.workitem_id,
        "next_free_vgpr": resources.total_vgprs,
        "next_free_sgpr": resources.next_free_sgpr,
        "accum_offset": resources.accum_offset,
        "float_round_mode_32": resources.round32,
        "float_round_mode_16_64": resources.round16_64,
        "float_denorm_mode_32": resources.denorm32,
        "float_denorm_mode_16_64": resources.denorm16_64,
        "dx10_clamp": resources.dx10_clamp,
        "ieee_mode": resources.ieee_mode,
        "fp16_overflow": resources.fp16_overflow,
        "tg_split": resources.tg_split,
    }


def _row(resources: KernelResources) -> dict[str, Any]:
    """One kernel's metadata mapping, keys in alphabetical order as LLVM writes them."""
    rows = []
    for argument in resources.arguments:
        row: dict[str, Any] = {".address_space": argument.address_space} if argument.address_space else {}
        if argument.name:
            row[".name"] = argument.name
        rows.append(row | {".offset": argument.offset, ".size": argument.size, ".value_kind": argument.value_kind})
    row = {
        ".agpr_count": resources.agprs,
        ".args": rows,
        ".group_segment_fixed_size": resources.lds_bytes,
        ".kernarg_segment_align": 8,
        ".kernarg_segment_size": resources.kernarg_size,
        ".max_flat_workgroup_size": resources.max_flat_workgroup_size,
        ".name": resources.name,
        ".private_segment_fixed_size": 0,
    }
    if resources.reqd_workgroup_size:
        row[".reqd_workgroup_size"] = resources.reqd_workgroup_size
    return row | {
        ".sgpr_count": resources.next_free_sgpr + _EXTRA_SGPRS,
        ".sgpr_spill_count": 0,
        ".symbol": f"{resources.name}.kd",
        ".uses_dynamic_stack": False,
        ".vgpr_count": resources.total_vgprs,
        ".vgpr_spill_count": 0,
        ".wavefront_size": 64,
    }


def _problems(resources: KernelResources) -> list[str]:
    """What is wrong with the resources, one sentence each without the kernel's name, the most basic first."""
    if not _SYMBOL.fullmatch(resources.name):
        return ["its name is no symbol: letters, digits, _, . and $ are allowed, no digit first, no .L in front"]
    arch = ARCHITECTURES.get(resources.arch)
    if arch is None:
        return [f"unknown architecture {resources.arch!r}; known are {', '.join(ARCHITECTURES)}"]
    if resources.code_object_version not in CODE_OBJECT_VERSIONS:
        return [f"code object version {resources.code_object_version} cannot be written; 5 and 6 can"]
    ranges = [
        ("vgprs", resources.vgprs, 0, VGPR_COUNT),
        ("agprs", resources.agprs, 0, AGPR_COUNT),
        ("sgprs", resources.sgprs, 0, SGPR_COUNT),
        ("max_flat_workgroup_size", resources.max_flat_workgroup_size, 1, MOST_WORK_ITEMS),
        ("workitem_id", resources.workitem_id, 0, 2),
        ("kernarg_preload", resources.kernarg_preload, 0, arch.user_sgprs - _KERNARG_POINTER_SGPRS),
        ("kernarg_preload_offset", resources.kernarg_preload_offset, 0, (1 << 9) - 1),
        *((field, getattr(resources, field), 0, 3) for field in ("round32", "round16_64", "denorm32", "denorm16_64")),
    ]
    found = [f"{what} is {value}, outside of {low} to {high}" for what, value, low, high in ranges if not low <= value <= high]
    if not 0 <= resources.lds_bytes <= arch.lds_bytes:
        found.append(f"{resources.lds_bytes} bytes of LDS asked for; a workgroup of {arch.name} has at most {arch.lds_bytes}")
    return found or _argument_problems(resources) or _launch_problems(resources, arch)


def _argument_problems(resources: KernelResources) -> list[str]:
    found = []
    end = 0
    for index, argument in enumerate(resources.arguments):
        called = f"argument {index} ({argument.name or argument.value_kind})"
        if not _NAME.fullmatch(argument.name) or not _NAME.fullmatch(argument.value_kind) or not _NAME.fullmatch(argument.address_space):
            found.append(f"{called} has a name, value kind or address space with other characters than letters, digits, _, . and $")
        if argument.size <= 0:
            found.append(f"{called} has a size of {argument.size} bytes")
        if argument.offset < end:
            found.append(f"{called} begins at byte {argument.offset}, before byte {end} where the one before it ends")
        end = argument.offset + argument.size
    last = 4 * (resources.kernarg_preload_offset + resources.kernarg_preload)
    if resources.kernarg_preload and last > resources.kernarg_size:
        found.append(f"preload of arguments up to byte {last} was asked for, but they end at byte {resources.kernarg_size}")
    return found


def _launch_problems(resources: KernelResources, arch: Architecture) -> list[str]:
    if resources.next_free_sgpr > SGPR_COUNT:
        return [f"{resources.next_free_sgpr} SGPRs are needed; there are {SGPR_COUNT}"]
    total = resources.total_vgprs
    if total > arch.vgpr_total:
        return [f"accum_offset {resources.accum_offset} and {resources.agprs} AGPRs make {total} registers; there are {arch.vgpr_total}"]
    required = resources.reqd_workgroup_size
    if required:
        items = required[0] * required[1] * required[2]
        if min(required) < 1 or items > resources.max_flat_workgroup_size:
            return [f"reqd_workgroup_size {required} does not fit max_flat_workgroup_size {resources.max_flat_workgroup_size}"]
    # All waves of a workgroup run at once on one compute unit, so each SIMD must hold its share.
    waves = -(-resources.max_flat_workgroup_size // (LANES * SIMDS))
    if waves > arch.waves_for_vgprs(total):
        most = arch.vgprs_for_waves(waves)
        return [
            f"a workgroup of {resources.max_flat_workgroup_size} work-items puts {waves} waves on each SIMD, "
            f"which leaves {most} registers a wave; {total} are used"
        ]
    return []
