"""Rotary position embeddings: columns of heads, rotated in pairs by angles that go with positions."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """The function on tensors, loaded when it is first asked for: builds of the family need no numpy."""
    if name != "apply":
        raise AttributeError(f"module 'asmgen.kernels.rope' has no attribute {name!r}")
    return import_module(f"{__name__}.functions").apply
