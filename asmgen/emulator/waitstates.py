"""The wait-state check: an instruction that is issued too soon behind another one.

First a walk over the program finds the pairs that some path brings too close together; only where there are any
do waves count their wait states and the pairs' instructions look at the count. The rules are isa's data, the walk is this
file's own: the pass that inserts s_nops is judged here. Only rules that ISA text and LLVM both have are faults of a kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asmgen.cfg import ControlFlow, control_flow
from asmgen.emulator.findings import Finding, Findings
from asmgen.emulator.state import Group, Machine
from asmgen.emulator.steps import Action, Step
from asmgen.isa.hazardmatch import HazardFacts, HazardModel
from asmgen.isa.waitstates import WINDOW
from asmgen.program import Program

CHECK = "wait-state"


@dataclass(frozen=True)
class Pair:
    """`consumer` needs `states` wait states behind `producer` (positions), and has fewer on some path."""

    producer: int
    consumer: int
    states: int
    rule: str


def close_pairs(program: Program) -> list[Pair]:
    """The pairs that some path of the program brings too close together: nearer than both ISA text and LLVM want them.

    Where an indirect branch goes is not known: to any block that is a label's or stands behind a branch.
    """
    model = HazardModel(program.arch)
    facts = [model.facts(instruction) for instruction in program.instructions]
    flow = control_flow(program)
    indirect = {flow.block_of[position] for position in flow.indirect}
    landings = tuple(block.number for block in flow.blocks) if indirect else ()
    following = [landings if block.number in indirect else block.successors for block in flow.blocks]
    found: dict[tuple[int, int], Pair] = {}
    for producer, fact in enumerate(facts):
        if fact.window:
            _walk(producer, facts, flow, following, model, found)
    return list(found.values())


def _walk(producer: int, facts: list[HazardFacts], flow: ControlFlow, following: Sequence[tuple[int, ...]], model: HazardModel,
          found: dict[tuple[int, int], Pair]) -> None:
    """Follow every path from a producer for as many wait states as any rule may ask."""
    fact = facts[producer]
    entered: dict[int, int] = {}  # block -> fewest wait states at which it was entered
    stack = [(flow.block_of[producer], producer + 1, 0)]
    while stack:
        number, position, age = stack.pop()
        block = flow.blocks[number]
        while position <= block.last and age < fact.window:
            current = facts[position]
            if model.candidates(fact.kind, current.kind):
                _note(producer, position, fact, current, age, model, found)
            age += current.states
            position += 1
        if age < fact.window:
            for successor in following[number]:
                if age < entered.get(successor, fact.window):
                    entered[successor] = age
                    stack.append((successor, flow.blocks[successor].first, age))


def _note(producer: int, position: int, fact: HazardFacts, current: HazardFacts, age: int, model: HazardModel,
          found: dict[tuple[int, int], Pair]) -> None:
    """An error is what both sources ask for: the smaller of their largest demands, and the row that makes it."""
    needs = model.needs(fact, current)
    sides = [max((need for need in needs if need.rule.asked_by != other), key=lambda need: need.states, default=None)
             for other in ("llvm", "isa")]
    if sides[0] is None or sides[1] is None:
        return
    least = min(sides[0], sides[1], key=lambda need: need.states)
    if least.states > age:
        found[producer, position] = Pair(producer, position, least.states, least.rule.id)


class WaitStateWatcher:
    """Counts wait states and looks at the close pairs, where a program has any."""

    def __init__(self, machine: Machine, program: Program, findings: Findings, pairs: Sequence[Pair]) -> None:
        self.machine = machine
        self.program = program
        self.findings = findings
        self.pairs = pairs
        self._producers = {position: number for number, position in enumerate(sorted({pair.producer for pair in self.pairs}))}
        self._consumers: dict[int, list[Pair]] = {}
        for pair in self.pairs:
            self._consumers.setdefault(pair.consumer, []).append(pair)
        self._states = [fact.states for fact in map(HazardModel(program.arch).facts, program.instructions)] if self.pairs else []
        self.reset()

    def reset(self) -> None:
        """Other waves take these waves' places."""
        self._clock = np.zeros(self.machine.waves, np.int64)
        self._born = np.full((len(self._producers), self.machine.waves), -WINDOW, np.int64)

    def __call__(self, step: Step) -> Action | None:
        """What a step must do before it runs; nothing where the program has no close pair."""
        if not self.pairs:
            return None
        states = self._states[step.position]
        consumers = tuple(self._consumers.get(step.position, ()))
        producer = self._producers.get(step.position)

        def before(group: Group) -> None:
            chosen = group.select
            for pair in consumers:
                self._look(group, pair)
            self._clock[chosen] += states
            if producer is not None:
                self._born[producer, chosen] = self._clock[chosen]

        return before

    def _look(self, group: Group, pair: Pair) -> None:
        age = self._clock[group.select] - self._born[self._producers[pair.producer], group.select]
        late = (age >= 0) & (age < pair.states)
        if late.any():
            number = int(np.argmax(late))
            wave = int(group.waves[number])
            message = f"{int(age[number])} wait states where {pair.states} are needed (rule {pair.rule})"
            instructions = self.program.instructions
            self.findings.add(Finding(CHECK, "error", message, instructions[pair.producer], instructions[pair.consumer],
                                      wave, int(self.machine.workgroup[wave])))
