"""Data for quantize, and the bytes and scales that must come out, by the rules as written (docs/facts/row_kernels.md section 5)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

import asmgen as ag
from asmgen.kernels.quantize.formats import BLOCKS, GROUP, TILE_ROWS, group_of, is_blocks, row_bytes
from asmgen.kernels.rows.blockreference import BlockForm, block_outputs
from asmgen.kernels.rows.blockscales import BLOCK, SHUFFLED_ROWS
from asmgen.kernels.rows.eightbits import LARGEST, LEAST_MAGNITUDE
from asmgen.kernels.rows.reference import FLUSHED, Array, rows_of

_EIGHT: dict[tuple[str, str], Any] = {
    ("fp8", "ocp"): ml_dtypes.float8_e4m3fn, ("bf8", "ocp"): ml_dtypes.float8_e5m2,
    ("fp8", "fnuz"): ml_dtypes.float8_e4m3fnuz, ("bf8", "fnuz"): ml_dtypes.float8_e5m2fnuz}
_CANARY = 0xA5


def make_problem(p: ag.Values, seed: int) -> ag.Problem:
    """Rows with odd numbers (rows/reference.py), one of them tiny."""
    random = np.random.default_rng(seed)
    rows, columns = p["rows"], p["columns"]
    x = rows_of(random, rows, columns, p["x_stride"], p["from"], seed)
    x[random.integers(rows), :columns] *= np.array(1e-12).astype(x.dtype)
    padded = -(-rows // SHUFFLED_ROWS) * SHUFFLED_ROWS if p["layout"] == "shuffled" else rows
    d = np.full((-(-rows // TILE_ROWS) * TILE_ROWS if p["order"] == "shuffled" else rows, p["d_stride"]), _CANARY, np.uint8)
    figures = {"tensor": np.array([random.uniform(0.001, 0.1)], np.float32), "token": np.full(rows, -1, np.float32),
               str(GROUP): np.full((rows, p["scale_stride"]), -1, np.float32),
               str(BLOCK): np.full((padded, p["scale_stride"]), _CANARY, np.uint8)}[group_of(p)]
    smooth: Array = np.asarray(random.uniform(0.25, 4, columns)).astype(x.dtype)
    arguments = {"x": x, "d": d, "scale": figures, "smooth_scale": smooth}
    arguments |= {name: p[name] for name in ("rows", "each", "x_stride", "d_stride", "scale_stride", "d_t_stride", "scale_t_stride")}
    if p["columnwise"]:
        padded = -(-columns // SHUFFLED_ROWS) * SHUFFLED_ROWS
        arguments |= {"d_t": np.full((columns, p["d_t_stride"]), _CANARY, np.uint8),
                      "scale_t": np.full((padded, p["scale_t_stride"]), _CANARY, np.uint8 if is_blocks(p) else np.float32)}

    def outputs() -> tuple[ag.Output, ...]:
        values = x[:, :columns].astype(np.float32)
        if p["smooth"]:
            with np.errstate(all="ignore"):
                values = values * smooth.astype(np.float32)
        if not is_blocks(p):
            return (*_outputs(p, values, figures), *(_of_transpose(p, values, figures) if p["columnwise"] else ()))
        forms = [BlockForm(BLOCKS[p["to"]], p["rounding"], p["layout"], p[f"{name}_stride"]) for name in ("scale", "scale_t")]
        found = block_outputs(forms[0], values)
        if p["order"] == "shuffled":
            row, byte = np.meshgrid(np.arange(rows), np.arange(row_bytes(p)), indexing="ij")
            at = row // TILE_ROWS * TILE_ROWS * p["d_stride"] + byte // 16 * 256 + row % 16 * 16 + byte % 16
            return replace(found[0], select=(at // p["d_stride"], at % p["d_stride"])), found[1]
        if not p["columnwise"]:
            return found
        return (*found, *(replace(one, argument=f"{one.argument}_t") for one in block_outputs(forms[1], values.T)))

    return ag.Problem(arguments, outputs)


def _outputs(p: ag.Values, x: Array, given: Array) -> tuple[ag.Output, ...]:
    groups = -(-x.shape[1] // GROUP)
    with np.errstate(all="ignore"):
        if group_of(p) == "tensor":
            scale = np.broadcast_to(given, (len(x), 1))
        elif group_of(p) == "token":
            scale = _scale(p, x)
        else:
            scale = np.concatenate([_scale(p, x[:, GROUP * number:GROUP * number + GROUP]) for number in range(groups)], 1)
        inverse = (1 / scale.astype(float)).astype(np.float32)
        inverse[np.isinf(scale)] = np.nan
        width = GROUP if group_of(p) == str(GROUP) else x.shape[1]
        quotients = (x.astype(float) * np.repeat(inverse, width, 1)[:, :x.shape[1]]).astype(np.float32)
        quotients = np.where(np.abs(quotients) < FLUSHED, np.copysign(np.float32(0), quotients), quotients)
        expected = _bytes(p, quotients)
    # A NaN of an 8-bit float has either sign: 0x7d to 0x7f or 0xfd to 0xff; with FNUZ it is 0x80.
    signed_nan = np.isnan(quotients) & (p["to"] != "int8") & (p["encoding"] == "ocp")
    outputs = [ag.Output("d", np.where(signed_nan, 190.0, expected), 65.0 * signed_nan, (slice(None), slice(x.shape[1])))]
    if group_of(p) == "token":
        outputs.append(ag.Output("scale", scale[:, 0]))
    elif group_of(p) != "tensor":
        outputs.append(ag.Output("scale", scale, 0.0, (slice(None), slice(groups))))
    return tuple(outputs)


def _of_transpose(p: ag.Values, values: Array, given: Array) -> tuple[ag.Output, ...]:
    """d_t and scale_t: rows up to whole blocks count as zeros."""
    rows, columns = values.shape
    whole = np.zeros((columns, -(-rows // BLOCK) * BLOCK), np.float32)
    whole[:, :rows] = values.T
    return tuple(replace(one, argument=f"{one.argument}_t", select=(slice(columns), one.select[1]))
                 for one in _outputs(p, whole, given))


def _scale(p: ag.Values, x: Array) -> Array:
    """Of the magnitudes of a group, NaN left out: the largest one, 1e-10 at least, times 1 / the type's largest value, both of float32."""
    largest = np.fmax(np.fmax.reduce(np.abs(x), 1, keepdims=True), np.float32(LEAST_MAGNITUDE))
    return largest * np.float32(1 / LARGEST[p["to"], p["encoding"]])


def _bytes(p: ag.Values, values: Array) -> Array:
    """Nearest even; beyond the largest value that one; NaN is a NaN, of int8 0."""
    if p["to"] == "int8":
        found: Array = np.clip(np.rint(np.nan_to_num(values, nan=0.0)), -128, 127).astype(np.int8).view(np.uint8)
        return found
    most, kind = LARGEST[p["to"], p["encoding"]], _EIGHT[p["to"], p["encoding"]]
    found = np.clip(values, -most, most).astype(kind).view(np.uint8)
    return found
