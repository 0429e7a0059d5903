"""The library's functions on tensors of a GPU and on numpy arrays, through hip-python. Argument: an architecture."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import ml_dtypes
import numpy as np

from asmgen.kernels import gemm
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
        around = np.full((9, 60), 7, BF16)
        out = around[7:2:-1, 1:58:3]
        gemm.bf16(a[:, 8:72], b[:, 8:], out, device=device)
        assert np.array_equal(out.astype(np.float64), expected)
        out[...] = 7
        assert (around == 7).all()
    print("all of it")


main(*sys.argv[1:])
