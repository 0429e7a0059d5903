"""What a build of norm reads and writes, by name."""

from __future__ import annotations

import asmgen as ag

TENSORS = ("x", "residual", "r", "d")
INPUTS = ("x", "residual")


def tensors_of(build: ag.Values) -> tuple[str, ...]:
    """The tensors of rows."""
    return TENSORS if build["residual"] else ("x", "d")


def saved_of(build: ag.Values) -> tuple[str, ...]:
    """The figures of rows that are stored."""
    return () if build["save"] == "none" else ("mean", "rstd") if build["kind"] == "layer" else ("rstd",)
