"""What a program's waves hold in their registers at one place, as far as it is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from asmgen.isa.arch import LANES
from asmgen.isa.operands import Operand
from asmgen.isa.registers import NAMED, Reg

Value = NDArray[np.int64]
"""Of a scalar register [waves], of a vector register [waves, lanes], of a lane mask [waves, lanes] (0 or 1)."""

WORD = 0xFFFFFFFF
M0_BIT, VCC_BIT, EXEC_BIT = (NAMED[name].mask.bit_length() - 1 if name == "m0" else (NAMED[name].mask & -NAMED[name].mask).bit_length() - 1
                    for name in ("m0", "vcc", "exec"))


@lru_cache(maxsize=1 << 10)
def _constant(value: int, waves: int) -> Value:
    """An operand's number [waves]."""
    found = np.full(waves, value, np.int64)
    found.flags.writeable = False
    return found


@dataclass
class State:
    """Values by bit of the register mask, of the waves in `waves` [waves]; a lane mask stands at the bit of its lower half."""

    waves: NDArray[np.bool_]
    known: dict[int, Value] = field(default_factory=dict)

    def copy(self) -> State:
        """Independent, but for the arrays, which never change."""
        return State(self.waves, dict(self.known))

    def narrowed(self, waves: NDArray[np.bool_]) -> State:
        """The same for some of the waves."""
        return State(waves, self.known)

    def scalar(self, operand: Operand | Reg) -> Value | None:
        """What a scalar operand of 32 bits holds [waves]."""
        if isinstance(operand, int):
            return _constant(operand & WORD, len(self.waves))
        if isinstance(operand, Reg) and operand.count == 1:
            value = self.known.get(operand.mask.bit_length() - 1)
            return value if value is not None and value.ndim == 1 else None
        return None

    def vector(self, operand: Operand) -> Value | None:
        """What a source of 32 bits of a vector instruction holds [waves, lanes]."""
        if isinstance(operand, Reg) and operand.file in "va":
            value = self.known.get(operand.mask.bit_length() - 1) if operand.count == 1 else None
            return value if value is not None and value.ndim == 2 else None
        scalar = self.scalar(operand)
        return None if scalar is None else np.broadcast_to(scalar[:, None], (len(scalar), LANES))

    def lanes(self, operand: Operand) -> Value | None:
        """A lane mask [waves, lanes] of 0 and 1."""
        if isinstance(operand, int) and operand in (0, -1):
            return np.full((len(self.waves), LANES), -operand, np.int64)
        if isinstance(operand, Reg) and operand.count == 2:
            value = self.known.get((operand.mask & -operand.mask).bit_length() - 1)
            return value if value is not None and value.ndim == 2 else None
        return None

    @property
    def known_exec(self) -> Value | None:
        """EXEC [waves, lanes], None where not known."""
        return self.known.get(EXEC_BIT)

    @property
    def m0(self) -> Value | None:
        """M0 [waves], None where not known."""
        return self.known.get(M0_BIT)
