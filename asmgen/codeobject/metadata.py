"""The metadata of kernels: the argument table, the msgpack note of a code object, and the YAML that makes clang write one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from asmgen.codeobject.arguments import SCALAR_TYPES
from asmgen.codeobject.descriptor import CodeObjectError
from asmgen.isa.quote import quoted
from asmgen.isa.records import dataclass

NOTE_OWNER = b"AMDGPU"
MOST_ARGUMENT_BYTES = 1 << 24
"""Of a kernel's argument segment; HIP allows a few thousand."""
NOTE_TYPE = 32  # NT_AMDGPU_METADATA

# Hidden arguments that a runtime fills in, by value_kind: bytes (seen in clang 22's output for code object v5 and v6).
HIDDEN_SIZES: dict[str, int] = {
    **{f"hidden_block_count_{axis}": 4 for axis in "xyz"},
    **{f"hidden_group_size_{axis}": 2 for axis in "xyz"},
    **{f"hidden_remainder_{axis}": 2 for axis in "xyz"},
    **{f"hidden_global_offset_{axis}": 8 for axis in "xyz"},
    "hidden_grid_dims": 2,
    "hidden_dynamic_lds_size": 4,
}


@dataclass(frozen=True)
class Argument:
    """One row of a kernel's argument table; offset and size in bytes from the kernel argument segment's start."""

    offset: int
    size: int
    value_kind: str  # "global_buffer", "by_value", "hidden_...", or any kind of foreign metadata
    name: str = ""
    address_space: str = ""

    @property
    def hidden(self) -> bool:
        """Whether the runtime, not the caller, fills it in."""
        return self.value_kind.startswith("hidden_")


