"""Fragments: how one matrix instruction's operand lies in a wave's registers, as tiles are made of it.

    M = mfma("f32_16x16x32_bf16", "gfx950")
    M.a, M.b, M.d          # rows x columns: A 16 x 32 (i, k), B 16 x 32 (j, k), D 16 x 16 (i, j)
    M.d.T                  # the same registers seen as (j, i): a lane's items are then neighbours along a row

B is named by (j, k), a row for each column of the product, as weights lie in memory; `M.b.T` is (k, j).
"""

from __future__ import annotations

import functools
import re

from asmgen.isa.errors import OperandError
from asmgen.isa.layout import Layout, LayoutError
from asmgen.isa.layouts_mfma import element_bits, element_type, operand_layout, packing
from asmgen.isa.mfmaoperands import matrix_row
from asmgen.isa.opcodes.mfma import MFMA, MfmaRow
from asmgen.isa.records import dataclass
from asmgen.regalloc.ranges import author_line


@dataclass(frozen=True)
class Fragment:
    """One base tile in a wave's registers: `layout` maps (item, lane) to (row, column); `bits` is an element's size.

    `row` is the matrix instruction, `operand` which of its operands ("a", "b", "d") this is.
    """

    row: MfmaRow
    operand: str
    dtype: str
    rows: int
    columns: int
    layout: Layout
    registers: int
    transposed: bool = False

    @functools.cached_property
    def bits(self) -> int:
        """Bits of an element."""
        return element_bits(self.dtype)

    @property
    def items(self) -> int:
        """Elements that a lane holds."""
        return self.layout.input_sizes.get("item", 1)

    @property
    def T(self) -> Fragment:
        """The same registers with rows and columns exchanged."""
        transposed = self.layout.renamed(row="column", column="row").only(None, ["row", "column"])
        return Fragment(self.row, self.operand, self.dtype, self.columns, self.rows, transposed, self.registers, not self.transposed)

    @functools.cached_property
    def table(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """(row, column) of each item in each lane: table[item][lane]."""
        lanes = self.layout.along("lane")
        items = self.layout.along("item") if self.items > 1 else [{"row": 0, "column": 0}]
        if any(self.layout(lane=lane, **({"item": item} if self.items > 1 else {}))[name] != at[name] + items[item][name]
               for lane, at in ((0, lanes[0]), (len(lanes) - 1, lanes[-1])) for item in (self.items - 1,) for name in ("row", "column")):
            raise LayoutError(f"items and lanes of {self} do not add up")
        return tuple(tuple((at["row"] + one["row"], at["column"] + one["column"]) for at in lanes) for one in items)

    def same_coordinates(self, other: Fragment) -> bool:
        """Whether both hold equal elements in equal lanes and bits."""
        return self.bits == other.bits and self.layout.same_map(other.layout)

    def __str__(self) -> str:
        return f"{self.row.name} {self.operand}{'.T' if self.transposed else ''} ({self.rows} x {self.columns} {self.dtype})"


@dataclass(frozen=True)
class MatrixShape:
    """One matrix instruction and its operands as fragments; `cbsz` and `blgp` are the formats of A and B of f8f6f4."""

    row: MfmaRow
    arch: str
    cbsz: int = 0
    blgp: int = 0

    @functools.cached_property
    def a(self) -> Fragment:
        """A: rows i, columns k."""
        return self._fragment("a", "i", "k", self.cbsz)

    @functools.cached_property
    def b(self) -> Fragment:
        """B: rows j, columns k."""
        return self._fragment("b", "j", "k", self.blgp)

    @functools.cached_property
    def d(self) -> Fragment:
        """C and D: rows i, columns j."""
        return self._fragment("d", "i", "j", 0)

    @property
    def cycles(self) -> int:
        """Clocks that the matrix core is occupied (4 a pass)."""
        return 4 * self.row.passes_on(self.arch, self.cbsz, self.blgp)

    def _fragment(self, operand: str, row: str, column: str, code: int) -> Fragment:
        layout = operand_layout(self.row, operand, code).renamed(**{row: "row", column: "column"}).only(None, ["row", "column"])
        sizes = layout.output_sizes
        items = layout.input_sizes.get("item", 1)
        registers = packing(self.row, operand, code).registers(items)
        return Fragment(self.row, operand, element_type(self.row, operand, code), sizes["row"], sizes["column"], layout, registers)


def mfma(shape: str, arch: str, cbsz: int = 0, blgp: int = 0) -> MatrixShape:
    """The matrix instruction v_mfma_SHAPE (or v_mfma_scale_SHAPE), for instance "f32_16x16x32_bf16".

    Raises OperandError for one that does not exist or that the architecture lacks, with the nearest ones that it has, and for one of
    several blocks: elements of all blocks have the same rows and columns, so a tile could not tell them apart.
    """
    name = shape if shape.startswith("v_") else f"v_mfma_{shape}"
    try:
        row = matrix_row(name, arch)
    except OperandError as error:
        raise OperandError(f"{error.sentence}; {arch} has {' and '.join(_nearest(name, arch))}", author_line()) from None
    if row.blocks > 1:
        raise OperandError(f"{name} multiplies {row.blocks} blocks of {row.m} x {row.n} at once, and a tile's fragments are of one; take "
                           f"{' or '.join(_nearest(name, arch))}, or write k.{name}(...) yourself", author_line())
    return MatrixShape(row, arch, cbsz, blgp)


def _nearest(name: str, arch: str) -> list[str]:
    """Dense instructions of the architecture, of one block, like another: of its rows, columns and types where there are some."""
    wanted = re.sub(r"_\d+b_", "_", name.replace("scale_", "").replace("f8f6f4", "fp8_fp8"))
    found = re.match(r"(v_mfma_\w+?_\d+x\d+x)\d+(\w*)", wanted)
    dense = [row for row in MFMA if arch in MFMA[row].archs and row.startswith("v_mfma_") and MFMA[row].blocks == 1]
    alike = [row for row in dense if found is not None and row.startswith(found[1]) and row.endswith(found[2])]
    from difflib import get_close_matches  # for errors alone

    return get_close_matches(wanted, alike or dense, 2, 0)
