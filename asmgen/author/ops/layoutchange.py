"""Changes of layout: the same elements in other lanes and registers, by the cheapest way that there is.

    moved, way = change_layout(k, P, M.a)         # "renaming", "permlane", "items" or "lds"

*renaming* costs nothing: registers get other names. *items* is another order within a lane: one v_perm_b32 for two halves, three
instructions for four bytes. *permlane* (gfx950) exchanges a bit of the register's number with bit 4 or 5 of
the lane's, one v_permlane16/32_swap_b32 for two registers, in place. *lds* writes a shared tile and reads it back.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asmgen.author.ops.constants import constant
from asmgen.author.ops.elementwise import move
from asmgen.author.ops.movement import read, write
from asmgen.author.step.iterations import StepIndex, operation
from asmgen.author.tiles.fragments import Fragment
from asmgen.author.tiles.shared import SharedPart
from asmgen.author.tiles.tiles import Tile, TileError, tile_registers
from asmgen.isa.arch import LANE_SWAPS
from asmgen.isa.registers import Reg
from asmgen.regalloc.sets import RegisterSet, join

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder

LANE_BITS = 6
Position = tuple[str, int]  # "item" or "lane", and the bit of its number


@dataclass(frozen=True)
class LayoutPlan:
    """How a tile gets to another fragment's places: swaps of (bit of the register's number, bit of the lane's), then register m of the
    result is register `registers[m]`. `way` is "renaming" or "permlane"."""

    method: str
    swaps: tuple[tuple[int, int], ...]
    registers: tuple[int, ...]


def plan_change(arch: str, tile: Tile, fragment: Fragment) -> LayoutPlan | None:
    """The plan within registers, None where LDS is needed: other lanes than those 16 or 32 apart, elements that change their place in a
    register, sizes that are no powers of two."""
    mine, its = _positions(tile.rows, tile.columns, tile.fragment), _positions(tile.rows, tile.columns, fragment)
    if mine is None or its is None or set(mine) != set(its) or tile.fragment.bits != fragment.bits:
        return None
    swaps: list[tuple[int, int]] = []
    inside = (32 // fragment.bits).bit_length() - 1  # bits of an item's number that stay in a register
    for lane_bit in (5, 4, 5):  # what one lane bit gives away may be what the other waits for
        wanted = next((one for one, position in its.items() if position == ("lane", lane_bit)), None)
        where = mine[wanted] if wanted is not None else ("lane", lane_bit)
        if wanted is None or where[0] == "lane" or where[1] < inside or arch != "gfx950":
            continue
        swaps.append((where[1] - inside, lane_bit))
        other = next(one for one, position in mine.items() if position == ("lane", lane_bit))
        mine[wanted], mine[other] = ("lane", lane_bit), where
    bits = {}
    for one, position in its.items():
        if (position[0] == "lane" or position[1] < inside or mine[one][1] < inside) and mine[one] != position:
            return None
        if position[0] == "item" and position[1] >= inside:
            bits[position[1] - inside] = mine[one][1] - inside
    count = tile.registers.count
    registers = tuple(sum((number >> new & 1) << old for new, old in bits.items()) for number in range(count))
    return LayoutPlan("permlane" if swaps else "renaming", tuple(swaps), registers)


def _positions(rows: int, columns: int, fragment: Fragment) -> dict[tuple[int, int], Position] | None:
    """For each bit of an element's (row, column) the bit of item (over the whole tile) or lane that decides it alone."""
    down, across, rest = rows // fragment.rows, columns // fragment.columns, (rows % fragment.rows, columns % fragment.columns)
    sizes = (fragment.items, across, down)
    if any(rest) or any(size & (size - 1) or not size for size in sizes) or fragment.bits not in (8, 16, 32):
        return None
    images: list[tuple[Position, tuple[int, int]]] = []
    bit = 0
    for size, image in ((fragment.items, lambda n: fragment.table[n][0]), (across, lambda n: (0, n * fragment.columns)),
                        (down, lambda n: (n * fragment.rows, 0))):
        for power in range(size.bit_length() - 1):
            images.append((("item", bit), image(1 << power)))
            bit += 1
    images += [(("lane", power), fragment.table[0][1 << power]) for power in range(LANE_BITS)]
    found: dict[tuple[int, int], Position] = {}
    for position, (row, column) in images:
        if (row == 0) == (column == 0) or row & (row - 1) or column & (column - 1) or (row, column) in found:
            return None
        found[row, column] = position
    return found


