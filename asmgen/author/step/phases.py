"""The phases of a step that was recorded once: what its buffers change, by table.

Registers of tiles with stages know those of other phases (`OwnedReg.by_phase`). Where anything else takes turns (offsets and address
registers of LDS, the constants of M0, tokens), the instruction was made for each phase when it was recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import lcm
from typing import Any

from asmgen.author.step.effects import Unit
from asmgen.author.step.iterations import PipelineError
from asmgen.isa.operands import Operand
from asmgen.isa.registers import Modified
from asmgen.program.program import Instruction, Item
from asmgen.regalloc.phased import Phased, at_phase, period
from asmgen.regalloc.ranges import OwnedReg, Range

Changed = Callable[[Any], Any]


def period_of(values: Sequence[Any]) -> int:
    """After so many phases the operands of an instruction are the same again; 1 if only registers take turns, by themselves."""
    if not any(isinstance(value, Phased) for value in values):
        return 1
    count = period(*values)
    return count if count == 1 else lcm(count, *(len(reg.by_phase) or 1 for reg in _owned(values)))


def in_phase(value: Any, phase: int) -> Any:
    """An operand or modifier in a phase."""
    if isinstance(value, Phased):
        value = at_phase(value, phase)
    if isinstance(value, Modified) and isinstance(value.value, OwnedReg):
        return replace(value, value=value.value.in_phase(phase))
    return value.in_phase(phase) if isinstance(value, OwnedReg) else value


def phase_units(units: Sequence[Unit], phase: int, tables: Mapping[int, tuple[Instruction, ...]]) -> list[Unit]:
    """The units of a phase; `units` are those of phase 0, `tables` the instructions by phase, by ordinal. Raises PipelineError where
    registers of two phases are not alike."""
    def renamed(item: Item, ordinal: int) -> Item:
        if ordinal in tables:
            return tables[ordinal][phase % len(tables[ordinal])]
        return changed(item, lambda value: _checked(item, value, phase)) if isinstance(item, Instruction) else item

    found = []
    for unit in units:
        items = tuple([renamed(item, unit.tag.ordinal + number) for number, item in enumerate(unit.items)])
        tag = unit.tag._replace(phase=phase)
        same = all(one is other for one, other in zip(items, unit.items, strict=True))
        found.append(unit.again(unit.number, tag) if same else Unit(unit.number, items, tag))
    return found


def _checked(instruction: Item, value: OwnedReg, phase: int) -> OwnedReg:
    if not value.by_phase:
        return value
    there = value.in_phase(phase)
    if there.file != value.file or value.count > 1 and (there.index - value.index) % 2:
        assert isinstance(instruction, Instruction)
        raise PipelineError(f"{instruction.text} names {value}, which is {there} in another phase of the step: the buffers of a tile lie "
                            "in one file, and their tuples all at even or all at odd numbers", instruction.where())
    return there


def changed(instruction: Instruction, of: Callable[[OwnedReg], OwnedReg]) -> Instruction:
    """The instruction with a function of each register of a plan; itself where nothing changes."""
    operands: list[Operand] = []
    differ = False
    for operand in instruction.operands:
        value = operand.value if isinstance(operand, Modified) else operand
        if isinstance(value, OwnedReg) and (other := of(value)) is not value:
            operand, differ = replace(operand, value=other) if isinstance(operand, Modified) else other, True
        operands.append(operand)
    return replace(instruction, operands=tuple(operands)) if differ else instruction


def moved_to(given: Mapping[int, OwnedReg], ranges: Sequence[Range]) -> Callable[[OwnedReg], OwnedReg]:
    """A function of registers of leases that have become others: `given` by lease; `ranges` are those of all leases. Views of such a lease
    go with it."""
    def move(reg: OwnedReg) -> OwnedReg:
        lease = reg.lease
        while 0 <= lease < len(ranges) and lease not in given and len(ranges[lease].parents) == 1:
            lease, = ranges[lease].parents
        new = given.get(lease)
        return reg if new is None else new.moved(reg.index - ranges[lease].reg.index, reg.count)

    return move


def _owned(values: Sequence[Any]) -> Iterator[OwnedReg]:
    for value in values:
        held = value.value if isinstance(value, Modified) else value
        for one in held.values if isinstance(held, Phased) else (held,):
            if isinstance(one, OwnedReg):
                yield one
