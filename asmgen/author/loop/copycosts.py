"""Whether copies of a step pay that stand beside a loop which could do without them (`asmgen.isa.codecost`)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, NamedTuple

from asmgen.author.loop.beyond import carried_registers
from asmgen.author.schedule.schedules import is_matrix
from asmgen.author.schedule.unitcosts import StepMachine, cost_of, ticks
from asmgen.author.step.effects import Unit
from asmgen.isa.arch import LANES, SIMDS
from asmgen.isa.codecost import code_bytes, pays

if TYPE_CHECKING:
    from asmgen.author.loop.stepcopies import Copies
    from asmgen.author.step.loopsources import ClosingSources

_STORED = 2
"""Bytes of a result: most are rounded to 16 bits."""


class _Size(NamedTuple):
    """Of some units: bytes, and for the waves of a SIMD the slots of their matrix units, of issue, and of the cache's port."""

    bytes_: int
    matrix: int
    issue: int
    port: int

    @property
    def busy(self) -> int:
        """The slots that they take."""
        return max(self.matrix, self.issue)


def overlap_pays(copies: Copies) -> bool:
    """Whether a last step with the epilogue in its gaps, instead of one in the loop, saves more than its text costs. It saves the time in
    which the sums go to memory, 2 bytes each, as far as the step's products last."""
    machine = _machine(copies)
    table = machine.timing
    (span,) = copies.span(0, 1, 0, stop=1)
    last = _size(copies.ordered(span), machine)
    sums = carried_registers(copies.units) & reduce(or_, (unit.effects.writes for unit in copies.units.every() if is_matrix(unit)), 0)
    stored = machine.waves * SIMDS * LANES * _STORED * sums.bit_count() / table["vmem_store_rate"]
    return pays(last.bytes_, last.busy * table["slot"], min(stored, last.matrix * table["slot"]), table)


def drain_pays(copies: Copies, sources: ClosingSources) -> bool:
    """Whether straight code for the last steps, instead of rounds of the loop, saves more than its text costs. It saves the slots of units
    beyond the end, the port's among them, of the code that closes the sources, and of two branches, as far as products do not hide them."""
    machine = _machine(copies)
    table, far = machine.timing, sources.farthest
    drain = [_size(copies.ordered(span), machine) for span in copies.span(0, far, 0, stop=far)]
    looped = [_size(copies.ordered(span), machine) for span in copies.span(0, far, 0)]
    more = machine.waves * (sources.instructions + 2 * ticks(table["branch_taken"], table.clocks("slot")))
    busy = sum(one.busy for one in drain)
    saved = max(sum(one.matrix for one in looped), sum(one.issue for one in looped) + more, sum(one.port for one in looped)) - busy
    return pays(sum(one.bytes_ for one in drain), busy * table["slot"], saved * table["slot"], table)


def _machine(copies: Copies) -> StepMachine:
    return StepMachine(copies.k.arch, copies.k.waves_per_simd)


def _size(units: Iterable[Unit], machine: StepMachine) -> _Size:
    size = matrix = issue = port = 0
    for unit in units:
        cost = cost_of(unit, machine)
        size += sum(code_bytes(one.name, one.form, one.operands) for one in unit.instructions)
        issue += cost.issue
        matrix += cost.busy if is_matrix(unit) else 0
        port += cost.port
    return _Size(size, machine.waves * matrix, machine.waves * issue, port)
