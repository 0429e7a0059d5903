"""Running a launch specification: its buffers are uploaded, its arguments packed, its kernels launched, its results saved."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
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
from asmgen.launch.spec import (
    POINTER_BYTES,
    AliasArgument,
    BufferArgument,
    LaunchSpec,
    SolvedProblem,
    SpecError,
    SpecLaunch,
    ValueArgument,
    read_spec,
)

Held = Mapping[tuple[int, int], Buffer]
"""Buffers on a device by the numbers of launch and argument."""


@dataclass(frozen=True)
class SpecRun:
    """Launches that have saved their results: the kernels in order, what came of each on the emulator (nothing on a GPU); `seconds` is the
    time of the launches alone."""

    kernels: tuple[str, ...]
    arch: str
    device: str
    seconds: float
    saved: tuple[str, ...]
    results: tuple[LaunchResult, ...]


@dataclass(frozen=True)
class TracedLaunch:
    """A launch that saved nothing: the kernel, its architecture, how many workgroups its grid has, what came of it, and where its buffers
    were, and the problem that it solves, where the specification says it; `first` are the loads of as many workgroups as do not take
    long, where they were asked for, of none where the emulator cannot run those."""

    kernel: str
    arch: str
    workgroups: int
    result: LaunchResult
    arguments: tuple[TracedArgument, ...]
    problem: SolvedProblem | None
    first: FirstLoads | None = None


def run_launch_spec(path: Path, device: str = "auto", options: Options | None = None,
                    say: Callable[[str], None] = lambda sentence: None, memory_limit: int = MEMORY_LIMIT) -> SpecRun:
    """Launch what a specification says, on "auto", "hip" or "emulator". Save everything that it asks for, or nothing.

    `options` are further settings of the emulator; order and checks come from the specification. `memory_limit` bounds the bytes of all
    buffers together. Raises AsmgenError where the request is wrong.
    """
    spec = read_spec(path)
    code_object = CodeObject.load(spec.code_object, spec.arch)
    kernels = [code_object.kernel(launch.kernel) for launch in spec.launches]
    check_saves(spec, path)
    shapes = buffer_shapes(spec, memory_limit)
    settings = replace(options or Options(), checks=spec.checks, order=spec.order)
    chosen = choose_device(device, code_object.arch, lambda: EmulatedDevice(code_object.arch, settings, keep_errors=True))
    say(chosen.sentence)
    with chosen.device as opened:
        held = _uploaded(opened, spec, shapes)
        if isinstance(opened, EmulatedDevice):
            opened.unread(held[launch, number] for launch, number, argument in spec.buffers if argument.save is None)
        kernargs = [_kernarg(spec, number, kernel, held) for number, kernel in enumerate(kernels)]
        loaded = [opened.load(code_object).kernel(kernel.name) for kernel in kernels]
        began = time.perf_counter()
        for launch, kernel, kernarg in zip(spec.launches, loaded, kernargs, strict=True):
            opened.launch(kernel, launch.grid, launch.block, kernarg, launch.dynamic_lds)
        opened.synchronize()
        seconds = time.perf_counter() - began
        saves = [Save(argument.save, _writer(opened, argument.save, shapes[launch, number], held[launch, number]))
                 for launch, number, argument in spec.buffers if argument.save is not None]
        saved = tuple(write_all(saves, spec.origin))
        results = tuple(opened.launches) if isinstance(opened, EmulatedDevice) else ()
        return SpecRun(tuple(kernel.name for kernel in kernels), code_object.arch, opened.name, seconds, saved, results)


def trace_launch_spec(path: Path, options: Options | Callable[[str], Options], memory_limit: int = MEMORY_LIMIT,
                      first: Callable[[], FirstLoads] | None = None) -> tuple[TracedLaunch, ...]:
    """Run what a specification says on the emulator for what `options` note, or the options for a kernel of some name, and save nothing.
    Raises AsmgenError as a launch does.

    With `first` each launch's first loads are noted too.
    """
    spec = read_spec(path)
    code_object = CodeObject.load(spec.code_object, spec.arch)
    kernels = [code_object.kernel(launch.kernel) for launch in spec.launches]
    shapes = buffer_shapes(spec, memory_limit)
    found = []
    with EmulatedDevice(code_object.arch, Options(checks=False), keep_errors=True) as device:
        held = _uploaded(device, spec, shapes)
        module = device.load(code_object)
        for number, (launch, kernel) in enumerate(zip(spec.launches, kernels, strict=True)):
            device.options = options(kernel.name) if callable(options) else options
            kernarg, total = _kernarg(spec, number, kernel, held), math.prod(launch.grid)
            result = device.launch(module.kernel(kernel.name), launch.grid, launch.block, kernarg, launch.dynamic_lds)
            noted = first() if first is not None else None
            if noted is not None:
                noted.workgroups = max(1, min(total, MOST_WAVES // -(-math.prod(launch.block) // LANES)))
                device.options = replace(device.options, trace=noted)
                try:
                    device.launch(module.kernel(kernel.name), launch.grid, launch.block, kernarg, launch.dynamic_lds)
                except EmulatorError:  # what others have not computed may lead a workgroup anywhere
                    noted.lines.clear()
            arguments = tuple(TracedArgument(f"argument {position}", buffer.address, buffer.nbytes)
                              for position, buffer in _pointed_to(launch, number, held))
            found.append(TracedLaunch(kernel.name, code_object.arch, total, result, arguments, launch.problem, noted))
    return tuple(found)


def _pointed_to(launch: SpecLaunch, number: int, held: Held) -> list[tuple[int, Buffer]]:
    """The buffers of a launch's arguments, each once, with the number of the first argument that points into it."""
    found: dict[int, tuple[int, Buffer]] = {}
    for position, argument in enumerate(launch.args):
        if not isinstance(argument, ValueArgument):
            key = (argument.launch, argument.target) if isinstance(argument, AliasArgument) else (number, position)
            found.setdefault(held[key].address, (position, held[key]))
    return list(found.values())


