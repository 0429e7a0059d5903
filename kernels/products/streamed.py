"""The code of stream-K: workgroups that share the steps of tiles, and the kernel that adds the parts (`streams` has the numbers)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import asmgen as ag
from asmgen.kernels.products.anyk import takes_any_k
from asmgen.kernels.products.batch import batch_arguments, to_matrices, to_matrix_of_c
from asmgen.kernels.products.contract import PRODUCT_ARGUMENTS, is_streamed
from asmgen.kernels.products.epilogue import LoadFactors, ProductEpilogue, store_sums
from asmgen.kernels.products.feeds import order_of_b
from asmgen.kernels.products.lastcolumns import LastColumns, after_last_columns
from asmgen.kernels.products.ownparts import OwnParts, with_own_parts
from asmgen.kernels.products.persistent import PERSISTENT_ARGUMENTS, Tiles, locate, tiles_of_matrix, zero_sums
from asmgen.kernels.products.sides import argument
from asmgen.kernels.products.slots import LINE, lanes, lines_of, slot_rows, store_slot, tile_bytes
from asmgen.kernels.products.split import KEEP_SUBNORMAL, adds_own_parts, whole_steps
from asmgen.kernels.products.streams import CHUNK, FRAGMENT_ROWS, SHARE_ARGUMENT, SHARED_PARTS, waves_of_tile

_WITHOUT_LAST = -1 << 31
"""Beside a slot: the part does not end with the last columns of K, in a build where those may be fewer than a step's."""
_BESIDE = 7  # parts that are asked for together
_GIVEN = {one.name: one for one in PRODUCT_ARGUMENTS}


def stream_sum_arguments(variant: ag.Variant, build: ag.Values) -> tuple[ag.ContractArgument, ...]:
    """Those of the second kernel."""
    names = ("d", "m", "n", "k", "ldd", "alpha", "beta", "ldc", "c", "bias")
    return (SHARED_PARTS, *(_GIVEN[name] for name in names), *PERSISTENT_ARGUMENTS, SHARE_ARGUMENT,
            *batch_arguments(build, "dc"))


def _count_shared(k: ag.TileBuilder, alone: ag.Reg, shared: ag.Reg) -> None:
    """The tiles that are made alone, and the shared ones after them. Changes SCC."""
    with k.operation("shared tiles"), k.scratch("edges", 2, "s") as edge, k.scratch("reciprocal", file="s") as held:
        tiles_of_matrix(k, edge[0], edge[1], alone)
        k.s_mul_i32(alone, alone, k.argument("batch"))
        ag.Divisor(k, k.argument("workgroups"), held).divide(k, edge[0], shared, alone)
        k.s_sub_u32(alone, alone, shared)


def _chunks_of_tile(k: ag.TileBuilder, chunks: ag.Reg, steps: ag.Reg) -> None:
    """The chunks and the steps of a whole tile."""
    whole_steps(k, steps)
    k.s_lshr_b32(chunks, steps, CHUNK.bit_length() - 1)


