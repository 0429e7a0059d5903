"""gemm-bf16 for gfx942 on tiles: memory to registers, a step later registers to LDS, whose halves are refilled as soon as they were read.

Facts: quadrants, waves and steps are those of `tiled`. gfx942 has no DMA of 16 bytes a lane, so a half of A or B comes in two operations,
load(R[t+2]) and write(As[t+1]); 64 KiB of LDS hold one step of 256 x 256 x 64. A read of 16 bytes feeds two v_mfma_f32_16x16x16_bf16.
"""

from __future__ import annotations

from asmgen.author.arithmetic import mma, zero
from asmgen.author.epilogue import Corner, store
from asmgen.author.globals import Slice
from asmgen.author.modulo import Interleave
from asmgen.author.movement import read, write
from asmgen.author.schedules import PingPong, Schedule
from asmgen.author.shared import SharedPart
from asmgen.author.steps import StepIndex
from asmgen.author.swizzles import FragmentRead
from asmgen.author.tilebuilder import TileBuilder
from asmgen.author.tilememory import load
from asmgen.author.tiles import Tile
from asmgen.author.views import block_fragment, deep
from asmgen.kernels.gemm_bf16.family import GEMM

SCHEDULES: dict[str, Schedule] = {"ping-pong": PingPong(), "interleave": Interleave()}


@GEMM.variant("gfx942", tile=(128, 128, 64), waves=(2, 2), schedule="interleave", occupancy=2, stages=2)
@GEMM.variant("gfx942", tile=(256, 256, 64), waves=(2, 4), schedule="ping-pong", occupancy=2, stages=1)
@GEMM.variant("gfx942", tile=(256, 256, 64), waves=(2, 2), schedule="interleave", occupancy=1, stages=1)
def copied(k: TileBuilder) -> None:
    """Any of the tiles above."""
    tm, tn, tk = k.variant.tile
    down, across = k.variant.waves
    interleaved = k.variant.schedule == "interleave"
    M = k.matrix_shape("f32_16x16x16_bf16")
    fa, fb = deep(M.a, 2), deep(M.b, 2)
    line = block_fragment(M.a, 1, 8, 8)  # 16 bytes a lane, eight lanes a row

    # register plan: accumulators stay where they are; one set of operands, read again for each half; one step on its way to LDS
    C = k.tile("C", tm // 2 // down, tn // 2 // across, M.d.T, grid=(2, 2), file="a" if interleaved else "v", note="[half of M][half of N]")
    A = k.tile("A", tm // 2 // down, tk, fa, note="one half of M at a time")
    B = k.tile("B", tn // 2 // across, tk, fb, grid=(2,), note="[half of N]")
    RA = k.tile("RA", tm // 2 // (down * across), tk, line, grid=(2,), note="[half of M], on its way to LDS")
    RB = k.tile("RB", tn // 2 // (down * across), tk, line, grid=(2,), note="[half of N], on its way to LDS")
    steps = k.registers.sgprs(1, "steps")
    group = None if interleaved else k.registers.sgprs(1, "group", note="waves 4 to 7 run a stage behind")
    row0, column0 = k.registers.sgprs(1, "row0"), k.registers.sgprs(1, "column0")

    # LDS map
    stages, filled = k.variant.stages, FragmentRead(line, write=True)
    early = stages - 1  # of two stages one is always free
    As = k.shared("As", "bf16", tm // 2, tk, stages=stages, grid=(2,), serves=(FragmentRead(fa), filled), pads=False)
    Bs = k.shared("Bs", "bf16", tn // 2, tk, stages=stages, grid=(2,), serves=(FragmentRead(fb), filled), pads=False)

    k.region("prologue")
    k.begin()
    k.locate(down * across)
    wm, wn = k.wave_grid(down, across)
    k.s_mul_i32(row0, k.ids["y"], tm)
    k.s_mul_i32(column0, k.ids["x"], tn)
    if group is not None:
        k.s_lshr_b32(group, k.wave.register, 2)
    k.s_lshr_b32(steps, k.argument("k"), (tk - 1).bit_length())
    a = k.matrix("a", "bf16", rows="m", columns="k", stride="lda").rows(row0, tm).halves()
    b = k.matrix("b", "bf16", rows="n", columns="k", stride="ldb").rows(column0, tn).halves()
    zero(k, *C)
    memory, matrix = k.streams("memory", "matrix")

    def refill(shared: SharedPart, staged: Tile, source: Slice) -> None:
        """A half of the step before `source` into LDS, the next one of it into the registers that this frees."""
        write(k, shared.part(k.wave), staged)
        load(k, staged, source, rows=k.wave)

    def step(t: StepIndex) -> None:
        # Each half is written two stages before it is read: one barrier behind the wait for it, and one for the group that runs behind.
        with k.stage(), memory:
            read(k, A, As[t, 0].part(wm))
            refill(As[t + early, 1], RA[1], a[1].k(t + early + 1))
        with k.stage(), matrix:
            mma(k, C[0, 0], A, B[0])
        with k.stage(), memory:
            read(k, B[1], Bs[t, 1].part(wn))
            refill(Bs[t + 1, 0], RB[0], b[0].k(t + 2))
        with k.stage(), matrix:
            mma(k, C[0, 1], A, B[1])
        with k.stage(), memory:
            read(k, A, As[t, 1].part(wm))
            refill(As[t + 1, 0], RA[0], a[0].k(t + 2))
        with k.stage(), matrix:
            mma(k, C[1, 0], A, B[0])
        with k.stage(), memory:
            read(k, B[0], Bs[t + 1, 0].part(wn))
            refill(Bs[t + 1, 1], RB[1], b[1].k(t + 2))
        with k.stage(), matrix:
            mma(k, C[1, 1], A, B[1])

    k.region("main loop")
    k.pipeline(step, steps, SCHEDULES[k.variant.schedule], groups=group)

    k.region("epilogue")
    k.registers.release("A", "B", "RA", "RB")
    d = k.matrix("d", "bf16", rows="m", columns="n", stride="ldd").rows(row0, tm)
    store(k, d, column0, [Corner(C[i, j], i * tm // 2, j * tn // 2) for i in range(2) for j in range(2)], wm, wn, tn)
