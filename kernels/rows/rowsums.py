"""Sums over rows in float32, and their largest elements: over a lane's items, over lanes, over waves by LDS; the same bits in any order of
waves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asmgen as ag
from asmgen.kernels.rows.rowtensors import RowWalk
from asmgen.kernels.rows.waitfilling import Beside, fill_waits

_F32 = 4  # bytes
_WORDS = 4  # that an LDS instruction reads
_IN_ROWS: tuple[dict[str, Any], ...] = ({"quad_perm": (1, 0, 3, 2)}, {"quad_perm": (2, 3, 0, 1)}, {"row_half_mirror": True},
                                           {"row_ror": 8})
"""DPP that brings a result of 16 lanes to all of them; then lane 15 of rows of lanes goes to the next row, lane 31 to the upper half."""
_ACROSS_ROWS: tuple[dict[str, Any], ...] = ({"row_bcast": 15, "row_mask": 0xA}, {"row_bcast": 31, "row_mask": 0xC})
_LAST, _ROW = ag.LANES - 1, 16


class RowSums:
    """Reductions over the rows of a walk. Where waves share a row, each has words of LDS and a barrier of its own; the next group
    writes them again, so that a loop has at least two of those barriers, or ends with `guard`.

    `beside` emits scalar code that stands between the instructions of a chain, where nops would stand.
    """

    def __init__(self, walk: RowWalk) -> None:
        self.k, self.shape = walk.k, walk.shape
        self.made = 0
        if not self.shape.shares_waves:
            return
        k, words = self.k, self._words()
        self.own = ag.emit_address(k, "own_sum", lambda lane, wave: _F32 * (words * wave + lane // (ag.LANES // words)), k.lane, (k.wave,))
        self.all = k.registers.vgprs(1, "all_sums", note="0")
        k.v_mov_b32(self.all, 0)

    def largest(self, out: ag.Vector, tile: ag.Tile, beside: Beside = None) -> None:
        """The largest element of each row; NaN counts only where all are."""
        ag.row_max(self.k, out, tile, across=False)
        self.finish("max", out, beside)

    def sum(self, out: ag.Vector, tile: ag.Tile, beside: Beside = None) -> None:
        """The sum of each row."""
        ag.row_sum(self.k, out, tile, across=False)
        self.finish("sum", out, beside)

    def sum_of_squares(self, out: ag.Vector, tile: ag.Tile, beside: Beside = None) -> None:
        """The sum of the squares of each row."""
        self.sum_of_products(out, tile, tile, beside)

    def sum_of_products(self, out: ag.Vector, one: ag.Tile, other: ag.Tile, beside: Beside = None) -> None:
        """The sum of the products of two tiles' elements in each row. A lane has one row, in pairs of registers: two of them are in work at
        a time."""
        k = self.k
        (total,) = out.registers.items
        with k.scratch("products", 4) as products:
            halves = products[0:1], products[2:3]
            for number, pairs in enumerate(zip(_pairs(one), _pairs(other), strict=True)):
                half = halves[number % 2]
                if number < 2:
                    k.v_pk_mul_f32(half, *pairs)
                else:
                    k.v_pk_fma_f32(half, *pairs, half)
            k.v_pk_add_f32(halves[0], halves[0], halves[1])
            k.v_add_f32(total, products[0], products[1])
        self.finish("sum", out, beside)

    def finish(self, kind: str, out: ag.Vector, beside: Beside = None) -> None:
        """A "sum" or "max" of what each lane has, over all lanes and waves of a row; all of them get it."""
        k, op = self.k, {"sum": "v_add_f32", "max": "v_max_f32"}[kind]
        (total,) = out.registers.items

        def over_lanes() -> None:
            if self.shape.wave_rows > 1:
                ag.over_lanes(k, op, [total], out.shared_lanes)
                return
            for control in (*_IN_ROWS, *(_ACROSS_ROWS if self._words() == 1 else ())):
                k.emit(op, total, total, total, **{"row_mask": 15, "bank_mask": 15, **control})

        fill_waits(k, over_lanes, beside)
        if self.shape.shares_waves:
            self._over_waves(kind, op, total)
        elif self.shape.has_own_row:
            with k.scratch("of_row", file="s") as of_row:
                k.v_readlane_b32(of_row, total, _LAST)
                k.v_mov_b32(total, of_row)

    def _words(self) -> int:
        """The words that a wave writes to LDS: one for each of its four rows of lanes where all waves' are read by as many instructions as
        DPP across rows would be, with a nop for each; else one."""
        of_rows = ag.LANES // _ROW
        return of_rows if self.shape.waves * of_rows <= len(_ACROSS_ROWS) * _WORDS else 1

    def guard(self) -> None:
        """At the end of a loop with a single sum: no wave writes its next one before all have read this one."""
        if self.shape.shares_waves and self.made < 2:
            self.k.s_barrier()

    def _over_waves(self, kind: str, op: str, total: ag.Reg) -> None:
        k, waves = self.k, self.shape.waves
        each = self._words()
        count = waves * each
        words = k.lds.take(f"sums{self.made}", _F32 * count, align=_F32 * _WORDS)
        self.made += 1
        if each == 1:
            k.s_brev_b64(ag.exec_, 1)  # the last lane
        else:
            for half in range(2):
                k.s_mov_b32(ag.exec_[half], sum(1 << lane for lane in range(0, ag.LANES // 2, _ROW)))
        k.ds_write_b32(self.own, total, offset=words.low, fills=words)
        k.s_mov_b64(ag.exec_, -1)
        k.s_barrier()
        with k.scratch("of_waves", count) as found:
            for first in range(0, count, _WORDS):
                last = min(first + _WORDS, count) - 1
                k.emit("ds_read_b128" if last - first == _WORDS - 1 else "ds_read_b64", found[first:last], self.all,
                       offset=words.low + _F32 * first, uses=words)
            _together(k, kind, op, total, [found[number:number + 1] for number in range(0, count, 2)])


def largest_magnitude(k: ag.TileBuilder, out: ag.Vector, tile: ag.Tile) -> None:
    """The largest magnitude of what each lane has of a tile of one row a lane; NaN counts only where all are. Two chains, as one waits for
    each result."""
    (total,) = out.registers.items
    with k.scratch("other_largest") as other:
        chains, left = (total, other), [abs(one) for one in tile.registers.items]
        for chain in chains:
            k.v_max3_f32(chain, left.pop(0), left.pop(0), left.pop(0))
        for number in range(0, len(left), 2):
            chain = chains[number // 2 % 2]
            k.v_max3_f32(chain, chain, *left[number:number + 2])
        k.v_max_f32(total, total, other)


def _together(k: ag.TileBuilder, kind: str, op: str, total: ag.Reg, pairs: Sequence[ag.Reg]) -> None:
    """One number of several pairs."""
    first, *others = pairs
    for pair in others:
        if kind == "sum":
            k.v_pk_add_f32(first, first, pair)
        else:
            k.v_max3_f32(first[0], first[0], pair[0], pair[1])
    k.emit(op, total, first[0], first[1])


def _pairs(tile: ag.Tile) -> list[ag.Reg]:
    found = [ag.joined(one, other) for one, other in zip(tile.registers.items[::2], tile.registers.items[1::2], strict=True)]
    return [pair for pair in found if pair is not None]
