"""Registers of the gfx9 family: the vector, accumulation and scalar files, and how assembly names them.

A scalar register is known by its hardware number (source: CDNA3 ISA, section 3 and the SSRC encoding table): s0-s101, then the
special ones (flat_scratch 102, xnack_mask 104, vcc 106, ttmp0 108, m0 124, exec 126). So `vcc` is the pair 106:107 of
the scalar file and needs no case of its own in liveness, waits or hazards. SCC is a file of one bit.

Every register has one bit in a Python integer (`Reg.mask`): v0 is bit 0, a0 bit 256 unless an accumulation offset says
otherwise, s0 bit 512, scc bit 640. Sets of registers are such integers everywhere.
"""

from __future__ import annotations

from asmgen.isa.records import cached_property, dataclass

VGPR_COUNT = 256
AGPR_COUNT = 256
SGPR_COUNT = 102
SGPR_BIT = VGPR_COUNT + AGPR_COUNT
SCC_BIT = SGPR_BIT + 128
_FILE_BIT = {"v": 0, "a": VGPR_COUNT, "s": SGPR_BIT, "scc": SCC_BIT}

_SPECIAL_BASE = {"flat_scratch": 102, "xnack_mask": 104, "vcc": 106, "exec": 126}
_SPECIAL_SINGLE = {"m0": 124}
_SPECIAL_NAMES: dict[tuple[int, int], str] = {(number, 1): name for name, number in _SPECIAL_SINGLE.items()}
for _name, _number in _SPECIAL_BASE.items():
    _SPECIAL_NAMES[_number, 2] = _name
    _SPECIAL_NAMES[_number, 1] = f"{_name}_lo"
    _SPECIAL_NAMES[_number + 1, 1] = f"{_name}_hi"
TTMP_BASE = 108
TTMP_COUNT = 16


@dataclass(frozen=True)
class Reg:
    """A range of `count` consecutive 32-bit registers of one file, from `index` on.

    `file` is "v" (arch VGPR), "a" (AGPR), "s" (scalar, hardware numbers 0..127) or "scc".
    """

    file: str
    index: int
    count: int = 1

    def __getitem__(self, key: int | slice) -> Reg:
        """A part of the range: `q[2]` is its third register, `q[4:7]` the fifth to the eighth (inclusive, as in the assembler).

        Raises IndexError where the part is not inside the range.
        """
        return Reg(self.file, *self.part(key))

    def part(self, key: int | slice) -> tuple[int, int]:
        """Index and count of such a part."""
        first, last = _bounds(key)
        if not 0 <= first <= last < self.count:
            raise IndexError(f"{self} has {self.count} registers, numbered 0 to {self.count - 1}: [{first}:{last}] is not inside")
        return self.index + first, last - first + 1

    @property
    def last(self) -> int:
        """The number of the range's last register."""
        return self.index + self.count - 1

    def overlaps(self, other: Reg) -> bool:
        """Whether the two ranges share a register (of the same file; a split unified file is `mask`'s business)."""
        return self.file == other.file and self.index <= other.last and other.index <= self.last

    @cached_property
    def mask(self) -> int:
        """One bit a register, AGPRs at 256 and above (see the module's text)."""
        return (1 << self.count) - 1 << _FILE_BIT[self.file] + self.index

    def mask_at(self, accum_offset: int) -> int:
        """One bit a register where the unified file is split at `accum_offset`: a# is the same register as v#(accum_offset + #)."""
        return (1 << self.count) - 1 << (accum_offset if self.file == "a" else _FILE_BIT[self.file]) + self.index

    def __str__(self) -> str:
        if self.file == "scc":
            return "scc"
        if self.file == "s":
            special = _SPECIAL_NAMES.get((self.index, self.count))
            if special is not None:
                return special
            if TTMP_BASE <= self.index < TTMP_BASE + TTMP_COUNT and self.index != 124:
                return _plain("ttmp", self.index - TTMP_BASE, self.count)
        return _plain(self.file, self.index, self.count)

    def __neg__(self) -> Modified:
        """The source operand -x."""
        return Modified(self, neg=True)

    def __abs__(self) -> Modified:
        """The source operand |x|."""
        return Modified(self, abs=True)


