"""What may stand in an instruction's operand slots, besides registers and plain Python numbers.

Numbers (`int`, `float`) are constants: inline where the hardware has them, literals where the encoding allows one.
"""

from __future__ import annotations

import math
import struct

from asmgen.isa.arch import COUNTER_MAX
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Modified, Reg, constant_text, exec_, scc, vcc


class Literal(int):
    """A constant that occupies a literal although it could be inline: `lit(0x4)`. Everywhere else it is its value."""

    def __str__(self) -> str:
        return f"lit({int(self) & 0xFFFFFFFF:#x})"

    __repr__ = __str__


@dataclass(frozen=True)
class Special:
    """A named source that is no register of a file: vccz, execz, src_scc, the apertures; or `off` in an address place."""

    name: str

    def __str__(self) -> str:
        return self.name


OFF = Special("off")

SPECIAL_SOURCES: dict[str, Reg | None] = {
    "src_vccz": vcc, "src_execz": exec_, "src_scc": scc,
    "src_shared_base": None, "src_shared_limit": None, "src_private_base": None, "src_private_limit": None,
    "src_pops_exiting_wave_id": None, "off": None,
}
"""Special sources and the register each one reads, if any."""


@dataclass(frozen=True)
class Symbol:
    """A label or a relocatable expression, as the assembler spells it."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Waitcnt:
    """The operand of s_waitcnt; None waits for nothing, and so does a field's largest value, which it is encoded as."""

    vmcnt: int | None = None
    expcnt: int | None = None
    lgkmcnt: int | None = None

    @property
    def simm16(self) -> int:
        """The encoding (docs/facts/instructions.md section 4: vmcnt in bits 3:0 and 15:14, expcnt 6:4, lgkmcnt 11:8)."""
        vm = COUNTER_MAX["vmcnt"] if self.vmcnt is None else self.vmcnt
        exp = COUNTER_MAX["expcnt"] if self.expcnt is None else self.expcnt
        lgkm = COUNTER_MAX["lgkmcnt"] if self.lgkmcnt is None else self.lgkmcnt
        # Bits 13:12 stay 0, as in every encoding that LLVM prints (nothing to wait for = 0xcf7f).
        return (vm & 15) | exp << 4 | lgkm << 8 | (vm >> 4) << 14

    @classmethod
    def decode(cls, simm16: int) -> Waitcnt:
        """The fields of an encoding; a field at its largest value is None."""
        vm = (simm16 & 15) | (simm16 >> 14 & 3) << 4
        fields = (vm, simm16 >> 4 & 7, simm16 >> 8 & 15)
        return cls(*(None if value == most else value for value, most in zip(fields, COUNTER_MAX.values(), strict=True)))

    def __str__(self) -> str:
        fields = [f"{name}({value})" for name, value in
                  (("vmcnt", self.vmcnt), ("expcnt", self.expcnt), ("lgkmcnt", self.lgkmcnt)) if value is not None]
        return " ".join(fields) if fields else hex(self.simm16)


@dataclass(frozen=True)
class HwReg:
    """The operand of s_getreg and s_setreg: a hardware register's number, first bit and size in bits."""

    number: int
    offset: int = 0
    size: int = 32

    @property
    def simm16(self) -> int:
        """The encoding: number in bits 5:0, offset in 10:6, size - 1 in 15:11."""
        return self.number | self.offset << 6 | (self.size - 1) << 11

    @classmethod
    def decode(cls, simm16: int) -> HwReg:
        """The fields of an encoding."""
        return cls(simm16 & 63, simm16 >> 6 & 31, (simm16 >> 11 & 31) + 1)

    def __str__(self) -> str:
        name = HWREG_NAMES.get(self.number, str(self.number))
        whole = self.offset == 0 and self.size == 32
        return f"hwreg({name})" if whole else f"hwreg({name}, {self.offset}, {self.size})"


HWREG_NAMES = {
    1: "HW_REG_MODE", 2: "HW_REG_STATUS", 3: "HW_REG_TRAPSTS", 4: "HW_REG_HW_ID", 5: "HW_REG_GPR_ALLOC",
    6: "HW_REG_LDS_ALLOC", 7: "HW_REG_IB_STS", 15: "HW_REG_SH_MEM_BASES",
    16: "HW_REG_TBA_LO", 17: "HW_REG_TBA_HI", 18: "HW_REG_TMA_LO", 19: "HW_REG_TMA_HI",
    20: "HW_REG_XCC_ID", 21: "HW_REG_SQ_PERF_SNAPSHOT_DATA", 22: "HW_REG_SQ_PERF_SNAPSHOT_DATA1",
    23: "HW_REG_SQ_PERF_SNAPSHOT_PC_LO", 24: "HW_REG_SQ_PERF_SNAPSHOT_PC_HI",
}
"""Hardware registers of gfx942 and gfx950 by number (source: the names that LLVM 22's assembler takes and prints for both; it knows no
other of the numbers 0 to 31). TBA and TMA hold the trap handler's addresses."""


