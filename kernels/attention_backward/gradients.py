"""What becomes of sums: their factors, and dQ, dK and dV as they are stored."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.attention_backward.work import KeyPart
from asmgen.kernels.sequences.dropout import kept_scale

_IN_AGPRS = 32  # columns of dV whose sums are in AGPRs where rounded sums of dQ take VGPRs


def sums_of_values(k: ag.TileBuilder, own: int, shape: ag.MatrixShape) -> ag.Tile:
    """dV^T of a wave's keys, in VGPRs; the last columns are in AGPRs where VGPRs are few."""
    d = k.variant.d
    if k.p.dq_type == "f32" or d == 64:
        whole: ag.Tile = k.tile("dV", d, own, shape.d, note="dV^T")
        return whole
    parts = (k.tile("dV", d - _IN_AGPRS, own, shape.d, note="dV^T"), k.tile("dV_end", _IN_AGPRS, own, shape.d, file="a"))
    bases = tuple(part.base(row, column) for part in parts for row, column in part.positions())
    return ag.Tile("dV", d, own, shape.d, ag.RegisterSet(bases))


def store_gradient(k: ag.TileBuilder, target: ag.Rows, wave: ag.WaveIndex | None, gradient: ag.Tile, shape: ag.MatrixShape,
                   factor: ag.Reg | None = None, column: int = 0) -> None:
    """Store a gradient from its transposed sums, times the factor, in the wave's rows, or in all, from a column on; `gradient` is
    overwritten, or moved first where it is in AGPRs."""
    if gradient.registers.items[0].file == "a":
        held = k.tile(f"{gradient.name}_moved", gradient.rows, gradient.columns, gradient.fragment)
        ag.move(k, held, gradient)
        gradient = held
    if factor is not None:
        ag.mul(k, gradient, gradient, factor)
    rounded = ag.narrowed(gradient, k.p.dtype)
    ag.convert(k, rounded, gradient)
    moved = ag.transposed(rounded)
    if k.arch == "gfx950":  # lane swaps bring together what one store of 16 bytes takes
        moved, _ = ag.change_layout(k, moved, shape.b)
    ag.store_tile(k, target, moved, rows=wave, column=column)


def gradient_factor(k: ag.TileBuilder) -> ag.Reg:
    """What sums of dQ and dK are multiplied with: softmax_scale, with dropout over 1 - p. Changes softmax_scale there."""
    scale = k.argument("softmax_scale")
    if k.p.dropout:
        with k.scratch("kept") as kept:
            kept_scale(k, kept)
            k.v_mul_f32(kept, scale, kept)
            k.v_readfirstlane_b32(scale, kept)
    return scale


def kept_factor(k: ag.TileBuilder) -> ag.Reg | None:
    """What sums of dV are multiplied with where there is dropout: 1 / (1 - p)."""
    if not k.p.dropout:
        return None
    factor = k.registers.sgprs(1, "kept_factor")
    with k.scratch("kept") as kept:
        kept_scale(k, kept)
        k.v_readfirstlane_b32(factor, kept)
    return factor


def store_of_keys(k: ag.TileBuilder, at: KeyPart, dK: ag.Tile, dV: ag.Tile, shape: ag.MatrixShape) -> None:
    """Store dV and dK of the wave's keys from their transposed sums."""
    factor, target = kept_factor(k), at.rows(k, "dv")
    width = dV.rows if len({reg.file for reg in dV.registers}) == 1 else _IN_AGPRS
    for first in range(0, dV.rows, width):
        store_gradient(k, target, k.wave, dV.part(first, 0, width, dV.columns), shape, factor, first)
    k.registers.release(dV.name)
    store_gradient(k, at.rows(k, "dk"), k.wave, dK, shape, gradient_factor(k))
