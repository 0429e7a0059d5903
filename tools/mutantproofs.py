"""`python -m asmgen.tools.mutantproofs [KERNEL ...]`: mutants that change a kernel's meaning, and what `asmgen prove` says of them.

Mutants are those of `asmgen.tools.mutate` (waits, barriers, nops, swizzles) and of its --index (index arithmetic), drawn with a seed. A
mutant of index arithmetic must not be proven for index; one of a wait, barrier or nop must not be proven for races and errata together.
One that is proven is run on the emulator with other data: where its outputs are the program's bit for bit, it changes no meaning.
The status is 1 where a mutant that changes meaning is proven.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import click

from asmgen.author.family.family import Family
from asmgen.checks.lint.facts import facts_of_code_object
from asmgen.checks.mutants.indexmutants import IndexMutants
from asmgen.checks.mutants.mutants import Mutant, mutants
from asmgen.codeobject.load import CodeObject
from asmgen.kernels.registry import family as find_family
from asmgen.tools.build import Built, build_kernel
from asmgen.tools.entry import status_of
from asmgen.tools.indexruns import IndexJudge
from asmgen.tools.mutantruns import Runs
from asmgen.tools.proof import INDEX, PROVEN, REFUTED, Claim, worst
from asmgen.tools.proofsweep import default_builds
from asmgen.tools.runclaims import index_claim
from asmgen.tools.textclaims import errata_claim, race_claim

KERNELS = ("gemm-bf16", "gemm-fp8", "norm", "softmax", "quantize", "02-row-sum", "03-transpose")


@dataclass
class Table:
    """Statuses by kind of mutant, and those that are proven though they change meaning."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """For people."""
        total = sum(number for (_, status), number in self.counts.items() if status != "equivalent")
        refuted = sum(number for (_, status), number in self.counts.items() if status == REFUTED)
        rows = [f"{kind:24} {status:10} {number}" for (kind, status), number in sorted(self.counts.items())]
        share = f"{100 * refuted / total:.1f} %" if total else "none"
        return [*rows, f"of {total} that change meaning {refuted} refuted ({share}), {len(self.wrong)} proven",
                *(f"  proven: {one}" for one in self.wrong)]


def text_claim(built: Built, mutant: Mutant) -> Claim:
    """Races and errata of a mutant."""
    facts = facts_of_code_object(CodeObject.load(built.code_object))[built.kernel.resources.name]
    return worst([race_claim(mutant.program, facts), errata_claim(mutant.program, facts)])


def judged(family: Family, built: Built, mutant: Mutant, index: bool, judge: IndexJudge, seconds: float) -> str:
    """The status of the claim that a mutant may break; "equivalent" for one that is proven and changes nothing."""
    claim = index_claim(family, built, seconds, mutant.program) if index else text_claim(built, mutant)
    if claim.status == PROVEN and not index:  # a swizzle that is undone, a wait that another one covers: the run decides
        claim = index_claim(family, built, seconds, mutant.program)
    if claim.status == PROVEN and judge.survives(mutant) == "":
        return "equivalent"
    return claim.status


def drawn(built: Built, count: int, seed: int) -> Iterator[tuple[Mutant, bool]]:
    """Mutants with whether they are of index arithmetic, two of these in three."""
    program = built.kernel.program
    yield from ((mutant, True) for mutant in IndexMutants(program).drawn(2 * count // 3, seed))
    others = list(mutants(program))
    random.Random(seed).shuffle(others)
    yield from ((mutant, False) for mutant in others[:count - 2 * count // 3])


@click.command()
@click.argument("kernels", nargs=-1)
@click.option("--arch", default="gfx950", show_default=True)
@click.option("--count", default=60, show_default=True, help="Mutants of each kernel.")
@click.option("--seed", default=0, show_default=True)
@click.option("--seconds", default=20.0, show_default=True, help="Of the processor, for each index claim.")
def commands(kernels: tuple[str, ...], arch: str, count: int, seed: int, seconds: float) -> int:
    """Judge mutants of the first variant of each kernel; exit with 1 where one that changes meaning is proven."""
    table = Table()
    for name in kernels or KERNELS:
        family = find_family(name)
        built = build_kernel(family, arch, next(default_builds(family, arch)), verify=False)
        judge = IndexJudge(Runs(family, built, built.kernel), launches=6)
        for mutant, index in drawn(built, count, seed):
            status = judged(family, built, mutant, index, judge, seconds)
            table.counts[f"{INDEX if index else 'text'} {mutant.kind}", status] += 1
            if status == PROVEN:
                table.wrong.append(f"{name}: [{mutant.kind}] {mutant}")
        click.echo(f"{name}: {sum(table.counts.values())} mutants so far, {len(table.wrong)} proven")
    click.echo("\n".join(table.lines()))
    return int(bool(table.wrong))


def main(arguments: Sequence[str] | None = None) -> None:
    """Never returns: exits with the status."""
    sys.exit(status_of(commands, "mutantproofs", arguments))


if __name__ == "__main__":
    main()
