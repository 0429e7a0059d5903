"""The claim index, which the emulator settles in other domains than floats: exact algebra for what is computed, address terms for where."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice, product
from typing import Any

from threadpoolctl import threadpool_limits

from asmgen.author.contract.contract import Value, Values
from asmgen.author.contract.problem import FIRST_HUGE
from asmgen.author.emit.kernel import Kernel
from asmgen.author.family.family import Family
from asmgen.emulator.carried.comparisons import Compared, Sides
from asmgen.isa.errors import AsmgenError
from asmgen.program.program import Program
from asmgen.tools.proofs.actinglaunches import acting_launches, given_numbers, longer_launches
from asmgen.tools.proofs.addressclaim import AddressClaim, Launched
from asmgen.tools.proofs.algebrarun import SEED, run_algebra
from asmgen.tools.proofs.edgelaunches import EdgeLaunches, Nearest
from asmgen.tools.proofs.edgeterms import Base, EdgeTerms
from asmgen.tools.proofs.limitlaunches import LimitCheck
from asmgen.tools.proofs.proof import INDEX, PROVEN, REFUTED, UNKNOWN, Claim, launch_shown
from asmgen.tools.proofs.proofclasses import (
    Lengths,
    counted_launches,
    cut_steps,
    given_launches,
    lengths,
    more_launches,
    repeated_edges,
    repeated_rows,
    several_numbers,
    several_rounds,
    steady,
)
from asmgen.tools.proofs.strainedruns import covering, on_floats, strained_again, strained_launches
from asmgen.tools.running.build import Built
from asmgen.tools.running.executed import branch_outcomes, executed, never_round, placed, rounds, unexecuted
from asmgen.tools.running.keptdevices import keeping

_Run = Callable[[Mapping[str, Any]], tuple[int, ...]]
_Result = str | tuple[tuple[int, ...], int, list[tuple[int, ...]], tuple[Nearest, Mapping[Compared, Sides]]]
"""Of a launch what `_wrong` says."""
_BUDGET = 20_000_000
"""Wave instructions of a launch of a few workgroups, of which a right one takes less than a million."""
_ROUNDED = "rounding is not part of it: residues are exact"
_SAME, _MAGNITUDES = 3, (8, 30)
_DRAWN, _BASES = 4, 3
"""Drawn launches that run even where others executed all code; short launches whose sizes are changed where something did nothing."""
_LOST = "by an instruction that the algebra has no rule for (docs/ALGEBRA.md), or by infinities: "
_CHANCE = "a wrong term has the right residue with probability degree / 2^30 a run"
_CANCELS = "what cancels in the formula, as a maximum does, is as launches on floats show it, on data that a wrong one ruins"
_SIZES = "the kernel decides and selects by sizes as in these launches: other sizes run the same code for more rounds and more workgroups"
_UNMET = "{} comparisons of integers (first `{}`) met no equal sides or none next to these: a fault that only such sides show is not " \
    "seen there"
_UNREACHED = "{} comparisons (first `{}`) are right at equal sides or next to these: sizes reach them by the terms, and launches did " \
    "not"


@dataclass
class Found(Exception):
    """A launch that is wrong, or `lost` what it computes: elements of outputs have no residue, and are right as floats. Without `values`,
    time that is over."""

    why: str = ""
    values: Mapping[str, Any] | None = None
    seed: int = 1
    lost: bool = False


@dataclass
class Ran:
    """The launches of an index claim so far. `beside` are the counts of all kernels that are launched, `loaded` those on firmware that does
    not preload arguments, `rounds` sentences about loops, `bases` those of `executing`, by launch, `approximate` says where large numbers
    are computed otherwise."""

    edges: EdgeLaunches
    counts: list[tuple[int, ...]] = field(default_factory=list)
    elements: int = 0
    rounds: list[str] = field(default_factory=list)
    beside: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)
    approximate: str = ""
    on_floats: int = 0
    launched: list[Launched] = field(default_factory=list)
    loaded: list[tuple[int, ...]] = field(default_factory=list)
    bases: dict[int, Base] = field(default_factory=dict)
    _results: dict[tuple[str, int, int], _Result] = field(default_factory=dict)  # several rules ask for the same launch

    def __str__(self) -> str:
        return f"{len(self.counts)} launches, {self.elements} elements of outputs"

    def launch_all(self, family: Family, built: Built, program: Program | None, judged: Program, until: float) -> None:
        """Raises Found for the first launch that is wrong, and where time is over."""
        contract, build = built.kernel.contract, built.kernel.parameters

        def run(launch: Mapping[str, Any], magnitude: int = 0, seed: int = SEED) -> tuple[int, ...]:
            if time.process_time() > until:
                raise Found
            return self.run(family, built, program, launch, magnitude, seed)

        def counted(launch: Mapping[str, Any]) -> tuple[int, ...]:
            if time.process_time() > until:
                raise Found
            values = contract.resolve_run({**build, **launch})
            counts, wrong = on_floats(family, built, program, values, SEED)
            if wrong:
                raise Found(wrong, values, SEED)
            self.on_floats += 1
            return counts

        for launch in given_launches(contract, build):
            run(launch)
        for size in lengths(contract, build, steps_of(family, built)):
            self._lengthen(size, run)
        for size in repeated_rows(contract, build) if never_round(judged, self.counts) else ():
            self._repeat(size, run, counted)
        self._search(judged, chain(repeated_edges(contract, build), cut_steps(contract, build, steps_of(family, built))), run, counted)
        for launches in (several_rounds(contract, build), counted_launches(contract, build)):
            self._run_new(launches, run, counted)
        for launch in several_numbers(contract, build):
            if self.left_beside(built):
                run(launch)
        self._run_large(judged, list(given_launches(contract, build)), run)
        for launch in islice(more_launches(contract, build), _DRAWN):
            run(launch)
        self._search(judged, islice(more_launches(contract, build), _DRAWN, None), run, counted)

    def run(self, family: Family, built: Built, program: Program | None, launch: Mapping[str, Any], magnitude: int = 0,
            seed: int = SEED) -> tuple[int, ...]:
        """A launch in exact algebra: how often it executed what. Raises Found if it is wrong."""
        values = built.kernel.contract.resolve_run({**built.kernel.parameters, **launch})
        key = repr(sorted(values.items())), magnitude, seed
        if key not in self._results:
            self._results[key] = _wrong(family, built, values, program, checks=not self.counts, magnitude=magnitude, seed=seed)
        wrong = self._results[key]
        if isinstance(wrong, str) and magnitude:
            self.approximate = f"code for large numbers is no identity (inputs times 2^{magnitude}: {wrong})"
            return ()
        if isinstance(wrong, str):
            lost = wrong.startswith(_LOST) and not on_floats(family, built, program, values, seed)[1]
            raise Found(wrong, values, seed, lost)
        self.edges.met(launch, *wrong[3])
        for number, launch_counts in enumerate(wrong[2]):
            self.beside.setdefault(number, []).append(launch_counts)
        self.counts.append(wrong[0])
        self.launched.append(Launched(values, magnitude, seed, self.edges.outcomes(wrong[3][1])))
        self.elements += wrong[1]
        return wrong[0]

    def _length(self, launched: Launched) -> int:
        return sum(self.counts[self.launched.index(launched)])

    def shortest(self) -> list[Mapping[str, Any]]:
        """Of launches on ordinary data the few that executed least, each with a number of instructions of its own, and the longest."""
        found = {sum(counts): one.values for one, counts in zip(self.launched, self.counts, strict=True) if not one.magnitude}
        sizes = sorted(found)
        return [found[size] for size in dict.fromkeys([*sizes[:_BASES], *sizes[-1:]])]

    def executing(self, position: int) -> Base | None:
        """Of launches on ordinary data the one that executed an instruction and least else."""
        found = [(sum(counts), number) for number, counts in enumerate(self.counts)
                 if counts[position] and not self.launched[number].magnitude]
        return self._base(min(found)[1]) if found else None

    def _base(self, number: int) -> Base:
        if number not in self.bases:
            self.bases[number] = Base(given_numbers(self.edges.contract, self.launched[number].values), self.counts[number])
        return self.bases[number]

    def fits(self, family: Family, built: Built) -> Callable[[Mapping[str, Any]], bool]:
        """Whether a launch takes no more than twice what the longest one did, as far as its size says."""
        steps = steps_of(family, built)
        own = [one.name for one in built.kernel.contract.parameters if one.kind == "run" and one.type is int and not one.default_from
               and one.default is None]

        def size(values: Values) -> int:
            return sum(steps(values)) if steps is not None else math.prod(int(str(values[name])) for name in own)

        most = max(size(one.values) for one in self.launched)
        return lambda values: size(values) <= 2 * most

    def _run_large(self, judged: Program, given: Sequence[dict[str, Value]], run: Callable[..., tuple[int, ...]]) -> None:
        """Code for large numbers, as far as none executed it: the launch of one workgroup with inputs times powers of two, short launches
        on data of its own, and that of several workgroups."""
        for launch, magnitude in product(given[1:2], _MAGNITUDES):
            if unexecuted(judged, self.counts):
                run(launch, magnitude)
        for ran in sorted(self.covering(judged), key=self._length):
            if unexecuted(judged, self.counts):
                run(ran.values, seed=FIRST_HUGE + SEED)
        for launch, magnitude in product(given[:1], _MAGNITUDES):
            if unexecuted(judged, self.counts):
                run(launch, magnitude)

    def run_edges(self, run: Callable[[Mapping[str, Any]], object], until: float) -> None:
        """Launches at which comparisons turn, for half of the time that is left: floats and addresses take some too. Of those that lose
        residues, as where a row is masked whole, the others tell as much."""
        began = time.process_time()
        for number, launch in enumerate(self.edges.following() if began < until else (), 1):
            run(launch)
            spent = time.process_time() - began
            if spent + 2 * spent / number > (until - began) / 2:
                return

    @staticmethod
    def _run_new(launches: Iterable[dict[str, Value]], run: _Run, counted: _Run) -> None:
        """Those that execute what none of them before did. On floats all: a matrix or tile in the place of another one shows there too."""
        seen = set[int]()
        for launch in launches:
            new = {position for position, count in enumerate(counted(launch)) if count} - seen
            if new:
                run(launch)
                seen |= new

    def _search(self, judged: Program, launches: Iterator[dict[str, Value]], run: _Run, counted: _Run) -> None:
        """Those that floats show to execute what none did yet."""
        left = self.left(judged)
        for launch in launches if left is not None else ():
            if self.left(judged, counted(launch)) != left:
                run(launch)
                left = self.left(judged)
                if left is None:
                    return

    def left(self, judged: Program, *more: tuple[int, ...]) -> tuple[list[int], list[int]] | None:
        """Instructions that no launch executed, and ends of loops that none went round, with launches of these counts too; None for
        nothing."""
        counts = [*self.counts, *more]
        found = unexecuted(judged, counts), never_round(judged, counts)
        return found if any(found) else None

    def left_beside(self, built: Built) -> tuple[Kernel, list[int]] | None:
        """The first kernel launched with the judged one of which no launch executed some instructions, and these; None for none."""
        for number, kernel in enumerate(built.kernel.launches):
            left = unexecuted(kernel.program, self.beside.get(number, [])) if number != len(built.kernel.before) else []
            if left:
                return kernel, left
        return None

    def covering(self, judged: Program) -> list[Launched]:
        """Launches that together execute all that all do, and in which each loop goes round that does in one."""
        return covering(self.launched, [(*row, *rounds(judged, row)) for row in self.counts])

    def comparing(self, followed: Sequence[Launched]) -> list[Launched]:
        """Launches in which comparisons have outcomes that they had in none that was followed; together they have all of these."""
        nothing = frozenset[tuple[int, bool]]()
        new = sorted(nothing.union(*(one.outcomes for one in self.launched)).difference(*(one.outcomes for one in followed)))
        return covering(self.launched, [tuple(outcome in one.outcomes for outcome in new) for one in self.launched])

    def launch_strained(self, family: Family, built: Built, program: Program | None, until: float) -> None:
        """What algebra does not see, on floats: first a few launches, after `launch_all` those that together execute all that it did.
        Raises Found as `launch_all`."""
        chosen = [one.values for one in self.covering(program or built.kernel.program)]
        for values, seed, wrong in strained_again(family, built, program, chosen) if chosen else strained_launches(family, built, program):
            if wrong:
                raise Found(wrong, values, seed)
            self.on_floats += 1
            if time.process_time() > until:
                raise Found

    def launch_loaded(self, family: Family, built: Built, program: Program | None, until: float) -> None:
        """Where code has an entry for firmware that does not preload arguments, these launches by that entry, on floats. Raises Found as
        `launch_all`."""
        judged = program or built.kernel.program
        for one in self.covering(judged) if judged.entry else ():
            if time.process_time() > until:
                raise Found
            counts, wrong = on_floats(family, built, program, one.values, SEED, preload=False)
            if wrong:
                raise Found(f"on firmware that does not preload arguments {wrong}", one.values, SEED)
            self.loaded.append(counts)
            self.on_floats += 1

    def _repeat(self, size: Lengths, run: _Run, counted: _Run) -> None:
        """Floats show from where on a loop that takes tile after tile is steady; in algebra run the launches with the last rounds of these,
        whose first tiles are those of the shorter ones."""
        if len(size.fine) == 1:
            run(size.fine[0])
        counts: list[tuple[int, ...]] = []
        for launch in size.fine[:len(size.fine) * (len(size.fine) > 1)]:
            counts.append(counted(launch))
            period = steady(counts)
            if period is not None:
                for last in range(period):
                    run(size.fine[len(counts) - 1 - last])
                self._say(size, len(counts), period, size.fine)
            if period is not None or len(counts) == _SAME and len(set(counts)) == 1:
                return

    def _say(self, size: Lengths, count: int, period: int, launches: Sequence[Mapping[str, Any]]) -> None:
        first, last = (launches[count - 1 - back][size.name] for back in (2 * period, period))
        self.rounds.append(f"from {size.name} {first} on, each {last - first} more execute the same code once more, as two rounds showed")

    def _lengthen(self, size: Lengths, run: _Run) -> None:
        """One step more each time, until the loops are steady. A size of which more executes the same is none of a loop."""
        counts = [run(launch) for launch in size.fine[:2]]
        launches = size.fine if len(set(counts)) > 1 or size.fine == size.coarse else size.coarse
        counts = counts if launches is size.fine else []
        for launch in launches[len(counts):]:
            counts.append(run(launch))
            period = steady(counts)
            if period is not None:
                self._say(size, len(counts), period, launches)
                short = int(size.fine[1][size.name]) - int(size.fine[0][size.name])
                if launches is size.coarse and launches is not size.fine:
                    run({**launch, size.name: int(launch[size.name]) - short})  # the last step is cut
                return
            if len(counts) == _SAME and len(set(counts)) == 1:
                return


def index_claim(family: Family, built: Built, seconds: float, program: Program | None = None) -> Claim:
    """Each element of each output is the family's reference polynomial, in launches that together execute all code, with loops of each
    length until they are steady; addresses are known and do not wrap for any size that the contract allows. `program` is judged instead of
    the built one.

    It takes `seconds` of the processor at most, and half as many for addresses; what is not done then is unknown.
    """
    return index_claims(family, built, seconds, program=program)[0]


def index_claims(family: Family, built: Built, seconds: float, wider: Sequence[Built] = (), program: Program | None = None) -> list[Claim]:
    """The index claim of a build, and of the same kernel under contracts that are `wider`: they allow all that the build's own does, and
    more. Of these addresses are judged anew, each for half of the time, after the same launches; without edges, which are the same."""
    if family.algebra is None:
        return [Claim(INDEX, UNKNOWN, "nothing", (), f"{family.name} has no reference in exact residues (docs/ALGEBRA.md)")] * (
            1 + len(wider))
    with keeping(built, read=program is None), threadpool_limits(1, user_api="blas"):  # threads that wait take the processor's time
        judging = _Judging(family, built, program, seconds)
        launched = judging.launched()
        return [judging.followed(launched), *(judging.under(launched, one) for one in wider)]


class _Judging:
    """The index claim of a build, or of a program instead of the built one, from now on."""

    def __init__(self, family: Family, built: Built, program: Program | None, seconds: float) -> None:
        self._family, self._built, self._program, self._seconds = family, built, program, seconds
        self._judged = program or built.kernel.program
        self._ran = Ran(EdgeLaunches(built.kernel.contract, built.kernel.parameters, self._judged))
        self._until = time.process_time() + seconds

    def launched(self) -> Claim:
        """The claim after launches: proven if addresses are."""
        family, built, program, ran, judged, until = self._family, self._built, self._program, self._ran, self._judged, self._until
        try:
            ran.launch_strained(family, built, program, until)
            ran.launch_all(family, built, program, judged, until)
            ran.launch_strained(family, built, program, until)
            ran.launch_loaded(family, built, program, until)
        except Found as stop:
            return _stopped(stop, family, built, ran, self._seconds)
        otherwise = (f"{ran.approximate}: that is judged on floats, and as a formula on data of its own",) if ran.approximate else ()
        assumed = (_ROUNDED, _CHANCE, _CANCELS, _SIZES, *ran.rounds, *otherwise)
        missing = unexecuted(judged, ran.counts)
        if missing:
            why = f"; {ran.approximate}" if ran.approximate else ""
            return Claim(INDEX, UNKNOWN, self._scope(), assumed, f"{len(missing)} instructions are executed by none of the launches{why}",
                         placed(judged, missing[0]))
        entry = executed(judged, [*ran.counts, *ran.loaded]).missing if judged.entry else ()
        if entry:
            why = f"{len(entry)} instructions are executed by none of the launches on firmware that does not preload arguments"
            return Claim(INDEX, UNKNOWN, self._scope(), assumed, why, placed(judged, entry[0]))
        once = never_round(judged, ran.counts)
        if once:
            return Claim(INDEX, UNKNOWN, self._scope(), assumed, f"{len(once)} loops go round in none of the launches",
                         placed(judged, once[0]))
        beside = ran.left_beside(built)
        if beside is not None:
            kernel, left = beside
            why = f"{len(left)} instructions of {kernel.resources.name} are executed by none of the launches"
            return Claim(INDEX, UNKNOWN, self._scope(), assumed, why, placed(kernel.program, left[0]))
        if len(built.kernel.launches) > 1:
            assumed = (*assumed, f"other sizes are followed in addresses of {built.kernel.resources.name}, not of what is launched with it")
        return Claim(INDEX, PROVEN, self._scope(), assumed)

    def followed(self, claim: Claim) -> Claim:
        """What launches leave proven, after addresses, and after launches at edges."""
        later = self._until + self._seconds / 4
        return self._with_addresses(claim, self._built, self._edges, later + self._seconds / 4, later)

    def under(self, claim: Claim, wide: Built) -> Claim:
        """The same under a wider contract."""
        now = time.process_time()
        with keeping(wide, read=self._program is None):
            return self._with_addresses(claim, wide, lambda checks: lambda: None, now + self._seconds / 2, now + self._seconds / 4)

    def _scope(self) -> str:
        return f"{self._ran}, all equal to the reference; {self._ran.on_floats} launches on floats within its bound; addresses of the " \
            "longest, and of those of these that together execute all code, for all sizes of the contract that execute it"

    def _with_addresses(self, claim: Claim, built: Built, edges: Callable[[Sequence[LimitCheck]], Callable[[], str | None]],
                        until: float, sides_until: float) -> Claim:
        if claim.status != PROVEN:
            return claim
        ran, judged, contract = self._ran, self._judged, built.kernel.contract
        longest = ran.launched[max(range(len(ran.counts)), key=lambda number: sum(ran.counts[number]))]
        chosen = ran.covering(judged)
        chosen += [longest] if longest not in chosen else []

        def others(come: Sequence[Mapping[str, Any]], there: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
            longer = longer_launches(contract, ran.shortest()[0], come, [one.values for one in ran.launched])
            return acting_launches(contract, built.kernel.parameters, [*there, *ran.shortest()], ran.fits(self._family, built), longer)

        waiting = [one for one in ran.launched if one not in chosen]
        addresses = AddressClaim(self._family, built, self._program, until, sides_until, waiting, others, partial(self._run, built),
                                 given_numbers(contract, ran.shortest()[0]), ran.edges.one_sided, edges,
                                 lambda: branch_outcomes(judged, ran.counts), ran.comparing)
        try:
            claim = addresses.judged(claim, chosen)
        except Found as stop:
            return _stopped(stop, self._family, built, ran, self._seconds)
        return replace(claim, scope=self._scope(), assumptions=(*claim.assumptions, *_not_met(ran.edges)))

    def _run(self, built: Built, values: Mapping[str, Any]) -> Launched | None:
        """None for a launch that loses residues."""
        try:
            self._ran.run(self._family, built, self._program, values)
        except Found as stop:
            if stop.lost:
                return None
            raise
        return self._ran.launched[-1]

    def _edges(self, checks: Sequence[LimitCheck]) -> Callable[[], str | None]:
        """Run launches at edges; who says what is assumed of those that none met."""
        ran, contract, build = self._ran, self._built.kernel.contract, self._built.kernel.parameters
        terms = EdgeTerms(checks, contract, build, ran.edges.left, ran.executing, ran.fits(self._family, self._built),
                          given_numbers(contract, ran.shortest()[0]), self._until + self._seconds / 4)
        for launch in terms.following():
            ran.edges.trying(launch)
            self._run(self._built, launch)
        ran.run_edges(partial(self._run, self._built), self._until)

        def unmet() -> str | None:
            left = sorted({position for (position, _), _ in terms.unmet()})
            return _UNREACHED.format(len(left), self._judged.instructions[left[0]].text) if left else None

        return unmet


def _stopped(stop: Found, family: Family, built: Built, ran: Ran, seconds: float) -> Claim:
    """The claim where launches end with one that is wrong, or loses residues, or time was over."""
    if stop.values is None:
        return Claim(INDEX, UNKNOWN, f"{ran}, all equal", (_ROUNDED, _CHANCE), f"the {seconds:g} s were over before all launches ran")
    shown = {**launch_shown(family, built, stop.values), "seed": stop.seed}
    if stop.lost:
        return Claim(INDEX, UNKNOWN, f"{ran}, all equal", (_ROUNDED, _CHANCE), f"{stop.why}, with {shown['parameters']}")
    return Claim(INDEX, REFUTED, f"{ran}, and one that fails", (_ROUNDED, _CHANCE), stop.why, None, shown)


def _not_met(edges: EdgeLaunches) -> tuple[str, ...]:
    """Comparisons whose edges no launch met."""
    left = sorted({position for (position, _), _ in edges.left()})
    return (_UNMET.format(len(left), edges.judged.instructions[left[0]].text),) if left else ()


def _wrong(family: Family, built: Built, values: Mapping[str, Any], program: Program | None, checks: bool,
           magnitude: int, seed: int) -> _Result:
    """Why a launch is wrong; else how often it executed what, how many elements were compared, and how far apart compared numbers were."""
    try:
        report = run_algebra(family, built, values, seed, program, checks, _BUDGET, magnitude)
    except AsmgenError as error:
        return f"the launch fails: {error.sentence}"
    if report.changed:
        return f"{report.changed[0]}: bytes change that no output has"
    if not report.equal:
        lost = _LOST if all(not one.wrong for one in report.mismatches) else ""
        return f"{lost}{report.mismatches[0].sentence()}"
    errors = [finding for finding in report.launch.findings if finding.severity == "error"]
    if errors:
        return f"{errors[0].check}: {errors[0].message}"
    return report.launch.counts, report.elements, [launch.counts for launch in report.launches], (report.nearest, report.sides)


def steps_of(family: Family, built: Built) -> Callable[[Values], Sequence[int]] | None:
    """The steps of workgroups, where the family says them."""
    work = family.work
    if work is None:
        return None
    variant = family.select(built.kernel.resources.arch, built.kernel.parameters)
    return lambda values: work(values, variant).steps.tolist()
