"""LLVM's tools within bounds: on damaged input clang 22 can loop for ever, and repetition can ask it for any amount of memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from asmgen.toolchain import Bounds, Toolchain, find_toolchain, require_objdump

_SECONDS = 3
"""Of processor time, for any input; what follows is added for a long one."""
_TEXT_A_SECOND = 100_000
"""Bytes of text: clang takes a second for ten thousand instructions, 400,000 bytes."""
_OBJECT_A_SECOND = 300_000
"""Bytes of a code object: llvm-objdump takes a minute for a library of a hundred megabytes."""
_KILOBYTES = 3 << 19
"""Of memory, for any input; and for each kilobyte of it:"""
_TIMES = 32
_PATIENCE = 1.25  # seconds by the clock for one of processor time, where nobody else runs: who waits for a pipe takes none
_MOST_OUTPUT = 256 << 20
_SHELL = "/bin/sh"
# A limit that this shell does not know, or that is lower already, is no reason to fail.
_LIMITED = 'ulimit -t "$1" 2>/dev/null; ulimit -v "$2" 2>/dev/null; ulimit -c 0 2>/dev/null; shift 2; exec "$@"'


@dataclass(frozen=True)
class Limited:
    """What a tool may use: `seconds` of processor time, `kilobytes` of memory, and `most` bytes of output."""

    seconds: int
    kilobytes: int
    most: int = _MOST_OUTPUT

    @classmethod
    def for_text(cls, size: int) -> Limited:
        """For clang on that many bytes of text."""
        return cls(_SECONDS + size // _TEXT_A_SECOND, _KILOBYTES + _TIMES * size // 1024)

    @classmethod
    def for_object(cls, size: int) -> Limited:
        """For llvm-objdump on a code object of that many bytes."""
        return cls(_SECONDS + size // _OBJECT_A_SECOND, _KILOBYTES + _TIMES * size // 1024, max(_MOST_OUTPUT, _TIMES * size))

    @property
    def bounds(self) -> Bounds:
        """What asmgen itself looks after: the clock and the output."""
        return Bounds(self.seconds * _PATIENCE * _crowd(), self.most)

    def command(self, command: Sequence[str]) -> tuple[str, ...]:
        """The command as one that the system stops; unchanged where there is no shell."""
        if not os.access(_SHELL, os.X_OK):
            return tuple(command)
        return (_SHELL, "-c", _LIMITED, "sh", str(self.seconds), str(self.kilobytes), *command)

    def toolchain(self) -> Toolchain:
        """The toolchain with its clang limited. Raises ToolError where there is none."""
        tools = find_toolchain()
        return replace(tools, clang=self.command(tools.clang))

    def objdump(self) -> tuple[str, ...]:
        """The llvm-objdump command, limited. Raises ToolError where there is none."""
        return self.command(require_objdump())


def _crowd() -> float:
    """How many times as long as its processor time a process takes by the clock here and now: on a busy machine it must wait its turn."""
    try:
        return max(1.0, (os.getloadavg()[0] + 1) / (os.cpu_count() or 1))
    except OSError:
        return 1.0
