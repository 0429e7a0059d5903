"""From an instruction to the rows of a compiled run (`microops`); None for what runs do not know, whose numpy step is run instead.

The tables here say which operation an instruction is, and which of its sources go where. What is special about an instruction's encoding
(SDWA, DPP, op_sel, clamp, omod, other roundings than nearest even) is left to numpy.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.binding.microops import (
    CARRY,
    CLASS,
    COLUMNS,
    COMPARE,
    CONSTANT,
    FIRST_LANE,
    FLUSH_IN,
    FLUSH_OUT,
    IEEE,
    MASK,
    OPERATIONS,
    REGISTER,
    SAVE_EXEC,
    SCALAR,
    SCALAR32,
    SCALAR64,
    SCALAR_TEST,
    SCALARS,
    SOURCES,
    TEMP,
    TEMPORARY,
    VECTOR,
)
from asmgen.emulator.machine.floatmode import NEAREST_EVEN, FloatMode, float_mode
from asmgen.emulator.machine.state import EXEC, Machine
from asmgen.emulator.semantics.values import bits_of
from asmgen.isa.operands import Operand
from asmgen.isa.registers import Modified, Reg
from asmgen.program.program import Instruction

Row = list[int]
Source = tuple[int, int]
Orders = tuple[int, ...]

_INTEGER: dict[str, tuple[str, Orders]] = {
    "v_mov_b32": ("mov", (0,)), "v_accvgpr_read_b32": ("mov", (0,)), "v_accvgpr_write_b32": ("mov", (0,)),
    "v_accvgpr_mov_b32": ("mov", (0,)), "v_not_b32": ("not", (0,)), "v_add_u32": ("add", (0, 1)), "v_sub_u32": ("sub", (0, 1)),
    "v_subrev_u32": ("sub", (1, 0)), "v_add_i32": ("add", (0, 1)), "v_sub_i32": ("sub", (0, 1)), "v_mul_lo_u32": ("mul", (0, 1)),
    "v_mul_hi_u32": ("mul_hi_u", (0, 1)), "v_mul_hi_i32": ("mul_hi_i", (0, 1)), "v_and_b32": ("and", (0, 1)), "v_or_b32": ("or", (0, 1)),
    "v_xor_b32": ("xor", (0, 1)), "v_xnor_b32": ("xnor", (0, 1)), "v_lshlrev_b32": ("shl", (1, 0)), "v_lshrrev_b32": ("lshr", (1, 0)),
    "v_ashrrev_i32": ("ashr", (1, 0)), "v_min_u32": ("min_u", (0, 1)), "v_max_u32": ("max_u", (0, 1)), "v_min_i32": ("min_i", (0, 1)),
    "v_max_i32": ("max_i", (0, 1)), "v_mul_u32_u24": ("mul_u24", (0, 1)), "v_mul_i32_i24": ("mul_i24", (0, 1)),
    "v_mad_u32_u24": ("mad_u24", (0, 1, 2)), "v_mad_i32_i24": ("mad_i24", (0, 1, 2)), "v_lshl_add_u32": ("lshl_add", (0, 1, 2)),
    "v_add_lshl_u32": ("add_lshl", (0, 1, 2)), "v_add3_u32": ("add3", (0, 1, 2)), "v_xad_u32": ("xad", (0, 1, 2)),
    "v_lshl_or_b32": ("lshl_or", (0, 1, 2)), "v_and_or_b32": ("and_or", (0, 1, 2)), "v_or3_b32": ("or3", (0, 1, 2)),
    "v_bfe_u32": ("bfe_u", (0, 1, 2)), "v_bfe_i32": ("bfe_i", (0, 1, 2)), "v_bfi_b32": ("bfi", (0, 1, 2)), "v_bfm_b32": ("bfm", (0, 1)),
    "v_alignbit_b32": ("alignbit", (0, 1, 2)), "v_alignbyte_b32": ("alignbyte", (0, 1, 2)), "v_perm_b32": ("perm", (0, 1, 2)),
    "v_bcnt_u32_b32": ("bcnt", (0, 1)),
    "v_mbcnt_lo_u32_b32": ("mbcnt_lo", (0, 1)), "v_mbcnt_hi_u32_b32": ("mbcnt_hi", (0, 1)), "v_bitop3_b32": ("bitop3", (0, 1, 2)),
    "v_cvt_f32_u32": ("cvt_f32_u32", (0,)), "v_cvt_f32_i32": ("cvt_f32_i32", (0,)), "v_cvt_u32_f32": ("cvt_u32_f32", (0,)),
    "v_cvt_i32_f32": ("cvt_i32_f32", (0,)), "v_cvt_pk_bf16_f32": ("cvt_pk_bf16", (0, 1)), "v_cndmask_b32": ("select", (0, 1)),
}
"""Operation and order of sources; they flush nothing."""
_FLOAT: dict[str, tuple[str, Orders]] = {
    "v_add_f32": ("add_f32", (0, 1)), "v_sub_f32": ("sub_f32", (0, 1)), "v_subrev_f32": ("sub_f32", (1, 0)),
    "v_mul_f32": ("mul_f32", (0, 1)), "v_fma_f32": ("fma_f32", (0, 1, 2)), "v_fmac_f32": ("fma_f32", (0, 1, 2)),
    "v_fmamk_f32": ("fma_f32", (0, 1, 2)), "v_fmaak_f32": ("fma_f32", (0, 1, 2)), "v_max_f32": ("max_f32", (0, 1)),
    "v_min_f32": ("min_f32", (0, 1)), "v_max3_f32": ("max3_f32", (0, 1, 2)), "v_min3_f32": ("min3_f32", (0, 1, 2)),
    "v_exp_f32": ("exp_f32", (0,)),
}
_PAIRS = {"v_pk_add_f32": "add_f32", "v_pk_mul_f32": "mul_f32", "v_pk_fma_f32": "fma_f32"}
_CARRIES: dict[str, tuple[str, Orders]] = {
    "v_add_co_u32": ("add_carry", (0, 1)), "v_addc_co_u32": ("add_carry", (0, 1)), "v_sub_co_u32": ("sub_borrow", (0, 1)),
    "v_subb_co_u32": ("sub_borrow", (0, 1)), "v_subrev_co_u32": ("sub_borrow", (1, 0)), "v_subbrev_co_u32": ("sub_borrow", (1, 0)),
}
_COMPARED = {"f32": "f", "u32": "u", "i32": "i"}
_SALU: dict[str, str] = {
    "s_mov_b32": "mov", "s_mov_b64": "mov", "s_movk_i32": "mov", "s_not_b32": "not", "s_not_b64": "not", "s_add_u32": "add",
    "s_sub_u32": "sub", "s_add_i32": "add_i", "s_addk_i32": "add_i", "s_sub_i32": "sub_i", "s_addc_u32": "addc", "s_subb_u32": "subb",
    "s_mul_i32": "mul", "s_mulk_i32": "mul", "s_mul_hi_u32": "mul_hi_u", "s_mul_hi_i32": "mul_hi_i", "s_min_u32": "min_u",
    "s_max_u32": "max_u", "s_min_i32": "min_i", "s_max_i32": "max_i", "s_cselect_b32": "select", "s_cselect_b64": "select",
    "s_cmov_b32": "cmov", "s_cmov_b64": "cmov", "s_cmovk_i32": "cmov", "s_bfe_u32": "bfe_u", "s_bfm_b32": "bfm", "s_lshl_b32": "shl",
    "s_lshl_b64": "shl", "s_lshr_b32": "lshr", "s_lshr_b64": "lshr", "s_ashr_i32": "ashr", "s_ashr_i64": "ashr",
    "s_pack_ll_b32_b16": "pack_ll", "s_pack_lh_b32_b16": "pack_lh", "s_pack_hh_b32_b16": "pack_hh",
    **{f"s_lshl{n}_add_u32": "lshl_add" for n in (1, 2, 3, 4)},
    **{f"s_{name}_b{width}": name for name in ("and", "or", "xor", "andn2", "orn2", "nand", "nor", "xnor") for width in (32, 64)},
}
_SAVING = {f"s_{name}_saveexec_b64": name for name in ("and", "or", "xor", "andn2", "orn2", "nand", "nor", "xnor")}
_WIDE = ("b64", "u64", "i64")


class _Unknown(Exception):
    """An instruction that runs leave to numpy."""


@dataclass
class Lowering:
    """Lowers the instructions of one run; `constants` collects the rows that its constants need."""

    machine: Machine
    mode: FloatMode
    constants: list[int] = field(default_factory=lambda: [0])
    _made: dict[int, list[Row] | None] = field(default_factory=dict)  # by id
    _asked: list[Instruction] = field(default_factory=list)  # keeps them alive, and so their ids

    @classmethod
    def of(cls, machine: Machine, mode: int) -> Lowering:
        """For waves of one MODE."""
        return cls(machine, float_mode(mode))

    def table(self) -> NDArray[np.uint32]:
        """The constants, a row of 64 each."""
        return np.repeat(np.array(self.constants, np.uint32)[:, None], 64, axis=1)

    def rows(self, instruction: Instruction) -> list[Row] | None:
        """The rows of an instruction, None where it is left to numpy."""
        if id(instruction) not in self._made:
            self._asked.append(instruction)
            self._made[id(instruction)] = self._placed(instruction)
        return self._made[id(instruction)]

    def _placed(self, instruction: Instruction) -> list[Row] | None:
        """The rows with this run's numbers of their constants. They stay with the instruction: launches ask for the same again."""
        for_whom = self.machine.accum_offset, self.machine.registers, self.mode
        kept: dict[str, tuple[object, list[Row] | None, list[int]]] = instruction.__dict__
        known, rows, constants = kept.get("_lowered", (None, None, []))
        if known != for_whom:
            alone = Lowering(self.machine, self.mode)
            rows, constants = alone._rows(instruction), alone.constants
            kept["_lowered"] = for_whom, rows, constants
        if rows is None or len(constants) == 1:
            return rows
        locations = [self.constant(pattern) for pattern in constants]
        return [_renumbered(row, locations) if row[CLASS] <= CARRY else row for row in rows]

    def _rows(self, instruction: Instruction) -> list[Row] | None:
        try:
            return self._vector(instruction) if "valu" in instruction.opcode.classes else self._scalar(instruction)
        except _Unknown:
            return None

    # Vector instructions.

    def _vector(self, instruction: Instruction) -> list[Row]:
        name, form, modifiers = instruction.name, instruction.form, instruction.modifiers
        extra = int(modifiers.get("bitop3") or 0)
        if form.encoding in ("SDWA", "DPP") or any(_set(value) for key, value in modifiers.items() if key not in ("bitop3", "op_sel_hi")):
            raise _Unknown
        if name in _PAIRS:
            return self._pairs(instruction)
        if form.encoding == "VOP3P" and name not in _INTEGER:
            raise _Unknown
        if name == "v_readfirstlane_b32":
            return [self._first_lane(instruction)]
        if name.startswith(("v_cmp_", "v_cmpx_")):
            return self._compare(instruction)
        operation, order = _INTEGER.get(name) or self._float(name) or _CARRIES.get(name) or _unknown()
        if name in _FLOAT:
            extra = self._float_bits()
        slots = list(zip(form.operands, instruction.operands, strict=True))
        destination = slots[0][1]
        read = [(slot, operand) for slot, operand in slots[1:] if slot.reads and slot.type not in _WIDE]
        masks = [operand for slot, operand in slots[1:] if slot.reads and slot.type in _WIDE]
        flags = [operand for slot, operand in slots[1:] if slot.writes]
        if not isinstance(destination, Reg) or destination.file not in "va" or destination.count != 1:
            raise _Unknown
        if name == "v_fmac_f32":
            read.append((slots[0][0], destination))
        found: list[Row] = []
        sources = [self._source(read[n][1], read[n][0].type, at, found) for at, n in enumerate(order)]
        mask = _pair_of(masks[0]) if masks else -1
        mask_out = _pair_of(flags[0]) if flags else -1
        kind = CARRY if name in _CARRIES else VECTOR
        found.append(_row(kind, OPERATIONS[operation], self._slot(destination), sources, mask, mask_out, extra))
        return found

    def _float(self, name: str) -> tuple[str, Orders] | None:
        if name in _FLOAT and self.mode.round32 != NEAREST_EVEN:
            raise _Unknown
        return _FLOAT.get(name)

    def _float_bits(self) -> int:
        return FLUSH_IN * self.mode.flush32_in | FLUSH_OUT * self.mode.flush32_out | IEEE * self.mode.ieee

    def _pairs(self, instruction: Instruction) -> list[Row]:
        """v_pk_*_f32 without op_sel: one register of each pair, then the other; the first result is no source of the second."""
        destination, *sources = instruction.operands
        chosen = tuple(instruction.modifiers.get("op_sel_hi") or ())
        if self.mode.round32 != NEAREST_EVEN or any(not bit for bit in chosen) or not isinstance(destination, Reg):
            raise _Unknown
        low = self._slot(destination)
        found: list[Row] = []
        for half in (0, 1):
            taken: list[Source] = []
            for operand in sources:
                if not isinstance(operand, Reg) or operand.count != 2 or operand.file not in "va":
                    raise _Unknown
                slot = self._slot(operand) + half
                if half and slot == low:
                    raise _Unknown
                taken.append((REGISTER, slot))
            found.append(_row(VECTOR, OPERATIONS[_PAIRS[instruction.name]], low + half, taken, extra=self._float_bits()))
        return found

    def _first_lane(self, instruction: Instruction) -> Row:
        destination, source = instruction.operands
        if not isinstance(source, Reg) or source.file not in "va" or not isinstance(destination, Reg) or destination.file != "s":
            raise _Unknown
        return _row(FIRST_LANE, 0, destination.index, [(REGISTER, self._slot(source))])

    def _compare(self, instruction: Instruction) -> list[Row]:
        parts = instruction.name.split("_")
        operation = f"cmp_{parts[2]}_{_COMPARED.get(parts[3], '')}"
        if operation not in OPERATIONS:
            raise _Unknown
        extra = FLUSH_IN * self.mode.flush32_in if parts[3] == "f32" and parts[2] not in ("o", "u") else 0
        destination, *operands = instruction.operands
        slots = instruction.form.operands[1:]
        found: list[Row] = []
        sources = [self._source(operand, slot.type, at, found) for at, (slot, operand) in enumerate(zip(slots, operands, strict=True))]
        also = EXEC if parts[1] == "cmpx" else -1
        found.append(_row(COMPARE, OPERATIONS[operation], also, sources, mask_out=_pair_of(destination), extra=extra))
        return found

    def _source(self, operand: Operand, kind: str, at: int, found: list[Row]) -> Source:
        """A 32-bit source; what changes its sign comes before it, into temporary row `at`."""
        if isinstance(operand, Modified):
            if operand.sext or kind not in ("f32", "b32"):
                raise _Unknown
            source = self._source(operand.value, kind, at, found)
            for name, wanted in (("abs", operand.abs), ("neg", operand.neg)):
                if wanted:
                    found.append(_row(TEMPORARY, OPERATIONS[name], at, [source]))
                    source = TEMP, at
            return source
        if kind not in ("f32", "u32", "i32", "b32"):
            raise _Unknown
        if isinstance(operand, Reg) and operand.file in "va":
            return REGISTER, self._slot(operand)
        if isinstance(operand, Reg) and operand.file == "s":
            return SCALAR, operand.index
        if not isinstance(operand, int | float):
            raise _Unknown
        return CONSTANT, self.constant(bits_of(operand, kind) & 0xFFFFFFFF)

    def constant(self, pattern: int) -> int:
        """The row that holds a constant."""
        if pattern not in self.constants:
            self.constants.append(pattern)
        return self.constants.index(pattern)

    def _slot(self, reg: Reg) -> int:
        """Where a vector register lies. What is beyond the allocation is reported by the instruction's own step."""
        slot = self.machine.slot(reg)
        if slot + reg.count > self.machine.registers:
            raise _Unknown
        return slot

    # Scalar instructions.

    def _scalar(self, instruction: Instruction) -> list[Row]:
        name = instruction.name
        if instruction.opcode.encoding not in ("SOP1", "SOP2", "SOPC", "SOPK"):
            raise _Unknown
        if name.startswith(("s_cmp_", "s_cmpk_", "s_bitcmp")):
            return [self._test(instruction)]
        locations, operands = instruction.form.operands, instruction.operands
        destination = operands[0]
        if not isinstance(destination, Reg) or destination.file != "s":
            raise _Unknown
        if name in _SAVING:
            return [_row(SAVE_EXEC, SCALARS[_SAVING[name]], destination.index, [_scalar_source(operands[1], "b64")])]
        operation = _SALU.get(name)
        if operation is None:
            raise _Unknown
        kinds = [location.type for location in locations]
        sources = [_scalar_source(operand, location.type, "n" in location.accepts)
                   for location, operand in zip(locations[1:], operands[1:], strict=True)]
        if locations[0].reads:
            sources.insert(0, (SCALAR, destination.index))
        wide = kinds[0] in _WIDE
        narrow_second = 2 if wide and len(kinds) > 2 and kinds[2] not in _WIDE else 0
        extra = int(name[6]) if operation == "lshl_add" else 0
        return [_row(SCALAR64 if wide else SCALAR32, SCALARS[operation], destination.index, sources, narrow_second,
                     int("scc" in instruction.opcode.writes), extra)]

    def _test(self, instruction: Instruction) -> Row:
        name, locations, operands = instruction.name, instruction.form.operands, instruction.operands
        wide = locations[0].type in _WIDE
        if name.startswith("s_bitcmp"):
            if wide:
                raise _Unknown
            operation = f"bit{name[8]}"
        else:
            relation, kind = name.split("_")[2:4]
            operation = {"eq": "eq", "lg": "ne"}.get(relation) or f"{relation}_{kind[0]}"
        first = _scalar_source(operands[0], locations[0].type)
        if name.startswith("s_cmpk_") and name.endswith("_u32"):
            second = CONSTANT, int(operands[1]) & 0xFFFF  # type: ignore[arg-type]
        else:
            second = _scalar_source(operands[1], locations[1].type, "n" in locations[1].accepts)
        return _row(SCALAR_TEST, SCALARS[operation], 0, [first, second], int(wide), 1)


