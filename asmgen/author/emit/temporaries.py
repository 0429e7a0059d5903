"""Registers that a stream reserves for its temporaries."""

from __future__ import annotations

from asmgen.author.emit.authorlines import author_line
from asmgen.isa.errors import AsmgenError
from asmgen.isa.registers import Reg
from asmgen.regalloc.pool import default_align


class Temporaries:
    """A stream's reserved registers. The register that was released longest ago is taken first, so that neighbours in emission order rarely
    share one."""

    def __init__(self, reserved: Reg) -> None:
        self.reserved = reserved
        self.free = list(range(reserved.count))

    def take(self, count: int, name: str) -> Reg:
        """Take `count` consecutive registers, aligned for operands. Raises AsmgenError if none are left."""
        first = self._find(count)
        if first is None:
            raise AsmgenError(f"{name!r} wants {count} temporaries of the stream, whose reserve {self.reserved} has {len(self.free)} left; "
                              "reserve more", str(author_line()))
        self.free = [index for index in self.free if not first <= index < first + count]
        return self.reserved[first:first + count - 1]

    def has(self, count: int) -> bool:
        """Whether `take` finds so many."""
        return self._find(count) is not None

    def _find(self, count: int) -> int | None:
        align, free = default_align(self.reserved.file, count), set(self.free)
        return next((first for first in self.free
                     if (self.reserved.index + first) % align == 0 and free.issuperset(range(first, first + count))), None)

    def give(self, reg: Reg) -> None:
        """Return registers to the end of the queue."""
        self.free += range(reg.index - self.reserved.index, reg.last - self.reserved.index + 1)
