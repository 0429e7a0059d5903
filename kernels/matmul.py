"""The product of tensors of any types, layouts and batches, by the variant that is predicted fastest: what `gemm.matmul` is."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from asmgen.isa.quote import printable
from asmgen.kernels.matrixlists import addresses, check_apart, check_matrices, count_of, for_each_row, is_own, located_alike, member
from asmgen.kernels.matrixscales import BLOCK, blocks_of, ones, without_empty_blocks
from asmgen.kernels.productplan import (
    ALIGNMENT,
    EIGHTS,
    OUTS,
    Called,
    NeedsWholeRows,
    NotServed,
    ProductPlan,
    batch_of,
    check_axes,
    product_plan,
)
from asmgen.kernels.tensors import (
    IN_HOST_MEMORY,
    Facts,
    TensorError,
    check_writable,
    gpu_of,
    kind_of,
    located,
    location_of,
    numpy_type,
    plain_name,
    shares,
)
from asmgen.kernels.usableviews import (
    dense_copies,
    layout_of,
    readable_matrix,
    readable_numbers,
    repeated,
    with_zeros,
    zeros_of,
)
from asmgen.launch.launchlist import LaunchList

_WORTH = 1 << 30
"""Multiply-adds of a product for which A and B are copied where they could be loaded by elements alone: 14 us at the 153 TFLOPS that such a
kernel is predicted to reach on an MI355X, which is what the four launches of a copy with zeros take."""
_LARGEST = float(np.finfo(np.float32).max)
_MATMUL = Called("gemm.matmul")


def matmul(a: Any, b: Any, out: Any = None, *, a_scale: Any = None, b_scale: Any = None, bias: Any = None, c: Any = None,
           alpha: float = 1.0, beta: float = 0.0, out_dtype: Any = None, invariant: bool = False, device: Any = None,
           stream: Any = None) -> Any:
    """alpha a @ b + beta c + bias with float32 accumulation: `a` is [..., M, K], `b` is [..., K, N], `out` and `c` are [..., M, N].

    `a` and `b` are both of bfloat16 or both of float16, or each of a type of float8 that the GPU has; `out` and `c` are of bfloat16,
    float16 or float32. Without `out` one is made like `a`, of `out_dtype` (by default the type of `a`, bfloat16 for float8). Each may be
    transposed: its rows, or its columns, have their elements side by side, with any stride between them. Leading axes are a batch; they
    broadcast as those of numpy do. PyTorch copies a view of what is read that lies in no such way (every second column, an expanded row, a
    batch of several strides) on its current stream. `bias` has N elements of the type of `out`. Leading axes of `c` broadcast to the batch.
    float8 takes scales in float32 (none: 1): one for a tensor or for each matrix ([..., 1, 1]), or one for each row of `a` ([..., M]) or
    each column of `b` ([..., N]), whose leading axes broadcast to the batch, or for 1 x 128 of `a` ([M, K / 128], best with columns side by
    side) and 128 x 128 of `b` ([N / 128, K / 128]; `b` is a transpose), where the last block may be a part of one.
    Where an axis has no elements, nothing is launched, or D is beta c + bias where that axis is K.

    `a` and `b` may be lists of matrices of one shape, type and stride, which lie anywhere; a single one of the two serves all. Then `out`,
    if given, and `c` are lists too, and so is the result; scales that are not one for all have a leading axis for the list. Tensors of a
    GPU are one launch, which reads their addresses from arrays, and for which the call waits if there is a `stream`; others, in host
    memory, are a launch each, after all are checked.

    Where `invariant`, the bits of an element of D depend on its row of `a`, its column of `b`, N and K alone, not on M, the batch, strides
    or the kernel that is chosen (products/invariance.py says what that costs).

    A numpy array may be any view and is moved without gaps. `device` and `stream` are as for `gemm.bf16`, and so is the choice of the
    variant. Where nothing but single elements can be loaded (odd strides or addresses), a slower variant does it; for a large
    product a fast one, on copies of `a` and `b` with zeros beyond K (not if `invariant` or with a `stream`). With scales of blocks there
    is no such variant, and `a` and `b` whose rows begin at no multiples of 16 bytes are copied, PyTorch's without a `stream`. Where
    lines lie farther apart than any kernel reaches (64 of them in 4 GiB), PyTorch's tensors are copied, without a `stream`. Raises
    TensorError or ContractError, which name the argument, before any launch.
    """
    return product(_MATMUL, a, b, out, {"c": c, "bias": bias, "a_scale": a_scale, "b_scale": b_scale}, alpha, beta, out_dtype, invariant,
                   device, stream)


def product(of: Called, a: Any, b: Any, out: Any, more: Mapping[str, Any], alpha: float, beta: float, out_dtype: Any, invariant: bool,
            device: Any, stream: Any) -> Any:
    """`matmul` for a function that takes B its own way; `more` has c, bias, a_scale and b_scale, or some of them."""
    alpha, beta = (factor_of(of, name, one) for name, one in (("alpha", alpha), ("beta", beta)))
    if not isinstance(invariant, bool | np.bool_):
        raise TensorError(f"invariant of {of.name} must be True or False, got {kind_of(invariant)}")
    invariant, more = bool(invariant), {**dict.fromkeys(("c", "bias", "a_scale", "b_scale")), **more}
    if beta and more["c"] is None:
        raise TensorError(f"c of {of.name} must be given where beta is {beta}")
    if any(isinstance(one, list | tuple) for one in (a, b, out)):
        return _lists(of, {"a": a, "b": b, "d": out, **more}, alpha, beta, out_dtype, invariant, device, stream)
    if out is None:
        out = _empty(of, a, b, out_dtype)
    else:
        _check_type(of, out, out_dtype)
    a, b, c = (_broadcast(one, out) for one in (a, b, more["c"]))
    tensors = {name: tensor for name, tensor in {**more, "a": a, "b": b, "c": c, "d": out}.items() if tensor is not None}
    _ready(of, tensors, alpha, beta, device, stream, invariant).start(stream)
    return out


def factor_of(of: Called, name: str, given: Any) -> float:
    """Alpha or beta as Python's number."""
    if isinstance(given, np.generic) or isinstance(given, np.ndarray) and given.ndim == 0:
        given = given.item()  # the limits are no numbers of a narrower type
    counts = isinstance(given, Real) and not isinstance(given, bool)
    if not (counts and -_LARGEST <= given <= _LARGEST):
        raise TensorError(f"{name} of {of.name} must be a finite number of float32, got "
                          f"{printable(repr(given)) if isinstance(given, int | float | complex) else kind_of(given)}")
    return float(given)


