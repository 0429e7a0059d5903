"""What epilogues do to one corner of a wave's accumulators after the other, written once: a loop over the corners in the code.

A tile of 256 x 256 has accumulators in 256 registers; code that takes each of them in turn for what is seldom asked of it (factors, C,
cut columns) would be longer than all the rest of a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from asmgen.author.address.addressing import WaveIndex
from asmgen.author.epilogue.stores import Corner
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder


@dataclass(frozen=True)
class MovedCorner:
    """A corner in its turn: `corner` is a copy of its accumulators, at (0, 0) of what begins at `row`, the wave's own, and at `column`,
    the workgroup's (SGPRs); `beside` are copies of the registers that go with it, None where there are none. VGPRs all.

    Where `each_part` takes it apart, `parts` are its rows of fragments, in AGPRs, and `corner` is one of them.
    """

    corner: Corner
    row: Reg
    column: Reg
    beside: Reg | None
    parts: Sequence[Tile] = ()


@contextmanager
def each_corner(k: TileBuilder, corners: Sequence[Corner], row0: Reg, column0: Reg, rows: Reg, wave: WaveIndex,
                beside: Sequence[Sequence[Reg]] = (), in_parts: bool = False, spent: bool = False) -> Iterator[MovedCorner]:
    """What is emitted within runs for each corner that begins before row number `rows` (an SGPR). With `in_parts` it takes the corner's
    accumulators, which must be AGPRs, from `each_part`.

    Accumulators in AGPRs are spent after it, and those in VGPRs if they may be `spent`: the first corner's then serve the others, and no
    registers are taken for a copy. `row0` and `column0` are those of the workgroup's tile; the waves of number `wave` have theirs
    so many times a corner's rows down. `beside` are VGPRs that go with each of the corners, as many for each. All corners are of one shape.
    """
    first = corners[0].tile
    # A move between AGPRs has half the bytes of one to a VGPR, which then stands once: the other corners go through the first one's.
    through_first = all(register.file == "a" for corner in corners for register in corner.tile.registers)
    if in_parts and not through_first:
        raise TileError(f"each_corner: in_parts wants accumulators in AGPRs, and some of {first} are in VGPRs", k.here())
    parts = _rows_of_fragments(first) if in_parts else ()
    in_place = spent and not any(register.file == "a" for corner in corners for register in corner.tile.registers)
    moved = first if in_place else k.tile("corner", parts[0].rows if parts else first.rows, first.columns, first.fragment,
                   note="accumulators of one corner at a time" if not parts else "a row of fragments at a time")
    count = len(beside[0]) if beside else 0
    held = k.registers.vgprs(count, "beside_corner", align=2, note="what goes with them") if count else None
    loop, body, following = k.fresh("corner"), k.fresh("of_corner"), k.fresh("next_corner")
    several = len(corners) > 1  # a loop of one round would be a branch that is never taken
    with k.scratch("corner_number", file="s") as number, k.scratch("corner_row", file="s") as row, \
            k.scratch("corner_column", file="s") as column:
        if several:
            k.s_mov_b32(number, 0)
            k.label(loop)
        labels = [k.fresh(f"corner_{position}") for position in range(1, len(corners))]
        for position, label in enumerate(labels, 1):
            k.s_cmp_eq_u32(number, position)
            k.s_cbranch_scc1(label)
        for position, corner in enumerate(corners):
            if position:
                k.s_branch(body)
                k.label(labels[position - 1])
            k.s_add_u32(row, row0, corner.row)
            k.s_add_u32(column, column0, corner.column)
            copied = not through_first and corner.tile is not moved
            for to, source in zip(moved.registers, corner.tile.registers, strict=True) if copied else ():
                k.emit("v_accvgpr_read_b32" if source.file == "a" else "v_mov_b32", to, source)
            for to, source in zip(first.registers, corner.tile.registers, strict=True) if through_first and position else ():
                k.v_accvgpr_mov_b32(to, source)
            for at, source in enumerate(beside[position] if held is not None else ()):
                assert held is not None
                k.v_mov_b32(held[at], source)
        k.label(body)
        for to, source in zip(moved.registers, first.registers, strict=True) if through_first and not parts else ():
            k.v_accvgpr_read_b32(to, source)
        with k.scratch("rows_of_waves", file="s") as down:
            k.s_mul_i32(down, wave.register, first.rows)
            k.s_add_u32(row, row, down)
        k.s_cmp_ge_u32(row, rows)
        k.s_cbranch_scc1(following)
        yield MovedCorner(Corner(moved, 0, 0), row, column, held, parts)
        k.label(following)
        if several:
            k.s_add_u32(number, number, 1)
            k.s_cmp_lt_u32(number, len(corners))
            k.s_cbranch_scc1(loop)
    if not in_place:
        k.registers.release("corner")
    if held is not None:
        k.registers.release(held)


def _rows_of_fragments(tile: Tile) -> list[Tile]:
    return [tile.part(row, 0, tile.fragment.rows, tile.columns) for row in range(0, tile.rows, tile.fragment.rows)]


@contextmanager
def each_part(k: TileBuilder, at: MovedCorner, rows: Reg) -> Iterator[Reg]:
    """What is emitted within runs for each row of fragments of a corner of `each_corner` that begins before row number `rows`: a second
    loop, of which the text is as short as that of one of them. Gives the row of the matrix (an SGPR)."""
    loop, body, done = k.fresh("part"), k.fresh("of_part"), k.fresh("parts_done")
    labels = [k.fresh(f"part_{position}") for position in range(1, len(at.parts))]
    with k.scratch("part_number", file="s") as number, k.scratch("part_row", file="s") as row:
        k.s_mov_b32(number, 0)
        k.s_mov_b32(row, at.row)
        k.label(loop)
        for position, label in enumerate(labels, 1):
            k.s_cmp_eq_u32(number, position)
            k.s_cbranch_scc1(label)
        for position, part in enumerate(at.parts):
            if position:
                k.s_branch(body)
                k.label(labels[position - 1])
            for to, source in zip(at.parts[0].registers, part.registers, strict=True) if position else ():
                k.v_accvgpr_mov_b32(to, source)
        k.label(body)
        for to, source in zip(at.corner.tile.registers, at.parts[0].registers, strict=True):
            k.v_accvgpr_read_b32(to, source)
        yield row
        if len(at.parts) > 1:
            k.s_add_u32(row, row, at.corner.tile.rows)
            k.s_cmp_ge_u32(row, rows)
            k.s_cbranch_scc1(done)
            k.s_add_u32(number, number, 1)
            k.s_cmp_lt_u32(number, len(at.parts))
            k.s_cbranch_scc1(loop)
        k.label(done)
