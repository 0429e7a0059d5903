"""What goes wrong while reading."""

from __future__ import annotations

from asmgen.isa.errors import AsmgenError


class ReadError(AsmgenError):
    """Text or a code object cannot be read as instructions; `where` is FILE:LINE or "NAME at address 0x..."."""


class NeedsAssembler(ReadError):
    """The text is more than plain instructions: macros, symbols with values, arithmetic. Only an assembler reads it."""


class UnknownSpelling(ReadError):
    """Operands that no form takes as they are written, or a mnemonic that the table does not have.

    An assembler may know the spelling: where there is one, it has the last word on a file.
    """
