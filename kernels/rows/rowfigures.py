"""Figures of rows in memory: a float32 for each row, or for each so many columns of one."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.rows.rowtensors import RowTensor, RowWalk


class RowFigures:
    """The figures at pointer argument `name`: one for each row, or `columns` of them, in rows that lie `name`_stride apart; then a wave has
    one row at most, and a fragment of it has ag.LANES // 16 figures."""

    def __init__(self, walk: RowWalk, name: str, columns: int = 0) -> None:
        k = walk.k
        self.k, self.walk, self.columns = k, walk, columns
        if not columns:
            self.line = k.line(name, "f32", "rows")
            self.line.resource(k)
            return
        self.tensor = RowTensor(walk, name, "f32", columns=columns)

    def store(self, values: ag.Vector) -> None:
        """One figure for each row, by the first of the lanes that have it; rows beyond the last one lie beyond the line."""
        k, shape = self.k, self.walk.shape
        (value,) = values.registers.items
        first_lanes = sum(1 << lane for lane in range(0, ag.LANES, shape.across))
        with k.scratch("row_of_wave", file="s") as row, k.scratch("at") as at:
            k.s_mul_i32(row, k.wave.register, 0 if shape.shares_waves else shape.wave_rows)
            k.s_add_u32(row, row, self.walk.first)
            k.v_lshrrev_b32(at, shape.across.bit_length() - 1, k.lane)
            k.v_add_u32(at, row, at)
            k.v_lshlrev_b32(at, 2, at)
            if shape.shares_waves:
                k.s_cmp_eq_u32(k.wave.register, 0)
                k.s_cselect_b64(ag.exec_, 1, 0)
            else:
                k.s_mov_b32(ag.exec_[0], first_lanes & 0xFFFFFFFF)
                k.s_mov_b32(ag.exec_[1], first_lanes >> 32)
            k.buffer_store_dword(value, at, self.line.resource(k), 0, offen=True)
            k.s_mov_b64(ag.exec_, -1)

    def load(self, values: ag.Vector, ahead: bool = False) -> None:
        """One figure for each row of the group in work, or of the next one, into all lanes that have it; 0 for rows beyond the last one."""
        k, shape = self.k, self.walk.shape
        (value,) = values.registers.items
        with k.scratch("row_of_wave", file="s") as row, k.scratch("at") as at:
            k.s_mul_i32(row, k.wave.register, 0 if shape.shares_waves else shape.wave_rows)
            k.s_add_u32(row, row, self.walk.first)
            k.v_lshrrev_b32(at, shape.across.bit_length() - 1, k.lane)
            if ahead:
                k.s_add_u32(row, row, shape.rows)
            k.v_add_u32(at, row, at)
            k.v_lshlrev_b32(at, 2, at)
            k.buffer_load_dword(value, at, self.line.resource(k), 0, offen=True)

    def store_part(self, values: ag.Vector, number: int) -> None:
        """The figures of fragment `number` of a row."""
        self.tensor.store_line(values, self.walk.runs, number * values.size)

    def go_on(self) -> None:
        """To the next group, to which the walk has looked ahead."""
        self.tensor.go_on()
