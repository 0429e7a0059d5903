"""Dropout of attention-backward: with Z = 1 for what is kept, else 0, and s = 1 / (1 - p),
dV = s (P o Z)^T dO and dS = P o (s Z o dP - delta).

The kernels work with dS / s: dP begins at -delta / s, which the kernel before leaves, and where Z is 0 it becomes that again. Then s is a
factor of all three gradients. Nothing of it is in a build without dropout.
"""

from __future__ import annotations

from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.attention_backward.heads import head_number
from asmgen.kernels.attention_backward.work import KeyPart, QueryHead
from asmgen.kernels.sequences import dropout as masking
from asmgen.kernels.sequences.dropout import KeysByQueries, QueriesByKeys, keys_by_queries, new_draws, queries_by_keys, replace_dropped
from asmgen.kernels.sequences.halftiles import HalfTiles, half_tiles


@dataclass(frozen=True)
class Dropping:
    """A wave's masks."""

    masks: QueriesByKeys | HalfTiles


def dropping(k: ag.TileBuilder, at: KeyPart, scores: ag.Tile) -> Dropping | None:
    """Dropout of a wave with such scores; None in a build without. Changes SCC and VCC."""
    if not k.p.dropout:
        return None
    with k.scratch("key0", file="s") as key0:
        k.s_mul_i32(key0, k.wave.register, scores.columns)
        k.s_add_u32(key0, key0, at.key0)
        done = (k.argument(f"{tensor}_stride_{name}") for tensor in "kv" for name in "sh")
        make = queries_by_keys if scores.rows == masking.BLOCK else half_tiles
        masks = make(k, key0, scores.columns, lambda name: k.registers.share(name, next(done)))
    return Dropping(masks)


def begin(k: ag.TileBuilder, dropout: Dropping | None, at: KeyPart, head: QueryHead) -> None:
    """The steps of a head begin. Changes SCC and VCC."""
    if dropout is not None:
        with k.scratch("number", file="s") as number:
            head_number(k, number, at.batch, at.head)
            dropout.masks.begin(k, number, head.row0)


def draw(k: ag.TileBuilder, dropout: Dropping | None, at: ag.StepIndex) -> None:
    """The masks of a step, before it drops. Changes SCC and VCC."""
    if dropout is not None:
        dropout.masks.draw(k, at)


def drop(k: ag.TileBuilder, dropout: Dropping | None, weights: ag.Tile, at: ag.StepIndex) -> None:
    """Elements of P, rounded, become 0."""
    if dropout is not None:
        masking.drop(k, dropout.masks.kept, weights, at)


def choose(k: ag.TileBuilder, dropout: Dropping | None, slopes: ag.Tile, at: ag.StepIndex, low: ag.Tile | None) -> None:
    """Elements of dP become what they began at, a column `low`, where P has been dropped."""
    if dropout is not None and low is not None:
        masking.choose(k, dropout.masks.kept, slopes, low, at)


@dataclass(frozen=True)
class DroppingKeys:
    """As `Dropping` for a wave with queries in lanes, which goes over keys: `kept` is what the masks keep of a step."""

    masks: KeysByQueries
    kept: ag.Reg


def dropping_keys(k: ag.TileBuilder, at: ag.HeadTile, row0: ag.Reg, key0: ag.Reg, scores: ag.Tile) -> DroppingKeys | None:
    """Dropout of a wave with such scores, of keys by queries, whose first key is `key0`; None in a build without. Changes SCC and VCC."""
    if not k.p.dropout:
        return None
    draws = new_draws(k)
    with k.scratch("number", file="s") as number:
        head_number(k, number, at.batch, at.head)
        draws.begin(k, number)
    masks = keys_by_queries(k, draws, row0, key0, scores.columns)
    return DroppingKeys(masks, k.registers.vgprs(scores.registers.count // 2, "kept_pairs", note="-1 and 0: what dropout keeps"))


def draw_keys(k: ag.TileBuilder, dropout: DroppingKeys | None, number: int, at: ag.StepIndex) -> None:
    """The mask of a step for one fragment of queries, in their order. Changes SCC and VCC."""
    if dropout is not None:
        half = dropout.kept.count // len(dropout.masks.rows)
        dropout.masks.draw(k, number, dropout.kept[number * half:(number + 1) * half - 1], at)


def choose_keys(k: ag.TileBuilder, dropout: DroppingKeys | None, slopes: ag.Tile, start: ag.Tile, at: ag.StepIndex) -> None:
    """As `choose`, of keys by queries, where a row of fragments has what dP began at."""
    if dropout is not None:
        half = dropout.kept.count // slopes.across
        with k.at(at):
            for number in range(slopes.across):
                replace_dropped(k, slopes.base(0, number), start.base(0, number), dropout.kept[number * half:(number + 1) * half - 1])
