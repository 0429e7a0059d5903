"""Loads that an author spreads (`load(k, ..., spread=True)`): they stand among the code between themselves and the next pipeline.

A wave that issues more loads than the queue of memory takes stands still until data return. So the first ones, as many as the queue takes,
stay where they are, and each of the others stands as many slots of issue after the one before it as its data take to return at the
highest rate of a compute unit. None passes code that touches its registers, nor a label, a branch, a barrier, a wait or a block.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from asmgen.author.schedule.unitcosts import StepMachine, cost_of
from asmgen.author.step.effects import Tag, Unit, effects_of
from asmgen.isa.arch import SIMDS
from asmgen.isa.registers import exec_
from asmgen.program.program import Instruction, Item, Label

if TYPE_CHECKING:
    from asmgen.author.emit.builder import Builder


def spread_loads(k: Builder) -> None:
    """Move the builder's loads that are to be spread, up to where it stands."""
    spread, k.to_spread = {id(load) for load in k.to_spread}, []
    if not spread:
        return
    begin = next(number for number, item in enumerate(k.items) if id(item) in spread)
    machine = StepMachine(k.arch, k.waves_per_simd)
    at_once = int(machine.timing["vmem_queue"]) // (machine.waves * SIMDS)
    placed: list[tuple[Item, Tag]] = []
    waiting: deque[tuple[Instruction, Tag]] = deque()
    slots = 0  # of issue since the last of the loads
    for item, tag in zip(k.items[begin:], k.tags[begin:], strict=True):
        if id(item) in spread and isinstance(item, Instruction):
            waiting.append((item, tag))
        else:
            if _holds(item, tag, [load for load, _ in waiting]):
                placed += waiting
                waiting.clear()
            placed.append((item, tag))
            slots += isinstance(item, Instruction)
        while waiting and (at_once > 0 or slots >= cost_of(Unit(0, waiting[0][:1], waiting[0][1]), machine).busy):
            placed.append(waiting.popleft())
            at_once, slots = at_once - 1, 0
    k.rearranged(begin, [*placed, *waiting])


def _holds(item: Item, tag: Tag, waiting: Iterable[Instruction]) -> bool:
    """Whether an item must stand after the loads that are waiting."""
    if not isinstance(item, Instruction):
        return isinstance(item, Label)
    own = effects_of(item)
    if tag.block or own.fence or own.in_place or own.writes & exec_.mask:
        return True
    return any(own.writes & (load.reads | load.writes) or own.reads & load.writes
               or any(access.conflicts(other) for access in own.memory for other in load.memory) for load in map(effects_of, waiting))
