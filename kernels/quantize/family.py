"""The family quantize: parameters, arguments and rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import asmgen as ag
from asmgen.kernels.quantize.formats import BLOCKS, BYTES, GROUP, SOURCES, group_of, is_blocks, least_scale_stride, row_bytes
from asmgen.kernels.quantize.strips import bands_of, bands_of_workgroup, parts_of_band, strip_of, transposed
from asmgen.kernels.rows.blockscales import BLOCK
from asmgen.kernels.rows.contract import MOST_ROWS, most_byte_stride, row_counts, row_parameters, row_stride
from asmgen.kernels.rows.rowshape import ROW_LANES, groups_of, rows_of_workgroup, with_lanes

_DWORD = 4  # bytes
_ALONE = ("token", "tensor")


def _parameters(variant: ag.Variant) -> tuple[ag.Parameter, ...]:
    in_waves = variant.lanes >= ag.LANES
    groups = ("auto", *_ALONE, *((str(GROUP), str(BLOCK)) if in_waves else ()))
    blocks = BLOCKS if in_waves and variant.arch == "gfx950" else ()
    return (
        ag.Parameter("from", "build", str, "type of x", default="bf16", choices=SOURCES),
        ag.Parameter("to", "build", str, "type of d", default="fp8", choices=(*BYTES, *blocks)),
        ag.Parameter("encoding", "build", str, "how 8-bit floats encode numbers, which the architecture decides",
                     default=ag.architecture(variant.arch).fp8, choices=(ag.architecture(variant.arch).fp8,)),
        ag.Parameter("group", "build", str, "what has a scale: tensor (given), token (a row), or so many columns of a row; "
                     "auto: 32 of MX types, of others token", default="auto", choices=groups),
        ag.Parameter("rounding", "build", str, "of the scales of MX types, by the largest magnitude: floor: its exponent; even: that after "
                     "rounding it as the type would; up: the least that clips nothing", default="even", choices=("even", "floor", "up")),
        ag.Parameter("layout", "build", str, "where scales of MX types lie: plain: row after row; shuffled: as gemm-mx takes them, with "
                     "zeros in pads of columns", default="plain", choices=("plain", "shuffled") if blocks else ("plain",)),
        ag.Parameter("order", "build", str, "where elements of MX types lie: plain: row after row; shuffled: as gemm-mx takes B, 16 rows "
                     "x 16 bytes together, rows up to a multiple of 16", default="plain",
                     choices=("plain", "shuffled") if blocks else ("plain",)),
        ag.Parameter("smooth", "build", bool, "columns are multiplied by a vector first", default=False),
        ag.Parameter("columnwise", "build", bool, "also d_t, with scale_t where scales are found: the transpose of x, whose blocks are 32, "
                     "or whose groups are 128, rows of x", default=False,
                     choices=(False, True) if variant.lanes == max(ROW_LANES) else (False,)),
        *(one for one in row_parameters(variant, elements=False) if one.name != "each"),
        ag.Parameter("each", "run", int, "groups of rows that a workgroup makes, one after the other; columnwise: bands of 32 rows, of "
                     "group 128 of 128",
                     minimum=1, maximum=MOST_ROWS, default_from=ag.Formula("as many as fill the GPU once", lambda p: _each(variant, p))),
        row_stride(variant, "x"),
        ag.Parameter("d_stride", "run", int, "bytes from one row of d to the next", minimum=1, multiple_of=_DWORD,
                     maximum=most_byte_stride(variant),
                     default_from=ag.Formula("columns, rounded up to a multiple of 4, of MX types the bytes of whole blocks",
                                             lambda p: -(-row_bytes(p) // _DWORD) * _DWORD)),
        ag.Parameter("scale_stride", "run", int, "scales from one row to the next", minimum=1, maximum=1 << 24,
                     default_from=ag.Formula("ceil(columns / 128), of MX types ceil(columns / 32), up to a multiple of 8 where shuffled",
                                             least_scale_stride)),
        ag.Parameter("d_t_stride", "run", int, "bytes from one row of d_t to the next", minimum=1, multiple_of=_DWORD, maximum=_MOST_STRIDE,
                     default_from=ag.Formula("the bytes of ceil(rows / 32) blocks",
                                             lambda p: _own_bytes(p) if p["columnwise"] else _DWORD)),
        ag.Parameter("scale_t_stride", "run", int, "scales from one row of scale_t to the next", minimum=1, maximum=_MOST_STRIDE,
                     default_from=ag.Formula("ceil(rows / 32), up to a multiple of 8 where shuffled; of group 128 ceil(rows / 128)",
                                             lambda p: least_scale_stride(transposed(p)) if p["columnwise"] else 1)),
    )


_MOST_STRIDE = (1 << 21) - _DWORD
"""Bytes whose product with the columns of a strip leaves room for what no descriptor shows."""


def _own_bytes(p: ag.Values) -> int:
    return row_bytes(transposed(p))


def _each(variant: ag.Variant, p: ag.Values) -> int:
    return bands_of_workgroup(variant, p) if p["columnwise"] else rows_of_workgroup(variant, p)


def _grid(p: ag.Values, variant: ag.Variant) -> tuple[int, int, int]:
    if p["columnwise"]:
        return strip_of(variant, p).count, -(-bands_of(p) // p["each"]), 1
    return -(-groups_of(variant, p) // p["each"]), 1, 1


def _arguments(variant: ag.Variant, build: ag.Values) -> tuple[ag.ContractArgument, ...]:
    """What the build reads and writes."""
    group = group_of(build)
    by_columns = group not in _ALONE
    scales = {"tensor": "one float32, read: what 1 of d stands for", "token": "rows float32", str(GROUP): "rows x columns / 128 float32",
              str(BLOCK): "rows x columns / 32 e8m0 bytes"}
    return (
        ag.ContractArgument("x", "pointer", "rows x columns, 4-byte aligned"),
        ag.ContractArgument("d", "pointer", "rows x columns bytes"),
        ag.ContractArgument("scale", "pointer", scales[group]),
        *([ag.ContractArgument("smooth_scale", "pointer", "columns factors of the type of x, 4-byte aligned")] if build["smooth"] else []),
        *([ag.ContractArgument("d_t", "pointer", "columns x rows, as d; rows up to a multiple of 32")] if build["columnwise"] else []),
        *([ag.ContractArgument("scale_t", "pointer", scales[group].replace("rows x columns", "columns x rows"))]
          if build["columnwise"] and by_columns else []),
        *row_counts(("x", "d", *(["scale"] if by_columns else []), *(["d_t"] if build["columnwise"] else []),
                     *(["scale_t"] if build["columnwise"] and by_columns else []))),
    )


def _problem(values: ag.Values, seed: int) -> ag.Problem:
    """Random rows with their bytes and scales. Only this call loads numpy."""
    from asmgen.kernels.quantize.problem import make_problem

    return make_problem(values, seed)


def _algebra(values: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """Scales and results in exact residues."""
    from asmgen.kernels.quantize.algebra import quantized

    if is_blocks(values) or values["smooth"] or values["columnwise"]:
        raise ag.AsmgenError("quantize has no exact residues of MX types, whose scales are powers of 2, nor of smoothed columns or of "
                             "transposes; to=fp8, bf8 or int8 without smooth and columnwise would do")
    return quantized(values, inputs)


def _chosen(candidates: Sequence[ag.Variant], values: ag.Values) -> ag.Variant:
    """The fewest lanes that serve; groups of columns and blocks have a wave for a row at least."""
    given = {"group": "auto", "to": "fp8", "layout": "plain", **values}
    wide = group_of(given) not in _ALONE or is_blocks(given) or given["layout"] != "plain"
    return with_lanes(candidates, values, max(ROW_LANES) if values.get("columnwise") else ag.LANES if wide else 0)


QUANTIZE = ag.Family(
    name="quantize",
    title="d = x / scale, rounded to nearest even, with scales that follow from the largest magnitudes",
    parameters=_parameters,
    arguments=_arguments,
    grid=ag.GridRule("ceil(groups of rows / each), 1: a group is as many rows as a workgroup has at once; columnwise: strips of "
                     "columns, ceil(bands / each)", _grid),
    axes="xy",
    problem=_problem,
    algebra=_algebra,
    selection=_chosen,
    rules=(ag.Rule("x_stride must be at least columns, and even", ("x_stride", "columns"),
                   lambda p: p["x_stride"] >= p["columns"] and p["x_stride"] % 2 == 0),
           ag.Rule("d_stride must be at least the bytes of a row: columns, of MX types those of whole blocks",
                   ("d_stride", "columns", "to", "columnwise"), lambda p: p["d_stride"] >= row_bytes(p)),
           ag.Rule("order must be plain but for mxfp4, mxfp8 and mxbf8 that are not columnwise, with rows of a multiple of 32 bytes",
                   ("order", "to", "columnwise", "columns"),
                   lambda p: p["order"] == "plain" or is_blocks(p) and ag.element_bits(BLOCKS[p["to"]]) != 6 and not p["columnwise"]
                   and p["columns"] * ag.element_bits(BLOCKS[p["to"]]) % 256 == 0),
           ag.Rule("d_stride must be a multiple of 32 where order is shuffled", ("order", "d_stride"),
                   lambda p: p["order"] == "plain" or p["d_stride"] % 32 == 0),
           ag.Rule("columnwise is for builds without smooth whose group is not token, as scales of whole columns need all rows before the "
                   "first one is stored, and columns must be a multiple of 32", ("columnwise", "to", "group", "smooth", "columns"),
                   lambda p: not p["columnwise"] or group_of(p) != "token" and not p["smooth"] and p["columns"] % BLOCK == 0),
           ag.Rule("a band of 32 rows of x, and of d, of group 128 of 128 rows and their scales, must be less than 2^31 bytes in a "
                   "columnwise build",
                   ("columnwise", "x_stride", "d_stride", "scale_stride", "from", "group", "to"),
                   lambda p: not p["columnwise"] or BLOCK * parts_of_band(p) * max(
                       p["d_stride"], p["x_stride"] * (4 if p["from"] == "f32" else 2),
                       4 * p["scale_stride"] if parts_of_band(p) > 1 else 0) < 1 << 31),
           ag.Rule("d_t_stride must be at least the bytes of ceil(rows / 32) blocks", ("columnwise", "d_t_stride", "rows", "to"),
                   lambda p: not p["columnwise"] or p["d_t_stride"] >= _own_bytes(p)),
           ag.Rule("scale_t_stride must be at least ceil(rows / 32), of group 128 ceil(rows / 128), and a multiple of 8 where shuffled",
                   ("columnwise", "scale_t_stride", "rows", "layout", "group", "to"),
                   lambda p: not p["columnwise"] or p["scale_t_stride"] >= least_scale_stride(transposed(p))
                   and (p["layout"] == "plain" or p["scale_t_stride"] % 8 == 0)),
           ag.Rule("group must be 32 or auto for MX types and no other", ("group", "to"),
                   lambda p: (group_of(p) == str(BLOCK)) == is_blocks(p)),
           ag.Rule("rounding must be even and layout plain but for MX types", ("rounding", "layout", "to"),
                   lambda p: is_blocks(p) or (p["rounding"], p["layout"]) == ("even", "plain")),
           ag.Rule("scale_stride must be at least columns / 128, of MX types columns / 32, and a multiple of 8 where shuffled",
                   ("scale_stride", "columns", "to", "layout"),
                   lambda p: p["scale_stride"] >= least_scale_stride(p) and (p["layout"] == "plain" or p["scale_stride"] % 8 == 0))),
    example={"rows": 5},
    fills_argument_wait=True,
)
