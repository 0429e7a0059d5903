"""D = A x B^T with one matrix instruction, in registers that the author chose. asmgen says which lane holds which element."""

from __future__ import annotations

import asmgen as ag

EDGE = 16  # of A, B and D


def problem(p: ag.Values, seed: int) -> ag.Problem:
    """16 products of bf16 are exact in float32. Their sum has at most 16 roundings of partial sums, which are at most sum |a| |b|."""
    import ml_dtypes
    import numpy as np

    a, b = np.random.default_rng(seed).standard_normal((2, EDGE, EDGE)).astype(ml_dtypes.bfloat16)
    left, right = a.astype(float), b.astype(float)
    tolerance = EDGE * 2.0**-23 * (np.abs(left) @ np.abs(right).T)
    return ag.Problem({"a": a, "b": b, "d": np.zeros((EDGE, EDGE), np.float32)}, (ag.Output("d", left @ right.T, tolerance),))


MFMA_TILE = ag.Family(
    name="04-mfma-tile", title="D = A x B^T, 16 x 16 each, bf16 in, float32 out", problem=problem, parameters=(),
    algebra=lambda p, inputs: {"d": inputs["a"] @ inputs["b"].swapaxes(0, 1)},
    arguments=tuple(ag.ContractArgument(name, "pointer", f"{name.upper()}, dense, row-major") for name in "abd"),
    grid=ag.GridRule("one workgroup of one wave", lambda p, variant: (1, 1, 1)))


@MFMA_TILE.variant("gfx950")
@MFMA_TILE.variant("gfx942")
def mfma_tile(k: ag.TileBuilder) -> None:
    """The tile."""
    M = ag.mfma("f32_16x16x16_bf16", k.arch)
    # A lane's elements of A and B are four neighbours of a row: two VGPRs, which one 8-byte load fills. D is four rows of one column.
    a = k.registers.pin("a", ag.v[8:9], "A[lane % 16, 4 * (lane / 16) + item]")
    b = k.registers.pin("b", ag.v[10:11], "B in the same way")
    d = k.registers.pin("d", ag.a[0:3], "D[4 * (lane / 16) + register, lane % 16]")

    def byte(fragment: ag.Fragment, size: int, item: int, lane: int) -> int:
        row, column = fragment.table[item][lane]
        return size * (EDGE * row + column)

    into = ag.emit_address(k, "into", lambda lane: byte(M.a, 2, 0, lane), k.work_item)
    out = ag.emit_address(k, "out", lambda lane: byte(M.d, 4, 0, lane), k.work_item)
    k.global_load_dwordx2(a, into, k.argument("a"))
    k.global_load_dwordx2(b, into, k.argument("b"))
    k.v_mfma_f32_16x16x16_bf16(d, a, b, 0)
    for item in range(d.count):  # an AGPR is stored as it is; the distance from item to item is the same in all lanes
        k.global_store_dword(out, d[item], k.argument("d"), offset=byte(M.d, 4, item, 0) - byte(M.d, 4, 0, 0))
