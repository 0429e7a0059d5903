"""The launches that a proof runs: of several workgroups with whole and cut tiles, and small ones with loops of each count of rounds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from asmgen.author.contract.contract import KernelContract, Value, Values
from asmgen.isa.errors import AsmgenError
from asmgen.tools.smalllaunches import drawn_launches, launches

_MOST_GROUPS = 12
_MOST_DRAWN = 60


def proof_launches(contract: KernelContract, build: Values) -> Iterator[dict[str, Value]]:
    """One of several workgroups first, then those of `smalllaunches`, given and drawn ones."""
    given = launches(contract, build)
    several = several_workgroups(contract, build, given)
    yield from chain([several] if several is not None else [], given, islice(drawn_launches(contract, build), _MOST_DRAWN))


def several_workgroups(contract: KernelContract, build: Values, given: list[dict[str, Value]]) -> dict[str, Value] | None:
    """A launch in which each size that tiles divide takes a whole tile and a cut one; as many sizes as keep workgroups few. None where no
    size takes more workgroups than one."""
    values: dict[str, Any] = dict(given[-1])
    one = _groups(contract, build, values)
    for parameter in contract.parameters:
        size = values.get(parameter.name)
        if parameter.kind != "run" or parameter.type is not int or parameter.default_from or not isinstance(size, int) or not size:
            continue
        step = parameter.multiple_of
        larger = values | {parameter.name: (size + max(size // 3, step)) // step * step}
        groups = _groups(contract, build, larger)
        if _groups(contract, build, values) < groups <= _MOST_GROUPS * one:
            values = larger
    return values if _groups(contract, build, values) > one else None


def _groups(contract: KernelContract, build: Values, values: Values) -> int:
    """Workgroups of a launch; very many where the contract refuses it."""
    try:
        x, y, z = contract.grid_of(contract.resolve_run({**build, **values}))
    except AsmgenError:
        return 1 << 62
    return x * y * z
