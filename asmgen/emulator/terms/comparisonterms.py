"""Truths of comparisons of integers as terms: what decides which lanes go on, and what they select.

Where lanes select, terms follow the run. What a comparison is in other launches is known from its truth alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from asmgen.emulator.carried.carrier import HandleCarrier
from asmgen.emulator.machine.state import Group
from asmgen.emulator.terms.terminstructions import scalar_truth, vector_truth
from asmgen.emulator.terms.termstate import TermState, distinct
from asmgen.program.program import Instruction

Action = Callable[[Group], None]


@dataclass
class ComparisonTerms:
    """`truths`, by instruction and wave: the numbers of terms of truths in lanes that were active. A truth that is the same in all launches
    is none."""

    state: TermState
    truths: dict[tuple[int, int], set[int]] = field(default_factory=dict)

    def note(self, instruction: Instruction, carrier: HandleCarrier) -> Action | None:
        """What to note before an instruction runs; None for all but comparisons of integers and of bits."""
        vector, machine, words = instruction.name.startswith("v_cmp"), carrier.machine, self.state.words
        truth = (vector_truth if vector else scalar_truth)(instruction, carrier, self.state)
        if truth is None:
            return None

        def step(group: Group) -> None:
            flag = truth(group)
            if flag.ids is None:
                return
            first = machine.first_workgroup * (machine.waves // machine.workgroups)
            lanes = group.lanes() if vector else np.ones((group.size, 1), bool)
            ids = np.broadcast_to(flag.ids if vector else flag.ids.reshape(-1, 1), lanes.shape)
            for wave, found in zip(group.waves.tolist(), distinct(ids, lanes), strict=True):
                self.truths.setdefault((id(instruction), wave + first), set()).update(
                    number for number in found if not words.is_constant(number))

        return step
