"""The registers that only a pipeline's loop used, as far as that is seen when the loop ends. Code after it may have them at need."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from asmgen.author.loop.beyond import carried_registers
from asmgen.author.loop.stepunits import StepUnits
from asmgen.isa.registers import SGPR_BIT, Reg
from asmgen.program.program import Instruction

if TYPE_CHECKING:
    from asmgen.author.emit.builder import Builder

_SGPRS = -1 << SGPR_BIT


def loop_only(k: Builder, units: StepUnits, begin: int) -> list[Reg]:
    """In the order in which they are least likely to be read again: tiles that carry no value from one iteration to the next; what the
    loop, from item `begin` on, leaves as its last step had it (the descriptors and offsets of sources); what only the loop reads; and
    SGPRs that count."""
    plan = k.registers
    assert plan is not None
    touched = reduce(or_, (unit.effects.reads | unit.effects.writes for unit in units.every()), 0)
    carried = carried_registers(units)
    loop = [item for item in k.items[begin:] if isinstance(item, Instruction)]
    written, read = (reduce(or_, masks, 0) for masks in zip(*((item.writes, item.reads) for item in loop), strict=True))
    before = reduce(or_, (item.reads for item in k.items[:begin] if isinstance(item, Instruction)), 0)
    tiles: dict[str, list[Reg]] = {}
    others: list[list[Reg]] = [[], [], []]
    for one in plan.live():
        mask = one.reg.mask
        if one.owns and one.name in k.tiles:
            tiles.setdefault(one.name, []).append(one.reg)
        elif one.kind == "pool" and mask & (written | read):
            kinds = (mask & written and not mask & carried, not mask & (carried | before), mask & carried & _SGPRS)
            place = next((number for number, is_so in enumerate(kinds) if is_so), None)
            if place is not None:
                others[place].append(one.reg)
    held = {name: reduce(or_, (reg.mask for reg in regs)) for name, regs in tiles.items()}
    mine = [reg for name, regs in tiles.items() if held[name] & touched and not held[name] & carried for reg in regs]
    return mine + [reg for regs in others for reg in regs]
