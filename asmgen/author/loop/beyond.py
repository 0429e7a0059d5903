"""Iterations beyond the end: whether a prologue that runs some of their operations serves counts that do not have them.

Such an operation does no harm if its sources stay where they are, so that it reads what an earlier iteration has read, if it changes no
register that iterations hand on, and if nothing that runs later reads what it writes. Fills of LDS are read by their own iteration alone,
which does not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asmgen.author.loop.stepunits import CopySpan
from asmgen.author.step.effects import Unit
from asmgen.isa.registers import SGPR_BIT, exec_, vcc

if TYPE_CHECKING:
    from asmgen.author.loop.stepcopies import Copies

_PLAIN = (1 << SGPR_BIT + vcc.index) - 1
"""VGPRs, AGPRs and the SGPRs that have no meaning of their own."""


def prologue_serves(copies: Copies) -> bool:
    """Whether all counts below the steps ahead may run the prologue of a longer loop. Registers that operations beyond the end write become
    `copies.lost`; the builder refuses code after the pipeline that reads them."""
    if not copies.whole or not copies.k.sources_hold_back() or any(unit.effects.writes & exec_.mask for unit in copies.units.every()):
        return False
    written, carried = 0, _carried(copies)
    for number in range(1, copies.ahead):
        found = _written_beyond(copies, number)
        if found is None or found & carried or _read_later(copies, number, found):
            return False
        written |= found
    copies.lost = written & _PLAIN
    return True


def _written_beyond(copies: Copies, number: int) -> int | None:
    """The registers that the prologue of a count writes for iterations from the count on; None where one of its units may do harm."""
    written, shape = 0, copies.units.shape
    for step, span in enumerate(copies.span(-copies.ahead, 1, -number % copies.unroll, 0), -copies.ahead):
        for unit in copies.units.kept(span):
            if step + shape.offsets[unit.tag.ordinal] < number or step == 0 and unit.tag.ordinal not in shape.arrangement.lead:
                continue
            if _harms(copies, unit):
                return None
            written |= unit.effects.writes
    return written


def _carried(copies: Copies) -> int:
    """The registers that hand values from iteration to iteration: an iteration reads them before it writes them."""
    shape = copies.units.shape
    read = written = 0
    for offset in sorted(set(shape.offsets.values()), reverse=True):  # an iteration's operations run in this order
        for unit in copies.units.kept(CopySpan(-offset % copies.unroll, masked=True)):
            if shape.offsets[unit.tag.ordinal] == offset:
                read |= unit.effects.reads & ~written
                written |= 0 if unit.effects.keeps else unit.effects.writes
    return read & _all_written(copies)


def _all_written(copies: Copies) -> int:
    found = 0
    for phase in range(copies.unroll):
        for unit in copies.units.kept(CopySpan(phase, masked=True)):
            found |= unit.effects.writes
    return found


def _harms(copies: Copies, unit: Unit) -> bool:
    """Whether a unit beyond the end accesses memory that it must not."""
    accesses = [access for access in unit.effects.memory if access.space == "global"]
    return any(access.write for access in accesses) or bool(accesses) and not copies.k.follows_sources(unit)


def _read_later(copies: Copies, number: int, written: int) -> int:
    """The registers among `written` that the drain of a count reads before it writes them, with all lanes on."""
    found, left = 0, written
    for span in copies.span(copies.ahead - number, copies.ahead, (copies.ahead - number) % copies.unroll, stop=copies.ahead):
        for unit in copies.ordered(span):
            found |= unit.effects.reads & left
            left &= -1 if unit.effects.keeps else ~unit.effects.writes
    return found
