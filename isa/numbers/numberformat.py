"""What each number format is, as data; see the package for the sources' abbreviations."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from asmgen.isa.arch import Architecture
from asmgen.isa.errors import AsmgenError

Array = NDArray[Any]
NanKind = Literal["none", "ieee", "all_ones", "negative_zero"]

MX_BLOCK = 32  # [MX] 5.2: every concrete MX format has blocks of 32
SCALE_NAN = 0xFF  # [MX] 5.4.1
SCALE_BIAS = 127


class FormatError(AsmgenError):
    """A number format, rounding mode, shape or value type that the conversion asked for does not have."""


@dataclass(frozen=True)
class Format:
    """One number format. Bits from the top: sign (absent in e8m0), exponent, mantissa; subnormals where the exponent is 0.

    nan: "none", "ieee" (exponent all ones, mantissa not 0), "all_ones" (everything but the sign), "negative_zero" (that code only).
    saturates: what `encode` does when its caller does not say; [MX] 6.3 wants it for elements of a block.
    clamps_infinity: whether a saturating conversion also turns infinities into max. [I4]: fp8 yes (7.3); f16 no, FP16_OVFL keeps
    true infinities (MODE register); bf16 has no saturating conversion, taken as f16 (inferred).
    """

    name: str
    bits: int
    exponent_bits: int
    mantissa_bits: int
    bias: int
    max: float
    nan: NanKind
    has_inf: bool
    source: str
    has_negative_zero: bool = True
    saturates: bool = True
    clamps_infinity: bool = True
    is_scale: bool = False  # unsigned, exponent only: e8m0

    @property
    def max_code(self) -> int:
        """The code of the largest finite value; codes 0 to max_code are the non-negative finite values in order."""
        if self.is_scale:
            return (1 << self.bits) - 2
        if self.nan == "ieee":
            return (((1 << self.exponent_bits) - 1) << self.mantissa_bits) - 1
        return (1 << (self.bits - 1)) - (2 if self.nan == "all_ones" else 1)

    @property
    def min_exponent(self) -> int:
        """The exponent of the smallest normal value, and of every subnormal's unit times 2**mantissa_bits."""
        return 1 - self.bias

    @property
    def emax(self) -> int:
        """floor(log2(max)), the emax of [MX] 6.3."""
        return int(np.frexp(self.max)[1]) - 1

    @property
    def sign_code(self) -> int:
        """The sign bit, 0 where there is none."""
        return 0 if self.is_scale else 1 << (self.bits - 1)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The unsigned integers that hold one code each when unpacked."""
        return np.dtype(np.uint8 if self.bits <= 8 else np.uint16)


FORMATS: MappingProxyType[str, Format] = MappingProxyType({
    fmt.name: fmt
    for fmt in (
        Format("e2m1", 4, 2, 1, 1, 6.0, "none", False, "[MX] 5.3.3; fp4"),
        Format("e2m3", 6, 2, 3, 1, 7.5, "none", False, "[MX] 5.3.2; fp6"),
        Format("e3m2", 6, 3, 2, 3, 28.0, "none", False, "[MX] 5.3.2; bf6"),
        Format("e4m3", 8, 4, 3, 7, 448.0, "all_ones", False, "[OCP8] table 1; gfx950 fp8"),
        Format("e5m2", 8, 5, 2, 15, 57344.0, "ieee", True, "[OCP8] table 1; gfx950 bf8"),
        Format("e4m3fnuz", 8, 4, 3, 8, 240.0, "negative_zero", False, "docs/facts/semantics.md section 4; gfx942 fp8",
               has_negative_zero=False),
        Format("e5m2fnuz", 8, 5, 2, 16, 57344.0, "negative_zero", False, "docs/facts/semantics.md section 4; gfx942 bf8",
               has_negative_zero=False),
        Format("e8m0", 8, 8, 0, 127, 2.0**127, "all_ones", False, "[MX] 5.4.1", has_negative_zero=False, is_scale=True),
        Format("bf16", 16, 8, 7, 127, float.fromhex("0x1.fep127"), "ieee", True, "upper half of an f32", saturates=False,
               clamps_infinity=False),
        Format("f16", 16, 5, 10, 15, 65504.0, "ieee", True, "IEEE 754 binary16", saturates=False, clamps_infinity=False),
    )
})

# What an instruction's "fp8", "bf8" and so on mean. The 6- and 4-bit formats and their instructions exist on gfx950 only.
_HARDWARE_NAMES: MappingProxyType[str, MappingProxyType[str, str]] = MappingProxyType({
    "fnuz": MappingProxyType({"fp8": "e4m3fnuz", "bf8": "e5m2fnuz", "bf16": "bf16", "f16": "f16"}),
    "ocp": MappingProxyType(
        {"fp8": "e4m3", "bf8": "e5m2", "fp6": "e2m3", "bf6": "e3m2", "fp4": "e2m1", "bf16": "bf16", "f16": "f16"}
    ),
})


def hardware_format(kind: str, arch: Architecture) -> Format:
    """What `kind` ("fp8", "bf8", "fp6", "bf6", "fp4", "bf16", "f16") in a mnemonic means on `arch`; FormatError if it has none."""
    names = _HARDWARE_NAMES[arch.fp8]
    if kind not in names:
        raise FormatError(f"{arch.name} has no number format {kind!r}; it has {', '.join(names)}")
    return FORMATS[names[kind]]


def resolve_format(fmt: Format | str) -> Format:
    """`fmt` itself, or the format of that name; FormatError names the known ones."""
    if isinstance(fmt, Format):
        return fmt
    if fmt not in FORMATS:
        raise FormatError(f"unknown number format {fmt!r}; known are {', '.join(FORMATS)}")
    return FORMATS[fmt]
