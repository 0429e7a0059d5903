"""The paths of a pipeline whose sources close: its loop runs all steps but the last, or all.

Let f be the steps by which the farthest sources are read ahead, and u the unroll. The code is

    prologue s    for each phase s = 0 .. u - 1, as in `looppaths`
    loop          u copies: n - f steps while all iterations exist, then the others
    between       reached once, when the next step would ask for iteration n: the sources close, and the loop is entered again
    last step     with the epilogue in it, for waves that an overlapped epilogue serves; others run that step in the loop

So that the sources close between two rounds, prologue s = (f - n) mod u enters the loop at copy s. The loop then ends f steps later, or
f - 1, after as many copies: there its counter tells whether these are the last steps. A count below f closes the sources in the prologue,
enters the loop late and runs all steps in it.

The last f steps run operations of iterations that do not exist. They may not do harm (`beyond`).
"""

from __future__ import annotations

from asmgen.author.loop.beyond import loop_serves
from asmgen.author.loop.copycosts import drain_pays
from asmgen.author.loop.loopregisters import LoopRegisters, choose_prologue, open_loop
from asmgen.author.loop.pathgraph import PathChoice
from asmgen.author.loop.stepcopies import Copies
from asmgen.author.loop.stepunits import CopySpan
from asmgen.isa.registers import Reg


def closes(copies: Copies) -> bool:
    """Whether a pipeline has these paths: its sources close, its loop is one copy or as long as they are read ahead, no wave leaves it
    early, and straight code for the last steps does not pay."""
    sources, shape = copies.k.closing(), copies.units.shape
    if sources is None or sources.farthest < 1 or copies.early_exit is not None or shape.peel:
        return False
    possible = (copies.unroll == 1 or sources.farthest <= copies.unroll) and loop_serves(copies)
    return possible and not drain_pays(copies, sources)


