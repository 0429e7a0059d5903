"""Activations of tensors: `asmgen.kernels.activation.apply(gate, "silu", up)` and `activation.backward(dy, gate, "silu", up)`."""

from __future__ import annotations

from typing import Any

from asmgen.kernels.activation.tensors import is_gated
from asmgen.kernels.rowlaunch import TensorRows, empty, launch, rows_of, same_shape
from asmgen.kernels.tensors import TensorError


def apply(x: Any, kind: str = "silu", up: Any = None, approximate: str = "none", limit: float = -1.0, gated: bool = False, out: Any = None,
          device: Any = None, stream: Any = None) -> Any:
    """act(x), or act(x) times `up`, element by element in float32, of x [..., columns] of bfloat16, float16 or float32.

    `kind` is silu, gelu (`approximate` none or tanh, as torch.nn.functional.gelu has it) or swiglu (gpt-oss: x sigmoid(1.702 x) (up + 1)).
    With `gated` and no `up`, x has the gate in the first half of its columns and `up` in the second (vLLM's silu_and_mul). What is gated is
    cut at `limit`; -1 stands for 7 of swiglu and no limit of others. `out` may be x or up. Tensors, `device` and errors are as for
    norm.layer.
    """
    of = "activation.apply"
    named = _sides(x, up, kind, gated, of)
    named["d"] = empty(x, rows_of("x", named["x"], of).shape) if out is None else out
    _launch(of, {"kind": kind, "approximate": approximate, "limit": limit, "gated": "up" in named}, named, ("d",), device, stream)
    return named["d"]


def backward(dy: Any, x: Any, kind: str = "silu", up: Any = None, approximate: str = "none", limit: float = -1.0, out: Any = None,
             up_out: Any = None, device: Any = None, stream: Any = None) -> Any:
    """The gradient of x, with `up` (that of x, that of up), from that of the result; 0 beyond the limit. `out` may be dy or x, `up_out`
    up."""
    of = "activation.backward"
    named = _sides(x, up, kind, False, of) | {"dy": dy}
    written = ("dx", "dup") if up is not None else ("dx",)
    for name, given in zip(written, (out, up_out), strict=False):
        named[name] = empty(x, rows_of("x", x, of).shape) if given is None else given
    build = {"kind": kind, "approximate": approximate, "limit": limit, "gated": up is not None, "backward": True}
    _launch(of, build, named, written, device, stream)
    return named["dx"] if up is None else (named["dx"], named["dup"])


def _sides(x: Any, up: Any, kind: str, gated: bool, of: str) -> dict[str, Any]:
    """What is activated, and what it is multiplied by."""
    if up is not None:
        return {"x": x, "up": up}
    if not gated:
        if is_gated({"kind": kind, "gated": False}):
            raise TensorError(f"up of {of} must be given where kind is {kind}, or gated=True with both in x")
        return {"x": x}
    columns = x.shape[-1]
    if columns % 2:
        raise TensorError(f"x of {of} must have an even number of columns where it has gate and up, got {columns}")
    return {"x": x[..., :columns // 2], "up": x[..., columns // 2:]}


def _launch(of: str, build: dict[str, Any], tensors: dict[str, Any], written: tuple[str, ...], device: Any, stream: Any) -> None:
    lying = {name: rows_of(name, tensor, of) for name, tensor in tensors.items()}
    rows = lying["x"]
    for name, one in lying.items():
        same_shape(of, name, one, rows)
        if one.dtype != rows.dtype:
            raise TensorError(f"{name} of {of} must have the type of x, {rows.dtype}, got {one.dtype}")
    further = {"dtype": rows.dtype, "columns": rows.columns, **_access(lying)}
    shape = {"rows": rows.rows, **{f"{name}_stride": one.stride for name, one in lying.items()}}
    launch("activation", of, build | further, shape, tensors, written, device, stream)


def _access(lying: dict[str, TensorRows]) -> dict[str, str]:
    return {} if all(one.wide for one in lying.values()) else {"access": "element"}
