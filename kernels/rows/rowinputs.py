"""An input of rows that is added to others, run by run."""

from __future__ import annotations

from collections.abc import Iterator

import asmgen as ag
from asmgen.kernels.rows.rowtensors import RowTensor, parts_of, row_tile


class AddedRows:
    """The rows of a tensor, a run of columns at a time in float32. `ahead`: they load for the next group while one is made; else a run
    loads while the one before is added."""

    def __init__(self, tensor: RowTensor, name: str, ahead: bool) -> None:
        self.k, self.tensor, self.name, self.ahead = tensor.k, tensor, name, ahead
        if ahead:
            self.row = tensor.raw(name)
            self.runs = parts_of(self.row)
        else:
            self.runs = [tensor.raw_run(f"{name}{number}") for number in range(2)]

    def ask(self) -> None:
        """Load the rows of the group that the tensor is at, or as much of them as comes before they are used."""
        if self.ahead:
            self.tensor.load(self.row)
        else:
            self.tensor.load_run(self.runs[0], 0)

    def beside(self, tile: ag.Tile) -> Iterator[tuple[ag.Tile, ag.Tile]]:
        """The runs of a tile of float32, each with what is to be added to it, which the next one overwrites."""
        parts = parts_of(tile)
        added = row_tile(self.k, f"{self.name}_run", "f32", self.tensor.shape, 1)
        for number, part in enumerate(parts):
            if not self.ahead and number + 1 < len(parts):
                self.tensor.load_run(self.runs[(number + 1) % 2], number + 1)
            self.tensor.widen(added, self.runs[number if self.ahead else number % 2])
            yield part, added
        self.k.registers.release(f"{self.name}_run")
