"""What becomes of sums: their factors, and dQ, dK and dV as they are stored."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.attention_backward.work import KeyPart, meet
from asmgen.kernels.sequences.dropout import kept_scale

_IN_AGPRS = 32  # columns of dV whose sums are in AGPRs where rounded sums of dQ take VGPRs


def sums_of_values(k: ag.TileBuilder, own: int, shape: ag.MatrixShape) -> ag.Tile:
    """dV^T of a wave's keys, in VGPRs; the last columns are in AGPRs where rounded sums of dQ take VGPRs of their own."""
    d = k.variant.d
    if k.p.dq_type == "f32" or d == 64 or k.variant.wave_count == 8:
        whole: ag.Tile = k.tile("dV", d, own, shape.d, note="dV^T")
        return whole
    parts = (k.tile("dV", d - _IN_AGPRS, own, shape.d, note="dV^T"), k.tile("dV_end", _IN_AGPRS, own, shape.d, file="a"))
    bases = tuple(part.base(row, column) for part in parts for row, column in part.positions())
    return ag.Tile("dV", d, own, shape.d, ag.RegisterSet(bases))


def store_gradient(k: ag.TileBuilder, target: ag.Rows, wave: ag.WaveIndex | None, gradient: ag.Tile, shape: ag.MatrixShape,
                   factor: ag.Reg | None = None) -> None:
    """Store a gradient from its transposed sums, times the factor, in the wave's rows, or in all; `gradient` is overwritten, or moved first
    where it is in AGPRs."""
    moved = _rounded(k, _moved(k, gradient), factor)
    if k.arch == "gfx950":  # lane swaps bring together what one store of 16 bytes takes
        moved, _ = ag.change_layout(k, moved, shape.b)
    ag.store_tile(k, target, moved, rows=wave)


def _moved(k: ag.TileBuilder, gradient: ag.Tile) -> ag.Tile:
    """Sums in VGPRs: those, or where they are in AGPRs others that they are moved into."""
    if gradient.registers.items[0].file == "v":
        return gradient
    held: ag.Tile = k.tile(f"{gradient.name}_moved", gradient.rows, gradient.columns, gradient.fragment)
    ag.move(k, held, gradient)
    return held


def _rounded(k: ag.TileBuilder, gradient: ag.Tile, factor: ag.Reg | None) -> ag.Tile:
    """A gradient by rows, times the factor, in the place of its transposed sums."""
    if factor is not None:
        ag.mul(k, gradient, gradient, factor)
    rounded = ag.narrowed(gradient, k.p.dtype)
    ag.convert(k, rounded, gradient)
    return ag.transposed(rounded)


def _store_lines(k: ag.TileBuilder, lines: ag.SharedTile, target: ag.Rows, parts: list[ag.Tile], factor: ag.Reg | None) -> None:
    """Store the wave's rows of a gradient from parts of its transposed sums, side by side. They go through LDS so that a store has whole
    lines of memory: from fragments it would have 32 bytes of each of 32 rows, which takes four times as long."""
    k.barrier_where_needed()
    for number, part in enumerate(parts):
        held = _moved(k, part)
        ag.write(k, lines[()].part(k.wave, ag.PartOf(len(parts), number)), _rounded(k, held, factor))
        if held is not part:
            k.registers.release(held.name)
    meet(k)
    rows = k.tile(f"{target.matrix.name}_rows", parts[0].columns, lines.columns, k.lanes(k.p.dtype, 8, lines.columns // 8))
    ag.read(k, rows, lines[()].part(k.wave))
    ag.store_tile(k, target, rows, rows=k.wave)


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
    factor = kept_factor(k)
    if k.arch != "gfx950":
        store_gradient(k, at.rows(k, "dv"), k.wave, dV, shape, factor)
        k.registers.release(dV.name)
        store_gradient(k, at.rows(k, "dk"), k.wave, dK, shape, gradient_factor(k))
        return
    width = dV.rows if len({reg.file for reg in dV.registers}) == 1 else _IN_AGPRS
    # Not where K is: a workgroup whose keys nobody sees has not waited for it.
    k.lds.release(*(one for one in k.lds.ranges if one.name != "Ks"))
    stored = ag.with_dtype(ag.transposed(dK).fragment, k.p.dtype)
    serves = ag.FragmentRead(stored, write=True), ag.FragmentRead(k.lanes(k.p.dtype, 8, k.variant.d // 8))
    lines = k.shared("lines", k.p.dtype, k.variant.tile[1], k.variant.d, serves=serves)
    parts = [dV.part(first, 0, width, dV.columns) for first in range(0, dV.rows, width)]
    _store_lines(k, lines, at.rows(k, "dv"), parts, factor)
    k.registers.release(dV.name, "dv_rows")
    _store_lines(k, lines, at.rows(k, "dk"), [dK], gradient_factor(k))
