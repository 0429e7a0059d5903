"""Iterations beyond the end: whether copies that run some of their operations serve counts that do not have them.

Such an operation does no harm if its sources stay where they are or are closed, so that it reads what an earlier iteration has read or
nothing, if it changes no register that iterations hand on, and if nothing that runs later reads what it writes. Fills of LDS are read by
their own iteration alone, which does not exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from asmgen.author.loop.stepunits import CopySpan, StepUnits
from asmgen.author.step.effects import Unit
from asmgen.isa.registers import SGPR_BIT, exec_, vcc

if TYPE_CHECKING:
    from asmgen.author.loop.stepcopies import Copies

_PLAIN = (1 << SGPR_BIT + vcc.index) - 1
"""VGPRs, AGPRs and the SGPRs that have no meaning of their own."""


def prologue_serves(copies: Copies) -> bool:
    """Whether all counts below the steps ahead may run the prologue of a longer loop. Registers that operations beyond the end write become
    `copies.lost`; the builder refuses code after the pipeline that reads them."""
    return copies.k.sources_hold_back() and _harmless(copies, copies.ahead, range(1, copies.ahead))


def loop_serves(copies: Copies) -> bool:
    """Whether each count may run its last steps in the loop: all of them, or all but one that stands apart. `copies.lost` as above."""
    return all(_harmless(copies, apart, range(1, copies.ahead + 2)) for apart in range(2))


def _harmless(copies: Copies, apart: int, counts: range) -> bool:
    if not copies.whole or any(unit.effects.writes & exec_.mask for unit in copies.units.every()):
        return False
    lost, carried = 0, carried_registers(copies.units)
    for count in counts:
        found = _written_beyond(copies, apart, count)
        if found is None or found & carried:
            return False
        lost |= found
    copies.lost |= lost & _PLAIN
    return True


def _written_beyond(copies: Copies, apart: int, count: int) -> int | None:
    """The registers that a path writes for iterations from the count on; None where one of its units there may do harm, or where a unit of
    an earlier iteration reads what they have written."""
    written = left = 0
    for unit, exists in _path(copies, apart, count):
        if not exists:
            if _harms(copies, unit):
                return None
            written |= unit.effects.writes
            left |= unit.effects.writes
        elif unit.effects.reads & left:
            return None
        elif not unit.effects.keeps:
            left &= ~unit.effects.writes
    return written


def _path(copies: Copies, apart: int, count: int) -> Iterator[tuple[Unit, bool]]:
    """The units that a count runs, each with whether its iteration exists, where the last steps stand `apart` from the loop."""
    shape, unroll = copies.units.shape, copies.unroll
    steady, phase = max(0, count - apart), (apart - count) % unroll
    for step, span in enumerate(copies.span(-copies.ahead, 1, phase - copies.ahead, 0), -copies.ahead):
        for unit in copies.units.kept(span):
            if step < 0 or unit.tag.ordinal in shape.arrangement.lead:
                yield unit, step + shape.offsets[unit.tag.ordinal] < count
    for step, span in enumerate(copies.span(0, steady, phase, 0)):
        for unit in copies.ordered(span):
            yield unit, step + shape.offsets[unit.tag.ordinal] + (unit.tag.ordinal in shape.arrangement.lead) < count
    last = min(apart, count)
    for span in copies.span(apart - last, apart, phase + steady, stop=apart):
        for unit in copies.ordered(span):
            yield unit, True


def carried_registers(units: StepUnits) -> int:
    """The registers that hand values from iteration to iteration: an iteration reads them before it writes them."""
    shape = units.shape
    read = written = 0
    for offset in sorted(set(shape.offsets.values()), reverse=True):  # an iteration's operations run in this order
        for unit in units.kept(CopySpan(-offset % shape.unroll, masked=True)):
            if shape.offsets[unit.tag.ordinal] == offset:
                read |= unit.effects.reads & ~written
                written |= 0 if unit.effects.keeps else unit.effects.writes
    return read & _all_written(units)


def _all_written(units: StepUnits) -> int:
    found = 0
    for phase in range(units.shape.unroll):
        for unit in units.kept(CopySpan(phase, masked=True)):
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
