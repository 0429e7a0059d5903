"""The variants that row kernels have in common: a writer serves all numbers of lanes for a row, on both architectures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import asmgen as ag
from asmgen.kernels.rows.rowshape import ROW_LANES

Writer = TypeVar("Writer", bound=Callable[[ag.TileBuilder], None])


def row_variants(family: ag.Family, **fields: Any) -> Callable[[Writer], Writer]:
    """The decorated function writes a variant of the family, with those fields, for each number of lanes that share a row; a wave for a row
    is the default."""
    def declare(writer: Writer) -> Writer:
        for arch in ("gfx950", "gfx942"):
            for lanes, waves in sorted(ROW_LANES.items(), key=lambda one: one[0] != ag.LANES):
                writer = family.variant(arch, waves=waves, lanes=lanes, **fields)(writer)
        return writer

    return declare
