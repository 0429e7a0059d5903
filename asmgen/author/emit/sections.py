"""Streams of a kernel, and sections, in which streams are merged."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Protocol

from asmgen.author.emit.authorlines import author_line
from asmgen.author.emit.temporaries import Temporaries
from asmgen.author.step.effects import Tag, Unit, units_of
from asmgen.author.step.merge import merge, order_of_streams
from asmgen.isa.errors import AsmgenError
from asmgen.program.program import Item
from asmgen.regalloc.plan import RegisterPlan


class Emitting(Protocol):
    """The part of a builder that streams and sections need."""

    registers: RegisterPlan | None
    items: list[Item]
    _tags: list[Tag]
    _stream: str
    _section: Section | None
    _temporaries: dict[tuple[str, str], Temporaries]

    def _moved(self, start: int) -> None:
        """Items from number `start` on are about to be moved or removed."""


class Stream:
    """A named stream: code of a kernel that is not placed yet. `with stream:` emits into it. Each stream has temporaries of its own."""

    def __init__(self, builder: Emitting, name: str) -> None:
        self.builder = builder
        self.name = name
        self._outer: list[str] = []

    def reserve(self, file: str, count: int) -> Stream:
        """Reserve `count` registers of a file ("v", "a", "s") from the pool as this stream's temporaries. `k.scratch` within the stream
        uses them, so that temporaries of other streams do not restrict a merge. Raises PlanError if the pool has no such hole."""
        plan = self.builder.registers
        if plan is None:
            raise AsmgenError(f"stream {self.name!r} reserves registers, but its builder has no register plan", str(author_line()))
        take = {"v": plan.vgprs, "a": plan.agprs, "s": plan.sgprs}[file]
        self.builder._temporaries[self.name, file] = Temporaries(take(count, f"{self.name}_temporaries"))
        return self

    def __enter__(self) -> Stream:
        self._outer.append(self.builder._stream)
        self.builder._stream = self.name
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.builder._stream = self._outer.pop()

    def __repr__(self) -> str:
        return f"Stream({self.name!r})"


class Section:
    """The units emitted within `with k.section()`, which a schedule may place in another order."""

    def __init__(self, builder: Emitting) -> None:
        self.builder = builder
        self.start = self.end = 0

    def __enter__(self) -> Section:
        if self.builder._section is not None:
            raise AsmgenError("a section stands inside of another one; sections do not nest", str(author_line()))
        self.builder._section = self
        self.start = len(self.builder.items)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.builder._section = None
        self.end = len(self.builder.items)

    @property
    def units(self) -> list[Unit]:
        """The units in emission order."""
        try:
            return units_of(self.builder.items[self.start:self.end], self.builder._tags[self.start:self.end])
        except ValueError as error:
            raise AsmgenError(f"{error}: `with k.block(name)` holds code with labels", str(author_line())) from None

    def merge(self, order: Sequence[int]) -> None:
        """Place the units in that order (numbers in emission order).

        Raises MergeError if a read would get another definition than in emission order; then nothing changes.
        """
        units = self.units
        items = merge(units, order)
        self.builder._moved(self.start)
        self.builder.items[self.start:self.end] = items
        self.builder._tags[self.start:self.end] = [units[number].tag for number in order for _ in units[number].items]

    def merge_streams(self, names: Sequence[str]) -> None:
        """Place the units: each name in the list takes the next unit of that stream. Raises MergeError as `merge` does."""
        self.merge(order_of_streams(self.units, names))
