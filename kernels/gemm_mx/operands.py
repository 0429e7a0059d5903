"""A and B in memory and in LDS: rows side by side, or, of shuffled weights, the bytes of 16 rows as a fragment's lanes read them.

Shuffled (docs/facts/blockscales.md section 3): 16 rows together are one row of the matrix. Lane l of a fragment has 16 bytes from 16 l on,
so a line of LDS-DMA is a fragment, and 64 lanes read 1024 neighbouring bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.gemm_mx.depth import Depth, StepSource
from asmgen.kernels.gemm_mx.formats import ELEMENTS, FRAGMENT_ROWS, bits_of

_CHUNK = 16  # bytes of a row that lie together in shuffled weights


@dataclass(frozen=True)
class OperandRows:
    """A workgroup's rows of A or B, and where their steps come from."""

    source: StepSource
    rows: ag.Rows


def rows_of(k: ag.TileBuilder, depth: Depth, name: str, dtype: str, first: ag.Reg) -> OperandRows:
    """Those of the workgroup's tile, from row `first` on."""
    axis, size = "ab".index(name), k.argument("mn"["ab".index(name)])
    edge = k.variant.tile[axis]
    if not is_shuffled(k, name):
        source = depth.source(name, bits_of(dtype), size)
        return OperandRows(source, source.matrix.rows(first, edge))
    groups, group0 = (k.registers.sgprs(1, f"{name}_{what}") for what in ("groups", "group0"))
    for out, rows in ((groups, size), (group0, first)):
        k.s_lshr_b32(out, rows, FRAGMENT_ROWS.bit_length() - 1)
    source = depth.source(name, ELEMENTS[dtype], groups, FRAGMENT_ROWS)
    return OperandRows(source, source.matrix.rows(group0, edge // FRAGMENT_ROWS))


def is_shuffled(k: ag.TileBuilder, name: str) -> bool:
    """Whether an operand lies shuffled."""
    return name == "b" and bool(k.p.b_order == "shuffled")


@dataclass(frozen=True)
class OperandInLds:
    """A shared tile as waves read it, by the operand's rows, and as LDS-DMA fills it, by the matrix's: the same bytes and tokens."""

    read: ag.SharedTile
    filled: ag.SharedTile


def operand_in_lds(k: ag.TileBuilder, name: str, dtype: str, rows: int, fragment: ag.Fragment, stages: int, cells: int,
                   is_shuffled: bool = False) -> OperandInLds:
    """`cells` of `rows` by the tile's depth."""
    depth = k.variant.tile[2]
    if not is_shuffled:
        plain = k.shared(name, dtype, rows, depth, stages=stages, grid=(cells,), serves=(ag.FragmentRead(fragment), ag.DmaFill()))
        return OperandInLds(plain, plain)
    bytes_ = depth * ELEMENTS[dtype] // 8
    read = k.shared(name, dtype, rows, depth, stages=stages, grid=(cells,), placement=ag.Placement(_by_fragments(rows, bytes_)))
    groups = rows // FRAGMENT_ROWS
    filled = ag.SharedTile(name, "i8", groups, FRAGMENT_ROWS * bytes_, stages, (cells,),
                           ag.Placement(_in_order(groups, FRAGMENT_ROWS * bytes_)), read.ranges)
    return OperandInLds(read, filled)


def _in_order(rows: int, columns: int) -> ag.Layout:
    return ag.identity("byte", "offset", 1) * ag.identity("column", "offset", columns) * ag.identity("row", "offset", rows)


def _by_fragments(rows: int, columns: int) -> ag.Layout:
    """(row, column) of bytes to where shuffled weights have them: 16 bytes of each of 16 rows, then the next 16 columns, then more rows."""
    groups, chunks = rows // FRAGMENT_ROWS, columns // _CHUNK
    order = (ag.identity("byte", "byte", 1) * ag.identity("column", "inside", _CHUNK) * ag.identity("column", "chunk", chunks)
             * ag.identity("row", "row", FRAGMENT_ROWS) * ag.identity("row", "group", groups))
    placed = (ag.identity("byte", "offset", 1) * ag.identity("inside", "offset", _CHUNK) * ag.identity("row", "offset", FRAGMENT_ROWS)
              * ag.identity("chunk", "offset", chunks) * ag.identity("group", "offset", groups))
    return order.then(placed)
