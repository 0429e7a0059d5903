"""gemm-fp8 for few rows or columns: the waves of a workgroup share K (`products/direct.py`).

With scales=block each step of 128 columns is a block: its product is computed in registers of its own, and v_fmac_f32 adds it times its
scales, which come with the step's loads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import asmgen as ag
from asmgen.kernels.gemm_fp8.blocks import to_block_of
from asmgen.kernels.gemm_fp8.family import GEMM
from asmgen.kernels.gemm_fp8.operands import BLOCK
from asmgen.kernels.gemm_fp8.scaling import early_factors
from asmgen.kernels.gemm_fp8.shapes import narrow_shape, wide_shape
from asmgen.kernels.products.batch import blocks_of_k
from asmgen.kernels.products.contract import DEALT, DEALT_WAVES, FEW_ROWS
from asmgen.kernels.products.direct import Direct, Multiply, Position, direct
from asmgen.kernels.products.layouts import BY_ROWS
from asmgen.kernels.products.persistent import ONE_TILE
from asmgen.kernels.products.sides import argument

FIXED: dict[str, Any] = {"waves": DEALT_WAVES, "schedule": DEALT, "worth_from": FEW_ROWS + 1, **ONE_TILE}


@GEMM.variant("gfx950", tile=(32, 32, 128), adders=(2, 2), stages=2, **BY_ROWS, **FIXED)
@GEMM.variant("gfx950", tile=(16, 32, 128), adders=(1, 2), stages=2, **BY_ROWS, **FIXED)
@GEMM.variant("gfx950", tile=(64, 64, 128), adders=(2, 2), stages=2, **FIXED)
@GEMM.variant("gfx950", tile=(16, 32, 128), adders=(1, 2), stages=2, scales="block", **BY_ROWS, **FIXED)
@GEMM.variant("gfx950", tile=(32, 64, 128), adders=(2, 2), stages=2, scales="block", **FIXED)
@GEMM.variant("gfx942", tile=(32, 32, 128), adders=(2, 2), stages=2, **BY_ROWS, **FIXED)
@GEMM.variant("gfx942", tile=(16, 32, 128), adders=(1, 2), stages=2, **BY_ROWS, **FIXED)
def direct_tiles(k: ag.TileBuilder) -> None:
    """One of the tiles above."""
    if k.arch == "gfx942":
        M = narrow_shape(k)
        fa, fb = ag.deep(M.b, 2), ag.deep(M.a, 2)
    else:
        M, _, _ = wide_shape(k)
        fa, fb = M.b, M.a

    def multiply(a: ag.Matrix, C: ag.Tile, position: Position) -> Multiply:
        return _scaled(k, M, a, C, position)

    direct(k, M, fa, fb, Direct(*early_factors(k), multiply if k.p.scales == "block" else None))


@dataclass(frozen=True)
class _StepScales:
    """The scales of the blocks of a step: of `count` fragments of rows of A, and one of B, which the whole tile has in common, in as many
    buffers as A. The descriptors advance with the steps."""

    k: ag.TileBuilder
    count: int
    a: ag.Reg
    b: ag.Reg
    a_buffer: ag.Reg
    b_buffer: ag.Reg
    row: ag.Reg
    zero: ag.Reg
    pitch: ag.Reg
    products: ag.Reg

    def load(self, t: ag.StepIndex) -> None:
        """Load the scales of an iteration and advance the descriptors."""
        k, buffer = self.k, t.buffer(self.k.variant.stages)
        with ag.operation(k, "load scales of blocks", [t], writes=self._of_a(buffer).mask | self.b[buffer].mask):
            self.load_into(buffer)
            for descriptor, low, high in ((self.a_buffer, self.pitch[0], self.pitch[1]), (self.b_buffer, 4, 0)):
                k.s_add_u32(descriptor[0], descriptor[0], low)
                k.s_addc_u32(descriptor[1], descriptor[1], high)

    def load_into(self, buffer: int) -> None:
        """Load the scales of the block at which the descriptors stand."""
        k, a = self.k, self._of_a(buffer)
        for number in range(self.count):
            k.buffer_load_dword(a[number], self.row, self.a_buffer, 0, offen=True, offset=4 * 16 * number)
        k.buffer_load_dword(self.b[buffer], self.zero, self.b_buffer, 0, offen=True)

    def _of_a(self, buffer: int) -> ag.Reg:
        return self.a[buffer * self.count:(buffer + 1) * self.count - 1]

    def accumulate(self, c: ag.Tile, p: ag.Tile, t: ag.StepIndex) -> None:
        """Add an iteration's product, times its scales, to C."""
        with ag.operation(self.k, f"accumulate {c.name}", [t], reads=p.registers.mask, writes=c.registers.mask):
            self.add_product(c, p, t.buffer(self.k.variant.stages))

    def add_product(self, c: ag.Tile, p: ag.Tile, buffer: int) -> None:
        """Add a product, times the scales of a buffer, to C."""
        k, a = self.k, self._of_a(buffer)
        for row in range(self.count):
            k.v_mul_f32(self.products[row], a[row], self.b[buffer])
        for row, column in c.positions():
            target, source = c.base(row, column), p.base(row, column)
            for number in range(target.count):
                k.v_fmac_f32(target[number], source[number], self.products[row])


