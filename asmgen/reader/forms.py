"""Which form an instruction that somebody else wrote has.

The builder refuses traps, code that the assembler takes although it cannot mean what it says; a reader must read them, so that they
can be reported. So the first form that isa.check takes is asked for, and where there is none, the first whose places have
the operands' kinds and sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

from asmgen.isa.check import resolve
from asmgen.isa.errors import OperandError
from asmgen.isa.opcode import Form, Opcode, OperandSpec
from asmgen.isa.operands import GprIdx, HwReg, Operand, SendMsg, Special, Symbol, Waitcnt
from asmgen.isa.registers import SGPR_COUNT, Modified, Reg, vcc

_MOST_KEPT = 1 << 15
_CONSTANTS = frozenset("ilkbnwhtg")
_LETTERS = {Symbol: frozenset("blkn"), Waitcnt: frozenset("w"), HwReg: frozenset("h"), SendMsg: frozenset("t"), GprIdx: frozenset("g")}
_LENGTHS = {"_e64": frozenset({"VOP3", "VOP3P", "MAI"}), "_e32": frozenset({"VOP1", "VOP2", "VOPC"})}


class FormFinder:
    """Finds forms for one architecture and remembers them by the operands' shapes."""

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self._known: dict[tuple[Any, ...], Form] = {}

    def find(self, opcode: Opcode, operands: tuple[Operand, ...], modifiers: Mapping[str, Any], suffix: str) -> Form:
        """The form; raises OperandError with what the nearest form expects."""
        key = (opcode.name, suffix, *map(_shape, operands), *modifiers.items()) if modifiers else \
              (opcode.name, suffix, *map(_shape, operands))
        form = self._known.get(key)
        if form is None:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            form = self._known[key] = self._find(opcode, operands, modifiers, suffix)
        return form

    def find_filled(self, opcode: Opcode, operands: tuple[Operand, ...], modifiers: Mapping[str, Any],
                    suffix: str) -> tuple[Form, tuple[Operand, ...]]:
        """As `find`, and where no form takes the operands, with those put in that the assembler does not ask for; the operands too."""
        try:
            return self.find(opcode, operands, modifiers, suffix), operands
        except OperandError:
            for form, filled in _filled(opcode, operands):
                try:
                    if self.find(opcode, filled, modifiers, suffix) == form:
                        return form, filled
                except OperandError:
                    continue
            raise

    def _find(self, opcode: Opcode, operands: tuple[Operand, ...], modifiers: Mapping[str, Any], suffix: str) -> Form:
        try:
            return resolve(opcode, operands, modifiers, self.arch, suffix)
        except OperandError:
            found = self._tolerant(opcode, operands, modifiers, suffix)
            if found is None:
                raise
            return found

    def _tolerant(self, opcode: Opcode, operands: tuple[Operand, ...], modifiers: Mapping[str, Any], suffix: str) -> Form | None:
        if self.arch not in opcode.archs:
            return None
        for form in opcode.forms:
            if suffix and (form.suffix or suffix) != suffix or suffix in _LENGTHS and not form.suffix and \
                    form.encoding not in _LENGTHS[suffix]:
                continue
            if len(form.operands) == len(operands) and all(map(_kind_fits, form.operands, operands)) and \
                    all(name in form.modifiers for name in modifiers) and \
                    all(modifiers.get(name, False) in values for name, values in form.when if name not in ("cbsz", "blgp")) and \
                    (not form.archs or self.arch in form.archs):
                return form
        return None


def _filled(opcode: Opcode, operands: tuple[Operand, ...]) -> Iterator[tuple[Form, tuple[Operand, ...]]]:
    """Forms, each with the operands and what it lets one leave out: vcc in a short encoding, a scalar access's last 0."""
    for form in opcode.forms:
        missing = len(form.operands) - len(operands)
        if missing <= 0:
            continue
        if missing == 1 and form.encoding.startswith("SMEM") and form.operands[-1].name == "offset":
            yield form, (*operands, 0)
        slots = [number for number, slot in enumerate(form.operands) if slot.accepts == "c"]
        for chosen in combinations(slots, missing):
            given = iter(operands)
            yield form, tuple(vcc if number in chosen else next(given) for number in range(len(form.operands)))


def _shape(operand: Operand) -> Any:
    """All that the choice between forms depends on."""
    if type(operand) is Reg:
        # Named scalar registers are accepted each on their own; of the others only file and size matter.
        return (operand.file, operand.count, operand.index if operand.file == "s" and operand.index >= SGPR_COUNT else -1)
    if isinstance(operand, Modified):
        return (_shape(operand.value), operand.neg, operand.abs, operand.sext)
    if isinstance(operand, Symbol):
        return Symbol
    if isinstance(operand, Waitcnt):
        return Waitcnt
    return (type(operand), operand)


def _kind_fits(slot: OperandSpec, operand: Operand) -> bool:
    accepts = slot.accepts
    if isinstance(operand, Modified):
        return ("x" in accepts if operand.sext else "m" in accepts or "N" in accepts) and _kind_fits(slot, operand.value)
    if isinstance(operand, Reg):
        if "c" in accepts:
            return operand == vcc
        if operand.count != slot.width:
            return False
        return operand.file in accepts if operand.file in "va" else operand.file == "s" and not {"s", "S", "M"}.isdisjoint(accepts)
    if isinstance(operand, Special):
        return ("o" if operand.name == "off" else "p") in accepts
    if isinstance(operand, int | float):
        return not _CONSTANTS.isdisjoint(accepts)
    return not _LETTERS[type(operand)].isdisjoint(accepts)
