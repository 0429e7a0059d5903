"""The emulator as a device: what HipDevice does on a GPU, on this machine's memory, with findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import TracebackType
from typing import Any, Self

import numpy as np

from asmgen.codeobject.load import CodeObject, KernelRecord
from asmgen.emulator.arrival.findings import chosen_checks
from asmgen.emulator.carried.tracker import Tracker
from asmgen.emulator.machine.codemap import load_image
from asmgen.emulator.machine.devicememory import Memory
from asmgen.emulator.machine.dispatch import Dispatch
from asmgen.emulator.scheduling.run import LaunchResult, Options, run_launch
from asmgen.emulator.shadow.shadowmemory import undefine
from asmgen.emulator.shadow.undefined import USED
from asmgen.isa.arch import architecture
from asmgen.launch.device import Buffer, DeviceError, LaunchError, Loadable, check_launch, check_span
from asmgen.launch.external import HOST, External
from asmgen.launch.packing import upload_arguments
from asmgen.program.program import Program

ProgramOf = Callable[[CodeObject, KernelRecord], Program]


@dataclass(frozen=True)
class EmulatedKernel:
    """A kernel and its code; the code is read only when it is first launched."""

    kernel: KernelRecord
    module: EmulatedModule

    @property
    def name(self) -> str:
        """As in the code object."""
        return self.kernel.name

    @property
    def base(self) -> int:
        """What is added to the code object's addresses where it lies in the device's memory."""
        return self.module.base

    @cached_property
    def program(self) -> Program:
        """The instructions, from the entry point on."""
        return self.module.read(self.module.code_object, self.kernel)


@dataclass
class EmulatedModule:
    """A code object on the emulator. Its image is put into memory when it is first launched, and stays until `unload`."""

    code_object: CodeObject
    read: ProgramOf
    memory: Memory
    _kernels: dict[str, EmulatedKernel] = field(default_factory=dict)
    _image: tuple[int, int] | None = None  # base and the address to free

    @property
    def base(self) -> int:
        """What is added to the code object's addresses. Raises AsmgenError where the image needs a symbol that nobody defines."""
        if self._image is None:
            code_object = self.code_object
            self._image = load_image(self.memory, code_object.segments(), code_object.relocations(), code_object.origin)
        return self._image[0]

    def kernel(self, name: str | None = None) -> EmulatedKernel:
        """The kernel of that name, or the only one; CodeObjectError where there is none."""
        found = self.code_object.kernel(name)
        return self._kernels.setdefault(found.name, EmulatedKernel(found, self))

    def unload(self) -> None:
        """Give its memory back."""
        if self._image is not None:
            self.memory.free(self._image[1])
            self._image = None


@dataclass(frozen=True)
class EmulatedStream:
    """A stream on which everything has run when the call returns."""

    handle: int = 0

    def synchronize(self) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        """Nothing is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


@dataclass
class EmulatedEvent:
    """A moment between calls. It knows no times: the emulator's own say nothing of a GPU."""

    recorded: bool = False

    def record(self, stream: object = None) -> None:
        """It is now."""
        self.recorded = True

    def synchronize(self) -> None:
        """It has happened."""

    def milliseconds_since(self, start: EmulatedEvent) -> float:
        """Raises DeviceError: there is nothing to measure."""
        raise DeviceError("the emulator has no times between events: it says what a kernel computes, not how fast; time it on a GPU")

    def close(self) -> None:
        """Nothing is held."""


