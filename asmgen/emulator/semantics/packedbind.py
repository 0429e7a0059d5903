"""Binds packed and mixed instructions: which half or register of each source goes into which half or register of the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from asmgen.emulator.machine.floatmode import NEAREST_EVEN, FloatMode
from asmgen.emulator.machine.state import Group, Machine
from asmgen.emulator.semantics.dpp import Dpp, parse_dpp
from asmgen.emulator.semantics.fastpath import FAST, fast_flush
from asmgen.emulator.semantics.outputs import clamp, limit_integer
from asmgen.emulator.semantics.packed import DOT, MIXED, PACKED, PACKED_SATURATING
from asmgen.emulator.semantics.values import Fetch
from asmgen.emulator.semantics.vectorio import (
    dpp_mask,
    full,
    modified,
    moved_lanes,
    part,
    source,
    store_field,
    store_typed,
    words,
    write_row,
)
from asmgen.isa.operands import Operand
from asmgen.isa.registers import Modified, Reg
from asmgen.program.program import Instruction

Step = Callable[[Group], None]
Values = Any

_FAST_PAIRS = {"v_pk_fma_f32": "v_fma_f32", "v_pk_mul_f32": "v_mul_f32", "v_pk_add_f32": "v_add_f32"}
_HALF = np.dtype(np.float16)


def is_packed(name: str) -> bool:
    """Whether this module binds the instruction."""
    return name in PACKED or name in MIXED or name == "v_pk_mov_b32" or name in DOT and "f32" in name and not name.startswith("v_dot2c")


def op_bits(modifiers: Mapping[str, Any], name: str, default: int) -> tuple[int, int, int]:
    """The bits of op_sel, op_sel_hi, neg_lo or neg_hi for three sources."""
    given = tuple(int(value) for value in modifiers.get(name) or ())
    filled = given + (default,) * (3 - len(given))
    return filled[0], filled[1], filled[2]


def bind_packed(instruction: Instruction, machine: Machine, mode: FloatMode) -> Step:
    """The step of a packed instruction. Raises ValueError for a form without semantics."""
    name = instruction.name
    if name in MIXED:
        return _bind_mixed(instruction, machine, mode)
    if name in DOT:
        return _bind_dot(instruction, machine, mode)
    if name == "v_pk_mov_b32":
        return _bind_move(instruction, machine)
    if name.endswith("_f32"):
        return _bind_pairs(instruction, machine, mode)
    return _bind_halves(instruction, machine, mode)


def _sources(instruction: Instruction) -> list[tuple[str, Operand]]:
    return [(location.type, operand) for location,
            operand in zip(instruction.form.operands, instruction.operands, strict=True) if not location.writes]


def _signs(modifiers: Mapping[str, Any], number: int) -> tuple[int, int]:
    return op_bits(modifiers, "neg_lo", 0)[number], op_bits(modifiers, "neg_hi", 0)[number]


def _halves(machine: Machine, operand: Operand, kind: str, low: int, high: int, signs: tuple[int, int],
            control: Dpp | None = None) -> Fetch:
    """A source as [waves, 64, 2] of 16-bit elements: the halves that op_sel and op_sel_hi name, negated as neg_lo and neg_hi say.

    Under DPP they come from the lanes that `control` names.
    """
    element = np.dtype({"v2f16": "f2", "v2i16": "i2"}.get(kind, "u2"))
    if isinstance(operand, Modified):
        fetch = modified(words(machine, operand.value, kind, 1), operand, kind)
    else:
        fetch = words(machine, operand, kind, 1)
    if control is not None:
        fetch = moved_lanes(fetch, control)
    if any(signs) and kind != "v2f16":
        raise ValueError(f"neg of a source of type {kind}")
    flip = np.uint32(0x8000 * signs[0] | 0x80000000 * signs[1])

    def halves(group: Group) -> Values:
        register: Values = np.asarray(fetch(group))
        if (low, high) == (0, 1):
            pattern = register
        else:
            bottom = register >> np.uint32(16) if low else register & np.uint32(0xFFFF)
            top = register & np.uint32(0xFFFF0000) if high else register << np.uint32(16)
            pattern = bottom | top
        if flip:
            pattern = pattern ^ flip
        pattern = np.ascontiguousarray(pattern)
        return pattern.reshape(*pattern.shape, 1).view(np.uint16).view(element)

    return halves


def halves_of(instruction: Instruction, machine: Machine) -> list[Fetch]:
    """The sources of an instruction on packed halves, each [waves, 64, 2]; of one that accumulates its destination last."""
    modifiers, form = instruction.modifiers, instruction.form
    control = parse_dpp(modifiers) if form.encoding == "DPP" else None
    low, high = op_bits(modifiers, "op_sel", 0), op_bits(modifiers, "op_sel_hi", 1)
    found = [_halves(machine, operand, kind, low[n], high[n], _signs(modifiers, n), control if n == 0 else None) for n,
             (kind, operand) in enumerate(_sources(instruction))]
    if instruction.name == "v_pk_fmac_f16":
        found.append(_halves(machine, instruction.operands[0], form.operands[0].type, 0, 1, (0, 0)))
    return found


def _bind_halves(instruction: Instruction, machine: Machine, mode: FloatMode) -> Step:
    name, modifiers, form = instruction.name, instruction.modifiers, instruction.form
    if form.encoding == "SDWA" or modifiers.get("mul") or modifiers.get("div"):
        raise ValueError(f"parts of packed halves, or omod of them, in {name}")
    control = parse_dpp(modifiers) if form.encoding == "DPP" else None
    sources = halves_of(instruction, machine)
    kind, destination = form.operands[0].type, instruction.operands[0]
    assert isinstance(destination, Reg)
    clamps = bool(modifiers.get("clamp"))
    function = PACKED[name]
    if clamps and name in PACKED_SATURATING:
        exact = PACKED_SATURATING[name]
        limited = limit_integer(lambda *values: exact(mode, *values), kind[2:])
        function = lambda mode, *values: limited(*values)  # noqa: E731
    floating = kind == "v2f16"
    flush_in, flush_out = floating and mode.flush_wide_in, floating and mode.flush_wide_out
    target = machine.vector[machine.slot(destination)]

    def step(group: Group) -> None:
        values = [fetch(group) for fetch in sources]
        if flush_in:
            values = [fast_flush(value) for value in values]
        result = function(mode, *values)
        if flush_out:
            result = fast_flush(result)
        if clamps and floating:
            result = clamp(mode, result)
        pattern = full(result, (group.size, 64, 2)).view(np.uint32)[..., 0]
        write_row(target, group, pattern, group.mask if control is None else dpp_mask(group, control))

    return step


def _element_of(machine: Machine, operand: Operand, kind: str, second: int) -> Fetch:
    """The first or second register of a pair, as `kind`; a constant stands for both (unconfirmed)."""
    if isinstance(operand, Reg):
        return source(machine, Reg(operand.file, operand.index + second), kind, 1)
    return source(machine, operand, kind, 1)


def _negated(fetch: Fetch, sign: int) -> Fetch:
    return modified(fetch, Modified(0, neg=True), "f32") if sign else fetch


def pair_sides(instruction: Instruction, machine: Machine) -> list[list[Fetch]]:
    """The sources of the first and of the second result of a v_pk_*_f32."""
    modifiers = instruction.modifiers
    low, high = op_bits(modifiers, "op_sel", 0), op_bits(modifiers, "op_sel_hi", 1)
    operands = [operand for _, operand in _sources(instruction)]
    return [[_negated(_element_of(machine, operand, "f32", (low, high)[side][n]), _signs(modifiers, n)[side])
             for n, operand in enumerate(operands)] for side in (0, 1)]


def _bind_pairs(instruction: Instruction, machine: Machine, mode: FloatMode) -> Step:
    """v_pk_*_f32: two independent results; all sources are read before the first is written."""
    name, modifiers = instruction.name, instruction.modifiers
    sides = pair_sides(instruction, machine)
    destination = instruction.operands[0]
    assert isinstance(destination, Reg)
    targets = [machine.vector[machine.slot(destination) + side].view(np.float32) for side in (0, 1)]
    clamps = bool(modifiers.get("clamp"))
    function = PACKED[name]
    kernel = FAST[_FAST_PAIRS[name]](mode) if mode.round32 == NEAREST_EVEN else None

    def compute(group: Group, fetches: list[Fetch]) -> Values:
        shape = (group.size, 64)
        if kernel is not None:
            out = np.empty(shape, np.float32)
            kernel([full(fetch(group), shape) for fetch in fetches], out)
            return out
        values = [fetch(group) for fetch in fetches]
        if mode.flush32_in:
            values = [fast_flush(value) for value in values]
        result = function(mode, *values)
        return fast_flush(result) if mode.flush32_out else result

    def step(group: Group) -> None:
        results = [compute(group, fetches) for fetches in sides]
        for target, result in zip(targets, results, strict=True):
            write_row(target, group, clamp(mode, result) if clamps else result, group.mask)

    return step


def _bind_move(instruction: Instruction, machine: Machine) -> Step:
    """v_pk_mov_b32: op_sel[0] picks the first result's register of the first source, op_sel[1] the second's of the second."""
    chosen, modifiers = op_bits(instruction.modifiers, "op_sel", 0), instruction.modifiers
    if any(modifiers.get("neg_lo") or ()) or any(modifiers.get("neg_hi") or ()) or modifiers.get("clamp"):
        raise ValueError("neg or clamp of registers that are only moved")
    fetches = [_element_of(machine, operand, "b32", chosen[n]) for n, (_, operand) in enumerate(_sources(instruction))]
    destination = instruction.operands[0]
    assert isinstance(destination, Reg)
    targets = [machine.vector[machine.slot(destination) + side] for side in (0, 1)]

    def step(group: Group) -> None:
        values = [np.array(fetch(group)) for fetch in fetches]
        for target, value in zip(targets, values, strict=True):
            write_row(target, group, value, group.mask)

    return step


def _mixed_source(machine: Machine, operand: Operand, wide: int, high: int, mode: FloatMode) -> Fetch:
    """f32, or where op_sel_hi is 1 the f16 in the half that op_sel names; in f32, with neg and abs."""
    plain = operand.value if isinstance(operand, Modified) else operand
    if not wide:
        if isinstance(plain, int) and plain > 64:
            # The bits of an inline f16 constant: the hardware has its number in f32.
            plain = float(np.array(plain, np.uint16).view(np.float16))
        fetch = source(machine, plain, "f32", 1)
        flushed: Fetch = (lambda group: fast_flush(fetch(group))) if mode.flush32_in else fetch
    else:
        register = words(machine, plain, "f16", 1)

        def flushed(group: Group) -> Values:
            value = part(np.asarray(register(group)), high, _HALF)
            return np.asarray(fast_flush(value) if mode.flush_wide_in else value).astype(np.float32)

    return modified(flushed, operand, "f32") if isinstance(operand, Modified) else flushed


def _bind_mixed(instruction: Instruction, machine: Machine, mode: FloatMode) -> Step:
    name, modifiers = instruction.name, instruction.modifiers
    high, wide = op_bits(modifiers, "op_sel", 0), op_bits(modifiers, "op_sel_hi", 0)
    sources = [_mixed_source(machine, operand, wide[n], high[n], mode) for n, (_, operand) in enumerate(_sources(instruction))]
    destination = instruction.operands[0]
    assert isinstance(destination, Reg)
    kind = "f32" if name == "v_fma_mix_f32" else "f16"
    store = store_typed(machine, destination, "f32", 1) if kind == "f32" else store_field(machine, destination,
                                                                                          16 * (name == "v_fma_mixhi_f16"), 16)
    function, clamps, flushes = MIXED[name], bool(modifiers.get("clamp")), mode.flushes_out(kind)

    def step(group: Group) -> None:
        result = function(mode, *[fetch(group) for fetch in sources])
        if flushes:
            result = fast_flush(result)
        store(group, clamp(mode, result) if clamps else result, group.mask)

    return step


def _bind_dot(instruction: Instruction, machine: Machine, mode: FloatMode) -> Step:
    """v_dot2_f32_*: neg_lo and neg_hi turn the halves of the factors, neg_lo the addend."""
    modifiers = instruction.modifiers
    sources: list[Fetch] = []
    for number, (kind, operand) in enumerate(_sources(instruction)):
        low, high = _signs(modifiers, number)
        if number == 2:
            sources.append(_negated(source(machine, operand, "f32", 1), low))
            continue
        fetch = words(machine, operand, kind, 1)
        flip = np.uint32(0x8000 * low | 0x80000000 * high)
        sources.append(_flipped(fetch, flip) if flip else fetch)
    destination = instruction.operands[0]
    assert isinstance(destination, Reg)
    store, function, clamps = store_typed(machine, destination, "f32", 1), DOT[instruction.name], bool(modifiers.get("clamp"))

    def step(group: Group) -> None:
        result = function(mode, *[fetch(group) for fetch in sources])
        store(group, clamp(mode, result) if clamps else result, group.mask)

    return step


def _flipped(fetch: Fetch, flip: np.uint32) -> Fetch:
    def flipped(group: Group) -> Values:
        register: Values = fetch(group)
        return register ^ flip

    return flipped
