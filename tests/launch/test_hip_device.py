"""HipDevice against a stand-in of hip-python that records every call, keeps memory on the host and fails where it is told to."""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy
import pytest

from asmgen.launch import hip as runtime_hip
from asmgen.launch import launchcall
from asmgen.launch.device import Buffer, Device, DeviceError
from asmgen.launch.hip import HipDevice, choose_device, hip_available


class Error(enum.IntEnum):
    hipSuccess = 0
    hipErrorOutOfMemory = 2
    hipErrorNoDevice = 100
    hipErrorIllegalAddress = 700


class CopyKind(enum.IntEnum):
    hipMemcpyHostToDevice = 1
    hipMemcpyDeviceToHost = 2


@dataclass
class Launch:
    function: Any
    grid: tuple[int, ...]
    block: tuple[int, ...]
    dynamic_lds: int
    stream: Any
    parameters: Any
    extra: tuple[int, ...]
    kernarg: bytes
    size: int


class FakeHip:
    """The part of hip.hip that HipDevice uses, with its return tuples: (error,) or (error, result)."""

    hipMemcpyKind = CopyKind

    def __init__(self, archs: tuple[Any, ...] = ("gfx942:sramecc+:xnack-", "gfx950:sramecc+:xnack-")) -> None:
        self.archs = archs
        self.fail: dict[str, Any] = {}
        self.calls: list[tuple[Any, ...]] = []
        self.memory: dict[int, Any] = {}
        self.modules: dict[str, bytes] = {}
        self.launches: list[Launch] = []
        self.image_size = 0

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if not name.startswith("hip") or name == "hipMemcpyKind":
            return value

        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, *arguments))
            failure = self.fail.get(name, Error.hipSuccess)
            if isinstance(failure, Exception):
                raise failure
            if failure:
                return (failure, None) if name in ("hipMalloc", "hipModuleLoadData", "hipModuleGetFunction") else (failure,)
            result: tuple[Any, ...] = (Error.hipSuccess, *value(*arguments))
            return result

        return call

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [call[1:] for call in self.calls if call[0] == name]

    def hipGetDeviceCount(self) -> tuple[int]:
        return (len(self.archs),)

    def hipGetDeviceProperties(self, index: int) -> tuple[Any]:
        return (SimpleNamespace(name=f"Card {index}", gcnArchName=self.archs[index]),)

    def hipSetDevice(self, index: int) -> tuple[()]:
        return ()

    def hipMalloc(self, size: int) -> tuple[int]:
        assert size > 0
        memory = ctypes.create_string_buffer(size)
        self.memory[ctypes.addressof(memory)] = memory
        return (ctypes.addressof(memory),)

    def hipFree(self, address: int) -> tuple[()]:
        del self.memory[address]
        return ()

    def hipMemcpy(self, target: int, source: int, nbytes: int, kind: CopyKind) -> tuple[()]:
        device_side = target if kind is CopyKind.hipMemcpyHostToDevice else source
        assert any(start <= device_side and device_side + nbytes <= start + len(held) for start, held in self.memory.items())
        ctypes.memmove(target, source, nbytes)
        return ()

    def hipMemsetAsync(self, target: int, value: int, nbytes: int, stream: Any) -> tuple[()]:
        assert any(start <= target and target + nbytes <= start + len(held) for start, held in self.memory.items())
        ctypes.memset(target, value, nbytes)
        return ()

    def hipModuleLoadData(self, image: int) -> tuple[str]:
        name = f"module{len(self.named('hipModuleLoadData'))}"
        self.modules[name] = ctypes.string_at(image, self.image_size)
        return (name,)

    def hipModuleGetFunction(self, module: str, name: bytes) -> tuple[str]:
        assert module in self.modules
        return (f"{module}.{name.decode()}",)

    def hipModuleUnload(self, module: str) -> tuple[()]:
        del self.modules[module]
        return ()

    def hipModuleLaunchKernel(self, function: Any, *rest: Any) -> tuple[()]:
        extra = tuple(value or 0 for value in (ctypes.c_void_p * 5).from_address(rest[9]))
        size = ctypes.c_size_t.from_address(extra[3]).value
        kernarg = ctypes.string_at(extra[1], size)
        self.launches.append(Launch(function, rest[0:3], rest[3:6], rest[6], rest[7], rest[8], extra, kernarg, size))
        return ()

    def hipDeviceSynchronize(self) -> tuple[()]:
        return ()


