"""How an instruction changes the values that are known of registers: integer arithmetic in 32 bits, comparisons, lane masks."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.isa.arch import LANES
from asmgen.isa.operands import Operand
from asmgen.isa.registers import SCC_BIT, Reg
from asmgen.program.knowncalls import CALLS
from asmgen.program.lowbits import TESTS, low_results
from asmgen.program.program import Instruction
from asmgen.program.wavestate import EXEC_BIT, WORD, LowBits, State, Value, Words, nonzero, together

_PLAIN = frozenset({"SOP1", "SOP2", "SOPK", "SOPC", "VOP1", "VOP2", "VOP3", "VOPC"})
_PARTS = {"BYTE_0": (0, 0xFF), "BYTE_1": (8, 0xFF), "BYTE_2": (16, 0xFF), "BYTE_3": (24, 0xFF), "WORD_0": (0, 0xFFFF),
          "WORD_1": (16, 0xFFFF), "DWORD": (0, WORD)}
"""What SDWA takes of a source: from which bit on, and the bits."""
_TO_AND_FROM_ACC = frozenset({"v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32"})
_MODIFIERS = frozenset({"clamp", "omod", "op_sel", "neg", "abs"})


def _signed(value: Value) -> Value:
    return (value ^ 0x80000000) - 0x80000000


def _field(value: Value, start: Value, width: Value) -> Value:
    return value >> (start & 31) & (1 << (width & 31)) - 1


def _signed_field(value: Value, start: Value, width: Value) -> Value:
    """`width` bits from `start` on, sign-extended; beyond the value's end stands its sign."""
    sign = np.where(width > 0, 1 << np.maximum(width, 1) - 1, 0)
    return (_signed(value) >> (start & 31) & (1 << width) - 1 ^ sign) - sign


def _signed_24(value: Value) -> Value:
    return (value & 0xFFFFFF ^ 0x800000) - 0x800000


def _reversed(value: Value) -> Value:
    """Bit 31 first."""
    for width, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF), (16, 0xFFFF)):
        value = value >> width & mask | (value & mask) << width
    return value


def _high(one: Value, other: Value) -> Value:
    """The upper word of a product of two unsigned words."""
    return (one.astype(np.uint64) * other.astype(np.uint64) >> np.uint64(32)).astype(np.int64)


