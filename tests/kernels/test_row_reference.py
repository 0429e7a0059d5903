"""The references of row kernels where results leave their type, and where float32 flushes."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.kernels.rows.blockreference import BlockForm, block_outputs
from asmgen.kernels.rows.reference import flushed, result
from asmgen.tools.running.runner import judge


@pytest.mark.parametrize(("expected", "error", "found", "right"), [
    (65519.0, 0.0, 65504.0, True), (65519.0, 0.0, np.inf, False), (65520.0, 0.0, np.inf, True), (65520.0, 0.0, 65504.0, False),
    (-1e6, 1.0, -np.inf, True), (-1e6, 1.0, np.inf, False), (65520.0, 8.0, 65504.0, True), (65519.0, 8.0, np.inf, True),
    (65519.0, 8.0, np.nan, False), (np.inf, 0.0, np.inf, True), (np.nan, 0.0, np.nan, True)])
def test_float16_ends_at_65520(expected: float, error: float, found: float, right: bool) -> None:
    """Half a unit, 16, above the largest number."""
    output = result("d", np.array([expected]), np.array([error]), "f16")
    made = np.array([found], np.float16)
    assert (judge(output, made, made)[2] <= 1) == right


def test_what_float32_flushes_is_zero_beside_infinities() -> None:
    x = flushed(np.array([2.0**-127, -(2.0**-127), 2.0**-126, np.inf, np.nan]))
    np.testing.assert_array_equal(x, [0.0, 0.0, 2.0**-126, np.inf, np.nan])
    assert np.signbit(x[1])


def test_errors_decide_codes_and_scales_of_blocks() -> None:
    """6 and 1 of fp4 with scale 1; 2.5 lies halfway between codes 4 (2.0) and 5 (3.0); beyond 7 the scale of even rounding doubles."""
    x = np.zeros((1, 32))
    x[0, :3] = 6.0, 2.5, 1.0
    form = BlockForm("fp4", "even", "plain", 1)
    d, scale = block_outputs(form, x, 1e-6)
    np.testing.assert_array_equal(scale.expected, [[127]])
    assert d.expected[0, 0] == 0x4F and np.broadcast_to(d.tolerance, d.expected.shape)[0, 0] == 8.0
    exact, _ = block_outputs(form, x)
    assert exact.expected[0, 0] == 0x47 and exact.expected[0, 1] == 0x02 and not np.any(exact.tolerance)
    x[0, 0] = 7.0
    unsure, scales = block_outputs(form, x, 1e-6)
    assert scales.tolerance[0, 0] == 0.5 and scales.expected[0, 0] == 127.5 and unsure.tolerance[0, 5] == 127.5


def test_elements_of_either_sign_may_have_codes_of_both() -> None:
    """From -0.25 to 0.25 of mxfp8 there are codes from 0x00 and from 0x80 on, where a range between both ends has no 0."""
    x = np.full((1, 32), 256.0, np.float32)
    x[0, 5] = 0.0
    error = np.where(x == 0, 0.25, 0.0)
    d, _ = block_outputs(BlockForm("fp8", "even", "plain", 1), x, error)
    assert d.expected[0, 5] - d.tolerance[0, 5] == 0 and 128 < d.expected[0, 5] + d.tolerance[0, 5] < 255
    assert not np.delete(d.tolerance, 5, 1).any()
