"""One instruction's text to an Instruction: mnemonic, operands, form. The only parser of instructions in asmgen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from asmgen.isa.arch import ARCHITECTURES
from asmgen.isa.errors import OperandError
from asmgen.isa.grammar import OperandTextReader, SyntaxFault
from asmgen.isa.opcode import Form, Opcode
from asmgen.isa.operands import Operand, Waitcnt
from asmgen.isa.quote import printable, quoted, shorten
from asmgen.isa.table import canonical, find, nearest
from asmgen.program.program import Instruction, SourceLine, TokenUse
from asmgen.reader.errors import NeedsAssembler, ReadError, UnknownSpelling
from asmgen.reader.forms import FormFinder
from asmgen.reader.statements import statements

_ARITHMETIC = re.compile(r"[\w)\]][ \t]*[-+*/%<>~^]", re.ASCII)


MOST_TEXTS = 1 << 15
"""How many texts an InstructionReader remembers: a kernel of any size has fewer, and a thousand kernels share most of theirs."""


class InstructionReader:
    """Reads instructions for one architecture; it remembers operands, forms and the last texts, so one is made for many readings.

    Raises ReadError for an architecture that asmgen does not know.
    """

    def __init__(self, arch: str) -> None:
        if arch not in ARCHITECTURES:
            raise ReadError(f"unknown architecture {quoted(arch)}; known are {', '.join(ARCHITECTURES)}")
        self.arch = arch
        self._operand_texts = OperandTextReader()
        self._forms = FormFinder(arch)
        self._opcodes: dict[str, tuple[Opcode, str]] = {}
        self.texts: dict[str, Instruction] = {}
        """What `plain` remembers."""

    def plain(self, text: str) -> Instruction:
        """The instruction of a text, without place and comments, remembered with its register masks. Raises as `parts` does."""
        found = self.texts.get(text)
        if found is None:
            opcode, form, operands, modifiers, suffix = self.parts(text, "")
            found = Instruction(opcode, form, operands, dict(modifiers), suffix)
            _ = found.reads, found.shared  # made here once, for all places where the text stands
            if len(self.texts) >= MOST_TEXTS:
                self.texts.clear()
            self.texts[text] = found
        return found

    def parts(self, text: str, where: str) -> tuple[Opcode, Form, tuple[Operand, ...], Mapping[str, Any], str]:
        """Opcode, form, operands, modifiers and encoding suffix of an instruction without comments.

        Operands that the assembler fills in are filled in here too: vcc in a short encoding, the offset of a scalar memory access.
        Raises UnknownSpelling at `where` for an unknown mnemonic (with the nearest known ones) and for operands that no form takes,
        NeedsAssembler where the operands are not plain.
        """
        name, _, rest = text.partition(" ")
        known = self._opcodes.get(name)
        if known is None:
            known = self._opcodes[name] = self._opcode(name, text, where)
        opcode, suffix = known
        try:
            written = self._operand_texts.read(rest)
        except SyntaxFault as fault:
            raise NeedsAssembler(f"`{shorten(text)}`: {printable(fault.sentence)}", where) from None
        operands, modifiers = written.operands, written.modifiers
        if opcode.name == "s_waitcnt" and len(operands) == 1 and isinstance(operands[0], int):
            fields = Waitcnt.decode(operands[0])
            # A number with bits that no field has stays a number, so that it is written as it was read.
            operands = (fields,) if fields.simm16 == operands[0] else operands
        try:
            for name in written.unset:
                if not any(name in form.modifiers for form in opcode.forms):
                    raise OperandError(f"{opcode.name} has no modifier {name}, so no{name} says nothing")
            form, operands = self._forms.find_filled(opcode, operands, modifiers, suffix)
        except OperandError as error:
            # `8-4` reads as two operands, since commas are optional: an assembler must judge.
            kind = NeedsAssembler if _ARITHMETIC.search(rest) else UnknownSpelling
            raise kind(f"`{shorten(text)}`: {printable(error.sentence)}", where) from None
        return opcode, form, operands, modifiers, suffix

    def read(self, text: str, where: str = "", source: SourceLine | None = None, reason: str = "", comment: str = "",
             tokens: tuple[TokenUse, ...] = ()) -> Instruction:
        """The instruction; raises as `parts` does."""
        opcode, form, operands, modifiers, suffix = self.parts(text, where)
        return Instruction(opcode, form, operands, dict(modifiers), suffix, source, reason, comment, tokens)

    def _opcode(self, name: str, text: str, where: str) -> tuple[Opcode, str]:
        base, suffix = canonical(name)
        opcode = find(base)
        if opcode is None and name != name.lower():
            return self._opcode(name.lower(), text, where)
        if opcode is None:
            raise UnknownSpelling(f"`{shorten(text)}`: no instruction {shorten(name)!r} is known; the nearest mnemonics are "
                                  f"{', '.join(nearest(name))}", where)
        return opcode, suffix


@lru_cache(maxsize=4)
def instruction_reader(arch: str) -> InstructionReader:
    """The reader of an architecture, one for all listings: what it remembers depends on nothing else and is bounded. Raises ReadError."""
    return InstructionReader(arch)


def parse_instruction(text: str, arch: str, source: SourceLine | None = None) -> Instruction:
    """One instruction, its comments taken off. Raises as InstructionReader.parts does, at `source`."""
    found = [statement for statement in statements(text, str(source or "<text>")) if statement.code]
    if len(found) != 1 or found[0].labels:
        raise ReadError(f"`{shorten(text)}` is not one instruction", str(source or ""))
    return InstructionReader(arch).read(found[0].code, str(source or ""), source)
