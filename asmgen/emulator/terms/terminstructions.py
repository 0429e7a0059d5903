"""Vector and scalar instructions on terms."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from asmgen.emulator.carried.carrier import HandleCarrier
from asmgen.emulator.carried.cells import UNKNOWN, Handles, whole
from asmgen.emulator.carried.comparisons import compared
from asmgen.emulator.carried.operandhandles import slots_of, writer
from asmgen.emulator.machine.state import EXEC, LANES, Group
from asmgen.emulator.semantics import meaning
from asmgen.emulator.semantics.crosslane import first_active
from asmgen.emulator.semantics.salu import scalar_sources
from asmgen.emulator.semantics.values import fetch_scalar
from asmgen.emulator.shadow.shadowvector import blank
from asmgen.emulator.terms.polynomials import Term
from asmgen.emulator.terms.termstate import LANE_BITS, TermState
from asmgen.emulator.terms.termwords import TermFlag, TermWord
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction

Action = Callable[[Group], None]
_NARROW_FACTOR = 24
"""Bits of a factor of v_mul_u32_u24 and its like."""
_NARROW = ("u16", "i16", "b16")
_NOTHING = np.zeros((1, 1), np.uint32)
_TO_EXEC = re.compile("s_(and|or|xor|nand|nor|xnor)(n1|n2|)_(save|wr)exec_b64")


def bind_vector(instruction: Instruction, means: meaning.Meaning, carrier: HandleCarrier, state: TermState) -> Action | None:
    """An integer instruction by what it `means`; None for results in a part of a register."""
    kind, name, machine = instruction.form.operands[0].type, instruction.name, carrier.machine
    part = instruction.form.encoding == "SDWA" and instruction.modifiers.get("dst_sel", "DWORD") != "DWORD"
    if kind in _NARROW or name.endswith("_i24") or part:
        return None
    slots = slots_of(instruction, carrier)
    puts = [writer(instruction, carrier, n) for n in range(2 if "64" in kind else 1)]
    flags = next((operand for spec, operand, _, writes in instruction.accesses[1:] if writes and isinstance(operand, Reg)), None)
    carried = instruction.operands[-1] if name.startswith(("v_addc", "v_subb")) else None
    all_lanes = name.startswith("v_mbcnt_") and instruction.operands[1] == -1
    narrow = 2 if name.endswith("_u24") else 0

    def step(group: Group) -> None:
        given = [state.of(slot, group) for slot in slots]
        for word in given[:narrow]:
            for number in () if word.ids is None else np.unique(word.ids):
                term = state.table.terms[number]
                if term is not None:
                    state.table.algebra.lose(term, _NARROW_FACTOR)
        if isinstance(carried, Reg):
            given[-1] = TermFlag(given[-1].value, state.carries(machine, carried.index, group))
        found: Any = _lanes_below(state, given[1], name.startswith("v_mbcnt_hi")) if all_lanes else means(state.words, *given)
        flag = None
        if isinstance(found, tuple):
            found, flag = found
        for put, ids in zip(puts, [found.ids] if len(puts) == 1 else state.halves(found), strict=True):
            put(group, _NOTHING if ids is None else ids)
        if flags is not None and flags.file == "s":
            carrier.shadow.scalar[flags.index:flags.index + 2, group.select] = 0
            state.keep_carries(machine, flags.index, group, flag)

    return step


def _lanes_below(state: TermState, addend: Any, upper: bool) -> TermWord:
    """v_mbcnt of all lanes: how many lanes of the lower or upper half are below."""
    algebra = state.table.algebra
    bits = [(((number,), 1),) for number in state.item_bits[:LANE_BITS]]
    if len(bits) < LANE_BITS:
        return TermWord(addend.value, np.full(1, UNKNOWN, np.uint32))
    low: Term = ()
    for position, bit in enumerate(bits[:5]):
        low = algebra.add(low, bit, 1 << position)
    within = algebra.mul(bits[5] if upper else algebra.sub(algebra.number(1), bits[5]), low)
    count = within if upper else algebra.add(within, bits[5], 32)
    ids = state.table.applied(("below", upper), lambda term: algebra.add(term, count), state.words.ids_of(addend))
    return TermWord(addend.value, ids)


def bind_function(instruction: Instruction, carrier: HandleCarrier, state: TermState) -> Action | None:
    """A function of its operands' terms: conversions and products of floats by which integers are divided."""
    place = instruction.form.operands[0]
    if place.width > 1 or place.type not in ("f32", "u32", "i32", "b32") or instruction.form.encoding == "SDWA":
        return None
    slots, put, algebra = slots_of(instruction, carrier), writer(instruction, carrier), state.table.algebra
    said = [f"{key}={value}" for key, value in sorted(instruction.modifiers.items()) if value]
    said += [f"{'-' * slot.negate}{'abs ' * slot.absolute}{number}" for number, slot in enumerate(slots) if slot.negate or slot.absolute]
    name = f"{instruction.name}{said or ''}"

    def step(group: Group) -> None:
        given = [state.of(replace(slot, value=slot.raw), group) for slot in slots]
        if all(word.ids is None for word in given):
            put(group, _NOTHING)
            return
        put(group, state.table.applied((name,), lambda *terms: algebra.function(name, *(algebra.truncated(term, 32) for term in terms)),
                                       *(state.words.ids_of(word) for word in given)))

    return step


