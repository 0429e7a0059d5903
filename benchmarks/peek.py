"""How many peeks a second `Builder.peek` answers in a program of 5,000 instructions with loads, LDS reads and MFMAs in flight. At least
5,000 are asked for. Also the first peek, which passes the whole program, and a frontier's own `copy`, `need` and `issue`.

Times are the processor's. Best of 5.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from asmgen.author.emit.builder import Builder
from asmgen.checks.frontier.frontier import Frontier
from asmgen.isa.operands import OFF
from asmgen.isa.registers import a, s, v
from asmgen.regalloc.plan import RegisterPlan

ROUNDS, INSTRUCTIONS, PEEKS = 5, 5_000, 2_000
WANTED = 5_000


def program(instructions: int) -> Builder:
    """A loop body of a matrix kernel, unrolled until the program is long enough: 4 loads, 8 LDS reads and 8 MFMAs are in flight at its
    end."""
    plan = RegisterPlan("gfx950")
    k = Builder("peeks", "gfx950", plan)
    plan.pin("accumulators", a[0:31])
    plan.pin("fragments", v[0:31])
    plan.pin("staged", v[32:47])
    plan.pin("addresses", v[48:51])
    plan.pin("temporary", v[52:52])
    plan.pin("arguments", s[0:15])
    while k.position < instructions:
        for number in range(8):
            k.v_mfma_f32_16x16x16_bf16(a[4 * number:4 * number + 3], v[4 * number:4 * number + 1], v[4 * number + 2:4 * number + 3],
                                       a[4 * number:4 * number + 3])
            k.s_add_u32(s[4], s[4], 16)
        for number in range(8):
            k.ds_read_b128(v[4 * number:4 * number + 3], v[50], offset=16 * number)
        for number in range(2):
            k.ds_write_b128(v[51], v[32 + 4 * number:35 + 4 * number], offset=16 * number)
        k.s_waitcnt(vmcnt=0)
        for number in range(4):
            k.global_load_dwordx4(v[32 + 4 * number:35 + 4 * number], v[48:49], OFF, offset=16 * number)
    return k


def rate(work: Callable[[], object], count: int, rounds: int) -> float:
    """Times a second, best of `rounds`."""
    best = 0.0
    for _ in range(rounds):
        began = time.process_time()
        for _ in range(count):
            work()
        best = max(best, count / (time.process_time() - began))
    return best


def main(length: int = INSTRUCTIONS, peeks: int = PEEKS, rounds: int = ROUNDS) -> None:
    """Print the figures, each the best of `rounds` of so many peeks behind a program of that length."""
    k = program(length)
    began = time.process_time()
    seen = k.peek("v_mov_b32", v[52], v[0])
    first = time.process_time() - began
    assert dict(seen.waits) and seen.in_flight
    print(f"{k.position} instructions, {len(seen.in_flight)} operations in flight; first peek {1000 * first:.0f} ms")
    candidates: dict[str, Callable[[], object]] = {
        "v_mov_b32 of data in flight": lambda: k.peek("v_mov_b32", v[52], v[0]),
        "v_mfma behind a v_mfma": lambda: k.peek("v_mfma_f32_16x16x16_bf16", a[0:3], v[4:5], v[6:7], a[28:31]),
        "global_load": lambda: k.peek("global_load_dwordx4", v[32:35], v[48:49], OFF),
        "s_add_u32": lambda: k.peek("s_add_u32", s[4], s[4], 16),
    }
    for name, work in candidates.items():
        print(f"  peek {name:28s} {rate(work, peeks, rounds):8.0f} a second")

    def emit_and_peek() -> None:
        k.s_add_u32(s[4], s[4], 16)
        k.peek("v_mov_b32", v[52], v[0])

    print(f"  {'emit and peek':33s} {rate(emit_and_peek, peeks, rounds):8.0f} a second")
    frontier = Frontier("gfx950")
    instructions = k.program().instructions[:length]
    for instruction in instructions:
        frontier.issue(instruction)
    print(f"  {'Frontier.need':33s} {rate(lambda: frontier.need(instructions[4]), peeks, rounds):8.0f} a second")
    print(f"  {'Frontier.copy':33s} {rate(frontier.copy, peeks, rounds):8.0f} a second")

    def pass_all() -> None:
        passing = Frontier("gfx950")
        for instruction in instructions:
            passing.issue(instruction)

    print(f"  {'Frontier.issue':33s} {rate(pass_all, 1, rounds) * length:8.0f} a second")
    print(f"asked for: {WANTED} peeks a second")


if __name__ == "__main__":
    main()
