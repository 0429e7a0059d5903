"""Loads among other code: those that an author spreads (`load(k, ..., spread=True)`), and the fills of a prologue.

A wave that issues more loads than the queue of memory takes stands still until data return. So the first ones, as many as the queue takes,
stay where they are, and each of the others stands as many slots of issue after the one before it as its data take to return at the
highest rate of a compute unit. Loads that are spread move among the code up to the next pipeline. What an author writes for the time in
which a prologue's loads are in flight moves among these loads. Nothing passes code that touches its registers, nor a label, a branch, a
barrier, a wait or a block.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from asmgen.author.schedule.unitcosts import StepMachine, cost_of
from asmgen.author.step.effects import Tag, Unit, effects_of
from asmgen.isa.arch import SIMDS
from asmgen.isa.registers import exec_, scc
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


def fill_gaps(k: Builder, begin: int, end: int) -> None:
    """Move code from item `end` on among the loads that stand from item `begin` on, as far as each finds its place. SCC is dead after it.

    A wave that issues loads faster than the cache's port takes them stands still, so other code costs nothing there.
    """
    loads = list(zip(k.items[begin:end], k.tags[begin:end], strict=True))
    waiting = list(zip(k.items[end:], k.tags[end:], strict=True))
    if not waiting or any(_holds(item, tag, ()) for item, tag in (*loads, *waiting)):
        return
    loading, other = _StraightCode([item for item, _ in loads]), _StraightCode([item for item, _ in waiting])
    machine = StepMachine(k.arch, k.waves_per_simd)
    at_once = int(machine.timing["vmem_queue"]) // (machine.waves * SIMDS)
    placed: list[tuple[Item, Tag]] = []
    taken = 0
    for number, (item, tag) in enumerate(loads, 1):
        placed.append((item, tag))
        if not any(access.space == "global" and not access.write for access in loading.effects[number - 1].memory):
            continue
        at_once -= 1
        room, until = cost_of(Unit(0, (loading.items[number - 1],), tag), machine).port, taken
        while at_once < 0 and room > 0 and until < len(waiting):
            cost = cost_of(Unit(0, (other.items[until],), waiting[until][1]), machine)
            room -= max(cost.issue, cost.busy)
            until += 1
            if loading.lets(number, other, taken, until):
                placed += waiting[taken:until]
                taken = until
    k.rearranged(begin, [*placed, *waiting[taken:]])


class _StraightCode:
    """Straight code: the effects of its instructions, and by position which registers are read from there on before they are written,
    which are written, and of which of these nothing stays."""

    def __init__(self, items: Iterable[Item]) -> None:
        self.items = [item for item in items if isinstance(item, Instruction)]
        self.effects = [effects_of(item) for item in self.items]
        self.live, self.written, self.renewed = [0], [0], [0]
        for own in reversed(self.effects):
            whole = own.writes & ~own.masked
            self.live.append(own.reads | self.live[-1] & ~whole)
            self.written.append(self.written[-1] | own.writes)
            self.renewed.append(self.renewed[-1] | whole)
        for rows in (self.live, self.written, self.renewed):
            rows.reverse()

    def lets(self, number: int, other: _StraightCode, first: int, end: int) -> bool:
        """Whether instructions `first` to `end` of code that follows this may stand before the one of that number."""
        moved = other.effects[first:end]
        reads = writes = 0
        for own in moved:
            reads |= own.reads & ~(writes & scc.mask)  # a condition of its own is there
            writes |= own.writes
        later = self.written[number]
        kept = other.live[end] | ~(other.renewed[end] | scc.mask)  # what the rest, or code after it, wants of them
        return not (writes & self.live[number] or reads & later or writes & later & kept
                    or any(access.conflicts(more) for own in moved for access in own.memory for one in self.effects[number:]
                           for more in one.memory))


def _holds(item: Item, tag: Tag, waiting: Iterable[Instruction]) -> bool:
    """Whether an item must stand after the loads that are waiting."""
    if not isinstance(item, Instruction):
        return isinstance(item, Label)
    own = effects_of(item)
    if tag.block or own.fence or own.in_place or own.writes & exec_.mask:
        return True
    return any(own.writes & (load.reads | load.writes) or own.reads & load.writes
               or any(access.conflicts(other) for access in own.memory for other in load.memory) for load in map(effects_of, waiting))
