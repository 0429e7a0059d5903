"""Row and column maximum, minimum and sum of f32 tiles, over a lane's items first and then over the lanes that share a row.

Over lanes the cheapest exchange is taken: DPP inside of 16 lanes (no instruction of its own), v_permlane16/32_swap on gfx950 (a copy
and the swap), LDS's permutation network on gfx942 (ds_swizzle_b32 for 16 lanes apart, ds_bpermute_b32 for 32 apart; no LDS memory).
`across=False` leaves a value for each lane's own part, to be finished by `reduce_lanes` when it is rarely needed.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from asmgen.author.ops.packedpairs import joined
from asmgen.author.ops.vectors import Vector, profile
from asmgen.author.step.iterations import StepIndex, operation
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.isa.registers import Reg

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder

_OPS = {"max": "v_max_f32", "min": "v_min_f32", "sum": "v_add_f32"}
_THREE = {"max": "v_max3_f32", "min": "v_min3_f32"}
_ROW = 16  # lanes of a DPP row
_CHUNK = 4  # registers that are exchanged together, so that one's wait states hold the others' instructions


def row_max(k: TileBuilder, out: Vector, tile: Tile, across: bool = True, start: bool = False, at: StepIndex | None = None) -> None:
    """The largest element of each row; with `start`, or what `out` held before. Raises TileError where tile and vector do not fit."""
    _reduce(k, "max", "row", out, tile, across, start, False, at)


def row_min(k: TileBuilder, out: Vector, tile: Tile, across: bool = True, start: bool = False, at: StepIndex | None = None) -> None:
    """The smallest element of each row, as `row_max`."""
    _reduce(k, "min", "row", out, tile, across, start, False, at)


def row_sum(k: TileBuilder, out: Vector, tile: Tile, across: bool = True, start: bool = False, packed: bool = True,
            at: StepIndex | None = None) -> None:
    """The sum of each row, as `row_max`; `packed` adds pairs of registers by v_pk_add_f32 (not in an MFMA's shadow on gfx950).

    With `start` and `across`, what `out` held must be the same in all lanes of a row in one of them only, since lanes are added: start
    from a partial sum (`across=False`), and finish with `reduce_lanes`; else TileError.
    """
    _reduce(k, "sum", "row", out, tile, across, start, packed, at)


def column_max(k: TileBuilder, out: Vector, tile: Tile, across: bool = True, start: bool = False, at: StepIndex | None = None) -> None:
    """The largest element of each column, as `row_max`."""
    _reduce(k, "max", "column", out, tile, across, start, False, at)


def column_min(k: TileBuilder, out: Vector, tile: Tile, across: bool = True, start: bool = False, at: StepIndex | None = None) -> None:
    """The smallest element of each column, as `row_max`."""
    _reduce(k, "min", "column", out, tile, across, start, False, at)


def column_sum(k: TileBuilder, out: Vector, tile: Tile, across: bool = True, start: bool = False, packed: bool = True,
               at: StepIndex | None = None) -> None:
    """The sum of each column, as `row_sum`."""
    _reduce(k, "sum", "column", out, tile, across, start, packed, at)


def reduce_lanes(k: TileBuilder, kind: str, vector: Vector, at: StepIndex | None = None) -> None:
    """"max", "min" or "sum" over the lanes that hold the same rows (columns), in place: all of them get it.

    Takes up to 4 VGPRs in passing where lanes are 16 or 32 apart.
    """
    if kind not in _OPS:
        raise TileError(f"reduce_lanes knows {', '.join(_OPS)}, not {kind!r}", k.here())
    if not vector.shared_lanes:
        return
    mask = vector.registers.mask
    with operation(k, f"{kind} of {vector.name} over lanes", [vector.index], reads=mask, writes=mask, at=at):
        over_lanes(k, _OPS[kind], vector.registers.items, vector.shared_lanes)


def _reduce(k: TileBuilder, kind: str, axis: str, out: Vector, tile: Tile, across: bool, start: bool, packed: bool,
            at: StepIndex | None) -> None:
    size = tile.rows if axis == "row" else tile.columns
    if tile.dtype != "f32":
        raise TileError(f"{axis} {kind}: {tile} is {tile.dtype}; reductions are of f32, so convert(k, ...) it first", k.here())
    if out.axis != axis or not out.fits(tile.fragment, size):
        raise TileError(f"{axis} {kind}: {out} is no {axis} vector of {tile}; make it with {axis}_vector(k, ..., {tile.name})", k.here())
    if any(reg.file != "v" for reg in (*tile.registers, *out.registers)):
        raise TileError(f"{axis} {kind}: {tile} or {out} lies in AGPRs, which vector instructions do not reach; move(k, ...) it into VGPRs",
                        k.here())
    if kind == "sum" and start and across and out.shared_lanes:
        raise TileError(f"{axis} sum: start would be added once for each of the {1 << len(out.shared_lanes)} lanes of a {axis}; sum with "
                        "across=False and finish with reduce_lanes, or add(k, ...) two vectors", k.here())
    reads = tile.registers.mask | (out.registers.mask if start else 0)
    with operation(k, f"{axis} {kind} of {tile.name}", [tile.index, out.index], reads=reads, writes=out.registers.mask, at=at):
        found = _members(out, tile)
        if kind == "sum":
            for target, members in found:
                _sum(k, target, members, start, packed)
        else:
            for first in range(0, len(found), _CHUNK):
                _extremes(k, kind, found[first:first + _CHUNK], start)
        if across and out.shared_lanes:
            over_lanes(k, _OPS[kind], out.registers.items, out.shared_lanes)


def _members(out: Vector, tile: Tile) -> list[tuple[Reg, list[Reg]]]:
    """Each register of the vector with the registers of the tile that go into it."""
    numbers, _ = profile(tile.fragment, out.axis)
    found: dict[int, tuple[Reg, list[Reg]]] = {}
    for row, column in tile.positions():
        base = tile.base(row, column)
        for item in range(len(numbers)):
            target = out.of(tile, row, column, item)
            found.setdefault(target.index, (target, []))[1].append(base[item])
    return list(found.values())


def _extremes(k: TileBuilder, kind: str, found: Sequence[tuple[Reg, list[Reg]]], start: bool) -> None:
    """Chains in turns, as one waits for each result: those of several targets, or two of one."""
    if len(found) > 1:
        for line in itertools.zip_longest(*(_chain(kind, target, [*([target] if start else []), *members]) for target, members in found)):
            for op, registers in filter(None, line):
                k.emit(op, *registers)
        return
    target, members = found[0]
    left = [*([target] if start else []), *members]
    if len(left) <= 2 * _CHUNK:
        for op, registers in _chain(kind, target, left):
            k.emit(op, *registers)
        return
    with k.scratch(f"other_{kind}") as other:
        current, second = left.pop(0), left.pop(2)
        while len(left) > 1:
            k.emit(_THREE[kind], target, current, left.pop(0), left.pop(0))
            current = target
            if len(left) > 1:
                k.emit(_THREE[kind], other, second, left.pop(0), left.pop(0))
                second = other
        for op, registers in _chain(kind, target, [current, *left, other]):
            k.emit(op, *registers)


def _chain(kind: str, target: Reg, members: Sequence[Reg]) -> Iterator[tuple[str, tuple[Reg, ...]]]:
    """One chain, two members at a time after the first."""
    current, *left = members
    if not left and current is not target:
        yield "v_mov_b32", (target, current)
    for number in range(0, len(left), 2):
        pair = left[number:number + 2]
        yield (_THREE if len(pair) > 1 else _OPS)[kind], (target, current, *pair)
        current = target


def _sum(k: TileBuilder, target: Reg, members: Sequence[Reg], start: bool, packed: bool) -> None:
    pairs = [joined(members[number], members[number + 1]) for number in range(0, len(members) - 1, 2)]
    whole = [pair for pair in pairs if pair is not None]
    if packed and len(members) >= 6 and len(members) % 2 == 0 and len(whole) == len(pairs):
        with k.scratch("partial_sums", 2) as partial:
            k.v_pk_add_f32(partial, whole[0], whole[1])
            for pair in whole[2:]:
                k.v_pk_add_f32(partial, partial, pair)
            if start:
                k.v_add_f32(target, target, partial[0])
                k.v_add_f32(target, target, partial[1])
            else:
                k.v_add_f32(target, partial[0], partial[1])
        return
    left = list(members)
    current: Reg = target if start else left.pop(0)
    if not left and current is not target:
        k.v_mov_b32(target, current)
    if len(left) < _CHUNK:
        for member in left:
            k.v_add_f32(target, current, member)
            current = target
        return
    with k.scratch("other_sum") as other:  # two chains, as one waits for each result
        second = left.pop(1)
        for number in range(0, len(left), 2):
            k.v_add_f32(target, current, left[number])
            current = target
            if number + 1 < len(left):
                k.v_add_f32(other, second, left[number + 1])
                second = other
        k.v_add_f32(target, target, second)


# ---- over lanes ----


def over_lanes(k: TileBuilder, op: str, registers: Sequence[Reg], bits: Sequence[int]) -> None:
    """An instruction of two sources over the lanes whose numbers differ in those bits, for each register; all of them get the result."""
    for bit in bits:
        if 1 << bit < _ROW:
            control = _dpp(bit, bits)
            if control is None:
                _exchanged(k, op, registers, functools.partial(_swizzled, k, 1 << bit))
                continue
            for reg in registers:
                k.emit(op, reg, reg, reg, **control, row_mask=15, bank_mask=15)
        elif k.arch == "gfx950":
            swap = "v_permlane16_swap_b32" if 1 << bit == _ROW else "v_permlane32_swap_b32"
            for first in range(0, len(registers), _CHUNK):
                part = registers[first:first + _CHUNK]
                with k.scratch("other_lanes", len(part)) as held:
                    for number, reg in enumerate(part):
                        k.v_mov_b32(held[number], reg)
                    for number, reg in enumerate(part):
                        k.emit(swap, held[number], reg)
                    for number, reg in enumerate(part):
                        k.emit(op, reg, reg, held[number])
        elif 1 << bit == _ROW:
            _exchanged(k, op, registers, functools.partial(_swizzled, k, _ROW))
        else:
            _exchanged(k, op, registers, functools.partial(_from_other_half, k, other_half(k)))


def _exchanged(k: TileBuilder, op: str, registers: Sequence[Reg], exchange: Callable[[Reg, Reg], object]) -> None:
    for first in range(0, len(registers), _CHUNK):
        part = registers[first:first + _CHUNK]
        with k.scratch("other_lanes", len(part)) as held:
            for number, reg in enumerate(part):
                exchange(held[number], reg)
            for number, reg in enumerate(part):
                k.emit(op, reg, reg, held[number])


def _swizzled(k: TileBuilder, flip: int, held: Reg, reg: Reg) -> None:
    k.ds_swizzle_b32(held, reg, offset=0x1F | flip << 10)


def _from_other_half(k: TileBuilder, address: Reg, held: Reg, reg: Reg) -> None:
    k.ds_bpermute_b32(held, address, reg)


def _dpp(bit: int, bits: Sequence[int]) -> dict[str, Any] | None:
    """The control that brings the value of lane ^ (1 << bit). A mirror of eight lanes flips three bits: it serves where the lower two
    are reduced before."""
    if bit == 2:
        return {"row_half_mirror": True} if 0 in bits and 1 in bits else None
    controls: dict[int, dict[str, Any]] = {0: {"quad_perm": (1, 0, 3, 2)}, 1: {"quad_perm": (2, 3, 0, 1)}, 3: {"row_ror": 8}}
    return controls[bit]


def other_half(k: TileBuilder) -> Reg:
    """The VGPR of 4 * (lane ^ 32), the address of ds_bpermute_b32 for the other half of the wave; made once."""
    key = ("other half",)
    made = k.made.get(key)
    if made is None:
        made = k.made[key] = k.hoist(lambda: _other_half(k))
    assert isinstance(made, Reg)
    return made


def _other_half(k: TileBuilder) -> Reg:
    address = k.registers.vgprs(1, "other_half", note="4 * (lane ^ 32), for ds_bpermute_b32")
    k.v_xor_b32(address, 32, k.lane)
    k.v_lshlrev_b32(address, 2, address)
    return address
