"""LLVM's tools within bounds: on damaged input clang 22 can loop for ever, and repetition can ask it for any amount of memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from asmgen.toolchain import Toolchain, find_toolchain, require_objdump

CLANG_SECONDS = 20
"""Of processor time: ten thousand instructions take one."""
OBJDUMP_SECONDS = 300
"""Of processor time: a library of a hundred megabytes takes a minute."""
_MEMORY_KILOBYTES = 16 << 20
_SHELL = "/bin/sh"
# A limit that this shell does not know, or that is lower already, is no reason to fail.
_LIMITED = 'ulimit -t "$1" 2>/dev/null; ulimit -v "$2" 2>/dev/null; ulimit -c 0 2>/dev/null; shift 2; exec "$@"'


def limited(command: Sequence[str], seconds: int) -> tuple[str, ...]:
    """The command as one that the system stops behind so many seconds of processor time; unchanged where there is no shell."""
    if not os.access(_SHELL, os.X_OK):
        return tuple(command)
    return (_SHELL, "-c", _LIMITED, "sh", str(seconds), str(_MEMORY_KILOBYTES), *command)


def limited_toolchain() -> Toolchain:
    """The toolchain with its clang limited. Raises ToolError where there is none."""
    tools = find_toolchain()
    return replace(tools, clang=limited(tools.clang, CLANG_SECONDS))


def limited_objdump() -> tuple[str, ...]:
    """The llvm-objdump command, limited. Raises ToolError where there is none."""
    return limited(require_objdump(), OBJDUMP_SECONDS)
