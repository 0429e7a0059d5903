"""The SGPRs of a loop's scalar code, and how a count chooses its prologue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from asmgen.author.loop.stepcopies import Copies
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


def open_loop(copies: Copies, phase: int) -> list[int]:
    """The prologue after which copy `phase` of a loop follows, with step 0 where it has a copy of its own."""
    peel = copies.units.shape.peel
    return [*copies.prologue((phase - peel) % copies.unroll), *copies.steady(copies.span(0, peel, (phase - peel) % copies.unroll, 0))]


def choose_prologue(k: Builder, own: LoopRegisters, unroll: int, ahead: int, prologues: Sequence[str]) -> None:
    """Branch to the prologue of each phase but 0, whose prologue follows. `own.steady` steps are -`ahead` or more, up to phase 0."""
    rest = own.rounds
    if unroll == 1:
        return
    back = -(-ahead // unroll) * unroll  # a multiple of the unroll that makes the number of steady steps positive
    k.s_add_u32(rest, own.steady, back)
    remainder(k, own, unroll, rest, rest)
    for number in range(1, unroll):
        k.s_cmp_eq_u32(rest, number)
        k.s_cbranch_scc1(prologues[-number % unroll])


def remainder(k: Builder, own: LoopRegisters, unroll: int, rest: Reg, count: Reg) -> None:
    """rest = count % unroll, for counts below 2^28. They may be one register."""
    if unroll & (unroll - 1) == 0:
        k.s_and_b32(rest, count, unroll - 1)
        return
    k.s_mul_hi_u32(own.quotient, count, -(-(1 << 32) // unroll))
    k.s_mul_i32(own.quotient, own.quotient, unroll)
    k.s_sub_u32(rest, count, own.quotient)
