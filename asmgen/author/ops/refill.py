"""Refills of shared tiles from memory: by LDS-DMA where the architecture has it 16 bytes wide, else through registers.

    way = Refills(k, A.fragment)                         # of rows whose operands are read in such fragments
    As = k.shared("As", "bf16", 128, 64, stages=2, grid=(2,), serves=way.serves, pads=way.dma)
    RA = way.staged("RA", 128, 64, (2,))                 # nothing by DMA; the wave's shares of rows on their way to LDS else
    refill(k, As[t + 1, 1], a[1], RA[1])

Through registers a refill is two operations: what was loaded a step before is written to LDS, and the next iteration's rows are asked for
into the registers that this frees. `way.staged(..., ahead=4)` has registers of several steps, each asked for so many steps before it is
written. `way.steps_ahead(bytes of a step)` is how many a workgroup needs that a compute unit holds by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

from asmgen.author.builders.tilebuilder import TileBuilder
from asmgen.author.ops.movement import fill, write
from asmgen.author.ops.tilememory import load
from asmgen.author.tiles.fragments import Fragment
from asmgen.author.tiles.globals import Rows
from asmgen.author.tiles.shared import SharedPart
from asmgen.author.tiles.swizzles import Access, DmaFill, FragmentRead
from asmgen.author.tiles.tiles import Tile, TileError, TileGrid
from asmgen.author.tiles.views import block_fragment
from asmgen.isa.layouts_lds import DMA_BYTES
from asmgen.isa.timing import gpu_of, timing

_WIDTH = 16  # bytes a lane
_ACROSS = 8  # lanes side by side: 128 bytes of a row


class Refills:
    """How shared tiles whose rows are read as `fragment` get their rows from memory; `dma` says that no register is on the way."""

    def __init__(self, k: TileBuilder, fragment: Fragment) -> None:
        self.k, self.dma = k, _WIDTH in DMA_BYTES[k.arch]
        self._line = block_fragment(fragment, 1, 8 * _WIDTH // fragment.bits, _ACROSS)
        self.serves: tuple[Access, ...] = (FragmentRead(fragment), DmaFill() if self.dma else FragmentRead(self._line, write=True))

    def staged(self, name: str, rows: int, columns: int, count: int, ahead: int = 1) -> Any:
        """`count` register tiles with a wave's share of rows x columns on their way to LDS; as many None by DMA. Each holds `ahead` steps,
        so that a step is asked for so many steps before LDS gets it."""
        if self.dma:
            return (None,) * count
        shape = rows // self.k.variant.wave_count, columns, self._line
        if ahead == 1:
            return self.k.tile(name, *shape, grid=(count,), note="on their way to LDS")
        return tuple(self.k.tile(f"{name}{number}", *shape, stages=ahead, note="on their way to LDS") for number in range(count))


    def steps_ahead(self, step: float) -> int:
        """How many steps of so many bytes have registers, so that far memory never waits for a workgroup by itself: what is on the way must
        not fall below `bytes_on_the_way`, and of the steps all are there but the one whose registers are free next."""
        return 1 + ceil(bytes_on_the_way(self.k.arch) / step)


def bytes_on_the_way(arch: str) -> float:
    """What HBM gives a compute unit by itself in a round trip, rate x latency (Little's law)."""
    table = timing(gpu_of(arch))
    return table["rate_hbm"] * table["latency_hbm"]


def refill(k: TileBuilder, cell: SharedPart, rows: Rows, staged: Tile | TileGrid | None, order: Callable[[int], int] | None = None) -> None:
    """The cell of an iteration gets the rows' columns of it, through registers in an `order` as `load` has it.

    Raises TileError for a cell of no iteration, and as `fill` and `write` do.
    """
    if cell.index is None:
        name = cell.tile.name
        raise TileError(f"refill: {cell} belongs to no iteration; index {name} with the step first, {name}[t + 1]", k.here())
    if staged is None:
        fill(k, cell, rows.k(cell.index))
    else:
        ahead = 1 if isinstance(staged, Tile) else staged.stages
        come, asked = (staged if isinstance(staged, Tile) else staged[cell.index + later] for later in (0, ahead))
        write(k, cell.part(k.wave), come)
        load(k, asked, rows.k(cell.index + ahead), rows=k.wave, order=order)
