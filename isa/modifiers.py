"""Instruction modifiers: their canonical Python values, their ranges, and how llvm-objdump spells them.

| modifier | value |
|---|---|
| clamp, offen, idxen, lds, gds, sc0, sc1, nt, glc, row_mirror, row_half_mirror | True |
| offset, offset0, offset1, cbsz, abid, blgp, mul (2, 4), div (2), row_mask, bank_mask, bound_ctrl, fi, bitop3, format | int |
| row_shl, row_shr, row_ror, wave_shl, wave_rol, wave_shr, wave_ror, row_bcast, row_newbcast | int |
| op_sel, op_sel_hi, neg_lo, neg_hi, neg | tuple of 0 and 1, one a source; op_sel of VOP3 has the destination's after |
| quad_perm | tuple of four numbers 0 to 3 |
| dst_sel, src0_sel, src1_sel | BYTE_0 to BYTE_3, WORD_0, WORD_1, DWORD |
| dst_unused | UNUSED_PAD, UNUSED_SEXT, UNUSED_PRESERVE |

A modifier that is absent, False or None has its default. Defaults worth knowing (LLVM 22): op_sel_hi is all ones, but all zeros in
v_mfma_scale and v_fma_mix; row_mask and bank_mask 15; dst_sel and src_sel DWORD; dst_unused UNUSED_PRESERVE.
bound_ctrl sets its bit whichever of 0 and 1 is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asmgen.isa.records import dataclass

DPP_CONTROLS = ("quad_perm", "row_shl", "row_shr", "row_ror", "wave_shl", "wave_rol", "wave_shr", "wave_ror", "row_mirror",
                "row_half_mirror", "row_bcast", "row_newbcast")
"""Of these a DPP instruction has exactly one."""
FLAGS = frozenset({"clamp", "offen", "idxen", "lds", "gds", "sc0", "sc1", "nt", "glc", "row_mirror", "row_half_mirror"})
SELECTORS = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD")
UNUSED = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")

VALUES: dict[str, tuple[int, ...] | range] = {
    "mul": (2, 4), "div": (2,), "row_shl": range(1, 16), "row_shr": range(1, 16), "row_ror": range(1, 16), "wave_shl": (1,),
    "wave_rol": (1,), "wave_shr": (1,), "wave_ror": (1,), "row_bcast": (15, 31), "row_newbcast": range(16), "row_mask": range(16),
    "bank_mask": range(16), "bound_ctrl": (0, 1), "fi": (0, 1), "cbsz": range(8), "abid": range(16), "blgp": range(8),
    "bitop3": range(256), "format": range(128), "offset0": range(256), "offset1": range(256),
}
"""The integers that a modifier may have (LLVM 22); `offset` depends on the encoding."""

OFFSETS: dict[str, tuple[int, int]] = {
    "MUBUF": (0, 4095), "MTBUF": (0, 4095), "DS": (0, 65535), "FLAT": (0, 4095), "GLOBAL": (-4096, 4095), "SCRATCH": (-4096, 4095),
    "SMEM": (-(1 << 20), (1 << 20) - 1), "SMEM_BUFFER": (0, (1 << 20) - 1),
}
"""First and last `offset` in bytes (docs/facts/instructions.md section 5; LLVM 22 takes 4096 for MUBUF and encodes 0)."""

MASKS = frozenset({"op_sel", "op_sel_hi", "neg_lo", "neg_hi", "neg"})

ORDER = ("format", "idxen", "offen", "quad_perm", "row_shl", "row_shr", "row_ror", "wave_shl", "wave_rol", "wave_shr", "wave_ror",
         "row_mirror", "row_half_mirror", "row_bcast", "row_newbcast", "row_mask", "bank_mask", "bound_ctrl", "fi",
         "offset", "offset0", "offset1", "gds", "glc", "sc0", "nt", "sc1", "lds", "bitop3", "op_sel", "op_sel_hi", "neg_lo", "neg_hi",
         "clamp", "mul", "div", "dst_sel", "dst_unused", "src0_sel", "src1_sel", "cbsz", "abid", "blgp", "neg")
"""The order in which llvm-objdump prints them; the assembler insists on it in places."""
_POSITION = {name: position for position, name in enumerate(ORDER)}
_HEX = frozenset({"row_mask", "bank_mask", "bitop3"})
ZERO_UNSAID = frozenset({"offset", "offset0", "offset1", "cbsz", "abid", "blgp"})
"""Modifiers whose 0 is the same as nothing, so it is not printed."""

DATA_FORMATS = ("INVALID", "8", "16", "8_8", "32", "16_16", "10_11_11", "11_11_10", "10_10_10_2", "2_10_10_10", "8_8_8_8", "32_32",
                "16_16_16_16", "32_32_32", "32_32_32_32", "RESERVED_15")
NUMBER_FORMATS = ("UNORM", "SNORM", "USCALED", "SSCALED", "UINT", "SINT", "RESERVED_6", "FLOAT")


def parse_format(text: str) -> int:
    """The number of a tbuffer format: "22", or llvm-objdump's "[BUF_DATA_FORMAT_32,BUF_NUM_FORMAT_FLOAT]".

    Bits 3:0 are the data format, 6:4 the number format. Raises ValueError for a name it does not know.
    """
    if not text.startswith("["):
        return int(text, 0)
    # The assembler's defaults where one of the two is left out: 8-bit data, unsigned normalised.
    data, number = 1, 0
    for part in text.strip("[]").split(","):
        name = part.strip()
        if name.startswith("BUF_DATA_FORMAT_"):
            data = DATA_FORMATS.index(name[16:])
        elif name.startswith("BUF_NUM_FORMAT_"):
            number = NUMBER_FORMATS.index(name[15:])
        else:
            raise ValueError(f"{name} is no buffer format")
    return data | number << 4


def parse_swizzle(text: str) -> int:
    """The offset of ds_swizzle_b32 from llvm-objdump's "swizzle(QUAD_PERM,0,1,2,3)" and its other modes.

    Bits 15:14 are 2 for a permutation of each four lanes, two bits each, and 3 for a rotation (with bit 13: an FFT pattern). Where
    bit 15 is clear, bits 4:0, 9:5 and 14:10 are the masks that a lane number of five bits is and-ed, or-ed and xor-ed with (CDNA3
    ISA, DS_SWIZZLE_B32; spelling: LLVM 22). Raises ValueError, with a sentence, for what the assembler does not take.
    """
    mode, *arguments = (part.strip().strip('"') for part in text.strip().removeprefix("swizzle(").removesuffix(")").split(","))
    if mode == "BITMASK_PERM" and len(arguments) == 1 and len(arguments[0]) == 5:
        and_mask = or_mask = xor_mask = 0
        for letter in arguments[0]:
            bits = _SWIZZLE_LETTERS.get(letter)
            if bits is None:
                raise ValueError(f"{text}: {letter} is none of 0, 1, p and i")
            and_mask, or_mask, xor_mask = and_mask << 1 | bits[0], or_mask << 1 | bits[1], xor_mask << 1 | bits[2]
        return and_mask | or_mask << 5 | xor_mask << 10
    if mode not in _SWIZZLE_NUMBERS or len(arguments) != len(_SWIZZLE_NUMBERS[mode]):
        raise ValueError(f"{text} is no swizzle mode")
    values = [number.of(text, argument) for number, argument in zip(_SWIZZLE_NUMBERS[mode], arguments, strict=True)]
    if mode == "QUAD_PERM":
        return 0x8000 | sum(value << 2 * lane for lane, value in enumerate(values))
    if mode == "SWAP":
        return 0x1F | values[0] << 10
    if mode == "REVERSE":
        return 0x1F | (values[0] - 1) << 10
    if mode == "BROADCAST":
        if values[1] >= values[0]:
            raise ValueError(f"{text}: the lane is {values[1]}, and a group of {values[0]} has lanes 0 to {values[0] - 1}")
        return 0x1F & -values[0] | values[1] << 5
    return 0xC000 | values[0] << 10 | values[1] << 5 if mode == "ROTATE" else 0xE000 | values[0]


@dataclass(frozen=True)
class _Number:
    """A number of a swizzle mode: what it is, its bounds, and whether it is a power of two."""

    what: str
    least: int
    most: int
    power: bool = False

    def of(self, text: str, argument: str) -> int:
        """The number that `argument` gives. Raises ValueError where it is none or out of bounds."""
        try:
            value = int(argument, 0)
        except ValueError:
            raise ValueError(f"{text}: {argument} is no number") from None
        if not self.least <= value <= self.most or self.power and value & (value - 1):
            allowed = "a power of two from" if self.power else "a number from"
            raise ValueError(f"{text}: the {self.what} is {allowed} {self.least} to {self.most}, not {value}")
        return value


_SWIZZLE_NUMBERS = {
    "QUAD_PERM": (_Number("lane", 0, 3),) * 4, "SWAP": (_Number("group size", 1, 16, True),),
    "REVERSE": (_Number("group size", 2, 32, True),), "BROADCAST": (_Number("group size", 2, 32, True), _Number("lane", 0, 31)),
    "ROTATE": (_Number("direction", 0, 1), _Number("distance", 0, 31)), "FFT": (_Number("pattern", 0, 31),),
}
"""The numbers of each mode (source: what LLVM 22's assembler takes)."""
# What each letter of a BITMASK_PERM does to its bit: the bits of the and, or and xor masks.
_SWIZZLE_LETTERS = {"0": (0, 0, 0), "1": (0, 1, 0), "p": (1, 0, 0), "i": (1, 0, 1)}


def is_set(value: Any) -> bool:
    """Whether a modifier's value says anything (0 does: bound_ctrl:0, row_newbcast:0)."""
    return value is not None and value is not False


def format_modifiers(modifiers: Mapping[str, Any]) -> str:
    """The modifiers as llvm-objdump prints them, with a space in front; "" where there are none.

    >>> format_modifiers({"offset": 16, "offen": True})
    ' offen offset:16'
    """
    if not modifiers:
        return ""
    parts = []
    for name in sorted(modifiers, key=lambda key: _POSITION.get(key, len(ORDER))):
        value = modifiers[name]
        if not is_set(value):
            continue
        if name in FLAGS:
            parts.append(name)
        elif isinstance(value, (tuple, list)):
            parts.append(f"{name}:[{','.join(str(int(item)) for item in value)}]")
        elif name in _HEX:
            parts.append(f"{name}:{int(value):#x}")
        elif value == 0 and name in ZERO_UNSAID:
            continue
        else:
            parts.append(f"{name}:{value}")
    return "".join(" " + part for part in parts)


DESTINATION_BYTE = frozenset({"v_cvt_sr_fp8_f32", "v_cvt_sr_bf8_f32", "v_cvt_scalef32_pk_fp4_f16", "v_cvt_scalef32_pk_fp4_bf16"})
"""Conversions with two sources whose op_sel has a third and a fourth entry: which byte of the destination (seen in LLVM 22's encodings)."""


def mask_entries(mnemonic: str, name: str, encoding: str, sources: int) -> int:
    """How many entries a list modifier may have: one a source, for op_sel of VOP3 one more for the destination, or two for its byte.

    v_mfma_scale selects bytes for A and B; a third entry is printed because the encoding has it, but selects nothing.
    """
    if encoding == "MAI":
        return 3
    return sources + (name == "op_sel" and encoding == "VOP3") * (1 + (mnemonic in DESTINATION_BYTE))


def modifier_fault(mnemonic: str, name: str, value: Any, encoding: str, sources: int) -> str | None:
    """Why a modifier's value is not legal, or None. `sources` counts the form's source operands."""
    if name in FLAGS:
        return None if value is True or value == 1 else f"{name} is a flag: it takes True, not {value!r}"
    if name == "offset":
        low, high = OFFSETS[encoding]
        return None if _is_int(value) and low <= value <= high else f"offset expects {low} to {high} bytes, got {value}"
    if name in MASKS:
        most = mask_entries(mnemonic, name, encoding, sources)
        if isinstance(value, (tuple, list)) and 1 <= len(value) <= most and all(item in (0, 1) for item in value):
            unused = encoding == "MAI" and name != "neg" and len(value) == 3 and value[2]
            return f"{name} of a scaled matrix instruction has A's and B's bit, and then 0, got {value}" if unused else None
        return f"{name} expects a tuple of {most} values 0 or 1, got {value!r}"
    if name == "quad_perm":
        if isinstance(value, (tuple, list)) and len(value) == 4 and all(item in range(4) for item in value):
            return None
        return f"quad_perm expects a tuple of four numbers 0 to 3, got {value!r}"
    if name in ("dst_sel", "src0_sel", "src1_sel", "dst_unused"):
        allowed = UNUSED if name == "dst_unused" else SELECTORS
        return None if value in allowed else f"{name} expects one of {', '.join(allowed)}, got {value!r}"
    numbers = VALUES[name]
    if _is_int(value) and value in numbers:
        return None
    span = f"{numbers[0]} to {numbers[-1]}" if isinstance(numbers, range) else " or ".join(map(str, numbers))
    return f"{name} expects {span}, got {value}"


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
