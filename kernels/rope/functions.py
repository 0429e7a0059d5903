"""Rotary embeddings of tensors: `asmgen.kernels.rope.apply(q, cos, sin, x2=k)`."""

from __future__ import annotations

from typing import Any

from asmgen.kernels.rope.tensors import CACHES, heads_of
from asmgen.kernels.rowlaunch import FLOATS, empty, launch, vector
from asmgen.kernels.tensors import Facts, TensorError, located, plain_name

_OF = "rope.apply"
_LAYOUTS = ("bshd", "sbhd", "bhsd", "thd")
_EIGHT = {"float8_e4m3fn", "float8_e4m3fnuz", "uint8"}
_INDEX = {"int32": "i32", "int64": "i64"}


def apply(x: Any, cos: Any = None, sin: Any = None, positions: Any = None, x2: Any = None, style: str = "neox", layout: str = "bshd",
          backward: bool = False, out: Any = None, out2: Any = None, device: Any = None, stream: Any = None, *, theta: float = 10000.0,
          rotated: int = 0, nope_first: bool = False, offsets: Any = None, cu_seqlens: Any = None, max_s: int = 0, weight: Any = None,
          weight2: Any = None, eps: float = 1e-6, slot_mapping: Any = None, v: Any = None, v_cache: Any = None, k_scale: Any = None,
          v_scale: Any = None) -> Any:
    """x with columns rotated by the angles of their tokens, and x2, which may have other heads, in the same launch.

    `layout` names the axes of x and x2: bshd, sbhd, bhsd or thd, all tokens of all sequences. Of thd, `cu_seqlens` (int32, one more than
    there are sequences) says where each sequence begins, and `max_s` how long the longest is; without it, all tokens are one sequence.
    Token i of a sequence has position i, or positions[b, i], to which offsets[b, i] is added (both int32 or int64).

    `cos` and `sin` are [angles, rotated / 2]. Without them, angle i is position theta^(-2 i / rotated), `rotated` by default all columns.
    Rotated columns come first, with `nope_first` last; others are copied. `style` neox rotates columns i and i + rotated / 2 together, gptj
    2 i and 2 i + 1. `backward` rotates back: the gradient of x from that of the result. With `weight` (and `weight2` of x2) heads are
    normalised first: x / sqrt(mean(x^2) + eps) weight.

    With `slot_mapping` (of the type and shape of positions) x2 and `v` go to a cache: token i of batch b to row slot_mapping[b, i] of
    `out2` and `v_cache`, [..., heads, d], whose first axes count rows; a negative slot has none. Caches of fp8 (e4m3 as the GPU has it,
    or its bytes in uint8) hold numbers over `k_scale` and `v_scale`, one float32 each, the largest ones for larger ones.

    Returns `out`, with x2 (out, out2); each may be what it is made of. `device` and errors are as for norm.layer.
    """
    if layout not in _LAYOUTS:
        raise TensorError(f"layout of {_OF} must be one of {', '.join(_LAYOUTS)}, got {layout!r}")
    cache = slot_mapping is not None
    if cache and any(one is None for one in (x2, out2, v, v_cache)):
        raise TensorError(f"x2, out2, v and v_cache of {_OF} must be given where slot_mapping is")
    tensors = {"x": x, "y": out if out is not None else _like(x)}
    if x2 is not None:
        tensors |= {"x2": x2, "y2": out2 if out2 is not None else _like(x2)}
    if cache:
        tensors |= {"v": v, "v_cache": v_cache}
    facts = {name: located(name, tensor, _OF)[1] for name, tensor in tensors.items()}
    run = _sizes(facts, layout, cache)
    dtype = _type_of({name: found for name, found in facts.items() if not (cache and name in CACHES)})
    build: dict[str, Any] = {"style": style, "d": run.pop("d"), "second": x2 is not None, "backward": backward, "nope_first": nope_first,
                             "dtype": dtype, "cache": cache, "norm": "none" if weight is None else "rms"}
    _find_angles(build, run, tensors, (cos, sin), theta, rotated)
    _find_sequences(build, run, tensors, cu_seqlens, max_s, layout)
    _find_numbers(build, run, tensors, {"positions": positions, "offsets": offsets, "slot_mapping": slot_mapping})
    if cache:
        build["cache_dtype"] = _type_of_caches(facts, dtype)
        _find_scales(build, tensors, {"k_scale": k_scale, "v_scale": v_scale})
    if weight is not None:
        run["eps"] = eps
        given = {"w": ("weight", weight), **({"w2": ("weight2", weight2)} if x2 is not None else {})}
        tensors |= {name: vector(own, one, _OF, build["d"], dtype) for name, (own, one) in given.items()}
    written = tuple(name for name in tensors if name in ("y", "y2", "v_cache"))
    launch("rope", _OF, build, run, tensors, written, device, stream)
    return tensors["y"] if x2 is None else (tensors["y"], tensors["y2"])


