"""asmgen: AMD gfx942 and gfx950 assembly kernels from Python. `import asmgen as ag` gives all that an author needs.

Importing the package loads nothing else: every module below it imports this one first, and a command that needs neither the
emulator nor the grammar should not pay for them. The public names are loaded when they are first asked for (PEP 562). The stub
__init__.pyi tells type checkers and editors of the same names; a test compares the two.
"""

from __future__ import annotations

__version__ = "0.1.0"

# The public names: by what an author looks for, then by the module that defines them.
_GROUPS: dict[str, dict[str, str]] = {
    "registers and operands": {
        "asmgen.isa.arch": "architecture LANES SIMDS",
        "asmgen.isa.bufferformats": "MOST_RECORDS RAW_BUFFER",
        "asmgen.isa.layouts_mfma": "element_bits",
        "asmgen.isa.opcodes.mfma": "F8F6F4_FORMATS MFMA",
        "asmgen.isa.operands": "HwReg OFF",
        "asmgen.isa.registers": "a exec_ m0 Modified Reg s scc v vcc",
        "asmgen.regalloc.plan": "RegisterPlan",
        "asmgen.regalloc.ranges": "PlanError",
        "asmgen.regalloc.sets": "RegisterSet",
        "asmgen.regalloc.shortage": "OutOfRegisters",
    },
    "the builder and its programs": {
        "asmgen.author.builders.tilebuilder": "TileBuilder",
        "asmgen.author.emit.builder": "Builder",
        "asmgen.author.emit.kernel": "Kernel KernelBuilder",
        "asmgen.author.step.merge": "MergeError",
        "asmgen.codeobject.load": "CodeObject",
        "asmgen.program.program": "Program",
        "asmgen.program.text": "program_text",
        "asmgen.reader.assembly": "read_text",
    },
    "addresses and places": {
        "asmgen.author.address.addressing": "emit_address WaveIndex",
        "asmgen.author.address.division": "Divisor",
        "asmgen.author.address.headorder": "HeadTile heads_in_order place_head tiles_in_order",
        "asmgen.author.address.tileorder": "chunk_by_xcd place_tile window_order",
    },
    "register tiles, shared tiles, global views": {
        "asmgen.author.tiles.fragments": "Fragment MatrixShape mfma",
        "asmgen.author.tiles.globals": "Matrix most_stride Rows Walk",
        "asmgen.author.tiles.immediates": "BUFFER_IMMEDIATES",
        "asmgen.author.tiles.shared": "PartOf SharedPart SharedTile",
        "asmgen.author.tiles.swizzles": "DmaFill FragmentRead spread_rows",
        "asmgen.author.tiles.tiles": "Tile TileError TileGrid",
        "asmgen.author.tiles.transposing": "TransposedRead",
        "asmgen.author.tiles.views":
            "as_bytes as_operand block_fragment bytes_of dealt deep in_order_of linear_layout narrowed planes transposed with_dtype",
        "asmgen.isa.layout": "identity Layout LayoutError",
        "asmgen.isa.placement": "Packing Pads Placement row_major subtiled Swizzle",
    },
    "operations on tiles": {
        "asmgen.author.ops.arithmetic": "mma mma_scaled zero",
        "asmgen.author.ops.bits": "and_ indices or_ shift_left shift_right xor",
        "asmgen.author.ops.conversions": "convert doubted widening",
        "asmgen.author.ops.draws": "philox",
        "asmgen.author.ops.elementwise":
            "abs_ add any_greater div exp2 fill_with fma log2 max_ min_ move mul neg rcp rsq sqrt sub",
        "asmgen.author.ops.layoutchange": "change_layout",
        "asmgen.author.ops.cutcolumns": "BEYOND send_outside",
        "asmgen.author.ops.masks": "lane_coordinates mask_columns mask_rows mask_rows_before",
        "asmgen.author.ops.movement": "fill prepare_fill prepare_read read release_fill release_read write",
        "asmgen.author.ops.packedpairs": "joined",
        "asmgen.author.ops.quantise": "Shortcuts exponent_fragment pack_scales quantise",
        "asmgen.author.ops.reductions": "column_max column_min column_sum over_lanes reduce_lanes row_max row_min row_sum",
        "asmgen.author.ops.refill": "refill Refills",
        "asmgen.author.ops.scales": "ALONG_K as_scales ROWS_BY_K scale_words ScaleOrder Scales scales",
        "asmgen.author.ops.selects": "compare Comparison where",
        "asmgen.author.ops.tilememory": "load store_tile",
        "asmgen.author.ops.transposed": "read_transposed",
        "asmgen.author.ops.vectors": "as_vector column_vector row_vector Vector VectorGrid",
    },
    "steps, schedules and loops": {
        "asmgen.author.loop.chainedpaths": "Chain",
        "asmgen.author.loop.overlap": "ChosenEpilogue Epilogue FollowingEpilogue",
        "asmgen.author.schedule.stagescheduler": "PlacedPingPong",
        "asmgen.author.schedule.stepscheduler": "Modulo",
        "asmgen.author.schedule.schedules": "InOrder PingPong ProducerConsumer Schedule",
        "asmgen.author.step.iterations": "operation PipelineError StepIndex",
    },
    "epilogues": {
        "asmgen.author.epilogue.combine": "add_along_columns add_along_rows add_number add_to_run ask_plain ask_zero "
        "combining load_columns load_rows Numbers ONE scale_and_add unless_plain widen",
        "asmgen.author.epilogue.corners": "MovedCorner each_corner each_part",
        "asmgen.author.epilogue.stores": "accumulator_coordinates ColumnRun Corner run_length runs_of span store storing store_whole "
        "unless_whole",
    },
    "families": {
        "asmgen.author.contract.contract": "Alias ContractArgument ContractError Formula KernelContract Parameter Rule Values Workspace",
        "asmgen.author.contract.problem": "holds_nonfinite huge LaunchWork Output Problem random_array strained zero_array",
        "asmgen.author.contract.variant": "Variant",
        "asmgen.author.family.companion": "GridRule",
        "asmgen.author.family.family": "Family",
    },
    "checks": {
        "asmgen.checks.waits.insert": "insert_waits",
        "asmgen.checks.lint.linting": "lint_file",
        "asmgen.checks.lint.programlint": "lint_program",
        "asmgen.isa.errata": "PACKED_ODD_LOW",
        "asmgen.isa.errors": "AsmgenError OperandError",
    },
    "hardware figures": {
        "asmgen.isa.bankcost": "bank_cost",
        "asmgen.isa.lds": "Phases",
        "asmgen.isa.timing": "DEFAULT_GPU Timing timing",
        "asmgen.model.gridorder": "GridOrder",
    },
    "building and launching": {
        "asmgen.launch.emulated": "EmulatedDevice",
        "asmgen.launch.hip": "choose_device HipDevice",
        "asmgen.toolchain": "assemble disassemble",
    },
}
_HOME = {name: module for modules in _GROUPS.values() for module, names in modules.items() for name in names.split()}
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> object:
    from importlib import import_module

    try:
        home = _HOME[name]
    except KeyError:
        raise AttributeError(f"module 'asmgen' has no attribute {name!r}") from None
    value = globals()[name] = getattr(import_module(home), name)  # kept: kernels ask for their operations thousands of times
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
