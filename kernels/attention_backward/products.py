"""The products of a step of attention-backward on gfx950, which its forms share, and the vector work between them.

A wave keeps dK^T and dV^T of its keys, and V; `operands` says where it has K. S and dP stand with queries in registers and keys in lanes,
so P and dS are operands of dV^T += dO^T P and dK^T += Q^T dS as they are, where dO^T and Q^T are read in their order. dS crosses waves
through LDS; of dQ = dS K a wave makes some columns. S begins at -LSE / softmax_scale and dP at -delta.

Each product is a list of pieces: what reads operands from LDS, and what multiplies them. A form says where these stand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.attention_backward.dropping import Dropping, choose, draw, drop, dropping
from asmgen.kernels.attention_backward.gradients import sums_of_values
from asmgen.kernels.attention_backward.masks import Seen, hide, seen_by
from asmgen.kernels.attention_backward.operands import KeyOperands, operands_of_keys
from asmgen.kernels.attention_backward.sums import AddedSums, new_sums
from asmgen.kernels.attention_backward.work import KeyPart, QueryHead, Ring, begin_vector, columns, key_factors

Operands = tuple[ag.Tile, ag.Tile]


@dataclass(frozen=True)
class ProductPiece:
    """A part of a product: `read` brings its operands, `multiply` adds their product up."""

    read: Callable[[], Operands]
    multiply: Callable[[Operands], None]


@dataclass(frozen=True)
class StepProducts:
    """The tiles of a step and its products. `begins` are columns from which S and dP begin, where they do not stand in these; `dSs` and
    `dQ` are None where dQ has a kernel of its own."""

    k: ag.TileBuilder
    shape: ag.MatrixShape
    narrow: ag.MatrixShape
    keys: KeyOperands
    ring: Ring
    S: ag.Tile
    dP: ag.Tile
    P: ag.Tile
    dK: ag.Tile
    dV: ag.Tile
    dQ: AddedSums | None
    begins: dict[str, ag.Tile]
    Qs: ag.SharedTile
    dOs: ag.SharedTile
    dSs: ag.SharedTile | None
    Xs: ag.SharedTile
    factors: Sequence[ag.Vector]
    seen: Seen | None
    dropout: Dropping | None
    dense: bool

    @property
    def dS(self) -> ag.Tile:
        """dS of the wave's keys, in the registers of dP."""
        found: ag.Tile = ag.narrowed(self.dP, self.k.p.dtype)
        return found

    def fill(self, head: QueryHead, at: ag.StepIndex) -> None:
        """LDS gets the queries of an iteration, and their statistics."""
        ag.fill(self.k, self.Qs[at], head.q.step(at))
        ag.fill(self.k, self.dOs[at], head.do.step(at))
        ag.fill(self.k, self.Xs[at], head.statistics.k(at))

    def begin(self, out: ag.Tile, n: ag.StepIndex) -> None:
        """S or dP, or their columns of `begins`, take what they begin at."""
        begin_vector(self.k, self.begins.get(out.name, out), self.Xs[n], int(out is self.dP))

    def scores(self, out: ag.Tile, n: ag.StepIndex) -> list[ProductPiece]:
        """S from Q and K, or dP from dO and V."""
        k, depth_of = self.k, self.shape.a.columns
        source = self.Qs if out is self.S else self.dOs

        def piece(depth: int) -> ProductPiece:
            def read() -> Operands:
                rows = self.ring.take(source.name, self.shape.a)
                ag.read(k, rows, source[n].part(None, ag.PartOf(k.variant.d // depth_of, depth)))
                if out is self.S:
                    return rows, self.keys.rows(k, self.ring, out.columns, depth, n)
                return rows, self.keys.values.part(0, depth_of * depth, out.columns, depth_of)

            return ProductPiece(read, lambda operands: ag.mma(k, out, *operands))

        return [piece(depth) for depth in range(k.variant.d // depth_of)]

    def sums(self, t: ag.StepIndex) -> list[ProductPiece]:
        """The wave's columns of dQ from dS of all waves; none where dQ has a kernel of its own."""
        k, dQ, dSs, narrow = self.k, self.dQ, self.dSs, self.narrow
        if dQ is None or dSs is None:
            return []
        queries, keys = k.variant.tile
        parts = keys // narrow.a.columns

        def piece(depth: int) -> ProductPiece:
            def read() -> Operands:
                part = ag.PartOf(parts, depth)
                slopes = self.ring.take("dS_all", narrow.a, queries // narrow.a.rows)
                ag.read_transposed(k, slopes, dSs[t].part(part))
                return slopes, self.keys.columns(k, self.ring, part, t)

            return ProductPiece(read, lambda operands: dQ.add(k, *operands, first=not depth))

        return [piece(depth) for depth in range(parts)]

    def gradient(self, out: ag.Tile, n: ag.StepIndex) -> list[ProductPiece]:
        """dV^T += dO^T P, or dK^T += Q^T dS."""
        k, (name, source, weights) = self.k, ("dOt", self.dOs, self.P) if out is self.dV else ("Qt", self.Qs, self.dS)
        (queries, _), d, edge, depth_of = k.variant.tile, k.variant.d, self.shape.a.rows, self.shape.a.columns
        operand = ag.as_operand(ag.transposed(weights), self.shape, "b")

        def piece(depth: int, block: int) -> ProductPiece:
            def read() -> Operands:
                rows = self.ring.take(name, by_rows(k, self.shape, self.P))
                ag.read_transposed(k, rows, source[n].part(ag.PartOf(queries // depth_of, depth), ag.PartOf(d // edge, block)))
                return rows, operand.part(0, depth_of * depth, out.columns, depth_of)

            return ProductPiece(read, lambda operands: ag.mma(k, out.part(edge * block, 0, edge, out.columns), *operands))

        return [piece(depth, block) for depth in range(queries // depth_of) for block in range(d // edge)]

    def weigh(self, n: ag.StepIndex) -> None:
        """P, in place of S."""
        k = self.k
        for one, factor in zip(columns(self.S), self.factors, strict=True):
            ag.mul(k, one, one, factor, packed=False)
            ag.exp2(k, one, one)
        hide(k, self.S, self.seen, n, begins=True)

    def round_weights(self, n: ag.StepIndex) -> None:
        """P becomes an operand; where it has the registers of S, after `slope`."""
        k = self.k
        for one, half in zip(columns(self.S), columns(self.P), strict=True):
            ag.convert(k, half, one, nan=False)
        draw(k, self.dropout, n)
        drop(k, self.dropout, self.P, n)

    def slope(self, n: ag.StepIndex) -> None:
        """dS from dP and P."""
        k = self.k
        choose(k, self.dropout, self.dP, n, self.begins.get(self.dP.name))
        hide(k, self.dP, self.seen, n)
        for one, other, half in zip(columns(self.dP), columns(self.S), columns(self.dS), strict=True):
            ag.mul(k, one, one, other, packed=False)
            ag.convert(k, half, one, nan=False)

    def give_slopes(self, n: ag.StepIndex) -> None:
        """dS goes to all waves."""
        if self.dSs is not None:
            ag.write(self.k, self.dSs[n].part(self.k.wave), ag.transposed(self.dS))

    def round_sums(self) -> None:
        """dQ becomes what memory adds."""
        if self.dQ is not None:
            self.dQ.round(self.k)

    def add_sums(self, head: QueryHead, t: ag.StepIndex) -> None:
        """Memory adds dQ."""
        if self.dQ is not None and head.dq is not None:
            ag.store_tile(self.k, head.dq.step(t), self.dQ.rows, columns=self.k.wave, add=True)

    def release(self) -> None:
        """All that the epilogue does not want is free."""
        held = [*self.keys.names, "ring", "S", "dP", *(tile.name for tile in self.begins.values())]
        held += ["q_buffer", "do_buffer", "statistics_buffer", *(["dq_sums_buffer"] if self.dQ is not None else [])]
        if not self.dense:
            held += ["P", *(["dQ"] if self.dQ is not None else [])]
        self.k.registers.release(*held)


def by_rows(k: ag.TileBuilder, shape: ag.MatrixShape, weights: ag.Tile) -> ag.Fragment:
    """The fragments of dO^T and Q^T, in the order of P and dS."""
    return ag.in_order_of(shape.a, ag.as_operand(ag.transposed(weights), shape, "b").fragment)


def products(k: ag.TileBuilder, at: KeyPart, stages: int, crossing: int, dense: bool,
             ring: Callable[[ag.TileBuilder, ag.Fragment], Ring]) -> StepProducts:
    """The register plan and the LDS map of a step: AGPRs hold what vector instructions do not touch, fragments of operands take turns in
    what `ring` makes. Queries have `stages` in LDS, dS has `crossing`. In a `dense` plan P has registers of S, and dQ has registers of dP,
    each after what they held."""
    (queries, keys), d, waves = k.variant.tile, k.variant.d, k.variant.wave_count
    M = k.matrix_shape(f"f32_32x32x16_{k.p.dtype}")
    narrow = M if d // waves == 32 else k.matrix_shape(f"f32_16x16x32_{k.p.dtype}")  # of dQ, of whose columns a wave has a part
    own, summed = keys // waves, k.p.dq != "ordered"
    dK = k.tile("dK", d, own, M.d, file="a", note="dK^T")
    of_keys = operands_of_keys(k, at, M, narrow)
    S = k.tile("S", queries, own, M.d) if dense else None
    P = k.tile("P", queries, own, ag.with_dtype(M.d, k.p.dtype)) if S is None else ag.narrowed(S, k.p.dtype)
    serves = (ag.FragmentRead(M.a), ag.TransposedRead(by_rows(k, M, P)), ag.DmaFill())
    Qs, dOs = (k.shared(name, k.p.dtype, queries, d, stages=stages, serves=serves) for name in ("Qs", "dOs"))
    dSs = k.shared("dSs", k.p.dtype, keys, queries, stages=crossing,
                   serves=(ag.FragmentRead(ag.transposed(P).fragment, write=True), ag.TransposedRead(narrow.a))) if summed else None
    Xs = k.shared("Xs", "f32", waves, 2 * queries, stages=stages)
    dV = sums_of_values(k, own, M)
    S = k.tile("S", queries, own, M.d) if S is None else S
    dP = k.tile("dP", queries, own, M.d)
    begins = {tile.name: k.tile(f"{tile.name}_start", queries, M.d.columns, M.d) for tile in (S, dP)
              if of_keys.own is not None and (tile.across > 1 or k.p.dropout and tile is dP)}
    dQ = new_sums(k, queries, d // waves, narrow, dP if dense else None) if summed else None
    places = ring(k, M.a)
    factors = key_factors(k, at, S)
    seen = seen_by(k, S)
    dropout = dropping(k, at, S)
    return StepProducts(k, M, narrow, of_keys, places, S, dP, P, dK, dV, dQ, begins, Qs, dOs, dSs, Xs, factors, seen, dropout, dense)
