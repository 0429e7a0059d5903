"""What the emulator raises."""

from __future__ import annotations

from asmgen.isa.errors import AsmgenError


class EmulatorError(AsmgenError):
    """The emulator cannot go on: an instruction without semantics, or a launch that makes no sense."""
