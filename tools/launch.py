"""`asmgen launch`: any code object on the data of a launch specification."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from asmgen.arguments import ArgumentError, Piece, assemble, hidden_values, is_hidden
from asmgen.codeobject.load import CodeObject, Kernel
from asmgen.emulator.findings import Finding
from asmgen.emulator.run import LaunchResult, Options
from asmgen.launchspec import POINTER_BYTES, AliasArgument, BufferArgument, LaunchSpec, SpecError, ValueArgument, read_spec
from asmgen.runtime.device import Buffer, Device
from asmgen.runtime.emulated import EmulatedDevice
from asmgen.runtime.hip import choose_device

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class LaunchReport:
    """What `asmgen launch` says. `wave_instructions` is None on a GPU."""

    kernel: str
    arch: str
    device: str
    wave_instructions: int | None
    seconds: float
    saved: tuple[str, ...]
    findings: tuple[Finding, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """Whether no finding is an error: exit status 0, else 1."""
        return all(finding.severity != "error" for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """The fields of design.md section 6, and those that stand beside them."""
        return {"kernel": self.kernel, "arch": self.arch, "device": self.device, "passed": self.passed,
                "wave_instructions": self.wave_instructions, "seconds": self.seconds, "saved": list(self.saved),
                "findings": [finding.as_json() for finding in self.findings]}

    def text(self) -> str:
        """The report for people, with a line for each finding."""
        count = f", {self.wave_instructions} wave instructions" if self.wave_instructions is not None else ""
        lines = [f"{self.kernel} ({self.arch}) on {self.device}: {self.seconds:.3f} s{count}"]
        lines += [f"saved {name}" for name in self.saved]
        lines += [finding.sentence() for finding in self.findings]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class _Held:
    """A buffer of the specification on the device: its bytes before, and the .npy array that they came from, if any."""

    buffer: Buffer
    array: Array


def run_launch_spec(path: Path, device: str = "auto", options: Options | None = None,
                    say: Callable[[str], None] = lambda sentence: None) -> LaunchReport:
    """Launch what a specification says, on "auto", "hip" or "emulator", and save what it asks for.

    `options` are further settings of the emulator; order and checks are the specification's. Raises AsmgenError where the request is wrong.
    """
    spec = read_spec(path)
    code_object = CodeObject.load(spec.code_object, spec.arch)
    kernel = code_object.kernel(spec.kernel)
    chosen_options = _options(spec, options or Options())
    chosen = choose_device(device, code_object.arch, lambda: EmulatedDevice(code_object.arch, chosen_options))
    say(chosen.sentence)
    with chosen.device as opened:
        held = [_upload(opened, spec, argument) if isinstance(argument, BufferArgument) else None for argument in spec.args]
        if isinstance(opened, EmulatedDevice):
            opened.unread(owner.buffer for argument, owner in zip(spec.args, held, strict=True)
                          if owner is not None and isinstance(argument, BufferArgument) and argument.save is None)
        kernarg = _kernarg(spec, kernel, held)
        loaded = opened.load(code_object).kernel(kernel.name)
        began = time.perf_counter()
        opened.launch(loaded, spec.grid, spec.block, kernarg, spec.dynamic_lds)
        opened.synchronize()
        seconds = time.perf_counter() - began
        saved = _save(opened, spec, held)
        last: LaunchResult | None = opened.launches[-1] if isinstance(opened, EmulatedDevice) else None
        return LaunchReport(kernel.name, code_object.arch, opened.name, last.wave_instructions if last is not None else None, seconds,
                            tuple(saved), last.findings if last is not None else ())


def _options(spec: LaunchSpec, options: Options) -> Options:
    return replace(options, checks=spec.checks, order=spec.order)


def _read(spec: LaunchSpec, source: Path) -> Array:
    """The payload of a .npy file as its array, any other file as bytes."""
    try:
        if source.suffix == ".npy":
            return np.load(source, allow_pickle=False)
        return np.fromfile(source, np.uint8)
    except OSError as error:
        raise SpecError(f"{spec.origin}: {source} cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError):
        raise SpecError(f"{spec.origin}: {source} is no .npy file that holds plain numbers") from None


def _upload(device: Device, spec: LaunchSpec, argument: BufferArgument) -> _Held:
    if argument.save is not None and not argument.save.parent.is_dir():
        raise SpecError(f"{spec.origin}: {argument.save} cannot be written: there is no folder {argument.save.parent}")
    try:
        array = _read(spec, argument.source) if argument.source is not None else np.zeros(argument.zeros, np.uint8)
        return _Held(device.upload(array), array)
    except (MemoryError, OverflowError):
        size = argument.source or f"{argument.zeros} bytes of zeros"
        raise SpecError(f"{spec.origin}: {size} do not fit into memory") from None


def _kernarg(spec: LaunchSpec, kernel: Kernel, held: Sequence[_Held | None]) -> bytes:
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
        if distance > owner.buffer.nbytes:
            raise SpecError(f"{spec.origin}: argument {number} points {distance} bytes into a buffer of {owner.buffer.nbytes}")
        pieces.append(Piece(what, (owner.buffer.address + distance).to_bytes(POINTER_BYTES, "little"), POINTER_BYTES, argument.offset))
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


def _save(device: Device, spec: LaunchSpec, held: Sequence[_Held | None]) -> list[str]:
    """Write back what is to be saved: a .npy with the input's shape and type, anything else as raw bytes."""
    names = []
    for argument, owner in zip(spec.args, held, strict=True):
        if not isinstance(argument, BufferArgument) or argument.save is None or owner is None:
            continue
        after = device.read(owner.buffer, np.uint8, owner.buffer.nbytes)
        try:
            with argument.save.open("wb") as file:
                if argument.save.suffix == ".npy":
                    np.save(file, np.frombuffer(after.tobytes(), owner.array.dtype).reshape(owner.array.shape), allow_pickle=False)
                else:
                    file.write(after.tobytes())
        except OSError as error:
            raise SpecError(f"{spec.origin}: {argument.save} cannot be written: {error.strerror or error}") from None
        names.append(str(argument.save))
    return names
