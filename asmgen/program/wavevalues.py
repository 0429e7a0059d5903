"""What is known of registers before a kernel runs: values that follow from constants and from the number of the work-item.

Constant propagation, each wave of a workgroup for itself: a scalar register has a value for each wave, a vector register for each lane of
each wave, or is unknown. Branches whose condition is known are followed by the waves that take them, so that code for some waves
only shows as such. Where paths meet that bring different values, as a buffer's number that a loop changes, the register is
unknown. Arithmetic is of integers, in 32 bits; whatever else writes a register makes it unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.isa.arch import LANES
from asmgen.isa.operands import Operand
from asmgen.isa.registers import NAMED, SCC_BIT, SGPR_BIT, Reg
from asmgen.program.controlflow import ControlFlow
from asmgen.program.program import Instruction, Program

Value = NDArray[np.int64]
"""Of a scalar register [waves], of a vector register [waves, lanes], of a lane mask [waves, lanes] (0 or 1)."""

_WORD = 0xFFFFFFFF
_M0, _VCC, _EXEC = (NAMED[name].mask.bit_length() - 1 if name == "m0" else (NAMED[name].mask & -NAMED[name].mask).bit_length() - 1
                    for name in ("m0", "vcc", "exec"))
_PLAIN = frozenset({"SOP1", "SOP2", "SOPK", "SOPC", "VOP1", "VOP2", "VOP3", "VOPC"})
_MODIFIERS = frozenset({"clamp", "omod", "op_sel", "neg", "abs"})


def _signed(value: Value) -> Value:
    return (value ^ 0x80000000) - 0x80000000


def _field(value: Value, start: Value, width: Value) -> Value:
    return value >> (start & 31) & (1 << (width & 31)) - 1


# Result of an instruction of its sources in the order in which the assembler writes them (ISA, chapters "SOP1" to "VOP3").
_SCALAR: dict[str, Callable[..., Value]] = {
    "s_mov_b32": lambda a: a, "s_movk_i32": lambda a: (a & 0xFFFF ^ 0x8000) - 0x8000, "s_not_b32": lambda a: ~a,
    "s_add_u32": lambda a, b: a + b, "s_add_i32": lambda a, b: a + b, "s_sub_u32": lambda a, b: a - b, "s_sub_i32": lambda a, b: a - b,
    "s_lshl_b32": lambda a, b: a << (b & 31), "s_lshr_b32": lambda a, b: a >> (b & 31),
    "s_ashr_i32": lambda a, b: _signed(a) >> (b & 31), "s_and_b32": lambda a, b: a & b, "s_or_b32": lambda a, b: a | b,
    "s_xor_b32": lambda a, b: a ^ b, "s_andn2_b32": lambda a, b: a & ~b, "s_orn2_b32": lambda a, b: a | ~b,
    "s_mul_i32": lambda a, b: a * b, "s_bfe_u32": lambda a, b: a >> (b & 31) & (1 << np.minimum(b >> 16 & 127, 32)) - 1,
    "s_lshl1_add_u32": lambda a, b: (a << 1) + b, "s_lshl2_add_u32": lambda a, b: (a << 2) + b,
    "s_lshl3_add_u32": lambda a, b: (a << 3) + b, "s_lshl4_add_u32": lambda a, b: (a << 4) + b,
    "s_min_u32": np.minimum, "s_max_u32": np.maximum,
}
_VECTOR: dict[str, Callable[..., Value]] = {
    "v_mov_b32": lambda a: a, "v_not_b32": lambda a: ~a, "v_add_u32": lambda a, b: a + b, "v_add_co_u32": lambda a, b: a + b,
    "v_sub_u32": lambda a, b: a - b, "v_subrev_u32": lambda a, b: b - a, "v_lshlrev_b32": lambda a, b: b << (a & 31),
    "v_lshrrev_b32": lambda a, b: b >> (a & 31), "v_ashrrev_i32": lambda a, b: _signed(b) >> (a & 31), "v_and_b32": lambda a, b: a & b,
    "v_or_b32": lambda a, b: a | b, "v_xor_b32": lambda a, b: a ^ b, "v_mul_lo_u32": lambda a, b: a * b,
    "v_mul_u32_u24": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "v_mad_u32_u24": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c, "v_lshl_add_u32": lambda a, b, c: (a << (b & 31)) + c,
    "v_add_lshl_u32": lambda a, b, c: (a + b & _WORD) << (c & 31), "v_lshl_or_b32": lambda a, b, c: a << (b & 31) | c,
    "v_and_or_b32": lambda a, b, c: a & b | c, "v_or3_b32": lambda a, b, c: a | b | c, "v_add3_u32": lambda a, b, c: a + b + c,
    "v_xad_u32": lambda a, b, c: (a ^ b) + c, "v_bfe_u32": _field, "v_bfi_b32": lambda a, b, c: a & b | ~a & c,
    "v_min_u32": np.minimum, "v_max_u32": np.maximum,
}
_COMPARED: dict[str, Callable[[Value, Value], Any]] = {
    "eq": np.equal, "lg": np.not_equal, "ne": np.not_equal, "gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal}
_MASKS: dict[str, Callable[[Value, Value], Value]] = {
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "andn2": lambda a, b: a & (1 - b)}
_CARRY = {"s_add_u32": lambda a, b: a + b > _WORD, "s_sub_u32": lambda a, b: b > a}
_NONZERO = ("s_lshl_b32", "s_lshr_b32", "s_ashr_i32", "s_and_b32", "s_or_b32", "s_xor_b32", "s_andn2_b32", "s_orn2_b32", "s_bfe_u32",
            "s_not_b32")
_CALLS = frozenset({"s_swappc_b64", "s_call_b64"})
_DECIDING = 1 << SCC_BIT | NAMED["vcc"].mask | NAMED["exec"].mask
_BRANCHES: dict[str, tuple[int, int]] = {  # the register whose value decides, and which value takes the branch
    "s_cbranch_scc0": (SCC_BIT, 0), "s_cbranch_scc1": (SCC_BIT, 1), "s_cbranch_vccz": (_VCC, 0), "s_cbranch_vccnz": (_VCC, 1),
    "s_cbranch_execz": (_EXEC, 0), "s_cbranch_execnz": (_EXEC, 1)}


@lru_cache(maxsize=1 << 10)
def _constant(value: int, waves: int) -> Value:
    """An operand's number [waves]."""
    found = np.full(waves, value, np.int64)
    found.flags.writeable = False
    return found


