"""Vector instructions as expressions: a hash of what is computed, with which rounding, of which operands.

What is computed counts, not how it is spelled: v_fmac_f32 and v_pk_fma_f32 are fma, a difference is a sum with a negated operand, and sums,
products, minima and maxima of two operands do not depend on their order.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from asmgen.emulator.carried.carrier import HandleCarrier
from asmgen.emulator.carried.operandhandles import OperandSource, destination, half_writer, slots_of, writer
from asmgen.emulator.hashes.expressions import Expressions, Hashes, mixed, named
from asmgen.emulator.hashes.hashedoperands import NEGATED, Hashed, hash_of, hash_of_bytes, made, united, word_of
from asmgen.emulator.hashes.nibblewords import NibbleWord, NibbleWords
from asmgen.emulator.machine.state import Group
from asmgen.emulator.semantics import meaning
from asmgen.emulator.semantics.packedbind import op_bits
from asmgen.emulator.semantics.vectorio import words
from asmgen.isa.modifiers import is_set
from asmgen.isa.registers import Modified, Reg
from asmgen.program.program import Instruction

Action = Callable[[Group], None]
_APPROXIMATED = ("v_exp_", "v_log_", "v_rcp_", "v_rsq_", "v_sqrt_", "v_sin_", "v_cos_")
_COMMUTES = frozenset({"add", "mul", "max", "min", "fma"})
_SAME = {"fmac": "fma", "fmamk": "fma", "fmaak": "fma", "sub": "add", "subrev": "add", "pk_fma": "fma", "pk_add": "add", "pk_mul": "mul"}
_ROUNDING = 0x8003FF  # of MODE: rounding, denormals, DX10_CLAMP, IEEE, FP16_OVFL
_BITS = {"u16": 16, "i16": 16, "b16": 16, "f16": 16, "bf16": 16, "fp8": 16, "bf8": 16, "f64": 64, "b64": 64, "u64": 64, "i64": 64}
_OF_BYTES = re.compile(r"v_cvt_(?:scalef32_)?(pk_)?(?:f32|f16|bf16)_(fp8|bf8|fp4)$")
_IN_HALVES = ("op_sel", "op_sel_hi", "neg_lo", "neg_hi")
"""What instructions that take both halves of registers say of each."""
TWO_HALVES = ("v_cvt_pk_bf16_f32", "v_cvt_pk_f16_f32", "v_cvt_pkrtz_f16_f32")
WORDS = NibbleWords()


class Computation:
    """What an instruction computes of hashes."""

    def __init__(self, instruction: Instruction, carrier: HandleCarrier, halves: bool = False) -> None:
        """With `halves` it takes words whose halves modifiers tell apart."""
        stem, _, kind = instruction.name.removeprefix("v_").rpartition("_")
        self.negates = {"sub": 1, "subrev": 0}.get(stem) if kind[0] == "f" else None
        self.stem = _SAME.get(stem, stem) if kind[0] == "f" else stem
        told = ("clamp", "mul", "div", "bitop3", *(_IN_HALVES if halves else ()))
        said = [f"{key}={value}" for key, value in sorted(instruction.modifiers.items()) if key in told and is_set(value)]
        mode = carrier.machine.binding_mode & _ROUNDING if kind.startswith(("f", "bf")) else 0
        self.hash = mixed(named(f"{self.stem} {kind} {' '.join(said)}"), mode)

    def of(self, given: list[Hashes]) -> Hashes:
        """The result's expression."""
        given = list(given)
        if self.negates is not None:
            given[self.negates] = mixed(NEGATED, given[self.negates])
        if self.stem in _COMMUTES:
            given[:2] = [np.minimum(*given[:2]), np.maximum(*given[:2])]
        return mixed(self.hash, *given)


