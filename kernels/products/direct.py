"""Products of few rows or columns: each wave takes a part of K, and its operands go from memory straight to registers.

Facts: a workgroup computes a tm x tn tile of D; its steps of tk along K are dealt to its waves, neighbouring ones to each. A wave asks for
its fragments of A and B `ahead` steps before it multiplies them, without LDS and without a barrier, so that as much is in flight as a
compute unit holds. The last wave has the columns of the K tail too. At the end LDS exchanges the sums of all waves: `adders` waves, in rows
and columns of the tile, add those of their part in the order of K and store it. So D has the same bits in whatever order waves run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.products.anyk import takes_any_k
from asmgen.kernels.products.directsides import direct_side, sums_fragment, sums_in_order
from asmgen.kernels.products.epilogue import ProductEpilogue
from asmgen.kernels.products.factors import Factors
from asmgen.kernels.products.lastcolumns import by_last_wave
from asmgen.kernels.products.layouts import by_columns
from asmgen.kernels.products.prologue import operands, place
from asmgen.kernels.products.split import KEEP_SUBNORMAL

Position = tuple[ag.Reg, ag.Reg, ag.WaveIndex, ag.WaveIndex]
"""The first row and column of the workgroup's tile, and which part of it the wave adds: its rows and its columns."""


@dataclass(frozen=True)
class Direct:
    """What products differ in. `ends` takes the arguments of `product_epilogue`; `factors` loads what it multiplies while the loop runs.
    `multiply` makes the loop's operations: what loads more than A and B for an iteration, and what adds a product to C; it gets A
    from the wave's first column on."""

    ends: Callable[..., ProductEpilogue]
    factors: Callable[[ag.Corner, Position], Factors] | None = None
    multiply: Callable[[ag.Matrix, ag.Tile, Position], Multiply] | None = None


@dataclass(frozen=True)
class Multiply:
    """`load` more for an iteration; `add` the product of A and B of an iteration to C. `add_last` does both for the columns after the last
    whole step."""

    load: Callable[[ag.StepIndex], None]
    add: Callable[[ag.StepIndex, ag.Tile, ag.Tile], None]
    add_last: Callable[[ag.Tile, ag.Tile], None]


def direct(k: ag.TileBuilder, M: ag.MatrixShape, fa: ag.Fragment, fb: ag.Fragment, how: Direct) -> None:
    """The kernel with A and B in fragments `fa` and `fb`, of their types."""
    tm, tn, _ = k.variant.tile
    down, across = k.variant.adders
    waves, ahead = k.variant.wave_count, k.variant.stages - 1

    # register plan: lines of 8-bit elements and their addresses leave no VGPRs for the sums
    dealt = any(by_columns(k.parameters, name) for name in "ab")
    C = k.tile("C", tm, tn, M.d.T, file="a" if dealt and fb.bits == 8 and how.multiply is None else "v", note="the wave's part of K")
    S = k.tile("S", tm // down, tn // across, M.d.T, note="the part of the tile that the wave adds")
    of_a, of_b = sides = direct_side(k, "a", tm, fa, ahead + 1), direct_side(k, "b", tn, fb, ahead + 1)
    steps = k.registers.sgprs(1, "steps")
    row0, column0 = k.registers.sgprs(1, "row0"), k.registers.sgprs(1, "column0")
    wave_row, wave_column = k.registers.sgprs(1, "wave_row"), k.registers.sgprs(1, "wave_column")

    # LDS map
    written = ag.FragmentRead(sums_fragment(k, M.d.T, sides), write=True)
    Cs = k.shared("Cs", "f32", waves * tm, tn, serves=(ag.FragmentRead(M.d.T), written), pads=not dealt)  # pads part writes of 16 bytes

    wave = k.wave
    ag.zero(k, C)  # while the arguments are in flight
    place(k, row0, column0)
    k.s_lshr_b32(wave_row, wave.register, (across - 1).bit_length())
    k.s_and_b32(wave_column, wave.register, across - 1)
    wm, wn = ag.WaveIndex("wave_row", wave_row, down), ag.WaveIndex("wave_column", wave_column, across)
    corner = ag.Corner(S, 0, 0)
    a, b = operands(k, steps, fa.dtype, fb.dtype)
    of_a.begin(a, row0)
    of_b.begin(b, column0)
    factors = {} if how.factors is None else {"factors": how.factors(corner, (row0, column0, wm, wn))}
    multiply = None if how.multiply is None else how.multiply(a, C, (row0, column0, wm, wn))
    memory, matrix = k.streams("memory", "matrix")

    def step(t: ag.StepIndex) -> None:
        with k.stage(), memory:
            if multiply is not None:
                multiply.load(t + ahead)
            of_a.load(t + ahead)
            of_b.load(t + ahead)
        with k.stage(), matrix:
            A, B = of_a.fragments(t), of_b.fragments(t)
            if multiply is not None:
                multiply.add(t, A, B)
            else:
                ag.mma(k, C, A, B)

    k.pipeline(step, steps, ag.InOrder(), empty=True)
    if takes_any_k(k.parameters):
        by_last_wave(k, C, sides, (row0, column0), None if multiply is None else multiply.add_last)

    # the sums of all waves, in the order of K
    ag.write(k, Cs[()].part(wave), sums_in_order(k, C, sides))
    k.s_barrier()
    if down * across < waves:
        adds = k.fresh("adds")
        k.s_cmp_lt_u32(wave.register, down * across)
        k.s_cbranch_scc1(adds)
        k.s_endpgm()
        k.label(adds)
    others = k.tile("P", tm // down, tn // across, M.d.T, grid=(waves - 1,), note="[wave - 1]")
    for number, part in enumerate((S, *others)):
        ag.read(k, part, Cs[()].part(ag.PartOf(waves * down, number * down, wm), wn))
    k.s_setreg_imm32_b32(KEEP_SUBNORMAL, 3)
    for part in others:
        ag.add(k, S, S, part)
    how.ends(k, [corner], row0, column0, wm, wn, overlaps=False, **factors).follow(k)
