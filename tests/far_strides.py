"""Launches of products whose rows lie up to 64 MiB apart: a tile spans 4 GiB and more of memory, of which only touched pages exist.

    with FarDevice("gfx950") as far:
        far.check(build_kernel(family("gemm-bf16"), "gfx950", {"out": "f32"}), {"m": 256, "n": 5, "k": 64, "ldd": 4210752})

    python -m tests.far_strides      # every variant at both sides of each stride at which 32 bits of bytes end
"""

from __future__ import annotations

import mmap
import sys
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import ml_dtypes
import numpy as np

from asmgen.author.builders.tilebuilder import TileBuilder
from asmgen.author.contract.contract import ContractArgument, Formula, KernelContract, Parameter
from asmgen.author.tiles.fragments import MatrixShape
from asmgen.codeobject.load import CodeObject
from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.registry import family
from asmgen.launch.emulated import EmulatedDevice
from asmgen.tools.running.build import Built, build_kernel

Array = np.ndarray[Any, Any]
TYPES: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "fp8": ml_dtypes.float8_e4m3fn}
FNUZ = ml_dtypes.float8_e4m3fnuz
CANARY = -77.0
_PAD = 40  # elements behind a row that nobody may touch
_NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux, which Python's mmap does not name: more than the machine has may be mapped
_PAGE = 4096


