"""The branches that lead waves to an instruction: it is not reached where one of them goes the other way.

Some of these follow from the graph of the code. Others do not, as a way that the graph has is none for the values that registers have
there: a step that is shared by a whole tile and a cut one returns to where its flag says. So branches count too that a wave met once on its
way, if what they compare is in the formula that may wrap.
"""

from __future__ import annotations

from collections import Counter

from asmgen.emulator.terms.decisions import Decision
from asmgen.program.controlflow import control_flow
from asmgen.program.program import Instruction
from asmgen.tools.addressrun import AddressReport


class Guards:
    """Of the launch of a report."""

    def __init__(self, report: AddressReport) -> None:
        self._report = report
        self._flow = control_flow(report.program)
        self._position = {id(instruction): number for number, instruction in enumerate(report.program.instructions)}
        self._once: dict[int, list[Decision]] = {}
        self._reached: dict[int, frozenset[int]] = {}
        self._leading: dict[tuple[int, int], tuple[Decision, ...]] = {}

    def of(self, instruction: Instruction, wave: int) -> tuple[Decision, ...]:
        """The decisions without which a wave would not have come there. A branch that it met more than once is none: a loop's trips differ
        with sizes."""
        here = self._flow.block_of[self._position[id(instruction)]]
        if wave not in self._once:
            met = Counter(id(branch) for branch, _, _ in self._report.decisions.by_wave.get(wave, []))
            self._once[wave] = [one for one in self._report.decisions.of(wave) if met[id(one.branch)] == 1]
        if (here, wave) not in self._leading:
            self._leading[here, wave] = tuple(one for one in self._once[wave] if here not in self._from(one, False))
        return self._leading[here, wave]

    def before(self, instruction: Instruction, wave: int) -> tuple[Decision, ...]:
        """All decisions that it met once, and from which code goes on to the instruction."""
        self.of(instruction, wave)
        here = self._flow.block_of[self._position[id(instruction)]]
        return tuple(one for one in self._once[wave] if here in self._from(one, True))

    def _from(self, decision: Decision, same: bool) -> frozenset[int]:
        """The blocks that can follow a branch that goes the same way as it did, or the other one."""
        position = self._position[id(decision.branch)]
        own, labels = self._report.program.instructions, self._report.program.labels
        start = position + 1 if decision.taken != same else labels.get(decision.branch.target or "", len(own))
        if start not in self._reached:
            waiting = [self._flow.block_of[start]] if start < len(own) else []
            seen = set(waiting)
            while waiting:
                for number in self._flow.blocks[waiting.pop()].successors:
                    if number not in seen:
                        seen.add(number)
                        waiting.append(number)
            self._reached[start] = frozenset(seen)
        return self._reached[start]