# Result of an instruction of its sources in the order in which the assembler writes them (ISA, chapters "SOP1" to "VOP3").
_SCALAR: dict[str, Callable[..., Value]] = {
    "s_mov_b32": lambda a: a, "s_movk_i32": lambda a: (a & 0xFFFF ^ 0x8000) - 0x8000, "s_not_b32": lambda a: ~a,
    "s_add_u32": lambda a, b: a + b, "s_add_i32": lambda a, b: a + b, "s_sub_u32": lambda a, b: a - b, "s_sub_i32": lambda a, b: a - b,
    "s_lshl_b32": lambda a, b: a << (b & 31), "s_lshr_b32": lambda a, b: a >> (b & 31),
    "s_ashr_i32": lambda a, b: _signed(a) >> (b & 31), "s_and_b32": lambda a, b: a & b, "s_or_b32": lambda a, b: a | b,
    "s_xor_b32": lambda a, b: a ^ b, "s_andn2_b32": lambda a, b: a & ~b, "s_orn2_b32": lambda a, b: a | ~b,
    "s_mul_i32": lambda a, b: a * b, "s_mul_hi_u32": _high, "s_mul_hi_i32": lambda a, b: _signed(a) * _signed(b) >> 32,
    "s_min_i32": lambda a, b: np.minimum(_signed(a), _signed(b)), "s_max_i32": lambda a, b: np.maximum(_signed(a), _signed(b)),
    "s_abs_i32": lambda a: np.abs(_signed(a)), "s_absdiff_i32": lambda a, b: np.abs(_signed(a - b & WORD)),
    "s_sext_i32_i8": lambda a: (a & 0xFF ^ 0x80) - 0x80, "s_sext_i32_i16": lambda a: (a & 0xFFFF ^ 0x8000) - 0x8000,
    "s_pack_ll_b32_b16": lambda a, b: a & 0xFFFF | (b & 0xFFFF) << 16, "s_pack_lh_b32_b16": lambda a, b: a & 0xFFFF | b & 0xFFFF0000,
    "s_pack_hh_b32_b16": lambda a, b: a >> 16 | b & 0xFFFF0000,
    "s_bfe_u32": lambda a, b: a >> (b & 31) & (1 << np.minimum(b >> 16 & 127, 32)) - 1,
    "s_bfe_i32": lambda a, b: _signed_field(a, b, np.minimum(b >> 16 & 127, 32)),
    "s_lshl1_add_u32": lambda a, b: (a << 1) + b, "s_lshl2_add_u32": lambda a, b: (a << 2) + b,
    "s_lshl3_add_u32": lambda a, b: (a << 3) + b, "s_lshl4_add_u32": lambda a, b: (a << 4) + b,
    "s_min_u32": np.minimum, "s_max_u32": np.maximum, "s_nand_b32": lambda a, b: ~(a & b), "s_nor_b32": lambda a, b: ~(a | b),
    "s_xnor_b32": lambda a, b: ~(a ^ b), "s_bfm_b32": lambda a, b: (1 << (a & 31)) - 1 << (b & 31), "s_brev_b32": _reversed,
}
_VECTOR: dict[str, Callable[..., Value]] = {
    "v_mov_b32": lambda a: a, "v_not_b32": lambda a: ~a, "v_add_u32": lambda a, b: a + b, "v_add_co_u32": lambda a, b: a + b,
    "v_sub_u32": lambda a, b: a - b, "v_subrev_u32": lambda a, b: b - a, "v_lshlrev_b32": lambda a, b: b << (a & 31),
    "v_lshrrev_b32": lambda a, b: b >> (a & 31), "v_ashrrev_i32": lambda a, b: _signed(b) >> (a & 31), "v_and_b32": lambda a, b: a & b,
    "v_or_b32": lambda a, b: a | b, "v_xor_b32": lambda a, b: a ^ b, "v_mul_lo_u32": lambda a, b: a * b,
    "v_mul_u32_u24": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF), "v_mul_hi_u32": _high,
    "v_mul_hi_i32": lambda a, b: _signed(a) * _signed(b) >> 32, "v_min_i32": lambda a, b: np.minimum(_signed(a), _signed(b)),
    "v_max_i32": lambda a, b: np.maximum(_signed(a), _signed(b)),
    "v_alignbit_b32": lambda a, b, c: (a << 32 | b) >> (c & 31), "v_sub_co_u32": lambda a, b: a - b,
    "v_subrev_co_u32": lambda a, b: b - a,
    "v_mad_u32_u24": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c, "v_lshl_add_u32": lambda a, b, c: (a << (b & 31)) + c,
    "v_add_lshl_u32": lambda a, b, c: (a + b & WORD) << (c & 31), "v_lshl_or_b32": lambda a, b, c: a << (b & 31) | c,
    "v_and_or_b32": lambda a, b, c: a & b | c, "v_or3_b32": lambda a, b, c: a | b | c, "v_add3_u32": lambda a, b, c: a + b + c,
    "v_xad_u32": lambda a, b, c: (a ^ b) + c, "v_bfe_u32": _field, "v_bfi_b32": lambda a, b, c: a & b | ~a & c,
    "v_bfe_i32": lambda a, b, c: _signed_field(a, b, c & 31),
    "v_min_u32": np.minimum, "v_max_u32": np.maximum, "v_bfrev_b32": _reversed, "v_xnor_b32": lambda a, b: ~(a ^ b),
    "v_add_i32": lambda a, b: a + b, "v_sub_i32": lambda a, b: a - b, "v_bfm_b32": lambda a, b: (1 << (a & 31)) - 1 << (b & 31),
    "v_mul_i32_i24": lambda a, b: _signed_24(a) * _signed_24(b), "v_mad_i32_i24": lambda a, b, c: _signed_24(a) * _signed_24(b) + c,
    "v_bcnt_u32_b32": lambda a, b: np.bitwise_count(a) + b,
}
_SHORT: dict[str, Callable[[Value, Value], Value]] = {
    "v_add_u16": lambda a, b: a + b, "v_sub_u16": lambda a, b: a - b, "v_subrev_u16": lambda a, b: b - a,
    "v_mul_lo_u16": lambda a, b: a * b, "v_lshlrev_b16": lambda a, b: b << (a & 15),
    "v_lshrrev_b16": lambda a, b: b >> (a & 15), "v_min_u16": np.minimum, "v_max_u16": np.maximum}
