"""The ELF tables of a code object: headers, loadable segments, symbols and relocations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any, NamedTuple

from asmgen.codeobject.descriptor import CodeObjectError

ELF_MAGIC = b"\x7fELF"
_ELF_HEADER = Struct("<4sBBBBB7xHHIQQQIHHHHHH")
_PROGRAM_HEADER = Struct("<IIQQQQQQ")
_SECTION_HEADER = Struct("<IIQQQQIIQQ")
_SYMBOL = Struct("<IBBHQQ")
_RELA = Struct("<QQq")
_SHN_UNDEF, _SHN_ABS = 0, 0xFFF1
_SYMBOL_KINDS = {0: "notype", 1: "object", 2: "func", 3: "section", 4: "file", 5: "common", 6: "tls"}
EM_AMDGPU, _EM_X86_64, _EM_AARCH64 = 224, 62, 183
_PT_LOAD, PT_NOTE = 1, 4
_SHT_RELA, SHT_NOTE = 4, 7
_SYMBOL_TABLES = (2, 11)  # SHT_SYMTAB, SHT_DYNSYM
_MAX_ZERO_BYTES = 1 << 28  # of the image that are not in the file
_MAX_ADDRESS = 1 << 48
_FAT_SECTION = b".hip_fatbin"

# Source: the relocation table of LLVM's AMDGPU usage guide.
_RELOCATIONS = {
    0: "NONE", 1: "ABS32_LO", 2: "ABS32_HI", 3: "ABS64", 4: "REL32", 5: "REL64", 6: "ABS32", 7: "GOTPCREL", 8: "GOTPCREL32_LO",
    9: "GOTPCREL32_HI", 10: "REL32_LO", 11: "REL32_HI", 13: "RELATIVE64", 14: "REL16",
}  # fmt: skip


class LoadSegment(NamedTuple):
    """One PT_LOAD: where it stands, its bytes (zero-filled to its size in memory), and what may be done with it."""

    vaddr: int
    data: bytes
    writable: bool
    executable: bool


@dataclass(frozen=True)
class Relocation:
    """A place that the loader must fill: `kind` as "R_AMDGPU_ABS64"; `symbol` "" and `value` 0 for a relative one.

    `value` is the symbol's address in the image, None where it is not defined there.
    """

    offset: int
    kind: str
    symbol: str
    value: int | None
    addend: int


@dataclass(frozen=True)
class ElfSymbol:
    """A symbol with an address in the image; `kind` is "func", "object", "notype", "common", "tls" or, as "type13", a number."""

    name: str
    address: int
    size: int
    kind: str
    is_global: bool


class ElfSegment(NamedTuple):
    """A program header; read here, as pyelftools takes milliseconds for the tables of each of thousands of files."""

    kind: int
    flags: int
    offset: int
    vaddr: int
    paddr: int
    file_size: int
    size: int
    align: int


class ElfSection(NamedTuple):
    """A section header."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int


def read_headers(data: bytes) -> tuple[list[ElfSegment], list[ElfSection]]:
    """Of an ELF file whose tables lie in it."""
    *_, programs, sections, _, _, _, program_count, _, section_count, _ = _ELF_HEADER.unpack_from(data)
    ends = programs + program_count * _PROGRAM_HEADER.size, sections + section_count * _SECTION_HEADER.size
    return ([ElfSegment._make(row) for row in _PROGRAM_HEADER.iter_unpack(data[programs:ends[0]])],
            [ElfSection._make(row) for row in _SECTION_HEADER.iter_unpack(data[sections:ends[1]])])


def check_header(data: bytes) -> tuple[Any, ...]:
    """The ELF header's fields, once its tables are known to lie in the file (else counts of 2^60 would be walked)."""
    if not data:
        raise CodeObjectError("an empty file is no code object")
    if not data.startswith(ELF_MAGIC):
        raise CodeObjectError("neither an ELF file nor an offload bundle, so no code object")
    if len(data) < _ELF_HEADER.size:
        raise CodeObjectError("cut off in its ELF header")
    header = _ELF_HEADER.unpack_from(data)
    _, elf_class, order, *_, program_offset, section_offset, _, _, ph_size, ph_count, sh_size, sh_count, _ = header
    if (elf_class, order) != (2, 1):
        raise CodeObjectError("not a 64-bit little-endian ELF file, so no code object")
    for what, offset, count, size, expected in (
        ("program", program_offset, ph_count, ph_size, _PROGRAM_HEADER.size),
        ("section", section_offset, sh_count, sh_size, _SECTION_HEADER.size),
    ):
        if count and (size != expected or offset + count * size > len(data)):
            raise CodeObjectError(f"its {what} headers do not fit: cut off or damaged")
    if section_offset and not sh_count:
        raise CodeObjectError("it has section headers but a count of 0: damaged, or more than 65279 sections")
    return header


def fat_section(data: bytes) -> bytes | None:
    """The .hip_fatbin of a host's ELF file, None for a GPU's."""
    header = check_header(data)
    machine = header[7]
    if machine == EM_AMDGPU:
        return None
    _, sections = read_headers(data)
    section = _named(sections, header[-1], data, _FAT_SECTION)
    if section is None:
        known = {_EM_X86_64: "x86-64", _EM_AARCH64: "AArch64"}.get(machine, f"number {machine}")
        raise CodeObjectError(f"an ELF file for the machine {known} without a {_FAT_SECTION.decode()} section, so no code object")
    return file_bytes(data, section.offset, section.size, "its .hip_fatbin section").lstrip(b"\0")


