"""Formats of typed buffers: the components of an element in memory, and the fields of a buffer descriptor's last word.

Sources: CDNA3 and CDNA4 ISA, 9.1.2 (DFMT, NFMT), 9.1.4 (buffer data) and table 48 (buffer resource descriptor); LLVM 22 for the names.
"""

from __future__ import annotations

from asmgen.isa.modifiers import DATA_FORMATS, NUMBER_FORMATS
from asmgen.isa.records import dataclass

NUMBER = {name: code for code, name in enumerate(NUMBER_FORMATS)}
"""Number formats by name: UNORM, SNORM, USCALED, SSCALED, UINT, SINT, FLOAT."""
INTEGERS = frozenset({NUMBER["UINT"], NUMBER["SINT"]})
"""Number formats whose components are integers in registers; all others are floats there."""


def _fields(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in reversed(name.split("_"))) if name[0].isdigit() else ()


FIELDS: tuple[tuple[int, ...], ...] = tuple(_fields(name) for name in DATA_FORMATS)
"""The widths in bits of the components of each data format, x first, which is the lowest in memory; none: invalid or reserved."""

RAW_BUFFER = 0x00020000
"""The last word of a descriptor of raw memory: 32-bit data, no format conversion, no swizzle."""
MOST_RECORDS = (1 << 32) - 1
"""The largest num_records of a descriptor, an unsigned number of 32 bits: the bytes of raw memory that it shows at most."""
SELECT_ZERO, SELECT_ONE, SELECT_FIRST = 0, 1, 4
"""What a destination select of a descriptor names: a constant, or (SELECT_FIRST + n) component n."""
IDENTITY = tuple(SELECT_FIRST + component for component in range(4))
"""The selects of instructions that ignore the descriptor's."""


@dataclass(frozen=True)
class BufferFormat:
    """How an element lies in memory, and which component goes into which register."""

    data: int
    number: int
    selects: tuple[int, ...] = IDENTITY

    @property
    def fields(self) -> tuple[int, ...]:
        """Bits of each component, x first."""
        return FIELDS[self.data]

    @property
    def bytes(self) -> int:
        """Bytes of an element."""
        return sum(self.fields) // 8

    @property
    def name(self) -> str:
        """As LLVM spells it."""
        return f"[BUF_DATA_FORMAT_{DATA_FORMATS[self.data]},BUF_NUM_FORMAT_{NUMBER_FORMATS[self.number]}]"

    def fault(self) -> str | None:
        """Why the format has no meaning, or None. An invalid data format (0) has one: the buffer is unbound."""
        if self.number == NUMBER["RESERVED_6"] or self.data and not self.fields:
            return f"{self.name} is reserved"
        if self.number == NUMBER["FLOAT"] and set(self.fields) & {2, 8}:
            return f"{self.name}: floats have 10, 11, 16 or 32 bits"
        return None


def descriptor_format(word: int) -> BufferFormat:
    """The format in word 3 of a buffer descriptor: selects in bits 11:0, number format in 14:12, data format in 18:15."""
    return BufferFormat(word >> 15 & 15, word >> 12 & 7, tuple(word >> 3 * component & 7 for component in range(4)))


def instruction_format(code: int) -> BufferFormat:
    """The format that a tbuffer instruction names: data format in bits 3:0, number format in 6:4."""
    return BufferFormat(code & 15, code >> 4 & 7)
