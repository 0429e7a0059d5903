"""Norms of tensors: `asmgen.kernels.norm.layer(x, weight, bias)`, `asmgen.kernels.norm.rms(x, weight)`.

A tensor is a PyTorch tensor, an object with DLPack, or a numpy array (kernels/tensors.py). Rows go along the last axis; the other axes
are any, at equal distances.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from asmgen.kernels.norm.tensors import EIGHT, figures_of
from asmgen.kernels.rowlaunch import empty, launch, ones, rows_of, same_shape, vector
from asmgen.kernels.tensors import TensorError, gpu_of

_OF = {"layer": "norm.layer", "rms": "norm.rms"}
_OUTS = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}
_EIGHTS = {"gfx950": "float8_e4m3fn", "gfx942": "float8_e4m3fnuz"}


def layer(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, residual: Any = None, dropout_p: float = 0.0, seed: int = 0,
          offset: int = 0, out: Any = None, residual_out: Any = None, out_dtype: str = "", return_stats: bool = False, device: Any = None,
          stream: Any = None) -> Any:
    """(r - mean) / sqrt(var + eps) * weight + bias of each row of r = residual + dropout(x), statistics in float32.

    `x` is [..., columns] of bfloat16, float16 or float32; weight (ones by default) and bias are vectors of its type. Names and defaults are
    those of torch.nn.functional.layer_norm and of flash-attn's layer_norm_fn. Returns `out`; with a residual (out, residual_out), where
    residual_out is r for the next layer; with return_stats also mean and 1 / sqrt(...) of each row. `out` may be x, residual_out may be
    residual. `out_dtype` is bf16, f16 or f32, by default that of x; or fp8, with the scale of each row
    (float32) as the last result: r = out * scale, for columns that are a multiple of 4.
    Dropout is by Philox 4x32-7 (docs/facts/row_kernels.md section 2).

    `device` is the GPU of the tensors by default; tensors in host memory need an EmulatedDevice. Raises TensorError or ContractError
    before any launch.
    """
    return _norm("layer", x, weight, bias, eps, residual, (dropout_p, seed, offset), out, residual_out, out_dtype, return_stats, device,
                 stream)


def rms(x: Any, weight: Any = None, eps: float = 1e-6, residual: Any = None, dropout_p: float = 0.0, seed: int = 0, offset: int = 0,
        out: Any = None, residual_out: Any = None, out_dtype: str = "", return_stats: bool = False, device: Any = None,
        stream: Any = None) -> Any:
    """r / sqrt(mean(r^2) + eps) * weight, otherwise as `layer`; the default of eps is vLLM's. With return_stats also 1 / sqrt(...)."""
    return _norm("rms", x, weight, None, eps, residual, (dropout_p, seed, offset), out, residual_out, out_dtype, return_stats, device,
                 stream)


def _norm(kind: str, x: Any, weight: Any, bias: Any, eps: float, residual: Any, dropout: tuple[float, int, int], out: Any,
          residual_out: Any, out_dtype: str, stats: bool, device: Any, stream: Any) -> Any:
    of = _OF[kind]
    rows = rows_of("x", x, of)
    made = out_dtype or rows.dtype
    if made == EIGHT and out is None:
        device = device if device is not None else gpu_of(x, of)
        out = empty(x, rows.shape, _EIGHTS[device.arch])
    elif made not in _OUTS:
        raise TensorError(f"out_dtype of {of} must be one of {', '.join(_OUTS)}, or fp8 where no out is given, got {made!r}")
    tensors = {"x": x, "d": empty(x, rows.shape, "" if made == rows.dtype else _OUTS[made]) if out is None else out}
    if residual is not None:
        tensors |= {"residual": residual, "r": empty(x, rows.shape) if residual_out is None else residual_out}
    lying = {name: rows_of(name, tensor, of) for name, tensor in tensors.items() if name != "d" or made != EIGHT}
    if made == EIGHT:
        lying["d"] = replace(rows, stride=rows.columns, dtype=EIGHT)
    for name, one in lying.items():
        same_shape(of, name, one, rows)
        if name != "d" and one.dtype != rows.dtype:
            raise TensorError(f"{name} of {of} must have the type of x, {rows.dtype}, got {one.dtype}")
    build: dict[str, Any] = {"kind": kind, "residual": residual is not None, "dropout": dropout[0] > 0, "bias": bias is not None,
                             "save": "stats" if stats else "none", "dtype": rows.dtype, "out": lying["d"].dtype, "columns": rows.columns}
    if not all(one.wide for one in lying.values()):
        build["access"] = "element"
    tensors["w"] = ones(x, rows.columns) if weight is None else vector("weight", weight, of, rows.columns, rows.dtype)
    if bias is not None:
        tensors["b"] = vector("bias", bias, of, rows.columns, rows.dtype)
    saved = figures_of(build)
    tensors |= {name: empty(x, (rows.rows,), "float32") for name in saved}
    shape = {"rows": rows.rows, "eps": eps, **{f"{name}_stride": one.stride for name, one in lying.items()},
             **(dict(zip(("p", "seed", "offset"), dropout, strict=True)) if dropout[0] > 0 else {})}
    launch("norm", of, build, shape, tensors, tuple(name for name in tensors if name in ("d", "r", *saved)), device, stream)
    found = [tensors[name] for name in ("d", "r", *saved) if name in tensors]
    return found[0] if len(found) == 1 else tuple(found)


def backward(dy: Any, x: Any, rstd: Any, weight: Any = None, mean: Any = None, residual: Any = None, bias: bool = False, out: Any = None,
             device: Any = None, stream: Any = None) -> Any:
    """(dx, dw), with `bias` (dx, dw, db): gradients from dy, the rows x that were normalised (residual_out where there was a residual), and
    the rstd and, of layer norm, mean that return_stats gave. `residual` is a gradient of x that arrives by another way and is added.
    The sums of dw and db have one order, so that their bits are the same each time. `out` may be dy. Columns are at most 16384."""
    of = "norm.backward"
    rows = rows_of("x", x, of)
    tensors = {"x": x, "dy": dy, "dx": empty(x, rows.shape) if out is None else out}
    if residual is not None:
        tensors["dr"] = residual
    lying = {name: rows_of(name, tensor, of) for name, tensor in tensors.items()}
    for name, one in lying.items():
        same_shape(of, name, one, rows)
        if one.dtype != rows.dtype or not one.wide:
            raise TensorError(f"{name} of {of} must have the type of x, {rows.dtype}, and rows at multiples of 4 bytes, got {one.dtype}, "
                              f"rows {one.stride} elements apart")
    tensors |= {name: vector(name, figures, of, rows.rows, "f32") for name, figures in (("mean", mean), ("rstd", rstd))
                if figures is not None}
    tensors["w"] = ones(x, rows.columns) if weight is None else vector("weight", weight, of, rows.columns, rows.dtype)
    sums = ("dw", "db") if bias else ("dw",)
    tensors |= {name: empty(x, (rows.columns,)) for name in sums}
    build = {"kind": "rms" if mean is None else "layer", "residual": residual is not None, "bias": bias, "dtype": rows.dtype,
             "columns": rows.columns}
    shape = {"rows": rows.rows, **{f"{name}_stride": one.stride for name, one in lying.items()}}
    launch("norm-backward", of, build, shape, tensors, ("dx", *sums), device, stream)
    return tuple(tensors[name] for name in ("dx", *sums))
