"""What a register plan hands out and remembers: leased registers, ranges with a name, and the place in the author's file.

A *lease* is one holding of a range by one name, from the line that took it to the line that released it. The registers
that a plan returns carry the number of their lease, so that a register kept beyond its release is told from the same register
in the hands of its next owner.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache
from math import lcm
from pathlib import PurePath
from types import FrameType
from typing import Any

from asmgen.isa.errors import AsmgenError
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg
from asmgen.regalloc.phased import Phased, at_phase, period

_CALLS_THE_AUTHOR = "asmgen.author.family.writing"
"""The module whose function calls an author's function, its variable `writer`; who called that wrote nothing of the kernel."""


class PlanError(AsmgenError):
    """A register is used against the plan: overlap, use after release, misalignment, an unknown or doubled name."""


@dataclass(frozen=True, eq=False)
class OwnedReg(Reg):
    """A register range that knows its lease; equal to the plain `Reg` of the same registers, and hashed and printed like it.

    Parts of it (`q[4:7]`) belong to the same lease. `by_phase`, if any, are the ranges of each phase of a pipeline's step, that of phase 0
    first.
    """

    lease: int = -1
    by_phase: tuple[OwnedReg, ...] = field(default=(), repr=False)

    def __getitem__(self, key: int | slice | Phased) -> OwnedReg:
        """A part of the range, inclusive as in `Reg.__getitem__`, with the same lease; raises IndexError outside of it."""
        if isinstance(key, Phased) or isinstance(key, slice) and (isinstance(key.start, Phased) or isinstance(key.stop, Phased)):
            return self._phased(key)
        first, count = self.part(key)
        return self.moved(first - self.index, count)

    def _phased(self, key: Any) -> OwnedReg:
        """The part of each phase."""
        first, last = (key.start, key.stop) if isinstance(key, slice) else (key, key)
        phases = range(lcm(period(first, last), len(self.by_phase) or 1))
        return phased([self.in_phase(phase)[at_phase(first, phase):at_phase(last, phase)] for phase in phases])

    def moved(self, offset: int, count: int) -> OwnedReg:
        """`count` registers of the same lease, from so many after the first one on; they need not lie in the range."""
        others = tuple([one.moved(offset, count) for one in self.by_phase]) if self.by_phase else ()
        return OwnedReg(self.file, self.index + offset, count, self.lease, others)

    def in_phase(self, phase: int) -> OwnedReg:
        """The range of a phase."""
        return self.by_phase[phase % len(self.by_phase)] if self.by_phase else self

    # The generated comparison of a dataclass demands equal classes; operands must compare by their registers alone.
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reg):
            return NotImplemented
        return (self.file, self.index, self.count) == (other.file, other.index, other.count)

    __hash__ = Reg.__hash__


def phased(ranges: Sequence[OwnedReg]) -> OwnedReg:
    """The first of those ranges, with the range of each phase."""
    first = ranges[0]
    return OwnedReg(first.file, first.index, first.count, first.lease, tuple(ranges))


@dataclass(frozen=True)
class Range:
    """One lease of a plan.

    `kind` is "pin", "pool", "view" (the same bits under a second name) or "share" (another owner who takes turns). `taken` and
    `released` are "file:line" of the author's kernel (`released` is None while the range lives). `first` is the position in the program
    of the first instruction emitted while it was held, `last` that of the last one (`first - 1` where there was none, None while it
    lives). `parents` are the leases that a view or a share looks into.
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

    def ended(self, where: str, last: int, ended_by: str) -> Range:
        """The same lease, released."""
        return Range(self.lease, self.name, self.reg, self.kind, self.note, self.taken, self.first, self.parents, where, last, ended_by)

    @property
    def live(self) -> bool:
        """Whether the range is still held."""
        return self.released is None

    @property
    def owns(self) -> bool:
        """Whether it holds registers by itself, and not in another range's name."""
        return self.kind in ("pin", "pool")

    def covers(self, reg: Reg) -> bool:
        """Whether every register of `reg` is one of the range's."""
        own = self.reg
        return reg.file == own.file and own.index <= reg.index and reg.index + reg.count <= own.index + own.count


