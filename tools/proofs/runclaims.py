"""The claim index, which the emulator settles in other domains than floats: exact algebra for what is computed, address terms for where."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from threadpoolctl import threadpool_limits

from asmgen.author.contract.contract import Value, Values
from asmgen.author.contract.problem import FIRST_HUGE
from asmgen.author.emit.kernel import Kernel
from asmgen.author.family.family import Family
from asmgen.isa.errors import AsmgenError
from asmgen.program.program import Program
from asmgen.tools.proofs.addressrun import AddressReport, run_addresses
from asmgen.tools.proofs.algebrarun import SEED, run_algebra
from asmgen.tools.proofs.edgelaunches import EdgeLaunches, Nearest
from asmgen.tools.proofs.limitlaunches import LimitCheck, SeenAtLimits
from asmgen.tools.proofs.proof import INDEX, PROVEN, REFUTED, UNKNOWN, Claim, launch_shown
from asmgen.tools.proofs.proofclasses import (
    Lengths,
    counted_launches,
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
from asmgen.tools.running.executed import executed, never_round, rounds
from asmgen.tools.running.keptdevices import keeping
from asmgen.tools.running.smalllaunches import groups_of

_Run = Callable[[Mapping[str, Any]], tuple[int, ...]]
_BUDGET = 20_000_000
"""Wave instructions of a launch of a few workgroups, of which a right one takes less than a million."""
_ROUNDED = "rounding is not part of it: residues are exact"
_SAME, _MAGNITUDES = 3, (8, 30)
_DRAWN = 4
"""Drawn launches that run even where others executed all code."""
_LOST = "by an instruction that the algebra has no rule for (docs/ALGEBRA.md), or by infinities: "
_CHANCE = "a wrong term has the right residue with probability degree / 2^30 a run"
_CANCELS = "what cancels in the formula, as a maximum does, is as launches on floats show it, on data that a wrong one ruins"
_SIZES = "the kernel decides and selects by sizes as in these launches: other sizes run the same code for more rounds and more workgroups"
_ONE_SIDED = "{} selections by sizes (first `{}`) took one side alone in the launches followed: of what other sizes select there, wraps " \
    "are judged, not whether it is the right one"
_UNMET = "{} comparisons of integers (first `{}`) met no equal sides or none next to these: a fault that only such sides show is not " \
    "seen there"
_WAYS = "where a size turns a branch from which both ways lead to an access, its address is as in a launch that went that way"


@dataclass
class Found(Exception):
    """A launch that is wrong, or `lost` what it computes: elements of outputs have no residue, and are right as floats. Without `values`,
    time that is over."""

    why: str = ""
    values: Mapping[str, Any] | None = None
    seed: int = 1
    lost: bool = False


@dataclass(frozen=True)
class Launched:
    """A launch that ran, and on which data."""

    values: Mapping[str, Any]
    magnitude: int
    seed: int


@dataclass
class Ran:
    """The launches of an index claim so far. `beside` are the counts of all kernels that are launched, `loaded` those on firmware that does
    not preload arguments, `rounds` sentences about loops, `approximate` says where large numbers are computed otherwise."""

    edges: EdgeLaunches
    counts: list[tuple[int, ...]] = field(default_factory=list)
    elements: int = 0
    rounds: list[str] = field(default_factory=list)
    beside: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)
    approximate: str = ""
    on_floats: int = 0
    launched: list[Launched] = field(default_factory=list)
    loaded: list[tuple[int, ...]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{len(self.counts)} launches, {self.elements} elements of outputs"

    def launch_all(self, family: Family, built: Built, program: Program | None, judged: Program, until: float) -> None:
        """Raises Found for the first launch that is wrong, and where time is over."""
        contract, build = built.kernel.contract, built.kernel.parameters

        def run(launch: Mapping[str, Any], magnitude: int = 0, seed: int = SEED) -> tuple[int, ...]:
            if time.process_time() > until:
                raise Found
            values = contract.resolve_run({**build, **launch})
            wrong = _wrong(family, built, values, program, checks=not self.counts, magnitude=magnitude, seed=seed)
            if not isinstance(wrong, str):
                self.edges.met(launch, wrong[3])
                for number, launch_counts in enumerate(wrong[2]):
                    self.beside.setdefault(number, []).append(launch_counts)
            if isinstance(wrong, str) and magnitude:
                self.approximate = f"code for large numbers is no identity (inputs times 2^{magnitude}: {wrong})"
                return ()
            if isinstance(wrong, str):
                lost = wrong.startswith(_LOST) and not on_floats(family, built, program, values, seed)[1]
                raise Found(wrong, values, seed, lost)
            self.counts.append(wrong[0])
            self.launched.append(Launched(values, magnitude, seed))
            self.elements += wrong[1]
            return wrong[0]

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
        for size in lengths(contract, build, _steps_of(family, built)):
            self._lengthen(size, run)
        for size in repeated_rows(contract, build) if never_round(judged, self.counts) else ():
            self._repeat(size, run, counted)
        self._search(judged, repeated_edges(contract, build), run, counted)
        for launch in (*several_rounds(contract, build), *counted_launches(contract, build)):
            run(launch)
        for launch in several_numbers(contract, build):
            if self.left_beside(built):
                run(launch)
        for magnitude in _MAGNITUDES:
            if _missing(judged, self.counts):
                run(given_launches(contract, build)[0], magnitude)
        for ran in self.covering(judged):
            if _missing(judged, self.counts):
                run(ran.values, seed=FIRST_HUGE + SEED)
        for launch in islice(more_launches(contract, build), _DRAWN):
            run(launch)
        self._search(judged, islice(more_launches(contract, build), _DRAWN, None), run, counted)
        self._run_edges(run, until)

    def _run_edges(self, run: _Run, until: float) -> None:
        """Launches at which comparisons turn, for half of the time that is left: floats and addresses take some too. Of those that lose
        residues, as where a row is masked whole, the others tell as much."""
        began = time.process_time()
        for number, launch in enumerate(self.edges.following() if began < until else (), 1):
            try:
                run(launch)
            except Found as stop:
                if not stop.lost:
                    raise
            spent = time.process_time() - began
            if spent + 2 * spent / number > (until - began) / 2:
                return

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
        found = _missing(judged, counts), never_round(judged, counts)
        return found if any(found) else None

    def left_beside(self, built: Built) -> tuple[Kernel, list[int]] | None:
        """The first kernel launched with the judged one of which no launch executed some instructions, and these; None for none."""
        for number, kernel in enumerate(built.kernel.launches):
            left = _missing(kernel.program, self.beside.get(number, [])) if number != len(built.kernel.before) else []
            if left:
                return kernel, left
        return None

    def covering(self, judged: Program) -> list[Launched]:
        """Launches that together execute all that all do, and in which each loop goes round that does in one."""
        return covering(self.launched, [(*row, *rounds(judged, row)) for row in self.counts])

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
    if family.algebra is None:
        return Claim(INDEX, UNKNOWN, "nothing", (), f"{family.name} has no reference in exact residues (docs/ALGEBRA.md)")
    with keeping(built, read=program is None), threadpool_limits(1, user_api="blas"):  # threads that wait take the processor's time
        return _index_claim(family, built, seconds, program)


def _index_claim(family: Family, built: Built, seconds: float, program: Program | None) -> Claim:
    judged = program or built.kernel.program
    ran = Ran(EdgeLaunches(built.kernel.contract, built.kernel.parameters, judged))
    try:
        until = time.process_time() + seconds
        ran.launch_strained(family, built, program, until)
        ran.launch_all(family, built, program, judged, until)
        ran.launch_strained(family, built, program, until)
        ran.launch_loaded(family, built, program, until)
    except Found as stop:
        if stop.values is not None:
            shown = {**launch_shown(family, built, stop.values), "seed": stop.seed}
            if stop.lost:
                return Claim(INDEX, UNKNOWN, f"{ran}, all equal", (_ROUNDED, _CHANCE), f"{stop.why}, with {shown['parameters']}")
            return Claim(INDEX, REFUTED, f"{ran}, and one that fails", (_ROUNDED, _CHANCE), stop.why, None, shown)
        return Claim(INDEX, UNKNOWN, f"{ran}, all equal", (_ROUNDED, _CHANCE), f"the {seconds:g} s were over before all launches ran")
    scope = f"{ran}, all equal to the reference; {ran.on_floats} launches on floats within its bound; " \
        f"addresses of the longest, and of those of these that together execute all code, for all sizes of the contract that execute it"
    otherwise = (f"{ran.approximate}: that is judged on floats, and as a formula on data of its own",) if ran.approximate else ()
    assumed = (_ROUNDED, _CHANCE, _CANCELS, _SIZES, *ran.rounds, *_not_met(ran.edges), *otherwise)
    missing = _missing(judged, ran.counts)
    if missing:
        why = f"; {ran.approximate}" if ran.approximate else ""
        return Claim(INDEX, UNKNOWN, scope, assumed, f"{len(missing)} instructions are executed by none of the launches{why}",
                     _placed(judged, missing[0]))
    entry = executed(judged, [*ran.counts, *ran.loaded]).missing if judged.entry else ()
    if entry:
        why = f"{len(entry)} instructions are executed by none of the launches on firmware that does not preload arguments"
        return Claim(INDEX, UNKNOWN, scope, assumed, why, _placed(judged, entry[0]))
    once = never_round(judged, ran.counts)
    if once:
        return Claim(INDEX, UNKNOWN, scope, assumed, f"{len(once)} loops go round in none of the launches", _placed(judged, once[0]))
    beside = ran.left_beside(built)
    if beside is not None:
        kernel, left = beside
        why = f"{len(left)} instructions of {kernel.resources.name} are executed by none of the launches"
        return Claim(INDEX, UNKNOWN, scope, assumed, why, _placed(kernel.program, left[0]))
    if len(built.kernel.launches) > 1:
        assumed = (*assumed, f"other sizes are followed in addresses of {built.kernel.resources.name}, not of what is launched with it")
    claim = Claim(INDEX, PROVEN, scope, assumed)
    limits, counts, checks, selected = SeenAtLimits(), list[tuple[int, ...]](), list[LimitCheck](), dict[int, set[bool]]()
    longest = ran.launched[max(range(len(ran.counts)), key=lambda number: sum(ran.counts[number]))]
    chosen = ran.covering(judged)
    waiting = [*chosen, *([longest] if longest not in chosen else [])]
    others = [one for one in ran.launched if one not in waiting] + _more_launched(built)
    wide = [max(ran.launched, key=lambda one: groups_of(built.kernel.contract, {}, one.values))]  # its numbers have bits to mask
    while waiting and claim.status == PROVEN:
        launched = waiting.pop(0)
        report = run_addresses(family, built, launched.values, launched.seed, program, launched.magnitude)
        counts.append(report.launch.counts)
        for number, held in report.decisions.selected.items():
            selected.setdefault(number, set()).update(held)
        checks.append(LimitCheck(report, built.kernel.contract, built.kernel.parameters, limits))
        claim = _with_addresses(claim, family, built, report, checks[-1], until + seconds / 2)
        if claim.status == PROVEN and not waiting and limits.idle() and wide and time.process_time() < until + seconds / 2:
            waiting += [one for one in (wide.pop(),) if one in others]
        if claim.status == PROVEN and not waiting and limits.unseen() and time.process_time() < until + seconds / 2:
            found = (check.other_way([dict(one.values) for one in others]) for check in checks)
            further = next((number for number in found if number is not None), None)
            waiting += [others.pop(further)] if further is not None else []
        if claim.status == PROVEN and not waiting and time.process_time() < until + seconds / 4:
            waiting += _other_side(checks, others, ran, selected)
    if claim.status != PROVEN:
        return claim
    unfollowed = [position for position in _missing(judged, counts) if judged.instructions[position].opcode.memory is not None]
    if unfollowed:
        why = f"addresses of {len(unfollowed)} instructions are followed in none of the launches"
        return replace(claim, status=UNKNOWN, reason=why, at=_placed(judged, unfollowed[0]))
    one_sided = [one.text for one in judged.instructions if len(selected.get(id(one), ())) == 1]
    if one_sided:
        claim = replace(claim, assumptions=(*claim.assumptions, _ONE_SIDED.format(len(one_sided), one_sided[0])))
    return _with_ways(claim, limits)


def _other_side(checks: Sequence[LimitCheck], others: list[Launched], ran: Ran, selected: Mapping[int, set[bool]]) -> list[Launched]:
    """Of launches that ran and were not followed, one in which a selection takes the side that none did, or a function does something that
    did nothing, taken from `others`."""
    before = [one for one in others if one in ran.launched]
    sizes = [dict(one.values) for one in before]
    found = (number for check in checks for number in (check.other_side(sizes, selected), check.acting(sizes)))
    further = next((number for number in found if number is not None), None)
    if further is None:
        return []
    others.remove(before[further])
    return [before[further]]


def _not_met(edges: EdgeLaunches) -> tuple[str, ...]:
    """Comparisons whose edges no launch met."""
    left = sorted({position for (position, _), _ in edges.left()})
    return (_UNMET.format(len(left), edges.judged.instructions[left[0]].text),) if left else ()


def _more_launched(built: Built) -> list[Launched]:
    """Drawn ones, for ways that no other goes."""
    contract, build = built.kernel.contract, built.kernel.parameters
    return [Launched(contract.resolve_run({**build, **launch}), 0, SEED) for launch in more_launches(contract, build)]


def _with_ways(claim: Claim, limits: SeenAtLimits) -> Claim:
    """Unknown where a size sends waves another way to an access that may wrap than any launch, or lets a function of an address do what it
    does in none."""
    idle = limits.idle()
    if idle is not None:
        return replace(claim, status=UNKNOWN, reason=idle)
    unseen = limits.unseen()
    if unseen is not None:
        access, branch = unseen
        why = f"a size that lets the address wrap turns `{branch}`, and no launch followed comes here that way"
        return replace(claim, status=UNKNOWN, reason=why, at=access)
    return replace(claim, assumptions=(*claim.assumptions, _WAYS)) if limits.needed else claim


def _with_addresses(claim: Claim, family: Family, built: Built, report: AddressReport, check: LimitCheck,
                    until: float) -> Claim:
    """A claim that is proven but for what addresses are for all sizes."""
    for sequence in report.sequences:
        if not sequence.known:
            return replace(claim, status=UNKNOWN, reason=f"the {sequence.what} is not known as a formula", at=sequence.instruction.text)
    wrap = check.wrap(until)
    if isinstance(wrap, str):
        return replace(claim, status=UNKNOWN, reason=wrap)
    if wrap is not None:
        shown = {**launch_shown(family, built, wrap.parameters), "workgroup": list(wrap.workgroup), "work_item": wrap.item}
        return replace(claim, status=REFUTED, at=wrap.sequence.instruction.text, counterexample=shown,
                       reason=f"the {wrap.sequence.what} wraps: it is {abs(wrap.off):#x} bytes from where it should be")
    if check.launches:
        largest = "addresses that bounds of single parameters leave open are largest at launches at the contract's limits"
        return replace(claim, assumptions=tuple(dict.fromkeys((*claim.assumptions, largest))))
    return claim


def _wrong(family: Family, built: Built, values: Mapping[str, Any], program: Program | None, checks: bool,
           magnitude: int, seed: int) -> str | tuple[tuple[int, ...], int, list[tuple[int, ...]], Nearest]:
    """Why a launch is wrong; else how often it executed what, how many elements were compared, and how far apart compared numbers were."""
    try:
        report = run_algebra(family, built, values, seed, program, checks, _BUDGET, magnitude)
    except AsmgenError as error:
        return f"the launch fails: {error.sentence}"
    if not report.equal:
        lost = _LOST if all(not one.wrong for one in report.mismatches) else ""
        return f"{lost}{report.mismatches[0].sentence()}"
    errors = [finding for finding in report.launch.findings if finding.severity == "error"]
    if errors:
        return f"{errors[0].check}: {errors[0].message}"
    return report.launch.counts, report.elements, [launch.counts for launch in report.launches], report.nearest


def _steps_of(family: Family, built: Built) -> Callable[[Values], Sequence[int]] | None:
    """The steps of workgroups, where the family says them."""
    work = family.work
    if work is None:
        return None
    variant = family.select(built.kernel.resources.arch, built.kernel.parameters)
    return lambda values: work(values, variant).steps.tolist()


def _missing(program: Program, counts: list[tuple[int, ...]]) -> list[int]:
    """The positions that no launch executed, but for the entry of firmware that does not preload arguments."""
    entry = program.labels.get(program.entry, 0) if program.entry else 0
    return [position for position in executed(program, counts).missing if position >= entry]


def _placed(program: Program, position: int) -> str:
    instruction = program.instructions[position]
    return f"{instruction.where() or program.name}: {instruction.text}"
