"""Data for norm with its float64 reference, and how far float32 may be from it."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import asmgen as ag
from asmgen.kernels.norm.tensors import BLOCKS, EIGHT, MASK, is_blocks, saved_of
from asmgen.kernels.rows.blockreference import BlockForm, block_outputs
from asmgen.kernels.rows.blockscales import SHUFFLED_ROWS
from asmgen.kernels.rows.eightbits import LARGEST, LEAST_MAGNITUDE
from asmgen.kernels.rows.reference import CANARY, FLUSHED, TYPES, UNIT, Array, canaries, kept, result, rows_of
from asmgen.kernels.rows.rowshape import MOST_FRAGMENTS, PER_LANE

_CHAIN = PER_LANE * MOST_FRAGMENTS + 16
"""Roundings on the way of an element into a sum: the items of a lane, then lanes and waves (10 bits of them at most), and the share."""
_EIGHT = {"ocp": (ml_dtypes.float8_e4m3fn, LARGEST["fp8", "ocp"], 2.0**-10),
          "fnuz": (ml_dtypes.float8_e4m3fnuz, LARGEST["fp8", "fnuz"], 2.0**-11)}
"""By encoding the numpy type, its largest number, and half of its smallest subnormal one."""
_EIGHT_BITS = 4
"""Significant bits of e4m3."""
_NUMBERS = ("rows", "each", "x_stride", "residual_stride", "r_stride", "d_stride", "mask_stride", "scale_stride", "eps", "p", "seed",
            "offset")
_CANARY = 0xA5


def make_problem(p: ag.Values, seed: int) -> ag.Problem:
    """Rows with odd numbers (rows/reference.py), random weights."""
    random = np.random.default_rng(seed)
    rows, columns, dtype = p["rows"], p["columns"], p["dtype"]
    x, residual = (rows_of(random, rows, columns, p[f"{name}_stride"], dtype, seed) for name in ("x", "residual"))
    w, b = random.standard_normal((2, columns)).astype(TYPES[dtype][0])
    arguments = {"x": x, "residual": residual, "r": canaries(rows, p["r_stride"], dtype), "d": _results(p),
                 "w": w, "b": b, "mean": canaries(1, rows, "f32")[0], "rstd": canaries(1, rows, "f32")[0],
                 "scale": _scales(p), "mask": np.full((rows, p["mask_stride"]), _CANARY, np.uint8)}
    arguments |= {name: p[name] for name in _NUMBERS}
    return ag.Problem(arguments, lambda: _outputs(p, x[:, :columns].astype(float), residual[:, :columns].astype(float),
                                                  w.astype(float), b.astype(float)))


def _outputs(p: ag.Values, x: Array, residual: Array, w: Array, b: Array) -> tuple[ag.Output, ...]:
    """`error` is that of r, c = r - mean, and 1 / sqrt(...) in turn, each by the operations of the kernel (rowwise.py)."""
    columns, eps = p["columns"], float(np.float32(p["eps"]))
    with np.errstate(invalid="ignore", over="ignore"):
        r, error = x, np.zeros_like(x)
        if p["dropout"]:
            probability = float(np.float32(p["p"]))
            r = np.where(kept(len(x), columns, p["p"], p["seed"], p["offset"], p["rounds"]), x, 0.0) / (1 - probability)
            error = 4 * UNIT * np.abs(r)  # 1 - p, its reciprocal of 1 ulp, the product
        if p["residual"]:
            r = residual + r
            error = error + UNIT * np.abs(r)
        outputs = [result("r", r, error, p["dtype"], columns)] if p["residual"] else []
        if p["save"] == MASK:
            stays = kept(len(x), columns, p["p"], p["seed"], p["offset"], p["rounds"])
            outputs.append(ag.Output("mask", stays.astype(float), 0.0, (slice(None), slice(columns))))
        centred, mean = r, np.zeros((len(r), 1))
        if p["kind"] == "layer":
            mean = r.mean(1, keepdims=True)
            of_mean = (error + _CHAIN * UNIT * np.abs(r)).mean(1, keepdims=True)
            centred = r - mean
            error = error + of_mean + UNIT * np.abs(centred)
            outputs += _row_output("mean", mean, of_mean + FLUSHED) if "mean" in saved_of(p) else []
        variance = (centred**2).mean(1, keepdims=True)
        of_variance = 1.01 * (2 * np.abs(centred) * error + error**2).mean(1, keepdims=True)
        of_variance += (_CHAIN + 2) * UNIT * (variance + eps) + FLUSHED
        of_variance = np.where(np.isinf(variance), 0.0, of_variance)  # rstd is 0, and so is what it multiplies
        rstd = 1 / np.sqrt(variance + eps)
        # The root falls, so that its error is largest at one of the ends; v_rsq_f32 has 1 ulp.
        ends = [1 / np.sqrt(np.maximum(variance + eps + sign * of_variance, 2.0**-149)) for sign in (-1, 1)]
        of_rstd = np.maximum(np.abs(ends[0] - rstd), np.abs(ends[1] - rstd)) + 3 * UNIT * rstd
        outputs += _row_output("rstd", rstd, of_rstd) if "rstd" in saved_of(p) else []
        scaled = centred * rstd
        d = scaled * w + b if p["bias"] else scaled * w  # no sum with 0, which -0.0 would not survive
        off = np.abs(w) * (error * (rstd + of_rstd) + np.abs(centred) * of_rstd + 2 * UNIT * np.abs(scaled)) + UNIT * np.abs(d)
    if is_blocks(p):
        form = BlockForm(BLOCKS[p["out"]], p["rounding"], p["layout"], p["scale_stride"])
        return (*outputs, *block_outputs(form, d, off))
    if p["out"] == EIGHT:
        return (*outputs, *_eight(p, d, off, (slice(None), slice(columns))))
    return (*outputs, result("d", d, off, p["out"], columns))


def _results(p: ag.Values) -> Array:
    """d before the launch."""
    if is_blocks(p):
        return np.full((p["rows"], p["d_stride"]), _CANARY, np.uint8)
    if p["out"] == EIGHT:
        return np.full((p["rows"], p["d_stride"]), CANARY, _EIGHT[p["encoding"]][0])
    return canaries(p["rows"], p["d_stride"], p["out"])


def _scales(p: ag.Values) -> Array:
    """Scales before the launch: bytes of blocks, whose shuffled rows are 32 each, or a float32 for each row."""
    if not is_blocks(p):
        line: Array = canaries(1, p["rows"], "f32")[0]
        return line
    rows = -(-p["rows"] // SHUFFLED_ROWS) * SHUFFLED_ROWS if p["layout"] == "shuffled" else p["rows"]
    return np.full((rows, p["scale_stride"]), _CANARY, np.uint8)


def _eight(p: ag.Values, d: Array, off: Array, where: tuple[slice, slice]) -> tuple[ag.Output, ag.Output]:
    """d in units of each row's scale, and the scales. The reciprocal is rounded, and so is its product with d."""
    _, largest, least = _EIGHT[p["encoding"]]
    with np.errstate(all="ignore"):
        sizes = np.abs(d)
        most = np.fmax(np.fmax.reduce(sizes, 1, keepdims=True), np.float32(LEAST_MAGNITUDE))
        of_most = np.fmax.reduce(np.where(np.isfinite(sizes), np.nan_to_num(off), 0.0), 1, keepdims=True)
        scale = most / largest
        of_scale = 1.01 * of_most / largest + 3 * UNIT * scale
        made = d / scale
        error = off / scale + sizes / scale * (of_scale / scale + 3 * UNIT)
        half = np.maximum(np.ldexp(1.0, np.frexp(np.abs(made) + error)[1] - _EIGHT_BITS - 1), least)
        tolerance = 1.01 * (half + error)
    return ag.Output("d", made, tolerance, where), ag.Output("scale", scale[:, 0], of_scale[:, 0])


def _row_output(name: str, value: Array, error: Array) -> list[ag.Output]:
    return [ag.Output(name, value[:, 0], 1.01 * error[:, 0] + FLUSHED)]
