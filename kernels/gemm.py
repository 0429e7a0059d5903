"""Matrix products of the library on tensors: `asmgen.kernels.gemm.bf16(a, b)`.

A tensor is a PyTorch tensor, an object with DLPack, or a numpy array. PyTorch and DLPack tensors are used where they are, with their
strides. A numpy array is moved to the device row by row without gaps, so that any view works; `out` is moved back into the elements that
its view covers. No machine that tests this has PyTorch on ROCm. It was tested on the emulator, and on stand-ins for GPU tensors through
hip-python on the emulated runtime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from asmgen.author.contract.contract import ContractError
from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import printable, quoted
from asmgen.isa.timing import DEFAULT_GPU, GPUS
from asmgen.kernels.built import code_object
from asmgen.kernels.registry import family as find_family
from asmgen.kernels.tuned import choose
from asmgen.launch.external import GPU, External, dense_strides, external_of, is_external
from asmgen.launch.hip import HipDevice
from asmgen.launch.launchlist import LaunchList
from asmgen.tuning.started import launch_list

_ALIGNMENT = 16  # bytes of an address that 16-byte loads take


class TensorError(AsmgenError):
    """A function of the library does not take a tensor: which one, what it is, and what would work."""


Facts = tuple[tuple[int, ...], tuple[int, ...], str]
"""Shape, strides in elements and type of a tensor, as the kernel gets it. A plan depends on these."""


@dataclass(frozen=True)
class _Plan:
    """A launch for one shape, without the pointers."""

    launches: LaunchList
    numbers: Mapping[str, Any]
    unread: tuple[str, ...]  # pointers that are not read: C and bias
    facts: tuple[Facts, Facts, Facts]  # of a, b, out
    nbytes: tuple[int, ...]  # from the first byte of each to the last


def bf16(a: Any, b: Any, out: Any = None, device: Any = None, stream: Any = None) -> Any:
    """a @ b.T in bfloat16 with float32 accumulation: `a` is [M, K], `b` is [N, K] as torch.nn.Linear holds weights, `out` is [M, N].

    M and N are 1 or more; K is a multiple of 64. The row stride of a tensor is any multiple of 8 elements; a numpy array may be any view.
    The function returns `out`, which must not share elements with `a` or `b`. Without `out` it makes one like `a`.

    The kernel is the variant that is predicted the fastest for these sizes (`asmgen tune`). The first call on a machine times the variants
    on the emulator, which takes some seconds, and keeps what it found. Where workgroups share the steps of a tile (`split_k`), two kernels
    run one after the other; the device keeps a workspace for each stream, which the first launch of a size makes.

    `device` is the GPU of the tensors by default; tensors in host memory need an EmulatedDevice. The kernel runs on `stream`, by default on
    PyTorch's current stream, and may still run when the function returns. Raises TensorError or ContractError, which name the argument,
    before any launch. Raises LaunchError if the emulator finds an error in the launch.
    """
    if out is None:
        out = _empty(a, b)
    (a_place, a_facts), (b_place, b_facts), (out_place, out_facts) = _located("a", a), _located("b", b), _located("out", out)
    if device is None:
        device = _gpu(a)
    elif not (isinstance(getattr(device, "arch", None), str) and hasattr(device, "launch")):
        raise TensorError(f"device of gemm.bf16 must be a device of asmgen.launch, got {_kind(device)}; EmulatedDevice('gfx950') or "
                          "HipDevice() would work")
    plan = _plan(device.arch, getattr(device, "name", ""), a_facts, b_facts, out_facts)
    _check_writable(out)
    _check_addresses(plan, (a_place, b_place, out_place), (a, b, out))
    plan.launches.start(device, {"a": a, "b": b, "d": out, **dict.fromkeys(plan.unread, out), **plan.numbers}, stream)
    return out


def _located(name: str, tensor: Any) -> tuple[int | None, Facts]:
    """The address of a tensor (None for an array that the launch moves), and its facts."""
    if isinstance(tensor, np.ndarray):  # launches move it in C order
        return None, (tensor.shape, dense_strides(tensor.shape), str(tensor.dtype))
    if hasattr(tensor, "data_ptr"):
        try:
            return tensor.data_ptr(), (tuple(tensor.shape), tuple(tensor.stride()), str(tensor.dtype))
        except RuntimeError as error:  # PyTorch raises it for sparse tensors and the like
            raise TensorError(f"{name} of gemm.bf16 must be a dense tensor with memory of its own: {printable(str(error))}") from error
    if not is_external(tensor):
        raise TensorError(f"gemm.bf16 takes tensors, got a {type(tensor).__name__} as {name}")
    found = external_of(tensor, f"{name} of gemm.bf16")
    return found.address, (found.shape, found.strides, found.dtype)


def _kind(value: Any) -> str:
    """A value of the wrong kind, as errors show it."""
    return f"the str {quoted(value)}" if isinstance(value, str) else f"a {type(value).__name__}"


@cache
def _plan(arch: str, name: str, a: Facts, b: Facts, out: Facts) -> _Plan:
    """Check the contract, then choose and build the kernel for a device of that name: the variant that is predicted the fastest."""
    for tensor, letters, (shape, strides, dtype) in (("a", "[M, K]", a), ("b", "[N, K]", b), ("out", "[M, N]", out)):
        if dtype.removeprefix("torch.") not in ("bfloat16", "bfloat"):
            raise TensorError(f"{tensor} of gemm.bf16 must be bfloat16, got {dtype.removeprefix('torch.')}")
        if len(shape) != 2:
            raise TensorError(f"{tensor} of gemm.bf16 must be a matrix {letters}, got the shape {list(shape)}")
        if shape[0] < 1:
            raise TensorError(f"{tensor} of gemm.bf16 has no rows: {letters} is {list(shape)}; 1 row and more would work")
        if strides[1] != 1 and shape[1] > 1:
            raise TensorError(f"{tensor} of gemm.bf16 must have its rows' elements side by side (stride 1), got the strides "
                              f"{list(strides)}: pass a contiguous one")
    (m, k), (n, other), made = a[0], b[0], out[0]
    if other != k:
        raise TensorError(f"b of gemm.bf16 must be [N, K] with K = {k}, as a has it, got {list(b[0])}")
    if made != (m, n):
        raise TensorError(f"out of gemm.bf16 must be [M, N] = {[m, n]}, got {list(made)}")
    family = find_family("gemm-bf16")
    arch = family.check_arch(arch)
    rows = {row: strides[0] if shape[0] > 1 else shape[1] for row, (shape, strides, _) in (("lda", a), ("ldb", b), ("ldd", out))}
    dense = {"lda": k, "ldb": k, "ldd": n}
    given = {"m": m, "n": n, "k": k, **{row: stride for row, stride in rows.items() if stride != dense[row]}}
    try:
        build = choose(family.name, arch, _gpu_of(name, arch), given)
        contract = family.contract(arch, build)
        values = contract.resolve_run({**build, **given})
    except ContractError as error:
        found = {"lda": ("a", a), "ldb": ("b", b), "ldd": ("out", out)}.get(error.sentence.partition(" ")[0])
        if found is None:
            raise
        tensor, (_, strides, _) = found
        raise TensorError(f"{tensor} of gemm.bf16 has the strides {list(strides)}: {error.sentence}; a contiguous copy would "
                          "work") from error
    numbers = {argument.name: values[argument.name] for argument in contract.given if argument.type != "pointer"}
    unread = tuple(argument.name for argument in contract.given if argument.type == "pointer" and argument.name not in ("a", "b", "d"))
    nbytes = tuple(2 + 2 * sum((count - 1) * stride for count, stride in zip(*one[:2], strict=True)) for one in (a, b, out))
    return _Plan(launch_list(code_object(family, arch, build), contract, values), numbers, unread, (a, b, out), nbytes)


def _gpu_of(name: str, arch: str) -> str:
    """Whose timing table speaks for a device: that of the GPU that its name has in it, or the architecture's default."""
    return next((gpu for gpu, its in GPUS.items() if its == arch and gpu in name), DEFAULT_GPU[arch])


