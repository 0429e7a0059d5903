"""The check of tiles with stages: what an operation reads is of its own iteration.

A stage is for one iteration at a time. An operation that overwrites it for a later one too early, or reads it before its own iteration's
data are there, finds another iteration's: in emission order already, so that no schedule could be right.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from asmgen.author.loop.stepunits import CopySpan, StepUnits
from asmgen.author.step.effects import Unit
from asmgen.author.step.iterations import PipelineError, StepIndex
from asmgen.author.step.reaching import Parts

if TYPE_CHECKING:
    from asmgen.author.emit.builder import Builder


@runtime_checkable
class _Staged(Protocol):
    """A tile with stages in registers; each of its `tiles` has `registers` and a `name`."""

    stages: int
    tiles: tuple[Any, ...]


def check_buffers(k: Builder, units: StepUnits) -> None:
    """Raises PipelineError for a unit that reads a stage of a tile where another iteration's operation has written last."""
    grids = [made for made in k.tiles.values() if isinstance(made, _Staged) and made.stages > 1]
    staged = reduce(or_, (tile.registers.mask for grid in grids for tile in grid.tiles), 0)
    if not staged:
        return
    shape = units.shape
    phases = [units.kept(CopySpan(phase, masked=True)) for phase in range(shape.unroll)]
    parts = Parts([unit for phase in phases for unit in phase])
    read = _indexed([{unit.tag.ordinal: unit.effects.reads & staged for unit in phase} for phase in phases])
    written = _indexed([{unit.tag.ordinal: unit.effects.writes & staged for unit in phase} for phase in phases])
    before: dict[int, tuple[int, Unit]] = {}  # by register set: the iteration that wrote it last, and the unit
    for step in range(shape.ahead + 2 * shape.unroll):
        for unit, reads, writes in zip(phases[step % shape.unroll], read[step % shape.unroll], written[step % shape.unroll], strict=True):
            offset = shape.offsets[unit.tag.ordinal]
            for part in parts.of(reads & ~writes):
                iteration, writer = before.get(part, (step + offset, unit))
                if iteration != step + offset:
                    raise PipelineError(_sentence(grids, unit, part, offset, iteration - step - offset, writer), unit.first.where())
            before.update(dict.fromkeys(parts.of(writes), (step + offset, unit)))


def _indexed(masks: Sequence[dict[int, int]]) -> list[list[int]]:
    """The masks of each phase by ordinal, in order, without those that are the same in all phases: a unit that names a stage itself."""
    fixed = {ordinal for ordinal, mask in masks[0].items() if all(other[ordinal] == mask for other in masks[1:])}
    return [[0 if ordinal in fixed else mask for ordinal, mask in phase.items()] for phase in masks]


def _sentence(grids: Sequence[_Staged], unit: Unit, part: int, offset: int, later: int, writer: Unit) -> str:
    tile = next(tile for grid in grids for tile in grid.tiles if tile.registers.mask >> part & 1)
    stages = next(grid.stages for grid in grids if tile in grid.tiles)
    far = f"{abs(later)} iteration{'s' * (abs(later) > 1)} {'later' if later > 0 else 'earlier'}"
    return (f"{unit} reads {tile.name} for iteration {StepIndex.text(offset)}, where {writer} ({writer.first.where()}) has written for "
            f"{far}: {stages} stages hold as many iterations. More stages, or a read before that write, would do")
