"""Microscaled matrix products on tensors: what `gemm.mx` is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np

from asmgen.isa.quote import quoted
from asmgen.kernels.built import code_object
from asmgen.kernels.gemm_mx.formats import ELEMENTS, FRAGMENT_ROWS, padded_rows
from asmgen.kernels.matmul import device_of, factor_of
from asmgen.kernels.productplan import ALIGNMENT, HALVES, OUTS, Called
from asmgen.kernels.registry import family as find_family
from asmgen.kernels.tensors import Facts, TensorError, check_writable, gpu_named, kind_of, located, plain_name, shares
from asmgen.kernels.tuned import choose
from asmgen.kernels.usableviews import zeros_of
from asmgen.launch.launchlist import LaunchList
from asmgen.tuning.started import launch_list

_CODES = {"float8_e4m3fn": "fp8", "float8_e5m2": "bf8", "float4_e2m1fn_x2": "fp4"}
"""Types of tensors whose elements say what they are; others are bytes of codes."""
_NAME = "gemm.mx"
_MX = Called(_NAME, b_by_rows=True)
_SCALES = ("uint8", "float8_e8m0fnu")
_FEWEST_ROWS, _COMPUTE_UNITS = 16, 256
"""Rows of the smallest tile, and compute units of an MI355X (docs/facts/microarchitecture.md section 2.5)."""
_FEW_ROWS = 64
"""Up to so many rows of A, loads straight into registers serve better than LDS: a tile of 128 rows computes more than it loads."""
_STEP = 256
"""Columns of K that every variant and every order of B and of scales takes."""
_PRODUCT = ("a", "a_scale", "b", "b_scale")
_LARGE = 2048
"""Rows of A and B from which tiles of 256 x 256 fill a quarter of the compute units."""


def mx(a: Any, a_scale: Any, b: Any, b_scale: Any, out: Any = None, a_dtype: str = "", b_dtype: str = "", scale_order: str = "plain",
       b_order: str = "plain", quantise_to: str = "fp4", rounding: str = "even", tuned: bool = False, device: Any = None,
       stream: Any = None, *, c: Any = None, bias: Any = None, alpha: float = 1.0, beta: float = 0.0, fp6_storage: str = "string") -> Any:
    """alpha a @ b.T + beta c + bias of microscaled matrices with float32 accumulation: each 32 columns of a row share a scale.

    `a` is [M, bytes of K elements], `b` is [N, ...]; K is a multiple of 32. PyTorch's float8_e4m3fn, float8_e5m2 and float4_e2m1fn_x2 say
    their type; of bytes (uint8) `a_dtype` and `b_dtype` say it: fp4 (two a byte, by default), fp6, bf6 (24 bytes for 32), fp8, bf8. Scales
    are e8m0 bytes (uint8 or float8_e8m0fnu): with scale_order="plain" [M, K / 32] and [N, K / 32], as torch's scaled_mm has them for blocks
    of 1 x 32; with "shuffled" as AITER's shuffle_scale makes them, whose last axis is the columns with their pads, which must not be 255.
    Where `a_scale` and `b_scale` are both None, elements are multiplied as they are.
    `out` is [M, N] of bfloat16, float16 or float32, and is returned; it must not share elements with what is read. Without `out` one of
    bfloat16 is made, or of the type of an `a` that is quantised. `c` is [M, N] and `bias` has N elements, both of the type of `out`; `c`
    may be `out`, and is not read where `beta` is 0. With an axis in front they are batches; what has none serves all matrices.
    Where an axis has no elements, nothing is launched, or D is beta c + bias where that axis is K.

    b_order="shuffled" says that `b` is what AITER's shuffle_weight(b, (16, 16)) gives. fp6_storage="planes" says that fp6 and bf6 lie in
    two planes (docs/facts/blockscales.md section 4): such a matrix has rows up to a multiple of 16 and no gaps, and `out` says how many of
    them there are; without `out` all count. `a` of bfloat16 or float16 is quantised in the kernel to `quantise_to` (fp4 or fp8) by a
    `rounding` of "even", "floor" or "up" (docs/MICROSCALED_TENSORS.md); `a_scale` is None then.

    A rule over the shape chooses the kernel. If `tuned`, it is the one that is predicted the fastest (`asmgen tune`): the first call for
    types of these sizes times all variants, which takes a minute.

    `device` and `stream` are as for `gemm.bf16`. Raises TensorError or ContractError before any launch.
    """
    alpha, beta = (factor_of(_MX, name, one) for name, one in (("alpha", alpha), ("beta", beta)))
    options = {"scale_order": scale_order, "b_order": b_order, "quantise_to": quantise_to, "rounding": rounding, "fp6_storage": fp6_storage}
    for name, one in (("a_dtype", a_dtype), ("b_dtype", b_dtype), *options.items()):
        if not isinstance(one, str):
            raise TensorError(f"{name} of {_NAME} must be a name, got {kind_of(one)}")
    if not isinstance(tuned, bool | np.bool_):
        raise TensorError(f"tuned of {_NAME} must be True or False, got {kind_of(tuned)}")
    out = made_by_mx(a, b) if out is None else out
    given = {"a": a, "b": b, "d": out, "a_scale": a_scale, "b_scale": b_scale, "c": c, "bias": bias}
    named = {name: tensor for name, tensor in given.items() if tensor is not None}
    places = {name: located(_called(name), tensor, _NAME) for name, tensor in named.items()}
    device = device_of(_MX, a, device)
    check_writable(out, _NAME)
    for name in ("a", "b"):
        base = places[name][0]
        if base is not None and base % ALIGNMENT:
            raise TensorError(f"{name} of {_NAME} must begin at a multiple of {ALIGNMENT} bytes, and it begins at {base:#x}")
    own = ("c",) if not beta or c is out or places.get("c", (None,))[0] is not None and places["c"] == places["d"] else ()
    for name in named:
        if name not in ("d", *own) and shares(named[name], out, places[name], places["d"]):
            raise TensorError(f"out of {_NAME} shares elements with {name}, which the kernel reads; another out would do")
    gpu = gpu_named(getattr(device, "name", ""), device.arch) if tuned else ""
    known = {name: found for name, (_, found) in places.items()}
    if known["a"][0][-1:] == known["b"][0][-1:] == (0,):
        _check_shapes(known)
        types = {name: one.dtype for name, one in _operands(known, {"a": a_dtype, "b": b_dtype}).items()}
        a_dtype, b_dtype = types.values()
        named |= {name: _one_step(named[name], types.get(name), stream) for name in _PRODUCT if name in named}
        known |= {name: located(name, named[name], _NAME)[1] for name in _PRODUCT if name in named}
    plan, numbers, unread = _plan(device.arch, tuple(known.items()), a_dtype, b_dtype, tuple(options.items()), alpha, beta, gpu)
    if plan is not None:
        plan.start(device, {**named, **dict.fromkeys(unread, out), **numbers}, stream)
    return out


def _one_step(tensor: Any, dtype: str | None, stream: Any) -> Any:
    """One step of zeros in place of what has no columns: codes of a type, an `a` that is quantised, or scales (None). A code of 0 is 0 in
    every type and a scale of 0 is finite, so what they add is 0."""
    columns = _STEP * ELEMENTS[dtype] // 8 if dtype in ELEMENTS else _STEP if dtype else _STEP // 32
    in_bytes = dtype in ELEMENTS or not dtype and plain_name(str(tensor.dtype)) in _SCALES
    return zeros_of(_NAME, tensor, (*tensor.shape[:-1], columns), stream, "uint8" if in_bytes else "")


def made_by_mx(a: Any, b: Any) -> Any:
    """An `out` for `mx` of the kind of `a`: of bfloat16, or of the type of an `a` that is quantised."""
    if not (isinstance(a, np.ndarray) or hasattr(a, "new_empty")):
        raise TensorError(f"out of {_NAME} must be given where a is {kind_of(a)}")
    its = located("b", b, _NAME)[1][0]
    shape, raw = (*(a.shape[:-2] or its[:-2]), *a.shape[-2:-1], *its[-2:-1]), plain_name(str(a.dtype)) in HALVES
    if isinstance(a, np.ndarray):
        return np.empty(shape, a.dtype if raw else ml_dtypes.bfloat16)
    return a.new_empty(shape) if raw else a.new_empty(shape, dtype=import_module("torch").bfloat16)


def _called(name: str) -> str:
    return "out" if name == "d" else name


@dataclass(frozen=True)
class _Operand:
    """A or B: its type, and in elements its columns, the stride of its rows and of its matrices."""

    dtype: str
    columns: int
    stride: int
    apart: int


@cache
def _plan(arch: str, facts: tuple[tuple[str, Facts], ...], a_dtype: str, b_dtype: str, options: tuple[tuple[str, str], ...], alpha: float,
          beta: float, gpu: str) -> tuple[LaunchList | None, Mapping[str, Any], tuple[str, ...]]:
    """The launch of `mx` for tensors of these facts, none for an `out` without elements; what is refused of others is refused of it."""
    known, build = dict(facts), dict[str, Any](options)
    _check_shapes(known)
    made = OUTS.get(plain_name(known["d"][2]))
    if made is None:
        raise TensorError(f"out of {_NAME} must be bfloat16, float16 or float32, got {plain_name(known['d'][2])}")
    operands = _operands(known, {"a": a_dtype, "b": b_dtype})
    k = operands["a"].columns
    if operands["b"].columns != k:
        raise TensorError(f"b of {_NAME} must have K = {k} elements in a row, as a has, and it has {operands['b'].columns}")
    batch = next((list(shape[:-2]) for name, (shape, _, _) in facts if name != "bias" and len(shape) > 2), [])
    m, n = (_rows(known, name, operands[name], build["fp6_storage"]) for name in "ab")
    if list(known["d"][0]) != [*batch, m, n]:
        raise TensorError(f"out of {_NAME} must be [M, N] = {[*batch, m, n]}, got {list(known['d'][0])}")
    for name, (shape, _, _) in facts:
        if name != "bias" and list(shape[:-2]) not in ([], batch):
            raise TensorError(f"{name} of {_NAME} must be one matrix or {batch[0]} of them, as others are, got the shape {list(shape)}")
    scales = _scales(known, {"a_scale": m, "b_scale": n}, k, build["scale_order"])
    _check_added(known, m, n, beta)
    filled = 0 not in known["d"][0]
    m, n = m or FRAGMENT_ROWS, n or FRAGMENT_ROWS
    build |= {"a_dtype": operands["a"].dtype, "b_dtype": operands["b"].dtype, "out": made} | ({} if scales else {"scales": "none"})
    build |= {"bias": "row"} if "bias" in known else {}
    with_c = {"c"} if "c" in known and beta and filled else set()
    sizes: dict[str, Any] = {"m": m, "n": n, "k": k, "lda": operands["a"].stride, "ldb": operands["b"].stride, "alpha": alpha, "beta": beta,
                             "ldd": _row_stride(known["d"]) if filled else n, "ldc": _row_stride(known["c"]) if with_c else n}
    sizes |= {f"lds{name[0]}": _row_stride(known[name]) for name in scales}
    if batch and batch[0] > 1:
        apart = {name: one.apart for name, one in operands.items()} | {name: known[name][1][0] for name in (*scales, "d", *with_c)}
        sizes |= {f"{name}_stride_batch": stride if len(known[name][0]) > 2 else 0 for name, stride in apart.items()
                  if 0 not in known[name][0]}
        sizes["batch"] = batch[0]
    family = find_family("gemm-mx")
    arch = family.check_arch(arch)
    build |= choose(family.name, arch, gpu, {**build, **sizes}) if gpu and filled else _variant(m, n, k, build)
    contract = family.contract(arch, build)
    values = contract.resolve_run({**build, **sizes})
    if not filled:
        return None, {}, ()
    given = [argument for argument in contract.given if argument.type == "pointer" and argument.name not in known]
    numbers = {argument.name: values[argument.name] for argument in contract.given if argument.type != "pointer"}
    plan = launch_list(code_object(family, arch, build), contract, values)
    return plan, numbers, tuple(argument.name for argument in given)


def _check_shapes(known: Mapping[str, Facts]) -> None:
    """Raises TensorError for what is no matrix by rows."""
    for name, (shape, strides, _) in known.items():
        if name == "bias":
            continue
        if len(shape) not in (2, 3):
            raise TensorError(f"{_called(name)} of {_NAME} must be a matrix or a batch of matrices, got the shape {list(shape)}")
        if strides[-1] != 1 and shape[-1] > 1:
            raise TensorError(f"{_called(name)} of {_NAME} must have its rows' elements side by side (stride 1), got the strides "
                              f"{list(strides)}")


def _operands(known: Mapping[str, Facts], given: Mapping[str, str]) -> dict[str, _Operand]:
    """A and B, of the types that they say or that are `given`."""
    raw, found = HALVES.get(plain_name(known["a"][2])), {}
    scaled = [name for name in ("a_scale", "b_scale") if name in known]
    if scaled != (["b_scale"] if raw else ["a_scale", "b_scale"]) and (raw or scaled):
        raise TensorError(f"a_scale of {_NAME} must be None for an a of bfloat16 or float16, which the kernel quantises, and b_scale be "
                          "given; for others both must be given, or neither where elements are multiplied as they are; a is "
                          f"{plain_name(known['a'][2])}, and given are {', '.join(scaled) or 'no scales'}")
    for name, of_bytes in given.items():
        shape, strides, kind = known[name]
        if plain_name(kind) not in ("uint8", *_CODES, *(HALVES if name == "a" else ())):
            raise TensorError(f"{name} of {_NAME} must be {', '.join(_CODES)}, uint8 that holds codes"
                              f"{', or ' + ' or '.join(HALVES) + ' to quantise' if name == 'a' else ''}; got {plain_name(kind)}")
        dtype = raw if raw and name == "a" else _CODES.get(plain_name(kind), of_bytes or "fp4")
        if of_bytes not in ("", dtype) and plain_name(kind) in _CODES:
            raise TensorError(f"{name}_dtype of {_NAME} is {of_bytes!r}, but {name} is {plain_name(kind)}, which is {dtype}")
        if dtype not in ELEMENTS and not (raw and name == "a"):
            raise TensorError(f"{name}_dtype of {_NAME} must be one of {', '.join(ELEMENTS)}, got {quoted(dtype)}")
        bits = ELEMENTS.get(dtype, 8)
        found[name] = _Operand(dtype, *(count * 8 // bits for count in (shape[-1], _row_stride(known[name]), strides[0])))
    return found


def _rows(known: Mapping[str, Facts], name: str, operand: _Operand, fp6_storage: str) -> int:
    """The rows of A or B: those that its tensor has, or of planes, which have rows up to a multiple, those of D."""
    held = known[name][0][-2]
    if fp6_storage != "planes" or ELEMENTS.get(operand.dtype) != 6:
        return held
    of_d = known["d"][0][-2 if name == "a" else -1]
    if held != padded_rows(of_d, FRAGMENT_ROWS) or operand.stride != operand.columns:
        raise TensorError(f"{name} of {_NAME} in two planes must have its {of_d} rows, as out has, up to a multiple of {FRAGMENT_ROWS} and "
                          f"no gaps between them, got the shape {list(known[name][0])} and the strides {list(known[name][1])}")
    return of_d


def _scales(known: Mapping[str, Facts], rows_of: Mapping[str, int], k: int, order: str) -> list[str]:
    """The scales that are given, which must belong to all blocks."""
    found = [name for name in rows_of if name in known]
    for name in found:
        held, kind = known[name][0][-2:], plain_name(known[name][2])
        if kind not in _SCALES:
            raise TensorError(f"{name} of {_NAME} must be {' or '.join(_SCALES)}, got {kind}")
        if held[0] < rows_of[name] or held[1] * 32 < k or order == "shuffled" and (held[0] % 32 or _row_stride(known[name]) != held[1]):
            raise TensorError(f"{name} of {_NAME} has the shape {list(held)}; it must have a scale for each of {rows_of[name]} rows and "
                              f"each 32 of {k} columns, and shuffled ones rows up to a multiple of 32 without gaps")
    return found


def _check_added(known: Mapping[str, Facts], m: int, n: int, beta: float) -> None:
    """Raises TensorError for a C or a bias that does not fit."""
    kind = plain_name(known["d"][2])
    if beta and "c" not in known:
        raise TensorError(f"c of {_NAME} must be given where beta is {beta}")
    for name in ("c", "bias"):
        if name in known and plain_name(known[name][2]) != kind:
            raise TensorError(f"{name} of {_NAME} must be of the type of out, {kind}, got {plain_name(known[name][2])}")
    if "c" in known and known["c"][0][-2:] != (m, n):
        raise TensorError(f"c of {_NAME} must be [M, N] = {[m, n]}, got {list(known['c'][0])}")
    if "bias" in known and (math.prod(known["bias"][0]) != n or n > 1 and known["bias"][1][-1] != 1):
        raise TensorError(f"bias of {_NAME} must have N = {n} elements side by side, got the shape {list(known['bias'][0])} and the "
                          f"strides {list(known['bias'][1])}")


def _variant(m: int, n: int, k: int, build: Mapping[str, Any]) -> dict[str, Any]:
    """The variant for a product: few rows without LDS, in as many parts of K as give each compute unit one workgroup."""
    if m <= _FEW_ROWS:
        rows, columns = (16, 64) if m <= _FEWEST_ROWS else (32, 128)
        tiles, steps = -(-m // rows) * -(-n // columns), -(-k // 256)
        once = m <= rows and build["b_order"] == "shuffled"  # whole lines of B, that one row of tiles reads
        return {"tile": f"{rows}x{columns}x256", "split_k": max(1, min(_COMPUTE_UNITS // tiles, steps)), "b_nontemporal": once}
    if min(m, n) >= _LARGE:
        return {"tile": "256x256x256" if build["a_dtype"] == build["b_dtype"] == "fp4" else "256x256x128"}
    return {}


def _row_stride(facts: Facts) -> int:
    """Elements from a row to the next; of a single row, or where there are no elements, its length."""
    shape, strides, _ = facts
    return strides[-2] if shape[-2] > 1 and 0 not in shape else shape[-1]
