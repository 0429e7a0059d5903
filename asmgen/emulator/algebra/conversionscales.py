"""Scales of conversions, and what a conversion cannot keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.algebra.elements import Elements, largest
from asmgen.emulator.algebra.residues import Residues
from asmgen.emulator.carried.operandhandles import OperandSource
from asmgen.emulator.machine.state import Group
from asmgen.isa.arch import Architecture
from asmgen.isa.formats import scale_decode, scale_from_f32


@dataclass(frozen=True)
class Scale:
    """Powers of two by their exponents; where a scale is NaN it is not `known`."""

    exponents: Any
    known: NDArray[np.bool_]

    def up(self, numbers: Residues) -> Residues:
        """Times the scale."""
        return self._where_known(numbers.scaled(self.exponents))

    def down(self, numbers: Residues) -> Residues:
        """Divided by the scale."""
        return self._where_known(numbers.scaled(-self.exponents))

    def _where_known(self, numbers: Residues) -> Residues:
        return numbers if self.known.all() else numbers.where(self.known, Residues.missing(numbers.shape))


def scale_of(slot: OperandSource, group: Group) -> Scale:
    """Of an f32 of which only the exponent counts."""
    scale = scale_decode(scale_from_f32(np.asarray(slot.value(group)).view(np.float32)), np.float64)
    known = np.isfinite(scale)
    return Scale(np.frexp(np.where(known, scale, 1.0))[1] - 1, known)


def kept(numbers: Residues, values: Any, kind: str, arch: Architecture, saturates: bool, table: Elements) -> Residues:
    """Without those that the format has no number for: what `saturates` is the largest number then, any others are missing."""
    values = np.asarray(values, np.float64)
    most, half_unit = largest(kind, arch)
    fits = np.abs(values) < most + half_unit
    if fits.all():
        return numbers.broadcast(np.broadcast_shapes(numbers.shape, fits.shape))
    found = numbers.where(fits, Residues.missing(numbers.shape))
    if saturates:
        found = found.where(fits | np.isnan(values), table.constants.embedded(np.copysign(most, values)))
    return found
