"""Random products of gemm-bf16 and gemm-fp8 against the float64 reference: `python -m tests.random_gemm [COUNT] [SEED]`.

Both targets, all build parameters of all variants as far as their contracts take them together, batches, strides, alpha, beta, edges of 1
to 600, data with NaN and infinities by turns, and the three orders of waves by turns. What no kernel may write are canaries.
"""

from __future__ import annotations

import sys
from functools import cache
from random import Random
from typing import Any

import numpy as np

from asmgen.author.contract.contract import ContractError
from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.products.streams import CHUNK
from asmgen.kernels.registry import family
from asmgen.tools.buildsweep import Combinations
from asmgen.tools.running.build import Built, build_kernel
from asmgen.tools.running.runner import run_kernel
from tests.drawn_cases import failed_of

ORDERS = ("lockstep", "serial", "random:5")
MOST = 600
ALL = 10  # one of so many cases runs in all orders, the others in one of them by turns
TILES = 24  # of dot products along an edge
CHUNKS = 3  # of a tile that workgroups share: as many parts of it
TRIES = 5000  # shapes that are drawn for one that the contract takes; with A and B by columns of bytes it takes one of a hundred
BUILDS = 60
"""Different builds: a build takes a second or more, and a run of another shape much less."""


def drawn_build(random: np.random.Generator) -> tuple[str, str, dict[str, Any]]:
    """Family, target and build parameters of one kernel: all that its variant's contract takes together, in a drawn order. Most
    are split or of workgroups that make several tiles, which fewer variants and combinations take than would be drawn."""
    name, arch = str(random.choice(["gemm-bf16", "gemm-fp8"])), str(random.choice(["gfx950", "gfx942"]))
    library, draw = family(name), Random(int(random.integers(1 << 32)))
    given = draw.choice([{"persistent": True}, {"stream_k": True}, {"split_k": draw.choice([2, 3, 5, 17])}, {}])
    while True:
        build = Combinations(library, draw.choice(library.variants(arch)), draw).completed(given, ranges=True)
        if build is not None:
            return name, arch, build


def drawn_shape(random: np.random.Generator, one: Built) -> dict[str, Any]:
    """Run parameters that the contract takes. Raises ContractError where it takes none of those that are drawn."""
    contract, build = one.kernel.contract, one.kernel.parameters
    steps, most, edges = contract.parameter("k").multiple_of, MOST, [MOST, MOST]
    *of_d, of_k = map(int, str(build["tile"]).split("x"))
    if build["schedule"] == "dot-products":  # a workgroup has few elements of D and many columns of K
        most, edges = 4 * of_k, [TILES * one for one in of_d]
    if build["stream_k"]:
        most = max(most, CHUNKS * CHUNK * of_k)
    if build["persistent"] and build["split_k"] > 1:  # three steps and more in each part
        most = max(most, 4 * build["split_k"] * of_k)
    refused = None
    for _ in range(TRIES):
        m, n = (int(np.exp(random.uniform(0, np.log(edge + 1)))) for edge in edges)
        k = steps * int(random.integers(1, max(2, most // steps + 1)))
        shape: dict[str, Any] = {"m": m, "n": n, "k": k, "batch": int(random.choice([1, 1, 2, 3])),
                                 "alpha": float(random.choice([1.0, 1.0, -0.5])), "beta": float(random.choice([0.0, 0.0, 2.0]))}
        if build["persistent"] or build["stream_k"]:
            shape["workgroups"] = int(random.integers(1, 9 if build["stream_k"] else 4))
            if build["stream_k"] and random.random() < 0.2:
                shape["share"] = int(random.integers(1, 20))
        for name, rows, columns in (("a", m, k), ("b", n, k), ("d", m, n), ("c", m, n)):
            line, lines = (rows, columns) if build[f"{name}_layout"] == "column" else (columns, rows)
            unit = contract.parameter(f"ld{name}").multiple_of
            shape[f"ld{name}"] = unit * (-(-line // unit) + int(random.choice([0, 0, 1, 3])))
            shape[f"{name}_stride_batch"] = lines * shape[f"ld{name}"] + unit * int(random.choice([0, 0, 1, 5]))
            if name != "d" and random.random() < 0.1:
                shape[f"{name}_stride_batch"] = 0
        try:
            contract.resolve_run({**build, **shape})
        except ContractError as error:
            refused = error
        else:
            return shape
    raise ContractError(f"of {TRIES} drawn shapes {contract.stem} takes none with {build}; the last one: {refused}")


@cache
def built(seed: int) -> tuple[str, Built]:
    """The build of a number."""
    name, arch, build = drawn_build(np.random.default_rng([seed, 77]))
    return name, build_kernel(family(name), arch, build)


def failure(number: int, seed: int = 0) -> str:
    """Launch a case; what is wrong with it, or nothing."""
    random = np.random.default_rng([seed, number])
    name, one = built(BUILDS * seed + int(random.integers(BUILDS)))
    try:
        shape = drawn_shape(random, one)
    except ContractError as error:
        return f"case {number}: {error}"
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