def _named(sections: list[ElfSection], names: int, data: bytes, name: bytes) -> ElfSection | None:
    """The first section of a name; section number `names` has them."""
    if names >= len(sections):
        return None
    table = file_bytes(data, sections[names].offset, sections[names].size, "its section names")
    return next((section for section in sections if table[section.name:section.name + len(name) + 1] == name + b"\0"), None)


def file_bytes(data: bytes, offset: int, size: int, what: str) -> bytes:
    if offset + size > len(data):
        raise CodeObjectError(f"{what} reaches beyond the end of the file")
    return data[offset : offset + size]


def load_segments(segments: list[ElfSegment], data: bytes) -> tuple[LoadSegment, ...]:
    found = []
    zeros = total = 0
    for segment in segments:
        if segment.kind != _PT_LOAD:
            continue
        vaddr, size = segment.vaddr, segment.size
        content = file_bytes(data, segment.offset, segment.file_size, "a segment of it")
        zeros += size - len(content)
        total += len(content)
        if len(content) > size or vaddr + size > _MAX_ADDRESS or zeros > _MAX_ZERO_BYTES or total > 2 * len(data):
            raise CodeObjectError("a segment of it has an impossible size or address")
        found.append(LoadSegment(vaddr, content.ljust(size, b"\0"), bool(segment.flags & 2), bool(segment.flags & 1)))
    return tuple(found)


def read_image(image: tuple[LoadSegment, ...], address: int, size: int, executable: bool = False) -> bytes:
    for segment in image:
        if segment.vaddr <= address and address + size <= segment.vaddr + len(segment.data) and segment.executable >= executable:
            return segment.data[address - segment.vaddr : address - segment.vaddr + size]
    raise CodeObjectError(f"{size} bytes at address {address:#x} are in no {'executable ' if executable else ''}segment of it")


def _rows(section: ElfSection, layout: Struct, data: bytes, what: str) -> Iterator[tuple[Any, ...]]:
    """The entries of a table section."""
    if section.entry_size != layout.size or section.size % layout.size:
        raise CodeObjectError(f"{what} is damaged")
    return layout.iter_unpack(file_bytes(data, section.offset, section.size, what))


def _linked(section: ElfSection, sections: list[ElfSection]) -> ElfSection:
    """The section that one says it belongs to."""
    if section.link >= len(sections):
        raise CodeObjectError(f"section {section.link}, which a table of it belongs to, does not exist")
    return sections[section.link]


def _symbol_rows(table: ElfSection, sections: list[ElfSection], data: bytes) -> list[tuple[str, int, int, int, int]]:
    """(name, info, section index, address, size) of each symbol, undefined ones included."""
    strings = _linked(table, sections)
    texts = file_bytes(data, strings.offset, strings.size, "its string table")
    rows = []
    for name, info, _, index, address, size in _rows(table, _SYMBOL, data, "its symbol table"):
        end = texts.find(b"\0", name)
        if name and end < 0:
            raise CodeObjectError("a symbol's name in it reaches beyond its string table")
        rows.append((texts[name:end].decode("utf-8", "replace") if name else "", info, index, address, size))
    return rows


def read_symbols(sections: list[ElfSection], data: bytes) -> dict[str, ElfSymbol]:
    """Named symbols with a place in the image; where several have one name, a global one wins, then the first.

    Absolute ones are left out: clang's are register counts, not addresses.
    """
    found: dict[str, ElfSymbol] = {}
    for table in sections:
        if table.kind not in _SYMBOL_TABLES:
            continue
        for name, info, index, address, size in _symbol_rows(table, sections, data):
            kind, is_global = _SYMBOL_KINDS.get(info & 15, f"type{info & 15}"), info >> 4 in (1, 2)
            if not name or index in (_SHN_UNDEF, _SHN_ABS) or kind in ("section", "file"):
                continue
            if name not in found or (is_global and not found[name].is_global):
                found[name] = ElfSymbol(name, address, size, kind, is_global)
    return found


def read_relocations(sections: list[ElfSection], data: bytes) -> tuple[Relocation, ...]:
    found = []
    for section in sections:
        if section.kind != _SHT_RELA or not section.flags & 2:  # SHF_ALLOC: those for the loader
            continue
        table = _linked(section, sections)
        symbols = _symbol_rows(table, sections, data) if table.kind in _SYMBOL_TABLES else []
        for offset, info, addend in _rows(section, _RELA, data, "its relocation table"):
            kind, index = info & 0xFFFFFFFF, info >> 32
            if kind not in _RELOCATIONS or index and index >= len(symbols):
                raise CodeObjectError(f"it has a relocation of kind {kind} for symbol {index}, one of which does not exist")
            name, _, location, address, _ = symbols[index] if index else ("", 0, 0, 0, 0)
            value = None if index and location == _SHN_UNDEF else address
            found.append(Relocation(offset, f"R_AMDGPU_{_RELOCATIONS[kind]}", name, value, addend))
    return tuple(found)
