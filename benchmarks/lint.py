"""How many instructions a second lint looks at, after reading: all rules together, and the parts. At least 20,000 are asked for.

The subject is gemm-bf16 of both architectures, with and without preloading, its masks computed anew for each round. Best of 5.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from asmgen.hazards import verify as verify_wait_states
from asmgen.kernels.registry import kernel
from asmgen.lint.facts import KernelFacts
from asmgen.lint.run import lint_program
from asmgen.live import program_liveness
from asmgen.program import Instruction, Program
from asmgen.waits.verify import verify as verify_waits

ROUNDS = 5
WANTED = 20_000
FACTS = KernelFacts(512, 512, 256)


def fresh(programs: list[Program]) -> list[Program]:
    """Copies whose instructions remember nothing."""
    return [program.with_items(replace(item) if isinstance(item, Instruction) else item for item in program.items)
            for program in programs]


def rate(programs: list[Program], work: Callable[[Program], object]) -> float:
    """Instructions a second, best of ROUNDS."""
    best = float("inf")
    for _ in range(ROUNDS):
        copies = fresh(programs)
        began = time.perf_counter()
        for program in copies:
            work(program)
        best = min(best, time.perf_counter() - began)
    return sum(map(len, programs)) / best


def main() -> None:
    """Print a line a part."""
    library = kernel("gemm-bf16")
    programs = [library.build(arch, {"preload": preload}).program for arch in library.contract.archs for preload in (False, True)]
    parts: list[tuple[str, Callable[[Program], object]]] = [
        ("lint, everything", lambda program: lint_program(program, "", FACTS)),
        ("lint, errors and warnings", lambda program: lint_program(program, "", FACTS, notes=False)),
        ("waits", verify_waits), ("wait states", verify_wait_states), ("liveness", program_liveness),
    ]
    print(f"{sum(map(len, programs))} instructions")
    for name, work in parts:
        print(f"{name:26s} {rate(programs, work):9.0f} instructions/s")
    print(f"asked for: {WANTED} instructions/s")


if __name__ == "__main__":
    main()
