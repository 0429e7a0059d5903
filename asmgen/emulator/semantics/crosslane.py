"""Vector instructions that look across lanes or move values to and from scalar registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asmgen.emulator.machine.state import Group, Machine
from asmgen.emulator.semantics.values import fetch_scalar, store_scalar
from asmgen.emulator.semantics.vectorio import words, write_row
from asmgen.isa.modifiers import is_set
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction

Step = Callable[[Group], None]
Bind = Callable[[Instruction, Machine], Step]
Values = Any

_LANE = np.int64(63)


def _registers(instruction: Instruction) -> list[Reg]:
    return [operand for operand in instruction.operands if isinstance(operand, Reg)]


def first_active(lanes: Values) -> Values:
    """The lowest active lane of each wave; 0 where none is."""
    return np.argmax(lanes, axis=1)


def _read_first_lane(instruction: Instruction, machine: Machine) -> Step:
    destination, value = instruction.operands
    assert isinstance(destination, Reg)
    fetch, store = words(machine, value, "b32", 1), store_scalar(machine, destination, "b32")

    def step(group: Group) -> None:
        rows = np.arange(group.size)
        lane = 0 if group.mask is None else first_active(group.mask)
        store(group, fetch(group)[rows, lane])

    return step


def _read_lane(instruction: Instruction, machine: Machine) -> Step:
    destination, value, select = instruction.operands
    assert isinstance(destination, Reg)
    fetch, store, lane = words(machine, value, "b32", 1), store_scalar(machine, destination, "b32"), fetch_scalar(machine, select, "b32")

    def step(group: Group) -> None:
        store(group, fetch(group)[np.arange(group.size), lane(group).astype(np.int64) & _LANE])

    return step


def _write_lane(instruction: Instruction, machine: Machine) -> Step:
    """EXEC does not matter."""
    destination, value, select = instruction.operands
    assert isinstance(destination, Reg)
    target = machine.vector[machine.slot(destination)]
    fetch, lane = fetch_scalar(machine, value, "b32"), fetch_scalar(machine, select, "b32")
    return lambda group: target.__setitem__((group.waves, lane(group).astype(np.int64) & _LANE), fetch(group))


def _swap(instruction: Instruction, machine: Machine) -> Step:
    first, second = (machine.vector[machine.slot(reg)] for reg in _registers(instruction))

    def step(group: Group) -> None:
        left, right = first[group.select].copy(), second[group.select].copy()
        write_row(first, group, right, group.mask)
        write_row(second, group, left, group.mask)

    return step


def exchange(first: Values, second: Values, rows: int) -> tuple[Values, Values]:
    """Odd pieces of `rows` lanes of the first against the even ones of the second (docs/facts/semantics.md section 6); both [waves, 64]."""
    shape = (*first.shape[:-1], 32 // rows, 2, rows)
    left, right = first.reshape(shape).copy(), second.reshape(shape).copy()
    left[..., 1, :], right[..., 0, :] = second.reshape(shape)[..., 0, :], first.reshape(shape)[..., 1, :]
    return left.reshape(first.shape), right.reshape(first.shape)


def _lane_swap(rows: int) -> Bind:
    """v_permlane16_swap, v_permlane32_swap.

    Under partial EXEC only active lanes are written; one whose partner is inactive takes its value with fi, 0 with bound_ctrl,
    else stays (unconfirmed: the ISA's pseudo-code leaves EXEC out; this is DPP's rule).
    """

    def bind(instruction: Instruction, machine: Machine) -> Step:
        first, second = (machine.vector[machine.slot(reg)] for reg in _registers(instruction))
        fetch_inactive, zero = bool(instruction.modifiers.get("fi")), is_set(instruction.modifiers.get("bound_ctrl"))

        def step(group: Group) -> None:
            left, right = exchange(first[group.select], second[group.select], rows)
            if group.mask is None:
                first[group.select], second[group.select] = left, right
                return
            lanes = group.mask
            from_left, from_right = exchange(lanes, lanes, rows)
            if zero and not fetch_inactive:
                left, right = np.where(from_left, left, np.uint32(0)), np.where(from_right, right, np.uint32(0))
            open_left, open_right = (lanes, lanes) if fetch_inactive or zero else (lanes & from_left, lanes & from_right)
            write_row(first, group, left, open_left)
            write_row(second, group, right, open_right)

        return step

    return bind


def _nothing(instruction: Instruction, machine: Machine) -> Step:
    return lambda group: None


CROSS_LANE: dict[str, Bind] = {
    "v_nop": _nothing, "v_clrexcp": _nothing,
    "v_readfirstlane_b32": _read_first_lane, "v_readlane_b32": _read_lane, "v_writelane_b32": _write_lane,
    "v_swap_b32": _swap, "v_permlane16_swap_b32": _lane_swap(16), "v_permlane32_swap_b32": _lane_swap(32),
}
"""Binders by mnemonic. v_clrexcp clears exception flags, which nothing here raises."""
