"""Persistent products: as many workgroups as the compute units hold take one tile of D after another (`author/loop/chainedpaths.py`).

Workgroup w of G takes tiles w, w + G, w + 2 G and so on, in the order in which a grid of all tiles has them, those of each matrix of a
batch after those of the matrices before. With a G that is a multiple of the number of XCDs a tile stays on its XCD. The first loads of a
tile run while the tile before is stored. The bits are those of a grid of all tiles: the same products in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import asmgen as ag
from asmgen.kernels.products.batch import to_matrices, to_matrix_of_c
from asmgen.kernels.products.contract import DOTS
from asmgen.kernels.products.layouts import by_columns
from asmgen.kernels.products.sides import argument, divide_by_edge, edges

PERSISTENT = ag.Parameter("persistent", "build", bool, "as many workgroups as the compute units hold take one tile after another; the next "
                          "one's loads run while one is stored", default=False)
PERSISTENT_ARGUMENTS = (ag.ContractArgument("batch", "u32", "products of this shape"),
                        ag.ContractArgument("workgroups", "u32", "workgroups of the grid"))
_MOST_TILES = 1 << 30
_TYPICAL_EDGE = 8192
"""Rows and columns of a D that has several of the largest tiles for each workgroup of a GPU."""
_SHARING_EDGE = 6400
"""The same, with tiles of each size that are no whole round on any GPU."""
_FEW_ROWS = 64
"""A tile of no more rows than these serves products of few rows: those of many have tiles that load each element for more of the others."""
_FEW_ROWS_COLUMNS = 32768
"""N of the typical product of few rows: on each GPU all compute units load, with two workgroups of 64 columns on some of them."""
_DOTS_DEPTH = 4096
"""K of the typical dot-products: hidden sizes of models are 2880 to 8192 (`modelshapes`)."""
_WITH_A_ROUND = 5
"""Steps of a loop of three copies whose loads run two steps ahead, with a round of it."""
_LEAST_WORTH = 128 * 256
"""Elements of a tile from which on the next one's loads are worth a build of their own: a D of several rounds of smaller ones has a round
of larger ones, which load less."""
_LEAST_OF_PARTS = 128 * 128
"""The same where its parts of K are made in turn: of all tiles of gfx942 this one takes the least time for many rows."""
LEAST_STEPS = 3
"""Two that are asked for ahead, and one whose sums begin from 0."""
ONE_TILE: dict[str, Any] = {"persistent": False, "stream_k": False}
"""What variants fix whose workgroups make one tile: their loop leaves the epilogue no registers while the next tile's data lies in them, or
is none that goes over from one tile's sources to those of the next."""


def workgroups_of(variant: ag.Variant, builds: str = "persistent=true") -> ag.Parameter:
    """The parameter that says how many there are of `builds`."""
    return ag.Parameter("workgroups", "run", int, f"of {builds}: how many there are at most, as a rule what the compute units hold",
                        default=resident_workgroups(variant), minimum=1, maximum=_MOST_TILES - 1)


def persistent_grid(p: ag.Values, variant: ag.Variant) -> tuple[int, int, int]:
    """A workgroup for each tile, up to so many."""
    return min(tiles_of(p, variant.tile), int(p["workgroups"])), 1, 1


