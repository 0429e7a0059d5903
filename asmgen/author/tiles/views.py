"""Views of register tiles that cost nothing: other element types of one map, rows and columns exchanged, accumulators as operands.

An accumulator's fragment (M.d) packed to 16 bits holds k in another order than an operand does (M.a, M.b), but a product does not mind the
order of k as long as both operands have the same: `as_operand` makes the one side, `in_order_of` the fragment for the other side's loads.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from asmgen.author.tiles.fragments import Fragment, MatrixShape
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.isa.arch import LANES
from asmgen.isa.layout import Layout, LayoutError, from_bits, identity
from asmgen.isa.layouts_mfma import element_bits
from asmgen.isa.placement import Packing
from asmgen.regalloc.sets import RegisterSet

Table = tuple[tuple[tuple[int, int], ...], ...]


def with_dtype(fragment: Fragment, dtype: str) -> Fragment:
    """The fragment with equal places of another element type: what a conversion in registers makes of it."""
    registers = Packing(element_bits(dtype)).registers(fragment.items)
    return Fragment(fragment.row, fragment.operand, dtype, fragment.rows, fragment.columns, fragment.layout, registers, fragment.transposed)


def narrowed(tile: Tile, dtype: str) -> Tile:
    """A tile of a narrower type in the first registers of each fragment: what `convert` in place makes of it."""
    fragment = with_dtype(tile.fragment, dtype)
    if fragment.registers > tile.fragment.registers:
        raise TileError(f"{tile} has no room for {dtype}, which is wider")
    return Tile(tile.name, tile.rows, tile.columns, fragment, RegisterSet(tuple(base[0:fragment.registers - 1] for base in tile.bases)),
                tile.index)


def transposed(tile: Tile) -> Tile:
    """The same registers with rows and columns exchanged."""
    bases = tuple(tile.base(row, column) for column in range(tile.across) for row in range(tile.down))
    return Tile(f"{tile.name}.T", tile.columns, tile.rows, tile.fragment.T, RegisterSet(bases), tile.index)


def linear_layout(table: Table, rows: int, columns: int) -> Layout:
    """The layout of a table[item][lane] of (row, column). Raises LayoutError where it is not linear over bits."""
    def images(at: list[tuple[int, int]]) -> list[dict[str, int]]:
        return [{"row": at[1 << bit][0], "column": at[1 << bit][1]} for bit in range(len(at).bit_length() - 1)]

    items, lanes = [line[0] for line in table], list(table[0])
    if len(items) & (len(items) - 1) or items[0] != (0, 0):
        raise LayoutError("a fragment by bits has a power of two of items and begins at (0, 0)")
    layout = from_bits({"item": images(items), "lane": images(lanes)}, {"row": rows, "column": columns})
    # Items and lanes both are linear, so corners of the table tell whether their sums are.
    for item, line in enumerate(table):
        for lane in (0, 1, LANES - 1):
            found = layout(item=item, lane=lane) if len(items) > 1 else layout(lane=lane)
            if (found["row"], found["column"]) != line[lane]:
                raise LayoutError(f"item {item} of lane {lane} is no sum of its bits' places")
    return layout


@functools.cache
def k_orders(fragment: Fragment, standard: Fragment) -> tuple[tuple[int, ...], ...] | None:
    """For each matrix instruction that `fragment` feeds, the k that it has where the operand `standard` has 0, 1, 2, ...

    None where it is no such operand in any order of k. A fragment as long as the operand feeds one instruction, others see `deep`.
    """
    parts, rest = divmod(fragment.items, standard.items)
    if fragment.bits != standard.bits or rest or (fragment.rows, fragment.columns) != (standard.rows, parts * standard.columns):
        return None
    if parts == 1 and fragment.layout.same_map(standard.layout):
        return (tuple(range(standard.columns)),)
    orders = []
    for part in range(parts):
        order: dict[int, int] = {}
        for mine, its in zip(fragment.table[part * standard.items:], standard.table, strict=False):
            for (row, k), (wanted, at) in zip(mine, its, strict=True):
                if row != wanted or order.setdefault(at, k) != k:
                    return None
        orders.append(tuple(order[at] for at in range(standard.columns)))
    return tuple(orders)


def deep(fragment: Fragment, count: int) -> Fragment:
    """The operand's fragment over `count` times as many k, all k of a lane neighbours: one wide access feeds `count` instructions.

    Both operands of a product take the same. Of accumulators (M.d.T) these are columns, and `count` fragments side by side hold them where
    the rows of B come in `dealt` order. Raises TileError for a fragment whose lanes do not hold neighbouring k.
    """
    if (fragment.transposed and fragment.operand != "d") or any(at != (line_row, first + item) for item, line in enumerate(fragment.table)
                                  for at, (line_row, first) in zip(line, fragment.table[0], strict=True)):
        raise TileError(f"{fragment} has no lanes of neighbouring k, so several of it make no wide access")
    table = tuple(tuple((row, count * k + item) for row, k in fragment.table[0]) for item in range(count * fragment.items))
    columns = count * fragment.columns
    return Fragment(fragment.row, fragment.operand, fragment.dtype, fragment.rows, columns, linear_layout(table, fragment.rows, columns),
                    count * fragment.registers)


def dealt(fragment: Fragment, count: int) -> Callable[[int], int]:
    """Which row of B each of its rows is to be, so that `count` of the accumulators' fragments (M.d.T) side by side are a `deep` one."""
    wide, items = deep(fragment, count), fragment.items
    at = {part * fragment.columns + fragment.table[item][lane][1]: wide.table[part * items + item][lane][1]
              for part in range(count) for item in range(items) for lane in range(LANES)}
    return lambda row: row // wide.columns * wide.columns + at[row % wide.columns]