def arguments(pairs: Iterable[tuple[str, str]]) -> tuple[Argument, ...]:
    """The argument table of (name, type) pairs in order, each at its natural alignment.

    A type is one of `arguments.SCALAR_TYPES` ("pointer", "i32", "bf16", ...) or a hidden kind ("hidden_block_count_x", whose
    name may be ""). Raises CodeObjectError for an unknown type.
    """
    table = []
    offset = 0
    for name, kind in pairs:
        size = HIDDEN_SIZES.get(kind) or (SCALAR_TYPES[kind].size if kind in SCALAR_TYPES else 0)
        if not size:
            known = ", ".join([*SCALAR_TYPES, *HIDDEN_SIZES])
            raise CodeObjectError(f"argument {quoted(name)} has the unknown type {quoted(kind)}; known are {known}")
        offset = -(-offset // size) * size
        if kind == "pointer":
            table.append(Argument(offset, size, "global_buffer", name, "global"))
        else:
            table.append(Argument(offset, size, kind if kind in HIDDEN_SIZES else "by_value", name))
        offset += size
    return tuple(table)


def arguments_end(table: Iterable[Argument]) -> int:
    """Bytes of the kernel argument segment: the end of the last argument."""
    return max((argument.offset + argument.size for argument in table), default=0)


def decode(note: bytes) -> dict[str, Any]:
    """The mapping in a metadata note; raises CodeObjectError where it is no msgpack mapping."""
    import msgpack  # here, because building a kernel imports this file and reads no metadata

    try:
        root = msgpack.unpackb(note, raw=False, strict_map_key=False)
    except Exception as error:  # msgpack documents no closed list of what bad bytes raise
        raise CodeObjectError(f"its metadata note is not valid msgpack ({type(error).__name__})") from error
    if not isinstance(root, dict):
        raise CodeObjectError("its metadata note is no mapping")
    return root


def find_note(data: bytes) -> bytes | None:
    """The AMDGPU metadata among the ELF notes in `data` (a PT_NOTE segment or note section), None where there is none.

    Raises CodeObjectError for a note that does not fit.
    """
    at = 0
    while at + 12 <= len(data):
        name_size, size, kind = (int.from_bytes(data[at + step : at + step + 4], "little") for step in (0, 4, 8))
        start = at + 12 + (name_size + 3) // 4 * 4
        if start + size > len(data):
            raise CodeObjectError("a note in it reaches beyond its section")
        if kind == NOTE_TYPE and data[at + 12 : at + 12 + name_size].rstrip(b"\0") == NOTE_OWNER:
            return data[start : start + size]
        at = start + (size + 3) // 4 * 4
    return None


def kernel_rows(root: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The kernels of decoded metadata, each a mapping with the strings .name and .symbol; raises CodeObjectError for other shapes."""
    rows = root.get("amdhsa.kernels", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise CodeObjectError("amdhsa.kernels in its metadata is no list of mappings")
    for row in rows:
        for key in (".name", ".symbol"):
            name = row.get(key)
            if not isinstance(name, str) or not name.isprintable() or not name:
                raise CodeObjectError(f"a kernel in its metadata has no printable text for {key}")
    return rows


def number(row: Mapping[str, Any], key: str, default: int) -> int:
    """The unsigned 32-bit number at `key`, `default` where it is absent; raises CodeObjectError for anything else there."""
    value = row.get(key, default)
    if type(value) is not int or not 0 <= value < 1 << 32:
        raise CodeObjectError(f"{key} in its metadata is {quoted(value)}, not a number of 32 bits")
    return value


def argument_rows(row: Mapping[str, Any]) -> tuple[Argument, ...]:
    """The argument table of one kernel's metadata; raises CodeObjectError for a malformed one."""
    entries = row.get(".args", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise CodeObjectError(".args in its metadata is no list of mappings")
    table = []
    for entry in entries:
        texts = {key: entry.get(key, "") for key in (".value_kind", ".name", ".address_space")}
        for key, text in texts.items():
            if not isinstance(text, str):
                raise CodeObjectError(f"{key} of an argument in its metadata is {quoted(text)}, not text")
        if ".offset" not in entry or ".size" not in entry or not texts[".value_kind"]:
            raise CodeObjectError("an argument in its metadata lacks .offset, .size or .value_kind")
        location = number(entry, ".offset", 0), number(entry, ".size", 0)
        if sum(location) > MOST_ARGUMENT_BYTES:
            raise CodeObjectError(f"an argument in its metadata ends at byte {sum(location)}, and {MOST_ARGUMENT_BYTES} are the most")
        table.append(Argument(*location, texts[".value_kind"], texts[".name"], texts[".address_space"]))
    return tuple(table)


def yaml(target: str, kernels: Iterable[Mapping[str, Any]]) -> str:
    """The .amdgpu_metadata block for kernels given as their metadata mappings (docs/facts/instructions.md section 6), in their order.

    Raises nothing: emit has checked the names.
    """
    lines = ["\t.amdgpu_metadata", "---", "amdhsa.kernels:"]
    for kernel in kernels:
        lines += _mapping(kernel, "  - ", "    ")
    lines += [f"amdhsa.target: {_scalar(target)}", "amdhsa.version:", "  - 1", "  - 2", "...", "\t.end_amdgpu_metadata"]
    return "\n".join(lines) + "\n"


def _mapping(entries: Mapping[str, Any], first: str, rest: str) -> list[str]:
    lines: list[str] = []
    for key, value in entries.items():
        prefix = rest if lines else first
        if isinstance(value, (list, tuple)) and value:
            lines.append(f"{prefix}{key}:")
            for item in value:
                if isinstance(item, Mapping):
                    lines += _mapping(item, rest + "  - ", rest + "    ")
                else:
                    lines.append(f"{rest}  - {_scalar(item)}")
        else:
            lines.append(f"{prefix}{key}: {'[]' if isinstance(value, (list, tuple)) else _scalar(value)}")
    return lines


def _scalar(value: str | bool | int) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    # Quotes alone do not stop LLVM from reading a number or a truth value, and from refusing it as a name; its own tag does.
    tagged = not value[:1].isalpha() or value.lower() in ("true", "false", "null", "nan", "inf")
    return f"!str '{value}'" if tagged else f"'{value}'"
