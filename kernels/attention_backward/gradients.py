"""What becomes of sums: their factors, and dQ, dK and dV as they are stored."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.attention_backward.work import KeyPart
from asmgen.kernels.sequences.dropout import kept_scale


def store_gradient(k: ag.TileBuilder, target: ag.Rows, wave: ag.WaveIndex | None, gradient: ag.Tile, shape: ag.MatrixShape,
                   factor: ag.Reg | None = None) -> None:
    """Store a gradient from its transposed sums, times the factor, in the wave's rows, or in all; `gradient` is overwritten, or moved first
    where it is in AGPRs."""
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
    ag.store_tile(k, target, moved, rows=wave)


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
    store_gradient(k, at.rows(k, "dv"), k.wave, dV, shape, kept_factor(k))
    k.registers.release(dV.name)
    store_gradient(k, at.rows(k, "dk"), k.wave, dK, shape, gradient_factor(k))
