"""What text costs: its bytes, and whether a copy of some text pays for itself.

One text may serve several ways, with a branch for each; or a copy stands for each. A copy of code that runs once is cold: a wave that comes
to a line of the instruction cache asks for it and for the next ones, as many as are fetched ahead, and waits for what is left of their
latency after the code before.

Short encodings are a dword, others two, and a matrix instruction with scales is two of those (CDNA3 and CDNA4 ISA, microcode formats). A
short one with a literal has a second dword.
"""

from __future__ import annotations

from collections.abc import Sequence

from asmgen.isa.check import literals_of
from asmgen.isa.opcode import Form
from asmgen.isa.operands import Operand
from asmgen.isa.timing import Timing

DWORD = 4
"""Bytes."""
_SHORT = frozenset({"VOP1", "VOP2", "VOPC", "SOP1", "SOP2", "SOPC", "SOPK", "SOPP"})
_WITH_LITERAL = frozenset({"s_setreg_imm32_b32"})
_SCALED = "v_mfma_scale_"
_WORKGROUPS = 2


def code_bytes(name: str, form: Form, operands: Sequence[Operand]) -> int:
    """The bytes of an instruction."""
    if form.encoding in _SHORT:
        return DWORD * (2 if name in _WITH_LITERAL or literals_of(form, operands) else 1)
    return DWORD * (4 if name.startswith(_SCALED) else 2)


def shares(copies: int, bytes_: int, stub: int, back: int, more: int) -> bool:
    """Whether one text of so many bytes for several ways takes less than a copy for each. Each way then has a `stub`, each but one a `back`
    (what tells where it goes on), and all have `more`."""
    return copies * bytes_ > bytes_ + copies * stub + (copies - 1) * back + more


def cold_clk(size: int, busy: float, table: Timing) -> float:
    """The clk that a wave waits for text of so many bytes among other text, if no line of it is in the instruction cache. Its waves take
    `busy` clk for it."""
    lines, ahead = size / table["icache_line"], table["icache_ahead"]
    return max(0.0, lines * table["icache_miss"] - ahead * busy)


def pays(size: int, busy: float, saved: float, table: Timing) -> bool:
    """Whether a copy of `size` bytes that a workgroup runs once, in `busy` clk, saves more clk than its cold lines cost. They are cold in
    the first workgroup of a compute unit only; a launch is taken to give it two, as one that fills the GPU twice."""
    return _WORKGROUPS * saved > cold_clk(size, busy, table)
