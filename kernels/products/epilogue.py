"""The epilogue of the tiled products: alpha, beta C, bias and scales, and the stores of D."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.products.batch import to_matrix_of_c
from asmgen.kernels.products.factors import Factors
from asmgen.kernels.products.layouts import by_columns
from asmgen.kernels.products.sides import argument, d_by_columns, result

LoadFactors = Callable[[Sequence[ag.Corner], ag.Reg, ag.Reg, ag.WaveIndex | None], Factors]
"""What loads the factors of corners from a row and a column on, for waves of a number or, for None, of the wave's own rows."""
_TOGETHER = 16
"""Accumulators of a lane that short code takes: what C is asked for at once (`ag.combining`)."""


@dataclass(frozen=True)
class ProductEpilogue:
    """The epilogue of a product. Whole tiles take `overlapped`, which a pipeline mixes with its last step, or `follows`, which stands after
    the loop. `rest` emits the code for all other tiles. `of_part` is what the sums of each part become before they are added, where a
    workgroup makes all parts of a tile."""

    overlapped: ag.Epilogue | None
    follows: ag.Epilogue | None
    rest: Callable[[], None]
    of_part: Callable[[], None] | None = None

    def follow(self, k: ag.TileBuilder) -> None:
        """Emit all parts that do not overlap the loop; the pipeline does that."""
        if self.follows is not None:
            self.follows.follow(k)
        self.rest()


def is_along_rows(k: ag.TileBuilder) -> bool:
    """Whether each row of what the kernel's code calls D has a number of its own in the bias."""
    return bool((k.p.bias == "column") != d_by_columns(k.parameters))


def bias_of(k: ag.TileBuilder) -> ag.Numbers | None:
    """The bias, if there is one."""
    if k.p.bias == "none":
        return None
    return ag.Numbers("bias", k.argument("bias"), k.p.out, argument(k, "m" if is_along_rows(k) else "n"))


def add_bias(k: ag.TileBuilder, corners: Sequence[ag.Corner], bias: ag.Numbers, row0: ag.Reg, column0: ag.Reg, wn: ag.WaveIndex) -> None:
    """Add the bias to accumulators of rows that are the wave's own from `row0` on."""
    if is_along_rows(k):
        ag.add_along_rows(k, corners, bias, row0, None, wn)
    else:
        ag.add_along_columns(k, corners, bias, column0, None, wn)


def store_sums(k: ag.TileBuilder, corners: Sequence[ag.Corner], row0: ag.Reg, rows: int, column0: ag.Reg, columns: int,
               factors: LoadFactors | None = None) -> None:
    """D = alpha S + beta C + bias where a wave holds the sums S of `rows` x `columns` elements from its `row0` and `column0` on. `factors`,
    if any, replace alpha."""
    one = ag.WaveIndex("one", 0, 1)
    c, d = (result(k, name).rows(row0, rows) for name in "cd")
    if factors is not None:
        its = factors(corners, row0, column0, None)
        for corner in corners:
            its.apply(corner)
    ag.scale_and_add(k, corners, c, column0, None, one, k.argument("alpha") if factors is None else None, k.argument("beta"))
    bias = bias_of(k)
    if bias is not None:
        add_bias(k, corners, bias, row0, column0, one)
    ag.store(k, d, column0, corners, None, one, columns)


def _narrow(k: ag.TileBuilder, corners: Sequence[ag.Corner], wn: ag.WaveIndex) -> tuple[list[ag.Corner], ag.WaveIndex]:
    """Corners cut along columns so that a row of their fragments has `_TOGETHER` accumulators of a lane, if it has more; and the waves
    across, counted in such columns."""
    first = corners[0].tile
    pieces = first.across * first.fragment.registers // _TOGETHER
    if pieces <= 1:
        return list(corners), wn
    width, counted = first.columns // pieces, k.registers.sgprs(1, "narrow_columns_before")
    k.s_mul_i32(counted, wn.register, pieces)
    return [ag.Corner(corner.tile.part(0, column, first.rows, width), corner.row, corner.column + column)
            for corner in corners for column in range(0, first.columns, width)], ag.WaveIndex("narrow", counted, pieces * wn.count)


