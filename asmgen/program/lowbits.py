"""Low bits of scalar registers whose value is not known: of a loop's counter addresses may take bits alone, as its parity.

A sum, a product, a logical function and a shift to the left have as many known low bits as their sources. A mask, a field and a test of a
bit that take no other bits have a known result.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from asmgen.isa.operands import Operand
from asmgen.isa.registers import SCC_BIT, Reg
from asmgen.program.program import Instruction, Program
from asmgen.program.wavestate import WORD, LowBits, State, Value, constant

_ALL = 32
_Known = dict[int, Value]


def _extended(value: Value) -> Value:
    return (value & 0xFFFF ^ 0x8000) - 0x8000


# A low bit of these results follows from the sources' bits up to it. Sources stand as the assembler writes them (CDNA3 ISA, "SOP1" to
# "SOPK").
_UPWARDS: dict[str, Callable[..., Value]] = {
    "s_mov_b32": lambda a: a, "s_not_b32": lambda a: ~a, "s_and_b32": lambda a, b: a & b, "s_or_b32": lambda a, b: a | b,
    "s_xor_b32": lambda a, b: a ^ b, "s_andn2_b32": lambda a, b: a & ~b, "s_add_u32": lambda a, b: a + b, "s_add_i32": lambda a, b: a + b,
    "s_sub_u32": lambda a, b: a - b, "s_sub_i32": lambda a, b: a - b, "s_mul_i32": lambda a, b: a * b,
    "s_lshl1_add_u32": lambda a, b: (a << 1) + b, "s_lshl2_add_u32": lambda a, b: (a << 2) + b,
    "s_lshl3_add_u32": lambda a, b: (a << 3) + b, "s_lshl4_add_u32": lambda a, b: (a << 4) + b,
    "s_addk_i32": lambda a, b: a + _extended(b), "s_mulk_i32": lambda a, b: a * _extended(b)}
_IN_PLACE = frozenset({"s_addk_i32", "s_mulk_i32"})
_MASKS = frozenset({"s_and_b32", "s_andn2_b32"})
_FIELDS = frozenset({"s_lshl_b32", "s_lshr_b32", "s_bfe_u32"})
TESTS = {"s_bitcmp0_b32": 0, "s_bitcmp1_b32": 1}
_BITWISE = _MASKS | {"s_or_b32", "s_xor_b32", "s_not_b32", "s_mov_b32"}


def low_results(state: State, instruction: Instruction) -> tuple[_Known, dict[int, LowBits]]:
    """What an instruction makes of values and low bits: values that are known, and low bits of others, by register."""
    name, operands = instruction.opcode.name, instruction.operands
    if name in TESTS:
        value, count = _source(state, operands[0])
        place = operands[1]
        return ({SCC_BIT: (value >> place & 1 == TESTS[name]).astype(np.int64)}, {}) \
            if isinstance(place, int) and 0 <= place < count else ({}, {})
    target = operands[0] if operands else None
    if name not in _UPWARDS and name not in _FIELDS or not isinstance(target, Reg):
        return {}, {}
    sources = [_source(state, operand) for operand in (operands if name in _IN_PLACE else operands[1:])]
    value, count = _field(name, sources[0], operands[-1]) if name in _FIELDS else _upwards(name, sources)
    bit = target.mask.bit_length() - 1
    if count == _ALL:
        compared = {SCC_BIT: (value != 0).astype(np.int64)} if name in _FIELDS or name in _BITWISE - {"s_mov_b32"} else {}
        return {bit: value} | compared, {}
    return {}, {bit: LowBits(value, count)} if count else {}


def _source(state: State, operand: Operand) -> tuple[Value, int]:
    """A source's low bits and their number, 0 where nothing is known."""
    value = state.scalar(operand)
    if value is not None:
        return value, _ALL
    low = state.low.get(operand.mask.bit_length() - 1) if isinstance(operand, Reg) and operand.count == 1 else None
    return (constant(0, len(state.waves)), 0) if low is None else (low.value, low.count)


def _upwards(name: str, sources: list[tuple[Value, int]]) -> tuple[Value, int]:
    values, count = [value for value, _ in sources], min(count for _, count in sources)
    result = _UPWARDS[name](*values) & WORD
    if name in _MASKS:
        masks = [value if name == "s_and_b32" or number == 0 else ~value & WORD
                 for number, (value, known) in enumerate(sources) if known == _ALL]
        if any(not (mask >> count).any() for mask in masks):
            return result, _ALL
    return result & (1 << count) - 1, count


def _field(name: str, source: tuple[Value, int], how: Operand) -> tuple[Value, int]:
    """Of a shift or field that a constant names."""
    value, count = source
    if not isinstance(how, int) or not count:
        return value, 0
    start = how & 31
    if name == "s_lshl_b32":
        count = min(_ALL, count + start)
        return value << start & (1 << count) - 1, count
    if name == "s_lshr_b32":
        return value >> start, _ALL if count == _ALL else max(0, count - start)
    width = how >> 16 & 127
    return (value >> start & (1 << width) - 1, _ALL) if start + width <= count else (value, 0)


def wanted_low_bits(program: Program) -> dict[int, int]:
    """By scalar register, as a bit of the mask, how many of its low bits masks, fields and tests may take, of what is made of it too."""
    wanted: dict[int, int] = {}
    changed = True
    while changed:
        changed = False
        for instruction in program.instructions:
            for register, count in _asked(instruction, wanted):
                if wanted.get(register, 0) < count:
                    wanted[register] = count
                    changed = True
    return wanted


def _asked(instruction: Instruction, wanted: dict[int, int]) -> list[tuple[int, int]]:
    name, operands = instruction.opcode.name, instruction.operands
    if name not in _UPWARDS and name not in _FIELDS and name not in TESTS or not operands:
        return []
    if name in TESTS:
        sources, count = operands[:1], operands[1] + 1 if isinstance(operands[1], int) and 0 <= operands[1] < _ALL else 0
    else:
        target = operands[0]
        later = wanted.get(target.mask.bit_length() - 1, 0) if isinstance(target, Reg) else 0
        sources, count = operands if name in _IN_PLACE else operands[1:], later
        numbers = [operand for operand in sources if isinstance(operand, int)]
        if name in _FIELDS:
            sources, count = sources[:1], _asked_by_field(name, numbers, later)
        elif name == "s_and_b32" or name == "s_andn2_b32" and isinstance(sources[0], int):
            count = min((number.bit_length() for number in numbers if 0 <= number <= WORD >> 1), default=later)
    return [(operand.mask.bit_length() - 1, count) for operand in sources
            if isinstance(operand, Reg) and operand.file == "s" and operand.count == 1] if count else []


def _asked_by_field(name: str, numbers: list[int], later: int) -> int:
    if not numbers:
        return 0
    start = numbers[-1] & 31
    if name == "s_lshl_b32":
        return max(0, later - start)
    if name == "s_lshr_b32":
        return min(_ALL, later + start) if later else 0
    return min(_ALL, start + (numbers[-1] >> 16 & 127))
