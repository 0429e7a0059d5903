"""Products of a few rows by vector instructions: each wave makes some columns of D from whole rows of B, which it reads line by line.

Facts: a matrix instruction of 16 rows wastes all of them but M, and its fragments take B in pieces of 64 bytes a row. Here a workgroup
computes a tm x tn tile of D, each wave tn / waves columns of it. A step along K is 1 KiB of each of those rows of B, 16 bytes a lane, and
as much of each row of A; both go from memory straight to registers, `stages` - 1 steps ahead. At the end the sums of lanes are added in
one order, so D has the same bits each time. No wave waits for another one, and there is no LDS.

gfx950 multiplies bf16 by v_dot2_f32_bf16. It reads and makes no subnormal float32, which a result of bf16 shows below 2^-126 alone. Other
types are widened to float32 and multiplied by v_pk_fma_f32: v_dot2_f32_f16 takes subnormal f16, numbers below 2^-14, for 0, and gfx942 has
no v_dot2_f32_bf16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import asmgen as ag
from asmgen.kernels.products.epilogue import ProductEpilogue
from asmgen.kernels.products.lastcolumns import from_last_columns, where_columns_are_left
from asmgen.kernels.products.prologue import place, tiles
from asmgen.kernels.products.split import KEEP_SUBNORMAL

_LANE_BITS = 128  # what a lane loads of a row at once
_DISTANCES: dict[str, dict[int, str | tuple[int, ...]]] = {
    "gfx950": {32: "v_permlane32_swap_b32", 16: "v_permlane16_swap_b32"}, "gfx942": {2: (2, 3, 0, 1), 1: (1, 0, 3, 2)}}
"""Lanes between those that exchange the sums of two rows, and the swap, or the DPP of four lanes, that does so."""


def dot_products(k: ag.TileBuilder, of_a: ag.Fragment, of_b: ag.Fragment, ends: Callable[..., ProductEpilogue]) -> None:
    """The kernel with A and B of the types of these fragments. `ends` takes the arguments of `product_epilogue`."""
    tm, tn, tk = k.variant.tile
    ahead, own = k.variant.stages - 1, tn // k.variant.wave_count
    fa, fb = (ag.block_fragment(one, 1, _LANE_BITS // one.bits, ag.LANES) for one in (of_a, of_b))

    # register plan
    packed = 1 if _has_dots(k, fa.dtype) else 2
    sums = k.registers.vgprs(packed * tm * own, "sums", align=2, note="[row][column], of even and of odd elements where packed")
    A, B = k.tile("A", tm, tk, fa, stages=ahead + 1), k.tile("B", own, tk, fb, stages=ahead + 1)
    steps = k.registers.sgprs(1, "steps")
    row0, column0 = k.registers.sgprs(1, "row0"), k.registers.sgprs(1, "column0")

    one, wave = ag.WaveIndex("one", 0, 1), k.wave
    k.s_setreg_imm32_b32(KEEP_SUBNORMAL, 3)
    for number in range(0, sums.count, 2):  # while the arguments are in flight
        k.v_mov_b64(sums[number:number + 1], 0)
    place(k, row0, column0)
    a, b = tiles(k, steps, row0, column0, fa.dtype, fb.dtype)
    memory, vector = k.streams("memory", "vector")

    def step(t: ag.StepIndex) -> None:
        with k.stage(), memory:
            ag.load(k, B[t + ahead], b.k(t + ahead), rows=wave)
            ag.load(k, A[t + ahead], a.k(t + ahead))
        with k.stage(), vector:
            _multiply(k, sums, A[t], B[t])

    k.pipeline(step, steps, ag.InOrder(), empty=True)

    def multiply_last(k: ag.TileBuilder, left: ag.Reg, column: ag.Reg) -> None:
        last_a, last_b = (k.tile(f"{name}_left", rows, tk, fragment, note="columns after the last whole step")
                          for name, rows, fragment in (("A", tm, fa), ("B", own, fb)))
        ag.load(k, last_a, from_last_columns(k, "a", fa.dtype, left, column).rows(row0, tm), limit=left)
        ag.load(k, last_b, from_last_columns(k, "b", fb.dtype, left, column).rows(column0, tn), rows=wave, limit=left)
        _multiply(k, sums, last_a, last_b)
        k.registers.release(last_a.registers, last_b.registers)

    with k.block("K tail", cold=True):
        where_columns_are_left(k, multiply_last)
    corner = ag.Corner(_over_lanes(k, sums, packed, tm, own), 0, 0)
    ends(k, [corner], row0, column0, one, wave, overlaps=False).follow(k)


def _has_dots(k: ag.TileBuilder, dtype: str) -> bool:
    return k.arch == "gfx950" and dtype == "bf16"


def _multiply(k: ag.TileBuilder, sums: ag.Reg, A: ag.Tile, B: ag.Tile) -> None:
    """Add the products of each row of A with each row of B, a register of their elements after the other."""
    with ag.operation(k, f"{A.name} {B.name}", [A.index, B.index], reads=A.registers.mask | B.registers.mask, writes=sums.mask):
        for word in range(A.fragment.registers):
            of_a, of_b = ([one.base(row, 0)[word] for row in range(one.down)] for one in (A, B))
            if _has_dots(k, A.dtype):
                for number, (b, a) in enumerate((b, a) for a in of_a for b in of_b):
                    k.v_dot2_f32_bf16(sums[number], a, b, sums[number])
            else:
                _multiply_widened(k, sums, (A.dtype, of_a), (B.dtype, of_b))


def _multiply_widened(k: ag.TileBuilder, sums: ag.Reg, of_a: tuple[str, Sequence[ag.Reg]], of_b: tuple[str, Sequence[ag.Reg]]) -> None:
    """The same of one register of each row, whose types are given."""
    (type_a, rows), (type_b, columns) = of_a, of_b
    wide_a, wide_b, each = ag.widening(k, type_a), ag.widening(k, type_b), 32 // ag.element_bits(type_a)
    with k.scratch("elements_of_a", each * len(rows)) as left, k.scratch("elements_of_b", each) as right:
        for row, held in enumerate(rows):
            wide_a([left[each * row + number] for number in range(each)], [held])
        for column, held in enumerate(columns):
            wide_b([right[number] for number in range(each)], [held])
            for row in range(len(rows)):
                at = 2 * (row * len(columns) + column)
                for pair in range(0, each, 2):
                    first = each * row + pair
                    k.v_pk_fma_f32(sums[at:at + 1], left[first:first + 1], right[pair:pair + 1], sums[at:at + 1])


def _over_lanes(k: ag.TileBuilder, sums: ag.Reg, packed: int, rows: int, columns: int) -> ag.Tile:
    """The sums over all lanes as a tile: each lane has the columns of one row. While there are several rows, one half of the lanes adds
    those of the first half of them, the other one those of the others."""
    totals = k.registers.vgprs(rows * columns, "totals", align=min(4, columns))
    held = [totals[number] for number in range(totals.count)]
    for number, total in enumerate(held):
        if packed > 1:
            k.v_add_f32(total, sums[2 * number], sums[2 * number + 1])
        else:
            k.v_mov_b32(total, sums[number])
    distances = list(_DISTANCES[k.arch])[:(rows - 1).bit_length()]
    for distance in distances:
        half = len(held) // 2
        _exchange(k, distance, held[:half], held[half:])
        held = held[:half]
    ag.over_lanes(k, "v_add_f32", held, [bit for bit in range(ag.LANES.bit_length() - 1) if 1 << bit not in distances])
    like = k.matrix_shape("f32_16x16x16_bf16" if k.arch == "gfx942" else "f32_16x16x32_bf16").d
    row = [sum(bool(lane & distance) << number for number, distance in enumerate(reversed(distances))) for lane in range(ag.LANES)]
    table = tuple(tuple((row[lane], column) for lane in range(ag.LANES)) for column in range(columns))
    fragment = ag.Fragment(like.row, "sums", "f32", rows, columns, ag.linear_layout(table, rows, columns), columns)
    return ag.Tile("sums", rows, columns, fragment, ag.RegisterSet((totals[0:columns - 1],)))


def _exchange(k: ag.TileBuilder, distance: int, lower: Sequence[ag.Reg], upper: Sequence[ag.Reg]) -> None:
    """lower = the sums of `lower` in lanes whose number has no bit `distance`, of `upper` in the others, each over a pair of lanes."""
    how, pairs = _DISTANCES[k.arch][distance], list(zip(lower, upper, strict=True))
    if isinstance(how, str):
        for one, other in pairs:
            k.emit(how, one, other)
        for one, other in pairs:
            k.v_add_f32(one, one, other)
        return
    with k.scratch("lanes", 2, "s") as lanes, k.scratch("sent", len(pairs)) as sent:
        for half in range(2):
            k.s_mov_b32(lanes[half], sum(1 << lane for lane in range(32) if lane & distance))
        for number, (one, other) in enumerate(pairs):
            k.v_cndmask_b32(sent[number], other, one, lanes)
            k.v_cndmask_b32(one, one, other, lanes)
        for number, (one, _) in enumerate(pairs):
            k.v_add_f32(one, sent[number], one, quad_perm=how, row_mask=15, bank_mask=15)
