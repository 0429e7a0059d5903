"""Quantisation to 8 bits with a float32 scale for the tensor, for each row or for 128 columns of a row."""

from __future__ import annotations

from collections.abc import Callable

import asmgen as ag
from asmgen.kernels.quantize.blockwise import by_blocks
from asmgen.kernels.quantize.bothways import both_ways
from asmgen.kernels.quantize.family import QUANTIZE
from asmgen.kernels.quantize.formats import BYTES, GROUP, group_of, is_blocks
from asmgen.kernels.rows.eightbits import LARGEST, keep_below_largest, reciprocal, scale_of_largest
from asmgen.kernels.rows.rowfigures import RowFigures
from asmgen.kernels.rows.rowshape import PER_LANE, shape_of
from asmgen.kernels.rows.rowsums import RowSums, largest_magnitude
from asmgen.kernels.rows.rowtensors import RowTensor, RowWalk, parts_of, row_tile
from asmgen.kernels.rows.variants import row_variants
from asmgen.kernels.rows.weights import Weights, weigh


@row_variants(QUANTIZE)
def by_rows(k: ag.TileBuilder) -> None:
    """Load, largest magnitude, scale and its reciprocal, products, bytes, store."""
    if k.p.columnwise or is_blocks(k.parameters):
        (both_ways if k.p.columnwise else by_blocks)(k)
        return
    shape, to = shape_of(k.variant, k.p.columns), BYTES[k.p.to]

    # register plan
    walk = RowWalk(k, shape)
    x, d = RowTensor(walk, "x", str(k.parameters["from"])), RowTensor(walk, "d", to, one_before=True)
    X, R, D = x.raw("X"), row_tile(k, "R", "f32", shape), row_tile(k, "D", to, shape)
    scales = _Scales(walk, R)
    smooth = [Weights(walk, "smooth_scale", str(k.parameters["from"]), R, kept=True)] if k.p.smooth else []

    def advance() -> None:
        d.go_on()
        walk.look_ahead()
        x.go_on()

    x.load(X)
    walk.begin("rows")
    x.widen(R, X)
    if smooth:
        weigh(k, R, smooth)
    scales.find(R, advance)
    x.load(X)
    scales.apply(R)
    ag.convert(k, D, R)
    d.store(D)
    scales.end()
    walk.go_on("rows")


class _Scales:
    """The scales of a build's groups: of rows, or of 128 columns, which are rows of four groups in 16 lanes each."""

    def __init__(self, walk: RowWalk, R: ag.Tile) -> None:
        k = walk.k
        self.k, self.walk, self.group = k, walk, group_of(k.parameters)
        self.largest = LARGEST[k.p.to, k.p.encoding]
        lanes = k.lanes("f32", PER_LANE, GROUP // PER_LANE)
        self.parts = [R] if self.group != str(GROUP) else [ag.Tile(part.name, lanes.rows, GROUP, lanes, part.registers)
                                                           for part in parts_of(R)]
        self.scales = [ag.row_vector(k, f"scale{number}", part) for number, part in enumerate(self.parts)]
        self.scale = self.scales[0]
        self.inverse = ag.row_vector(k, "inverse", self.parts[0], apart=True)
        if self.group == "tensor":
            self._given()
        elif self.group == "token":
            self.sums, self.figures = RowSums(walk), RowFigures(walk, "scale")
        else:
            self.figures = RowFigures(walk, "scale", -(-walk.shape.columns // GROUP))

    def _given(self) -> None:
        k = self.k
        (scale,) = self.scale.registers.items
        with k.scratch("given", file="s") as given:
            k.s_load_dword(given, k.argument("scale"), 0)
            k.v_mov_b32(scale, given)
        reciprocal(k, self.inverse, self.scale)
        if k.p.to != "int8":
            keep_below_largest(k)

    def find(self, R: ag.Tile, advance: Callable[[], None]) -> None:
        """The scale of each row and its reciprocal. `advance` emits scalar code."""
        k = self.k
        if self.group == "token":
            largest_magnitude(k, self.scale, R)
            self.sums.finish("max", self.scale, advance)
            self._from_largest(self.scale)
            self.figures.store(self.scale)
        else:
            advance()

    def _from_largest(self, scale: ag.Vector) -> None:
        scale_of_largest(self.k, scale, self.inverse, self.largest)

    def apply(self, R: ag.Tile) -> None:
        """R in units of the scales; those of groups of columns are found here."""
        k = self.k
        if self.group != str(GROUP):
            ag.mul(k, R, R, self.inverse)
            return
        for scale, part in zip(self.scales, self.parts, strict=True):
            largest_magnitude(k, scale, part)
        ag.over_lanes(k, "v_max_f32", [scale.registers.items[0] for scale in self.scales], self.scale.shared_lanes)
        for number, (scale, part) in enumerate(zip(self.scales, self.parts, strict=True)):
            self._from_largest(scale)
            self.figures.store_part(scale, number)
            ag.mul(k, part, part, self.inverse)

    def end(self) -> None:
        """At the end of the loop."""
        if self.group == "token":
            self.sums.guard()
        elif self.group == str(GROUP):
            self.figures.go_on()
