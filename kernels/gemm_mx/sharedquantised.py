"""A of bf16 or f16 that the waves of a workgroup quantise together: each an equal part of the rows, which it shares through LDS.

A wave loads its rows some steps before they are multiplied, quantises them a step before, and writes elements and scales to LDS.
Elements lie in lanes as blocks do, 32 neighbours a lane: no lane needs another one's, and the scales are where the matrix cores want them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import asmgen as ag
from asmgen.kernels.gemm_mx.formats import BLOCK
from asmgen.kernels.gemm_mx.operandloads import operand_loads
from asmgen.kernels.gemm_mx.operands import OperandInLds, OperandRows
from asmgen.kernels.gemm_mx.streamloads import StepLoads
from asmgen.kernels.products.split import KEEP_SUBNORMAL

_BUFFERS = 2
_VGPRS, _OTHERS, _MOST_HELD = 256, 64, 4
"""VGPRs of a wave, those that addresses and what A becomes take at most, and the most steps of A that are held as they are loaded."""


@dataclass(frozen=True)
class SharedQuantised:
    """The way of A. A wave's share of a cell is `raw` as it is loaded, then `elements`, `exponents` and `words`; `held` are the dwords of
    the rows that it multiplies, in two stages. `raw` has `steps`, and
    `sets` of cells share registers for what they become."""

    k: ag.TileBuilder
    loads: tuple[StepLoads, ...]
    raw: ag.TileGrid
    elements: ag.TileGrid
    exponents: ag.TileGrid
    words: ag.TileGrid
    held: ag.TileGrid
    shared: OperandInLds
    scales: ag.SharedTile
    waves: ag.WaveIndex
    order: ag.ScaleOrder
    steps: int
    sets: int

    def load(self, t: ag.StepIndex) -> None:
        """Memory to registers."""
        for cell, loads in enumerate(self.loads):
            loads.load(self.raw[t, cell], t, 0)

    def make(self, t: ag.StepIndex) -> None:
        """Registers to LDS, quantised."""
        k, own, count = self.k, self.k.wave, len(self.loads)
        for cell in range(count):
            tile, exponents, words = (made[t, cell % self.sets] for made in (self.elements, self.exponents, self.words))
            raw = self.raw[t, cell]
            ag.quantise(k, tile, exponents, raw, rounding=k.p.rounding)
            ag.pack_scales(k, ag.as_scales(words, self.order), exponents, tile)
            ag.write(k, self.shared.read[t, cell].part(own), tile)
            ag.write(k, self.scales[t].part(ag.PartOf(count * own.count, first=cell * own.count, wave=own)), words)

    def read(self, t: ag.StepIndex) -> None:
        """LDS to registers: the scales of both halves."""
        for half in range(2):
            part = ag.PartOf(2 * self.waves.count, first=half * self.waves.count, wave=self.waves)
            ag.read(self.k, self.held[t, half], self.scales[t].part(part))

    def half(self, t: ag.StepIndex, number: int) -> ag.Scales:
        """The scales of a half of the tile."""
        tile = self.held[t, number]
        return ag.Scales(tile.name, tile.registers, tile.index, self.order)


def shared_quantised(k: ag.TileBuilder, fragment: ag.Fragment, a: OperandRows, cells: int, waves: ag.WaveIndex,
                     beside: int) -> SharedQuantised:
    """The way of A, which is multiplied in fragments `fragment`, from its rows. `beside` are the VGPRs of A and B that are multiplied."""
    (tm, _, depth), own = k.variant.tile, k.wave
    k.s_setreg_imm32_b32(KEEP_SUBNORMAL, 3)
    like = k.matrix_shape("scale_f32_16x16x128_f8f6f4", cbsz=ag.F8F6F4_FORMATS.index("fp4"), blgp=ag.F8F6F4_FORMATS.index("fp4")).b
    lanes, rows = ag.with_dtype(like, fragment.dtype), tm // cells // own.count
    order = ag.ScaleOrder(rows // like.rows, depth // like.columns)
    one_word = ag.scale_words(k.matrix_shape("scale_f32_16x16x128_f8f6f4"))
    each = cells * rows * depth // ag.LANES // 2  # two elements a register
    steps = max(1, min(_MOST_HELD, (_VGPRS - _OTHERS - beside) // each))
    sets = 1 if steps == 1 else cells  # where registers are short, one cell is quantised after the other
    raw = k.tile("R", rows, depth, ag.with_dtype(like, k.p.a_dtype), grid=(cells,), stages=steps, note="a wave's share, [cell]")
    elements = k.tile("Q", rows, depth, lanes, grid=(sets,), stages=1, note="the same quantised")
    exponents = k.tile("E", rows, depth // BLOCK, ag.exponent_fragment(lanes), grid=(sets,), stages=1)
    words = k.tile("W", 1, ag.LANES, one_word, grid=(sets,), stages=1, note="its scales")
    held = k.tile("SA", tm // 2 // waves.count // rows, ag.LANES, one_word, grid=(2,), stages=2, note="[half of M]")
    serves = (ag.FragmentRead(fragment), ag.FragmentRead(lanes, write=True))
    shared = k.shared("As", fragment.dtype, tm // cells, depth, stages=_BUFFERS, grid=(cells,), serves=serves)
    scales = k.shared("SAs", "i32", tm // rows, ag.LANES, stages=_BUFFERS,
                      serves=(ag.FragmentRead(one_word), ag.FragmentRead(one_word, write=True)))
    loads = []
    for part in a.rows.parts(cells):
        (found,) = operand_loads(k, (OperandRows(a.source, part),), raw.tiles[0], 1, own, k.p.a_dtype)
        part.resource(k)
        loads.append(replace(found, together=True))
    both = OperandInLds(shared, shared)
    return SharedQuantised(k, tuple(loads), raw, elements, exponents, words, held, both, scales, waves, order, steps, sets)
