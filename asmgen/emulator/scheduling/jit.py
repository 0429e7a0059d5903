"""numba's `njit` for the emulator's loops: compiled code is kept on disk where numba finds a folder to write to, else in memory.

`prefetch` is what compiled loops tell the host's caches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit` with these options; `cache` is a wish."""
    def compiled(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(**options)(function)
        except RuntimeError:  # no folder for the cache
            return numba.njit(**{**options, "cache": False})(function)

    return compiled


@intrinsic
def _prefetch(typing_context: Any, address: Any) -> Any:
    """Ask for the line of the caches that holds the byte at `address`, which may be anything: nothing is read."""
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(fetch, [builder.inttoptr(arguments[0], byte), number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(types.int64), generate


prefetch: Any = _prefetch  # compiled code calls it without the typing context
