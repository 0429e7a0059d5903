"""Sums of rows: lanes add a row 64 elements at a time, then DPP adds the lanes without LDS. asmgen inserts waits and wait states."""

from __future__ import annotations

import asmgen as ag


def problem(p: ag.Values, seed: int) -> ag.Problem:
    """Each sum has n / 64 + 6 roundings of partial sums, which are at most sum |x|."""
    import numpy as np

    x = np.random.default_rng(seed).standard_normal((p["m"], p["n"])).astype(np.float32)
    sums, bound = x.sum(1, dtype=float), np.abs(x).sum(1, dtype=float)
    tolerance = 1.01 * 2.0**-24 * (-(-p["n"] // 64) + 6) * bound
    return ag.Problem({"x": x, "d": np.zeros(p["m"], np.float32), "n": p["n"]}, (ag.Output("d", sums, tolerance),))


ROW_SUM = ag.Family(
    name="02-row-sum", title="d[i] = sum over j of x[i, j], float32", problem=problem,
    algebra=lambda p, inputs: {"d": inputs["x"].sum(1)},
    arguments=(ag.ContractArgument("x", "pointer", "m rows of n floats"), ag.ContractArgument("d", "pointer", "m floats"),
               ag.ContractArgument("n", "u32", "columns")),
    parameters=(ag.Parameter("m", "run", int, "rows", default=5, minimum=1, maximum=1 << 30),
                ag.Parameter("n", "run", int, "columns", default=150, minimum=1, maximum=(1 << 29) - 1)),
    grid=ag.GridRule("one workgroup of one wave for each row", lambda p, variant: (p["m"], 1, 1)))


@ROW_SUM.variant("gfx950")
@ROW_SUM.variant("gfx942")
def row_sum(k: ag.TileBuilder) -> None:
    """One row."""
    total, x, at = k.registers.vgprs(1, "total"), k.registers.vgprs(1, "x"), k.registers.vgprs(1, "at")
    row, byte = k.registers.sgprs(4, "row", note="descriptor"), k.registers.sgprs(1, "byte", note="where in the row the wave is")
    k.v_lshlrev_b32(at, 2, k.work_item)
    k.v_mov_b32(total, 0)
    k.s_mov_b32(byte, 0)
    k.s_lshl_b32(row[2], k.argument("n"), 2)  # the descriptor ends with the row: lanes after it read 0 and add nothing
    k.s_mov_b32(row[3], ag.RAW_BUFFER)
    k.s_mul_i32(row[0], k.ids["x"], row[2])
    k.s_mul_hi_u32(row[1], k.ids["x"], row[2])
    k.s_add_u32(row[0], row[0], k.argument("x")[0])
    k.s_addc_u32(row[1], row[1], k.argument("x")[1])
    k.label("loop")
    k.v_add_u32(x, byte, at)
    k.buffer_load_dword(x, x, row, 0, offen=True)
    k.v_add_f32(total, x, total)
    k.s_add_u32(byte, byte, 256)
    k.s_cmp_lt_u32(byte, row[2])
    k.s_cbranch_scc1("loop")
    for distance in (1, 2, 4, 8):  # lane 15 of each row of 16 gets the sum of its row; a lane from outside counts as 0
        k.v_add_f32_dpp(total, total, total, row_shr=distance, bound_ctrl=1)
    k.v_add_f32_dpp(total, total, total, row_bcast=15, row_mask=0xA)  # lanes 16 to 31 and 48 to 63 add the last lane before them,
    k.v_add_f32_dpp(total, total, total, row_bcast=31, row_mask=0xC)  # then 32 to 63 add lane 31: lane 63 has all
    k.s_lshl_b32(byte, k.ids["x"], 2)
    k.v_mov_b32(at, byte)
    k.s_bfm_b64(ag.exec_, 1, 63)
    k.global_store_dword(at, total, k.argument("d"))
