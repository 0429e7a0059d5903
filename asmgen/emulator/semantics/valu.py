"""Binds vector arithmetic: an instruction's function from the tables, its sources, its output modifiers, its destination.

`bind_vector` is called once per instruction and MODE; what it returns runs on groups of waves. The functions stand in tables by
mnemonic: INTEGER, SATURATING (integers), FLOAT, COMPARE (floats), CONVERT (convert), SMALL (8-bit and smaller floats by
architecture), PACKED, PACKED_SATURATING, MIXED, DOT (packed), CROSS_LANE (crosslane), FAST (fastpath: compiled kernels of the hottest
instructions, for nearest even without output modifiers).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from asmgen.emulator.machine.floatmode import NEAREST_EVEN, FloatMode, float_mode
from asmgen.emulator.machine.state import EXEC, VCC, Group, Machine
from asmgen.emulator.semantics.crosslane import CROSS_LANE
from asmgen.emulator.semantics.dpp import Dpp, parse_dpp
from asmgen.emulator.semantics.fastpath import FAST, fast_flush
from asmgen.emulator.semantics.floats import COMPARE, FLOAT
from asmgen.emulator.semantics.integers import INTEGER, SATURATING, bit_function, saturate_mad
from asmgen.emulator.semantics.outputs import limit_integer, output_of
from asmgen.emulator.semantics.packed import DOT
from asmgen.emulator.semantics.packedbind import bind_packed, is_packed
from asmgen.emulator.semantics.scaled import small_formats
from asmgen.emulator.semantics.valuconversions import CONVERT
from asmgen.emulator.semantics.values import Fetch, fetch_lane_mask, store_lane_mask
from asmgen.emulator.semantics.vectorio import (
    Store,
    dpp_mask,
    full,
    is_words,
    moved_lanes,
    sdwa_source,
    source,
    store_field,
    store_selected,
    store_typed,
    store_words,
)
from asmgen.isa.arch import ARCHITECTURES
from asmgen.isa.opcode import OperandSpec
from asmgen.isa.operands import Operand
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction

Step = Callable[[Group], None]
Values = Any
Function = Callable[..., Values]

SMALL: dict[str, dict[str, Function]] = {name: small_formats(arch) for name, arch in ARCHITECTURES.items()}
"""Conversions of 8-, 6- and 4-bit floats by architecture and mnemonic."""

ACCUMULATING = frozenset({"v_fmac_f32", "v_fmac_f64", "v_mac_f16", "v_dot2c_f32_f16", "v_dot2c_f32_bf16", "v_dot2c_i32_i16",
                          "v_dot4c_i32_i8",
                          "v_dot8c_i32_i4", "v_cvt_pkaccum_u8_f32"})
"""Instructions whose destination is their last source."""
UNFLUSHED = frozenset({"v_cvt_f32_bf16", "v_cvt_pk_bf16_f32", "v_cvt_sr_bf16_f32", "v_cvt_sr_f16_f32", "v_pack_b32_f16"})
"""Float instructions that keep denormals whatever MODE says (unconfirmed), as all of SMALL and v_cmp_class do."""
_BYTE_RESULTS = ("v_cvt_sr_fp8_f32", "v_cvt_sr_bf8_f32", "v_cvt_scalef32_sr_fp8_", "v_cvt_scalef32_sr_bf8_")
_FLOATS = ("f16", "f32", "f64")


def bind_vector(instruction: Instruction, machine: Machine) -> Step:
    """The step of a vector arithmetic instruction. Raises KeyError or ValueError for one without semantics."""
    name = instruction.name
    if name in CROSS_LANE:
        return CROSS_LANE[name](instruction, machine)
    mode = float_mode(machine.binding_mode)
    if name.startswith(("v_cmp_", "v_cmpx_")):
        return _bind_compare(instruction, machine, mode)
    if is_packed(name):
        return bind_packed(instruction, machine, mode)
    return _bind_plain(instruction, machine, mode)


def _bind_plain(instruction: Instruction, machine: Machine, mode: FloatMode) -> Step:
    name, modifiers = instruction.name, instruction.modifiers
    if any(modifiers.get("neg_lo") or ()) or any(modifiers.get("neg_hi") or ()):
        raise ValueError(f"neg of the integers of {name}")
    specs = list(zip(instruction.form.operands, instruction.operands, strict=True))
    control = parse_dpp(modifiers) if instruction.form.encoding == "DPP" else None
    sources = [vector_source(instruction, machine, spec, operand, number, control)
               for number, (spec, operand) in enumerate((p, o) for p, o in specs if not p.writes)]
    kinds = [spec.type for spec, _ in specs if not spec.writes]
    spec, destination = specs[0]
    assert isinstance(destination, Reg)
    if name in ACCUMULATING:
        sources.append(source(machine, destination, spec.type, spec.width))
        kinds.append(spec.type)
    if name.startswith("v_div_fmas"):
        sources.append(fetch_lane_mask(machine, Reg("s", VCC, 2)))
        kinds.append("b64")
    carry = next((store_lane_mask(machine, operand) for spec, operand in specs[1:] if spec.writes and isinstance(operand, Reg)), None)
    output = output_of(name, spec.type, mode, modifiers) if name not in INTEGER else None
    store = vector_destination(instruction, machine, spec, destination)
    if name in FAST and mode.round32 == NEAREST_EVEN and output is None and carry is None and instruction.form.encoding != "SDWA":
        return _fast_step(FAST[name](mode), sources, machine, destination, spec, store, control)
    function = _function(name, machine, mode, modifiers, spec.type)
    if _flushes(name):
        sources = [_flushed(fetch, kind, mode) for fetch, kind in zip(sources, kinds, strict=True)]
        if spec.type in _FLOATS and mode.flushes_out(spec.type):
            function = _then_flush(function)
    return _generic_step(function, sources, output, store, carry, control)


def _generic_step(function: Function, sources: list[Fetch], output: Function | None, store: Store, carry: Any, control: Dpp | None) -> Step:
    def step(group: Group) -> None:
        result = function(*[fetch(group) for fetch in sources])
        flag = None
        if carry is not None:
            result, flag = result
        if output is not None:
            result = output(result)
        mask = group.mask if control is None else dpp_mask(group, control)
        store(group, result, mask)
        if flag is not None:
            carry(group, flag if mask is None else np.asarray(flag) & mask)

    if carry is None and output is None and control is None:
        return lambda group: store(group, function(*[fetch(group) for fetch in sources]), group.mask)
    return step


def _fast_step(kernel: Callable[[list[Values], Values], None], sources: list[Fetch], machine: Machine, destination: Reg, spec: OperandSpec,
               store: Store, control: Dpp | None) -> Step:
    """A compiled kernel writes straight into the register where all lanes of neighbouring waves are active."""
    target = machine.vector[machine.slot(destination)].view(np.float32 if spec.type == "f32" else np.uint32)

    def step(group: Group) -> None:
        shape = (group.size, 64)
        values = [full(fetch(group), shape) for fetch in sources]
        mask = group.mask if control is None else dpp_mask(group, control)
        if mask is None and isinstance(group.select, slice):
            kernel(values, target[group.select])
            return
        out = np.empty(shape, target.dtype)
        kernel(values, out)
        store(group, out, mask)

    return step


def _function(name: str, machine: Machine, mode: FloatMode, modifiers: Mapping[str, Any], kind: str) -> Function:
    """The table's function with MODE bound, and saturation under clamp."""
    if name.startswith("v_bitop3"):
        return bit_function(int(modifiers.get("bitop3") or 0))
    if name in INTEGER:
        if not modifiers.get("clamp"):
            return INTEGER[name]
        if name in ("v_mad_u64_u32", "v_mad_i64_i32"):
            return saturate_mad(name == "v_mad_i64_i32")
        if name in SATURATING:
            return limit_integer(SATURATING[name], kind, INTEGER[name] if name.endswith("co_u32") else None)
        return INTEGER[name]
    if name in DOT and kind in ("i32", "u32"):
        exact = DOT[name]
        return limit_integer(lambda *values: exact(mode, *values), kind if modifiers.get("clamp") else "")
    table = next(table for table in (FLOAT, CONVERT, DOT, SMALL[machine.arch.name]) if name in table or table is SMALL[machine.arch.name])
    function = table[name]
    return lambda *values: function(mode, *values)


