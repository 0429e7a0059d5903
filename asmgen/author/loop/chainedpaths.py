"""The paths of a chain: a pipeline that runs for one item after another, such as the tiles of a workgroup, and never drains between them.

Let f be the steps by which the farthest sources are read ahead, and u the unroll. An item has n steps, at least f + 1. The code is

    prologue         of the first item, for phase 0; while its loads are in flight `advance` says what the next item is
    loop             u copies: n - f steps of the first item, n - f - 1 of others, left at copy q
    last steps q     f of them for each phase q: the sources go over to the next item, and in the gaps of the first one `advance` says what
                     the item after it is; the last one has the epilogue in it, for waves that an overlapped epilogue serves
    first step       of the next item, whose sums begin from 0, with the rest of that epilogue
    epilogue         for the other waves, and their way to a first step of their own

So the last f steps of an item ask for the first f iterations of the next one, and its data arrives while the epilogue stores. A first
step stands after the epilogue's stores as straight code: its waits count these, where those of the loop would wait for them to end. After
the last item the sources show nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

from asmgen.author.loop.loopregisters import LoopRegisters, remainder
from asmgen.author.loop.pathgraph import PathChoice
from asmgen.author.loop.stepcopies import Copies
from asmgen.author.loop.stepunits import CopySpan
from asmgen.author.schedule.schedules import is_matrix
from asmgen.author.step.effects import Unit
from asmgen.author.step.iterations import PipelineError
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg, mask_names, vcc
from asmgen.program.program import Instruction, Item


@dataclass(frozen=True)
class Chain:
    """What makes a pipeline begin again for a next item while the last one's steps still run.

    `advance()` emits code without labels, for the whole EXEC, which may take VGPR scratch. It stands at the begin and once an item, after
    its sources have gone over to the next one: after it the registers of which the sources are made (first rows, pointers) are those of the
    item after that; SGPR `ended` is not 0 if there is none, and `over` is what `ended` was. `begin()` emits scalar code where the next item
    becomes the present one; what it changes, an epilogue reads before the loop's last step has ended, or copies. `sums` are accumulators
    that begin from 0 in each item; before the pipeline they are 0. `onward` is a label for epilogues, which go there in place of the
    kernel's end. All items have as many steps, or, where they are `counted`, each its own: `begin` puts those of the item that becomes the
    present one into the pipeline's count.
    """

    advance: Callable[[], None]
    begin: Callable[[], None]
    ended: Reg
    over: Reg
    sums: Sequence[Reg]
    onward: str
    counted: bool = False


class ChainedPaths:
    """Emits them: `emit` all that stands before the epilogue, `close` what stands after it."""

    def __init__(self, copies: Copies, count: Reg, chain: Chain, done: str, own: LoopRegisters) -> None:
        k, sources = copies.k, copies.k.chained()
        _refuse_others(copies, sources is not None and sources.farthest >= 1)
        assert sources is not None
        self.copies, self.k, self.count, self.chain, self.done, self.own = copies, k, count, chain, done, own
        self.sources, self.unroll, self.far = sources, copies.unroll, sources.farthest
        self.phase = own.room  # q, for waves that the epilogue after the loop serves
        self.entries, self.lasts, self.nexts = ([k.fresh(name) for _ in range(self.unroll)] for name in ("loop", "last_steps", "next_item"))
        self.ended = k.fresh("all_items")
        epilogue = copies.epilogue
        self.together = epilogue is None or epilogue.together and epilogue.again is None  # all waves have the same epilogue
        self.opened: list[int] = []
        self.looped: list[int] = []
        self.closing: list[tuple[list[int], list[int]]] = []  # by phase: the last steps, and those that an overlapped epilogue serves
        self.firsts: dict[tuple[int, bool], int] = {}  # by phase: the next item's first step, and the one with the rest of an epilogue

    @property
    def least(self) -> int:
        """The fewest steps of an item."""
        return self.far + 1

    @property
    def between_items(self) -> tuple[Reg, ...]:
        """What holds nothing while an epilogue runs: the way to the next item writes it before it is read."""
        return (self.own.rounds, self.own.quotient, *((self.own.steady,) if self.chain.counted else ()))

    def emit(self) -> None:
        """All that stands before the epilogue."""
        k, copies, own = self.k, self.copies, self.own
        self.sources.open(k, own.cold)
        k.s_sub_u32(own.steady, self.count, self.least)
        copies.waiting = self.chain.advance
        self.opened = copies.prologue(0)
        copies.waiting = None
        k.s_add_u32(own.rounds, own.steady, 1)
        self._enter(0)
        copies.loops_at = len(k.items)
        exits = {number: (number, self.lasts[number]) for number in range(1, self.unroll)}
        self.looped = copies.loop(copies.span(0, self.unroll, 0), own.rounds, self.unroll, self.entries, exits)
        copies.sharing_end = len(k.items)
        for phase in range(self.unroll):
            self._emit_last_steps(phase)
        k.label(self.done)
        k.wait_slot()

    def close(self) -> None:
        """What stands after the epilogue: the way back, and the kernel's end."""
        k = self.k
        k.label(self.chain.onward)
        k.wait_slot()
        self._meet()
        for phase in range(1, self.unroll):
            k.s_cmp_eq_u32(self.phase, phase)
            k.s_cbranch_scc1(self.nexts[phase])
        k.s_branch(self.nexts[0])
        k.label(self.ended)
        self.copies.shift(opening=False)
        k.s_endpgm()

    def _first(self, phase: int, after: Sequence[Unit] = ()) -> int:
        """The first step of an item: its sums begin from 0. Between its products stands what is left of the epilogue of the item before."""
        begun: set[int] = set()
        sums, offsets = reduce(or_, (register.mask for register in self.chain.sums), 0), self.copies.units.shape.offsets

        def change(unit: Unit) -> Unit:
            return _from_zero(unit, sums, begun) if is_matrix(unit) and not offsets[unit.tag.ordinal] else unit

        (span,) = self.copies.span(0, 1, phase)
        found = self.copies.beginning(span, change, after, self.together and not after)
        wrong = sums ^ reduce(or_, begun, 0)
        if wrong:
            raise PipelineError("sums= of a chain begin from 0 in each item's first step, in matrix instructions of iteration t that add "
                                f"to their own result; {', '.join(mask_names(wrong))} "
                                f"{'would begin so and are none of sums=' if wrong & ~sums else 'would go on from the item before'}",
                                self.k.here())
        return found

    def _enter(self, phase: int) -> None:
        """On to copy `phase` of the loop for `rounds` steps, at least 1. A round that ends early, after copy q of the loop, finds q in its
        counter, and no other round does."""
        k, own = self.k, self.own
        if phase:
            k.s_add_u32(own.rounds, own.rounds, phase)
        if self.unroll == 1:
            k.s_sub_u32(own.rounds, own.rounds, 1)
        else:
            remainder(k, own, self.unroll, own.room, own.rounds)
            k.s_cmp_eq_u32(own.room, 0)
            k.s_cselect_b32(own.room, self.unroll, 0)
            k.s_sub_u32(own.rounds, own.rounds, own.room)
        k.s_branch(self.entries[phase])

    def _emit_last_steps(self, phase: int) -> None:
        """An item's last steps, from that phase on, and the first one of the next item."""
        k, copies, far, chain = self.k, self.copies, self.far, self.chain
        k.label(self.lasts[phase])
        self.sources.go_over(k, copies.ahead, chain.ended)
        *before, last = copies.span(0, far, phase)
        found = []
        for number, span in enumerate(before):
            found += copies.steady([span]) if number else [copies.beside(span, self._go_over_late)]
        k.s_mov_b32(self.phase, phase)
        served = self._serve(phase, last)
        usual = [copies.beside(last, self._go_over_late)] if far == 1 else copies.steady([last], self.together)
        self.closing.append(([*found, *usual], [*found, *(served or usual)]))
        k.s_branch(self.done)
        if not served:
            self._emit_next(phase)

    def _go_over_late(self) -> None:
        """In the first of the last steps, after their own loads: the sources that are read an iteration later go over, and what the item
        after the next one is, is found."""
        self.sources.go_over_late(self.k, self.copies.ahead, self.chain.ended)
        self.chain.advance()

    def _serve(self, phase: int, span: CopySpan) -> list[int]:
        """The last step with the epilogue in it, and the next item's first step; none without an overlapped epilogue."""
        k, epilogue = self.k, self.copies.epilogue
        if epilogue is None:
            return []
        other = k.fresh("no_ending")
        epilogue.guard(other)
        crosses = epilogue.again is None and self.far > 1
        served, rest = self.copies.mixed(epilogue, span, crosses)

        def between() -> None:
            begin = len(k.items)
            self.copies.end_copy(span)
            if self.far == 1:
                self._go_over_late()
            if epilogue.again is not None:
                _refuse_vcc(k.items[begin:])
                k.s_cbranch_vccnz(epilogue.again)
            if not self.together:
                self._meet()
            if rest:
                self.chain.begin()

        self.copies.before(rest, between)
        if rest:  # if there is no next item, its first step is one of nothing: that rest by itself would take as long on a cold cache
            self._emit_first(phase, rest)
        self._emit_next(phase)
        k.label(other)
        return [served]

    def _emit_first(self, phase: int, rest: Sequence[Unit] = ()) -> None:
        """The next item's first step, and on to the loop."""
        k, phase_after = self.k, (phase + self.far) % self.unroll
        self.firsts[phase, bool(rest)] = self._first(phase_after, rest)
        if rest:
            k.s_cmp_lg_u32(self.chain.over, 0)
            k.s_cbranch_scc1(self.ended)
        following = (phase_after + 1) % self.unroll
        if self.chain.counted:
            k.s_sub_u32(self.own.steady, self.count, self.least)
        k.s_cmp_eq_u32(self.own.steady, 0)
        k.s_cbranch_scc1(self.lasts[following])
        k.s_mov_b32(self.own.rounds, self.own.steady)
        self._enter(following)

    def _meet(self) -> None:
        """The barriers that waves pass between items after the other epilogue, where all fills are waited for, since it does not tell the
        phases apart; and after the one that overlaps, if others may go the other way."""
        if self.together:
            self.k.barrier_where_needed()
            return
        for _ in range(1 + self.copies.schedule.stagger):
            self.k.s_barrier()

    def _emit_next(self, phase: int) -> None:
        """The next item's first step, after the last steps from that phase on; or the end."""
        k = self.k
        k.label(self.nexts[phase])
        k.s_cmp_lg_u32(self.chain.over, 0)
        k.s_cbranch_scc1(self.ended)
        self.chain.begin()
        self._emit_first(phase)

    def way(self, choice: PathChoice) -> list[int]:
        """The copies that two items run through, each with half of the count."""
        steps = choice.count // 2
        found, phase = list(self.opened), 0
        for item in range(2):
            looped = [self.looped[(phase + step) % self.unroll] for step in range(min(item, 1), steps - self.far)]
            after = (phase + steps - self.far) % self.unroll
            found += [*looped, *self.closing[after][choice.served]]
            phase = (phase + steps) % self.unroll
            if item == 0:
                found.append(self.firsts.get((after, choice.served), self.firsts[after, False]))
        return found


