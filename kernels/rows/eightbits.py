"""Numbers of 8 bits with a float32 scale for a group: largest values, and scales from largest magnitudes.

Source: docs/facts/row_kernels.md section 5.
"""

from __future__ import annotations

import asmgen as ag

LARGEST = {("fp8", "ocp"): 448.0, ("bf8", "ocp"): 57344.0, ("fp8", "fnuz"): 240.0, ("bf8", "fnuz"): 57344.0,
           ("int8", "ocp"): 127.0, ("int8", "fnuz"): 127.0}
MODE, _FP16_OVFL = 1, 23
"""The register of modes, and one of its bits."""
LEAST_MAGNITUDE = 1e-10
"""What takes the place of a smaller largest magnitude, so that rows of zeros have a scale too (AITER's rule)."""


def scale_of_largest(k: ag.TileBuilder, scale: ag.Vector, inverse: ag.Vector, largest: float) -> None:
    """The scale and its reciprocal, from the largest magnitude in the scale's place and the type's largest value."""
    ag.max_(k, scale, scale, LEAST_MAGNITUDE)
    ag.mul(k, scale, scale, 1.0 / largest)
    reciprocal(k, inverse, scale)


def reciprocal(k: ag.TileBuilder, inverse: ag.Vector, scale: ag.Vector) -> None:
    """1 / scale: v_rcp_f32 is within 1 ulp, and a step of Newton rounds it correctly."""
    (y,), (b,) = inverse.registers.items, scale.registers.items
    with k.scratch("error") as error:
        k.v_rcp_f32(y, b)
        k.v_fma_f32(error, -b, y, 1.0)
        k.v_fma_f32(y, error, y, y)


def keep_below_largest(k: ag.TileBuilder) -> None:
    """From here on conversions to 8-bit floats, and to f16, give the largest number, not NaN or infinity (FP16_OVFL)."""
    k.s_setreg_imm32_b32(ag.HwReg(MODE, _FP16_OVFL, 1), 1)
