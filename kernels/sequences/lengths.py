"""Random sequences for problems of builds with variable lengths: where each begins, and how many of its rows count."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import asmgen as ag

Array = np.ndarray[Any, Any]
_EMPTY = 0.25  # the share of sequences that are as short as the others allow: empty ones, most times


@dataclass(frozen=True)
class RowRange:
    """The rows of one sequence that count, in all rows."""

    first: int
    count: int

    @property
    def rows(self) -> slice:
        """As an index."""
        return slice(self.first, self.first + self.count)


@dataclass(frozen=True)
class Sequences:
    """The queries and keys of each sequence. In a build without variable lengths there are none: the batches are alike."""

    queries: tuple[RowRange, ...] = ()
    keys: tuple[RowRange, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def draw(p: ag.Values, random: np.random.Generator) -> Sequences:
        """Random ones for the parameters of a launch."""
        if not p["varlen"]:
            return Sequences()
        arguments: dict[str, Any] = {}
        for side in "qk":
            cuts, used = _lengths(p["b"], p[f"s{side}"], p[f"max_s{side}"], bool(p["padded"]), random)
            arguments |= {f"cu_seqlens_{side}": cuts, f"max_s{side}": p[f"max_s{side}"]}
            if p["padded"]:
                arguments[f"seqused_{side}"] = used
        found = Sequences.of(p, arguments)
        return Sequences(found.queries, found.keys, arguments)

    @staticmethod
    def of(p: ag.Values, arguments: Mapping[str, Any]) -> Sequences:
        """Those of a launch's arguments."""
        if not p["varlen"]:
            return Sequences()
        found: list[tuple[RowRange, ...]] = []
        for side in "qk":
            cuts = arguments[f"cu_seqlens_{side}"].tolist()
            used = arguments[f"seqused_{side}"].tolist() if p["padded"] else [end - first for first, end in itertools.pairwise(cuts)]
            found.append(tuple(RowRange(first, count) for first, count in zip(cuts, used, strict=False)))
        queries, keys = found
        return Sequences(queries, keys)

    def each(self, p: ag.Values) -> Iterator[tuple[dict[str, Any], slice, slice]]:
        """The parameters of each sequence by itself, and its queries and keys among all rows; without variable lengths all at once."""
        if not p["varlen"]:
            yield dict(p), slice(None), slice(None)
        for queries, keys in zip(self.queries, self.keys, strict=True):
            yield {**p, "b": 1, "sq": queries.count, "sk": keys.count}, queries.rows, keys.rows


def _lengths(count: int, rows: int, most: int, padded: bool, random: np.random.Generator) -> tuple[Array, Array]:
    """The first row of each of `count` sequences and all rows; the rows that count. No more than `most` count of one."""
    lengths, left, room = [], rows, rows if padded else most
    for later in reversed(range(count)):
        low = max(0, left - later * room)
        high = max(low, min(room, left, 2 * left // (later + 1) + 1))  # the average of what is left is in the middle
        lengths.append(low if random.random() < _EMPTY else int(random.integers(low, high + 1)) if later else left)
        left -= lengths[-1]
    lengths = [lengths[one] for one in random.permutation(count)]
    cuts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    used = [int(random.integers(0, min(one, most) + 1)) for one in lengths] if padded else lengths
    return cuts, np.array(used, np.int32)


def even(p: ag.Values) -> dict[str, Any]:
    """The parameters of a launch whose sequences are about as long as the average, each a batch: what a prediction counts with."""
    if not p["varlen"]:
        return dict(p)
    return {**p, **{name: max(1, round(p[name] / p["b"])) for name in ("sq", "sk")}}
