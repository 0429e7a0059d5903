"""A and B in memory and in LDS: rows side by side, or the bytes of 16 rows as a fragment's lanes read them.

So lie shuffled weights and elements of 6 bits in planes (docs/facts/blockscales.md sections 3 and 4): 16 rows together are one row of the
matrix, and lane l of a fragment has 16 or 8 bytes from 16 l or 8 l on. A line of LDS-DMA is a fragment, and lanes read neighbouring bytes.

Of 6 bits in a string, 16 bytes may begin among columns that exist and end after them: a block is 24 bytes. Those columns have numbers,
never NaN, so they count nothing where the other operand is 0. Where both are such, step 0 fills B by dwords.
"""

from __future__ import annotations

from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.gemm_mx.depth import Depth, StepSource
from asmgen.kernels.gemm_mx.formats import BLOCK, ELEMENTS, FRAGMENT_ROWS, bits_of

_CHUNK = 16  # bytes of a row that lie together in shuffled weights
_PLANES = (16, 8)  # the same of elements of 6 bits in planes
_DWORD = 4
_EIGHT, _FRAGMENTS = 8, 4
_GROUP = FRAGMENT_ROWS * _FRAGMENTS
"""Rows of 6-bit elements that lie together in LDS: half of them are three lines of LDS-DMA."""


@dataclass(frozen=True)
class OperandRows:
    """A workgroup's rows of A or B, or of a plane of one, and where their steps come from. A lane has `chunk` bytes of a row together.
    Descriptors and offsets follow from the registers `follows`, and nothing else does."""

    source: StepSource
    rows: ag.Rows
    chunk: int = 0
    follows: tuple[ag.Reg, ...] = ()


