"""gemm-bf16 for gfx950 on tiles: one step function, scheduled as ping-pong (8 waves) or interleave (4 waves).

Facts: a workgroup makes a tm x tn tile of D in steps of tk = 64 along K. The tile is 2 x 2 quadrants; each wave has a part of every
quadrant, so that a step is four products A[half] B[half]^T, and while one is computed the halves that the next ones need are read.
Both matrices come by LDS-DMA into two stages; a half is asked for as soon as its last reader has passed. The first half of B is read a
step ahead, so that no memory stage has more than eight reads.
"""

from __future__ import annotations

from asmgen.author.arithmetic import mma, zero
from asmgen.author.epilogue import Corner
from asmgen.author.modulo import Interleave
from asmgen.author.movement import fill, read
from asmgen.author.schedules import PingPong, Schedule
from asmgen.author.steps import StepIndex
from asmgen.author.swizzles import DmaFill, FragmentRead
from asmgen.author.tilebuilder import TileBuilder
from asmgen.kernels.gemm_bf16.ends import finish, place
from asmgen.kernels.gemm_bf16.family import GEMM

SCHEDULES: dict[str, Schedule] = {"ping-pong": PingPong(), "interleave": Interleave()}


@GEMM.variant("gfx950", tile=(128, 128, 64), waves=(2, 2), schedule="interleave", occupancy=2)
@GEMM.variant("gfx950", tile=(256, 256, 64), waves=(2, 4), schedule="ping-pong", occupancy=2)
@GEMM.variant("gfx950", tile=(128, 256, 64), waves=(2, 4), schedule="ping-pong", occupancy=2)
@GEMM.variant("gfx950", tile=(256, 128, 64), waves=(2, 4), schedule="ping-pong", occupancy=2)
@GEMM.variant("gfx950", tile=(256, 256, 64), waves=(2, 2), schedule="interleave", occupancy=1)
@GEMM.variant("gfx950", tile=(192, 256, 64), waves=(2, 2), schedule="interleave", occupancy=1)
@GEMM.variant("gfx950", tile=(128, 256, 64), waves=(2, 2), schedule="interleave", occupancy=1)
@GEMM.variant("gfx950", tile=(256, 128, 64), waves=(2, 2), schedule="interleave", occupancy=1)
@GEMM.variant("gfx950", tile=(64, 256, 64), waves=(2, 2), schedule="interleave", occupancy=2)
@GEMM.variant("gfx950", tile=(64, 64, 64), waves=(2, 2), schedule="interleave", occupancy=2)
def tiled(k: TileBuilder) -> None:
    """Any of the tiles above."""
    tm, tn, tk = k.variant.tile
    down, across = k.variant.waves
    interleaved = k.variant.schedule == "interleave"
    M = k.matrix_shape(f"f32_16x16x32_{k.p.dtype}")

    # register plan: accumulators stay where they are; one set of operands, read again for each half
    C = k.tile("C", tm // 2 // down, tn // 2 // across, M.d.T, grid=(2, 2), file="a" if interleaved else "v", note="[half of M][half of N]")
    A = k.tile("A", tm // 2 // down, tk, M.a, note="one half of M at a time")
    B = k.tile("B", tn // 2 // across, tk, M.b, grid=(2,), note="[half of N]")
    steps = k.registers.sgprs(1, "steps")
    group = None if interleaved else k.registers.sgprs(1, "group", note="waves 4 to 7 run a stage behind")
    row0, column0 = k.registers.sgprs(1, "row0"), k.registers.sgprs(1, "column0")

    # LDS map
    As = k.shared("As", k.p.dtype, tm // 2, tk, stages=2, grid=(2,), serves=(FragmentRead(M.a), DmaFill()))
    Bs = k.shared("Bs", k.p.dtype, tn // 2, tk, stages=2, grid=(2,), serves=(FragmentRead(M.b), DmaFill()))

    k.region("prologue")
    k.begin()
    k.locate(down * across)
    wm, wn = k.wave_grid(down, across)
    zero(k, *C)  # while the arguments are on their way
    place(k, row0, column0)
    if group is not None:
        k.s_lshr_b32(group, k.wave.register, 2)
    k.s_lshr_b32(steps, k.argument("k"), (tk - 1).bit_length())
    a = k.matrix("a", k.p.dtype, rows="m", columns="k", stride="lda").rows(row0, tm).halves()
    b = k.matrix("b", k.p.dtype, rows="n", columns="k", stride="ldb").rows(column0, tn).halves()
    memory, matrix = k.streams("memory", "matrix")

    def step(t: StepIndex) -> None:
        with k.stage(), memory:
            read(k, A, As[t, 0].part(wm))
            fill(k, As[t + 1, 1], a[1].k(t + 1))
        with k.stage(), matrix:
            mma(k, C[0, 0], A, B[0])
        with k.stage(), memory:
            read(k, B[1], Bs[t, 1].part(wn))
            fill(k, Bs[t + 2, 0], b[0].k(t + 2))
        with k.stage(), matrix:
            mma(k, C[0, 1], A, B[1])
        with k.stage(), memory:
            read(k, A, As[t, 1].part(wm))
            fill(k, As[t + 2, 0], a[0].k(t + 2))
        with k.stage(), matrix:
            mma(k, C[1, 0], A, B[0])
        with k.stage(), memory:
            read(k, B[0], Bs[t + 1, 0].part(wn))
            fill(k, Bs[t + 2, 1], b[1].k(t + 2))
        with k.stage(), matrix:
            mma(k, C[1, 1], A, B[1])

    k.region("main loop")
    k.pipeline(step, steps, SCHEDULES[k.variant.schedule], groups=group)

    k.region("epilogue")
    k.registers.release("A", "B")
    finish(k, [Corner(C[i, j], i * tm // 2, j * tn // 2) for i in range(2) for j in range(2)], row0, column0, wm, wn)
