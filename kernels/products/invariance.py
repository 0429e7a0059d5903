"""Into how many parts K is cut so that an element of D has the same bits whatever M, batch, tile and schedule are: N and K alone say it.

Sums of parts are rounded by themselves, so all launches of one N and K must cut K alike, those of 1 row and those of 8192. Few rows want
as many parts as give each compute unit a tile, else few of them read B. Many rows want none: they make the parts of a tile in turn
(`ownparts`), and store and load their sums between two of them. Predicted of bf16 on an MI355X at 8192 x 8192 x 8192 a part more takes 8 us
of each tile of 256 x 256, which has 0.0204 us for each column of K: as long as 392 columns. Four parts of 1792, which are the shortest,
take 3 x 392 / 7168 or 16 %. Elements of 8 bits take half of that time beside the same sums: with four parts of 3584 columns 8192 x 4096 x
14336 takes 1.63 of the fastest form's time, so that parts of 5120 are their shortest. A product of up to 1024 columns has at most 4 columns
of tiles of 256, so that 8192 rows fill half the compute units: it is cut for its many rows too, down to parts of 1536 columns, which are 24
steps, or twice as many of 8 bits.

No number of parts keeps all M within 1.25 of the fastest form. Predicted of bf16 on an MI355X, N = 5120 and K = 2880: one part takes 1.55
of its time at M = 256, where the fastest form has 3 that go along K at once; two parts take 1.46 at 1. Of fp8, N = 4096 and K = 14336: two
parts take 1.56 at M = 256, four take 1.63 at 8192.
"""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.products.split import MOST_PARTS

_UNITS = 256
"""Compute units of an MI355X; an MI300X has 304. N is cut alike for both."""
_IDLE = 1 / 8  # of the units in the last round is no reason for more parts
_EDGE = 64  # columns of the tiles of few rows
_NARROW = 1024
_LEAST, _NARROW_LEAST = {16: 1792, 8: 5120}, {16: 1536, 8: 3072}  # columns of K of a part, by the bits of elements


def invariant_parts(n: int, k: int, bits: int) -> int:
    """The parts of K of each element of D, of at least so many columns of elements of so many bits: the fewest with which the tiles of few
    rows leave at most an eighth of the compute units idle in their last round, or where none do, as few of them as with any number."""
    tiles = -(-n // _EDGE)
    most = 1 if tiles >= _UNITS else max(1, k // (_NARROW_LEAST if n <= _NARROW else _LEAST)[bits])

    def busy(parts: int) -> float:
        return parts * tiles / (-(-parts * tiles // _UNITS) * _UNITS)

    tried = range(1, min(most, MOST_PARTS) + 1)
    return next((parts for parts in tried if busy(parts) >= 1 - _IDLE), max(tried, key=busy))


def settled_parts(given: ag.Values, bits: int) -> ag.Values:
    """The build parameters that follow from a problem's sizes where its result is to be invariant, of elements of so many bits."""
    if not given.get("invariant") or "n" not in given or "k" not in given:
        return {}
    parts = invariant_parts(int(given["n"]), int(given["k"]), bits)
    return {"split_k": parts, "preload": True} if parts > 1 else {}
