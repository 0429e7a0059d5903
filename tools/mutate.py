"""`python -m asmgen.tools.mutate [KERNEL ...]`: does verification, or else the emulator, find every weakened wait, barrier and nop,
and every swizzle that is undone?

Over every family, architecture, variant and choice of a build parameter. Lint judges first; what it lets through runs on the emulator, in
the launches of one workgroup that execute the changed place: a wrong result, an error of its checks or more LDS bank conflicts than the
kernel has find a mutant.
With --index the mutants are those of index arithmetic, of which so many are drawn for each build; the emulator alone judges them, and one
whose outputs are the program's bit for bit on 50 launches is equivalent.
The score and the survivors are printed; the status is 1 where anything survives, 2 for a request that cannot be met.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click

from asmgen.author.contract.contract import ContractError
from asmgen.author.emit.kernel import Kernel
from asmgen.author.family.family import Family
from asmgen.checks.mutants.mutants import KINDS, Judge, Mutant, mutants
from asmgen.kernels.registry import family as find_family
from asmgen.kernels.registry import names
from asmgen.program.program import Program
from asmgen.tools.indexruns import IndexJudge
from asmgen.tools.mutantruns import Runs
from asmgen.tools.running.build import Built, build_kernel
from asmgen.tools.terminal.entry import status_of

Emulates = Callable[[Mutant], bool]


@dataclass(frozen=True)
class Score:
    """One variant: how many mutants of each kind there were, how many lint and the emulator found, and who survived."""

    title: str
    total: dict[str, int]
    by_lint: int
    by_emulator: int
    survivors: tuple[Mutant, ...]

    def lines(self) -> list[str]:
        """For people."""
        count = sum(self.total.values())
        found = self.by_lint + self.by_emulator
        kinds = ", ".join(f"{number} {kind}" for kind, number in self.total.items() if number)
        percent = 100.0 * found / count if count else 100.0
        head = f"{self.title}: {found} of {count} found ({percent:.1f} %): {self.by_lint} by lint, {self.by_emulator} by the emulator; " \
               f"{kinds}"
        return [head, *(f"  survives: {mutant}" for mutant in self.survivors)]


def score(title: str, program: Program, emulates: Emulates) -> Score:
    """Judge every mutant of a program; `emulates` says whether a run on the emulator finds a mutant."""
    judge = Judge(program)
    total: Counter[str] = Counter(dict.fromkeys(KINDS, 0))
    by_lint = by_emulator = 0
    survivors = []
    for mutant in mutants(program):
        total[mutant.kind] += 1
        if judge.notices(mutant):
            by_lint += 1
        elif emulates(mutant):
            by_emulator += 1
        else:
            survivors.append(mutant)
    return Score(title, dict(total), by_lint, by_emulator, tuple(survivors))


def builds(family: Family, arch: str) -> Iterator[dict[str, Any]]:
    """Build parameters: of each variant the defaults, and each single choice, switch or value to be tried that differs from them, but for
    those that the contract refuses by themselves."""
    for variant in family.variants(arch):
        contract = family.contract_of(variant)
        defaults = contract.resolve_build({})
        yield defaults
        for parameter in contract.parameters:
            if parameter.kind != "build":
                continue
            yield from (given for other in parameter.tries if other != defaults[parameter.name]
                        and _is_served(family, arch, given := defaults | {parameter.name: other}))


def _is_served(family: Family, arch: str, build: dict[str, Any]) -> bool:
    try:
        family.contract(arch, build).resolve_build(build)
    except ContractError:
        return False
    return True


def on_emulator(family: Family, built: Built, kernel: Kernel | None = None) -> Emulates:
    """A function that runs mutants of a finished variant, or of one of the kernels that are launched with it."""
    runs = Runs(family, built, kernel)
    locations = {id(instruction): position for position, instruction in enumerate(runs.program.instructions)}

    def emulates(mutant: Mutant) -> bool:
        for known in runs.through(locations.get(id(mutant.original))):
            if runs.passes(known, mutant.program) is None:
                runs.known.remove(known)
                runs.known.insert(0, known)  # the next mutant is on the same path, mostly
                return True
        return False

    return emulates


@click.command()
@click.argument("kernels", nargs=-1)
@click.option("--arch", help="Only this architecture.")
@click.option("-p", "parameters", multiple=True, metavar="NAME=VALUE", help="Only the build with these parameters; may be repeated.")
@click.option("--index", default=0, metavar="N", type=click.IntRange(0), help="Instead N mutants of index arithmetic for each build.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Which of them.")
def commands(kernels: tuple[str, ...], arch: str | None, parameters: tuple[str, ...], index: int, seed: int) -> int:
    """Weaken every wait, barrier and nop of the library's kernels in turn and undo every swizzle; exit with 1 where nobody notices.

    With --index, exchange registers, offsets, strides, swizzle constants and matrix operands at places drawn uniformly.
    """
    survived = False
    for name in kernels or names():
        family = find_family(name)
        for target in (family.check_arch(arch),) if arch else family.archs:
            for build in [family.parse(target, parameters)] if parameters else builds(family, target):
                built = build_kernel(family, target, build)
                for kernel in built.kernel.launches:
                    which = f"{kernel.contract.name} {target} {' '.join(f'{key}={value}' for key, value in build.items())}".rstrip()
                    found = IndexJudge(Runs(family, built, kernel)).score(which, index, seed) if index \
                        else score(which, kernel.program, on_emulator(family, built, kernel))
                    click.echo("\n".join(found.lines()))
                    survived = survived or bool(found.survivors)
    return int(survived)


def main(arguments: Sequence[str] | None = None) -> None:
    """Never returns: exits with the status."""
    sys.exit(status_of(commands, "mutate", arguments))


if __name__ == "__main__":
    main()
