"""How many instructions a second lint looks at, after reading: all rules together, and the parts. At least 20,000 are asked for.

The subjects are gemm-bf16 of both architectures, with and without preloading, and two generated programs with 1,000 loops: each inside
the one before, and each behind the one before. The time is the processor's; masks are computed anew for each round. Best of 5.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from asmgen.checks.lint.facts import KernelFacts
from asmgen.checks.lint.programlint import lint_program
from asmgen.checks.waits.verify import verify as verify_waits
from asmgen.checks.waitstates.passes import verify as verify_wait_states
from asmgen.kernels.registry import family
from asmgen.program.live import program_liveness
from asmgen.program.program import Instruction, Program
from asmgen.reader.assembly import read_text

ROUNDS = 5
WANTED = 20_000
FACTS = KernelFacts(512, 512, 256)
LOOPS = 1_000
# Loads in flight over the back-edge, waits that are too strict for one of the loops around, matrix instructions on loaded data.
BODY = """
    s_waitcnt vmcnt(1)
    global_load_dwordx4 v[{a}:{a3}], v0, s[2:3]
    ds_read_b128 v[{b}:{b3}], v1 offset:{offset}
    v_add_f32 v{c}, v{c}, v{d}
    v_mul_f32 v{d}, v{c}, v{d}
    s_waitcnt lgkmcnt(0)
    v_mfma_f32_16x16x16_f16 v[{e}:{e3}], v[{b}:{b1}], v[{b2}:{b3}], v[{e}:{e3}]
    s_waitcnt vmcnt(0)
    v_mfma_f32_16x16x16_f16 v[{e}:{e3}], v[{a}:{a1}], v[{a2}:{a3}], v[{e}:{e3}]
    s_add_u32 s{counter}, s{counter}, 1
    s_cmp_lt_u32 s{counter}, s4
"""


def body(number: int) -> str:
    """The instructions of a loop, on registers that go by its number."""
    a, b, e = 8 + 4 * (number * 3 % 8), 40 + 4 * (number * 5 % 8), 72 + 4 * (number * 7 % 8)
    return BODY.format(a=a, a1=a + 1, a2=a + 2, a3=a + 3, b=b, b1=b + 1, b2=b + 2, b3=b + 3, e=e, e3=e + 3, c=104 + number % 8,
                       d=112 + number % 8, offset=16 * (number % 16), counter=10 + number % 40)


def nested(loops: int) -> str:
    """Loops inside each other, each with instructions before and behind the inner one."""
    heads = [f"L{number}:{body(number)}" for number in range(loops)]
    tails = [f"{body(number + 1)}    s_cbranch_scc1 L{number}\n" for number in reversed(range(loops))]
    return "".join(heads + tails) + "    s_endpgm\n"


def in_a_row(loops: int) -> str:
    """Loops one behind the other."""
    return "".join(f"L{number}:{body(number)}    s_cbranch_scc1 L{number}\n" for number in range(loops)) + "    s_endpgm\n"


def fresh(programs: list[Program]) -> list[Program]:
    """Copies whose instructions remember nothing."""
    return [program.with_items(replace(item) if isinstance(item, Instruction) else item for item in program.items)
            for program in programs]


def rate(programs: list[Program], work: Callable[[Program], object], rounds: int) -> float:
    """Instructions a second, best of `rounds`."""
    best = float("inf")
    for _ in range(rounds):
        copies = fresh(programs)
        began = time.process_time()
        for program in copies:
            work(program)
        best = min(best, time.process_time() - began)
    return sum(map(len, programs)) / best


def main(rounds: int = ROUNDS, loops: int = LOOPS) -> None:
    """Print a line a part of each subject."""
    library = family("gemm-bf16")
    gemm = [library.build(arch, {"preload": preload}).program for arch in library.archs for preload in (False, True)]
    parts: list[tuple[str, Callable[[Program], object]]] = [
        ("lint, everything", lambda program: lint_program(program, "", FACTS)),
        ("lint, errors and warnings", lambda program: lint_program(program, "", FACTS, notes=False)),
        ("waits", verify_waits), ("wait states", verify_wait_states), ("liveness", program_liveness),
    ]
    for subject, programs in (("gemm-bf16", gemm), (f"{loops} nested loops", read_text(nested(loops), "gfx942", "nested", "nested.s")),
                              (f"{loops} loops in a row", read_text(in_a_row(loops), "gfx942", "row", "row.s"))):
        print(f"{subject}: {sum(map(len, programs))} instructions")
        for name, work in parts:
            print(f"  {name:26s} {rate(list(programs), work, rounds):9.0f} instructions/s")
    print(f"asked for: {WANTED} instructions/s")


if __name__ == "__main__":
    main()
