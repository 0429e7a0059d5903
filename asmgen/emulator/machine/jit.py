"""numba's `njit` for the emulator's loops: compiled code is kept on disk where numba finds a folder to write to, else in memory.

numba takes kept code for stale where the function's own file has changed. What is compiled into it comes from other files too: their
functions, and their numbers. So a function's name there says what those files hold (`fingerprint`).

`prefetch` is what compiled loops tell the host's caches.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_COMPILED = re.compile(r"^@(?:\w+\.)?(?:njit|intrinsic|overload)\b", re.MULTILINE)
_IMPORTS = re.compile(r"^from ([\w.]+) import|^import ([\w.]+)", re.MULTILINE)


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit` with these options; `cache` is a wish."""
    def compiled(function: Callable[..., Any]) -> Any:
        name = function.__qualname__
        if options.get("cache"):
            function.__qualname__ = f"{name}_{fingerprint(function.__module__)}"  # the name of the file that numba keeps it in
        try:
            return numba.njit(**options)(function)
        except RuntimeError:  # no folder for the cache
            return numba.njit(**{**options, "cache": False})(function)
        finally:
            function.__qualname__ = name

    return compiled


@cache
def fingerprint(module: str) -> str:
    """What a module's compiled code is made of, besides its own file: the contents of all files that it may have been taken from.

    Those are the modules of its package that it imports, and where one of them holds compiled code too, those that this one imports.
    """
    package = module.partition(".")[0]
    files: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        file = getattr(sys.modules.get(waiting.pop()), "__file__", None)
        if file is None:
            continue
        for match in _IMPORTS.finditer(Path(file).read_text()):
            name = match[1] or match[2]
            source = getattr(sys.modules.get(name), "__file__", None)
            if name.partition(".")[0] == package and name not in files and source is not None:
                files[name] = Path(source)
                if _COMPILED.search(files[name].read_text()):
                    waiting.append(name)
    digest = sha256()
    for name in sorted(files):
        digest.update(f"{name}\0".encode() + files[name].read_bytes())
    return digest.hexdigest()[:12]


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
