"""The functions of activation and their derivatives on tiles of float32, as operations of the builder.

`Phi`, the normal distribution, comes from erfc(z) = (a1 t + ... + a5 t^5) exp(-z^2), t = 1 / (1 + P z) for z >= 0, which is off by at
most 1.5e-7 (Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.activation.tensors import ALPHA, CUBIC, LINEAR

LOG2_E = 1 / math.log(2)
P = 0.3275911
TERMS = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
"""a1 to a5."""
DENSITY = 1 / math.sqrt(2 * math.pi)
SATURATED = 1024.0
"""Squares beyond it change no sigmoid of float32: at x^2 = 1024 gelu's argument has the magnitude 2378, and exp(88.8) is infinite. So the
derivative takes no larger one, as infinity times the 0 of a saturated sigmoid would be NaN."""


@dataclass(frozen=True)
class ActivationFunction:
    """`kind` and `approximate` of a build. `held` are two tiles of the arguments' shape for what is on the way."""

    k: ag.TileBuilder
    kind: str
    approximate: str
    held: tuple[ag.Tile, ag.Tile]

    def value(self, out: ag.Tile, x: ag.Tile, share: ag.Tile) -> None:
        """out = f(x), by way of `share` = f(x) / x; `out` may be either."""
        self._share(share, x)
        ag.mul(self.k, out, x, share)

    def both(self, out: ag.Tile, slope: ag.Tile, x: ag.Tile) -> None:
        """out = f(x) and slope = f'(x); all three are different tiles."""
        k, (one, other) = self.k, self.held
        self._share(slope, x)
        ag.mul(k, out, x, slope)
        if self._is_normal:
            ag.mul(k, one, x, x)
            ag.mul(k, one, one, 0.5)
            ag.mul(k, one, one, -LOG2_E)
            ag.exp2(k, one, one)
            ag.mul(k, one, one, DENSITY)
            ag.fma(k, slope, x, one, slope)
            return
        ag.sub(k, one, 1.0, slope)
        ag.mul(k, one, one, out)
        if self.kind == "silu":
            ag.add(k, slope, slope, one)
        elif self.kind == "swiglu":
            ag.fma(k, slope, one, ALPHA, slope)
        else:
            ag.mul(k, other, x, x)
            ag.min_(k, other, other, SATURATED)
            ag.mul(k, other, other, 3 * LINEAR * CUBIC)
            ag.add(k, other, other, LINEAR)
            ag.fma(k, slope, one, other, slope)

    @property
    def _is_normal(self) -> bool:
        return self.kind == "gelu" and self.approximate == "none"

    def _share(self, out: ag.Tile, x: ag.Tile) -> None:
        """f(x) / x: a sigmoid or Phi."""
        k, (one, _) = self.k, self.held
        if self._is_normal:
            self._normal(out, x)
            return
        argument = x
        if self.kind == "swiglu":
            ag.mul(k, one, x, ALPHA)
            argument = one
        elif self.kind == "gelu":
            ag.mul(k, one, x, x)
            ag.mul(k, one, one, LINEAR * CUBIC)
            ag.add(k, one, one, LINEAR)
            ag.mul(k, one, one, x)
            argument = one
        ag.mul(k, out, argument, -LOG2_E)
        ag.exp2(k, out, out)
        ag.add(k, out, out, 1.0)
        ag.rcp(k, out, out)

    def _normal(self, out: ag.Tile, x: ag.Tile) -> None:
        """Phi(x): half of erfc(|x| / sqrt(2)), and for positive x 1 less that."""
        k, (t, power) = self.k, self.held
        ag.abs_(k, t, x)
        ag.mul(k, t, t, P / math.sqrt(2))
        ag.add(k, t, t, 1.0)
        ag.rcp(k, t, t)
        ag.mul(k, power, x, x)
        ag.mul(k, power, power, 0.5)
        ag.mul(k, power, power, -LOG2_E)
        ag.exp2(k, power, power)
        ag.mul(k, power, power, t)
        *lower, highest = (0.5 * term for term in TERMS)
        ag.mul(k, out, t, highest)
        for number, term in enumerate(reversed(lower)):
            ag.add(k, out, out, term)
            if number + 1 < len(lower):
                ag.mul(k, out, out, t)
        ag.mul(k, out, out, power)
        ag.sub(k, t, 1.0, out)
        ag.where(k, out, ag.compare(x, ">", 0.0), t, out)