@dataclass(frozen=True)
class Modified:
    """A source register or constant with input modifiers: -x, |x|, -|x|, sext(x). An author writes `-x`, `abs(x)`, `-abs(x)`."""

    value: Reg | int | float
    neg: bool = False
    abs: bool = False
    sext: bool = False

    def __neg__(self) -> Modified:
        return Modified(self.value, not self.neg, self.abs, self.sext)

    def __abs__(self) -> Modified:
        return Modified(self.value, False, True, self.sext)

    def __str__(self) -> str:
        text = str(self.value) if isinstance(self.value, Reg) else constant_text(self.value)
        if self.sext:
            text = f"sext({text})"
        if self.abs:
            text = f"|{text}|"
        if not self.neg:
            return text
        # "-1.0" would be read as another constant, so a negated number is spelled out.
        return f"-{text}" if isinstance(self.value, Reg) or self.abs else f"neg({text})"


def constant_text(value: int | float) -> str:
    """A constant as the assembler reads it. A negative one stays decimal: its width in bits is the operand's, which is not known here."""
    if type(value) is int:
        return str(value) if value <= 64 else hex(value)
    return repr(value) if isinstance(value, float) else str(value)


def _plain(prefix: str, index: int, count: int) -> str:
    return f"{prefix}{index}" if count == 1 else f"{prefix}[{index}:{index + count - 1}]"


def _bounds(key: int | slice) -> tuple[int, int]:
    if isinstance(key, slice):
        if key.step is not None or key.start is None or key.stop is None:
            raise IndexError("a register range is written [first:last], both given and inclusive")
        return int(key.start), int(key.stop)
    return int(key), int(key)


@dataclass(frozen=True)
class RegisterFile:
    """`v`, `a` and `s`: `v[3]` is one register, `v[24:39]` sixteen (inclusive, as in the assembler)."""

    name: str
    size: int

    def __getitem__(self, key: int | slice) -> Reg:
        """The register or range; raises IndexError outside of the file."""
        first, last = _bounds(key)
        if not 0 <= first <= last < self.size:
            raise IndexError(f"{self.name}[{first}:{last}] is outside of {self.name}0..{self.name}{self.size - 1}")
        return Reg(self.name, first, last - first + 1)


v = RegisterFile("v", VGPR_COUNT)
a = RegisterFile("a", AGPR_COUNT)
s = RegisterFile("s", SGPR_COUNT)
flat_scratch, xnack_mask, vcc, exec_ = (Reg("s", _SPECIAL_BASE[name], 2) for name in ("flat_scratch", "xnack_mask", "vcc", "exec"))
m0 = Reg("s", _SPECIAL_SINGLE["m0"], 1)
scc = Reg("scc", 0, 1)

NAMED: dict[str, Reg] = {name: Reg("s", index, count) for (index, count), name in _SPECIAL_NAMES.items()} | {"scc": scc}
"""Every special register by its assembly name."""


def mask_names(mask: int) -> list[str]:
    """The registers of a bit mask as assembly ranges, neighbours joined: ["v[0:3]", "a7", "vcc", "scc"]."""
    names = []
    for file, low, size in (("v", 0, 256), ("a", VGPR_COUNT, 256), ("s", SGPR_BIT, 128), ("scc", SCC_BIT, 1)):
        bits = (mask >> low) & ((1 << size) - 1)
        index = 0
        while bits:
            skip = (bits & -bits).bit_length() - 1
            index, bits = index + skip, bits >> skip
            count = (~bits & (bits + 1)).bit_length() - 1
            names.append(str(Reg(file, index, count)))
            index, bits = index + count, bits >> count
    return names
