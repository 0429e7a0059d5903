"""numba's `njit` for the emulator's loops: compiled code is kept on disk where numba finds a folder to write to, else in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit` with these options; `cache` is a wish."""
    def compiled(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(**options)(function)
        except RuntimeError:  # no folder for the cache
            return numba.njit(**{**options, "cache": False})(function)

    return compiled