def bind_vector(instruction: Instruction, carrier: HandleCarrier, table: Expressions) -> Action:
    """Any instruction whose result depends on its lane alone."""
    place, cells = instruction.form.operands[0], carrier.cells
    if place.type == "fp4" or place.type in ("fp8", "bf8") and "_pk_" not in instruction.name:
        return _bind_byte(instruction, carrier, table)
    halves = "_mix" in instruction.name or any(one.type.startswith("v2") for one in instruction.form.operands)
    slots, operation = slots_of(instruction, carrier), Computation(instruction, carrier, halves)
    first = _first_source(instruction, slots[0]) if slots else None
    bits = _BITS.get(place.type, 32)
    registers = 2 if bits == 64 else max(1, place.width)
    put_one = destination(instruction, carrier, bits) if registers == 1 else None
    puts = [writer(instruction, carrier, n) for n in range(registers)]
    moves, always = _moves(instruction), instruction.name.startswith(_APPROXIMATED)

    def step(group: Group) -> None:
        given = [hash_of(slot, group, cells, table) for slot in slots]
        if first is not None:
            given[0] = hash_of_bytes(slots[0], *first, group, cells, table)
        result = united(given, operation.of([one.hashes for one in given]), always)
        if bits == 64 or registers == 1:
            slots_made = made(result, bits // 4, table)
            if moves is not None and result.has.any():
                found = moves([word_of(slot, group, cells) for slot in slots])
                kept = np.zeros(bits // 4, np.uint32) if found.slots is None else found.slots
                slots_made = np.where(np.asarray(found.changed)[..., None], slots_made, kept)
            if put_one is not None:
                put_one(group, slots_made)
                return
            for number, put in enumerate(puts):
                put(group, cells.joined(np.ascontiguousarray(slots_made[..., 8 * number:8 * number + 8])))
            return
        for number, put in enumerate(puts):
            has, data = (np.asarray(union.reduce(part, axis=0) if part.ndim == 3 else part)
                         for union, part in ((np.logical_or, result.has), (np.bitwise_or, result.data)))
            hashes = result.hashes if result.hashes.ndim < 3 else mixed(*result.hashes)
            put(group, cells.joined(made(Hashed(mixed(hashes, number), has, data), 8, table)))

    return step


def _first_source(instruction: Instruction, slot: OperandSource) -> tuple[int, int] | None:
    """Which nibbles a conversion of small floats takes: the first, and how many."""
    match = _OF_BYTES.match(instruction.name)
    if match is None:
        return None
    pair, given = match.groups()
    chosen = (*tuple(instruction.modifiers.get("op_sel") or ()), 0, 0)
    low = 4 * chosen[0] if pair and given != "fp4" else 2 * chosen[0] + 4 * chosen[1]
    return low + slot.low, 4 if pair and given != "fp4" else 2


def _bind_byte(instruction: Instruction, carrier: HandleCarrier, table: Expressions) -> Action:
    """A conversion that puts a byte, or two numbers of four bits, where op_sel says; the register's other bytes stay."""
    chosen = (*tuple(instruction.modifiers.get("op_sel") or ()), 0, 0, 0, 0)
    put = half_writer(instruction, carrier, 2 * chosen[2] + 4 * chosen[3], 2)
    slots, operation, cells = slots_of(instruction, carrier), Computation(instruction, carrier), carrier.cells

    def step(group: Group) -> None:
        given = [hash_of(slot, group, cells, table) for slot in slots]
        put(group, made(united(given, operation.of([one.hashes for one in given])), 2, table))

    return step


def _moves(instruction: Instruction) -> Callable[[list[Any]], NibbleWord] | None:
    """The meaning of an integer instruction on nibbles; None for others."""
    if instruction.name == "v_pack_b32_f16":
        def packed(given: list[Any]) -> NibbleWord:
            low, high = (WORDS.resized(half, 32) for half in given)
            return WORDS.or_(low, WORDS.shl(high, WORDS.number(16, high)))

        return packed
    if instruction.name.startswith("v_bitop3"):
        table = int(instruction.modifiers.get("bitop3") or 0)
        return lambda given: WORDS.bitwise(table, *given)
    means = meaning.VECTOR.get(instruction.name)
    if means is None or instruction.modifiers.get("clamp"):
        return None

    def moves(given: list[Any]) -> NibbleWord:
        found = means(WORDS, *given)
        result: NibbleWord = found[0] if isinstance(found, tuple) else found
        return result

    return moves


def bind_pairs(instruction: Instruction, carrier: HandleCarrier, table: Expressions) -> Action:
    """v_pk_*_f32: two results, each of the registers that op_sel and op_sel_hi name."""
    operation, cells, modifiers = Computation(instruction, carrier), carrier.cells, instruction.modifiers
    halves = [op_bits(modifiers, "op_sel", 0), op_bits(modifiers, "op_sel_hi", 1)]
    signs = [op_bits(modifiers, key, 0) for key in ("neg_lo", "neg_hi")]
    operands = [operand for place, operand in zip(instruction.form.operands, instruction.operands, strict=True) if not place.writes]
    sides = [[_register(carrier, operand, halves[side][n], bool(signs[side][n])) for n, operand in enumerate(operands)] for side in (0, 1)]
    puts = [writer(instruction, carrier, side) for side in (0, 1)]

    def step(group: Group) -> None:
        results = []
        for sources in sides:
            given = [hash_of(source, group, cells, table) for source in sources]
            results.append(made(united(given, operation.of([one.hashes for one in given])), 8, table))
        for put, result in zip(puts, results, strict=True):
            put(group, cells.joined(result))

    return step


def _register(carrier: HandleCarrier, operand: Any, number: int, negate: bool) -> OperandSource:
    """One register of a pair, or a constant for both."""
    if isinstance(operand, Modified):
        raise ValueError("modifiers of a pair")
    chosen = Reg(operand.file, operand.index + number) if isinstance(operand, Reg) else operand
    raw = words(carrier.machine, chosen, "f32", 1)
    shadow = words(carrier.shadow, chosen if isinstance(chosen, Reg) else 0, "b32", 1)
    sign = np.uint32(negate << 31)

    def value(group: Group) -> Any:
        return np.asarray(raw(group), np.uint32) ^ sign

    return OperandSource("f32", value, raw, lambda group: np.asarray(shadow(group), np.uint32)[None], 0, 8, negate, False)


def bind_two_halves(instruction: Instruction, carrier: HandleCarrier, table: Expressions) -> Action:
    """Conversions of two numbers into two halves: each is that of one number."""
    kind = instruction.name.split("_")[-2]
    rounding = "zero" if "pkrtz" in instruction.name else carrier.machine.binding_mode & _ROUNDING
    operation = named(f"to {kind} from f32 {rounding} {instruction.modifiers.get('clamp')}")
    slots, put, cells = slots_of(instruction, carrier), destination(instruction, carrier, 32), carrier.cells

    def step(group: Group) -> None:
        given = [hash_of(slot, group, cells, table) for slot in slots]
        halves = [made(replace(one, hashes=mixed(operation, one.hashes)), 4, table) for one in given]
        shape = np.broadcast_shapes(*(half.shape for half in halves))
        put(group, np.concatenate([np.broadcast_to(half, shape) for half in halves], axis=-1))

    return step
