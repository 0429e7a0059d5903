"""The wait-state check: an instruction that is issued too soon after another one.

First a walk over the program finds the pairs that some path brings too close together; only where there are any
do waves count their wait states and the pairs' instructions look at the count. The rules are isa's data, the walk is this
file's own: the pass that inserts s_nops is judged here. Only rules that ISA text and LLVM both have without doubt are errors of a
kernel (a doubtful one that is `told` is as severe as lint calls it), and only where the issue slots that the wave has let pass are too
few as well: a matrix instruction waits for the core, and an SGPR that a scalar instruction has rewritten is no longer the vector
instruction's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.arrival.boundstep import Action, Step
from asmgen.emulator.arrival.findings import Finding, Findings
from asmgen.emulator.arrival.hazardrows import Demand, Described, demands, described
from asmgen.emulator.machine.state import Group, Machine
from asmgen.emulator.machine.ways import Ways
from asmgen.isa.hazardforms import VECTOR_FILE
from asmgen.isa.waitrules import MOST_WAIT_STATES
from asmgen.program.program import Program

CHECK = "wait-state"


@dataclass(frozen=True)
class Pair:
    """`consumer` needs `states` wait states after `producer` (positions) for the registers of `mask`, and has fewer on some path.

    `doubt` says why it is no error, where it is none. `always`: every wave that executes the consumer comes straight from
    the producer, `have` wait states before.
    """

    producer: int
    consumer: int
    states: int
    rule: str
    mask: int
    doubt: str = ""
    severity: str = "error"
    have: int = 0
    always: bool = False


def close_pairs(program: Program) -> list[Pair]:
    """The pairs that some path of the program brings too close together: nearer than both ISA text and LLVM want them.

    Where an indirect branch goes is not known: to any block that is a label's or stands after a branch.
    """
    facts = described(program.arch, program.instructions)
    ways = Ways(program)
    following = [ways.following(number, True) for number in range(len(ways.pieces))]
    found: dict[tuple[int, int], Pair] = {}
    for producer, fact in enumerate(facts):
        if fact.asks:
            _walk(producer, facts, ways, following, found)
    rewriters = _rewriters(program) if found else {}
    return [_straight(pair, facts, ways, rewriters) for pair in found.values()]


def _rewriters(program: Program) -> dict[int, int]:
    """The scalar registers that each scalar instruction writes."""
    return {position: instruction.writes & ~VECTOR_FILE for position, instruction in enumerate(program.instructions)
            if "salu" in instruction.opcode.classes}


def _straight(pair: Pair, facts: Sequence[Described], ways: Ways, rewriters: Mapping[int, int]) -> Pair:
    """The pair, marked where nothing about it depends on the way that a wave takes, nor on what stands between."""
    first, last = pair.producer, pair.consumer
    between = range(first + 1, last)
    if ways.piece_of[first] != ways.piece_of[last] or first >= last or any(facts[location].passes for location in range(first, last + 1)) \
            or any(pair.mask & rewriters.get(location, 0) for location in between):
        return pair
    have = sum(facts[location].states for location in between)
    return replace(pair, have=have, always=have < pair.states)


def _walk(producer: int, facts: Sequence[Described], ways: Ways, following: Sequence[tuple[int, ...]],
          found: dict[tuple[int, int], Pair]) -> None:
    """Follow every path from a producer for as many wait states as it may ask."""
    fact = facts[producer]
    leaves, longest = fact.leaves, fact.longest
    entered: dict[int, int] = {}  # piece -> fewest wait states at which it was entered
    stack = [(ways.piece_of[producer], producer + 1, 0)]
    while stack:
        number, position, age = stack.pop()
        last = ways.pieces[number].last
        while position <= last and age < longest:
            current = facts[position]
            if leaves & current.touches:
                _note(producer, position, demands(fact, current), age, found)
            age += current.states
            position += 1
        if age < longest:
            for successor in following[number]:
                if age < entered.get(successor, longest):
                    entered[successor] = age
                    stack.append((successor, ways.pieces[successor].first, age))


def _note(producer: int, position: int, rows: Sequence[Demand], age: int, found: dict[tuple[int, int], Pair]) -> None:
    """An error is what both sources ask for: the smaller of their largest demands, and the row that makes it."""
    for demand in rows:
        if demand.row.told and demand.states > age:
            found[producer, position] = Pair(producer, position, demand.states, demand.row.id, demand.shared, demand.row.doubt,
                                            demand.row.severity)
    sure = [demand for demand in rows if not demand.row.doubt]
    sides = [max((demand for demand in sure if demand.row.asked(who)), key=lambda demand: demand.states, default=None)
             for who in ("isa", "llvm")]
    if sides[0] is None or sides[1] is None:
        return
    least = min(sides[0], sides[1], key=lambda demand: demand.states)
    if least.states > age:
        found[producer, position] = Pair(producer, position, least.states, least.row.id, least.shared)


class WaitStateWatcher:
    """Counts wait states and issue slots, and looks at the close pairs, where a program has any."""

    def __init__(self, machine: Machine, program: Program, findings: Findings, pairs: Sequence[Pair]) -> None:
        self.machine = machine
        self.program = program
        self.findings = findings
        self._always: dict[int, list[Pair]] = {}
        for pair in pairs:
            if pair.always:
                self._always.setdefault(pair.consumer, []).append(pair)
        pairs = [pair for pair in pairs if not pair.always]
        self.pairs = pairs
        self._produced: dict[int, list[int]] = {}
        self._consumed: dict[int, list[int]] = {}
        self._rewritten: dict[int, list[int]] = {}
        for number, pair in enumerate(pairs):
            self._produced.setdefault(pair.producer, []).append(number)
            self._consumed.setdefault(pair.consumer, []).append(number)
        facts = described(program.arch, program.instructions) if pairs else []
        self._states = [fact.states for fact in facts]
        self._passes = [fact.passes for fact in facts]
        for position, written in _rewriters(program).items() if pairs else ():
            rewritten = [number for number, pair in enumerate(pairs) if pair.mask and not pair.mask & ~written]
            if rewritten:
                self._rewritten[position] = rewritten
        self._overwriting = [self._overwriters(pair) for pair in pairs]
        self.reset()

    def _overwriters(self, pair: Pair) -> tuple[int, ...]:
        """The pairs of the same consumer whose producer, a matrix instruction too, overwrites all that this one is about."""
        if not self._passes[pair.producer] or not pair.mask:
            return ()
        return tuple(number for number in self._consumed[pair.consumer] if (other := self.pairs[number]) is not pair
                     and self._passes[other.producer] and not pair.mask & ~self.program.instructions[other.producer].writes)

    def reset(self) -> None:
        """Other waves take these waves' places."""
        waves = self.machine.waves
        self._clock, self._slots, self._core_free = (np.zeros(waves, np.int64) for _ in range(3))
        self._born, self._issued = (np.full((len(self.pairs), waves), -MOST_WAIT_STATES, np.int64) for _ in range(2))

    def __call__(self, step: Step) -> Action | None:
        """What a step must do before it runs; nothing where the program has no close pair."""
        position = step.position
        always = self._always.get(position, [])

        def tell(group: Group) -> None:
            for pair in always:
                self._report(pair, pair.have, int(group.waves[0]))

        if not self.pairs:
            return tell if always else None
        states, passes = self._states[position], self._passes[position]
        consumed = tuple(self._consumed.get(position, ()))
        produced = tuple(self._produced.get(position, ()))
        rewritten = tuple(self._rewritten.get(position, ()))

        def before(group: Group) -> None:
            chosen = group.select
            tell(group)
            # Before the slots: no document says that a consumer which waits for the core has not read its sources yet.
            if consumed:
                self._look(group, consumed)
            if passes:
                self._slots[chosen] = np.maximum(self._slots[chosen], self._core_free[chosen])
                self._core_free[chosen] = self._slots[chosen] + passes
            for number in rewritten:
                self._born[number, chosen] = -MOST_WAIT_STATES
            self._clock[chosen] += states
            self._slots[chosen] += states
            for number in produced:
                self._born[number, chosen] = self._clock[chosen]
                self._issued[number, chosen] = self._slots[chosen]

        return before

    def _look(self, group: Group, numbers: Sequence[int]) -> None:
        """Findings for the pairs of one consumer. A later matrix instruction that overwrites all that a pair is about, and is too close
        itself, is the one cause: the core works in order."""
        chosen = group.select
        late = {number: found for number in numbers if (found := self._late(group, number)).any()}
        for number, waves in late.items():
            for other in self._overwriting[number]:
                if other in late:
                    waves = waves & ~(late[other] & (self._born[other, chosen] > self._born[number, chosen]))
            if waves.any():
                wave = int(group.waves[int(np.argmax(waves))])
                self._report(self.pairs[number], int(self._clock[wave] - self._born[number, wave]), wave)

    def _late(self, group: Group, number: int) -> NDArray[np.bool_]:
        states, chosen = self.pairs[number].states, group.select
        age = self._clock[chosen] - self._born[number, chosen]
        return np.asarray((age >= 0) & (age < states) & (self._slots[chosen] - self._issued[number, chosen] < states))

    def _report(self, pair: Pair, have: int, wave: int) -> None:
        instructions = self.program.instructions
        producer, consumer = instructions[pair.producer], instructions[pair.consumer]
        if self.findings.has(CHECK, producer, consumer):
            return
        message = f"{have} wait states where {pair.states} are needed (rule {pair.rule})"
        if pair.doubt:
            message += f": LLVM 22 puts an s_nop there, but {pair.doubt}"
        self.findings.add(Finding(CHECK, pair.severity, message, producer, consumer, wave,
                                  int(self.machine.workgroup[wave])))
