"""Attention on tensors: `asmgen.kernels.attention.forward(q, k, v, causal=True)`, `backward`, and both of sequences of any lengths.

Tensors are (batch, rows, heads, d) as flash_attn_func takes them, with d = 128 or 64, of bfloat16 or float16; keys may have fewer heads.
`forward_varlen` and `backward_varlen` take (rows, heads, d) and cu_seqlens, as flash_attn_varlen_func does. A tensor is a PyTorch tensor,
an object with DLPack, or a numpy array. PyTorch and DLPack tensors are used where they are, with their strides; a numpy array, which may
be any view, is moved to the device. No machine that tests this has PyTorch on ROCm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from asmgen.author.contract.contract import ContractError
from asmgen.kernels.attention_inputs import is_empty, usable, with_sizes, write_of_nothing
from asmgen.kernels.built import code_object
from asmgen.kernels.registry import family as find_family
from asmgen.kernels.tensors import Facts, TensorError, check_writable, gpu_of, kind_of, located, plain_name, shares
from asmgen.launch.launchlist import LaunchList
from asmgen.tuning.started import launch_list

_ALIGNMENT = 16  # bytes of an address that 16-byte loads take
_TYPES = {"bfloat16": "bf16", "bfloat": "bf16", "float16": "f16"}
_OF_KEYS = ("k", "v", "dk", "dv")
_ROWS = ("q", "k", "v", "o", "do", "dq", "dk", "dv")  # tensors with rows of heads
_CALLED = {"o": "out", "lse": "softmax_lse", "do": "dout"}
Sides = tuple[int, int]


def forward(q: Any, k: Any, v: Any, dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False,
            window_size: Sides = (-1, -1), softcap: float = 0.0, alibi_slopes: Any = None, deterministic: bool = False,
            return_attn_probs: bool = False, *, sink: Any = None, seed: int = 0, offset: int = 0, rng_state: Any = None,
            return_lse: bool = False, out: Any = None, softmax_lse: Any = None, device: Any = None, stream: Any = None) -> Any:
    """softmax(softmax_scale q k^T + mask) v, like `q`; with `return_lse` also the natural logarithms of sums, float32 [b, heads, rows].

    Query i sees keys up to i + sk - sq with `causal`, and from i + sk - sq - left to i + sk - sq + right with `window_size` (left, right),
    where -1 is no limit. A query that sees nothing gets 0, and the logarithm -infinity. `sink` is one more score of each query, float32
    [heads], whose key has no value. With `dropout_p`, elements are dropped as flash-attn on ROCm does by `seed` and `offset`, which are
    numbers, or two uint64 in memory of the device, `rng_state`; give `backward` the same. Results are the same bits each time, be
    they asked to be `deterministic` or not; `softcap`, `alibi_slopes` and `return_attn_probs` are refused.

    `device` is the GPU of the tensors by default; tensors in host memory need an EmulatedDevice. The kernel runs on `stream`, by default
    PyTorch's current one, and may still run when the function returns. Without a `stream`, PyTorch tensors whose rows kernels cannot read
    where they are, as expanded ones, are copied first. Without queries or keys nothing is launched. Raises TensorError or ContractError
    before any launch.
    """
    _refuse("attention.forward", softcap, alibi_slopes, return_attn_probs)
    given = _Given(dropout_p, softmax_scale, causal, window_size, sink, seed, offset, rng_state)
    return _forward("attention.forward", given, {"q": q, "k": k, "v": v}, {}, {}, return_lse, out, softmax_lse, device, stream)


def forward_varlen(q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: int, max_seqlen_k: int,
                   dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False, window_size: Sides = (-1, -1),
                   softcap: float = 0.0, alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False, *,
                   seqused_q: Any = None, seqused_k: Any = None, sink: Any = None, seed: int = 0, offset: int = 0, rng_state: Any = None,
                   return_lse: bool = False, out: Any = None, softmax_lse: Any = None, device: Any = None, stream: Any = None) -> Any:
    """`forward` of sequences of their own lengths, whose rows stand one after the other: `q` is (rows, heads, d).

    Sequence i has the rows from cu_seqlens[i] to below cu_seqlens[i + 1] (int32, one more than sequences); of these the first seqused[i]
    count, where both `seqused_q` and `seqused_k` are given. The longest lengths may be bounds. Logarithms are float32 [heads, rows].
    """
    _refuse("attention.forward_varlen", softcap, alibi_slopes, return_attn_probs)
    given = _Given(dropout_p, softmax_scale, causal, window_size, sink, seed, offset, rng_state)
    lengths = _lengths("attention.forward_varlen", cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k)
    return _forward("attention.forward_varlen", given, {"q": q, "k": k, "v": v}, lengths, {"max_sq": max_seqlen_q, "max_sk": max_seqlen_k},
                    return_lse, out, softmax_lse, device, stream)


def backward(dout: Any, q: Any, k: Any, v: Any, out: Any, softmax_lse: Any, dropout_p: float = 0.0, softmax_scale: float | None = None,
             causal: bool = False, window_size: Sides = (-1, -1), deterministic: bool = False, *, softcap: float = 0.0,
             alibi_slopes: Any = None, sink: Any = None, seed: int = 0, offset: int = 0, rng_state: Any = None, dq: Any = None,
             dk: Any = None, dv: Any = None, device: Any = None, stream: Any = None) -> Any:
    """(dq, dk, dv) of `forward`, like q, k and v; with a `sink` also its gradient, float32 [heads].

    `out` and `softmax_lse` are those of `forward`, and so are the other arguments. Gradients of keys are summed over the heads of queries
    that share them. `deterministic` gives the same bits each time; else memory adds up dq in any order. `softcap` and `alibi_slopes` are
    refused.
    """
    _refuse("attention.backward", softcap, alibi_slopes)
    given = _Given(dropout_p, softmax_scale, causal, window_size, sink, seed, offset, rng_state)
    read = {"q": q, "k": k, "v": v, "o": out, "do": dout, "lse": softmax_lse}
    return _backward("attention.backward", given, read, {}, {}, deterministic, {"dq": dq, "dk": dk, "dv": dv}, device, stream)


def backward_varlen(dout: Any, q: Any, k: Any, v: Any, out: Any, softmax_lse: Any, cu_seqlens_q: Any, cu_seqlens_k: Any,
                    max_seqlen_q: int, max_seqlen_k: int, dropout_p: float = 0.0, softmax_scale: float | None = None,
                    causal: bool = False, window_size: Sides = (-1, -1), deterministic: bool = False, *, softcap: float = 0.0,
                    alibi_slopes: Any = None, seqused_q: Any = None, seqused_k: Any = None, sink: Any = None, seed: int = 0,
                    offset: int = 0, rng_state: Any = None, dq: Any = None, dk: Any = None, dv: Any = None, device: Any = None,
                    stream: Any = None) -> Any:
    """`backward` of `forward_varlen`. Rows of padding are not written: those of gradients that it makes are undefined."""
    _refuse("attention.backward_varlen", softcap, alibi_slopes)
    given = _Given(dropout_p, softmax_scale, causal, window_size, sink, seed, offset, rng_state)
    lengths = _lengths("attention.backward_varlen", cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k)
    read = {"q": q, "k": k, "v": v, "o": out, "do": dout, "lse": softmax_lse}
    return _backward("attention.backward_varlen", given, read, lengths, {"max_sq": max_seqlen_q, "max_sk": max_seqlen_k}, deterministic,
                     {"dq": dq, "dk": dk, "dv": dv}, device, stream)


def _refuse(of: str, softcap: float, alibi_slopes: Any, return_attn_probs: bool = False) -> None:
    """What flash-attn's functions take and no kernel here has."""
    if softcap:
        raise TensorError(f"{of}: softcap is {softcap}, but no kernel here caps scores; softcap=0.0 would do")
    if alibi_slopes is not None:
        raise TensorError(f"{of}: alibi_slopes were given, but no kernel here adds to scores; alibi_slopes=None would do")
    if return_attn_probs:
        raise TensorError(f"{of}: return_attn_probs was asked for, but probabilities are never in memory; return_lse=True returns the "
                          "logarithms of their sums")


