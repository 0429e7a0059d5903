"""Launches at the limits of a contract: each size and stride in turn as large as it may be."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import Any

from asmgen.author.contract.contract import KernelContract, Parameter, Values
from asmgen.emulator.terms.polynomials import WORD
from asmgen.isa.errors import AsmgenError


def greatest_grid(contract: KernelContract, build: Values) -> tuple[int, int, int]:
    """The most workgroups along each axis of launches at the limits."""
    sizes = [parameter.name for parameter in contract.parameters if parameter.kind == "run" and parameter.type is int]
    grids = [contract.grid_of(launch) for launch in limit_launches(contract, build, sizes)]
    x, y, z = (max(sides) for sides in zip(*grids, strict=True)) if grids else (WORD - 1,) * 3
    return x, y, z


def limit_launches(contract: KernelContract, build: Values, names: Sequence[str]) -> tuple[dict[str, Any], ...]:
    """As `_launches`; of the same contract and names they are made once."""
    return _kept(contract, tuple(sorted(build.items())), frozenset(names))


@lru_cache(maxsize=64)
def _kept(contract: KernelContract, build: tuple[tuple[str, Any], ...], names: frozenset[str]) -> tuple[dict[str, Any], ...]:
    return tuple(_launches(contract, dict(build), names))


def _launches(contract: KernelContract, build: Values, names: Collection[str]) -> Iterator[dict[str, Any]]:
    """Resolved parameters: of those in `names` each as large as it may be, the others small, or then as large as they may be too, in order
    and in the contrary order."""
    own = [parameter for parameter in contract.parameters if parameter.kind == "run" and parameter.type is int and parameter.name in names]
    least = {parameter.name: contract.example[parameter.name] for parameter in contract.parameters
             if parameter.kind == "run" and parameter.name in contract.example}
    seen = set()
    for first in own:
        others = [parameter for parameter in own if parameter is not first]
        for order in ([first], [first, *others], [first, *reversed(others)]):
            values: dict[str, Any] = dict(least)
            for parameter in order:
                values = _enlarged(contract, build, values, parameter)
            resolved = _resolved(contract, build, values)
            key = tuple(sorted(values.items()))
            if resolved is not None and key not in seen:
                seen.add(key)
                yield resolved


def _enlarged(contract: KernelContract, build: Values, values: dict[str, Any], parameter: Parameter) -> dict[str, Any]:
    """With a parameter as large as the others allow, by halving."""
    step = parameter.multiple_of
    low = int(values.get(parameter.name) or parameter.minimum or 0) // step
    high = int(WORD - 1 if parameter.maximum is None else parameter.maximum) // step
    if _resolved(contract, build, values | {parameter.name: high * step}) is not None:
        return values | {parameter.name: high * step}
    if _resolved(contract, build, values | {parameter.name: low * step}) is None:
        return values
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _resolved(contract, build, values | {parameter.name: middle * step}) is not None else (low, middle)
    return values | {parameter.name: low * step}


def _resolved(contract: KernelContract, build: Values, values: Values) -> dict[str, Any] | None:
    """None where the contract refuses a launch."""
    try:
        resolved: dict[str, Any] = contract.resolve_run({**build, **values})
        contract.grid_of(resolved)
    except AsmgenError:
        return None
    return resolved
