"""gemm-bf16 for gfx942: global memory through registers into LDS, two buffers, one barrier a step.

Facts: the tile of D, its waves and its steps are those of the gfx950 variant. A 16-byte read of LDS gives a lane eight k of
a row, which two v_mfma_f32_16x16x16_bf16 take four at a time: A and B permute k alike, so the sum is the same.
Steady state of one step, buffer p filled, buffer 1-p free:

 1. 8 loads of the next step into staging registers
 2. the reads and MFMAs of both halves of K from buffer p, while the loads are in flight
 3. as the loads land, 8 writes into buffer 1-p
 4. barrier: everybody has written buffer 1-p and read buffer p
"""

from __future__ import annotations

from asmgen.author.tilebuilder import TileBuilder
from asmgen.isa.registers import Reg
from asmgen.kernels.gemm_bf16.common import (
    CHUNK_BYTES,
    LOADS,
    MFMA_EDGE,
    ROW_BYTES,
    TILES_M,
    TILES_N,
    advance,
    clear,
    find_position,
    load_offsets,
    make_descriptor,
    read_addresses,
    store_tile,
    wave_corner,
)
from asmgen.kernels.gemm_bf16.family import GEMM, TILE_K, TILE_M, TILE_N, WAVES_M, WAVES_N

HALVES = 2  # of a step along K: 32 deep each
FRAGMENT = 4  # VGPRs of one 16-byte read
MFMA_OPERAND = 2  # VGPRs of one v_mfma_f32_16x16x16_bf16 operand
LOAD_BYTES = 64 * CHUNK_BYTES


class _Registers:
    """The register plan."""

    def __init__(self, k: TileBuilder) -> None:
        plan = k.registers
        self.a = plan.vgprs(TILES_M * FRAGMENT, "a_fragments", note="[row tile], one half of K")
        self.b = plan.vgprs(TILES_N * FRAGMENT, "b_fragments", note="[column tile], one half of K")
        self.staging = plan.vgprs(2 * LOADS * 4, "staging", note="[matrix][load]: the next step on its way to LDS")
        self.d = plan.agprs(TILES_M * TILES_N * 4, "accumulators", note="[row tile][column tile]")
        self.steps = plan.sgprs(1, "steps", note="steps still to be loaded")
        self.stride_a, self.stride_b = plan.sgprs(1, "a_stride"), plan.sgprs(1, "b_stride")
        self.row_bytes = plan.sgprs(1, "row_bytes")


