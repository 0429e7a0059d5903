"""What the emulated HIP runtime remembers: devices over one address space, allocations, handles, each thread's device and last error."""

from __future__ import annotations

import bisect
import ctypes
import itertools
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from asmgen.emulator.arrival.findings import Finding
from asmgen.emulator.machine.devicememory import Interval, Memory
from asmgen.emulator.scheduling.run import Options
from asmgen.isa.arch import Architecture, architecture
from asmgen.launch.device import EMULATED_NAME
from asmgen.launch.emulated import EmulatedDevice
from asmgen.launch.hipemulator.errors import HipError

Thing = TypeVar("Thing")
Operation = Callable[[], None]
LEGACY_STREAMS = (0, 1)  # hipStreamDefault's handle and hipStreamLegacy
PER_THREAD_STREAM = 2
TOTAL_BYTES = {"gfx942": 192 << 30, "gfx950": 288 << 30}
"""Memory of MI300X and MI355X. The host's own memory ends much earlier; then too an allocation is hipErrorOutOfMemory."""


@dataclass
class GpuState:
    """One emulated GPU."""

    index: int
    profile: Architecture
    device: EmulatedDevice
    fault: tuple[str, str] | None = None  # HIP's error name and the kernel; reported until the device is reset
    used: int = 0

    @property
    def name(self) -> str:
        """As hipDeviceProp_t has it."""
        return f"{EMULATED_NAME} of {self.profile.name}"


@dataclass
class Allocation:
    """`kind` is device, managed, host or registered."""

    start: int
    size: int
    kind: str
    gpu: int
    flags: int = 0


@dataclass
class Capture:
    """Operations that a stream records instead of executing them."""

    origin: int
    number: int
    operations: list[Operation] = field(default_factory=list)
    invalid: bool = False


@dataclass
class RuntimeStream:
    """A stream: everything on it has run when the call returns, but for what it records."""

    gpu: int
    flags: int = 0
    priority: int = 0
    capture: Capture | None = None


@dataclass
class Event:
    """An event: `time` in seconds on the host's clock when it was recorded, `capture` the one in which it was."""

    flags: int = 0
    time: float | None = None
    capture: Capture | None = None


class _Thread(threading.local):
    gpu = 0
    last = 0


