"""The second kernel of a product that is split along K (`split`): it adds what the parts made, in the order of K."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.products.batch import to_matrices, to_matrix_of_c
from asmgen.kernels.products.epilogue import add_bias, bias_of
from asmgen.kernels.products.sides import argument, result
from asmgen.kernels.products.split import (
    KEEP_SUBNORMAL,
    PER_LANE,
    bytes_of_columns,
    columns_of_tiles,
    held_parts,
    panel_of,
    steps_of_each,
    sum_rows,
)


def add_parts(k: ag.TileBuilder) -> None:
    """D = alpha (the sum of all parts, in the order of K) + beta C + bias. A wave has 1024 bytes of each panel, a lane 16 of them, and asks
    for those of all parts before it adds the first two. Where memory has added them, there is one.

    Such a launch is one trip to memory long. So what the loads need comes first, from arguments that the hardware loads; where D is follows
    while they are in flight, and what few launches do stands after the end."""
    width, split = k.variant.tile[1], held_parts(k.parameters)
    like = k.matrix_shape("f32_16x16x16_bf16" if k.arch == "gfx942" else "f32_16x16x32_bf16").d

    # register plan
    lanes = ag.block_fragment(like, 1, PER_LANE, min(ag.LANES, width // PER_LANE))
    S = k.tile("S", sum_rows(width), width, lanes, grid=(split,), note="sums by part")
    row0, column0 = k.registers.sgprs(1, "row0"), k.registers.sgprs(1, "column0")

    count, wave = S[0].rows, k.wave
    k.s_setreg_imm32_b32(KEEP_SUBNORMAL, 3)
    _own_rows(k, row0, wave, count)
    k.s_mul_i32(column0, k.ids["y"], width)
    with k.scratch("first_part", file="s") as part:
        k.s_mul_i32(part, k.ids["z"], split)
        panel = panel_of(k, column0, part).rows(row0, count)
    _load_parts(k, S, panel)
    to_matrices(k, k.ids["z"])
    corners, one = [ag.Corner(S[0], 0, 0)], ag.WaveIndex("one", 0, 1)
    c, d = (result(k, name).rows(row0, count) for name in "cd")
    with ag.storing(k, d, column0, corners, None, one, width) as stored:
        for part in list(S)[1:]:
            ag.add(k, S[0], S[0], part)
        with k.block("alpha and C", cold=True), k.scratch("factors", file="s") as factors:
            plain = k.fresh("plain")
            ag.ask_plain(k, k.argument("alpha"), k.argument("beta"), factors)
            k.s_cbranch_scc0(plain)
            to_matrix_of_c(k, k.ids["z"])
            combined = k.fresh("combined")
            with ag.combining(k, corners, c, column0, None, one, k.argument("alpha"), k.argument("beta")) as combining:
                combining.combine(combined)
            k.label(combined)
            k.label(plain)
        bias = bias_of(k)
        if bias is not None:
            add_bias(k, corners, bias, row0, column0, one)
        stored.store(last=True)


def _own_rows(k: ag.TileBuilder, row0: ag.Reg, wave: ag.WaveIndex, count: int) -> None:
    """row0 = the first of the `count` rows of the wave; a wave beyond the last row ends."""
    if wave.count == 1:
        k.s_mul_i32(row0, k.ids["x"], count)
        return
    inside = k.fresh("inside")
    k.s_mul_i32(row0, k.ids["x"], wave.count)
    k.s_add_u32(row0, row0, wave.register)
    k.s_mul_i32(row0, row0, count)
    k.s_cmp_lt_u32(row0, argument(k, "m"))
    k.s_cbranch_scc1(inside)
    k.s_endpgm()
    k.label(inside)


def _load_parts(k: ag.TileBuilder, S: ag.TileGrid, panel: ag.Rows) -> None:
    """Ask for the rows of all parts, of which `panel` has the first one's."""
    depth = k.variant.tile[2]
    ag.load(k, S[0], panel)
    if len(list(S)) == 1:
        return
    descriptor = panel.resource(k)
    with k.scratch("each", file="s") as each, k.scratch("steps", file="s") as steps, k.scratch("before", file="s") as before, \
            k.scratch("bytes", 2, "s") as bytes_, k.scratch("records", file="s") as records:
        k.s_add_u32(steps, k.argument("k"), depth - 1)  # gemm-mx has parts of steps
        k.s_lshr_b32(steps, steps, (depth - 1).bit_length())
        steps_of_each(k, each, steps)
        columns_of_tiles(k, bytes_[0])
        k.s_mov_b32(bytes_[1], 0)
        bytes_of_columns(k, bytes_)  # from one part's panel to the next one's
        k.s_mov_b32(records, descriptor[2])
        k.s_mov_b32(before, 0)
        for part in list(S)[1:]:
            k.s_add_u32(descriptor[0], descriptor[0], bytes_[0])
            k.s_addc_u32(descriptor[1], descriptor[1], bytes_[1])
            k.s_add_u32(before, before, each)
            k.s_cmp_lt_u32(before, steps)
            k.s_cselect_b32(descriptor[2], records, 0)  # a part without steps has no bytes: its loads give 0
            ag.load(k, part, panel)