@dataclass(frozen=True)
class _Given:
    """What both directions are told."""

    dropout_p: float
    softmax_scale: float | None
    causal: bool
    window_size: Sides
    sink: Any
    seed: int
    offset: int
    rng_state: Any

    def build(self) -> dict[str, Any]:
        """As build parameters."""
        return {"causal": bool(self.causal), "sink": self.sink is not None, "dropout": self.dropout_p > 0,
                "rng_state": self.dropout_p > 0 and self.rng_state is not None}

    def run(self) -> dict[str, Any]:
        """As run parameters: a side without a limit is -1."""
        left, right = (max(-1, int(side)) for side in self.window_size)
        found: dict[str, Any] = {"left": left, "right": -1 if self.causal else right}
        if self.softmax_scale is not None:
            found["softmax_scale"] = float(self.softmax_scale)
        if self.dropout_p > 0:
            found |= {"p": float(self.dropout_p), **({} if self.rng_state is not None else {"seed": self.seed, "offset": self.offset})}
        return found

    def tensors(self) -> dict[str, Any]:
        """Those that kernels read beside Q, K and V."""
        found = {"sink": self.sink, "rng_state": self.rng_state if self.dropout_p > 0 else None}
        return {name: tensor for name, tensor in found.items() if tensor is not None}