@dataclass(frozen=True)
class StreamTiles(Tiles):
    """The items of a workgroup: first those of its share, then tiles of its own. `number` is the next tile of its own, `total` how many are
    made alone; the share goes on in the tile whose part is number `slot` from 1 on, for `left` chunks more. `following` has an item's slot
    and steps too, `own` its slot; a slot of 0 says that the item is a whole tile. `steps` is the count of the pipeline.

    What is loaded next has `columns_left` columns of K from its first on, `count` steps and the slot `part`."""

    total: ag.Reg
    steps: ag.Reg
    count: ag.Reg
    part: ag.Reg
    left: ag.Reg
    slot: ag.Reg
    columns_left: ag.Reg

    @classmethod
    def shared(cls, k: ag.TileBuilder, row0: ag.Reg, column0: ag.Reg, steps: ag.Reg) -> StreamTiles:
        """Those of this workgroup, at its first item, with the pointers to its matrices and columns. Changes SCC."""
        def one(name: str) -> ag.Reg:
            return k.registers.sgprs(1, name)

        number, matrix, total, ended, over = (one(name) for name in ("own_tile", "matrix", "alone", "ended", "over"))
        own, following = k.registers.sgprs(4, "own", align=1), k.registers.sgprs(5, "following", align=1)
        more = [one(name) for name in ("item_steps", "part", "chunks_left", "slot", "columns_left")]
        tiles = cls(k, number, row0, column0, matrix, own, following, ended, over, total, steps, *more)
        k.s_mov_b32(number, k.ids["x"])
        k.registers.release(*(k.ids[axis] for axis in "xyz"))
        with k.scratch("first_chunk", file="s") as first:
            tiles._begin_share(first)
            tiles._take(first)
        to_matrices(k, matrix)
        to_matrix_of_c(k, matrix)
        tiles._from_first()
        k.s_mov_b32(steps, tiles.count)
        tiles._keep(own)
        return tiles

    @property
    def columns(self) -> ag.Reg:
        """The columns of K from the first one on of what is loaded next."""
        return self.columns_left

    @property
    def own_part(self) -> ag.Reg:
        """The slot of what is multiplied and stored, from 1 on; 0 where it is a whole tile."""
        return self.own[3]

    def pass_without_last(self, label: str) -> None:
        """Branch where what is multiplied does not end with the last columns of K. Changes SCC."""
        self.k.s_cmp_lt_i32(self.own_part, 0)
        self.k.s_cbranch_scc1(label)

    def chain(self, corners: Sequence[ag.Corner], onward: str) -> ag.Chain:
        """The chain that takes one after another, with such accumulators."""
        return replace(super().chain(corners, onward), counted=True)

    def _begin_share(self, first: ag.Reg) -> None:
        """The `first` chunk of the workgroup's share in its tile, and how many it has."""
        k, number, share = self.k, self.number, self.k.argument("share")
        with k.scratch("shared_chunks", file="s") as all_chunks, k.scratch("chunks", file="s") as chunks, \
                k.scratch("reciprocal", file="s") as held:
            _count_shared(k, self.total, all_chunks)
            _chunks_of_tile(k, chunks, held)
            k.s_mul_i32(all_chunks, all_chunks, chunks)
            k.s_mul_i32(first, number, share)
            k.s_min_u32(first, first, all_chunks)
            k.s_sub_u32(self.left, all_chunks, first)
            k.s_min_u32(self.left, self.left, share)
            ag.Divisor(k, chunks, held).divide(k, self.slot, first, first)
        k.s_add_u32(self.slot, self.slot, number)
        k.s_add_u32(self.slot, self.slot, 1)

    def _take(self, chunk: ag.Reg | None = None) -> None:
        """The next item: its tile, `count`, `part` and `columns_left`, and whether there is none. `chunk` is its first one; None: the
        tile's. Changes SCC."""
        k, depth, shift = self.k, self.k.variant.tile[2], CHUNK.bit_length() - 1
        taken = self.row0  # `locate` reads it first
        with k.operation("next item"), k.scratch("steps_of_tile", file="s") as steps, k.scratch("chunks", file="s") as chunks, \
                k.scratch("take", file="s") as take, k.scratch("rest", file="s") as rest:
            _chunks_of_tile(k, chunks, steps)
            if chunk is not None:
                k.s_sub_u32(rest, chunks, chunk)
            else:
                k.s_mov_b32(rest, chunks)
            k.s_min_u32(take, self.left, rest)
            if chunk is not None:
                k.s_add_u32(self.count, chunk, take)
                k.s_lshl_b32(self.count, self.count, shift)
            else:
                k.s_lshl_b32(self.count, take, shift)
            k.s_cmp_eq_u32(take, rest)
            k.s_cselect_b32(self.count, steps, self.count)  # the last chunk of a tile has all that is left
            if takes_any_k(k.parameters):
                k.s_cselect_b32(self.part, 0, _WITHOUT_LAST)
                k.s_or_b32(self.part, self.part, self.slot)
            k.s_cmp_eq_u32(take, chunks)
            k.s_cselect_b32(self.part, 0, self.part if takes_any_k(k.parameters) else self.slot)
            k.s_add_u32(taken, self.total, self.slot)  # the tile of the share; until it ends, `number` is the workgroup's
            k.s_sub_u32(taken, taken, self.number)
            k.s_sub_u32(taken, taken, 1)
            k.s_cmp_eq_u32(self.left, 0)  # tiles of its own, from their first step on
            k.s_cselect_b32(self.count, steps, self.count)
            k.s_cselect_b32(self.part, 0, self.part)
            k.s_cselect_b32(taken, self.number, taken)
            k.s_cselect_b32(rest, k.argument("workgroups"), 0)
            k.s_cselect_b32(chunks, self.total, -1)
            k.s_add_u32(self.number, self.number, rest)
            k.s_sub_u32(self.left, self.left, take)
            k.s_add_u32(self.slot, self.slot, 1)
            k.s_cmp_ge_u32(taken, chunks)
            k.s_cselect_b32(self.ended, 1, 0)
            k.s_mov_b32(self.columns_left, k.argument("k"))
            if chunk is not None:
                k.s_lshl_b32(take, chunk, shift)
                k.s_sub_u32(self.count, self.count, take)
                k.s_mul_i32(take, take, depth)
                k.s_sub_u32(self.columns_left, self.columns_left, take)
        locate(k, taken, self.row0, self.column0, self.matrix)

    def _from_first(self, back: bool = False) -> None:
        """The pointers to A and B go on to the first column of `columns_left`, or back from it. Changes SCC."""
        k = self.k
        with k.scratch("columns_before", file="s") as before:
            k.s_sub_u32(before, k.argument("k"), self.columns_left)
            self._to_column(before, back)

    @property
    def _placed(self) -> tuple[ag.Reg, ...]:
        """What says where an item lies, and its slot and steps."""
        return *super()._placed, self.part, self.count

    def _advance(self) -> None:
        """To the item after the following one: what is loaded next is its."""
        k = self.k
        self._keep(self.following)
        k.s_mov_b32(self.over, self.ended)
        self._from_first(back=True)  # only the first item begins within a tile
        self._take()
        self._go_on()

    def _begin(self) -> None:
        """The following item becomes the one that is multiplied and stored."""
        super()._begin()
        self.k.s_mov_b32(self.steps, self.following[4])


