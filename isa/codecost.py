"""What text costs: its bytes, and whether one text for several ways takes fewer of them than a copy for each.

Short encodings are a dword, others two, and a matrix instruction with scales is two of those (CDNA3 and CDNA4 ISA, microcode formats). A
short one with a literal has a second dword.
"""

from __future__ import annotations

from collections.abc import Sequence

from asmgen.isa.check import literals_of
from asmgen.isa.opcode import Form
from asmgen.isa.operands import Operand

DWORD = 4
"""Bytes."""
_SHORT = frozenset({"VOP1", "VOP2", "VOPC", "SOP1", "SOP2", "SOPC", "SOPK", "SOPP"})
_WITH_LITERAL = frozenset({"s_setreg_imm32_b32"})
_SCALED = "v_mfma_scale_"


def code_bytes(name: str, form: Form, operands: Sequence[Operand]) -> int:
    """The bytes of an instruction."""
    if form.encoding in _SHORT:
        return DWORD * (2 if name in _WITH_LITERAL or literals_of(form, operands) else 1)
    return DWORD * (4 if name.startswith(_SCALED) else 2)


def shares(copies: int, bytes_: int, stub: int, back: int, more: int) -> bool:
    """Whether one text of so many bytes for several ways takes less than a copy for each. Each way then has a `stub`, each but one a `back`
    (what tells where it goes on), and all have `more`."""
    return copies * bytes_ > bytes_ + copies * stub + (copies - 1) * back + more
