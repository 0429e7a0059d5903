"""Into how many parts K is cut so that an element of D has the same bits whatever M, batch, tile and schedule are: N and K alone say it.

Sums of parts are rounded by themselves, so all launches of one N and K must cut K alike, those of 1 row and those of 8192. Few rows want
as many parts as give each compute unit a tile, else few of them read B. Many rows want none: sums in float32 are written and read once
for each part. That second pass takes 8 S M N bytes for S parts, beside 2 M N K operations. An MI355X whose memory gives 6 TB/s
(docs/facts/microarchitecture.md section 2.5), and whose products of bf16 are predicted to reach 1.6 PFLOPS, spends 1067 S / K of the
product's own time on it: 42 % with parts of 2560 columns, which are the shortest. A product of up to 1024 columns has at most 4 columns
of tiles of 256, so that 8192 rows fill half the compute units: it is cut for its many rows too, down to parts of 1536 columns, which are
24 steps. Products of 8 bits are twice as fast beside the same sums, so their parts have twice the columns.

No number of parts keeps all M within 1.25 of the fastest form. Predicted of bf16 on an MI355X at f0ce7c28, N = 10240 and K = 8192: one
part takes 1.36 of its time at M = 1 and 1.25 at 16, two take 1.45 at 1, three 1.42 at 8192, where the second pass is 1067 x 3 / 8192 or
39 %. N = 6144 and K = 4096: one part takes 1.68 at M = 256, where the fastest form has 5 that go along K at once; two parts pay 52 % for
their second pass at 8192. Of fp8 there at 71eeff26, N = 8192 and K = 8192: one part takes 1.11 at M = 1 and 1.45 at 256, two take 1.58 at
8192.
"""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.products.split import MOST_PARTS

_UNITS = 256
"""Compute units of an MI355X; an MI300X has 304. N is cut alike for both."""
_EDGE = 64  # columns of the tiles of few rows
_NARROW, _LEAST, _NARROW_LEAST = 1024, 2560, 1536  # columns of K are of elements of 16 bits


def invariant_parts(n: int, k: int, bits: int) -> int:
    """The parts of K of each element of D, of at least so many columns of elements of so many bits: the fewest with which the tiles of few
    rows leave no more compute units idle in their last round than with any other number."""
    tiles = -(-n // _EDGE)
    most = 1 if tiles >= _UNITS else max(1, k * bits // (16 * (_NARROW_LEAST if n <= _NARROW else _LEAST)))

    def busy(parts: int) -> float:
        return parts * tiles / (-(-parts * tiles // _UNITS) * _UNITS)

    return max(range(1, min(most, MOST_PARTS) + 1), key=busy)


def settled_parts(given: ag.Values, bits: int) -> ag.Values:
    """The build parameters that follow from a problem's sizes where its result is to be invariant, of elements of so many bits."""
    if not given.get("invariant") or "n" not in given or "k" not in given:
        return {}
    parts = invariant_parts(int(given["n"]), int(given["k"]), bits)
    return {"split_k": parts, "preload": True} if parts > 1 else {}