def product_epilogue(k: ag.TileBuilder, corners: Sequence[ag.Corner], row0: ag.Reg, column0: ag.Reg, wm: ag.WaveIndex, wn: ag.WaveIndex,
                     factors: Factors | LoadFactors | None = None, overlaps: bool = True, onward: str = "",
                     short: bool = False) -> ProductEpilogue:
    """Store alpha A B^T + beta C + bias, rounded to the type of D. `factors`, if any, replace alpha; each part of
    the epilogue loads its own where they are a function.

    Whole tiles without alpha and C go to memory while the last step computes. They go right after the loop if the loop leaves no registers
    for that (`overlaps` is False). All other tiles (alpha, C, cut columns, a span of 4 GiB) go corner by corner: each wave uses descriptors
    of its own rows. With `short` they go row of fragments by row of fragments, which is less text and more instructions. `onward` is where
    a workgroup goes that may have more tiles (`persistent`), in place of the kernel's end.
    """
    tm, tn, _ = k.variant.tile
    c, d = (result(k, name) for name in "cd")
    alpha, beta = None if factors is not None else k.argument("alpha"), k.argument("beta")
    whole = d.rows(row0, tm)
    bias = bias_of(k)
    held = factors if isinstance(factors, Factors) else None
    full = bool(onward) and tm * tn >= 256 * 256  # the next tile's data leaves no registers for copies, nor for all of a bias beside pairs
    alone = bias is None and (factors is None or held is not None and not held.differ)
    again = k.fresh("with_nans") if alone and ag.doubted(k, k.p.out) else None

    def guard(label: str) -> None:
        with k.scratch("factors", file="s") as not_plain:
            ag.ask_plain(k, alpha, beta, not_plain)
            ag.unless_whole(k, whole, column0, corners, tn, label, not_plain)

    def body() -> None:
        with k.registers.scope("whole tile"), k.apart():
            whole.descriptors.clear()  # each copy of the code makes its own
            store_all()

    def store_all() -> None:
        along_rows = bias is not None and is_along_rows(k)
        added = ag.load_columns(k, corners, bias, column0, wm, wn) if bias is not None and not along_rows else {}
        of_rows = ag.load_rows(k, corners, bias, row0, wm, wn) if bias is not None and along_rows else {}
        its = factors(corners, row0, column0, wm) if callable(factors) else factors
        narrow = set(added) | set(of_rows)  # those that still have the type of memory: their loads are in flight until first use

        def change(run: ag.ColumnRun, values: Sequence[ag.Reg]) -> None:
            shadow = overlaps and run.row < tm // 2
            if its is not None:
                its.change(run, values, shadow)
            if added and run.column in narrow:
                ag.widen(k, added[run.column], k.p.out)
                narrow.remove(run.column)
            if added:
                ag.add_to_run(k, values, added[run.column], shadow)
            if of_rows:
                both, one = of_rows[run.row]
                if run.row in narrow:
                    ag.widen(k, both[one:one], k.p.out)
                    narrow.remove(run.row)
                ag.add_number(k, values, both[one])

        ag.store_whole(k, whole, column0, corners, wm, wn, change if its is not None or bias is not None else None, again is not None)
        if held is not None and again is not None and corners[0].tile.registers.items[0].file == "v":
            held.forget()  # changed in place

    def rest() -> None:
        if again is not None:
            k.label(again)
        if not onward:
            to_matrix_of_c(k, k.ids["z"])
        beside = [held.of(corner) for corner in corners] if held is not None else ()
        with ag.each_corner(k, corners, row0, column0, argument(k, "m"), wm, beside, spent=full) as at:
            if held is not None:
                held.at(at).apply(at.corner)
            elif callable(factors):
                with k.registers.scope("factors of a corner"):
                    factors([at.corner], at.row, at.column, None).apply(at.corner)
            rows = at.corner.tile.rows
            of_c = c.rows(at.row, rows)
            ag.scale_and_add(k, [at.corner], of_c, at.column, None, wn, alpha, beta)
            if onward and any(by_columns(k.parameters, name) for name in "ab"):  # its sources leave no registers for C and D at once
                k.registers.release(*of_c.descriptors.values())
            if bias is not None:
                add_bias(k, [at.corner], bias, at.row, at.column, wn)
            ag.store(k, d.rows(at.row, rows), at.column, [at.corner], None, wn, at.corner.tile.columns * wn.count)

    def rest_in_parts() -> None:
        to_matrix_of_c(k, k.ids["z"])
        narrow, wave = _narrow(k, corners, wn)
        rows, width = corners[0].tile.rows, corners[0].tile.columns * (wn.count - 1) + narrow[0].tile.columns
        with ag.each_corner(k, narrow, row0, column0, argument(k, "m"), wm, in_parts=True) as at, \
                ag.combining(k, [at.corner], c.rows(at.row, rows), at.column, None, wave, alpha, beta) as combined, \
                ag.storing(k, d.rows(at.row, rows), at.column, [at.corner], None, wave, width) as stored, \
                ag.each_part(k, at, argument(k, "m")) as row:
            general, added, done = (k.fresh(name) for name in ("alpha_beta", "alpha_and_c", "combined"))
            ag.unless_plain(k, alpha, beta, general)
            k.s_branch(done)
            k.label(general)
            ag.ask_zero(k, beta)
            k.s_cbranch_scc1(added)
            combined.scale()
            k.s_branch(done)
            k.label(added)
            combined.combine(done)
            k.label(done)
            if bias is not None:
                add_bias(k, [at.corner], bias, row, at.column, wave)
            stored.store()
            combined.down(at.corner.tile.rows)
            stored.down(at.corner.tile.rows)

    d.stride_bytes(k)
    straight = ag.Epilogue(guard, body, again, onward, together=True)  # the guard asks of the tile
    short = short and factors is None and again is None and not onward
    if full and bias is not None and k.p.out != "f32" and corners[0].tile.registers.items[0].file == "v":
        return ProductEpilogue(None, None, rest)
    return ProductEpilogue(straight if overlaps else None, None if overlaps else straight, rest_in_parts if short else rest)
