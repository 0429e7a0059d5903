"""What addresses are in launches that ran, for all sizes: which of these are followed, one after the other.

First some that together execute all code. What none of them did, and legal launches do, asks for one in which it happens: a function of an
address that did nothing, a way to an access that no wave went, a side that no scalar selection took. It is one of those that ran, else
another one that runs for it, in exact algebra as all others, before it is followed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any

import numpy as np

from asmgen.author.family.family import Family
from asmgen.program.program import Program
from asmgen.tools.proofs.actinglaunches import TRIES, shorter
from asmgen.tools.proofs.addressrun import AddressReport, run_addresses
from asmgen.tools.proofs.limitlaunches import IDLE, SIDE, TURN, WAY, Lack, LimitCheck, Meets, SeenAtLimits
from asmgen.tools.proofs.limitsamples import Truths
from asmgen.tools.proofs.onesidedcomparisons import OneSidedComparisons
from asmgen.tools.proofs.proof import PROVEN, REFUTED, UNKNOWN, Claim, launch_shown
from asmgen.tools.running.build import Built
from asmgen.tools.running.executed import placed, unexecuted

_ONE_SIDED = "{} selections by sizes (first `{}`) took one side alone in the launches followed: what other sizes select there is judged " \
    "in addresses, and else where comparisons turn"
_WAYS = "where a size turns a branch from which both ways lead to an access, its address is as in a launch that went that way"
_LARGEST = "addresses that bounds of single parameters leave open are largest at launches at the contract's limits"
_OUTCOMES = "the time was over before launches were followed in which comparisons have outcomes of their own"
_AT_ONCE = 32
"""Launches in which terms are computed at once."""


Lacks = Sequence[tuple[LimitCheck, Mapping[Lack, Meets]]]


@dataclass(frozen=True)
class Launched:
    """A launch that ran, on which data, and the comparisons there, by position, with each outcome that they had."""

    values: Mapping[str, Any]
    magnitude: int
    seed: int
    outcomes: frozenset[tuple[int, bool]] = frozenset()


@dataclass
class AddressClaim:
    """A claim that is proven but for what addresses are for all sizes. `ran` are launches that ran and were not followed, `others` makes
    more that may `run`, first longer ones than those given, which come where ways lack, then others than those that come to functions that
    did nothing. What runs gives None where it tells nothing, and is made of a `short` one where that can be. `one_sided` are comparisons
    with the one outcome that they had; `edges` runs launches at which others turn, and gives who says what is assumed in the end;
    `outcomes` says what SCC was at branches in all that ran, `comparing` which of these are to be followed beside those that were, as
    comparisons have other outcomes there. It takes the processor's time `until`, for other sides of selections until `sides_until`.
    """

    family: Family
    built: Built
    program: Program | None
    until: float
    sides_until: float
    ran: list[Launched]
    others: Callable[[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]], Iterator[dict[str, Any]]]
    run: Callable[[Mapping[str, Any]], Launched | None]
    short: Mapping[str, Any] = field(default_factory=dict)
    one_sided: Callable[[], Mapping[int, bool]] = dict
    edges: Callable[[Sequence[LimitCheck]], Callable[[], str | None]] = lambda checks: lambda: None
    outcomes: Callable[[], Mapping[int, Set[bool]]] = dict
    comparing: Callable[[Sequence[Launched]], Sequence[Launched]] = lambda followed: ()
    limits: SeenAtLimits = field(default_factory=SeenAtLimits)
    _launched: list[Launched] = field(default_factory=list)
    _counts: list[tuple[int, ...]] = field(default_factory=list)
    _checks: list[LimitCheck] = field(default_factory=list)
    _selected: dict[int, set[bool]] = field(default_factory=dict)
    _outcomes: dict[int, set[bool]] = field(default_factory=dict)
    _turning: list[OneSidedComparisons] = field(default_factory=list)
    _tried: Counter[Lack] = field(default_factory=Counter)
    _met: dict[Lack, Truths] = field(default_factory=dict)
    _followed: set[int] = field(default_factory=set)
    _made_before: list[Mapping[str, Any]] = field(default_factory=list)

    def judged(self, claim: Claim, first: Iterable[Launched]) -> Claim:
        """The claim after all. `first` are the launches that are followed first."""
        claim = self.followed(claim, first)
        return self._whole(claim) if claim.status == PROVEN else claim

    def followed(self, claim: Claim, first: Iterable[Launched]) -> Claim:
        """Not proven if a formula is not known or wraps. What no launch followed did is in `limits`."""
        waiting = iter(first)
        launched = next(waiting, None)
        while launched is not None and claim.status == PROVEN:
            report = run_addresses(self.family, self.built, launched.values, launched.seed, self.program, launched.magnitude)
            self._launched.append(launched)
            self._counts.append(report.launch.counts)
            for number, held in report.decisions.selected.items():
                self._selected.setdefault(number, set()).update(held)
            for number, outcomes in report.outcomes.items():
                self._outcomes.setdefault(number, set()).update(outcomes)
            contract, build = self.built.kernel.contract, self.built.kernel.parameters
            self._checks.append(LimitCheck(report, contract, build, self.limits))
            self._turning.append(OneSidedComparisons(self._checks[-1]))
            claim = self._with_addresses(claim, report)
            launched = next(waiting, None) or (self._next() if claim.status == PROVEN else None)
        return claim

    def _with_addresses(self, claim: Claim, report: AddressReport) -> Claim:
        for sequence in report.sequences:
            if not sequence.known:
                return replace(claim, status=UNKNOWN, reason=f"the {sequence.what} is not known as a formula", at=sequence.instruction.text)
        check = self._checks[-1]
        wrap = check.wrap(self.until)
        if isinstance(wrap, str):
            return replace(claim, status=UNKNOWN, reason=wrap)
        if wrap is not None:
            shown = {**launch_shown(self.family, self.built, wrap.parameters), "workgroup": list(wrap.workgroup), "work_item": wrap.item}
            return replace(claim, status=REFUTED, at=wrap.sequence.instruction.text, counterexample=shown,
                           reason=f"the {wrap.sequence.what} wraps: it is {abs(wrap.off):#x} bytes from where it should be")
        if check.launches:
            return replace(claim, assumptions=tuple(dict.fromkeys((*claim.assumptions, _LARGEST))))
        return claim

    def _next(self) -> Launched | None:
        """A launch that ran and meets most of what the claim needs, or one that is run for it; then, for half of the time, those that ran
        in which selections take other sides. None for no such launch, or no time."""
        needed = self._lacks(needed=True) if time.process_time() < self.until else []
        found = self._of_ran(needed) or self._made(needed)
        if found is None and time.process_time() < self.sides_until:
            found = self._of_ran(self._lacks(needed=False))
        return found

    def _of_ran(self, lacks: Lacks) -> Launched | None:
        """Of launches that ran, the one that meets most."""
        for check, own in lacks:  # where SCC decides otherwise in one of these, counts say so
            new = {lack: there for lack, there in own.items() if lack not in self._met and lack[0] != TURN}
            self._met |= check.meeting([one.values for one in self.ran], new)
        wanted = {lack: self._met[lack] for _, own in lacks for lack in own if lack in self._met}
        left = [number for number in range(len(self.ran)) if number not in self._followed]
        best = max(left, key=lambda number: sum(bool(there[number]) for there in wanted.values()), default=None)
        met = [lack for lack, there in wanted.items() if there[best]] if best is not None else []
        if best is None or not met:
            return None
        self._tried.update(met)
        self._followed.add(best)
        return self.ran[best]

    def _lacks(self, needed: bool) -> Lacks:
        """What lacks in the launches followed: what the claim needs, or sides of selections."""
        return self._untried(self._decided(), lambda lack: (lack[0] != SIDE) == needed)

    def _untried(self, held: Mapping[int, bool], wanted: Callable[[Lack], bool]) -> Lacks:
        """What lacks, each once, with the last launch that knows it, as far as too few launches were tried. `held` decides one way yet."""
        found, seen = list[tuple[LimitCheck, dict[Lack, Meets]]](), set[Lack]()
        for check, turning in zip(reversed(self._checks), reversed(self._turning), strict=True):
            own = {lack: there for lack, there in (check.lacks(self._selected) | turning.lacks(held)).items() if lack not in seen
                   and self._tried[lack] < TRIES and wanted(lack)}
            seen |= own.keys()
            found += [(check, own)] if own else []
        return found

    def _run_other_outcomes(self) -> None:
        """Run launches in which comparisons have another outcome than in all that ran, and waves come there, as far as some are made."""
        def another() -> Launched | None:
            return self._made(self._untried({**self.one_sided(), **self._decided()}, lambda lack: lack[0] == TURN))

        while time.process_time() < self.until and another() is not None:
            pass

    def _decided(self) -> dict[int, bool]:
        """Where SCC that no comparison wrote decided one way in all launches, by position, with it."""
        judged = self.program or self.built.kernel.program
        of_ran = self.outcomes()
        found = [(position, self._outcomes[id(one)] | of_ran.get(position, set())) for position, one in enumerate(judged.instructions)
                 if id(one) in self._outcomes]
        return {position: next(iter(outcomes)) for position, outcomes in found if len(outcomes) == 1}

    def _made(self, lacks: Lacks) -> Launched | None:
        """A launch that is run for what lacks, of those of which some at once are computed the one that meets most."""
        come, there = launches_lacking(lacks, WAY, TURN), launches_lacking(lacks, IDLE, TURN)
        others = (one for one in (self.others(come, there) if lacks else ()) if one not in self._made_before)
        while time.process_time() < self.until and (some := list(islice(others, _AT_ONCE))):
            met = self._met_by(some, lacks)
            for number in sorted(range(len(some)), key=lambda number: -len(met[number])):
                if met[number]:
                    self._made_before.append(some[number])
                    values = self._resolved(shorter(self.built.kernel.contract, self.built.kernel.parameters, some[number], self.short,
                                                    partial(self._meets, lacks, len(met[number]))))
                    if self._was_followed(values):  # and did not come there
                        values = self._resolved(some[number])
                    if self._was_followed(values):
                        continue
                    self._tried.update(met[number])
                    launched = self.run(values)
                    if launched is not None:
                        return launched
        return None

    def _was_followed(self, values: Mapping[str, Any]) -> bool:
        return any(check.report.parameters == values for check in self._checks)

    def _meets(self, lacks: Lacks, least: int, launch: Mapping[str, Any]) -> bool:
        return len(self._met_by([launch], lacks)[0]) >= least

    def _met_by(self, launches: Sequence[Mapping[str, Any]], lacks: Lacks) -> list[list[Lack]]:
        """Of each launch what it meets, by the terms."""
        met: list[list[Lack]] = [[] for _ in launches]
        resolved = [self._resolved(launch) for launch in launches]
        for check, own in lacks:
            for lack, there in check.meeting(resolved, own).items():
                for number in map(int, np.flatnonzero(there)):
                    met[number].append(lack)
        return met

    def _resolved(self, launch: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self.built.kernel.contract.resolve_run({**self.built.kernel.parameters, **launch}))

    def _whole(self, claim: Claim) -> Claim:
        """Unknown where addresses were followed nowhere, where a size sends waves another way to an access that may wrap than any launch,
        lets a function of an address do what it does in none, or turns a comparison."""
        lacks = self._unfollowed() or self._unseen()
        if lacks is not None:
            return replace(claim, status=UNKNOWN, reason=lacks[0], at=lacks[1])
        unmet = self.edges(self._checks)
        self._run_other_outcomes()
        claim = self._with_outcomes(claim)
        if claim.status != PROVEN:
            return claim
        judged = self.program or self.built.kernel.program
        one_sided = [one.text for one in judged.instructions if len(self._selected.get(id(one), ())) == 1]
        if one_sided:
            claim = replace(claim, assumptions=(*claim.assumptions, _ONE_SIDED.format(len(one_sided), one_sided[0])))
        held = {**self.one_sided(), **self._decided()}
        other = next((said for one in self._turning if (said := one.other(held, self.until)) is not None), None)
        if other is not None:
            return replace(claim, status=UNKNOWN, reason=other)
        edge = unmet()
        if edge is not None:
            claim = replace(claim, assumptions=(*claim.assumptions, edge))
        return replace(claim, assumptions=(*claim.assumptions, _WAYS)) if self.limits.needed else claim

    def _with_outcomes(self, claim: Claim) -> Claim:
        """After launches in which comparisons have outcomes that those followed had not: lanes that go on, what is selected and where waves
        go make other addresses."""
        for launched in self.comparing(self._launched):
            if claim.status == PROVEN and time.process_time() > self.until:
                return replace(claim, status=UNKNOWN, reason=_OUTCOMES)
            claim = self.followed(claim, [launched])
        lacks = self._unseen() if claim.status == PROVEN else None
        return claim if lacks is None else replace(claim, status=UNKNOWN, reason=lacks[0], at=lacks[1])

    def _unfollowed(self) -> tuple[str, str] | None:
        """That no launch followed executed some accesses, and the first of them."""
        judged = self.program or self.built.kernel.program
        left = [position for position in unexecuted(judged, self._counts) if judged.instructions[position].opcode.memory is not None]
        return (f"addresses of {len(left)} instructions are followed in none of the launches", placed(judged, left[0])) if left else None

    def _unseen(self) -> tuple[str, str | None] | None:
        """What sizes do with an address that they did in no launch followed, and where."""
        idle = self.limits.idle()
        if idle is not None:
            return idle, None
        unseen = self.limits.unseen()
        if unseen is not None:
            return f"a size that lets the address wrap turns `{unseen[1]}`, and no launch followed comes here that way", unseen[0]
        return None


def launches_lacking(lacks: Lacks, *kinds: str) -> list[Mapping[str, Any]]:
    """Launches in which something of these kinds lacks, first those with the first kind. Terms do not say which lanes come to an access:
    a launch that goes another way there is best made of the one that came."""
    found = [(min(kinds.index(kind) for kind in {kind for kind, _ in own}.intersection(kinds)), check.report.parameters)
             for check, own in lacks if any(kind in kinds for kind, _ in own)]
    return [parameters for _, parameters in sorted(found, key=itemgetter(0))]
