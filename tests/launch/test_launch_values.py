"""`kernel.launch(device, grid, block, args)`: arguments of all kinds on the emulator, and on a GPU that only records its launches.

There is no PyTorch here: its tensors are stood in for by objects that show what it documents.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from asmgen.codeobject.arguments import Typed
from asmgen.codeobject.load import CodeObject
from asmgen.emulator.scheduling.run import Options
from asmgen.isa.errors import AsmgenError
from asmgen.kernels import gemm, productplan
from asmgen.kernels import matmul as products
from asmgen.kernels.gemm import TensorError
from asmgen.kernels.registry import family
from asmgen.launch.device import Buffer, LaunchError
from asmgen.launch.emulated import EmulatedDevice
from asmgen.launch.external import GPU, HOST, _Tensor, dense_strides, external_of
from asmgen.launch.hip import HipDevice
from asmgen.toolchain import assemble
from asmgen.tuning.candidates import candidates
from tests.launch.test_hip_device import FakeHip

# d[0] = the number, d[1] = the first element that p points to
SOURCE = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
.text
.globl store
.p2align 8
.type store,@function
store:
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_load_dword s8, s[0:1], 0x10
  v_mov_b32 v0, 0
  s_waitcnt lgkmcnt(0)
  global_load_dword v2, v0, s[6:7]
  v_mov_b32 v1, s8
  global_store_dword v0, v1, s[4:5]
  s_waitcnt vmcnt(0)
  global_store_dword v0, v2, s[4:5] offset:4
  s_endpgm
.Lend:
.size store, .Lend - store
.rodata
.p2align 6
.amdhsa_kernel store
  .amdhsa_next_free_vgpr 4
  .amdhsa_next_free_sgpr 16
  .amdhsa_accum_offset 4
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_kernarg_size 24
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: store
    .symbol: store.kd
    .kernarg_segment_size: 24
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 16
    .vgpr_count: 4
    .max_flat_workgroup_size: 64
    .args:
      - {.name: d, .offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}
      - {.name: p, .offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global}
      - {.name: x, .offset: 16, .size: 4, .value_kind: by_value}
...
.end_amdgpu_metadata
"""
ONE = (1, 1, 1)


