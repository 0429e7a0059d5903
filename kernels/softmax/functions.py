"""Softmax of tensors: `asmgen.kernels.softmax.apply(x)`, `asmgen.kernels.softmax.backward(y, dy)`; rows go along the last axis."""

from __future__ import annotations

import math
from typing import Any

from asmgen.kernels.rowlaunch import TensorRows, empty, launch, rows_of, same_shape
from asmgen.kernels.tensors import Facts, TensorError, located, plain_name


def apply(x: Any, log: bool = False, mask: str = "none", lengths: Any = None, out: Any = None, out_dtype: str = "", device: Any = None,
          stream: Any = None) -> Any:
    """softmax of each row of x [..., columns], or its logarithm, in float32.

    `mask` is none, causal (row q of the last but one axis sees columns up to q + columns - rows of that axis), or length, where row r sees
    the first lengths[r] columns (int32, a number for each row); others become 0, of the logarithm minus infinity. `out` may be x.
    `out_dtype` is bfloat16, float16 or float32, by default that of x. Tensors, `device` and errors are as for norm.layer.
    """
    of = "softmax.apply"
    rows = rows_of("x", x, of)
    d = empty(x, rows.shape, out_dtype) if out is None else out
    made = rows_of("out", d, of)
    same_shape(of, "out", made, rows)
    build: dict[str, Any] = {"log": log, "mask": mask, "dtype": rows.dtype, "out": made.dtype, "columns": rows.columns,
                             **_access(rows, made)}
    shape = {"rows": rows.rows, "x_stride": rows.stride, "d_stride": made.stride}
    tensors = {"x": x, "d": d}
    if mask == "causal":
        shape["queries"] = rows.shape[-2] if len(rows.shape) > 1 else 1
    if mask == "length":
        if lengths is None or not _is_for_rows(located("lengths", lengths, of)[1], rows.rows):
            raise TensorError(f"lengths of {of} must be int32 numbers side by side, one for each of {rows.rows} rows, where mask is length")
        tensors["lengths"] = lengths
    launch("softmax", of, build, shape, tensors, ("d",), device, stream)
    return d


def backward(y: Any, dy: Any, log: bool = False, out: Any = None, device: Any = None, stream: Any = None) -> Any:
    """The gradient of x from that of the result y, or of its logarithm. `out` may be dy."""
    of = "softmax.backward"
    rows, gradient = rows_of("y", y, of), rows_of("dy", dy, of)
    dx = empty(y, rows.shape) if out is None else out
    made = rows_of("out", dx, of)
    for name, one in (("dy", gradient), ("out", made)):
        same_shape(of, name, one, rows)
        if one.dtype != rows.dtype:
            raise TensorError(f"{name} of {of} must have the type of y, {rows.dtype}, got {one.dtype}")
    build: dict[str, Any] = {"backward": True, "log": log, "dtype": rows.dtype, "columns": rows.columns, **_access(rows, gradient, made)}
    shape = {"rows": rows.rows, "y_stride": rows.stride, "dy_stride": gradient.stride, "dx_stride": made.stride}
    launch("softmax", of, build, shape, {"y": y, "dy": dy, "dx": dx}, ("dx",), device, stream)
    return dx


def _is_for_rows(facts: Facts, rows: int) -> bool:
    """Whether a tensor has an int32 number for each row, without gaps."""
    shape, strides, dtype = facts
    dense = all(apart == math.prod(shape[axis + 1:]) for axis, apart in enumerate(strides) if shape[axis] > 1)
    return plain_name(dtype) == "int32" and math.prod(shape) == rows and dense


def _access(*tensors: TensorRows) -> dict[str, str]:
    return {} if all(one.wide for one in tensors) else {"access": "element"}
