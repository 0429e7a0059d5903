"""gemm-fp8 for gfx950 with a scale for each 128 columns of K: one for each row of A, and one for each 128 rows of B.

A step of 128 columns is one block. So each product of a step is computed in registers of its own (P). v_fmac_f32 adds it to the
accumulators: one of two products of a matrix stage in the memory stage after it, the other one in the next matrix stage, before its
registers are taken again. So both wave groups share the vector port all the time. Scales of A are asked for before the fills of their
stage, as the queue to memory holds no more than the fills of four waves. A wave's columns have one scale of B: a scalar.

Of a K that is no whole blocks, the last one is multiplied after the loop. The descriptors of scales stand there then.

The step is `even_halves` of products/twohalves with products in P and vector work in each stage. As data that would be two more calls in
each stage, which all other products would have to leave out.
"""

from __future__ import annotations

from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.gemm_fp8.family import GEMM
from asmgen.kernels.gemm_fp8.operands import BLOCK
from asmgen.kernels.gemm_fp8.scaling import load_factors, with_alpha
from asmgen.kernels.gemm_fp8.shapes import wide_shape
from asmgen.kernels.products.anyk import takes_any_k
from asmgen.kernels.products.batch import blocks_of_k
from asmgen.kernels.products.feeds import feed_of
from asmgen.kernels.products.lastcolumns import LastColumns, LastProduct, after_last_columns
from asmgen.kernels.products.persistent import ONE_TILE
from asmgen.kernels.products.prologue import begin_feeds, corners_of, place
from asmgen.kernels.products.sides import argument
from asmgen.kernels.products.split import epilogue_of, is_split


