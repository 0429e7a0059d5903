"""`CodeObject.load`: the kernels, arguments, resources, memory image and symbols of any gfx942 or gfx950 code object."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from asmgen.codeobject import bundle, metadata
from asmgen.codeobject.descriptor import CODE_ALIGNMENT, DESCRIPTOR_BYTES, PRELOAD_SKIP, CodeObjectError, KernelDescriptor
from asmgen.codeobject.elf import (
    ELF_MAGIC,
    EM_AMDGPU,
    PT_NOTE,
    SHT_NOTE,
    ElfSection,
    ElfSegment,
    ElfSymbol,
    LoadSegment,
    Relocation,
    check_header,
    fat_section,
    file_bytes,
    load_segments,
    read_headers,
    read_image,
    read_relocations,
    read_symbols,
)
from asmgen.codeobject.metadata import Argument
from asmgen.files import FileError, read_plain
from asmgen.isa.arch import ARCHITECTURES, MOST_WORK_ITEMS
from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import MOST_QUOTED, quoted, shorten
from asmgen.toolchain import link

_ET_REL, _ET_DYN = 1, 3
_OSABI_AMDGPU_HSA = 64
_ABI_VERSIONS = {2: 4, 3: 5, 4: 6}  # byte 8 of the ELF: code object version (docs/facts/instructions.md section 6)
_FEATURE_STATES = ("unsupported", "any", "off", "on")


Size = tuple[int, int, int]


class Launcher(Protocol):
    """What a kernel needs of a device: asmgen.launch has some."""

    def launch(self, kernel: Any, grid: Size, block: Size, kernarg: Any, dynamic_lds: int = 0, stream: Any = None) -> Any:
        """Start the kernel."""


@dataclass(frozen=True)
class Resources:
    """What a kernel says that it needs: from its metadata, from the descriptor where it has none. Sizes in bytes.

    `vgpr_count` is the total over the unified file, AGPRs included.
    """

    vgpr_count: int
    agpr_count: int
    sgpr_count: int
    lds: int
    scratch: int
    kernarg_size: int
    kernarg_align: int
    max_flat_workgroup_size: int
    vgpr_spills: int
    sgpr_spills: int
    wavefront_size: int
    uses_dynamic_stack: bool


@dataclass(frozen=True)
class KernelRecord:
    """One kernel; addresses are those of the code object's image. `metadata` is its raw mapping, empty where there is none."""

    name: str
    symbol: str
    descriptor: KernelDescriptor
    descriptor_address: int
    entry: int
    code_size: int
    arguments: tuple[Argument, ...]
    metadata: Mapping[str, Any]
    resources: Resources
    code_object: CodeObject | None = field(default=None, repr=False, compare=False)  # where `CodeObject.kernel` found it

    @property
    def start(self) -> int:
        """Where a wave begins when the firmware preloads arguments: after the compatibility entry, if the kernel has one."""
        return self.entry + PRELOAD_SKIP if self.descriptor.preload_length else self.entry

    def launch(self, device: Launcher, grid: Size, block: Size, args: Any, dynamic_lds: int = 0, stream: Any = None) -> Any:
        """Start `grid` workgroups of `block` work-items on a device of `asmgen.launch`; `args` in order or by name from the metadata.

        An argument is a number (Python's or numpy's), a device buffer, an array of another library (a PyTorch tensor, anything with
        `__dlpack__`; used where it is), or a numpy array, which is uploaded and read back into itself. Raises AsmgenError, which names
        the argument, before anything is launched.
        """
        if not hasattr(device, "launch"):
            raise CodeObjectError(f"{self.name} is launched on a device of asmgen.launch, got {quoted(device)}; EmulatedDevice('gfx950') "
                                  "or HipDevice() would work")
        return device.launch(self, grid, block, args, dynamic_lds, stream)


