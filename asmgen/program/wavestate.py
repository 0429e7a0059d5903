"""What a program's waves hold in their registers at one place, as far as it is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from asmgen.isa.arch import LANES
from asmgen.isa.operands import Literal, Operand, float_bits, is_inline
from asmgen.isa.registers import NAMED, SCC_BIT, Reg

Value = NDArray[np.int64]
"""Of a scalar register [waves], of a vector register [waves, lanes]; a lane mask taken apart is [waves, lanes] of 0 and 1."""

Words = tuple[Value | None, Value | None]
"""The lower and the upper word of 64 bits, each [waves] or unknown."""

WORD = 0xFFFFFFFF
M0_BIT, VCC_BIT, EXEC_BIT = (NAMED[name].mask.bit_length() - 1 if name == "m0" else (NAMED[name].mask & -NAMED[name].mask).bit_length() - 1
                    for name in ("m0", "vcc", "exec"))


@lru_cache(maxsize=1 << 10)
def constant(value: int, waves: int) -> Value:
    """An operand's number [waves]."""
    found = np.full(waves, value, np.int64)
    found.flags.writeable = False
    return found


@lru_cache(maxsize=1 << 10)
def _lanes(low: bytes, high: bytes) -> Value:
    """Bits of two words of each wave [waves, lanes]; the same array for the same words."""
    words = np.stack([np.frombuffer(low, np.int64), np.frombuffer(high, np.int64)], axis=1)
    found = (words[:, :, None] >> np.arange(LANES // 2) & 1).reshape(-1, LANES)
    found.flags.writeable = False
    return found


@dataclass(frozen=True)
class LowBits:
    """The `count` low bits of a scalar register whose value is not known [waves]."""

    value: Value
    count: int


@dataclass
class State:
    """Values by bit of the register mask, of the waves in `waves` [waves]. `low` are such of which low bits alone are known
    (`lowbits`); who fills it asks for them. `running` are values of vector registers that hold in the lanes that run, while no instruction
    lets others run and until the block ends; what other lanes of them hold means nothing. `limit` are lanes outside of which none runs,
    where EXEC is not known: a mask of unknown lanes leaves some of those off that ran before."""

    waves: NDArray[np.bool_]
    known: dict[int, Value] = field(default_factory=dict)
    low: dict[int, LowBits] = field(default_factory=dict)
    running: dict[int, Value] = field(default_factory=dict)
    limit: tuple[Value, Value] | None = None

    def copy(self) -> State:
        """Independent, but for the arrays, which never change."""
        return State(self.waves, dict(self.known), dict(self.low), dict(self.running), self.limit)

    def narrowed(self, waves: NDArray[np.bool_]) -> State:
        """The same for some of the waves, as another block begins with it."""
        return State(waves, self.known, self.low)

    def scalar(self, operand: Operand | Reg) -> Value | None:
        """What a scalar operand of 32 bits holds [waves]."""
        if isinstance(operand, int):
            return constant(operand & WORD, len(self.waves))
        if isinstance(operand, float) and is_inline(operand, "b32"):
            return constant(float_bits(operand, "b32"), len(self.waves))
        if isinstance(operand, Reg) and operand.count == 1 and operand.file not in "va":
            return self.known.get(operand.mask.bit_length() - 1)
        return None

    def vector(self, operand: Operand) -> Value | None:
        """What a source of 32 bits of a vector instruction holds [waves, lanes]."""
        if isinstance(operand, Reg) and operand.file in "va":
            return self.known.get(operand.mask.bit_length() - 1) if operand.count == 1 else None
        scalar = self.scalar(operand)
        return None if scalar is None else np.broadcast_to(scalar[:, None], (len(scalar), LANES))

    def running_vector(self, operand: Operand) -> Value | None:
        """What such a source holds in the lanes that run."""
        value = self.vector(operand)
        if value is None and self.running and isinstance(operand, Reg) and operand.count == 1:
            value = self.running.get(operand.mask.bit_length() - 1)
        return value

    def words(self, operand: Operand) -> Words:
        """What a scalar operand of 64 bits without a sign holds: an inline integer is sign-extended, a literal is not."""
        if isinstance(operand, Reg) and operand.file == "s" and operand.count == 2:
            return self.pair(operand.mask.bit_length() - 2)
        if isinstance(operand, float) and is_inline(operand, "b64"):
            number = float_bits(operand, "b64")
        elif isinstance(operand, int):
            number = operand if is_inline(operand, "b64") and not isinstance(operand, Literal) else operand & WORD
        else:
            return None, None
        return constant(number & WORD, len(self.waves)), constant(number >> 32 & WORD, len(self.waves))

    def deciding(self, bit: int) -> Value | None:
        """SCC, or whether a lane mask whose lower word stands at `bit` has a lane [waves], None where not known."""
        if bit == SCC_BIT:
            return self.known.get(bit)
        return nonzero(self.pair(bit))

    def pair(self, bit: int) -> Words:
        """What the scalar registers at `bit` and after it hold."""
        return self.known.get(bit), self.known.get(bit + 1)

    @property
    def known_exec(self) -> Value | None:
        """EXEC [waves, lanes], None where not known."""
        return _apart(self.pair(EXEC_BIT))

    def lanes(self, operand: Operand) -> Value | None:
        """A lane mask [waves, lanes], None where not known."""
        return _apart(self.words(operand))

    @property
    def m0(self) -> Value | None:
        """M0 [waves], None where not known."""
        return self.known.get(M0_BIT)


def _apart(words: Words) -> Value | None:
    low, high = words
    return None if low is None or high is None else _lanes(low.tobytes(), high.tobytes())


def together(lanes: Value) -> tuple[Value, Value]:
    """The words of lanes [waves, lanes] that are 0 or 1."""
    words = (lanes.reshape(-1, 2, LANES // 2) << np.arange(LANES // 2)).sum(axis=2)
    return words[:, 0].copy(), words[:, 1].copy()


def nonzero(words: Words) -> Value | None:
    """1 where 64 bits are not 0 [waves]."""
    low, high = words
    return None if low is None or high is None else (low | high != 0).astype(np.int64)
