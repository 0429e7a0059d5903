"""Kernel arguments as bytes: scalar types, natural alignment, argument tables of code objects, hidden arguments.

The kernarg segment is little-endian and every value stands at a multiple of its own size (HSA kernarg rules, LLVM AMDGPUUsage,
"Kernel Argument Metadata"). Three things are packed here: the arguments of a contract (names and types, natural alignment),
the argument table of a code object (names, offsets, sizes), and loose pieces with or without an offset (launch specification,
design section 7).
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import quoted
from asmgen.isa.records import dataclass

if TYPE_CHECKING:
    from typing import Protocol

    class TypedArgument(Protocol):
        """What `pack` needs of an argument: `asmgen.author.contract.contract.ContractArgument` is one."""

        @property
        def name(self) -> str: ...

        @property
        def type(self) -> str: ...

    class TableArgument(Protocol):
        """What `pack_table` and `hidden_values` need of an argument: a code object's `Argument` is one. Offset and size in bytes."""

        @property
        def offset(self) -> int: ...

        @property
        def size(self) -> int: ...

        @property
        def value_kind(self) -> str: ...

        @property
        def name(self) -> str: ...


class ArgumentError(AsmgenError):
    """A kernel argument is missing, unknown, of the wrong type, out of range or in the wrong place."""


@dataclass(frozen=True)
class ScalarType:
    """A type that a kernel argument may have: `size` in bytes, `kind` "int", "uint", "float" or "pointer"."""

    name: str
    size: int
    kind: str


