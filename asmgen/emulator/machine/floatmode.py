"""MODE as the vector ALU sees it: rounding, denormals, clamp and NaN rules.

Bits (CDNA3 and CDNA4 ISA, MODE register): 1:0 round f32, 3:2 round f16 and f64, 5:4 denormals of f32, 7:6 of f16 and f64, 8 DX10_CLAMP,
9 IEEE, 23 FP16_OVFL, 27 GPR_IDX_EN. A denormal field's low bit keeps denormal inputs, its high bit denormal results.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

NEAREST_EVEN, UP, DOWN, TOWARD_ZERO = range(4)
GPR_IDX_EN = 1 << 27
FLOAT_BITS = 0x8003FF
"""The bits that change what a float instruction does."""


@dataclass(frozen=True)
class FloatMode:
    """One setting. `wide` fields are those of f16 and f64."""

    round32: int
    round_wide: int
    flush32_in: bool
    flush32_out: bool
    flush_wide_in: bool
    flush_wide_out: bool
    dx10_clamp: bool
    ieee: bool
    fp16_overflow: bool

    def rounding(self, kind: str) -> int:
        """The rounding of results of type f16, f32 or f64."""
        return self.round32 if kind == "f32" else self.round_wide

    def flushes_in(self, kind: str) -> bool:
        """Whether denormal sources of that type count as zero."""
        return self.flush32_in if kind == "f32" else self.flush_wide_in

    def flushes_out(self, kind: str) -> bool:
        """Whether denormal results of that type become zero."""
        return self.flush32_out if kind == "f32" else self.flush_wide_out


@lru_cache(maxsize=256)
def float_mode(bits: int) -> FloatMode:
    """The setting of a MODE value (bits that do not matter here may be set)."""
    return FloatMode(bits & 3, bits >> 2 & 3, not bits >> 4 & 1, not bits >> 5 & 1, not bits >> 6 & 1, not bits >> 7 & 1,
                     bool(bits >> 8 & 1), bool(bits >> 9 & 1), bool(bits >> 23 & 1))