def _from_zero(unit: Unit, sums: int, begun: set[int]) -> Unit:
    """A matrix unit whose first addition to each of the sums, registers as bits, begins from 0."""
    items: list[Item] = []
    for item in unit.items:
        if isinstance(item, Instruction) and isinstance(item.operands[0], Reg):
            out, added = item.operands[0], item.operands[3]
            if isinstance(added, Reg) and added.mask == out.mask and out.mask & sums and out.mask not in begun:
                begun.add(out.mask)
                item = replace(item, operands=(*item.operands[:3], 0, *item.operands[4:]))
        items.append(item)
    return Unit(unit.number, tuple(items), unit.tag)


def _refuse_vcc(items: Sequence[Item]) -> None:
    """Refuse code that stands between an epilogue that leaves word in VCC and what goes by that."""
    for item in items:
        if isinstance(item, Instruction) and item.writes & vcc.mask:
            raise PipelineError(f"{item.text} of advance() changes VCC, in which the epilogue says whether the wave goes to again=; other "
                                "SGPRs would do", item.where())


def _refuse_others(copies: Copies, closes: bool) -> None:
    """Refuse a step that cannot be part of a chain."""
    if not closes:
        raise PipelineError("a chain goes over from the sources of one item to those of the next: views along K that the step reads "
                            "ahead, no walks to the end of a matrix, none read more than one iteration later than the farthest",
                            copies.k.here())
    if any(unit.tag.condition in ("first", "later") for unit in copies.units.every()):
        raise PipelineError("a chain of items has no operations under t.first or t.later", copies.k.here())
    if copies.k.counted:
        raise PipelineError("t.number counts on from one item of a chain to the next; a chain's step has none", copies.k.here())