def _check_type(of: Called, out: Any, dtype: Any) -> None:
    """Raises TensorError for an `out` that is given and has another type than is asked for."""
    its = plain_name(located("out", out, of.name)[1][2])
    if dtype is not None and _type_named(of, dtype) != its:
        raise TensorError(f"out of {of.name} is {its}, and out_dtype is {_type_named(of, dtype)}; one of the two would do")


def _type_named(of: Called, dtype: Any) -> str:
    """The name of a type of numpy or of PyTorch."""
    try:
        name = plain_name(str(dtype)) if isinstance(dtype, str) or str(dtype).startswith("torch.") else np.dtype(dtype).name
    except TypeError:
        name = repr(dtype)
    if name not in OUTS:
        raise TensorError(f"out_dtype of {of.name} must be bfloat16, float16 or float32, got {printable(name)}")
    return name


def _lists(of: Called, given: Mapping[str, Any], alpha: float, beta: float, out_dtype: Any, invariant: bool, device: Any,
           stream: Any) -> list[Any]:
    """`matmul` of lists, by the names of the kernels' arguments; the list of results."""
    count = count_of(of.name, given, beta)
    if not count:
        return []
    every = _expanded(of, given, count, out_dtype)
    places = located_alike(of.name, every)
    more = {name: given[name] for name in ("bias", "a_scale", "b_scale") if given[name] is not None}
    check_apart(of.name, every, more, places, beta)
    (m, k), n = places["a"][0][1][0], places["d"][0][1][0][1]
    rows, blocks = {"a_scale": m, "b_scale": n}, blocks_of(m, n, k)
    own = [name for name in rows if name in more and is_own(of.name, name, more[name], count, rows[name], blocks[name])]
    empty = k == 0 and stream is not None  # zeros in their place are numpy's then, of which there are no addresses
    if empty or location_of(every["a"][0], f"a[0] of {of.name}") == IN_HOST_MEMORY:
        _start_each(of, every, more, own, alpha, beta, invariant, device, stream)
    else:
        more |= {name: for_each_row(of.name, name, more[name], count, rows[name]) for name in own}
        _start_lists(of, every, more, alpha, beta, invariant, device_of(of, every["a"][0], device), stream)
    return every["d"]


