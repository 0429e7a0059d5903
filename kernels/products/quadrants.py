"""One step of four quadrants for products of any types on both architectures, scheduled as ping-pong (8 waves) or interleave (4 waves).

Facts: a workgroup computes a tm x tn tile of D in steps of tk along K. The tile is 2 x 2 quadrants; each wave has a part of each quadrant.
A step is four products A[half] B[half]^T. While one is computed, the halves for the next ones are read. A half in LDS is refilled as soon
as its last reader has passed. gfx950 refills by LDS-DMA into two buffers. The LDS of gfx942 holds one buffer of 256 rows of 128 bytes for
each matrix, so gfx942 refills through registers that hold the next step. There B's rows are dealt to fragments such that stores of 16-bit
types have 16 bytes a lane. The first half of B is read a step ahead, so that no memory stage on gfx950 has more than eight reads.

Ping-pong of smaller tiles on gfx950 takes the even step of `twohalves`: matrix stages of a quadrant are over before eight reads are there.

`twohalves` has a step of its own. No memory stage here reads and refills what one of its two does, so that one text for both would be
a table of calls for each, longer than the two steps.
"""

from __future__ import annotations

from collections.abc import Callable

import asmgen as ag
from asmgen.kernels.products.anyk import takes_any_k
from asmgen.kernels.products.contract import ELEMENTS, is_persistent
from asmgen.kernels.products.epilogue import ProductEpilogue
from asmgen.kernels.products.feeds import feed_of, order_of_b
from asmgen.kernels.products.lastcolumns import LastColumns, after_last_columns
from asmgen.kernels.products.persistent import Tiles
from asmgen.kernels.products.prologue import begin_feeds, clear, corners_of, place
from asmgen.kernels.products.split import adds_own_parts
from asmgen.kernels.products.streamed import first_item, make_items
from asmgen.kernels.products.twohalves import even_halves, halves_of_b, is_even

SCHEDULES: dict[str, ag.Schedule] = {"ping-pong": ag.PingPong(), "interleave": ag.Modulo(beside=__file__), ELEMENTS: ag.PingPong()}


def quadrants(k: ag.TileBuilder, M: ag.MatrixShape, fa: ag.Fragment, fb: ag.Fragment,
              make_epilogue: Callable[..., ProductEpilogue]) -> None:
    """The kernel with A and B in fragments `fa` and `fb`, of their types. `make_epilogue` takes the arguments of `product_epilogue` except
    the factors."""
    tm, tn, tk = k.variant.tile
    down, across = k.variant.waves
    interleaved = k.variant.schedule == "interleave"

    # register plan: accumulators keep their registers; one set of operands is read again for each half
    C = k.tile("C", tm // 2 // down, tn // 2 // across, M.d.T, grid=(2, 2), file="a" if interleaved else "v", note="[half of M][half of N]")
    A = k.tile("A", tm // 2 // down, tk, fa, note="one half of M at a time")
    B = halves_of_b(k, tn // 2 // across, fb)
    stages = k.variant.stages
    paired, of_d = order_of_b(k, M.d.T)
    steps = k.registers.sgprs(1, "steps")
    group = None if interleaved else k.registers.sgprs(1, "group", note="waves 4 to 7 run a stage later")
    row0, column0 = k.registers.sgprs(1, "row0"), k.registers.sgprs(1, "column0")

    # LDS map, and what is on its way there
    of_a, of_b = feed_of(k, "a", "A", fa, tm, stages), feed_of(k, "b", "B", fb, tn, stages, paired)

    # beside a bias, 8 waves of 256 x 256 have no room for the last step, nor have 4 whose registers transpose lines, nor 8 of those at all;
    # a next tile's lines leave too few scalar registers for it
    transposing = (of_a.transposes or of_b.transposes) and stages == 1
    full = transposing and not interleaved
    crowded = transposing and is_persistent(k.parameters) and k.p.bias != "none"
    roomy = tm * tn < 256 * 256 or not full and (k.p.bias == "none" or interleaved and not transposing)
    overlaps = roomy and not crowded and not adds_own_parts(k.parameters)

    wm, wn = k.wave_grid(down, across)
    tiles: Tiles | None = None
    clearing = None
    if is_persistent(k.parameters):
        tiles = first_item(k, C, row0, column0, steps)
    else:
        if full:
            ag.zero(k, *C)
        else:
            clearing = clear(k, C)
        place(k, row0, column0)
    if group is not None:
        k.s_lshr_b32(group, k.wave.register, 2)
    begin_feeds(k, steps, (fa.dtype, fb.dtype), (of_a, of_b), row0, column0, tiles.columns if tiles is not None else None)
    memory, matrix = k.streams("memory", "matrix")

    def step(t: ag.StepIndex) -> None:
        # Each half is refilled two stages before it is read: one barrier after the wait for it, and one for the later wave group.
        with k.stage("A0"), memory:
            of_a.read(A, t, 0, wm)
            of_a.refill(t + stages - 1, 1)
        with k.stage("C00"), matrix:
            ag.mma(k, C[0, 0], A, B[0])
        with k.stage("B1"), memory:
            of_b.read(B[1], t, 1, wn)
            of_b.refill(t + stages, 0)
        with k.stage("C01"), matrix:
            ag.mma(k, C[0, 1], A, B[1])
        with k.stage("A1"), memory:
            of_a.read(A, t, 1, wm)
            of_a.refill(t + stages, 0)
        with k.stage("C10"), matrix:
            ag.mma(k, C[1, 0], A, B[0])
        with k.stage("B0"), memory:
            of_b.read(B[0], t + 1, 0, wn)
            of_b.refill(t + stages, 1)
        with k.stage("C11"), matrix:
            ag.mma(k, C[1, 1], A, B[1])

    chosen = even_halves(k, C, A, B, of_a, of_b, wm, wn, stages) if is_even(k) else step
    corners = corners_of(k, C, of_d)
    schedule = SCHEDULES[k.variant.schedule]
    if tiles is not None:
        make_items(k, chosen, steps, schedule, group, tiles, corners, lambda onward: make_epilogue(
            k, corners, *tiles.own_first, wm, wn, overlaps=overlaps, onward=onward),
            LastColumns(C, A, B[1], (of_a, of_b), tiles.own_first, (wm, wn), tiles, idle=not interleaved and not is_even(k)))
        return
    any_k = takes_any_k(k.parameters)
    ends = make_epilogue(k, corners, row0, column0, wm, wn, overlaps=overlaps)
    k.pipeline(chosen, steps, schedule, groups=group, empty=any_k, meanwhile=clearing,
               then=after_last_columns(k, ends, LastColumns(C, A, B[1], (of_a, of_b), (row0, column0), (wm, wn))))
