"""What a build of norm-backward reads and writes, by name."""

from __future__ import annotations

import asmgen as ag

TENSORS = ("x", "dy", "dr", "dx", "dresidual")


def inputs_of(build: ag.Values) -> tuple[str, ...]:
    """The tensors of rows that are read."""
    return ("x", "dy", "dr") if build["residual"] else ("x", "dy")


def outputs_of(build: ag.Values) -> tuple[str, ...]:
    """The tensors of rows that are written."""
    return ("dx", "dresidual") if build["dresidual"] else ("dx",)


def figures_of(build: ag.Values) -> tuple[str, ...]:
    """The figures of rows that are read."""
    return ("mean", "rstd") if build["kind"] == "layer" else ("rstd",)


def sums_of(build: ag.Values) -> tuple[str, ...]:
    """The gradients of columns."""
    return ("dw", "db") if build["bias"] else ("dw",)
