"""Strips of columns and bands of rows, which quantisation along rows and columns goes through."""

from __future__ import annotations

from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.quantize.formats import BLOCKS, GROUP, WHOLE, group_of, is_blocks
from asmgen.kernels.rows.blockscales import BLOCK, PAD
from asmgen.kernels.rows.rowshape import PER_LANE

IN_WAVE = 128
"""Columns of a wave, two for each lane."""


@dataclass(frozen=True)
class Strip:
    """What a workgroup of so many waves has of x at once: a band of so many `parts` of 32 rows, each part in waves of its own. So many
    `sharing` lanes have a block of a row together."""

    waves: int
    columns: int
    parts: int = 1
    sharing: int = 1

    @property
    def wide(self) -> int:
        """Columns of a strip."""
        return self.waves // self.parts * IN_WAVE

    @property
    def band(self) -> int:
        """Rows of a band: those of a group of a column."""
        return BLOCK * self.parts

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
        """Blocks of rows that a lane has, or shares, of a band."""
        return self.band * self.blocks * self.sharing // (self.waves * ag.LANES)

    @property
    def rows_between(self) -> int:
        """Rows from a lane's block to its next one."""
        return self.band // self.fragments


def strip_of(variant: ag.Variant, p: ag.Values) -> Strip:
    """The strips of a build."""
    return Strip(variant.wave_count, p["columns"], parts_of_band(p), sharing_of(p))


def sharing_of(p: ag.Values) -> int:
    """Lanes that share a block of a row: those whose 8 neighbours it has, so that lanes side by side access bytes side by side. One lane
    has the block where its conversion takes all of it, and where no scale belongs to it."""
    return BLOCK // PER_LANE if is_blocks(p) and ag.element_bits(BLOCKS[p["to"]]) != WHOLE else 1


def parts_of_band(p: ag.Values) -> int:
    """Blocks of 32 rows that share a scale of a column."""
    return GROUP // BLOCK if group_of(p) == str(GROUP) else 1


def bands_of(p: ag.Values) -> int:
    """Bands of a launch; where scales are shuffled, with those whose scales are pads."""
    bands: int = -(-p["rows"] // (BLOCK * parts_of_band(p)))
    return bands if p["layout"] == "plain" else -(-bands // PAD) * PAD


def bands_of_workgroup(variant: ag.Variant, p: ag.Values) -> int:
    """Bands that a workgroup makes, one after the other, where workgroups fill the GPU once: a compute unit has one of 8 waves."""
    units = int(ag.timing(ag.DEFAULT_GPU[variant.arch]).clocks("compute_units"))
    return -(-bands_of(p) * strip_of(variant, p).count // units)


def transposed(p: ag.Values) -> ag.Values:
    """The parameters of the transpose, as those of a build that goes along its rows."""
    return {**p, "columns": p["rows"], "rows": p["columns"], "d_stride": p.get("d_t_stride"), "scale_stride": p.get("scale_t_stride")}