class _Gemm:
    """The kernel while it is written: one method a part of the code."""

    def __init__(self, k: TileBuilder) -> None:
        self.k = k
        self.r = _Registers(k)
        tile = TILE_M * ROW_BYTES
        self.lds = [[k.lds.take(f"{matrix}[{parity}]", tile) for matrix in "AB"] for parity in range(2)]

    def build(self) -> None:
        """The schedule: the same labels as the code."""
        k = self.k
        k.region("prologue")
        self.prologue()
        self.load()
        self.write(parity=0)
        k.s_barrier()
        k.s_cmp_eq_u32(self.r.steps, 0)
        k.s_cbranch_scc1("last_even")
        k.region("main loop")
        k.label("loop")
        for parity, leave in ((0, "last_odd"), (1, "last_even")):
            self.load()
            self.multiply_step(parity)
            self.write(1 - parity)
            k.s_barrier()
            k.s_sub_u32(self.r.steps, self.r.steps, 1)
            k.s_cmp_eq_u32(self.r.steps, 0)
            k.s_cbranch_scc1(leave)
        k.s_branch("loop")
        k.region("last step")
        k.label("last_odd")
        self.multiply_step(1)
        k.s_branch("epilogue")
        k.label("last_even")
        self.multiply_step(0)
        k.region("epilogue")
        k.label("epilogue")
        k.registers.release(self.r.a, self.r.b, self.r.staging)
        store_tile(k, self.position, self.corner, self.r.d)
        k.s_endpgm()

    def prologue(self) -> None:
        """Addresses, descriptors, cleared accumulators."""
        k, r = self.k, self.r
        k.begin()
        self.position = find_position(k)
        self.corner = wave_corner(k, self.position)
        k.s_lshl_b32(r.row_bytes, k.argument("k"), 1)
        k.s_lshl_b32(r.stride_a, k.argument("lda"), 1)
        k.s_lshl_b32(r.stride_b, k.argument("ldb"), 1)
        self.a_buffer = make_descriptor(k, "a_buffer", k.argument("a"), self.position.row0, k.argument("m"), r.stride_a, r.row_bytes)
        self.b_buffer = make_descriptor(k, "b_buffer", k.argument("b"), self.position.column0, k.argument("n"), r.stride_b, r.row_bytes)
        self.a_offsets = load_offsets(k, "a_offsets", self.position, r.stride_a)
        self.b_offsets = load_offsets(k, "b_offsets", self.position, r.stride_b)
        self.a_read = read_addresses(k, "a_read", self.position, self.corner[0])
        self.b_read = read_addresses(k, "b_read", self.position, self.corner[1])
        # A wave writes its loads one after another, as the swizzled fetch has arranged them: lane l at l * 16.
        self.write_address = k.registers.vgprs(1, "write_address")
        with k.scratch("base", file="s") as base:
            k.s_lshl_b32(base, self.position.wave, (LOADS * LOAD_BYTES).bit_length() - 1)
            k.v_lshlrev_b32(self.write_address, CHUNK_BYTES.bit_length() - 1, self.position.lane)
            k.v_add_u32(self.write_address, base, self.write_address)
        k.s_lshr_b32(r.steps, k.argument("k"), TILE_K.bit_length() - 1)
        k.s_sub_u32(r.steps, r.steps, 1)
        clear(k, r.d)

    def staged(self, matrix: int, load: int) -> Reg:
        """The staging registers of one load."""
        first = (matrix * LOADS + load) * 4
        return self.r.staging[first:first + 3]

    def load(self) -> None:
        """All loads of one step into the staging registers, then the descriptors go one step on."""
        for matrix, (offsets, buffer) in enumerate(((self.a_offsets, self.a_buffer), (self.b_offsets, self.b_buffer))):
            for load in range(LOADS):
                self.k.buffer_load_dwordx4(self.staged(matrix, load), offsets[load], buffer, 0, offen=True)
        advance(self.k, self.a_buffer)
        advance(self.k, self.b_buffer)

    def write(self, parity: int) -> None:
        """What was loaded into the LDS buffer of that parity."""
        for matrix in range(2):
            target = self.lds[parity][matrix]
            for load in range(LOADS):
                self.k.ds_write_b128(self.write_address, self.staged(matrix, load), offset=target.low + load * LOAD_BYTES, fills=target)

    def multiply_step(self, parity: int) -> None:
        """Both halves of a step from the LDS buffer of that parity."""
        for half in range(HALVES):
            for matrix, tile in (("a", 0), *(("b", j) for j in range(TILES_N)), *(("a", i) for i in range(1, TILES_M))):
                self.read(parity, half, matrix, tile)
            for part in range(FRAGMENT // MFMA_OPERAND):
                for number in range(TILES_M * TILES_N):
                    self.multiply(part, *divmod(number, TILES_N))

    def read(self, parity: int, half: int, matrix: str, tile: int) -> None:
        """Eight k of 16 rows from LDS."""
        addresses = self.a_read if matrix == "a" else self.b_read
        source = self.lds[parity][matrix == "b"]
        self.k.ds_read_b128(self.fragment(matrix, tile), addresses[half], offset=source.low + tile * MFMA_EDGE * ROW_BYTES, uses=source)

    def fragment(self, matrix: str, tile: int) -> Reg:
        """The VGPRs of one read."""
        registers = self.r.a if matrix == "a" else self.r.b
        return registers[tile * FRAGMENT:tile * FRAGMENT + FRAGMENT - 1]

    def multiply(self, part: int, i: int, j: int) -> None:
        """One MFMA tile, with the first or second four k of each lane."""
        first = (i * TILES_N + j) * 4
        accumulator = self.r.d[first:first + 3]
        low, high = part * MFMA_OPERAND, part * MFMA_OPERAND + 1
        self.k.v_mfma_f32_16x16x16_bf16(accumulator, self.fragment("a", i)[low:high], self.fragment("b", j)[low:high], accumulator)


assert TILE_M == TILE_N, "the tiles of A and B share their LDS map"


@GEMM.variant("gfx942", tile=(TILE_M, TILE_N, TILE_K), waves=(WAVES_M, WAVES_N), schedule="staged", occupancy=2)
def staged(k: TileBuilder) -> None:
    """The gfx942 kernel."""
    _Gemm(k).build()
