"""Strips of columns and bands of 32 rows, which quantisation along rows and columns goes through."""

from __future__ import annotations

from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.rows.blockscales import BLOCK, PAD

BAND = BLOCK
"""Rows of a band: those of a block of a column."""
IN_WAVE = 128
"""Columns of a wave, two for each lane."""


@dataclass(frozen=True)
class Strip:
    """What a workgroup of so many waves has of x at once."""

    waves: int
    columns: int

    @property
    def wide(self) -> int:
        """Columns of a strip."""
        return self.waves * IN_WAVE

    @property
    def count(self) -> int:
        """Strips of a row."""
        return -(-self.columns // self.wide)

    @property
    def blocks(self) -> int:
        """Blocks of a row of a strip."""
        return self.wide // BLOCK

    @property
    def fragments(self) -> int:
        """Blocks of rows that a lane has of a band."""
        return BAND * self.blocks // (self.waves * ag.LANES)

    @property
    def rows_between(self) -> int:
        """Rows from a lane's block to its next one."""
        return BAND // self.fragments


def strip_of(variant: ag.Variant, p: ag.Values) -> Strip:
    """The strips of a build."""
    return Strip(variant.wave_count, p["columns"])


def bands_of(p: ag.Values) -> int:
    """Bands of a launch; where scales are shuffled, with those whose scales are pads."""
    bands: int = -(-p["rows"] // BAND)
    return bands if p["layout"] == "plain" else -(-bands // PAD) * PAD


def bands_of_workgroup(variant: ag.Variant, p: ag.Values) -> int:
    """Bands that a workgroup makes, one after the other, where workgroups fill the GPU once: a compute unit has one of 8 waves."""
    units = int(ag.timing(ag.DEFAULT_GPU[variant.arch]).clocks("compute_units"))
    return -(-bands_of(p) * strip_of(variant, p).count // units)


def transposed(p: ag.Values) -> ag.Values:
    """The parameters of the transpose, as those of a build that goes along its rows."""
    return {**p, "columns": p["rows"], "rows": p["columns"], "d_stride": p.get("d_t_stride"), "scale_stride": p.get("scale_t_stride")}