# ---- what makes items of a product's step ----


def first_item(k: ag.TileBuilder, C: ag.TileGrid, row0: ag.Reg, column0: ag.Reg, steps: ag.Reg) -> Tiles:
    """The items of a persistent workgroup, at the first one; C becomes 0. `steps` is the count of the pipeline."""
    zero_sums(k, C)
    if adds_own_parts(k.parameters):
        return OwnParts.begun(k, row0, column0, steps)
    return StreamTiles.shared(k, row0, column0, steps) if is_streamed(k.parameters) else Tiles.of(k, row0, column0)


def make_items(k: ag.TileBuilder, step: Callable[[ag.StepIndex], None], steps: ag.Reg, schedule: ag.Schedule, group: ag.Reg | None,
               tiles: Tiles, corners: Sequence[ag.Corner], ends_of: Callable[[str], ProductEpilogue], last: LastColumns) -> None:
    """The pipeline that makes one item after another. `ends_of(onward)` is the epilogue of whole tiles, which goes to that label."""
    onward = k.fresh("onward")
    then = ends_of(onward)
    if isinstance(tiles, StreamTiles):
        k.end_brief_arguments()
        then = with_parts(k, then, corners, tiles.own_part, onward)
    elif isinstance(tiles, OwnParts):
        k.end_brief_arguments()
        then = with_own_parts(k, then, corners, tiles, onward)
    k.pipeline(step, steps, schedule, groups=group, then=after_last_columns(k, then, last), chain=tiles.chain(corners, onward))