@dataclass
class State:
    """Values by bit of the register mask, of the waves in `waves` [waves]; a lane mask stands at the bit of its lower half."""

    waves: NDArray[np.bool_]
    known: dict[int, Value] = field(default_factory=dict)

    def copy(self) -> State:
        """Independent, but for the arrays, which never change."""
        return State(self.waves, dict(self.known))

    def narrowed(self, waves: NDArray[np.bool_]) -> State:
        """The same for some of the waves."""
        return State(waves, self.known)

    def scalar(self, operand: Operand | Reg) -> Value | None:
        """What a scalar operand of 32 bits holds [waves]."""
        if isinstance(operand, int):
            return _constant(operand & _WORD, len(self.waves))
        if isinstance(operand, Reg) and operand.count == 1:
            value = self.known.get(operand.mask.bit_length() - 1)
            return value if value is not None and value.ndim == 1 else None
        return None

    def vector(self, operand: Operand) -> Value | None:
        """What a source of 32 bits of a vector instruction holds [waves, lanes]."""
        if isinstance(operand, Reg) and operand.file in "va":
            value = self.known.get(operand.mask.bit_length() - 1) if operand.count == 1 else None
            return value if value is not None and value.ndim == 2 else None
        scalar = self.scalar(operand)
        return None if scalar is None else np.broadcast_to(scalar[:, None], (len(scalar), LANES))

    def lanes(self, operand: Operand) -> Value | None:
        """A lane mask [waves, lanes] of 0 and 1."""
        if isinstance(operand, int) and operand in (0, -1):
            return np.full((len(self.waves), LANES), -operand, np.int64)
        if isinstance(operand, Reg) and operand.count == 2:
            value = self.known.get((operand.mask & -operand.mask).bit_length() - 1)
            return value if value is not None and value.ndim == 2 else None
        return None

    @property
    def known_exec(self) -> Value | None:
        """EXEC [waves, lanes], None where not known."""
        return self.known.get(_EXEC)

    @property
    def m0(self) -> Value | None:
        """M0 [waves], None where not known."""
        return self.known.get(_M0)


