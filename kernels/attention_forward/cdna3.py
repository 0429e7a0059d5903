"""attention-forward for gfx942: 8 waves in ping-pong, 32 queries for each wave.

The step is that of `attentionstep`. It takes 32 keys, or 64 keys of half the elements. Its keys and values are then two loads of 8
elements a lane. gfx942 has neither LDS-DMA of 16 bytes a lane nor transposing reads. So keys and values move to LDS through registers, and
are loaded a step ahead. Values are transposed on the way: a lane loads two neighbouring elements of four keys, and writes four keys of
each element. The keys stand in the order of P, so that 16 bytes are the operands of two matrix instructions.
"""

from __future__ import annotations

from dataclasses import replace

import asmgen as ag
from asmgen.kernels.attention_forward.attentionstep import ProductTiles, attend
from asmgen.kernels.attention_forward.dropping import drop, dropping
from asmgen.kernels.attention_forward.family import ATTENTION
from asmgen.kernels.attention_forward.place import key_steps, place
from asmgen.kernels.attention_forward.softmax import exponentials, scale_queries, shares, softmax


@ATTENTION.variant("gfx942", tile=(256, 32), waves=8, schedule="ping-pong", occupancy=2, d=128, dropout=False)
@ATTENTION.variant("gfx942", tile=(256, 64), waves=8, schedule="ping-pong", occupancy=2, d=64, dropout=False)
@ATTENTION.variant("gfx942", tile=(256, 32), waves=8, schedule="ping-pong", occupancy=2, d=128, dropout=True)
@ATTENTION.variant("gfx942", tile=(256, 64), waves=8, schedule="ping-pong", occupancy=2, d=64, dropout=True)
def cdna3(k: ag.TileBuilder) -> None:
    """32 queries for each wave."""
    (queries, keys), d = k.variant.tile, k.variant.d
    M = k.matrix_shape(f"f32_32x32x8_{k.p.dtype}")
    fa, fb = ag.deep(M.a, 2), ag.deep(M.b, 2)
    line = ag.block_fragment(M.a, 1, 8, d // 8)
    across, down = (ag.block_fragment(M.a, 4, 2, d // 16, by_columns) for by_columns in (False, True))
    rows = queries // 8

    # register plan: K's and V's fragments share registers
    O = k.tile("O", d, rows, M.d, note="O^T")
    S = k.tile("S", keys, rows, M.d, stages=2, note="scores of keys by queries, then P")
    Q = k.tile("Q", rows, d, fb)
    K = k.tile("K", keys, d, fa)
    V = k.tile("V", d, keys, fa, shares=K)
    RK = k.tile("RK", keys // 8, d, line, note="on its way to LDS")
    RV = k.tile("RV", keys, d // 8, across, note="on its way to LDS")
    RT = k.tile("RT", keys, d // 8, down, note="transposed")
    group = k.registers.sgprs(1, "group", note="waves 4 to 7 run a stage behind")

    # LDS map
    Ks = k.shared("Ks", k.p.dtype, keys, d, serves=(ag.FragmentRead(fa), ag.FragmentRead(line, write=True)))
    Vs = k.shared("Vs", k.p.dtype, d, keys, serves=(ag.FragmentRead(fa), ag.FragmentRead(down.T, write=True)))

    k.s_lshr_b32(group, k.wave.register, 2)
    at = place(k, Q)
    state = softmax(k, S.tiles[0])
    if k.p.scale == "folded":
        scale_queries(k, state, Q, O)
    steps = key_steps(k, at, S.tiles[0])
    dropout = dropping(k, at, rows)

    def values_and_keys(t: ag.StepIndex) -> None:
        ag.read(k, V, Vs[t])
        ag.write(k, Ks[t + 2].part(k.wave), RK)
        ag.load(k, RK, steps.k.step(t + 3), rows=k.wave)

    def keys_and_values(t: ag.StepIndex) -> None:
        ag.read(k, K, Ks[t + 2])
        ag.change_layout(k, RV, down, RT, at=t + 1)
        ag.write(k, Vs[t + 1].part(k.wave), ag.transposed(RT))
        ag.load(k, in_read_order(RV), steps.v.step(t + 2), columns=k.wave)

    def second_part(t: ag.StepIndex) -> None:
        shares(k, state, S[t + 1], S[t + 1])
        drop(k, dropout, S[t + 1])

    products = ProductTiles(
        O, S, Q, K, V, lambda t: as_keys_are_read(ag.as_operand(ag.transposed(ag.narrowed(S[t], k.p.dtype)), M, "b"), fb))
    attend(k, at, steps, state, products, (values_and_keys, keys_and_values),
           (lambda t: exponentials(k, state, S[t + 1]), second_part), ag.PingPong(), group)


def in_read_order(tile: ag.Tile) -> ag.Tile:
    """The tile with its rows in the order of keys in LDS: bits 2 and 3 of the row number are exchanged."""
    f = tile.fragment
    table = tuple(tuple(((row & ~12) | (row & 4) << 1 | (row & 8) >> 1, column) for row, column in line) for line in f.table)
    fragment = replace(f, layout=ag.linear_layout(table, f.rows, f.columns))
    return ag.Tile(tile.name, tile.rows, tile.columns, fragment, tile.registers, tile.index)


def as_keys_are_read(tile: ag.Tile, fragment: ag.Fragment) -> ag.Tile:
    """P with its keys in that order: a lane's four keys for each of two instructions stand side by side."""
    return ag.Tile(tile.name, tile.rows, tile.columns, fragment, tile.registers, tile.index)
