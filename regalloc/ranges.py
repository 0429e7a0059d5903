"""What a register plan hands out and remembers: leased registers, ranges with a name, and the place in the author's file.

A *lease* is one holding of a range by one name, from the line that took it to the line that released it. The registers
that a plan returns carry the number of their lease, so that a register kept beyond its release is told from the same register
in the hands of its next owner.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import PurePath

from asmgen.isa.errors import AsmgenError
from asmgen.isa.registers import Reg


class PlanError(AsmgenError):
    """A register is used against the plan: overlap, use after release, misalignment, an unknown or doubled name."""


@dataclass(frozen=True, eq=False)
class OwnedReg(Reg):
    """A register range that knows its lease; equal to the plain `Reg` of the same registers, and hashed and printed like it.

    Parts of it (`q[4:7]`) belong to the same lease.
    """

    lease: int = -1

    def __getitem__(self, key: int | slice) -> OwnedReg:
        """A part of the range, inclusive as in `Reg.__getitem__`, with the same lease; raises IndexError outside of it."""
        part = super().__getitem__(key)
        return OwnedReg(part.file, part.index, part.count, self.lease)

    # The generated comparison of a dataclass demands equal classes; operands must compare by their registers alone.
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reg):
            return NotImplemented
        return (self.file, self.index, self.count) == (other.file, other.index, other.count)

    __hash__ = Reg.__hash__


@dataclass(frozen=True)
class Range:
    """One lease of a plan.

    `kind` is "pin", "pool" or "view". `taken` and `released` are "file:line" of the author's kernel (`released` is None
    while the range lives). `first` is the position in the program of the first instruction emitted while it was held,
    `last` that of the last one (`first - 1` where there was none, None while it lives). `parents` are the leases that a view looks into.
    `ended_by` says what released the range where the author did not name it: the end of a scope, or of the range it was a view of.
    """

    lease: int
    name: str
    reg: OwnedReg
    kind: str
    note: str
    taken: str
    first: int
    parents: tuple[int, ...] = ()
    released: str | None = None
    last: int | None = None
    ended_by: str = ""

    @property
    def live(self) -> bool:
        """Whether the range is still held."""
        return self.released is None

    def covers(self, reg: Reg) -> bool:
        """Whether every register of `reg` is one of the range's."""
        return reg.file == self.reg.file and self.reg.index <= reg.index and reg.last <= self.reg.last


@dataclass(frozen=True)
class Span:
    """A name that holds registers from position `first` to `last` of the program, both inclusive."""

    reg: Reg
    name: str
    first: int
    last: int


def author_frame() -> tuple[str, int] | None:
    """File and line of the nearest caller outside of asmgen's own machinery: the author's kernel, of the library or not.

    Where asmgen's machinery is all there is, the nearest caller outside of regalloc.
    """
    frame = sys._getframe(1)
    nearest = None
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        here = frame.f_code.co_filename, frame.f_lineno
        # A `with` statement calls its context manager through contextlib, which is nobody's kernel.
        if module != "contextlib":
            if not _inside(module, "asmgen") or _inside(module, "asmgen.kernels"):
                return here
            if nearest is None and not _inside(module, "asmgen.regalloc"):
                nearest = here
        frame = frame.f_back  # type: ignore[assignment]
    return nearest


def author_line() -> str:
    """`author_frame` as "file:line"."""
    place = author_frame()
    return f"{place[0]}:{place[1]}" if place else ""


def _inside(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def short_place(place: str, seen_from: str = "") -> str:
    """A "file:line" as text for a reader who is told about `seen_from`: "line 12" in the same file, else the file's name and the line."""
    path, _, line = place.rpartition(":")
    if seen_from and seen_from.rpartition(":")[0] == path:
        return f"line {line}"
    return f"{PurePath(path).name}:{line}"
