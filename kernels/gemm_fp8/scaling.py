"""The scales of gemm-fp8 and alpha as factors of the accumulators. They are loaded before the loop if it leaves registers for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import asmgen as ag
from asmgen.kernels.products.contract import is_persistent
from asmgen.kernels.products.direct import Position
from asmgen.kernels.products.epilogue import ProductEpilogue, product_epilogue
from asmgen.kernels.products.factors import Factors
from asmgen.kernels.products.sides import argument
from asmgen.kernels.products.split import adds_own_parts, epilogue_of, has_parts


def load_factors(k: ag.TileBuilder, corners: Sequence[ag.Corner], row0: ag.Reg, column0: ag.Reg,
                 wm: ag.WaveIndex | None, wn: ag.WaveIndex) -> Factors:
    """The factors of the workgroup's tile, or without `wm` of the wave's own rows from `row0` on: its scales, which may be in flight, and
    alpha."""
    alpha = k.registers.sgprs(2, "alpha_pair", align=2)
    rows: dict[int, tuple[ag.Reg, int]] = {}
    columns: dict[int, ag.Reg] = {}
    if k.p.scales == "row":
        rows = ag.load_rows(k, corners, ag.Numbers("a_scales", argument(k, "a_scale"), "f32", argument(k, "m")), row0, wm, wn)
        columns = ag.load_columns(k, corners, ag.Numbers("b_scales", argument(k, "b_scale"), "f32", argument(k, "n")), column0, wm, wn)
    elif k.p.scales == "tensor":
        k.s_load_dword(alpha[0], argument(k, "a_scale"), 0)
        k.s_load_dword(alpha[1], argument(k, "b_scale"), 0)
    return Factors(k, alpha, rows, columns)


def factors_of(k: ag.TileBuilder, wn: ag.WaveIndex, corners: Sequence[ag.Corner], row0: ag.Reg, column0: ag.Reg,
               wm: ag.WaveIndex | None) -> Factors:
    """Those of `load_factors`, loaded, with alpha in them."""
    found = load_factors(k, corners, row0, column0, wm, wn)
    with_alpha(found)
    return found


def with_alpha(factors: Factors) -> None:
    """Multiply alpha into the common factor, or into the factor of each row. Where K is cut, it is multiplied after parts are added."""
    k = factors.k
    alpha: ag.Reg | float = 1.0 if has_parts(k.parameters) else k.argument("alpha")
    if factors.rows and has_parts(k.parameters):
        return
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


def early_factors(k: ag.TileBuilder) -> tuple[Callable[..., ProductEpilogue], Callable[[ag.Corner, Position], Factors]]:
    """The epilogue that multiplies factors in, as `epilogue_of`, and what loads those of a workgroup's one corner before."""
    def ends(*arguments: object, factors: Factors, overlaps: bool) -> ProductEpilogue:
        with_alpha(factors)
        return epilogue_of(k)(*arguments, factors=factors, overlaps=overlaps)

    return ends, lambda corner, position: load_factors(k, [corner], *position)


def loaded_epilogue(k: ag.TileBuilder, corners: Sequence[ag.Corner], row0: ag.Reg, column0: ag.Reg, wm: ag.WaveIndex, wn: ag.WaveIndex,
                    factors: Factors | None = None, overlaps: bool = True, onward: str = "") -> ProductEpilogue:
    """The epilogue with the scales. Those of rows and columns that are not `factors` yet are loaded after the loop, which leaves no
    registers for them, and nothing overlaps it: where the loop's registers hold the next tile's data then, a corner's at a time. Arguments
    as of `product_epilogue`. The sums of parts in turn are multiplied before they are added, as those are that workgroups share."""
    loaded = partial(factors_of, k, wn)

    def made(overlaps: bool) -> ProductEpilogue:
        found = loaded(corners, row0, column0, wm) if factors is None else factors
        return epilogue_of(k)(k, corners, row0, column0, wm, wn, found, overlaps, onward)

    if adds_own_parts(k.parameters):
        its = loaded(corners, row0, column0, wm) if factors is None else factors
        return replace(product_epilogue(k, corners, row0, column0, wm, wn, overlaps=False, onward=onward),
                       of_part=partial(_multiply, k, corners, its.all[0]))
    if k.p.scales == "tensor" or factors is not None:
        return made(overlaps)
    if is_persistent(k.parameters):
        return product_epilogue(k, corners, row0, column0, wm, wn, loaded, overlaps=False, onward=onward)
    return ProductEpilogue(None, None, lambda: made(overlaps=False).follow(k))


def _multiply(k: ag.TileBuilder, corners: Sequence[ag.Corner], factor: ag.Reg) -> None:
    """Multiply a factor into all accumulators."""
    for corner in corners:
        ag.mul(k, corner.tile, corner.tile, factor)