def _like(x: Any) -> Any:
    shape = located("x", x, _OF)[1][0]
    return empty(x, shape)


def _type_of(facts: dict[str, Facts]) -> str:
    kinds = {name: FLOATS.get(plain_name(found[2])) for name, found in facts.items()}
    if None in kinds.values() or len(set(kinds.values())) > 1:
        raise TensorError(f"tensors of {_OF} must be of one type, bfloat16, float16 or float32, got "
                          f"{', '.join(f'{name} {plain_name(found[2])}' for name, found in facts.items())}")
    return str(kinds["x"])


def _type_of_caches(facts: dict[str, Facts], dtype: str) -> str:
    """The build's cache_dtype for caches of the type of x, or of fp8."""
    kinds = {plain_name(facts[name][2]) for name in CACHES}
    if len(kinds) == 1 and FLOATS.get(*kinds) == dtype:
        return "auto"
    if len(kinds) == 1 and kinds <= _EIGHT:
        return "fp8"
    raise TensorError(f"out2 and v_cache of {_OF} must be of the type of x, or both of one of {', '.join(sorted(_EIGHT))}, got "
                      f"{' and '.join(plain_name(facts[name][2]) for name in CACHES)}")


def _find_scales(build: dict[str, Any], tensors: dict[str, Any], scales: dict[str, Any]) -> None:
    """What units of the caches stand for."""
    eight = build["cache_dtype"] == "fp8"
    if any((one is not None) != eight for one in scales.values()):
        raise TensorError(f"{' and '.join(scales)} of {_OF} must be given where caches are fp8, and nowhere else")
    if eight:
        tensors |= {name: vector(name, one, _OF, 1, "f32") for name, one in scales.items()}


def _sizes(facts: dict[str, Facts], layout: str, cache: bool) -> dict[str, Any]:
    """Sizes and strides of all tensors of heads, which must agree."""
    run: dict[str, Any] = {}
    for name, found in facts.items():
        own = _rows_of_cache(name, found) if cache and name in CACHES else _axes(name, found, layout)
        unequal = [axis for axis, value in own.items() if axis != "slots" and run.get(axis, value) != value]
        if unequal:
            raise TensorError(f"{name} of {_OF} must have the {unequal[0]} of others, {run[unequal[0]]}, got {own[unequal[0]]}")
        own["slots"] = min(own.get("slots", 1 << 31), run.get("slots", 1 << 31))
        run |= own
    if not cache:
        del run["slots"]
    return run


def _axes(name: str, facts: Facts, layout: str) -> dict[str, int]:
    """Sizes and strides by axis."""
    shape, strides, _ = facts
    if len(shape) != len(layout) or 0 in shape or strides[-1] != 1 and shape[-1] > 1:
        raise TensorError(f"{name} of {_OF} must have the axes {layout}, with columns side by side, got the shape {list(shape)} and the "
                          f"strides {list(strides)}")
    sizes, apart = dict(zip(layout, shape, strict=True)), dict(zip(layout, strides, strict=True))
    tokens = "t" if "t" in sizes else "s"
    found = {"b": sizes.get("b", 1), "s": sizes[tokens], heads_of(name): sizes["h"], "d": sizes["d"]}
    found |= {f"{name}_stride_s": apart[tokens], f"{name}_stride_h": apart["h"]}
    return found | ({f"{name}_stride_b": apart["b"]} if sizes.get("b", 1) > 1 else {})


