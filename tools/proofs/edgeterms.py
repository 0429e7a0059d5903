"""Launches that come to the edges of comparisons, found by the terms of their sides: which sizes make them equal takes no run.

A side grows by as much for each one more of a size, in each lane by its own terms. So the sizes at which sides are equal, or next to it,
follow from two launches, and terms tell of each what else it meets: one that meets most is the next one to run, and of those the least.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import islice, product
from operator import or_
from typing import Any

import numpy as np

from asmgen.author.contract.contract import KernelContract, Parameter, Values
from asmgen.emulator.terms.polynomials import Term
from asmgen.isa.arch import LANES
from asmgen.isa.errors import AsmgenError
from asmgen.tools.proofs.actinglaunches import TRIES, shorter
from asmgen.tools.proofs.edgelaunches import Key, ordered
from asmgen.tools.proofs.exactnumbers import Numbers
from asmgen.tools.proofs.launchvalues import given_numbers
from asmgen.tools.proofs.limitlaunches import LimitCheck
from asmgen.tools.proofs.limitsamples import Samples, Truths
from asmgen.tools.proofs.termvalues import Makings, TermValues

Launch = Mapping[str, Any]
_SIZES = 4
"""Values of one size that are tried for an edge, the least ones."""
_AT_ONCE = 16
"""Launches in which terms are computed at once, in each lane."""


@dataclass(frozen=True)
class _Met:
    """The comparisons whose edges a launch meets by the terms, and those of them to which waves come there."""

    met: frozenset[Key] = frozenset()
    come: frozenset[Key] = frozenset()

    def __or__(self, other: _Met) -> _Met:
        return _Met(self.met | other.met, self.come | other.come)

    def __and__(self, keys: Set[Key]) -> _Met:
        return _Met(self.met & keys, self.come & keys)


class ComparisonSides:
    """The sides of comparisons in the launch of a check, as terms, in any launch."""

    def __init__(self, check: LimitCheck, contract: KernelContract) -> None:
        self._check, self._report, self._contract, self._waves = check, check.report, contract, check.waves
        self._makings = Makings(check.report.algebra)
        self._truths: dict[int, dict[Term, set[int]]] = {}
        position = {id(one): number for number, one in enumerate(check.report.program.instructions)}
        for (instruction, wave), truths in check.report.truths.items():
            for term in truths:
                if term is not None:
                    self._truths.setdefault(position[instruction], {}).setdefault(term, set()).add(wave % self._waves)

    def apart(self, key: Key, samples: Samples) -> Iterator[tuple[Numbers, Truths]]:
        """By how much sides are apart, for each term of the truth, with the samples that are of waves that have it. A bit is 0 or 1."""
        (position, name), _ = key
        for term, waves in self._truths.get(position, {}).items():
            here = np.isin(samples.waves, [*waves])
            try:
                if name.startswith("s_bitcmp"):
                    truth = samples.values.of(term)
                    yield (truth if name.startswith("s_bitcmp1") else 1 - truth), here
                    continue
                variable = self._report.algebra.variables[term[0][0][0]] if len(term) == 1 and len(term[0][0]) == 1 else None
                parts = [part for part in variable.made_of if isinstance(part, tuple)] if variable is not None else []
                if len(parts) == 2:
                    yield samples.values.of(parts[0]) - samples.values.of(parts[1]), here
            except (KeyError, TypeError, ValueError):
                continue  # made of what no launch says

    def knows(self, key: Key) -> bool:
        """Whether there are terms of a comparison's truth."""
        return key[0][0] in self._truths

    def met(self, keys: Sequence[Key], launches: Sequence[Launch]) -> list[_Met]:
        """Of each launch, given whole, those that it comes to."""
        met, come = (list[set[Key]](set() for _ in launches) for _ in range(2))
        known = [key for key in keys if self.knows(key)]
        if not known:
            return [_Met() for _ in launches]
        samples = self.samples(launches)
        for key in known:
            waves_come = self._come(key[0][0], samples)
            for apart, here in self.apart(key, samples):
                there = here & np.logical_or.reduce([apart == turn for turn in _differences(key)])
                for found, which in ((met, there), (come, there & waves_come)):
                    for number in np.unique(samples.launches[which]).tolist():
                        found[number].add(key)
        return [_Met(frozenset(one), frozenset(other)) for one, other in zip(met, come, strict=True)]

    def _come(self, position: int, samples: Samples) -> Truths:
        """Where waves come to a comparison, as far as the decisions say that led them in the launch of the check."""
        found = np.zeros(len(samples.waves), bool)
        for wave in set[int]().union(*self._truths[position].values()):
            own = samples.waves == wave
            for decision in self._check.guards.met(self._report.program.instructions[position], wave):
                own &= ~self._check.otherwise(decision, samples)
            found |= own
        return found

    def moves(self, key: Key, samples: Samples, by: int) -> set[int]:
        """By how much a size changes where sides come to an edge. `samples` are of a launch and of one in which it is `by` larger."""
        found, half = set[int](), len(samples.waves) // 2
        for apart, here in self.apart(key, samples):
            first, second = apart[:half][here[:half]], apart[half:][here[:half]]
            slopes = second - first
            for turn in _differences(key):
                lacks = (turn - first[slopes != 0]) * by
                whole = lacks % slopes[slopes != 0] == 0
                found.update((lacks[whole] // slopes[slopes != 0][whole]).tolist())
        return found

    def samples(self, launches: Sequence[Launch]) -> Samples:
        """Of whole launches."""
        ends = [sorted(set(product(*({0, side - 1} for side in self._contract.grid_of(launch))))) for launch in launches]
        groups = [(number, *ids) for number, some in enumerate(ends) for ids in some]
        each = self._waves * LANES
        rows = np.repeat(np.array(groups, np.int64).reshape(-1, 4), each, axis=0)
        items = np.tile(np.arange(each), len(groups))
        given = given_numbers(self._report.algebra, launches, rows[:, 0], rows[:, 1:], items, np.zeros(len(items), np.int64))
        return Samples(rows[:, 0], rows[:, 1:], items // LANES, items, TermValues(self._makings, given, len(items)))


def _differences(key: Key) -> tuple[int, ...]:
    """The differences that are an edge; of equality it has no sign."""
    (_, name), turn = key
    return (turn,) if ordered(key) or name.startswith("s_bitcmp") else (turn, -turn)


@dataclass(frozen=True)
class Base:
    """A launch that ran, as a caller gives it, and how often it executed which instruction."""

    launch: Launch
    counts: Sequence[int]


@dataclass(frozen=True)
class _EdgeLaunch:
    """A launch with a size other than in one that ran, and what it meets, of what that one executed."""

    launch: dict[str, Any]
    edges: _Met


@dataclass
class EdgeTerms:
    """Launches for edges that none met. `checks` are of launches that were followed, `left` says what lacks, `base` gives the least launch
    that executed an instruction; a launch `fits` if it may run. Numbers are as in `short` where that meets as much. It takes the
    processor's time `until`."""

    checks: Sequence[LimitCheck]
    contract: KernelContract
    build: Values
    left: Callable[[], list[Key]]
    base: Callable[[int], Base | None]
    fits: Callable[[Launch], bool]
    short: Launch
    until: float = math.inf
    _known: list[_EdgeLaunch] = field(default_factory=list)
    _tries: Counter[Key] = field(default_factory=Counter)
    _ran: set[tuple[tuple[str, Any], ...]] = field(default_factory=set)

    def following(self) -> Iterator[dict[str, Any]]:
        """Launches to run, each once, as callers give them. Whoever runs one has `left` say so before the next one is asked for."""
        sides = [ComparisonSides(check, self.contract) for check in self.checks]
        self._known = self._tried(sides, self.left())
        while time.process_time() < self.until and (lacks := set(self.reached())):
            chosen = max(self._known, key=lambda one: self._worth(one, lacks))
            wanted = chosen.edges & lacks
            launch = shorter(self.contract, self.build, chosen.launch, self.short, partial(self._meets, sides, wanted))
            if self._name(launch) in self._ran:  # it did not come there
                launch = chosen.launch
            if launch == chosen.launch:
                self._known.remove(chosen)
            self._ran.add(self._name(launch))
            yield launch
            self._tries.update((wanted.come or wanted.met) & set(self.left()))

    def _worth(self, launch: _EdgeLaunch, lacks: Set[Key]) -> tuple[int, int, int]:
        """What waves come to counts first, then what terms say alone, then how short it is."""
        return len(launch.edges.come & lacks), len(launch.edges.met & lacks), -self._work(launch.launch)

    def reached(self) -> list[Key]:
        """What lacks and sizes reach, by the terms, of which too few launches were tried."""
        reached = set[Key]().union(*(one.edges.met for one in self._known))
        return [key for key in self.left() if key in reached and self._tries[key] < TRIES]

    def unmet(self) -> list[Key]:
        """What lacks though launches ran that meet it by the terms, and no more are known. Of equality only equal sides count: there each
        other constant shows, and next to them none but a comparison of fewer bits."""
        reached = self.reached()
        return [key for key in self.left() if self._tries[key] and key not in reached and (ordered(key) or not key[1])]

    def _tried(self, sides: Sequence[ComparisonSides], keys: Sequence[Key]) -> list[_EdgeLaunch]:
        by_base = dict[int, tuple[Base, list[Key]]]()
        for key in keys:
            base = self.base(key[0][0])
            if base is not None:
                by_base.setdefault(id(base), (base, []))[1].append(key)
        found = []
        for base, some in by_base.values():
            executed = [key for key in keys if base.counts[key[0][0]]]
            launches = [*{self._name(launch): launch for launch in self._solved(sides, some, base.launch)}.values()]
            for begin in range(0, len(launches), _AT_ONCE):
                at_once = launches[begin:begin + _AT_ONCE]
                met = self._met(sides, executed, at_once)
                found += [_EdgeLaunch(launch, own) for launch, own in zip(at_once, met, strict=True)]
        return found

    def _met(self, sides: Sequence[ComparisonSides], keys: Sequence[Key], launches: Sequence[Launch]) -> list[_Met]:
        whole = [self._resolved(launch) for launch in launches]
        by_check = [one.met(keys, whole) for one in sides]
        return [reduce(or_, found, _Met()) for found in zip(*by_check, strict=True)]

    def _solved(self, sides: Sequence[ComparisonSides], keys: Sequence[Key], base: Launch) -> list[dict[str, Any]]:
        """Launches with one size other than in a base: sizes first, and what is one by default for keys whose sides no size moves."""
        own = [one for one in self.contract.parameters if one.kind == "run" and one.type is int]
        plain = [one for one in own if not one.default_from and one.default is None]
        found: dict[Key, list[dict[str, Any]]] = {key: [] for key in keys}
        for some in (plain, [one for one in own if one not in plain]):
            left = [key for key in keys if not found[key]]
            for parameter in some if left else ():
                for key, moves in self._moves(sides, left, base, parameter).items():
                    found[key] += self._values_of(moves, base, parameter)
        return [launch for launches in found.values() for launch in launches]

    def _moves(self, sides: Sequence[ComparisonSides], keys: Sequence[Key], base: Launch, parameter: Parameter) -> dict[Key, set[int]]:
        """By how much a size changes where sides come to an edge, by key. What terms are in two launches is computed once for all."""
        found: dict[Key, set[int]] = {}
        pair = self._pair(base, parameter.name, parameter.multiple_of) if type(self._resolved(base).get(parameter.name)) is int else None
        if pair is None:
            return found
        for one in sides:
            known = [key for key in keys if one.knows(key)]
            if known and time.process_time() < self.until:
                samples = one.samples(pair[:2])
                for key in known:
                    found.setdefault(key, set()).update(one.moves(key, samples, pair[2]))
        return found

    def _values_of(self, moves: set[int], base: Launch, parameter: Parameter) -> Iterator[dict[str, Any]]:
        """Of the sizes that a base is moved to and that are allowed the launches with the least ones, and with those next to the base's,
        which go more alike."""
        size = self._resolved(base)[parameter.name]
        able = [move for move in sorted(moves) if move % parameter.multiple_of == 0 and size + move > 0]
        for some in (able, sorted(able, key=abs)):
            launches = ({**base, parameter.name: size + move} for move in some)
            yield from islice((launch for launch in launches if self._allowed(launch)), _SIZES)

    def _pair(self, base: Launch, name: str, step: int) -> tuple[dict[str, Any], dict[str, Any], int] | None:
        """A launch and one with a size larger, or smaller, whose grid has as many ends: whole ones, with by how much."""
        first = self._resolved(base)
        for by in (step, -step):
            try:
                whole = self._resolved({**base, name: first[name] + by})
                if [min(2, side) for side in self.contract.grid_of(whole)] == [min(2, side) for side in self.contract.grid_of(first)]:
                    return first, whole, by
            except AsmgenError:
                continue
        return None

    def _meets(self, sides: Sequence[ComparisonSides], wanted: _Met, launch: Launch) -> bool:
        found = self._met(sides, [*wanted.met], [launch])[0]
        return wanted.met <= found.met and wanted.come <= found.come

    def _allowed(self, launch: Launch) -> bool:
        try:
            return self.fits(self._resolved(launch))
        except AsmgenError:
            return False

    def _work(self, launch: Launch) -> int:
        plain = [one.name for one in self.contract.parameters if one.kind == "run" and one.type is int and not one.default_from]
        return math.prod(int(launch[name]) for name in plain if name in launch)

    def _resolved(self, launch: Launch) -> dict[str, Any]:
        return dict(self.contract.resolve_run({**self.build, **launch}))

    def _name(self, launch: Launch) -> tuple[tuple[str, Any], ...]:
        return tuple(sorted(self._resolved(launch).items()))
