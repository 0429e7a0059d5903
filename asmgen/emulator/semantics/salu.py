"""Scalar arithmetic: functions on arrays over waves, [waves], by mnemonic.

A function takes its sources and returns the result, or (result, scc). What an instruction does to SCC is part of its
meaning (CDNA3 ISA, sections 12.1 to 12.4), so it is said here and not in the instruction table, which only lists who writes SCC.
Instructions that change EXEC, MODE, M0's index or the program counter are in `scalarstate` and `control`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asmgen.emulator.machine.state import Group, Machine
from asmgen.emulator.semantics.scalarstate import STATE
from asmgen.emulator.semantics.values import fetch_scalar, store_scalar
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction

Step = Callable[[Group], None]
Values = Any  # arrays over waves; a constant is an array of shape ()

_U64 = np.uint64


def _nonzero(function: Callable[..., Values]) -> Callable[..., tuple[Values, Values]]:
    """The most common rule: SCC says whether the result differs from 0."""

    def both(*sources: Values) -> tuple[Values, Values]:
        value = function(*sources)
        return value, value != 0

    return both


def _add(a: Values, b: Values) -> tuple[Values, Values]:
    total = a + b
    return total, total < a


def _add_signed(a: Values, b: Values) -> tuple[Values, Values]:
    total = a + b
    return total, ((a ^ total) & (b ^ total)) < 0


def _subtract_signed(a: Values, b: Values) -> tuple[Values, Values]:
    total = a - b
    return total, ((a ^ b) & (a ^ total)) < 0


def _add_carry(a: Values, b: Values, carry: Values) -> tuple[Values, Values]:
    total = a.astype(_U64) + b.astype(_U64) + carry.astype(_U64)
    return total.astype(np.uint32), total > 0xFFFFFFFF


def _subtract_borrow(a: Values, b: Values, carry: Values) -> tuple[Values, Values]:
    taken = b.astype(_U64) + carry.astype(_U64)
    return (a.astype(_U64) - taken).astype(np.uint32), taken > a


def _shifted_add(shift: int) -> Callable[[Values, Values], tuple[Values, Values]]:
    def function(a: Values, b: Values) -> tuple[Values, Values]:
        total = (a.astype(_U64) << _U64(shift)) + b
        return total.astype(np.uint32), total > 0xFFFFFFFF

    return function


def _low5(count: Values) -> Values:
    return count & np.uint32(31)


def _low6(count: Values) -> Values:
    return (count & np.uint32(63)).astype(_U64)


def _mask32(width: Values) -> Values:
    """`width` low bits set, all of them from 32 on."""
    return ((_U64(1) << np.minimum(width, 32).astype(_U64)) - _U64(1)).astype(np.uint32)


def _mask64(width: Values) -> Values:
    """`width` low bits set, all of them from 64 on."""
    wide = width.astype(_U64)
    return np.where(wide >= 64, ~_U64(0), (_U64(1) << (wide & _U64(63))) - _U64(1))


def _extract(a: Values, field: Values) -> Values:
    """S1 names the field: first bit in 4:0, width in 22:16."""
    return a >> _low5(field) & _mask32(field >> np.uint32(16) & np.uint32(127))


def _extract_signed(a: Values, field: Values) -> Values:
    width = np.minimum(field >> np.uint32(16) & np.uint32(127), 32)
    moved = (a.astype(np.int64) >> (field & np.uint32(31)).astype(np.int64)) & _mask32(width).astype(np.int64)
    spare = (64 - width).astype(np.int64)
    return np.where(width == 0, 0, moved << (spare & 63) >> (spare & 63)).astype(np.int32)


def _extract64(a: Values, field: Values) -> Values:
    return a >> _low6(field) & _mask64(field >> np.uint32(16) & np.uint32(127))


def _extract_signed64(a: Values, field: Values) -> Values:
    width = np.minimum(field >> np.uint32(16) & np.uint32(127), 64)
    moved = (a >> _low6(field).astype(np.int64)) & _mask64(width).view(np.int64)
    spare = (64 - width).astype(np.int64)
    return np.where(width == 0, 0, moved << (spare & 63) >> (spare & 63))


def _absolute_difference(a: Values, b: Values) -> Values:
    return np.abs(a - b)  # the difference wraps, and the smallest integer is its own absolute value, as in the ISA's examples


def _bits(a: Values) -> Values:
    """The bits of a 32- or 64-bit value, lowest first, along a new last axis."""
    width = a.dtype.itemsize * 8
    return (a[..., None] >> np.arange(width, dtype=a.dtype)) & a.dtype.type(1)


def _joined(bits: Values, dtype: Any) -> Values:
    """What `_bits` took apart, in an integer of the given type."""
    element = np.dtype(dtype)
    places = np.arange(bits.shape[-1], dtype=element)
    return np.bitwise_or.reduce(bits.astype(element) << places, axis=-1)


def _whole_quads(a: Values) -> Values:
    quads = _bits(a).reshape(*a.shape, -1, 4).any(axis=-1)
    return _joined(np.repeat(quads, 4, axis=-1), a.dtype)


def _quad_mask(a: Values) -> Values:
    return _joined(_bits(a).reshape(*a.shape, -1, 4).any(axis=-1), a.dtype)


def _reversed(a: Values) -> Values:
    return _joined(_bits(a)[..., ::-1], a.dtype)


def _count_ones(a: Values) -> Values:
    return np.bitwise_count(a).astype(np.int32)


def _first_one(a: Values) -> Values:
    """The number of the lowest set bit, -1 where there is none."""
    below = np.bitwise_count((a & (~a + a.dtype.type(1))) - a.dtype.type(1)).astype(np.int32)
    return np.where(a == 0, np.int32(-1), below)


def _leading_zeros(a: Values) -> Values:
    """How many zeros stand before the highest set bit, -1 where there is none."""
    return _first_one(_reversed(a))


def _sign_run(a: Values) -> Values:
    """How many of the leading bits equal the sign, -1 where all do."""
    unsigned = a.view(f"u{a.dtype.itemsize}")
    return _leading_zeros(np.where(a < 0, ~unsigned, unsigned))


def _set_bit(value: int, width: int) -> Callable[[Values, Values], Values]:
    def function(old: Values, place: Values) -> Values:
        bit = old.dtype.type(1) << (place & np.uint32(width - 1)).astype(old.dtype)
        return old | bit if value else old & ~bit

    return function


def _bit_is(value: int, width: int) -> Callable[[Values, Values], Values]:
    def function(a: Values, place: Values) -> Values:
        return (a >> (place & np.uint32(width - 1)).astype(a.dtype) & a.dtype.type(1)) == value

    return function


def _pack(first: int, second: int) -> Callable[[Values, Values], Values]:
    def function(a: Values, b: Values) -> Values:
        low, high = a >> np.uint32(16 * first) & np.uint32(0xFFFF), b >> np.uint32(16 * second) & np.uint32(0xFFFF)
        return low | high << np.uint32(16)

    return function


def _both_widths(stem: str, function: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    return {f"{stem}_b32": _nonzero(function), f"{stem}_b64": _nonzero(function)}


SCALAR: dict[str, Callable[..., Any]] = {
    "s_mov_b32": lambda a: a,
    "s_mov_b64": lambda a: a,
    **_both_widths("s_not", lambda a: ~a),
    **_both_widths("s_wqm", _whole_quads),
    **_both_widths("s_quadmask", _quad_mask),
    "s_brev_b32": _reversed,
    "s_brev_b64": _reversed,
    "s_bcnt0_i32_b32": _nonzero(lambda a: _count_ones(~a)),
    "s_bcnt0_i32_b64": _nonzero(lambda a: _count_ones(~a)),
    "s_bcnt1_i32_b32": _nonzero(_count_ones),
    "s_bcnt1_i32_b64": _nonzero(_count_ones),
    "s_ff0_i32_b32": lambda a: _first_one(~a),
    "s_ff0_i32_b64": lambda a: _first_one(~a),
    "s_ff1_i32_b32": _first_one,
    "s_ff1_i32_b64": _first_one,
    "s_flbit_i32_b32": _leading_zeros,
    "s_flbit_i32_b64": _leading_zeros,
    "s_flbit_i32": _sign_run,
    "s_flbit_i32_i64": _sign_run,
    "s_sext_i32_i8": lambda a: a.astype(np.int8).astype(np.int32),
    "s_sext_i32_i16": lambda a: a.astype(np.int16).astype(np.int32),
    "s_bitset0_b32": _set_bit(0, 32),
    "s_bitset0_b64": _set_bit(0, 64),
    "s_bitset1_b32": _set_bit(1, 32),
    "s_bitset1_b64": _set_bit(1, 64),
    "s_abs_i32": _nonzero(np.abs),
    "s_bitreplicate_b64_b32": lambda a: _joined(np.repeat(_bits(a), 2, axis=-1), np.uint64),
    "s_add_u32": _add,
    "s_add_i32": _add_signed,
    "s_sub_u32": lambda a, b: (a - b, b > a),
    "s_sub_i32": _subtract_signed,
    "s_min_u32": lambda a, b: (np.minimum(a, b), a < b),
    "s_min_i32": lambda a, b: (np.minimum(a, b), a < b),
    "s_max_u32": lambda a, b: (np.maximum(a, b), a >= b),
    "s_max_i32": lambda a, b: (np.maximum(a, b), a >= b),
    **_both_widths("s_and", lambda a, b: a & b),
    **_both_widths("s_or", lambda a, b: a | b),
    **_both_widths("s_xor", lambda a, b: a ^ b),
    **_both_widths("s_andn2", lambda a, b: a & ~b),
    **_both_widths("s_orn2", lambda a, b: a | ~b),
    **_both_widths("s_nand", lambda a, b: ~(a & b)),
    **_both_widths("s_nor", lambda a, b: ~(a | b)),
    **_both_widths("s_xnor", lambda a, b: ~(a ^ b)),
    "s_lshl_b32": _nonzero(lambda a, b: a << _low5(b)),
    "s_lshr_b32": _nonzero(lambda a, b: a >> _low5(b)),
    "s_ashr_i32": _nonzero(lambda a, b: a >> _low5(b).astype(np.int32)),
    "s_lshl_b64": _nonzero(lambda a, b: a << _low6(b)),
    "s_lshr_b64": _nonzero(lambda a, b: a >> _low6(b)),
    "s_ashr_i64": _nonzero(lambda a, b: a >> _low6(b).astype(np.int64)),
    "s_bfm_b32": lambda a, b: _mask32(_low5(a)) << _low5(b),
    "s_bfm_b64": lambda a, b: _mask64(a & np.uint32(63)) << _low6(b),
    "s_mul_i32": lambda a, b: a * b,
    "s_mul_hi_u32": lambda a, b: (a.astype(_U64) * b.astype(_U64) >> _U64(32)).astype(np.uint32),
    "s_mul_hi_i32": lambda a, b: (a.astype(np.int64) * b.astype(np.int64) >> np.int64(32)).astype(np.int32),
    "s_bfe_u32": _nonzero(_extract),
    "s_bfe_i32": _nonzero(_extract_signed),
    "s_bfe_u64": _nonzero(_extract64),
    "s_bfe_i64": _nonzero(_extract_signed64),
    "s_absdiff_i32": _nonzero(_absolute_difference),
    **{f"s_lshl{n}_add_u32": _shifted_add(n) for n in (1, 2, 3, 4)},
    "s_pack_ll_b32_b16": _pack(0, 0),
    "s_pack_lh_b32_b16": _pack(0, 1),
    "s_pack_hh_b32_b16": _pack(1, 1),
    "s_movk_i32": lambda value: value,
    "s_addk_i32": _add_signed,
    "s_mulk_i32": lambda old, value: old * value,
}
"""By mnemonic: sources to the result, or to (result, scc). One that keeps part of its destination takes that first."""

WITH_SCC: dict[str, Callable[..., Any]] = {
    "s_addc_u32": lambda scc, a, b: _add_carry(a, b, scc),
    "s_subb_u32": lambda scc, a, b: _subtract_borrow(a, b, scc),
    "s_cselect_b32": lambda scc, a, b: np.where(scc, a, b),
    "s_cselect_b64": lambda scc, a, b: np.where(scc, a, b),
    "s_cmov_b32": lambda scc, old, a: np.where(scc, a, old),
    "s_cmov_b64": lambda scc, old, a: np.where(scc, a, old),
    "s_cmovk_i32": lambda scc, old, value: np.where(scc, value, old),
}
"""The same for those that read SCC: it is the first argument, booleans [waves]."""

COMPARE: dict[str, Callable[[Values, Values], Values]] = {
    "eq": np.equal, "lg": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}
"""Comparisons by the middle part of the mnemonic (s_cmp_lt_i32, s_cmpk_eq_u32)."""

BIT_COMPARE: dict[str, Callable[[Values, Values], Values]] = {
    f"s_bitcmp{value}_b{width}": _bit_is(value, width) for value in (0, 1) for width in (32, 64)
}


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
    places = instruction.form.operands
    sources = scalar_sources(instruction, machine)
    if places[0].reads:
        sources.insert(0, fetch_scalar(machine, destination, places[0].type))
    store = store_scalar(machine, destination, places[0].type)
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
    for place, operand in zip(instruction.form.operands[1:], instruction.operands[1:], strict=True):
        if "n" in place.accepts and isinstance(operand, int):
            fixed = np.array((operand & 0xFFFF ^ 0x8000) - 0x8000, np.int32)
            found.append(_constant(fixed))
        else:
            found.append(fetch_scalar(machine, operand, place.type))
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