def _uploaded(device: Device, spec: LaunchSpec, shapes: Mapping[tuple[int, int], BufferShape]) -> Held:
    """The buffer of each argument on the device that has one."""
    return {(launch, number): _upload(device, spec, argument, shapes[launch, number]) for launch, number, argument in spec.buffers}


def _upload(device: Device, spec: LaunchSpec, argument: BufferArgument, shape: BufferShape) -> Buffer:
    try:
        if argument.source is not None:
            return device.upload(read_buffer(spec, argument.source, shape))
        if argument.undefined:
            buffer = device.allocate(shape.nbytes)
            if isinstance(device, EmulatedDevice):
                device.undefine(buffer)
            return buffer
        if isinstance(device, EmulatedDevice):
            return device.allocate(shape.nbytes)  # is zeros already
        return device.upload(np.zeros(shape.shape, shape.dtype))
    except (MemoryError, OverflowError):
        size = shown(argument.source or f"{argument.zeros} bytes of zeros")
        raise SpecError(f"{spec.origin}: {size} do not fit into memory") from None


def _kernarg(spec: LaunchSpec, place: int, kernel: KernelRecord, held: Held) -> bytes:
    """The kernarg segment of a launch: its arguments, and the hidden ones that the code object's table lists."""
    pieces = []
    launch = spec.launches[place]
    for number, argument in enumerate(launch.args):
        what = f"argument {number}{launch.of}"
        if isinstance(argument, ValueArgument):
            pieces.append(Piece(what, argument.data, argument.align, argument.offset))
            continue
        owner = held[(argument.launch, argument.target) if isinstance(argument, AliasArgument) else (place, number)]
        distance = argument.at if isinstance(argument, AliasArgument) else 0
        if distance > owner.nbytes:
            raise SpecError(f"{spec.origin}: {what} points {distance} bytes into a buffer of {owner.nbytes}")
        pieces.append(Piece(what, (owner.address + distance).to_bytes(POINTER_BYTES, "little"), POINTER_BYTES, argument.offset))
    hidden = hidden_values(kernel.arguments, launch.grid, launch.block, launch.dynamic_lds)
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
