"""Tensors of rows: a descriptor that goes down with the rows of a workgroup, and tiles that move through it.

Where a wave or a workgroup has one row, the descriptor shows exactly that row: whole dwords beyond its end read as 0 and are not written.
Else it shows the rows of a workgroup. Base addresses have 64 bits, so tensors may exceed 4 GiB. Nothing is computed with addresses in the
loop but the descriptor's base, by scalars.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import asmgen as ag
from asmgen.kernels.rows.rowshape import PAGE, PER_LANE, RowShape

_WIDEST = 4  # dwords that a load brings a lane
_LOADS = {1: "buffer_load_dword", 2: "buffer_load_dwordx2", 4: "buffer_load_dwordx4"}


class RowWalk:
    """The rows of a workgroup: `first` is that of the group in work, `left` (signed) how many of the workgroup's rows there are from the
    wave's own one in that group on, or, where waves share rows or have several, from the group's first one on.

    `look_ahead` lets `left` count from the next group on, to which tensors then go on; `go_on` ends the loop. Where each wave has its own
    row, it also ends by itself.
    """

    def __init__(self, k: ag.TileBuilder, shape: RowShape) -> None:
        self.k, self.shape = k, shape
        self.shown: dict[int, ag.Reg] = {}  # by the bytes of a row: the register that has them, or 0 where there is no row
        self.first = k.registers.sgprs(1, "first_row", note="of the group in work")
        self.left = k.registers.sgprs(1, "rows_left", note="of this workgroup")
        self.along = k.wave if shape.shares_waves else None
        self.down = None if shape.shares_waves else k.wave
        self.runs: ag.WaveIndex | None = None  # the wave's first one in a row, where a row has several waves
        if shape.shares_waves:
            first_run = k.registers.sgprs(1, "first_run", note="of the wave, in a row")
            k.s_mul_i32(first_run, k.wave.register, shape.fragments)
            self.runs = ag.WaveIndex("first_run", first_run, shape.waves * shape.fragments)
        with k.scratch("share", file="s") as share:
            k.s_mul_i32(share, k.argument("each"), shape.rows)
            k.s_mul_i32(self.first, k.ids["x"], share)
            k.s_sub_u32(self.left, k.argument("rows"), self.first)
            k.s_min_u32(self.left, self.left, share)
        if shape.has_own_row:
            k.s_sub_u32(self.left, self.left, k.wave.register)

    def begin(self, label: str) -> None:
        """The loop at that label, for whose first group everything was asked. That is waited for here, so that waits in the loop count the
        stores that come after its loads."""
        self.k.s_waitcnt(vmcnt=0)
        self.k.label(label)

    def look_ahead(self) -> None:
        """Count what is left from the next group on."""
        self.k.s_sub_u32(self.left, self.left, self.shape.rows)
        self.shown = {}

    def count_on(self) -> None:
        """The first row becomes that of the next group: where a nop would stand, after all that asks for the row in work."""
        self.k.s_add_u32(self.first, self.first, self.shape.rows)

    def go_on(self, label: str, counted: bool = False) -> None:
        """To the group that was looked ahead to, at the label, if there is one; `counted` says that `count_on` stands before."""
        k = self.k
        if not counted:
            self.count_on()
        k.s_cmp_gt_i32(self.left, 0)
        k.s_cbranch_scc1(label)


class RowTensor:
    """The tensor at pointer argument `name`, whose rows lie `name`_stride elements apart, of `columns` in place of
    the walk's. With `one_before` it begins a group early: `go_on` then comes before `look_ahead`, and leads to the group in work."""

    def __init__(self, walk: RowWalk, name: str, dtype: str, by_element: bool = False, one_before: bool = False,
                 columns: int = 0) -> None:
        k, shape = walk.k, walk.shape
        self.columns = columns or shape.columns
        self.k, self.walk, self.shape, self.by_element = k, walk, shape, by_element
        self.size = ag.element_bits(dtype) // 8
        stride = f"{name}_stride"
        self.one_row = shape.wave_rows == 1
        rows = shape.rows if shape.shares_waves or not self.one_row else 1
        # Rows that each have a descriptor may lie so far apart that those of a group take more than 32 bits of bytes.
        self.step = k.registers.sgprs(2 if shape.has_own_row else 1, f"{name}_group_bytes", note="from group to group")
        k.s_mul_i32(self.step[0], k.argument(stride), self.size * shape.rows)
        if shape.has_own_row:
            k.s_mul_hi_u32(self.step[1], k.argument(stride), self.size * shape.rows)
        self.carried: ag.Reg | int = self.step[1] if shape.has_own_row else 0
        self.stride = k.argument(stride)
        if self.one_row:
            matrix = ag.Matrix(name, dtype, k.argument(name), 1, self.columns, 0, multiple=self.columns)
        else:
            matrix = ag.Matrix(name, dtype, k.argument(name), k.argument("rows"), self.columns, k.argument(stride), *k.limits(stride),
                               multiple=self.columns)
        self.rows = matrix.rows(0, rows)
        self.descriptor = k.registers.sgprs(4, f"{name}_rows", note="descriptor")
        self.rows.shown_by(k, self.descriptor)
        # Bits 3 and up of a raw row that ends inside of a dword: those move by bounds of elements.
        self.limit = self.columns if (self.columns * self.size % 4 or shape.is_cut and not self.one_row) and not by_element else None
        self._begin(one_before)

    def _begin(self, one_before: bool) -> None:
        k, d = self.k, self.descriptor
        pointer = k.argument(self.rows.matrix.name)
        with k.scratch("row", file="s") as own, k.scratch("row_bytes", file="s") as size:
            row: ag.Reg = self.walk.first
            if self.shape.has_own_row:
                k.s_add_u32(own, row, k.wave.register)
                row = own
            k.s_mul_i32(size, self.stride, self.size)
            k.s_mul_i32(d[0], row, size)
            k.s_mul_hi_u32(d[1], row, size)
            k.s_add_u32(d[0], d[0], pointer[0])
            k.s_addc_u32(d[1], d[1], pointer[1])
        if one_before:
            k.s_sub_u32(d[0], d[0], self.step[0])
            k.s_subb_u32(d[1], d[1], self.carried)
        else:
            self._show()
        k.s_mov_b32(d[3], ag.RAW_BUFFER)

    def _show(self) -> None:
        """The bytes of the rows at once, of those that are left: none where there are none."""
        k, records, row, left = self.k, self.descriptor[2], self.columns * self.size, self.walk.left
        if self.one_row:
            known = self.walk.shown.setdefault(row, records)
            if known != records:
                k.s_mov_b32(records, known)
                return
            k.s_cmp_gt_i32(left, 0)
            k.s_cselect_b32(records, row, 0)
            return
        with k.scratch("rows_shown", file="s") as shown:
            k.s_min_i32(shown, left, self.shape.rows)
            k.s_sub_u32(shown, shown, 1)
            k.s_mul_i32(records, shown, self.stride)
            if self.size > 1:
                k.s_lshl_b32(records, records, self.size.bit_length() - 1)
            k.s_add_u32(records, records, row)
        k.s_cmp_gt_i32(left, 0)
        k.s_cselect_b32(records, records, 0)

    def go_on(self) -> None:
        """To the rows of the next group, to which the walk has looked ahead; or of the group in work, from the one before."""
        k, d = self.k, self.descriptor
        k.s_add_u32(d[0], d[0], self.step[0])
        k.s_addc_u32(d[1], d[1], self.carried)
        self._show()

    # ---- tiles ----

    def raw(self, name: str) -> ag.Tile:
        """A tile for elements as memory has them; a register for each where they come one by one."""
        return row_tile(self.k, name, "f32" if self.by_element else self.rows.matrix.dtype, self.shape)

    def raw_run(self, name: str) -> ag.Tile:
        """The same for a run of columns."""
        lane_bytes(self.walk, self.size)
        return row_tile(self.k, name, "f32" if self.by_element else self.rows.matrix.dtype, self.shape, 1)

    def load(self, raw: ag.Tile, column: int = 0) -> None:
        """The rows of the group into a tile of `raw`, from a column on; columns that do not exist become 0."""
        if self.by_element:
            for register, at, offset in self._elements(raw):
                self.k.buffer_load_ushort(register, at, self.descriptor, 0, offen=True, offset=offset)
            return
        ag.load(self.k, raw, self.rows, rows=self._down(), columns=self.walk.along, column=column, limit=self._left(raw, column),
                nontemporal=True)

    def load_run(self, raw: ag.Tile, number: ag.Reg | int) -> None:
        """The same of a row's run `number` alone, which may be an SGPR where access is wide."""
        if isinstance(number, ag.Reg):
            self._load_run_of(raw, number)
        elif self.by_element:
            for register, at, offset in self._elements(raw, number=number):
                self.k.buffer_load_ushort(register, at, self.descriptor, 0, offen=True, offset=offset)
        elif self.one_row and (self.limit is None or number != self.shape.cut_run):
            load_run(self.walk, raw.base(0, 0), self.descriptor, self.size, number, nontemporal=True)
        else:
            columns, column = self.walk.runs if self.shape.shares_waves else None, number * raw.columns
            ag.load(self.k, raw, self.rows, rows=self._down(), columns=columns, column=column,
                    limit=None if self.limit is None else self.limit - column, nontemporal=True)

    def _load_run_of(self, raw: ag.Tile, number: ag.Reg) -> None:
        k = self.k
        with k.scratch("first_column", file="s") as column, k.scratch("columns_left", file="s") as left:
            k.s_mul_i32(column, number, raw.columns)
            if self.limit is not None:
                k.s_sub_u32(left, self.limit, column)
            ag.load(k, raw, self.rows, columns=self.walk.runs, column=column, limit=None if self.limit is None else left,
                    nontemporal=True)

    def widen(self, out: ag.Tile, raw: ag.Tile) -> None:
        """Elements of `raw`, or of a part of it, in float32; `out` may be `raw` where that has a register for each."""
        k, dtype = self.k, self.rows.matrix.dtype
        if dtype == "f32":
            if out is not raw:
                ag.move(k, out, raw)
        elif not self.by_element:
            ag.convert(k, out, raw)
        else:
            for target, source in zip(out.registers, raw.registers, strict=True):
                if dtype == "bf16":
                    k.v_lshlrev_b32(target, 16, source)
                else:
                    k.v_cvt_f32_f16(target, source)

    def store(self, tile: ag.Tile, column: int = 0) -> None:
        """A tile of the tensor's type into the rows of the group, from a column on."""
        k = self.k
        if not self.by_element:
            ag.store_tile(k, self.rows, tile, rows=self._down(), columns=self.walk.along, column=column, limit=self._left(tile, column),
                          nontemporal=True)
            return
        for register, at, offset in self._elements(tile, 2):
            for item, op in enumerate(("buffer_store_short", "buffer_store_short_d16_hi")):
                k.emit(op, register, at, self.descriptor, 0, offen=True, offset=offset + self.size * item)

    def store_line(self, values: ag.Vector, wave: ag.WaveIndex | None, column: int) -> None:
        """A vector of the tensor's type into the row of the group, the wave's part of it from a column on."""
        ag.store_tile(self.k, self.rows, values, rows=wave, column=column, nontemporal=True)

    def _down(self) -> ag.WaveIndex | None:
        return None if self.one_row else self.walk.down

    def _left(self, tile: ag.Tile, column: int) -> int | None:
        """The limit of a tile that begins at that column, where one is needed."""
        last = column + tile.columns * (self.shape.waves if self.shape.shares_waves else 1)
        return None if self.limit is None or last < self.limit else self.limit - column

    def _elements(self, tile: ag.Tile, inside: int = 1, number: int = 0) -> Iterator[tuple[ag.Reg, ag.Reg, int]]:
        """Registers of a tile whose first run is that one of a row, each of so many elements, with an address register and the byte of
        their first element from there on."""
        k, f = self.k, tile.fragment
        with k.scratch("page_bytes") as far:
            page = 0
            for run, at in itertools.product(range(tile.across), range(f.registers)):
                now, offset = divmod(((number + run) * f.columns * f.registers // f.items + at) * self.size * inside, PAGE)
                if now > page:
                    k.v_add_u32(far, now * PAGE, lane_bytes(self.walk, self.size))
                    page = now
                yield tile.base(0, run)[at], far if page else lane_bytes(self.walk, self.size), offset


def lane_bytes(walk: RowWalk, size: int) -> ag.Reg:
    """The byte of the lane's first element in its row, of elements of so many bytes. Ask for it before a loop that needs it."""
    k, shape = walk.k, walk.shape
    key = "lane bytes", size
    made = k.made.get(key)
    if made is None:
        waves = (k.wave,) if shape.shares_waves else ()
        made = k.made[key] = k.hoist(lambda: ag.emit_address(
            k, k.registers.unused("lane_bytes"),
            lambda lane, **wave: (PER_LANE * (lane % shape.across) + shape.wave_columns * sum(wave.values())) * size, k.lane, waves))
    assert isinstance(made, ag.Reg)
    return made


def load_run(walk: RowWalk, raw: ag.Reg, descriptor: ag.Reg, size: int, number: int, nontemporal: bool = False) -> None:
    """A lane's PER_LANE neighbours of run `number` of a row, whole dwords beyond the descriptor's end as 0."""
    k = walk.k
    page, first = divmod(number * PER_LANE * walk.shape.across * size, PAGE)
    with k.scratch("page_bytes") as far:
        if page:
            k.v_add_u32(far, page * PAGE, lane_bytes(walk, size))
        for dword in range(0, raw.count, _WIDEST):
            last = min(dword + _WIDEST, raw.count) - 1
            k.emit(_LOADS[last - dword + 1], raw[dword:last], far if page else lane_bytes(walk, size), descriptor, 0, offen=True,
                   offset=first + 4 * dword, nt=nontemporal)


def row_tile(k: ag.TileBuilder, name: str, dtype: str, shape: RowShape, runs: int = 0, shares: ag.Tile | None = None) -> ag.Tile:
    """The rows that a wave has at once, or so many runs of them, in elements of that type; in the registers of a tile that it `shares`."""
    columns = (runs or shape.fragments) * PER_LANE * shape.across
    tile: ag.Tile = k.tile(name, shape.wave_rows, columns, k.lanes(dtype, PER_LANE, shape.across), shares=shares)
    return tile


def narrow(k: ag.TileBuilder, out: ag.Tile, tile: ag.Tile, source: str) -> None:
    """Rows of float32 in a narrower type, or as they are where `out` is `tile`. `source` is the type of all that they were made of.

    NaNs that come from bf16, and those that instructions make, have zeros in the lower half of their float32, which rounding by an integer
    sum does not carry beyond the upper half: they need no instructions of their own on gfx942.
    """
    if out is not tile:
        ag.convert(k, out, tile, nan=source != "bf16")


def parts_of(tile: ag.Tile) -> list[ag.Tile]:
    """A tile's runs of PER_LANE neighbours a lane."""
    f = tile.fragment
    return [tile.part(0, number * f.columns, tile.rows, f.columns) for number in range(tile.across)]