class WaveValues:
    """The values of a program, solved once. `block` is the size of the workgroup in x, y and z, None where not known: then the first wave
    is followed alone, and v0 is unknown. Lanes beyond its end are taken for there. At the start v0 holds x, y << 10 and z << 20 of the
    work-item (LLVM AMDGPUUsage, "Initial Kernel Execution State").

    `wanted` are the registers that are asked for; what they and the branches do not depend on is passed over. `takes[block]` says which
    waves come to a block [waves].
    """

    def __init__(self, program: Program, flow: ControlFlow, block: tuple[int, int, int] | None = None, wanted: int = 0) -> None:
        self.program = program
        self.flow = flow
        self._matters = _slice(program, wanted | _DECIDING)
        self._mattering = [[program.instructions[position] for position in range(block.first, block.last + 1) if self._matters[position]]
                           for block in flow.blocks]
        self.block = block
        self.waves = 1 if block is None else max(1, min(16, -(-block[0] * block[1] * block[2] // LANES)))
        self._entries: list[State | None] = [None for _ in flow.blocks]
        self._solve()
        none = np.zeros(self.waves, bool)
        self.takes = [none if state is None else state.waves for state in self._entries]

    def _first(self) -> State:
        known = {_EXEC: np.ones((self.waves, LANES), np.int64)}
        if self.block is not None:
            x, y, _ = self.block
            number = np.arange(self.waves * LANES, dtype=np.int64).reshape(self.waves, LANES)
            known[0] = number % x | number // x % y << 10 | number // (x * y) << 20
        return State(np.ones(self.waves, bool), known)

    def _solve(self) -> None:
        flow, program = self.flow, self.program
        if not flow.blocks:
            return
        starts = {0: self._first()}
        if program.entry:
            starts[flow.block_of[program.labels[program.entry]]] = self._first()
        if flow.indirect or any(instruction.name in _CALLS or instruction.name == "s_setpc_b64" for instruction in program.instructions):
            for position in program.labels.values():
                if position < len(flow.block_of) and flow.block_of[position] not in starts:
                    starts[flow.block_of[position]] = State(np.ones(self.waves, bool))
        queue: list[int] = []
        for number, state in starts.items():
            self._entries[number] = state
            heappush(queue, number)
        waiting = set(queue)
        while queue:
            number = heappop(queue)
            waiting.discard(number)
            entry = self._entries[number]
            assert entry is not None
            state = entry.copy()
            for instruction in self._mattering[number]:
                step(state, instruction)
            for successor, waves in self._edges(number, state):
                if waves.any() and self._meet(successor, state.narrowed(waves)) and successor not in waiting:
                    waiting.add(successor)
                    heappush(queue, successor)

    def _edges(self, number: int, state: State) -> list[tuple[int, NDArray[np.bool_]]]:
        block = self.flow.blocks[number]
        last = self.program.instructions[block.last]
        deciding = _BRANCHES.get(last.name)
        value = state.known.get(deciding[0]) if deciding is not None else None
        if deciding is None or value is None or len(block.successors) != 2:
            return [(successor, state.waves) for successor in block.successors]
        shown = value if value.ndim == 1 else value.max(axis=1)
        taken = (shown != 0) == bool(deciding[1])
        target = self.flow.block_of[self.program.labels[last.target]] if last.target is not None else -1
        return [(successor, state.waves & (taken if successor == target else ~taken)) for successor in block.successors]

    def _meet(self, number: int, state: State) -> bool:
        """Take in what comes over an edge; whether that is new."""
        old = self._entries[number]
        if old is None:
            self._entries[number] = state.copy()
            return True
        both = old.waves & state.waves
        known: dict[int, Value] = {}
        for bit, value in old.known.items():
            other = state.known.get(bit)
            if other is value:
                known[bit] = value
            elif other is not None and other.ndim == value.ndim and np.array_equal(value[both], other[both]):
                mask = old.waves if value.ndim == 1 else old.waves[:, None]
                known[bit] = np.where(mask, value, other)
        waves = old.waves | state.waves
        if len(known) == len(old.known) and np.array_equal(waves, old.waves):
            return False
        self._entries[number] = State(waves, known)
        return True

    def at(self, positions: Iterable[int]) -> Iterator[tuple[int, State]]:
        """What holds right before instructions (ascending positions) that some wave comes to; a state is good until the next one."""
        state: State | None = None
        number, here = -1, 0
        for position in positions:
            if self.flow.block_of[position] != number:
                number = self.flow.block_of[position]
                entry, here = self._entries[number], self.flow.blocks[number].first
                state = None if entry is None else entry.copy()
            if state is None:
                continue
            for passed in range(here, position):
                if self._matters[passed]:
                    step(state, self.program.instructions[passed])
            here = position
            yield position, state


def _slice(program: Program, wanted: int) -> list[bool]:
    """By position, whether registers in `wanted` may depend on an instruction, wherever it stands."""
    matters = [instruction.opcode.name in _CALLS for instruction in program.instructions]
    # The last first: most of what an instruction needs stands before it, so that two or three rounds find everything.
    left = [(instruction.writes, instruction.reads, position)
            for position, instruction in enumerate(program.instructions) if instruction.writes][::-1]
    while True:
        rest = []
        for entry in left:
            if entry[0] & wanted:
                wanted |= entry[1]
                matters[entry[2]] = True
            else:
                rest.append(entry)
        if len(rest) == len(left):
            return matters
        left = rest


@lru_cache(maxsize=1 << 12)
def _bits(writes: int) -> tuple[tuple[int, bool], ...]:
    """The bits that values of these registers stand at, each with whether it is one of theirs.

    A lane mask is known by its lower half alone: the bit below a scalar register is there for the mask that it may be the upper half of.
    """
    mask = writes | writes >> SGPR_BIT + 1 << SGPR_BIT
    found = []
    while mask:
        bit = (mask & -mask).bit_length() - 1
        mask &= mask - 1
        found.append((bit, bool(writes >> bit & 1)))
    return tuple(found)


def step(state: State, instruction: Instruction) -> None:
    """Pass one instruction."""
    known, modifiers = state.known, instruction.modifiers
    found = _results(state, instruction) if instruction.form.encoding in _PLAIN and \
        not (modifiers and any(modifiers.get(name) for name in _MODIFIERS)) else None
    if instruction.opcode.name in _CALLS:
        known.clear()
        return
    for bit, own in _bits(instruction.writes):
        if bit in known and (own or known[bit].ndim == 2):
            del known[bit]
    if found:
        known.update(found)


def _results(state: State, instruction: Instruction) -> dict[int, Value]:
    """The values of the registers that an instruction writes, as far as they are known."""
    name = instruction.opcode.name
    if not instruction.operands:
        return {}
    target, *sources = instruction.operands
    if name in _SCALAR and isinstance(target, Reg):
        return _scalar_result(state, name, (target.mask & -target.mask).bit_length() - 1, sources)
    if name.startswith("v_cmp_"):
        return _comparison(state, name, target, sources)
    if name.startswith(("s_cmp_", "s_cmpk_")):
        return _scalar_comparison(state, name, [target, *sources])
    if not isinstance(target, Reg):
        return {}
    bit = (target.mask & -target.mask).bit_length() - 1
    if name == "s_cselect_b32":
        one, other, scc = state.scalar(sources[0]), state.scalar(sources[1]), state.known.get(SCC_BIT)
        return {} if one is None or other is None or scc is None else {bit: np.where(scc != 0, one, other)}
    if name in ("s_addk_i32", "s_mulk_i32"):
        old, (constant,) = state.scalar(target), sources
        if old is None or not isinstance(constant, int):
            return {}
        constant = (constant & 0xFFFF ^ 0x8000) - 0x8000
        return {bit: (old + constant if name == "s_addk_i32" else old * constant) & _WORD}
    if name == "v_readfirstlane_b32":
        value, exec_ = state.vector(sources[0]), state.known.get(_EXEC)
        if value is None or exec_ is None:
            return {}
        return {bit: value[np.arange(len(value)), exec_.argmax(axis=1)]}
    if name in ("v_mbcnt_lo_u32_b32", "v_mbcnt_hi_u32_b32") and sources[0] == -1:
        base, lane = state.vector(sources[1]), np.arange(LANES)
        below = np.minimum(lane, 32) if name == "v_mbcnt_lo_u32_b32" else np.maximum(lane - 32, 0)
        return {} if base is None else _merged(state, bit, base + below)
    if name in _VECTOR:
        if name == "v_add_co_u32":
            sources = sources[1:]
        values = [state.vector(source) for source in sources]
        return {} if any(value is None for value in values) else _merged(state, bit, _VECTOR[name](*values) & _WORD)
    return _mask_result(state, name, bit, target, sources)


def _merged(state: State, bit: int, value: Value) -> dict[int, Value]:
    """A vector result: lanes that EXEC leaves out keep what they held."""
    exec_ = state.known.get(_EXEC)
    if exec_ is None:
        return {}
    if exec_.all():
        return {bit: value}
    old = state.known.get(bit)
    return {} if old is None or old.ndim != 2 else {bit: np.where(exec_ != 0, value, old)}


def _scalar_result(state: State, name: str, bit: int, sources: list[Operand]) -> dict[int, Value]:
    values = [state.scalar(source) for source in sources]
    if any(value is None for value in values):
        return {}
    result = _SCALAR[name](*values) & _WORD
    found = {bit: result}
    if name in _NONZERO:
        found[SCC_BIT] = (result != 0).astype(np.int64)
    elif name in _CARRY:
        found[SCC_BIT] = _CARRY[name](*values).astype(np.int64)
    return found


def _comparison(state: State, name: str, target: Operand, sources: list[Operand]) -> dict[int, Value]:
    relation, kind = name.split("_")[2:4]
    values = [state.vector(source) for source in sources]
    exec_ = state.known.get(_EXEC)
    if kind not in ("u32", "i32") or relation not in _COMPARED or None in [None if value is None else 0 for value in values] or \
            exec_ is None or not isinstance(target, Reg):
        return {}
    one, other = (_signed(value) if kind == "i32" else value for value in values if value is not None)
    return {(target.mask & -target.mask).bit_length() - 1: _COMPARED[relation](one, other).astype(np.int64) & exec_}


def _scalar_comparison(state: State, name: str, sources: list[Operand]) -> dict[int, Value]:
    relation, kind = name.split("_")[2:4]
    constant = sources[1]
    if name.startswith("s_cmpk_") and isinstance(constant, int):
        sources = [sources[0], (constant & 0xFFFF ^ 0x8000) - 0x8000 if kind == "i32" else constant & 0xFFFF]
    one, other = (state.scalar(source) for source in sources)
    if one is None or other is None or kind not in ("u32", "i32") or relation not in _COMPARED:
        return {}
    if kind == "i32":
        one, other = _signed(one), _signed(other)
    return {SCC_BIT: _COMPARED[relation](one, other).astype(np.int64)}


def _mask_result(state: State, name: str, bit: int, target: Reg, sources: list[Operand]) -> dict[int, Value]:
    """64-bit lane masks: moves, logic, EXEC saved and replaced."""
    if not name.endswith("_b64") or target.count != 2:
        return {}
    operation = name.removeprefix("s_").removesuffix("_b64").removesuffix("_saveexec")
    values = [state.lanes(source) for source in sources]
    if name == "s_mov_b64":
        if values[0] is not None:
            return {bit: values[0]}
        pair = _pair(state, sources[0])
        return {} if pair is None else {bit: pair[0], bit + 1: pair[1]}
    if name.endswith("_saveexec_b64"):
        old = state.known.get(_EXEC)
        found = {} if old is None else {bit: old}
        if old is not None and values[0] is not None and operation in _MASKS:
            result = values[0] & (1 - old) if operation == "andn2" else _MASKS[operation](values[0], old)
            found |= {_EXEC: result, SCC_BIT: result.max(axis=1)}
        return found
    if operation not in _MASKS or len(values) != 2:
        return {}
    one, other = values
    if operation == "or" and any(value is not None and value.all() for value in values):  # whatever the other holds
        one = other = np.ones((len(state.waves), LANES), np.int64)
    if one is None or other is None:
        return {}
    result = _MASKS[operation](one, other)
    return {bit: result, SCC_BIT: result.max(axis=1)}


def _pair(state: State, source: Operand) -> tuple[Value, Value] | None:
    """Both words of a scalar operand of 64 bits."""
    if isinstance(source, int):
        low, high = state.scalar(source & _WORD), state.scalar(_WORD if source < 0 else source >> 32)
    elif isinstance(source, Reg) and source.count == 2:
        first = (source.mask & -source.mask).bit_length() - 1
        low, high = state.known.get(first), state.known.get(first + 1)
    else:
        return None
    return None if low is None or high is None or low.ndim != 1 or high.ndim != 1 else (low, high)
