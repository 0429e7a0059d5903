"""Norms of tensors: `asmgen.kernels.norm.layer(x, weight, bias)`, `asmgen.kernels.norm.rms(x, weight)`.

A tensor is a PyTorch tensor, an object with DLPack, or a numpy array (kernels/tensors.py). Rows go along the last axis; the other axes
are any, at equal distances.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from asmgen.kernels.norm.tensors import BLOCKS, EIGHT, figures_of, is_blocks, row_bytes, scales_of_row
from asmgen.kernels.rowlaunch import TensorRows, empty, launch, ones, rows_of, same_shape, vector
from asmgen.kernels.rows.blockscales import BLOCK, SHUFFLED_ROWS
from asmgen.kernels.tensors import TensorError, gpu_of

_OF = {"layer": "norm.layer", "rms": "norm.rms"}
_WORD = 4  # bytes
_OUTS = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}
_EIGHTS = {"gfx950": "float8_e4m3fn", "gfx942": "float8_e4m3fnuz"}


def layer(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, residual: Any = None, dropout_p: float = 0.0, seed: int = 0,
          offset: int = 0, out: Any = None, residual_out: Any = None, out_dtype: str = "", return_stats: bool = False,
          return_mask: bool = False, scale_layout: str = "plain", device: Any = None, stream: Any = None) -> Any:
    """(r - mean) / sqrt(var + eps) * weight + bias of each row of r = residual + dropout(x), statistics in float32.

    `x` is [..., columns] of bfloat16, float16 or float32; weight (ones by default) and bias are vectors of its type. Names and defaults are
    those of torch.nn.functional.layer_norm and of flash-attn's layer_norm_fn. Returns `out`; with a residual (out, residual_out), where
    residual_out is r for the next layer; with return_mask and dropout then the mask [rows, columns] of bytes, 1 for what is kept; with
    return_stats or return_mask then mean and 1 / sqrt(...) of each row. `out` may be x, residual_out may be residual.

    `out_dtype` is bf16, f16 or f32, by default that of x; or fp8, with the scale of each row (float32) as the last result: the norm is
    out * scale, for columns that are a multiple of 4; or, on gfx950, mxfp8 or mxfp4 (two numbers in a byte, columns that are a multiple
    of 32), with e8m0 scales of 32 columns as the last result, which lie plain or shuffled (`scale_layout`) as gemm.mx takes them.
    Dropout is by Philox 4x32-7 (docs/facts/row_kernels.md section 2).

    `device` is the GPU of the tensors by default; tensors in host memory need an EmulatedDevice. Raises TensorError or ContractError
    before any launch.
    """
    made = _Made(out, residual_out, out_dtype, return_stats, return_mask, scale_layout)
    return _norm("layer", x, weight, bias, eps, residual, (dropout_p, seed, offset), made, device, stream)


def rms(x: Any, weight: Any = None, eps: float = 1e-6, residual: Any = None, dropout_p: float = 0.0, seed: int = 0, offset: int = 0,
        out: Any = None, residual_out: Any = None, out_dtype: str = "", return_stats: bool = False, return_mask: bool = False,
        scale_layout: str = "plain", device: Any = None, stream: Any = None) -> Any:
    """r / sqrt(mean(r^2) + eps) * weight, otherwise as `layer`; the default of eps is vLLM's. With return_stats also 1 / sqrt(...)."""
    made = _Made(out, residual_out, out_dtype, return_stats, return_mask, scale_layout)
    return _norm("rms", x, weight, None, eps, residual, (dropout_p, seed, offset), made, device, stream)


@dataclass(frozen=True)
class _Made:
    """What a norm is to return, and where."""

    out: Any
    residual_out: Any
    dtype: str
    stats: bool
    mask: bool
    layout: str


