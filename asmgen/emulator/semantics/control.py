"""Where control goes: branches, calls, returns, the fork stack. Each function says, for a group, what position every wave goes to.

A position is an int where all waves go to the same one, else an array [waves]; NOWHERE where an address holds no instruction.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.machine.codemap import CodeMap
from asmgen.emulator.machine.errors import EmulatorError
from asmgen.emulator.machine.state import EXEC, VCC, Group, Machine
from asmgen.emulator.semantics.values import fetch_scalar, store_scalar
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction, Program

NOWHERE = -1
Going = int | NDArray[np.int64]
Branch = Callable[[Group], Going]

_NEVER = frozenset({"s_cbranch_cdbgsys", "s_cbranch_cdbguser", "s_cbranch_cdbgsys_or_user", "s_cbranch_cdbgsys_and_user"})
"""Taken only under a debugger."""
_TRAP_HANDLER = frozenset({"s_rfe_b64", "s_rfe_restore_b64"})
_CSP_SHIFT, _CSP_MASK = np.uint32(29), np.uint32(7)


def bind_branch(instruction: Instruction, position: int, program: Program, code: CodeMap, machine: Machine) -> Branch:
    """The function of a branch instruction. Raises EmulatorError for one that only a trap handler may execute."""
    name, following = instruction.name, position + 1
    if name in _TRAP_HANDLER:
        raise EmulatorError(f"`{instruction.text}` is legal only in a trap handler, which the emulator does not run", instruction.where())
    if name in _NEVER:
        return lambda group: following
    if name in ("s_setpc_b64", "s_swappc_b64"):
        return _indirect(instruction, position, code, machine)
    if name == "s_cbranch_g_fork":
        return _fork(instruction, position, code, machine, None)
    if name == "s_cbranch_join":
        return _join(instruction, position, code, machine)
    target = target_of(instruction, position, program, code)
    if name == "s_call_b64":
        destination = instruction.operands[0]
        assert isinstance(destination, Reg)
        store, back = store_scalar(machine, destination, "b64"), np.array(code.ends[position], np.uint64)
        return lambda group: (target, store(group, back))[0]
    if name == "s_cbranch_i_fork":
        return _fork(instruction, position, code, machine, target)
    if name == "s_branch":
        return lambda group: target
    return _conditional(name, target, following, machine)


def target_of(instruction: Instruction, position: int, program: Program, code: CodeMap) -> int:
    """The position that a direct branch names. Raises EmulatorError where it is outside of the program."""
    label = instruction.target
    if label is not None and label in program.labels:
        return program.labels[label]
    if label is None:
        offset = next((operand for operand in instruction.operands if isinstance(operand, int)), 0)
        address = code.ends[position] + 4 * ((offset & 0xFFFF ^ 0x8000) - 0x8000)
        if address in code.positions:
            return code.positions[address]
    raise EmulatorError(f"`{instruction.text}` goes to a place that is not in the program", instruction.where())


def _conditional(name: str, target: int, following: int, machine: Machine) -> Branch:
    condition = name.removeprefix("s_cbranch_")
    if condition in ("scc0", "scc1"):
        wanted, scc = condition == "scc1", machine.scc

        def by_scc(group: Group) -> Going:
            if len(group.waves) == 1:
                return target if bool(scc[group.waves[0]]) is wanted else following
            bits = scc[group.select]
            set_ones = int(np.count_nonzero(bits))
            if set_ones == 0 or set_ones == group.size:
                return target if (set_ones > 0) is wanted else following
            return np.where(bits == wanted, target, following)

        return by_scc
    register = EXEC if condition.startswith("exec") else VCC
    on_zero, scalar = not condition.endswith("nz"), machine.scalar

    def by_mask(group: Group) -> Going:
        nonzero = scalar[register, group.select] | scalar[register + 1, group.select]
        some = int(np.count_nonzero(nonzero))
        if some == 0 or some == group.size:
            return target if (some == 0) is on_zero else following
        return np.where((nonzero == 0) == on_zero, target, following)

    return by_mask


def _positions(code: CodeMap, addresses: NDArray[np.uint64]) -> Going:
    first = int(addresses[0])
    if (addresses == addresses[0]).all():
        return code.positions.get(first, NOWHERE)
    return np.array([code.positions.get(int(address), NOWHERE) for address in addresses], np.int64)


def _indirect(instruction: Instruction, position: int, code: CodeMap, machine: Machine) -> Branch:
    """s_setpc_b64 and s_swappc_b64: the target is read before the return address is written."""
    fetch = fetch_scalar(machine, instruction.operands[-1], "b64")
    if instruction.name == "s_setpc_b64":
        return lambda group: _positions(code, np.broadcast_to(fetch(group), group.size))
    destination = instruction.operands[0]
    assert isinstance(destination, Reg)
    store, back = store_scalar(machine, destination, "b64"), np.array(code.ends[position], np.uint64)

    def swap(group: Group) -> Going:
        going = _positions(code, np.broadcast_to(fetch(group), group.size))
        store(group, back)
        return going

    return swap


def _fork(instruction: Instruction, position: int, code: CodeMap, machine: Machine, target: int | None) -> Branch:
    """s_cbranch_g_fork and s_cbranch_i_fork: the smaller side runs first, the other waits on a stack in SGPRs, 4 an entry."""
    mask = fetch_scalar(machine, instruction.operands[0], "b64")
    address = fetch_scalar(machine, instruction.operands[1], "b64") if target is None else None
    fixed = np.array(0 if target is None else code.starts[target], np.uint64)
    after = code.ends[position]

    def fork(group: Group) -> Going:
        masks = np.broadcast_to(mask(group), group.size)
        targets = np.broadcast_to(fixed if address is None else address(group), group.size)
        going = np.array([_fork_one(machine, int(wave), int(masks[n]), int(targets[n]), after)
                          for n, wave in enumerate(group.waves)], np.uint64)
        group.refresh_mask()
        return _positions(code, going)

    return fork


def _fork_one(machine: Machine, wave: int, mask: int, target: int, after: int) -> int:
    """The address at which one wave goes on."""
    active = int(machine.scalar[EXEC, wave]) | int(machine.scalar[EXEC + 1, wave]) << 32
    taken, left = mask & active, ~mask & active
    if taken == active:
        return target
    if left == active:
        return after
    first_left = left.bit_count() < taken.bit_count()
    now, later, location = (left, taken, target) if first_left else (taken, left, after)
    depth = int(machine.mode[wave] >> _CSP_SHIFT)
    _put(machine, depth * 4, wave, later | location << 64, 4)
    _put(machine, EXEC, wave, now, 2)
    machine.mode[wave] = machine.mode[wave] & ~(_CSP_MASK << _CSP_SHIFT) | np.uint32((depth + 1) & 7) << _CSP_SHIFT
    return after if first_left else target


def _join(instruction: Instruction, position: int, code: CodeMap, machine: Machine) -> Branch:
    """s_cbranch_join: goes on where the stack is as deep as it was at the fork, else takes what waits on it."""
    saved = fetch_scalar(machine, instruction.operands[0], "b32")
    after = code.ends[position]

    def join(group: Group) -> Going:
        depths = np.broadcast_to(saved(group), group.size)
        going = []
        for n, wave in enumerate(group.waves):
            depth = int(machine.mode[wave] >> _CSP_SHIFT)
            if depth == int(depths[n]):
                going.append(after)
                continue
            depth = (depth - 1) & 7
            machine.mode[wave] = machine.mode[wave] & ~(_CSP_MASK << _CSP_SHIFT) | np.uint32(depth) << _CSP_SHIFT
            words = [int(machine.scalar[depth * 4 + word, wave]) for word in range(4)]
            _put(machine, EXEC, int(wave), words[0] | words[1] << 32, 2)
            going.append(words[2] | words[3] << 32)
        group.refresh_mask()
        return _positions(code, np.array(going, np.uint64))

    return join


def _put(machine: Machine, register: int, wave: int, value: int, words: int) -> None:
    for word in range(words):
        machine.scalar[register + word, wave] = value >> 32 * word & 0xFFFFFFFF