def bind_to_scalar(instruction: Instruction, carrier: HandleCarrier, state: TermState) -> Action:
    """v_readfirstlane and v_readlane: the term in the lane that is read, whose bits are known."""
    source, target = instruction.operands[1], instruction.operands[0]
    assert isinstance(target, Reg)
    shadow, machine = carrier.shadow, carrier.machine
    slot = machine.slot(source) if isinstance(source, Reg) and source.file in "va" else None
    lane_of = fetch_scalar(machine, instruction.operands[2], "b32") if instruction.name == "v_readlane_b32" else None
    by = instruction.operands[2] if lane_of is not None else None
    index = by.index if isinstance(by, Reg) and by.file == "s" else None

    def step(group: Group) -> None:
        if slot is None:
            shadow.scalar[target.index, group.select] = 0
            return
        if lane_of is not None:
            lanes = np.broadcast_to(lane_of(group), group.size).astype(np.int64) & LANES - 1
        else:
            lanes = np.zeros(group.size, np.int64) if group.mask is None else first_active(group.mask)
        ids = shadow.vector[slot, group.select][np.arange(group.size), lanes]
        ids = np.where(whole(ids), ids, np.uint32(UNKNOWN))
        if index is not None:  # other launches may read other lanes
            chosen = shadow.scalar[index, group.select]
            ids = np.where((chosen == 0) | [state.words.is_constant(number) for number in chosen.tolist()], ids, np.uint32(UNKNOWN))
        closed = np.zeros_like(ids)
        for lane in np.unique(lanes):
            here = (lanes == lane) & (ids != 0)
            closed[here] = state.table.applied(("lane", int(lane)), lambda term, lane=int(lane): state.in_lane(term, lane), ids[here])
        shadow.scalar[target.index, group.select] = closed

    return step


def bind_scalar(instruction: Instruction, carrier: HandleCarrier, state: TermState) -> Action | None:
    """A scalar instruction by its meaning; None for others."""
    name, machine, shadow = instruction.name, carrier.machine, carrier.shadow
    with_scc = name in meaning.WITH_SCC
    means = meaning.WITH_SCC.get(name) or meaning.SCALAR.get(name)
    place, target = instruction.form.operands[0], instruction.operands[0]
    if means is None or not isinstance(target, Reg) or target.file != "s":
        return None
    values = scalar_sources(instruction, machine)
    operands: list[tuple[Any, str]] = [(operand, spec.type) for spec, operand in
                                       list(zip(instruction.form.operands, blank(instruction).operands, strict=True))[1:]]
    if place.reads:
        values.insert(0, fetch_scalar(machine, target, place.type))
        operands.insert(0, (target, place.type))
    handles = [_scalar_handles(carrier, operand, kind) for operand, kind in operands]
    sets_scc, count = "scc" in instruction.opcode.writes, 2 if "64" in place.type else 1

    def step(group: Group) -> None:
        given: list[Any] = [state.word(value(group), handle(group)) for value, handle in zip(values, handles, strict=True)]
        if with_scc:
            given.insert(0, state.scc(machine, group))
        found, flag = means(state.words, *given), None
        if isinstance(found, tuple):
            found, flag = found
        for number, ids in enumerate([found.ids] if count == 1 else state.halves(found)):
            shadow.scalar[target.index + number, group.select] = 0 if ids is None else ids.reshape(-1)
            state.keep_carries(machine, target.index + number, group, None)
        if sets_scc:
            state.keep_scc(machine, group, flag)

    return step


