"""`python -m asmgen.tools.mutantproofs [KERNEL ...]`: mutants that change a kernel's meaning, and what `asmgen prove` says of them.

Mutants are those of `asmgen.tools.mutate` (waits, barriers, nops, swizzles), of its --index (index arithmetic), and of what is computed:
maxima that miss a source, rescales that are dropped, sums over k in another order; drawn with a seed. One of index arithmetic, a maximum or
a rescale must not be proven for index; one of a wait, barrier or nop must not be proven for races and errata together; one of another order
must not be proven to compute the expressions of the kernel as it was built.
One that is proven is run on the emulator with other data: where its outputs are the program's bit for bit, it changes no meaning. Launches
must have met both sides of where each comparison turns that it feeds; else it is "not told" whether it does. One whose outputs are other
expressions has the "same bits": a constant that is one unit in the last place off, say, changes results for other data, or for none. Else
it is equivalent. All three are listed for a reader, and so are "open" ones, which break only a rule on which the sources disagree: whether
they change meaning is known of no hardware here, so they count as neither.
The status is 1 where a mutant that changes meaning is proven.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Any

import click

from asmgen.author.family.family import Family
from asmgen.checks.lint.facts import facts_of_code_object
from asmgen.checks.mutants.indexmutants import IndexMutants
from asmgen.checks.mutants.mutants import Mutant, mutants
from asmgen.checks.mutants.valuemutants import K_ORDER
from asmgen.checks.mutants.valuemutants import drawn as value_mutants
from asmgen.codeobject.load import CodeObject
from asmgen.kernels.registry import family as find_family
from asmgen.tools.indexruns import IndexJudge
from asmgen.tools.metedges import EQUIVALENT, NOT_TOLD, MetEdges
from asmgen.tools.mutantruns import Runs
from asmgen.tools.openrules import OPEN, open_rule
from asmgen.tools.proofs.algebrarun import SEED
from asmgen.tools.proofs.hashrun import HashReport, run_hashes
from asmgen.tools.proofs.orderclaim import early_launch
from asmgen.tools.proofs.proof import INDEX, ORDER, PROVEN, REFUTED, UNKNOWN, Claim, settled, worst
from asmgen.tools.proofs.proofclasses import given_launches, longer_loops, more_launches
from asmgen.tools.proofs.runclaims import index_claim, steps_of
from asmgen.tools.proofs.strainedruns import on_floats
from asmgen.tools.proofs.textclaims import errata_claim, race_claim
from asmgen.tools.proofsweep import default_builds
from asmgen.tools.running.build import Built, build_kernel
from asmgen.tools.terminal.entry import status_of

TEXT = "text"
"""The claims races and errata together."""
SAME_BITS = "same bits"
"""Of a mutant: other expressions, whose bits are the program's on the launches."""
_SAME = 3
"""Launches with the program's own expressions after which a mutant of another order is called proven."""
KERNELS = ("gemm-bf16", "gemm-fp8", "norm", "softmax", "quantize", "02-row-sum", "03-transpose")


@dataclass
class Table:
    """Statuses by kind of mutant, and those that are proven though they change meaning."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """For people."""
        of = Counter[str]()
        for (_, status), number in self.counts.items():
            of[status] += number
        total = of.total() - of[EQUIVALENT] - of[SAME_BITS] - of[NOT_TOLD] - of[OPEN]
        rows = [f"{kind:24} {status:10} {number}" for (kind, status), number in sorted(self.counts.items())]
        share = f"{100 * of[REFUTED] / total:.1f} %" if total else "none"
        return [*rows, f"of {total} that change meaning {of[REFUTED]} refuted ({share}), {len(self.wrong)} proven",
                f"{of[SAME_BITS]} of other expressions with the same bits, {of[NOT_TOLD]} not told, {of[OPEN]} open",
                *(f"  proven: {one}" for one in self.wrong)]


def text_claim(family: Family, built: Built, mutant: Mutant) -> Claim:
    """Races and errata of a mutant."""
    facts = facts_of_code_object(CodeObject.load(built.code_object))[built.kernel.resources.name]
    errata = errata_claim(mutant.program, facts)
    if errata.suspected:
        errata = settled(errata, lambda: early_launch(family, built, errata, mutant.program))
    return worst([race_claim(mutant.program, facts), errata])


class OrderJudge:
    """Whether mutants make each element by the expression of the built kernel; remembers what the unchanged program makes. Floats show
    which launches execute a mutant's instruction: given ones, those with loops a step longer each time, and drawn ones."""

    def __init__(self, family: Family, built: Built) -> None:
        self._family, self._built = family, built
        contract, build = built.kernel.contract, built.kernel.parameters
        self._ahead = chain(reversed(given_launches(contract, build)), longer_loops(contract, build, steps_of(family, built)),
                            more_launches(contract, build))
        self._known: list[tuple[Mapping[str, Any], tuple[int, ...]]] = []
        self._reports: dict[int, HashReport] = {}
        self._positions = {id(instruction): position for position, instruction in enumerate(built.kernel.program.instructions)}

    def claim(self, mutant: Mutant) -> Claim:
        """Refuted by the first launch that executes the mutant and has other expressions; proven where a few have the same."""
        position = self._positions[id(mutant.original)]
        same = 0
        for number in self._through(position):
            values = self._known[number][0]
            if number not in self._reports:
                self._reports[number] = run_hashes(self._family, self._built, values)
            other = run_hashes(self._family, self._built, values, program=mutant.program)
            if not self._reports[number].equal(other):
                return Claim(ORDER, REFUTED, "one launch")
            same += 1
            if same == _SAME:
                return Claim(ORDER, PROVEN, f"{same} launches that execute it")
        return Claim(ORDER, UNKNOWN, f"{same} launches that execute it", (), "no more launches execute it")

    def _through(self, position: int) -> Iterator[int]:
        """The numbers of launches whose unchanged program executes an instruction; new ones are run at need."""
        for number in count():
            if number == len(self._known) and not self._another():
                return
            if self._known[number][1][position]:
                yield number

    def _another(self) -> bool:
        """Whether there is one more launch; one that fails on floats is none."""
        contract, build = self._built.kernel.contract, self._built.kernel.parameters
        for launch in self._ahead:
            values = contract.resolve_run({**build, **launch})
            counts, _ = on_floats(self._family, self._built, None, values, SEED)
            if counts:
                self._known.append((values, counts))
                return True
        return False


