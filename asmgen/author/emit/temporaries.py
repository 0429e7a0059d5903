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
        align = default_align(self.reserved.file, count)
        free = set(self.free)
        for first in self.free:
            wanted = range(first, first + count)
            if (self.reserved.index + first) % align == 0 and free.issuperset(wanted):
                self.free = [index for index in self.free if index not in wanted]
                return self.reserved[first:first + count - 1]
        raise AsmgenError(f"{name!r} wants {count} temporaries of the stream, whose reserve {self.reserved} has {len(free)} left; "
                          "reserve more", str(author_line()))

    def give(self, reg: Reg) -> None:
        """Return registers to the end of the queue."""
        self.free += range(reg.index - self.reserved.index, reg.last - self.reserved.index + 1)
