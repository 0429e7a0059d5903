"""The time that a kernel's arguments take to arrive: code that needs none of them stands there, before the first instruction that does.

An author computes addresses where they are needed, after the work of arguments. So a wave would stand still for the arguments first, and
compute what never needed them afterwards. As much of that as the latency has slots for moves, in order, to the front. Nothing passes code
that touches its registers, a label, a branch, a barrier, a wait or a block; accesses of memory stay where they are.

Only families that say `fills_argument_wait` have it: elsewhere code stays in its author's order. The first instruction that moved says
so in the text of the kernel.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import or_

from asmgen.author.emit.kernel import KernelBuilder
from asmgen.author.schedule.unitcosts import StepMachine, cost_of, ticks
from asmgen.author.step.effects import Tag, Unit, effects_of
from asmgen.isa.registers import exec_
from asmgen.program.program import Instruction, Item, Label


def fill_argument_wait(k: KernelBuilder, waves: int) -> None:
    """Move the code after the loads of a kernel's arguments, in a builder that is done. `waves` share a SIMD."""
    entry = max((number for number, item in enumerate(k.items[:k.begun]) if isinstance(item, Label)), default=0)
    arriving = reduce(or_, (item.writes for item in k.items[entry:k.begun] if isinstance(item, Instruction)), 0)
    machine = StepMachine(k.arch, waves)
    table = machine.timing
    room = ticks(table["kernarg_latency"], table.clocks("slot")) // waves if arriving else 0  # in slots of issue
    front: list[tuple[Item, Tag]] = []
    rest: list[tuple[Item, Tag]] = []
    moved: list[int] = []  # in `front`, what passes something
    reads = writes = 0  # of the rest
    for item, tag in zip(k.items[k.begun:], k.tags[k.begun:], strict=True):
        if room <= 0 or _ends(item, tag):
            break
        if not isinstance(item, Instruction):
            rest.append((item, tag))
            continue
        own = effects_of(item)
        if own.memory or own.reads & (arriving | writes) or own.writes & (arriving | reads | writes):
            rest.append((item, tag))
            reads, writes = reads | own.reads, writes | own.writes
        else:
            moved += [len(front)] if rest else []
            front.append((item, tag))
            room -= max(1, cost_of(Unit(0, (item,), tag), machine).busy)
    if moved:
        first, tag = front[moved[0]]
        assert isinstance(first, Instruction)
        says = f"needs no argument: moved to the front with {len(moved) - 1} more"
        front[moved[0]] = replace(first, comment="; ".join(filter(None, (first.comment, says)))), tag
    end = k.begun + len(front) + len(rest)
    k.rearranged(k.begun, [*front, *rest, *zip(k.items[end:], k.tags[end:], strict=True)])


def _ends(item: Item, tag: Tag) -> bool:
    """Whether nothing that follows an item moves before it."""
    if not isinstance(item, Instruction):
        return isinstance(item, Label)
    own = effects_of(item)
    return bool(tag.block or own.fence or own.in_place or own.writes & exec_.mask)
