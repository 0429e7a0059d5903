"""gemm-bf16 for gfx950: global memory straight into LDS, two buffers, one barrier a step.

Facts: a workgroup of 4 waves makes a 128 x 128 tile of D in steps of 64 along K; a wave makes 64 x 64 of it as 4 x 4
tiles of v_mfma_f32_16x16x32_bf16. Steady state of one step, buffer p filled, buffer 1-p free:

 1. wait until this wave's 8 loads into buffer p have landed; barrier: everybody's have, and everybody has read buffer 1-p
 2. 8 reads of the first half of K from buffer p, each paired with one load of the next step into buffer 1-p
 3. 16 MFMAs of the first half, the 8 reads of the second half between them
 4. 16 MFMAs of the second half, while the 8 loads are in flight
"""

from __future__ import annotations

from asmgen.author.ldsmap import LdsRange
from asmgen.author.tilebuilder import TileBuilder
from asmgen.isa.registers import Reg, m0
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

HALVES = 2  # of a step along K: one v_mfma_f32_16x16x32_bf16 deep each
FRAGMENT = 4  # VGPRs of one MFMA operand
LOAD_BYTES = 64 * CHUNK_BYTES


class _Registers:
    """The register plan."""

    def __init__(self, k: TileBuilder) -> None:
        plan = k.registers
        self.a = plan.vgprs(HALVES * TILES_M * FRAGMENT, "a_fragments", note="[half of K][row tile]")
        self.b = plan.vgprs(HALVES * TILES_N * FRAGMENT, "b_fragments", note="[half of K][column tile]")
        self.d = plan.agprs(TILES_M * TILES_N * 4, "accumulators", note="[row tile][column tile]")
        self.steps = plan.sgprs(1, "steps", note="steps still to be loaded")
        self.lds_base = plan.sgprs(1, "lds_base", note="where in a tile this wave's loads begin")
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
        self.load(parity=0)
        k.s_cmp_eq_u32(self.r.steps, 0)
        k.s_cbranch_scc1("last_even")
        k.region("main loop")
        k.label("loop")
        for parity, leave in ((0, "last_odd"), (1, "last_even")):
            self.step(parity, load_next=True)
            k.s_sub_u32(self.r.steps, self.r.steps, 1)
            k.s_cmp_eq_u32(self.r.steps, 0)
            k.s_cbranch_scc1(leave)
        k.s_branch("loop")
        k.region("last step")
        k.label("last_odd")
        self.step(1, load_next=False)
        k.s_branch("epilogue")
        k.label("last_even")
        self.step(0, load_next=False)
        k.region("epilogue")
        k.label("epilogue")
        k.registers.release(self.r.a, self.r.b)
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
        k.s_lshl_b32(r.lds_base, self.position.wave, (LOADS * LOAD_BYTES).bit_length() - 1)
        k.s_lshr_b32(r.steps, k.argument("k"), TILE_K.bit_length() - 1)
        k.s_sub_u32(r.steps, r.steps, 1)
        clear(k, r.d)

    def load(self, parity: int) -> None:
        """All loads of one step into the LDS buffer of that parity, then the descriptors go one step on."""
        for number in range(2 * LOADS):
            self.aim(parity, number)
            self.fetch(parity, number)
        self.next_step()

    def aim(self, parity: int, number: int) -> None:
        """M0 of load `number` (A's first, then B's): where in LDS its 1024 bytes go."""
        target = self.lds[parity][number // LOADS]
        self.k.s_add_u32(m0, self.r.lds_base, target.low + number % LOADS * LOAD_BYTES)

    def fetch(self, parity: int, number: int) -> None:
        """Load `number` of a step."""
        matrix, load = divmod(number, LOADS)
        offsets, buffer = ((self.a_offsets, self.a_buffer), (self.b_offsets, self.b_buffer))[matrix]
        self.k.buffer_load_dwordx4(offsets[load], buffer, 0, offen=True, lds=True, fills=self.lds[parity][matrix])

    def next_step(self) -> None:
        """Both descriptors one step along K."""
        advance(self.k, self.a_buffer)
        advance(self.k, self.b_buffer)

    def step(self, parity: int, load_next: bool) -> None:
        """Multiply what the buffer of that parity holds; meanwhile load the next step into the other one."""
        k = self.k
        k.s_barrier()
        reads = [[("a", 0), *(("b", j) for j in range(TILES_N)), *(("a", i) for i in range(1, TILES_M))] for _ in range(HALVES)]
        for number, (matrix, tile) in enumerate(reads[0]):
            if load_next:
                self.aim(1 - parity, number)
            self.read(parity, 0, matrix, tile)
            if load_next:
                self.fetch(1 - parity, number)
        if load_next:
            self.next_step()
        waiting = iter(reads[1])
        for number in range(TILES_M * TILES_N):
            self.multiply(0, *divmod(number, TILES_N))
            if number % 2 == 0:
                matrix, tile = next(waiting)
                self.read(parity, 1, matrix, tile)
        for number in range(TILES_M * TILES_N):
            self.multiply(1, *divmod(number, TILES_N))

    def read(self, parity: int, half: int, matrix: str, tile: int) -> None:
        """One MFMA operand of a half step from LDS: 16 rows, 16 bytes a lane."""
        addresses = self.a_read if matrix == "a" else self.b_read
        source: LdsRange = self.lds[parity][matrix == "b"]
        self.k.ds_read_b128(self.fragment(matrix, half, tile), addresses[half], offset=source.low + tile * MFMA_EDGE * ROW_BYTES,
                            uses=source)

    def fragment(self, matrix: str, half: int, tile: int) -> Reg:
        """The VGPRs of one MFMA operand."""
        registers, tiles = (self.r.a, TILES_M) if matrix == "a" else (self.r.b, TILES_N)
        first = (half * tiles + tile) * FRAGMENT
        return registers[first:first + FRAGMENT - 1]

    def multiply(self, half: int, i: int, j: int) -> None:
        """One MFMA tile of one half step."""
        first = (i * TILES_N + j) * 4
        accumulator = self.r.d[first:first + 3]
        self.k.v_mfma_f32_16x16x32_bf16(accumulator, self.fragment("a", half, i), self.fragment("b", half, j), accumulator)


assert TILE_M == TILE_N, "the tiles of A and B share their LDS map"


@GEMM.variant("gfx950", tile=(TILE_M, TILE_N, TILE_K), waves=(WAVES_M, WAVES_N), schedule="dma", occupancy=3)
def dma(k: TileBuilder) -> None:
    """The gfx950 kernel."""
    _Gemm(k).build()
