"""The paths of a pipeline of two segments: n0 steps of one kind, then n1 steps of another.

n0 and n1 are 0 or more, together at least 1. With d the steps ahead, u the unroll and p the peeled steps, the code is

    n0 below d + p   for each such n0: a prologue in which the segments meet, n0 copies, then the second loop; if n1 is below d too,
    straight code for each pair (n0, n1)
    n0 % u           for each remainder r of n0 - d - p: prologue, peeled step and r copies, so that the first loop ends in phase 0
    first loop       u copies, as long as u steps are left before the seam
    seam             the last d copies of the first segment: iterations ahead of them belong to the second segment already
    second loop      u copies, as long as u steps are left before the last d; then rest and drain, as in any pipeline

Each loop stands there once, and has no branch inside.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from asmgen.author.loop.stepcopies import Copies
from asmgen.isa.registers import Reg

if TYPE_CHECKING:
    from asmgen.author.emit.builder import Builder


def lend_steps(k: Builder, first: Reg, second: Reg, least: tuple[int, int]) -> None:
    """Move steps from the first segment to the second, so that `pipeline(..., least=least)` has fewer paths.

    The counts are SGPRs, and the second segment's step can do the work of the first's. Afterwards the first count is 0 or at least
    `least[0]`; the second is 0 or at least `least[1]`, unless it has all steps. Changes SCC.
    """
    enough = k.fresh("enough")
    with k.operation("lend steps"), k.scratch("lent", file="s") as lent:
        k.s_cmp_eq_u32(second, 0)
        k.s_cbranch_scc1(enough)
        k.s_sub_u32(lent, least[1], second)
        k.s_max_i32(lent, lent, 0)
        k.s_min_u32(lent, lent, first)
        k.s_sub_u32(first, first, lent)
        k.s_add_u32(second, second, lent)
        k.label(enough)
        k.s_cmp_lt_u32(first, least[0])
        k.s_cselect_b32(lent, first, 0)
        k.s_sub_u32(first, first, lent)
        k.s_add_u32(second, second, lent)


def emit_segments(copies: Copies, first: Reg | int, second: Reg | int, done: str, lent: bool = False) -> None:
    """Emit all paths. The counts are SGPRs, which are used up, or numbers. `lent`: `lend_steps` has set them."""
    k, ahead, peel = copies.k, copies.ahead, copies.peel
    if peel and isinstance(second, int):  # if n0 is 0, the peeled step is one of these
        with k.scratch("second_count", file="s") as held:
            k.s_mov_b32(held, second)
            emit_segments(copies, first, held, done, lent)
        return
    least = ahead + peel
    shorts = {number: k.fresh(f"first_{number}") for number in _possible(first, 1 if lent else least)}
    long = not isinstance(first, int) or first >= least
    if not isinstance(first, int):
        for number, label in shorts.items():
            k.s_cmp_eq_u32(first, number)
            k.s_cbranch_scc1(label)
    join = k.fresh("second_segment")
    if long:
        first_loop(copies, first)
        ends = _branch_if_short(copies, second, 1 if lent else ahead, "seam_end")
        if not isinstance(second, int) or second >= ahead:
            copies.steady(copies.span(0, ahead, 0, seam=ahead))
            if ends or shorts:
                k.s_branch(join)
        for number, label in ends.items():
            k.label(label)
            copies.last(copies.span(0, ahead + number, 0, seam=ahead, stop=ahead + number))
            k.s_branch(done)
    for number, label in shorts.items():
        k.label(label)
        _short(copies, number, second, join, done)
    if not isinstance(second, int) or second >= ahead:
        k.label(join)
        emit_to_the_end(copies, second, ahead, 0, done)
    k.label(done)


def _possible(count: Reg | int, below: int) -> Iterable[int]:
    """The numbers below a bound that the count may be."""
    if isinstance(count, int):
        return (count,) if count < below else ()
    return range(below)


def _branch_if_short(copies: Copies, count: Reg | int, below: int, name: str, least: int = 0) -> dict[int, str]:
    """Branch to a label for each number from `least` to `below` - 1 that the count may be; the labels by number."""
    k = copies.k
    labels = {number: k.fresh(f"{name}_{number}") for number in _possible(count, below) if number >= least}
    if not isinstance(count, int):
        for number, label in labels.items():
            k.s_cmp_eq_u32(count, number)
            k.s_cbranch_scc1(label)
    return labels


def first_loop(copies: Copies, count: Reg | int) -> None:
    """Emit all code before the seam or the drain, for a count of at least d + p. It ends in phase 0."""
    k, unroll = copies.k, copies.unroll
    opening = copies.ahead + copies.peel
    if isinstance(count, int):
        rounds, rest = divmod(count - opening, unroll)
        _open(copies, rest)
        if rounds < 2:
            copies.steady(copies.span(0, rounds * unroll, 0))
        else:
            with k.scratch("rounds", file="s") as left:
                k.s_mov_b32(left, rounds - 1)
                copies.loop(copies.span(0, unroll, 0), left, 1)
        return
    loop, seam = k.fresh("first_segment"), k.fresh("seam")
    rests = [k.fresh(f"remainder_{number}") for number in range(1, unroll)]
    k.s_sub_u32(count, count, opening)
    if rests:
        with k.scratch("remainder", file="s") as left:
            _remainder(copies, left, count)
            k.s_sub_u32(count, count, left)
            for number, label in enumerate(rests, 1):
                k.s_cmp_eq_u32(left, number)
                k.s_cbranch_scc1(label)
    _open(copies, 0)
    for number, label in enumerate(rests, 1):
        k.s_branch(loop)
        k.label(label)
        _open(copies, number)
    k.label(loop)
    k.s_sub_u32(count, count, unroll)
    k.s_cmp_lt_i32(count, 0)  # signed: the loop ends for a count that breaks the contract, too
    k.s_cbranch_scc1(seam)
    copies.loop(copies.span(0, unroll, 0), count, unroll)
    k.label(seam)


def _remainder(copies: Copies, rest: Reg, count: Reg) -> None:
    """rest = count % unroll, for counts below 2^28."""
    k, unroll = copies.k, copies.unroll
    if unroll & (unroll - 1) == 0:
        k.s_and_b32(rest, count, unroll - 1)
        return
    k.s_mul_hi_u32(rest, count, -(-(1 << 32) // unroll))
    k.s_mul_i32(rest, rest, unroll)
    k.s_sub_u32(rest, count, rest)


def _open(copies: Copies, rest: int) -> None:
    """Emit the prologue, the peeled step and `rest` copies. Phase 0 follows."""
    phase = -(copies.peel + rest)
    copies.prologue(phase)
    copies.steady(copies.span(0, copies.peel + rest, phase, 0))


def _short(copies: Copies, first: int, second: Reg | int, join: str, done: str) -> None:
    """Emit the paths of a small n0. They join the second loop at step n0, or after the peeled step if that is in the second segment."""
    k, ahead = copies.k, copies.ahead
    steps = max(first, copies.peel)
    taken = steps - first
    ends = _branch_if_short(copies, second, ahead + taken, f"steps_{first}", 0 if first else 1)
    if not isinstance(second, int) or second >= ahead + taken:
        phase = ahead - steps
        copies.prologue(phase, first)
        copies.steady(copies.span(0, steps, phase, 0, first))
        if taken and not isinstance(second, int):
            k.s_sub_u32(second, second, taken)
        k.s_branch(join)
    for number, label in ends.items():
        k.label(label)
        copies.straight(first + number, first)
        k.s_branch(done)


def emit_to_the_end(copies: Copies, count: Reg | int, phase: int, seam: int | None, done: str, gone: int = 0) -> None:
    """Emit the loop, the rest and the drain of one segment (the second if `seam` is 0); the next step has that phase.

    `gone` of the `count` steps are done already; at least d more are left.
    """
    k, unroll, ahead = copies.k, copies.unroll, copies.ahead

    def steps(number: int) -> None:
        copies.last(copies.span(0, number + ahead, phase, seam=seam, stop=number + ahead))

    round_ = copies.span(0, unroll, phase, seam=seam)
    if isinstance(count, int):
        rounds, rest = divmod(count - gone - ahead, unroll)
        if rounds < 2:
            steps(count - gone - ahead)
            return
        with k.scratch("rounds", file="s") as left:
            k.s_mov_b32(left, rounds - 1)
            copies.loop(round_, left, 1)
        steps(rest)
        return
    rest_label = k.fresh("rest")
    rests = [k.fresh(f"rest_{number}") for number in range(1, unroll)]
    k.s_sub_u32(count, count, gone + ahead + unroll)
    k.s_cmp_lt_i32(count, 0)
    k.s_cbranch_scc1(rest_label)
    copies.loop(round_, count, unroll)
    k.label(rest_label)
    for number, label in enumerate(rests, 1):
        k.s_cmp_eq_i32(count, number - unroll)
        k.s_cbranch_scc1(label)
    steps(0)
    for number, label in enumerate(rests, 1):
        k.s_branch(done)
        k.label(label)
        steps(number)
