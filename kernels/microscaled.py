"""Microscaled matrix products on tensors: what `gemm.mx` is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np

from asmgen.isa.quote import quoted
from asmgen.kernels.built import code_object
from asmgen.kernels.gemm_mx.formats import ELEMENTS
from asmgen.kernels.matmul import ALIGNMENT, HALVES, OUTS
from asmgen.kernels.registry import family as find_family
from asmgen.kernels.tensors import Facts, TensorError, check_writable, gpu_named, gpu_of, kind_of, located, plain_name
from asmgen.kernels.tuned import choose
from asmgen.launch.launchlist import LaunchList
from asmgen.tuning.started import launch_list

_CODES = {"float8_e4m3fn": "fp8", "float8_e5m2": "bf8", "float4_e2m1fn_x2": "fp4"}
"""Types of tensors whose elements say what they are; others are bytes of codes."""
_SCALES = ("uint8", "float8_e8m0fnu")
_FEWEST_ROWS, _COMPUTE_UNITS = 16, 256
"""Rows of the smallest tile, and compute units of an MI355X (docs/facts/microarchitecture.md section 2.5)."""
_FEW_ROWS = 64
"""Up to so many rows of A, loads straight into registers serve better than LDS: a tile of 128 rows computes more than it loads."""
_LARGE = 2048
"""Rows of A and B from which tiles of 256 x 256 fill a quarter of the compute units."""


def mx(a: Any, a_scale: Any, b: Any, b_scale: Any, out: Any = None, a_dtype: str = "", b_dtype: str = "", scale_order: str = "plain",
       b_order: str = "plain", quantise_to: str = "fp4", rounding: str = "even", tuned: bool = False, device: Any = None,
       stream: Any = None) -> Any:
    """a @ b.T of microscaled matrices with float32 accumulation: each 32 columns of a row share a scale.

    `a` is [M, bytes of K elements], `b` is [N, ...]; K is a multiple of 32. PyTorch's float8_e4m3fn, float8_e5m2 and float4_e2m1fn_x2 say
    their type; of bytes (uint8) `a_dtype` and `b_dtype` say it: fp4 (two a byte, by default), fp6, bf6 (24 bytes for 32), fp8, bf8. Scales
    are e8m0 bytes (uint8 or float8_e8m0fnu): with scale_order="plain" [M, K / 32] and [N, K / 32], as torch's scaled_mm has them for blocks
    of 1 x 32; with "shuffled" as AITER's shuffle_scale makes them, whose last axis is the columns with their pads, which must not be 255.
    `out` is [M, N] of bfloat16, float16 or float32, and is returned; it must not share elements with what is read. Without `out` one of
    bfloat16 is made, or of the type of an `a` that is quantised. With an axis in front they are batches; what has none serves all matrices.

    b_order="shuffled" says that `b` is what AITER's shuffle_weight(b, (16, 16)) gives. `a` of bfloat16 or float16 is quantised in the
    kernel to `quantise_to` (fp4 or fp8) by a `rounding` of "even", "floor" or "up" (docs/MICROSCALED_TENSORS.md); `a_scale` is None then.

    A rule over the shape chooses the kernel. If `tuned`, it is the one that is predicted the fastest (`asmgen tune`): the first call for
    types of these sizes times all variants, which takes a minute.

    `device` and `stream` are as for `gemm.bf16`. Raises TensorError or ContractError before any launch.
    """
    out = made_by_mx(a, b) if out is None else out
    named = {"a": a, "b": b, "d": out, "b_scale": b_scale} | ({} if a_scale is None else {"a_scale": a_scale})
    places = {name: located("out" if name == "d" else name, tensor, "gemm.mx") for name, tensor in named.items()}
    if device is None:
        device = gpu_of(a, "gemm.mx")
    facts = tuple((name, found) for name, (_, found) in places.items())
    options = {"scale_order": scale_order, "b_order": b_order, "quantise_to": quantise_to, "rounding": rounding}
    gpu = gpu_named(getattr(device, "name", ""), device.arch) if tuned else ""
    plan, numbers, unread = _plan(device.arch, facts, a_dtype, b_dtype, tuple(options.items()), gpu)
    check_writable(out, "gemm.mx")
    for name in ("a", "b"):
        base = places[name][0]
        if base is not None and base % ALIGNMENT:
            raise TensorError(f"{name} of gemm.mx must begin at a multiple of {ALIGNMENT} bytes, and it begins at {base:#x}")
    if any(isinstance(one, np.ndarray) and isinstance(out, np.ndarray) and np.shares_memory(one, out) for one in named.values()
           if one is not out):
        raise TensorError("out of gemm.mx shares elements with what the kernel reads; another out would do")
    plan.start(device, {**named, **dict.fromkeys(unread, out), **numbers}, stream)
    return out


def made_by_mx(a: Any, b: Any) -> Any:
    """An `out` for `mx` of the kind of `a`: of bfloat16, or of the type of an `a` that is quantised."""
    if not (isinstance(a, np.ndarray) or hasattr(a, "new_empty")):
        raise TensorError(f"out of gemm.mx must be given where a is a {kind_of(a)}")
    shape, raw = (*(a.shape[:-2] or b.shape[:-2]), *a.shape[-2:-1], *b.shape[-2:-1]), plain_name(str(a.dtype)) in HALVES
    if isinstance(a, np.ndarray):
        return np.empty(shape, a.dtype if raw else ml_dtypes.bfloat16)
    return a.new_empty(shape) if raw else a.new_empty(shape, dtype=import_module("torch").bfloat16)


@cache
def _plan(arch: str, facts: tuple[tuple[str, Facts], ...], a_dtype: str, b_dtype: str,
             options: tuple[tuple[str, str], ...], gpu: str) -> tuple[LaunchList, Mapping[str, Any], tuple[str, ...]]:
    """The launch of `mx` for tensors of these facts."""
    known, scale_order = dict(facts), dict(options)["scale_order"]
    for name, (shape, strides, _) in facts:
        called = "out" if name == "d" else name
        if len(shape) not in (2, 3) or 0 in shape[:-1]:
            raise TensorError(f"{called} of gemm.mx must be a matrix of 1 row or more, or a batch of them, got the shape {list(shape)}")
        if strides[-1] != 1 and shape[-1] > 1:
            raise TensorError(f"{called} of gemm.mx must have its rows' elements side by side (stride 1), got the strides {list(strides)}")
    types = {name: _CODES.get(plain_name(known[name][2]), given or "fp4") for name, given in (("a", a_dtype), ("b", b_dtype))}
    raw = HALVES.get(plain_name(known["a"][2]))
    if (raw is None) != ("a_scale" in known):
        raise TensorError("a_scale of gemm.mx must be None for an a of bfloat16 or float16, which the kernel quantises, and must be given "
                          f"for others; a is {plain_name(known['a'][2])}")
    types["a"] = raw or types["a"]
    made = OUTS.get(plain_name(known["d"][2]))
    if made is None:
        raise TensorError(f"out of gemm.mx must be bfloat16, float16 or float32, got {plain_name(known['d'][2])}")
    scales = [(name, known[axis][0][-2]) for name, axis in (("a_scale", "a"), ("b_scale", "b")) if name in known]
    for name, _ in scales:
        if plain_name(known[name][2]) not in _SCALES:
            raise TensorError(f"{name} of gemm.mx must be {' or '.join(_SCALES)}, got {plain_name(known[name][2])}")
    elements = {}
    for name, dtype in types.items():
        if dtype not in ELEMENTS and dtype != raw:
            raise TensorError(f"{name}_dtype of gemm.mx must be one of {', '.join(ELEMENTS)}, got {quoted(dtype)}")
        bits = 8 if dtype == raw else ELEMENTS[dtype]
        elements[name] = [count * 8 // bits for count in (known[name][0][-1], _row_stride(known[name]), known[name][1][0])]
    m, n, k = known["a"][0][-2], known["b"][0][-2], elements["a"][0]
    if elements["b"][0] != k:
        raise TensorError(f"b of gemm.mx must have K = {k} elements in a row, as a has, and it has {elements['b'][0]}")
    batch = next((list(shape[:-2]) for _, (shape, _, _) in facts if len(shape) > 2), [])
    if list(known["d"][0]) != [*batch, m, n]:
        raise TensorError(f"out of gemm.mx must be [M, N] = {[*batch, m, n]}, got {list(known['d'][0])}")
    for name, (shape, _, _) in facts:
        if list(shape[:-2]) not in ([], batch):
            raise TensorError(f"{name} of gemm.mx must be one matrix or {batch[0]} of them, as others are, got the shape {list(shape)}")
    family = find_family("gemm-mx")
    for name, rows in scales:
        held = known[name][0][-2:]
        if held[0] < rows or held[1] * 32 < k or scale_order == "shuffled" and (held[0] % 32 or _row_stride(known[name]) != held[1]):
            raise TensorError(f"{name} of gemm.mx has the shape {list(held)}; it must have a scale for each of {rows} rows and each 32 of "
                              f"{k} columns, and shuffled ones rows up to a multiple of 32 without gaps")
    build: dict[str, Any] = {"a_dtype": types["a"], "b_dtype": types["b"], "out": made, **dict(options)}
    sizes: dict[str, Any] = {"m": m, "n": n, "k": k, "lda": elements["a"][1], "ldb": elements["b"][1]}
    sizes |= {"ldd": _row_stride(known["d"]), "ldc": n} | {f"lds{name[0]}": _row_stride(known[name]) for name, _ in scales}
    if batch and batch[0] > 1:
        apart = {name: elements[name][2] for name in types} | {name: known[name][1][0] for name, _ in scales} | {"d": known["d"][1][0]}
        sizes |= {f"{name}_stride_batch": stride if len(known[name][0]) > 2 else 0 for name, stride in apart.items()}
        sizes["batch"] = batch[0]
    arch = family.check_arch(arch)
    build |= choose(family.name, arch, gpu, {**build, **sizes}) if gpu else _variant(m, n, k, types)
    contract = family.contract(arch, build)
    values = contract.resolve_run({**build, **sizes})
    given = [argument for argument in contract.given if argument.type == "pointer" and argument.name not in known]
    numbers = {argument.name: values[argument.name] for argument in contract.given if argument.type != "pointer"}
    plan = launch_list(code_object(family, arch, build), contract, values)
    return plan, numbers, tuple(argument.name for argument in given)


def _variant(m: int, n: int, k: int, types: Mapping[str, str]) -> dict[str, Any]:
    """The variant for a product: few rows without LDS, in as many parts of K as give each compute unit one workgroup."""
    if m <= _FEW_ROWS:
        rows, columns = (16, 64) if m <= _FEWEST_ROWS else (32, 128)
        tiles, steps = -(-m // rows) * -(-n // columns), -(-k // 256)
        return {"tile": f"{rows}x{columns}x256", "split_k": max(1, min(_COMPUTE_UNITS // tiles, steps))}
    if min(m, n) >= _LARGE:
        return {"tile": "256x256x256" if {*types.values()} == {"fp4"} else "256x256x128"}
    return {}


def _row_stride(facts: Facts) -> int:
    """Elements from a row to the next; of a single row its length."""
    shape, strides, _ = facts
    return strides[-2] if shape[-2] > 1 else shape[-1]
