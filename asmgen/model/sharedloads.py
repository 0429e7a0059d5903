"""Which workgroups of a launch load the same: from the lines that each loads first, or from the tiles of a product."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from asmgen.emulator.scheduling.firstloads import FirstLoads, loads
from asmgen.emulator.scheduling.trace import TracedArgument, WaveTrace
from asmgen.model.gridcache import LARGEST_GRID
from asmgen.model.gridorder import GridOrder
from asmgen.model.traffic import LoadOrder
from asmgen.program.program import Program


def shared_loads(first: FirstLoads, arguments: Sequence[TracedArgument], program: Program, traces: Sequence[WaveTrace]) -> LoadOrder | None:
    """The order of the workgroups that `first` has, of which `traces` has the first ones; None where they load nothing.

    Workgroups whose first lines of an argument are the same load the same slab of it, in as many steps as a wave executes one load.
    """
    starts = {argument.start: number for number, argument in enumerate(arguments)}
    found = [(starts[start], lines) for start, lines in sorted(first.lines.items()) if start in starts]
    if not found:
        return None
    slabs = [np.unique(np.stack([lines.sums, lines.counts.view(np.uint64)]), axis=1, return_inverse=True)[1].reshape(-1).tolist()
             for _, lines in found]
    return LoadOrder(list(zip(*slabs, strict=True)), tuple(number for number, _ in found), _steps(program, traces),
                     f"the addresses of {len(slabs[0])} workgroups")


def tiled_loads(sizes: tuple[int, int, int], tile: tuple[int, int, int], split: int, operands: tuple[int, int],
                workgroups: int) -> LoadOrder | None:
    """The order of a matrix product of m, n and k whose tiles lie row after row, once for each part of K; None for another number of
    workgroups. `operands` are the arguments A and B."""
    (m, n, k), (rows, columns, depth) = sizes, tile
    order = GridOrder(-(-m // rows), -(-n // columns))
    if order.tiles * split != workgroups or workgroups > LARGEST_GRID:
        return None
    slabs = [(row + part * order.rows, column + part * order.columns) for part in range(split) for row, column in order.tiles_in_order()]
    return LoadOrder(slabs, operands, -(-k // (depth * split)), "the order of tiles")


def _steps(program: Program, traces: Sequence[WaveTrace]) -> int:
    """How often a wave executes the same load, the most of all waves and loads, at least 1."""
    loading = {position for position, instruction in enumerate(program.instructions) if loads(instruction)}
    most = 1
    for trace in traces:
        most = max(most, *(count for position, count in Counter(trace.positions).items() if position in loading), most)
    return most