def _flushes(name: str) -> bool:
    return name in FLOAT or name in CONVERT and name not in UNFLUSHED


def _flushed(fetch: Fetch, kind: str, mode: FloatMode) -> Fetch:
    if kind not in _FLOATS or not mode.flushes_in(kind):
        return fetch
    return lambda group: fast_flush(fetch(group))


def _then_flush(function: Function) -> Function:
    def flushed(*values: Values) -> Values:
        result = function(*values)
        if isinstance(result, tuple):
            return fast_flush(result[0]), result[1]
        return fast_flush(result)

    return flushed


def vector_source(instruction: Instruction, machine: Machine, spec: OperandSpec, operand: Operand, number: int,
                  control: Dpp | None) -> Fetch:
    """A source operand by its encoding: a lane mask, a part of a register (SDWA, op_sel), another lane's (DPP), or as it is."""
    modifiers = instruction.modifiers
    if spec.type == "b64" and spec.name in ("vcc", "src2") and isinstance(operand, Reg) and operand.file == "s":
        return fetch_lane_mask(machine, operand)
    if instruction.form.encoding == "SDWA":
        return sdwa_source(machine, operand, spec.type, modifiers.get(f"src{number}_sel", "DWORD"))
    chosen = tuple(modifiers.get("op_sel") or ())
    half = int(number < len(chosen) and bool(chosen[number]))
    if half and _element(spec.type) == "u4":
        if number not in _byte_bits(instruction):
            raise ValueError(f"op_sel of a source of type {spec.type}")
        half = 0
    fetch = source(machine, operand, spec.type, spec.width, half)
    if number == 0 and spec.type in ("fp8", "bf8", "fp4") and any(chosen):
        low = np.uint32(16 * chosen[0] if "_pk_" in instruction.name and spec.type != "fp4" else 8 * chosen[0] + 16 * (chosen + (0,))[1])
        fetch = _shifted(fetch, low)
    return moved_lanes(fetch, control) if control is not None and number == 0 else fetch