def _scaled(k: ag.TileBuilder, M: ag.MatrixShape, of_a: ag.Matrix, C: ag.Tile, position: Position) -> Multiply:
    """What multiplies blocks, from the first column of `of_a` on."""
    row0, column0, _, _ = position
    stages, plan, count = k.variant.stages, k.registers, C.down
    Q = k.tile("Q", C.rows, C.columns, M.d.T, note="the product of one block")
    lanes = ag.accumulator_coordinates(k, "a_scale", C, column0, None, ag.WaveIndex("one", 0, 1))
    plan.release(lanes.column)
    made = _StepScales(k, count, plan.vgprs(stages * count, "a_scales"), plan.vgprs(stages, "b_scales"),
                       plan.sgprs(4, "a_scale_buffer", align=4), plan.sgprs(4, "b_scale_buffer", align=4), lanes.row,
                       plan.vgprs(1, "b_scale_offset"), plan.sgprs(2, "a_scale_pitch"), plan.vgprs(count, "scale_products"))
    a, b, pitch = made.a_buffer, made.b_buffer, made.pitch
    k.v_lshlrev_b32(made.row, 2, made.row)
    k.v_mov_b32(made.zero, 0)
    k.s_lshl_b32(pitch[0], argument(k, "m"), 2)
    k.s_lshr_b32(pitch[1], argument(k, "m"), 30)
    with k.scratch("block", file="s") as block, k.scratch("blocks", file="s") as blocks_:
        k.s_lshl_b32(a[0], row0, 2)
        k.s_lshr_b32(block, row0, 30)
        k.s_add_u32(a[0], argument(k, "a_scale")[0], a[0])
        k.s_addc_u32(a[1], argument(k, "a_scale")[1], block)
        k.s_sub_u32(a[2], argument(k, "m"), row0)
        k.s_min_u32(a[2], a[2], C.rows)
        k.s_lshl_b32(a[2], a[2], 2)
        blocks_of_k(k, blocks_)
        k.s_lshl_b32(blocks_, blocks_, 2)  # bytes of a row of B's scales
        k.s_lshr_b32(block, column0, (BLOCK - 1).bit_length())
        k.s_mul_i32(b[0], block, blocks_)
        k.s_mul_hi_u32(b[1], block, blocks_)
        k.s_add_u32(b[0], argument(k, "b_scale")[0], b[0])
        k.s_addc_u32(b[1], argument(k, "b_scale")[1], b[1])
        k.s_mov_b32(b[2], 4)
    for descriptor in (a, b):
        k.s_mov_b32(descriptor[3], ag.RAW_BUFFER)
    to_block_of(k, of_a.columns_register, a, b, pitch)

    def add(t: ag.StepIndex, A: ag.Tile, B: ag.Tile) -> None:
        ag.mma(k, Q, A, B, first=True)
        made.accumulate(C, Q, t)

    def add_last(A: ag.Tile, B: ag.Tile) -> None:
        made.load_into(0)  # the last wave's loop ended at that block
        ag.mma(k, Q, A, B, first=True)
        made.add_product(C, Q, 0)

    return Multiply(made.load, add, add_last)