@GEMM.variant("gfx950", tile=(128, 256, 128), waves=(2, 4), schedule="ping-pong", occupancy=2, scales="block", **ONE_TILE)
@GEMM.variant("gfx950", tile=(256, 128, 128), waves=(4, 2), schedule="ping-pong", occupancy=2, scales="block", **ONE_TILE)
def blocks(k: ag.TileBuilder) -> None:
    """One of the tiles above."""
    tm, tn, tk = k.variant.tile
    down, across = k.variant.waves
    M, type_a, type_b = wide_shape(k)

    # register plan
    C = k.tile("C", tm // 2 // down, tn // 2 // across, M.d.T, grid=(2, 2), note="[half of M][half of N]")
    P = k.tile("P", tm // 2 // down, tn // 2 // across, M.d.T, grid=(2,), note="products of one block [half of N]")
    A = k.tile("A", tm // 2 // down, tk, M.b, note="both halves share it")
    B0 = k.tile("B0", tn // 2 // across, tk, M.a, stages=2, note="the first half of N, read a step ahead")
    B1 = k.tile("B1", tn // 2 // across, tk, M.a)
    steps = k.registers.sgprs(1, "steps")
    group = k.registers.sgprs(1, "group", note="waves 4 to 7 run a stage later")
    row0, column0 = k.registers.sgprs(1, "row0"), k.registers.sgprs(1, "column0")

    # LDS map
    of_a, of_b = feed_of(k, "a", "A", M.b, tm, stages=2), feed_of(k, "b", "B", M.a, tn, stages=2)

    wm, wn = k.wave_grid(down, across)
    ag.zero(k, *C)  # while the arguments are in flight
    place(k, row0, column0)
    corners = corners_of(k, C)
    factors = load_factors(k, corners, row0, column0, wm, wn)
    lanes = ag.accumulator_coordinates(k, "a_scale", C[0, 0], column0, wm, wn)
    k.registers.release(lanes.column)
    k.s_lshr_b32(group, k.wave.register, 2)
    begin_feeds(k, steps, (type_a, type_b), (of_a, of_b), row0, column0)
    first = of_a.halves[0].matrix
    left = first.rows_register if of_a.transposes else first.columns_register
    scales = _block_scales(k, lanes.row, row0, column0, C[0, 0].down, left)
    with_alpha(factors)
    memory, matrix = k.streams("memory", "matrix")

    def step(before: ag.StepIndex) -> None:
        t = before + 1  # the last half of a step is accumulated in the next one
        with k.stage("A0 B1"), memory:
            scales.load_a(t + 1, 0)
            scales.accumulate(C[1, 0], P[0], before, 1, 0)
            of_a.read(A, t, 0, wm)
            of_b.read(B1, t, 1, wn)
            of_a.refill(t + 1, 1)
            of_b.refill(t + 2, 0)
        with k.stage("C0"), matrix:
            scales.load_b(t + 1, 0)
            scales.accumulate(C[1, 1], P[1], before, 1, 1)
            ag.mma(k, P[0], A, B0[t], first=True)
            ag.mma(k, P[1], A, B1, first=True)
        with k.stage("A1 B0"), memory:
            scales.load_a(t + 1, 1)
            scales.accumulate(C[0, 0], P[0], t, 0, 0)
            of_a.read(A, t, 1, wm)
            of_b.read(B0[t + 1], t + 1, 0, wn)
            of_a.refill(t + 2, 0)
            of_b.refill(t + 2, 1)
        with k.stage("C1"), matrix:
            scales.load_b(t + 1, 1)
            scales.accumulate(C[0, 1], P[1], t, 0, 1)
            ag.mma(k, P[0], A, B0[t], first=True)
            ag.mma(k, P[1], A, B1, first=True)

    def add_last(c: ag.Tile, i: int, j: int, a: ag.Tile, b: ag.Tile) -> None:
        ag.mma(k, P[0], a, b, first=True)
        scales.add_product(c, P[0], 0, i, j)

    last = LastColumns(C, A, B1, (of_a, of_b), (row0, column0), (wm, wn), product=LastProduct(scales.load_last, add_last, scales.held))
    ends = epilogue_of(k)(k, corners, row0, column0, wm, wn, factors, overlaps=False)
    k.pipeline(step, steps, ag.PlacedPingPong(), groups=group, empty=takes_any_k(k.parameters), then=after_last_columns(k, ends, last))


@dataclass(frozen=True)
class _BlockScales:
    """The scales of the blocks of a step, in two buffers.

    `a` has the scales of A: a VGPR for each of `count` rows of each half. `b` has those of B: a register for each half of N. `a_buffer` and
    `b_buffer` are descriptors that advance with the steps.
    """

    k: ag.TileBuilder
    count: int
    a: ag.Reg
    b: ag.Reg
    a_buffer: ag.Reg
    b_buffer: ag.Reg
    row: ag.Reg
    column: ag.Reg
    pitch: ag.Reg
    products: ag.Reg

    @property
    def held(self) -> tuple[ag.Reg, ...]:
        """What the scales of a block take; `pitch` only leads from one to the next."""
        return self.a, self.b, self.a_buffer, self.b_buffer, self.row, self.column, self.products

    def load_a(self, t: ag.StepIndex, half: int) -> None:
        """Load the scales of a half of A for an iteration. The second half advances the descriptor."""
        k, buffer = self.k, t.buffer(2)
        first = (2 * buffer + half) * self.count
        with ag.operation(k, "load scales of A", [t], writes=self.a[first:first + self.count - 1].mask):
            self._rows_of_a(buffer, half)
            if half:
                self._advance(self.a_buffer, self.pitch[0], self.pitch[1])

    def load_b(self, t: ag.StepIndex, half: int) -> None:
        """Load the scale of a half of B for an iteration. The second half advances the descriptor."""
        k, register = self.k, self.b[2 * t.buffer(2) + half]
        with ag.operation(k, "load a scale of B", [t], writes=register.mask):
            k.s_buffer_load_dword(register, self.b_buffer, self.column[half])
            if half:
                self._advance(self.b_buffer, 4, 0)

    def load_last(self) -> None:
        """Load the scales of the block after the last whole step, at which the descriptors stand after the loop: each step loaded those of
        its own block, and no more."""
        for half in range(2):
            self._rows_of_a(0, half)
            self.k.s_buffer_load_dword(self.b[half], self.b_buffer, self.column[half])

    def _rows_of_a(self, buffer: int, half: int) -> None:
        k, tm = self.k, self.k.variant.tile[0]
        for row in range(self.count):
            k.buffer_load_dword(self._of_a(buffer, half, row), self.row, self.a_buffer, 0, offen=True,
                                offset=4 * (half * tm // 2 + 16 * row))

    def _advance(self, descriptor: ag.Reg, low: ag.Reg | int, high: ag.Reg | int) -> None:
        self.k.s_add_u32(descriptor[0], descriptor[0], low)
        self.k.s_addc_u32(descriptor[1], descriptor[1], high)

    def _of_a(self, buffer: int, half: int, row: int) -> ag.Reg:
        return self.a[(2 * buffer + half) * self.count + row]

    def accumulate(self, c: ag.Tile, p: ag.Tile, t: ag.StepIndex, i: int, j: int) -> None:
        """Add quadrant (i, j) of the iteration's product, times its scales, to C."""
        with ag.operation(self.k, f"accumulate {c.name}", [t], reads=p.registers.mask, writes=c.registers.mask):
            self.add_product(c, p, t.buffer(2), i, j)

    def add_product(self, c: ag.Tile, p: ag.Tile, buffer: int, i: int, j: int) -> None:
        """Add quadrant (i, j) of a product, times the scales of a buffer, to C."""
        k = self.k
        for row in range(self.count):
            k.v_mul_f32(self.products[row], self._of_a(buffer, i, row), self.b[2 * buffer + j])
        for row, column in c.positions():
            target, source = c.base(row, column), p.base(row, column)
            for number in range(target.count):
                k.v_fmac_f32(target[number], source[number], self.products[row])


def _block_scales(k: ag.TileBuilder, row: ag.Reg, row0: ag.Reg, column0: ag.Reg, count: int, left: ag.Reg | int) -> _BlockScales:
    """Registers and descriptors for the scales of the workgroup's first block, from whose first column on K has `left` columns. `row`, a
    VGPR, becomes a byte offset."""
    plan, wide = k.registers, k.variant.tile[1] > BLOCK
    made = _BlockScales(k, count, plan.vgprs(4 * count, "a_scales"), plan.sgprs(4, "b_scales"), plan.sgprs(4, "a_scale_buffer", align=4),
                        plan.sgprs(4, "b_scale_buffer", align=4), row, plan.sgprs(2, "b_scale_offset"), plan.sgprs(2, "a_scale_pitch"),
                        plan.vgprs(count, "scale_products"))
    a, b, pitch = made.a_buffer, made.b_buffer, made.pitch
    k.v_lshlrev_b32(row, 2, row)
    k.s_lshl_b32(pitch[0], argument(k, "m"), 2)
    k.s_lshr_b32(pitch[1], argument(k, "m"), 30)
    with k.scratch("block", file="s") as block, k.scratch("blocks", file="s") as blocks_:
        k.s_lshl_b32(a[0], row0, 2)
        k.s_lshr_b32(block, row0, 30)
        k.s_add_u32(a[0], argument(k, "a_scale")[0], a[0])
        k.s_addc_u32(a[1], argument(k, "a_scale")[1], block)
        k.s_sub_u32(a[2], argument(k, "m"), row0)
        k.s_min_u32(a[2], a[2], 2 * BLOCK)  # no tile is longer
        k.s_lshl_b32(a[2], a[2], 2)
        blocks_of_k(k, blocks_)
        k.s_lshl_b32(blocks_, blocks_, 2)  # bytes of a row of B's scales
        k.s_lshr_b32(block, column0, 7)
        k.s_mul_i32(b[0], block, blocks_)
        k.s_mul_hi_u32(b[1], block, blocks_)
        k.s_add_u32(b[0], argument(k, "b_scale")[0], b[0])
        k.s_addc_u32(b[1], argument(k, "b_scale")[1], b[1])
        k.s_lshl_b32(b[2], blocks_, 1)
        k.s_mov_b32(made.column[0], 0)
        k.s_add_u32(block, column0, BLOCK)
        k.s_cmp_lt_u32(block, argument(k, "n"))
        k.s_cselect_b32(made.column[1], blocks_ if wide else 0, 0)
    for descriptor in (a, b):
        k.s_mov_b32(descriptor[3], ag.RAW_BUFFER)
    if is_split(k.parameters):
        to_block_of(k, left, a, b, pitch)
    return made


def to_block_of(k: ag.TileBuilder, left: ag.Reg | int, a: ag.Reg, b: ag.Reg, pitch: ag.Reg) -> None:
    """Move descriptors of the scales of the first block, `pitch` bytes a block (64 bits) for A, to that of the first column of a part,
    from which on K has `left` columns."""
    with k.scratch("blocks_before", file="s") as before, k.scratch("bytes_before", 2, "s") as bytes_:
        k.s_sub_u32(before, k.argument("k"), left)
        k.s_lshr_b32(before, before, (BLOCK - 1).bit_length())
        k.s_mul_i32(bytes_[0], pitch[0], before)
        k.s_mul_hi_u32(bytes_[1], pitch[0], before)
        k.s_add_u32(a[0], a[0], bytes_[0])
        k.s_addc_u32(a[1], a[1], bytes_[1])
        k.s_mul_i32(bytes_[0], pitch[1], before)
        k.s_add_u32(a[1], a[1], bytes_[0])
        k.s_lshl_b32(before, before, 2)
        k.s_add_u32(b[0], b[0], before)
        k.s_addc_u32(b[1], b[1], 0)
