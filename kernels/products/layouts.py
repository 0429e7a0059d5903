"""The layouts of A, B, C and D: each is stored by rows or by columns, so that all of NT, NN, TN and TT are served.

A is M x K, B is N x K (a row for each column of D, as weights lie), C and D are M x N. `row` has the elements of a row side by side,
`column` those of a column; `lda` and the others are the elements from one of these to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asmgen as ag
from asmgen.kernels.products.anyk import bytes_beside
from asmgen.kernels.products.batch import POINTERS, batch_parameters, batch_rules
from asmgen.kernels.products.contract import DEALT, ELEMENTS, Further, line_of, shows_whole_tile
from asmgen.kernels.products.sides import side

_WIDE_LINE = 2048  # bits of a line of memory whose lanes begin in several instructions' lines of LDS
_SHAPES = {"a": ("m", "k"), "b": ("n", "k"), "c": ("m", "n"), "d": ("m", "n")}
LEAST_LINE = 64
"""Bytes of a line of a tile whose fragments are loaded from columns: a dword for each row of a fragment (`directsides`)."""
LAYOUTS = ("row", "column")
BY_ROWS: dict[str, Any] = {"a_layout": "row", "b_layout": "row"}
"""What variants fix that take A and B by rows alone."""


def by_columns(build: ag.Values, name: str) -> bool:
    """Whether a matrix of the caller's is stored by columns."""
    return bool(build.get(f"{name}_layout") == "column")


def line_and_lines(p: ag.Values, name: str) -> tuple[int, int]:
    """How many elements lie side by side, and how many such lines there are."""
    rows, columns = (p[edge] for edge in _SHAPES[name])
    return (rows, columns) if by_columns(p, name) else (columns, rows)


def _line(name: str) -> ag.Formula:
    rows, columns = _SHAPES[name]
    return ag.Formula(f"{columns}, or {rows} where {name.upper()} is stored by columns", lambda p: line_and_lines(p, name)[0])


def further_parameters(variant: ag.Variant, bits: int, run: Sequence[ag.Parameter] = ()) -> Further:
    """Parameters of layouts and batches of a variant whose A and B have elements of so many bits, and more `run` parameters."""
    line = line_of(variant.schedule, bits)
    layouts = tuple(ag.Parameter(f"{name}_layout", "build", str, f"{name.upper()} is stored by rows or by columns: "
                                 f"{' x '.join(_SHAPES[name]).upper()}", default="row", choices=LAYOUTS) for name in _SHAPES)
    return Further((*layouts, POINTERS), (*batch_parameters({"a": line, "b": line}), *run), ("column",),
                   "; column: one that is added to every column", "row (or column, if that is its layout)",
                   tuple((name, _line(name)) for name in _SHAPES))


def _at_least_a_line(name: str) -> ag.Rule:
    rows, columns = _SHAPES[name]
    return ag.Rule(f"ld{name} must be at least {columns}, or {rows} where {name}_layout is column", (f"ld{name}", rows, columns,
                   f"{name}_layout"), lambda p: p[f"ld{name}"] >= line_and_lines(p, name)[0])


def lines_shown(build: ag.Values, name: str) -> int:
    """How many lines of A or B one descriptor shows, of the matrix that the kernel's code calls `name`."""
    rows, columns, depth = (int(part) for part in str(build["tile"]).split("x"))
    edge = rows if name == "a" else columns
    return depth if by_columns(build, side(build, name)) else edge if shows_whole_tile(build["schedule"]) else edge // 2


def most_apart(build: ag.Values, name: str) -> int:
    """The largest stride of the matrix that the kernel's code calls `name`: its lines under a descriptor span 32 bits of bytes. Where LDS
    gets lines of 256 bytes as memory has them, the descriptor begins earlier by what an immediate moves both addresses at most."""
    bits = 16 if "dtype" in build else 8
    line = line_of(build["schedule"], bits)
    half = int(str(build["tile"]).split("x")[name == "b"]) // 2
    wide = by_columns(build, side(build, name)) and half * bits >= _WIDE_LINE
    return ag.most_stride(lines_shown(build, name), bits, max(bytes_beside(build), ag.BUFFER_IMMEDIATES[1] if wide else 0)) // line * line


def _reaches(name: str) -> ag.Rule:
    def holds(p: ag.Values) -> bool:
        return bool(p[f"ld{name}"] <= most_apart(p, side(p, name)))

    return ag.Rule(f"ld{name} must be so small that what a workgroup reads of {name.upper()} at once spans less than 4 GiB",
                   (f"ld{name}", "tile", "schedule", "any_k", "a_layout", "b_layout", "d_layout"), holds)


def _whole_dwords(name: str) -> ag.Rule:
    edge = _SHAPES[name][0]

    def holds(p: ag.Values) -> bool:
        return p["schedule"] == ELEMENTS or not (by_columns(p, name) and p[edge] * (2 if "dtype" in p else 1) % 4)

    return ag.Rule(f"{edge} must be a multiple of 4 bytes of elements where {name}_layout is column",
                   (edge, f"{name}_layout", "schedule"), holds)


def line_of_tile(p: ag.Values, name: str) -> int:
    """The bytes of a tile in a line of the caller's A or B that is stored by columns."""
    return int(str(p["tile"]).split("x")[side(p, name) == "b"]) * (2 if "dtype" in p else 1)


def _dwords_in_lanes(name: str) -> ag.Rule:
    def holds(p: ag.Values) -> bool:
        return p["schedule"] != DEALT or not by_columns(p, name) or line_of_tile(p, name) >= LEAST_LINE

    return ag.Rule(f"{name}_layout=column with schedule={DEALT} needs a tile that has {LEAST_LINE} bytes of a line of {name.upper()}",
                   (f"{name}_layout", "d_layout", "schedule", "tile"), holds)


_HALVES_OF_LINES = ag.Rule("A (B where D is by columns) must be by rows with a tile of 192 rows, whose half of a line is no power of two",
                           ("tile", "a_layout", "b_layout", "d_layout"),
                           lambda p: not str(p["tile"]).startswith("192x") or not by_columns(p, side(p, "a")))

LAYOUT_RULES = (
    _HALVES_OF_LINES,
    *(_dwords_in_lanes(name) for name in "ab"),
    *(_whole_dwords(name) for name in "ab"),
    *(_at_least_a_line(name) for name in _SHAPES),
    *(_reaches(name) for name in "ab"),
    ag.Rule("c_layout must be d_layout", ("c_layout", "d_layout"), lambda p: p["c_layout"] == p["d_layout"]),
    *batch_rules(("d_layout",)),
)
