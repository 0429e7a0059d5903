"""What `asmgen tune` may return for products: lint, the erratum rule, mutants. `python -m tests.chosen_builds [FIRST] [COUNT] [MUTANTS]`.

The builds of gemm-bf16 and gemm-fp8 on both targets: each variant by itself, with K split, with K split by memory, with A and B by columns
where it takes them, with arrays of pointers for any k, persistent, also with parts of K in turn, with stream_k and both with a side by
columns, and with rows of any stride. Lint must find no error, which is also what says that the packed erratum of gfx950 is not met. Of the
mutants of each build (a wait, a barrier or a nop weakened) so many are drawn; lint or the emulator must find each, but for a barrier
without which no two waves race, which `raceproofs` must prove: nobody needs it. FIRST and COUNT take a part of the list.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from asmgen.author.contract.contract import ContractError
from asmgen.author.emit.kernel import Kernel
from asmgen.checks.mutants.mutants import Judge, Mutant, mutants
from asmgen.checks.raceproofs.outcome import PROVEN
from asmgen.checks.raceproofs.raceproof import prove_races
from asmgen.isa.errors import AsmgenError
from asmgen.kernels.registry import family
from asmgen.tools.mutate import on_emulator
from asmgen.tools.running.build import Built, build_kernel, lint_errors

KERNELS = ("gemm-bf16", "gemm-fp8")
FORMS: tuple[dict[str, Any], ...] = (
    {}, {"split_k": 4, "preload": True}, {"split_k": 2, "reduce": "atomic"}, {"a_layout": "column", "b_layout": "column", "bias": "row"},
    {"any_k": True, "pointers": True}, {"persistent": True, "preload": True}, {"persistent": True, "split_k": 2, "preload": True},
    {"stream_k": True, "preload": True}, {"persistent": True, "a_layout": "column"}, {"stream_k": True, "b_layout": "column"},
    {"any_stride": True})


def chosen() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Family, target and build parameters of each."""
    for name in KERNELS:
        library = family(name)
        for arch in library.archs:
            for variant in library.variants(arch):
                fixed = library.fixed(variant)
                for form in FORMS:
                    build = {**form, **fixed}
                    try:
                        library.contract_of(variant, build).resolve_build(build)
                    except ContractError:
                        continue
                    if form == {key: build[key] for key in form}:
                        yield name, arch, build


def survivors(one: Built, name: str, count: int, seed: int) -> tuple[int, list[Mutant]]:
    """How many mutants of a build's kernels were drawn, and those that nobody finds."""
    drawn, left = 0, []
    for kernel in one.kernel.launches:
        every = list(mutants(kernel.program))
        some = [every[at] for at in np.random.default_rng(seed).permutation(len(every))[:count]]
        judge, emulates = Judge(kernel.program), on_emulator(family(name), one, kernel)
        drawn += len(some)
        left += [mutant for mutant in some if not judge.notices(mutant) and not emulates(mutant) and not _is_unneeded(mutant, kernel)]
    return drawn, left


def _is_unneeded(mutant: Mutant, kernel: Kernel) -> bool:
    """Whether a barrier is gone that keeps no two waves apart."""
    return mutant.original.name == "s_barrier" and \
        prove_races(mutant.program, kernel.contract.workgroup, kernel.lds.size).status == PROVEN


def main(first: int = 0, count: int = 1 << 20, mutated: int = 8) -> int:
    """Check that many builds; returns how many are wrong."""
    wrong = total = 0
    builds = list(chosen())
    for number, (name, arch, build) in enumerate(builds[first:first + count], first):
        errors: list[object] = []
        left: list[Mutant] = []
        try:
            one = build_kernel(family(name), arch, build)
        except AsmgenError as error:
            errors = [f"does not build: {error}"]
        else:
            errors += lint_errors(one)
            drawn, left = survivors(one, name, mutated, number)
            total += drawn
        wrong += bool(errors or left)
        for found in (*errors, *left):
            print(f"{name} {arch} {build}: {found}", flush=True)
        if number % 10 == 9:
            print(f"{number + 1} of {len(builds)} builds, {total} mutants, {wrong} wrong", flush=True)
    print(f"builds {first} to {min(first + count, len(builds)) - 1} of {len(builds)}: {total} mutants, {wrong} wrong", flush=True)
    return min(1, wrong)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
