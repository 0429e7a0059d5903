"""The parts of gemm-bf16 for gfx942: where a workgroup and a wave stand, descriptors, LDS addresses, the epilogue.

A tile of A in LDS is 128 rows of 64 bf16: 128 bytes, eight chunks of 16. Chunk c of row r lies in slot c ^ (r % 8), so
that sixteen lanes that read the same chunk of sixteen rows find sixteen different places among the banks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from asmgen.author.kernel import KernelBuilder
from asmgen.isa.registers import Reg, exec_
from asmgen.kernels.gemm_bf16.family import TILE_K, TILE_M, TILE_N, WAVES_M, WAVES_N

ELEMENT = 2  # bytes of bf16
ROW_BYTES = TILE_K * ELEMENT
CHUNK_BYTES = 16
MFMA_EDGE = 16
TILES_M = TILE_M // WAVES_M // MFMA_EDGE  # MFMA tiles of one wave
TILES_N = TILE_N // WAVES_N // MFMA_EDGE
LOADS = TILE_M * ROW_BYTES // (64 * WAVES_M * WAVES_N * CHUNK_BYTES)  # 16-byte loads of one wave for a tile of A (or B)
LOAD_ROWS = 64 * CHUNK_BYTES // ROW_BYTES  # rows of one of them
BUFFER_FLAGS = 0x00020000  # word 3 of a raw buffer: 32-bit data, no swizzle, no stride


@dataclass(frozen=True)
class Position:
    """Scalar and vector registers that say where a wave and a lane stand."""

    wave: Reg  # number in the workgroup
    lane: Reg
    row0: Reg  # first row of the workgroup's tile of D
    column0: Reg


def find_position(k: KernelBuilder) -> Position:
    """Wave and lane from the work-item id, the tile's corner from the workgroup id."""
    plan = k.registers
    position = Position(plan.sgprs(1, "wave"), plan.vgprs(1, "lane"), plan.sgprs(1, "row0"), plan.sgprs(1, "column0"))
    with k.scratch("number") as number:
        k.v_lshrrev_b32(number, 6, k.work_item)
        k.v_readfirstlane_b32(position.wave, number)
    k.v_and_b32(position.lane, 63, k.work_item)
    k.s_lshl_b32(position.row0, k.ids["y"], TILE_M.bit_length() - 1)
    k.s_lshl_b32(position.column0, k.ids["x"], TILE_N.bit_length() - 1)
    return position


def make_descriptor(k: KernelBuilder, name: str, pointer: Reg, first_row: Reg, rows: Reg, stride: Reg, row_bytes: Reg) -> Reg:
    """A buffer descriptor of the rows from `first_row` on, at most a tile of them, with bounds to the byte.

    Rows beyond `rows` lie behind the last valid byte, so loads give 0 and stores are dropped. `stride` and `row_bytes` are in bytes.
    """
    descriptor = k.registers.sgprs(4, name)
    base, records = descriptor[0:1], descriptor[2]
    with k.scratch("high", file="s") as high:
        k.s_mul_i32(base[0], first_row, stride)
        k.s_mul_hi_u32(high, first_row, stride)
        k.s_add_u32(base[0], pointer[0], base[0])
        k.s_addc_u32(base[1], pointer[1], high)
    k.s_sub_u32(records, rows, first_row)
    k.s_min_u32(records, records, TILE_M)
    k.s_sub_u32(records, records, 1)
    k.s_mul_i32(records, records, stride)
    k.s_add_u32(records, records, row_bytes)
    k.s_mov_b32(descriptor[3], BUFFER_FLAGS)
    return descriptor


def load_offsets(k: KernelBuilder, name: str, position: Position, stride: Reg) -> Reg:
    """One byte offset a load: lane l fetches, for slot l % 8 of row l / 8, the chunk that the swizzle puts there."""
    offsets = k.registers.vgprs(LOADS, name)
    with k.scratch("chunk") as chunk, k.scratch("row") as row, k.scratch("step", file="s") as step:
        k.v_lshrrev_b32(row, 3, position.lane)
        k.v_xor_b32(chunk, position.lane, row)
        k.v_and_b32(chunk, 7, chunk)
        k.s_lshl_b32(step, position.wave, (LOADS * LOAD_ROWS).bit_length() - 1)
        k.v_add_u32(row, step, row)
        k.v_mul_lo_u32(row, row, stride)
        k.v_lshl_add_u32(offsets[0], chunk, 4, row)
        k.s_lshl_b32(step, stride, LOAD_ROWS.bit_length() - 1)
        for load in range(1, LOADS):
            k.v_add_u32(offsets[load], step, offsets[load - 1])
    return offsets


def read_addresses(k: KernelBuilder, name: str, position: Position, wave_rows: Reg) -> Reg:
    """Two LDS byte addresses: where the lane's chunk of the wave's first MFMA tile lies, for the first and second half of K.

    Lane l holds row l % 16 and chunk l / 16 (+ 4 in the second half, which the swizzle turns into one flipped bit).
    """
    addresses = k.registers.vgprs(2, name, align=1)
    with k.scratch("row") as row, k.scratch("slot") as slot:
        k.v_and_b32(row, MFMA_EDGE - 1, position.lane)
        k.v_lshrrev_b32(slot, 4, position.lane)
        k.v_xor_b32(slot, slot, row)
        k.v_and_b32(slot, 3, slot)
        k.v_and_b32(addresses[1], 4, row)
        k.v_or_b32(slot, slot, addresses[1])
        k.v_add_u32(row, wave_rows, row)
        k.v_lshlrev_b32(row, ROW_BYTES.bit_length() - 1, row)
        k.v_lshl_add_u32(addresses[0], slot, 4, row)
        k.v_xor_b32(addresses[1], 4 * CHUNK_BYTES, addresses[0])
    return addresses


