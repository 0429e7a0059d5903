"""What scales do to accumulators: factors that are loaded ahead of the loop and multiplied into what is stored behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from asmgen.author.addressing import WaveIndex
from asmgen.author.combine import ONE, Numbers, add_along_columns, ask_zero, changed, load_columns, load_rows, scale_and_add
from asmgen.author.conversions import doubted
from asmgen.author.ending import Ending
from asmgen.author.epilogue import ColumnRun, Corner, run_length, runs_of, span, store, store_whole, unless_whole
from asmgen.author.tilebuilder import TileBuilder
from asmgen.isa.registers import Reg
from asmgen.kernels.products.ends import Ends


@dataclass(frozen=True)
class Factors:
    """What accumulators are multiplied with: `all` of them (a pair of equal SGPRs, alpha in it), and those of rows and of columns (VGPRs
    by the runs' places; empty where there are none)."""

    k: TileBuilder
    all: Reg
    rows: dict[int, tuple[Reg, int]]
    columns: dict[int, Reg]

    def change(self, run: ColumnRun, values: Sequence[Reg], shadow: bool = False) -> None:
        """Multiply a run's values, in VGPRs; in the `shadow` of matrix instructions one by one, as nothing packed issues there."""
        for pair in range(0, len(values), 2):
            two = span(values[pair:pair + 2])
            if shadow and not self.columns:
                for value in values[pair:pair + 2]:
                    self.k.v_mul_f32(value, self.all[0], value)
            elif self.columns:
                self.k.v_pk_mul_f32(two, two, self.columns[run.column][pair:pair + 1])
                both, one = self.rows[run.row]
                self.k.v_pk_mul_f32(two, two, both, op_sel=(0, one), op_sel_hi=(1, one))
            else:
                self.k.v_pk_mul_f32(two, two, self.all)

    def forget(self) -> None:
        """All of them become 1: the accumulators have been multiplied."""
        for number in range(2):
            self.k.s_mov_b32(self.all[number], ONE)
        for both, one in self.rows.values():
            self.k.v_mov_b32(both[one], 1.0)
        for run in self.columns.values():
            for number in range(run.count):
                self.k.v_mov_b32(run[number], 1.0)


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


def finish(k: TileBuilder, factors: Factors, corners: Sequence[Corner], row0: Reg, column0: Reg, wm: WaveIndex, wn: WaveIndex) -> Ends:
    """Accumulators times their factors, plus beta C and bias, rounded to the type of D and stored; where only one factor for all is to be
    applied, while the last step computes."""
    tm, tn, _ = k.variant.tile
    c, d = (k.matrix(name, k.p.out, rows="m", columns="n", stride=f"ld{name}") for name in ("c", "d"))
    whole, beta = d.rows(row0, tm), k.argument("beta")
    early = k.p.bias == "none" and k.p.scales == "tensor"
    again = k.fresh("with_nans") if early and doubted(k, k.p.out) else None

    def guard(label: str) -> None:
        ask_zero(k, beta)
        k.s_cbranch_scc1(label)
        unless_whole(k, whole, column0, corners, tn, label)

    def body() -> None:
        store_whole(k, whole, column0, corners, wm, wn, lambda run, values: factors.change(run, values, run.row < tm // 2))
        if again is not None and corners[0].tile.registers.items[0].file == "v":
            factors.forget()  # changed in place

    def rest() -> None:
        if again is not None:
            k.label(again)
        alone = k.fresh("product_alone")
        if k.p.bias == "none":
            ask_zero(k, beta)
            k.s_cbranch_scc0(alone)
        for run in runs_of(corners, run_length(corners[0].tile)):
            with changed(k, run) as values:
                factors.change(run, values)
        factors.forget()
        with k.scratch("one", file="s") as one:
            k.s_mov_b32(one, ONE)
            scale_and_add(k, corners, c.rows(row0, tm), column0, wm, wn, one, beta)
        if k.p.bias == "row":
            add_along_columns(k, corners, Numbers("bias", k.argument("bias"), k.p.out, k.argument("n")), column0, wm, wn)
        k.label(alone)
        store(k, d.rows(row0, tm), column0, corners, wm, wn, tn, factors.change)

    if early:
        d.stride_bytes(k)
    return Ends(Ending(guard, body, again) if early else None, rest)
