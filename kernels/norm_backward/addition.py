"""The kernel after that of rows: dw and db from the sums of some rows each, in one order, so that the bits are the same each time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asmgen as ag
from asmgen.kernels.norm_backward.family import NORM_BACKWARD, sum_arguments
from asmgen.kernels.norm_backward.tensors import sums_of
from asmgen.kernels.rows.rowshape import shape_of

_WAVES = 16
_TOGETHER = 8  # loads of a wave at once
_PER_LANE = 2
_ACROSS = (64, 32, 16)
"""Lanes that a row of parts may lie in; 16 have a line of the L2 cache."""
_F32 = 4  # bytes
_OF_WAVE = ag.LANES * _PER_LANE * _F32


def _across(p: ag.Values, variant: ag.Variant) -> int:
    """The lanes of a row of parts: the most that leave each compute unit a workgroup, or else the fewest."""
    units = int(ag.timing(ag.DEFAULT_GPU[variant.arch]).clocks("compute_units"))
    return next((one for one in _ACROSS if _strips(p, one) * len(sums_of(p)) >= units), _ACROSS[-1])


def _strips(p: ag.Values, across: int) -> int:
    """Workgroups beside each other."""
    return int(-(-p["columns"] // (_PER_LANE * across)))


@NORM_BACKWARD.companion("add", "dw and db: sums of parts", sum_arguments,
                         ag.GridRule("ceil(columns / 128, 64 or 32), 1 or with bias 2, 1: as few as leave each compute unit a workgroup",
                                     lambda p, variant: (_strips(p, _across(p, variant)), len(sums_of(p)), 1)),
                         waves=_WAVES, axes="xy")
def add_parts(k: ag.TileBuilder) -> None:
    """A workgroup makes some columns of dw or of db. A wave adds the rows of parts that lie in its lanes at once, those after all waves'
    and so on, the first wave then what the waves found, and of that what its rows of lanes have."""
    across = _across(k.parameters, k.variant)
    plan, lanes = k.registers, k.lanes("f32", _PER_LANE, across)
    total = k.tile("total", ag.LANES // across, _PER_LANE * across, lanes)
    loaded = [plan.vgprs(_PER_LANE, f"part{number}", align=2) for number in range(_TOGETHER)]
    column, count = plan.sgprs(1, "first_column"), plan.sgprs(1, "part_rows")
    at, own, pair = (plan.vgprs(1, name) for name in ("at", "own", "pair"))
    k.s_lshl_b32(column, k.ids["x"], total.columns.bit_length() - 1)
    k.v_lshlrev_b32(own, (_PER_LANE * _F32).bit_length() - 1, k.lane)
    k.v_and_b32(pair, across * _PER_LANE * _F32 - 1, own)
    with k.scratch("before", file="s") as before, k.scratch("down") as down:
        k.s_lshl_b32(before, column, 2)
        k.v_lshrrev_b32(down, across.bit_length() - 1, k.lane)
        k.v_mul_u32_u24(down, _F32 * k.p.columns, down)
        k.v_add3_u32(at, before, pair, down)
    _count(k, count)
    names = sums_of(k.parameters)
    for number, name in enumerate(names):
        others = k.fresh(f"not_{name}")
        if name != names[-1]:
            k.s_cmp_lg_u32(k.ids["y"], number)
            k.s_cbranch_scc1(others)
        ag.fill_with(k, total, 0)
        _add_rows(k, name, total, loaded, at, count)
        _over_waves(k, name, total, loaded, own, pair)
        _store(k, name, total, column)
        k.s_endpgm()
        if name != names[-1]:
            k.label(others)


def _over_waves(k: ag.TileBuilder, name: str, total: ag.Tile, loaded: Sequence[ag.Reg], own: ag.Reg, pair: ag.Reg) -> None:
    """The sum of what all lanes of a column have, in order; all waves but the first end."""
    words, sums = k.lds.take(f"{name}_words", _WAVES * _OF_WAVE), total.base(0, 0)
    with k.scratch("to") as to, k.scratch("of_wave", file="s") as of_wave:
        k.s_mul_i32(of_wave, k.wave.register, _OF_WAVE)
        k.v_add_u32(to, of_wave, own)
        k.ds_write_b64(to, sums, offset=words.low, fills=words)
    k.s_barrier()
    first = k.fresh("first_wave")
    k.s_cmp_eq_u32(k.wave.register, 0)
    k.s_cbranch_scc1(first)
    k.s_endpgm()
    k.label(first)
    _add_words(k, sums, loaded, [(own, words.low + wave * _OF_WAVE) for wave in range(_WAVES)], words)
    if total.rows == 1:
        return
    of_lanes = k.lds.take(f"{name}_of_lanes", _OF_WAVE)
    k.ds_write_b64(own, sums, offset=of_lanes.low)  # for its own wave, whose accesses to LDS are in order: no token, no barrier
    _add_words(k, sums, loaded, [(pair, of_lanes.low + down * _OF_WAVE // total.rows) for down in range(total.rows)])


def _add_words(k: ag.TileBuilder, sums: ag.Reg, loaded: Sequence[ag.Reg], reads: Sequence[tuple[ag.Reg, int]], words: Any = None) -> None:
    """The sum of pairs of words, in order; `words` is the token of those that other waves write."""
    k.v_mov_b32(sums[0], 0)
    k.v_mov_b32(sums[1], 0)
    for first in range(0, len(reads), len(loaded)):
        together = list(zip(loaded, reads[first:first + len(loaded)], strict=False))
        for held, (at, offset) in together:
            k.ds_read_b64(held, at, offset=offset, uses=words)
        for held, _ in together:
            k.v_pk_add_f32(sums, sums, held)


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
    """The rows of the wave, those after all waves' and so on, in order."""
    pointer, row, down = k.argument(f"{name}_parts"), _F32 * k.p.columns, total.rows
    left = k.registers.sgprs(1, f"{name}_left")
    d = k.registers.sgprs(4, f"{name}_row", align=4, note="descriptor")
    k.s_lshl_b32(left, k.wave.register, down.bit_length() - 1)
    k.s_mul_i32(d[0], left, row)
    k.s_sub_u32(left, count, left)
    k.s_add_u32(d[0], d[0], pointer[0])
    k.s_addc_u32(d[1], pointer[1], 0)
    k.s_mov_b32(d[3], ag.RAW_BUFFER)
    k.shows(d, pointer)
    again = f"{name}_rows"
    k.label(again)
    for held in loaded:
        k.s_max_i32(d[2], left, 0)
        k.s_min_u32(d[2], d[2], down)
        k.s_mul_i32(d[2], d[2], row)
        k.buffer_load_dwordx2(held, at, d, 0, offen=True)
        k.s_add_u32(d[0], d[0], _WAVES * down * row)
        k.s_addc_u32(d[1], d[1], 0)
        k.s_sub_u32(left, left, _WAVES * down)
    for held in loaded:
        k.v_pk_add_f32(total.base(0, 0), total.base(0, 0), held)
    k.s_cmp_gt_i32(left, 0)
    k.s_cbranch_scc1(again)


def _store(k: ag.TileBuilder, name: str, total: ag.Tile, column: ag.Reg) -> None:
    narrow = total
    if k.p.dtype != "f32":
        narrow = k.tile(f"{name}_narrow", total.rows, total.columns, ag.with_dtype(total.fragment, k.p.dtype))
        ag.convert(k, narrow, total)
    matrix = ag.Matrix(name, k.p.dtype, k.argument(name), 1, k.p.columns, k.p.columns, k.p.columns, k.p.columns, multiple=k.p.columns)
    if k.p.columns % total.columns == 0:
        ag.store_tile(k, matrix.rows(0, total.rows), narrow, column=column)
        return
    with k.scratch("left", file="s") as left:
        k.s_sub_u32(left, k.p.columns, column)
        ag.store_tile(k, matrix.rows(0, total.rows), narrow, column=column, limit=left)