def _scalar_types() -> dict[str, ScalarType]:
    rows = [ScalarType(f"{letter}{bits}", bits // 8, kind) for letter, kind in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)]
    rows += [ScalarType("f16", 2, "float"), ScalarType("bf16", 2, "float"), ScalarType("f32", 4, "float"), ScalarType("f64", 8, "float")]
    rows.append(ScalarType("pointer", 8, "pointer"))
    return {row.name: row for row in rows}


SCALAR_TYPES: Mapping[str, ScalarType] = _scalar_types()
_INTEGER_CODES = {1: "b", 2: "h", 4: "i", 8: "q"}
_FLOAT_CODES = {"f16": "<e", "f32": "<f", "f64": "<d"}


def scalar_type(name: str) -> ScalarType:
    """The row of `SCALAR_TYPES`; ArgumentError with the known names for any other."""
    try:
        return SCALAR_TYPES[name]
    except (KeyError, TypeError):
        raise ArgumentError(f"unknown argument type {quoted(name)}; known are {', '.join(SCALAR_TYPES)}") from None


def encode(type_name: str, value: Any, what: str = "the argument") -> bytes:
    """`value` as little-endian bytes of that type; `what` names the argument in the error.

    A float is rounded to nearest even; NaN and infinities pass. A finite value that would become an infinity, an integer out of range, and
    a value of another kind (a string, a fraction for an integer) are ArgumentErrors.
    """
    row = scalar_type(type_name)
    return _encode_float(row, value, what) if row.kind == "float" else _encode_integer(row, value, what)


def _encode_integer(row: ScalarType, value: Any, what: str) -> bytes:
    try:
        number = operator.index(value)
    except TypeError:
        raise ArgumentError(f"{what} is {row.name} and needs a whole number, got {quoted(value)}") from None
    signed = row.kind == "int"
    low, high = (-(1 << (8 * row.size - 1)), (1 << (8 * row.size - 1)) - 1) if signed else (0, (1 << (8 * row.size)) - 1)
    if not low <= number <= high:
        raise ArgumentError(f"{what} is {row.name} and holds {low} to {high}, got {quoted(number)}")
    return number.to_bytes(row.size, "little", signed=signed)


def _encode_float(row: ScalarType, value: Any, what: str) -> bytes:
    if isinstance(value, (str, bytes, bytearray)):
        raise ArgumentError(f"{what} is {row.name} and needs a number, got {quoted(value)}")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"{what} is {row.name} and needs a number, got {quoted(value)}") from None
    except OverflowError:
        raise ArgumentError(f"{what} is {row.name}, and the whole number given is larger than any float") from None
    try:
        return _bf16_bytes(number) if row.name == "bf16" else struct.pack(_FLOAT_CODES[row.name], number)
    except OverflowError:
        raise ArgumentError(f"{what} is {row.name}, and {quoted(value)} is larger than its largest finite number") from None


def _bf16_bytes(number: float) -> bytes:
    """Two bytes, one rounding; OverflowError where a finite number would become an infinity."""
    import ml_dtypes
    import numpy

    # ml_dtypes rounds a double to float32 first, and two roundings can differ from one. Rounding to odd first makes the second exact.
    bits = int.from_bytes(struct.pack("<f", number), "little")
    rounded = struct.unpack("<f", bits.to_bytes(4, "little"))[0]
    if math.isfinite(number) and rounded != number:
        bits = (bits - 1 if abs(rounded) > abs(number) else bits) | 1
    result = numpy.array([bits], numpy.uint32).view(numpy.float32).astype(ml_dtypes.bfloat16)
    if math.isfinite(number) and not math.isfinite(float(result[0])):
        raise OverflowError
    return bytes(result.tobytes())


@dataclass(frozen=True)
class Piece:
    """One value of the kernarg segment. Without `offset` (bytes) it stands at the next multiple of `align` after the piece before it."""

    what: str
    data: bytes
    align: int = 1
    offset: int | None = None


def assemble(pieces: Iterable[Piece], size: int | None = None) -> bytes:
    """The pieces as one segment, gaps zero; `size` bytes, or up to the end of the last piece where it is None.

    Raises ArgumentError where two pieces overlap, or a piece begins below 0 or ends after `size`.
    """
    placed: list[tuple[int, Piece]] = []
    end = 0
    for piece in pieces:
        start = -(-end // piece.align) * piece.align if piece.offset is None else piece.offset
        if start < 0:
            raise ArgumentError(f"{piece.what} stands at offset {start}; offsets begin at 0")
        end = start + len(piece.data)
        if size is not None and end > size:
            raise ArgumentError(f"{piece.what} takes bytes {start} to {end - 1}, but the kernel's arguments end at {size}")
        placed.append((start, piece))
    segment = bytearray(max((start + len(piece.data) for start, piece in placed), default=0) if size is None else size)
    before: tuple[int, Piece] | None = None
    for start, piece in sorted((pair for pair in placed if pair[1].data), key=lambda pair: pair[0]):
        if before is not None and start < before[0] + len(before[1].data):
            first = f"{before[1].what} (offset {before[0]}, {len(before[1].data)} bytes)"
            raise ArgumentError(f"{first} and {piece.what} (offset {start}) overlap")
        segment[start : start + len(piece.data)] = piece.data
        before = (start, piece)
    return bytes(segment)


def natural_offsets(type_names: Iterable[str]) -> tuple[int, ...]:
    """Byte offset of each of these types in order, every one at the next multiple of its size."""
    offsets = []
    end = 0
    for name in type_names:
        size = scalar_type(name).size
        offsets.append(-(-end // size) * size)
        end = offsets[-1] + size
    return tuple(offsets)


def pack(arguments: Sequence[TypedArgument], values: Mapping[str, Any], size: int | None = None) -> bytes:
    """The explicit arguments in order at natural alignment, values by name; padded with zeros to `size` bytes if given.

    A pointer is its address, an int. Raises ArgumentError for a missing or unknown name and for what `encode` and `assemble` refuse.
    """
    _check_names("the kernel", [argument.name for argument in arguments], values)
    pieces = []
    for argument in arguments:
        what = f"argument {argument.name}"
        pieces.append(Piece(what, encode(argument.type, values[argument.name], what), scalar_type(argument.type).size))
    return assemble(pieces, size)


@dataclass(frozen=True)
class Typed:
    """A value that says its own type, for argument tables, which know sizes only: `Typed("f32", 1.0)`."""

    type: str
    value: Any


def pack_table(arguments: Sequence[TableArgument], values: Mapping[str, Any], size: int, hidden: Mapping[str, int] | None = None) -> bytes:
    """The kernarg segment of `size` bytes for a code object's argument table.

    `values` by argument name; an argument without a name goes by its position among the explicit ones ("0", "1", ...). A value is
    `Typed`, raw bytes of the argument's size, or an int (signed or unsigned, as fits; a pointer is its address). `hidden` by value kind,
    from `hidden_values`; a hidden argument that it does not list is 0. Raises ArgumentError for missing and unknown names, sizes that
    differ, values out of range.
    """
    explicit = [argument for argument in arguments if not is_hidden(argument)]
    named = [(argument.name or str(position), argument) for position, argument in enumerate(explicit)]
    _check_names("the kernel", [name for name, _ in named], values)
    pieces = []
    for name, argument in named:
        what = f"argument {name}"
        pieces.append(Piece(what, _table_bytes(argument, values[name], what), offset=argument.offset))
    for argument in arguments:
        if is_hidden(argument):
            value = (hidden or {}).get(argument.value_kind, 0)
            pieces.append(Piece(argument.value_kind, _table_bytes(argument, value, argument.value_kind), offset=argument.offset))
    return assemble(pieces, size)


def _table_bytes(argument: TableArgument, value: Any, what: str) -> bytes:
    if isinstance(value, Typed):
        data = encode(value.type, value.value, what)
        described = f"{value.type} has {len(data)}"
    elif isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
        described = f"{len(data)} were given"
    else:
        if isinstance(value, float):
            raise ArgumentError(f"{what} has {argument.size} bytes but no type in the code object; {quoted(value)} needs one, "
                                "f32 for example")
        return _sized_integer(argument.size, value, what)
    if len(data) != argument.size:
        raise ArgumentError(f"{what} has {argument.size} bytes in the code object, but {described}")
    return data


def _sized_integer(size: int, value: Any, what: str) -> bytes:
    try:
        number = operator.index(value)
    except TypeError:
        raise ArgumentError(f"{what} needs a whole number, bytes or a typed value, got {quoted(value)}") from None
    if size not in _INTEGER_CODES:
        raise ArgumentError(f"{what} has {size} bytes and cannot hold a whole number; give its {size} bytes")
    low, high = -(1 << (8 * size - 1)), (1 << (8 * size)) - 1
    if not low <= number <= high:
        raise ArgumentError(f"{what} has {size} bytes and holds {low} to {high}, got {quoted(number)}")
    return (number & high).to_bytes(size, "little")


def _check_names(owner: str, names: Sequence[str], values: Mapping[str, Any]) -> None:
    missing = [name for name in names if name not in values]
    if missing:
        raise ArgumentError(f"{owner} needs a value for {', '.join(missing)}")
    unknown = [name for name in values if name not in names]
    if unknown:
        raise ArgumentError(f"{owner} has no argument {', '.join(map(repr, unknown))}; it takes {', '.join(names) or 'none'}")


def is_hidden(argument: TableArgument) -> bool:
    """Whether the runtime fills the argument, not the caller."""
    return argument.value_kind.startswith("hidden_")


def hidden_values(
    arguments: Sequence[TableArgument], grid: tuple[int, int, int], block: tuple[int, int, int], dynamic_lds: int = 0
) -> dict[str, int]:
    """The value of each hidden argument that the table lists, by value kind.

    `grid` in workgroups, `block` in work-items, `dynamic_lds` in bytes. Source: LLVM AMDGPUUsage, code object v5 kernel argument
    metadata, with the values of a HIP launch. A HIP grid counts whole workgroups, so the remainders are 0. Its dimensionality is always
    3, whatever the sizes, since HIP dispatches every kernel as three-dimensional. HIP has no global offset. All other hidden arguments
    (printf and hostcall buffers, heap, queues, the aperture bases that only GFX8 reads, multigrid synchronization, kinds that later code
    objects may add) name services that asmgen does not offer; 0 says so.
    """
    known = {"hidden_grid_dims": 3, "hidden_dynamic_lds_size": dynamic_lds}
    for axis, count, size in zip("xyz", grid, block, strict=True):
        known[f"hidden_block_count_{axis}"] = count
        known[f"hidden_group_size_{axis}"] = size
        known[f"hidden_remainder_{axis}"] = 0
        known[f"hidden_global_offset_{axis}"] = 0
    return {argument.value_kind: known.get(argument.value_kind, 0) for argument in arguments if is_hidden(argument)}
