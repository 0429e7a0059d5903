"""Iterations: which iteration an operation of a pipelined loop belongs to.

The author's step function gets `t`; `t + 1` names the next iteration. Each operation has one index: that of its operands with several
buffers, else that of the definition it reads, else the one written as `at=`. A copy of the step (in the prologue, the loop or the drain)
has the operations whose iteration lies inside the loop's count, and no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field
from typing import Protocol

from asmgen.isa.errors import AsmgenError
from asmgen.isa.records import dataclass


class PipelineError(AsmgenError):
    """A step cannot be pipelined: an operation has no iteration or two, or phases differ."""


@dataclass
class Copy:
    """One copy of a step while it is emitted.

    `phase` is t modulo the unroll. `first`: this is the peeled variant, for iteration 0. `buffer_counts`, `offsets` and `stage_count` (of
    `k.stage()`) collect what the step uses.
    """

    phase: int
    first: bool = False
    buffer_counts: set[int] = field(default_factory=set)
    offsets: dict[int, int] = field(default_factory=dict)  # by the ordinal of an instruction
    definitions: list[tuple[int, int]] = field(default_factory=list)  # (registers as bits, offset), newest last
    stage_count: int = 0

    def defined(self, mask: int) -> int | None:
        """The iteration of the newest definition, in this copy, of any of the registers."""
        return next((offset for registers, offset in reversed(self.definitions) if registers & mask), None)


@dataclass(frozen=True)
class StepIndex:
    """Iteration t + offset of a copy."""

    copy: Copy
    offset: int = 0

    def __add__(self, more: int) -> StepIndex:
        return StepIndex(self.copy, self.offset + more)

    def __sub__(self, less: int) -> StepIndex:
        return StepIndex(self.copy, self.offset - less)

    def buffer(self, count: int) -> int:
        """The number of the buffer that this iteration uses, of so many."""
        self.copy.buffer_counts.add(count)
        return (self.copy.phase + self.offset) % count

    @property
    def first(self) -> bool:
        """Whether this is iteration 0, which `peel=1` gives a variant of its own. (t + 1).first is true in the copy before the first
        step."""
        return self.copy.first

    def __str__(self) -> str:
        return f"t{self.offset:+d}" if self.offset else "t"


class Emitter(Protocol):
    """The part of a builder that `operation` needs."""

    copy: Copy | None
    ordinal: int

    def operation(self, name: str) -> AbstractContextManager[None]:
        """Give instructions emitted within that name."""

    def here(self) -> str:
        """The author's line, as errors show it."""


@contextmanager
def operation(k: Emitter, name: str, indices: Iterable[StepIndex | None] = (), reads: int = 0, writes: int = 0,
              at: StepIndex | None = None) -> Iterator[None]:
    """A tile operation: its instructions carry `name`. Inside a step they belong to one iteration.

    `indices` are those of its operands with several buffers. `reads` and `writes` are registers (as bits): they show which definition it
    reads. Raises PipelineError for no iteration or two.
    """
    copy = k.copy
    if copy is None:
        with k.operation(name):
            yield
        return
    offset = _offset(k, name, [index for index in indices if index is not None], reads, at)
    if writes:
        copy.definitions.append((writes, offset))
    before = k.ordinal
    try:
        with k.operation(f"{name} of {StepIndex(copy, offset)}"):
            yield
    finally:
        copy.offsets.update(dict.fromkeys(range(before, k.ordinal), offset))


def _offset(k: Emitter, name: str, indices: list[StepIndex], reads: int, at: StepIndex | None) -> int:
    assert k.copy is not None
    offsets = {index.offset for index in indices}
    if at is not None:
        offsets.add(at.offset)
    if len(offsets) > 1:
        named = " and ".join(str(StepIndex(k.copy, offset)) for offset in sorted(offsets))
        raise PipelineError(f"{name} names two iterations, {named}; an operation belongs to one", k.here())
    if offsets:
        return offsets.pop()
    found = k.copy.defined(reads)
    if found is None:
        raise PipelineError(f"{name} has no iteration: none of its operands has several buffers, and no operation of this step defines "
                            "what it reads; write at=t (or t + 1)", k.here())
    return found