def wave_corner(k: KernelBuilder, position: Position) -> tuple[Reg, Reg]:
    """First row and first column of the wave's part of the tile."""
    rows, columns = k.registers.sgprs(1, "wave_row"), k.registers.sgprs(1, "wave_column")
    k.s_lshr_b32(rows, position.wave, WAVES_N.bit_length() - 1)
    k.s_lshl_b32(rows, rows, (TILE_M // WAVES_M).bit_length() - 1)
    k.s_and_b32(columns, position.wave, WAVES_N - 1)
    k.s_lshl_b32(columns, columns, (TILE_N // WAVES_N).bit_length() - 1)
    return rows, columns


def advance(k: KernelBuilder, descriptor: Reg) -> None:
    """Move a descriptor one step along K; its end stays where it was."""
    k.s_add_u32(descriptor[0], descriptor[0], ROW_BYTES)
    k.s_addc_u32(descriptor[1], descriptor[1], 0)
    k.s_sub_u32(descriptor[2], descriptor[2], ROW_BYTES)


def clear(k: KernelBuilder, accumulators: Reg) -> None:
    """Zero the accumulators."""
    for number in range(accumulators.count):
        k.v_accvgpr_write_b32(accumulators[number], 0)


def store_tile(k: KernelBuilder, position: Position, corner: tuple[Reg, Reg], accumulators: Reg) -> None:
    """Round the accumulators to bf16 (nearest even) and store them, rows bounded by the descriptor, columns by EXEC.

    Register r of lane l of an MFMA tile is row 4 * (l / 16) + r, column l % 16 (docs/facts/semantics.md section 1).
    """
    plan = k.registers
    stride, row_bytes, columns_left = plan.sgprs(1, "d_stride"), plan.sgprs(1, "d_row_bytes"), plan.sgprs(1, "columns_left")
    k.s_lshl_b32(stride, k.argument("ldd"), 1)
    k.s_lshl_b32(row_bytes, k.argument("n"), 1)
    descriptor = make_descriptor(k, "d_buffer", k.argument("d"), position.row0, k.argument("m"), stride, row_bytes)
    k.s_sub_u32(columns_left, k.argument("n"), position.column0)
    column, quad = plan.vgprs(1, "column"), plan.vgprs(1, "quad")
    k.v_and_b32(column, MFMA_EDGE - 1, position.lane)
    k.v_add_u32(column, corner[1], column)
    k.v_lshrrev_b32(quad, 4, position.lane)
    k.v_lshlrev_b32(quad, 2, quad)
    k.v_add_u32(quad, corner[0], quad)
    offsets = _row_offsets(k, position, stride, column, quad)
    with k.scratch("columns", 2, "s") as inside, k.scratch("words", 4) as words:
        for tile in range(TILES_N):
            k.v_cmp_gt_u32(inside, columns_left, column)
            k.s_mov_b64(exec_, inside)
            for row in range(TILES_M):
                first = 4 * (row * TILES_N + tile)
                _store(k, accumulators[first:first + 3], words, [offsets[4 * row + r] for r in range(4)], descriptor,
                      tile * MFMA_EDGE * ELEMENT)
            k.s_mov_b64(exec_, -1)
            if tile + 1 < TILES_N:
                k.v_add_u32(column, MFMA_EDGE, column)


def _row_offsets(k: KernelBuilder, position: Position, stride: Reg, column: Reg, quad: Reg) -> Reg:
    """Byte offsets of the lane's 4 rows in each of the wave's MFMA tiles, for the first column tile."""
    offsets = k.registers.vgprs(4 * TILES_M, "d_offsets", align=1)
    with k.scratch("jump", file="s") as jump, k.scratch("first", file="s") as first:
        k.s_lshl_b32(first, position.column0, 1)
        k.v_mul_lo_u32(offsets[0], quad, stride)
        k.v_lshl_add_u32(offsets[0], column, 1, offsets[0])
        k.v_add_u32(offsets[0], first, offsets[0])
        k.s_mul_i32(jump, stride, MFMA_EDGE - 3)
        for number in range(1, offsets.count):
            k.v_add_u32(offsets[number], stride if number % 4 else jump, offsets[number - 1])
    return offsets


def _store(k: KernelBuilder, tile: Reg, words: Reg, offsets: Sequence[Reg], descriptor: Reg, immediate: int) -> None:
    """Nearest even by integer arithmetic: add 0x7fff and the lowest kept bit, keep the high half. A NaN must not be carried away."""
    with k.scratch("odd") as odd, k.scratch("nan", 2, "s") as nan, k.scratch("half", file="s") as half, k.scratch("quiet") as quiet:
        k.s_movk_i32(half, 0x7FFF)
        k.v_mov_b32(quiet, 0x7FC00000)
        for number in range(4):
            k.v_accvgpr_read_b32(words[number], tile[number])
        for number in range(4):
            word = words[number]
            k.v_bfe_u32(odd, word, 16, 1)
            k.v_cmp_u_f32(nan, word, word)
            k.v_add3_u32(word, word, odd, half)
            k.v_cndmask_b32(word, word, quiet, nan)
            k.buffer_store_short_d16_hi(word, offsets[number], descriptor, 0, offen=True, offset=immediate)
