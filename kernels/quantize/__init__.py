"""Quantisation of rows: to 8 bits by tensor, row or 128 columns, and to MX blocks of 32 columns."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_FUNCTIONS = ("to",)


def __getattr__(name: str) -> Any:
    """The functions on tensors, loaded when they are first asked for: builds of the family need no numpy."""
    if name not in _FUNCTIONS:
        raise AttributeError(f"module 'asmgen.kernels.quantize' has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.functions"), name)
