"""Loops that the waves of a workgroup go round at the same time: where waves part, each part has its own.

Ping-pong kernels with a copy of the loop for each half of the waves, producers and consumers: one loop alone leaves the unit half idle. Two
loops are sisters where a branch that may part waves leads to the one only on one side and to the other only on its other side, no wave
comes to both, and a round of each has barriers or neither has. Which waves take a side follows from constants and the waves' numbers;
where it does not, loops with equally many barriers a round are taken for sisters, and each has a half of the waves.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from asmgen.checks.counters.partings import differing_registers
from asmgen.program.controlflow import ControlFlow, control_flow
from asmgen.program.program import Program
from asmgen.regalloc.dataflow import reached
from asmgen.tools.inspection import KernelReport, LoopReport

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
    """The main loop and its sisters, each with its waves; nothing where a walk through its code does not come round the main loop."""
    program, flow = kernel.program, control_flow(kernel.program)
    body = _body(program, main)
    if not body:
        return ()
    every = range(min(kernel.waves or _WAVES, _MOST_WAVES))
    mine = tuple(wave for wave in main.waves or every if wave in every)
    sisters = _sisters(kernel, flow, main, body)
    some = _barriers_of_some(kernel, flow)

    def going(loop: LoopReport, walk: tuple[int, ...], waves: Collection[int], barriers: Collection[int] | None = None) -> LoopWaves:
        before = {wave: tuple(position for position in sorted({*some.get(wave, ()), *(barriers or ())}) if position < loop.first)
                  for wave in waves}
        return LoopWaves(loop, walk, tuple(waves), before, barriers is not None)

    if len(mine) == len(every):
        equal = [one for one in sisters if one.loop.waves in (None, main.waves)
                 and barriers_in(program, one.body) == barriers_in(program, body) > 0]
        if equal and len(every) > 1:
            sister, half = max(equal, key=_work), len(every) // 2
            return going(main, body, every[:half], sister.main), going(sister.loop, sister.body, every[half:], sister.its)
    of: dict[int, list[int]] = {}
    for wave in every:
        fitting = [number for number, one in enumerate(sisters) if one.loop.waves and wave in one.loop.waves
                   and not {*one.loop.waves} & {*mine}]
        if fitting:
            of.setdefault(max(fitting, key=lambda number: _work(sisters[number])), []).append(wave)
    return going(main, body, mine), *(going(sisters[number].loop, sisters[number].body, waves) for number, waves in of.items())


def barriers_in(program: Program, positions: Collection[int]) -> int:
    """How many of these instructions are barriers."""
    return sum(program.instructions[position].name == "s_barrier" for position in positions)


def _work(sister: _Sister) -> tuple[float, int]:
    """Of several loops on one side that one counts which has the most of this."""
    return sister.loop.code.matrix_cycles, sister.loop.code.instructions


def _sisters(kernel: KernelReport, flow: ControlFlow, main: LoopReport, body: tuple[int, ...]) -> list[_Sister]:
    """The loops on the other sides of branches that may part waves."""
    program, blocks, found = kernel.program, flow.blocks, []
    others = [loop for loop in kernel.inner_loops if loop.first > main.last or loop.last < main.first]
    if not others:
        return []
    differ, head = differing_registers(program, flow), flow.block_of[main.first]
    for block in blocks:
        if len(block.successors) != 2 or not program.instructions[block.last].reads & differ[block.number]:
            continue
        following = [() if other is block else other.successors for other in blocks]
        sides = [reached(following, [successor]) for successor in block.successors]
        for loop in others:
            its = flow.block_of[loop.first]
            for mine, other in (sides, sides[::-1]):
                walk = _body(program, loop) if head in mine - other and its in other - mine else ()
                if walk and bool(barriers_in(program, walk)) == bool(barriers_in(program, body)):
                    found.append(_Sister(loop, walk, _barriers_of(program, flow, other - mine), _barriers_of(program, flow, mine - other)))
    return found


def _barriers_of(program: Program, flow: ControlFlow, blocks: Collection[int]) -> tuple[int, ...]:
    """The positions of barriers in blocks."""
    return tuple(position for number in blocks for position in range(flow.blocks[number].first, flow.blocks[number].last + 1)
                 if program.instructions[position].name == "s_barrier")


def _barriers_of_some(kernel: KernelReport, flow: ControlFlow) -> dict[int, list[int]]:
    """By wave, barriers that only a part of the waves comes to: they put waves out of phase, as ping-pong wants it."""
    program = kernel.program
    barriers = [position for position, instruction in enumerate(program.instructions) if instruction.name == "s_barrier"]
    if kernel.block is None or not barriers:
        return {}
    from asmgen.program.wavevalues import WaveValues  # needs numpy

    takes = WaveValues(program, flow, kernel.block).takes
    found: dict[int, list[int]] = {}
    for position in barriers:
        waves = takes[flow.block_of[position]].tolist()
        for wave, comes in enumerate(waves):
            if comes and not all(waves):
                found.setdefault(wave, []).append(position)
    return found


def _body(program: Program, loop: LoopReport) -> tuple[int, ...]:
    """The positions of one round; empty where the walk does not come from the first instruction to the last."""
    body, position = [], loop.first
    for _ in range(_MOST_STEPS * loop.code.instructions):
        body.append(position)
        if position == loop.last:
            return tuple(body)
        instruction = program.instructions[position]
        position += 1
        if instruction.ends_block:
            target = program.labels.get(instruction.target or "", -1)
            if not loop.first <= target <= loop.last:
                return ()
            position = target
    return ()
