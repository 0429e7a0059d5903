"""gemm-mx for gfx950: a step of 256 columns of fp4, or of 128 of any types, which one or two v_mfma_f32_16x16x128_f8f6f4 cover.

A workgroup computes a tm x tn tile of D. The tile is 2 x 2 quadrants; each of four waves has a part of each quadrant. LDS-DMA fills A, B
and their scales `stages` steps before they are read, two steps where there are three stages and no scales. With two stages LDS has room
for halves of matrices that are refilled one by one, and the second half of A follows a step later; elements of 6 bits and fewer leave
room for a third stage.
"""

from __future__ import annotations

from collections.abc import Sequence

import asmgen as ag
from asmgen.kernels.gemm_mx.depth import depth_of
from asmgen.kernels.gemm_mx.family import GEMM
from asmgen.kernels.gemm_mx.formats import BLOCKED, SHAPES, bits_of, cells_of, group_rows, is_quantised, multiplied
from asmgen.kernels.gemm_mx.operands import OperandInLds, OperandRows, chunks_of, operand_in_lds, plane_views, rows_of
from asmgen.kernels.gemm_mx.scaling import scales_of
from asmgen.kernels.gemm_mx.sharedquantised import shared_quantised
from asmgen.kernels.products.prologue import corners_of, place
from asmgen.kernels.products.split import epilogue_of

_SMALL = 128 * 128
_MORE = 3
"""Stages in LDS where three fit and the variant asks for two."""
_PADS = 1 / 32
"""At most so much of LDS is pads: 32 bytes in a line of 1024."""


