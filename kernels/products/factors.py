"""Factors of accumulators, which the epilogue multiplies into the stored values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import asmgen as ag


@dataclass(frozen=True)
class Factors:
    """The factors of accumulators: one for `all` (a pair of equal SGPRs), or factors of `rows` and `columns`, by the position of a run.

    A row has a pair of VGPRs and the index of its factor in the pair. A column has a VGPR for each value of the run. Both are empty if
    there is one factor for all.
    """

    k: ag.TileBuilder
    all: ag.Reg
    rows: dict[int, tuple[ag.Reg, int]]
    columns: dict[int, ag.Reg]

    @property
    def differ(self) -> bool:
        """Whether accumulators have different factors."""
        return bool(self.columns)

    def change(self, run: ag.ColumnRun, values: Sequence[ag.Reg], shadow: bool = False) -> None:
        """Multiply a run's values, in VGPRs. In the `shadow` of matrix instructions that takes unpacked instructions; packed ones stall
        there."""
        if shadow:
            for number, value in enumerate(values):
                for factor in self._single(run, number):
                    self.k.v_mul_f32(value, factor, value)
            return
        for pair in range(0, len(values), 2):
            two = ag.span(values[pair:pair + 2])
            if self.differ:
                self.k.v_pk_mul_f32(two, two, self.columns[run.column][pair:pair + 1])
                both, one = self.rows[run.row]
                if one and self.k.arch in ag.PACKED_ODD_LOW.archs:
                    for value in values[pair:pair + 2]:
                        self.k.v_mul_f32(value, both[one], value)
                else:
                    self.k.v_pk_mul_f32(two, two, both, op_sel=(0, one), op_sel_hi=(1, one))
            else:
                self.k.v_pk_mul_f32(two, two, self.all)

    def _single(self, run: ag.ColumnRun, number: int) -> Sequence[ag.Reg]:
        """The factors of one value of a run."""
        if not self.differ:
            return (self.all[0],)
        both, one = self.rows[run.row]
        return self.columns[run.column][number], both[one]

    def apply(self, corner: ag.Corner) -> None:
        """Multiply a corner's accumulators, in VGPRs."""
        for run in ag.runs_of([corner], ag.run_length(corner.tile)):
            self.change(run, run.registers)

    def forget(self) -> None:
        """Set the factor for all to 1, as the accumulators have been multiplied."""
        for number in range(2):
            self.k.s_mov_b32(self.all[number], ag.ONE)

    def of(self, corner: ag.Corner) -> list[ag.Reg]:
        """The registers of a corner's columns, then of its rows; a last row without a pair is listed twice."""
        if not self.differ:
            return []
        rows, columns = _corner_rows(corner)
        of_rows = [both[one] for both, one in map(self.rows.__getitem__, rows)]
        return [held[number] for held in map(self.columns.__getitem__, columns) for number in range(held.count)] \
            + of_rows + of_rows[len(rows) // 2 * 2:]

    def at(self, copy: ag.MovedCorner) -> Factors:
        """The factors of a corner whose registers, those of `of`, were moved for `each_corner`."""
        if copy.beside is None:
            return self
        rows, columns = _corner_rows(copy.corner)
        run, held = ag.run_length(copy.corner.tile), copy.beside
        held_columns = run * len(columns)
        return Factors(self.k, self.all,
                       {row: (held[number // 2 * 2:number // 2 * 2 + 1], number % 2) for number, row in enumerate(rows, held_columns)},
                       {column: held[run * number:run * number + run - 1] for number, column in enumerate(columns)})


def _corner_rows(corner: ag.Corner) -> tuple[list[int], list[int]]:
    """The rows and the columns of a corner's runs, in order."""
    runs = list(ag.runs_of([corner], ag.run_length(corner.tile)))
    return sorted({run.row for run in runs}), sorted({run.column for run in runs})