def _expanded(of: Called, given: Mapping[str, Any], count: int, out_dtype: Any) -> dict[str, list[Any]]:
    """So many matrices of each argument: those of a list, one again and again, or new ones for the results."""
    every = {name: list(one) if isinstance(one, list | tuple) else [one] * count
             for name, one in given.items() if name in "abdc" and one is not None}
    check_matrices(of.name, every)
    if "d" not in every:
        every["d"] = [_empty(of, a, b, out_dtype) for a, b in zip(every["a"], every["b"], strict=True)]
    elif every["d"]:
        _check_type(of, every["d"][0], out_dtype)
    return every


def _start_each(of: Called, every: Mapping[str, list[Any]], more: Mapping[str, Any], own: Sequence[str], alpha: float, beta: float,
                invariant: bool, device: Any, stream: Any) -> None:
    """A launch for each product, after all are checked; those of `more` that are its `own` have a leading axis for the list."""
    ready = []
    for number in range(len(every["d"])):
        beside = {name: member(of.name, name, one, number) if name in own else one for name, one in more.items()}
        ready.append(_ready(of, {**{name: some[number] for name, some in every.items()}, **beside}, alpha, beta, device, stream, invariant))
    for one in ready:
        one.start(stream)


def _start_lists(of: Called, every: dict[str, list[Any]], more: dict[str, Any], alpha: float, beta: float, invariant: bool, device: Any,
                stream: Any) -> None:
    """One launch of the products of lists of tensors on a GPU; `more` are bias and scales."""
    place = location_of(every["a"][0], f"a[0] of {of.name}")
    its = f"on GPU {device.gpu.index}" if hasattr(device, "gpu") else IN_HOST_MEMORY
    if place != its:
        raise TensorError(f"a[0] of {of.name} is {place}, and the kernel runs {its}; no device would work, which takes that of a")
    count = len(every["d"])
    a, b = _with_columns(of, every["a"][0], every["b"][0], None)  # `_lists` has none of these for a `stream`
    if a is not every["a"][0]:
        every |= {"a": [a] * count, "b": [b] * count}
    places = located_alike(of.name, every)
    beside = {name: located(name, one, of.name)[1] for name, one in more.items()}
    odd = any((address or 0) % ALIGNMENT for name in "ab" for address, _ in places[name])
    facts = (*((name, some[0][1]) for name, some in places.items()), *beside.items())
    plan = product_plan(of, device.arch, getattr(device, "name", ""), facts, alpha, beta, odd, invariant, count)
    if plan.launches is None:
        return
    numbers = _numbers(of, a, more, beside, plan, stream)
    with ExitStack() as stack:
        pointers = {f"{name}_pointers": addresses(stack, device, a, [address or 0 for address, _ in some], stream)
                    for name, some in places.items()}
        null = dict.fromkeys((*plan.unread, "a", "b", "c", "d"), 0)
        plan.launches.start(device, {**null, **pointers, **numbers, **plan.numbers}, stream)


