"""Scalar arithmetic: the meanings of scalar instructions (`meaning`) on arrays over waves, [waves], by mnemonic.

A function takes its sources and returns the result, or (result, scc). What an instruction does to SCC is part of its
meaning and not of the instruction table, which only lists who writes SCC. Instructions that change EXEC, MODE, M0's index or the
program counter are in `scalarstate` and `control`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asmgen.emulator.machine.state import Group, Machine
from asmgen.emulator.semantics import meaning
from asmgen.emulator.semantics.integers import COMPARE, on_arrays
from asmgen.emulator.semantics.scalarstate import STATE
from asmgen.emulator.semantics.values import fetch_scalar, store_scalar
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction

Step = Callable[[Group], None]
Values = Any  # arrays over waves; a constant is an array of shape ()

SCALAR: dict[str, Callable[..., Any]] = {name: on_arrays(means) for name, means in meaning.SCALAR.items()}
"""By mnemonic: sources to the result, or to (result, scc). One that keeps part of its destination takes that first."""

WITH_SCC: dict[str, Callable[..., Any]] = {name: on_arrays(means) for name, means in meaning.WITH_SCC.items()}
"""The same for those that read SCC: it is the first argument, booleans [waves]."""

BIT_COMPARE: dict[str, Callable[[Values, Values], Values]] = {name: on_arrays(means) for name, means in meaning.BIT_COMPARE.items()}


def bind_scalar(instruction: Instruction, machine: Machine) -> Step:
    """The step of a scalar instruction that stays in line. Raises KeyError for one without semantics."""
    name = instruction.name
    if name.startswith(("s_cmp_", "s_cmpk_", "s_bitcmp")):
        return _bind_compare(instruction, machine)
    if name in STATE:
        return STATE[name](instruction, machine)
    reads_scc = name in WITH_SCC
    function = WITH_SCC[name] if reads_scc else SCALAR[name]
    destination = instruction.operands[0]
    assert isinstance(destination, Reg)
    slots = instruction.form.operands
    sources = scalar_sources(instruction, machine)
    if slots[0].reads:
        sources.insert(0, fetch_scalar(machine, destination, slots[0].type))
    store = store_scalar(machine, destination, slots[0].type)
    scc = machine.scc
    if not reads_scc and len(sources) == 2:
        return _binary(function, sources[0], sources[1], store, scc, "scc" in instruction.opcode.writes)

    def step(group: Group) -> None:
        given = [fetch(group) for fetch in sources]
        result = function(scc[group.select], *given) if reads_scc else function(*given)
        if isinstance(result, tuple):
            result, scc[group.select] = result
        store(group, np.asarray(result))

    return step


def _binary(function: Callable[..., Any], first: Callable[[Group], Any], second: Callable[[Group], Any],
            store: Callable[[Group, Any], None], scc: Any, sets_scc: bool) -> Step:
    """The two-source case written out: it is most of what a scalar unit does."""

    def plain(group: Group) -> None:
        store(group, np.asarray(function(first(group), second(group))))

    def with_scc(group: Group) -> None:
        result, scc[group.select] = function(first(group), second(group))
        store(group, np.asarray(result))

    return with_scc if sets_scc else plain


def scalar_sources(instruction: Instruction, machine: Machine) -> list[Callable[[Group], Any]]:
    """The fetches of all operands but the first; SOPK immediates are sign-extended."""
    found = []
    for slot, operand in zip(instruction.form.operands[1:], instruction.operands[1:], strict=True):
        if "n" in slot.accepts and isinstance(operand, int):
            fixed = np.array((operand & 0xFFFF ^ 0x8000) - 0x8000, np.int32)
            found.append(_constant(fixed))
        else:
            found.append(fetch_scalar(machine, operand, slot.type))
    return found


def _constant(value: Any) -> Callable[[Group], Any]:
    return lambda group: value


def _bind_compare(instruction: Instruction, machine: Machine) -> Step:
    """s_cmp, s_cmpk and s_bitcmp write SCC alone."""
    name, scc = instruction.name, machine.scc
    bit = BIT_COMPARE.get(name)
    function = bit or COMPARE[name.split("_")[2]]
    left = fetch_scalar(machine, instruction.operands[0], instruction.form.operands[0].type)
    if name.startswith("s_cmpk_") and name.endswith("_u32"):
        right: Callable[[Group], Any] = _constant(np.array(int(instruction.operands[1]) & 0xFFFF, np.uint32))  # type: ignore[arg-type]
    else:
        right = scalar_sources(instruction, machine)[0]

    def step(group: Group) -> None:
        scc[group.select] = function(left(group), right(group))

    return step
