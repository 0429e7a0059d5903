"""Errata: what the silicon does against its manual, and where manual and compiler are doubted in public, as data.

One row an erratum; lint names each place under its id. One of wait states has the id of the row of isa/waitrules.py that holds its
figures, so that insertion keeps it away; of the others the condition on operands is computed here (`odd_low_reads`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from asmgen.isa.operands import Operand
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Modified, Reg


@dataclass(frozen=True)
class Erratum:
    """One row: on `archs`, `what` goes wrong at `where` under `condition`; `cure` says what works instead.

    `mnemonics` are those whose operands decide (none where a row of wait states does), `source` says who has seen it, and `sure` how
    certain it is.
    """

    id: str
    archs: tuple[str, ...]
    mnemonics: frozenset[str]
    what: str
    where: str
    condition: str
    cure: str
    source: str
    sure: str


PACKED_ODD_LOW = Erratum(
    id="packed-odd-low",
    archs=("gfx950",),
    mnemonics=frozenset({"v_pk_mul_f32", "v_pk_fma_f32", "v_pk_add_f32"}),
    what="the low result is now and then computed from a stale value of the odd register; the high result is always right",
    where="packed f32 instructions whose low half takes the odd register of a VGPR pair (op_sel has a 1 at that source)",
    condition="they run in the shadow of a matrix instruction, of their own wave or of another one on the SIMD, whose A or B was an "
              "operand of a recent matrix instruction too",
    cure="put the factor in the even register of its pair and take it twice by op_sel_hi 0, put it in an SGPR, or write two scalar vector "
         "instructions",
    source="docs/facts/errata.md section 1: rocMLIR#2459, llvm#206825",
    sure="seen on silicon by two parties; which operand form it takes is read from their code: forms with op_sel_hi 1 at that source "
         "occur in every build that fails, and beside no reuse in those that do not; the exchange of a pair (op_sel 1, op_sel_hi 0) is "
         "unproven",
)
MFMA_OPCODE_CHANGE = Erratum(
    id="xdl-srcc-opcode",
    archs=("gfx942", "gfx950"),
    mnemonics=frozenset(),
    what="the second of two matrix instructions may read its SrcC before the first one's result is there",
    where="two matrix instructions of one number of passes, but different opcodes, neither of f32 or f64 inputs, the second with the first "
          "one's D as its SrcC",
    condition="fewer wait states lie between than for an overlap in part",
    cure="leave the wait states of an overlap in part between them, as insertion does",
    source="docs/facts/errata.md section 2: llvm#218363 (open)",
    sure="a public finding that is not settled",
)
ERRATA = (PACKED_ODD_LOW, MFMA_OPCODE_CHANGE)
"""Every row."""


@dataclass(frozen=True)
class OddLowRead:
    """A source of a packed f32 instruction whose low half is the odd register of a VGPR pair. `exchanged`: its high half is the even one,
    the form that nobody has seen fail."""

    source: Reg
    exchanged: bool


def odd_low_reads(arch: str, mnemonic: str, operands: Sequence[Operand], modifiers: Mapping[str, Any]) -> list[OddLowRead]:
    """The sources that make an instruction one of PACKED_ODD_LOW; none of another architecture or mnemonic.

    `operands` begin with the destination, as in the assembler. Pairs of SGPRs and constants are not concerned, and packed f32
    instructions do not reach AGPRs (docs/facts/instructions.md section 5).
    """
    low = modifiers.get("op_sel")
    if not low or mnemonic not in PACKED_ODD_LOW.mnemonics or arch not in PACKED_ODD_LOW.archs:
        return []
    high = modifiers.get("op_sel_hi") or ()
    found = []
    for location, operand in enumerate(operands[1:]):
        source = operand.value if isinstance(operand, Modified) else operand
        if isinstance(source, Reg) and source.file == "v" and location < len(low) and low[location]:
            found.append(OddLowRead(source, location < len(high) and not high[location]))
    return found