@functools.cache
def in_order_of(standard: Fragment, like: Fragment) -> Fragment:
    """The fragment of operand `standard` whose k stand in the order of `like`, the other operand's fragment of the same instruction.

    Raises TileError where `like` is no operand of as many k.
    """
    other = standard.row
    shape = MatrixShape(other, next(iter(other.archs)), *_formats(standard, like))
    wanted = shape.b if standard.operand == "a" else shape.a
    orders = k_orders(like, wanted)
    if orders is None or len(orders) > 1:
        raise TileError(f"{like} is no operand of {other.name} in any order of k; as_operand(tile, M, ...) makes one")
    table = tuple(tuple((row, orders[0][k]) for row, k in line) for line in standard.table)
    layout = linear_layout(table, standard.rows, standard.columns)
    return Fragment(other, standard.operand, standard.dtype, standard.rows, standard.columns, layout, standard.registers)


def _formats(one: Fragment, other: Fragment) -> tuple[int, int]:
    from asmgen.isa.opcodes.mfma import F8F6F4_FORMATS

    if not one.row.f8f6f4:
        return 0, 0
    a, b = (one, other) if one.operand == "a" else (other, one)
    return F8F6F4_FORMATS.index(a.dtype), F8F6F4_FORMATS.index(b.dtype)


