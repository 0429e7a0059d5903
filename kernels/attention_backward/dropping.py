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
from asmgen.kernels.sequences.dropout import QueriesByKeys, queries_by_keys


@dataclass(frozen=True)
class Dropping:
    """A wave's masks, and `low`: a column of queries with what their dP begin at."""

    masks: QueriesByKeys
    low: ag.Tile


def dropping(k: ag.TileBuilder, at: KeyPart, scores: ag.Tile) -> Dropping | None:
    """Dropout of a wave with such scores; None in a build without. Changes SCC and VCC."""
    if not k.p.dropout:
        return None
    with k.scratch("key0", file="s") as key0:
        k.s_mul_i32(key0, k.wave.register, scores.columns)
        k.s_add_u32(key0, key0, at.key0)
        done = (k.argument(f"{tensor}_stride_{name}") for tensor in "kv" for name in "sh")
        masks = queries_by_keys(k, key0, scores.columns, lambda name: k.registers.share(name, next(done)))
    f = scores.fragment
    return Dropping(masks, k.tile("low", scores.rows, f.columns, f, note="what dP begins at"))


def begin(k: ag.TileBuilder, dropout: Dropping | None, at: KeyPart, head: QueryHead) -> None:
    """The steps of a head begin. Changes SCC and VCC."""
    if dropout is not None:
        with k.scratch("number", file="s") as number:
            head_number(k, number, at.batch, at.head)
            dropout.masks.begin(k, number, head.row0)


def starts(dropout: Dropping | None, slopes: ag.Tile) -> tuple[ag.Tile, ...]:
    """What begins at -delta in each step."""
    return (slopes,) if dropout is None else (slopes, dropout.low)


def drop(k: ag.TileBuilder, dropout: Dropping | None, weights: ag.Tile, at: ag.StepIndex) -> None:
    """Elements of P, rounded, become 0. Changes SCC and VCC."""
    if dropout is not None:
        dropout.masks.drop(k, weights, at)


def choose(k: ag.TileBuilder, dropout: Dropping | None, slopes: ag.Tile, at: ag.StepIndex) -> None:
    """Elements of dP become what they began at where P has been dropped."""
    if dropout is not None:
        dropout.masks.choose(k, slopes, dropout.low, at)
