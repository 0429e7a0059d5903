"""Iterations: which iteration an operation of a pipelined loop belongs to.

The author's step function gets `t`; `t + 1` names the next iteration. Each operation has one index: that of its operands with several
buffers, else that of the definition it reads, else the one written as `at=`, or as `with k.at(t + 1):` around it. A copy of the step (in
the prologue, the loop or the drain) has the operations whose iteration lies inside the loop's count, and no others.

An operation may have a condition, which is about its own iteration:

    with t.first: ...     only iteration 0
    with t.later: ...     all iterations but the first
    with t.masked: ...    the iterations from `plain` on (`k.pipeline(..., plain=)`); they may run in earlier ones too
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field
from typing import Any, Protocol

from asmgen.isa.errors import AsmgenError
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction
from asmgen.regalloc.phased import Phased


class PipelineError(AsmgenError):
    """A step cannot be pipelined: an operation has no iteration or two, or phases differ."""


CONDITIONS = ("first", "later", "masked")


@dataclass
class Copy:
    """One copy of a step while it is emitted by builder `k`.

    `phase` is t modulo the unroll. `condition` is that of the operations emitted now, "" for none. `buffer_counts`, `offsets` and
    `stages` collect what the step uses. `tables` are the instructions of each phase from this one on, by ordinal, where more than
    registers of tiles differ.
    """

    k: Emitter
    phase: int
    condition: str = ""
    buffer_counts: set[int] = field(default_factory=set)
    offsets: dict[int, int] = field(default_factory=dict)  # by the ordinal of an instruction
    definitions: list[tuple[int, int]] = field(default_factory=list)  # (registers as bits, offset), newest last
    stages: dict[int, str] = field(default_factory=dict)  # names of `k.stage(name)`, by number
    counted: set[tuple[int, str]] = field(default_factory=set)  # iteration numbers that have advanced
    within: list[int] = field(default_factory=list)  # the iterations of the open `with k.at(...)`, the innermost last
    tables: dict[int, tuple[Instruction, ...]] = field(default_factory=dict)
    numbered: bool = False  # whether the step asked for the number of a buffer, so that it is another one in other phases

    def asked(self) -> None:
        """The step asks which number a buffer has in this phase."""
        self.numbered = True

    def defined(self, mask: int) -> int | None:
        """The iteration of the newest definition, in this copy, of any of the registers."""
        return next((offset for registers, offset in reversed(self.definitions) if registers & mask), None)


@dataclass(frozen=True)
class StepIndex:
    """Iteration t + offset of a copy."""

    copy: Copy
    offset: int = 0

    def __add__(self, more: int) -> StepIndex:
        return StepIndex(self.copy, self.offset + self._whole("+", more))

    def __sub__(self, less: int) -> StepIndex:
        return StepIndex(self.copy, self.offset - self._whole("-", less))

    def _whole(self, sign: str, number: object) -> int:
        if not isinstance(number, int):
            raise PipelineError(f"{self} {sign} {number} is no iteration: those are whole numbers apart, and the same ones for all "
                                "iterations", self.copy.k.here())
        return number

    def buffer(self, count: int) -> Any:
        """The number of the buffer that this iteration uses, of so many: an int that takes turns (`Phased`). Operands and registers that
        are computed of it do so too. A step that needs it as a plain number is called again for each phase."""
        self.copy.buffer_counts.add(count)
        first = self.copy.phase + self.offset
        return Phased([(first + phase) % count for phase in range(count)], self.copy.asked) if count > 1 else 0

    @property
    def first(self) -> Condition:
        """`with t.first:` operations that only iteration 0 has. The condition is about the operation's own iteration, t + 1 for one of
        t + 1."""
        return Condition(self.copy, "first")

    @property
    def later(self) -> Condition:
        """`with t.later:` operations that all iterations but the first have."""
        return Condition(self.copy, "later")

    @property
    def masked(self) -> Condition:
        """`with t.masked:` operations that the iterations from `plain` on have. They may run in earlier iterations too, where they must
        change nothing; what they count (`number`) is right in each of them."""
        return Condition(self.copy, "masked")

    @property
    def number(self) -> Reg:
        """An SGPR with the number of this iteration, for the operations that follow in the step. Changes SCC where it is first asked
        for."""
        return self.copy.k.iteration_number(self)

    @staticmethod
    def text(offset: int) -> str:
        """An iteration as errors and tables name it."""
        return f"t{offset:+d}" if offset else "t"

    def __str__(self) -> str:
        return StepIndex.text(self.offset)


@dataclass(frozen=True)
class Condition:
    """What `with t.first:` and its like enter."""

    copy: Copy
    kind: str

    def __enter__(self) -> None:
        if self.copy.condition:
            raise PipelineError(f"`with t.{self.kind}:` stands inside of `with t.{self.copy.condition}:`; an operation has one condition",
                                self.copy.k.here())
        self.copy.condition = self.kind

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.copy.condition = ""

    def __bool__(self) -> bool:
        raise PipelineError(f"`t.{self.kind}` is no truth value: the step is recorded once for all iterations. Write "
                            f"`with t.{self.kind}:` around the operations", self.copy.k.here())


class Emitter(Protocol):
    """The part of a builder that `operation` needs."""

    copy: Copy | None
    ordinal: int

    def operation(self, name: str) -> AbstractContextManager[None]:
        """Give instructions emitted within that name."""

    def here(self) -> str:
        """The author's line, as errors show it."""

    def iteration_number(self, index: StepIndex) -> Reg:
        """The SGPR with an iteration's number."""


@contextmanager
def operation(k: Emitter, name: str, indices: Sequence[StepIndex | None] = (), reads: int = 0, writes: int = 0,
              at: StepIndex | None = None) -> Iterator[None]:
    """A tile operation: its instructions carry `name`. Inside a step they belong to one iteration.

    `indices` are those of its operands with several buffers. `reads` and `writes` are registers (as bits): they show which definition it
    reads. Raises PipelineError for no iteration or two, and for one of another step.
    """
    copy = k.copy
    foreign = next((index for index in (*indices, at) if index is not None and index.copy is not copy), None)
    if foreign is not None:
        raise PipelineError(f"{name} names iteration {foreign} of a call of a step that is over: use the `t` that the step gets, and tiles "
                            "that it indexes by that", k.here())
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
    if k.copy.within:
        offsets.add(k.copy.within[-1])
    if len(offsets) > 1:
        named = " and ".join(str(StepIndex(k.copy, offset)) for offset in sorted(offsets))
        raise PipelineError(f"{name} names two iterations, {named}; an operation belongs to one", k.here())
    if offsets:
        return offsets.pop()
    found = k.copy.defined(reads)
    if found is None:
        raise PipelineError(f"{name} has no iteration: none of its operands has several buffers, and no operation of this step defines "
                            "what it reads; write at=t (or t + 1), or with k.at(t): around it", k.here())
    return found


@contextmanager
def within(k: Emitter, index: StepIndex) -> Iterator[None]:
    """What is emitted belongs to that iteration: instructions, and operations on tiles. Raises PipelineError for an operation of another
    one."""
    with operation(k, "instructions", at=index):
        if k.copy is None:
            yield
            return
        k.copy.within.append(index.offset)
        try:
            yield
        finally:
            k.copy.within.pop()
