"""Running a launch specification: its buffers are uploaded, its arguments packed, its kernel launched, its results saved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from asmgen.codeobject.arguments import ArgumentError, Piece, assemble, hidden_values, is_hidden
from asmgen.codeobject.load import CodeObject, KernelRecord
from asmgen.emulator.scheduling.run import LaunchResult, Options
from asmgen.isa.quote import shown
from asmgen.launch.buffers import BufferShape, buffer_shapes, chunks, read_buffer, write_header
from asmgen.launch.device import Buffer, Device
from asmgen.launch.emulated import EmulatedDevice
from asmgen.launch.memorylimit import MEMORY_LIMIT
from asmgen.launch.spec import POINTER_BYTES, AliasArgument, BufferArgument, LaunchSpec, SpecError, ValueArgument, read_spec


@dataclass(frozen=True)
class TracedLaunch:
    """A launch that saved nothing: the kernel, its architecture, how many workgroups its grid has, and what came of it."""

    kernel: str
    arch: str
    workgroups: int
    result: LaunchResult
    buffer_bytes: int


def trace_launch_spec(path: Path, options: Options, memory_limit: int = MEMORY_LIMIT) -> TracedLaunch:
    """Run what a specification says on the emulator for what `options` note, and save nothing. Raises AsmgenError as a launch does."""
    spec = read_spec(path)
    spec = replace(spec, args=tuple(replace(argument, save=None) if isinstance(argument, BufferArgument) else argument
                                    for argument in spec.args))
    code_object = CodeObject.load(spec.code_object, spec.arch)
    kernel = code_object.kernel(spec.kernel)
    shapes = buffer_shapes(spec, memory_limit)
    with EmulatedDevice(code_object.arch, options, keep_errors=True) as device:
        held = [upload(device, spec, argument, shape) if isinstance(argument, BufferArgument) and shape is not None else None
                for argument, shape in zip(spec.args, shapes, strict=True)]
        device.launch(device.load(code_object).kernel(kernel.name), spec.grid, spec.block, kernarg_of(spec, kernel, held), spec.dynamic_lds)
        result = device.launches[-1]
    x, y, z = spec.grid
    buffer_bytes = sum(shape.nbytes for shape in shapes if shape is not None)
    return TracedLaunch(kernel.name, code_object.arch, x * y * z, result, buffer_bytes)


def upload(device: Device, spec: LaunchSpec, argument: BufferArgument, shape: BufferShape) -> Buffer:
    try:
        if argument.source is not None:
            return device.upload(read_buffer(spec, argument.source, shape))
        if isinstance(device, EmulatedDevice):
            return device.allocate(shape.nbytes)  # is zeros already
        return device.upload(np.zeros(shape.shape, shape.dtype))
    except (MemoryError, OverflowError):
        size = shown(argument.source or f"{argument.zeros} bytes of zeros")
        raise SpecError(f"{spec.origin}: {size} do not fit into memory") from None


def kernarg_of(spec: LaunchSpec, kernel: KernelRecord, held: Sequence[Buffer | None]) -> bytes:
    """The kernarg segment: the specification's arguments, and the hidden ones that the code object's table lists."""
    pieces = []
    for number, argument in enumerate(spec.args):
        what = f"argument {number}"
        if isinstance(argument, ValueArgument):
            pieces.append(Piece(what, argument.data, argument.align, argument.offset))
            continue
        owner = held[argument.target if isinstance(argument, AliasArgument) else number]
        assert owner is not None
        distance = argument.at if isinstance(argument, AliasArgument) else 0
        if distance > owner.nbytes:
            raise SpecError(f"{spec.origin}: argument {number} points {distance} bytes into a buffer of {owner.nbytes}")
        pieces.append(Piece(what, (owner.address + distance).to_bytes(POINTER_BYTES, "little"), POINTER_BYTES, argument.offset))
    hidden = hidden_values(kernel.arguments, spec.grid, spec.block, spec.dynamic_lds)
    for row in kernel.arguments:
        if is_hidden(row):
            pieces.append(Piece(row.value_kind, (hidden[row.value_kind] & (1 << 8 * row.size) - 1).to_bytes(row.size, "little"),
                                offset=row.offset))
    try:
        segment = assemble(pieces)
    except ArgumentError as error:
        raise SpecError(f"{spec.origin}: {error.sentence}") from None
    # A hand-written kernel may say less than it reads, so more arguments than it declares are no error.
    return segment.ljust(kernel.resources.kernarg_size, b"\0")


def writer_of(device: Device, target: Path, shape: BufferShape, buffer: Buffer) -> Callable[[BinaryIO], None]:
    """Writes a buffer: to a .npy with the input's shape and type, to anything else as raw bytes."""

    def write(file: BinaryIO) -> None:
        if target.suffix == ".npy":
            write_header(file, shape)
        for offset, nbytes in chunks(buffer.nbytes):
            file.write(device.read(buffer, np.uint8, nbytes, offset).data)

    return write
