"""The library's gemm-bf16 on the emulator, whole: `python -m benchmarks.gemm [m n k launches]`, by default 1024 x 1024 x 512.

Launches with checks off and on take turns, so that what else the machine does meets both; of each kind the least and the median CPU time
of this process are shown, and what checks cost.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection
from statistics import median

import numpy as np

from asmgen.codeobject.arguments import pack
from asmgen.codeobject.load import CodeObject
from asmgen.kernels.registry import family
from asmgen.tools.running.build import build_kernel
from asmgen.tools.running.runner import Options, emulator, run_kernel

LAUNCHES = 12


def launcher(arch: str, sizes: dict[str, int], checks: bool | Collection[str]) -> Callable[[], float]:
    """A function that launches the kernel once more, on data that is uploaded already, and returns the flop of it.

    The result was compared with the reference once. Raises SystemExit for a wrong one, and for findings.
    """
    library = family("gemm-bf16")
    parameters = library.contract(arch).resolve_run(sizes)
    built = build_kernel(library, arch, {})
    options, program, contract = Options(checks=checks), built.kernel.program, built.kernel.contract
    first = run_kernel(library, built, parameters, "emulator", program=program, options=options)
    if not first.passed or first.findings:
        raise SystemExit(f"gemm-bf16 on {arch} went wrong")
    arguments = library.problem(parameters, 0).arguments
    device = emulator(built, arch, options, lambda sentence: None, program)
    values = {one.name: device.upload(value).address if isinstance(value := arguments[one.name], np.ndarray) else value
              for one in contract.arguments}
    packed = pack(contract.arguments, values)
    kernel = device.load(CodeObject.load(built.code_object)).kernel(built.kernel.resources.name)
    grid, flop = contract.grid_of(parameters), float(2 * sizes["m"] * sizes["n"] * sizes["k"])

    def run() -> float:
        device.launch(kernel, grid, contract.workgroup, packed)
        if device.launches.pop().findings:
            raise SystemExit(f"gemm-bf16 on {arch} has findings")
        return flop

    return run


def in_turns(runs: list[Callable[[], float]], times: int) -> list[list[float]]:
    """CPU seconds of `times` rounds in which each of `runs` goes once, after one that nobody times."""
    seconds: list[list[float]] = [[] for _ in runs]
    for number in range(times + 1):
        for run, found in zip(runs, seconds, strict=True):
            began = time.process_time()
            run()
            if number:
                found.append(time.process_time() - began)
    return seconds


def main(m: int = 1024, n: int = 1024, k: int = 512, launches: int = LAUNCHES) -> None:
    """Milliseconds, GFLOP/s and what checks cost on both architectures: the ratios of the least, of the medians, and the median pair's."""
    print(f"gemm-bf16 {m} x {n} x {k}".ljust(30) + "checks".rjust(8) + "least ms".rjust(10) + "median ms".rjust(11) + "GFLOP/s".rjust(9))
    for arch in ("gfx942", "gfx950"):
        off, on = in_turns([launcher(arch, {"m": m, "n": n, "k": k}, checks) for checks in (False, True)], launches)
        for name, found in (("off", off), ("on", on)):
            rate = 2 * m * n * k / min(found) / 1e9
            print(f"{arch:<30s}{name:>8s}{1e3 * min(found):10.1f}{1e3 * median(found):11.1f}{rate:9.2f}")
        pairs = median(one / other for one, other in zip(on, off, strict=True))
        print(f"{arch:<30s}{'on/off':>8s}{min(on) / min(off):10.2f}{median(on) / median(off):11.2f}  pairs {pairs:.2f}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