class Runtime:
    """The state that all calls share. `archs` has one architecture for each GPU."""

    def __init__(self, archs: list[str], options: Options, say: Callable[[str], None] | None = None) -> None:
        self.memory = Memory()
        self.gpus: list[GpuState] = []
        for index, arch in enumerate(archs):
            device = EmulatedDevice(arch, options, keep_errors=True)
            device.memory = self.memory
            self.gpus.append(GpuState(index, architecture(arch), device))
        self.thread = _Thread()
        self.allocations: dict[int, Allocation] = {}
        self.captures: list[Capture] = []
        self.default_streams: dict[int, RuntimeStream] = {}
        self._handles: dict[int, Any] = {}
        self._numbers = itertools.count(1)
        self._said: set[str] = set()
        self._say = say or (lambda text: print(text, file=sys.stderr, flush=True))

    @classmethod
    def from_environment(cls) -> Runtime:
        """The GPUs that `asmgen hip-emulator` chose, of which HIP_VISIBLE_DEVICES may hide some."""
        archs = os.environ.get("ASMGEN_HIP_EMULATOR", "gfx950").split(",")
        visible = os.environ.get("HIP_VISIBLE_DEVICES")
        if visible is not None:
            chosen = []
            for word in visible.split(","):  # the first that names no GPU ends the list
                if not word.strip().isdigit() or int(word) >= len(archs):
                    break
                chosen.append(archs[int(word)])
            archs = chosen
        checks = os.environ.get("ASMGEN_HIP_EMULATOR_CHECKS", "1") != "0"
        allow = tuple(filter(None, os.environ.get("ASMGEN_HIP_EMULATOR_ALLOW", "").split(",")))
        return cls(archs, Options(checks=checks, order=os.environ.get("ASMGEN_HIP_EMULATOR_ORDER", "lockstep"), allow=allow))

    def say(self, sentence: str, once: bool = False) -> None:
        """One line on stderr; with `once` not a second time."""
        if once and sentence in self._said:
            return
        self._said.add(sentence)
        self._say(f"asmgen hip-emulator: {sentence}")

    # devices

    def gpu(self, index: int | None = None) -> GpuState:
        """The GPU of that index, or the calling thread's."""
        number = self.thread.gpu if index is None else index
        if not self.gpus:
            raise HipError("hipErrorNoDevice")
        if not 0 <= number < len(self.gpus):
            raise HipError("hipErrorInvalidDevice")
        return self.gpus[number]

    def check_fault(self, gpu: GpuState | None = None) -> None:
        """Raises what an earlier kernel left: calls that wait for a device report it."""
        found = gpu or self.gpu()
        if found.fault is not None:
            raise HipError(found.fault[0])

    def report(self, gpu: GpuState, kernel: str, findings: tuple[Finding, ...]) -> None:
        """Print what a launch came to; an error among it makes the results worthless, and the next call that waits says so."""
        for finding in findings:
            self.say(f"{kernel}: {finding.sentence()}")
        errors = [finding for finding in findings if finding.severity == "error"]
        if errors:
            outside = any(finding.check in ("access-outside-registry", "misaligned-access") for finding in errors)
            endless = any(finding.check in ("runaway", "barrier-deadlock") for finding in errors)
            name = "hipErrorIllegalAddress" if outside else "hipErrorLaunchTimeOut" if endless else "hipErrorLaunchFailure"
            gpu.fault = gpu.fault or (name, kernel)

    # handles

    def keep(self, thing: object) -> int:
        """A handle, which is never 0."""
        handle = 0x7E00_0000_0000 + 16 * next(self._numbers)
        self._handles[handle] = thing
        return handle

    def find(self, handle: int, kind: type[Thing], error: str = "hipErrorInvalidHandle") -> Thing:
        """What the handle stands for."""
        thing = self._handles.get(handle)
        if not isinstance(thing, kind):
            raise HipError(error)
        return thing

    def drop(self, handle: int, kind: type[Thing], error: str = "hipErrorInvalidHandle") -> Thing:
        """As `find`; the handle is nobody's from now on."""
        thing = self.find(handle, kind, error)
        del self._handles[handle]
        return thing

    def things(self, kind: type[Thing]) -> list[Thing]:
        """All of a kind that have handles."""
        return [thing for thing in self._handles.values() if isinstance(thing, kind)]

    # streams

    def stream(self, handle: int) -> RuntimeStream:
        """A stream; the default one is each GPU's own."""
        if handle in (*LEGACY_STREAMS, PER_THREAD_STREAM):
            index = self.gpu().index
            return self.default_streams.setdefault(index, RuntimeStream(index))
        return self.find(handle, RuntimeStream)

    def enqueue(self, handle: int, operation: Operation) -> None:
        """Run an operation on a stream: now, or recorded where the stream is capturing."""
        stream = self.stream(handle)
        if stream.capture is not None:
            stream.capture.operations.append(operation)
            return
        if self.captures and handle in LEGACY_STREAMS:
            self.invalidate("hipErrorStreamCaptureImplicit")
        self.check_fault(self.gpus[stream.gpu])
        operation()

    def not_while_capturing(self) -> None:
        """For calls that may not be made while any stream records."""
        if self.captures:
            self.invalidate("hipErrorStreamCaptureUnsupported")

    def invalidate(self, error: str) -> None:
        """Fail, and with the call every capture under way."""
        for capture in self.captures:
            capture.invalid = True
        raise HipError(error)

    # memory

    def interval(self, address: int) -> Interval | None:
        """The registered bytes that hold the address."""
        number = bisect.bisect_right(self.memory.intervals, address, key=lambda interval: interval.start) - 1
        found = self.memory.intervals[number] if number >= 0 else None
        return found if found is not None and address < max(found.end, found.start + 1) else None

    def allocation(self, address: int) -> Allocation | None:
        """The allocation that holds the address."""
        found = self.interval(address)
        return self.allocations.get(found.start) if found is not None else None


def unsigned(value: int) -> int:
    """A size_t that came as a signed number."""
    return value & (1 << 64) - 1


def put(address: int, value: Any) -> None:
    """Store a ctypes value where the caller wants it. Raises HipError for a null pointer."""
    if not address:
        raise HipError("hipErrorInvalidValue")
    ctypes.memmove(address, ctypes.addressof(value), ctypes.sizeof(value))


def put_int(address: int, value: int) -> None:
    """An int."""
    put(address, ctypes.c_int(value))


def put_size(address: int, value: int) -> None:
    """A size_t or a pointer."""
    put(address, ctypes.c_uint64(value))


def put_text(address: int, size: int, text: str) -> None:
    """A C string in a field of `size` bytes."""
    if not address or size < 1:
        raise HipError("hipErrorInvalidValue")
    data = text.encode()[: size - 1] + b"\0"
    ctypes.memmove(address, data, len(data))
