"""What epilogues do to one corner of a wave's accumulators after the other, written once: a loop over the corners in the code.

A tile of 256 x 256 has accumulators in 256 registers; code that takes each of them in turn for what is seldom asked of it (factors, C,
cut columns) would be longer than all the rest of a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from asmgen.author.epilogue import Corner
from asmgen.isa.registers import Reg

if TYPE_CHECKING:
    from asmgen.author.tilebuilder import TileBuilder


@contextmanager
def each_corner(k: TileBuilder, corners: Sequence[Corner], row0: Reg, column0: Reg, rows: Reg) -> Iterator[tuple[Corner, Reg, Reg]]:
    """What is emitted within runs for each corner that begins before row number `rows` (an SGPR), of a copy of its accumulators in VGPRs.

    Yields (the copy, row, column): as a corner at (0, 0) of what begins at that row and column, SGPRs; `row0` and `column0` are those of
    the workgroup's tile. All corners are of one shape.
    """
    first = corners[0].tile
    copy = k.tile("corner", first.rows, first.columns, first.fragment, note="accumulators of one corner at a time")
    turn, body, following = k.fresh("corner"), k.fresh("of_corner"), k.fresh("next_corner")
    with k.scratch("corner_number", file="s") as number, k.scratch("corner_row", file="s") as row, \
            k.scratch("corner_column", file="s") as column:
        k.s_mov_b32(number, 0)
        k.label(turn)
        ways = [k.fresh(f"corner_{place}") for place in range(1, len(corners))]
        for place, label in enumerate(ways, 1):
            k.s_cmp_eq_u32(number, place)
            k.s_cbranch_scc1(label)
        for place, corner in enumerate(corners):
            if place:
                k.s_branch(body)
                k.label(ways[place - 1])
            k.s_add_u32(row, row0, corner.row)
            k.s_add_u32(column, column0, corner.column)
            for to, source in zip(copy.registers, corner.tile.registers, strict=True):
                k.emit("v_accvgpr_read_b32" if source.file == "a" else "v_mov_b32", to, source)
        k.label(body)
        k.s_cmp_ge_u32(row, rows)
        k.s_cbranch_scc1(following)
        yield Corner(copy, 0, 0), row, column
        k.label(following)
        k.s_add_u32(number, number, 1)
        k.s_cmp_lt_u32(number, len(corners))
        k.s_cbranch_scc1(turn)
    k.registers.release("corner")
