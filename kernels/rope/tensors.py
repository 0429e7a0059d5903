"""What a build of rope reads and writes, by name: a source and its result in turn."""

from __future__ import annotations

import asmgen as ag

TENSORS = ("x", "y", "x2", "y2")


def tensors_of(build: ag.Values) -> tuple[str, ...]:
    """The tensors of heads."""
    return TENSORS if build["second"] else TENSORS[:2]
