"""A real GPU through hip-python: memory, code objects and launches, each HIP call checked and named when it fails.

Each function of hip-python returns a tuple whose first entry is a hipError_t; where its versions differ otherwise stands in hipbinding.py.
No AMD GPU was present where this was written: the tests run it through the real hip-python on the emulated runtime
(asmgen.launch.hipemulator), and replay single calls against a recording stand-in of the binding.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy

from asmgen.isa.quote import quoted
from asmgen.launch.device import EMULATED_NAME, Buffer, Device, DeviceError, DeviceKernel, Loadable, check_launch, check_span
from asmgen.launch.external import torch_stream
from asmgen.launch.hipbinding import device_properties, import_binding, text
from asmgen.launch.hiplauncher import HipLauncher
from asmgen.launch.hipstreams import HipEvent, HipStream, stream_handle
from asmgen.launch.launchcall import Gpu, HostArray, launch_extra
from asmgen.launch.workspaces import StreamWorkspaces

if TYPE_CHECKING:
    from asmgen.launch.external import External

_EMULATOR = "the emulator runs the same code object: --device emulator"
_TARGET = "its target, with xnack and sramecc settings, is not the GPU's; build it for the GPU's architecture"
_NO_CODE = "the bytes are no AMD GPU code object; asmgen inspect FILE reads them"
_ASKS = "more than the GPU allows; asmgen inspect FILE shows what the kernel asks for"
_RERUN = "run the same launch with --device emulator, whose findings name the instruction"

# What would help, by HIP error name.
_HELP = {
    "hipErrorOutOfMemory": "free buffers or ask for a smaller shape; rocm-smi shows who holds the memory",
    "hipErrorNoDevice": f"rocminfo shows what the driver sees, and HIP_VISIBLE_DEVICES may hide it; {_EMULATOR}",
    "hipErrorInvalidDevice": "HIP_VISIBLE_DEVICES may hide it",
    "hipErrorInsufficientDriver": "the kernel driver is older than the HIP runtime; update amdgpu-dkms",
    "hipErrorNotInitialized": "the driver did not start: is /dev/kfd there, and is the user in the groups render and video?",
    "hipErrorNoBinaryForGpu": _TARGET,
    "hipErrorSharedObjectInitFailed": _TARGET,
    "hipErrorInvalidImage": _NO_CODE,
    "hipErrorInvalidKernelFile": _NO_CODE,
    "hipErrorNotFound": "asmgen inspect FILE lists the kernels of a code object",
    "hipErrorInvalidConfiguration": f"grid, block or LDS is {_ASKS}",
    "hipErrorLaunchOutOfResources": f"registers, block or LDS is {_ASKS}",
    "hipErrorInvalidDevicePointer": "the address belongs to no live buffer of this device",
    "hipErrorIllegalAddress": f"the kernel touched memory outside of its buffers; {_RERUN}",
    "hipErrorLaunchFailure": f"the kernel faulted; {_RERUN}",
    "hipErrorLaunchTimeOut": f"the kernel did not end; {_RERUN}",
    "hipErrorUnknown": _RERUN,
}


class Choice(NamedTuple):
    """The device that `choose_device` took and one sentence that says which and why, for stderr."""

    device: Device
    sentence: str


def _call(binding: Any, function: str, *arguments: Any, shown: str = "", context: str = "") -> Any:
    """The results of one HIP call without its error code: None, or the only one. `shown` are the arguments as the error prints them."""
    return _result(lambda: getattr(binding, function)(*arguments), f"{function}({shown})", context)


def _result(make: Callable[[], tuple[Any, ...]], call: str, context: str = "") -> Any:
    """What `make`, a HIP call that errors name `call`, returns beside its error code."""
    try:
        code, *results = make()
    except Exception as error:  # no library is a RuntimeError, no such function an AttributeError, an unknown error code a ValueError
        if "dlopen" in str(error):
            missing = "ROCm's libamdhip64.so is not here, an installed ROCm brings it"
            raise DeviceError(f"{call} cannot be called: {missing}; {_EMULATOR}") from error
        raise DeviceError(f"{call} failed{context}: {type(error).__name__}: {error}") from error
    if int(code) != 0:
        raise _failure(call, code, context)
    return results[0] if results else None


def _failure(call: str, code: Any, context: str) -> DeviceError:
    name = getattr(code, "name", "an unnamed error")
    help_text = f"; {_HELP[name]}" if name in _HELP else ""
    return DeviceError(f"{call} failed with {name} ({int(code)}){context}{help_text}")


def properties_of(binding: Any, index: int) -> Any:
    """The hipDeviceProp_t of a GPU. Raises DeviceError where HIP does."""
    return _result(partial(device_properties, binding, index), f"hipGetDeviceProperties({index})")


def visible_gpus(binding: Any | None = None) -> tuple[Gpu, ...]:
    """Every GPU that HIP sees. Raises DeviceError where hip-python, ROCm or all GPUs are missing."""
    hip = binding if binding is not None else import_binding(_EMULATOR)
    gpus = []
    for index in range(int(_call(hip, "hipGetDeviceCount"))):
        properties = properties_of(hip, index)
        gpus.append(Gpu(index, text(properties.name), text(properties.gcnArchName).split(":")[0]))
    if not gpus:
        raise DeviceError(f"hipGetDeviceCount() found no GPU; {_HELP['hipErrorNoDevice']}")
    return tuple(gpus)


def hip_available(binding: Any | None = None) -> tuple[bool, str]:
    """Whether a GPU can be used, and the reason in words: its name, or what is missing."""
    try:
        gpus = visible_gpus(binding)
    except DeviceError as error:
        return False, error.sentence
    return True, _listing(gpus)


def _listing(gpus: Sequence[Gpu]) -> str:
    return ", ".join(f"GPU {gpu.index}: {gpu.name} ({gpu.arch})" for gpu in gpus)


class HipKernel:
    """A kernel on a GPU: the function handle and what its code object says of it."""

    def __init__(self, facts: DeviceKernel, function: Any, module: HipModule) -> None:
        self.facts = facts
        self.function = function
        self.module = module

    @property
    def name(self) -> str:
        return self.facts.name


class HipModule:
    """A code object on a GPU."""

    def __init__(self, device: HipDevice, code_object: Loadable, image: Any, handle: Any) -> None:
        self._device = device
        self._code_object = code_object
        self._image = image  # HIP may read it as long as the module lives
        self._handle = handle
        self.loaded = True

    def kernel(self, name: str | None = None) -> HipKernel:
        """The kernel of that name, or the only one. Raises what the code object raises for a name it does not know, else DeviceError."""
        facts = self._code_object.kernel(name)
        if not self.loaded:
            raise DeviceError(f"the code object of {facts.name} has been unloaded; load it again before asking for kernels")
        function = _call(self._device.binding, "hipModuleGetFunction", self._handle, facts.name.encode(), shown=f"module, {facts.name!r}")
        return HipKernel(facts, function, self)

    def unload(self) -> None:
        """Releases the code object; its kernels must not be launched again. Unloading twice is legal."""
        if self.loaded:
            self.loaded = False
            self._device.forget(self)
            _call(self._device.binding, "hipModuleUnload", self._handle, shown="module")
            self._image = None


class HipDevice:
    """One GPU as an `asmgen.launch.device.Device`: the first whose architecture is `arch`, or the first of all without `arch`.

    `index` picks one of several. HIP's calls go to the GPU that the calling thread chose last, so where there are several each call
    chooses its own first. `binding` is the module hip.hip of hip-python, imported where absent. Raises DeviceError for a missing GPU.
    """

    def __init__(self, arch: str | None = None, binding: Any | None = None, index: int | None = None) -> None:
        self.binding: Any = binding if binding is not None else import_binding(_EMULATOR)
        self.gpus = visible_gpus(self.binding)
        matching = [gpu for gpu in self.gpus if (arch is None or gpu.arch == arch) and (index is None or gpu.index == index)]
        if not matching:
            wanted = " and ".join([f"is {arch}"] * (arch is not None) + [f"has the number {index}"] * (index is not None))
            raise DeviceError(f"no GPU here {wanted}: there is {_listing(self.gpus)}; "
                              "build for that architecture, or use --device emulator")
        self.gpu = matching[0]
        self.several = len(self.gpus) > 1
        self._buffers: dict[int, Buffer] = {}
        self._modules: list[HipModule] = []
        self._held: list[HipStream | HipEvent] = []
        self._prepared: dict[tuple[int, str], HipLauncher] = {}
        self._kept: list[Any] = []  # host arrays of copies under way on streams that are not ours
        self._launched = ""
        self._workspaces = StreamWorkspaces(self.allocate)
        self.workspace = self._workspaces.lend
        _call(self.binding, "hipSetDevice", self.gpu.index, shown=str(self.gpu.index))

    @property
    def name(self) -> str:
        return self.gpu.name

    @property
    def arch(self) -> str:
        return self.gpu.arch

    @property
    def is_emulated(self) -> bool:
        """Whether the GPU is `asmgen hip-emulator`'s: then no time that it takes says anything."""
        return self.gpu.name.startswith(EMULATED_NAME)

    def call(self, function: str, *arguments: Any, shown: str = "") -> Any:
        """The result of one HIP call on this GPU. Raises DeviceError with HIP's name of the error."""
        self.choose()
        return _call(self.binding, function, *arguments, shown=shown, context=self._after())

    def fail(self, function: str, shown: str, code: Any) -> None:
        """Raise the DeviceError of a call that was made without `call`."""
        raise _failure(f"{function}({shown})", code, self._after())

    def choose(self) -> None:
        """Make it the calling thread's GPU."""
        if self.several:
            _call(self.binding, "hipSetDevice", self.gpu.index, shown=str(self.gpu.index))

    def stream(self) -> HipStream:
        """A new stream; it is closed with the device at the latest."""
        stream = HipStream(self.call, self._let_go)
        self._held.append(stream)
        return stream

    def event(self) -> HipEvent:
        """A new event; it is closed with the device at the latest."""
        event = HipEvent(self.call, self._let_go)
        self._held.append(event)
        return event

    def _let_go(self, thing: object) -> None:
        self._held = [held for held in self._held if held is not thing]

    def allocate(self, nbytes: int) -> Buffer:
        """`nbytes` bytes with undefined contents. HIP gives no address for 0 bytes, so that one byte is asked for."""
        if nbytes < 0:
            raise DeviceError(f"a buffer cannot have {nbytes} bytes")
        size = max(nbytes, 1)
        self.choose()
        buffer = Buffer(int(_call(self.binding, "hipMalloc", size, shown=f"{size} bytes")), nbytes)
        self._buffers[buffer.address] = buffer
        return buffer

    def upload(self, array: numpy.ndarray[Any, Any]) -> Buffer:
        buffer = self.allocate(array.nbytes)
        try:
            self.write(buffer, array)
        except BaseException:
            self._release(buffer)
            raise
        return buffer

    def write(self, buffer: Buffer, array: numpy.ndarray[Any, Any], offset: int = 0) -> None:
        self._check_live(buffer, "write")
        check_span("write", buffer, offset, array.nbytes)
        source = numpy.ascontiguousarray(array)
        self._copy(buffer.address + offset, source.ctypes.data, source.nbytes, "hipMemcpyHostToDevice")

    def read(self, buffer: Buffer, dtype: Any, shape: int | Sequence[int], offset: int = 0) -> numpy.ndarray[Any, Any]:
        self._check_live(buffer, "read")
        target: numpy.ndarray[Any, Any] = numpy.empty(shape, dtype)
        check_span("read", buffer, offset, target.nbytes)
        self._copy(target.ctypes.data, buffer.address + offset, target.nbytes, "hipMemcpyDeviceToHost")
        return target

    def write_async(self, buffer: Buffer, array: numpy.ndarray[Any, Any], stream: Any = None, offset: int = 0) -> None:
        """As `write`, in the order of a stream. The array must not change before the stream has been waited for."""
        self._check_live(buffer, "write")
        check_span("write", buffer, offset, array.nbytes)
        source = numpy.ascontiguousarray(array)
        self._copy_async(buffer.address + offset, source.ctypes.data, source, stream, "hipMemcpyHostToDevice")

    def read_async(self, array: numpy.ndarray[Any, Any], buffer: Buffer, stream: Any = None, offset: int = 0) -> None:
        """Fills an array, which must be in C order, in the order of a stream: it has its values once the stream has been waited for."""
        self._check_live(buffer, "read")
        check_span("read", buffer, offset, array.nbytes)
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise DeviceError("an asynchronous read needs an array in C order that can be written")
        self._copy_async(array.ctypes.data, buffer.address + offset, array, stream, "hipMemcpyDeviceToHost")

    def _copy_async(self, target: int, source: int, array: numpy.ndarray[Any, Any], stream: Any, kind: str) -> None:
        if array.nbytes:
            direction = getattr(self.binding.hipMemcpyKind, kind)
            shown = f"{target:#x}, {source:#x}, {array.nbytes} bytes, {kind}, stream"
            self.call("hipMemcpyAsync", target, source, array.nbytes, direction, stream_handle(stream), shown=shown)
            if isinstance(stream, HipStream):
                stream.keep(array)
            else:
                self._kept.append(array)

    def _copy(self, target: int, source: int, nbytes: int, kind: str) -> None:
        # Addresses and not arrays: the buffer protocol of the binding does not have to know bf16 and fp8.
        if nbytes:
            direction = getattr(self.binding.hipMemcpyKind, kind)
            shown = f"{target:#x}, {source:#x}, {nbytes} bytes, {kind}"
            self.choose()
            _call(self.binding, "hipMemcpy", target, source, nbytes, direction, shown=shown, context=self._after())

    def stream_of(self, values: Iterable[Any], stream: Any) -> Any:
        """PyTorch's current stream where a tensor of PyTorch is among the arguments and no stream is given."""
        if stream is not None or not any(hasattr(value, "data_ptr") for value in values):
            return stream
        return torch_stream(self.gpu.index)

    def zero(self, address: int, nbytes: int, stream: Any) -> None:
        """Sets memory to zero, in the order of a stream."""
        if nbytes:
            shown = f"{address:#x}, 0, {nbytes} bytes, stream"
            self.call("hipMemsetAsync", address, 0, nbytes, stream_handle(stream), shown=shown)

    def free(self, buffer: Buffer) -> None:
        self._check_live(buffer, "free")
        del self._buffers[buffer.address]
        for launcher in self._prepared.values():
            launcher.forget()
        self.call("hipFree", buffer.address, shown=f"{buffer.address:#x}")

    def _release(self, buffer: Buffer) -> None:
        # On the way out of another error, which must not be hidden by one of hipFree.
        with contextlib.suppress(DeviceError):
            self.free(buffer)

    def _check_live(self, buffer: Buffer, what: str) -> None:
        if self._buffers.get(buffer.address) is not buffer:
            span = f"the buffer at {buffer.address:#x} ({buffer.nbytes} bytes)"
            raise DeviceError(f"a {what} of {span}, which {self.name} does not hold: it was freed, or is another device's")

    def load(self, *code_objects: Loadable) -> HipModule:
        """The first of the code objects (of one kernel, for several architectures) that is for this GPU."""
        code_object = next((given for given in code_objects if given.arch == self.arch), None)
        if code_object is None:
            archs = sorted({given.arch for given in code_objects})
            what = f"the code object is for {archs[0]}" if len(archs) == 1 else f"the code objects are for {', '.join(archs)}"
            others = [f"GPU {gpu.index} is {gpu.arch}" for gpu in self.gpus if gpu.arch in archs]
            wanted = "; ".join([f"build it with --arch {self.arch}", *others])
            raise DeviceError(f"{what}, but {self.name} is {self.arch}; {wanted}")
        self.choose()
        image = ctypes.create_string_buffer(code_object.data, len(code_object.data))
        handle = _call(self.binding, "hipModuleLoadData", ctypes.addressof(image), shown=f"code object of {len(code_object.data)} bytes")
        module = HipModule(self, code_object, image, handle)
        self._modules.append(module)
        return module

    def forget(self, module: HipModule) -> None:
        """Called by a module that unloads itself, so that `close` does not do so again."""
        self._modules = [held for held in self._modules if held is not module]

    def launch(
        self, kernel: HipKernel | Any, grid: tuple[int, int, int], block: tuple[int, int, int], kernarg: Any, dynamic_lds: int = 0,
        stream: Any = None,
    ) -> None:
        """Starts the kernel on a stream, the default one where none is given. HIP copies `kernarg` before it returns.

        `kernel` is a loaded one and `kernarg` its segment's bytes; or `code_object.kernel(name)` and its arguments in order or by name
        (numpy arrays are uploaded, and read back once the kernel has finished). Then it takes PyTorch's current stream where a tensor
        of PyTorch is among them and no stream is given. Nothing in here breaks the capture of a stream into a graph, but such arrays.
        """
        if not isinstance(kernel, HipKernel):
            launcher = self._prepared.get((id(kernel.code_object), kernel.name))
            if launcher is None or not launcher.kernel.module.loaded:
                launcher = self._prepare(kernel)
            launcher(grid, block, kernarg, dynamic_lds, stream)
            self._launched = launcher.name
            return
        if not kernel.module.loaded:
            raise DeviceError(f"{kernel.name} belongs to a code object that has been unloaded")
        check_launch(kernel.facts, self.arch, grid, block, kernarg, dynamic_lds)
        segment = ctypes.create_string_buffer(kernarg, max(len(kernarg), 1))
        extra, size = launch_extra(ctypes.addressof(segment), len(kernarg))
        shown = f"{kernel.name}, grid {grid}, block {block}, {dynamic_lds} bytes of dynamic LDS, {len(kernarg)} bytes of arguments"
        arguments = (kernel.function, *grid, *block, dynamic_lds, stream_handle(stream), None, ctypes.addressof(extra))
        self.call("hipModuleLaunchKernel", *arguments, shown=shown)
        del size
        self._launched = kernel.name

    def _prepare(self, kernel: Any) -> HipLauncher:
        if kernel.code_object is None:
            raise DeviceError(f"launch {kernel.name} as code_object.kernel({kernel.name!r}) gives it")
        launcher = self._prepared[id(kernel.code_object), kernel.name] = HipLauncher(self, kernel)
        return launcher

    def locate(self, what: str, value: Any) -> tuple[int, bool]:
        """The address of a buffer or of another library's array on this GPU, and whether it is PyTorch's. Raises DeviceError."""
        if isinstance(value, Buffer):
            self.check_held(what, value)
            return value.address, False
        if isinstance(value, numpy.ndarray):
            raise HostArray
        from asmgen.launch.external import external_of

        array = external_of(value, what)
        self.borrow(what, array)
        return array.address, array.is_torch

    def check_held(self, what: str, buffer: Buffer) -> None:
        """Raises DeviceError for a buffer that was freed, or is another device's."""
        if self._buffers.get(buffer.address) is not buffer:
            raise DeviceError(f"{what} is a buffer at {buffer.address:#x} ({buffer.nbytes} bytes) that {self.name} does not hold: it was "
                              "freed, or is another device's")

    def borrow(self, what: str, array: External) -> bool:
        """Raises DeviceError for an array that is not on this GPU; there is nothing to give back."""
        if array.where != "gpu" or array.index != self.gpu.index:
            raise DeviceError(f"{what} is in {array.location}, and the kernel runs on GPU {self.gpu.index}; copy it there first"
                              if array.where != "gpu" else f"{what} is on {array.location}, and the kernel runs on GPU {self.gpu.index}")
        return False

    def give_back(self, array: External) -> None:
        """Nothing was taken."""

    def _after(self) -> str:
        # A fault of a kernel surfaces in some later call; the error names the kernel that may have caused it.
        return f" after {self._launched} was launched" if self._launched else ""

    def synchronize(self) -> None:
        self.call("hipDeviceSynchronize")
        self._kept.clear()
        self._launched = ""

    def close(self) -> None:
        """Unloads modules, frees buffers. All of them are tried, then the first failure is raised."""
        failures: list[DeviceError] = []
        releases: list[Callable[[], None]] = [held.close for held in self._held]
        releases += [module.unload for module in self._modules]
        releases += [partial(self.free, buffer) for buffer in self._buffers.values()]
        for release in releases:
            try:
                release()
            except DeviceError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.close()
        except DeviceError as failure:
            if error is None:
                raise
            error.add_note(f"and closing the device failed: {failure}")


def why_no_gpu(error: DeviceError) -> str:
    """The sentence of an error without its advice to emulate: for those who emulate already, or who ask what the emulator cannot say."""
    return error.sentence.removesuffix(f"; {_EMULATOR}")


def choose_device(kind: str, arch: str, make_emulator: Callable[[], Device], binding: Any | None = None) -> Choice:
    """The device that `kind` asks for, and a sentence that says which.

    "hip": the first GPU of that architecture, else DeviceError. "emulator": `make_emulator()`. "auto": such a GPU where there is one and
    it can be opened, else the emulator, and the sentence says why.
    """
    if kind not in ("auto", "hip", "emulator"):
        raise DeviceError(f"unknown device {quoted(kind)}; auto, hip and emulator would work")
    if kind == "emulator":
        return Choice(make_emulator(), f"running on the emulator of {arch}, as asked")
    try:
        device = HipDevice(arch, binding)
    except DeviceError as error:
        if kind == "hip":
            raise
        return Choice(make_emulator(), f"running on the emulator of {arch}: {why_no_gpu(error)}")
    return Choice(device, f"running on GPU {device.gpu.index}, {device.name} ({device.arch})")
