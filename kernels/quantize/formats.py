"""Types of results, and the scales that go with them (docs/facts/blockscales.md section 1, docs/facts/row_kernels.md section 5)."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.rows.blockscales import BLOCK, least_scales

BYTES = {"fp8": "fp8", "bf8": "bf8", "int8": "i8"}
"""Types with float32 scales, by the name that tiles have for them."""
BLOCKS = {"mxfp4": "fp4", "mxfp6": "fp6", "mxbf6": "bf6", "mxfp8": "fp8", "mxbf8": "bf8"}
"""Types of MX blocks."""
WHOLE = 6
"""Bits of elements whose conversion takes the 32 of a block from one lane."""
GROUP = 128
"""Columns that share a float32 scale."""
TILE_ROWS = 16
"""Rows that lie together where elements are shuffled."""
SOURCES = ("bf16", "f16", "f32")


def is_blocks(build: ag.Values) -> bool:
    """Whether results are MX blocks."""
    return build["to"] in BLOCKS


def group_of(build: ag.Values) -> str:
    """What has a scale."""
    group: str = build["group"]
    if group != "auto":
        return group
    return str(BLOCK) if is_blocks(build) else "token"


def row_bytes(p: ag.Values) -> int:
    """Bytes of a row of results; MX blocks, and all blocks where columns are quantised too, are whole, with zeros beyond the columns."""
    columns: int = p["columns"]
    if not is_blocks(p) and not p.get("columnwise"):
        return columns
    return -(-columns // BLOCK) * BLOCK * ag.element_bits(BLOCKS.get(p["to"], "i8")) // 8


def least_scale_stride(p: ag.Values) -> int:
    """Scales from a row to the next without gaps."""
    columns: int = p["columns"]
    return least_scales(columns, p["layout"]) if is_blocks(p) else -(-columns // GROUP)