class FarMatrix:
    """Zeroed rows, `stride` elements apart, with a pad of canaries behind each, in a mapping of their own."""

    def __init__(self, rows: int, columns: int, stride: int, dtype: Any, canary: float = CANARY) -> None:
        size = np.dtype(dtype).itemsize
        nbytes = ((rows - 1) * stride + columns + _PAD) * size
        self._map = mmap.mmap(-1, -(-nbytes // _PAGE) * _PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
        self._map.madvise(mmap.MADV_NOHUGEPAGE)
        flat = np.frombuffer(self._map, np.uint8)
        self.address, self.nbytes = flat.ctypes.data, nbytes
        pad = min(_PAD, stride - columns)
        elements = flat[:flat.size // size * size].view(dtype)
        self.all = np.lib.stride_tricks.as_strided(elements, (rows, columns + pad), (stride * size, size))
        self.rows = self.all[:, :columns]
        self.all[:, columns:] = canary

    def resident(self) -> int:
        """KiB of the mapping that exist."""
        inside = False
        for line in Path("/proc/self/smaps").read_text().splitlines():
            if "-" in line.split(" ", 1)[0]:
                first, last = (int(part, 16) for part in line.split(" ", 1)[0].split("-"))
                inside = first <= self.address < last
            elif inside and line.startswith("Rss:"):
                return int(line.split()[1])
        raise AssertionError("the mapping is gone")


class FarDevice:
    """An emulator for launches of products with far rows."""

    def __init__(self, arch: str, order: str = "lockstep") -> None:
        self.arch = arch
        self.device = EmulatedDevice(arch, Options(order=order))

    def __enter__(self) -> FarDevice:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.device.close()

    def check(self, built: Built, shape: dict[str, Any], in_place: bool = False, seed: int = 0) -> None:
        """Launch with small whole numbers, a NaN and an infinity, and compare D with float64, bit for bit; nothing else may change.

        `in_place`: c is d. Raises AssertionError.
        """
        contract = built.kernel.contract
        p = contract.resolve_run({**built.kernel.parameters, **shape})
        m, n, k = p["m"], p["n"], p["k"]
        rng = np.random.default_rng(seed)
        given = TYPES[p["out"]]
        taken = TYPES[p["dtype"]] if "dtype" in p else TYPES["fp8"] if p["encoding"] == "ocp" else FNUZ
        far = {"a": FarMatrix(m, k, p["lda"], taken), "b": FarMatrix(n, k, p["ldb"], taken), "d": FarMatrix(m, n, p["ldd"], given)}
        far["c"] = far["d"] if in_place else FarMatrix(m if p["beta"] else 1, n, p["ldc"], given)
        a, b = (rng.integers(-1, 2, (count, k)).astype(np.float64) for count in (m, n))
        a[m // 3, 3] = np.nan
        if "dtype" in p:
            b[:, 3] = np.where(b[:, 3] == 0, 1, b[:, 3])
            a[m // 2, 3] = np.inf
        far["a"].rows[:], far["b"].rows[:] = a, b
        far["d"].rows[:] = CANARY
        c = rng.integers(-40, 40, far["c"].rows.shape).astype(np.float64)
        far["c"].rows[:] = c
        bias = rng.integers(-9, 9, n).astype(given)
        with np.errstate(invalid="ignore"):
            expected = p["alpha"] * (a @ b.T)
            expected = expected + p["beta"] * c if p["beta"] else expected
        expected = expected + bias.astype(np.float64) if p["bias"] == "row" else expected
        arguments = {name: p[name] for name in ("m", "n", "k", "lda", "ldb", "ldd", "alpha", "beta", "ldc")}
        arguments |= {name: value for name, value in p.items() if name.endswith("_stride_batch")}
        arguments |= {name: one.address for name, one in far.items()} | {"bias": bias}
        if "scales" in p:
            steps = -(-k // 128)
            sizes = {"tensor": (1, 1), "row": (m, n), "block": (steps * m, -(-n // 128) * steps)}[p["scales"]]
            arguments |= {"a_scale": np.ones(sizes[0], np.float32), "b_scale": np.ones(sizes[1], np.float32)}
        memory = self.device.memory
        for name, one in far.items():
            if name != "c" or not in_place:
                memory.register(one.address, one.nbytes, name)
        before = far["d"].resident()
        try:
            record = CodeObject.load(built.code_object).kernel(built.kernel.resources.name)
            self.device.programs[record.name] = built.kernel.program
            result = self.device.launch(record, contract.grid_of(p), contract.workgroup, arguments)
        finally:
            for name, one in far.items():
                if name != "c" or not in_place:
                    memory.free(one.address)
        assert not result.findings, [str(finding) for finding in result.findings[:3]]
        np.testing.assert_array_equal(far["d"].rows.astype(np.float64), expected.astype(given).astype(np.float64))
        assert (far["d"].all[:, n:].astype(np.float64) == CANARY).all(), "elements behind a row were changed"
        assert far["d"].resident() == before, "bytes between the rows were written"


@cache
def built(name: str, arch: str, build: tuple[tuple[str, Any], ...]) -> Built:
    """One build for all launches of it."""
    return build_kernel(family(name), arch, dict(build))


def far_builder(numbers: tuple[str, ...], limit: Parameter) -> tuple[TileBuilder, MatrixShape]:
    """Of four waves, with pointers d and a."""
    arguments = tuple([ContractArgument(name, "pointer", "") for name in "da"] + [ContractArgument(name, "u32", "") for name in numbers])
    k = TileBuilder(KernelContract("far", "far", ("gfx950",), (limit,), arguments, (256, 1, 1), Formula("one", lambda _: (1, 1, 1))),
                    "gfx950", {}, workgroup_ids="xyz")
    return k, k.matrix_shape("f32_16x16x32_bf16")


def sides(rows: int, size: int) -> list[int]:
    """Strides in elements of `size` bytes around those at which `rows` of them, and halves, take 4 GiB; the issue's own; the largest."""
    limits = [(1 << 32) // (count * size) for count in (rows, rows - 1, rows // 2, rows // 2 - 1)]
    return sorted({limit + step for limit in limits for step in (-4, 0, 4)} | {4210748, 4210752, 8421504, 8454664, (1 << 24) - 1})


def sweep(name: str, arch: str, order: str) -> int:
    """Launch every variant of a family at all sides, D and C by turns, whole and cut columns. Returns how many launches failed."""
    failed = 0
    for variant in family(name).variants(arch):
        for out in ("f32", "bf16"):
            scales = {key: value for key, value in variant.further if key == "scales"}
            one = build_kernel(family(name), arch, {"tile": variant.tile_text, "schedule": variant.schedule, "out": out} | scales)
            most = int(one.kernel.contract.parameter("ldd").maximum or 0)
            tm, tn, _ = variant.tile
            strides = [stride for stride in sides(tm, 4 if out == "f32" else 2) if stride < most]
            for number, stride in enumerate([*strides, most]):
                shape = {"m": tm + 1, "n": tn + (3 if number % 2 else 0), "k": variant.tile[2], "ldd": stride}
                if number % 3 == 1:
                    shape |= {"beta": -1.0, "alpha": 2.0, "ldc": stride}
                with FarDevice(arch, order) as far:
                    try:
                        far.check(one, shape, in_place=number % 6 == 1, seed=number)
                    except AssertionError as error:
                        failed += 1
                        print(f"{name} {arch} {variant} out={out} {shape}: {' '.join(str(error).split())[:200]}")
        print(f"{name} {arch} {variant}: done", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(min(1, sum(sweep(name, arch, "lockstep") for name in ("gemm-bf16", "gemm-fp8") for arch in ("gfx950", "gfx942"))))
