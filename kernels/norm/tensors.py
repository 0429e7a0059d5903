"""What a build of norm reads and writes, by name."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.rows.blockscales import BLOCK, least_scales

TENSORS = ("x", "residual", "r", "d", "mask")
INPUTS = ("x", "residual")
EIGHT = "fp8"
BLOCKS = {"mxfp8": "fp8", "mxfp4": "fp4"}
"""Results in MX blocks, and the type of their elements."""
MASK = "mask"


def tensors_of(build: ag.Values) -> tuple[str, ...]:
    """The tensors of rows."""
    return tuple(name for name in TENSORS if (build["residual"] or name not in ("residual", "r"))
                 and (build["save"] == MASK or name != MASK))


def saved_of(build: ag.Values) -> tuple[str, ...]:
    """The figures of rows that are stored."""
    return () if build["save"] == "none" else ("mean", "rstd") if build["kind"] == "layer" else ("rstd",)


def figures_of(build: ag.Values) -> tuple[str, ...]:
    """All figures of rows that are stored: with those that are saved, the scales of 8-bit results."""
    return (*saved_of(build), "scale") if build["out"] == EIGHT else saved_of(build)


def is_blocks(build: ag.Values) -> bool:
    """Whether results are MX blocks."""
    return build["out"] in BLOCKS


def row_bytes(build: ag.Values) -> int:
    """Bytes of a row of results of 8 bits or less; MX blocks are whole, with zeros beyond the columns."""
    columns: int = build["columns"]
    if not is_blocks(build):
        return columns
    return -(-columns // BLOCK) * BLOCK * ag.element_bits(BLOCKS[build["out"]]) // 8


def scales_of_row(build: ag.Values) -> int:
    """Scales from a row to the next without gaps."""
    return least_scales(build["columns"], build["layout"])