def _lengths(of: str, cu_seqlens_q: Any, cu_seqlens_k: Any, seqused_q: Any, seqused_k: Any) -> dict[str, Any]:
    if (seqused_q is None) != (seqused_k is None):
        raise TensorError(f"{of} takes seqused_q and seqused_k, or none of both; the lengths in cu_seqlens would do for the other")
    used = {} if seqused_q is None else {"seqused_q": seqused_q, "seqused_k": seqused_k}
    return {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k, **used}


def _forward(of: str, given: _Given, read: dict[str, Any], lengths: dict[str, Any], most: dict[str, int], return_lse: bool, out: Any,
             lse: Any, device: Any, stream: Any) -> Any:
    out = _like(of, read["q"]) if out is None else out
    with_lse = return_lse or lse is not None
    if with_lse and lse is None:
        lse = _floats(of, read["q"], _lse_shape(located("q", read["q"], of)[1][0]))
    written = {"o": out, **({"lse": lse} if with_lse else {})}
    _launch("attention-forward", of, given, read, {**lengths, **given.tensors()}, written, {"lse": with_lse}, most, device, stream)
    return (out, lse) if return_lse else out


def _backward(of: str, given: _Given, read: dict[str, Any], lengths: dict[str, Any], most: dict[str, int], deterministic: bool,
              made: dict[str, Any], device: Any, stream: Any) -> Any:
    made = {name: _like(of, read[name[1:]]) if tensor is None else tensor for name, tensor in made.items()}
    if given.sink is not None:
        made["dsink"] = _floats(of, given.sink, located("sink", given.sink, of)[1][0])
    _launch("attention-backward", of, given, read, {**lengths, **given.tensors()}, made, {"dq": "ordered" if deterministic else "atomic"},
            most, device, stream)
    return tuple(made.values())


