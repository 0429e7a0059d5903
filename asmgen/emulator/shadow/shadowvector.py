"""How vector and scalar ALU instructions pass undefined bits on: bound once, run on groups of waves before the instruction itself.

The undefined bits of all registers stand in a second `Machine`, the shadow, register for register, 1 for undefined. So what finds
sources and destinations (halves, SDWA, DPP, lanes) serves for both, and what only moves registers runs on the shadow as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from asmgen.emulator.machine.floatmode import float_mode
from asmgen.emulator.machine.state import EXEC, VCC, Group, Machine
from asmgen.emulator.semantics.crosslane import CROSS_LANE
from asmgen.emulator.semantics.dpp import Dpp, dpp_of
from asmgen.emulator.semantics.packed import DOT, MIXED
from asmgen.emulator.semantics.packedbind import bind_packed, halves_of, is_packed, pair_sides
from asmgen.emulator.semantics.salu import scalar_sources
from asmgen.emulator.semantics.scalarstate import SAVE_EXEC
from asmgen.emulator.semantics.valu import ACCUMULATING, vector_destination, vector_source
from asmgen.emulator.semantics.values import NUMPY_TYPES, Fetch, fetch_lane_mask, fetch_scalar, store_lane_mask, store_scalar
from asmgen.emulator.semantics.vectorio import dpp_mask, is_words, source, write_row
from asmgen.emulator.shadow import shadowinteger
from asmgen.emulator.shadow.bitshadow import Bits, Values, bitwise, compare, merged, table_of
from asmgen.isa.operands import Operand, Special
from asmgen.isa.registers import Modified, Reg
from asmgen.program.program import Instruction

Action = Callable[[Group], None]
_SPARE = Reg("s", 122)  # a trap register, which no kernel has: the lane that a shadow instruction reads

# Conversions and packings of two sources into the two halves of a register.
_HALVES = ("v_cvt_pk_", "v_cvt_pkrtz_", "v_cvt_pknorm_", "v_pack_b32_f16")


def blank(instruction: Instruction) -> Instruction:
    """The instruction on shadows: constants are defined, so they are 0, and signs are left alone."""
    specs = zip(instruction.form.operands, instruction.operands, strict=True)
    return replace(instruction, operands=tuple(operand if spec.writes else _blank(operand) for spec, operand in specs))


def _blank(operand: Operand) -> Operand:
    if isinstance(operand, Modified):
        value = _blank(operand.value)
        return replace(operand, value=value, neg=False, abs=False) if isinstance(value, Reg) and operand.sext else value
    if isinstance(operand, Special) and operand.name in ("src_scc", "src_vccz"):
        return operand
    return operand if isinstance(operand, Reg) else 0


def bind_vector_shadow(instruction: Instruction, machine: Machine, shadow: Machine) -> Action:
    """Of a vector ALU instruction. Raises one of decode.UNBINDABLE for a form that is not known."""
    name = instruction.name
    plain = blank(instruction)
    shadow.binding_mode = machine.binding_mode
    if name in ("v_readlane_b32", "v_writelane_b32"):
        return _bind_lane(instruction, machine, shadow)
    if name in CROSS_LANE:
        return CROSS_LANE[name](plain, shadow)
    if name.startswith(("v_cmp_", "v_cmpx_")):
        return _bind_compare(instruction, plain, machine, shadow)
    if name == "v_pk_mov_b32":
        return bind_packed(plain, shadow, float_mode(machine.binding_mode))
    if is_packed(name) and name not in MIXED and name not in DOT:
        return _bind_pairs(plain, shadow) if name.endswith("_f32") else _bind_halves(instruction, plain, machine, shadow)
    return _bind_plain(instruction, plain, machine, shadow)


def _fetches(instruction: Instruction, machine: Machine, control: Dpp | None) -> list[Fetch]:
    """Sources in order, the destination after them where it is one."""
    specs = [(spec, operand) for spec, operand in zip(instruction.form.operands, instruction.operands, strict=True)]
    name = instruction.name
    mixed = name in MIXED
    found = []
    for number, (spec, operand) in enumerate(pair for pair in specs if not pair[0].writes):
        if mixed:
            found.append(source(machine, operand, "b32", 1))
        elif isinstance(operand, Special) and operand.name == "src_vccz":
            found.append(_undefined_zero(machine))
        else:
            found.append(vector_source(instruction, machine, spec, operand, number, control))
    spec, destination = specs[0]
    if name in ACCUMULATING:
        found.append(source(machine, destination, spec.type, spec.width))
    if name.startswith("v_div_fmas"):
        found.append(fetch_lane_mask(machine, Reg("s", VCC, 2)))
    return found


def _undefined_zero(shadow: Machine) -> Fetch:
    return lambda group: ((shadow.scalar[VCC, group.select] | shadow.scalar[VCC + 1, group.select]) != 0).astype(np.uint32)[:, None]


def _bind_plain(instruction: Instruction, plain: Instruction, machine: Machine, shadow: Machine) -> Action:
    name = instruction.name
    control = dpp_of(instruction.form.encoding, instruction.modifiers)
    shadows = _fetches(plain, shadow, control)
    spec, destination = instruction.form.operands[0], instruction.operands[0]
    assert isinstance(destination, Reg)
    store = vector_destination(plain, shadow, spec, destination) if name not in MIXED else _mixed_destination(plain, shadow, destination)
    rest = list(zip(instruction.form.operands, instruction.operands, strict=True))[1:]
    carry = next((store_lane_mask(shadow, operand) for spec, operand in rest if spec.writes and isinstance(operand, Reg)), None)
    exact = None if instruction.modifiers.get("clamp") else _exact(instruction)
    element = np.dtype(np.uint32 if is_words(spec.type) or name in MIXED else NUMPY_TYPES[spec.type])
    many = spec.width if is_words(spec.type) and spec.width > 1 else 0
    reals = _fetches(instruction, machine, control) if exact is not None else []
    in_halves = name.startswith(_HALVES) and len(shadows) == 2 and spec.width == 1
    ones = np.dtype(f"u{element.itemsize}").type(-1 & (1 << 8 * element.itemsize) - 1)

    def step(group: Group) -> None:
        given = [np.asarray(fetch(group)) for fetch in shadows]
        flag: Values = None
        result: Values
        if exact is not None:
            result = exact(*(Bits.of(fetch(group), part) for fetch, part in zip(reals, given, strict=True)))
            if isinstance(result, tuple):
                result, flag = result[0].undefined, result[1].undefined
            else:
                result = result.undefined
        elif in_halves:
            low, high = (Bits.of(part).value != 0 for part in given)
            result = np.where(low, np.uint32(0xFFFF), np.uint32(0)) | np.where(high, np.uint32(0xFFFF0000), np.uint32(0))
        else:
            touched = _lanes(given)
            result = np.where(touched, ones, ones ^ ones)
            flag = touched
        mask = group.mask if control is None else dpp_mask(group, control)
        typed = np.asarray(result).astype(ones.dtype).view(element)
        store(group, np.broadcast_to(typed, (many, group.size, 64)) if many else np.broadcast_to(typed, (group.size, 64)).copy(), mask)
        if carry is not None:
            lanes = np.broadcast_to(np.asarray(flag, bool), (group.size, 64))
            carry(group, lanes if mask is None else lanes & mask)

    return step


def _lanes(given: list[Values]) -> Values:
    """Lanes in which some source has an undefined bit."""
    found: Values = False
    for part in given:
        touched = Bits.of(part).value != 0
        found = found | (touched.any(axis=0) if touched.ndim == 3 else touched)
    return found


def _mixed_destination(instruction: Instruction, shadow: Machine, reg: Reg) -> Any:
    target = shadow.vector[shadow.slot(reg)]
    field = np.uint32({"v_fma_mix_f32": 0xFFFFFFFF, "v_fma_mixlo_f16": 0xFFFF, "v_fma_mixhi_f16": 0xFFFF0000}[instruction.name])

    def store(group: Group, value: Values, mask: Any) -> None:
        write_row(target, group, target[group.select] & ~field | value.view(np.uint32) & field, mask)

    return store


def _exact(instruction: Instruction) -> Callable[..., Any] | None:
    if instruction.name.startswith("v_bitop3"):
        table = int(instruction.modifiers.get("bitop3") or 0)
        return lambda *sources: bitwise(table, *sources)
    return shadowinteger.VECTOR.get(instruction.name)


def _bind_lane(instruction: Instruction, machine: Machine, shadow: Machine) -> Action:
    """v_readlane and v_writelane: the lane is a value, what moves is not."""
    *moved, lane = instruction.operands
    read = fetch_scalar(machine, lane, "b32")
    undefined: Callable[[Group], Values] = fetch_scalar(shadow, _blank(lane), "b32")
    act = CROSS_LANE[instruction.name](replace(blank(instruction), operands=(moved[0], _blank(moved[1]), _SPARE)), shadow)
    destination = moved[0]
    assert isinstance(destination, Reg)
    whole = shadow.vector[shadow.slot(destination)] if instruction.name == "v_writelane_b32" else shadow.scalar[destination.index]

    def step(group: Group) -> None:
        shadow.scalar[_SPARE.index, group.select] = read(group)
        act(group)
        unknown = np.broadcast_to((undefined(group) & np.uint32(63)) != 0, group.size)
        if unknown.any():
            whole[group.waves[unknown]] = ~np.uint32(0)

    return step


def _bind_compare(instruction: Instruction, plain: Instruction, machine: Machine, shadow: Machine) -> Action:
    parts = instruction.name.split("_")
    relation, kind = parts[2], parts[3]
    reals, shadows = _compared(instruction, machine), _compared(plain, shadow)
    exact = kind[0] in "iu" and relation != "class"
    destination = instruction.operands[0]
    assert isinstance(destination, Reg)
    stores = [store_lane_mask(shadow, destination)]
    if parts[1] == "cmpx":
        stores.append(store_lane_mask(shadow, Reg("s", EXEC, 2)))

    def step(group: Group) -> None:
        given = [np.asarray(fetch(group)) for fetch in shadows]
        if exact:
            lanes = compare(relation, kind[0] == "i", *(Bits.of(fetch(group), part)
                                                        for fetch, part in zip(reals, given, strict=True))).undefined
        else:
            lanes = _lanes(given) & (relation not in ("f", "tru"))
        lanes = np.broadcast_to(lanes, (group.size, 64))
        if group.mask is not None:
            lanes = lanes & group.mask
        for store in stores:
            store(group, lanes)

    return step


def _compared(instruction: Instruction, machine: Machine) -> list[Fetch]:
    pairs = zip(instruction.form.operands[1:], instruction.operands[1:], strict=True)
    return [vector_source(instruction, machine, spec, operand, number, None) for number, (spec, operand) in enumerate(pairs)]


def _bind_halves(instruction: Instruction, plain: Instruction, machine: Machine, shadow: Machine) -> Action:
    """Packed halves: each half of the result depends on one half of each source."""
    control = dpp_of(instruction.form.encoding, instruction.modifiers)
    reals, shadows = halves_of(instruction, machine), halves_of(replace(plain, modifiers=_unsigned(plain)), shadow)
    destination = instruction.operands[0]
    assert isinstance(destination, Reg)
    target = shadow.vector[shadow.slot(destination)]
    exact = None if instruction.modifiers.get("clamp") else shadowinteger.PACKED.get(instruction.name)

    def step(group: Group) -> None:
        given = [np.asarray(fetch(group)).view(np.uint16) for fetch in shadows]
        if exact is not None:
            halves = exact(*(Bits.of(fetch(group), part) for fetch, part in zip(reals, given, strict=True))).undefined
        else:
            halves = np.where(merged([Bits(part, part) for part in given]), np.uint16(0xFFFF), np.uint16(0))
        pattern = np.ascontiguousarray(np.broadcast_to(halves, (group.size, 64, 2))).view(np.uint32)[..., 0]
        write_row(target, group, pattern, group.mask if control is None else dpp_mask(group, control))

    return step


def _unsigned(instruction: Instruction) -> dict[str, Any]:
    return {name: value for name, value in instruction.modifiers.items() if name not in ("neg_lo", "neg_hi")}


def _bind_pairs(plain: Instruction, shadow: Machine) -> Action:
    """v_pk_*_f32: two results, each as a whole."""
    sides = pair_sides(replace(plain, modifiers=_unsigned(plain)), shadow)
    destination = plain.operands[0]
    assert isinstance(destination, Reg)
    targets = [shadow.vector[shadow.slot(destination) + side] for side in (0, 1)]

    def step(group: Group) -> None:
        results = [np.where(_lanes([np.asarray(fetch(group)) for fetch in fetches]), ~np.uint32(0), np.uint32(0)) for fetches in sides]
        for target, result in zip(targets, results, strict=True):
            write_row(target, group, np.broadcast_to(result, (group.size, 64)), group.mask)

    return step


def bind_scalar_shadow(instruction: Instruction, machine: Machine, shadow: Machine) -> Action:
    """Of a scalar ALU instruction. Raises KeyError for one that is taken as a whole."""
    name = instruction.name
    plain = blank(instruction)
    if name.startswith(("s_cmp_", "s_cmpk_", "s_bitcmp")):
        return _bind_scalar_compare(instruction, plain, machine, shadow)
    if name.endswith(("saveexec_b64", "wrexec_b64")):
        return _bind_exec(instruction, plain, machine, shadow)
    if name in ("s_getpc_b64", "s_getreg_b32"):
        return _cleared(instruction, shadow)
    with_scc = name in shadowinteger.WITH_SCC
    function = shadowinteger.WITH_SCC[name] if with_scc else shadowinteger.SCALARS[name]
    spec, destination = instruction.form.operands[0], instruction.operands[0]
    assert isinstance(destination, Reg)
    reals, shadows = scalar_sources(instruction, machine), scalar_sources(plain, shadow)
    for position, operand in enumerate(plain.operands[len(plain.operands) - len(shadows):] if not spec.reads else ()):
        if isinstance(operand, Special) and operand.name == "src_vccz":
            shadows[position] = _scalar_zero(shadow)
    if spec.reads:
        reals.insert(0, fetch_scalar(machine, destination, spec.type))
        shadows.insert(0, fetch_scalar(shadow, destination, spec.type))
    store = store_scalar(shadow, destination, spec.type)
    sets_scc = "scc" in instruction.opcode.writes

    def step(group: Group) -> None:
        given = [Bits.of(fetch(group), part(group)) for fetch, part in zip(reals, shadows, strict=True)]
        if with_scc:
            given.insert(0, Bits(machine.scc[group.select], shadow.scc[group.select]))
        result = function(*given)
        if isinstance(result, tuple):
            result, flag = result
            if sets_scc:
                shadow.scc[group.select] = flag.undefined
        store(group, np.asarray(result.undefined))

    return step


def _scalar_zero(shadow: Machine) -> Fetch:
    return lambda group: ((shadow.scalar[VCC, group.select] | shadow.scalar[VCC + 1, group.select]) != 0).astype(np.uint32)


def _cleared(instruction: Instruction, shadow: Machine) -> Action:
    destination = instruction.operands[0]
    assert isinstance(destination, Reg)
    return lambda group: shadow.scalar.__setitem__((slice(destination.index, destination.last + 1), group.select), 0)


def _bind_exec(instruction: Instruction, plain: Instruction, machine: Machine, shadow: Machine) -> Action:
    """What becomes of EXEC is left in the shadow's EXEC, for the watcher to judge; EXEC was defined before."""
    destination, given = instruction.operands
    assert isinstance(destination, Reg)
    _, operation, kind, _ = instruction.name.split("_")
    table = table_of(SAVE_EXEC[operation], 2)
    real, part = fetch_scalar(machine, given, "b64"), fetch_scalar(shadow, plain.operands[1], "b64")
    old = fetch_scalar(machine, Reg("s", EXEC, 2), "b64")
    put, put_exec = store_scalar(shadow, destination, "b64"), store_scalar(shadow, Reg("s", EXEC, 2), "b64")

    def step(group: Group) -> None:
        new = np.asarray(bitwise(table, Bits.of(real(group), part(group)), Bits.of(old(group))).undefined)
        put(group, new if kind == "wrexec" else new & np.uint64(0))
        put_exec(group, new)
        shadow.scc[group.select] = False

    return step


def _bind_scalar_compare(instruction: Instruction, plain: Instruction, machine: Machine, shadow: Machine) -> Action:
    name = instruction.name
    kinds = instruction.form.operands
    reals = [fetch_scalar(machine, instruction.operands[0], kinds[0].type), *scalar_sources(instruction, machine)]
    shadows = [fetch_scalar(shadow, plain.operands[0], kinds[0].type), *scalar_sources(plain, shadow)]
    relation, kind = (name.split("_")[2], name.split("_")[3]) if not name.startswith("s_bitcmp") else ("", "")
    if name.startswith("s_cmpk_") and kind == "u32":
        fixed = np.array(int(instruction.operands[1]) & 0xFFFF, np.uint32)  # type: ignore[arg-type]
        reals[1] = lambda group: fixed

    def step(group: Group) -> None:
        given = [Bits.of(fetch(group), part(group)) for fetch, part in zip(reals, shadows, strict=True)]
        result = compare(relation, kind[0] == "i", *given) if relation else shadowinteger.BIT_COMPARE[name](*given)
        shadow.scc[group.select] = result.undefined

    return step
