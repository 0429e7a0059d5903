"""Random products of gemm-mx against the float64 reference: `python -m tests.random_mx [COUNT] [SEED]`.

Types, tiles, orders of scales, shapes with tails in every dimension, strides, batches, alpha, beta, bias, three orders of waves.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import numpy as np

from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.registry import family
from asmgen.tools.running.build import Built, build_kernel
from asmgen.tools.running.runner import run_kernel

LIBRARY = family("gemm-mx")
ANY = ("fp4", "fp6", "bf6", "fp8", "bf8")
RAW = ("bf16", "f16")
TILES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "128x128x256 interleave": (("fp4",), ("fp4",)), "256x256x256 interleave": (("fp4",), ("fp4",)),
    "128x128x128 interleave": ((*ANY, *RAW), ANY), "256x256x128 interleave": ((*ANY, *RAW), ANY),
    "64x128x256 blocked": (RAW, ("fp4",)),
    "32x128x256 streamed": ((*ANY, *RAW), ANY), "16x64x256 streamed": ((*ANY, *RAW), ANY), "16x16x256 basic": ((*ANY, *RAW), ANY),
    "16x32x256 whole-k": ((*ANY, *RAW), ANY)}
"""Types of A and of B by tile and schedule."""
ORDERS = ("lockstep", "serial", "random:5")
BUILDS = 60
"""Different builds: a build takes a second or more, and a run of another shape much less."""


def drawn_build(random: np.random.Generator) -> dict[str, Any]:
    """Build parameters of one kernel."""
    tile, schedule = str(random.choice([*TILES])).split()
    a, b = (str(random.choice(types)) for types in TILES[f"{tile} {schedule}"])
    scales = "none" if random.random() < 0.2 and tile not in ("128x128x256", "128x128x128") and a not in RAW else "block32"
    shuffled = b not in ("fp6", "bf6") and random.random() < 0.5
    return {"tile": tile, "schedule": schedule, "a_dtype": a, "b_dtype": b, "scales": scales,
            "b_order": "shuffled" if shuffled else "plain", "scale_order": str(random.choice(["plain", "shuffled"])),
            "fp6_storage": str(random.choice(["string", "planes"])), "quantise_to": str(random.choice(["fp4", "fp8"])),
            "rounding": str(random.choice(["even", "floor", "up"])),
            "out": str(random.choice(["bf16", "f16", "f32"])), "bias": str(random.choice(["none", "row"])),
            "split_k": int(random.choice([1, 1, 2, 3, 7])), "preload": bool(random.random() < 0.3),
            "mfma": "32x32x64" if tile == "256x256x256" and random.random() < 0.5 else "16x16x128"}


def drawn_shape(random: np.random.Generator, build: dict[str, Any]) -> dict[str, Any]:
    """Run parameters that fit a build."""
    edge = int(str(build["tile"]).split("x", maxsplit=1)[0])
    unit = 64 if build["b_order"] == "shuffled" and build["b_dtype"] == "fp4" else 32
    most = 512 if build["schedule"] == "whole-k" else 1280 if edge <= 128 else 640
    k = unit * int(random.integers(1, most // unit + 1))
    m, n = (int(random.integers(1, max(2 * edge, 64) + 2)) for _ in range(2))
    n = -(-n // 16) * 16 if build["b_order"] == "shuffled" else n
    shape: dict[str, Any] = {"m": m, "n": n, "k": k}
    for name in ("lda", "ldb"):
        if random.random() < 0.5:
            shape[name] = k + unit * int(random.integers(0, 5))
    for name in ("ldsa", "ldsb"):
        if random.random() < 0.5:
            whole = 1 if build["scale_order"] == "plain" else 8
            shape[name] = (-(-k // 32 // whole) + int(random.integers(4))) * whole
    if random.random() < 0.3:
        shape |= {"ldd": n + int(random.integers(0, 9)), "alpha": 0.75, "beta": -1.5, "ldc": n + int(random.integers(0, 9))}
    if random.random() < 0.25:
        shape |= {"batch": int(random.integers(2, 4))}
        for name in ("a_stride_batch", "b_stride_batch", "a_scale_stride_batch", "b_scale_stride_batch"):
            if random.random() < 0.4:
                shape[name] = 96 * 16 * int(random.integers(0, 9))  # one for all, or matrices that share elements
    return shape


@cache
def built(build: tuple[tuple[str, Any], ...]) -> Built:
    """A kernel, built once."""
    return build_kernel(LIBRARY, "gfx950", dict(build))


def check(build: dict[str, Any], shape: dict[str, Any], order: str, seed: int) -> str:
    """What is wrong with one run, nothing if all is right."""
    parameters = LIBRARY.contract("gfx950", build).resolve_run({**build, **shape})
    report = run_kernel(LIBRARY, built(tuple(build.items())), parameters, "emulator", seed=seed,
                        options=Options(order=order, count_banks=True))
    wrong = {"result": not report.passed, "other bytes": not report.untouched, "findings": report.findings != (),
             "bank conflicts": report.bank_conflicts != 0}
    return ", ".join(name for name, is_so in wrong.items() if is_so)


def main(count: int, seed: int) -> int:
    """Run so many products; the number of wrong ones."""
    random = np.random.default_rng(seed)
    builds = [drawn_build(random) for _ in range(min(count, BUILDS))]
    failures = 0
    for number in range(count):
        build = builds[number % len(builds)]
        shape = drawn_shape(random, build)
        order = ORDERS[number % len(ORDERS)]
        wrong = check(build, shape, order, number)
        if wrong:
            failures += 1
            print(f"{build} {shape} {order} seed {number}: {wrong}", flush=True)
    print(f"{count} products, {failures} wrong")
    return failures


if __name__ == "__main__":
    sys.exit(1 if main(*(int(one) for one in (*sys.argv[1:], *("300", "0")[len(sys.argv) - 1:]))) else 0)
