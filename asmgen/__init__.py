"""asmgen: AMD gfx942 and gfx950 assembly kernels from Python. `import asmgen as ag` gives all that an author needs.

Importing the package loads nothing else: every module below it imports this one first, and a command that needs neither the
emulator nor the grammar should not pay for them. The public names are loaded when they are first asked for (PEP 562). The stub
__init__.pyi tells type checkers and editors of the same names; a test compares the two.
"""

from __future__ import annotations

__version__ = "0.1.0"

# The public names by the module that defines them.
_PUBLIC = {
    "asmgen.author.ops.arithmetic": "mma zero",
    "asmgen.author.address.addressing": "emit_address WaveIndex",
    "asmgen.author.contract.variant": "Variant",
    "asmgen.author.family.family": "Family GridRule",
    "asmgen.author.tiles.fragments": "Fragment MatrixShape mfma",
    "asmgen.author.step.merge": "MergeError",
    "asmgen.author.ops.movement": "fill read write",
    "asmgen.author.contract.problem": "Output Problem",
    "asmgen.author.schedule.schedules": "InOrder PingPong Schedule",
    "asmgen.author.step.iterations": "PipelineError StepIndex",
    "asmgen.author.builders.tilebuilder": "TileBuilder",
    "asmgen.author.tiles.tiles": "Tile TileError TileGrid",
    "asmgen.author.emit.builder": "Builder",
    "asmgen.codeobject.load": "CodeObject",
    "asmgen.author.contract.contract": "ContractArgument ContractError Formula KernelContract Parameter Rule Values",
    "asmgen.isa.arch": "architecture",
    "asmgen.isa.errors": "AsmgenError OperandError",
    "asmgen.isa.layout": "Layout LayoutError",
    "asmgen.isa.operands": "OFF",
    "asmgen.isa.placement": "Packing Pads Placement Swizzle row_major",
    "asmgen.isa.registers": "Reg a exec_ m0 s scc v vcc",
    "asmgen.author.emit.kernel": "Kernel KernelBuilder",
    "asmgen.checks.lint.linting": "lint_file",
    "asmgen.checks.lint.programlint": "lint_program",
    "asmgen.program.program": "Program",
    "asmgen.reader.assembly": "read_text",
    "asmgen.regalloc.plan": "RegisterPlan",
    "asmgen.regalloc.ranges": "PlanError",
    "asmgen.regalloc.sets": "RegisterSet",
    "asmgen.regalloc.shortage": "OutOfRegisters",
    "asmgen.program.text": "program_text",
    "asmgen.toolchain": "assemble disassemble",
    "asmgen.checks.counters.insert": "insert_waits",
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names.split()}
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> object:
    from importlib import import_module

    try:
        home = _HOME[name]
    except KeyError:
        raise AttributeError(f"module 'asmgen' has no attribute {name!r}") from None
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