def _launch(name: str, of: str, given: _Given, read: dict[str, Any], more: dict[str, Any], written: dict[str, Any], build: dict[str, Any],
            most: dict[str, int], device: Any, stream: Any) -> None:
    """Check and launch. `read` and `written` are checked against each other; `more` are what kernels read beside."""
    if device is None:
        device = gpu_of(read["q"], of)
    elif not (isinstance(getattr(device, "arch", None), str) and hasattr(device, "launch")):
        raise TensorError(f"device of {of} must be a device of asmgen.launch, got {kind_of(device)}; EmulatedDevice('gfx950') would do")
    if stream is None:  # a copy is made on PyTorch's current one
        read = {one: usable(_CALLED.get(one, one), tensor, of) if one in _ROWS else tensor for one, tensor in read.items()}
    tensors = {**read, **more, **written}
    places = {one: located(_CALLED.get(one, one), tensor, of) for one, tensor in tensors.items()}
    for one, tensor in written.items():
        check_writable(tensor, of)
        shared = next((other for other in {**read, **more} if shares(tensors[other], tensor, places[other], places[one])), None)
        if shared is not None:
            raise TensorError(f"{_CALLED.get(one, one)} of {of} shares elements with {_CALLED.get(shared, shared)}, which workgroups read "
                              "while others write; another tensor would do")
    facts = tuple((one, found) for one, (_, found) in places.items())
    if is_empty(dict(facts)):
        varlen = "cu_seqlens_q" in more
        _check_small(of, dict(facts), {"varlen": varlen}, _sizes(of, dict(facts), varlen)[1])
        write_of_nothing(written, given.sink)
        return
    odd = next((one for one, (address, _) in places.items() if one in _ROWS and (address or 0) % _ALIGNMENT), None)
    if odd is not None:
        raise TensorError(f"{_CALLED.get(odd, odd)} of {of} must begin at a multiple of {_ALIGNMENT} bytes; a contiguous copy would do")
    plan = _plan(name, of, device.arch, facts, tuple(sorted({**given.build(), **build, "varlen": "cu_seqlens_q" in more,
                                                            "padded": "seqused_q" in more}.items())),
                 tuple(sorted({**given.run(), **most}.items())))
    plan.launches.start(device, {**dict.fromkeys(plan.unread, next(iter(written.values()))), **tensors, **plan.numbers}, stream)


@dataclass(frozen=True)
class _Plan:
    """A launch for tensors of one kind, without the pointers; `unread` are those that the kernels do not use."""

    launches: LaunchList
    numbers: Mapping[str, Any]
    unread: tuple[str, ...]


@cache
def _plan(name: str, of: str, arch: str, facts: tuple[tuple[str, Facts], ...], build: tuple[tuple[str, Any], ...],
          run: tuple[tuple[str, Any], ...]) -> _Plan:
    known = dict(facts)
    dtype, sizes = _sizes(of, known, bool(dict(build)["varlen"]))
    chosen, numbers = with_sizes(dict(build), dict(run), sizes)
    values: dict[str, Any] = {**chosen, **numbers, "dtype": dtype, **sizes}
    for one in set(_ROWS) & set(known):
        values |= _strides(one, known[one])
    _check_small(of, known, chosen, sizes)
    library = find_family(name)
    try:
        arch = library.check_arch(arch)
        contract = library.contract(arch, values)
        its = {one.name: values[one.name] for one in contract.parameters if one.kind == "build" and one.name in values}
        resolved = contract.resolve_run(values)
    except ContractError as error:
        raise TensorError(f"{of}: {error.sentence}") from error
    launched = [argument for one in contract.launches for argument in one.given]
    values = {argument.name: resolved[argument.name] for argument in launched if argument.type != "pointer"}
    made = {workspace.name for workspace in contract.workspaces}
    unread = {argument.name for argument in launched if argument.type == "pointer" and argument.name not in known} - made
    return _Plan(launch_list(code_object(library, arch, contract.resolve_build(its)), contract, resolved), values, tuple(sorted(unread)))


