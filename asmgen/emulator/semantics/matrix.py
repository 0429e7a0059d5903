"""Matrix instructions: what each does to its operands, and the choice between numpy and compiled loops.

All lanes take part, whatever EXEC says, and MODE's rounding does not matter (docs/facts/instructions.md section 1). How the hardware
orders and rounds its sums is not published; here C and then the products by ascending k are summed in float64, in which the
products are exact, and the sum is rounded once to f32, to nearest even. v_mfma_f64_* are fused multiply-adds by ascending k. i32 sums wrap.

Denormals of f16, bf16 and the 8- to 4-bit formats count; f32 inputs (A, B and C of f32 and xf32 shapes) and results honour
MODE.FP_DENORM of f32 and f64 ones that of f64 (that C and D follow the inputs' rule is inferred). A NaN result is 0x7fc00000
(inferred). xf32 keeps 10 mantissa bits of an f32, rounded to nearest even (inferred: the format is AMD's name for TF32's, no source
says how its bits are dropped).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.machine.state import Group, Machine
from asmgen.emulator.semantics import matrix_numpy
from asmgen.emulator.semantics.matrix_plan import DECODERS, Plan, Source
from asmgen.emulator.semantics.values import constant
from asmgen.isa.arch import Architecture
from asmgen.isa.errors import OperandError
from asmgen.isa.formats import decode as decode_codes
from asmgen.isa.formats import hardware_format, scale_decode
from asmgen.isa.layouts_mfma import element_bits, element_type
from asmgen.isa.mfma_arrays import OperandSlots, a_map, b_map, broadcast_lanes, d_map, index_map, permute_lanes
from asmgen.isa.opcodes.mfma import MFMA, MfmaRow
from asmgen.isa.operands import Operand
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction

Step = Callable[[Group], None]
Array = NDArray[Any]


def bind_matrix(instruction: Instruction, machine: Machine) -> Step:
    """The step of a matrix instruction. Raises ValueError for modifiers without semantics."""
    try:
        return _bind(instruction, machine)
    except OperandError as problem:  # a format or a permutation that does not exist
        raise ValueError(str(problem)) from problem


def plan_of(instruction: Instruction, machine: Machine) -> Plan:
    """What an instruction takes, and where its result goes. Raises ValueError for modifiers without semantics."""
    row = MFMA[instruction.name]
    modifiers = instruction.modifiers
    cbsz, abid, blgp = (int(modifiers.get(name) or 0) for name in ("cbsz", "abid", "blgp"))
    named = {spec.name: operand for spec, operand in zip(instruction.form.operands, instruction.operands, strict=True)}
    target, first, second, third = (named[name] for name in ("vdst", "src0", "src1", "src2"))
    assert isinstance(target, Reg) and isinstance(first, Reg) and isinstance(second, Reg)
    if row.kind == "dgemm" and (cbsz or abid or blgp):
        raise ValueError("cbsz, abid and blgp of f64 matrices")
    own_lanes = row.f8f6f4 or row.sparse or row.kind == "dgemm"
    a = _source(machine, first, row, "a", cbsz, None if own_lanes or not cbsz else broadcast_lanes(cbsz, abid, row.blocks))
    b = _source(machine, second, row, "b", blgp, None if own_lanes or not blgp else permute_lanes(blgp))
    locations = d_map(row)
    d_slot = machine.slot(target)
    index = (machine.slot(third), index_map(row, cbsz, abid)) if row.sparse and isinstance(third, Reg) else None
    addend = target if row.sparse else third
    c_slot, c_value = _addend(machine, addend, row.cd_type)
    return Plan(row, machine, a, b, c_slot, c_value, d_slot, _column(locations.register), _column(locations.lane),
                _scale_bytes(instruction, named, machine) if row.scaled else (), index)


def _bind(instruction: Instruction, machine: Machine) -> Step:
    plan = plan_of(instruction, machine)
    if plan.row.kind == "dgemm":
        return _doubles_step(plan, tuple(instruction.modifiers.get("neg") or (0, 0, 0)))
    return _integers_step(plan) if plan.row.cd_type == "i32" else _floats_step(plan)


def _column(locations: Array) -> Array:
    """The places of column 0, [blocks, rows], whose other columns follow in the next lanes."""
    return np.ascontiguousarray(locations[:, :, 0]).astype(np.int64)


@functools.cache
def _lane_rows(row: MfmaRow, operand: str, code: int) -> tuple[Array, Array, Array]:
    """Lane, register and shift of the first element of each row [block * k] of A or B."""
    locations = a_map(row, code) if operand == "a" else OperandSlots(*(array.swapaxes(1, 2) for array in b_map(row, code)))
    lanes, registers, shifts = (np.ascontiguousarray(array[:, 0, :]).astype(np.int64).ravel() for array in locations)
    return lanes, registers, shifts


def _source(machine: Machine, reg: Reg, row: MfmaRow, operand: str, code: int, moved: Array | None) -> Source:
    """A or B of an instruction; `code` is its format where it has one."""
    lanes, registers, shifts = _lane_rows(row, operand, code if row.f8f6f4 else 0)
    kind, edge = element_type(row, operand, code), row.m if operand == "a" else row.n
    bits = element_bits(kind)
    table = decode_table(kind, machine.arch) if bits <= 16 and kind != "bf16" else None
    encoding = " fnuz" if bits == 8 and machine.arch.fp8 == "fnuz" else ""
    decoder = DECODERS.index(kind + encoding) if kind + encoding in DECODERS else -1
    return Source(machine.slot(reg), reg.count, kind, bits, edge, lanes, registers, shifts, moved, table, decoder)


@functools.cache
def decode_table(kind: str, arch: Architecture) -> Array:
    """The values of all codes of an element type: float32, or int32 for i8."""
    if kind == "i8":
        return np.arange(256, dtype=np.uint8).view(np.int8).astype(np.int32)
    fmt = hardware_format(kind, arch)
    return decode_codes(np.arange(1 << fmt.bits, dtype=fmt.dtype), fmt).astype(np.float32)


def _addend(machine: Machine, operand: Operand, kind: str) -> tuple[int, Any]:
    if isinstance(operand, Reg):
        return machine.slot(operand), 0
    assert isinstance(operand, int | float)
    return -1, constant(operand, kind)[()]


def _scale_bytes(instruction: Instruction, named: dict[str, Operand], machine: Machine) -> tuple[tuple[int, int], ...]:
    """(slot, byte of the register) of A's and B's scales: op_sel + 2 * op_sel_hi (docs/facts/semantics.md section 3)."""
    low, high = (tuple(instruction.modifiers.get(name) or ()) + (0, 0) for name in ("op_sel", "op_sel_hi"))
    registers = [named[name] for name in ("scale_src0", "scale_src1")]
    return tuple((machine.slot(reg), int(low[n]) + 2 * int(high[n])) for n, reg in enumerate(registers) if isinstance(reg, Reg))


@dataclass(frozen=True)
class Product:
    """The step of an instruction whose plan is `straight`: compiled runs read the plan; `plain` is what does without compiled loops."""

    plan: Plan
    plain: Step

    def __call__(self, group: Group) -> None:
        if _compiled(self.plan, group):
            _straight(self.plan, group)
        else:
            self.plain(group)


def _floats_step(plan: Plan) -> Step:
    machine, row = plan.machine, plan.row
    honours_mode = row.a_type in ("f32", "xf32")
    no_scales = np.empty((machine.waves, 0, 0))
    edges = (row.m, row.n)

    def step(group: Group) -> None:
        compiled = _compiled(plan, group)
        flush = flushes(machine, group, 4) if honours_mode else np.zeros(group.size, np.uint8)
        scales = [no_scales[:group.size]] * 2
        if plan.scales:
            scales = [scale_values(machine, group, slot, byte, edge) for (slot, byte), edge in zip(plan.scales, edges, strict=True)]
        locations = sparse_positions(plan, group)
        if not compiled:
            values = [matrix_numpy.rows(source, registers_of(source, machine, group), flush) for source in (plan.a, plan.b)]
            matrix_numpy.floats(plan, group, values, scales, locations, flush)
            return
        from asmgen.emulator.semantics import matrix_kernels

        a, b = (_decoded(source, machine, group, flush) for source in (plan.a, plan.b))
        if plan.in_tiles and not flush.any():
            matrix_kernels.multiply_in_tiles(machine.vector_file, group.waves, a, b, scales[0], scales[1], row.blocks, plan.c_slot,
                                             float(plan.c_value), plan.d_slot, plan.d_registers, plan.d_lanes)
            return
        matrix_kernels.multiply_floats(machine.vector_file, group.waves, a, b, scales[0], scales[1], locations, row.blocks, plan.c_slot,
                                       float(plan.c_value), plan.d_slot, plan.d_registers, plan.d_lanes, flush)

    return Product(plan, step) if plan.straight else step


def _straight(plan: Plan, group: Group) -> None:
    from asmgen.emulator.semantics import matrix_kernels

    a, b, row = plan.a, plan.b, plan.row
    matrix_kernels.multiply_straight(plan.machine.vector_file, group.waves, a.slot, a.lanes, a.registers, a.shifts, a.decoder,
                                     b.slot, b.lanes, b.registers, b.shifts, b.decoder, row.m, row.n, plan.c_slot, float(plan.c_value),
                                     plan.d_slot, plan.d_registers, plan.d_lanes)


def _integers_step(plan: Plan) -> Step:
    machine, row = plan.machine, plan.row

    def step(group: Group) -> None:
        flush = np.zeros(group.size, np.uint8)
        locations = sparse_positions(plan, group)
        if not _compiled(plan, group):
            values = [matrix_numpy.rows(source, registers_of(source, machine, group), flush) for source in (plan.a, plan.b)]
            matrix_numpy.integers(plan, group, values, locations)
            return
        from asmgen.emulator.semantics import matrix_kernels

        a, b = (_decoded(source, machine, group, flush) for source in (plan.a, plan.b))
        matrix_kernels.multiply_integers(machine.vector_file, group.waves, a, b, locations, row.blocks, plan.c_slot, int(plan.c_value),
                                         plan.d_slot, plan.d_registers, plan.d_lanes)

    return step


def _doubles_step(plan: Plan, negate: tuple[int, ...]) -> Step:
    machine, row = plan.machine, plan.row
    signs = [-1.0 if flag else 1.0 for flag in negate]
    columns = np.arange(row.n)
    lanes, registers = plan.d_lanes[:, :, None] + columns, np.broadcast_to(plan.d_registers[:, :, None], (row.blocks, row.m, row.n))

    def pairs(group: Group, slot: int, where: Array, lane: Array) -> Array:
        """Doubles [waves, *where.shape] from register pairs."""
        words = np.stack([machine.vector[slot + where + half, :, lane] for half in (0, 1)], axis=-1)
        return np.moveaxis(words.view(np.float64)[..., 0], -1, 0)[group.select]

    def rows(group: Group, source: Source) -> Array:
        lane = source.lanes[:, None] + np.arange(source.edge)
        where = np.broadcast_to(source.registers[:, None], lane.shape)
        return pairs(group, source.slot, where, lane).reshape(group.size, row.blocks, row.k, source.edge)

    def step(group: Group) -> None:
        from asmgen.emulator.semantics import matrix_kernels

        flush = flushes(machine, group, 6)[:, None, None, None]
        a, b = (flushed(rows(group, source), flush & 1) for source in (plan.a, plan.b))
        c = pairs(group, plan.c_slot, registers, lanes) if plan.c_slot >= 0 else np.float64(plan.c_value)
        sums = np.empty((group.size, row.blocks, row.m, row.n))
        sums[:] = flushed(c, flush & 1) * signs[2]
        matrix_kernels.multiply_doubles(np.ascontiguousarray(a * signs[0]), np.ascontiguousarray(b * signs[1]), sums)
        sums = flushed(sums, flush & 2)
        sums[np.isnan(sums)] = np.nan
        halves = np.moveaxis(sums.view(np.uint32).reshape(*sums.shape, 2), 0, -2)
        for half in (0, 1):
            machine.vector[(plan.d_slot + registers + half)[..., None], group.waves, lanes[..., None]] = halves[..., half]

    return step


def flushes(machine: Machine, group: Group, bit: int) -> NDArray[np.uint8]:
    """Per wave: bit 0 where MODE flushes denormal inputs, bit 1 where it flushes denormal results (FP_DENORM at `bit` of MODE)."""
    return (~(machine.mode[group.select] >> np.uint32(bit)) & np.uint32(3)).astype(np.uint8)


def flushed(values: Array | np.float64, flush: Array) -> Array:
    """Doubles with denormals as zeros of their sign where `flush` is not 0."""
    return np.where((flush != 0) & (np.abs(values) < np.finfo(np.float64).tiny), np.copysign(0.0, values), values)


def _compiled(plan: Plan, group: Group) -> bool:
    return plan.machine.work.pays(plan.work * group.size)


def _registers_of(source: Source, machine: Machine, group: Group) -> Array:
    return machine.vector[source.slot:source.slot + source.count, group.select]


def registers_of(source: Source, machine: Machine, group: Group) -> Array:
    """The registers of a source, [registers, waves, 64], each lane's words those of the lane that it reads."""
    words = _registers_of(source, machine, group)
    return words if source.moved is None else words[:, :, source.moved]


