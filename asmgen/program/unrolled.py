"""A program with some of its loops written out several times: what takes turns from round to round stands still in each copy.

Buffers that alternate have addresses that change round by round, which constant propagation cannot name. Where a loop's body stands as
often as there are buffers, each copy has its own constant. Every way through the copies is one through the loop, and the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from asmgen.isa.check import resolve
from asmgen.isa.operands import Symbol
from asmgen.isa.records import dataclass
from asmgen.isa.table import opcode
from asmgen.program.controlflow import ControlFlow, Loop
from asmgen.program.program import Instruction, Item, Label, Program


@dataclass(frozen=True)
class Unrolled:
    """The longer program; `original` has by position the one that an instruction had, -1 for a branch that was added."""

    program: Program
    original: tuple[int, ...]


def inner_loops(flow: ControlFlow) -> list[Loop]:
    """The loops that hold no other one and stand in one piece, in program order."""
    loops = flow.loops()
    return sorted((loop for loop in loops
                   if all(loop.first <= flow.blocks[number].first and flow.blocks[number].last <= loop.last for number in loop.blocks)
                   and not any(other is not loop and loop.first <= other.first and other.last <= loop.last for other in loops)),
                  key=lambda loop: loop.first)


def unroll(program: Program, loops: Sequence[Loop], times: int) -> Unrolled:
    """The program with the bodies of those loops `times` times; loops of `inner_loops`, in order."""
    heads = {loop.first: loop for loop in loops}
    made: list[Item] = []
    original: list[int] = []
    position, location = 0, 0
    while location < len(program.items):
        item = program.items[location]
        if isinstance(item, Instruction) and position in heads:
            loop = heads[position]
            body = _body(program.items, location, loop.last - loop.first + 1)
            for number in range(times):
                copy = _copy(program, body, loop.first, number, times)
                made += copy
                original += range(loop.first, loop.last + 1)
                if number < times - 1 and not program.instructions[loop.last].ends_block:
                    made.append(_branch(program.arch, _named("exit", loop.first)))
                    original.append(-1)
            made.append(Label(_named("exit", loop.first)))
            position, location = loop.last + 1, location + len(body)
            continue
        made.append(item)
        if isinstance(item, Instruction):
            original.append(position)
            position += 1
        location += 1
    return Unrolled(program.with_items(made), tuple(original))


def _body(items: Sequence[Item], location: int, count: int) -> list[Item]:
    """The items from `place` on up to the instruction that is the last of `count`."""
    found: list[Item] = []
    for item in items[location:]:
        found.append(item)
        count -= isinstance(item, Instruction)
        if not count:
            break
    return found


def _copy(program: Program, body: Sequence[Item], first: int, number: int, times: int) -> list[Item]:
    """One copy of a loop: branches to its begin go to the next copy's, its labels are its own."""
    inner = {item.name for item in body if isinstance(item, Label)}
    copied: list[Item] = [Label(_named("round", first, number))]
    for item in body:
        if isinstance(item, Label):
            copied.append(item if not number else Label(_named(item.name, number)))
        elif isinstance(item, Instruction) and item.target is not None:
            if program.labels.get(item.target) == first:
                item = _to(item, _named("round", first, (number + 1) % times))
            elif number and item.target in inner:
                item = _to(item, _named(item.target, number))
            copied.append(item)
        else:
            copied.append(item)
    return copied


def _to(branch: Instruction, label: str) -> Instruction:
    return replace(branch, operands=tuple(Symbol(label) if isinstance(operand, Symbol) else operand for operand in branch.operands))


def _branch(arch: str, label: str) -> Instruction:
    row, operands = opcode("s_branch"), (Symbol(label),)
    return Instruction(row, resolve(row, operands, {}, arch), operands)


def _named(*parts: object) -> str:
    """A label that no assembler text can have."""
    return " ".join(map(str, parts))
