"""The kernel after that of rows: dw and db from the sums of some rows each, in one order, so that the bits are the same each time."""

from __future__ import annotations

from collections.abc import Sequence

import asmgen as ag
from asmgen.kernels.norm_backward.family import NORM_BACKWARD, sum_arguments
from asmgen.kernels.norm_backward.tensors import sums_of
from asmgen.kernels.rows.rowshape import shape_of

_WAVES = 16
_TOGETHER = 8  # loads of a wave at once
_PER_LANE = 2
_COLUMNS = _PER_LANE * ag.LANES
_F32 = 4  # bytes


@NORM_BACKWARD.companion("add", "dw and db: sums of parts", sum_arguments,
                         ag.GridRule(f"ceil(columns / {_COLUMNS}), 1, 1", lambda p, variant: (-(-p["columns"] // _COLUMNS), 1, 1)),
                         waves=_WAVES)
def add_parts(k: ag.TileBuilder) -> None:
    """A wave adds each 16th row of parts of 128 columns, the first one then what the waves found."""
    plan, lanes = k.registers, k.lanes("f32", _PER_LANE, ag.LANES)
    total = k.tile("total", 1, _COLUMNS, lanes)
    loaded = [plan.vgprs(_PER_LANE, f"part{number}", align=2) for number in range(_TOGETHER)]
    column, count = plan.sgprs(1, "first_column"), plan.sgprs(1, "part_rows")
    at, own = plan.vgprs(1, "at"), plan.vgprs(1, "own")
    k.s_lshl_b32(column, k.ids["x"], _COLUMNS.bit_length() - 1)
    k.v_lshlrev_b32(at, (_PER_LANE * _F32).bit_length() - 1, k.lane)
    k.v_mov_b32(own, at)
    with k.scratch("before", file="s") as before:
        k.s_lshl_b32(before, column, 2)
        k.v_add_u32(at, before, at)
    _count(k, count)
    for name in sums_of(k.parameters):
        words = k.lds.take(f"{name}_words", _WAVES * _COLUMNS * _F32)
        ag.fill_with(k, total, 0)
        _add_rows(k, name, total, loaded, at, count)
        with k.scratch("to") as to, k.scratch("of_wave", file="s") as of_wave:
            k.s_mul_i32(of_wave, k.wave.register, _COLUMNS * _F32)
            k.v_add_u32(to, of_wave, own)
            k.ds_write_b64(to, total.base(0, 0), offset=words.low, fills=words)
        k.s_barrier()
        others = k.fresh("stored")
        k.s_cmp_lg_u32(k.wave.register, 0)
        k.s_cbranch_scc1(others)
        ag.fill_with(k, total, 0)
        for wave in range(_WAVES):
            held = loaded[wave % _TOGETHER]
            k.ds_read_b64(held, own, offset=words.low + wave * _COLUMNS * _F32, uses=words)
            k.v_pk_add_f32(total.base(0, 0), total.base(0, 0), held)
        _store(k, name, total, column)
        k.label(others)


def _count(k: ag.TileBuilder, count: ag.Reg) -> None:
    """How many rows of parts there are."""
    rows = shape_of(k.variant, k.p.columns).rows
    by = ag.Divisor(k, k.argument("each"), k.registers.sgprs(1, "each_reciprocal"))
    with k.scratch("rest", file="s") as rest:
        k.s_add_u32(rest, k.argument("rows"), rows - 1)
        k.s_lshr_b32(rest, rest, rows.bit_length() - 1)
        k.s_add_u32(rest, rest, k.argument("each"))
        k.s_sub_u32(rest, rest, 1)
        by.divide(k, count, rest, rest)
    k.s_mul_i32(count, count, rows)


def _add_rows(k: ag.TileBuilder, name: str, total: ag.Tile, loaded: Sequence[ag.Reg], at: ag.Reg, count: ag.Reg) -> None:
    """Rows wave, wave + 16 and so on, in order."""
    pointer, row = k.argument(f"{name}_parts"), _F32 * k.p.columns
    left = k.registers.sgprs(1, f"{name}_left")
    d = k.registers.sgprs(4, f"{name}_row", align=4, note="descriptor")
    k.s_sub_u32(left, count, k.wave.register)
    k.s_mul_i32(d[0], k.wave.register, row)
    k.s_add_u32(d[0], d[0], pointer[0])
    k.s_addc_u32(d[1], pointer[1], 0)
    k.s_mov_b32(d[3], ag.RAW_BUFFER)
    k.shows(d, pointer)
    again = f"{name}_rows"
    k.label(again)
    for held in loaded:
        k.s_cmp_gt_i32(left, 0)
        k.s_cselect_b32(d[2], row, 0)
        k.buffer_load_dwordx2(held, at, d, 0, offen=True)
        k.s_add_u32(d[0], d[0], _WAVES * row)
        k.s_addc_u32(d[1], d[1], 0)
        k.s_sub_u32(left, left, _WAVES)
    for held in loaded:
        k.v_pk_add_f32(total.base(0, 0), total.base(0, 0), held)
    k.s_cmp_gt_i32(left, 0)
    k.s_cbranch_scc1(again)


def _store(k: ag.TileBuilder, name: str, total: ag.Tile, column: ag.Reg) -> None:
    narrow = total
    if k.p.dtype != "f32":
        narrow = k.tile(f"{name}_narrow", 1, _COLUMNS, ag.with_dtype(total.fragment, k.p.dtype))
        ag.convert(k, narrow, total)
    with k.scratch("left", file="s") as left:
        k.s_sub_u32(left, k.p.columns, column)
        matrix = ag.Matrix(name, k.p.dtype, k.argument(name), 1, k.p.columns, 0, multiple=k.p.columns)
        ag.store_tile(k, matrix.rows(0, 1), narrow, column=column, limit=left)
