"""The epilogue of the tiled products: alpha, beta C, bias and scales, and the stores of D."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.products.factors import Factors


@dataclass(frozen=True)
class ProductEpilogue:
    """The epilogue of a product. Whole tiles take `overlapped`, which a pipeline mixes with its last step, or `follows`, which stands after
    the loop. `rest` emits the code for all other tiles. `frees` are registers of the loop that the rest may use."""

    overlapped: ag.Epilogue | None
    follows: ag.Epilogue | None
    rest: Callable[[], None]
    frees: tuple[str, ...] = ()

    def follow(self, k: ag.TileBuilder) -> None:
        """Emit all parts that do not overlap the loop; the pipeline does that."""
        if self.frees:
            k.registers.release(*self.frees)
        if self.follows is not None:
            label = k.fresh("no_ending")
            self.follows.guard(label)
            self.follows.body()
            self.follows.end_kernel(k)
            k.label(label)
        self.rest()


def product_epilogue(k: ag.TileBuilder, corners: Sequence[ag.Corner], row0: ag.Reg, column0: ag.Reg, wm: ag.WaveIndex, wn: ag.WaveIndex,
                     factors: Factors | None = None, overlaps: bool = True, frees: tuple[str, ...] = ()) -> ProductEpilogue:
    """Store alpha A B^T + beta C + bias, rounded to the type of D. `factors`, if any, replace alpha.

    Whole tiles without alpha and C go to memory while the last step computes. They go right after the loop if the loop leaves no registers
    for that (`overlaps` is False). All other tiles (alpha, C, cut columns, a span of 4 GiB) go corner by corner: each wave uses descriptors
    of its own rows.
    """
    tm, tn, _ = k.variant.tile
    c, d = (k.matrix(name, k.p.out, rows="m", columns="n", stride=f"ld{name}") for name in ("c", "d"))
    alpha, beta = None if factors is not None else k.argument("alpha"), k.argument("beta")
    whole = d.rows(row0, tm)
    bias = ag.Numbers("bias", k.argument("bias"), k.p.out, k.argument("n")) if k.p.bias == "row" else None
    alone = bias is None and (factors is None or not factors.differ)
    again = k.fresh("with_nans") if alone and ag.doubted(k, k.p.out) else None

    def guard(label: str) -> None:
        with k.scratch("factors", file="s") as not_plain:
            ag.ask_plain(k, alpha, beta, not_plain)
            ag.unless_whole(k, whole, column0, corners, tn, label, not_plain)

    def body() -> None:
        added = ag.load_columns(k, corners, bias, column0, wm, wn) if bias is not None else {}
        narrow = set(added)  # columns whose values still have the type of memory: their loads are in flight until their first use

        def change(run: ag.ColumnRun, values: Sequence[ag.Reg]) -> None:
            shadow = overlaps and run.row < tm // 2
            if factors is not None:
                factors.change(run, values, shadow)
            if run.column in narrow:
                ag.widen(k, added[run.column], k.p.out)
                narrow.remove(run.column)
            if added:
                ag.add_to_run(k, values, added[run.column], shadow)

        ag.store_whole(k, whole, column0, corners, wm, wn, change if factors is not None or bias is not None else None, again is not None)
        if bias is not None:
            k.registers.release(bias.name)
        if factors is not None and again is not None and corners[0].tile.registers.items[0].file == "v":
            factors.forget()  # changed in place

    def rest() -> None:
        if again is not None:
            k.label(again)
        beside = [factors.of(corner) for corner in corners] if factors is not None else ()
        with ag.each_corner(k, corners, row0, column0, k.argument("m"), wm, beside) as at:
            if factors is not None:
                factors.at(at).apply(at.corner)
            rows = at.corner.tile.rows
            ag.scale_and_add(k, [at.corner], c.rows(at.row, rows), at.column, None, wn, alpha, beta)
            if bias is not None:
                ag.add_along_columns(k, [at.corner], bias, at.column, None, wn)
            ag.store(k, d.rows(at.row, rows), at.column, [at.corner], None, wn, at.corner.tile.columns * wn.count)

    d.stride_bytes(k)
    straight = ag.Epilogue(guard, body, again)
    return ProductEpilogue(straight if overlaps else None, None if overlaps else straight, rest, frees)
