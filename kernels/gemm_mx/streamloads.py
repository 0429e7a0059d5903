"""Loads of a step's operands and scales straight into registers, with the columns that the first step lacks left out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import asmgen as ag

_LOADS = {1: "buffer_load_dword", 2: "buffer_load_dwordx2", 4: "buffer_load_dwordx4"}
_BYTE = "buffer_load_ubyte"


@dataclass(frozen=True)
class LanePiece:
    """What one instruction loads: fragment row, first register, how many (0: a byte in one), and its first byte after the lane's."""

    row: int
    first: int
    count: int
    byte: int


@dataclass(frozen=True)
class StepLoads:
    """The loads of a step, `bytes_` long, of a half of the rows. `lane` is a VGPR with the lane's first byte of a row, `offsets` those with
    its first byte by half and fragment row. `limit` is the bytes of a row that step 0 has (None: all), `jump` how far away they are.
    What is `nontemporal` leaves caches before other lines."""

    k: ag.TileBuilder
    rows: ag.Rows
    bytes_: int
    pieces: tuple[LanePiece, ...]
    lane: ag.Reg
    offsets: dict[tuple[int, int], ag.Reg]
    limit: ag.Reg | None
    jump: ag.Reg
    together: bool = False
    nontemporal: bool = False

    def load(self, tile: ag.Tile, t: ag.StepIndex, half: int) -> None:
        """An iteration's columns of a half."""
        with t.first, self.k.block(f"first {self.rows.matrix.name}") if self.together else nullcontext():
            self._load(tile, t, half, True)
        with t.later:
            self._load(tile, t, half, False)

    def _load(self, tile: ag.Tile, t: ag.StepIndex, half: int, first: bool) -> None:
        k, registers = self.k, list(tile.registers)
        with ag.operation(k, f"load {tile.name}", [tile.index, t], writes=tile.registers.mask), \
                k.scratch("elsewhere", file="s") as elsewhere, k.scratch("left", file="s") as left, k.scratch("inside") as inside:
            self.rows.check_reach(k, 0, ag.BEYOND)
            descriptor, where = self.rows.resource(k), k.advance(self.rows.k(t), self.bytes_)
            if first:
                k.s_add_u32(elsewhere, where, self.jump)
                where = elsewhere
            for piece in self.pieces:
                offset = self.offsets[half, piece.row]
                if first and self.limit is not None:
                    k.s_sub_u32(left, self.limit, piece.byte)
                    k.v_cmp_gt_i32(ag.vcc, left, self.lane)
                    ag.send_outside(k, inside, offset)
                    offset = inside
                target = ag.span(registers[piece.first:piece.first + max(1, piece.count)])
                k.emit(_LOADS.get(piece.count, _BYTE), target, offset, descriptor, where, offen=True, offset=piece.byte,
                       nt=self.nontemporal)


def step_loads(k: ag.TileBuilder, rows: ag.Rows, bytes_: int, pieces: tuple[LanePiece, ...], lane_bytes: int, waves: ag.WaveIndex,
               limit: ag.Reg | None, jump: ag.Reg, halves: int, lanes: int = 16) -> StepLoads:
    """Lane l has row l % `lanes` of a fragment, and what begins l / `lanes` times `lane_bytes` after the row's first byte. A wave has
    equal parts of the rows of each of `halves`."""
    name, stride = rows.matrix.name, rows.matrix.stride_bytes(k)
    lane = ag.emit_address(k, k.registers.unused(f"{name}_lane"), lambda lane: lane // lanes * lane_bytes, k.lane)
    each = rows.count // halves // waves.count
    wave = ag.WaveIndex("wave", waves.register, waves.count)
    offsets = {}
    for half in range(halves):
        for row in sorted({piece.row for piece in pieces}):
            first = half * rows.count // halves + row * lanes
            at = ag.emit_address(k, k.registers.unused(f"{name}_at{half}{row}"), _row_of(first, each, lanes), k.lane, (wave,))
            k.v_mul_lo_u32(at, at, stride)
            k.v_add_u32(at, lane, at)
            offsets[half, row] = at
    return StepLoads(k, rows, bytes_, pieces, lane, offsets, limit, jump)


def _row_of(first: int, each: int, lanes: int) -> Callable[..., int]:
    return lambda lane, wave: first + wave * each + lane % lanes