@dataclass(frozen=True)
class Resources:
    kernarg_size: int = 24
    max_flat_workgroup_size: int = 256
    lds: int = 160000


@dataclass(frozen=True)
class Kernel:
    name: str
    resources: Resources


@dataclass(frozen=True)
class Code:
    arch: str = "gfx950"
    data: bytes = b"\x7fELF and more"

    def kernel(self, name: str | None = None) -> Kernel:
        if name not in (None, "gemm"):
            raise DeviceError(f"no kernel {name}")
        return Kernel("gemm", Resources())


@pytest.fixture
def fake() -> FakeHip:
    binding = FakeHip()
    binding.image_size = len(Code().data)
    return binding


def refused(call: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    with pytest.raises(DeviceError) as caught:
        call(*args, **kwargs)
    assert "\n" not in caught.value.sentence
    return caught.value.sentence


def test_the_device_of_the_architecture_is_taken(fake: FakeHip) -> None:
    device = HipDevice("gfx950", fake)
    assert (device.name, device.arch, device.gpu.index) == ("Card 1", "gfx950", 1)
    assert fake.named("hipSetDevice") == [(1,)]
    assert HipDevice(binding=fake).arch == "gfx942"


def test_no_device_of_the_architecture(fake: FakeHip) -> None:
    fake.archs = ("gfx90a:xnack+", b"gfx942:sramecc+\0\0\0")
    assert HipDevice("gfx942", fake).gpu.index == 1
    text = refused(HipDevice, "gfx950", fake)
    assert text.startswith("no GPU here is gfx950: there is GPU 0: Card 0 (gfx90a), GPU 1: Card 1 (gfx942)")
    assert fake.named("hipSetDevice") == [(1,)]


@pytest.mark.parametrize("dtype", [numpy.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, numpy.uint8])
def test_upload_and_read_back(fake: FakeHip, dtype: Any) -> None:
    array = numpy.arange(15).reshape(3, 5).astype(dtype)
    with HipDevice("gfx950", fake) as device:
        buffer = device.upload(array[:, ::2])  # not contiguous
        assert buffer.nbytes == 9 * array.itemsize
        back = device.read(buffer, dtype, (3, 3))
        assert back.dtype == dtype and numpy.array_equal(back.astype(numpy.float64), array[:, ::2].astype(numpy.float64))
    assert fake.memory == {}


def test_write_and_read_at_an_offset(fake: FakeHip) -> None:
    with HipDevice("gfx950", fake) as device:
        buffer = device.upload(numpy.zeros(6, numpy.int32))
        device.write(buffer, numpy.array([7, 8], numpy.int32), offset=8)
        assert device.read(buffer, numpy.int32, 6).tolist() == [0, 0, 7, 8, 0, 0]
        assert device.read(buffer, numpy.int32, 3, offset=12).tolist() == [8, 0, 0]
        device.write(buffer, numpy.array([9], numpy.int32), offset=20)
        nine = numpy.array([9], numpy.int32)
        for offset in (21, -4):
            assert f"a write of 4 bytes at offset {offset} does not fit" in refused(device.write, buffer, nine, offset)
        assert "a read of 28 bytes at offset 0 does not fit a buffer of 24 bytes" in refused(device.read, buffer, numpy.int32, 7)


def test_empty_buffers(fake: FakeHip) -> None:
    with HipDevice("gfx950", fake) as device:
        buffer = device.upload(numpy.empty((0, 4), numpy.float32))
        assert buffer.nbytes == 0 and fake.named("hipMalloc") == [(1,)] and fake.named("hipMemcpy") == []
        assert device.read(buffer, numpy.float32, (0, 4)).shape == (0, 4)
        assert "cannot have -1 bytes" in refused(device.allocate, -1)


def test_use_after_free_and_foreign_buffers(fake: FakeHip) -> None:
    with HipDevice("gfx950", fake) as device:
        buffer = device.allocate(64)
        device.free(buffer)
        assert "which Card 1 does not hold" in refused(device.free, buffer)
        assert "which Card 1 does not hold" in refused(device.read, buffer, numpy.uint8, 1)
        assert "which Card 1 does not hold" in refused(device.write, buffer, numpy.zeros(1, numpy.uint8))
        refused(device.free, Buffer(0x1000, 16))
        assert len(fake.named("hipFree")) == 1


def test_launch_layout(fake: FakeHip) -> None:
    kernarg = bytes(range(1, 31))
    with HipDevice("gfx950", fake) as device:
        module = device.load(Code())
        assert list(fake.modules.values()) == [Code().data]
        kernel = module.kernel("gemm")
        assert kernel.name == "gemm" and fake.named("hipModuleGetFunction") == [("module1", b"gemm")]
        device.launch(kernel, (5, 6, 7), (64, 2, 1), kernarg, dynamic_lds=3840)
        launch = fake.launches[0]
        assert (launch.extra[0], launch.extra[2], launch.extra[4]) == (1, 2, 3)
        assert launch.size == 30 and launch.kernarg == kernarg
        assert (launch.function, launch.grid, launch.block, launch.dynamic_lds) == ("module1.gemm", (5, 6, 7), (64, 2, 1), 3840)
        assert launch.stream is None and launch.parameters is None
    assert fake.modules == {} and fake.named("hipModuleUnload") == [("module1",)]


def test_launch_refuses_what_no_device_can_do(fake: FakeHip) -> None:
    with HipDevice("gfx950", fake) as device:
        kernel = device.load(Code()).kernel()
        assert "grid (0, 1, 1)" in refused(device.launch, kernel, (0, 1, 1), (64, 1, 1), bytes(24))
        too_large = refused(device.launch, kernel, (1, 1, 1), (64, 5, 1), bytes(24))
        assert "allows 256 work-items a workgroup, but block (64, 5, 1) has 320" in too_large
        assert "2^32 work-items" in refused(device.launch, kernel, (1 << 24, 1, 1), (256, 1, 1), bytes(24))
        assert "reads 24 bytes of arguments, but 23 were given" in refused(device.launch, kernel, (1, 1, 1), (256, 1, 1), bytes(23))
        assert "three dimensions" in refused(device.launch, kernel, (1, 1), (64, 1, 1), bytes(24))
        for dynamic in (3841, -1):
            too_much = refused(device.launch, kernel, (1, 1, 1), (64, 1, 1), bytes(24), dynamic)
            assert f"160000 bytes of static and {dynamic} of dynamic LDS were asked for; a workgroup of gfx950 has 0 to 163840" in too_much
        assert fake.launches == []
        device.launch(kernel, ((1 << 24) - 1, 1, 1), (256, 1, 1), bytes(24))


def test_a_code_object_of_another_architecture_is_refused(fake: FakeHip) -> None:
    with HipDevice("gfx942", fake) as device:
        text = refused(device.load, Code())
        assert text == "the code object is for gfx950, but Card 0 is gfx942; build it with --arch gfx942; GPU 1 is gfx950"
    assert fake.named("hipModuleLoadData") == []


def test_unloaded_modules(fake: FakeHip) -> None:
    with HipDevice("gfx950", fake) as device:
        module = device.load(Code())
        kernel = module.kernel()
        module.unload()
        module.unload()
        assert "unloaded" in refused(module.kernel, "gemm")
        assert "unloaded" in refused(device.launch, kernel, (1, 1, 1), (64, 1, 1), bytes(24))
    assert len(fake.named("hipModuleUnload")) == 1 and fake.launches == []


def whole_run(fake: FakeHip) -> None:
    with HipDevice("gfx950", fake) as device:
        buffer = device.upload(numpy.arange(8, dtype=numpy.int32))
        kernel = device.load(Code()).kernel("gemm")
        device.launch(kernel, (2, 1, 1), (64, 1, 1), bytes(24))
        device.synchronize()
        device.read(buffer, numpy.int32, 8)


ALL_CALLS = {
    "hipGetDeviceCount": "hipGetDeviceCount()",
    "hipGetDeviceProperties": "hipGetDeviceProperties(0)",
    "hipSetDevice": "hipSetDevice(1)",
    "hipMalloc": "hipMalloc(32 bytes)",
    "hipMemcpy": "hipMemcpy(0x",
    "hipModuleLoadData": "hipModuleLoadData(code object of 13 bytes)",
    "hipModuleGetFunction": "hipModuleGetFunction(module, 'gemm')",
    "hipModuleLaunchKernel": "hipModuleLaunchKernel(gemm, grid (2, 1, 1), block (64, 1, 1), 0 bytes of dynamic LDS, 24 bytes of arguments)",
    "hipDeviceSynchronize": "hipDeviceSynchronize()",
    "hipFree": "hipFree(0x",
    "hipModuleUnload": "hipModuleUnload(module)",
}


def test_the_whole_run_makes_every_call(fake: FakeHip) -> None:
    whole_run(fake)
    assert {call[0] for call in fake.calls} == set(ALL_CALLS)


@pytest.mark.parametrize("function", ALL_CALLS)
def test_every_failing_call_is_named_and_nothing_is_kept(fake: FakeHip, function: str) -> None:
    fake.fail[function] = Error.hipErrorOutOfMemory
    text = refused(whole_run, fake)
    assert text.startswith(ALL_CALLS[function]) and "failed with hipErrorOutOfMemory (2)" in text and "ask for a smaller shape" in text
    assert fake.memory == {} or function == "hipFree"
    assert fake.modules == {} or function == "hipModuleUnload"


@pytest.mark.parametrize("function", ALL_CALLS)
def test_every_raising_call_is_named(fake: FakeHip, function: str) -> None:
    fake.fail[function] = ValueError("99999 is not a valid hipError_t")
    text = refused(whole_run, fake)
    assert text.startswith(ALL_CALLS[function]) and "ValueError: 99999 is not a valid hipError_t" in text


def test_an_error_without_a_name_is_a_number(fake: FakeHip) -> None:
    fake.fail["hipMalloc"] = 4711
    assert "failed with an unnamed error (4711)" in refused(whole_run, fake)


def test_a_failed_upload_gives_its_memory_back_at_once(fake: FakeHip) -> None:
    with HipDevice("gfx950", fake) as device:
        fake.fail["hipMemcpy"] = Error.hipErrorIllegalAddress
        refused(device.upload, numpy.zeros(4))
        assert fake.memory == {}


def test_a_failed_upload_reports_the_copy_even_where_freeing_fails_too(fake: FakeHip) -> None:
    with HipDevice("gfx950", fake) as device:
        fake.fail = {"hipMemcpy": Error.hipErrorIllegalAddress, "hipFree": Error.hipErrorOutOfMemory}
        assert refused(device.upload, numpy.zeros(4)).startswith("hipMemcpy")


def test_a_late_fault_names_the_kernel(fake: FakeHip) -> None:
    fake.fail["hipDeviceSynchronize"] = Error.hipErrorIllegalAddress
    text = refused(whole_run, fake)
    assert text.startswith("hipDeviceSynchronize() failed with hipErrorIllegalAddress (700) after gemm was launched; the kernel touched")
    assert "--device emulator" in text


def test_after_synchronizing_no_kernel_is_blamed(fake: FakeHip) -> None:
    with HipDevice("gfx950", fake) as device:
        buffer = device.upload(numpy.zeros(4))
        device.launch(device.load(Code()).kernel(), (1, 1, 1), (64, 1, 1), bytes(24))
        fake.fail["hipMemcpy"] = Error.hipErrorIllegalAddress
        assert "after gemm was launched" in refused(device.read, buffer, numpy.float64, 4)
        device.synchronize()
        assert "after gemm" not in refused(device.read, buffer, numpy.float64, 4)


def test_closing_tries_everything_and_raises_the_first_failure(fake: FakeHip) -> None:
    device = HipDevice("gfx950", fake)
    device.load(Code())
    device.load(Code())
    device.allocate(8)
    fake.fail["hipModuleUnload"] = Error.hipErrorIllegalAddress
    assert refused(device.close).startswith("hipModuleUnload")
    assert fake.memory == {} and len(fake.named("hipModuleUnload")) == 2
    device.close()
    assert len(fake.named("hipModuleUnload")) == 2


def test_closing_does_not_hide_the_error_before(fake: FakeHip) -> None:
    fake.fail["hipFree"] = Error.hipErrorIllegalAddress
    with pytest.raises(KeyError, match="mine") as caught, HipDevice("gfx950", fake) as device:
        device.allocate(8)
        raise KeyError("mine")
    assert "hipFree(0x" in caught.value.__notes__[0]


class Emulator:
    """Stands for the emulator where only its making matters."""

    name = "emulator"


def emulator() -> Device:
    return Emulator()  # type: ignore[return-value]


def test_choose_takes_a_matching_gpu(fake: FakeHip) -> None:
    for kind in ("auto", "hip"):
        device, text = choose_device(kind, "gfx950", lambda: pytest.fail("no emulator was needed"), fake)
        assert isinstance(device, HipDevice) and device.arch == "gfx950"
        assert text == "running on GPU 1, Card 1 (gfx950)"


def test_choose_auto_without_a_matching_gpu_says_why(fake: FakeHip) -> None:
    fake.archs = ("gfx90a",)
    device, text = choose_device("auto", "gfx950", emulator, fake)
    assert isinstance(device, Emulator) and text.startswith("running on the emulator of gfx950: no GPU here is gfx950")
    assert "no GPU here is gfx950" in refused(choose_device, "hip", "gfx950", emulator, fake)


def test_choose_auto_with_a_gpu_that_does_not_open(fake: FakeHip) -> None:
    fake.fail["hipSetDevice"] = Error.hipErrorNoDevice
    device, text = choose_device("auto", "gfx950", emulator, fake)
    assert isinstance(device, Emulator) and "hipSetDevice(1) failed with hipErrorNoDevice (100)" in text


def test_choose_emulator_asks_no_gpu(fake: FakeHip) -> None:
    device, text = choose_device("emulator", "gfx950", emulator, fake)
    assert isinstance(device, Emulator) and fake.calls == [] and "emulator" in text


def test_choose_refuses_other_names(fake: FakeHip) -> None:
    assert refused(choose_device, "cuda", "gfx950", emulator, fake) == "unknown device 'cuda'; auto, hip and emulator would work"


def test_availability(fake: FakeHip) -> None:
    assert hip_available(fake) == (True, "GPU 0: Card 0 (gfx942), GPU 1: Card 1 (gfx950)")
    fake.archs = ()
    assert hip_available(fake)[0] is False and "found no GPU" in hip_available(fake)[1]
    fake.fail["hipGetDeviceCount"] = Error.hipErrorNoDevice
    available, reason = hip_available(fake)
    assert not available and "hipGetDeviceCount() failed with hipErrorNoDevice (100)" in reason


def test_a_runtime_that_cannot_be_opened(fake: FakeHip) -> None:
    fake.fail["hipGetDeviceCount"] = RuntimeError("failed to dlopen 'b'libamdhip64.so''")
    available, reason = hip_available(fake)
    assert not available and "libamdhip64.so is not here" in reason and "--device emulator" in reason


def test_without_hip_python(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "hip", None)
    available, reason = hip_available()
    assert not available and "hip-python is not installed" in reason and "pip install hip-python" in reason
    assert choose_device("auto", "gfx942", emulator).sentence.startswith("running on the emulator of gfx942: hip-python is not installed")


def test_on_this_machine() -> None:
    """With a GPU the device opens; without one "hip" is a sentence and "auto" the emulator."""
    pytest.importorskip("hip")
    available, reason = hip_available()
    if available:
        HipDevice().close()
        return
    assert reason and reason in refused(choose_device, "hip", "gfx950", emulator)
    assert isinstance(choose_device("auto", "gfx950", emulator).device, Emulator)


def test_the_stand_in_has_the_interface_of_the_binding() -> None:
    """Names, constants and conversions that the stand-in cannot prove, from hip-python itself."""
    binding = pytest.importorskip("hip").hip
    for function in ALL_CALLS:
        assert callable(getattr(binding, function))
    for kind in CopyKind:
        assert binding.hipMemcpyKind[kind.name] == kind
    for error in Error:
        assert binding.hipError_t[error.name] == error
    for name in runtime_hip._HELP:
        assert name in binding.hipError_t.__members__
    assert (launchcall.LAUNCH_PARAM_BUFFER_POINTER, launchcall.LAUNCH_PARAM_BUFFER_SIZE, launchcall.LAUNCH_PARAM_END) == (
        binding.HIP_LAUNCH_PARAM_BUFFER_POINTER,
        binding.HIP_LAUNCH_PARAM_BUFFER_SIZE,
        binding.HIP_LAUNCH_PARAM_END,
    )
    assert isinstance(binding.hipDeviceProp_t().gcnArchName, str | bytes)
    assert isinstance(binding.hipDeviceProp_t().name, str | bytes)


def test_the_binding_takes_addresses_as_integers() -> None:
    helpers = pytest.importorskip("rocm.bindings._hip_helpers")
    types = pytest.importorskip("rocm.bindings.util.types")
    extra = (ctypes.c_void_p * 5)(1, 2, 3, 4, 5)
    assert int(helpers.HipModuleLaunchKernel_extra.fromObj(ctypes.addressof(extra))) == ctypes.addressof(extra)
    assert int(types.Pointer.fromObj(0x7F0012345678)) == 0x7F0012345678
    assert int(types.DeviceArray(0x7F0012345678)) == 0x7F0012345678
    assert int(types.ListOfPointer.fromObj(None)) == 0