@dataclass(frozen=True)
class SendMsg:
    """The operand of s_sendmsg: message, operation and stream numbers (bits 3:0, 6:4 and 9:8)."""

    message: int
    operation: int = 0
    stream: int = 0

    @property
    def simm16(self) -> int:
        """The encoding."""
        return self.message | self.operation << 4 | self.stream << 8

    @classmethod
    def decode(cls, simm16: int) -> SendMsg:
        """The fields of an encoding."""
        return cls(simm16 & 15, simm16 >> 4 & 7, simm16 >> 8 & 3)

    def __str__(self) -> str:
        name = MESSAGE_NAMES.get(self.message)
        if name is not None and not self.operation and not self.stream:
            return f"sendmsg({name})"
        return f"sendmsg({self.message}, {self.operation}, {self.stream})"


MESSAGE_NAMES = {1: "MSG_INTERRUPT", 4: "MSG_SAVEWAVE", 5: "MSG_STALL_WAVE_GEN", 6: "MSG_HALT_WAVES", 7: "MSG_ORDERED_PS_DONE",
                 8: "MSG_EARLY_PRIM_DEALLOC", 9: "MSG_GS_ALLOC_REQ", 10: "MSG_GET_DOORBELL"}
"""Messages without an operation by number (source: LLVM 22's names for the gfx9 family)."""


@dataclass(frozen=True)
class GprIdx:
    """The operand of s_set_gpr_idx_on and s_set_gpr_idx_mode: which operands M0 indexes, a bit each."""

    modes: int

    def __str__(self) -> str:
        return f"gpr_idx({','.join(name for bit, name in enumerate(GPR_IDX_NAMES) if self.modes >> bit & 1)})"


GPR_IDX_NAMES = ("SRC0", "SRC1", "SRC2", "DST")
"""What each bit of gpr_idx makes relative to M0."""

Operand = Reg | Modified | Special | Symbol | Waitcnt | HwReg | SendMsg | GprIdx | int | float

INV_2PI = struct.unpack("<d", struct.pack("<Q", 0x3FC45F306DC9C882))[0]
"""The hardware's 1/(2 pi): one unit in the last place below the nearest float64."""
INLINE_FLOATS = (0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0, INV_2PI)
"""Floats that every float operand encodes for free (CDNA3 ISA, SSRC table: codes 240 to 248)."""


_INLINE_BITS = {
    "f64": frozenset(struct.unpack("<Q", struct.pack("<d", value))[0] for value in INLINE_FLOATS),
    "f32": frozenset(struct.unpack("<I", struct.pack("<f", value))[0] for value in INLINE_FLOATS),
    "f16": frozenset(struct.unpack("<H", struct.pack("<e", value))[0] for value in INLINE_FLOATS),
    "bf16": frozenset(struct.unpack("<I", struct.pack("<f", value))[0] >> 16 for value in INLINE_FLOATS),
}
_INT16 = frozenset({"i16", "u16", "b16"})
_HALF_BITS = {"f16": "f16", "v2f16": "f16", "bf16": "bf16", "v2bf16": "bf16"}


def is_inline(value: int | float, operand_type: str) -> bool:
    """Whether a constant needs no literal in an operand of this type (an integer also where it is an inline float's bits)."""
    if isinstance(value, float):
        if value in INLINE_FLOATS[:-1] or value == 0.0 and math.copysign(1, value) > 0:
            return True
        # The assembler rounds 1/(2 pi) to another bf16 than the hardware has.
        near = 0.1591 < value < 0.1592 and operand_type not in ("bf16", "v2bf16")
        return near and float_bits(value, operand_type) == float_bits(INV_2PI, operand_type)
    if -16 <= value <= 64:
        return True
    if operand_type in _INT16:
        return False
    if "64" in operand_type:
        return value & ((1 << 64) - 1) in _INLINE_BITS["f64"] or value >= (1 << 64) - 16
    half = _HALF_BITS.get(operand_type)
    if half is not None:
        # A negative integer has 16 bits where the operand has, 32 where it is a pair.
        return value in _INLINE_BITS[half] or (0xFFF0 <= value <= 0xFFFF if operand_type == half else 0xFFFFFFF0 <= value <= 0xFFFFFFFF)
    pattern = value & 0xFFFFFFFF
    return pattern in _INLINE_BITS["f32"] or pattern >= (1 << 32) - 16


def float_bits(value: float, operand_type: str) -> int:
    """The bit pattern a float constant has in an operand of this type (f64 for 64-bit ones, f16, bf16, else f32)."""
    if "64" in operand_type:
        return int.from_bytes(struct.pack("<d", value), "little")
    if operand_type in ("f16", "b16", "u16", "i16", "v2f16"):
        return int.from_bytes(struct.pack("<e", value), "little")
    pattern = int.from_bytes(struct.pack("<f", value), "little")
    return pattern >> 16 if operand_type in ("bf16", "v2bf16") else pattern


def format_operand(operand: Operand) -> str:
    """The operand as the assembler reads it."""
    return constant_text(operand) if isinstance(operand, int | float) else str(operand)
