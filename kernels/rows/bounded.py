"""Numbers with bounds: float64 values beside how far the float32 values of a kernel may be from them.

Each operation rounds once, as an instruction of float32 does, and flushes what is below the smallest normal number. What is infinite or
NaN has no bound: there the kernel must give the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from asmgen.kernels.rows.reference import FLUSHED, UNIT, Array


@dataclass(frozen=True)
class Bounded:
    """`value`, and the largest magnitude of what float32 may be off by. Build them by `exact` and by operations."""

    value: Array
    error: Array

    @classmethod
    def exact(cls, value: Array) -> Bounded:
        """What memory holds."""
        return cls(np.asarray(value, np.float64), np.zeros(np.shape(value)))

    def __add__(self, other: Bounded | float) -> Bounded:
        with np.errstate(all="ignore"):
            there = other if isinstance(other, Bounded) else Bounded.exact(np.asarray(other))
            return self._rounded(self.value + there.value, self.error + there.error)

    def __mul__(self, other: Bounded | float) -> Bounded:
        """A number is a constant that was rounded to float32."""
        with np.errstate(all="ignore"):
            there = other if isinstance(other, Bounded) else Bounded(np.asarray(other), np.abs(np.asarray(other)) * UNIT)
            return self._rounded(self.value * there.value, np.abs(self.value) * there.error + np.abs(there.value) * self.error
                                 + self.error * there.error)

    def negative(self) -> Bounded:
        """Without rounding."""
        return Bounded(-self.value, self.error)

    def exp2(self) -> Bounded:
        """v_exp_f32: 1 ulp of the result, which is twice what a rounding is off by."""
        with np.errstate(all="ignore"):
            value = np.exp2(self.value)
            return self._rounded(value, value * np.expm1(np.minimum(self.error, 100.0) * np.log(2)) + UNIT * value)

    def reciprocal(self) -> Bounded:
        """v_rcp_f32: 1 ulp of a number that its error does not bring to 0."""
        with np.errstate(all="ignore"):
            value = 1 / self.value
            nearest = np.maximum(np.abs(self.value) - self.error, 2.0**-149)
            return self._rounded(value, self.error * np.abs(value) / nearest + UNIT * np.abs(value))

    def where(self, condition: Array, other: Bounded) -> Bounded:
        """Itself where the condition holds, else the other one; the kernel knows the condition exactly."""
        return Bounded(np.where(condition, self.value, other.value), np.where(condition, self.error, other.error))

    def and_off_by(self, function: Callable[[Array], Array]) -> Bounded:
        """The same with a further error, that of an approximation, by its value."""
        return Bounded(self.value, self.error + function(self.value))

    def _rounded(self, value: Array, error: Array) -> Bounded:
        total = 1.01 * error + UNIT * np.abs(value) + FLUSHED
        return Bounded(value, np.where(np.isfinite(value), np.nan_to_num(total, nan=np.inf), 0.0))
