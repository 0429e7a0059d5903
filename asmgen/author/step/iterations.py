"""Steps: the iteration that an operation of a pipelined loop belongs to.

The author's step function gets `t`; `t + 1` names the next iteration. Every operation has one index: that of its staged operands, else
of the definition it reads, else the one written as `at=`. A copy of the step (in the prologue, the loop or a tail) has the operations
whose iteration lies inside of the loop's count, and not the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field
from typing import Protocol

from asmgen.isa.errors import AsmgenError
from asmgen.isa.records import dataclass


class PipelineError(AsmgenError):
    """A step that cannot be pipelined: an operation without an iteration, sources of two iterations, copies that differ."""


@dataclass
class Copy:
    """One copy of a step while it is emitted.

    `phase` is t modulo the unroll. With `first`, every operation is wanted as `peel` sets it apart for iteration 0. `stages`, `offsets`
    and `stage_count` (of `k.stage()`) collect what the step uses.
    """

    phase: int
    first: bool = False
    stages: set[int] = field(default_factory=set)
    offsets: dict[int, int] = field(default_factory=dict)  # by ordinal of an instruction
    definitions: list[tuple[int, int]] = field(default_factory=list)  # (registers as bits, offset), newest last
    stage_count: int = 0

    def defined(self, mask: int) -> int | None:
        """The iteration of the newest definition of any of the registers in this copy."""
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

    def stage(self, stages: int) -> int:
        """Which of so many stages this iteration uses."""
        self.copy.stages.add(stages)
        return (self.copy.phase + self.offset) % stages

    @property
    def first(self) -> bool:
        """Whether this is iteration 0, whose operations `peel=1` sets apart: (t + 1).first is true in the copy before the first step."""
        return self.copy.first

    def __str__(self) -> str:
        return f"t{self.offset:+d}" if self.offset else "t"


class Emitter(Protocol):
    """What `operation` needs of a builder."""

    copy: Copy | None
    ordinal: int

    def operation(self, name: str) -> AbstractContextManager[None]:
        """Instructions emitted within carry that name."""

    def place(self) -> str:
        """The author's line, as errors name it."""


@contextmanager
def operation(k: Emitter, name: str, indices: Iterable[StepIndex | None] = (), reads: int = 0, writes: int = 0,
              at: StepIndex | None = None) -> Iterator[None]:
    """A tile operation: its instructions carry `name`; inside of a step they belong to one iteration.

    `indices` are those of its staged operands, `reads` and `writes` the registers (as bits) that say which definition it reads.
    Raises PipelineError where there is no iteration, or two.
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
        raise PipelineError(f"{name} names two iterations, {named}; an operation belongs to one", k.place())
    if offsets:
        return offsets.pop()
    found = k.copy.defined(reads)
    if found is None:
        raise PipelineError(f"{name} has no iteration: none of its operands has stages, and nothing in this step has defined what it "
                            "reads; write at=t (or t + 1)", k.place())
    return found