def _sizes(of: str, known: Mapping[str, Facts], varlen: bool) -> tuple[str, dict[str, int]]:
    """The type, and sizes as run parameters, that all tensors have in common."""
    axes = "(rows, heads, d)" if varlen else "(batch, rows, heads, d)"
    for one, (shape, strides, dtype) in known.items():
        if one in _ROWS:
            if len(shape) != (3 if varlen else 4) or 0 in shape[-2:]:
                raise TensorError(f"{_CALLED.get(one, one)} of {of} must be {axes}, with 1 head of 1 element or more, got the shape "
                                  f"{list(shape)}")
            if plain_name(dtype) not in _TYPES or dtype != known["q"][2]:
                raise TensorError(f"{_CALLED.get(one, one)} of {of} must be bfloat16 or float16 as q is, got {plain_name(dtype)}")
            if strides[-1] != 1:
                raise TensorError(f"{_CALLED.get(one, one)} of {of} must have a row's elements side by side, got the strides "
                                  f"{list(strides)}")
    (sq, hq, d), (sk, hkv, _) = known["q"][0][-3:], known["k"][0][-3:]
    batch = known["q"][0][:-3]
    for one in known:
        if one in _ROWS:
            wanted = (*batch, sk, hkv, d) if one in _OF_KEYS else (*batch, sq, hq, d)
            if known[one][0] != wanted:
                raise TensorError(f"{_CALLED.get(one, one)} of {of} must be {list(wanted)}, got {list(known[one][0])}")
    b = _sequences(of, known["cu_seqlens_q"][0], sq) if varlen else batch[0]
    return _TYPES[plain_name(known["q"][2])], {"b": b, "hq": hq, "hkv": hkv, "sq": sq, "sk": sk, "d": d}


def _sequences(of: str, shape: tuple[int, ...], rows: int) -> int:
    """How many sequences cu_seqlens_q of this shape cuts the rows of queries into."""
    if len(shape) != 1 or shape[0] < (2 if rows else 1):
        raise TensorError(f"cu_seqlens_q of {of} must be one row of one element more than there are sequences, got the shape "
                          f"{list(shape)}; [0, {rows}] would do for one sequence")
    return shape[0] - 1


def _strides(name: str, facts: Facts) -> dict[str, int]:
    """The strides of a tensor as run parameters; of an axis of one element none, as the contract has one."""
    shape, strides, _ = facts
    return {f"{name}_stride_{letter}": stride for letter, size, stride in zip("bsh"[-len(shape) + 1:], shape, strides, strict=False)
            if size > 1}


def _check_small(of: str, known: Mapping[str, Facts], chosen: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
    """Raises TensorError for another shape or type of what stands beside Q, K and V."""
    b, hq, sq = sizes["b"], sizes["hq"], sizes["sq"]
    wanted: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
        "lse": ((hq, sq) if chosen["varlen"] else (b, hq, sq), ("float32",)), "sink": ((hq,), ("float32",)),
        "dsink": ((hq,), ("float32",)), "rng_state": ((2,), ("uint64", "int64")),
        **{f"cu_seqlens_{side}": ((b + 1,), ("int32",)) for side in "qk"}, **{f"seqused_{side}": ((b,), ("int32",)) for side in "qk"}}
    for name, (shape, types) in wanted.items():
        if name in known:
            found, strides, dtype = known[name]
            dense = tuple(int(np.prod(shape[axis + 1:])) for axis in range(len(shape)))
            apart = [axis for axis, size in enumerate(found) if size > 1 and strides[axis] != dense[axis]] if found == shape else [0]
            if found != shape or plain_name(dtype) not in types or apart:
                raise TensorError(f"{_CALLED.get(name, name)} of {of} must be {' or '.join(types)} {list(shape)} without gaps, got "
                                  f"{plain_name(dtype)} {list(found)} with the strides {list(strides)}")


def _lse_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """That of logarithms for a Q of a shape."""
    return (*shape[:-3], *shape[-3:-1][::-1])


def _like(of: str, tensor: Any) -> Any:
    """A tensor of the kind, shape and type of another one."""
    return _made(of, tensor, located("q", tensor, of)[1][0], None)


def _floats(of: str, tensor: Any, shape: tuple[int, ...]) -> Any:
    """A tensor of float32 of the kind of another one."""
    return _made(of, tensor, shape, "float32")


def _made(of: str, tensor: Any, shape: tuple[int, ...], dtype: str | None) -> Any:
    if isinstance(tensor, np.ndarray):
        return np.empty(shape, tensor.dtype if dtype is None else dtype)
    if hasattr(tensor, "new_empty"):
        if dtype is None:
            return tensor.new_empty(shape)
        import importlib

        return tensor.new_empty(shape, dtype=getattr(importlib.import_module(type(tensor).__module__.partition(".")[0]), dtype))
    raise TensorError(f"what {of} writes must be given where tensors are of type {type(tensor).__name__}")
