"""Loads of A and B straight into the registers of fragments."""

from __future__ import annotations

from collections.abc import Sequence

import asmgen as ag
from asmgen.kernels.gemm_mx.formats import FRAGMENT_ROWS, bits_of
from asmgen.kernels.gemm_mx.operands import OperandRows
from asmgen.kernels.gemm_mx.streamloads import LanePiece, StepLoads, step_loads


def operand_loads(k: ag.TileBuilder, planes: Sequence[OperandRows], tile: ag.Tile, halves: int, waves: ag.WaveIndex, dtype: str) \
        -> tuple[StepLoads, ...]:
    """The loads of A or B, a plane each, into tiles like one of `halves`. A lane has the bytes of 32 neighbouring elements of each
    fragment, or, of 8 bits and what becomes 8 bits, of 16 of each half of its columns. Shuffled weights and planes have those of all lanes
    side by side."""
    found, before = [], 0
    f, bits = tile.fragment, bits_of(dtype)
    runs = 1 if all(column == number for number, (_, column) in enumerate(line[0] for line in f.table)) else 2
    for operand in planes:
        source = operand.source
        bytes_ = source.ahead * f.columns // tile.columns
        lane = operand.chunk or 32 // runs * bits // 8
        each = f.registers // runs if len(planes) == 1 else lane // 4
        parts = [(before + first + run * each, count, 4 * first + run * bytes_ // runs)
                 for run in range(runs) for first, count in _wide(each)]
        pieces = tuple(LanePiece(row, number * f.registers + first, count, column * bytes_ + more)
                       for number, (row, column) in enumerate(tile.positions()) for first, count, more in parts)
        found.append(step_loads(k, operand.rows, source.ahead, pieces, lane, waves, source.limit, source.jump, halves,
                                FRAGMENT_ROWS // source.together))
        before += each
    return tuple(found)


def _wide(registers: int) -> list[tuple[int, int]]:
    """(first, count) of the registers that each load of a lane's neighbours moves."""
    return [(first, min(4, registers - first)) for first in range(0, registers, 4)]
