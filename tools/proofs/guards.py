"""The branches that lead waves to an instruction: it is not reached where one of them goes the other way.

Flags that are constants count on the way: a step that is shared by a whole tile and a cut one returns to where its flag says. From other
branches, both ways lead to the instruction. What a wave does there after the other way is known from a launch that went it, and from no
other. A branch of a loop says nothing of an instruction after the loop: other sizes may leave it before that round, by another exit. Of one
in the loop it says that waves went on until that round.
A branch that compares what no way back to it changes goes one way each time: waves that go the other way stay on the other ways.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain

from asmgen.emulator.terms.decisions import Decision
from asmgen.program.controlflow import control_flow
from asmgen.program.program import Instruction, Program
from asmgen.tools.proofs.addressrun import AddressReport
from asmgen.tools.proofs.constantways import ConstantWays
from asmgen.tools.proofs.samebranches import SameBranches


class ProgramWays:
    """Where the branches of a program lead, which is the same in all of its launches: each is followed once."""

    def __init__(self, program: Program) -> None:
        self.program, self.flow = program, control_flow(program)
        self.position = {id(instruction): number for number, instruction in enumerate(program.instructions)}
        self._ways, self._same = ConstantWays(program, self.flow), SameBranches(program, self.flow)
        self._one_way: dict[int, bool] = {}
        self._reached: dict[tuple[int, bool, bool], frozenset[int]] = {}
        self._exits: frozenset[int] | None = None

    def goes_one_way(self, branch: int) -> bool:
        """As `SameBranches`."""
        if branch not in self._one_way:
            self._one_way[branch] = self._same.goes_one_way(branch)
        return self._one_way[branch]

    def leaves_loop(self, branch: int) -> bool:
        """Whether a branch says how many rounds a loop goes: one of its ways leaves one that the other stays in."""
        if self._exits is None:
            self._exits = frozenset(block.last for loop in self.flow.loops() for block in self.flow.blocks if block.number in loop.blocks
                                      and len({one in loop.blocks for one in self.flow.following(block.number)}) > 1)
        return branch in self._exits

    def after(self, branch: int, taken: bool, once: bool) -> frozenset[int]:
        """As `ConstantWays`."""
        way = branch, taken, once
        if way not in self._reached:
            self._reached[way] = self._ways.after(*way)
        return self._reached[way]


class Guards:
    """Of the launch of a report, in which workgroups have so many `waves`. `ways` are those of its program, where they are known."""

    def __init__(self, report: AddressReport, ways: ProgramWays | None = None, waves: int = 1) -> None:
        self._report, self._waves = report, waves
        self.ways = ways if ways is not None and ways.program is report.program else ProgramWays(report.program)
        self._flow, self._position = self.ways.flow, self.ways.position
        self._once: dict[int, list[tuple[int, Decision]]] = {}
        self._held: dict[int, set[bool]] = {}
        for branch, _, held in (one for met in report.decisions.by_wave.values() for one in met):
            self._held.setdefault(id(branch), set()).add(held)
        self._alike: dict[int, list[tuple[int, Decision]]] = {}
        self._again: dict[int, list[tuple[int, Decision]]] = {}
        self._around: list[frozenset[int]] | None = None
        self._loops: dict[int, frozenset[int]] = {}
        self._both: dict[tuple[int, int, int], tuple[tuple[Decision, ...], tuple[Decision, ...]]] = {}

    @property
    def known(self) -> bool:
        """Whether code goes on at known places alone. Else there are no guards: which ways lead to an instruction is not known."""
        return not self._flow.indirect

    def of(self, instruction: Instruction, wave: int, place: int) -> tuple[Decision, ...]:
        """The decisions without which a wave would not have come there, of those before its execution number `place`. Of a branch that it
        met more than once, and of an instruction in the same loop, each counts whose other way leads away for good, as after the last of
        several tiles; else the last, if all waves go one way there each time. Without these a loop's trips decide, which differ with
        sizes."""
        return self._decided(instruction, wave, place)[0]

    def before(self, instruction: Instruction, wave: int, place: int) -> tuple[Decision, ...]:
        """All other decisions before that execution that it met once: from there, both ways lead to the instruction."""
        return self._decided(instruction, wave, place)[1]

    def met(self, instruction: Instruction, wave: int) -> tuple[Decision, ...]:
        """The decisions that lead a wave of a workgroup to an instruction, the first time in the first workgroup that comes to its block:
        to an access there, or to the branch on SCC which ends it. Of other blocks none are known."""
        block = self._flow.blocks[self._flow.block_of[self.position(instruction)]]
        there = self._report.program.instructions[block.first:block.last + 1]
        for number, ways in sorted(self._report.decisions.by_wave.items()):
            if number % self._waves != wave:
                continue
            counts = [self._report.met[id(one), number][0] for one in there if self._report.met.get((id(one), number))]
            count = next(chain(counts, (place for place, (one, _, _) in enumerate(ways) if one is there[-1])), None)
            if count is not None:
                return self._at(instruction, number, count)[0] if self.known else ()
        return ()

    def position(self, instruction: Instruction) -> int:
        """Its number in the program, which is the same in all launches."""
        return self._position[id(instruction)]

    def went(self, instruction: Instruction, wave: int) -> frozenset[tuple[int, bool]]:
        """The ways from which a wave came there: positions of branches, and what SCC was."""
        met = self._report.met.get((id(instruction), wave), ())
        ways = self._report.decisions.by_wave.get(wave, [])[:met[-1] if met else 0]
        return frozenset((self._position[id(branch)], held) for branch, _, held in ways)

    def _decided(self, instruction: Instruction, wave: int, place: int) -> tuple[tuple[Decision, ...], tuple[Decision, ...]]:
        met = self._report.met.get((id(instruction), wave), ())
        return self._at(instruction, wave, met[place] if place < len(met) else 0) if self.known else ((), ())

    def _at(self, instruction: Instruction, wave: int, count: int) -> tuple[tuple[Decision, ...], tuple[Decision, ...]]:
        here = self._flow.block_of[self._position[id(instruction)]]
        if wave not in self._once:
            self._sort(wave)
        if (here, wave, count) not in self._both:
            known = [one for number, one in self._once[wave] if number < count]
            last = {id(one.branch): one for number, one in self._alike[wave] if number < count}
            alike = [one for one in last.values() if here in self._loop(one.branch) and here not in self._otherwise(one, True)]
            going_on = [one for number, one in self._again[wave] if number < count and one not in alike and self._leaves(one, here)]
            other = [here in self._otherwise(one, self._goes_one_way(one)) for one in known]
            self._both[here, wave, count] = (tuple(one for one, both in zip(known, other, strict=True) if not both) + (*alike, *going_on),
                                             tuple(one for one, both in zip(known, other, strict=True) if both))
        return self._both[here, wave, count]

    def _sort(self, wave: int) -> None:
        """The wave's branches that it met once, those that it met more often, and of these those where all waves go one way."""
        times = Counter(id(branch) for branch, _, _ in self._report.decisions.by_wave.get(wave, []))
        known = self._report.decisions.of(wave)
        self._once[wave] = [(number, one) for number, one in known if times[id(one.branch)] == 1]
        self._again[wave] = [(number, one) for number, one in known if times[id(one.branch)] > 1]
        self._alike[wave] = [(number, one) for number, one in self._again[wave] if len(self._held[id(one.branch)]) == 1]

    def in_loop(self, instruction: Instruction) -> bool:
        """Whether waves may come there in rounds."""
        return bool(self._loop(instruction))

    def _loop(self, instruction: Instruction) -> frozenset[int]:
        """The blocks of the innermost loop that an instruction is in."""
        block = self._flow.block_of[self._position[id(instruction)]]
        if block not in self._loops:
            if self._around is None:
                self._around = [loop.blocks for loop in self._flow.loops()]
            around = [blocks for blocks in self._around if block in blocks]
            self._loops[block] = min(around, key=len, default=frozenset())
        return self._loops[block]

    def _leaves(self, decision: Decision, here: int) -> bool:
        """Whether a wave that goes the other way leaves the loop that a branch and a block are in, and comes to the block no more."""
        return here in self._loop(decision.branch) and here not in self._otherwise(decision, False)

    def _goes_one_way(self, decision: Decision) -> bool:
        return self.ways.goes_one_way(self._position[id(decision.branch)])

    def _otherwise(self, decision: Decision, once: bool) -> frozenset[int]:
        """The blocks that can follow a branch that goes the other way, each time or up to where it is met again."""
        return self.ways.after(self._position[id(decision.branch)], not decision.taken, once)
