"""A of bf16 or f16 that a wave quantises in registers: it holds the blocks of its fragments, so no lane of another wave is asked.

The rules are those of docs/facts/blockscales.md section 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.gemm_mx.formats import BLOCK, is_quantised
from asmgen.kernels.products.split import KEEP_SUBNORMAL


def raw_fragment(k: ag.TileBuilder, fragment: ag.Fragment) -> ag.Fragment:
    """The fragment of A as it is loaded: of the type that it has in memory."""
    return ag.with_dtype(fragment, k.p.a_dtype) if is_quantised(k.parameters) else fragment


@dataclass(frozen=True)
class QuantisedRows:
    """What a step's A becomes: elements, blocks' exponents and scales, of each half."""

    k: ag.TileBuilder
    tiles: ag.TileGrid
    exponents: ag.TileGrid
    scales: tuple[ag.Scales, ...]

    def make(self, raw: ag.Tile, half: int) -> tuple[ag.Tile, ag.Scales]:
        """Those of a half."""
        k, tile, exponents, scales = self.k, self.tiles[half], self.exponents[half], self.scales[half]
        ag.quantise(k, tile, exponents, raw, rounding=k.p.rounding)
        ag.pack_scales(k, scales, exponents, tile)
        return tile, scales


def quantised_rows(k: ag.TileBuilder, fragment: ag.Fragment, rows: int, halves: int) -> QuantisedRows:
    """Registers for `halves` of so many rows of the tile's depth."""
    depth = k.variant.tile[2]
    k.s_setreg_imm32_b32(KEEP_SUBNORMAL, 3)  # blocks of numbers below 2^-126 have scales and elements too
    tiles = k.tile("Q", rows, depth, fragment, grid=(halves,), note="quantised, [half of M]")
    exponents = k.tile("E", rows, depth // BLOCK, ag.exponent_fragment(fragment), grid=(halves,), note="[half of M]")
    return QuantisedRows(k, tiles, exponents, tuple(ag.scales(k, f"SA{half}", tiles[half]) for half in range(halves)))