@dataclass(frozen=True)
class Taking:
    """An entry of a journal: the lease of what was taken from the pool, its alignment, and the position in the program."""

    lease: int
    align: int
    position: int


@dataclass(frozen=True)
class Span:
    """A name that holds registers from position `first` to `last` of the program, both inclusive."""

    reg: Reg
    name: str
    first: int
    last: int


def author_frames(home: str = "") -> tuple[tuple[str, int] | None, tuple[str, int] | None]:
    """(author's place, helper's place): file and line, as `place_name` names files, of whoever calls asmgen's machinery now.

    The helper is the nearest caller outside of the machinery. Where that is another file than `home`, the file that holds the author's
    kernel, and `home` called it, the author's place is the line in `home`; else both are one, and the second is None. Where asmgen's
    machinery is all there is, the nearest caller outside of regalloc counts. What asmgen does for an author's function before and after
    it runs belongs to the line where that is declared.
    """
    frame: FrameType | None = sys._getframe(1)
    nearest: FrameType | None = None
    found = None
    while frame is not None:
        role = _ROLES[frame.f_globals.get("__name__", "")]
        if role == "kernel":
            if not home or frame.f_code.co_filename == home:
                return _location(frame), found
            found = found or _location(frame)
        elif role == "calls the author":
            return found or _declared(frame), None
        elif role == "machinery" and nearest is None:
            nearest = frame
        frame = frame.f_back
    return found or (_location(nearest) if nearest is not None else None), None


def home_file() -> str:
    """The file of the nearest caller outside of asmgen's machinery, as Python names it; "" where there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        role = _ROLES[frame.f_globals.get("__name__", "")]
        if role == "kernel":
            return frame.f_code.co_filename
        if role == "calls the author":
            return str(frame.f_locals["writer"].__code__.co_filename)
        frame = frame.f_back
    return ""


class _Roles(dict[str, str]):
    """Whose code a module is. A `with` statement calls its context manager through contextlib, which is nobody's kernel."""

    def __missing__(self, module: str) -> str:
        if module == "contextlib" or _inside(module, "asmgen.regalloc"):
            role = "between"
        elif module == _CALLS_THE_AUTHOR:
            role = "calls the author"
        else:
            role = "machinery" if _inside(module, "asmgen") and not _inside(module, "asmgen.kernels") else "kernel"
        self[module] = role
        return role


_ROLES = _Roles()
"""By module, as far as asked for: every frame above every instruction asks."""


def author_line() -> str:
    """The author's place as "file:line"."""
    location, _ = author_frames()
    return f"{location[0]}:{location[1]}" if location else ""


def _declared(frame: FrameType) -> tuple[str, int]:
    """Where the author's function is declared that a frame of `_CALLS_THE_AUTHOR` calls."""
    writer = frame.f_locals["writer"]
    return shown_file(writer.__code__.co_filename, str(writer.__globals__.get("__name__", "")), os.getcwd()), writer.__code__.co_firstlineno


def _location(frame: FrameType) -> tuple[str, int]:
    module = str(frame.f_globals.get("__name__", ""))
    return shown_file(frame.f_code.co_filename, module, "" if _inside(module, "asmgen") else os.getcwd()), frame.f_lineno


@lru_cache(maxsize=256)
def shown_file(path: str, module: str, folder: str) -> str:
    """How a source file is named everywhere: by its module inside of asmgen, else relative to `folder` (the working folder) if it lies
    there, else by its name alone. So the same kernel built anywhere says the same."""
    if _inside(module, "asmgen"):
        is_package = path.endswith("__init__.py")
        return module.replace(".", "/") + ("/__init__.py" if is_package else ".py")
    inside = os.path.relpath(path, folder) if path.startswith(folder.rstrip("/") + "/") else os.path.basename(path)
    return inside.replace(os.sep, "/")


@lru_cache(maxsize=256)
def _inside(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def short_file(location: str, seen_from: str = "") -> str:
    """A "file:line" as text for a reader who is told about `seen_from`: "line 12" in the same file, else the file's name and the line."""
    path, _, line = location.rpartition(":")
    if seen_from and seen_from.rpartition(":")[0] == path:
        return f"line {line}"
    return f"{PurePath(path).name}:{line}"
