"""`python -m asmgen.tools.buildsweep [KERNEL ...]`: does every combination of build parameters that a contract accepts build?

Of each variant the default, then combinations that have each pair of values of two parameters together, as far as the contract accepts a
combination with the pair, then `--more` drawn ones. Numbers take their limits, what their parameter says is to be tried, and drawn values.
Each accepted combination must build, and lint must find no error in it. A pair that the contract refuses beside defaults must be refused
with one sentence that names the nearest combination that is served, and that one must build.
"""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

import click

from asmgen.author.contract.contract import ContractError, Parameter, Value, Values
from asmgen.author.contract.nearbuilds import written
from asmgen.author.contract.variant import Variant
from asmgen.author.family.family import Family
from asmgen.isa.errors import AsmgenError
from asmgen.kernels.registry import family as find_family
from asmgen.kernels.registry import names
from asmgen.tools.running.build import build_kernel, lint_errors
from asmgen.tools.terminal.entry import internal_error, status_of

_TRIALS = 6
"""Combinations that are drawn for one pair before it counts as one that no combination serves."""


def values_of(parameter: Parameter) -> tuple[Value, ...]:
    """What a sweep takes a build parameter to be, the default first: all choices, or the ends of a range and what is to be tried."""
    ends = [] if parameter.type is not int else [one for one in (parameter.minimum, parameter.maximum) if one is not None]
    numbers = [one // parameter.multiple_of * parameter.multiple_of for one in ends]
    return tuple(dict.fromkeys((*parameter.tries, *(() if parameter.choices else numbers))))


@dataclass
class Combinations:
    """The combinations of one variant's build parameters; `refused` gets the smallest ones that its contract refuses."""

    family: Family
    variant: Variant
    random: random.Random
    refused: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        own = [one for one in self.family.contract_of(self.variant).parameters if one.kind == "build"]
        self._parameters = own
        self.values = {one.name: values_of(one) for one in own}
        self.defaults = {name: values[0] for name, values in self.values.items()}

    def accepted(self, build: Values) -> bool:
        """Whether the variant's contract takes a combination."""
        return refusal(self.family, self.variant, build) == ""

    def covering(self) -> Iterator[dict[str, Any]]:
        """Accepted combinations, the defaults first, which have all pairs of values together that any has."""
        free = [name for name, values in self.values.items() if len(values) > 1]
        open_pairs = {frozenset({(one, mine), (other, its)}): None for one, other in combinations(free, 2)
                      for mine, its in product(self.values[one], self.values[other])}
        yield self._without(open_pairs, self.defaults)
        while open_pairs:
            pair = dict(next(iter(open_pairs)))
            found = [build for build in (self.completed(pair, open_pairs) for _ in range(_TRIALS)) if build is not None]
            alone = {**self.defaults, **pair}
            if not self.accepted(alone):
                self.refused.append(alone)
            elif not found:
                found = [alone]
            if found:
                yield self._without(open_pairs, max(found, key=lambda build: len(_pairs(build) & open_pairs.keys())))
            else:
                del open_pairs[frozenset(pair.items())]

    def drawn(self, count: int) -> Iterator[dict[str, Any]]:
        """So many accepted combinations, of values from whole ranges."""
        while count:
            build = self.completed({}, ranges=True)
            if build is not None:
                count -= 1
                yield build

    def completed(self, given: Values, open_pairs: Collection[frozenset[Any]] = (), ranges: bool = False) -> dict[str, Any] | None:
        """An accepted combination with the given values, or None: others leave the default in a drawn order, as far as the contract lets
        them, each for the value of most open pairs; a number keeps its default or is any of its range where `ranges`."""
        build = {**self.defaults, **given}
        possible = self.accepted(build)
        others = [one for one in self._parameters if one.name not in given]
        self.random.shuffle(others)
        for one in others:
            values = list(self.values[one.name])
            if ranges and _is_range(one):
                values = [self.random.choice([self.defaults[one.name], _drawn_number(one, self.random)])]
            self.random.shuffle(values)
            if open_pairs:
                values.sort(key=lambda value, name=one.name: -sum(  # type: ignore[misc]
                    frozenset({(name, value), other}) in open_pairs for other in build.items()))
            for value in values:
                changed = {**build, one.name: value}
                if self.accepted(changed):
                    build, possible = changed, True
                    break
        return build if possible else None

    def _without(self, open_pairs: dict[frozenset[Any], None], build: dict[str, Any]) -> dict[str, Any]:
        for pair in _pairs(build) & open_pairs.keys():
            del open_pairs[pair]
        return build


def _pairs(build: Values) -> set[frozenset[Any]]:
    return {frozenset(pair) for pair in combinations(build.items(), 2)}


def _is_range(parameter: Parameter) -> bool:
    return parameter.type is int and not parameter.choices and parameter.maximum is not None


def _drawn_number(parameter: Parameter, draw: random.Random) -> int:
    """A number of a range, small ones as often as large ones."""
    low, high = int(parameter.minimum or 0), int(parameter.maximum or 0)
    value = low - 1 + round(math.exp(draw.uniform(0, math.log(high - low + 1))))
    return max(low, value // parameter.multiple_of * parameter.multiple_of)


def refusal(family: Family, variant: Variant, build: Values) -> str:
    """Why the contract of a variant refuses build parameters, or nothing."""
    try:
        family.contract_of(variant, build).resolve_build(build)
    except ContractError as error:
        return str(error)
    return ""


def fault(family: Family, arch: str, build: Values) -> str:
    """What is wrong with an accepted combination, or nothing."""
    try:
        errors = lint_errors(build_kernel(family, arch, build))
    except AsmgenError as error:
        return f"does not build: {error}"
    except Exception as error:
        return internal_error(error)
    return f"lint: {errors[0]}" if errors else ""


def refusal_fault(family: Family, arch: str, build: Values) -> tuple[str, dict[str, Any]]:
    """What is wrong with how a combination is refused, or nothing, and the nearest one that its sentence names."""
    try:
        family.contract(arch, build).resolve_build(build)
    except ContractError as error:
        sentence = str(error)
    else:
        return "", dict(build)  # another variant takes it
    try:
        near = family.nearest(arch, build)
    except ContractError as error:
        return f"refused by {sentence!r}, and what is nearest by {str(error)!r}", {}
    lacking = [text for name, value in near.items() if build.get(name, value) != value
               and (text := written({name: value})) not in sentence]
    if "\n" in sentence or lacking:
        return f"refused by {sentence!r}, which does not name {' '.join(lacking)}", near
    return "", near


@dataclass
class Sweep:
    """The builds of a family and what is wrong with them; `most` of each variant."""

    family: Family
    arch: str
    seed: int
    built: int = 0
    refused: int = 0
    faults: int = 0
    slowest: float = 0.0
    done: set[frozenset[Any]] = field(default_factory=set)

    def check(self, build: Values) -> None:
        """Build a combination that was not built before."""
        if frozenset(build.items()) not in self.done:
            self.done.add(frozenset(build.items()))
            began = time.process_time()
            self._tell(build, fault(self.family, self.arch, build))
            self.built += 1
            self.slowest = max(self.slowest, time.process_time() - began)

    def variant(self, variant: Variant, most: int, more: int) -> None:
        """The combinations of one variant, and those that its contract refuses."""
        found = Combinations(self.family, variant, random.Random(f"{self.seed} {variant}"))
        for number, build in enumerate(found.covering()):
            if number < most:
                self.check(build)
        for build in found.drawn(more):
            self.check(build)
        for number, build in enumerate(found.refused):
            told, near = refusal_fault(self.family, self.arch, build)
            self.refused += 1
            self._tell(build, told)
            if near and number < most:
                self.check(near)

    def _tell(self, build: Values, told: str) -> None:
        if told:
            self.faults += 1
            click.echo(f"{self.family.name} {self.arch} {' '.join(f'{name}={value}' for name, value in build.items())}: {told}")


def _share(context: click.Context, parameter: click.Parameter, text: str) -> tuple[int, int]:
    """Which of how many parts."""
    part, slash, parts = text.partition("/")
    if not (slash and part.isdecimal() and parts.isdecimal() and int(part) < int(parts)):
        raise click.BadParameter(f"{text!r} is no part: I/N with I from 0 to N - 1, such as 0/4 for the first of four")
    return int(part), int(parts)


@click.command()
@click.argument("kernels", nargs=-1)
@click.option("--arch", help="Only this architecture.")
@click.option("--most", default=1 << 20, metavar="N", help="Only the first N combinations of pairs of each variant.")
@click.option("--more", default=4, show_default=True, type=click.IntRange(0), help="Drawn combinations of each variant.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@click.option("--part", default="0/1", metavar="I/N", callback=_share, help="Only a share of the variants.")
def commands(kernels: tuple[str, ...], arch: str | None, most: int, more: int, seed: int, part: tuple[int, int]) -> int:
    """Build what contracts accept, and read what they say of what they refuse; exit with 1 where anything is wrong."""
    share, shares = part
    faults = 0
    for name in kernels or names():
        library = find_family(name)
        for target in [library.check_arch(arch)] if arch else library.archs:
            sweep = Sweep(library, target, seed)
            for variant in library.variants(target)[share::shares]:
                sweep.variant(variant, most, more)
                click.echo(f"{name} {target} {variant}: {sweep.built} built, {sweep.refused} refused, {sweep.faults} faults", err=True)
            faults += sweep.faults
            click.echo(f"{name} {target}: {sweep.built} combinations built (at most {sweep.slowest:.2f} s of the processor), "
                       f"{sweep.refused} refused, {sweep.faults} faults")
    return int(faults > 0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Never returns: exits with the status."""
    sys.exit(status_of(commands, "buildsweep", arguments))


if __name__ == "__main__":
    main()