def _rows_of_cache(name: str, facts: Facts) -> dict[str, int]:
    shape, strides, _ = facts
    if len(shape) not in (3, 4) or 0 in shape or strides[-1] != 1 or len(shape) == 4 and strides[0] != shape[1] * strides[1]:
        raise TensorError(f"{name} of {_OF} must be a cache [rows, heads, d] or [blocks, block, heads, d] with its rows at equal "
                          f"distances, got the shape {list(shape)} and the strides {list(strides)}")
    rows = shape[0] if len(shape) == 3 else shape[0] * shape[1]
    return {"slots": rows, heads_of(name): shape[-2], "d": shape[-1], f"{name}_stride_s": strides[-3], f"{name}_stride_h": strides[-2]}


def _find_angles(build: dict[str, Any], run: dict[str, Any], tensors: dict[str, Any], tables: tuple[Any, Any], theta: float,
                 rotated: int) -> None:
    if all(one is None for one in tables):
        build |= {"computed": True, "rotated": rotated}
        run["theta"] = theta
        return
    if None in [None if one is None else 0 for one in tables]:
        raise TensorError(f"cos and sin of {_OF} must both be given, or neither of them")
    (shape, strides, kind), other = (located(name, table, _OF)[1] for name, table in zip(("cos", "sin"), tables, strict=True))
    if len(shape) != 2 or 0 in shape or other != (shape, strides, kind) or strides[1] != 1 and shape[1] > 1 or 2 * shape[1] > build["d"] \
            or plain_name(kind) not in FLOATS:
        raise TensorError(f"cos and sin of {_OF} must be [angles, rotated / 2] of equal strides and one type, with at most "
                          f"{build['d'] // 2} columns, got the shapes {list(shape)} and {list(other[0])} of {plain_name(kind)} and "
                          f"{plain_name(other[2])}")
    if rotated not in (0, 2 * shape[1]):
        raise TensorError(f"rotated of {_OF} must be twice the columns of cos, {2 * shape[1]}, or 0, got {rotated}")
    build |= {"rotated": 2 * shape[1], "table": FLOATS[plain_name(kind)]}
    run |= {"angles": shape[0], "angle_stride": strides[0] if shape[0] > 1 else shape[1]}
    tensors |= dict(zip(("cos", "sin"), tables, strict=True))


def _find_sequences(build: dict[str, Any], run: dict[str, Any], tensors: dict[str, Any], cu_seqlens: Any, max_s: int,
                    layout: str) -> None:
    if cu_seqlens is None:
        return
    shape, strides, kind = located("cu_seqlens", cu_seqlens, _OF)[1]
    if layout != "thd" or plain_name(kind) != "int32" or len(shape) != 1 or shape[0] < 2 or strides[0] != 1:
        raise TensorError(f"cu_seqlens of {_OF} must be int32 numbers side by side, one more than there are sequences, with layout thd; "
                          f"got {plain_name(kind)} of {list(shape)} and layout {layout}")
    build["varlen"] = True
    tensors["cu_seqlens"] = cu_seqlens
    run |= {"b": shape[0] - 1, "max_s": max_s or run["s"]}


def _find_numbers(build: dict[str, Any], run: dict[str, Any], tensors: dict[str, Any], given: dict[str, Any]) -> None:
    """Whole numbers of tokens: one type, one distance from batch to batch."""
    held = {name: one for name, one in given.items() if one is not None}
    build |= {"positions": "given" if "positions" in held else "none", "offsets": "offsets" in held}
    b, s = (1 if build.get("varlen") else run["b"]), run["s"]
    kinds, strides_ = set(), set()
    for name, one in held.items():
        shape, strides, dtype = located(name, one, _OF)[1]
        if plain_name(dtype) not in _INDEX or shape not in ((b, s), *(((s,),) if b == 1 else ())) or strides[-1] != 1 and s > 1:
            raise TensorError(f"{name} of {_OF} must be int32 or int64 of the shape {[b, s]}, got {plain_name(dtype)} of {list(shape)}")
        kinds.add(_INDEX[plain_name(dtype)])
        strides_.add(strides[0] if b > 1 else s)
    if len(kinds) > 1 or len(strides_) > 1:
        raise TensorError(f"{', '.join(held)} of {_OF} must be of one type and equal strides")
    for kind, stride in zip(kinds, strides_, strict=True):
        build["index"], run["position_stride"] = kind, stride
    tensors |= held
