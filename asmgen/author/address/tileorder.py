"""Which tile of the output a workgroup makes: orders that keep an XCD's workgroups beside each other, as scalar code of a prologue.

The hardware hands workgroups to the XCDs in turn, so number n runs on XCD n mod 8. Two renumberings undo that: `chunk_by_xcd` (the
HipKittens paper, Algorithm 1, first half) gives every XCD `chunk` neighbours at a time, `rotate_by_xcd` (the MXFP4 article: the three low
bits become the high ones) an eighth of all. `window_order` (the second half) then walks windows of `window` rows, down each column first.
All are bijections for every grid, also one that is no multiple of anything. Numbers of tiles stay below 2^31.
"""

from __future__ import annotations

from contextlib import ExitStack

from asmgen.author.address.division import Divisor
from asmgen.author.emit.builder import Builder
from asmgen.isa.arch import XCDS
from asmgen.isa.errors import AsmgenError
from asmgen.isa.registers import Reg

_XCD_BITS = (XCDS - 1).bit_length()


def flat_number(k: Builder, number: Reg, x: Reg, y: Reg, columns: Reg) -> None:
    """The place of workgroup (x, y) in the order in which the hardware starts the workgroups of a grid with so many columns."""
    k.emit("s_mul_i32", number, y, columns)
    k.emit("s_add_u32", number, number, x)


def chunk_by_xcd(k: Builder, number: Reg, tiles: Reg, chunk: Reg | int) -> None:
    """Renumber workgroup `number` of `tiles` so that `chunk` neighbours run on one XCD; those after the last whole round of all XCDs keep
    their numbers. Changes SCC. Raises AsmgenError for a chunk below 1.

    A chunk of an XCD's share or more is that share, ceil(tiles / 8). Where that leaves no whole round, workgroups whose number would lie
    past the end take the last tiles of the runs that are one short, in order.
    """
    _check(k, "chunk", chunk)
    with k.operation("chunk by XCD"), ExitStack() as stack:
        size, local, round_, moved, chunks, part = (stack.enter_context(k.scratch(name, file="s")) for name in (
            "size", "local", "round", "moved", "chunks", "part"))  # each of its own: few kernels have four side by side
        k.emit("s_add_u32", size, tiles, XCDS - 1)
        k.emit("s_lshr_b32", size, size, _XCD_BITS)
        k.emit("s_min_u32", size, size, chunk)
        by = Divisor(k, size, moved)
        by.divide(k, chunks, part, tiles)
        k.emit("s_lshr_b32", local, number, _XCD_BITS)
        by.divide(k, round_, part, local)
        xcd = stack.enter_context(k.scratch("xcd", file="s"))
        k.emit("s_and_b32", xcd, number, XCDS - 1)
        k.emit("s_mul_i32", moved, round_, XCDS - 1)  # local = round * size + rest, so round * 8 size + xcd * size + rest is this:
        k.emit("s_add_u32", moved, moved, xcd)
        k.emit("s_mul_i32", moved, moved, size)
        k.emit("s_add_u32", moved, moved, local)
        k.emit("s_sub_u32", part, moved, tiles)  # how many workgroups with lower numbers are past the end: a run's gap is none
        k.emit("s_sub_u32", part, part, xcd)
        k.emit("s_add_u32", part, part, chunks)
        k.emit("s_and_b32", xcd, tiles, XCDS - 1)
        k.emit("s_add_u32", part, part, xcd)
        k.emit("s_add_u32", part, part, 1)
        k.emit("s_mul_i32", part, part, size)
        k.emit("s_sub_u32", part, part, 1)
        k.emit("s_cmp_lt_u32", moved, tiles)
        k.emit("s_cselect_b32", moved, moved, part)
        k.emit("s_lshr_b32", chunks, chunks, _XCD_BITS)
        k.emit("s_max_u32", chunks, chunks, 1)
        k.emit("s_cmp_lt_u32", round_, chunks)
        k.emit("s_cselect_b32", number, moved, number)


def rotate_by_xcd(k: Builder, number: Reg, tiles: Reg) -> None:
    """Renumber workgroup `number` of `tiles` so that each XCD has an unbroken eighth: of the first tiles mod 8 XCDs it is one larger.
    Changes SCC."""
    with k.operation("rotate by XCD"), k.scratch("part", 2, "s") as part:
        xcd, share = part[0], part[1]
        k.emit("s_and_b32", xcd, number, XCDS - 1)
        k.emit("s_lshr_b32", share, tiles, _XCD_BITS)
        k.emit("s_lshr_b32", number, number, _XCD_BITS)
        k.emit("s_mul_i32", share, share, xcd)
        k.emit("s_add_u32", number, number, share)
        k.emit("s_and_b32", share, tiles, XCDS - 1)
        k.emit("s_min_u32", share, share, xcd)
        k.emit("s_add_u32", number, number, share)


def window_order(k: Builder, row: Reg, column: Reg, number: Reg, rows: Reg, columns: Reg, window: Reg | int) -> None:
    """Scalars `row` and `column` of the tile with that number: windows of `window` rows (the last one may be lower), down each column of
    a window first. `row` and `column` are registers of their own. Changes SCC. Raises AsmgenError for a window below 1."""
    _check(k, "window", window)
    with k.operation("window order"), k.scratch("height", 2, "s") as height, k.scratch("reciprocal", file="s") as reciprocal:
        within, group = height[0], height[1]
        k.emit("s_mul_i32", within, columns, window)
        Divisor(k, within, reciprocal).divide(k, group, row, number)
        k.emit("s_mul_i32", group, group, window)  # now the window's first row
        k.emit("s_sub_u32", within, rows, group)
        k.emit("s_min_u32", within, within, window)
        Divisor(k, within, reciprocal).divide(k, column, row, row)
        k.emit("s_add_u32", row, row, group)


def place_tile(k: Builder, row: Reg, column: Reg, x: Reg, y: Reg, rows: Reg, columns: Reg, window: Reg | int, chunk: Reg | int) -> None:
    """The tile of workgroup (x, y) of a grid of `columns` x `rows` by the paper's Algorithm 1: `chunk_by_xcd`, then `window_order`.

    Every register is scalar; `row` and `column` are registers of their own, `window` and `chunk` numbers or registers. Changes SCC.
    """
    with k.scratch("number", 2, "s") as number:
        flat_number(k, number[0], x, y, columns)
        k.emit("s_mul_i32", number[1], rows, columns)
        chunk_by_xcd(k, number[0], number[1], chunk)
        window_order(k, row, column, number[0], rows, columns, window)


def _check(k: Builder, what: str, value: Reg | int) -> None:
    if isinstance(value, int) and value < 1:
        raise AsmgenError(f"a {what} of {value} tiles orders nothing; 1 or more would work", k.here())
