"""Epilogue overlap: the epilogue of a pipeline stands among the products of its last step.

A kernel that stores its accumulators and ends need not wait for the last product: the accumulators of the first products are complete long
before. So the last copy of the step stands twice. In one of the two, the epilogue fills the gaps after matrix instructions; each of its
instructions stands there as soon as its operands have arrived.

    k.pipeline(step, steps, schedule, then=...)  # a value whose `overlapped` is Epilogue(guard, body)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Protocol

from asmgen.author.schedule.schedulereport import occupancy
from asmgen.author.schedule.schedules import Sync, clocks, is_matrix
from asmgen.author.step.effects import Unit
from asmgen.author.step.iterations import PipelineError
from asmgen.isa.records import dataclass
from asmgen.isa.registers import scc

if TYPE_CHECKING:
    from asmgen.author.emit.builder import Builder

_SETTLED = 4  # matrix instructions, the writer among them, after which its result has arrived: 48 clk; 4 passes need 7 wait states of 4


@dataclass(frozen=True)
class Epilogue:
    """The epilogue of a pipeline, for waves that its guard lets through. Code after the pipeline serves the other waves.

    `guard(label)` emits scalar code before the last step; it branches to `label` if the epilogue does not serve the wave. `body()` emits
    straight code without labels or barriers; the kernel ends after it. `again` is a label in the code after the pipeline: a wave goes
    there if the body leaves VCC other than 0. `onward` is the label at which a chain of items goes on in place of the kernel's end.
    `together` says that all waves of a workgroup go the same way at the guard.
    """

    guard: Callable[[str], None]
    body: Callable[[], None]
    again: str | None = None
    onward: str = ""
    together: bool = False

    def follow(self, k: Builder) -> None:
        """Emit it where it stands by itself."""
        otherwise = k.fresh("no_ending")
        self.guard(otherwise)
        self.body()
        self.end_kernel(k)
        k.label(otherwise)

    def end_kernel(self, k: Builder) -> None:
        """Emit the end of the kernel, or the way to the chain's next item, after the body."""
        if self.again is not None:
            k.s_cbranch_vccnz(self.again)
        if self.onward:
            k.s_branch(self.onward)
        else:
            k.s_endpgm()


class Then(Protocol):
    """What follows a pipeline: `overlapped`, or None, is mixed with its last step, or stands after the loop if that costs less; `follow`
    emits the rest."""

    @property
    def overlapped(self) -> Epilogue | None:
        """The epilogue that overlaps the last step."""
        ...

    def follow(self, k: Any) -> None:
        """Emit all parts that do not overlap the loop, in builder `k`."""
        ...


@dataclass(frozen=True)
class FollowingEpilogue:
    """An epilogue that stands after the pipeline: `body` emits it."""

    body: Callable[[], None]

    @property
    def overlapped(self) -> None:
        """Nothing overlaps the last step."""

    def follow(self, k: Any) -> None:
        """Emit it."""
        self.body()


@dataclass(frozen=True)
class ChosenEpilogue:
    """One of several epilogues, chosen when the kernel runs: the first whose `guard(label)`, scalar code, does not branch to the label;
    else the `last` one. So a workgroup stores its tile, or hands a part of it to others. All stand after the pipeline."""

    cases: tuple[tuple[Callable[[str], None], Then], ...]
    last: Then | None = None

    @property
    def overlapped(self) -> None:
        """Nothing overlaps the last step."""

    def follow(self, k: Any) -> None:
        """Emit them all. Raises PipelineError for one that would overlap the last step."""
        done = k.fresh("chosen")
        for guard, then in self.cases:
            _refuse_overlap(k, then)
            otherwise = k.fresh("otherwise")
            guard(otherwise)
            with k.apart():
                then.follow(k)
            k.s_branch(done)
            k.label(otherwise)
        if self.last is not None:
            _refuse_overlap(k, self.last)
            with k.apart():
                self.last.follow(k)
        k.label(done)


def _refuse_overlap(k: Any, then: Then) -> None:
    if then.overlapped is not None:
        raise PipelineError("an epilogue that is chosen after the loop cannot overlap its last step; FollowingEpilogue(body) would do",
                            k.here())


def overlapped(copy: Sequence[Sync | Unit], epilogue: Sequence[Unit], arch: str) -> list[Sync | Unit]:
    """The last copy of a step with the units of an epilogue in its gaps. Both keep their orders; units without room follow the copy.

    A gap has as many issue slots as fit into the time of its matrix instruction, less the slot of that instruction itself. A unit of the
    epilogue stands after all units of the copy that it depends on.
    """
    rest = _Rest(copy)
    pending = deque(epilogue)
    order: list[Sync | Unit] = []
    matrix: list[int] = []  # positions of the matrix units placed so far
    for position, (entry, room) in enumerate(_with_room(copy, arch, clocks("slot"))):
        while isinstance(entry, Sync) and pending and pending[0].effects.reads & scc.mask:
            order.append(pending.popleft())  # no branch of the schedule may stand between this unit and what it tests
        order.append(entry)
        if _is_matrix(entry):
            matrix.append(position)
        settled = matrix[-_SETTLED + 1] if len(matrix) >= _SETTLED - 1 else 0
        while pending and room > 0 and rest.allows(pending[0], position + 1, settled):
            order.append(pending.popleft())
            room -= 1
    return [*order, *pending]


