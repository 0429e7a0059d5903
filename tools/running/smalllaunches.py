"""Small launches of a kernel, of one workgroup each, that together go through its code: what mutants are run on.

Which ways code takes depends on sizes as no contract tells: how many steps a loop has, of which kind, and what remains. So launches are
drawn, and who runs them keeps those that execute something new.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from asmgen.author.contract.contract import KernelContract, Parameter, Value, Values
from asmgen.isa.errors import AsmgenError

_STEPS = (1, 4, 5)  # of a loop: the shortest, an even and an odd number of rounds
_MOST_STEPS = 10
_MOST_ROUNDS = 24  # of a loop whose steps are all whole: tiles in up to 8 stages, filled 6 ahead, come round twice
_FACTOR = 16.0  # of a number that is no size
_TRIES = 1000  # to draw another launch
APART = 8
"""Elements that are 16 bytes of the narrowest type that rows of D have."""
_LARGER = (2, 4)  # times a size of the example, for builds with rules of their own
REFUSED = 1 << 62
"""Workgroups of a launch that the contract refuses (`groups_of`)."""
_UNBOUNDED = 64  # a size that many times as large for as many workgroups is not one that tiles divide


def launches(contract: KernelContract, build: Values) -> list[dict[str, Value]]:
    """Run parameters of one workgroup: the example made small and with tiles as full as they get, each with loops of 1, 4 and 5 steps,
    rows further apart, and edges that are one element short: whole tiles and tiles that are cut may have code of their own. Each number
    that is no size takes another value on a whole tile and on a cut one: C is read by other code there, which runs without C too."""
    small = _small(contract, build)
    full, size, own = _full(contract, build, small), groups_of(contract, build, small), _sizes(contract)
    found = [small, full]
    for name, parameter in own.items():
        if parameter.multiple_of > 1 and name in small:
            found += [values | {name: parameter.multiple_of * steps} for steps in _STEPS for values in (small, full)]
    longest = next(one for one in reversed(found) if groups_of(contract, build, one) == size)  # a rule may refuse others
    cut = longest | {name: small[name] - 1 for name, parameter in own.items() if parameter.multiple_of == 1 and small.get(name, 0) > 1}
    found += [values | {parameter.name: other} for values in (longest, cut) for parameter in contract.parameters
              for other in _values(parameter, build) if isinstance(parameter.default, float)]
    found.append(apart(contract, build, longest))
    found.append(cut)
    return [launch for number, launch in enumerate(found)
            if launch not in found[:number] and groups_of(contract, build, launch) == size]


def drawn_launches(contract: KernelContract, build: Values, seed: int = 0) -> Iterator[dict[str, Value]]:
    """Others, as many as there are, with as many workgroups as the smallest launch has. In turn: the next length of each loop, with each
    value of each number that is no size; and of each parameter the value of the smallest launch or of one whose tiles are full, or, every
    other time, some steps of the tile (or of what it must be a multiple of), or one element more or less, the least of these as often as
    all others."""
    small = _small(contract, build)
    size, bases = groups_of(contract, build, small), (small, _full(contract, build, small))
    choices: dict[str, list[Value]] = {}
    lengths = set()
    for parameter in contract.parameters:
        usual = _usual(contract, small, parameter)
        values = [value for value in _values(parameter, build)
                  if groups_of(contract, build, small | {parameter.name: value}) == size]
        if set(values) - {usual}:
            choices[parameter.name] = values
            if parameter.type is int and (not parameter.default_from or values[0] < usual):  # else it is a stride
                lengths.add(parameter.name)
    if not choices:
        return
    least = bases[1] | {name: values[0] for name, values in choices.items() if _divided(contract, build, small, name)}
    loops = [_lengths(choices, (bases[1], least), name) for name in choices
             if name in lengths and not _divided(contract, build, small, name)]
    seen, tries = {tuple(sorted(small.items()))}, 0
    for launch in _in_turn([*loops, _mixed(choices, bases, random.Random(seed))]):
        tries += 1
        key = tuple(sorted(launch.items()))
        if key not in seen and groups_of(contract, build, launch) == size:
            seen.add(key)
            tries = 0
            yield launch
        if tries == _TRIES:
            return


def _usual(contract: KernelContract, small: Values, parameter: Parameter) -> Any:
    """The value of a parameter in a launch, that of the parameter from which it follows, or its default."""
    if parameter.name in small or not isinstance(parameter.default_from, str) or not parameter.default_from:
        return small.get(parameter.name, parameter.default)
    return _usual(contract, small, contract.parameter(parameter.default_from))


def _in_turn(sources: list[Iterator[dict[str, Value]]]) -> Iterator[dict[str, Value]]:
    """One of each as long as it has any."""
    while sources:
        for source in [*sources]:
            try:
                yield next(source)
            except StopIteration:
                sources.remove(source)


def _mixed(choices: dict[str, list[Value]], bases: Sequence[dict[str, Value]], chance: random.Random) -> Iterator[dict[str, Value]]:
    """Random ones without end."""
    while True:
        yield chance.choice(bases) | {name: chance.choice((values[0], chance.choice(values))) for name, values in choices.items()
                                      if chance.random() < 0.5}


def _lengths(choices: dict[str, list[Value]], bases: Sequence[dict[str, Any]], name: str) -> Iterator[dict[str, Value]]:
    """The launches with full tiles and with the least, and each value of a size, once as it is and once with each number that is no
    size."""
    numbers: list[dict[str, Value]] = [{}]
    for other, values in choices.items():
        if isinstance(values[0], float):
            numbers.append({other: values[0]})
    yield from (base | {name: value} | number for value in choices[name] for number in numbers for base in bases)


def _sizes(contract: KernelContract) -> dict[str, Parameter]:
    """Run parameters that are numbers of something, by name, but for those that follow from others."""
    return {parameter.name: parameter for parameter in contract.parameters
            if parameter.kind == "run" and parameter.type is int and not parameter.default_from}


def _small(contract: KernelContract, build: Values) -> dict[str, Any]:
    """The example with each size halved as long as that makes workgroups fewer. Where a rule refuses it, a size is some times larger."""
    own = _sizes(contract)
    values: dict[str, Any] = {name: contract.example[name] for name in own if name in contract.example}
    larger = (values | {name: factor * values[name]} for factor in (1, *_LARGER) for name in values)
    values = next((one for one in larger if groups_of(contract, build, one) < REFUSED), values)
    size = groups_of(contract, build, values)
    for name, parameter in own.items():
        step, least = parameter.multiple_of, parameter.minimum or parameter.multiple_of
        while name in values and size > 1 and values[name] > least:
            smaller = values | {name: max(least, values[name] // 2 // step * step)}
            if (fewer := groups_of(contract, build, smaller)) >= size:
                break
            values, size = smaller, fewer
    return values


def apart(contract: KernelContract, build: Values, values: dict[str, Any]) -> dict[str, Any]:
    """The launch with each number larger that follows from others, as strides do, each by another amount, as far as the contract allows:
    whoever takes one for another is wrong there."""
    size, place = groups_of(contract, build, values), 0
    for parameter in contract.parameters:
        if parameter.kind == "run" and parameter.default_from:
            place += 1
            resolved: dict[str, Any] = contract.resolve_run({**build, **values}, near=False)
            larger = values | {parameter.name: resolved[parameter.name] + place * max(APART, parameter.multiple_of)}
            values = larger if groups_of(contract, build, larger) == size else values
    return values


def _divided(contract: KernelContract, build: Values, values: dict[str, Any], name: str) -> bool:
    """Whether tiles divide that size, so that more of it takes more workgroups."""
    return name in values and groups_of(contract, build, values | {name: _UNBOUNDED * values[name]}) > groups_of(contract, build, values)


def _full(contract: KernelContract, build: Values, small: dict[str, Any]) -> dict[str, Any]:
    """The smallest launch with each size as large as as many workgroups take, where that has an end."""
    size = groups_of(contract, build, small)
    values = dict(small)
    for name in _sizes(contract):
        if not _divided(contract, build, small, name):
            continue
        fits, many = small[name], _UNBOUNDED * small[name]
        while many - fits > 1:
            middle = (fits + many) // 2
            fits, many = (middle, many) if groups_of(contract, build, small | {name: middle}) <= size else (fits, middle)
        values[name] = fits
    return values


def _values(parameter: Parameter, build: Values) -> list[Value]:
    """What a run parameter may be, of what is worth a try; nothing for one that a formula gives."""
    found: list[Value] = []
    if parameter.kind == "run" and parameter.type is int and (not parameter.default_from or isinstance(parameter.default_from, str)):
        step = int(str(build.get("tile", "1")).rpartition("x")[2]) if parameter.multiple_of == 1 else parameter.multiple_of
        rests = (0, 1, step - 1) if parameter.multiple_of == 1 and step > 2 else (0,)
        most = _MOST_STEPS if parameter.multiple_of == 1 else _MOST_ROUNDS
        found += [step * steps + rest for steps in range(most + 1) for rest in rests]
    elif parameter.kind == "run" and isinstance(parameter.default, float):
        found.append(parameter.default * _FACTOR or 1.0)
    return [value for value in found if _legal(parameter, value)]


def _legal(parameter: Parameter, value: Value) -> bool:
    try:
        parameter.check(value)
    except AsmgenError:
        return False
    return True


def groups_of(contract: KernelContract, build: Values, values: Values) -> int:
    """Workgroups of a launch; very many where the contract refuses it."""
    try:
        x, y, z = contract.grid_of(contract.resolve_run({**build, **values}, near=False))
    except AsmgenError:
        return REFUSED
    return x * y * z
