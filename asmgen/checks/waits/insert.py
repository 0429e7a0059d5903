"""Automatic waits: every s_waitcnt that is needed, with the loosest count that serves, each with its reason."""

from __future__ import annotations

from collections.abc import Callable

from asmgen.checks.counters.flow import WaitFlow, WaitNeed
from asmgen.checks.counters.ledger import LGKM, VM
from asmgen.checks.counters.points import POINT
from asmgen.isa.check import resolve
from asmgen.isa.operands import Waitcnt
from asmgen.isa.table import opcode
from asmgen.program.program import Instruction, Item, Program

_TRIALS = 24
_PLURAL = {VM: ("vector-memory operation", "vector-memory operations"), LGKM: ("LDS operation", "LDS operations")}


def insert_waits(program: Program) -> Program:
    """A program with the waits that registers, tokens and barriers need, and the author's own kept as they are.

    Instructions of blocks in mode "verify" or "off" get none. Wait slots become waits, or go where nothing is due.
    """
    automatic = [instruction.waits in ("", "auto", POINT) for instruction in program.instructions].__getitem__
    needs = _fewest(program, automatic)
    items: list[Item] = []
    position = 0
    for item in program.items:
        if isinstance(item, Instruction):
            if position in needs and automatic(position):
                items.append(_wait_instruction(needs[position], item, program))
            position += 1
            if item.waits == POINT:
                continue  # its wait stands there now, or nothing is due
        items.append(item)
    return program.with_items(items)


def _fewest(program: Program, automatic: Callable[[int], bool]) -> dict[int, WaitNeed]:
    """The needed waits, with the loosest counts that cost no further wait.

    Where operations out of order are outstanding beside in-order ones, as scalar loads beside LDS reads, and at barriers that LDS data
    must reach, a wait for all of them often spares the next. So that is the rule, and a partial count is taken where the waits do
    not become more.
    """
    partial: frozenset[int] = frozenset()
    needs = WaitFlow(program, automatic, partial=partial).needs()
    for position in [position for position, need in needs.items() if need.partial][:_TRIALS]:
        looser = WaitFlow(program, automatic, partial=partial | {position}).needs()
        if looser.keys() <= needs.keys():
            partial, needs = partial | {position}, looser
    return needs


def _wait_instruction(need: WaitNeed, consumer: Instruction, program: Program) -> Instruction:
    row = opcode("s_waitcnt")
    operand = Waitcnt(vmcnt=need.counts.get(VM), lgkmcnt=need.counts.get(LGKM))
    form = resolve(row, (operand,), {}, program.arch)
    return Instruction(row, form, (operand,), source=consumer.source, reason=reason(need, program))


def reason(need: WaitNeed, program: Program) -> str:
    """Why a wait stands: what has arrived after it and how much newer work stays in flight."""
    clauses = []
    for counter, count in need.counts.items():
        arriving = [(arrival.what, arrival.producer) for arrival in need.because if arrival.counter == counter]
        whats = list(dict.fromkeys(what for what, _ in arriving))
        producers = list(dict.fromkeys(program.instructions[producer].name for _, producer in arriving if producer >= 0))
        shown = ", ".join(whats[:4]) + (f" and {len(whats) - 4} more" if len(whats) > 4 else "")
        newer = f", {count} newer {_PLURAL[counter][count != 1]} in flight" if count else ""
        whose = f" of {', '.join(producers[:3])}" if producers else ""
        clauses.append(f"{shown}{whose} landed{newer}")
    return "; ".join(clauses)
