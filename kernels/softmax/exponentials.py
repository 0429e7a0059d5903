"""Exponentials of rows less their largest elements, and what becomes of their sums."""

from __future__ import annotations

import math

import asmgen as ag
from asmgen.kernels.rows.rowsums import RowSums
from asmgen.kernels.rows.rowtensors import parts_of

LOG2_E = 1 / math.log(2)
LN_2 = math.log(2)
FINITE = -3.4028234663852886e38
"""The lowest number of float32: what stands for the largest element where there is none, as minus infinity less itself is NaN."""
NEAR = 0x4B800000
"""2^24 in float32: up to here the rounding of a product moves a shift by less than 1 (float32 has 24 bits)."""


def exponentials(k: ag.TileBuilder, x: ag.Tile, top: ag.Vector, near: ag.Reg, masked: bool) -> None:
    """exp(x - top) in x's place, times a factor of the row near 1, which quotients do not show: 2^(x log2(e) - t), rounded once, where t is
    top log2(e), rounded. Where that rounding might exceed 1, x - top comes first. `near` is an SGPR with NEAR; `top` is changed. Changes
    VCC."""
    if masked:
        ag.max_(k, top, top, FINITE)
    (largest,) = top.registers.items
    k.v_cmp_lt_f32(ag.vcc, near, abs(largest))
    with k.block("far", cold=True):
        is_near = k.fresh("near")
        k.s_cbranch_vccz(is_near)
        ag.sub(k, x, x, top)
        ag.fill_with(k, top, 0)
        k.label(is_near)
    ag.mul(k, top, top, -LOG2_E)
    ag.fma(k, x, x, LOG2_E, top)
    ag.exp2(k, x, x)


def ones_for_zeros(k: ag.TileBuilder, total: ag.Vector) -> None:
    """1 for the sum of a row of which nothing is seen."""
    ag.where(k, total, ag.compare(total, "==", 0.0), 1.0, total)


def inverse_of(k: ag.TileBuilder, total: ag.Vector, masked: bool) -> None:
    """1 / total, and 1 for a row of which nothing is seen."""
    if masked:
        ones_for_zeros(k, total)
    ag.rcp(k, total, total)


def logarithm_of(k: ag.TileBuilder, total: ag.Vector, R: ag.Tile, top: ag.Vector, sums: RowSums, masked: bool) -> None:
    """The logarithm of the sum of the exponentials of R less top, which R then is; 0 for a row of which nothing is seen."""
    if masked:
        ag.max_(k, top, top, FINITE)
    ag.sub(k, R, R, top)
    part = k.tile("exponentials", R.rows, R.fragment.columns, R.fragment)
    for number, one in enumerate(parts_of(R)):
        ag.mul(k, part, one, LOG2_E)
        ag.exp2(k, part, part)
        ag.row_sum(k, total, part, across=False, start=number > 0)
    k.registers.release("exponentials")
    sums.finish("sum", total)
    if masked:
        ones_for_zeros(k, total)
    ag.log2(k, total, total)
    ag.mul(k, total, total, LN_2)


def gradient_of(k: ag.TileBuilder, y: ag.Tile, dy: ag.Tile, total: ag.Vector, log: bool) -> None:
    """dx in dy's place, by way of y's: y (dy - total), where total is the row's sum of y dy; of the logarithm dy + exp(y) total, where it
    is the negative of that of dy."""
    if log:
        ag.mul(k, y, y, LOG2_E)
        ag.exp2(k, y, y)
        ag.fma(k, dy, y, total, dy)
    else:
        ag.sub(k, dy, dy, total)
        ag.mul(k, dy, dy, y)