def rows_of(k: ag.TileBuilder, depth: Depth, name: str, dtype: str, first: ag.Reg) -> tuple[OperandRows, ...]:
    """Those of the workgroup's tile, from row `first` on: one, or one for each plane."""
    axis, size = "ab".index(name), k.argument("mn"["ab".index(name)])
    edge = k.variant.tile[axis]
    chunks = chunks_of(k, name, dtype)
    if not chunks:
        exact = name == "b" and ELEMENTS[dtype] == ELEMENTS.get(k.p.a_dtype) == 6
        source = depth.source(name, bits_of(dtype), size, width=_DWORD if exact else 0)
        return (OperandRows(source, source.matrix.rows(first, edge), follows=source.strides),)
    groups, group0 = (k.registers.sgprs(1, f"{name}_{what}") for what in ("groups", "group0"))
    k.s_add_u32(groups, size, FRAGMENT_ROWS - 1)
    k.s_lshr_b32(groups, groups, FRAGMENT_ROWS.bit_length() - 1)
    k.s_lshr_b32(group0, first, FRAGMENT_ROWS.bit_length() - 1)
    planes: list[ag.Reg | None] = [None, *([_second_plane(k, name, groups)] if len(chunks) > 1 else [])]
    found = []
    for chunk, plane in zip(chunks, planes, strict=True):
        bits = bits_of(dtype) if len(chunks) == 1 else chunk * 8 // BLOCK
        source = depth.source(name, bits, groups, FRAGMENT_ROWS, plane=plane)
        last = (groups, group0) if chunk == chunks[-1] else ()
        pointer = () if plane is None else (plane,)
        found.append(OperandRows(source, source.matrix.rows(group0, edge // FRAGMENT_ROWS), chunk, (*source.strides, *pointer, *last)))
    return tuple(found)


def _second_plane(k: ag.TileBuilder, name: str, groups: ag.Reg) -> ag.Reg:
    """The address after the first plane, of 16 bytes for 32 elements of 16 rows of each group."""
    plane, pointer = k.registers.sgprs(2, f"{name}_plane", align=2), k.argument(name)
    with k.scratch("row_bytes", file="s") as row:
        k.s_lshl_b32(row, k.argument(f"ld{name}"), (FRAGMENT_ROWS // 2).bit_length() - 1)
        k.s_mul_hi_u32(plane[1], groups, row)
        k.s_mul_i32(plane[0], groups, row)
    k.s_add_u32(plane[0], plane[0], pointer[0])
    k.s_addc_u32(plane[1], plane[1], pointer[1])
    return plane


def chunks_of(k: ag.TileBuilder, name: str, dtype: str) -> tuple[int, ...]:
    """The bytes of a row that lie together in each plane, of an operand whose fragments' rows do; none where rows lie one by one."""
    if bits_of(dtype) == 6 and k.p.fp6_storage == "planes":
        return _PLANES
    return (_CHUNK,) if name == "b" and k.p.b_order == "shuffled" else ()


@dataclass(frozen=True)
class OperandInLds:
    """A shared tile as waves read it, by the operand's rows, and as LDS-DMA fills it, by the matrix's: the same bytes and tokens."""

    read: ag.SharedTile
    filled: ag.SharedTile


def operand_in_lds(k: ag.TileBuilder, name: str, dtype: str, rows: int, fragment: ag.Fragment, stages: int, cells: int,
                   chunks: tuple[int, ...]) -> tuple[OperandInLds, ...]:
    """`cells` of `rows` by the tile's depth, for each plane. `chunks` are those of `chunks_of`."""
    depth, bits = k.variant.tile[2], ELEMENTS[dtype]
    if not chunks:
        placement = _by_eights(rows, depth * bits // 8) if bits == 6 else None
        plain = k.shared(name, dtype, rows, depth, stages=stages, grid=(cells,), serves=(ag.FragmentRead(fragment), ag.DmaFill()),
                         placement=placement)
        return (OperandInLds(plain, plain),)
    if len(chunks) == 1:
        return (_by_lanes(k, name, dtype, rows, depth, depth * bits // 8, stages, cells, chunks[0]),)
    return tuple(_by_lanes(k, f"{name}{chunk}", "i8", rows, depth * chunk // BLOCK, depth * chunk // BLOCK, stages, cells, chunk)
                 for chunk in chunks)


def _by_lanes(k: ag.TileBuilder, name: str, dtype: str, rows: int, columns: int, bytes_: int, stages: int, cells: int,
              chunk: int) -> OperandInLds:
    read = k.shared(name, dtype, rows, columns, stages=stages, grid=(cells,), placement=ag.Placement(_by_fragments(rows, bytes_, chunk)))
    groups = rows // FRAGMENT_ROWS
    filled = ag.SharedTile(name, "i8", groups, FRAGMENT_ROWS * bytes_, stages, (cells,),
                           ag.Placement(_in_order(groups, FRAGMENT_ROWS * bytes_)), read.ranges)
    return OperandInLds(read, filled)


def plane_views(tile: ag.Tile, chunks: int) -> tuple[ag.Tile, ...]:
    """A tile as what is read from each plane: itself, or the first 16 bytes of its lanes' fragments and their last 8, as bytes."""
    f = tile.fragment
    if chunks < 2:
        return (tile,)
    found, first = [], 0
    for chunk in _PLANES:
        across = ag.LANES // f.rows
        layout = ag.identity("item", "column", chunk) * ag.identity("lane", "row", f.rows) * ag.identity("lane", "column", across)
        fragment = ag.Fragment(f.row, f.operand, "i8", f.rows, chunk * across, layout.only(None, ["row", "column"]), chunk // 4)
        held = tuple(tile.base(*at)[first:first + chunk // 4 - 1] for at in tile.positions())
        found.append(ag.Tile(f"{tile.name}.{chunk}", tile.rows, tile.across * fragment.columns, fragment, ag.RegisterSet(held), tile.index))
        first += chunk // 4
    return tuple(found)


def _by_eights(rows: int, columns: int) -> ag.Placement:
    """Rows of 96 bytes side by side, those of two fragments' first eights before those of their second ones, and 16 bytes between them.

    A read takes 8 bytes of 16 rows at two places 24 bytes apart: dwords {0, 1, 6, 7} after a row's first. Eight rows begin at all multiples
    of 8 dwords, so the other eight have the other banks where they begin 4 dwords beside.
    """
    order = ag.identity("byte", "byte", 1) * ag.identity("column", "column", columns)
    placed = ag.identity("byte", "offset", 1) * ag.identity("column", "offset", columns)
    for name, count in (("low", _EIGHT), ("eight", 2), ("fragment", _FRAGMENTS), ("group", rows // _GROUP)):
        order = order * ag.identity("row", name, count)
    for name, count in (("low", _EIGHT), ("fragment", _FRAGMENTS), ("eight", 2), ("group", rows // _GROUP)):
        placed = placed * ag.identity(name, "offset", count)
    return ag.Placement(order.then(placed), pads=ag.Pads(((_EIGHT * _FRAGMENTS * columns, _CHUNK),)))


def _in_order(rows: int, columns: int) -> ag.Layout:
    return ag.identity("byte", "offset", 1) * ag.identity("column", "offset", columns) * ag.identity("row", "offset", rows)


def _by_fragments(rows: int, columns: int, chunk: int) -> ag.Layout:
    """(row, column) of bytes to where lanes have them: a chunk of each of 16 rows, then the next columns, then more rows."""
    groups, chunks = rows // FRAGMENT_ROWS, columns // chunk
    order = (ag.identity("byte", "byte", 1) * ag.identity("column", "inside", chunk) * ag.identity("column", "chunk", chunks)
             * ag.identity("row", "row", FRAGMENT_ROWS) * ag.identity("row", "group", groups))
    placed = (ag.identity("byte", "offset", 1) * ag.identity("inside", "offset", chunk) * ag.identity("row", "offset", FRAGMENT_ROWS)
              * ag.identity("chunk", "offset", chunks) * ag.identity("group", "offset", groups))
    return order.then(placed)