def _decoded(source: Source, machine: Machine, group: Group, flush: Array) -> Array:
    """A source's values [waves, rows, edge], float32 or int32."""
    from asmgen.emulator.semantics import matrix_kernels

    vector, waves, slot = machine.vector_file, group.waves, source.slot
    key = source.key if not flush.any() else (*source.key, flush.tobytes())
    rows = machine.matrix.find(key, source.slot, vector, waves, matrix_kernels.same_words)
    if rows is not None:
        return rows
    if source.moved is not None:
        vector, waves, slot = np.ascontiguousarray(registers_of(source, machine, group)), np.arange(group.size), 0
    shape = group.size, len(source.lanes), source.edge
    if source.table is not None:
        rows = np.empty(shape, source.table.dtype)
        matrix_kernels.decode_table(vector, waves, slot, source.lanes, source.registers, source.shifts, source.bits, source.table, rows)
    else:
        patterns = np.empty(shape, np.uint32)
        matrix_kernels.decode_patterns(vector, waves, slot, source.lanes, source.registers, source.shifts, source.bits, flush & 1, patterns)
        rows = patterns.view(np.float32)
        if source.kind == "xf32":
            rows = matrix_numpy.to_xf32(rows)
    machine.matrix.keep(key, _registers_of(source, machine, group), group.waves, rows)
    return rows


def scale_values(machine: Machine, group: Group, slot: int, byte: int, edge: int) -> Array:
    """Scales [waves, k / 32, edge]: lane x + edge * kb holds the one of row or column x and k block kb (mfma_arrays.scale_map)."""
    codes = machine.vector[slot, group.select] >> np.uint32(8 * byte) & np.uint32(255)
    values: Array = _scale_table()[codes].reshape(group.size, 64 // edge, edge)
    return values


@functools.cache
def _scale_table() -> Array:
    """2**(byte - 127); 255 is NaN."""
    return scale_decode(np.arange(256, dtype=np.uint8), np.float64)


def sparse_positions(plan: Plan, group: Group) -> Array:
    """Which k each packed value of a sparse A has, [waves, k / 2, m]; [0, 0, 0] where A is dense."""
    if plan.index is None:
        return np.empty((0, 0, 0), np.int64)
    slot, locations = plan.index
    lane, shift = locations.lane[0].T, locations.bit[0].T.astype(np.uint32)
    index = plan.machine.vector[slot, group.select][:, lane] >> shift & np.uint32(3)
    values: Array = np.ascontiguousarray(4 * (np.arange(len(lane))[:, None] // 2) + index.astype(np.int64))  # one type to compile for
    return values
