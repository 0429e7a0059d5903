"""d = x transposed: rows into LDS, columns out of it. A swizzle, stated as a layout, keeps both free of bank conflicts."""

from __future__ import annotations

import asmgen as ag

EDGE, WAVES, PART = 64, 4, 16  # a workgroup's tile is 64 x 64; each of 4 waves moves 16 rows of it, then 16 columns
# Dense rows of 256 bytes, and the row's number XORed onto the column's: the 64 elements of a column lie in 64 different banks.
TILE = ag.Placement(ag.row_major(EDGE, EDGE, 32), ag.Swizzle(((6, 0xFC),)))


def problem(p: ag.Values, seed: int) -> ag.Problem:  # nothing is computed, so nothing is rounded
    import numpy as np

    x = np.random.default_rng(seed).standard_normal((p["m"], p["n"])).astype(np.float32)
    return ag.Problem({"x": x, "d": np.zeros((p["n"], p["m"]), np.float32), "m": p["m"], "n": p["n"]}, (ag.Output("d", x.T.astype(float)),))


TRANSPOSE = ag.Family(
    name="03-transpose", title="d[j, i] = x[i, j], float32", problem=problem, axes="xy",
    algebra=lambda p, inputs: {"d": inputs["x"].swapaxes(0, 1)},
    arguments=(*(ag.ContractArgument(name, "pointer", f"floats: {name}") for name in "xd"),
               ag.ContractArgument("m", "u32", "rows of x"), ag.ContractArgument("n", "u32", "columns of x")),
    parameters=tuple(ag.Parameter(name, "run", int, f"{what} of x", default=EDGE, minimum=EDGE, maximum=1 << 14, multiple_of=EDGE)
                     for name, what in (("m", "rows"), ("n", "columns"))),
    grid=ag.GridRule("one workgroup for a tile of 64 x 64: x over n, y over m", lambda p, variant: (p["n"] // EDGE, p["m"] // EDGE, 1)))


@TRANSPOSE.variant("gfx950", waves=WAVES)
@TRANSPOSE.variant("gfx942", waves=WAVES)
def transpose(k: ag.TileBuilder) -> None:
    """One tile."""
    lds, x, at = k.lds.take("tile", TILE.size), k.registers.vgprs(PART, "x"), k.registers.vgprs(1, "at")
    byte, step = k.registers.vgprs(2, "byte"), k.registers.sgprs(2, "step")  # the lane's byte in a row of x and of d; bytes of a row
    into = ag.emit_address(k, "into", lambda lane, wave: TILE.address({"row": PART * wave, "column": lane}), k.lane, (k.wave,))
    out = ag.emit_address(k, "out", lambda lane, wave: TILE.address({"row": lane, "column": PART * wave}), k.lane, (k.wave,))
    for matrix, row, column, stride in ((0, "y", "x", "n"), (1, "x", "y", "m")):
        with k.scratch("run", file="s") as run:  # where the wave begins, counted in runs of 16 elements: (4 row + wave) stride + 4 column
            k.s_lshl2_add_u32(run, k.ids[row], k.wave.register)
            k.s_mul_i32(run, run, k.argument(stride))
            k.s_lshl2_add_u32(run, k.ids[column], run)
            k.v_lshlrev_b32(byte[matrix], 2, k.lane)
            k.v_lshl_add_u32(byte[matrix], run, 6, byte[matrix])
        k.s_lshl_b32(step[matrix], k.argument(stride), 2)
    for i in range(PART):
        k.global_load_dword(x[i], byte[0], k.argument("x"))
        k.v_add_u32(byte[0], step[0], byte[0])
    for i in range(PART):  # under an XOR layout the address of row r + i is that of r XOR that of i: one base serves all rows and columns
        if i:
            k.v_xor_b32(at, TILE.address({"row": i}), into)
        k.ds_write_b32(at if i else into, x[i], fills=lds)
    k.s_barrier()
    for i in range(PART):
        if i:
            k.v_xor_b32(at, TILE.address({"column": i}), out)
        k.ds_read_b32(x[i], at if i else out, uses=lds)
    for i in range(PART):
        k.global_store_dword(byte[1], x[i], k.argument("d"))
        k.v_add_u32(byte[1], step[1], byte[1])