def _byte_bits(instruction: Instruction) -> tuple[int, ...]:
    """Entries of op_sel that stand at a source's place but say where small floats are: which half or byte of source or destination."""
    kinds = [spec.type for spec in instruction.form.operands]
    if _into_byte(instruction.name, kinds[0]):
        return (2,)
    if kinds[1] not in ("fp8", "bf8", "fp4"):
        return ()
    return (0, 1) if kinds[1] == "fp4" or "_pk_" not in instruction.name else (0,)


def _into_byte(name: str, destination: str) -> bool:
    return destination == "fp4" or destination in ("fp8", "bf8") and name.startswith(_BYTE_RESULTS)


def _shifted(fetch: Fetch, low: np.uint32) -> Fetch:
    def shifted(group: Group) -> Values:
        register: Values = fetch(group)
        return register >> low

    return shifted


def _element(operand_type: str) -> str:
    return {"bf16": "u2", "b16": "u2", "u16": "u2", "i16": "i2", "f16": "f2"}.get(operand_type, "u4")


def vector_destination(instruction: Instruction, machine: Machine, spec: OperandSpec, reg: Reg) -> Store:
    """The vector destination: a whole register, or the part that SDWA, op_sel or the instruction names.

    16-bit results clear the upper half, but those of instructions that gfx9 brought with op_sel keep it ("keep" in the table; LLVM's
    list of what is zeroed).
    """
    name, modifiers, form = instruction.name, instruction.modifiers, instruction.form
    if form.encoding == "SDWA" and modifiers.get("dst_sel", "DWORD") != "DWORD":
        return store_selected(machine, reg, modifiers["dst_sel"], modifiers.get("dst_unused", "UNUSED_PRESERVE"))
    chosen = tuple(modifiers.get("op_sel") or ())
    sources = sum(not spec.writes for spec in form.operands)
    if spec.type in ("fp8", "bf8", "fp4"):
        if _into_byte(name, spec.type):
            bits = (*chosen, 0, 0, 0, 0)
            return store_field(machine, reg, 8 * bits[2] + 16 * bits[3], 8)
        return store_field(machine, reg, 16 if len(chosen) > sources and chosen[sources] else 0, 16)
    upper = len(chosen) > sources and bool(chosen[sources])
    partial = "keep" in instruction.opcode.flags or spec.reads and name not in ACCUMULATING
    if upper or partial:
        if spec.width != 1 or not (spec.type in ("v2f16", "v2bf16") or _element(spec.type) != "u4"):
            raise ValueError(f"op_sel of a destination of type {spec.type}")
        return store_field(machine, reg, 16 if upper else 0, 16)
    if is_words(spec.type):
        return store_words(machine, reg, spec.width)
    return store_typed(machine, reg, spec.type, spec.width)


def _bind_compare(instruction: Instruction, machine: Machine, mode: FloatMode) -> Step:
    """v_cmp: a bit a lane, 0 for inactive lanes; v_cmpx puts the same into EXEC."""
    parts = instruction.name.split("_")
    relation, kind = parts[2], parts[3]
    function = COMPARE[relation]
    specs = list(zip(instruction.form.operands, instruction.operands, strict=True))
    sources = [vector_source(instruction, machine, spec, operand, number, None) for number, (spec, operand) in enumerate(specs[1:])]
    if relation not in ("class", "o", "u", "f", "tru"):
        sources = [_flushed(fetch, kind, mode) for fetch in sources]
    destination = instruction.operands[0]
    assert isinstance(destination, Reg)
    store = store_lane_mask(machine, destination)
    to_exec = store_lane_mask(machine, Reg("s", EXEC, 2)) if parts[1] == "cmpx" else None
    left, right = sources

    def step(group: Group) -> None:
        result = function(left(group), right(group))
        if group.mask is not None:
            result = result & group.mask
        store(group, result)
        if to_exec is not None:
            to_exec(group, result)

    return step


def semantic_tables() -> dict[str, dict[str, Function]]:
    """Every table of functions by mnemonic, for tools that exchange them one by one."""
    from asmgen.emulator.semantics.packed import MIXED, PACKED, PACKED_SATURATING

    return {"integer": INTEGER, "saturating": SATURATING, "float": FLOAT, "compare": COMPARE, "convert": CONVERT, "packed": PACKED,
            "packed-saturating": PACKED_SATURATING, "mixed": MIXED, "dot": DOT, "fast": FAST, "cross-lane": CROSS_LANE,
            **{f"small-{name}": table for name, table in SMALL.items()}}
