"""Which tile of the output each workgroup of a grid makes, and on which XCD it runs, as numbers.

The HipKittens paper, section 3.4 and Algorithm 1; the MXFP4 article for the rotation. `asmgen.author.address.tileorder` emits the same as
scalar code; a test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass

from asmgen.isa.arch import XCDS
from asmgen.isa.errors import AsmgenError


def chunk_by_xcd(number: int, tiles: int, chunk: int) -> int:
    """The new number of workgroup `number` of `tiles`: chunks of neighbours on one XCD; what follows the last whole round stays.

    As the algorithm is printed it moves nothing in a grid without one whole round, but table 4 has chunks of 542 for 4332 tiles: there an
    XCD's run begins at its multiple of ceil(tiles / 8), and the workgroups whose number would lie after the end take, in order, the last
    tiles of the runs that are one short.
    """
    chunk = min(chunk, -(-tiles // XCDS))
    local, xcd = divmod(number, XCDS)
    moved = local // chunk * XCDS * chunk + xcd * chunk + local % chunk
    whole_rounds = tiles // (XCDS * chunk)
    if whole_rounds:
        return moved if number < whole_rounds * XCDS * chunk else number
    if moved < tiles:
        return moved
    after = moved - tiles - (xcd - tiles // chunk)  # how many workgroups past the end have lower numbers: a run's gap is none
    return (tiles % XCDS + after + 1) * chunk - 1


def rotate_by_xcd(number: int, tiles: int) -> int:
    """The new number of workgroup `number` of `tiles`: an unbroken run for each XCD, one longer for the first tiles mod 8 of them."""
    local, xcd = divmod(number, XCDS)
    return xcd * (tiles // XCDS) + min(xcd, tiles % XCDS) + local


def window_order(number: int, rows: int, columns: int, window: int) -> tuple[int, int]:
    """(row, column) of the tile with that number: windows of `window` rows, down each column of a window first."""
    group, local = divmod(number, window * columns)
    first = group * window
    height = min(rows - first, window)
    return first + local % height, local // height


@dataclass(frozen=True)
class GridOrder:
    """An order of the tiles of a grid: row-major without `window`, no renumbering without `chunk`, or `rotated` in its place.

    Raises AsmgenError for sizes below 1, or a chunk and a rotation together.
    """

    rows: int
    columns: int
    window: int | None = None
    chunk: int | None = None
    rotated: bool = False

    def __post_init__(self) -> None:
        for name in ("rows", "columns", "window", "chunk"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise AsmgenError(f"a grid with {name} {value} has no order; 1 or more would work")
        if self.chunk is not None and self.rotated:
            raise AsmgenError("an order has a chunk or is rotated, not both")

    @property
    def tiles(self) -> int:
        """How many."""
        return self.rows * self.columns

    def place(self, number: int) -> tuple[int, int]:
        """(row, column) of the tile of workgroup `number`, counted as the hardware starts them."""
        if self.chunk is not None:
            number = chunk_by_xcd(number, self.tiles, self.chunk)
        elif self.rotated:
            number = rotate_by_xcd(number, self.tiles)
        if self.window is None:
            return divmod(number, self.columns)
        return window_order(number, self.rows, self.columns, self.window)

    def tiles_in_order(self) -> list[tuple[int, int]]:
        """Of all workgroups, in their order."""
        return [self.place(number) for number in range(self.tiles)]
