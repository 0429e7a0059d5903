"""How many address registers a set of accesses needs: accesses that differ by a constant at every lane share one and differ in immediates.

A XOR swizzle costs one base register for each distinct pattern, padding one in all.
"""

from __future__ import annotations

from collections.abc import Sequence

from asmgen.isa.layout import LayoutError
from asmgen.isa.modifiers import OFFSETS
from asmgen.isa.records import dataclass

DS_IMMEDIATES, BUFFER_IMMEDIATES, GLOBAL_IMMEDIATES = OFFSETS["DS"], OFFSETS["MUBUF"], OFFSETS["GLOBAL"]
"""Lowest and highest immediate offset of LDS, buffer and global (scratch alike) instructions."""


@dataclass(frozen=True)
class Split:
    """`bases[n]` is the address register n at all points; access number i is at `bases[places[i][0]]` + the immediate `places[i][1]`."""

    bases: tuple[tuple[int, ...], ...]
    addresses: tuple[tuple[int, int], ...]


def split_immediates(accesses: Sequence[Sequence[int]], limits: tuple[int, int] = DS_IMMEDIATES) -> Split:
    """The fewest base registers for accesses given by their addresses at the same points (lanes, waves).

    A base holds no constant where the immediates can: it begins at 0 if they reach that far. Raises LayoutError for accesses with
    different numbers of points or none, or limits that do not hold 0.
    """
    if not limits[0] <= 0 <= limits[1]:
        raise LayoutError(f"immediates from {limits[0]} to {limits[1]} do not allow 0")
    if len({len(access) for access in accesses}) > 1 or any(not access for access in accesses):
        raise LayoutError("accesses that share base registers give their addresses at the same points, at least one")
    groups: dict[tuple[int, ...], list[int]] = {}
    for number, access in enumerate(accesses):
        low = min(access)
        groups.setdefault(tuple(address - low for address in access), []).append(number)
    bases: list[tuple[int, ...]] = []
    addresses = [(0, 0)] * len(accesses)
    for pattern, members in groups.items():
        members = sorted(members, key=lambda number: min(accesses[number]))
        while members:
            first = min(accesses[members[0]])
            start = 0 if limits[0] <= first and min(accesses[members[-1]]) <= limits[1] else first - limits[0]
            taken = [number for number in members if limits[0] <= min(accesses[number]) - start <= limits[1]]
            for number in taken:
                addresses[number] = len(bases), min(accesses[number]) - start
            bases.append(tuple(start + offset for offset in pattern))
            members = [number for number in members if number not in taken]
    return Split(tuple(bases), tuple(addresses))
