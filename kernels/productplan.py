"""How a product of tensors is launched: what they must be, which kernel takes them, and its arguments but the pointers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from asmgen.author.contract.contract import ContractError
from asmgen.kernels.built import code_object
from asmgen.kernels.matrixlists import called
from asmgen.kernels.matrixscales import BLOCK, Axes, Scaling, scaling_of, stretches
from asmgen.kernels.products.contract import ELEMENTS
from asmgen.kernels.registry import family as find_family
from asmgen.kernels.tensors import Facts, TensorError, gpu_named, plain_name
from asmgen.kernels.tuned import choose
from asmgen.kernels.usableviews import batch_strides, is_one_stride, layout_of
from asmgen.launch.launchlist import LaunchList
from asmgen.tuning.started import launch_list

ALIGNMENT = 16  # bytes of an address that 16-byte loads take
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


class NotServed(TensorError):
    """No kernel takes tensors that lie so."""


class NeedsWholeRows(NotServed):
    """Those kernels that could would take A and B^T by rows of whole multiples of `ALIGNMENT`, zeros the last elements."""


@dataclass(frozen=True)
class ProductPlan:
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
def product_plan(of: Called, arch: str, device: str, facts: tuple[tuple[str, Facts], ...], alpha: float, beta: float, odd: bool,
                 invariant: bool, count: int = 0) -> ProductPlan:
    """Check the tensors, then choose and build the kernel for a device of that name. `odd` says that an address is no multiple of 16. With
    a `count` there are so many products of matrices like these, which arrays of pointers tell."""
    known = dict(facts)
    shapes = {name: found[0] for name, found in known.items()}
    check_axes(of, {name: shapes[name] for name in "abd"})
    (m, k), (other, n) = shapes["a"][-2:], of.inner(shapes["b"])
    if other != k:
        wanted = (f"be [N, K] with K = {k}, as a has it, got {list(shapes['b'])}" if of.b_by_rows else
                  f"have K = {k} rows, as a has columns, got the shape {list(shapes['b'])}; a matrix [N, K], as torch.nn.Linear holds "
                  "weights, is given as b.T")
        raise TensorError(f"b of {of.name} must {wanted}")
    batch = batch_of(of, shapes["a"][:-2], shapes["b"][:-2])
    for name in ("d", *(["c"] if "c" in known else [])):
        leading = batch if name == "d" else shapes[name][:-2]
        if shapes[name] != (*leading, m, n) or not stretches(leading, batch):
            raise TensorError(f"{called(name)} of {of.name} must be {[*batch, m, n]}, got {list(shapes[name])}")
    name, build = _types(of, known, arch)
    by_rows = known["b"] if of.b_by_rows else (_swapped(shapes["b"]), _swapped(known["b"][1]), known["b"][2])
    exchanged = {**known, "b": by_rows}  # N x K, a row for each column of D
    if 0 in (*batch, m, n):
        return ProductPlan(None, False, {}, (), {}, ())
    lying = {one: _matrices(of, called(one), exchanged[one], batch) for one in "abd"}
    for one in "ab":  # what lies next to a single line is not read
        lines = exchanged[one][0][-2 if lying[one].layout == "row" else -1]
        if lines == 1:
            lying[one] = replace(lying[one], stride=lying[one].stride + -lying[one].stride % ALIGNMENT)
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
            scaling: Scaling) -> ProductPlan:
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
        refused, works = ((NeedsWholeRows, _lines_of_blocks(given["k"])) if block.items() <= given.items() else
                          (NotServed, "contiguous copies"))
        raise refused(f"{of.name} of m={given['m']}, n={given['n']}, k={given['k']}, batch={given['batch']} with A by "
                      f"{given['a_layout']}s, B^T by {given['b_layout']}s and out by {given['d_layout']}s: {error.sentence}; "
                      f"{works} would work") from error
    numbers = {argument.name: values[argument.name] for argument in contract.given if argument.type != "pointer"}
    pointers = [argument.name for argument in contract.given if argument.type == "pointer"]
    unread = tuple(pointer for pointer in pointers if pointer not in tensors and pointer not in scaling.axes)
    launches = launch_list(code_object(library, arch, build), contract, values)
    return ProductPlan(launches, values["schedule"] == ELEMENTS, numbers, unread, scaling.axes, scaling.by_columns)


def _lines_of_blocks(k: int) -> str:
    """What kernels take where a scale belongs to a block: none of them loads element by element."""
    rows = f"A and B^T by rows of {k + -k % ALIGNMENT} columns{', zeros the last ones' if k % ALIGNMENT else ''}"
    return f"{rows}, from a multiple of {ALIGNMENT} bytes on,"


def check_axes(of: Called, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse what is no matrix, nor a batch of them."""
    for name, shape in shapes.items():
        if len(shape) < 2:
            raise TensorError(f"{called(name)} of {of.name} must be a matrix, or a batch of them, got the shape {list(shape)}")


def _swapped(axes: tuple[int, ...]) -> tuple[int, ...]:
    return (*axes[:-2], axes[-1], axes[-2])


def batch_of(of: Called, one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """The axes that the leading ones of A and B broadcast to."""
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
