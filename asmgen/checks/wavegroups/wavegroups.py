"""Groups of a workgroup's waves that go the same ways past barriers, and by how many barriers one runs after another.

Ping-pong sets some waves back by a barrier that they alone pass. The hardware lets waves go on when all have arrived, so from there on
these waves pass each barrier of the common code that many barriers later than the others. Which waves go where follows from constants
and the number of the work-item (program.wavevalues); where that is not known, waves are taken to go all ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from asmgen.checks.counters.ledger import Operation
from asmgen.checks.wavegroups.outofphase import Phases
from asmgen.checks.wavegroups.partings import Partings
from asmgen.isa.records import cached_property
from asmgen.program.controlflow import ControlFlow
from asmgen.program.program import Program
from asmgen.program.wavevalues import WaveValues
from asmgen.regalloc.dataflow import solve

_MOST = 8  # barriers after that are told apart; more are a loop's, where groups have barriers of their own
_Counts = frozenset[int]


class WaveGroups:
    """`groups` are masks of waves, a bit a wave; all waves of one are in phase wherever they meet."""

    def __init__(self, program: Program, flow: ControlFlow, operations: Sequence[Operation], values: WaveValues) -> None:
        self._program, self._flow = program, flow
        self._entries = {0, flow.block_of[program.labels.get(program.entry, 0)]}
        self._barriers = [sum(operation.barrier for operation in operations[block.first:block.last + 1]) for block in flow.blocks]
        self._comes = [sum(1 << wave for wave, comes in enumerate(takes.tolist()) if comes) for takes in values.takes]
        self._ways = [[(successor, sum(1 << wave for wave, goes in enumerate(waves.tolist()) if goes)) for successor, waves in ways]
                      for ways in values.ways]
        every = (1 << values.waves) - 1
        self._partly = [bool(barriers and comes not in (0, every)) for barriers, comes in zip(self._barriers, self._comes, strict=True)]
        signatures: dict[tuple[int, ...], int] = {}
        for wave in range(values.waves):
            signature = tuple(comes >> wave & 1 for comes, partly in zip(self._comes, self._partly, strict=True) if partly)
            signatures[signature] = signatures.get(signature, 0) | 1 << wave
        self.groups = tuple(signatures.values())

    def comes(self, number: int) -> int:
        """The waves that come to a block."""
        return self._comes[number]

    def ways(self, number: int, group: int) -> list[int]:
        """The blocks to which some wave of a group goes on from a block."""
        return [successor for successor, waves in self._ways[number] if waves & group]

    def sources(self, number: int, group: int) -> list[int]:
        """The blocks from which some wave of a group comes to a block."""
        return [before for before in self._flow.blocks[number].predecessors if number in self.ways(before, group)]

    def distances(self, number: int) -> Iterator[tuple[int, int, int]]:
        """(group, other group, barriers) in a block: by how many barriers, 0 or more, the first runs after the second. Each group with
        itself is among them, pairs of which it is not known are not."""
        for one, group in enumerate(self.groups):
            for two, other in enumerate(self.groups):
                if one == two:
                    yield group, other, 0
                    continue
                mine, theirs = self._passed[one][number], self._passed[two][number]
                if mine is not None and theirs is not None and len(mine) == len(theirs) == 1:
                    (after,), (ahead,) = mine, theirs
                    if after >= ahead:
                        yield group, other, after - ahead

    @cached_property
    def uneven(self) -> frozenset[int]:
        """Blocks that waves may come to by different barriers, as they part before at a branch of which it is not known who takes it."""
        partings = Partings(self._program, self._flow, Phases(self._program, self._flow))
        return partings.after_unknown([number for number, ways in enumerate(self._ways) if len(ways) > 1 and ways[0][1] & ways[1][1]])

    @cached_property
    def _passed(self) -> list[list[_Counts | None]]:
        """By group and block: how many barriers that not all waves pass it has passed at the block's start, None where not known."""
        return [self._counts(group) for group in self.groups]

    def _counts(self, group: int) -> list[_Counts | None]:
        blocks = self._flow.blocks
        unknown: _Counts = frozenset(range(_MOST + 2))

        def after(number: int, counts: _Counts) -> _Counts:
            more = self._barriers[number] if self._partly[number] else 0
            return frozenset(count + more for count in counts) if not more or max(counts, default=0) + more <= _MOST else unknown

        sources = [self.sources(block.number, group) for block in blocks]
        start = [frozenset({0}) if block.number in self._entries else _Counts() for block in blocks]
        entering = solve(sources, start, after, frozenset.union).at_entry
        return [counts if counts and counts != unknown else None for counts in entering]