class EmulatedDevice:
    """Device memory is host memory; a launch runs at once. `launches` keeps what came of each.

    An error among the findings of a launch raises LaunchError where it was launched. `keep_errors` is for those who read `findings`
    themselves: then nothing is raised. `options.checks` says what is looked for.

    `programs` gives the code of kernels by name where it need not be read back from the code object (no llvm-objdump).
    """

    def __init__(self, arch: str, options: Options | None = None, programs: Mapping[str, Program] | None = None, *,
                 keep_errors: bool = False) -> None:
        self.profile = architecture(arch)
        self.options = options or Options()
        self.keep_errors = keep_errors
        self.programs = dict(programs or {})
        self.memory = Memory()
        self.launches: list[LaunchResult] = []
        self._held: set[int] = set()
        self._borrowed: list[External] = []
        self._lent: list[int] = []  # where the registered intervals of borrowed arrays start
        self._modules: dict[int, EmulatedModule] = {}  # by the code object's identity; the module keeps the object alive

    @property
    def name(self) -> str:
        """For people."""
        return "emulator"

    @property
    def arch(self) -> str:
        """The architecture that is emulated."""
        return self.profile.name

    def follow(self, *domains: Tracker) -> None:
        """Carry second values beside all values of the launches to come; the domains belong to this device's memory."""
        self.options = replace(self.options, domains=domains)

    def allocate(self, nbytes: int) -> Buffer:
        """Zeroed memory, 256-byte aligned, with guard space around it."""
        if nbytes < 0:
            raise DeviceError(f"a buffer of {nbytes} bytes was asked for; 0 and more would work")
        address = self.memory.allocate(nbytes)
        self._held.add(address)
        return Buffer(address, nbytes)

    def upload(self, array: np.ndarray[Any, Any]) -> Buffer:
        """A new buffer with the array's bytes in C order."""
        buffer = self.allocate(array.nbytes)
        self.write(buffer, array)
        return buffer

    def write(self, buffer: Buffer, array: np.ndarray[Any, Any], offset: int = 0) -> None:
        """Copy the array's bytes in C order into the buffer."""
        self._check_held(buffer, "write to")
        check_span("write", buffer, offset, array.nbytes)
        if array.nbytes:
            self.memory.view(buffer.address + offset, array.nbytes)[:] = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
            self.memory.written(buffer.address + offset, array.nbytes)

    def unread(self, buffers: Iterable[Buffer]) -> None:
        """Nobody will read these buffers: what kernels leave in them may be undefined."""
        self.memory.unread.update(buffer.address for buffer in buffers)

    def read(self, buffer: Buffer, dtype: Any, shape: int | Sequence[int], offset: int = 0) -> np.ndarray[Any, Any]:
        """A copy of the buffer's contents."""
        self._check_held(buffer, "read of")
        nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        check_span("read", buffer, offset, nbytes)
        data = self.memory.view(buffer.address + offset, nbytes).tobytes() if nbytes else b""
        return np.frombuffer(data, dtype).reshape(shape).copy()

    def free(self, buffer: Buffer) -> None:
        """Give the memory back. Raises DeviceError for a buffer that is not held."""
        self._check_held(buffer, "free of")
        self.memory.free(buffer.address)
        self._held.discard(buffer.address)

    def load(self, code_object: Loadable) -> EmulatedModule:
        """Raises DeviceError where the code object is for another architecture."""
        if code_object.arch != self.arch:
            raise DeviceError(f"the code object is for {code_object.arch}, this emulator is {self.arch}: "
                              f"an EmulatedDevice({code_object.arch!r}) would run it")
        if not isinstance(code_object, CodeObject):
            raise DeviceError(f"the emulator runs what CodeObject.load gives, not a {type(code_object).__name__}")
        module = self._modules.get(id(code_object))
        if module is None:
            module = self._modules[id(code_object)] = EmulatedModule(code_object, self._program, self.memory)
        return module

    def launch(self, kernel: EmulatedKernel | KernelRecord, grid: tuple[int, int, int], block: tuple[int, int, int],
               kernarg: bytes | Sequence[Any] | Mapping[str, Any], dynamic_lds: int = 0, stream: object = None) -> LaunchResult:
        """Run a kernel to its end and return what came of it (`launches[-1]` too); EmulatorError where the emulator cannot go on.

        Raises LaunchError for an error that was found, once `launches` and the arrays have what came of it; not with `keep_errors`.
        A `stream` changes nothing: all of them are in the order of the calls.

        `kernel` is a loaded one or `code_object.kernel(name)`. `kernarg` is the segment's bytes, or the arguments in order or by name:
        arrays are uploaded and copied back in place, numbers take the size of the kernel's argument table (asmgen.launch.packing).
        """
        if isinstance(kernel, KernelRecord):
            if kernel.code_object is None:
                raise DeviceError(f"launch {kernel.name} as code_object.kernel({kernel.name!r}) gives it")
            kernel = self.load(kernel.code_object).kernel(kernel.name)
        if not isinstance(kernarg, bytes | bytearray | memoryview):
            uploaded = upload_arguments(self, kernel.kernel, kernarg, grid, block, dynamic_lds)
            try:
                result = self._run(kernel, grid, block, uploaded.kernarg, dynamic_lds)
                uploaded.copy_back()
            finally:
                uploaded.free()
        else:
            result = self._run(kernel, grid, block, bytes(kernarg), dynamic_lds)
        if result.errors and not self.keep_errors:
            raise _launch_error(kernel.name, result)
        return result

    def _run(self, kernel: EmulatedKernel, grid: tuple[int, int, int], block: tuple[int, int, int], kernarg: bytes,
             dynamic_lds: int) -> LaunchResult:
        """The launch itself, with the segment's bytes."""
        check_launch(kernel.kernel, self.arch, grid, block, kernarg, dynamic_lds)
        address = self.memory.allocate(max(len(kernarg), 64), "kernel arguments")
        self.memory.view(address, len(kernarg))[:] = np.frombuffer(kernarg, np.uint8)
        try:
            dispatch = Dispatch(grid, block, address, kernarg, dynamic_lds, self.options.preload,
                                kernel.base + kernel.kernel.descriptor_address, kernel.base)
            result = run_launch(kernel.program, kernel.kernel.descriptor, self.profile, dispatch, self.memory, self.options)
        finally:
            self.memory.free(address)
        self.launches.append(result)
        return result

    def borrow(self, what: str, array: External) -> bool:
        """Registers the array's own bytes. Raises DeviceError for one that is not in host memory."""
        if array.where != HOST:
            raise DeviceError(f"{what} is on {array.location}; the emulator uses arrays in host memory")
        if not array.nbytes or (self.memory.covers(array.address, array.nbytes) and not self._borrowed):
            return False
        self._set_borrowed([*self._borrowed, array])
        return True

    def give_back(self, array: External) -> None:
        """Forbids the array's bytes again."""
        self._set_borrowed([other for other in self._borrowed if other is not array])

    def _set_borrowed(self, arrays: list[External]) -> None:
        """Register the bytes of these arrays and of no others. Views of one storage overlap, intervals of the registry may not."""
        for start in self._lent:
            self.memory.free(start)
        self._borrowed, self._lent = arrays, []
        spans: list[tuple[int, int]] = []
        for start, end in sorted((array.address, array.address + array.nbytes) for array in arrays):
            if spans and start < spans[-1][1]:
                start, end = spans[-1][0], max(end, spans.pop()[1])
            spans.append((start, end))
        for start, end in spans:
            if not self.memory.covers(start, end - start):
                self.memory.register(start, end - start, "an array of the host")
                self._lent.append(start)

    def check_held(self, what: str, buffer: Buffer) -> None:
        """Raises DeviceError for a buffer that was freed, or is another device's."""
        self._check_held(buffer, f"{what} is")

    def stream(self) -> EmulatedStream:
        """A stream: a name for the order of the calls."""
        return EmulatedStream()

    def event(self) -> EmulatedEvent:
        """An event, which has happened when it is recorded."""
        return EmulatedEvent()

    def stream_of(self, values: Iterable[Any], stream: object) -> object:
        """All streams are in the order of the calls."""
        return stream

    @contextmanager
    def workspace(self, name: str, nbytes: int, stream: object = None) -> Iterator[Buffer]:
        """Memory whose contents are undefined: what a kernel reads of it that no kernel has written is an error where the host sees it."""
        buffer = self.allocate(nbytes)
        if self.options.unwritten:
            self.memory.view(buffer.address, nbytes)[:] = np.resize(np.array([self.options.unwritten], np.uint32).view(np.uint8), nbytes)
        self.undefine(buffer)
        try:
            yield buffer
        finally:
            self.free(buffer)

    def undefine(self, buffer: Buffer) -> None:
        """From here on the buffer's contents are undefined, if launches look for what is made of such, and the host will not read them."""
        self._check_held(buffer, "undefine of")
        if USED in chosen_checks(self.options.checks):
            undefine(self.memory, buffer.address, buffer.nbytes)
        self.unread([buffer])

    def zero(self, address: int, nbytes: int, stream: object = None) -> None:
        """Set memory to zero."""
        self.memory.view(address, nbytes)[:] = 0
        self.memory.written(address, nbytes)

    def write_async(self, buffer: Buffer, array: np.ndarray[Any, Any], stream: object = None, offset: int = 0) -> None:
        """As `write`: it has happened when the call returns."""
        self.write(buffer, array, offset)

    def read_async(self, array: np.ndarray[Any, Any], buffer: Buffer, stream: object = None, offset: int = 0) -> None:
        """Fill the array, which must be in C order, from the buffer: it has happened when the call returns."""
        array[...] = self.read(buffer, array.dtype, array.shape, offset)

    def synchronize(self) -> None:
        """Launches have finished when they return."""

    def clear(self) -> None:
        """Give back what is still held, but for code."""
        for address in list(self._held):
            self.memory.free(address)
        self._held.clear()

    def close(self) -> None:
        """Give back what is still held."""
        for module in self._modules.values():
            module.unload()
        self._modules.clear()
        self.clear()
        for resident in self.memory.residents:
            resident.scheduler.forget()
        self.memory.residents.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _check_held(self, buffer: Buffer, what: str) -> None:
        if buffer.address not in self._held:
            raise DeviceError(f"{what} a buffer at {buffer.address:#x} that this device does not hold")

    def _program(self, code_object: CodeObject, kernel: KernelRecord) -> Program:
        known = self.programs.get(kernel.name)
        if known is not None:
            return known
        from asmgen.reader.disassembly import read_kernel  # lark is needed only for code that was not built here

        return read_kernel(code_object, kernel)


def _launch_error(kernel: str, result: LaunchResult) -> LaunchError:
    """The first error of a launch and how many others there are."""
    first, *others = result.errors
    more = f", and {len(others)} more errors" if len(others) > 1 else ", and 1 more error" if others else ""
    return LaunchError(f"{kernel}: {first.sentence().removeprefix('error: ')}{more}; what it has computed is worthless "
                       "(EmulatedDevice(..., keep_errors=True) raises nothing: launches[-1].findings has them all)")
