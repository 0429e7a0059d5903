"""Quantisation of tensors: `d, scale = asmgen.kernels.quantize.to(x, "mxfp4")`; rows go along the last axis."""

from __future__ import annotations

import importlib
import math
from typing import Any

from asmgen.kernels.quantize.formats import BLOCKS, GROUP, TILE_ROWS, group_of, is_blocks, least_scale_stride, row_bytes
from asmgen.kernels.rowlaunch import TensorRows, empty, launch, rows_of, vector
from asmgen.kernels.rows.blockscales import BLOCK, SHUFFLED_ROWS
from asmgen.kernels.tensors import TensorError, gpu_of, located, plain_name

_DWORD = 4
_EIGHT = {("fp8", "gfx950"): "float8_e4m3fn", ("bf8", "gfx950"): "float8_e5m2", ("fp8", "gfx942"): "float8_e4m3fnuz",
          ("bf8", "gfx942"): "float8_e5m2fnuz"}


def to(x: Any, to: str = "fp8", group: str = "auto", rounding: str = "even", layout: str = "plain", scale: Any = None, smooth: Any = None,
       out: Any = None, scale_out: Any = None, device: Any = None, stream: Any = None, columnwise: bool = False,
       order: str = "plain") -> tuple[Any, ...]:
    """(d, scale) of x [..., columns] of bfloat16, float16 or float32: x = d * scale, as kernels/quantize says.

    `to` is fp8, bf8, int8 with float32 scales for each `group`: tensor (`scale` is given, one float32), token (a row) or 128 columns; or
    mxfp8, mxbf8, mxfp6, mxbf6, mxfp4 with an e8m0 byte for 32 columns, by `rounding` even, floor or up, in rows or as gemm.mx takes them
    (`layout` shuffled, with rows up to a multiple of 32). d has the type of its elements where the architecture has it, else it is bytes
    (uint8), two fp4 or four fp6 numbers in 1 or 3 of them. `smooth` is a vector that multiplies columns first. With
    `columnwise`, for MX types and of others for group 128 or tensor, the result is (d, scale, d_t, scale_t): the same of the transpose of x
    [rows, columns], columns a multiple of 32, from one launch; rows of d_t have zeros up to a multiple of 32.
    With `order` shuffled d lies as gemm.mx takes B (b_order). Tensors, `device` and errors are as for norm.layer; columns of MX types that
    fill no block have zeros after them.
    """
    of = "quantize.to"
    rows = rows_of("x", x, of)
    if not rows.wide:
        raise TensorError(f"x of {of} must begin, and have its rows, at multiples of 4 bytes; a contiguous copy with an even "
                          "number of columns would do")
    used = device if device is not None else gpu_of(x, of)
    build: dict[str, Any] = {"from": rows.dtype, "to": to, "group": group, "rounding": rounding, "layout": layout,
                             "smooth": smooth is not None, "columns": rows.columns, **({"order": order} if order != "plain" else {})}
    (made, kind), (scale_shape, scale_kind) = shapes_of(rows.shape, to, group, layout, used.arch)
    nbytes = made[-1]
    d = empty(x, made, kind) if out is None else out
    _, (shape, strides, _) = located("out", d, of)
    if shape != (*rows.shape[:-1], nbytes) or strides[-1] != 1 and nbytes > 1:
        raise TensorError(f"out of {of} must have the shape {[*rows.shape[:-1], nbytes]}, with bytes of rows side by side, got "
                          f"{list(shape)}")
    stride = strides[-2] if rows.rows > 1 and len(shape) > 1 else -(-nbytes // _DWORD) * _DWORD
    if stride % _DWORD:
        raise TensorError(f"out of {of} must have its rows at multiples of {_DWORD} bytes, got rows {stride} bytes apart; columns that are "
                          f"a multiple of {_DWORD}, or an out whose rows have pads, would do")
    if order == "shuffled" and rows.rows % TILE_ROWS:
        raise TensorError(f"x of {of} must have rows that are a multiple of {TILE_ROWS} where order is shuffled, got {rows.rows}")
    if (group == "tensor") != (scale is not None):
        raise TensorError(f"scale of {of} must be given where group is tensor, one float32, and nowhere else; other scales are results")
    scales = next((one for one in (scale, scale_out) if one is not None), None)
    if scales is None:
        scales = empty(x, scale_shape, scale_kind)
    elif group == "tensor":
        vector("scale", scales if located("scale", scales, of)[1][0] else scales.reshape(1), of, 1, "f32")
    else:
        _check_scales(of, scales, scale_shape, scale_kind)
    tensors = {"x": x, "d": d, "scale": scales}
    if smooth is not None:
        tensors["smooth_scale"] = vector("smooth", smooth, of, rows.columns, rows.dtype)
    further = _transposed(build, tensors, rows, used.arch) if columnwise else {}
    run: dict[str, Any] = {"rows": rows.rows, "x_stride": rows.stride, "d_stride": stride, **further}
    if group_of(build) in (str(GROUP), str(BLOCK)):
        (count, width), (apart, _), _ = located("scale", scales, of)[1]
        run["scale_stride"] = apart if count > 1 else width
    written = tuple(name for name in ("d", "scale", "d_t", "scale_t") if name in tensors and (name != "scale" or scale is None))
    launch("quantize", of, build, run, tensors, written, used, stream)
    if not columnwise:
        return d, scales
    return d, scales, tensors["d_t"], tensors.get("scale_t", scales)


def _check_scales(of: str, scales: Any, wanted: tuple[int, ...], kind: str) -> None:
    """Raises TensorError for scales that have no room for all, or other elements. e8m0 numbers may have a type of their own."""
    shape, strides, dtype = located("scale_out", scales, of)[1]
    bytes_ = ("uint8", "float8_e8m0fnu") if kind == "uint8" else (kind,)
    if len(shape) != len(wanted) or shape[0] < wanted[0] or shape[1:] != wanted[1:] or strides[-1] != 1 or plain_name(dtype) not in bytes_:
        raise TensorError(f"scale_out of {of} must be {list(wanted)} of {kind}, side by side, got {list(shape)} of {plain_name(dtype)}")


def _transposed(build: dict[str, Any], tensors: dict[str, Any], rows: TensorRows, arch: str) -> dict[str, int]:
    """d_t and scale_t, and their strides."""
    build["columnwise"] = True
    tensors["d_t"] = empty(tensors["x"], *shape_of_transpose((rows.rows, rows.columns), build["to"], arch))
    if build["group"] != "tensor":
        _, of_scales = shapes_of((rows.columns, rows.rows), build["to"], build["group"], build["layout"], arch)
        tensors["scale_t"] = empty(tensors["x"], *of_scales)
    return {f"{name}_stride": int(tensors[name].shape[-1]) for name in ("d_t", "scale_t") if name in tensors}


def shapes_of(shape: tuple[int, ...], to: str, group: str, layout: str, arch: str) -> tuple[tuple[tuple[int, ...], str], ...]:
    """Shape and type of d and of the scales of x [..., columns], where no scale is given."""
    build = {"columns": shape[-1], "to": to, "group": group, "layout": layout}
    rows = math.prod(shape[:-1])
    d = (*shape[:-1], row_bytes(build) if to in BLOCKS else shape[-1]), _kind_of(to, arch)
    if group_of(build) == "token":
        return d, ((rows,), "float32")
    padded = rows if layout == "plain" else -(-rows // SHUFFLED_ROWS) * SHUFFLED_ROWS
    return d, ((padded, least_scale_stride(build)), "uint8" if is_blocks(build) else "float32")


def shape_of_transpose(shape: tuple[int, ...], to: str, arch: str) -> tuple[tuple[int, int], str]:
    """Shape and type of d_t of x [rows, columns]: its rows have whole blocks of 32, and whole dwords."""
    width = row_bytes({"columns": shape[-2], "to": to, "columnwise": True})
    return (shape[-1], -(-width // _DWORD) * _DWORD), _kind_of(to, arch)


def _kind_of(to: str, arch: str) -> str:
    """The type of d by its name."""
    return "int8" if to == "int8" else _EIGHT.get((to.removeprefix("mx"), arch), "uint8")


def architecture_of(x: Any) -> str:
    """Whose types a tensor of PyTorch gets: gfx942's on such a GPU, else gfx950's."""
    if x.device.type == "cpu":
        return "gfx950"
    properties = importlib.import_module("torch").cuda.get_device_properties(x.device)
    return "gfx942" if "gfx942" in str(getattr(properties, "gcnArchName", "")) else "gfx950"
