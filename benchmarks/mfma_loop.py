"""GFLOP/s of matrix loops on the emulator, one core: `python -m benchmarks.mfma_loop [waves] [rounds]`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from asmgen.author.emit.builder import Builder
from asmgen.isa.opcodes.mfma import MFMA
from asmgen.isa.registers import a, v
from benchmarks.loops import Loop, loop

PER_ROUND = 8


def before(k: Builder) -> None:
    """Operands: bit patterns that are ordinary numbers in every format."""
    for register in range(16, 64):
        k.v_mul_u32_u24(v[register], 0x31, v[0])
        k.v_and_b32(v[register], 0x37373737, v[register])
    for register in range(4 * PER_ROUND):
        k.v_accvgpr_write_b32(a[register], 0)
    k.v_mov_b32(v[64], 0x7F7E7D7C)
    k.s_nop(1)


def body(name: str, operands: Callable[[int], tuple[Any, ...]], **modifiers: Any) -> Callable[[Builder], None]:
    """Instructions into different accumulators, two pairs of operands."""
    def emit(k: Builder) -> None:
        for number in range(PER_ROUND):
            acc = a[4 * number:4 * number + 3]
            first, second, *scales = operands(number)
            k.emit(name, acc, first, second, acc, *scales, **modifiers)

    return emit


def pair(registers: int) -> Callable[[int], tuple[Any, ...]]:
    """A and B of `registers` registers each, one of two."""
    def operands(number: int) -> tuple[Any, ...]:
        first, second = 16 + 8 * (number & 1), 32 + 8 * (number >> 1 & 1)
        return v[first:first + registers - 1], v[second:second + registers - 1]

    return operands


LOOPS = {
    "bf16 16x16x32": ("v_mfma_f32_16x16x32_bf16", body("v_mfma_f32_16x16x32_bf16", pair(4))),
    "f16 16x16x16": ("v_mfma_f32_16x16x16_f16", body("v_mfma_f32_16x16x16_f16", pair(2))),
    "fp8 16x16x128": ("v_mfma_f32_16x16x128_f8f6f4", body("v_mfma_f32_16x16x128_f8f6f4", pair(8))),
    "scaled fp4 16x16x128": ("v_mfma_scale_f32_16x16x128_f8f6f4", body("v_mfma_scale_f32_16x16x128_f8f6f4",
                             lambda number: (*pair(4)(number), v[64], v[64]), cbsz=4, blgp=4)),
    "i8 16x16x64": ("v_mfma_i32_16x16x64_i8", body("v_mfma_i32_16x16x64_i8", pair(4))),
}


def rates(program: Loop, workgroups: int, flop: int, checks: bool) -> tuple[float, float]:
    """GFLOP/s of the best of three launches by the processor's time and by the clock, after one that compiles."""
    program.launch(workgroups, checks=checks)
    best_cpu = best_wall = float("inf")
    for _ in range(3):
        began = time.process_time()
        wall = program.launch(workgroups, checks=checks).seconds
        best_cpu, best_wall = min(best_cpu, time.process_time() - began), min(best_wall, wall)
    return flop / best_cpu / 1e9, flop / best_wall / 1e9


def main(waves: int = 128, rounds: int = 64) -> None:
    """One line per loop, checks off and on."""
    print(f"{waves} waves, GFLOP/s".ljust(24) + "cpu".rjust(10) + "wall".rjust(10) + "checks: cpu".rjust(14) + "wall".rjust(10))
    for title, (name, emit) in LOOPS.items():
        row = MFMA[name]
        flop = 2 * row.m * row.n * row.k * row.blocks * PER_ROUND * rounds * waves
        program = loop("gfx950", rounds, before, emit)
        plain, checked = (rates(program, waves // 8, flop, checks) for checks in (False, True))
        print(title.ljust(24) + f"{plain[0]:10.2f}{plain[1]:10.2f}{checked[0]:14.2f}{checked[1]:10.2f}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
