"""Instructions that the builder refuses because of an erratum of the chip (isa/errata.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from asmgen.isa.errata import ERRATA, PACKED_ODD_LOW, odd_low_reads
from asmgen.isa.errors import OperandError
from asmgen.isa.operands import Operand
from asmgen.isa.quote import quoted

CONCERNED = PACKED_ODD_LOW.mnemonics
"""Mnemonics whose operands `check_errata` must check."""


def check_errata(arch: str, mnemonic: str, operands: Sequence[Operand], modifiers: Mapping[str, Any], despite: str, comment: str) -> str:
    """The comment of an instruction that the author wants `despite` an erratum ("" for none); it also silences lint there.

    Raises OperandError for a form that is known to fail, and for an erratum that does not exist. For the exchange of a pair, which is not
    known to fail, lint warns.
    """
    known = sorted(erratum.id for erratum in ERRATA if erratum.mnemonics)
    if despite and despite not in known:
        raise OperandError(f"{mnemonic}: there is no erratum {quoted(despite)} of operands; despite= takes {', '.join(known)}")
    reads = odd_low_reads(arch, mnemonic, operands, modifiers)
    if despite:
        return f"{comment}, lint: off {despite}" if comment else f"lint: off {despite}"
    hit = [read.source for read in reads if not read.exchanged]
    if hit:
        registers = ", ".join(f"v{source.index + 1} of {source}" for source in hit)
        raise OperandError(f"{mnemonic} takes {registers} for its low half by op_sel, which {arch} may read stale beside matrix "
                           f"instructions ({PACKED_ODD_LOW.source}); {PACKED_ODD_LOW.cure}, or accept it by despite={PACKED_ODD_LOW.id!r}")
    return comment
