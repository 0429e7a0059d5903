"""The product of tensors of any types, layouts and batches, by the variant that is predicted fastest: what `gemm.matmul` is."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from numbers import Real
from typing import Any

import numpy as np

from asmgen.author.contract.contract import ContractError
from asmgen.isa.quote import printable
from asmgen.kernels.built import code_object
from asmgen.kernels.matrixlists import addresses, called, check_apart, check_matrices, count_of, for_each_row, is_own, located_alike, member
from asmgen.kernels.matrixscales import BLOCK, Axes, Scaling, blocks_of, ones, scaling_of, stretches
from asmgen.kernels.products.contract import ELEMENTS
from asmgen.kernels.registry import family as find_family
from asmgen.kernels.tensors import (
    IN_HOST_MEMORY,
    Facts,
    TensorError,
    check_writable,
    gpu_named,
    gpu_of,
    kind_of,
    located,
    location_of,
    numpy_type,
    plain_name,
    shares,
)
from asmgen.kernels.tuned import choose
from asmgen.kernels.usableviews import (
    batch_strides,
    dense_copies,
    is_one_stride,
    layout_of,
    readable_matrix,
    readable_numbers,
    repeated,
    with_zeros,
    zeros_of,
)
from asmgen.launch.launchlist import LaunchList
from asmgen.tuning.started import launch_list

ALIGNMENT = 16  # bytes of an address that 16-byte loads take
_WORTH = 1 << 30
"""Multiply-adds of a product for which A and B are copied where they could be loaded by elements alone: 14 us at the 153 TFLOPS that such a
kernel is predicted to reach on an MI355X, which is what the four launches of a copy with zeros take."""
_LARGEST = float(np.finfo(np.float32).max)
HALVES = {"bfloat16": "bf16", "bfloat": "bf16", "float16": "f16"}
OUTS = {**HALVES, "float32": "f32"}
EIGHTS = {"float8_e4m3fn": ("e4m3", "gfx950"), "float8_e5m2": ("e5m2", "gfx950"), "float8_e4m3fnuz": ("e4m3", "gfx942"),
           "float8_e5m2fnuz": ("e5m2", "gfx942")}


@dataclass(frozen=True)
class Called:
    """The function that a user called, for errors, and how it takes B: [N, K] where `b_by_rows`, else [K, N]."""

    name: str
    b_by_rows: bool = False

    def inner(self, b: Sequence[Any]) -> tuple[Any, Any]:
        """K and N among the axes of B, or among what belongs to them."""
        return (b[-1], b[-2]) if self.b_by_rows else (b[-2], b[-1])


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
    side) and 128 x 128 of `b` ([N / 128, K / 128]; `b` is a transpose; K is whole blocks).
    Where an axis has no elements, nothing is launched, or D is beta c + bias where that axis is K.

    `a` and `b` may be lists of matrices of one shape, type and stride, which lie anywhere; a single one of the two serves all. Then `out`,
    if given, and `c` are lists too, and so is the result; scales that are not one for all have a leading axis for the list. Tensors of a
    GPU are one launch, which reads their addresses from arrays, and for which the call waits if there is a `stream`; others, in host
    memory, are a launch each, after all are checked.

    Where `invariant`, the bits of an element of D depend on its row of `a`, its column of `b`, N and K alone, not on M, the batch, strides
    or the kernel that is chosen (products/invariance.py says what that costs).

    A numpy array may be any view and is moved without gaps. `device` and `stream` are as for `gemm.bf16`, and so is the choice of the
    variant. Where nothing but single elements can be loaded (odd strides or addresses), a slower variant does it; for a large
    product of PyTorch's tensors a fast one, on copies of `a` and `b` with zeros beyond K (not if `invariant` or with a `stream`). Where
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
    plan = _plan(of, device.arch, getattr(device, "name", ""), facts, alpha, beta, odd, invariant, count)
    if plan.launches is None:
        return
    numbers = _numbers(of, a, more, beside, plan, stream)
    with ExitStack() as stack:
        pointers = {f"{name}_pointers": addresses(stack, device, a, [address or 0 for address, _ in some], stream)
                    for name, some in places.items()}
        null = dict.fromkeys((*plan.unread, "a", "b", "c", "d"), 0)
        plan.launches.start(device, {**null, **pointers, **numbers, **plan.numbers}, stream)


class _NotServed(TensorError):
    """No kernel takes tensors that lie so."""


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
    tensors, out = {**tensors, "a": a, "b": b}, tensors["d"]
    check_writable(out, of.name)
    places = {name: located("out" if name == "d" else name, tensor, of.name) for name, tensor in tensors.items()}
    for name in ("a", "b", *(["c"] if beta else [])):
        batch = _batch(of, *(places[one][1][0][:-2] for one in "ab"))
        layout = layout_of(*places["d"][1][:2])[0] if name == "c" and len(places["d"][1][0]) > 1 else ""
        if len(places[name][1][0]) > 1:
            tensors[name] = readable_matrix(of.name, name, tensors[name], places[name][1], batch, stream, layout)
            places[name] = located(name, tensors[name], of.name)
    odd = any((places[name][0] or 0) % ALIGNMENT for name in "ab")
    facts = tuple((name, found) for name, (_, found) in places.items())
    try:
        plan = _plan(of, device.arch, getattr(device, "name", ""), facts, alpha, beta, odd, invariant)
    except _NotServed as refusal:
        matrices = {name: tensors[name] for name in "abcd" if name in tensors}
        copies = {} if copied or stream is not None else dense_copies(matrices, dict(facts))
        if not copies:
            raise
        try:
            made = _ready(of, {**tensors, **copies}, alpha, beta, device, stream, invariant, copied=True)
        except _NotServed:
            raise refusal from None
        return replace(made, copied=out if "d" in copies else None)
    k = places["a"][1][0][-1]
    if plan.elements and math.prod(places["d"][1][0]) * k >= _WORTH and stream is None and not invariant and not copied:
        along = {"a": -1, "b": -1 if of.b_by_rows else -2}
        copies = {name: with_zeros(tensors[name], along[name], k + -k % BLOCK) for name in along}
        if None not in copies.values():
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


def device_of(of: Called, a: Any, device: Any) -> Any:
    """The device that is given, or the GPU of A."""
    if device is None:
        return gpu_of(a, of.name)
    if not (isinstance(getattr(device, "arch", None), str) and hasattr(device, "launch")):
        raise TensorError(f"device of {of.name} must be a device of asmgen.launch, got {kind_of(device)}; EmulatedDevice('gfx950') or "
                          "HipDevice() would work")
    return device


def _numbers(of: Called, a: Any, given: Mapping[str, Any], facts: Mapping[str, Facts], plan: _Plan, stream: Any) -> dict[str, Any]:
    """Bias and scales as the kernel of a plan reads them."""
    numbers = {name: readable_numbers(of.name, name, one, facts[name], stream, name in plan.by_columns) for name, one in given.items()}
    for name, (axes, whole) in plan.scales.items():
        one = numbers.get(name)
        numbers[name] = ones(of.name, a, math.prod(whole), stream) if one is None else repeated(of.name, name, one, axes, whole, stream)
    return numbers


@dataclass(frozen=True)
class _Plan:
    """A launch without its pointers, or none where D has no elements: `unread` are those that the kernel does not read, `scales` says which
    scales it reads (`Scaling.axes`), `by_columns` those that are wanted by columns. Where `elements`, A and B are loaded element by
    element."""

    launches: LaunchList | None
    elements: bool
    numbers: Mapping[str, Any]
    unread: tuple[str, ...]
    scales: Mapping[str, tuple[Axes, Axes]]
    by_columns: tuple[str, ...]


@dataclass(frozen=True)
class _Matrices:
    """How a batch of matrices lies in memory."""

    layout: str
    stride: int
    apart: int


@cache
def _plan(of: Called, arch: str, device: str, facts: tuple[tuple[str, Facts], ...], alpha: float, beta: float, odd: bool,
          invariant: bool, count: int = 0) -> _Plan:
    """Check the tensors, then choose and build the kernel for a device of that name. `odd` says that an address is no multiple of 16. With
    a `count` there are so many products of matrices like these, which arrays of pointers tell."""
    known = dict(facts)
    shapes = {name: found[0] for name, found in known.items()}
    _check_axes(of, {name: shapes[name] for name in "abd"})
    (m, k), (other, n) = shapes["a"][-2:], of.inner(shapes["b"])
    if other != k:
        wanted = (f"be [N, K] with K = {k}, as a has it, got {list(shapes['b'])}" if of.b_by_rows else
                  f"have K = {k} rows, as a has columns, got the shape {list(shapes['b'])}; a matrix [N, K], as torch.nn.Linear holds "
                  "weights, is given as b.T")
        raise TensorError(f"b of {of.name} must {wanted}")
    batch = _batch(of, shapes["a"][:-2], shapes["b"][:-2])
    for name in ("d", *(["c"] if "c" in known else [])):
        leading = batch if name == "d" else shapes[name][:-2]
        if shapes[name] != (*leading, m, n) or not stretches(leading, batch):
            raise TensorError(f"{called(name)} of {of.name} must be {[*batch, m, n]}, got {list(shapes[name])}")
    name, build = _types(of, known, arch)
    by_rows = known["b"] if of.b_by_rows else (_swapped(shapes["b"]), _swapped(known["b"][1]), known["b"][2])
    exchanged = {**known, "b": by_rows}  # N x K, a row for each column of D
    if 0 in (*batch, m, n):
        return _Plan(None, False, {}, (), {}, ())
    lying = {one: _matrices(of, called(one), exchanged[one], batch) for one in "abd"}
    if "c" in known and beta:
        lying["c"] = _matrices(of, "c", known["c"], batch, lying["d"].layout)
    matrices = count or math.prod(batch)
    scaling = scaling_of(of.name, known, name, m, n, k, (count,) if count else batch)
    given: dict[str, Any] = {"m": m, "n": n, "k": k, "batch": matrices, "alpha": alpha, "beta": beta, **build, **scaling.build,
                             "invariant": invariant}
    for one, its in (*lying.items(), *(() if "c" in lying else [("c", lying["d"])])):
        given |= {f"{one}_layout": its.layout, f"ld{one}": its.stride}
        given |= {"pointers": True} if count else {f"{one}_stride_batch": its.apart}
    if "bias" in known:
        if math.prod(shapes["bias"]) != n or OUTS.get(plain_name(known["bias"][2])) != build["out"]:
            raise TensorError(f"bias of {of.name} must have N = {n} elements of the type of out, got {list(shapes['bias'])} of "
                              f"{plain_name(known['bias'][2])}")
        given["bias"] = "row"
    return _chosen(of, name, arch, device, given | ({"schedule": ELEMENTS} if odd else {}), tuple(known), scaling)


def _chosen(of: Called, name: str, arch: str, device: str, given: dict[str, Any], tensors: Sequence[str],
            scaling: Scaling) -> _Plan:
    """The plan of the variant that is predicted the fastest for these values."""
    library = find_family(name)
    arch, block = library.check_arch(arch), {"scales": "block"}
    if block.items() <= scaling.build.items() and not any(block.items() <= library.fixed(one).items() for one in library.variants(arch)):
        raise TensorError(f"a_scale and b_scale of {of.name} for blocks of {BLOCK} have no kernel for {arch}; one for all, or for each "
                          "row of a and column of out, would work")
    try:
        build = choose(name, arch, gpu_named(device, arch), given)
        contract = library.contract(arch, build)
        values = contract.resolve_run({**build, **given})
    except ContractError as error:
        works = _lines_of_blocks(given["k"]) if block.items() <= given.items() else "contiguous copies"
        raise _NotServed(f"{of.name} of m={given['m']}, n={given['n']}, k={given['k']}, batch={given['batch']} with A by "
                          f"{given['a_layout']}s, B^T by {given['b_layout']}s and out by {given['d_layout']}s: {error.sentence}; "
                          f"{works} would work") from error
    numbers = {argument.name: values[argument.name] for argument in contract.given if argument.type != "pointer"}
    pointers = [argument.name for argument in contract.given if argument.type == "pointer"]
    unread = tuple(pointer for pointer in pointers if pointer not in tensors and pointer not in scaling.axes)
    launches = launch_list(code_object(library, arch, build), contract, values)
    return _Plan(launches, values["schedule"] == ELEMENTS, numbers, unread, scaling.axes, scaling.by_columns)


def _lines_of_blocks(k: int) -> str:
    """What kernels take where a scale belongs to a block: none of them loads element by element."""
    rows = f"A and B^T by rows of {k + -k % ALIGNMENT} columns{', zeros the last ones' if k % ALIGNMENT else ''}"
    return f"{rows}, from a multiple of {ALIGNMENT} bytes on,"


def _check_axes(of: Called, shapes: Mapping[str, tuple[int, ...]]) -> None:
    for name, shape in shapes.items():
        if len(shape) < 2:
            raise TensorError(f"{called(name)} of {of.name} must be a matrix, or a batch of them, got the shape {list(shape)}")


def _swapped(axes: tuple[int, ...]) -> tuple[int, ...]:
    return (*axes[:-2], axes[-1], axes[-2])


def _batch(of: Called, one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(one, other)
    except ValueError:
        raise TensorError(f"a and b of {of.name} must have leading axes that broadcast, got {list(one)} and {list(other)}") from None


def _types(of: Called, known: Mapping[str, Facts], arch: str) -> tuple[str, dict[str, Any]]:
    """The family that takes the types of a, b and out, and its build parameters for them."""
    types = {name: plain_name(known[name][2]) for name in ("a", "b", "d")}
    halves = types["a"] in HALVES and HALVES[types["a"]] == HALVES.get(types["b"])
    if not halves and not (types["a"] in EIGHTS and types["b"] in EIGHTS):
        raise TensorError(f"a and b of {of.name} must be both bfloat16, both float16, or both float8, got {types['a']} and {types['b']}")
    out = OUTS.get(types["d"])
    if out is None:
        raise TensorError(f"out of {of.name} must be bfloat16, float16 or float32, got {types['d']}")
    if "c" in known and plain_name(known["c"][2]) != types["d"]:
        raise TensorError(f"c of {of.name} must be of the type of out, {types['d']}, got {plain_name(known['c'][2])}")
    if halves:
        return "gemm-bf16", {"dtype": HALVES[types["a"]], "out": out}
    for name in "ab":
        if EIGHTS[types[name]][1] != arch:
            works = " and ".join(one for one, (_, where) in EIGHTS.items() if where == arch)
            raise TensorError(f"{name} of {of.name} is {types[name]}, whose numbers {arch} does not have; it has {works}")
    return "gemm-fp8", {"a_dtype": EIGHTS[types["a"]][0], "b_dtype": EIGHTS[types["b"]][0], "out": out}


def _matrices(of: Called, name: str, facts: Facts, batch: tuple[int, ...], wanted: str = "") -> _Matrices:
    """How matrices of [..., rows, columns] lie, each of which a batch asks for; as `wanted`, if in several ways."""
    shape, strides, _ = facts
    steps = batch_strides(shape[:-2], strides[:-2], batch)
    if not is_one_stride(steps):
        raise TensorError(f"{name} of {of.name} has leading axes with the strides {list(strides[:-2])}, which are not one stride through "
                          f"{list(batch)}; an expanded contiguous copy would work")
    layout, apart = layout_of(shape, strides, wanted)
    if not layout:
        raise TensorError(f"{name} of {of.name} must have the elements of its rows, or of its columns, side by side (stride 1), got the "
                          f"strides {list(strides[-2:])}: a contiguous copy would work")
    return _Matrices(layout, apart, steps[-1][1] if steps else 0)


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
    _check_axes(of, {"a": one[0], "b": other[0]})
    shape = (*_batch(of, one[0][:-2], other[0][:-2]), *one[0][-2:-1], of.inner(other[0])[1])
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