"""Of the lower halves of two sources; the upper half of the result is 0 (LLVM's zeroesHigh16BitsOfDest for GFX9)."""
COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal, "lg": np.not_equal, "ne": np.not_equal, "gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal}
"""How s_cmp and v_cmp compare, by the part of their names that says so."""
_LOGIC: dict[str, Callable[[Value, Value], Value]] = {
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "andn2": lambda a, b: a & ~b,
    "orn2": lambda a, b: a | ~b, "nand": lambda a, b: ~(a & b), "nor": lambda a, b: ~(a | b), "xnor": lambda a, b: ~(a ^ b),
    "andn1": lambda a, b: ~a & b, "orn1": lambda a, b: ~a | b}
"""Of s_OP_b64 the two sources, of s_OP_saveexec_b64 and s_OP_wrexec_b64 the source and EXEC (CDNA3 ISA, "SOP1", "SOP2")."""
_SHIFTS: dict[str, Callable[[NDArray[np.uint64], NDArray[np.uint64]], NDArray[np.uint64]]] = {
    "s_lshl_b64": np.left_shift, "s_lshr_b64": np.right_shift}
_CARRY = {"s_add_u32": lambda a, b: a + b > WORD, "s_sub_u32": lambda a, b: b > a}
_CARRYING = ("v_add_co_u32", "v_sub_co_u32", "v_subrev_co_u32")
_NONZERO = ("s_lshl_b32", "s_lshr_b32", "s_ashr_i32", "s_and_b32", "s_or_b32", "s_xor_b32", "s_andn2_b32", "s_orn2_b32", "s_bfe_u32",
            "s_bfe_i32", "s_not_b32", "s_nand_b32", "s_nor_b32", "s_xnor_b32")
