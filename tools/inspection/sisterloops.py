"""Loops that the waves of a workgroup go round at the same time: where waves part, each part has its own.

Ping-pong kernels with a copy of the loop for each half of the waves, producers and consumers: one loop alone leaves the unit half idle. Two
loops are sisters where a branch on what differs from wave to wave, loaded data apart, leads to the one only on one side and to the other
only on its other side, no wave comes to both, and a round of each has barriers or neither has. Which waves take a side follows from
constants and the waves' numbers; where it does not, loops with equally many barriers a round are taken for sisters, and each has a half of
the waves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from asmgen.checks.wavegroups.partings import differing_registers
from asmgen.program.controlflow import ControlFlow, control_flow
from asmgen.program.program import Program
from asmgen.regalloc.dataflow import reached
from asmgen.tools.inspection.inspection import KernelReport, LoopReport

_MOST_WAVES = 16
_WAVES = 4  # where the workgroup's size is not known
_MOST_STEPS = 4  # times the loop's length: a walk through its code that does not come back is given up


@dataclass(frozen=True)
class LoopWaves:
    """Waves that go round a loop. `body` are the positions of one round, `before` by wave those of barriers ahead of the loop that others
    do not pass. `guessed`: the code does not say which waves these are."""

    loop: LoopReport
    body: tuple[int, ...]
    waves: tuple[int, ...]
    before: dict[int, tuple[int, ...]]
    guessed: bool = False


@dataclass(frozen=True)
class _Sister:
    """A loop that other waves may go round; barriers that only its waves, and that only the main loop's waves may come to, from where they
    part."""

    loop: LoopReport
    body: tuple[int, ...]
    its: tuple[int, ...]
    main: tuple[int, ...]


def loops_together(kernel: KernelReport, main: LoopReport) -> tuple[LoopWaves, ...]:
    """The main loop and its sisters, each with its waves, apart where these go different ways in it; nothing where a walk through its code
    does not come round the main loop."""
    program, flow = kernel.program, control_flow(kernel.program)
    body = _body(program, main)
    if not body:
        return ()
    every = range(min(kernel.waves or _WAVES, _MOST_WAVES))
    mine = tuple(wave for wave in main.waves or every if wave in every)
    sisters = _sisters(kernel, flow, main, body)
    comes = _Comes(kernel, flow)

    def going(loop: LoopReport, waves: Collection[int], barriers: Collection[int] | None = None) -> list[LoopWaves]:
        walks: dict[tuple[int, ...], list[int]] = {}
        for wave in waves:
            walks.setdefault(_body(program, loop, comes.of(wave)) or _body(program, loop), []).append(wave)
        return [LoopWaves(loop, walk, tuple(some), {wave: comes.before(wave, loop, barriers or ()) for wave in some}, barriers is not None)
                for walk, some in walks.items()]

    def alike(sister: _Sister) -> tuple[bool, float, int]:
        """Of several loops on one side that one counts which has the most of this."""
        code = sister.loop.code
        return (barriers_in(program, sister.body) == barriers_in(program, body), code.matrix_cycles,
                -abs(code.instructions - main.code.instructions))

    if len(mine) == len(every) > 1:
        equal = [one for one in sisters if one.loop.waves in (None, main.waves) and alike(one)[0] and barriers_in(program, body)]
        if equal:
            sister, half = max(equal, key=alike), len(every) // 2
            return (*going(main, every[:half], sister.main), *going(sister.loop, every[half:], sister.its))
    of: dict[int, list[int]] = {}
    for wave in every:
        fitting = [number for number, one in enumerate(sisters) if one.loop.waves and wave in one.loop.waves
                   and not {*one.loop.waves} & {*mine}]
        if fitting:
            of.setdefault(max(fitting, key=lambda number: alike(sisters[number])), []).append(wave)
    return (*going(main, mine), *(one for number, waves in of.items() for one in going(sisters[number].loop, waves)))


def barriers_in(program: Program, positions: Collection[int]) -> int:
    """How many of these instructions are barriers."""
    return sum(program.instructions[position].name == "s_barrier" for position in positions)


def _sisters(kernel: KernelReport, flow: ControlFlow, main: LoopReport, body: tuple[int, ...]) -> list[_Sister]:
    """The loops on the other sides of branches that may part waves, before any loop around these goes round again."""
    program, head = kernel.program, flow.block_of[main.first]
    others = [(loop, walk) for loop in kernel.inner_loops if (loop.first > main.last or loop.last < main.first)
              and (walk := _body(program, loop)) and bool(barriers_in(program, walk)) == bool(barriers_in(program, body))]
    if not others:
        return []
    back = {(flow.block_of[loop.last], flow.block_of[loop.first]) for loop in flow.loops()}
    following = [[one for one in block.successors if (block.number, one) not in back] for block in flow.blocks]
    before = [[one for one in block.predecessors if (one, block.number) not in back] for block in flow.blocks]
    differ, leading = differing_registers(program, flow, loads=False), reached(before, [head])
    parting = [block for block in flow.blocks if len(following[block.number]) == 2 and len(leading & {*following[block.number]}) == 1
               and program.instructions[block.last].reads & differ[block.number]]
    found = []
    for loop, walk in others:
        its = reached(before, [flow.block_of[loop.first]])
        for block in parting:
            (mine,) = leading & {*following[block.number]}
            (other,) = {*following[block.number]} - {mine}
            if other in its and mine not in its:
                sides = reached(following, [mine]), reached(following, [other])
                found.append(_Sister(loop, walk, _barriers_of(program, flow, sides[1] - sides[0]),
                                     _barriers_of(program, flow, sides[0] - sides[1])))
    return found


def _barriers_of(program: Program, flow: ControlFlow, blocks: Collection[int]) -> tuple[int, ...]:
    """The positions of barriers in blocks."""
    return tuple(position for number in blocks for position in range(flow.blocks[number].first, flow.blocks[number].last + 1)
                 if program.instructions[position].name == "s_barrier")


class _Comes:
    """Which waves come to which code, as far as constants and the waves' numbers tell."""

    def __init__(self, kernel: KernelReport, flow: ControlFlow) -> None:
        self._program, self._flow = kernel.program, flow
        self._takes: Sequence[Sequence[bool]] = ()
        if kernel.block is not None:
            from asmgen.program.wavevalues import WaveValues  # needs numpy

            self._takes = [waves.tolist() for waves in WaveValues(kernel.program, flow, kernel.block).takes]

    def of(self, wave: int) -> Callable[[int], bool]:
        """Whether this wave may come to a position."""
        takes, block_of = self._takes, self._flow.block_of
        return lambda position: not takes or takes[block_of[position]][wave]

    def before(self, wave: int, loop: LoopReport, guessed: Collection[int]) -> tuple[int, ...]:
        """Barriers ahead of a loop that this wave comes to and others do not: they put waves out of phase, as ping-pong wants it. `guessed`
        are taken for such."""
        return tuple(position for position in range(loop.first) if self._program.instructions[position].name == "s_barrier"
                     and (position in guessed or self._takes and self._takes[self._flow.block_of[position]][wave]
                          and not all(self._takes[self._flow.block_of[position]])))


def _body(program: Program, loop: LoopReport, comes: Callable[[int], bool] = lambda position: True) -> tuple[int, ...]:
    """The positions of one round; empty where the walk does not come from the first instruction to the last. Inner branches fall through,
    but where the wave only `comes` to their target."""
    body, position = [], loop.first
    for _ in range(_MOST_STEPS * loop.code.instructions):
        body.append(position)
        if position == loop.last:
            return tuple(body)
        instruction = program.instructions[position]
        target = program.labels.get(instruction.target or "", -1)
        position += 1
        if instruction.ends_block or target >= 0 and not comes(position):
            if not loop.first <= target <= loop.last or not comes(target):
                return ()
            position = target
    return ()
