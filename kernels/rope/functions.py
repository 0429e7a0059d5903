"""Rotary embeddings of tensors: `asmgen.kernels.rope.apply(q, cos, sin, x2=k)`."""

from __future__ import annotations

from typing import Any

from asmgen.kernels.rope.tensors import TENSORS
from asmgen.kernels.rowlaunch import FLOATS, empty, launch
from asmgen.kernels.tensors import Facts, TensorError, located, plain_name

_OF = "rope.apply"
_LAYOUTS = ("bshd", "sbhd", "bhsd", "thd")


def apply(x: Any, cos: Any, sin: Any, positions: Any = None, x2: Any = None, style: str = "neox", layout: str = "bshd",
          backward: bool = False, out: Any = None, out2: Any = None, device: Any = None, stream: Any = None) -> Any:
    """x with columns rotated by the angles of their tokens, and x2, which may have other heads, in the same launch.

    `layout` names the axes of x and x2: bshd, sbhd, bhsd or thd (all tokens of all sequences, whose `positions` say where in its sequence
    each one stands). `cos` and `sin` are [angles, rotated / 2]; rotated columns come first, others are copied. Token i has row i, or row
    positions[b, i] (int32). `style` neox rotates columns i and i + rotated / 2 together, gptj 2 i and 2 i + 1. `backward` rotates back: the
    gradient of x from that of the result. Returns `out`, with x2 (out, out2); each may be what it is made of. `device` and errors are as
    for norm.layer.
    """
    if layout not in _LAYOUTS:
        raise TensorError(f"layout of {_OF} must be one of {', '.join(_LAYOUTS)}, got {layout!r}")
    tensors = {"x": x, "y": out if out is not None else _like(x)}
    if x2 is not None:
        tensors |= {"x2": x2, "y2": out2 if out2 is not None else _like(x2)}
    facts = {name: located(name, tensor, _OF)[1] for name, tensor in (*tensors.items(), ("cos", cos), ("sin", sin))}
    run: dict[str, Any] = {}
    for name in tensors:
        own = _axes(name, facts[name], layout)
        unequal = [axis for axis, value in own.items() if run.get(axis, value) != value]
        if unequal:
            raise TensorError(f"{name} of {_OF} must have the {unequal[0]} of x, {run[unequal[0]]}, got {own[unequal[0]]}")
        run |= own
    kinds = {name: FLOATS.get(plain_name(found[2])) for name, found in facts.items()}
    angles, half = _angles(facts, run["d"])
    build: dict[str, Any] = {"style": style, "d": run.pop("d"), "rotated": 2 * half, "second": x2 is not None, "backward": backward,
                             "positions": "none" if positions is None else "given", "dtype": kinds["x"], "table": kinds["cos"]}
    if None in kinds.values() or len({kinds[name] for name in tensors}) > 1 or kinds["sin"] != kinds["cos"]:
        raise TensorError(f"tensors of {_OF} must be of one type, and cos and sin of one, of bfloat16, float16 and float32, got "
                          f"{', '.join(f'{name} {plain_name(found[2])}' for name, found in facts.items())}")
    run |= {"angles": angles, "angle_stride": facts["cos"][1][0] if angles > 1 else half}
    given = {**tensors, "cos": cos, "sin": sin}
    if positions is not None:
        run["position_stride"] = _positions(positions, run["b"], run["s"])
        given["positions"] = positions
    launch("rope", _OF, build, run, given, tuple(name for name in tensors if name in TENSORS and name.startswith("y")), device, stream)
    return tensors["y"] if x2 is None else (tensors["y"], tensors["y2"])


def _like(x: Any) -> Any:
    shape = located("x", x, _OF)[1][0]
    return empty(x, shape)


def _axes(name: str, facts: Facts, layout: str) -> dict[str, int]:
    """Sizes and strides by axis."""
    shape, strides, _ = facts
    if len(shape) != len(layout) or 0 in shape or strides[-1] != 1 and shape[-1] > 1:
        raise TensorError(f"{name} of {_OF} must have the axes {layout}, with columns side by side, got the shape {list(shape)} and the "
                          f"strides {list(strides)}")
    sizes, apart = dict(zip(layout, shape, strict=True)), dict(zip(layout, strides, strict=True))
    tokens = "t" if "t" in sizes else "s"
    found = {"b": sizes.get("b", 1), "s": sizes[tokens], "h2" if name.endswith("2") else "h": sizes["h"], "d": sizes["d"]}
    found |= {f"{name}_stride_s": apart[tokens], f"{name}_stride_h": apart["h"]}
    return found | ({f"{name}_stride_b": apart["b"]} if sizes.get("b", 1) > 1 else {})


def _angles(facts: dict[str, Facts], d: int) -> tuple[int, int]:
    shape, strides, _ = facts["cos"]
    if len(shape) != 2 or 0 in shape or facts["sin"][:2] != (shape, strides) or strides[1] != 1 and shape[1] > 1 or 2 * shape[1] > d:
        raise TensorError(f"cos and sin of {_OF} must be [angles, rotated / 2] of equal strides, with at most {d // 2} columns, got the "
                          f"shapes {list(shape)} and {list(facts['sin'][0])}")
    return shape[0], shape[1]


def _positions(positions: Any, b: int, s: int) -> int:
    """Elements from batch to batch."""
    shape, strides, dtype = located("positions", positions, _OF)[1]
    if plain_name(dtype) != "int32" or shape not in ((b, s), *(((s,),) if b == 1 else ())) or strides[-1] != 1 and s > 1:
        raise TensorError(f"positions of {_OF} must be int32 of the shape {[b, s]}, got {plain_name(dtype)} of {list(shape)}")
    return strides[0] if b > 1 else s
