"""The rows of a cache: each token has one, wherever its slot says."""

from __future__ import annotations

from collections.abc import Sequence

import asmgen as ag
from asmgen.kernels.rope.headtensors import HeadWalk
from asmgen.kernels.rope.shape import HeadShape
from asmgen.kernels.rope.tensors import SCALES, type_of
from asmgen.kernels.rope.tokens import number_of_token, token_of_lane
from asmgen.kernels.rows.eightbits import keep_below_largest

_STORES = {1: "global_store_dword", 2: "global_store_dwordx2", 4: "global_store_dwordx4"}
_DWORD = 4  # bytes


class Slots:
    """The slot of each lane's token, and the lanes whose token exists and has a row in the cache."""

    def __init__(self, k: ag.TileBuilder, shape: HeadShape) -> None:
        self.k, self.shape = k, shape
        self.slot = k.registers.vgprs(1, "slot")
        self.stored = k.registers.sgprs(2, "stored_lanes", align=2)
        with k.scratch("token") as token, k.scratch("exists", 2, "s") as exists:
            token_of_lane(k, shape, token)
            number_of_token(k, self.slot, token, "slot_mapping")
            k.v_cmp_gt_u32(exists, k.argument("s"), token)
            k.v_cmp_gt_u32(self.stored, k.argument("slots"), self.slot)
            k.s_and_b64(self.stored, self.stored, exists)


class CacheTensor:
    """The cache at pointer argument `name`. Its rows have offsets of 32 bits; bases go from head to head by scalars."""

    def __init__(self, walk: HeadWalk, name: str, slots: Slots) -> None:
        k, shape = walk.k, walk.shape
        self.k, self.walk, self.shape, self.name, self.slots = k, walk, shape, name, slots
        self.dtype = type_of(k.parameters, name)
        self.size = ag.element_bits(self.dtype) // 8
        shift = self.size.bit_length() - 1
        self.runs = tuple(dict.fromkeys((shape.run, *((shape.rest_run,) if shape.rest else ()))))
        self.at = k.registers.vgprs(len(self.runs), f"{name}_row_bytes")
        self.base = k.registers.sgprs(2, f"{name}_base", align=2)
        self.step = k.registers.sgprs(2, f"{name}_head_bytes", align=2, note="from head to head")
        with k.scratch("row_bytes") as row, k.scratch("bytes", file="s") as stride:
            k.s_lshl_b32(stride, k.argument(f"{name}_stride_s"), shift)
            k.v_mul_lo_u32(row, slots.slot, stride)
            for number, run in enumerate(self.runs):
                at = self.at[number]
                k.v_and_b32(at, shape.across - 1, k.lane)
                k.v_mul_u32_u24(at, run * self.size, at)
                k.v_add_u32(at, row, at)
        k.s_mov_b32(self.step[0], k.argument(f"{name}_stride_h"))
        k.s_mov_b32(self.step[1], 0)
        k.s_lshl_b64(self.step, self.step, shift)
        with k.scratch("before", 2, "s") as before:
            k.s_mul_i32(before[0], walk.first, k.argument(f"{name}_stride_h"))
            k.s_mul_hi_u32(before[1], walk.first, k.argument(f"{name}_stride_h"))
            k.s_lshl_b64(before, before, shift)
            pointer = k.argument(name)
            k.s_add_u32(self.base[0], pointer[0], before[0])
            k.s_addc_u32(self.base[1], pointer[1], before[1])
        self.inverse = self._inverse() if k.p.cache_dtype != "auto" else None

    def _inverse(self) -> ag.Reg:
        """1 / scale, rounded correctly. Conversions from here on give the largest number, not NaN or infinity."""
        k = self.k
        found = k.registers.sgprs(1, f"{self.name}_inverse")
        with k.scratch("scale", 2) as scale, k.scratch("error") as error:
            k.s_load_dword(found, k.argument(SCALES[self.name]), 0)
            k.v_mov_b32(scale[0], found)
            k.v_rcp_f32(scale[1], scale[0])
            k.v_fma_f32(error, -scale[0], scale[1], 1.0)
            k.v_fma_f32(scale[1], error, scale[1], scale[1])
            k.v_readfirstlane_b32(found, scale[1])
        keep_below_largest(k)
        return found

    def go_on(self) -> None:
        """To the next head."""
        k = self.k
        k.s_add_u32(self.base[0], self.base[0], self.step[0])
        k.s_addc_u32(self.base[1], self.base[1], self.step[1])

    def store(self, parts: Sequence[ag.Tile]) -> None:
        """The rotated columns of a head into the rows of its tokens."""
        self._store(parts, self.shape.starts, self.shape.run)

    def store_rest(self, rest: Sequence[ag.Tile]) -> None:
        """Its other columns."""
        if rest:
            self._store(rest, (self.shape.rest_start,), self.shape.rest_run)

    def _store(self, tiles: Sequence[ag.Tile], columns: Sequence[int], run: int) -> None:
        k = self.k
        k.s_mov_b64(ag.exec_, self.slots.stored)
        for tile, column in zip(tiles, columns, strict=True):
            self._store_tile(tile, column, self.at[self.runs.index(run)])
        k.s_mov_b64(ag.exec_, -1)

    def _store_tile(self, tile: ag.Tile, column: int, at: ag.Reg) -> None:
        apart = self.shape.across * tile.fragment.items
        for number in range(tile.across):
            registers = tile.base(0, number)
            step = min(tile.fragment.registers, max(_STORES))
            for first in range(0, tile.fragment.registers, step):
                self.k.emit(_STORES[step], at, registers[first:first + step - 1], self.base,
                            offset=(column + number * apart) * self.size + _DWORD * first, nt=True)

    def release(self) -> None:
        """Give its registers back."""
        for name in ("row_bytes", "base", "head_bytes", *(("inverse",) if self.inverse is not None else ())):
            self.k.registers.release(f"{self.name}_{name}")
