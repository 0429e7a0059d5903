"""The library's functions on tensors of a GPU and on numpy arrays, through hip-python. Argument: an architecture."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace

import ml_dtypes
import numpy as np

from asmgen.kernels import gemm
from asmgen.kernels.tensors import TensorError
from asmgen.launch.hip import HipDevice

BF16 = np.dtype(ml_dtypes.bfloat16)


class GpuTensor:
    """What PyTorch shows of a tensor on a GPU: `columns` of rows that are `stride` elements apart."""

    dtype = "torch.bfloat16"

    def __init__(self, memory: HipDevice, array: np.ndarray, columns: slice) -> None:
        self.memory, self.whole, self.columns = memory, array, columns
        self.buffer = memory.upload(array)
        self.device = SimpleNamespace(type="cuda", index=memory.gpu.index)
        self.shape = array[:, columns].shape

    def data_ptr(self) -> int:
        return self.buffer.address + 2 * self.columns.start

    def stride(self) -> tuple[int, int]:
        return self.whole.shape[1], 1

    def element_size(self) -> int:
        return 2

    def numpy(self) -> np.ndarray:
        """All of the storage."""
        return self.memory.read(self.buffer, BF16, self.whole.shape)


class Turned:
    """The transpose of one."""

    def __init__(self, of: GpuTensor) -> None:
        self.of, self.dtype, self.device, self.shape = of, of.dtype, of.device, of.shape[::-1]
        self.data_ptr, self.element_size = of.data_ptr, of.element_size

    def stride(self) -> tuple[int, int]:
        return self.of.stride()[::-1]


def whole_numbers(rows: int, columns: int, seed: int) -> np.ndarray:
    """Their products are exact."""
    return np.random.default_rng(seed).integers(-3, 4, (rows, columns)).astype(BF16)


def main(arch: str) -> None:
    a, b = whole_numbers(5, 80, 1), whole_numbers(19, 72, 2)
    expected = a[:, 8:72].astype(np.float64) @ b[:, 8:].astype(np.float64).T
    with HipDevice(arch) as device:
        tensors = [GpuTensor(device, a, slice(8, 72)), GpuTensor(device, b, slice(8, 72)),
                   GpuTensor(device, np.full((5, 40), 7, BF16), slice(3, 22))]
        for stream in (None, device.stream()):
            device.write(tensors[2].buffer, tensors[2].whole)
            assert gemm.bf16(*tensors, device=device, stream=stream) is tensors[2]
            device.synchronize()
            found = tensors[2].numpy()
            assert np.array_equal(found[:, 3:22].astype(np.float64), expected)
            found[:, 3:22] = 7
            assert (found == 7).all()
        lists = [[GpuTensor(device, one, slice(8, 72)) for one in some] for some in ((a, -a, a), (b, b, whole_numbers(19, 72, 3)))]
        outs = [GpuTensor(device, np.full((5, 40), 7, BF16), slice(3, 22)) for _ in range(3)]
        assert gemm.matmul(lists[0], [Turned(one) for one in lists[1]], outs, device=device) == outs
        for x, y, out in zip(*lists, outs, strict=True):
            wanted = x.whole[:, 8:72].astype(np.float64) @ y.whole[:, 8:].astype(np.float64).T
            assert np.array_equal(out.numpy()[:, 3:22].astype(np.float64), wanted) and (out.numpy()[:, :3] == 7).all()
        twice = [2 * out.numpy()[:, 3:22] for out in outs]
        gemm.matmul(lists[0], [Turned(one) for one in lists[1]], outs, c=outs, beta=1.0, device=device, stream=device.stream())
        assert all(np.array_equal(out.numpy()[:, 3:22], two) for out, two in zip(outs, twice, strict=True))
        for wrong, sentence in ((outs[:2], "another list 3"), ([outs[0], outs[1], outs[0]], r"out\[0\] of gemm.matmul shares elements")):
            try:
                gemm.matmul(lists[0], [Turned(one) for one in lists[1]], wrong, device=device)
            except TensorError as error:
                assert re.search(sentence, str(error)), error
            else:
                raise AssertionError(sentence)
        around = np.full((9, 60), 7, BF16)
        out = around[7:2:-1, 1:58:3]
        gemm.bf16(a[:, 8:72], b[:, 8:], out, device=device)
        assert np.array_equal(out.astype(np.float64), expected)
        out[...] = 7
        assert (around == 7).all()
    print("all of it")


main(*sys.argv[1:])
