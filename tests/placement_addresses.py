"""Byte addresses of accesses to a placed tile, as functions of lane and wave: what tests of address code and bank costs are fed with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from asmgen.isa.layout import Layout
from asmgen.isa.placement import Placement


def address_of(placement: Placement, lanes: Layout, at: Mapping[str, int], **bases: int) -> Callable[..., int]:
    """The byte address of one access: `lanes` maps lane, wave and the like to coordinates of the placement, `at` is added to those."""
    def address(**values: int) -> int:
        coordinates = lanes(**values)
        return placement.address({name: coordinates.get(name, 0) + at.get(name, 0) for name in {**coordinates, **at}}, **bases)

    return address


def addresses(address: Callable[..., int], points: Iterable[Mapping[str, int]]) -> tuple[int, ...]:
    """The address at each point."""
    return tuple(address(**point) for point in points)
