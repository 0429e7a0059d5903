"""The kernel of the family activation: a workgroup makes groups of rows one after the other, a part of their columns at a time, while the
next part loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import asmgen as ag
from asmgen.kernels.activation.family import ACTIVATION, PART
from asmgen.kernels.activation.formulas import ActivationFunction
from asmgen.kernels.activation.tensors import inputs_of, is_gated, limit_of, outputs_of
from asmgen.kernels.rows.rowshape import shape_of
from asmgen.kernels.rows.rowtensors import RowTensor, RowWalk, parts_of, row_tile
from asmgen.kernels.rows.variants import row_variants


@row_variants(ACTIVATION)
def by_rows(k: ag.TileBuilder) -> None:
    """Load, apply, store."""
    p, shape = k.p, shape_of(k.variant, k.p.columns)
    single, part = p.access == "element", replace(shape, columns=min(p.columns, PART))

    # register plan
    walk = RowWalk(k, shape)
    inputs = {name: RowTensor(walk, name, p.dtype, single) for name in inputs_of(k.parameters)}
    outputs = {name: RowTensor(walk, name, p.dtype, single, one_before=True) for name in outputs_of(k.parameters)}
    raw = {name: row_tile(k, name.upper(), "f32" if single else p.dtype, part) for name in inputs}
    wide = {name: row_tile(k, f"{name.upper()}32", "f32", part) for name in inputs}
    results = dict(zip(outputs, wide.values(), strict=False))
    narrow = results if p.dtype == "f32" else {name: row_tile(k, f"{name.upper()}16", p.dtype, part, shares=half)
                                               for name, half in zip(outputs, _halves(wide, single), strict=False)}
    applied = Applied(k, parts_of(wide["x"])[0])

    starts = range(0, p.columns, PART)
    for name, tensor in inputs.items():
        tensor.load(raw[name])
    walk.begin("rows")
    for tensor in outputs.values():
        tensor.go_on()
    for column in starts:
        for name, tensor in inputs.items():
            tensor.widen(wide[name], raw[name])
        if column == starts[-1]:
            walk.look_ahead()
            for tensor in inputs.values():
                tensor.go_on()
        for name, tensor in inputs.items():
            tensor.load(raw[name], 0 if column == starts[-1] else column + PART)
        for pieces in zip(*(parts_of(tile) for tile in wide.values()), strict=True):
            applied.apply(dict(zip(wide, pieces, strict=True)))
        for name, tensor in outputs.items():
            if narrow[name] is not results[name]:
                ag.convert(k, narrow[name], results[name])
            tensor.store(narrow[name], column)
    walk.go_on("rows")


def _halves(wide: Mapping[str, ag.Tile], single: bool) -> tuple[ag.Tile | None, ag.Tile | None]:
    """Where two results become narrow: in the halves of dy, which is read by then, where elements that are loaded one by one leave too few
    registers."""
    dy = wide.get("dy")
    if dy is None or "up" not in wide or not single or dy.across % 2:
        return None, None
    columns = dy.columns // 2
    return dy.part(0, 0, dy.rows, columns), dy.part(0, columns, dy.rows, columns)


class Applied:
    """The activation of pieces like that one, in place: d in x, or dx in x and dup in up."""

    def __init__(self, k: ag.TileBuilder, like: ag.Tile) -> None:
        self.k, self.gated, self.limit = k, is_gated(k.parameters), limit_of(k.parameters)
        names = ("gate", "slope", "cut", "held0", "held1")
        tiles: list[ag.Tile] = [k.tile(name, like.rows, like.columns, like.fragment) for name in names]
        self.gate, self.slope, self.cut, *held = tiles
        self.factor = held[0]  # which the function has no need of when it is done
        self.function = ActivationFunction(k, k.p.kind, k.p.approximate, (held[0], held[1]))

    def apply(self, piece: Mapping[str, ag.Tile]) -> None:
        """One piece of each input."""
        (self._backward if self.k.p.backward else self._forward)(piece)

    def _forward(self, piece: Mapping[str, ag.Tile]) -> None:
        k, x = self.k, piece["x"]
        argument = self._below(x)
        self.function.value(self.gate if self.gated else x, argument, self.gate)
        if self.gated:
            ag.mul(k, x, self.gate, self._factor_of(piece["up"]))

    def _backward(self, piece: Mapping[str, ag.Tile]) -> None:
        """dx = dy f'(x) up and dup = dy f(x); 0 where the limit cuts."""
        k, x, dy = self.k, piece["x"], piece["dy"]
        self.function.both(self.gate, self.slope, self._below(x))
        if not self.gated:
            ag.mul(k, x, self.slope, dy)
            return
        up = piece["up"]
        ag.mul(k, self.slope, self.slope, self._factor_of(up))
        if not self.limit:
            ag.mul(k, x, self.slope, dy)
            ag.mul(k, up, self.gate, dy)
            return
        ag.mul(k, self.slope, self.slope, dy)
        ag.mul(k, self.gate, self.gate, dy)
        ag.where(k, x, ag.compare(x, ">", self.limit), 0.0, self.slope)
        ag.where(k, up, ag.compare(up, ">", self.limit) | ag.compare(up, "<", -self.limit), 0.0, self.gate)

    def _below(self, x: ag.Tile) -> ag.Tile:
        """x, cut above the limit; NaN stays."""
        if not self.limit or not self.gated:
            return x
        ag.where(self.k, self.cut, ag.compare(x, ">", self.limit), self.limit, x)
        return self.cut

    def _factor_of(self, up: ag.Tile) -> ag.Tile:
        """What the gate is multiplied by: up, cut on both sides, and 1 more of swiglu."""
        k, found = self.k, up
        if self.limit:
            ag.where(k, self.factor, ag.compare(up, ">", self.limit), self.limit, up)
            ag.where(k, self.factor, ag.compare(self.factor, "<", -self.limit), -self.limit, self.factor)
            found = self.factor
        if k.p.kind == "swiglu":
            ag.add(k, self.factor, found, 1.0)
            found = self.factor
        return found