def tiles_of(p: ag.Values, tile: Sequence[int]) -> int:
    """The tiles of all matrices."""
    return int(p["batch"]) * math.prod(-(-edge // size) for edge, size in zip(edges(p), tile, strict=False))


def tile_of(p: ag.Values) -> list[int]:
    """The edges of a tile and its depth."""
    return [int(part) for part in str(p["tile"]).split("x")]


def _rules(name: str) -> tuple[ag.Rule, ...]:
    """Of a build parameter whose workgroups take one tile after another."""
    def rule(needs: str, reads: tuple[str, ...], holds: Callable[[ag.Values], bool]) -> ag.Rule:
        return ag.Rule(f"{name}=true needs {needs}", (name, *reads), lambda p: not p.get(name) or holds(p))

    return (
        rule("a k of whole steps where A or B is stored by columns", ("a_layout", "b_layout", "any_k"),
             lambda p: not p["any_k"] or p["a_layout"] == p["b_layout"] == "row"),
        rule(f"a k of at least {LEAST_STEPS} steps", ("k", "tile"), lambda p: p["k"] >= LEAST_STEPS * tile_of(p)[2]),
        rule(f"fewer than {_MOST_TILES} tiles", ("m", "n", "batch", "tile"), lambda p: tiles_of(p, tile_of(p)) < _MOST_TILES),
    )


def _last_part(p: ag.Values) -> int:
    """Steps of the last of so many parts of K, below 1 where some have none."""
    steps, parts = int(p["k"]) // tile_of(p)[2], int(p["split_k"])
    return steps - (parts - 1) * -(-steps // parts)


def _of_own_parts(needs: str, reads: tuple[str, ...], holds: Callable[[ag.Values], bool]) -> ag.Rule:
    return ag.Rule(f"persistent=true with split_k above 1 needs {needs}", ("persistent", "split_k", *reads),
                   lambda p: not p.get("persistent") or p["split_k"] == 1 or holds(p))


PERSISTENT_RULES = (
    *_rules("persistent"),
    _of_own_parts(f"at least {LEAST_STEPS} steps in each part of K", ("k", "tile"), lambda p: _last_part(p) >= LEAST_STEPS),
    _of_own_parts("reduce=ordered", ("reduce",), lambda p: p["reduce"] == "ordered"),
    _of_own_parts("any_k=false", ("any_k",), lambda p: not p["any_k"]),
)
STREAM_CHAIN_RULES = (
    *_rules("stream_k"),
    ag.Rule("stream_k=true needs split_k=1", ("stream_k", "split_k"), lambda p: not p["stream_k"] or p["split_k"] == 1),
)
"""The same of `streams`, whose workgroups are persistent too."""


def resident_workgroups(variant: ag.Variant) -> int:
    """How many workgroups the compute units of an architecture hold together."""
    together = max(1, (variant.occupancy or 1) * ag.SIMDS // variant.wave_count)
    return together * ag.timing(ag.DEFAULT_GPU[variant.arch]).clocks("compute_units")


def persistent_options(p: ag.Values, variant: ag.Variant) -> list[dict[str, Any]]:
    """What tune tries where a grid of all tiles takes more than a round; with parts of K in turn, where it is more than half of one: other
    forms of these take a launch to add them."""
    asked = {**p, "persistent": True}
    serves = "persistent" in p and dict(variant.further).get("persistent", True) and all(rule.holds(asked) for rule in PERSISTENT_RULES)
    area, tiles = math.prod(variant.tile[:2]), tiles_of(p, variant.tile)
    rounds = tiles / resident_workgroups(variant)
    serves = serves and (rounds > 1 / 2 and area >= _LEAST_OF_PARTS if p.get("split_k", 1) > 1 else rounds > 1 and area >= _LEAST_WORTH)
    return [{"persistent": True, "preload": True}] if serves else []


def several_tiles(contract: ag.KernelContract) -> dict[str, Any]:
    """What differs in the typical problem of a build: persistent workgroups have several tiles each, and those of `streams` shared ones,
    because what lies between two of them has to be in the figures from which a choice is made. Variants of few rows have no more than a
    tile of them, whose rows of B come from far memory: a loop that waits for that has other rounds than one that waits for L2's rate.
    `dots` have at least a round of their loop, by which other numbers of steps are judged."""
    rows, _, depth = map(int, str(contract.parameter("tile").default).split("x"))
    if str(contract.parameter("schedule").default) == DOTS:
        return {"m": rows, "k": max(_DOTS_DEPTH, _WITH_A_ROUND * depth)}
    if set(PERSISTENT_ARGUMENTS) <= set(contract.given):
        sharing = any(one.name == "share" for one in contract.given)
        edge, own_parts = _SHARING_EDGE if sharing else _TYPICAL_EDGE, bool(contract.workspaces) and not sharing
        return {"m": edge // 2 if own_parts else edge, "n": edge}  # two tiles have more than one piece in turn: fewer to trace
    return {"m": rows, "n": _FEW_ROWS_COLUMNS} if rows <= _FEW_ROWS else {}


def item_registers(k: ag.TileBuilder, each: int) -> tuple[ag.Reg, ...]:
    """Those of `Tiles`, whose `own` and `following` item have so many each: its number and matrix, these two, `ended` and `over`."""
    number, matrix, ended, over = (k.registers.sgprs(1, name) for name in ("tile", "matrix", "ended", "over"))
    own, following = (k.registers.sgprs(each, name, align=1) for name in ("own", "following"))
    return number, matrix, own, following, ended, over


@dataclass(frozen=True)
class Tiles:
    """The tiles of a workgroup: the one that is multiplied and stored (`own`), the `following` one, and the one after that, of `row0` and
    `column0`. Of each it has the first row and column and the matrix of a batch; `ended` says that there is none, `over` that none follows.
    All are SGPRs."""

    k: ag.TileBuilder
    number: ag.Reg
    row0: ag.Reg
    column0: ag.Reg
    matrix: ag.Reg
    own: ag.Reg
    following: ag.Reg
    ended: ag.Reg
    over: ag.Reg

    @classmethod
    def of(cls, k: ag.TileBuilder, row0: ag.Reg, column0: ag.Reg) -> Tiles:
        """Those of this workgroup, at its first tile, with the pointers to its matrices. Changes SCC."""
        number, matrix, own, following, ended, over = item_registers(k, 3)
        tiles = cls(k, number, row0, column0, matrix, own, following, ended, over)
        tiles._to_first()
        return tiles

    def _to_first(self) -> None:
        """At the workgroup's first tile, with the pointers to its matrices. Changes SCC."""
        k = self.k
        k.s_mov_b32(self.number, k.ids["x"])
        with k.scratch("tiles", file="s") as total:
            self._locate(total)
        to_matrices(k, self.matrix)
        to_matrix_of_c(k, self.matrix)
        k.s_mov_b32(self.ended, 0)
        self._keep(self.own)

    @property
    def columns(self) -> ag.Reg | None:
        """The columns of K from the first one on of what is loaded next; None: all."""
        return None

    @property
    def own_first(self) -> tuple[ag.Reg, ag.Reg]:
        """The first row and the first column of the tile that is multiplied and stored."""
        return self.own[0], self.own[1]

    def chain(self, corners: Sequence[ag.Corner], onward: str) -> ag.Chain:
        """The chain that takes one after another, with such accumulators."""
        sums = [register for corner in corners for register in corner.tile.registers]
        return ag.Chain(self._advance, self._begin, self.ended, self.over, sums, onward)

    def _locate(self, total: ag.Reg) -> None:
        """The place of tile `number`, and in `total` how many there are. Changes SCC."""
        locate(self.k, self.number, self.row0, self.column0, self.matrix, total)

    @property
    def _placed(self) -> tuple[ag.Reg, ...]:
        """What says where an item lies, as `own` and `following` have it."""
        return self.row0, self.column0, self.matrix

    def _keep(self, kept: ag.Reg) -> None:
        for number, one in enumerate(self._placed[:kept.count]):
            self.k.s_mov_b32(kept[number], one)

    def _advance(self) -> None:
        """To the tile after the following one: what is loaded next is its."""
        k = self.k
        self._keep(self.following)
        k.s_mov_b32(self.over, self.ended)
        self._to_next()
        with k.scratch("tiles", file="s") as total:
            self._locate(total)
            k.s_cmp_ge_u32(self.number, total)
        k.s_cselect_b32(self.ended, 1, 0)
        self._go_on()

    def _to_next(self) -> None:
        """`number` is that of the next item's tile. Changes SCC."""
        self.k.s_add_u32(self.number, self.number, self.k.argument("workgroups"))

    def _go_on(self) -> None:
        """The pointers to A and B go from the matrix of the following tile to that of the tile after it. Changes SCC."""
        k = self.k
        if k.parameters["pointers"]:  # beyond the last tile there is no matrix
            k.s_cmp_lg_u32(self.ended, 0)
            k.s_cselect_b32(self.matrix, self.following[2], self.matrix)
        self._move(self.following[2], self.matrix)

    def _move(self, start: ag.Reg, end: ag.Reg) -> None:
        """The pointers to A and B go from matrix number `start` to matrix number `end`. Changes SCC."""
        k = self.k
        with k.scratch("further_matrices", file="s") as further:
            k.s_sub_u32(further, end, start)
            to_matrices(k, further, "ab", (start, end))

    @contextmanager
    def at_own(self, column: ag.Reg) -> Iterator[None]:
        """The pointers to A and B stand at a column of K in the matrices of the tile that is multiplied. Changes SCC."""
        self._move(self.matrix, self.own[2])
        self._to_column(column)
        yield
        self._to_column(column, back=True)
        self._move(self.own[2], self.matrix)

    def _to_column(self, column: ag.Reg, back: bool = False) -> None:
        """The pointers to A and B go on to a column of K, or back from it. Changes SCC."""
        k = self.k
        add, carry = (k.s_sub_u32, k.s_subb_u32) if back else (k.s_add_u32, k.s_addc_u32)
        with k.scratch("bytes_before", 2, "s") as before:
            for name in "ab":
                pointer = k.argument(name)
                if by_columns(k.parameters, name):
                    _bytes_of_lines(k, name, column, before)
                    add(pointer[0], pointer[0], before[0])
                    carry(pointer[1], pointer[1], before[1])
                    continue
                k.s_mul_i32(before[0], column, operand_bits(k) // 8)
                add(pointer[0], pointer[0], before[0])
                carry(pointer[1], pointer[1], 0)

    def pass_without_last(self, label: str) -> None:
        """Branch where what is multiplied does not end with the last columns of K: every tile does."""

    def _begin(self) -> None:
        """The following tile becomes the one that is multiplied and stored."""
        k = self.k
        with k.scratch("further_matrices", file="s") as further:
            way = self.own[2], self.following[2]
            k.s_sub_u32(further, way[1], way[0])
            to_matrices(k, further, "d", way)
            to_matrix_of_c(k, further, way)
        for number in range(self.own.count):
            k.s_mov_b32(self.own[number], self.following[number])


def locate(k: ag.TileBuilder, number: ag.Reg, row0: ag.Reg, column0: ag.Reg, matrix: ag.Reg, total: ag.Reg | None = None) -> None:
    """The first row and column of a tile and the number of its matrix, and how many tiles there are. Changes SCC."""
    tm, tn, _ = k.variant.tile
    with k.operation("place of a tile"), k.scratch("edges", 2, "s") as edge, k.scratch("in_matrix", 2, "s") as of_matrix:
        rows, columns, each, own = edge[0], edge[1], of_matrix[0], of_matrix[1]
        tiles_of_matrix(k, rows, columns, each)
        if total is not None:
            k.s_mul_i32(total, each, k.argument("batch"))
        with k.scratch("reciprocal", file="s") as reciprocal:
            ag.Divisor(k, each, reciprocal).divide(k, matrix, own, number)
        if k.p.chunk:
            ag.chunk_by_xcd(k, own, each, k.p.chunk)
        if k.p.window or k.p.chunk:
            ag.window_order(k, row0, column0, own, rows, columns, max(1, k.p.window))
        else:
            with k.scratch("reciprocal", file="s") as reciprocal:
                ag.Divisor(k, columns, reciprocal).divide(k, row0, column0, own)
    k.s_mul_i32(row0, row0, tm)
    k.s_mul_i32(column0, column0, tn)


def _bytes_of_lines(k: ag.TileBuilder, name: str, lines: ag.Reg, out: ag.Reg) -> None:
    """The bytes, in 64 bits, of so many lines of A or B."""
    k.s_mul_i32(out[0], lines, k.argument(f"ld{name}"))
    k.s_mul_hi_u32(out[1], lines, k.argument(f"ld{name}"))
    if operand_bits(k) > 8:
        k.s_lshl_b64(out, out, (operand_bits(k) // 8).bit_length() - 1)


def operand_bits(k: ag.TileBuilder) -> int:
    """Bits of an element of A and of B."""
    return ag.element_bits(k.p.dtype) if "dtype" in k.parameters else 8


def tiles_of_matrix(k: ag.TileBuilder, rows: ag.Reg, columns: ag.Reg, each: ag.Reg) -> None:
    """The rows and columns of tiles of a matrix, and all of them. Changes SCC."""
    for count, size, step in zip((rows, columns), "mn", k.variant.tile, strict=False):
        k.s_add_u32(count, argument(k, size), step - 1)
        divide_by_edge(k, count, step)
    k.s_mul_i32(each, rows, columns)


def zero_sums(k: ag.TileBuilder, C: ag.TileGrid) -> None:
    """C = 0 before the first tile. Matrix instructions clear 16 accumulators each: the instruction cache is empty then, and so fewer lines
    of code come late."""
    M = k.matrix_shape(f"f32_32x32x{16 if k.arch == 'gfx950' else 8}_{k.parameters.get('dtype', 'bf16')}")
    if any(len(tile.registers.parts) > 1 or tile.registers.parts[0].count % 16 for tile in C):
        ag.zero(k, *C)
        return
    with k.scratch("nothing", M.a.registers) as nothing:
        for number in range(M.a.registers):
            k.v_mov_b32(nothing[number], 0)
        for tile in C:
            (held,) = tile.registers.parts
            for first in range(0, held.count, 16):
                k.emit(M.row.name, held[first:first + 15], nothing, nothing, 0)
