"""The bytes that a launch specification's pointers point to: how many there are, known before any is allocated, and their files."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from asmgen.files import FileError, plain_size
from asmgen.isa.quote import shown
from asmgen.launch.memorylimit import MEMORY_LIMIT, check_total
from asmgen.launch.spec import BufferArgument, LaunchSpec, SpecError

_HEADER_BYTES = 10_000  # of a .npy's header: numpy's own limit
_CHUNK_BYTES = 16 << 20


@dataclass(frozen=True)
class BufferShape:
    """What a buffer holds: `shape` elements of `dtype`, a plain file's and zeros' as bytes. `is_array` where it comes from a .npy."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_array: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return math.prod(self.shape) * self.dtype.itemsize


def buffer_shapes(spec: LaunchSpec, limit: int = MEMORY_LIMIT) -> dict[tuple[int, int], BufferShape]:
    """What the buffer of each argument that has one holds, by the numbers of its launch and of itself. Nothing but the headers of .npy
    files is read.

    Raises SpecError for a file that cannot be read, and where all buffers together have more than `limit` bytes.
    """
    shapes = {(launch, number): _shape(spec, argument) for launch, number, argument in spec.buffers}
    total = sum(shape.nbytes for shape in shapes.values())
    check_total(str(spec.origin), total, limit, SpecError)
    return shapes


def _shape(spec: LaunchSpec, argument: BufferArgument) -> BufferShape:
    if argument.source is None:
        return BufferShape(np.dtype(np.uint8), (argument.zeros,))
    try:
        size = plain_size(argument.source)
    except FileError as error:
        raise SpecError(f"{spec.origin}: {error.sentence}") from None
    if argument.source.suffix != ".npy":
        return BufferShape(np.dtype(np.uint8), (size,))
    try:
        with argument.source.open("rb") as file:
            found = _header(file)
            payload = size - file.tell()
    except OSError as error:
        raise SpecError(f"{spec.origin}: {shown(argument.source)} cannot be read: {error.strerror or error}") from None
    if found is None or found.nbytes > payload:
        raise SpecError(f"{spec.origin}: {shown(argument.source)} is no .npy file that holds plain numbers, or is cut off")
    return found


def _header(file: BinaryIO) -> BufferShape | None:
    """What a .npy file says that it holds; None where it holds objects, or is none."""
    try:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
        if read is None:
            return None
        shape, _, dtype = read(file, max_header_size=_HEADER_BYTES)
    except (ValueError, EOFError, RecursionError, MemoryError, TypeError, OverflowError, SyntaxError):
        return None  # numpy evaluates the header as a Python literal and makes a type of it: it lets through what either raises
    if dtype.hasobject or not dtype.itemsize or any(not isinstance(count, int) or count < 0 for count in shape):
        return None
    return BufferShape(dtype, tuple(shape), is_array=True)


def read_buffer(spec: LaunchSpec, source: Path, shape: BufferShape) -> np.ndarray[Any, Any]:
    """The payload of a file as an array of that shape. Raises SpecError where it cannot be read."""
    try:
        found = np.load(source, allow_pickle=False) if shape.is_array else np.fromfile(source, np.uint8)
    except OSError as error:
        raise SpecError(f"{spec.origin}: {shown(source)} cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError):
        raise SpecError(f"{spec.origin}: {shown(source)} is no .npy file that holds plain numbers") from None
    if found.nbytes != shape.nbytes:
        raise SpecError(f"{spec.origin}: {shown(source)} changed while it was read")
    return np.asarray(found)


def write_header(file: BinaryIO, shape: BufferShape) -> None:
    """The beginning of a .npy file of that shape, in C order."""
    fields = {"descr": np.lib.format.dtype_to_descr(shape.dtype), "fortran_order": False, "shape": shape.shape}
    try:
        np.lib.format.write_array_header_1_0(file, fields)
    except ValueError:  # too long for version 1
        np.lib.format.write_array_header_2_0(file, fields)


def chunks(nbytes: int) -> list[tuple[int, int]]:
    """(offset, bytes) of pieces of a buffer that are saved one after the other."""
    return [(start, min(_CHUNK_BYTES, nbytes - start)) for start in range(0, nbytes, _CHUNK_BYTES)]
