"""Who holds a row: 16, 32 or 64 lanes of a wave, or all waves of a workgroup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import asmgen as ag

PER_LANE = 8
"""Neighbours of a lane: 16 bytes of 16-bit elements, and what one Philox call of 128 bits serves."""
PAGE = 4096
"""Bytes that an immediate offset counts: each so many of a row have an address register."""
FEW_FRAGMENTS = 4
"""Runs of PER_LANE neighbours in a lane, of a row that several numbers of lanes can hold: 32 VGPRs in float32."""
MOST_FRAGMENTS = 8
"""The most: 64 VGPRs for a row in float32. What stands beside it follows from the budget (budget.py)."""
WAVES_PER_UNIT = 8
"""Two waves a SIMD leave 256 VGPRs to each. 8 waves that load 2 KiB each for the next rows have the 11.3 KB in flight that HBM wants of a
compute unit (docs/facts/row_kernels.md section 3)."""
ROW_LANES = {16: 4, 32: 4, 64: 4, 128: 2, 256: 4, 512: 8}
"""Waves of a workgroup, by the lanes that share a row."""


@dataclass(frozen=True)
class RowShape:
    """`columns` in `lanes` lanes, of a workgroup of `waves` waves."""

    columns: int
    lanes: int
    waves: int

    @property
    def across(self) -> int:
        """Lanes of a wave that share a row."""
        return min(self.lanes, ag.LANES)

    @property
    def shares_waves(self) -> bool:
        """Whether several waves share a row."""
        return self.lanes > ag.LANES

    @property
    def has_own_row(self) -> bool:
        """Whether each wave has one row for itself."""
        return self.lanes == ag.LANES

    @property
    def fragments(self) -> int:
        """Runs of PER_LANE neighbours that a lane has of a row."""
        return -(-self.columns // (PER_LANE * self.lanes))

    @property
    def wave_columns(self) -> int:
        """Columns that a wave has, some beyond the last one."""
        return self.fragments * PER_LANE * self.across

    @property
    def wave_rows(self) -> int:
        """Rows that a wave has at once."""
        return ag.LANES // self.across

    @property
    def rows(self) -> int:
        """Rows that a workgroup has at once."""
        return 1 if self.shares_waves else self.wave_rows * self.waves

    @property
    def cut_run(self) -> int:
        """The run in which a row ends, of the wave that has that column."""
        return self.columns // (PER_LANE * self.across) % self.fragments

    @property
    def is_cut(self) -> bool:
        """Whether some lane has a column beyond the last one."""
        return self.columns % (PER_LANE * self.lanes) != 0


def most_columns(lanes: int, fragments: int | None = None) -> int:
    """The longest row of so many lanes, that each have so many fragments at most: FEW_FRAGMENTS where several numbers of lanes serve."""
    return (fragments or (MOST_FRAGMENTS if lanes == max(ROW_LANES) else FEW_FRAGMENTS)) * PER_LANE * lanes


def by_columns(candidates: Sequence[ag.Variant], values: ag.Values) -> ag.Variant:
    """The variant with the fewest lanes for a row; rows that go element by element have a wave for themselves at least."""
    return with_lanes(candidates, values, ag.LANES if values.get("access") == "element" else 0)


def with_lanes(candidates: Sequence[ag.Variant], values: ag.Values, least: int) -> ag.Variant:
    """The variant with the fewest lanes for a row, from so many on."""
    columns = values.get("columns")
    if columns is None:
        return candidates[0]
    ordered = sorted(candidates, key=lambda one: int(one.lanes))
    serving = [one for one in ordered if one.lanes >= least and columns <= most_columns(one.lanes)]
    return serving[0] if serving else ordered[-1]


def shape_of(variant: ag.Variant, columns: int) -> RowShape:
    """The shape of a variant's rows."""
    return RowShape(columns, variant.lanes, variant.wave_count)


def rows_of_workgroup(variant: ag.Variant, p: ag.Values) -> int:
    """How many groups of rows a workgroup makes, one after the other, where workgroups fill the GPU once."""
    units = int(ag.timing(ag.DEFAULT_GPU[variant.arch]).clocks("compute_units")) * max(1, WAVES_PER_UNIT // variant.wave_count)
    return -(-groups_of(variant, p) // units)


def groups_of(variant: ag.Variant, p: ag.Values) -> int:
    """Groups of rows that workgroups make at once, in all."""
    rows: int = p["rows"]
    return -(-rows // shape_of(variant, p["columns"]).rows)
