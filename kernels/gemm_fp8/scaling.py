"""The scales of gemm-fp8 as factors of its accumulators, alpha among them: loaded ahead of the loop where it leaves them registers."""

from __future__ import annotations

from collections.abc import Sequence

from asmgen.author.address.addressing import WaveIndex
from asmgen.author.builders.tilebuilder import TileBuilder
from asmgen.author.epilogue.combine import Numbers, load_columns, load_rows
from asmgen.author.epilogue.stores import Corner
from asmgen.isa.registers import Reg
from asmgen.kernels.products.factors import Factors


def load_factors(k: TileBuilder, corners: Sequence[Corner], row0: Reg, column0: Reg, wm: WaveIndex, wn: WaveIndex) -> Factors:
    """The scales of the workgroup's tile, on their way or there, alpha among them."""
    alpha = k.registers.sgprs(2, "alpha_pair", align=2)
    rows: dict[int, tuple[Reg, int]] = {}
    columns: dict[int, Reg] = {}
    if k.p.scales == "row":
        rows = load_rows(k, corners, Numbers("a_scales", k.argument("a_scale"), "f32", k.argument("m")), row0, wm, wn)
        columns = load_columns(k, corners, Numbers("b_scales", k.argument("b_scale"), "f32", k.argument("n")), column0, wm, wn)
    elif k.p.scales == "tensor":
        k.s_load_dword(alpha[0], k.argument("a_scale"), 0)
        k.s_load_dword(alpha[1], k.argument("b_scale"), 0)
    return Factors(k, alpha, rows, columns)


def with_alpha(factors: Factors) -> None:
    """Alpha into the factor of all, or that of each row."""
    k, alpha = factors.k, factors.k.argument("alpha")
    if factors.rows:
        for both, one in factors.rows.values():
            k.v_mul_f32(both[one], alpha, both[one])
        return
    if k.p.scales == "block":
        for number in range(2):
            k.s_mov_b32(factors.all[number], alpha)
        return
    with k.scratch("product") as product:
        k.v_mov_b32(product, alpha)
        for number in range(2):
            k.v_mul_f32(product, factors.all[number], product)
        for number in range(2):
            k.v_readfirstlane_b32(factors.all[number], product)
