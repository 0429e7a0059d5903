"""Activations of rows: gelu, silu, and swiglu with limits, alone or times a second tensor, and their gradients."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_FUNCTIONS = ("apply", "backward")


def __getattr__(name: str) -> Any:
    """The functions on tensors, loaded when they are first asked for: builds of the family need no numpy."""
    if name not in _FUNCTIONS:
        raise AttributeError(f"module 'asmgen.kernels.activation' has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.functions"), name)
