"""Reaching definitions of registers, unit by unit along a path. A definition has the name that its caller gives the unit."""

from __future__ import annotations

import functools
from collections.abc import Collection
from operator import or_
from typing import Any

from asmgen.author.step.effects import Effects, Unit
from asmgen.isa.registers import SGPR_BIT, exec_

Name = Any
ENTRY: Name = None
"""The value before all units."""
BEFORE: tuple[Name, ...] = (ENTRY,)
_EXEC_BITS = tuple(SGPR_BIT + exec_.index + half for half in range(2))
Definitions = tuple[Name, ...]
"""The units whose writes a register may hold, oldest first."""


class Parts:
    """The registers in sets that no unit divides, each named by its lowest bit. Definitions are kept once for each set."""

    def __init__(self, units: Collection[Unit], live_out: int = 0) -> None:
        masks = {mask for unit in units for mask in (unit.effects.reads, unit.effects.writes, unit.effects.masked)}
        masks.update(1 << bit for bit in _EXEC_BITS)
        every = functools.reduce(or_, masks)
        masks.add(live_out & every)
        inside: dict[int, list[int]] = {}  # the masks that hold a register, by number: the same for all registers of a set
        for number, mask in enumerate(masks):
            for bit in _bits(mask):
                inside.setdefault(bit, []).append(number)
        lowest: dict[tuple[int, ...], int] = {}
        self._part = {bit: lowest.setdefault(tuple(inside[bit]), bit) for bit in _bits(every)}
        self._of: dict[int, tuple[int, ...]] = {}
        self._units: dict[int, tuple[tuple[int, ...], tuple[int, ...], Effects]] = {}
        self.exec_changes = any(unit.effects.writes & exec_.mask for unit in units)

    def of(self, mask: int) -> tuple[int, ...]:
        """The sets of a unit's mask, lowest first, by the numbers of their lowest bits."""
        found = self._of.get(mask)
        if found is None:
            found = self._of[mask] = tuple([bit for bit in _bits(mask) if self._part[bit] == bit])
        return found

    def of_unit(self, unit: Unit) -> tuple[tuple[int, ...], tuple[int, ...], Effects]:
        """The sets that a unit reads and those that it writes, with its effects."""
        effects = unit.effects
        found = self._units.get(id(effects))
        if found is None:
            found = self._units[id(effects)] = self.of(effects.reads), self.of(effects.writes), effects
        return found


def _bits(mask: int) -> list[int]:
    """The numbers of a mask's bits, lowest first."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


class Reaching:
    """`now` are the definitions of the register sets after the last unit.

    A vector write ends the definitions that were made under the same definition of EXEC; if EXEC is known to be full or never changes, it
    ends all of them. Other definitions may still hold some lanes.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.now: dict[int, Definitions] = {}
        self.under: tuple[Definitions, ...] = (BEFORE, BEFORE)  # the definitions of EXEC
        self.full = False
        self.exec_of: dict[Name, tuple[Definitions, ...]] = {}

    def pass_unit(self, name: Name, unit: Unit) -> list[Definitions | None]:
        """Go past a unit; the definitions of the register sets that it reads. None is `BEFORE`."""
        reads, writes, effects = self.parts.of_unit(unit)
        now = self.now
        read = list(map(now.get, reads))
        if effects.keeps:
            now.update([(bit, (*now.get(bit, BEFORE), name)) for bit in writes])
        elif not self.parts.exec_changes or not effects.masked or self.full:
            own = (name,)
            for bit in writes:
                now[bit] = own
        else:
            now.update([(bit, self._masked(bit, name) if effects.masked >> bit & 1 else (name,)) for bit in writes])
        if self.parts.exec_changes:
            self._follow_exec(name, unit)
        return read

    def _masked(self, bit: int, name: Name) -> Definitions:
        kept = [other for other in self.now.get(bit, BEFORE) if other is ENTRY or self.exec_of.get(other) != self.under]
        return (*kept, name)

    def _follow_exec(self, name: Name, unit: Unit) -> None:
        self.exec_of[name] = self.under
        if unit.effects.writes & exec_.mask:
            self.under = (self.now.get(_EXEC_BITS[0], BEFORE), self.now.get(_EXEC_BITS[1], BEFORE))
            self.full = self.under[0] == self.under[1] == (name,) and not unit.is_block and unit.first.name == "s_mov_b64" \
                and unit.first.operands[1] == -1

    def copy(self) -> Reaching:
        """The same definitions, to go on with."""
        made = Reaching(self.parts)
        made.now, made.under, made.full, made.exec_of = dict(self.now), self.under, self.full, dict(self.exec_of)
        return made