def filled(copy: Sequence[Sync | Unit], code: Sequence[Unit], arch: str) -> list[Sync | Unit]:
    """A copy with code without labels in its gaps, in its order; what finds no room follows the copy. If nothing in the copy reads SCC,
    code that hands one on needs but stand together; else all code follows."""
    if _reads_scc(copy):
        return [*copy, *code]
    rest, pending = _Rest(copy), deque(_together(code))
    order: list[Sync | Unit] = []
    for position, (entry, room) in enumerate(_with_room(copy, arch, clocks("mfma_operand_read"))):
        order.append(entry)
        while pending and room > 0 and all(rest.allows(unit, position + 1, position + 1, scc.mask) for unit in pending[0]):
            room -= len(pending[0])
            order += pending.popleft()
    return [*order, *(unit for group in pending for unit in group)]


def crossed(copy: Sequence[Sync | Unit], code: Sequence[Unit], arch: str) -> list[Sync | Unit]:
    """A copy with the rest of an epilogue in its gaps, which comes before the copy in emission order: what reads a register that the copy
    overwrites, or otherwise must not follow one of its units, stands before that. Neither reads an SCC from before it; if something in the
    copy reads SCC, the rest stands before it."""
    if _reads_scc(copy):
        return [*code, *copy]
    pending = deque(_together(code))
    order: list[Sync | Unit] = []
    for entry, room in _with_room(copy, arch, clocks("mfma_operand_read")):
        if not isinstance(entry, Sync):
            last = max((number for number, group in enumerate(pending, 1) if any(precedes(unit, entry) for unit in group)), default=0)
            for _ in range(last):
                order += pending.popleft()
        order.append(entry)
        while pending and room > 0:
            room -= len(pending[0])
            order += pending.popleft()
    return [*order, *(unit for group in pending for unit in group)]


def _with_room(copy: Sequence[Sync | Unit], arch: str, issue: float) -> Iterator[tuple[Sync | Unit, int]]:
    """The entries of a copy, each with the issue slots that are free after it: after the last unit before a matrix unit those that the
    matrix unit before hides and the copy does not fill, after others none. A matrix unit itself takes `issue` clk."""
    room = 0
    for entry, following in zip_longest(copy, copy[1:]):
        if isinstance(entry, Sync):
            yield entry, 0
            continue
        room = _room(entry, arch, issue) if is_matrix(entry) else room - 1
        yield entry, room if following is None or _is_matrix(following) else 0


def _reads_scc(copy: Sequence[Sync | Unit]) -> bool:
    return any(entry.effects.reads & scc.mask for entry in copy if isinstance(entry, Unit))


def handing_on(code: Sequence[Unit]) -> int:
    """How many of its first units there are after which none uses an SCC that one of them, or code before them, has made."""
    found, made = 0, False
    for number, unit in enumerate(code, 1):
        if unit.effects.reads & scc.mask and not made:
            found = number
        made = made or bool(unit.effects.writes & scc.mask) and number > found
    return found


def precedes(unit: Unit, other: Unit) -> bool:
    """Whether a unit that comes before another one may not stand after it, SCC apart."""
    mine, its = unit.effects, other.effects
    if mine.reads & its.writes & ~scc.mask or mine.writes & (its.reads | its.writes) & ~scc.mask:
        return True
    return any(access.conflicts(more) for access in mine.memory for more in its.memory)


def _together(code: Sequence[Unit]) -> list[list[Unit]]:
    """Units that hand a SCC on, with what stands between them, as groups; each other unit is one."""
    groups: list[list[Unit]] = []
    for unit in code:
        if groups and unit.effects.reads & scc.mask:
            last = next(number for number in range(len(groups) - 1, -1, -1) if any(one.effects.writes & scc.mask for one in groups[number]))
            groups[last:] = [[one for group in groups[last:] for one in group] + [unit]]
        else:
            groups.append([unit])
    return groups


def _room(matrix: Unit, arch: str, issue: float) -> int:
    """Issue slots beside a matrix unit that itself takes so many clk of issue."""
    lasts = occupancy(next(one for one in matrix.instructions if one.opcode.group == "matrix"), arch)
    return int((lasts - issue) // clocks("slot"))


def apart_from(copy: Sequence[Sync | Unit], epilogue: Sequence[Unit]) -> int:
    """How many of an epilogue's first units may stand before a copy that reads no SCC from before it: addresses and the like. In its gaps
    they would wait for the last unit that changes SCC, and all others for them."""
    rest = _Rest(copy)
    for number, unit in enumerate(epilogue):
        if not rest.allows(unit, 0, 0, scc.mask):
            return number
    return len(epilogue)


def _is_matrix(entry: Sync | Unit) -> bool:
    return isinstance(entry, Unit) and is_matrix(entry)


class _Rest:
    """What a copy still does from each of its positions on: registers read and written, and accesses of memory."""

    def __init__(self, copy: Sequence[Sync | Unit]) -> None:
        self.copy = copy
        self.reads, self.writes = [0], [0]
        for entry in reversed(copy):
            effects = None if isinstance(entry, Sync) else entry.effects
            self.reads.append(self.reads[-1] | (effects.reads if effects is not None else 0))
            self.writes.append(self.writes[-1] | (effects.writes if effects is not None else 0))
        self.reads.reverse()
        self.writes.reverse()

    def allows(self, unit: Unit, position: int, settled: int, free: int = 0) -> bool:
        """Whether a unit may stand before the copy's units from `position` on. Results of the units from `settled` on have not arrived.
        `free` are registers, as bits, that hand nothing over from one to the other."""
        effects = unit.effects
        if effects.writes & ~free & (self.reads[position] | self.writes[position]) or effects.reads & ~free & self.writes[settled]:
            return False
        return not effects.memory or not any(
            access.conflicts(other) for entry in self.copy[position:] if isinstance(entry, Unit)
            for other in entry.effects.memory for access in effects.memory)