@dataclass(frozen=True)
class CodeObject:
    """A loaded code object. `origin` is the file's name; `data` the ELF itself, without a bundle around it."""

    origin: str
    arch: str
    xnack: str  # "any", "on", "off" or "unsupported"
    sramecc: str
    abi_version: int  # code object version: 4, 5 or 6
    data: bytes
    kernels: Mapping[str, KernelRecord]
    symbols: Mapping[str, ElfSymbol]
    image: tuple[LoadSegment, ...]
    fixups: tuple[Relocation, ...]
    metadata: Mapping[str, Any]

    @classmethod
    def load(cls, source: str | Path | bytes, arch: str | None = None, origin: str = "") -> CodeObject:
        """Reads a file (or its bytes): a code object, an offload bundle, or a host ELF with a .hip_fatbin section.

        `arch` ("gfx950", or a target id with features) picks a bundle's entry and must fit a plain file; without it a
        bundle must hold one architecture only. Raises CodeObjectError, one sentence that names the file, for
        anything that cannot be read. `origin` is the file's name where its bytes are given.
        """
        found = cls.load_all(source, arch, origin)
        if len(found) > 1:
            raise CodeObjectError(
                f"{found[0].origin}: {len(found)} code objects of {found[0].arch} are in it, one of each source file: "
                f"unbundle the one to open (CodeObject.load_all reads them all)"
            )
        return found[0]

    @classmethod
    def load_all(cls, source: str | Path | bytes, arch: str | None = None, origin: str = "") -> list[CodeObject]:
        """As `load`, for a program linked from several source files: every code object of the architecture, at least one."""
        origin = origin or ("<bytes>" if isinstance(source, bytes) else str(source))
        try:
            data = source if isinstance(source, bytes) else read_plain(Path(source))
        except FileError as error:
            raise CodeObjectError(error.sentence) from None
        with _sentences(origin):
            if arch is not None and arch.partition(":")[0] not in ARCHITECTURES:
                raise CodeObjectError(f"unknown architecture {quoted(arch)} asked for; known are {', '.join(ARCHITECTURES)}")
            fat = fat_section(data) if data.startswith(ELF_MAGIC) else None
            if fat is not None or bundle.is_bundle(data):
                found = bundle.choose(bundle.entries(data if fat is None else fat), arch)
                return [_read(entry.data, origin, entry.arch) for entry in found]
            return [_read(data, origin, arch)]

    def kernel(self, name: str | None = None) -> KernelRecord:
        """The kernel of that name, or the only one; raises CodeObjectError that lists the names."""
        if name is not None and name in self.kernels:
            return replace(self.kernels[name], code_object=self)
        names = ", ".join(shorten(name, MOST_QUOTED) for name in list(self.kernels)[:8]) + (", ..." if len(self.kernels) > 8 else "")
        if not self.kernels:
            raise CodeObjectError(f"{self.origin}: it holds no kernel")
        if name is not None:
            raise CodeObjectError(f"{self.origin}: it has no kernel {quoted(name)}; it has {names}")
        if len(self.kernels) > 1:
            raise CodeObjectError(f"{self.origin}: it has {len(self.kernels)} kernels, name one of {names}")
        return replace(next(iter(self.kernels.values())), code_object=self)

    def segments(self) -> list[LoadSegment]:
        """The memory image: every PT_LOAD, in the file's order."""
        return list(self.image)

    def relocations(self) -> list[Relocation]:
        """What a loader must patch in the image, in the file's order."""
        return list(self.fixups)

    def read(self, address: int, size: int) -> bytes:
        """`size` bytes of the image; raises CodeObjectError where no segment holds them all."""
        return read_image(self.image, address, size)

    def code(self, kernel: KernelRecord) -> bytes:
        """The kernel's instructions, from its entry on."""
        return self.read(kernel.entry, kernel.code_size)


@contextmanager
def _sentences(origin: str) -> Iterator[None]:
    """Puts the file's name before what is wrong with it."""
    try:
        yield
    except CodeObjectError as error:
        raise CodeObjectError(f"{origin}: {error.sentence}") from error


