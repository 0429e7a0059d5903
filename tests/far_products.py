"""Products whose operands span 2, 4 and 16 GiB of memory, of which only touched pages exist: `python -m tests.far_products`.

Batches far apart, lines far apart of matrices by rows and by columns, strides that no wide load serves, products of few rows: 89
cases, some bytes below and above each size.
Values are small whole numbers, so D is exact in float32; what stands around each line of D is a canary.
"""

from __future__ import annotations

import mmap
import sys
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np

from asmgen.codeobject.load import CodeObject
from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.registry import family
from asmgen.launch.emulated import EmulatedDevice
from asmgen.tools.running.build import Built, build_kernel

CANARY = -77.0
GIB = 1 << 30
_NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux, which Python's mmap does not name
_PAGE = 4096
_AROUND = 8  # canaries behind a line of D


class FarLines:
    """`batch` times `lines` lines of `line` elements, the lines `stride` and the matrices `apart` elements apart, in zeroed memory of their
    own."""

    def __init__(self, batch: int, lines: int, line: int, stride: int, apart: int, dtype: Any) -> None:
        size = np.dtype(dtype).itemsize
        self.nbytes = ((batch - 1) * apart + (lines - 1) * stride + line + _AROUND) * size
        self._map = mmap.mmap(-1, -(-self.nbytes // _PAGE) * _PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
        self._map.madvise(mmap.MADV_NOHUGEPAGE)
        flat = np.frombuffer(self._map, np.uint8)
        self.address = flat.ctypes.data
        elements = flat[:flat.size // size * size].view(dtype)
        self.all = np.lib.stride_tricks.as_strided(elements, (batch, lines, line + _AROUND), (apart * size, stride * size, size))
        self.lines = self.all[:, :, :line]


@dataclass(frozen=True)
class FarCase:
    """A build and a shape."""

    build: tuple[tuple[str, Any], ...]
    shape: tuple[tuple[str, int], ...]


@cache
def built(build: tuple[tuple[str, Any], ...]) -> Built:
    """One build for all cases of it."""
    return build_kernel(family("gemm-bf16"), "gfx950", {"out": "f32", **dict(build)})


def cases() -> list[FarCase]:
    """65 of tiles, and 24 of few rows."""
    small = {"m": 20, "n": 36, "k": 128}
    tiled, column = {"tile": "64x64x64"}, {"tile": "64x64x64", "a_layout": "column", "b_layout": "column"}
    found = []
    for size, step in product((2 * GIB, 4 * GIB, 16 * GIB), (-1, 0, 1)):
        for name, bytes_ in (("a", 2), ("b", 2), ("d", 4)):  # matrices of a batch
            apart = {f"{name}_stride_batch": size // bytes_ + 8 * step}
            found.append((tiled | ({"split_k": 2} if step == 0 else {}), small | {"batch": 2, **apart}))
        for name in "ab":  # 256 lines along K that span so much, 64 of them under a descriptor
            found.append((column, {"m": 24, "n": 40, "k": 256, f"ld{name}": min(size // 2 // 256 + 8 * step, (1 << 32) // 128 - 8)}))
        found.append((tiled, small | {"m": 65, "lda": min(size // 2 // 65 // 8 * 8 + 8 * step, (1 << 32) // 64 - 8)}))
    for size, step in product((2 * GIB, 4 * GIB), (-1, 1)):
        found.append((tiled | {"d_layout": "column", "c_layout": "column"}, small | {"ldd": size // 4 // 36 + step}))
        found.append(({"schedule": "elements"}, small | {"m": 65, "k": 77, "lda": min(size // 2 // 65 + step, (1 << 25) - 1), "ldb": 79}))
    found += [({"schedule": "elements", "a_layout": "column"}, small | {"k": 99, "lda": 4 * GIB // 2 // 99 + 1}),
              (tiled, small | {"batch": 3, "a_stride_batch": 8 * GIB, "b_stride_batch": 0}),
              ({"schedule": "in-order", "tile": "64x64x32", "a_layout": "column", "b_layout": "column"},
               small | {"lda": (1 << 25) - 8, "ldb": (1 << 25) - 8})]
    dots, few = {"tile": "4x8x512", "schedule": "dot-products"}, {"m": 4, "n": 36, "k": 1100, "lda": 1100, "ldb": 1102}
    for size, step in product((2 * GIB, 4 * GIB, 16 * GIB), (-1, 1)):
        found += [(dots, few | {"batch": 2, "b_stride_batch": size // 2 + 2 * step}),
                  (dots, few | {"ldb": min(size // 2 // 36 // 2 * 2 + 2 * step, (1 << 32) // 16 - (1 << 13))})]
        odd = few | {"k": 1101, "lda": 1103, "ldb": 1105}  # rows that begin inside of dwords
        found += [(dots | {"any_stride": True}, odd | {"batch": 2, "b_stride_batch": size // 2 + step}),
                  (dots | {"any_stride": True}, odd | {"ldb": min(size // 2 // 36 // 2 * 2 + step, (1 << 32) // 16 - (1 << 13) + 1)})]
    return [FarCase(tuple(sorted(build.items())), tuple(sorted({"ldd": shape["n"] + _AROUND, **shape}.items()))) for build, shape in found]


def failure(case: FarCase, order: str = "lockstep") -> str:
    """Launch a case; what is wrong, or nothing."""
    one = built(case.build)
    contract = one.kernel.contract
    p = contract.resolve_run({**one.kernel.parameters, **dict(case.shape)})
    rng = np.random.default_rng(len(str(case)))
    batch, values, far = p["batch"], {}, {}
    for name, rows, columns, dtype in (("a", p["m"], p["k"], ml_dtypes.bfloat16), ("b", p["n"], p["k"], ml_dtypes.bfloat16),
                                       ("d", p["m"], p["n"], np.float32)):
        lines, line = (columns, rows) if p[f"{name}_layout"] == "column" else (rows, columns)
        far[name] = FarLines(batch, lines, line, p[f"ld{name}"], p[f"{name}_stride_batch"], dtype)
        if name == "d":
            far[name].all[:] = CANARY
            continue
        drawn = rng.integers(-2, 3, (batch if p[f"{name}_stride_batch"] else 1, lines, line)).astype(np.float64)
        far[name].lines[:] = drawn
        values[name] = drawn.swapaxes(1, 2) if p[f"{name}_layout"] == "column" else drawn
    expected = values["a"] @ values["b"].swapaxes(1, 2)
    arguments = {argument.name: p[argument.name] for argument in contract.given if argument.type != "pointer"}
    arguments |= {name: one.address for name, one in far.items()} | {"c": far["d"].address, "bias": far["d"].address}
    with EmulatedDevice("gfx950", Options(order=order)) as device:
        for name, matrix in far.items():
            device.memory.register(matrix.address, matrix.nbytes, name)
        parts = {workspace: device.allocate(nbytes) for workspace, nbytes in contract.workspace_bytes_of(p).items()}
        code = CodeObject.load(one.code_object)
        for launch, kernel in zip(contract.launches, one.kernel.launches, strict=True):
            names = {argument.name for argument in launch.arguments}
            given = {name: value for name, value in {**arguments, **parts}.items() if name in names}
            result = device.launch(code.kernel(kernel.resources.name), launch.grid_of(p), launch.workgroup, given)
            if result.findings:
                return f"{case}: {result.findings[0]}"
        for matrix in far.values():
            device.memory.free(matrix.address)
    d = far["d"].lines.astype(np.float64)
    if not np.array_equal(d.swapaxes(1, 2) if p["d_layout"] == "column" else d, np.broadcast_to(expected, (batch, p["m"], p["n"]))):
        return f"{case}: D is wrong"
    return "" if (far["d"].all[:, :, p["m"] if p["d_layout"] == "column" else p["n"]:] == CANARY).all() else f"{case}: a canary is gone"


def main() -> int:
    """Run all; returns how many failed."""
    failed = 0
    some = cases()
    for number, case in enumerate(some, 1):
        wrong = failure(case, ("lockstep", "serial", "random:3")[number % 3])
        failed += bool(wrong)
        if wrong:
            print(wrong[:400], flush=True)
    print(f"{len(some)} cases, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(min(1, main()))
