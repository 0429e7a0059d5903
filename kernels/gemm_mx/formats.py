"""A, B and their scales of gemm-mx: types, bytes, and where a scale lies in memory. Source: docs/facts/blockscales.md section 2."""

from __future__ import annotations

import asmgen as ag

BLOCK = 32
"""Columns of K that share a scale."""
ELEMENTS = ("fp4",)
"""Types of A and B, under the names that matrix instructions use."""
ORDERS = ("shuffled",)
"""shuffled: AITER's, 32 rows x 8 scales as 64 dwords."""
GROUP_ROWS, GROUP_COLUMNS = 32, 8
"""Rows and columns of scales that lie together in the shuffled order: a dword for each lane."""


def least_stride(order: str, k: int) -> int:
    """Scales from a row to the next of a matrix of k columns without gaps."""
    scales = -(-k // BLOCK)
    return scales if order == "plain" else -(-scales // GROUP_COLUMNS) * GROUP_COLUMNS


def cells_of(variant: ag.Variant) -> int:
    """The parts of a tile of A or B that are refilled one by one, each under a descriptor of its own."""
    return 2 if variant.stages == 2 else 1


def padded_rows(rows: int) -> int:
    """Rows of a shuffled array of scales."""
    return -(-rows // GROUP_ROWS) * GROUP_ROWS


SCALE_ARGUMENTS = (
    ag.ContractArgument("a_scale", "pointer", "scales of A (e8m0 bytes), 4-byte aligned where shuffled"),
    ag.ContractArgument("b_scale", "pointer", "scales of B, likewise"),
    ag.ContractArgument("ldsa", "u32", "bytes from a row of A's scales to the next; shuffled: its columns with their pads"),
    ag.ContractArgument("ldsb", "u32", "the same of B's scales"),
)
