"""Launches at which comparisons turn: a mask that is one off shows only where its sides are equal or next to it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any

from asmgen.author.contract.contract import KernelContract, Parameter, Value, Values
from asmgen.emulator.carried.comparisons import Compared, Sides, outcome
from asmgen.program.program import Program
from asmgen.tools.running.smalllaunches import groups_of

Key = tuple[Compared, int]
Nearest = Mapping[Key, int]
_NO_ORDER = re.compile("_(eq|lg|ne|bitcmp.)_")
_BIT = "s_bitcmp"
_MOST = 32
"""Launches that are tried for edges."""


def ordered(key: Key) -> bool:
    """Whether a comparison is an inequality."""
    return _NO_ORDER.search(key[0][1]) is None


@dataclass(frozen=True)
class _Try:
    """A launch whose one size, larger by so many, moves the sides of a comparison together, if they depend on it."""

    launch: dict[str, Value]
    key: Key
    size: str
    by: int


@dataclass
class EdgeLaunches:
    """What launches met of the comparisons of `judged`: of each the nearest, and in which launch. Launches are parameters as callers give
    them."""

    contract: KernelContract
    build: Values
    judged: Program
    best: dict[Key, tuple[int, Mapping[str, Any]]] = field(default_factory=dict)
    _sides: dict[Compared, Sides] = field(default_factory=dict)
    _largest: int = 0  # of sizes, but for launches at edges
    _tried: list[dict[str, Value]] = field(default_factory=list)
    _apart: set[tuple[Key, str]] = field(default_factory=set)  # comparisons and sizes that they do not depend on
    _slopes: dict[tuple[Key, str], Fraction] = field(default_factory=dict)  # how sides moved apart for each one more, as last seen
    _last: Nearest = field(default_factory=dict)
    _moved: Counter[tuple[str, str]] = field(default_factory=Counter)  # how often a size moved comparisons of a name

    def met(self, launch: Mapping[str, Any], nearest: Nearest, sides: Mapping[Compared, Sides] | None = None) -> None:
        """A launch ran."""
        self._last = nearest
        given = [launch.get(one.name) for one in self.contract.parameters if one.kind == "run" and not one.default_from]
        if launch not in self._tried:  # these have sizes of what comparisons lack
            self._largest = max(self._largest, *(size for size in given if type(size) is int), 0)
        for which, found in (sides or {}).items():
            if self._is_judged(which):
                known = self._sides.get(which)
                self._sides[which] = found if known is None else known.with_more(found)
        for key, apart in nearest.items():
            which, turn = key
            if not self._is_judged(which):
                continue
            best = self.best.get(key)
            if best is None or abs(apart - turn) < abs(best[0] - turn):
                self.best[key] = apart, launch

    def outcomes(self, sides: Mapping[Compared, Sides]) -> frozenset[tuple[int, bool]]:
        """Comparisons of a launch by position, with each outcome that they had there."""
        return frozenset((which[0], outcome(which[1], below)) for which, found in sides.items() if self._is_judged(which)
                         for below, met in ((True, found.below), (False, found.above)) if met is not None)

    def _is_judged(self, which: Compared) -> bool:
        """Whether a comparison is not of another kernel that is launched too."""
        position, name = which
        return position < len(self.judged.instructions) and self.judged.instructions[position].name.startswith(name)

    def one_sided(self) -> dict[int, bool]:
        """The comparisons that had one outcome in all launches and lanes, by position, with it, and are farther from the other one than the
        largest size is from 0. Others turn in launches like these: where none met that, `left` has them. A bit is near to nothing."""
        return {position: outcome(name, sides.above is None) for (position, name), sides in self._sides.items()
                if sides.one and (sides.lacks(name) > self._largest or name.startswith(_BIT))}

    def trying(self, launch: dict[str, Value]) -> None:
        """A launch is run for what lacks: its sizes tell nothing of what others have."""
        self._tried.append(launch)

    def left(self) -> list[Key]:
        """Comparisons and differences that no launch met, inequalities first, of these the nearest first."""
        found = [key for key, (apart, _) in self.best.items() if apart != key[1]]
        return sorted(found, key=lambda key: (not ordered(key), abs(self.best[key][0] - key[1]), key))

    def following(self) -> Iterator[dict[str, Value]]:
        """Launches to run next, each once; `met` tells of each before the next one is asked for."""
        for _ in range(_MOST):
            chosen = next(self._tries(), None)
            if chosen is None:
                return
            self.trying(chosen.launch)
            before = self.best[chosen.key][0]
            yield chosen.launch
            change = self._last.get(chosen.key, before) - before
            if self.best[chosen.key][0] != before:
                self._moved[chosen.key[0][1], chosen.size] += 1
            if change:
                self._slopes[chosen.key, chosen.size] = Fraction(change, chosen.by)
            else:
                self._apart.add((chosen.key, chosen.size))

    def _tries(self) -> Iterator[_Try]:
        """Sizes first, then what is one by default, as strides and the sides of a window are. An equality of which all differences are
        multiples met what it can."""
        sizes = [one for one in self.contract.parameters if one.kind == "run" and one.type is int]
        plain = [one for one in sizes if not one.default_from and one.default is None]
        left = [key for key in self.left() if ordered(key) or key[0] not in self._sides or not self._sides[key[0]].met]
        for parameters, key in product((plain, [one for one in sizes if one not in plain]), left):
            yield from self._moves(key, sorted(parameters, key=lambda one: -self._moved[key[0][1], one.name]))

    def _moves(self, key: Key, parameters: Iterable[Parameter]) -> Iterator[_Try]:
        apart, launch = self.best[key]
        limit = groups_of(self.contract, self.build, launch)
        whole = self.contract.resolve_run({**self.build, **launch})
        for parameter in parameters:
            size = whole.get(parameter.name)
            if type(size) is not int or (key, parameter.name) in self._apart:
                continue
            slope = self._slopes.get((key, parameter.name))
            for by in ([] if slope is None else [(key[1] - apart) / slope]) + [Fraction(apart - key[1]), Fraction(key[1] - apart)]:
                moved = size + int(by)
                other = {**launch, parameter.name: moved}
                if moved > 0 and by.denominator == 1 and by.numerator % parameter.multiple_of == 0 and other not in self._tried \
                        and groups_of(self.contract, self.build, other) <= limit:
                    yield _Try(other, key, parameter.name, int(by))
