"""The library's gemm-bf16 on the emulator, whole: `python -m benchmarks.gemm [m n k]`, by default 1024 x 1024 x 512."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection

import numpy as np

from asmgen.codeobject.arguments import pack
from asmgen.codeobject.load import CodeObject
from asmgen.kernels.registry import family
from asmgen.tools.build import build_kernel
from asmgen.tools.runner import Options, emulator, run_kernel


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
    values = {name: device.upload(value).address if isinstance(value, np.ndarray) else value for name, value in arguments.items()}
    packed = pack(contract.arguments, values)
    kernel = device.load(CodeObject.load(built.code_object)).kernel(built.kernel.resources.name)
    grid, flop = contract.grid_of(parameters), float(2 * sizes["m"] * sizes["n"] * sizes["k"])

    def run() -> float:
        device.launch(kernel, grid, contract.workgroup, packed)
        if device.launches.pop().findings:
            raise SystemExit(f"gemm-bf16 on {arch} has findings")
        return flop

    return run


def main(m: int = 1024, n: int = 1024, k: int = 512) -> None:
    """Seconds, wave-instructions and GFLOP/s on both architectures, checks off and on."""
    library = family("gemm-bf16")
    print(f"gemm-bf16 {m} x {n} x {k}".ljust(30) + "checks".rjust(8) + "seconds".rjust(10) + "M instr/s".rjust(11) + "GFLOP/s".rjust(9))
    for arch in ("gfx942", "gfx950"):
        parameters = library.contract(arch).resolve_run({"m": m, "n": n, "k": k})
        built = build_kernel(library, arch, {})
        for checks in (False, True, False, True):
            done = run_kernel(library, built, parameters, "emulator", program=built.kernel.program, say=lambda text: None,
                              options=Options(checks=checks))
            if not done.passed:
                raise SystemExit(f"the result on {arch} is wrong")
            rate, flops = done.wave_instructions / done.seconds, 2 * m * n * k / done.seconds
            print(arch.ljust(30) + ("on" if checks else "off").rjust(8) + f"{done.seconds:10.2f}{rate / 1e6:11.3f}{flops / 1e9:9.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
