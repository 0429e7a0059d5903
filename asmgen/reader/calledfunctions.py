"""Functions of a text beside the kernels that call them, as `disassembly` puts those of a code object: the analyses follow calls within a
Program alone."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from asmgen.isa.operands import Symbol
from asmgen.program.codeaddresses import code_addresses
from asmgen.program.controlflow import control_flow
from asmgen.program.program import Instruction, Item, Label, Program

_NAME = re.compile(r"[A-Za-z_.$][\w.$]*")


def with_called(programs: Sequence[Program], kernels: Collection[str]) -> list[Program]:
    """The Programs of a text, each that is a kernel with the functions that it names, then those that a call of unknown target may reach
    besides. Functions of which no kernel has a copy stay Programs of their own, without kernels those that no other one names.

    A kernel stays as it is where code runs off the end of a function: what comes next there depends on the order of functions.
    """
    if len({program.name for program in programs}) < len(programs):
        return list(programs)
    functions = {program.name: program for program in programs if program.name and program.name not in kernels}
    named = {program.name: _named(program, functions) for program in programs}
    inner = {name for names in named.values() for name in names}
    found: dict[str, Program] = {}
    taken: set[str] = set()
    for program in programs:
        if program.name in kernels if kernels else program.name not in inner:
            found[program.name], names = _composed(program, functions, named)
            taken |= names
    return [found.get(program.name, program) for program in programs if program.name in found or program.name not in taken]


def _composed(program: Program, functions: dict[str, Program], named: dict[str, list[str]]) -> tuple[Program, set[str]]:
    """A Program with functions after it, and their names."""
    known = _closure([program.name], named)
    sure = [functions[name] for name in functions if name in known and name != program.name]
    whole = _joined(program, sure)
    others = [functions[name] for name in functions if name not in known] if _calls_unknown(whole) else []
    if not all(one.instructions[-1].ends_block for one in (program, *sure, *others)):
        return program, set()
    names = {one.name for one in (*sure, *others)}
    return (replace(_joined(whole, others), guessed=others[0].name) if others else whole), names


def _joined(program: Program, functions: Sequence[Program]) -> Program:
    items: list[Item] = list(program.items)
    for function in functions:
        first = next(item for item in function.items if isinstance(item, Instruction))
        items += [Label(function.name, first.source), *function.items]
    return program.with_items(items) if functions else program


def _closure(names: Sequence[str], named: dict[str, list[str]]) -> set[str]:
    seen, waiting = set(names), list(names)
    while waiting:
        for name in named[waiting.pop()]:
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return seen


def _named(program: Program, functions: Collection[str]) -> list[str]:
    """The functions that a Program's instructions name: in branches, and where they make addresses."""
    found: dict[str, None] = {}
    for instruction in program.instructions:
        for operand in instruction.operands:
            if isinstance(operand, Symbol):
                found |= dict.fromkeys(name for name in _NAME.findall(operand.name.partition("@")[0])
                                       if name in functions and name != program.name)
    return list(found)


def _calls_unknown(program: Program) -> bool:
    flow = control_flow(program)
    calls = {block.number for block in flow.blocks if program.instructions[block.last].name == "s_swappc_b64"}
    return bool(calls - code_addresses(program, flow).keys())
