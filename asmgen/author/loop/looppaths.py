"""The paths of a pipeline: which copies of the step stand where, and which of them a count runs through.

Let d be the steps ahead, u the unroll, and p 1 if step 0 has a copy of its own (an operation of iteration t under `t.first`), else 0. The
code is

    prologue s    for each phase s = 0 .. u - 1: steps -d to -1, and step 0 if p is 1
    plain loop    u copies without masked operations, if the step has such operations and `plain` says that some iterations need none
    masked loop   u copies; without masked operations the only loop, and none where the drain takes all that may be masked (`masked_end`)
    drain         the last d steps, without iterations beyond the end; with `ends_plain` a second one without masked operations

Both loops end in phase 0, and so begins the drain. A count of n has n - d - p steady steps; prologue s = (d + p - n) mod u enters a loop at
copy s, so that no branch stands in a loop and no copy stands twice. The plain loop runs as many steps as it may that leave a multiple of u
for the masked one.

A wave runs one prologue, so the others cost bytes alone. An exit in each copy of the loop, with a drain for each phase, would take a test
in each copy and more bytes: in the library's loops a prologue has at most two thirds of the bytes of a drain. One in-order loop of 132
bytes a copy is the exception (80 and 52 bytes); the tests of its copies would take the difference.

A count below d enters the drain late, after the prologue of its phase. That prologue then also runs operations of iterations that do not
exist: their sources do not advance (`sources_hold_back`), and nothing reads what they write (`beyond`). Where that cannot be, each such
count has a prologue of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from asmgen.author.loop.beyond import prologue_serves
from asmgen.author.loop.closingpaths import ClosingPaths, closes
from asmgen.author.loop.loopregisters import LoopRegisters, choose_prologue, open_loop, remainder
from asmgen.author.loop.pathgraph import PathChoice, Way
from asmgen.author.loop.stepcopies import Copies
from asmgen.author.step.iterations import PipelineError
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction


def emit_paths(copies: Copies, count: Reg | int, plain: Reg | int | None, done: str, own: LoopRegisters | None, few: bool = False,
               masked_end: int | None = None) -> Way:
    """Emit all paths. `count` and `plain` are SGPRs, which are used up, or numbers; `plain` is None if all iterations are alike, and at
    least `count` less `masked_end`. Where launches run `few` steps, the last ones are straight code."""
    k = copies.k
    if isinstance(count, int) and plain is None:
        way = _known(copies, count, own)
        k.label(done)
        return way
    assert own is not None
    for number, register in ((count, own.count), (plain, own.plain)):
        if register is not None:
            k.s_mov_b32(register, number)
    steps = own.count if isinstance(count, int) else count
    unmasked = own.plain if isinstance(plain, int) else plain
    assert steps is not None
    if unmasked is None and not few and closes(copies):
        closing = ClosingPaths(copies, steps, done, own)
        closing.emit()
        return closing.way
    paths = _Paths(copies, steps, unmasked, done, own, masked_end)
    paths.emit()
    return paths.way


def _known(copies: Copies, count: int, own: LoopRegisters | None) -> Way:
    """A count that is a number: straight code if the loop would not run twice."""
    k, unroll, opening = copies.k, copies.unroll, copies.ahead + copies.units.shape.peel
    steady = count - opening
    if steady < 2 * unroll:
        straight = copies.straight(count)
        return lambda choice: straight[choice.served]
    if own is None:
        raise PipelineError("a loop counts in SGPRs, and this builder has no register plan", k.here())
    phase = -steady % unroll
    entries = [k.fresh("loop") for _ in range(unroll)]
    opened = open_loop(copies, phase)
    k.s_mov_b32(own.rounds, steady + phase - unroll)
    if phase:
        k.s_branch(entries[phase])
    looped = copies.loop(copies.span(0, unroll, 0), own.rounds, unroll, entries)
    drains = copies.last(copies.span(0, copies.ahead, 0, stop=copies.ahead), {})
    return lambda choice: [*opened, *(looped[(phase + step) % unroll] for step in range(steady)), *drains[choice.served]]


class _Paths:
    """Emits the paths of a count that is known when the kernel runs."""

    def __init__(self, copies: Copies, count: Reg, plain: Reg | None, done: str, own: LoopRegisters,
                 masked_end: int | None) -> None:
        self.copies, self.k, self.count, self.plain, self.done, self.own = copies, copies.k, count, plain, done, own
        self.ahead, self.unroll, self.peel = copies.ahead, copies.unroll, copies.units.shape.peel
        self.drain_masks = plain is not None and masked_end is not None and masked_end + (copies.units.shape.masked or 0) <= self.ahead
        k = self.k
        self.plain_entries = [k.fresh("plain_loop") for _ in range(self.unroll)] if plain is not None else []
        self.entries = [k.fresh("loop") for _ in range(self.unroll)]
        self.drain = k.fresh("drain")
        self.shorts = {number: k.fresh(f"steps_{number}") for number in range(1, self.ahead + self.peel)}
        self.late = {} if self.peel else {number: k.fresh(f"drain_{number}") for number in self.shorts}
        self.shared = bool(self.late) and prologue_serves(copies)
        self.opened: list[list[int]] = []  # copies of the prologues, by phase
        self.opened_late: dict[int, list[int]] = {}  # by count
        self.straight: dict[int, tuple[list[int], list[int]]] = {}
        self.loops: dict[bool, list[int]] = {}  # by whether it has masked operations
        self.drains: list[tuple[list[int], list[int]]] = []

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
        choose_prologue(k, own, unroll, self.ahead, prologues)
        copies.held_back = (self.count, own.room) if self.shared else None
        copies.unmasked = self.plain
        for phase, label in enumerate(prologues):
            k.label(label)
            self.opened.append(open_loop(copies, phase))
            self._enter(phase)
        copies.held_back = copies.unmasked = None
        copies.loops_at = len(k.items)
        if self.plain is not None:
            self.loops[False] = copies.loop(copies.span(0, unroll, 0, masked=False), own.rounds, unroll, self.plain_entries)
            self._cross(self.plain)
        if not self.drain_masks:
            self.loops[True] = copies.loop(copies.span(0, unroll, 0), own.rounds, unroll, self.entries)
        copies.sharing_end = drain = len(k.items)
        k.label(self.drain)
        self._emit_drains()
        if not copies.schedule.stagger:
            copies.sharing_end = self._last_barrier(drain)
        self._emit_shorts()
        k.label(self.done)

    def _branch_to(self, counts: Iterable[tuple[int, str]]) -> None:
        for number, label in counts:
            self.k.s_cmp_eq_u32(self.count, number)
            self.k.s_cbranch_scc1(label)

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
            remainder(k, self.own, self.unroll, self.own.rounds, masked)
            k.s_sub_u32(masked, masked, self.own.rounds)
        k.s_sub_u32(plain, steady, masked)
        k.s_max_i32(plain, plain, 0)

    def _enter(self, phase: int) -> None:
        """After the prologue of a phase: on to copy `phase` of a loop, or to the drain."""
        k, ahead, unroll, own = self.k, self.ahead, self.unroll, self.own
        if self.copies.units.stores_beside_fills:
            # In a loop stores of earlier steps are in flight after a fill, and its wait lets them be; from here on there are none.
            k.wait_before_loop()
        if self.shared:
            self._branch_to((number, label) for number, label in self.shorts.items() if (ahead - number) % unroll == phase)
        if self.plain is not None:
            k.s_add_u32(own.rounds, self.plain, phase - unroll)
            if self.drain_masks and phase:
                k.s_branch(self.plain_entries[phase])
                return
            k.s_cmp_gt_i32(self.plain, 0)
            k.s_cbranch_scc1(self.plain_entries[phase])
            if self.drain_masks:
                k.s_branch(self.drain)
                return
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
        if self.drain_masks:
            return
        k.s_sub_u32(rounds, self.own.steady, plain)
        k.s_cmp_eq_u32(rounds, 0)
        k.s_cbranch_scc1(self.drain)
        k.s_sub_u32(rounds, rounds, self.unroll)

    def _last_barrier(self, drain: int) -> int:
        """Where code of the drain ends that stands between barriers as steady copies have them: after its last one those have more."""
        items = self.k.items
        barriers = [at for at in range(self.copies.loops_at, len(items)) if isinstance(one := items[at], Instruction)
                    and one.name == "s_barrier"]
        return max(drain, barriers[-1]) if barriers else len(items)

    def _emit_drains(self) -> None:
        """The drain, and after it the one for launches that mask nothing."""
        k, copies, ahead = self.k, self.copies, self.ahead
        unmasked = k.fresh("plain_drain")
        if self.own.all_plain is not None:
            k.s_cmp_lg_u32(self.own.all_plain, 0)
            k.s_cbranch_scc1(unmasked)
        self.drains.append(copies.last(copies.span(0, ahead, 0, stop=ahead), self.late, self.shared))
        if self.own.all_plain is not None:
            k.s_branch(self.done)
            k.label(unmasked)
            self.drains.append(copies.last(copies.span(0, ahead, 0, stop=ahead, masked=False), {}))

    def _emit_shorts(self) -> None:
        """The counts that run no steady step."""
        k, copies = self.k, self.copies
        for number, label in self.shorts.items():
            if number == 1 or number not in self.late:  # code after a path that enters the drain is reached by its label alone
                k.s_branch(self.done)
            k.label(label)
            if number not in self.late:
                self.straight[number] = copies.straight(number)
                continue
            if self.shared:
                copies.join(self.late[number])
            else:
                self.opened_late[number] = copies.prologue((self.ahead - number) % self.unroll, stop=number, join=self.late[number])
            k.s_branch(self.late[number])

    def way(self, choice: PathChoice) -> list[int]:
        """The copies that a count runs through."""
        count, plain = choice.count, choice.plain
        steady = count - self.ahead - self.peel
        drain = self.drains[plain is not None and plain >= count and len(self.drains) > 1][choice.served]
        if count in self.straight:
            return self.straight[count][choice.served]
        phase = -steady % self.unroll
        if steady < 0:
            return self._with_early_exit([*self.opened_late.get(count, self.opened[phase]), *drain[self.ahead - count:]], choice)
        unmasked = 0
        if plain is not None:
            ahead = self.copies.units.shape.masked
            assert ahead is not None
            masked = steady - min(plain - ahead - self.peel, steady)
            unmasked = max(steady - -(-masked // self.unroll) * self.unroll, 0)
        looped = [self.loops[step >= unmasked][(phase + step) % self.unroll] for step in range(steady)]
        return self._with_early_exit([*self.opened[phase], *looped, *drain], choice)

    def _with_early_exit(self, found: list[int], choice: PathChoice) -> list[int]:
        """The way of a wave that skips its last iterations: it leaves where it may first."""
        exits = [(-skipped, left, copy) for skipped, left, copy in self.copies.leaves if skipped <= choice.skipped and left in found]
        if not exits:
            return found
        _, left, copy = min(exits)
        return [*found[:found.index(left)], copy]
