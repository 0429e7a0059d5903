"""Small launches of a kernel, of one workgroup each, that together go through its code: what mutants are run on.

Which ways code takes depends on sizes as no contract tells: how many steps a loop has, of which kind, and what remains. So launches are
drawn, and who runs them keeps those that execute something new.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from asmgen.author.contract import KernelContract, Parameter, Value, Values
from asmgen.isa.errors import AsmgenError

_STEPS = (1, 4, 5)  # of a loop: the shortest, an even and an odd number of rounds
_MOST_STEPS = 10
_FACTOR = 16.0  # of a number that is no size
_TRIES = 1000  # to draw another launch


def launches(contract: KernelContract, build: Values) -> list[dict[str, Value]]:
    """Run parameters of one workgroup: the example made small, loop lengths of 1, 4 and 5 steps, and edges that are one element short,
    as tiles that are cut may have code of their own."""
    values = _small(contract, build)
    size, own = _groups(contract, build, values), _sizes(contract)
    found = [values]
    for name, parameter in own.items():
        if parameter.multiple_of > 1 and name in values:
            found += [values | {name: parameter.multiple_of * steps} for steps in _STEPS]
    found.append(found[-1] | {name: values[name] - 1 for name, parameter in own.items()
                              if parameter.multiple_of == 1 and values.get(name, 0) > 1})
    return [launch for number, launch in enumerate(found)
            if launch not in found[:number] and _groups(contract, build, launch) == size]


def drawn_launches(contract: KernelContract, build: Values, seed: int = 0) -> Iterator[dict[str, Value]]:
    """Others, as many as there are: of each parameter the value of the smallest launch, or, every other time, some steps of the tile
    (or of what it must be a multiple of), or one element more; the least of these as often as all others. As many workgroups as the
    smallest launch has."""
    small = _small(contract, build)
    size = _groups(contract, build, small)
    choices = {}
    for parameter in contract.parameters:
        usual = small.get(parameter.name, small.get(str(parameter.default_from), parameter.default))
        values = [value for value in _values(parameter, build)
                  if _groups(contract, build, small | {parameter.name: value}) == size]
        if set(values) - {usual}:
            choices[parameter.name] = values
    chance, seen, tries = random.Random(seed), {tuple(small.items())}, 0
    while choices and tries < _TRIES:
        launch = small | {name: chance.choice((values[0], chance.choice(values))) for name, values in choices.items()
                          if chance.random() < 0.5}
        tries += 1
        if tuple(launch.items()) not in seen and _groups(contract, build, launch) == size:
            seen.add(tuple(launch.items()))
            tries = 0
            yield launch


def _sizes(contract: KernelContract) -> dict[str, Parameter]:
    """Run parameters that are numbers of something, by name, but for those that follow from others."""
    return {parameter.name: parameter for parameter in contract.parameters
            if parameter.kind == "run" and parameter.type is int and not parameter.default_from}


def _small(contract: KernelContract, build: Values) -> dict[str, Any]:
    """The example with each size halved as long as that makes workgroups fewer."""
    own = _sizes(contract)
    values: dict[str, Any] = {name: contract.example[name] for name in own if name in contract.example}
    size = _groups(contract, build, values)
    for name, parameter in own.items():
        step, least = parameter.multiple_of, parameter.minimum or parameter.multiple_of
        while name in values and size > 1 and values[name] > least:
            smaller = values | {name: max(least, values[name] // 2 // step * step)}
            if (fewer := _groups(contract, build, smaller)) >= size:
                break
            values, size = smaller, fewer
    return values


def _values(parameter: Parameter, build: Values) -> list[Value]:
    """What a run parameter may be, of what is worth a try; nothing for one that a formula gives."""
    found: list[Value] = []
    if parameter.kind == "run" and parameter.type is int and (not parameter.default_from or isinstance(parameter.default_from, str)):
        step = int(str(build.get("tile", "1")).rpartition("x")[2]) if parameter.multiple_of == 1 else parameter.multiple_of
        rests = (0, 1) if parameter.multiple_of == 1 else (0,)
        found = [step * steps + rest for steps in range(_MOST_STEPS + 1) for rest in rests]
    elif parameter.kind == "run" and isinstance(parameter.default, float):
        found = [parameter.default * _FACTOR or 1.0]
    return [value for value in found if _legal(parameter, value)]


def _legal(parameter: Parameter, value: Value) -> bool:
    try:
        parameter.check(value)
    except AsmgenError:
        return False
    return True


def _groups(contract: KernelContract, build: Values, values: Values) -> int:
    """Workgroups of a launch; very many where the contract refuses it."""
    try:
        x, y, z = contract.grid_of(contract.resolve_run({**build, **values}))
    except AsmgenError:
        return 1 << 62
    return x * y * z
