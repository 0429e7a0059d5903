"""Products of gemm-mx whose operands, scales and results span gigabytes, of which only touched pages exist: `python -m tests.far_mx`.

Batches far apart, rows as far apart as the contract allows and a step less, planes and shuffled weights whose parts lie far apart, long K.
The next stride above each limit must be refused. Values are small whole numbers and scales powers of two, so D is exact in float32; what
stands around each row of D is a canary.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from asmgen.author.contract.contract import ContractError
from asmgen.codeobject.load import CodeObject
from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.gemm_mx.problem import packed, planes, shuffled, shuffled_weights
from asmgen.kernels.registry import family
from asmgen.launch.emulated import EmulatedDevice
from asmgen.tools.running.build import Built, build_kernel
from tests.far_products import CANARY, GIB, FarLines

LIBRARY = family("gemm-mx")
CODES = {"fp4": [0, 2, 4, 10], "fp6": [0, 8, 16, 40], "bf6": [0, 12, 16, 44], "fp8": [0, 0x38, 0x40, 0xB8], "bf8": [0, 0x3C, 0x40, 0xBC]}
"""0, 1, 2 and -1 (OCP Microscaling Formats 1.0, OCP 8-bit Floating Point Specification 1.0)."""
NUMBERS = np.array([0.0, 1.0, 2.0, -1.0])
BITS = {"fp4": 4, "fp6": 6, "bf6": 6, "fp8": 8, "bf8": 8, "bf16": 16}
AROUND = 8  # canaries after a row of D
Case = tuple[dict[str, Any], dict[str, Any]]


@cache
def built(build: tuple[tuple[str, Any], ...]) -> Built:
    """One build for all cases of it."""
    return build_kernel(LIBRARY, "gfx950", {"out": "f32", **dict(build)})


def limits(build: dict[str, Any], name: str, step: int) -> list[int]:
    """The largest stride that a build takes, and one step less."""
    most = LIBRARY.contract("gfx950", build).parameter(name).maximum // step * step
    return [most - step, most]


def cases() -> list[Case]:
    """Builds and shapes."""
    tiled, any_, few = {"tile": "128x128x256"}, {"tile": "128x128x128"}, {"tile": "16x16x256"}
    small = {"m": 18, "n": 36, "k": 96}
    found: list[Case] = []
    for size in (2 * GIB, 4 * GIB, 16 * GIB):
        for shift in (-256, 0, 256):
            apart = {"a_stride_batch": 2 * (size + shift), "b_scale_stride_batch": size + shift + 1, "d_stride_batch": size // 4 + shift}
            found.append((tiled | {"split_k": 2, "scale_order": "plain"}, small | {"k": 288, "batch": 2} | apart))
            apart = {"a_stride_batch": (size // 24 + shift) * 32, "b_stride_batch": size + shift, "a_scale_stride_batch": size + shift}
            found.append((few | {"a_dtype": "fp6", "b_dtype": "fp8", "b_order": "shuffled"}, small | {"n": 32, "batch": 2} | apart))
    for build, names in ((tiled, "ab"), (any_ | {"a_dtype": "fp8", "b_dtype": "bf8"}, "ab"), (few, "ab"), (few | {"a_dtype": "bf16"}, "a"),
                         ({"tile": "256x256x128", "a_dtype": "fp6", "b_dtype": "bf6"}, "b"), ({"tile": "256x256x256"}, "a")):
        for name in names:
            for stride in limits(build, f"ld{name}", 32):
                found.append((build, small | {"m": 17, "n": 33, f"ld{name}": stride}))
    for build in (tiled | {"scale_order": "plain"}, tiled, few | {"scale_order": "plain"}, few):
        for name in "ab":
            for stride in limits(build, f"lds{name}", 8):
                found.append((build, small | {"m": 65, f"lds{name}": stride}))
    for stride in limits(tiled, "ldd", 1):
        found.append((tiled, small | {"ldd": stride}))
    for tile in (few, any_):  # five groups of rows: the second plane begins about 5 GiB after the first
        build = tile | {"a_dtype": "fp6", "b_dtype": "bf6", "fp6_storage": "planes"}
        found += [(build, small | {"m": 65, "lda": stride, "n": 36}) for stride in limits(build, "lda", 32)]
        found.append((build, small | {"n": 65, "ldb": limits(build, "ldb", 32)[1]}))
    found += [(few, {"m": 16, "n": 16, "k": (1 << 18) + 32}), (few | {"b_order": "shuffled"}, small | {"n": 48, "k": 128, "ldb": 1 << 24})]
    return found


def refused() -> list[Case]:
    """Shapes a step above a limit."""
    small = {"m": 1, "n": 16, "k": 32}
    found: list[Case] = []
    for build in ({"tile": "128x128x256"}, {"tile": "16x16x256"}):
        for name, step in (("lda", 32), ("ldb", 32), ("ldsa", 8), ("ldsb", 8), ("ldd", 1), ("ldc", 1)):
            found.append((build, small | {name: limits(build, name, step)[1] + step}))
    return found


def _scattered(dense: np.ndarray[Any, Any], lines: int, stride: int, batch: int, apart: int) -> FarLines:
    """Dense bytes [batch, lines, ...] at strides of bytes."""
    flat = dense.reshape(dense.shape[0], lines, -1)
    far = FarLines(batch, lines, flat.shape[2], stride, apart, np.uint8)
    far.lines[:len(flat)] = flat
    return far


def _operand(random: np.random.Generator, p: Any, name: str) -> tuple[FarLines, np.ndarray[Any, Any]]:
    """The bytes of A or B, and its values [matrices, rows, k]."""
    rows, k, dtype, apart = p["m" if name == "a" else "n"], p["k"], p[f"{name}_dtype"], p[f"{name}_stride_batch"]
    drawn = random.integers(0, 4, (p["batch"] if apart else 1, rows, k))
    bits, stride = BITS[dtype], p[f"ld{name}"] * BITS[dtype] // 8
    if dtype == "bf16":
        held = NUMBERS[drawn].astype(ml_dtypes.bfloat16).view(np.uint8)
        return _scattered(held, rows, stride, p["batch"], 2 * apart), NUMBERS[drawn]
    codes = np.array(CODES[dtype], np.uint8)[drawn]
    held = np.stack([packed(one, dtype) for one in codes])
    if bits == 6 and p["fp6_storage"] == "planes":
        groups = -(-rows // 16)
        parts = planes(held[0]).reshape(-1)
        first = parts.size * 2 // 3
        far = FarLines(1, 1, groups * 16 * stride, 0, 0, np.uint8)
        for begin, part, chunk in ((0, parts[:first], 16), (groups * 16 * stride * 2 // 3, parts[first:], 8)):
            apart = p[f"ld{name}"] * chunk // 2
            lines = np.lib.stride_tricks.as_strided(far.lines[0, 0, begin:], (groups, part.size // groups), (apart, 1))
            lines[:] = part.reshape(groups, -1)
        return far, NUMBERS[drawn]
    if name == "b" and p["b_order"] == "shuffled":
        dense = np.stack([shuffled_weights(one) for one in held])
        return _scattered(dense, rows // 16, 16 * stride, p["batch"], apart * bits // 8), NUMBERS[drawn]
    return _scattered(held, rows, stride, p["batch"], apart * bits // 8), NUMBERS[drawn]


def _scales(random: np.random.Generator, p: Any, name: str) -> tuple[FarLines, np.ndarray[Any, Any]]:
    """The bytes of scales, and what each column of a row is multiplied by."""
    rows, blocks, stride, apart = p["m" if name == "a" else "n"], -(-p["k"] // 32), p[f"lds{name}"], p[f"{name}_scale_stride_batch"]
    bytes_ = random.integers(126, 129, (p["batch"] if apart else 1, rows, -(-blocks // 8) * 8), dtype=np.uint8)
    factors = np.repeat(2.0 ** (bytes_[:, :, :blocks].astype(float) - 127), 32, 2)[:, :, :p["k"]]
    if p["scale_order"] == "shuffled":
        dense = np.stack([shuffled(one) for one in bytes_])
        return _scattered(dense, dense.shape[1] // 32, 32 * stride, p["batch"], apart), factors
    return _scattered(bytes_[:, :, :blocks].copy(), rows, stride, p["batch"], apart), factors


def failure(case: Case, order: str) -> str:
    """Launch a case; what is wrong, or nothing."""
    one = built(tuple(sorted(case[0].items())))
    contract = one.kernel.contract
    p = contract.resolve_run({**one.kernel.parameters, "ldd": case[1]["n"] + AROUND, **case[1]})
    random = np.random.default_rng(len(str(case)))
    far: dict[str, FarLines] = {}
    factors = {}
    for name in "ab":
        far[name], factors[name] = _operand(random, p, name)
        if name == "b" or p["a_dtype"] != "bf16":
            far[f"{name}_scale"], scale = _scales(random, p, name)
            factors[name] = factors[name] * scale
    d = far["d"] = FarLines(p["batch"], p["m"], p["n"], p["ldd"], p["d_stride_batch"], np.float32)
    d.all[:] = CANARY
    arguments = {argument.name: p[argument.name] for argument in contract.given if argument.type != "pointer"}
    arguments |= {name: held.address for name, held in far.items()} | {"c": d.address, "bias": d.address}
    with EmulatedDevice("gfx950", Options(order=order)) as device:
        for name, held in far.items():
            device.memory.register(held.address, held.nbytes, name)
        parts = {workspace: device.allocate(nbytes) for workspace, nbytes in contract.workspace_bytes_of(p).items()}
        code = CodeObject.load(one.code_object)
        for launch, kernel in zip(contract.launches, one.kernel.launches, strict=True):
            names = {argument.name for argument in launch.arguments}
            given = {name: value for name, value in {**arguments, **parts}.items() if name in names}
            result = device.launch(code.kernel(kernel.resources.name), launch.grid_of(p), launch.workgroup, given)
            if result.findings:
                return str(result.findings[0])
        for held in far.values():
            device.memory.free(held.address)
    wanted = np.broadcast_to(factors["a"] @ factors["b"].swapaxes(1, 2), d.lines.shape)
    if not np.array_equal(d.lines, wanted):
        return f"D is wrong in {int((d.lines != wanted).sum())} elements"
    return "" if (d.all[:, :, p["n"]:] == CANARY).all() else "a canary is gone"


def is_refused(case: Case) -> bool:
    """Whether the contract refuses a shape."""
    build, shape = case
    try:
        LIBRARY.contract("gfx950", build).resolve_run({**build, **shape})
    except ContractError:
        return True
    return False


def main(first: int = 0) -> int:
    """Run all from a number on; returns how many failed."""
    failed = 0
    some = cases()
    for number, case in list(enumerate(some))[first:]:
        wrong = failure(case, ("lockstep", "serial", "random:3")[number % 3])
        if wrong:
            failed += 1
            print(f"{number} {case}: {wrong}"[:600], flush=True)
    above = [case for case in refused() if not is_refused(case)]
    for case in above:
        print(f"{case}: not refused", flush=True)
    print(f"{len(some)} launches, {failed} failed; {len(refused())} above a limit, {len(above)} not refused")
    return failed + len(above)


if __name__ == "__main__":
    sys.exit(min(1, main(*(int(one) for one in sys.argv[1:2]))))
