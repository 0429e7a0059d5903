"""Waits that wait for nothing, but are wait states: what deleting them would leave.

An s_waitcnt is an issued instruction, and so one wait state between the instructions around it (docs/facts/instructions.md section 3).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from asmgen.checks.counters.ledger import operation_of
from asmgen.checks.finding.finding import LintFinding
from asmgen.checks.waits.verify import IDLE
from asmgen.checks.waitstates.passes import verify as verify_wait_states
from asmgen.isa.waitrules import MOST_WAIT_STATES
from asmgen.program.controlflow import ControlFlow
from asmgen.program.program import Program


def told_as_wait_states(found: list[LintFinding], program: Program, flow: ControlFlow) -> list[LintFinding]:
    """The findings, where those of idle waits say whether the instruction has to stay as a wait state.

    All waits of which nothing is said can be deleted together.
    """
    needed = _needed(program, flow, _idle(found))
    told = []
    for one in found:
        if one.rule == IDLE and id(one.consumer) in needed:
            one = replace(one, message=f"{one.message}; as an instruction it is a wait state all the same: without it "
                                       f"{needed[id(one.consumer)]}, so s_nop 0 would have to take its place")
        told.append(one)
    return told


def _idle(found: list[LintFinding]) -> set[int]:
    """The positions of waits that wait for nothing of any counter."""
    said = Counter(one.position for one in found if one.rule == IDLE)
    idle = set()
    for one in found:
        wait = operation_of(one.consumer).wait if one.rule == IDLE and one.consumer is not None else None
        if wait is not None and said[one.position] == sum(count is not None for count in (wait.vmcnt, wait.lgkmcnt, wait.expcnt)):
            idle.add(one.position)
    return idle


def _needed(program: Program, flow: ControlFlow, idle: set[int]) -> dict[int, str]:
    """What lacks wait states without which wait, by the wait's id; earlier waits that nothing needs are taken as deleted."""
    usual = _lacks(program, set())
    fewer = _lacks(program, idle)
    near: set[int] = set()
    positions = {id(instruction): position for position, instruction in enumerate(program.instructions)}
    for (_, consumer), finding in fewer.items():
        known = usual.get((id(finding.producer), consumer))
        if known is None or known.have != finding.have:
            near |= _before(flow, positions[consumer]) & idle
    gone = idle - near
    needed = {}
    for position in sorted(near):
        worse = [one for key, one in _lacks(program, gone | {position}).items() if key not in usual or usual[key].have != one.have]
        if worse:
            needed[id(program.instructions[position])] = worse[0].message
        else:
            gone.add(position)
    return needed


def _lacks(program: Program, gone: set[int]) -> dict[tuple[int, int], LintFinding]:
    """The findings on wait states without the waits at those positions, by the ids of the two instructions."""
    without = {id(program.instructions[position]) for position in gone}
    shorter = program.with_items(item for item in program.items if id(item) not in without) if gone else program
    return {(id(one.producer), id(one.consumer)): one for one in verify_wait_states(shorter)}


def _before(flow: ControlFlow, position: int) -> set[int]:
    """The positions from which an instruction is reached in fewer instructions than any pair needs wait states."""
    found: set[int] = set()
    seen: dict[int, int] = {}
    stack = [(position - 1, flow.block_of[position], 0)]
    while stack:
        last, number, steps = stack.pop()
        block = flow.blocks[number]
        first = max(block.first, last - (MOST_WAIT_STATES - steps))
        found |= set(range(first, last + 1))
        steps += last - block.first + 1
        if steps < MOST_WAIT_STATES:
            for before in block.predecessors:
                if seen.get(before, MOST_WAIT_STATES) > steps:
                    seen[before] = steps
                    stack.append((flow.blocks[before].last, before, steps))
    return found