def _linked(data: bytes) -> bytes:
    """What a compiler leaves before its link, linked."""
    try:
        return link(data, "it")
    except AsmgenError as error:
        raise CodeObjectError(f"an ELF file of type {_ET_REL}, not a linked code object, and {error.sentence}") from None


def _read(data: bytes, origin: str, arch: str | None) -> CodeObject:
    header = check_header(data)
    _, _, _, _, osabi, abi, kind, machine, _, _, _, _, flags, *_ = header
    if machine != EM_AMDGPU or osabi != _OSABI_AMDGPU_HSA:
        raise CodeObjectError(f"an ELF file for machine {machine}, OS ABI {osabi}; a code object has {EM_AMDGPU} and {_OSABI_AMDGPU_HSA}")
    target = _arch_of(flags)
    xnack, sramecc = _FEATURE_STATES[flags >> 8 & 3], _FEATURE_STATES[flags >> 10 & 3]
    _check_target(arch, target, {"xnack": xnack, "sramecc": sramecc})
    if abi not in _ABI_VERSIONS:
        raise CodeObjectError(f"a code object with ABI version byte {abi}; versions 4 to 6 have 2 to 4")
    if kind == _ET_REL:
        return _read(_linked(data), origin, arch)
    if kind != _ET_DYN:
        raise CodeObjectError(f"an ELF file of type {kind}, not a linked code object")
    segments, sections = read_headers(data)
    image = load_segments(segments, data)
    symbols = read_symbols(sections, data)
    root = _metadata(segments, sections, data)
    return CodeObject(
        origin=origin,
        arch=target,
        xnack=xnack,
        sramecc=sramecc,
        abi_version=_ABI_VERSIONS[abi],
        data=data,
        kernels=_kernels(metadata.kernel_rows(root), symbols, image),
        symbols=symbols,
        image=image,
        fixups=read_relocations(sections, data),
        metadata=root,
    )


def _arch_of(flags: int) -> str:
    for arch in ARCHITECTURES.values():
        if arch.elf_mach == flags & 0xFF:
            return arch.name
    raise CodeObjectError(f"a code object for another GPU (machine {flags & 0xFF:#x} in its flags); {', '.join(ARCHITECTURES)} can be read")


def _check_target(wanted: str | None, target: str, states: Mapping[str, str]) -> None:
    if wanted is None:
        return
    base, *features = wanted.split(":")
    if base != target:
        raise CodeObjectError(f"it holds code for {target}, not for {base}")
    for feature in features:
        state = states.get(feature[:-1], "unsupported")
        if state not in ("any", "on" if feature.endswith("+") else "off"):
            raise CodeObjectError(f"it holds code for {target} with {feature[:-1]} {state}, not for {wanted}")


def _metadata(segments: list[ElfSegment], sections: list[ElfSection], data: bytes) -> dict[str, Any]:
    locations = [(part.offset, part.file_size) for part in segments if part.kind == PT_NOTE]
    locations += [(part.offset, part.size) for part in sections if part.kind == SHT_NOTE]
    for offset, size in locations:
        note = metadata.find_note(file_bytes(data, offset, size, "a note section of it"))
        if note is not None:
            return metadata.decode(note)
    return {}


def _kernels(rows: list[dict[str, Any]], symbols: Mapping[str, ElfSymbol], image: tuple[LoadSegment, ...]) -> dict[str, KernelRecord]:
    found: dict[str, KernelRecord] = {}
    described = {row[".symbol"] for row in rows}
    for row in rows:
        name = row[".name"]
        if name in found:
            raise CodeObjectError(f"it describes kernel {quoted(name)} twice")
        found[name] = _kernel(row, symbols, image, bare=False)
    for symbol in symbols.values():
        name = symbol.name.removesuffix(".kd")
        if name not in ("", symbol.name) and name not in found and symbol.kind in ("object", "notype") and symbol.name not in described:
            found[name] = _kernel({".name": name, ".symbol": symbol.name}, symbols, image, bare=True)
    return _with_code_sizes(found, symbols, image)


