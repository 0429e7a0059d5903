"""How far apart the sides of integer comparisons were in the launches that are followed: a fault at an edge shows only where a comparison
turns, at equal sides or at those next to them."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.carried.carrier import HandleCarrier
from asmgen.emulator.carried.operandhandles import slots_of
from asmgen.emulator.machine.state import LANES, Group
from asmgen.emulator.semantics.values import fetch_scalar
from asmgen.program.program import Instruction

Action = Callable[[Group], None]
Compared = tuple[int, str]
"""Position and name of an instruction, without the suffix of an encoding."""
_COMPARISON = re.compile(r"(?:s_cmpk?|v_cmpx?)_(lt|le|gt|ge|eq|lg|ne)_[iu](?:16|32|64)|s_(bitcmp)[01]_b(?:32|64)")
_NEXT = {"lt": -1, "ge": -1, "gt": 1, "le": 1, "eq": 1, "lg": 1, "ne": 1, "bitcmp": 1}
"""Beside 0, the difference of sides at which comparisons turn. Of equality it has no sign. A bit stands for a difference, of 0 or 1."""
_HOW = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "lg": operator.ne, "ne": operator.ne}
_UNSIGNED = ("eq", "lg", "ne")


def compared(name: str) -> re.Match[str] | None:
    """Of a comparison of integers or of a bit: its name without suffix, and how it compares (groups 0, and 1 or 2)."""
    return _COMPARISON.match(name)


def outcome(name: str, below: bool) -> bool:
    """What a comparison says of sides below where it turns, or from there on."""
    apart = max(0, _edge(name)) - below
    return bool(apart) == name.startswith("s_bitcmp1") if _how(name) == "bitcmp" else bool(_HOW[_how(name)](apart, 0))


def _edge(name: str) -> int:
    return _NEXT[_how(name)]


def _how(name: str) -> str:
    found = compared(name)
    assert found is not None
    return found[1] or found[2]


@dataclass
class Sides:
    """Differences that a comparison met: the greatest below where it turns, the least from there on, None where it met none, and what all
    are multiples of beside `first`: the next ones in between cannot be met."""

    below: int | None
    above: int | None
    first: int
    step: int = 0

    @property
    def one(self) -> bool:
        """Whether the comparison had one outcome alone."""
        return self.below is None or self.above is None

    def lacks(self, name: str) -> int:
        """By how much sides of such a comparison, which had one outcome, were off the nearest difference with the other one."""
        edge = max(0, _edge(name))
        return edge - self.below if self.below is not None else (self.above or 0) - edge + 1

    @property
    def met(self) -> bool:
        """Whether no difference between both may be met."""
        return self.below is not None and self.above is not None and self.above - self.below == self.step

    def with_more(self, other: Sides) -> Sides:
        """Of two launches."""
        below, above = (choose([one for one in sides if one is not None], default=None) for choose, sides in (
            (max, (self.below, other.below)), (min, (self.above, other.above))))
        return Sides(below, above, self.first, math.gcd(self.step, other.step, self.first - other.first))


@dataclass
class Comparisons:
    """`nearest`: of each comparison, for each difference at which it turns, the one met that is nearest to it. `sides`: of each."""

    nearest: dict[tuple[Compared, int], int] = field(default_factory=dict)
    sides: dict[Compared, Sides] = field(default_factory=dict)

    def clear(self) -> None:
        """None was met. What reports have of launches before stays theirs."""
        self.nearest, self.sides = {}, {}

    def note(self, instruction: Instruction, position: int, carrier: HandleCarrier) -> Action | None:
        """What to note before an instruction runs; None for all but comparisons of integers and of bits."""
        found = compared(instruction.name)
        if found is None:
            return None
        which, how = (position, found[0]), found[1] or found[2]
        vector = instruction.name.startswith("v_")
        sides: list[Callable[[Group], Any]] = [one.value for one in slots_of(instruction, carrier)] if vector \
            else [fetch_scalar(carrier.machine, operand, slot.type)
                  for slot, operand in zip(instruction.form.operands, instruction.operands, strict=True)]
        wanted = 0, _NEXT[how]

        def compare(group: Group) -> None:
            first, second = (np.asarray(side(group)) for side in sides)
            if how == "bitcmp":
                apart = (first >> (second % (8 * first.itemsize)).astype(first.dtype) & 1).astype(np.int64)
            else:
                apart = first.astype(np.int64) - second.astype(np.int64)  # of far 64-bit numbers it wraps, and is far from 0 all the same
            if how in _UNSIGNED:
                apart = abs(apart)
            if vector:
                apart = np.broadcast_to(apart, (group.size, LANES))[group.lanes()]
            if not apart.size:
                return
            known, found = self.sides.get(which), _sides(apart.reshape(-1), max(wanted))
            self.sides[which] = found if known is None else known.with_more(found)
            for turn in wanted:
                key = which, turn
                met = int(apart.reshape(-1)[np.abs(apart.astype(np.float64) - turn).argmin()])
                if key not in self.nearest or abs(met - turn) < abs(self.nearest[key] - turn):
                    self.nearest[key] = met

        return compare


def _sides(apart: NDArray[np.int64], edge: int) -> Sides:
    below, above = apart[apart < edge], apart[apart >= edge]
    first = int(apart[0])
    return Sides(int(below.max()) if below.size else None, int(above.min()) if above.size else None, first,
                 int(np.gcd.reduce(apart - first)))
