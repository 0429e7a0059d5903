"""Running a launch specification: its buffers are uploaded, its arguments packed, its kernel launched, its results saved."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from asmgen.codeobject.arguments import ArgumentError, Piece, assemble, hidden_values, is_hidden
from asmgen.codeobject.load import CodeObject, KernelRecord
from asmgen.emulator.machine.errors import EmulatorError
from asmgen.emulator.scheduling.firstloads import MOST_WAVES, FirstLoads
from asmgen.emulator.scheduling.run import LaunchResult, Options
from asmgen.emulator.scheduling.trace import TracedArgument
from asmgen.isa.arch import LANES
from asmgen.isa.quote import shown
from asmgen.launch.buffers import BufferShape, buffer_shapes, chunks, read_buffer, write_header
from asmgen.launch.device import Buffer, Device
from asmgen.launch.emulated import EmulatedDevice
from asmgen.launch.hip import choose_device
from asmgen.launch.memorylimit import MEMORY_LIMIT
from asmgen.launch.saves import Save, check_saves, write_all
from asmgen.launch.spec import POINTER_BYTES, AliasArgument, BufferArgument, LaunchSpec, SolvedProblem, SpecError, ValueArgument, read_spec


@dataclass(frozen=True)
class SpecRun:
    """A launch that has saved its results. `result` is the emulator's, None on a GPU; `seconds` is the time of the launch alone."""

    kernel: str
    arch: str
    device: str
    seconds: float
    saved: tuple[str, ...]
    result: LaunchResult | None


@dataclass(frozen=True)
class TracedLaunch:
    """A launch that saved nothing: the kernel, its architecture, how many workgroups its grid has, what came of it, and where its buffers
    were, and the problem that it solves, where the specification says it."""

    kernel: str
    arch: str
    workgroups: int
    result: LaunchResult
    arguments: tuple[TracedArgument, ...]
    problem: SolvedProblem | None


def run_launch_spec(path: Path, device: str = "auto", options: Options | None = None,
                    say: Callable[[str], None] = lambda sentence: None, memory_limit: int = MEMORY_LIMIT) -> SpecRun:
    """Launch what a specification says, on "auto", "hip" or "emulator". Save everything that it asks for, or nothing.

    `options` are further settings of the emulator; order and checks come from the specification. `memory_limit` bounds the bytes of all
    buffers together. Raises AsmgenError where the request is wrong.
    """
    spec = read_spec(path)
    code_object = CodeObject.load(spec.code_object, spec.arch)
    kernel = code_object.kernel(spec.kernel)
    check_saves(spec, path)
    shapes = buffer_shapes(spec, memory_limit)
    settings = replace(options or Options(), checks=spec.checks, order=spec.order)
    chosen = choose_device(device, code_object.arch, lambda: EmulatedDevice(code_object.arch, settings, keep_errors=True))
    say(chosen.sentence)
    with chosen.device as opened:
        held = _uploaded(opened, spec, shapes)
        if isinstance(opened, EmulatedDevice):
            opened.unread(owner for argument, owner in zip(spec.args, held, strict=True)
                          if owner is not None and isinstance(argument, BufferArgument) and argument.save is None)
        kernarg = _kernarg(spec, kernel, held)
        loaded = opened.load(code_object).kernel(kernel.name)
        began = time.perf_counter()
        opened.launch(loaded, spec.grid, spec.block, kernarg, spec.dynamic_lds)
        opened.synchronize()
        seconds = time.perf_counter() - began
        saves = [Save(argument.save, _writer(opened, argument.save, shape, buffer))
                 for argument, shape, buffer in zip(spec.args, shapes, held, strict=True)
                 if isinstance(argument, BufferArgument) and argument.save is not None and shape is not None and buffer is not None]
        saved = tuple(write_all(saves, spec.origin))
        result = opened.launches[-1] if isinstance(opened, EmulatedDevice) else None
        return SpecRun(kernel.name, code_object.arch, opened.name, seconds, saved, result)


def trace_launch_spec(path: Path, options: Options, memory_limit: int = MEMORY_LIMIT, first: FirstLoads | None = None) -> TracedLaunch:
    """Run what a specification says on the emulator for what `options` note, and save nothing. Raises AsmgenError as a launch does.

    `first` is filled too: with as many workgroups as do not take long; with none where the emulator cannot run those.
    """
    spec = read_spec(path)
    spec = replace(spec, args=tuple(replace(argument, save=None) if isinstance(argument, BufferArgument) else argument
                                    for argument in spec.args))
    code_object = CodeObject.load(spec.code_object, spec.arch)
    kernel = code_object.kernel(spec.kernel)
    shapes = buffer_shapes(spec, memory_limit)
    total = math.prod(spec.grid)
    with EmulatedDevice(code_object.arch, options, keep_errors=True) as device:
        held = _uploaded(device, spec, shapes)
        kernarg, loaded = _kernarg(spec, kernel, held), device.load(code_object).kernel(kernel.name)
        device.launch(loaded, spec.grid, spec.block, kernarg, spec.dynamic_lds)
        if first is not None:
            first.workgroups = max(1, min(total, MOST_WAVES // -(-math.prod(spec.block) // LANES)))
            device.options = replace(options, trace=first)
            try:
                device.launch(loaded, spec.grid, spec.block, kernarg, spec.dynamic_lds)
            except EmulatorError:  # what others have not computed may lead a workgroup anywhere
                first.lines.clear()
        result = device.launches[0]
    arguments = tuple(TracedArgument(f"argument {number}", buffer.address, buffer.nbytes)
                      for number, buffer in enumerate(held) if buffer is not None)
    return TracedLaunch(kernel.name, code_object.arch, total, result, arguments, spec.problem)


def _uploaded(device: Device, spec: LaunchSpec, shapes: Sequence[BufferShape | None]) -> list[Buffer | None]:
    """The buffer of each argument on the device, None for an argument without one."""
    return [_upload(device, spec, argument, shape) if isinstance(argument, BufferArgument) and shape is not None else None
            for argument, shape in zip(spec.args, shapes, strict=True)]


def _upload(device: Device, spec: LaunchSpec, argument: BufferArgument, shape: BufferShape) -> Buffer:
    try:
        if argument.source is not None:
            return device.upload(read_buffer(spec, argument.source, shape))
        if isinstance(device, EmulatedDevice):
            return device.allocate(shape.nbytes)  # is zeros already
        return device.upload(np.zeros(shape.shape, shape.dtype))
    except (MemoryError, OverflowError):
        size = shown(argument.source or f"{argument.zeros} bytes of zeros")
        raise SpecError(f"{spec.origin}: {size} do not fit into memory") from None


def _kernarg(spec: LaunchSpec, kernel: KernelRecord, held: Sequence[Buffer | None]) -> bytes:
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


def _writer(device: Device, target: Path, shape: BufferShape, buffer: Buffer) -> Callable[[BinaryIO], None]:
    """Writes a buffer: to a .npy with the input's shape and type, to anything else as raw bytes."""

    def write(file: BinaryIO) -> None:
        if target.suffix == ".npy":
            write_header(file, shape)
        for offset, nbytes in chunks(buffer.nbytes):
            file.write(device.read(buffer, np.uint8, nbytes, offset).data)

    return write
