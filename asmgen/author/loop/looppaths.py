"""The paths of a pipeline: which copies of the step stand where, and which of them a count runs through.

Let d be the steps ahead, u the unroll, and p 1 if step 0 has a copy of its own (an operation of iteration t under `t.first`), else 0. The
code is

    prologue s    for each phase s = 0 .. u - 1: steps -d to -1, and step 0 if p is 1
    plain loop    u copies without masked operations, if the step has such operations and `plain` says that some iterations need none
    masked loop   u copies; without masked operations the only loop
    drain         the last d steps, without iterations beyond the end; with `ends_plain` a second one without masked operations

Both loops end in phase 0, and so begins the drain. A count of n has n - d - p steady steps; prologue s = (d + p - n) mod u enters a loop at
copy s, so that no branch stands in a loop and no copy stands twice. The plain loop runs as many steps as it may that leave a multiple of u
for the masked one.

A count below d enters the drain late, after the prologue of its phase. That prologue then also runs operations of iterations that do not
exist: their sources do not advance (`sources_hold_back`), and nothing reads what they write (`beyond`). Where that cannot be, each such
count has a prologue of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from asmgen.author.loop.beyond import prologue_serves
from asmgen.author.loop.stepcopies import Copies
from asmgen.author.step.iterations import PipelineError
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg

if TYPE_CHECKING:
    from asmgen.author.emit.builder import Builder


@dataclass(frozen=True)
class LoopRegisters:
    """The SGPRs of a loop's scalar code. They are taken before the step is recorded, so that no temporary of the step is one of them."""

    steady: Reg
    rounds: Reg
    room: Reg
    quotient: Reg
    cold: Reg
    count: Reg | None
    plain: Reg | None
    all_plain: Reg | None


@contextmanager
def loop_registers(k: Builder, count: Reg | int, plain: Reg | int | None, ends_plain: bool) -> Iterator[LoopRegisters | None]:
    """The SGPRs that `emit_paths` needs for these counts; None for a known count in a builder without a register plan."""
    if k.registers is None and isinstance(count, int) and plain is None:
        yield None
        return
    with ExitStack() as held:
        def one(name: str) -> Reg:
            return held.enter_context(k.scratch(name, file="s"))

        yield LoopRegisters(one("steady_steps"), one("rounds"), one("room"), one("quotient"), one("cold_return"),
                       one("steps") if isinstance(count, int) and plain is not None else None,
                       one("plain_steps") if isinstance(plain, int) else None,
                       one("all_plain") if ends_plain and plain is not None else None)


def emit_paths(copies: Copies, count: Reg | int, plain: Reg | int | None, done: str, own: LoopRegisters | None) -> None:
    """Emit all paths. `count` and `plain` are SGPRs, which are used up, or numbers; `plain` is None if all iterations are alike."""
    k = copies.k
    if isinstance(count, int) and plain is None:
        _known(copies, count, own)
        k.label(done)
        return
    assert own is not None
    for number, register in ((count, own.count), (plain, own.plain)):
        if register is not None:
            k.s_mov_b32(register, number)
    steps = own.count if isinstance(count, int) else count
    unmasked = own.plain if isinstance(plain, int) else plain
    assert steps is not None
    _Paths(copies, steps, unmasked, done, own).emit()


def _known(copies: Copies, count: int, own: LoopRegisters | None) -> None:
    """A count that is a number: straight code if the loop would not run twice."""
    k, unroll, opening = copies.k, copies.unroll, copies.ahead + copies.units.shape.peel
    steady = count - opening
    if steady < 2 * unroll:
        copies.straight(count)
        return
    if own is None:
        raise PipelineError("a loop counts in SGPRs, and this builder has no register plan", k.here())
    phase = -steady % unroll
    entries = [k.fresh("loop") for _ in range(unroll)]
    _open(copies, phase)
    k.s_mov_b32(own.rounds, steady + phase - unroll)
    if phase:
        k.s_branch(entries[phase])
    copies.loop(copies.span(0, unroll, 0), own.rounds, unroll, entries)
    copies.last(copies.span(0, copies.ahead, 0, stop=copies.ahead), {})


def _open(copies: Copies, phase: int) -> None:
    """The prologue after which copy `phase` of a loop follows, with step 0 where it has a copy of its own."""
    peel = copies.units.shape.peel
    copies.prologue((phase - peel) % copies.unroll)
    copies.steady(copies.span(0, peel, (phase - peel) % copies.unroll, 0))


