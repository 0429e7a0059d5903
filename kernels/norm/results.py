"""What becomes of normalised rows: a type's numbers, 8 bits with a scale for each row, or MX blocks with a scale for 32 columns."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.norm.tensors import BLOCKS, EIGHT, row_bytes
from asmgen.kernels.rows.absent import replace_beyond
from asmgen.kernels.rows.blockscales import BLOCK, BlockScales
from asmgen.kernels.rows.eightbits import LARGEST, scale_of_largest
from asmgen.kernels.rows.rowfigures import RowFigures
from asmgen.kernels.rows.rowshape import PER_LANE
from asmgen.kernels.rows.rowsums import RowSums, largest_magnitude
from asmgen.kernels.rows.rowtensors import RowTensor, RowWalk, narrow


class Results:
    """Rows of d in a type of 16 or 32 bits. `find` comes before the walk looks ahead, `store` after all changes of R."""

    def __init__(self, walk: RowWalk, R: ag.Tile) -> None:
        k = walk.k
        self.k, self.R = k, R
        self.tensor = self._tensor(walk)

    def find(self) -> None:
        """The places of the group in work."""

    def store(self) -> None:
        """R in the type of d, made in place; then to the next group."""
        D = self.R if self.k.p.out == "f32" else ag.narrowed(self.R, self.k.p.out)
        narrow(self.k, D, self.R, self.k.p.dtype)
        self.tensor.store(D)

    def _tensor(self, walk: RowWalk) -> RowTensor:
        return RowTensor(walk, "d", self.k.p.out, self.k.p.access == "element", one_before=True)


class ScaledResults(Results):
    """Rows of 8 bits in units of scales of their own, which are stored (docs/facts/row_kernels.md section 5)."""

    def __init__(self, walk: RowWalk, R: ag.Tile, sums: RowSums) -> None:
        super().__init__(walk, R)
        self.sums, self.figures = sums, RowFigures(walk, "scale")
        self.scale, self.inverse = ag.row_vector(self.k, "scale", R), ag.row_vector(self.k, "inverse", R, apart=True)

    def store(self) -> None:
        """R / scale, and the scale of each row."""
        k = self.k
        largest_magnitude(k, self.scale, self.R)
        self.sums.finish("max", self.scale)
        scale_of_largest(k, self.scale, self.inverse, LARGEST[EIGHT, k.p.encoding])
        self.figures.store(self.scale)
        ag.mul(k, self.R, self.R, self.inverse)
        super().store()


class BlockResults(Results):
    """MX blocks and their scales; a wave has one row at most."""

    def __init__(self, walk: RowWalk, R: ag.Tile) -> None:
        super().__init__(walk, R)
        k = self.k
        self.D = k.tile("D", 1, R.columns, ag.with_dtype(R.fragment, BLOCKS[k.p.out]))
        self.exponents = k.tile("exponents", 1, R.columns // BLOCK, ag.exponent_fragment(R.fragment))
        self.scales = BlockScales(walk, PER_LANE, R.columns, k.p.layout)

    def find(self) -> None:
        """The scales of the group in work."""
        self.scales.find()

    def store(self) -> None:
        """Blocks and scales of R."""
        k, D = self.k, self.D
        if k.p.layout == "shuffled":
            replace_beyond(k, self.R, self.tensor.walk, 0.0)  # pads have zeros, and no NaN of the row
        ag.quantise(k, D, self.exponents, self.R, rounding=k.p.rounding)
        self.tensor.store(ag.as_bytes(D) if ag.element_bits(D.dtype) < 8 else ag.narrowed(D, "i8"))
        self.scales.store(self.exponents)

    def _tensor(self, walk: RowWalk) -> RowTensor:
        return RowTensor(walk, "d", "i8", one_before=True, columns=row_bytes(self.k.parameters))


def results_of(walk: RowWalk, R: ag.Tile, sums: RowSums) -> Results:
    """What the build asks for."""
    out = walk.k.p.out
    return BlockResults(walk, R) if out in BLOCKS else ScaledResults(walk, R, sums) if out == EIGHT else Results(walk, R)
