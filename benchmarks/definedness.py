"""What it costs to follow undefined bits where nothing is undefined: `python -m benchmarks.definedness [ROUNDS [PAIRS [EDGE [GROUPS]]]]`.

Every other check is on in both launches of a pair, which follow each other in turns; their CPU times are compared. Issue F wants less than
2 % more. The middle of the pairs' shares stands beside the share of the fastest launches: on a busy machine the two differ.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Collection

from asmgen.emulator.arrival.findings import CHECKS
from benchmarks import gemm, vector_loop
from benchmarks.loops import Loop, loop
from benchmarks.memory_loops import lds_loop

WITHOUT = frozenset(CHECKS) - {"uninitialised-read", "uninitialised-use"}


def of_loop(program: Loop, workgroups: int) -> Callable[[Collection[str]], Callable[[], object]]:
    """Launches of a loop by their checks."""
    return lambda checks: lambda: program.launch(workgroups, checks=checks)


def of_gemm(arch: str, edge: int) -> Callable[[Collection[str]], Callable[[], object]]:
    """Launches of gemm-bf16 by their checks."""
    return lambda checks: gemm.launcher(arch, {"m": edge, "n": edge, "k": edge // 2}, checks)


def seconds(run: Callable[[], object]) -> float:
    """CPU time of a run."""
    began = time.process_time()
    run()
    return time.process_time() - began


def main(rounds: int = 24, pairs: int = 12, edge: int = 1024, workgroups: int = 128) -> None:
    """One line per loop, of 8 waves a workgroup."""
    print("all defined, CPU ms".ljust(30) + "without".rjust(10) + "with".rjust(10) + "fastest".rjust(10) + "middle".rjust(10))
    launches = {f"vector, {8 * workgroups} waves": of_loop(loop("gfx950", rounds, vector_loop.before, vector_loop.body), workgroups),
                f"LDS, {8 * workgroups} waves": of_loop(lds_loop(rounds), workgroups),
                **{f"gemm-bf16 {arch}": of_gemm(arch, edge) for arch in ("gfx942", "gfx950")}}
    for title, of in launches.items():
        runs = of(WITHOUT), of(frozenset(CHECKS))
        for run in runs:
            run()
        # The order changes from pair to pair: who comes second finds other caches.
        times: tuple[list[float], list[float]] = ([], [])
        for number in range(pairs):
            for which in (0, 1) if number % 2 else (1, 0):
                times[which].append(seconds(runs[which]))
        best, middle = min(times[1]) / min(times[0]), statistics.median(b / a for a, b in zip(*times, strict=True))
        figures = "".join(f"{1000 * min(part):10.1f}" for part in times)
        print(f"{title:<30s}{figures}{100 * best - 100:+9.1f}%{100 * middle - 100:+9.1f}%", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