def _norm(kind: str, x: Any, weight: Any, bias: Any, eps: float, residual: Any, dropout: tuple[float, int, int], made: _Made,
          device: Any, stream: Any) -> Any:
    of = _OF[kind]
    rows = rows_of("x", x, of)
    to = made.dtype or rows.dtype
    if made.mask and not dropout[0] > 0:
        raise TensorError(f"return_mask of {of} needs dropout_p above 0; without dropout nothing is masked")
    build: dict[str, Any] = {"kind": kind, "residual": residual is not None, "dropout": dropout[0] > 0, "bias": bias is not None,
                             "save": "mask" if made.mask else "stats" if made.stats else "none", "dtype": rows.dtype, "out": to,
                             "columns": rows.columns, "layout": made.layout}
    tensors, lying = {"x": x}, {"x": rows}
    if to in (EIGHT, *BLOCKS) and made.out is None:
        device = device if device is not None else gpu_of(x, of)
        _narrow_results(of, x, rows, build, device.arch, tensors)
    elif to in _OUTS:
        tensors["d"] = empty(x, rows.shape, "" if to == rows.dtype else _OUTS[to]) if made.out is None else made.out
        lying["d"] = rows_of("d", tensors["d"], of)
        build["out"] = lying["d"].dtype
    else:
        raise TensorError(f"out_dtype of {of} must be one of {', '.join(_OUTS)}, or fp8, mxfp8 or mxfp4 where no out is given, got {to!r}")
    if residual is not None:
        tensors |= {"residual": residual, "r": empty(x, rows.shape) if made.residual_out is None else made.residual_out}
        lying |= {name: rows_of(name, tensors[name], of) for name in ("residual", "r")}
    for name, one in lying.items():
        same_shape(of, name, one, rows)
        if name != "d" and one.dtype != rows.dtype:
            raise TensorError(f"{name} of {of} must have the type of x, {rows.dtype}, got {one.dtype}")
    if not all(one.wide for one in lying.values()):
        build["access"] = "element"
    tensors["w"] = ones(x, rows.columns, stream) if weight is None else vector("weight", weight, of, rows.columns, rows.dtype)
    if bias is not None:
        tensors["b"] = vector("bias", bias, of, rows.columns, rows.dtype)
    if made.mask:
        padded = -(-rows.columns // _WORD) * _WORD
        tensors["mask"] = empty(x, (rows.rows, padded), "uint8")
    saved = figures_of(build)
    tensors |= {name: empty(x, (rows.rows,), "float32") for name in saved}
    shape = {"rows": rows.rows, "eps": eps, **{f"{name}_stride": one.stride for name, one in lying.items()},
             **(dict(zip(("p", "seed", "offset"), dropout, strict=True)) if dropout[0] > 0 else {})}
    named = ("d", "r", "mask", *(name for name in saved if name != "scale"), "scale")
    launch("norm", of, build, shape, tensors, tuple(name for name in tensors if name in named), device, stream)
    found = [tensors[name] if name != "mask" else tensors[name][:, :rows.columns] for name in named if name in tensors]
    return found[0] if len(found) == 1 else tuple(found)


def _narrow_results(of: str, x: Any, rows: TensorRows, build: dict[str, Any], arch: str, tensors: dict[str, Any]) -> None:
    """Tensors for results of 8 bits or less, and for scales of blocks."""
    count = row_bytes(build)
    if count % _WORD or is_blocks(build) and rows.columns % BLOCK:
        raise TensorError(f"x of {of} must have columns that are a multiple of {BLOCK if is_blocks(build) else _WORD} where out_dtype is "
                          f"{build['out']}, got {rows.columns}")
    tensors["d"] = empty(x, (*rows.shape[:-1], count), "uint8" if build["out"] == "mxfp4" else _EIGHTS[arch])
    if is_blocks(build):
        lines = rows.rows if build["layout"] == "plain" else -(-rows.rows // SHUFFLED_ROWS) * SHUFFLED_ROWS
        tensors["scale"] = empty(x, (lines, scales_of_row(build)), "uint8")


def backward(dy: Any, x: Any, rstd: Any, weight: Any = None, mean: Any = None, residual: Any = None, bias: bool = False, out: Any = None,
             dropout_p: float = 0.0, seed: int = 0, offset: int = 0, return_dresidual: bool = False, device: Any = None,
             stream: Any = None) -> Any:
    """(dx, dw), with `bias` (dx, dw, db): gradients from dy, the rows x that were normalised (residual_out where there was a residual), and
    the rstd and, of layer norm, mean that return_stats gave. `residual` is a gradient of x that arrives by another way and is added.
    With dropout_p, seed and offset of the forward call dx goes on through its dropout; return_dresidual adds, as the last result, what
    arrives before it: the gradient of the residual.
    The sums of dw and db have one order, so that their bits are the same each time. `out` may be dy."""
    of = "norm.backward"
    rows = rows_of("x", x, of)
    tensors = {"x": x, "dy": dy, "dx": empty(x, rows.shape) if out is None else out}
    if residual is not None:
        tensors["dr"] = residual
    if return_dresidual:
        tensors["dresidual"] = empty(x, rows.shape)
    lying = {name: rows_of(name, tensor, of) for name, tensor in tensors.items()}
    for name, one in lying.items():
        same_shape(of, name, one, rows)
        if one.dtype != rows.dtype or not one.wide:
            raise TensorError(f"{name} of {of} must have the type of x, {rows.dtype}, and rows at multiples of 4 bytes, got {one.dtype}, "
                              f"rows {one.stride} elements apart")
    tensors |= {name: vector(name, figures, of, rows.rows, "f32") for name, figures in (("mean", mean), ("rstd", rstd))
                if figures is not None}
    tensors["w"] = ones(x, rows.columns, stream) if weight is None else vector("weight", weight, of, rows.columns, rows.dtype)
    sums = ("dw", "db") if bias else ("dw",)
    tensors |= {name: empty(x, (rows.columns,)) for name in sums}
    build = {"kind": "rms" if mean is None else "layer", "residual": residual is not None, "bias": bias, "dtype": rows.dtype,
             "columns": rows.columns, "dropout": dropout_p > 0, "dresidual": return_dresidual}
    shape: dict[str, Any] = {"rows": rows.rows, **{f"{name}_stride": one.stride for name, one in lying.items()}}
    if dropout_p > 0:
        shape |= {"p": dropout_p, "seed": seed, "offset": offset}
    results = ("dx", *sums, *(["dresidual"] if return_dresidual else []))
    launch("norm-backward", of, build, shape, tensors, results, device, stream)
    return tuple(tensors[name] for name in results)