class TorchTensor:
    """What PyTorch shows of a tensor: of the host here, or at a made-up address of a GPU."""

    def __init__(self, array: np.ndarray[Any, Any], kind: str = "cpu", index: int | None = None, address: int = 0) -> None:
        self.array = array
        self.shape = array.shape
        self.dtype = f"torch.{array.dtype}"
        self.device = SimpleNamespace(type=kind, index=index)
        self.address = address or array.ctypes.data

    def data_ptr(self) -> int:
        return self.address

    def stride(self) -> tuple[int, ...]:
        return tuple(stride // self.array.itemsize for stride in self.array.strides)

    def element_size(self) -> int:
        return self.array.itemsize

    def new_empty(self, shape: tuple[int, ...], dtype: Any = None) -> TorchTensor:
        return TorchTensor(np.zeros(shape, self.array.dtype if dtype is None else dtype))

    def new_zeros(self, shape: tuple[int, ...]) -> TorchTensor:
        return TorchTensor(np.zeros(shape, self.array.dtype))

    def expand(self, *shape: int) -> TorchTensor:
        return TorchTensor(np.broadcast_to(self.array, shape))

    def __getitem__(self, index: Any) -> TorchTensor:
        return TorchTensor(self.array[index])

    def copy_(self, other: TorchTensor) -> None:
        self.array[...] = other.array

    def reshape(self, *shape: int) -> TorchTensor:
        return TorchTensor(self.array.reshape(shape))

    def repeat(self, times: int) -> TorchTensor:
        return TorchTensor(np.tile(self.array, times))

    def transpose(self, one: int, other: int) -> TorchTensor:
        return TorchTensor(self.array.swapaxes(one, other))

    def contiguous(self) -> TorchTensor:
        return TorchTensor(np.ascontiguousarray(self.array))

    def clone(self) -> TorchTensor:
        return TorchTensor(self.array.copy())


TorchTensor.__module__ = "torch"


class Sparse(TorchTensor):
    """A tensor without memory."""

    def data_ptr(self) -> int:
        raise RuntimeError("no storage")


class DlpackArray:
    """Speaks DLPack and nothing else."""

    def __init__(self, array: np.ndarray[Any, Any], device: tuple[int, int] = (1, 0)) -> None:
        self.array = array
        self.device = device

    def __dlpack__(self) -> object:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


class BfloatArray(DlpackArray):
    """As DlpackArray, of bfloat16: numpy speaks of plain numbers only, so that the type is written into what it says (DLDataType)."""

    def __dlpack__(self) -> object:
        capsule = self.array.view(np.uint16).__dlpack__()
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        _Tensor.from_address(get(capsule, b"dltensor")).dtype.code = 4
        return capsule


@pytest.fixture(scope="module")
def code() -> CodeObject:
    return CodeObject.load(assemble(SOURCE, "gfx950"))


def bits(value: Any) -> int:
    return int(np.frombuffer(np.asarray(value).tobytes(), np.uint32)[0])


@pytest.mark.parametrize(("value", "stored"), [
    (7, 7), (-1, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (1.5, bits(np.float32(1.5))), (np.float32(-2.25), bits(np.float32(-2.25))),
    (np.int32(-3), 0xFFFFFFFD), (Typed("u32", 9), 9), (b"\1\2\3\4", 0x04030201), (True, 1),
])  # fmt: skip
def test_numbers(code: CodeObject, value: Any, stored: int) -> None:
    d, p = np.zeros(2, np.uint32), np.array([0xABCD1234, 5], np.uint32)
    with EmulatedDevice("gfx950") as device:
        code.kernel("store").launch(device, ONE, (64, 1, 1), (d, p, value))
    assert d.tolist() == [stored, 0xABCD1234]


@pytest.mark.parametrize(("args", "sentence"), [
    ((1, 2), "store takes 3 arguments (d, p, x), got 2"),
    ({"d": 1, "p": 2}, "store needs a value for x; it takes d, p, x"),
    ({"d": 1, "p": 2, "x": 3, "y": 4}, "store has no argument 'y'; it takes d, p, x"),
    (("here", 2, 3), "argument d of store is a pointer and needs a device buffer, a tensor or an address, got a str"),
    ((1, 2.0, 3), "argument p of store is a pointer and needs a device buffer, a tensor or an address, got a float"),
    ((1, -2, 3), "argument p of store is a pointer, and -2 is no address"),
    ((1, 2, 1 << 32), "argument x of store has 4 bytes and holds -2147483648 to 4294967295, got 4294967296"),
    ((1, 2, np.float64(1)), "argument x of store has 4 bytes in the code object, but 8 were given"),
    ((1, 2, "three"), "argument x of store needs a whole number, bytes or a typed value, got 'three'"),
    ((1, 2, np.zeros(4)), "argument x of store is a value of 4 bytes, got a ndarray"),
    ((1, 2, Buffer(4096, 4)), "argument x of store is a value of 4 bytes, got a device buffer"),
    ((Buffer(4096, 4), 2, 3), "does not hold"),
    ((1, TorchTensor(np.zeros(4), "cuda", 2), 3), "argument p of store is on GPU 2"),
    ((1, TorchTensor(np.zeros(4), "meta"), 3), "argument p of store is on the device meta"),
    ((1, DlpackArray(np.zeros(4), (2, 0)), 3), "argument p of store is on the DLPack device type 2"),
])  # fmt: skip
def test_what_does_not_fit_is_said_by_both_devices(code: CodeObject, args: Any, sentence: str) -> None:
    fake = FakeHip()
    fake.image_size = len(code.data)
    for device in (EmulatedDevice("gfx950"), HipDevice("gfx950", fake, 1)):
        with pytest.raises(AsmgenError) as caught:
            code.kernel("store").launch(device, ONE, (64, 1, 1), args)
        assert sentence in str(caught.value) and "\n" not in str(caught.value)
    assert fake.launches == []


def test_arrays_of_others_are_used_where_they_are(code: CodeObject) -> None:
    for wrap in (TorchTensor, DlpackArray):
        d, p = np.zeros((2, 2), np.uint32), np.array([77, 5], np.uint32)
        with EmulatedDevice("gfx950") as device:
            code.kernel().launch(device, ONE, (64, 1, 1), {"x": 3, "d": wrap(d), "p": wrap(p)})
            assert device.launches[-1].findings == () and len(device.memory.intervals) == 1  # the code alone: nothing stays registered
        assert d.tolist() == [[3, 77], [0, 0]]


def test_a_view_is_no_more_than_its_bytes(code: CodeObject) -> None:
    d, p = np.zeros(3, np.uint32), np.ones(1, np.uint32)
    with EmulatedDevice("gfx950", keep_errors=True) as device:
        code.kernel().launch(device, ONE, (64, 1, 1), (TorchTensor(d[:1]), TorchTensor(p), 3))
        assert [finding.check for finding in device.launches[-1].findings] == ["access-outside-registry"]
        assert d.tolist() == [3, 0, 0]
        # views of one storage that overlap, the longer one second, first and alone
        for views in ((d[:1], d), (d, d[:1]), (d[1:], d), (d, d), (d[:2], d[1:])):
            code.kernel().launch(device, ONE, (64, 1, 1), (*map(TorchTensor, views), 3))
            assert device.launches[-1].findings == () and len(device.memory.intervals) == 1, views


def test_an_error_of_a_launch_raises_where_it_was_launched(code: CodeObject) -> None:
    d, p = np.zeros(2, np.uint32), np.array([9], np.uint32)
    kernel = code.kernel()
    with EmulatedDevice("gfx950") as device:
        for values in ((d, 4096, 3), {"d": d, "p": 4096, "x": 3}, d.ctypes.data.to_bytes(8, "little") + bytes(16)):
            with pytest.raises(LaunchError) as caught:
                kernel.launch(device, ONE, (64, 1, 1), values)
            assert caught.value.sentence.startswith("store: access-outside-registry: 4 bytes at 0x") and "keep_errors" in str(caught.value)
            assert device.launches[-1].errors and "\n" not in str(caught.value)
        held, loaded = device.upload(d), device.load(code).kernel()
        with pytest.raises(LaunchError, match="access-outside-registry"):
            device.launch(loaded, ONE, (64, 1, 1), held.address.to_bytes(8, "little") + bytes(16))
        assert kernel.launch(device, ONE, (64, 1, 1), (d, p, 3)).findings == () and d.tolist() == [3, 9]
    late = np.array([7], np.uint32)
    with EmulatedDevice("gfx950", Options(checks=())) as device:  # what costs nothing is checked all the same
        assert kernel.launch(device, ONE, (64, 1, 1), (d, late, 3)).errors == []
    with EmulatedDevice("gfx950", keep_errors=True) as device:
        assert [finding.check for finding in kernel.launch(device, ONE, (64, 1, 1), (d, 4096, 3)).errors] == ["access-outside-registry"]


def test_arrays_that_share_memory_are_written_where_the_kernel_has_written(code: CodeObject) -> None:
    """Each is a copy on the device: the one that is only read does not undo what was stored through the other."""
    memory = np.array([1, 2, 3, 4], np.uint32)
    with EmulatedDevice("gfx950") as device:
        code.kernel().launch(device, ONE, (64, 1, 1), (memory[:2], memory, 9))
        assert memory.tolist() == [9, 1, 3, 4]
        code.kernel().launch(device, ONE, (64, 1, 1), (memory[1::2], memory[::-1], 6))
        assert memory.tolist() == [9, 6, 3, 4]


def test_a_device_that_is_none(code: CodeObject) -> None:
    with pytest.raises(AsmgenError, match=r"store is launched on a device of asmgen.launch, got 'gfx950'; EmulatedDevice\('gfx950'\) or"):
        code.kernel().launch("gfx950", ONE, (64, 1, 1), (1, 2, 3))  # type: ignore[arg-type]


def test_what_arrays_say_of_themselves() -> None:
    array = np.zeros((4, 6), np.float32)
    for wrap in (TorchTensor, DlpackArray):
        dense, view = external_of(wrap(array), "a"), external_of(wrap(array[1:3, ::2]), "a")
        assert (dense.address, dense.nbytes, dense.where, dense.shape, dense.strides) == (array.ctypes.data, 96, HOST, (4, 6), (6, 1))
        assert (view.address, view.nbytes, view.strides) == (array.ctypes.data + 24, (6 + 4 + 1) * 4, (6, 2))
        assert dense.dtype == "float32"
    assert external_of(TorchTensor(array, "cuda", None), "a").where == GPU
    assert external_of(TorchTensor(np.zeros((0, 3))), "a").nbytes == 0
    assert dense_strides((2, 3, 4)) == (12, 4, 1)


def test_a_gpu_gets_the_segment_and_the_stream(code: CodeObject, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeHip()
    fake.image_size = len(code.data)
    kernel = code.kernel("store")
    with HipDevice("gfx950", fake) as device:
        one, two = device.allocate(64), device.allocate(64)
        kernel.launch(device, (2, 3, 4), (64, 1, 1), (one, two, 5), 128)
        kernel.launch(device, (2, 3, 4), (64, 1, 1), (one, two, -1))
        kernel.launch(device, ONE, (32, 1, 1), {"x": 1.0, "d": two, "p": one}, stream=0x77)
        tensor = TorchTensor(np.zeros(4), "cuda", 1, address=0x123400)
        torch = SimpleNamespace(cuda=SimpleNamespace(current_stream=lambda index: SimpleNamespace(cuda_stream=0x500 + index)))
        monkeypatch.setitem(sys.modules, "torch", torch)
        kernel.launch(device, ONE, (64, 1, 1), (tensor, two, 2))
        tensor.address = 0x567800  # its storage has moved
        kernel.launch(device, ONE, (64, 1, 1), (tensor, two, 2), stream=SimpleNamespace(cuda_stream=0x99))
        kernel.launch(device, ONE, (64, 1, 1), (one, two, 2))
        device.free(two)
        with pytest.raises(AsmgenError, match="argument p of store .* does not hold"):
            kernel.launch(device, ONE, (64, 1, 1), (one, two, 2))
    words = [(launch.grid, launch.block, launch.dynamic_lds, launch.stream, *np.frombuffer(launch.kernarg, np.uint64)[:2].tolist(),
              int(np.frombuffer(launch.kernarg, np.uint32)[4])) for launch in fake.launches]
    a, b = one.address, two.address
    assert words == [
        ((2, 3, 4), (64, 1, 1), 128, None, a, b, 5), ((2, 3, 4), (64, 1, 1), 0, None, a, b, 0xFFFFFFFF),
        (ONE, (32, 1, 1), 0, 0x77, b, a, bits(np.float32(1))), (ONE, (64, 1, 1), 0, 0x501, 0x123400, b, 2),
        (ONE, (64, 1, 1), 0, 0x99, 0x567800, b, 2), (ONE, (64, 1, 1), 0, None, a, b, 2)]  # fmt: skip
    assert all(launch.size == 24 for launch in fake.launches) and len(fake.named("hipModuleLoadData")) == 1


def test_tensors_of_another_gpu_and_of_the_host_are_refused(code: CodeObject) -> None:
    fake = FakeHip()
    fake.image_size = len(code.data)
    with HipDevice("gfx950", fake) as device:
        for tensor, said in ((TorchTensor(np.zeros(4), "cuda", 0), "argument d of store is on GPU 0, and the kernel runs on GPU 1"),
                             (TorchTensor(np.zeros(4)), "argument d of store is in host memory")):
            with pytest.raises(AsmgenError, match=said):
                code.kernel().launch(device, ONE, (64, 1, 1), (tensor, tensor, 2))


def first_declared(kernel: str, arch: str, gpu: str, given: dict[str, Any]) -> Any:
    """In place of `choose`, which times variants for some seconds where the cache is empty."""
    return candidates(family(kernel), arch, given)[0].build


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(productplan, "choose", first_declared)
        productplan.product_plan.cache_clear()
        yield
    productplan.product_plan.cache_clear()


@pytest.fixture
def fresh_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(productplan, "choose", first_declared)
    productplan.product_plan.cache_clear()
    yield tmp_path / "asmgen" / "kernels"
    productplan.product_plan.cache_clear()


def matrix(rows: int, columns: int, seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(ml_dtypes.bfloat16)


@pytest.mark.slow
def test_gemm_of_tensors(fresh_cache: Any) -> None:
    a, wide = matrix(70, 64, 1), matrix(33, 128, 2)
    b = wide[:, :64]  # its rows are 128 apart
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    with EmulatedDevice("gfx950") as device:
        made = gemm.bf16(TorchTensor(a), TorchTensor(b), device=device)
        given = np.empty((70, 33), a.dtype)
        assert gemm.bf16(a, np.ascontiguousarray(b), given, device=device) is given
        assert all(result.findings == () for result in device.launches)
    for result in (made.array, given):
        assert (np.abs(result.astype(np.float64) - expected) <= np.abs(expected) * 2.0**-7 + 1e-3).all()
    assert len(list(fresh_cache.iterdir())) == 1


def asymmetric(rows: int, columns: int, seed: int) -> np.ndarray[Any, Any]:
    """Whole numbers, whose products are exact."""
    return np.random.default_rng(seed).integers(-3, 4, (rows, columns)).astype(ml_dtypes.bfloat16)


VIEWS = {
    "whole": lambda rows, seed: asymmetric(rows, 64, seed),
    "columns": lambda rows, seed: asymmetric(rows, 200, seed)[:, 70:134],  # no row begins at a multiple of 16 bytes
    "every other row": lambda rows, seed: asymmetric(2 * rows, 64, seed)[::2],
    "backwards": lambda rows, seed: asymmetric(rows, 64, seed)[::-1],
    "every other column": lambda rows, seed: asymmetric(rows, 128, seed)[:, ::2],
    "transposed": lambda rows, seed: asymmetric(64, rows, seed).T,
    "one row again and again": lambda rows, seed: np.broadcast_to(asymmetric(1, 64, seed), (rows, 64)),
}


@pytest.mark.parametrize(("name", "rows", "columns"), [
    (name, *places) for name, places in zip(VIEWS, [(slice(2, 7), slice(3, 22)), (slice(11, 1, -2), slice(1, 58, 3))] * 4, strict=False)])
def test_gemm_takes_any_view_of_numpy(shared_cache: None, name: str, rows: slice, columns: slice) -> None:
    a, b, around = VIEWS[name](5, 1), VIEWS[name](19, 2), np.full((12, 60), 7, ml_dtypes.bfloat16)
    out, untouched = around[rows, columns], np.ones(around.shape, bool)
    untouched[rows, columns] = False
    with EmulatedDevice("gfx950") as device:
        assert gemm.bf16(a, b, out, device=device) is out and device.launches[-1].findings == ()
    assert np.array_equal(out.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64).T) and (around[untouched] == 7).all()


def aligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy whose first element is at a multiple of 16 bytes."""
    memory = np.zeros(array.nbytes + 16, np.uint8)
    copy = memory[-memory.ctypes.data % 16:][:array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def test_gemm_takes_rows_apart_of_tensors(shared_cache: None) -> None:
    """Tensors are used where they are: with the strides of the view, and nothing beside an `out` view is touched."""
    a, b = aligned(asymmetric(5, 144, 3))[:, 8:72], aligned(asymmetric(19, 96, 4))[:, 32:]
    expected, around = a.astype(np.float64) @ b.astype(np.float64).T, np.full((7, 40), 7, ml_dtypes.bfloat16)
    with EmulatedDevice("gfx950") as device:
        for wrap in (TorchTensor, BfloatArray):
            around[...] = 7
            gemm.bf16(wrap(a), wrap(b), wrap(around[1:6, 3:22]), device=device)
            assert np.array_equal(around[1:6, 3:22].astype(np.float64), expected)
            around[1:6, 3:22] = 7
            assert (around == 7).all()
        # beside each other in one storage, and one inside the other
        storage = aligned(np.concatenate([a, np.zeros((5, 64), a.dtype)], axis=1))
        parts = [TorchTensor(storage[:, first:last]) for first, last in ((0, 64), (64, 83), (45, 64))]
        gemm.bf16(parts[0], wrap(b), parts[1], device=device)
        assert np.array_equal(parts[1].array.astype(np.float64), expected)
        with pytest.raises(TensorError, match="out of gemm.bf16 shares elements with a"):
            gemm.bf16(parts[0], wrap(b), parts[2], device=device)


@pytest.mark.parametrize("name", ["every other column", "one row again and again"])
def test_gemm_copies_what_a_view_of_pytorch_cannot_show_a_kernel(shared_cache: None, name: str) -> None:
    a, b, out = VIEWS[name](5, 1), VIEWS[name](19, 2), np.full((5, 19), 7, ml_dtypes.bfloat16)
    with EmulatedDevice("gfx950") as device:
        gemm.bf16(TorchTensor(a), TorchTensor(b), TorchTensor(out), device=device)
        assert device.launches[-1].findings == ()
    assert np.array_equal(out.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64).T)


def test_gemm_takes_an_odd_k_stride_and_address(shared_cache: None) -> None:
    a, b = aligned(asymmetric(9, 131, 3))[:, 1:101], aligned(asymmetric(17, 131, 4))[:, 3:103]
    with EmulatedDevice("gfx950") as device:
        found = gemm.bf16(TorchTensor(a), TorchTensor(b), TorchTensor(np.zeros((9, 17), a.dtype)), device=device)
        assert all(launch.findings == () for launch in device.launches)
    assert np.array_equal(found.array.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64).T)


def test_an_error_in_a_product_raises(shared_cache: None, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = asymmetric(16, 64, 1), asymmetric(16, 64, 2)
    plan = productplan.product_plan

    def far(*asked: Any) -> Any:  # rows of A that are nowhere
        found = plan(*asked)
        return replace(found, numbers={**found.numbers, "lda": 1 << 16})

    monkeypatch.setattr(products, "product_plan", far)
    with EmulatedDevice("gfx950") as device, pytest.raises(LaunchError, match="access-outside-registry"):
        gemm.bf16(a, b, device=device)


@pytest.mark.slow
def test_a_damaged_cache_of_kernels_is_not_used(fresh_cache: Any) -> None:
    a, b = matrix(16, 64, 1), matrix(16, 64, 2)
    with EmulatedDevice("gfx950") as device:
        good = gemm.bf16(a, b, device=device)
        path = next(fresh_cache.iterdir())
        path.write_bytes(path.read_bytes()[:1000])
        productplan.product_plan.cache_clear()
        assert gemm.bf16(a, b, device=device).tobytes() == good.tobytes()
    assert path.stat().st_size > 1000


def test_gemm_refuses_what_is_outside_its_contract(fresh_cache: Any) -> None:
    a, b, fixed = matrix(32, 128, 1), matrix(16, 128, 2), matrix(32, 128, 3)
    fixed.flags.writeable = False
    cases: list[tuple[tuple[Any, ...], str]] = [
        ((a, b[:, :64]), "b of gemm.bf16 must be [N, K] with K = 128"),
        ((a.astype(np.float32), b), "a of gemm.bf16 must be bfloat16, got float32"),
        ((a, b[0]), "b of gemm.bf16 must be a matrix [N, K], got the shape [128]"),
        ((BfloatArray(matrix(32, 256, 3)[:, ::2]), b, matrix(32, 16, 5)), "a of gemm.bf16 must have the elements of its rows, or of its"),
        ((a, b, TorchTensor(matrix(32, 32, 3)[:, ::2])), "out of gemm.bf16 must have the elements of its rows, or of its"),
        ((TorchTensor(matrix(32, 256, 3)[:, ::2]), b, None, 7), "a copy of it would run on PyTorch's current stream"),
        ((a, TorchTensor(np.broadcast_to(b[:1], b.shape)), None, 7), "a copy of it would run on PyTorch's current stream"),
        ((a, b, matrix(3, 3, 0)), "out of gemm.bf16 must be [32, 16], got [3, 3]"),
        ((BfloatArray(np.lib.stride_tricks.as_strided(a, a.shape, (0, 2))), b, matrix(32, 16, 5)), "by rows: lda must be at least"),
        ((TorchTensor(a, "meta"), b, matrix(32, 16, 5)), "is on the device meta"),
        ((Sparse(a), b), "a of gemm.bf16 must be a dense tensor with memory of its own: no storage"),
        ((BfloatArray(a[::-1]), b), "a of gemm.bf16 has the strides [-128, 1]"),
        ((BfloatArray(fixed), b), "a of gemm.bf16 cannot be taken by DLPack"),
        ((a, b, fixed[:, :16]), "out of gemm.bf16 is read-only"),
        ((a, b, np.lib.stride_tricks.as_strided(a, (32, 16), (0, 2))), "out of gemm.bf16 must have memory of its own for each element"),
        ((a[:, :64], b[:, :64], a[:, 60:76]), "out of gemm.bf16 shares elements with a"),
        ((a[:16], b, b[:, :16]), "out of gemm.bf16 shares elements with b"),
        ((a[:0], b), "a of gemm.bf16 has no rows: [M, K] is [0, 128]; 1 and more would work"),
        ((a, b[:0]), "b of gemm.bf16 has no rows: [N, K] is [0, 128]"),
        ((a[:, :0], b[:, :0]), "a of gemm.bf16 has no columns"),
        ((a, [1.0]), "gemm.bf16 takes tensors, got a float as b"),
    ]
    with EmulatedDevice("gfx950") as device:
        for tensors, sentence in cases:
            with pytest.raises(AsmgenError) as caught:
                gemm.bf16(*tensors[:3], device=device, stream=tensors[3] if len(tensors) > 3 else None)
            assert sentence in str(caught.value) and "\n" not in str(caught.value), tensors
        assert device.launches == []
    for wrong, shown in (("gfx950", "the str 'gfx950'"), (SimpleNamespace(type="cuda"), "a SimpleNamespace"), (EmulatedDevice, "a type")):
        with pytest.raises(TensorError, match=f"device of gemm.bf16 must be a device of asmgen.launch, got {shown}; EmulatedDevice"):
            gemm.bf16(a, b, device=wrong)
    with pytest.raises(TensorError, match="a of gemm.bf16 is in host memory"):
        gemm.bf16(a, b)