def as_operand(tile: Tile, shape: MatrixShape, operand: str) -> Tile:
    """A tile named by (i, k) or (j, k) seen as operand "a" or "b" of a matrix instruction, k in the tile's own order: no instruction.

    Raises TileError where lanes hold other rows than the operand wants, or a step's k are no block of neighbours.
    """
    standard, f = (shape.a if operand == "a" else shape.b), tile.fragment
    if f.bits != standard.bits or f.dtype != standard.dtype or f.rows != standard.rows or tile.columns % standard.columns \
            or tile.across * f.items % standard.items:
        raise TileError(f"{tile} with fragments {f} cannot be seen as operand {operand} of {shape.row.name}, which has "
                        f"{standard.rows} x {standard.columns} {standard.dtype}; convert it to {standard.dtype}, or take another shape")
    flat = [[(row, column + number * f.columns) for row, column in line] for number in range(tile.across) for line in f.table]
    tables = []
    for step in range(tile.columns // standard.columns):
        part = flat[step * standard.items:(step + 1) * standard.items]
        tables.append(tuple(tuple((row, column - step * standard.columns) for row, column in line) for line in part))
    if len(set(tables)) > 1 or any(not 0 <= k < standard.columns for line in tables[0] for _, k in line):
        raise TileError(f"{tile}: the items of a step of {shape.row.name} are no {standard.columns} neighbouring k")
    view = Fragment(standard.row, operand, standard.dtype, standard.rows, standard.columns,
                    linear_layout(tables[0], standard.rows, standard.columns), standard.registers)
    if k_orders(view, standard) is None:
        raise TileError(f"{tile}: its lanes hold other rows than operand {operand} of {shape.row.name} wants; transpose it")
    return Tile(tile.name, tile.rows, tile.columns, view, tile.registers, tile.index)


def block_fragment(like: Fragment, rows: int, columns: int, across: int, by_columns: bool = False) -> Fragment:
    """Each lane holds a block of `rows` x `columns` neighbours, `across` lanes side by side, of the element type of `like`.

    Loads and stores of such a tile are as wide as its rows in a lane and run along memory's rows, lane after lane. `by_columns`
    orders a lane's items column by column: transposed, such a tile is written to LDS as wide as its columns (see `change_layout`).
    Raises TileError for counts that are no powers of two, or items that are no whole registers.
    """
    counts = rows, columns, across
    if any(count < 1 or count & (count - 1) for count in counts) or across > LANES or rows * columns * like.bits % 32:
        raise TileError(f"a block of {rows} x {columns} {like.dtype} in each of {LANES} lanes, {across} side by side: all are powers of "
                        "two, and a block is whole registers")
    row_items, column_items = identity("item", "row", rows), identity("item", "column", columns)
    items = row_items * column_items if by_columns else column_items * row_items
    layout = items * identity("lane", "column", across) * identity("lane", "row", LANES // across)
    return Fragment(like.row, f"block of {like.operand}", like.dtype, rows * LANES // across, columns * across,
                    layout.only(["item", "lane"], ["row", "column"]), rows * columns * like.bits // 32)


def bytes_of(fragment: Fragment) -> Fragment:
    """A fragment of 4- or 6-bit elements as the bytes that it lies in: for movement to and from tiles of i8, whose columns count bytes.
    Raises TileError for a fragment whose lanes do not hold neighbours of a row.
    """
    string, rest = divmod(fragment.items * fragment.bits, 8)
    lanes = LANES // fragment.rows
    down = identity("lane", "row", fragment.rows)
    for order in (down * identity("lane", "column", lanes), identity("lane", "column", lanes) * down) if lanes and not rest else ():
        layout = identity("item", "column", string) * order
        if fragment.bits * fragment.columns == 8 * string * lanes and all(
                at == (place["row"], place["column"] // string * fragment.items + item)
                for item, line in enumerate(fragment.table) for at, place in zip(line, layout.along("lane"), strict=True)):
            return Fragment(fragment.row, fragment.operand, "i8", fragment.rows, string * lanes, layout.only(None, ["row", "column"]),
                            fragment.registers)
    raise TileError(f"{fragment} has no lanes of neighbours that are whole bytes")


def as_bytes(tile: Tile) -> Tile:
    """The registers of a tile of 4- or 6-bit elements as bytes: `read(k, as_bytes(A), As[t])` from a shared tile of i8."""
    fragment = bytes_of(tile.fragment)
    return Tile(tile.name, tile.rows, tile.across * fragment.columns, fragment, tile.registers, tile.index)


def planes(tile: Tile) -> tuple[Tile, Tile]:
    """A tile of 6-bit operands as two of bytes: the first 16 of a lane's 24 bytes, and its last 8, of every fragment.

    Each has a shared tile (and a matrix) of its own, so that one ds_read_b128 and one ds_read_b64 fill a fragment and no read is torn;
    `as_bytes` takes three b64. Rows of the first hold 16 bytes a lane side by side. Row i of the second holds 8 bytes of row 2 i and 8 of
    row 2 i + 1 side by side: what a lane of LDS-DMA moves is read together, whatever the shape. Raises TileError for a tile of other
    elements.
    """
    f = tile.fragment
    if f.bits != 6 or f.items != 32:
        raise TileError(f"{tile} has no 32 elements of 6 bits a lane; only those lie in planes of 16 and 8 bytes")
    bytes_of(f)  # lanes hold neighbouring k
    found, across = [], LANES // f.rows
    for first, count, beside in ((0, 16, 1), (16, 8, 2)):
        layout = (identity("item", "column", count) * identity("lane", "column", beside) * identity("lane", "row", f.rows // beside)
                  * identity("lane", "column", across))
        fragment = Fragment(f.row, f.operand, "i8", f.rows // beside, 16 * across, layout.only(None, ["row", "column"]), count // 4)
        held = tuple(tile.base(*at)[first // 4:(first + count) // 4 - 1] for at in tile.positions())
        found.append(Tile(f"{tile.name}.{count}", tile.rows // beside, tile.across * fragment.columns, fragment, RegisterSet(held),
                          tile.index))
    return found[0], found[1]