def judged(family: Family, built: Built, mutant: Mutant, claimed: str, judge: IndexJudge, order: OrderJudge, met: MetEdges,
           seconds: float, runs: Runs) -> Claim:
    """The claim that a mutant may break; "equivalent" and the like for one that is proven and changes no bit of outputs, "open" for one of
    which the sources do not agree whether it changes any."""
    if claimed == ORDER:
        return order.claim(mutant)
    claim = index_claim(family, built, seconds, mutant.program) if claimed == INDEX else text_claim(family, built, mutant)
    if claim.status == UNKNOWN and claimed == TEXT and (said := open_rule(family, built, mutant, runs)) is not None:
        return replace(claim, status=OPEN, reason=said)
    if claim.status != REFUTED and claimed == TEXT:  # a swizzle that is undone, a wait that another one covers or is only warned of
        run = index_claim(family, built, seconds, mutant.program)
        claim = run if run.status == REFUTED or claim.status == PROVEN else claim
    if claim.status == PROVEN and judge.survives(mutant) == "":
        status, why = changes_no_bit(mutant, met, order)
        return replace(claim, status=status, reason=why)
    return claim


def changes_no_bit(mutant: Mutant, met: MetEdges, order: OrderJudge) -> tuple[str, str]:
    """What a mutant is whose outputs are the program's on a few launches, and why."""
    status, why = met.status(mutant)
    if status == EQUIVALENT and order.claim(mutant).status == REFUTED:
        return SAME_BITS, "outputs are other expressions, whose bits are the same on the launches"
    return status, why


def drawn(built: Built, count: int, seed: int) -> Iterator[tuple[Mutant, str]]:
    """Mutants with the claim that each may break: half of them of index arithmetic, a quarter of what is computed."""
    program = built.kernel.program
    yield from ((mutant, INDEX) for mutant in IndexMutants(program).drawn(count // 2, seed))
    computed = value_mutants(program, count // 4, seed)
    yield from ((mutant, ORDER if mutant.kind == K_ORDER else INDEX) for mutant in computed)
    others = list(mutants(program))
    random.Random(seed).shuffle(others)
    yield from ((mutant, TEXT) for mutant in others[:count - count // 2 - len(computed)])


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
        runs = Runs(family, built, built.kernel)
        judge, order, met = IndexJudge(runs, launches=6), OrderJudge(family, built), MetEdges(family, built)
        for mutant, claimed in drawn(built, count, seed):
            claim = judged(family, built, mutant, claimed, judge, order, met, seconds, runs)
            table.counts[f"{claimed} {mutant.kind}", claim.status] += 1
            if claim.status == PROVEN:
                table.wrong.append(f"{name}: [{mutant.kind}] {mutant} {claim.reason}")
                click.echo(f"{name}: PROVEN: [{mutant.kind}] {mutant} {claim.reason}")
            elif claim.status != REFUTED:
                click.echo(f"{name}: {claim.status}: [{mutant.kind}] {mutant}{f': {claim.reason}' if claim.reason else ''}")
        click.echo(f"{name}: {sum(table.counts.values())} mutants so far, {len(table.wrong)} proven")
    click.echo("\n".join(table.lines()))
    return int(bool(table.wrong))


def main(arguments: Sequence[str] | None = None) -> None:
    """Never returns: exits with the status."""
    sys.exit(status_of(commands, "mutantproofs", arguments))


if __name__ == "__main__":
    main()