_LANES_BELOW = {"v_mbcnt_lo_u32_b32": 0, "v_mbcnt_hi_u32_b32": LANES // 2}
"""By name the lane at which the word of a mask begins that the instruction counts in."""
ANYWHERE = CALLS | {"s_movreld_b32", "s_movreld_b64"}
"""What may write any register: code that is called, and a destination that M0 moves."""


@lru_cache(maxsize=1 << 12)
def _bits(writes: int) -> tuple[int, ...]:
    """The bits of a mask."""
    return tuple(bit for bit in range(writes.bit_length()) if writes >> bit & 1)


def step(state: State, instruction: Instruction) -> None:
    """Pass one instruction."""
    known, modifiers = state.known, instruction.modifiers
    if instruction.opcode.name in ANYWHERE:
        known.clear()
        state.low.clear()
        state.running.clear()
        state.limit = None
        return
    plain = (instruction.form.encoding in _PLAIN or instruction.name in _TO_AND_FROM_ACC or _takes_parts(instruction)) and \
        not (modifiers and any(modifiers.get(name) for name in _MODIFIERS))
    found = _results(state, instruction) if plain else None
    low: dict[int, LowBits] = {}
    running: dict[int, Value] = {}
    if not found and plain:
        running = _running_result(state, instruction)
        if state.low or instruction.opcode.name in TESTS:
            found, low = low_results(state, instruction)
    if instruction.writes >> EXEC_BIT & 3:
        found = (found or {}) | _restored(state, instruction)
        state.limit = None if EXEC_BIT in found and EXEC_BIT + 1 in found else _limit_after(state, instruction)
    for bit in _bits(instruction.writes):
        known.pop(bit, None)
        if state.low:
            state.low.pop(bit, None)
        if state.running:
            state.running.pop(bit, None)
    if instruction.writes >> EXEC_BIT & 3 and state.running and not _keeps_lanes_off(instruction):
        state.running.clear()
    if found:
        known.update(found)
    if low:
        state.low.update(low)
    if running:
        state.running.update(running)


def _takes_parts(instruction: Instruction) -> bool:
    """Whether this is SDWA that takes parts of its sources for a whole result that only they decide."""
    modifiers = instruction.modifiers
    return instruction.form.encoding == "SDWA" and _function(instruction) is not None and \
        modifiers.get("dst_sel") == "DWORD" and modifiers.get("dst_unused") == "UNUSED_PAD"


def _running_result(state: State, instruction: Instruction) -> dict[int, Value]:
    """What a vector instruction writes in the lanes that run, where it is not known which do, or what the others held."""
    name, operands = instruction.opcode.name, instruction.operands
    if name in _LANES_BELOW and isinstance(operands[0], Reg):
        counted = _lanes_below(state, name, operands[1], state.running_vector(operands[2]))
        return {} if counted is None else {operands[0].mask.bit_length() - 1: counted}
    function = (lambda value: value) if name in _TO_AND_FROM_ACC else _function(instruction)
    if function is None or not isinstance(operands[0], Reg):
        return {}
    values = [state.running_vector(source) for source in operands[2 if name in _CARRYING else 1:]]
    return {} if any(value is None for value in values) else {(operands[0].mask & -operands[0].mask).bit_length() - 1:
                                                              function(*values) & WORD}


def _limit_after(state: State, instruction: Instruction) -> tuple[Value, Value] | None:
    """The lanes outside of which none runs after an instruction that writes EXEC."""
    if not _keeps_lanes_off(instruction):
        return None
    low, high = state.pair(EXEC_BIT)
    return state.limit if low is None or high is None else (low, high)


def _restored(state: State, instruction: Instruction) -> dict[int, Value]:
    """EXEC and SCC where a mask is or-ed to EXEC that has all lanes which may run, as at the end of an `if`: then it is EXEC."""
    if instruction.name != "s_or_b64" or state.limit is None:
        return {}
    target, *sources = instruction.operands
    masks = [source for source in sources if not _is_exec(source)]
    if not _is_exec(target) or len(masks) != 1:
        return {}
    low, high = state.words(masks[0])
    if low is None or high is None:
        return {}
    beyond = state.limit[0] & ~low | state.limit[1] & ~high
    return {} if beyond[state.waves].any() else _with_scc(EXEC_BIT, (low, high))


def _is_exec(operand: Operand) -> bool:
    return isinstance(operand, Reg) and operand.count == 2 and operand.mask >> EXEC_BIT & 3 == 3


def _keeps_lanes_off(instruction: Instruction) -> bool:
    """Whether no lane runs after an instruction that writes EXEC that did not run before it (CDNA3 ISA, "SOP1", "SOP2", "VOPC")."""
    name, operands = instruction.opcode.name, instruction.operands
    if name in ("s_and_saveexec_b64", "s_andn1_saveexec_b64") or name.startswith("v_cmpx_"):
        return True
    exec_ = [_is_exec(operand) for operand in operands[1:]]
    return name == "s_and_b64" and any(exec_) or name == "s_andn2_b64" and exec_[0]


def _results(state: State, instruction: Instruction) -> dict[int, Value]:
    """The values of the registers that an instruction writes, as far as they are known."""
    name = instruction.opcode.name
    if not instruction.operands:
        return {}
    target, *sources = instruction.operands
    if name in _SCALAR and isinstance(target, Reg):
        return _scalar_result(state, name, (target.mask & -target.mask).bit_length() - 1, sources)
    if name.startswith(("v_cmp_", "v_cmpx_")):
        return _comparison(state, name, target, sources)
    if name.startswith(("s_cmp_", "s_cmpk_")):
        return _scalar_comparison(state, name, [target, *sources])
    if not isinstance(target, Reg):
        return {}
    bit = (target.mask & -target.mask).bit_length() - 1
    if name == "s_cselect_b32":
        one, other, scc = state.scalar(sources[0]), state.scalar(sources[1]), state.known.get(SCC_BIT)
        return {} if one is None or other is None or scc is None else {bit: np.where(scc != 0, one, other)}
    if name in ("s_cmov_b32", "s_cmovk_i32"):
        new, old, scc = state.scalar(sources[0]), state.scalar(target), state.known.get(SCC_BIT)
        if name == "s_cmovk_i32" and new is not None:
            new = _SCALAR["s_movk_i32"](new) & WORD
        return {} if new is None or old is None or scc is None else {bit: np.where(scc != 0, new, old)}
    if name == "v_readlane_b32":
        value, lane = state.vector(sources[0]), state.scalar(sources[1])
        return {} if value is None or lane is None else {bit: value[np.arange(len(value)), lane & LANES - 1]}
    if name in ("s_addk_i32", "s_mulk_i32"):
        old, (constant,) = state.scalar(target), sources
        if old is None or not isinstance(constant, int):
            return {}
        constant = (constant & 0xFFFF ^ 0x8000) - 0x8000
        return {bit: (old + constant if name == "s_addk_i32" else old * constant) & WORD}
    if name in _TO_AND_FROM_ACC:
        value = state.vector(sources[0])
        return {} if value is None else _merged(state, bit, value)
    if name == "v_readfirstlane_b32":
        value, exec_ = state.vector(sources[0]), state.known_exec
        if value is None or exec_ is None:
            return {}
        return {bit: value[np.arange(len(value)), exec_.argmax(axis=1)]}
    if name in _LANES_BELOW:
        counted = _lanes_below(state, name, sources[0], state.vector(sources[1]))
        return {} if counted is None else _merged(state, bit, counted)
    if name == "v_cndmask_b32":
        lanes, (no, yes) = state.lanes(sources[2]), (state.vector(source) for source in sources[:2])
        return {} if lanes is None or no is None or yes is None else _merged(state, bit, np.where(lanes != 0, yes, no) & WORD)
    function = _function(instruction)
    if function is not None:
        if name in _CARRYING:
            sources = sources[1:]
        values = [state.vector(source) for source in sources]
        return {} if any(value is None for value in values) else _merged(state, bit, function(*values) & WORD)
    if target.count != 2 or target.file != "s":
        return {}
    return _saved_exec(state, name, bit, sources[0]) if name.endswith("exec_b64") else _wide_result(state, name, bit, sources)


def _function(instruction: Instruction) -> Callable[..., Value] | None:
    """What a vector instruction computes of its sources, lane by lane."""
    name = instruction.opcode.name
    if name == "v_bitop3_b32":
        return partial(_bit_function, int(instruction.modifiers.get("bitop3") or 0))
    function = _VECTOR.get(name)
    if name in _SHORT and not any(isinstance(operand, float) for operand in instruction.operands):
        function = partial(_short_function, _SHORT[name])
    if function is None or instruction.form.encoding != "SDWA":
        return function
    parts = [_PARTS[str(instruction.modifiers.get(f"src{number}_sel", "DWORD"))] for number in range(len(instruction.operands) - 1)]
    constant_parts = any(bits != WORD and not isinstance(source, Reg) for (_, bits), source in
                         zip(parts, instruction.operands[1:], strict=True))
    return None if constant_parts or name in _CARRYING else partial(_function_of_parts, function, parts)


def _short_function(function: Callable[[Value, Value], Value], one: Value, other: Value) -> Value:
    return function(one & 0xFFFF, other & 0xFFFF) & 0xFFFF


def _function_of_parts(function: Callable[..., Value], parts: list[tuple[int, int]], *values: Value) -> Value:
    return function(*(value >> start & bits for value, (start, bits) in zip(values, parts, strict=True)))


def _bit_function(table: int, one: Value, two: Value, three: Value) -> Value:
    """Bit {one, two, three} of a truth table, for each bit."""
    found = np.zeros_like(one | two | three)
    for row in range(8):
        if table >> row & 1:
            found |= (one if row & 4 else ~one) & (two if row & 2 else ~two) & (three if row & 1 else ~three)
    return found


def _lanes_below(state: State, name: str, mask: Operand, base: Value | None) -> Value | None:
    """`base` and how many lanes before each have a bit in one word of a lane mask, which is the same for all lanes."""
    word = state.scalar(mask)
    if word is None or base is None:
        return None
    counts = np.cumsum(word[:, None] >> np.arange(LANES // 2) & 1, axis=1)
    before = np.clip(np.arange(LANES) - _LANES_BELOW[name], 0, LANES // 2)
    return base + np.where(before > 0, counts[:, np.maximum(before - 1, 0)], 0) & WORD


def _merged(state: State, bit: int, value: Value) -> dict[int, Value]:
    """A vector result: lanes that EXEC leaves out keep what they held."""
    exec_ = state.known_exec
    if exec_ is None:
        return {}
    if exec_.all():
        return {bit: value}
    old = state.known.get(bit)
    return {} if old is None else {bit: np.where(exec_ != 0, value, old)}


def _scalar_result(state: State, name: str, bit: int, sources: list[Operand]) -> dict[int, Value]:
    values = [state.scalar(source) for source in sources]
    if any(value is None for value in values):
        return {}
    result = _SCALAR[name](*values) & WORD
    found = {bit: result}
    if name in _NONZERO:
        found[SCC_BIT] = (result != 0).astype(np.int64)
    elif name in _CARRY:
        found[SCC_BIT] = _CARRY[name](*values).astype(np.int64)
    return found


def _comparison(state: State, name: str, target: Operand, sources: list[Operand]) -> dict[int, Value]:
    """The lanes that EXEC leaves out get 0, so what those hold that run is enough."""
    relation, kind = name.split("_")[2:4]
    values = [state.running_vector(source) for source in sources]
    exec_ = state.known_exec
    if kind not in ("u32", "i32") or relation not in COMPARED or None in [None if value is None else 0 for value in values] or \
            exec_ is None or not isinstance(target, Reg):
        return {}
    one, other = (_signed(value) if kind == "i32" else value for value in values if value is not None)
    words = together(COMPARED[relation](one, other).astype(np.int64) & exec_)
    bit = (target.mask & -target.mask).bit_length() - 1
    return {location + word: words[word] for location in ((bit, EXEC_BIT) if name.startswith("v_cmpx_") else (bit,)) for word in (0, 1)}


def _scalar_comparison(state: State, name: str, sources: list[Operand]) -> dict[int, Value]:
    relation, kind = name.split("_")[2:4]
    constant = sources[1]
    if name.startswith("s_cmpk_") and isinstance(constant, int):
        sources = [sources[0], (constant & 0xFFFF ^ 0x8000) - 0x8000 if kind == "i32" else constant & 0xFFFF]
    one, other = (state.scalar(source) for source in sources)
    if one is None or other is None or kind not in ("u32", "i32") or relation not in COMPARED:
        return {}
    if kind == "i32":
        one, other = _signed(one), _signed(other)
    return {SCC_BIT: COMPARED[relation](one, other).astype(np.int64)}


def _wide_result(state: State, name: str, bit: int, sources: list[Operand]) -> dict[int, Value]:
    """A scalar result of 64 bits."""
    if name == "s_mov_b64":
        return _placed(bit, state.words(sources[0]))
    if name == "s_cselect_b64":
        scc, one, other = state.known.get(SCC_BIT), state.words(sources[0]), state.words(sources[1])
        return {} if scc is None else _placed(bit, (_selected(scc, one[0], other[0]), _selected(scc, one[1], other[1])))
    if name == "s_bfm_b64":
        size, start = (state.scalar(source) for source in sources)
        return {} if size is None or start is None else _placed(bit, _split((np.uint64(1) << _count(size)) - np.uint64(1) << _count(start)))
    if name in _SHIFTS:
        low, high = state.words(sources[0])
        count = state.scalar(sources[1])
        if low is None or high is None or count is None:
            return {}
        return _with_scc(bit, _split(_SHIFTS[name](low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32), _count(count))))
    operation = name.removeprefix("s_").removesuffix("_b64")
    if name == "s_not_b64":
        return _with_scc(bit, _logic("nor", state.words(sources[0]), state.words(0)))
    if operation in _LOGIC and len(sources) == 2:
        return _with_scc(bit, _logic(operation, state.words(sources[0]), state.words(sources[1])))
    return {}


def _saved_exec(state: State, name: str, bit: int, source: Operand) -> dict[int, Value]:
    """s_OP_saveexec_b64 keeps the old EXEC, s_OP_wrexec_b64 the new one."""
    operation, kind, _ = name.removeprefix("s_").split("_")
    if bit == EXEC_BIT or operation not in _LOGIC:
        return {}
    old = state.pair(EXEC_BIT)
    words = _logic(operation, state.words(source), old)
    return _placed(bit, old if kind == "saveexec" else words) | _with_scc(EXEC_BIT, words)


def _logic(operation: str, one: Words, other: Words) -> Words:
    """Bitwise, word by word. A word is also known where an unknown one has no say: its bits all 0 and all 1 give the same."""
    low, high = (_logic_word(_LOGIC[operation], *words) for words in zip(one, other, strict=True))
    return low, high


def _logic_word(function: Callable[[Value, Value], Value], one: Value | None, other: Value | None) -> Value | None:
    if one is None and other is None:
        return None
    some = one if one is not None else other
    assert some is not None
    extremes = np.zeros_like(some), np.full_like(some, WORD)
    results = [function(first, second) & WORD for first in (extremes if one is None else (one,))
               for second in (extremes if other is None else (other,))]
    return results[0] if all(np.array_equal(results[0], result) for result in results) else None


def _selected(scc: Value, one: Value | None, other: Value | None) -> Value | None:
    return None if one is None or other is None else np.where(scc != 0, one, other)


def _count(value: Value) -> NDArray[np.uint64]:
    return (value & 63).astype(np.uint64)


def _split(value: NDArray[np.uint64]) -> Words:
    return (value & np.uint64(WORD)).astype(np.int64), (value >> np.uint64(32)).astype(np.int64)


def _placed(bit: int, words: Words) -> dict[int, Value]:
    return {bit + number: word for number, word in enumerate(words) if word is not None}


def _with_scc(bit: int, words: Words) -> dict[int, Value]:
    """A result that sets SCC where it is not 0."""
    scc = nonzero(words)
    return _placed(bit, words) | ({} if scc is None else {SCC_BIT: scc})