def _check_writable(out: Any) -> None:
    """Raises TensorError for an `out` that numpy marks as read-only, or whose elements share memory."""
    if not isinstance(out, np.ndarray):
        return
    if not out.flags.writeable:
        raise TensorError("out of gemm.bf16 is read-only; an array whose flags.writeable is True would work")
    if any(stride == 0 and count > 1 for stride, count in zip(out.strides, out.shape, strict=True)):
        raise TensorError(f"out of gemm.bf16 must have memory of its own for each element, and its strides are {list(out.strides)}; "
                          "an array without a stride of 0 would work")


def _check_addresses(plan: _Plan, bases: Sequence[int | None], given: Sequence[Any]) -> None:
    """Raises TensorError for an address that the kernel cannot load from, and for an `out` that shares elements with `a` or `b`."""
    for number, name in enumerate("ab"):
        base = bases[number]
        if base is not None and base % _ALIGNMENT:
            raise TensorError(f"{name} of gemm.bf16 must begin at a multiple of {_ALIGNMENT} bytes, and it begins at {base:#x}")
        if _share(plan, bases, given, number):
            raise TensorError(f"out of gemm.bf16 shares elements with {name}, which workgroups read while others write; another out would "
                              "work")


def _share(plan: _Plan, bases: Sequence[int | None], given: Sequence[Any], number: int) -> bool:
    """Whether `a` or `b` has an element in common with `out`: for two numpy arrays, or two tensors that are used where they are."""
    base, out = bases[number], bases[2]
    if not base or not out:  # an array that the launch moves, or a tensor without memory, which the launch refuses
        return isinstance(given[number], np.ndarray) and isinstance(given[2], np.ndarray) and np.shares_memory(given[number], given[2])
    if base + plan.nbytes[number] <= out or out + plan.nbytes[2] <= base:
        return False
    return np.shares_memory(_Span(base, *plan.facts[number][:2]), _Span(out, *plan.facts[2][:2]))