@dataclass(frozen=True)
class _Ready:
    """A product whose tensors are checked: the launch with all its arguments, or none where D has no elements. `copied` gets what is in D
    then."""

    device: Any
    launches: LaunchList | None
    arguments: Mapping[str, Any]
    copied: Any = None

    def start(self, stream: Any) -> None:
        """Launch it."""
        if self.launches is not None:
            self.launches.start(self.device, self.arguments, stream)
        if self.copied is not None:
            self.copied.copy_(self.arguments["d"])


def _ready(of: Called, tensors: dict[str, Any], alpha: float, beta: float, device: Any, stream: Any, invariant: bool,
           copied: bool = False) -> _Ready:
    """Check the product of these tensors, or of copies of A and B where those are not `copied` yet and a kernel is much faster on them."""
    device = device_of(of, tensors["a"], device)
    a, b = _with_columns(of, tensors["a"], tensors["b"], stream)
    if a is not tensors["a"]:
        tensors = without_empty_blocks(tensors)
    tensors, out = {**tensors, "a": a, "b": b}, tensors["d"]
    check_writable(out, of.name)
    places = {name: located("out" if name == "d" else name, tensor, of.name) for name, tensor in tensors.items()}
    for name in ("a", "b", *(["c"] if beta else [])):
        batch = batch_of(of, *(places[one][1][0][:-2] for one in "ab"))
        layout = layout_of(*places["d"][1][:2])[0] if name == "c" and len(places["d"][1][0]) > 1 else ""
        if len(places[name][1][0]) > 1:
            tensors[name] = readable_matrix(of.name, name, tensors[name], places[name][1], batch, stream, layout)
            places[name] = located(name, tensors[name], of.name)
    odd = any((places[name][0] or 0) % ALIGNMENT for name in "ab")
    facts = tuple((name, found) for name, (_, found) in places.items())
    try:
        plan = product_plan(of, device.arch, getattr(device, "name", ""), facts, alpha, beta, odd, invariant)
    except NotServed as refusal:
        copies = {} if copied else _usable(of, tensors, dict(facts), stream, isinstance(refusal, NeedsWholeRows))
        if not copies:
            raise
        try:
            made = _ready(of, {**tensors, **copies}, alpha, beta, device, stream, invariant, copied=True)
        except NotServed:
            raise refusal from None
        return replace(made, copied=out if "d" in copies else None)
    k = places["a"][1][0][-1]
    if plan.elements and math.prod(places["d"][1][0]) * k >= _WORTH and stream is None and not invariant and not copied:
        copies = _whole_rows(of, tensors, k + -k % BLOCK)
        if copies:
            return _ready(of, {**tensors, **copies}, alpha, beta, device, stream, invariant, copied=True)
    c_elsewhere = "c" in tensors and places["c"][0] is not None and places["c"] != places["d"]  # where it is D, each wave reads its own
    for name in ("a", "b", "bias", "a_scale", "b_scale", *(["c"] if beta and c_elsewhere else [])):
        if name in tensors and shares(tensors[name], out, places[name], places["d"]):
            raise TensorError(f"out of {of.name} shares elements with {name}, which workgroups read while others write; another out would "
                              "do")
    if plan.launches is None:
        return _Ready(device, None, {})
    beside: dict[str, Any] = {name: tensors[name] for name in ("bias", "a_scale", "b_scale") if name in tensors}
    numbers = _numbers(of, a, beside, {name: places[name][1] for name in beside}, plan, stream)
    return _Ready(device, plan.launches, {**dict.fromkeys(plan.unread, out), **tensors, **numbers, **plan.numbers})


def _usable(of: Called, tensors: Mapping[str, Any], facts: Mapping[str, Facts], stream: Any, whole_rows: bool) -> dict[str, Any]:
    """Copies of matrices that no kernel takes as they lie, none where none can be made: dense ones, of A and B by whole rows if so."""
    if stream is not None and not (whole_rows and all(isinstance(tensors[name], np.ndarray) for name in "ab")):
        return {}
    copies = dense_copies({name: tensors[name] for name in "abcd" if name in tensors}, facts) if stream is None else {}
    k = facts["a"][0][-1]
    return {**copies, **_whole_rows(of, tensors, k + -k % ALIGNMENT)} if whole_rows else copies


