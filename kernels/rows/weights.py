"""Factors and addends of columns: in registers for all rows where there is room (budget.py), else from L2 for each row, a run of columns
ahead."""

from __future__ import annotations

from collections.abc import Sequence

import asmgen as ag
from asmgen.kernels.rows.rowtensors import RowWalk, lane_bytes, load_run, parts_of


class Weights:
    """The numbers at pointer argument `name`, one for each column of tiles like that one, in float32 where they are used. `kept`: for all
    rows; else tiles have runs of PER_LANE neighbours. `late`: `arrive` comes between their loads and the rows, so that others load
    beside."""

    def __init__(self, walk: RowWalk, name: str, dtype: str, like: ag.Tile, kept: bool,
                 late: bool = False) -> None:
        k, shape = walk.k, walk.shape
        self.k, self.walk, self.dtype, self.size = k, walk, dtype, ag.element_bits(dtype) // 8
        self.line = k.line(name, dtype, shape.columns)
        self.line.resource(k)
        self.kept = kept
        one = like if self.kept else parts_of(like)[0]
        self.ready = ag.column_vector(k, name, one)
        if not self.kept:
            lane_bytes(walk, self.size)
            self.raw = [ag.column_vector(k, f"{name}_raw{number}", one, dtype=dtype) for number in range(2)]
        else:
            self.raw = [self.ready if dtype == "f32" else ag.column_vector(k, f"{name}_raw", one, dtype=dtype)]
            ag.load(k, self.raw[0], self.line, columns=walk.along)
            k.registers.release(self.line.resource(k))
            if not late:
                self.arrive()

    def arrive(self) -> None:
        """Wait for what all rows keep, in float32."""
        if self.kept and self.raw[0] is not self.ready:
            self._widen(self.raw[0])
            self.k.registers.release(self.raw[0].name)

    def ask(self, number: int) -> None:
        """Load run `number` of a row."""
        k, walk, raw = self.k, self.walk, self.raw[number % 2]
        if number != walk.shape.cut_run or walk.shape.columns * self.size % 4 == 0:
            (registers,) = raw.registers.parts
            load_run(walk, registers, self.line.resource(k), self.size, number)
        else:
            ag.load(k, raw, self.line, columns=walk.runs, column=number * raw.size)

    def of(self, number: int) -> ag.Vector:
        """Run `number`, which was asked for."""
        self._widen(self.raw[number % 2])
        return self.ready

    def _widen(self, raw: ag.Vector) -> None:
        (ag.move if self.dtype == "f32" else ag.convert)(self.k, self.ready, raw)


def weigh(k: ag.TileBuilder, tile: ag.Tile, weights: Sequence[Weights]) -> None:
    """tile = tile w + b, or tile w."""
    if weights[0].kept:
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
