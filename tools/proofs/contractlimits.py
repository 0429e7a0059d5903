"""Launches at the limits of a contract: each size and stride in turn as large as it may be."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import Any

from asmgen.author.contract.contract import Formula, KernelContract, Parameter, Values
from asmgen.emulator.terms.polynomials import WORD
from asmgen.isa.errors import AsmgenError

_MULTIPLES, _BETWEEN = (1, 8, 64), 8
"""Of what a parameter itself must be a multiple of: rules ask for even strides, and for such of 4, 8 and 16 bytes; each is so many times
the one before."""


def greatest_grid(contract: KernelContract, build: Values) -> tuple[int, int, int]:
    """The most workgroups along each axis of launches at the limits, where each number that has a default may also be as small as it may,
    before sizes grow or after it: a table shorter than a size lets it grow further. Of the same contract it is made once."""
    return _greatest(contract, tuple(sorted(build.items())))


@lru_cache(maxsize=64)
def _greatest(contract: KernelContract, of: tuple[tuple[str, Any], ...]) -> tuple[int, int, int]:
    build = dict(of)
    own = [parameter for parameter in contract.parameters if parameter.kind == "run" and parameter.type is int]
    sizes = [parameter.name for parameter in own if not isinstance(parameter.default_from, Formula)]
    least = {parameter.name: int(parameter.minimum or parameter.multiple_of) for parameter in own}
    free = {name: least[name] for name in sizes if not contract.parameter(name).default_from}
    found = [*limit_launches(contract, build, sizes)]
    for name in [name for name in sizes if name not in free]:
        found += limit_launches(contract, build, list(free), tuple({**free, name: least[name]}.items()))
    smaller = [_resolved(contract, build, {**launch, name: value}) for launch in found for name, value in least.items()
               if isinstance(contract.parameter(name).default_from, Formula)]
    grids = [contract.grid_of(launch) for launch in (*found, *smaller) if launch is not None]
    x, y, z = (max(sides) for sides in zip(*grids, strict=True)) if grids else (WORD - 1,) * 3
    return x, y, z


def limit_launches(contract: KernelContract, build: Values, names: Sequence[str],
                   held: tuple[tuple[str, int], ...] = ()) -> tuple[dict[str, Any], ...]:
    """As `_launches`; of the same contract, names and held numbers they are made once."""
    return _kept(contract, tuple(sorted(build.items())), frozenset(names), held)


@lru_cache(maxsize=64)
def _kept(contract: KernelContract, build: tuple[tuple[str, Any], ...], names: frozenset[str],
          held: tuple[tuple[str, int], ...]) -> tuple[dict[str, Any], ...]:
    return tuple(_launches(contract, dict(build), names, dict(held)))


def _launches(contract: KernelContract, build: Values, names: Collection[str], held: Values) -> Iterator[dict[str, Any]]:
    """Resolved parameters: of those in `names` each as large as it may be, the others small, or then as large as they may be too, in order
    and in the contrary order. Numbers in `held` stay as they are."""
    own = [parameter for parameter in contract.parameters if parameter.kind == "run" and parameter.type is int and parameter.name in names]
    least = {parameter.name: contract.example[parameter.name] for parameter in contract.parameters
             if parameter.kind == "run" and parameter.name in contract.example} | dict(held)
    seen = set()
    for first in own:
        others = [parameter for parameter in own if parameter is not first]
        for order in ([first], [first, *others], [first, *reversed(others)]):
            values: dict[str, Any] = dict(least)
            for parameter in order:
                values = dict(_enlarged(contract, tuple(build.items()), tuple(values.items()), parameter.name))
            resolved = _resolved(contract, build, values)
            key = tuple(sorted(values.items()))
            if resolved is not None and key not in seen:
                seen.add(key)
                yield resolved


@lru_cache(maxsize=1024)
def _enlarged(contract: KernelContract, of: tuple[tuple[str, Any], ...], held: tuple[tuple[str, Any], ...], name: str) -> Values:
    """Numbers that are held, with another one as large as these allow, where rules may ask for multiples. Other sizes ask for the same
    ones in turn."""
    build, values, parameter = dict(of), dict(held), contract.parameter(name)
    resolved = _resolved(contract, build, values)
    if resolved is None:
        return values
    least, most = int(resolved[parameter.name]), int(WORD - 1 if parameter.maximum is None else parameter.maximum)
    top = values | {parameter.name: most // parameter.multiple_of * parameter.multiple_of}
    if most > least and _resolved(contract, build, top) is not None:
        return top
    factors = _MULTIPLES if isinstance(parameter.default_from, Formula) else (1,)
    largest = least
    for factor in sorted(factors, reverse=True):  # the largest multiple of a smaller number lies within one more of the larger one
        step = parameter.multiple_of * factor
        bound = min(most, largest + step * _BETWEEN) if largest > least else most
        largest = max(largest, _largest(contract, build, values, parameter, largest, step, bound))
    return values if largest == least else values | {parameter.name: largest}


def _largest(contract: KernelContract, build: Values, values: dict[str, Any], parameter: Parameter, least: int, step: int,
             most: int) -> int:
    """The largest multiple of a step, up to `most`, that is found by halving from a value on that is allowed."""
    low, high = -(-least // step), most // step

    def allowed(count: int) -> bool:
        return _resolved(contract, build, values | {parameter.name: count * step}) is not None

    if high <= low or not allowed(low):
        return least
    if allowed(high):
        return high * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if allowed(middle) else (low, middle)
    return low * step


def _resolved(contract: KernelContract, build: Values, values: Values) -> dict[str, Any] | None:
    """None where the contract refuses a launch."""
    try:
        resolved: dict[str, Any] = contract.resolve_run({**build, **values}, near=False)
        contract.grid_of(resolved)
    except AsmgenError:
        return None
    return resolved