def bind_to_exec(instruction: Instruction, carrier: HandleCarrier, state: TermState) -> Action | None:
    """s_X_saveexec and s_X_wrexec: EXEC, and what is saved or kept of it. SCC then says whether a lane goes on, which data may decide."""
    found, machine, shadow = _TO_EXEC.fullmatch(instruction.name), carrier.machine, carrier.shadow
    if found is None:
        return None
    target, given = instruction.operands
    assert isinstance(target, Reg)
    means, first, saves = meaning.SCALAR[f"s_{found[1]}{'n2' if found[2] else ''}_b64"], found[2] == "n1", found[3] == "save"
    sources = [(fetch_scalar(machine, one, "b64"), _scalar_handles(carrier, one, "b64")) for one in (given, Reg("s", EXEC, 2))]
    sources = sources[::-1] if first else sources

    def step(group: Group) -> None:
        before = shadow.scalar[EXEC:EXEC + 2, group.select].copy()
        result, flag = means(state.words, *(state.word(value(group), handle(group)) for value, handle in sources))
        for number, ids in enumerate(state.halves(result)):
            shadow.scalar[EXEC + number, group.select] = 0 if ids is None else ids.reshape(-1)
        shadow.scalar[target.index:target.index + 2, group.select] = before if saves else shadow.scalar[EXEC:EXEC + 2, group.select]
        for number in range(2):
            state.keep_carries(machine, target.index + number, group, None)
        state.keep_scc(machine, group, flag if flag.ids is not None else None)

    return step


def bind_comparison(instruction: Instruction, carrier: HandleCarrier, state: TermState) -> Action | None:
    """s_cmp, s_cmpk and s_bitcmp: SCC is a term of what they compare. None for others."""
    truth = scalar_truth(instruction, carrier, state)
    return None if truth is None else lambda group: state.keep_scc(carrier.machine, group, truth(group), compared=True)


def scalar_truth(instruction: Instruction, carrier: HandleCarrier, state: TermState) -> Callable[[Group], TermFlag] | None:
    """What s_cmp, s_cmpk and s_bitcmp say; None for others."""
    name, machine, words = instruction.name, carrier.machine, state.words
    if name.startswith(("s_cmp_", "s_cmpk_")):
        _, _, relation, kind = name.split("_")
        means: Any = lambda domain, a, b: domain.compare(relation, kind == "i32", a, b)  # noqa: E731
    elif name in meaning.BIT_COMPARE:
        means = meaning.BIT_COMPARE[name]
    else:
        return None
    kinds = [spec.type for spec in instruction.form.operands]
    sources: list[Any] = list(instruction.operands)
    if name.startswith("s_cmpk_"):  # its 16 bits are extended as the relation compares
        kinds[1] = kinds[0]
        sources[1] = sources[1] % (1 << 16) if kinds[0] == "u32" else (sources[1] + (1 << 15)) % (1 << 16) - (1 << 15)
    values = [fetch_scalar(machine, operand, kind) for operand, kind in zip(sources, kinds, strict=True)]
    handles = [_scalar_handles(carrier, operand, kind) for operand, kind in zip(blank(instruction).operands, kinds, strict=True)]
    return lambda group: means(words, *(state.word(value(group), handle(group)) for value, handle in zip(values, handles, strict=True)))


def vector_truth(instruction: Instruction, carrier: HandleCarrier, state: TermState) -> Callable[[Group], TermFlag] | None:
    """What a comparison of integers says in each lane; None for others."""
    found, slots = compared(instruction.name), slots_of(instruction, carrier)
    if found is None:
        return None
    relation, signed = {"ne": "lg"}.get(found[1], found[1]), instruction.form.operands[-1].type.startswith("i")
    return lambda group: state.words.compare(relation, signed, *(state.of(slot, group) for slot in slots))  # type: ignore[arg-type]


def _scalar_handles(carrier: HandleCarrier, operand: Any, kind: str) -> Callable[[Group], Handles]:
    count = 2 if "64" in kind else 1
    if not isinstance(operand, Reg) or operand.file != "s":
        nothing = np.zeros((count, 1), np.uint32)
        return lambda group: nothing
    first, scalar = operand.index, carrier.shadow.scalar
    return lambda group: scalar[first:first + count, group.select]
