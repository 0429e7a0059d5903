"""Quantisation to MX blocks: 32 columns of a row share a power of 2 (docs/facts/blockscales.md section 1)."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.quantize.formats import BLOCKS, WHOLE, row_bytes
from asmgen.kernels.quantize.shuffledrows import ShuffledRows
from asmgen.kernels.rows.blockscales import BLOCK, BlockScales
from asmgen.kernels.rows.eightbits import MODE, keep_below_largest
from asmgen.kernels.rows.rowshape import PER_LANE, shape_of
from asmgen.kernels.rows.rowtensors import RowTensor, RowWalk
from asmgen.kernels.rows.waitfilling import fill_waits
from asmgen.kernels.rows.weights import Weights, weigh

_KEEPS_SUBNORMALS = 3
"""Of float32: a share of a tiny magnitude is a number, not 0."""


def by_blocks(k: ag.TileBuilder) -> None:
    """Load, scales and elements, store. A lane has whole blocks, or, of a row that would leave most lanes of a wave without any, four
    lanes share one."""
    p, to, source = k.p, BLOCKS[k.p.to], str(k.parameters["from"])
    shape = shape_of(k.variant, p.columns)
    shuffled = p.order == "shuffled"
    run = BLOCK if ag.element_bits(to) == WHOLE or shuffled or 2 * p.columns > BLOCK * ag.LANES else PER_LANE
    wide = -(-p.columns // (run * shape.lanes)) * run * ag.LANES
    lanes = k.lanes(source, run, ag.LANES)

    # register plan
    walk = RowWalk(k, shape)
    x = RowTensor(walk, "x", source)
    d: RowTensor | ShuffledRows = ShuffledRows(walk, to, wide) if shuffled else RowTensor(
        walk, "d", "i8", one_before=True, columns=row_bytes(k.parameters))
    X = k.tile("X", 1, wide, lanes)
    R = k.tile("R", 1, wide, ag.with_dtype(lanes, "f32")) if p.smooth else X
    smooth = [Weights(walk, "smooth_scale", source, R, kept=True)] if p.smooth else []
    D = k.tile("D", 1, wide, ag.with_dtype(lanes, to))
    E = k.tile("E", 1, wide // BLOCK, ag.exponent_fragment(R.fragment))
    scales = BlockScales(walk, run, wide, p.layout)
    set_modes(k, to)
    ag.fill_with(k, D, 0)  # which the parts of its registers are written into

    def make() -> None:
        ag.quantise(k, D, E, R, rounding=p.rounding, shortcuts=ag.Shortcuts(branch=True, saturating=True, begun=True))

    def advance() -> None:
        d.go_on()
        walk.look_ahead()
        x.go_on()

    x.load(X)
    walk.begin("rows")
    if smooth:
        x.widen(R, X)
        weigh(k, R, smooth)
    scales.find()
    fill_waits(k, make, advance)
    x.load(X)
    d.store(ag.as_bytes(D) if ag.element_bits(to) < 8 else ag.Tile(D.name, 1, wide, ag.with_dtype(D.fragment, "i8"), D.registers))
    scales.store(E)
    walk.go_on("rows")


def set_modes(k: ag.TileBuilder, to: str) -> None:
    """What blocks ask of MODE."""
    k.s_setreg_imm32_b32(ag.HwReg(MODE, 4, 2), _KEEPS_SUBNORMALS)
    if ag.element_bits(to) == 8:
        keep_below_largest(k)
