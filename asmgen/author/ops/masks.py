"""Masks on f32 tiles: what lies beyond a bound, above a diagonal or outside of a window gets a value (minus infinity).

    mask_columns(k, S, left)                   # columns left, left + 1, ... (a number, an SGPR, or a VGPR)
    mask_causal(k, S, shift)                   # row r sees columns up to r + shift
    mask_window(k, S, shift, width)            # and not those before r + shift - width

One register is computed for the tile, what is left of the bound at the lane's first element; then two instructions an element, in groups
of comparisons and selections, so that none waits for the one before it. Where VCC is free, one comparison of each group writes it: both
instructions then have half of the bytes.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from asmgen.author.address.addressing import emit_address
from asmgen.author.emit.kernel import Kept
from asmgen.author.step.iterations import StepIndex, operation
from asmgen.author.tiles.fragments import Fragment
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.isa.registers import Reg, vcc

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder

LOWEST = float("-inf")
_GROUPS = (4, 2, 1)  # elements that are compared before the first is selected: as many as there are SGPRs for
_INLINE = range(-16, 65)  # numbers that every encoding takes


def mask_columns(k: TileBuilder, tile: Tile, left: Reg | int, value: float = LOWEST, at: StepIndex | None = None,
                 vcc_free: bool = False) -> None:
    """Columns of the tile from number `left` on (a number, or a signed one in an SGPR, or for each lane in a VGPR) get `value`. With
    `vcc_free`, VCC may change.

    Raises TileError for a tile not of f32.
    """
    _mask(k, "mask columns of", tile, (0, 1), left, -1, False, value, at, vcc_free)


def mask_rows(k: TileBuilder, tile: Tile, left: Reg | int, value: float = LOWEST, at: StepIndex | None = None,
              vcc_free: bool = False) -> None:
    """Rows of the tile from number `left` on get `value`, as `mask_columns`."""
    _mask(k, "mask rows of", tile, (1, 0), left, -1, False, value, at, vcc_free)


def mask_rows_before(k: TileBuilder, tile: Tile, first: Reg | int, value: float = LOWEST, at: StepIndex | None = None,
                     vcc_free: bool = False) -> None:
    """Rows of the tile before number `first` get `value`, as `mask_columns`."""
    _mask(k, "mask rows of", tile, (1, 0), first, 0, True, value, at, vcc_free)


def mask_causal(k: TileBuilder, tile: Tile, shift: Reg | int, transposed: bool = False, value: float = LOWEST,
                at: StepIndex | None = None) -> None:
    """Element (r, c) stays where c <= r + shift; of a `transposed` tile (S^T: keys are rows) where r <= c + shift.

    For queries from q0 and keys from k0 on, bottom-right: shift = q0 - k0 + keys - queries.
    """
    _mask(k, "causal mask of", tile, (1, -1) if transposed else (-1, 1), shift, 0, False, value, at)


def mask_window(k: TileBuilder, tile: Tile, shift: Reg | int, width: int, transposed: bool = False, value: float = LOWEST,
                at: StepIndex | None = None) -> None:
    """Element (r, c) stays where r + shift - width <= c <= r + shift; `transposed` as in `mask_causal`."""
    signs = (1, -1) if transposed else (-1, 1)
    _mask(k, "window of", tile, signs, shift, 0, False, value, at)
    _mask(k, "window of", tile, signs, shift, -width, True, value, at)


def _mask(k: TileBuilder, what: str, tile: Tile, signs: tuple[int, int], bound: Reg | int, more: int, lower: bool, value: float,
          at: StepIndex | None, vcc_free: bool = False) -> None:
    """Keep where signs . (row, column) <= bound + more (`lower`: >=)."""
    if tile.dtype != "f32" or any(reg.file != "v" for reg in tile.registers):
        raise TileError(f"{what} {tile}: masks are put on f32 in VGPRs; convert(k, ...) or move(k, ...) it first", k.here())
    f = tile.fragment
    parts = lane_coordinates(k, f)
    word = struct.unpack("<i", struct.pack("<f", value))[0]
    mask = tile.registers.mask
    size = next((size for size in _GROUPS if not (pairs := size - vcc_free) or k.has_scratch(2 * pairs, "s")), _GROUPS[0])
    pairs = size - vcc_free
    compare = "v_cmp_ge_i32" if lower else "v_cmp_le_i32"
    origin = f.table[0][0]
    inside = [(tile.base(row, column)[item], signs[0] * (row * f.rows + line[0][0] - origin[0])
               + signs[1] * (column * f.columns + line[0][1] - origin[1]))
              for row, column in tile.positions() for item, line in enumerate(f.table)]
    if all(number - more in _INLINE for _, number in inside):
        inside, more = [(reg, number - more) for reg, number in inside], 0
    with operation(k, f"{what} {tile.name}", [tile.index], reads=mask, writes=mask, at=at), k.scratch("mask_bound") as left, \
            k.scratch("mask_value") as masked, (k.scratch("kept", 2 * pairs, "s") if pairs else nullcontext()) as kept:
        held_in = [*([vcc] if vcc_free else []), *(kept[2 * pair:2 * pair + 1] for pair in range(pairs) if kept is not None)]
        k.v_mov_b32(masked, word)  # v_cndmask reads a mask, so it takes no literal
        # left = bound + more - signs . (row, column) of the lane's first element
        current: Reg | int = bound
        for sign, part in zip(signs, parts, strict=True):
            if sign:
                k.emit("v_sub_u32" if sign > 0 else "v_add_u32", left, current, part)
                current = left
        if more:
            k.v_add_u32(left, more, left)
        for first in range(0, len(inside), size):
            group = inside[first:first + size]
            for result, (_, number) in zip(held_in, group, strict=False):
                if number in _INLINE:
                    k.emit(compare, result, number, left)
                else:
                    with k.scratch("inside", file="s") as held:
                        k.s_movk_i32(held, number)
                        k.emit(compare, result, held, left)
            for result, (reg, _) in zip(held_in, group, strict=False):
                k.v_cndmask_b32(reg, masked, reg, result)


def _make_coordinate(k: TileBuilder, key: object, title: str, values: tuple[int, ...]) -> Reg:
    found = emit_address(k, k.registers.unused(title), lambda lane: values[lane], k.lane)
    k.made[key] = Kept(found, len(k.items))
    return found


def lane_coordinates(k: TileBuilder, fragment: Fragment) -> tuple[Reg, Reg]:
    """(row, column) of each lane's first element in a fragment, in two VGPRs that are made once for all fragments with those places."""
    row, column = (_lane_coordinate(k, fragment, axis)[0] for axis in range(2))
    k.registers.keep(row, column)
    return row, column


@contextmanager
def lane_coordinate(k: TileBuilder, fragment: Fragment, axis: int) -> Iterator[Reg]:
    """One of them, for the code within. After it the register may end, for others that find none or at the next pipeline."""
    found, new = _lane_coordinate(k, fragment, axis)
    spare = k.registers.keep(found)
    yield found
    k.registers.spare(*([found] if new else spare), briefly=True)


def _lane_coordinate(k: TileBuilder, fragment: Fragment, axis: int) -> tuple[Reg, bool]:
    """One of them, and whether it was made for this."""
    values = tuple(position[axis] for position in fragment.table[0])
    key = "lane places", values
    made = k.made.get(key)
    if isinstance(made, Kept) and isinstance(made.value, Reg) and k.holds_since(made.position, [made.value]):
        return made.value, False
    return k.hoist(functools.partial(_make_coordinate, k, key, f"lane_{('row', 'column')[axis]}", values)), True