def _whole_rows(of: Called, tensors: Mapping[str, Any], size: int) -> dict[str, Any]:
    """Copies of A and B with zeros up to a size of K, whose elements along K lie side by side; none for what makes no copies."""
    along = {"a": -1, "b": -1 if of.b_by_rows else -2}
    copies = {name: with_zeros(tensors[name], axis, size) for name, axis in along.items()}
    return {} if any(one is None for one in copies.values()) else copies


def device_of(of: Called, a: Any, device: Any) -> Any:
    """The device that is given, or the GPU of A."""
    if device is None:
        return gpu_of(a, of.name)
    if not (isinstance(getattr(device, "arch", None), str) and hasattr(device, "launch")):
        raise TensorError(f"device of {of.name} must be a device of asmgen.launch, got {kind_of(device)}; EmulatedDevice('gfx950') or "
                          "HipDevice() would work")
    return device


def _numbers(of: Called, a: Any, given: Mapping[str, Any], facts: Mapping[str, Facts], plan: ProductPlan, stream: Any) -> dict[str, Any]:
    """Bias and scales as the kernel of a plan reads them."""
    numbers = {name: readable_numbers(of.name, name, one, facts[name], stream, name in plan.by_columns) for name, one in given.items()}
    for name, (axes, whole) in plan.scales.items():
        one = numbers.get(name)
        numbers[name] = ones(of.name, a, math.prod(whole), stream) if one is None else repeated(of.name, name, one, axes, whole, stream)
    return numbers


def _with_columns(of: Called, a: Any, b: Any, stream: Any) -> tuple[Any, Any]:
    """A and B, or one column of zeros in place of each where K is 0; for a `stream` numpy's, as `ones`."""
    axis = -1 if of.b_by_rows else -2
    if getattr(a, "shape", ())[-1:] == (0,) and tuple(getattr(b, "shape", ()))[axis:][:1] == (0,):
        return _one_zero(of, a, -1, stream), _one_zero(of, b, axis, stream)
    return a, b


def _one_zero(of: Called, tensor: Any, axis: int, stream: Any) -> Any:
    """A tensor like one that has no elements along an axis, with one zero there."""
    shape = list(tensor.shape)
    shape[axis] = 1
    return zeros_of(of.name, tensor, shape, stream)


def _empty(of: Called, a: Any, b: Any, dtype: Any) -> Any:
    """A tensor for the result, of the same kind as `a`."""
    one, other = (located(name, tensor, of.name)[1] for name, tensor in (("a", a), ("b", b)))
    check_axes(of, {"a": one[0], "b": other[0]})
    shape = (*batch_of(of, one[0][:-2], other[0][:-2]), *one[0][-2:-1], of.inner(other[0])[1])
    name = _type_named(of, dtype) if dtype is not None else "bfloat16" if plain_name(one[2]) in EIGHTS else ""
    if isinstance(a, np.ndarray):
        return np.empty(shape, numpy_type(name) if name else a.dtype)
    if hasattr(a, "new_empty"):
        return a.new_empty(shape, dtype=getattr(importlib.import_module("torch"), name)) if name else a.new_empty(shape)
    raise TensorError(f"out of {of.name} must be given where a is a {type(a).__name__}")


def _broadcast(one: Any, out: Any) -> Any:
    """An array whose leading axes are those of `out`, if it has some of them alone: such a one is moved anyway."""
    if not isinstance(one, np.ndarray) or one.ndim < 3 or math.prod(one.shape[:-2]) == 1 or len(out.shape) < 3:
        return one
    try:
        return np.ascontiguousarray(np.broadcast_to(one, (*out.shape[:-2], *one.shape[-2:])))
    except ValueError:  # the plan says what is wrong
        return one
