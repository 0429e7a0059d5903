"""A side of a product of a few rows whose rows begin anywhere: at odd elements, or odd bytes.

Loads begin at whole dwords. So a lane asks for the dwords that its 16 bytes lie in, four from the first one on and the last one by itself,
and v_alignbit_b32 shifts them together. Where its bytes begin at a dword, the last one is the fourth again. A dword may have elements of
the row before or after, which are shifted out; so each dword that is read has elements of the lane's own.

The last dword of a matrix may be cut by its end, and a descriptor shows whole ones alone. So the loop leaves the last `columns_kept`
columns. After it come the lanes that have all of their columns before those, and at last what is left, element by element.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.products.anyk import columns_kept

_DWORD, _REGISTERS = 4, 4  # bytes; registers of 16 bytes
_LOAD = {8: "buffer_load_ubyte", 16: "buffer_load_ushort"}


@dataclass(frozen=True)
class AfterLoop:
    """The columns after the loop, in SGPRs: the byte of a row where they begin, how many of them lanes load whole, the byte where the
    others begin, and their number. `lane` is a VGPR with the first column of a lane in a fragment."""

    begin: ag.Reg
    wide: ag.Reg
    rest: ag.Reg
    cut: ag.Reg
    lane: ag.Reg


@dataclass(frozen=True)
class ShiftedSide:
    """`held` are the 16 bytes of each lane and row, in stages, `ends` the last dwords they lie in. Of each row of a lane `firsts` and
    `lasts` are where those dwords begin, from the base of the rows' descriptor on; the bits before the lane's own are the lowest 5 of
    `shifts`."""

    k: ag.TileBuilder
    held: ag.TileGrid
    ends: ag.TileGrid
    rows: ag.Rows
    descriptor: ag.Reg
    firsts: ag.Reg
    lasts: ag.Reg
    shifts: ag.Reg

    @property
    def fragment(self) -> ag.Fragment:
        """A lane's 16 bytes of each of its rows."""
        return self.held.tiles[0].fragment

    def load(self, t: ag.StepIndex) -> None:
        """Ask for an iteration."""
        k, held, ends, part = self.k, self.held[t], self.ends[t], self.rows.k(t)
        with ag.operation(k, f"load {held.name} from {part}", [held.index, part.index], writes=held.registers.mask | ends.registers.mask):
            advance = k.advance(part, held.columns)
            for across in range(held.across):
                self._ask(held.base(0, across), ends.base(0, across), self._bytes(across), self.firsts, self.lasts, advance)

    def shift(self, t: ag.StepIndex) -> ag.Tile:
        """What a product takes of an iteration."""
        held: ag.Tile = self.held[t]
        self._shift(held, self.ends[t])
        return held

    def ask_last(self, after: AfterLoop) -> _Last:
        """Ask for the columns after the loop. The loop's registers are free."""
        k, held, ends, name = self.k, self.held.tiles[0], self.ends.tiles[0], self.held.name
        last = _Last(k.tile(f"{name}_left", held.rows, held.columns, self.fragment, note="lanes that load all of their columns"),
                     k.tile(f"{name}_left_ends", ends.rows, ends.columns, ends.fragment),
                     k.tile(f"{name}_cut", held.rows, self.fragment.columns, self.fragment, note="columns that are loaded one by one"),
                     k.registers.vgprs(self.fragment.items, f"{name}_elements"))
        groups, width = self.firsts.count, self.fragment.items // self.firsts.count
        with ag.operation(k, f"load {last.wide.name}", [], writes=last.wide.registers.mask | last.ends.registers.mask), \
                k.scratch("inside_first", groups) as firsts, k.scratch("inside_last", groups) as lasts:
            for across in range(held.across):
                _before(k, after.wide, self.fragment.columns * across, after.lane)
                for number in range(groups):
                    ag.send_outside(k, firsts[number], self.firsts[number])
                    ag.send_outside(k, lasts[number], self.lasts[number])
                self._ask(last.wide.base(0, across), last.ends.base(0, across), self._bytes(across), firsts, lasts, after.begin)
        with ag.operation(k, f"load {last.cut.name}", [], writes=last.elements.mask), k.scratch("own_bytes", groups) as own, \
                k.scratch("inside") as inside:
            for number in range(groups):  # the bytes before the lane's own come back
                k.v_bfe_u32(own[number], self.shifts[number], 3, 2)
                k.v_or_b32(own[number], own[number], self.firsts[number])
            for item in range(width):
                _before(k, after.cut, item, after.lane)
                for number in range(groups):
                    ag.send_outside(k, inside, own[number])
                    k.emit(_LOAD[self.fragment.bits], last.elements[width * number + item], inside, self.descriptor, after.rest, offen=True,
                           offset=item * self.fragment.bits // 8)
        return last

    def take_last(self, last: _Last) -> tuple[ag.Tile, ag.Tile]:
        """The columns after the loop, with zeros where there are none: those that lanes load whole as a step, the others as a fragment."""
        k, together = self.k, 8 * _DWORD // self.fragment.bits
        self._shift(last.wide, last.ends)
        with ag.operation(k, f"pack {last.cut.name}", [], reads=last.elements.mask, writes=last.cut.registers.mask):
            for number, target in enumerate(last.cut.registers.items):
                parts = [last.elements[number * together + item] for item in range(together)]
                k.v_lshl_or_b32(target, parts[-1], self.fragment.bits, parts[-2])
                for part in parts[-3::-1]:
                    k.v_lshl_or_b32(target, target, self.fragment.bits, part)
        return last.wide, last.cut

    def _bytes(self, across: int) -> int:
        """Where a fragment begins in a step's columns."""
        return across * self.fragment.columns * self.fragment.bits // 8

    def _ask(self, held: ag.Reg, ends: ag.Reg, offset: int, firsts: ag.Reg, lasts: ag.Reg, advance: ag.Reg | int) -> None:
        """Ask for a fragment: the dwords of each row."""
        for number in range(firsts.count):
            target = held[_REGISTERS * number:_REGISTERS * number + _REGISTERS - 1]
            self.k.buffer_load_dwordx4(target, firsts[number], self.descriptor, advance, offen=True, offset=offset)
            self.k.buffer_load_dword(ends[number], lasts[number], self.descriptor, advance, offen=True, offset=offset)

    def _shift(self, held: ag.Tile, ends: ag.Tile) -> None:
        """Each register gets the lane's own bytes."""
        with ag.operation(self.k, f"shift {held.name}", [held.index], reads=held.registers.mask | ends.registers.mask,
                          writes=held.registers.mask):
            for across in range(held.across):
                own, last = held.base(0, across), ends.base(0, across)
                for number in range(_REGISTERS * last.count):
                    group, at = divmod(number, _REGISTERS)
                    above = last[group] if at == _REGISTERS - 1 else own[number + 1]
                    self.k.v_alignbit_b32(own[number], above, own[number], self.shifts[group])


@dataclass(frozen=True)
class _Last:
    """Registers of the columns after the loop: as `held` and `ends` of a side, and what is loaded by itself, packed and not."""

    wide: ag.Tile
    ends: ag.Tile
    cut: ag.Tile
    elements: ag.Reg


def shifted_side(k: ag.TileBuilder, held: ag.TileGrid, stages: int, rows: ag.Rows, wave: ag.WaveIndex | None = None) -> ShiftedSide:
    """The side whose tile is `held`, of the `rows` of the workgroup, or those of its `wave`."""
    name, fragment = held.name, held.tiles[0].fragment
    table, groups = fragment.table, fragment.registers // _REGISTERS
    wide = fragment.items // groups
    ends = ag.Fragment(fragment.row, "ends", "f32", fragment.rows, fragment.columns // wide, ag.linear_layout(
        tuple(tuple((row, column // wide) for row, column in table[number * wide]) for number in range(groups)), fragment.rows,
        fragment.columns // wide), groups)
    made = k.tile(f"{name}_ends", held.tiles[0].rows, held.tiles[0].columns // wide, ends, stages=stages, note="the last dwords of lanes")
    firsts, lasts, shifts = (k.registers.vgprs(groups, f"{name}_{what}") for what in ("firsts", "lasts", "shifts"))
    rows.check_reach(k, 0, ag.BEYOND)
    descriptor, stride = rows.resource(k), rows.matrix.stride_bytes(k)
    row = ag.emit_address(k, f"{name}_row", lambda lane, **waves: table[0][lane][0] + held.tiles[0].rows * sum(waves.values()), k.lane,
                          () if wave is None else (wave,))
    piece = ag.emit_address(k, f"{name}_bytes", lambda lane: table[0][lane][1] * fragment.bits // 8, k.lane)
    with k.scratch("bytes_before", file="s") as before:
        k.s_and_b32(before, descriptor[0], _DWORD - 1)
        k.s_sub_u32(descriptor[0], descriptor[0], before)
        k.s_add_u32(descriptor[2], descriptor[2], before)
        k.v_mul_lo_u32(row, row, stride)
        k.v_add3_u32(firsts[0], row, piece, before)
    for number in range(1, groups):
        k.v_add_u32(firsts[number], stride, firsts[number - 1])
    for number in range(groups):
        k.v_lshlrev_b32(shifts[number], 3, firsts[number])
        k.v_add_u32(lasts[number], _DWORD * _REGISTERS - 1, firsts[number])
        for one in (firsts, lasts):
            k.v_and_b32(one[number], -_DWORD, one[number])
    k.registers.release(row, piece)
    return ShiftedSide(k, held, made, rows, descriptor, firsts, lasts, shifts)


@contextmanager
def after_loop(k: ag.TileBuilder, fragment: ag.Fragment) -> Iterator[AfterLoop]:
    """Where the columns after the loop lie, which are one at least."""
    kept, items, depth = columns_kept(k.parameters), 128 // fragment.bits, k.variant.tile[2]
    lane = ag.emit_address(k, "lane_columns", lambda lane: fragment.table[0][lane][1], k.lane)
    begin, wide, rest, cut = (k.registers.sgprs(1, name) for name in ("k_done", "k_wide", "k_rest", "k_cut"))
    k.s_max_u32(cut, k.argument("k"), kept)
    k.s_sub_u32(cut, cut, kept)
    k.s_and_b32(wide, cut, depth - items)
    k.s_and_b32(begin, cut, -depth)
    k.s_add_u32(rest, begin, wide)
    k.s_sub_u32(cut, k.argument("k"), rest)
    if fragment.bits > 8:
        for one in (begin, rest):
            k.s_lshl_b32(one, one, fragment.bits // 16)
    yield AfterLoop(begin, wide, rest, cut, lane)
    k.registers.release(begin, wide, rest, cut, lane)


def _before(k: ag.TileBuilder, count: ag.Reg, column: int, lane: ag.Reg) -> None:
    """VCC: the lanes whose own column and `column` more are before `count`."""
    with k.scratch("columns_left", file="s") as left:
        k.s_sub_u32(left, count, column)
        k.v_cmp_gt_i32(ag.vcc, left, lane)
