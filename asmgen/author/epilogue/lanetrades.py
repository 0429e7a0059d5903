"""Trades between lanes that make two short runs of columns one long one, for wide stores of accumulators: found in the layout.

Lanes that differ in one bit of their number hold neighbouring runs of a row. v_permlane16_swap and v_permlane32_swap exchange such a bit
with the choice between two registers: of two runs of a lane, one lane then has the first and its neighbour, the other lane the second and
its neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence

from asmgen.author.tiles.fragments import Fragment
from asmgen.isa.arch import LANE_SWAPS, LANES
from asmgen.isa.records import dataclass

LINE_BIT = 3
"""The bit of the lane's number that DPP's row_ror:8 exchanges."""
LINE_ROWS = 1 << LINE_BIT
RowColumn = tuple[int, int]  # row, column


@dataclass(frozen=True)
class Trade:
    """`swap` exchanges bit `lane_bit` of the lane's number; the two runs that a lane gives to it stand `step` columns apart.

    With `lines`, four runs are two pairs whose columns follow each other, and lanes that differ in bit LINE_BIT hold rows LINE_ROWS apart:
    the pairs may trade those, so that a store moves fewer and longer pieces of rows.
    """

    lane_bit: int
    step: int
    lines: bool

    @property
    def swap(self) -> str:
        """The instruction."""
        return LANE_SWAPS[self.lane_bit]


def trade_of(fragment: Fragment, runs: Sequence[RowColumn], length: int) -> Trade | None:
    """The trade for runs of `length` columns that begin at these places of the first lane, taken two by two in this order.

    None where no swap exchanges the lane's bit that tells neighbouring runs apart, or where two runs, over all lanes, are not neighbouring
    columns of the same rows: a store would move as many pieces of rows as without.
    """
    bit = next((bit for bit in LANE_SWAPS if _apart(fragment, bit) == (0, length)), None)
    step = 1 + max(column for _, column in fragment.table[length - 1]) - min(column for _, column in fragment.table[0])
    if bit is None or _distances(runs, 1) != (0, step):
        return None
    return Trade(bit, step, _apart(fragment, LINE_BIT) == (LINE_ROWS, 0) and _distances(runs, 2) == (0, 2 * step))


def _apart(fragment: Fragment, bit: int) -> RowColumn | None:
    """How far lanes that differ in that bit stand apart: (rows, columns); None where not all do alike."""
    coordinates = fragment.table[0]
    found = {_between(coordinates[lane], coordinates[lane | 1 << bit]) for lane in range(LANES) if not lane >> bit & 1}
    return found.pop() if len(found) == 1 else None


def _distances(runs: Sequence[RowColumn], count: int) -> RowColumn | None:
    """How far the second `count` of each 2 x `count` runs stand from the first ones; None where not all do alike."""
    if len(runs) % (2 * count):
        return None
    found = {_between(runs[first + number], runs[first + number + count]) for first in range(0, len(runs), 2 * count)
             for number in range(count)}
    return found.pop() if len(found) == 1 else None


def _between(one: RowColumn, other: RowColumn) -> RowColumn:
    return other[0] - one[0], other[1] - one[1]
