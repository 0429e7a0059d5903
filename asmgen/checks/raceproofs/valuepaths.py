"""A program's blocks, a node for each set of waves that come there and for what their registers hold: buffers that take turns, counters of
loops with a known number of rounds and halves of the waves that go other ways are told apart.

A register that has held too many values at a block's begin is unknown there from then on, so that the nodes come to an end: many for
registers that addresses in LDS come from, few for others, as counters that are compared with what nobody knows. Low bits stay known of
counters of which code takes these alone, as a buffer's number. At a block with many nodes
a register is unknown that was unknown on one way there: results of loads under a mask, else a constant, would double the nodes each.
Whatever waves do is a path through the nodes. Nothing is run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from asmgen.checks.barrierraces.ldslocations import LdsAddressing, LdsPatterns, address_mask
from asmgen.checks.raceproofs.outcome import CannotTell
from asmgen.isa.arch import LANES, architecture
from asmgen.isa.registers import SCC_BIT
from asmgen.program.controlflow import ControlFlow
from asmgen.program.knowncalls import CALLS
from asmgen.program.lowbits import wanted_low_bits
from asmgen.program.program import Program
from asmgen.program.registerindex import first_indexed
from asmgen.program.wavestate import EXEC_BIT, LowBits, State, Value, together
from asmgen.program.wavesteps import step
from asmgen.program.wavevalues import first_state, mattering, waves_of, ways_after
from asmgen.regalloc.dataflow import solve_masks

FEW, SOME, MANY = 4, 8, 40
_CROWD = 4
"""A block is crowded where it has this many nodes for each value that a register may have."""
_MOST_STEPS = 400_000
"""Bounds of the work, not of what is right: beyond them a register, or the whole, is unknown."""
_EXEC, _SCC = 3 << EXEC_BIT, 1 << SCC_BIT
_JUMPS = CALLS | {"s_setpc_b64", "s_rfe_b64"}


@dataclass
class Node:
    """A block with what is known there. `waves` are those that come to it, `touched` the places of the accesses to LDS by position (None:
    not known), `ways` the nodes that follow, each with the waves that go there (all of these, where it is not known). From each position
    in `lanes` on, EXEC is known to have all lanes, or not."""

    number: int
    block: int
    waves: int
    entry: State
    touched: dict[int, LdsPatterns | None] = field(default_factory=dict)
    ways: list[int] = field(default_factory=list)
    lanes: list[tuple[int, bool]] = field(default_factory=list)


class ValuePaths:
    """The nodes of a program; `starts` are those where it begins. `accesses` are the positions that touch LDS. `most` says how many
    values of a register are told apart: of one from which no address comes, and of others.

    Raises CannotTell for code that jumps to computed addresses and for too many nodes.
    """

    def __init__(self, program: Program, flow: ControlFlow, block: tuple[int, int, int] | None, accesses: Sequence[int],
                 most: tuple[int, int] = (FEW, SOME)) -> None:
        self.program, self.flow, self.waves = program, flow, waves_of(block)
        self.whole = block is not None and block[0] * block[1] * block[2] % LANES == 0
        """Whether the last wave has all of its lanes."""
        for position, instruction in enumerate(program.instructions):
            if instruction.name in _JUMPS or position in flow.indirect:
                raise CannotTell("code goes on at a computed address", position)
        indexed = first_indexed(program)
        if indexed is not None:
            raise CannotTell("M0 says which registers instructions mean", indexed)
        wanted = 0
        for position in accesses:
            wanted |= address_mask(program.instructions[position])
        matters = mattering(program, wanted)
        self._steps = [[position for position in range(one.first, one.last + 1) if matters[position]] for one in flow.blocks]
        touching = set(accesses)
        self._accesses = [[position for position in range(one.first, one.last + 1) if position in touching] for one in flow.blocks]
        self._live = self._living()
        self._most, self._slice = most, _address_slice(program, flow, wanted)
        self._addressing = LdsAddressing(architecture(program.arch))
        self.nodes: list[Node] = []
        self._low = {bit: count for bit, count in wanted_low_bits(program).items() if self._slice >> bit & 1}
        self._many_low = 0
        self._known: dict[tuple[object, ...], int] = {}
        self._values: dict[tuple[int, int], set[int]] = {}
        self._limits: list[set[int]] = [set() for _ in flow.blocks]
        """By block, what EXEC has been limited to there."""
        self._lost = [0 for _ in flow.blocks]
        self._sure = [-1 for _ in flow.blocks]
        """By block, the registers that are known in all nodes."""
        self._nodes_of = [0 for _ in flow.blocks]
        self._digests: dict[tuple[int, int], tuple[Value, int]] = {}
        self._queue: deque[int] = deque()
        begins = {0, flow.block_of[program.labels[program.entry]]} if program.entry else {0}
        self.starts = [self._node(number, _first(block, program.workitem_dims)) for number in sorted(begins)]
        self._explore()
        self._merge()

    def _explore(self) -> None:
        passed = 0
        while self._queue:
            node = self.nodes[self._queue.popleft()]
            state = self._pass(node)
            passed += 1 + len(self._steps[node.block])
            if passed > _MOST_STEPS:
                raise CannotTell("registers hold too many values on the ways through loops", self.flow.blocks[node.block].first)
            for successor, waves in ways_after(self.program, self.flow, node.block, state):
                if waves.any():
                    node.ways.append(self._node(successor, state.narrowed(waves), state.limit))

    def _merge(self) -> None:
        """Nodes of a block that nothing tells apart any more, in what they touch and in all that follows, become one: what a prologue
        loads or leaves out makes two of each block up to where that is forgotten."""
        found: dict[object, int] = {}
        kinds = [found.setdefault((node.block, node.waves, *node.touched.items(), *node.lanes), len(found)) for node in self.nodes]
        count = 0
        while len(found) > count:
            count, found = len(found), {}
            kinds = [found.setdefault((kinds[node.number], *dict.fromkeys(kinds[way] for way in node.ways)), len(found))
                     for node in self.nodes]
        if count == len(self.nodes):
            return
        kept = {kind: node for node, kind in zip(reversed(self.nodes), reversed(kinds), strict=True)}
        self.nodes = [Node(kind, node.block, node.waves, node.entry, node.touched, list(dict.fromkeys(kinds[way] for way in node.ways)),
                           node.lanes) for kind, node in sorted(kept.items())]
        self.starts = [kinds[number] for number in self.starts]

    def _pass(self, node: Node) -> State:
        """Go through a block; what is known after it."""
        state, instructions = node.entry.copy(), self.program.instructions
        asked = iter([*self._accesses[node.block], -1])
        access = next(asked)
        node.lanes.append((self.flow.blocks[node.block].first, _all_lanes(state)))
        for position in self._steps[node.block]:
            while 0 <= access <= position:
                node.touched[access] = self._addressing.patterns(instructions[access], state)
                access = next(asked)
            step(state, instructions[position])
            if instructions[position].writes & _EXEC:
                node.lanes.append((position + 1, _all_lanes(state)))
        while access >= 0:
            node.touched[access] = self._addressing.patterns(instructions[access], state)
            access = next(asked)
        return state

    def _node(self, block: int, state: State, limit: tuple[Value, Value] | None = None) -> int:
        """The node of a block, a state and its `limit`, which is new where none holds the same."""
        waves = sum(1 << wave for wave, comes in enumerate(state.waves.tolist()) if comes)
        known: dict[int, Value] = {}
        key: list[object] = [block, waves]
        if self._nodes_of[block] >= _CROWD * max(self._most):
            self._lost[block] |= ~self._sure[block]
        live, lost = self._live[block], self._lost[block]
        for bit in sorted(state.known):
            if not live >> bit & 1 or lost >> bit & 1:
                continue
            value = state.known[bit]
            digest = self._digest(value, waves, state)
            seen = self._values.setdefault((block, bit), set())
            seen.add(digest)
            if len(seen) > self._most[self._slice >> bit & 1]:
                self._lost[block] |= 1 << bit
                continue
            known[bit] = value
            key += (bit, digest)
        low = self._low_of(block, state, known)
        for bit, some in low.items():
            key += (bit, some.count, some.value[state.waves].tobytes())
        if limit is not None:
            words = limit[0][state.waves].tobytes(), limit[1][state.waves].tobytes()
            self._limits[block].add(hash(words))
            limit = None if len(self._limits[block]) > self._most[1] else limit
            key += words if limit is not None else ()
        found = self._known.get(tuple(key))
        if found is None:
            found = self._known[tuple(key)] = len(self.nodes)
            self.nodes.append(Node(found, block, waves, State(state.waves, known, low, limit=limit)))
            self._nodes_of[block] += 1
            self._sure[block] &= sum(1 << bit for bit in known)
            self._queue.append(found)
        return found

    def _low_of(self, block: int, state: State, known: Mapping[int, Value]) -> dict[int, LowBits]:
        """Of registers that are not told apart by their values any more, the low bits that are asked for, if these take few values."""
        found = {}
        for bit, count in self._low.items():
            if bit in known or not self._live[block] >> bit & 1 or self._many_low >> bit & 1:
                continue
            value, some = state.known.get(bit), state.low.get(bit)
            if value is None and some is not None and some.count >= count:
                value = some.value
            if value is None:
                continue
            value = value & (1 << count) - 1
            seen = self._values.setdefault((block, ~bit), set())
            seen.add(hash(value[state.waves].tobytes()))
            if len(seen) > self._most[1]:
                self._many_low |= 1 << bit
            else:
                found[bit] = LowBits(value, count)
        return found

    def _digest(self, value: Value, waves: int, state: State) -> int:
        key = id(value), waves
        found = self._digests.get(key)
        if found is None:
            found = self._digests[key] = value, hash(value[state.waves].tobytes())
        return found[1]

    def _living(self) -> list[int]:
        """By block, the registers that something there or later asks for. Lanes that a vector instruction leaves as they are count for
        nothing: what is forgotten makes no proof wrong."""
        instructions, flow = self.program.instructions, self.flow
        uses, ends = [], []
        for block in flow.blocks:
            used = ended = 0
            mattering_here = set(self._steps[block.number])
            touching = set(self._accesses[block.number])
            for position in range(block.first, block.last + 1):
                instruction = instructions[position]
                if position in mattering_here or position in touching or position == block.last:
                    used |= (instruction.reads | _EXEC) & ~ended
                    ended |= instruction.writes
            uses.append(used)
            ends.append(ended & ~used)
        # Backwards: what lives at a block's end is what its successors ask for.
        solution = solve_masks([block.successors for block in flow.blocks], [0] * len(flow.blocks), uses, ends)
        return [alive | _EXEC for alive in solution.at_exit]


def _first(block: tuple[int, int, int] | None, dims: int) -> State:
    """What waves hold at first. Lanes beyond the workgroup's end do not run."""
    state = first_state(block, dims)
    if block is not None:
        lanes = np.arange(len(state.waves) * LANES).reshape(-1, LANES) < block[0] * block[1] * block[2]
        state.known[EXEC_BIT], state.known[EXEC_BIT + 1] = together(lanes.astype(np.int64))
    return state


def _all_lanes(state: State) -> bool:
    """Whether all lanes of the waves here are known to run."""
    lanes = state.known_exec
    return lanes is not None and bool(lanes[state.waves].all())


def _address_slice(program: Program, flow: ControlFlow, wanted: int) -> int:
    """The registers, as bits, that may go into those in `wanted`. SCC is that of the last instruction before in the block."""
    instructions = program.instructions
    inside: set[int] = set()
    while True:
        before = len(inside), wanted
        for block in flow.blocks:
            asked = False  # whether an instruction further on in the block takes SCC
            for position in range(block.last, block.first - 1, -1):
                instruction = instructions[position]
                if position in inside or instruction.writes & wanted or asked and instruction.writes & _SCC:
                    inside.add(position)
                    asked = asked and not instruction.writes & _SCC or bool(instruction.reads & _SCC)
                    wanted |= instruction.reads & ~_SCC
            if asked:
                wanted |= _SCC
        if (len(inside), wanted) == before:
            return wanted