def _kernel(row: dict[str, Any], symbols: Mapping[str, ElfSymbol], image: tuple[LoadSegment, ...], bare: bool) -> KernelRecord:
    """The kernel of one metadata row, its code size still 0."""
    symbol = symbols.get(row[".symbol"])
    if symbol is None:
        raise CodeObjectError(f"it has no symbol {quoted(row['.symbol'])}, the descriptor of kernel {quoted(row['.name'])}")
    descriptor = KernelDescriptor.from_bytes(read_image(image, symbol.address, DESCRIPTOR_BYTES))
    entry = symbol.address + descriptor.entry_offset
    read_image(image, entry, 4, executable=True)
    if entry % CODE_ALIGNMENT:
        raise CodeObjectError(f"the entry of kernel {quoted(row['.name'])} is at {entry:#x}, not at a multiple of {CODE_ALIGNMENT}")
    agprs = max(0, descriptor.vgprs - descriptor.accum_offset)
    resources = Resources(
        vgpr_count=metadata.number(row, ".vgpr_count", descriptor.vgprs),
        agpr_count=metadata.number(row, ".agpr_count", agprs if bare else 0),
        sgpr_count=metadata.number(row, ".sgpr_count", descriptor.sgprs),
        lds=metadata.number(row, ".group_segment_fixed_size", descriptor.group_segment_fixed_size),
        scratch=metadata.number(row, ".private_segment_fixed_size", descriptor.private_segment_fixed_size),
        kernarg_size=metadata.number(row, ".kernarg_segment_size", descriptor.kernarg_size),
        kernarg_align=metadata.number(row, ".kernarg_segment_align", 8),
        max_flat_workgroup_size=metadata.number(row, ".max_flat_workgroup_size", MOST_WORK_ITEMS),
        vgpr_spills=metadata.number(row, ".vgpr_spill_count", 0),
        sgpr_spills=metadata.number(row, ".sgpr_spill_count", 0),
        wavefront_size=metadata.number(row, ".wavefront_size", 64),
        uses_dynamic_stack=bool(row.get(".uses_dynamic_stack", descriptor.uses_dynamic_stack)),
    )
    if resources.kernarg_size > metadata.MOST_ARGUMENT_BYTES:
        raise CodeObjectError(f"kernel {quoted(row['.name'])} has {resources.kernarg_size} bytes of arguments, and "
                              f"{metadata.MOST_ARGUMENT_BYTES} are the most")
    arguments = metadata.argument_rows(row)
    raw = {} if bare else row
    return KernelRecord(row[".name"], row[".symbol"], descriptor, symbol.address, entry, 0, arguments, raw, resources)


def _with_code_sizes(found: dict[str, KernelRecord], symbols: Mapping[str, ElfSymbol],
                     image: tuple[LoadSegment, ...]) -> dict[str, KernelRecord]:
    """Fills in code sizes: the entry symbol's, or, where hand-written code has none, up to the next function or the segment's end."""
    sizes = {symbol.address: symbol.size for symbol in symbols.values() if symbol.kind == "func"}
    starts = sorted({kernel.entry for kernel in found.values()} | set(sizes))
    sized = {}
    for name, kernel in found.items():
        end = next(
            part.vaddr + len(part.data) for part in image if part.executable and part.vaddr <= kernel.entry < part.vaddr + len(part.data)
        )
        size = sizes.get(kernel.entry, 0)
        if not 0 < size <= end - kernel.entry:
            following = bisect_right(starts, kernel.entry)
            size = (min(starts[following], end) if following < len(starts) else end) - kernel.entry
        sized[name] = replace(kernel, code_size=size)
    return sized