class ClosingPaths:
    """Emits them."""

    def __init__(self, copies: Copies, count: Reg, done: str, own: LoopRegisters) -> None:
        k, sources = copies.k, copies.k.closing()
        assert sources is not None
        self.copies, self.k, self.count, self.done, self.own, self.sources = copies, k, count, done, own, sources
        self.unroll, self.far = copies.unroll, sources.farthest
        self.overlaps = copies.epilogue is not None
        self.rolled, self.whole = self.unroll == 1, self.unroll in (1, self.far)  # whether the last steps are whole rounds
        self.pace, self.apart = own.room, own.steady  # `apart`, from `between` on: the number of steps that stand apart from the loop
        self.entries = [k.fresh("loop") for _ in range(self.unroll)]
        self.between, self.last, self.level = k.fresh("sources_end"), k.fresh("last_step"), k.fresh("all_steps")
        self.opened: list[list[int]] = []  # copies of the prologues, by phase
        self.looped: list[int] = []
        self.overlapped: list[int] = []
        self.ended = k.fresh("rounds_end") if self.rolled and self.overlaps else self.level

    def emit(self) -> None:
        """All paths, in the order of the module's text."""
        k, copies, own = self.k, self.copies, self.own
        self.sources.open(k, self.pace)
        k.s_sub_u32(own.steady, self.count, self.far)
        prologues = [k.fresh(f"prologue_{phase}") for phase in range(self.unroll)]
        choose_prologue(k, own, self.unroll, self.far, prologues)
        copies.closing = self._close_early
        for phase, label in enumerate(prologues):
            k.label(label)
            self.opened.append(open_loop(copies, phase))
            self._enter(phase)
        copies.closing = None
        copies.loops_at = len(k.items)
        self.looped = copies.loop(copies.span(0, self.unroll, 0), own.rounds, self.unroll, self.entries, self._exits())
        if self.whole:
            k.s_cmp_eq_u32(self.pace, 0)
            k.s_cbranch_scc1(self.ended)
        k.label(self.between)
        self._close()
        copies.sharing_end = len(k.items)
        if self.overlaps:
            self._emit_last()
        k.label(self.level)
        if any({access.space for access in unit.effects.memory} == {"lds", "global"} for unit in copies.units.every()):
            copies.filling = self.level
        k.wait_slot()  # for what follows the loop; without it each round of the loop would wait for that
        copies.shift(opening=False)
        k.label(self.done)

    def _close_early(self, span: CopySpan, step: int) -> None:
        """In a prologue, before that step: close the sources for the count that ends there."""
        count, phase = step + self.far, (span.phase + 1 - step) % self.unroll  # of step 0
        if 1 <= count < self.far and -step % self.unroll == phase:
            self.sources.close_if_equal(self.k, self.count, count)
        if count > 1 and (1 - step) % self.unroll == phase:
            self.sources.close_late_if_equal(self.k, self.count, count - 1)

    def _enter(self, phase: int) -> None:
        """After the prologue of a phase: on to copy `phase` of the loop, or to the end of the sources."""
        k, own = self.k, self.own
        if not phase:
            k.s_cmp_eq_u32(own.steady, 0)
            k.s_cbranch_scc1(self.between)
        if not self.rolled:  # a count below f leaves -u here, which says that these are the last steps
            k.s_add_u32(own.rounds, own.steady, phase - self.unroll)
            if self.whole and 0 < phase < self.far:
                k.s_max_i32(own.rounds, own.rounds, 0)
            k.s_branch(self.entries[phase])
            return
        k.s_cmp_lt_i32(own.steady, 0)
        k.s_cselect_b32(own.rounds, self.count, own.steady)
        k.s_sub_u32(own.rounds, own.rounds, 1)
        k.s_max_i32(self.apart, own.steady, 0)

    def _left(self, apart: int) -> int:
        """The loop's counter with which the last steps begin."""
        if self.rolled:
            return self.far - 1 - apart
        return -apart if self.whole else apart - self.unroll

    def _exits(self) -> dict[int, tuple[int, str]]:
        """Where a round of the last steps ends after fewer copies."""
        found = {}
        if not self.whole:
            found[self.far] = (self._left(0), self.level)
        if self.overlaps and not self.rolled and self.far > 1:
            found[self.far - 1] = (self._left(1), self.last)
        return found

    def _close(self) -> None:
        """Close the sources, and enter the loop for the last steps."""
        k, rounds, epilogue = self.k, self.own.rounds, self.copies.epilogue
        if epilogue is None:
            k.s_mov_b32(rounds, self._left(0))
        else:
            general = k.fresh("no_ending")
            k.s_mov_b32(self.apart, 0)
            epilogue.guard(general)
            k.s_mov_b32(self.apart, 1)
            k.label(general)
            if self.far == 1:
                k.s_cmp_eq_u32(self.apart, 1)
                k.s_cbranch_scc1(self.last)
            if self.whole:
                k.s_sub_u32(rounds, self._left(0), self.apart)
            else:
                k.s_add_u32(rounds, self._left(0), self.apart)
        self.sources.close(k)
        k.s_branch(self.entries[0])

    def _emit_last(self) -> None:
        """The last step with the epilogue, and before it what chooses where the loop's end has not."""
        k, copies = self.k, self.copies
        if self.rolled:
            k.label(self.ended)
            k.s_cmp_eq_u32(self.apart, 0)
            k.s_cbranch_scc1(self.level)
        k.label(self.last)
        self.sources.spare(k)
        copies.chosen = True
        _, self.overlapped = copies.last(copies.span(0, 1, self.far - 1, stop=1), {}, at_once=self.far == 1)

    def way(self, choice: PathChoice) -> list[int]:
        """The copies that a count runs through."""
        phase = (self.far - choice.count) % self.unroll
        apart = int(choice.served and choice.count >= self.far)
        looped = [self.looped[(phase + step) % self.unroll] for step in range(choice.count - apart)]
        return [*self.opened[phase], *looped, *self.overlapped[:apart]]