def copies_in_lds(k: ag.TileBuilder) -> int:
    """The stages in LDS: those of the variant, or a third one where elements of fewer bits leave room for it. A third one leaves each fill
    a step without reads, so that a step needs fewer barriers."""
    (tm, tn, tk), build = k.variant.tile, k.parameters
    stages: int = k.variant.stages
    if stages == _MORE - 1 and not is_quantised(build):
        bits = tm * bits_of(str(build["a_dtype"])) + tn * bits_of(str(build["b_dtype"]))
        words = (tm // group_rows(k.variant.tile, 0) + tn // group_rows(k.variant.tile, 1)) * 4 * ag.LANES
        if _MORE * (bits * tk // 8 + words) <= k.lds.limit * (1 - _PADS):
            return _MORE
    return stages


@GEMM.variant("gfx950", tile=(128, 128, 256), waves=(2, 2), schedule="interleave", occupancy=1, stages=4)
@GEMM.variant("gfx950", tile=(256, 256, 256), waves=(2, 2), schedule="interleave", occupancy=1, stages=2)
@GEMM.variant("gfx950", tile=(128, 128, 128), waves=(2, 2), schedule="interleave", occupancy=1, stages=4)
@GEMM.variant("gfx950", tile=(256, 256, 128), waves=(2, 2), schedule="interleave", occupancy=1, stages=2)
@GEMM.variant("gfx950", tile=(64, 128, 256), waves=(2, 2), schedule=BLOCKED, occupancy=1, stages=4)
def tiled(k: ag.TileBuilder) -> None:
    """One of the tiles above."""
    tm, tn, tk = k.variant.tile
    down, across = k.variant.waves
    of_a, of_b, scaled = multiplied(k.parameters), k.p.b_dtype, k.p.scales != "none"
    M = k.matrix_shape(f"{'scale_' if scaled else ''}f32_{k.p.mfma}_f8f6f4", cbsz=ag.F8F6F4_FORMATS.index(of_b),
                       blgp=ag.F8F6F4_FORMATS.index(of_a))

    # register plan
    raw = is_quantised(k.parameters)
    held = 2 if tm * tn <= _SMALL and not raw else 1  # a small step is over before its operands could be read anew
    C = k.tile("C", tm // 2 // down, tn // 2 // across, M.d.T, grid=(2, 2), file="a", note="[half of M][half of N]")
    A = k.tile("A", tm // 2 // down, tk, M.b, grid=(2,), stages=held, note="[half of M]")
    B = k.tile("B", tn // 2 // across, tk, M.a, grid=(2,), stages=held, note="[half of N]")
    row0, column0 = k.registers.sgprs(1, "row0"), k.registers.sgprs(1, "column0")

    # LDS map
    cells, stages = cells_of(k.variant), copies_in_lds(k)
    ahead = stages if scaled or stages != _MORE else stages - 1  # without scales the earlier time takes fewer waits
    As = () if raw else operand_in_lds(k, "As", of_a, tm // cells, M.b, stages, cells, chunks_of(k, "a", of_a))
    Bs = operand_in_lds(k, "Bs", of_b, tn // cells, M.a, stages, cells, chunks_of(k, "b", of_b))

    wm, wn = k.wave_grid(down, across)
    ag.zero(k, *C)  # while the arguments are in flight
    place(k, row0, column0)
    k.end_brief_arguments()
    k.registers.release("workgroup_x", "workgroup_y", "kernarg")  # a descriptor takes their place
    corners = corners_of(k, C)
    depth = depth_of(k)
    parts: dict[OperandRows, tuple[ag.Rows, ...]] = {}

    def prepared(shared: Sequence[OperandInLds], operand: Sequence[OperandRows]) -> Sequence[OperandRows]:
        for S, plane in zip(shared, operand, strict=True):
            parts[plane] = plane.rows.parts(cells)
            for part in parts[plane]:
                plane.source.prepare(S.filled, part)
        for plane in operand:
            k.registers.release(*plane.follows)
        return operand

    beside = sum(tile.registers.count for tile in (*A, *B))
    made = shared_quantised(k, M.b, rows_of(k, depth, "a", k.p.a_dtype, row0)[0], cells, wm, beside) if raw else None
    a = prepared(As, rows_of(k, depth, "a", of_a, row0)) if made is None else ()
    b = prepared(Bs, rows_of(k, depth, "b", of_b, column0))
    k.registers.release(*depth.widths.values())
    scales = scales_of(k, M, depth, row0, column0, wm, wn, stages) if scaled else {}
    both = tuple(scales.values())
    memory, matrix = k.streams("memory", "matrix")

    def read(tile: ag.Tile, shared: Sequence[OperandInLds], t: ag.StepIndex, number: int, wave: ag.WaveIndex) -> None:
        for view, S in zip(plane_views(tile, len(shared)), shared, strict=True):
            if cells == 2:
                ag.read(k, view, S.read[t, number].part(wave))
            else:
                ag.read(k, view, S.read[t, 0].part(ag.PartOf(2 * wave.count, first=number * wave.count, wave=wave)))

    def read_rows(t: ag.StepIndex, number: int) -> None:
        read(A[t, number], As if made is None else (made.shared,), t, number, wm)

    def fill(shared: Sequence[OperandInLds], operand: Sequence[OperandRows], t: ag.StepIndex, cell: int) -> None:
        for S, plane in zip(shared, operand, strict=True):
            plane.source.fill(S.filled[t, cell], parts[plane][cell], t)

    def multiply(t: ag.StepIndex, i: int) -> None:
        for j in range(2):
            if scaled:
                of_rows = scales["a"].half(t, i) if made is None else made.half(t, i)
                ag.mma_scaled(k, C[i, j], A[t, i], B[t, j], of_rows, scales["b"].half(t, j))
            else:
                ag.mma(k, C[i, j], A[t, i], B[t, j])

    def step(t: ag.StepIndex) -> None:
        with k.stage(), memory:
            for one in both:
                one.read(t)
            read_rows(t, 0)
            read(B[t, 0], Bs, t, 0, wn)
            read(B[t, 1], Bs, t, 1, wn)
            if made is not None:
                made.read(t)
            elif stages == 2:
                fill(As, a, t + stages - 1, 1)
        with k.stage(), matrix:
            multiply(t, 0)
        with k.stage(), memory:
            read_rows(t, 1)
            for one in both:
                one.fill(t + ahead)
            if made is None:
                for cell in range(cells if stages > 2 else 1):
                    fill(As, a, t + ahead, cell)
            else:
                if made.steps > 1:
                    made.load(t + made.steps)
                made.make(t + 1)
                if made.steps == 1:  # its registers are free only now
                    made.load(t + 2)
            for cell in range(cells):
                fill(Bs, b, t + ahead, cell)
        with k.stage(), matrix:
            multiply(t, 1)

    overlaps = made is None and (k.p.bias == "none" or k.p.mfma == SHAPES[0])  # a lane of 32 x 32 has a bias for each of its sums
    k.pipeline(step, depth.steps, ag.Modulo(beside=__file__),
               then=epilogue_of(k)(k, corners, row0, column0, wm, wn, overlaps=overlaps, short=tm * tn > _SMALL))