# ---- parts of tiles ----


def with_parts(k: ag.TileBuilder, ends: ProductEpilogue, corners: Sequence[ag.Corner], part: ag.Reg, onward: str) -> ProductEpilogue:
    """The epilogue of items that are whole tiles, or of which slot `part` - 1 gets the sums."""
    def guarded(straight: ag.Epilogue | None) -> ag.Epilogue | None:
        return None if straight is None else replace(straight, guard=partial(guard, straight.guard))

    def guard(of_tiles: Callable[[str], None], label: str) -> None:
        k.s_cmp_lg_u32(part, 0)
        k.s_cbranch_scc1(label)
        of_tiles(label)

    def rest() -> None:
        whole = k.fresh("whole_tile")
        k.s_cmp_eq_u32(part, 0)
        k.s_cbranch_scc1(whole)
        _store_part(k, corners, part)
        k.s_branch(onward)
        k.label(whole)
        ends.rest()

    return ProductEpilogue(guarded(ends.overlapped), guarded(ends.follows), rest)


def _store_part(k: ag.TileBuilder, corners: Sequence[ag.Corner], part: ag.Reg) -> None:
    """The sums of an item into slot `part` - 1."""
    with k.registers.scope("part of a tile"), k.apart(), k.scratch("slot_of_part", file="s") as slot:
        if takes_any_k(k.parameters):
            k.s_and_b32(slot, part, ~_WITHOUT_LAST)
        k.s_sub_u32(slot, slot if takes_any_k(k.parameters) else part, 1)
        store_slot(k, corners, slot)


# ---- the kernel that adds ----


