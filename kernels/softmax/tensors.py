"""What a build of softmax reads and writes, by name."""

from __future__ import annotations

import asmgen as ag

TENSORS = ("x", "d", "y", "dy", "dx")


def tensors_of(build: ag.Values) -> tuple[str, ...]:
    """The tensors of rows that a build reads and writes; the last one is what it writes."""
    return ("y", "dy", "dx") if build["backward"] else ("x", "d")
