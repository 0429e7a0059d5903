"""Every emulator benchmark with checks off and on in one table, and the growth with the grid: `python -m benchmarks.emulator`.

Rates are per second of this process's CPU time, which is what counts on a shared machine; wall time stands beside it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from asmgen.emulator.machine.devicememory import Memory
from asmgen.isa.opcodes.mfma import MFMA
from benchmarks import gemm, mfma_loop, vector_loop
from benchmarks.loops import Loop, loop
from benchmarks.memory_loops import buffer_loop, lds_loop

TIMES = 5
MFMA_LOOPS = ("bf16 16x16x32", "fp8 16x16x128", "scaled fp4 16x16x128")


@dataclass(frozen=True)
class Timing:
    """Seconds of a run, the least of several, and the work that it did in its unit (wave instructions or flop)."""

    cpu: float
    wall: float
    work: float


def timed(run: Callable[[], float], times: int) -> Timing:
    """The fastest of several runs, by CPU time, after one that compiles; `run` returns the work it did."""
    run()
    found = []
    for _ in range(times):
        cpu, wall = time.process_time(), time.perf_counter()
        work = run()
        found.append(Timing(time.process_time() - cpu, time.perf_counter() - wall, work))
    return min(found, key=lambda timing: timing.cpu)


def of_loop(program: Loop, workgroups: int, checks: bool, memory: Memory | None = None, flop: float = 0, times: int = TIMES) -> Timing:
    """A loop; `flop` is a wave's, 0 where wave instructions count."""
    def run() -> float:
        result = program.launch(workgroups, checks=checks, memory=memory)
        if checks and result.findings:
            raise SystemExit(result.findings[0].sentence())
        return flop * workgroups * program.waves if flop else result.wave_instructions

    return timed(run, times)


def of_gemm(arch: str, checks: bool, sizes: dict[str, int], times: int) -> Timing:
    """Launches of gemm-bf16, whole; neither its data nor the reference are part of the time."""
    return timed(gemm.launcher(arch, sizes, checks), times)


def row(title: str, unit: float, off: Timing, on: Timing) -> None:
    """One line of the table."""
    rates = "".join(f"{timing.work / timing.cpu / unit:10.2f}" for timing in (off, on))
    print(f"{title:<34s}{rates}{off.work / off.wall / unit:12.2f}{on.cpu / off.cpu:8.2f}", flush=True)


def main(rounds: int = 24, times: int = TIMES, edge: int = 1024, workgroups: int = 128) -> None:
    """The table, then the growth: loops of `rounds` rounds by `workgroups` of 8 waves, matrices of `edge` x `edge`, the best of `times`
    runs."""
    sizes = {"m": edge, "n": edge, "k": edge // 2}
    print("benchmark".ljust(34) + "off/CPU s".rjust(10) + "on/CPU s".rjust(10) + "off/wall s".rjust(12) + "on/off".rjust(8))
    vector = loop("gfx950", rounds, vector_loop.before, vector_loop.body)
    for number, many in ((workgroups, vector), (1, loop("gfx950", 8 * rounds, vector_loop.before, vector_loop.body))):
        row(f"vector, {8 * number} waves, M/s", 1e6, *(of_loop(many, number, checks, times=times) for checks in (False, True)))
    memory = Memory()
    size = 1024 * 1024
    for title, program in (("LDS", lds_loop(rounds)), ("buffer", buffer_loop(rounds, memory.allocate(size), size))):
        row(f"{title}, {8 * workgroups} waves, M/s", 1e6,
            *(of_loop(program, workgroups, checks, memory, times=times) for checks in (False, True)))
    for title in MFMA_LOOPS:
        name, emit = mfma_loop.LOOPS[title]
        shape = MFMA[name]
        flop = 2.0 * shape.m * shape.n * shape.k * shape.blocks * mfma_loop.PER_ROUND * rounds
        program = loop("gfx950", rounds, mfma_loop.before, emit)
        few = -(-workgroups // 8)
        row(f"MFMA {title}, {8 * few} waves, GF/s", 1e9,
            *(of_loop(program, few, checks, flop=flop, times=times) for checks in (False, True)))
    for arch in ("gfx942", "gfx950"):
        row(f"gemm-bf16 {arch}, GF/s", 1e9, *(of_gemm(arch, checks, sizes, times) for checks in (False, True)))
    print("\n4x the grid takes, CPU time".ljust(34) + "off".rjust(10) + "on".rjust(10))
    for base in (workgroups, 1):
        grown = [of_loop(vector, 4 * base, checks, times=times).cpu / of_loop(vector, base, checks, times=times).cpu
                 for checks in (False, True)]
        print(f"vector, from {8 * base} waves".ljust(33) + f"{grown[0]:10.2f}{grown[1]:10.2f}", flush=True)
    wide = {**sizes, "n": 4 * edge}
    grown = [of_gemm("gfx950", checks, wide, times).cpu / of_gemm("gfx950", checks, sizes, times).cpu for checks in (False, True)]
    print(f"{'gemm-bf16 gfx950':<33s}{grown[0]:10.2f}{grown[1]:10.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
