"""asmgen: AMD gfx942 and gfx950 assembly kernels from Python.

Importing the package loads nothing else: every module below it imports this one first, and a command that needs neither the
emulator nor the grammar should not pay for them. The public names are loaded when they are first asked for (PEP 562).
"""

from __future__ import annotations

# Type checkers take any name of this spelling as true; typing itself is not worth its import time here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from asmgen.isa.arch import architecture
    from asmgen.isa.errors import AsmgenError, OperandError
    from asmgen.isa.registers import a, s, v

__version__ = "0.1.0"
__all__ = ["AsmgenError", "OperandError", "__version__", "a", "architecture", "s", "v"]

# Public name -> the module that defines it.
_HOME = {
    "AsmgenError": "asmgen.isa.errors",
    "OperandError": "asmgen.isa.errors",
    "a": "asmgen.isa.registers",
    "architecture": "asmgen.isa.arch",
    "s": "asmgen.isa.registers",
    "v": "asmgen.isa.registers",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    try:
        home = _HOME[name]
    except KeyError:
        raise AttributeError(f"module 'asmgen' has no attribute {name!r}") from None
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
