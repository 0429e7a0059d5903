"""What a build of norm reads and writes, by name."""

from __future__ import annotations

import asmgen as ag

TENSORS = ("x", "residual", "r", "d")
INPUTS = ("x", "residual")
EIGHT = "fp8"


def tensors_of(build: ag.Values) -> tuple[str, ...]:
    """The tensors of rows."""
    return TENSORS if build["residual"] else ("x", "d")


def saved_of(build: ag.Values) -> tuple[str, ...]:
    """The figures of rows that are stored."""
    return () if build["save"] == "none" else ("mean", "rstd") if build["kind"] == "layer" else ("rstd",)


def figures_of(build: ag.Values) -> tuple[str, ...]:
    """All figures of rows that are stored: with those that are saved, the scales of 8-bit results."""
    return (*saved_of(build), "scale") if build["out"] == EIGHT else saved_of(build)