def writes_exec(row: Row) -> bool:
    """Whether EXEC may change."""
    if row[0] == SAVE_EXEC or row[0] == COMPARE and row[2] == EXEC:
        return True
    goal = row[10] if row[0] in (COMPARE, CARRY) else row[2] if row[0] in (SCALAR32, SCALAR64, FIRST_LANE) else -2
    return EXEC - 1 <= goal <= EXEC + 1


def _row(kind: int, operation: int, target: int, sources: list[Source], mask: int = -1, mask_out: int = -1, extra: int = 0) -> Row:
    filled = [*sources, *[(CONSTANT, 0)] * (3 - len(sources))]
    row = [kind, operation, target, *[number for source in filled for number in source], mask, mask_out, extra]
    assert len(row) == COLUMNS
    return row


def _renumbered(row: Row, locations: list[int]) -> Row:
    """A row of vector arithmetic whose constants stand in other rows."""
    renumbered = row.copy()
    for at in range(SOURCES, MASK, 2):
        if row[at] == CONSTANT:
            renumbered[at + 1] = locations[row[at + 1]]
    return renumbered


def _set(value: object) -> bool:
    return any(value) if isinstance(value, tuple | list) else bool(value)


def _unknown() -> tuple[str, Orders]:
    raise _Unknown


def _pair_of(operand: Operand) -> int:
    if not isinstance(operand, Reg) or operand.file != "s":
        raise _Unknown
    return operand.index


def _scalar_source(operand: Operand, kind: str, immediate: bool = False) -> Source:
    """A scalar source; an immediate of SOPK is sign-extended from 16 bits."""
    if isinstance(operand, Reg) and operand.file == "s":
        return SCALAR, operand.index
    if not isinstance(operand, int | float):
        raise _Unknown
    if immediate and isinstance(operand, int):
        return CONSTANT, ((operand & 0xFFFF ^ 0x8000) - 0x8000) & 0xFFFFFFFF
    pattern = bits_of(operand, kind)
    return CONSTANT, pattern - (1 << 64) if pattern >> 63 else pattern
