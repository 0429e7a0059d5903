"""How far apart the sides of integer comparisons were in the launches that are followed: a fault at an edge shows only where a comparison
turns, at equal sides or at those next to them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from asmgen.emulator.carried.carrier import HandleCarrier
from asmgen.emulator.carried.operandhandles import slots_of
from asmgen.emulator.machine.state import LANES, Group
from asmgen.emulator.semantics.values import fetch_scalar
from asmgen.program.program import Instruction

Action = Callable[[Group], None]
Compared = tuple[int, str]
"""Position and name of an instruction, without the suffix of an encoding."""
_COMPARISON = re.compile(r"(?:s_cmp|v_cmpx?)_(lt|le|gt|ge)_[iu]32")
_NEXT = {"lt": -1, "ge": -1, "gt": 1, "le": 1}


@dataclass
class Comparisons:
    """`nearest`: of each comparison, for each difference at which it turns, the one met that is nearest to it."""

    nearest: dict[tuple[Compared, int], int] = field(default_factory=dict)

    def note(self, instruction: Instruction, position: int, carrier: HandleCarrier) -> Action | None:
        """What to note before an instruction runs; None for all but comparisons of 32-bit integers."""
        found = _COMPARISON.match(instruction.name)
        if found is None:
            return None
        which = position, found[0]
        vector = instruction.name.startswith("v_")
        sides: list[Callable[[Group], Any]] = [one.value for one in slots_of(instruction, carrier)] if vector \
            else [fetch_scalar(carrier.machine, operand, slot.type)
                  for slot, operand in zip(instruction.form.operands, instruction.operands, strict=True)]
        wanted = 0, _NEXT[found[1]]

        def compare(group: Group) -> None:
            first, second = (np.asarray(side(group)).astype(np.int64) for side in sides)
            apart = first - second
            if vector:
                apart = np.broadcast_to(apart, (group.size, LANES))[group.lanes()]
            for turn in wanted if apart.size else ():
                key = which, turn
                met = int(apart.reshape(-1)[np.abs(apart - turn).argmin()])
                if key not in self.nearest or abs(met - turn) < abs(self.nearest[key] - turn):
                    self.nearest[key] = met

        return compare
