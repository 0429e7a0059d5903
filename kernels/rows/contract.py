"""The contract of row kernels: parameters, arguments and grid that all of them have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import asmgen as ag
from asmgen.kernels.rows.rowshape import groups_of, most_columns, rows_of_workgroup, shape_of

MOST_ROWS = 1 << 24
_WIDEST = 32  # bits of an element
_DWORD = 4  # bytes
TYPES = ("bf16", "f16", "f32")


def row_parameters(variant: ag.Variant, fragments: int | None = None, elements: bool = True) -> tuple[ag.Parameter, ...]:
    """Columns and rows, who shares them, and how elements move: one by one too, if `elements`. `fragments` are those that a lane has of a
    row at most."""
    most = most_columns(variant.lanes, fragments)
    return (
        ag.Parameter("columns", "build", int, "elements of a row", default=min(1024, most), minimum=1, maximum=most,
                     tried=(most - 1,)),
        ag.Parameter("lanes", "build", int, "lanes that share a row: of a wave up to 64, else of all waves", default=64),
        ag.Parameter("access", "build", str, "wide: 16 bytes a lane, from rows that begin at multiples of 4 bytes; element: one by "
                     "one, from any row", default="wide",
                     choices=("wide", "element") if elements and variant.lanes >= ag.LANES else ("wide",)),
        preload_parameter(),
        ag.Parameter("rows", "run", int, "rows", minimum=1, maximum=MOST_ROWS),
        ag.Parameter("each", "run", int, "groups of rows that a workgroup makes, one after the other", minimum=1, maximum=MOST_ROWS,
                     default_from=ag.Formula("as many as fill the GPU once", lambda p: rows_of_workgroup(variant, p))),
    )


def flag(name: str, doc: str) -> ag.Parameter:
    """A build parameter that is false by default."""
    return ag.Parameter(name, "build", bool, doc, default=False)


def preload_parameter() -> ag.Parameter:
    """Whether arguments are there when a wave begins: a launch of few rows waits some 1000 clk less (isa/timing.py, kernarg_latency)."""
    return ag.Parameter("preload", "build", bool, "the hardware loads the arguments, as many as it can, before the first instruction",
                        default=True, choices=(True,))


def pointers(names: Iterable[str], doc: str = "rows x columns") -> tuple[ag.ContractArgument, ...]:
    """Arguments that point to tensors."""
    return tuple(ag.ContractArgument(name, "pointer", f"{doc}, 4-byte aligned") for name in names)


def row_counts(strided: Iterable[str]) -> tuple[ag.ContractArgument, ...]:
    """The arguments that say how many rows there are, and how far those of tensors lie apart."""
    return (ag.ContractArgument("rows", "u32", "rows"), ag.ContractArgument("each", "u32", "groups of rows of a workgroup"),
            *(ag.ContractArgument(f"{name}_stride", "u32", "elements from row to row") for name in strided))


def dropout_parameters() -> tuple[ag.Parameter, ...]:
    """What decides which elements dropout keeps (dropout.py)."""
    return (
        ag.Parameter("p", "run", float, "probability of dropout", default=0.1, minimum=0.0, maximum=0.999),
        ag.Parameter("seed", "run", int, "key of Philox", default=0, minimum=0, maximum=(1 << 64) - 1),
        ag.Parameter("offset", "run", int, "words 2 and 3 of Philox's counter", default=0, minimum=0, maximum=(1 << 64) - 1),
    )


def dropout_arguments() -> tuple[ag.ContractArgument, ...]:
    """The same as arguments."""
    return (ag.ContractArgument("p", "f32", "of dropout"), ag.ContractArgument("seed", "u64", "of dropout"),
            ag.ContractArgument("offset", "u64", "of dropout"))


def row_stride(variant: ag.Variant, name: str) -> ag.Parameter:
    """How far the rows of a tensor lie apart: what 32 bits of offsets reach of the rows that one descriptor shows."""
    most = ag.most_stride(shape_of(variant, 1).rows if variant.lanes < ag.LANES else 1, _WIDEST, ag.BEYOND)
    return ag.Parameter(f"{name}_stride", "run", int, f"elements from one row of {name} to the next", minimum=1, maximum=most,
                        default_from=ag.Formula("columns, rounded up to whole dwords where access is wide", dense))


def most_byte_stride(variant: ag.Variant) -> int:
    """The largest stride of rows of bytes that begin at dwords."""
    most = row_stride(variant, "d").maximum
    assert isinstance(most, int)
    return most // _DWORD * _DWORD


def dense(p: ag.Values) -> int:
    """Columns without gaps, rounded up to whole dwords where access is wide."""
    columns: int = p["columns"]
    return columns if p["access"] == "element" else columns + columns % 2


def stride_rules(names: tuple[str, ...], types: Mapping[str, str] | None = None) -> tuple[ag.Rule, ...]:
    """Rows do not overlap, and begin where their accesses can. `types` are the build parameters with the types of tensors that have another
    one than dtype."""
    def fits(name: str) -> ag.Rule:
        return ag.Rule(f"{name}_stride must be at least columns", (f"{name}_stride", "columns"),
                       lambda p: p[f"{name}_stride"] >= p["columns"])

    def begins(name: str) -> ag.Rule:
        kind = (types or {}).get(name, "dtype")
        return ag.Rule(f"{name}_stride must be even where access is wide and {kind} has 16 bits; access=element takes any",
                       (f"{name}_stride", "access", kind),
                       lambda p: p["access"] == "element" or p[kind] == "f32" or p[f"{name}_stride"] % 2 == 0)

    return tuple(rule for name in names for rule in (fits(name), begins(name)))


ROW_GRID = ag.GridRule("ceil(groups of rows / each), 1, 1: a group is as many rows as a workgroup has at once",
                       lambda p, variant: (-(-groups_of(variant, p) // p["each"]), 1, 1))