def add_shared(k: ag.TileBuilder, factors: LoadFactors | None = None) -> None:
    """D = alpha (the sum of a tile's parts, in the order of K) + beta C + bias, for each tile that several workgroups share. A wave makes
    16 rows of what one of theirs has of a corner, and asks for several parts before it adds any. `factors`, if any, replace alpha."""
    tm, tn, _ = k.variant.tile
    rows, columns = (size // 2 // waves for size, waves in zip((tm, tn), k.variant.waves, strict=False))
    M = k.matrix_shape("f32_16x16x16_bf16" if k.arch == "gfx942" else "f32_16x16x32_bf16")
    lines = lines_of(FRAGMENT_ROWS * columns // ag.LANES)

    # register plan
    S = k.tile("S", lines, LINE, lanes(k), grid=(1 + _BESIDE,), note="sums of parts")
    row0, column0, matrix, more = (k.registers.sgprs(1, name) for name in ("row0", "column0", "matrix", "more_parts"))
    slot, line = k.registers.sgprs(1, "slot"), k.registers.sgprs(1, "line")
    descriptor = k.registers.sgprs(4, "parts_buffer")

    k.s_setreg_imm32_b32(KEEP_SUBNORMAL, 3)
    with k.scratch("tile", file="s") as tile:
        k.s_lshr_b32(tile, k.ids["x"], (waves_of_tile(k.variant) - 1).bit_length())
        _find_parts(k, tile, slot, more)
        locate(k, tile, row0, column0, matrix)
    _to_own_rows(k, row0, column0, rows, columns)
    k.s_and_b32(line, k.ids["x"], waves_of_tile(k.variant) - 1)
    k.s_mul_i32(line, line, rows // FRAGMENT_ROWS)
    k.s_add_u32(line, line, k.ids["y"])
    k.s_mul_i32(line, line, lines)
    to_matrices(k, matrix, "d")
    to_matrix_of_c(k, matrix)
    _add_parts(k, S, slot_rows(k, descriptor, k.argument("parts"), slot, line, lines), descriptor, more)
    corners = [ag.Corner(ag.Tile("sums", FRAGMENT_ROWS, columns, order_of_b(k, M.d.T)[1], S[0].registers), 0, 0)]
    store_sums(k, corners, row0, FRAGMENT_ROWS, column0, columns, factors)


def _find_parts(k: ag.TileBuilder, tile: ag.Reg, slot: ag.Reg, more: ag.Reg) -> None:
    """The first slot of shared tile number `tile`, and how many `more` it has; `tile` becomes its number among all tiles. A wave whose tile
    one workgroup has made, or that has none, ends."""
    shared = k.fresh("shared")
    with k.scratch("alone", file="s") as alone, k.scratch("shared_tiles", file="s") as count, k.scratch("chunk", 2, "s") as chunk, \
            k.scratch("reciprocal", file="s") as held:
        _count_shared(k, alone, count)
        _chunks_of_tile(k, chunk[1], held)
        k.s_mul_i32(chunk[0], tile, chunk[1])
        k.s_add_u32(chunk[1], chunk[0], chunk[1])
        k.s_sub_u32(chunk[1], chunk[1], 1)
        by = ag.Divisor(k, k.argument("share"), held)
        by.divide(k, slot, chunk[0], chunk[0])
        by.divide(k, more, chunk[1], chunk[1])
        k.s_sub_u32(more, more, slot)
        k.s_cmp_lt_u32(tile, count)
        k.s_cselect_b32(more, more, 0)
        k.s_cmp_lg_u32(more, 0)
        k.s_cbranch_scc1(shared)
        k.s_endpgm()
        k.label(shared)
        k.s_add_u32(slot, slot, tile)
        k.s_add_u32(tile, tile, alone)


def _to_own_rows(k: ag.TileBuilder, row0: ag.Reg, column0: ag.Reg, rows: int, columns: int) -> None:
    """From a tile's first row and column to those of the wave; a wave beyond the last row ends."""
    down, across = k.variant.waves
    waves, inside = down * across, k.fresh("inside")
    with k.scratch("corner", file="s") as corner, k.scratch("wave", file="s") as wave, k.scratch("further", file="s") as further:
        k.s_lshr_b32(corner, k.ids["x"], (waves - 1).bit_length())
        k.s_and_b32(wave, k.ids["x"], waves - 1)
        for bit, at, each in ((2, row0, down * rows), (1, column0, across * columns)):
            k.s_and_b32(further, corner, bit)
            k.s_cselect_b32(further, each, 0)
            k.s_add_u32(at, at, further)
        k.s_lshr_b32(further, wave, (across - 1).bit_length())
        k.s_mul_i32(further, further, rows)
        k.s_add_u32(row0, row0, further)
        k.s_and_b32(further, wave, across - 1)
        k.s_mul_i32(further, further, columns)
        k.s_add_u32(column0, column0, further)
    with k.scratch("rows_down", file="s") as further:
        k.s_mul_i32(further, k.ids["y"], FRAGMENT_ROWS)
        k.s_add_u32(row0, row0, further)
    k.s_cmp_lt_u32(row0, argument(k, "m"))
    k.s_cbranch_scc1(inside)
    k.s_endpgm()
    k.label(inside)


def _add_parts(k: ag.TileBuilder, S: ag.TileGrid, rows: ag.Rows, descriptor: ag.Reg, more: ag.Reg) -> None:
    """S[0] = the parts of which `rows` are the first one's, and of `more` after it."""
    loop = k.fresh("parts")
    with k.scratch("records", file="s") as records:
        k.s_mov_b32(records, descriptor[2])
        ag.load(k, S[0], rows)
        k.label(loop)
        for part in list(S)[1:]:
            k.s_add_u32(descriptor[0], descriptor[0], tile_bytes(k))
            k.s_addc_u32(descriptor[1], descriptor[1], 0)
            k.s_cmp_lg_u32(more, 0)
            k.s_cselect_b32(descriptor[2], records, 0)  # a part that there is not has no bytes: its loads give 0
            k.s_subb_u32(more, more, 0)  # SCC is that of the comparison
            ag.load(k, part, rows)
        for part in list(S)[1:]:
            ag.add(k, S[0], S[0], part)
        k.s_cmp_lg_u32(more, 0)
        k.s_cbranch_scc1(loop)