class _Span:
    """An array of 2-byte elements for numpy, which computes with the addresses and reads nothing."""

    def __init__(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.__array_interface__ = {"data": (address, True), "shape": shape, "strides": tuple(2 * stride for stride in strides),
                                    "typestr": "<u2", "version": 3}


def _empty(a: Any, b: Any) -> Any:
    """A matrix for the result, of the same kind as `a`."""
    rows, columns = _located("a", a)[1][0][:1], _located("b", b)[1][0][:1]
    if hasattr(a, "new_empty"):
        return a.new_empty((*rows, *columns))
    if isinstance(a, np.ndarray):
        return np.empty((*rows, *columns), a.dtype)
    raise TensorError(f"out of gemm.bf16 must be given where a is a {type(a).__name__}")


def _gpu(a: Any) -> HipDevice:
    """The GPU of a tensor. Raises TensorError for one in host memory."""
    found: External | None = external_of(a, "a of gemm.bf16") if hasattr(a, "data_ptr") or _is_on_gpu(a) else None
    if found is None or found.where != GPU:
        raise TensorError("a of gemm.bf16 is in host memory; move it to a GPU, or pass device=EmulatedDevice('gfx950') to run on the "
                          "emulator")
    return _opened(found.index)


def _is_on_gpu(a: Any) -> bool:
    return hasattr(a, "__dlpack_device__") and int(a.__dlpack_device__()[0]) != 1


@cache
def _opened(index: int) -> HipDevice:
    """One device for each GPU, open as long as the process lives."""
    return HipDevice(index=index)
