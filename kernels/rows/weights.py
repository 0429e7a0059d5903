"""Factors and addends of columns: in registers for all rows where there is room, else from L2 for each row, a run of columns ahead."""

from __future__ import annotations

from collections.abc import Sequence

import asmgen as ag
from asmgen.kernels.rows.rowtensors import RowWalk, parts_of


class Weights:
    """The numbers at pointer argument `name`, one for each column of tiles like that one, in float32 where they are used."""

    def __init__(self, walk: RowWalk, name: str, dtype: str, like: ag.Tile) -> None:
        k, shape = walk.k, walk.shape
        self.k, self.walk, self.dtype = k, walk, dtype
        self.line = k.line(name, dtype, shape.columns)
        self.line.resource(k)
        kept = shape.keeps_weights
        one = like if kept else parts_of(like)[0]
        self.ready = ag.column_vector(k, name, one)
        self.raw = [ag.column_vector(k, f"{name}_raw{number}", one, dtype=dtype) for number in range(1 if kept else 2)]
        if kept:
            ag.load(k, self.raw[0], self.line, columns=walk.along)
            self._widen(self.raw[0])
            k.registers.release(f"{name}_raw0")

    def ask(self, number: int) -> None:
        """Load run `number` of a row."""
        shape = self.walk.shape
        runs = ag.WaveIndex("first_run", self.walk.first_run, shape.waves * shape.fragments)
        raw = self.raw[number % 2]
        ag.load(self.k, raw, self.line, columns=runs, column=number * raw.size)

    def of(self, number: int) -> ag.Vector:
        """Run `number`, which was asked for."""
        self._widen(self.raw[number % 2])
        return self.ready

    def _widen(self, raw: ag.Vector) -> None:
        (ag.move if self.dtype == "f32" else ag.convert)(self.k, self.ready, raw)


def weigh(k: ag.TileBuilder, tile: ag.Tile, weights: Sequence[Weights]) -> None:
    """tile = tile w + b, or tile w."""
    if weights[0].walk.shape.keeps_weights:
        _apply(k, tile, [one.ready for one in weights])
        return
    parts = parts_of(tile)
    for one in weights:
        one.ask(0)
    for number, part in enumerate(parts):
        if number + 1 < len(parts):
            for one in weights:
                one.ask(number + 1)
        _apply(k, part, [one.of(number) for one in weights])


def _apply(k: ag.TileBuilder, tile: ag.Tile, vectors: Sequence[ag.Vector]) -> None:
    if len(vectors) == 1:
        ag.mul(k, tile, tile, vectors[0])
        return
    factors, addends = vectors
    ag.fma(k, tile, tile, factors, addends)