class _Paths:
    """Emits the paths of a count that is known when the kernel runs."""

    def __init__(self, copies: Copies, count: Reg, plain: Reg | None, done: str, own: LoopRegisters) -> None:
        self.copies, self.k, self.count, self.plain, self.done, self.own = copies, copies.k, count, plain, done, own
        self.ahead, self.unroll, self.peel = copies.ahead, copies.unroll, copies.units.shape.peel
        k = self.k
        self.plain_entries = [k.fresh("plain_loop") for _ in range(self.unroll)] if plain is not None else []
        self.entries = [k.fresh("loop") for _ in range(self.unroll)]
        self.drain = k.fresh("drain")
        self.shorts = {number: k.fresh(f"steps_{number}") for number in range(1, self.ahead + self.peel)}
        self.late = {} if self.peel else {number: k.fresh(f"drain_{number}") for number in self.shorts}
        self.shared = bool(self.late) and prologue_serves(copies)

    def emit(self) -> None:
        """All paths, in the order of the module's text."""
        k, copies, unroll, own = self.k, self.copies, self.unroll, self.own
        prologues = [k.fresh(f"prologue_{phase}") for phase in range(unroll)]
        if not self.shared:
            self._branch_to(self.shorts.items())
        k.s_sub_u32(own.steady, self.count, self.ahead + self.peel)
        if self.plain is not None:
            if own.all_plain is not None:
                k.s_cmp_ge_u32(self.plain, self.count)
                k.s_cselect_b32(own.all_plain, 1, 0)
            self._share_steps(self.plain)
        self._choose(prologues)
        copies.held_back = (self.count, own.room) if self.shared else None
        copies.unmasked = self.plain
        for phase, label in enumerate(prologues):
            k.label(label)
            _open(copies, phase)
            self._enter(phase)
        copies.held_back = copies.unmasked = None
        copies.loops_at = len(k.items)
        if self.plain is not None:
            copies.loop(copies.span(0, unroll, 0, masked=False), own.rounds, unroll, self.plain_entries)
            self._cross(self.plain)
        copies.loop(copies.span(0, unroll, 0), own.rounds, unroll, self.entries)
        copies.sharing_end = len(k.items)
        k.label(self.drain)
        self._emit_drains()
        if not copies.schedule.stagger:
            copies.sharing_end = len(k.items)
        self._emit_shorts()
        k.label(self.done)

    def _branch_to(self, counts: Iterable[tuple[int, str]]) -> None:
        for number, label in counts:
            self.k.s_cmp_eq_u32(self.count, number)
            self.k.s_cbranch_scc1(label)

    def _remainder(self, rest: Reg, count: Reg) -> None:
        """rest = count % unroll, for counts below 2^28. They may be one register."""
        k, quotient, unroll = self.k, self.own.quotient, self.unroll
        if unroll & (unroll - 1) == 0:
            k.s_and_b32(rest, count, unroll - 1)
            return
        k.s_mul_hi_u32(quotient, count, -(-(1 << 32) // unroll))
        k.s_mul_i32(quotient, quotient, unroll)
        k.s_sub_u32(rest, count, quotient)

    def _share_steps(self, plain: Reg) -> None:
        """`plain` becomes the number of steps of the plain loop: 0, or such that a multiple of the unroll is left for the masked loop."""
        k, steady, masked = self.k, self.own.steady, self.own.room
        ahead = self.copies.units.shape.masked
        assert ahead is not None
        k.s_sub_u32(plain, plain, ahead + self.peel)
        k.s_min_i32(plain, plain, steady)
        k.s_sub_u32(masked, steady, plain)
        if self.unroll > 1:
            k.s_add_u32(masked, masked, self.unroll - 1)
            self._remainder(self.own.rounds, masked)
            k.s_sub_u32(masked, masked, self.own.rounds)
        k.s_sub_u32(plain, steady, masked)
        k.s_max_i32(plain, plain, 0)

    def _choose(self, prologues: list[str]) -> None:
        """Branch to the prologue of each phase but 0, whose prologue follows."""
        k, unroll, rest = self.k, self.unroll, self.own.rounds
        if unroll == 1:
            return
        back = -(-self.ahead // unroll) * unroll  # a multiple of the unroll that makes the number of steady steps positive
        k.s_add_u32(rest, self.own.steady, back)
        self._remainder(rest, rest)
        for number in range(1, unroll):
            k.s_cmp_eq_u32(rest, number)
            k.s_cbranch_scc1(prologues[-number % unroll])

    def _enter(self, phase: int) -> None:
        """After the prologue of a phase: on to copy `phase` of a loop, or to the drain."""
        k, ahead, unroll, own = self.k, self.ahead, self.unroll, self.own
        if self.shared:
            self._branch_to((number, label) for number, label in self.shorts.items() if (ahead - number) % unroll == phase)
        if self.plain is not None:
            k.s_add_u32(own.rounds, self.plain, phase - unroll)
            k.s_cmp_gt_i32(self.plain, 0)
            k.s_cbranch_scc1(self.plain_entries[phase])
        k.s_add_u32(own.rounds, own.steady, phase - unroll)
        if not phase:  # only here no steady step may be left
            k.s_cmp_eq_u32(own.steady, 0)
            k.s_cbranch_scc1(self.drain)
        if unroll > 1 or self.plain is not None:
            k.s_branch(self.entries[phase])

    def _cross(self, plain: Reg) -> None:
        """Between the loops: the masked operations' iterations go on after those of the plain loop."""
        k, rounds = self.k, self.own.rounds
        for (_, condition), number in k.counted.items():
            if condition == "masked":
                k.s_add_u32(number, number, plain)
        k.s_sub_u32(rounds, self.own.steady, plain)
        k.s_cmp_eq_u32(rounds, 0)
        k.s_cbranch_scc1(self.drain)
        k.s_sub_u32(rounds, rounds, self.unroll)

    def _emit_drains(self) -> None:
        """The drain, and after it the one for launches that mask nothing."""
        k, copies, ahead = self.k, self.copies, self.ahead
        unmasked = k.fresh("plain_drain")
        if self.own.all_plain is not None:
            k.s_cmp_lg_u32(self.own.all_plain, 0)
            k.s_cbranch_scc1(unmasked)
        copies.last(copies.span(0, ahead, 0, stop=ahead), self.late, self.shared)
        if self.own.all_plain is not None:
            k.s_branch(self.done)
            k.label(unmasked)
            copies.last(copies.span(0, ahead, 0, stop=ahead, masked=False), {})

    def _emit_shorts(self) -> None:
        """The counts that run no steady step."""
        k, copies = self.k, self.copies
        for number, label in self.shorts.items():
            if number == 1 or number not in self.late:  # code after a path that enters the drain is reached by its label alone
                k.s_branch(self.done)
            k.label(label)
            if number not in self.late:
                copies.straight(number)
                continue
            if self.shared:
                copies.join(self.late[number])
            else:
                copies.prologue((self.ahead - number) % self.unroll, stop=number, join=self.late[number])
            k.s_branch(self.late[number])

