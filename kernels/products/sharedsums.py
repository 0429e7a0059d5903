"""The sums of a launch whose workgroups may share tiles: which elements are summed in which parts of K."""

from __future__ import annotations

from dataclasses import replace

import asmgen as ag
from asmgen.kernels.products.contract import DOTS, is_streamed
from asmgen.kernels.products.dots import EDGE, HELD, LANES_OF_SUM
from asmgen.kernels.products.persistent import tile_of
from asmgen.kernels.products.sides import d_by_columns, edges
from asmgen.kernels.products.split import columns_of_sums
from asmgen.kernels.products.streams import Shares
from asmgen.kernels.products.sums import Matrix, Sums, sums_of_parts

_DEEPEST = 32  # products along K of an instruction of 16 rows and columns with 16 bytes of a lane, or 8


def sums_of_launch(p: ag.Values, number: int, left: Matrix, right: Matrix, depth: int) -> Sums:
    """A x B^T of matrix `number` of a batch, with the error bound of the parts in which each tile is summed."""
    if p["schedule"] == DOTS:
        return _sums_of_lanes(p, left, right, min(depth, _DEEPEST))
    found = sums_of_parts(left, right, depth, columns_of_sums(p))
    if not is_streamed(p):
        return found
    shares, (rows, columns, step) = Shares.of(p), tile_of(p)
    down, across = edges(p)
    order = ag.GridOrder(-(-down // rows), -(-across // columns), p["window"] or None, p["chunk"] or None)
    for tile in range(shares.streamed):
        matrix, place = divmod(shares.alone + tile, order.tiles)
        parts = [step * steps for steps in shares.parts_of(tile)]
        parts[-1] += p["k"] - sum(parts)
        if matrix != number or len(parts) == 1:
            continue
        row, column = order.place(place)
        own = slice(row * rows, (row + 1) * rows), slice(column * columns, (column + 1) * columns)
        at = own[::-1] if d_by_columns(p) else own
        its = sums_of_parts(left[at[0]], right[at[1]], depth, parts)
        for name in ("value", "size", "rounded"):
            getattr(found, name)[at] = getattr(its, name)
    return found


def _sums_of_lanes(p: ag.Values, left: Matrix, right: Matrix, depth: int) -> Sums:
    """A x B^T whose accumulators have pieces of K of their own, which are added at last (`dots`). The partial sums of an accumulator are at
    most its magnitudes, so all of them are at most all magnitudes as often as something is added to one: by each of its instructions, which
    take `depth` columns of each of EDGE / `HELD` pieces or more, and at last."""
    found, (rows, _, step) = sums_of_parts(left, right, p["k"], [p["k"]]), tile_of(p)
    instructions = -(-p["k"] // step) * step * min(rows, HELD) // (EDGE * depth)
    return replace(found, rounded=found.size * (instructions + LANES_OF_SUM))
