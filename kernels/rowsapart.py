"""The rule that rows of what is written do not overlap, for tensors whose axes have a stride each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import asmgen as ag
from asmgen.kernels.stridesapart import blocks_are_apart


def rows_are_apart(tensor: str, counts: Mapping[str, str], of_build: Callable[[ag.Values], Mapping[str, str]] | None = None,
                   reads: tuple[str, ...] = ()) -> ag.Rule:
    """No two rows of `d` elements share one. `counts` are the parameters that say how many there are along each axis. A build that has
    other axes, or counts them by others, has those `of_build`, which depend on the parameters `reads` too."""
    def apart(p: ag.Values) -> bool:
        own = counts if of_build is None else of_build(p)
        return blocks_are_apart(((p[f"{tensor}_stride_{axis}"], p[size]) for axis, size in own.items()), p["d"])

    strides = tuple(f"{tensor}_stride_{axis}" for axis in counts)
    return ag.Rule(f"rows of {tensor} must not overlap: they do not where each of {', '.join(strides[:-1])} and {strides[-1]} along which "
                   "there are several is at least d, and what rows span along those that are smaller",
                   ("d", *counts.values(), *strides, *reads), apart)
