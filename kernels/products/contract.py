"""The contract of D[M,N] = alpha A[M,K] x B[N,K]^T + beta C + bias for any types of A and B."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import asmgen as ag

LINE = 128  # bits of A and B in one load; rows begin at multiples of it, but for those of `line_of`
_DWORD = 32  # bits: where buffer loads to registers may begin, however wide they are
_WIDEST_OUT = "f32"
DEALT = "in-order"
"""The schedule of variants whose waves share the steps of a workgroup (`direct`)."""
DEALT_WAVES = 4
"""The waves of each of them."""
DOTS = "dot-products"
"""The schedule of variants of a few rows whose instructions take pieces of K as rows (`dots`)."""
FEW_ROWS = 4
"""The most rows of a tile of theirs."""
ELEMENTS = "elements"
"""The schedule of variants that load element by element (`elements`)."""
_FRAGMENT_ROWS = 16  # the fewest rows of a corner
_MAX_EDGE = (1 << 31) - 1
_MOST_TILES = 1 << 20


@dataclass(frozen=True)
class Further:
    """What a product has beside A, B, C and D by rows: build and run parameters, more kinds of bias, and strides of columns."""

    build: tuple[ag.Parameter, ...] = ()
    run: tuple[ag.Parameter, ...] = ()
    biases: tuple[str, ...] = ()
    bias_doc: str = ""
    line: str = "row"
    strides: tuple[tuple[str, ag.Formula], ...] = ()

    def stride_default(self, name: str) -> ag.Formula | None:
        """What a stride is where it is not given; None: the length of a row."""
        return dict(self.strides).get(name)


def product_parameters(operands: Sequence[ag.Parameter], variant: ag.Variant, bits: int, further: Further, parts: int = 2,
                       multiple: int = 0, beside: int = 0) -> tuple[ag.Parameter, ...]:
    """The parameters of a product. `operands` are the build parameters for the types of A and B, with elements of at most `bits`.

    k is a `multiple`, by default of the tile's depth. Row strides are limited: the rows under one descriptor span at most 32 bits of bytes,
    `beside` more included. For A and B these are the rows of one of `parts` of a tile (`halves`), for C and D a wave's rows of a corner, of
    the widest type (`product_epilogue`). A build refuses larger limits. `further` is what a product has beside A, B, C
    and D by rows.
    """
    depth, line = multiple or (1 if variant.schedule in (ELEMENTS, DOTS) else variant.tile[2]), line_of(variant.schedule, bits)
    parts = 1 if shows_whole_tile(variant.schedule) else parts
    most = {name: ag.most_stride(variant.tile[axis] // parts, bits, beside) // line * line for axis, name in enumerate("ab")}
    most |= dict.fromkeys("cd", ag.most_stride(corner_rows(variant), ag.element_bits(_WIDEST_OUT)))

    unless = " but for any_stride=true" if variant.schedule == DOTS else ""

    def stride(name: str, row: str, doc: str, minimum: int = 1, step: int = 1) -> ag.Parameter:
        return ag.Parameter(f"ld{name}", "run", int, f"elements from one {further.line} of {name.upper()} to the next{doc}",
                            minimum=minimum, maximum=most[name], multiple_of=step, default_from=further.stride_default(name) or row)

    return (
        ag.Parameter("preload", "build", bool, "let the hardware load the kernel arguments before the first instruction", default=False),
        *operands,
        ag.Parameter("out", "build", str, "type of D, C and bias, rounded to nearest", default="bf16", choices=("bf16", "f16", "f32")),
        ag.Parameter("bias", "build", str, f"row: a vector that is added to every row of D{further.bias_doc}", default="none",
                  choices=("none", "row", *further.biases)),
        *further.build,
        ag.Parameter("window", "build", int, "rows of tiles in which workgroups go down each column first; 0: row after row", default=0,
                  minimum=0, maximum=_MOST_TILES),
        ag.Parameter("chunk", "build", int, "neighbouring workgroups that one XCD gets at a time; 0: as the hardware deals them", default=0,
                  minimum=0, maximum=_MOST_TILES),
        ag.Parameter("m", "run", int, "rows of A and D", minimum=1, maximum=_MAX_EDGE),
        ag.Parameter("n", "run", int, "rows of B, columns of D", minimum=1, maximum=_MAX_EDGE),
        ag.Parameter("k", "run", int, "columns of A and B", minimum=depth, maximum=min(most["a"], most["b"]) // depth * depth,
                  multiple_of=depth),
        *(stride(name, "k", f"; loads want a multiple of {line}{unless}" if line > 1 else "", line if further.strides else depth, line)
          for name in "ab"),
        *(stride(name, "n", "") for name in "dc"),
        ag.Parameter("alpha", "run", float, "factor of A x B^T", default=1.0),
        ag.Parameter("beta", "run", float, "factor of C, which is not read where this is 0", default=0.0),
        *further.run,
    )


def line_of(schedule: str, bits: int) -> int:
    """The elements of `bits` whose multiples the lines of A and B are apart in variants of a schedule: 16 bytes for those that go to LDS,
    a dword for those that go to registers alone, or one."""
    return 1 if schedule == ELEMENTS else (_DWORD if schedule == DOTS else LINE) // bits


def is_dealt(variant: ag.Variant) -> bool:
    """Whether the waves of a workgroup share its steps (`direct`)."""
    return variant.schedule == DEALT


def shows_whole_tile(schedule: str) -> bool:
    """Whether one descriptor shows all rows that a tile has of A, and of B, in variants of a schedule, and not half of them."""
    return schedule in (DEALT, DOTS)


def is_persistent(build: ag.Values) -> bool:
    """Whether a workgroup takes one tile after another (`persistent`)."""
    return bool(build.get("persistent") or build.get("stream_k"))


def is_streamed(build: ag.Values) -> bool:
    """Whether workgroups share the steps of tiles that are no whole round (`streams`)."""
    return bool(build.get("stream_k"))


def corner_rows(variant: ag.Variant) -> int:
    """The rows of a wave's part of a corner. A tile has two corners from top to bottom, or one of 16 rows."""
    further = dict(variant.further)
    if "adders" in further:
        return int(variant.tile[0] // further["adders"][0])
    down = further.get("consumers", variant.waves)[0]
    return max(_FRAGMENT_ROWS, int(variant.tile[0] // 2 // down))


PRODUCT_ARGUMENTS = (
    ag.ContractArgument("a", "pointer", "A, 16-byte aligned"),
    ag.ContractArgument("b", "pointer", "B, 16-byte aligned"),
    ag.ContractArgument("d", "pointer", "D, aligned to its elements"),
    ag.ContractArgument("m", "u32", "rows of A and D"),
    ag.ContractArgument("n", "u32", "rows of B, columns of D"),
    ag.ContractArgument("k", "u32", "columns of A and B"),
    ag.ContractArgument("lda", "u32", "row stride of A in elements"),
    ag.ContractArgument("ldb", "u32", "row stride of B in elements"),
    ag.ContractArgument("ldd", "u32", "row stride of D in elements"),
    ag.ContractArgument("alpha", "f32", "factor of A x B^T"),
    ag.ContractArgument("beta", "f32", "factor of C"),
    ag.ContractArgument("ldc", "u32", "row stride of C in elements"),
    ag.ContractArgument("c", "pointer", "C, not read where beta is 0"),
    ag.ContractArgument("bias", "pointer", "n elements, not read in a build without bias"),
)

PRODUCT_RULES = (
    ag.Rule("lda must be at least k", ("lda", "k"), lambda p: p["lda"] >= p["k"]),
    ag.Rule("ldb must be at least k", ("ldb", "k"), lambda p: p["ldb"] >= p["k"]),
    ag.Rule("ldd must be at least n", ("ldd", "n"), lambda p: p["ldd"] >= p["n"]),
    ag.Rule("ldc must be at least n", ("ldc", "n"), lambda p: p["ldc"] >= p["n"]),
)

PRODUCT_ALIASES = (ag.Alias(("c", "d"), "ldc is ldd"),)
"""C may be D: a wave reads the elements of C that it later stores as D, and no others."""
