"""What scales do to accumulators behind the loop."""

from __future__ import annotations

from collections.abc import Sequence

from asmgen.author.addressing import WaveIndex
from asmgen.author.combine import Numbers, along_columns, along_rows
from asmgen.author.epilogue import Corner
from asmgen.author.tilebuilder import TileBuilder
from asmgen.isa.registers import Reg
from asmgen.kernels.gemm_bf16 import ends


def finish(k: TileBuilder, corners: Sequence[Corner], row0: Reg, column0: Reg, wm: WaveIndex, wn: WaveIndex) -> None:
    """D is stored; one scale for all of A and B goes into alpha, one for each row onto the accumulators."""
    alpha = k.argument("alpha")
    if k.p.scales == "tensor":
        scale_alpha(k, alpha)
    elif k.p.scales == "row":
        along_rows(k, corners, "v_pk_mul_f32", Numbers(k.argument("a_scale"), "f32", k.argument("m")), row0, wm, wn)
        along_columns(k, corners, "v_pk_mul_f32", Numbers(k.argument("b_scale"), "f32", k.argument("n")), column0, wm, wn)
    ends.finish(k, corners, row0, column0, wm, wn)


def scale_alpha(k: TileBuilder, alpha: Reg) -> None:
    """alpha *= the scale of A times the scale of B, in the argument's own SGPR."""
    with k.scratch("scales", 2, "s") as scales, k.scratch("product") as product:
        k.s_load_dword(scales[0], k.argument("a_scale"), 0)
        k.s_load_dword(scales[1], k.argument("b_scale"), 0)
        k.v_mov_b32(product, alpha)
        k.v_mul_f32(product, scales[0], product)
        k.v_mul_f32(product, scales[1], product)
        k.v_readfirstlane_b32(alpha, product)
