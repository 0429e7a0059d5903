"""Random products of gemm-bf16 and gemm-fp8 against the float64 reference: `python -m tests.random_gemm [COUNT] [SEED]`.

Both targets, types, layouts of all matrices, tiles, split K with sums in order or by memory, batches, strides, alpha, beta, bias, scales,
edges of 1 to 600, data with NaN and infinities by turns, and the three orders of waves by turns. What no kernel may write are canaries.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import numpy as np

from asmgen.author.contract.contract import ContractError
from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.registry import family
from asmgen.tools.build import Built, build_kernel
from asmgen.tools.runner import run_kernel
from tests.drawn_cases import failed_of

ORDERS = ("lockstep", "serial", "random:5")
MOST = 600
ALL = 10  # one of so many cases runs in all orders, the others in one of them by turns
TILES = 24  # of dot products along an edge
BUILDS = 60
"""Different builds: a build takes a second or more, and a run of another shape much less."""


def drawn_build(random: np.random.Generator) -> tuple[str, str, dict[str, Any]]:
    """Family, target and build parameters of one kernel; of what no variant serves another one is drawn."""
    while True:
        name, arch = str(random.choice(["gemm-bf16", "gemm-fp8"])), str(random.choice(["gfx950", "gfx942"]))
        library = family(name)
        variants = library.variants(arch)
        variant = variants[int(random.integers(len(variants)))]
        layouts = {f"{one}_layout": str(random.choice(["row", "column"])) for one in "abd"}
        build: dict[str, Any] = {**layouts, "c_layout": layouts["d_layout"], "out": str(random.choice(["bf16", "f16", "f32"])),
                                 "bias": str(random.choice(["none", "row", "column"])), "split_k": int(random.choice([1, 1, 2, 3, 5])),
                                 "reduce": str(random.choice(["ordered", "ordered", "atomic"])), "preload": bool(random.random() < 0.3),
                                 "pointers": bool(random.random() < 0.2)}
        if name == "gemm-bf16":
            build["dtype"] = str(random.choice(["bf16", "f16"]))
        else:
            build |= {f"{one}_dtype": str(random.choice(["e4m3", "e5m2"])) for one in "ab"}
            build["scales"] = str(random.choice(["tensor", "row"]))
        build |= library.fixed(variant)
        if True in library.contract_of(variant).parameter("any_k").choices:
            build["any_k"] = bool(random.random() < 0.4)
        if "persistent" not in build and random.random() < 0.3:
            build |= {"split_k": 1, str(random.choice(["persistent", "stream_k"])): True}
        try:
            library.contract_of(variant, build).resolve_build(build)
        except ContractError:
            continue
        return name, arch, build


def drawn_shape(random: np.random.Generator, one: Built) -> dict[str, Any]:
    """Run parameters that the contract takes."""
    contract, build = one.kernel.contract, one.kernel.parameters
    steps, most, edges = contract.parameter("k").multiple_of, MOST, [MOST, MOST]
    if build["schedule"] == "dot-products":  # a workgroup has few elements of D and many columns of K
        *of_d, of_k = map(int, str(build["tile"]).split("x"))
        most, edges = 4 * of_k, [TILES * one for one in of_d]
    while True:
        m, n = (int(np.exp(random.uniform(0, np.log(edge + 1)))) for edge in edges)
        k = steps * int(random.integers(1, max(2, most // steps + 1)))
        shape: dict[str, Any] = {"m": m, "n": n, "k": k, "batch": int(random.choice([1, 1, 2, 3])),
                                 "alpha": float(random.choice([1.0, 1.0, -0.5])), "beta": float(random.choice([0.0, 0.0, 2.0]))}
        if build.get("persistent") or build.get("stream_k"):
            shape["workgroups"] = int(random.integers(1, 4 if build.get("persistent") else 9))
        for name, rows, columns in (("a", m, k), ("b", n, k), ("d", m, n), ("c", m, n)):
            line, lines = (rows, columns) if build[f"{name}_layout"] == "column" else (columns, rows)
            unit = contract.parameter(f"ld{name}").multiple_of
            shape[f"ld{name}"] = unit * (-(-line // unit) + int(random.choice([0, 0, 1, 3])))
            shape[f"{name}_stride_batch"] = lines * shape[f"ld{name}"] + unit * int(random.choice([0, 0, 1, 5]))
            if name != "d" and random.random() < 0.1:
                shape[f"{name}_stride_batch"] = 0
        try:
            contract.resolve_run({**build, **shape})
        except ContractError:
            continue
        return shape


@cache
def built(seed: int) -> tuple[str, Built]:
    """The build of a number."""
    name, arch, build = drawn_build(np.random.default_rng([seed, 77]))
    return name, build_kernel(family(name), arch, build)


def failure(number: int, seed: int = 0) -> str:
    """Launch a case; what is wrong with it, or nothing."""
    random = np.random.default_rng([seed, number])
    name, one = built(BUILDS * seed + int(random.integers(BUILDS)))
    shape = drawn_shape(random, one)
    parameters = one.kernel.contract.resolve_run({**one.kernel.parameters, **shape})
    for order in ORDERS if number % ALL == 0 else (ORDERS[number % len(ORDERS)],):
        report = run_kernel(family(name), one, parameters, "emulator", number, Options(order=order), program=one.kernel.program)
        if not (report.passed and report.untouched) or report.findings:
            return f"case {number} {order}: {one.kernel.contract.stem} {one.kernel.parameters} {shape}: {report}"
    return ""


def main(count: int, seed: int) -> int:
    """Run that many cases; returns how many failed."""
    return failed_of(failure, count, seed)


if __name__ == "__main__":
    sys.exit(min(1, main(*(int(argument) for argument in [*sys.argv[1:3], *("300", "0")[len(sys.argv) - 1:]]))))
