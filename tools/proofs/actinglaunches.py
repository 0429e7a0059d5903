"""Launches that a proof may need, for what did nothing in those that ran: others of their sizes, one, two and more changed at once, as long
as they take no more than the longest of these.

Who looks for one computes terms in them, without a run. So they come in an order of what they change: the fewest numbers first.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, combinations
from typing import Any

from asmgen.author.contract.contract import KernelContract, Parameter, Values
from asmgen.tools.running.smalllaunches import REFUSED, groups_of

_COUNTS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 32, 33, 48, 64)
"""Steps of a size: small numbers, even and odd ones, powers of two and those next to them."""
_MORE = (1, 2, 3, 8)
"""Steps that are added to a size, and to what follows from sizes, as strides do."""
_TIMES = (2, 4, 8)
"""A size is so many times as large: tiles of tiles, as those of scales, are larger than a tile."""
_PAIRED, _DRAWN, _SEED, _CHANGED = 2000, 2000, 11, 4
_GROUPS = 256
"""Workgroups that a launch has at most."""
TRIES = 3
"""Launches that run for what terms say they do, and did not: lanes may not come there, and waves may leave before."""


def longer_launches(contract: KernelContract, short: Values, bases: Sequence[Values], ran: Sequence[Values]) -> Iterator[dict[str, Any]]:
    """Launches that come where one of the bases does, after more rounds or in more tiles: one number is as large as those of a base and of
    another launch that ran are together, and so is what follows from sizes, as strides do, or that follows again. Other sizes are as in a
    short launch or in the base; what is no size, as the factor of C, is as in the base, as code may come there by it alone."""
    own = [one for one in contract.parameters if one.kind == "run" and one.type is int]
    follow = [one.name for one in own if one.default_from]
    for base, beside in ((one, other) for one in bases for other in (_sizes_of(short, one), one)):
        for name in [one.name for one in own if not one.default_from and type(base.get(one.name)) is int]:
            for other in {other[name]: other for other in ran if type(other.get(name)) is int}.values():
                longer = given_numbers(contract, beside) | {name: base[name] + other[name]}
                yield longer
                yield longer | {one: base[one] + other[one] for one in follow if one in base and one in other}


def _sizes_of(short: Values, base: Values) -> dict[str, Any]:
    """The base with the sizes of a short launch."""
    return {**base, **{name: value for name, value in short.items() if type(value) is int}}


def acting_launches(contract: KernelContract, build: Values, bases: Sequence[Values], fits: Callable[[dict[str, Any]], bool],
                    first: Iterable[dict[str, Any]] = ()) -> Iterator[dict[str, Any]]:
    """Launches that fit, each once, as callers give them, those that are given `first` before. `bases` are resolved parameters of launches
    that ran."""
    seen = {tuple(sorted(dict(base).items())) for base in bases}
    for changed in chain(first, _changes(contract, bases)):
        if groups_of(contract, build, changed) > _GROUPS:
            continue
        resolved = dict(contract.resolve_run({**build, **changed}))
        key = tuple(sorted(resolved.items()))
        if key not in seen and fits(resolved):
            seen.add(key)
            yield changed


def _changes(contract: KernelContract, bases: Sequence[Values]) -> Iterator[dict[str, Any]]:
    """Of each base: one number changed, then two, then a few drawn ones. What followed from a size follows from it again."""
    own = [one for one in contract.parameters if one.kind == "run" and one.type is int]
    given = [given_numbers(contract, base) for base in bases]
    choices = [{one.name: _values(one, base) for one in own} for base in bases]
    for launch, values in zip(given, choices, strict=True):
        yield from (launch | {name: value} for name, some in values.items() for value in some)
    chance = random.Random(_SEED)
    for launch, values in zip(given, choices, strict=True):
        pairs = [launch | {first: a, second: b} for first, second in combinations(values, 2) for a in values[first] for b in values[second]]
        yield from chance.sample(pairs, min(_PAIRED, len(pairs)))
    for _ in range(_DRAWN * bool(given)):
        place = chance.randrange(len(given))
        names = [name for name, some in choices[place].items() if some]
        chosen = chance.sample(names, min(len(names), chance.randint(3, 3 + _CHANGED)))
        yield given[place] | {name: chance.choice(choices[place][name]) for name in chosen}


def given_numbers(contract: KernelContract, base: Values) -> dict[str, Any]:
    """What a caller gives for a launch with these parameters: numbers that follow from others where the contract asks for others than do,
    as of rows of an odd length that begin at even elements."""
    build, run = ({one.name: base[one.name] for one in contract.parameters if one.kind == kind and one.name in base}
                  for kind in ("build", "run"))
    plain = {name: value for name, value in run.items() if not contract.parameter(name).default_from}
    return plain if groups_of(contract, build, plain) < REFUSED else run


def shorter(contract: KernelContract, build: Values, launch: Values, short: Values,
            meets: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The launch with each number as in a short one where that is smaller, as long as it meets what is asked."""
    found, groups = dict(launch), groups_of(contract, build, launch)
    for name, value in short.items():
        smaller = found | {name: value}
        if type(value) is int and value < found.get(name, value) and groups_of(contract, build, smaller) <= groups and meets(smaller):
            found = smaller
    return found


def _values(parameter: Parameter, base: Values) -> list[int]:
    """Other values of a number, within the bounds of its own."""
    step, now = parameter.multiple_of, base.get(parameter.name)
    if type(now) is not int:
        return []
    counts = () if parameter.default_from else tuple(step * count for count in _COUNTS)
    found = [*counts, *(now + sign * step * more for more in _MORE for sign in (1, -1)), *(now * factor for factor in _TIMES)]
    low, high = parameter.minimum or 0, REFUSED if parameter.maximum is None else parameter.maximum
    return [one for one in dict.fromkeys(found) if one != now and low <= one <= high]
