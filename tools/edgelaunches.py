"""Launches at which comparisons turn: a mask that is one off shows only where its sides are equal or next to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from asmgen.author.contract.contract import KernelContract, Value, Values
from asmgen.emulator.carried.comparisons import Compared
from asmgen.program.program import Program
from asmgen.tools.proofclasses import groups

Key = tuple[Compared, int]
Nearest = Mapping[Key, int]
_MOST = 32
"""Launches that are tried for edges."""


@dataclass(frozen=True)
class _Try:
    """A launch whose one size moves the sides of a comparison together, if they depend on it."""

    launch: dict[str, Value]
    key: Key
    size: str


@dataclass
class EdgeLaunches:
    """What launches met of the comparisons of `judged`: of each the nearest, and in which launch. Launches are parameters as callers give
    them."""

    contract: KernelContract
    build: Values
    judged: Program
    best: dict[Key, tuple[int, Mapping[str, Any]]] = field(default_factory=dict)
    _tried: list[dict[str, Value]] = field(default_factory=list)
    _apart: set[tuple[Key, str]] = field(default_factory=set)  # comparisons and sizes that they do not depend on
    _moved: Counter[tuple[str, str]] = field(default_factory=Counter)  # how often a size moved comparisons of a name

    def met(self, launch: Mapping[str, Any], nearest: Nearest) -> None:
        """A launch ran."""
        instructions = self.judged.instructions
        for key, apart in nearest.items():
            (position, name), turn = key
            if position >= len(instructions) or not instructions[position].name.startswith(name):
                continue  # of another kernel that is launched too
            known = self.best.get(key)
            if known is None or abs(apart - turn) < abs(known[0] - turn):
                self.best[key] = apart, launch

    def left(self) -> list[Key]:
        """Comparisons and differences that no launch met, the nearest first."""
        found = [key for key, (apart, _) in self.best.items() if apart != key[1]]
        return sorted(found, key=lambda key: (abs(self.best[key][0] - key[1]), key))

    def following(self) -> Iterator[dict[str, Value]]:
        """Launches to run next, each once; `met` tells of each before the next one is asked for."""
        for _ in range(_MOST):
            chosen = next(self._tries(), None)
            if chosen is None:
                return
            self._tried.append(chosen.launch)
            before = self.best[chosen.key][0]
            yield chosen.launch
            if self.best[chosen.key][0] == before:
                self._apart.add((chosen.key, chosen.size))
            else:
                self._moved[chosen.key[0][1], chosen.size] += 1

    def _tries(self) -> Iterator[_Try]:
        for key in self.left():
            apart, launch = self.best[key]
            limit = groups(self.contract, self.build, launch)
            for parameter in sorted(self.contract.parameters, key=lambda one: -self._moved[key[0][1], one.name]):
                size = launch.get(parameter.name)
                if parameter.kind != "run" or type(size) is not int or parameter.default_from or parameter.default is not None \
                        or (key, parameter.name) in self._apart or (key[1] - apart) % parameter.multiple_of:
                    continue
                for moved in (size + apart - key[1], size - apart + key[1]):
                    other = {**launch, parameter.name: moved}
                    if moved > 0 and other not in self._tried and groups(self.contract, self.build, other) <= limit:
                        yield _Try(other, key, parameter.name)