def change_layout(k: TileBuilder, tile: Tile, fragment: Fragment, out: Tile | None = None, through: SharedPart | None = None,
                  at: StepIndex | None = None) -> tuple[Tile, str]:
    """The tile with another fragment's places, and the way: "renaming", "permlane", "items" or "lds".

    Without `out` the result has the tile's own registers, and where the way was "permlane", the tile is spent. With `out` it is copied
    there, and "items" needs it. "lds" needs `out` and a shared tile of the same shape and type to go `through`, which this wave alone
    uses now.
    Raises TileError where shapes or types do not fit, or LDS is needed and not given.
    """
    if tile.dtype != fragment.dtype:
        raise TileError(f"change_layout: {tile} does not become {fragment.dtype} by moving; convert(k, ...) it", k.here())
    tile_registers(tile.rows, tile.columns, fragment, tile.name)
    if out is not None and ((out.rows, out.columns) != (tile.rows, tile.columns) or not out.fragment.same_coordinates(fragment)):
        raise TileError(f"change_layout: {out} is not {tile} in fragments {fragment}", k.here())
    plan = plan_change(k.arch, tile, fragment)
    if plan is None:
        sources = _in_lane(tile, fragment)
        if sources is not None and out is not None and fragment.bits in (8, 16):
            _permute(k, out, tile, sources, at)
            return out, "items"
        if through is None or out is None:
            raise TileError(f"change_layout: {tile} to fragments {fragment} moves elements between lanes in ways that "
                            f"{_reason(k.arch)}; give a shared tile to go through and a tile for the result", k.here())
        write(k, through, tile, own=True)
        read(k, out, through, own=True)
        return out, "lds"
    items = tile.registers.items
    if any(reg.file != "v" for reg in items) and plan.swaps:
        raise TileError(f"change_layout: {tile} lies in AGPRs, which permlane swaps do not reach; move(k, ...) it into VGPRs", k.here())
    if plan.swaps:
        with operation(k, f"swap lanes of {tile.name}", [tile.index], reads=tile.registers.mask, writes=tile.registers.mask, at=at):
            for bit, lane_bit in plan.swaps:
                for number, reg in enumerate(items):
                    if not number >> bit & 1:
                        k.emit(LANE_SWAPS[lane_bit], reg, items[number | 1 << bit])
    ordered: tuple[Reg, ...] = tuple(items[number] for number in plan.registers)
    moved = Tile(tile.name, tile.rows, tile.columns, fragment, RegisterSet(join(ordered)), tile.index)
    if out is not None:
        move(k, out, moved, at)
        return out, plan.method
    size = fragment.registers
    if any(ordered[number].index + 1 != ordered[number + 1].index for number in range(len(ordered) - 1) if (number + 1) % size):
        raise TileError(f"change_layout: the registers of {tile} become those of {fragment} by {plan.method}, but fragments would not be "
                        "neighbours; give a tile for the result, or pin the registers in that order", k.here())
    return moved, plan.method


def _in_lane(tile: Tile, fragment: Fragment) -> list[int] | None:
    """For each item of the result, over the whole tile, the item of the tile that it is in every lane; None where lanes differ."""
    held = {coordinates: number for number, coordinates in enumerate(_coordinates(tile.rows, tile.columns, tile.fragment))}
    found = [held.get(coordinates) for coordinates in _coordinates(tile.rows, tile.columns, fragment)]
    return None if None in found else [number for number in found if number is not None]


def _coordinates(rows: int, columns: int, fragment: Fragment) -> list[tuple[tuple[int, int], ...]]:
    return [tuple((row + r, column + c) for r, c in line) for row in range(0, rows, fragment.rows)
            for column in range(0, columns, fragment.columns) for line in fragment.table]


def _permute(k: TileBuilder, out: Tile, tile: Tile, sources: list[int], at: StepIndex | None) -> None:
    """v_perm_b32 takes bytes 0 to 3 from its second source, 4 to 7 from its first; 12 is a zero."""
    if out.registers.mask & tile.registers.mask or any(reg.file != "v" for reg in (*out.registers, *tile.registers)):
        raise TileError(f"change_layout: {tile} to {out} goes from VGPRs to other VGPRs", k.here())
    together, size = 32 // tile.fragment.bits, tile.fragment.bits // 8
    registers = tile.registers.items
    selectors: dict[int, Reg] = {}
    with operation(k, f"reorder {tile.name} to {out.name}", [out.index, tile.index], reads=tile.registers.mask, writes=out.registers.mask,
                   at=at), k.scratch("half_of_register") as half, ExitStack() as stack:
        def emit(target: Reg, first: int, second: int, selector: int) -> None:
            if selector not in selectors:
                selectors[selector] = stack.enter_context(constant(k, f"byte_selector_{selector:08x}", selector))
            k.v_perm_b32(target, registers[second], registers[first], selectors[selector])

        for number, target in enumerate(out.registers.items):
            parts = [divmod(source, together) for source in sources[number * together:(number + 1) * together]]
            if size == 2:
                (low, a), (high, b) = parts
                emit(target, low, high, (2 * a) | (2 * a + 1) << 8 | (4 + 2 * b) << 16 | (5 + 2 * b) << 24)
                continue
            for side, aim in ((0, target), (1, half)):
                (low, a), (high, b) = parts[2 * side:2 * side + 2]
                emit(aim, low, high, (a | (4 + b) << 8 | 0x0C0C0000) if side == 0 else (a << 16 | (4 + b) << 24 | 0x0C0C))
            k.v_or_b32(target, half, target)


def _reason(arch: str) -> str:
    return "no permlane swap does" if arch == "gfx950" else f"{arch} has no swaps for"
