"""Attention as PyTorch operators with gradients; torch_ops.py defines them.

    out, lse = torch.ops.asmgen.attention(q, k, v, causal=True)
    out, lse = torch.ops.asmgen.attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    dq, dk, dv, dsink = torch.ops.asmgen.attention_backward(dout, q, k, v, out, lse)

Arguments mean what they mean in `asmgen.kernels.attention`. A window's sides are two numbers. Seed and offset of dropout are `rng_state`,
two int64 on the device, so that a compiled graph draws anew. `dsink` has no elements where there is no sink. Logarithms have no gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from asmgen.kernels import attention

_OPTIONS = ("float dropout_p=0.0, float? softmax_scale=None, bool causal=False, int window_left=-1, int window_right=-1, "
            "Tensor? sink=None, Tensor? rng_state=None, bool deterministic=False")
_LENGTHS = "Tensor cu_seqlens_q, Tensor cu_seqlens_k, int max_seqlen_q, int max_seqlen_k, "
_READ = "Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, "
_NAMES = ("dropout_p", "softmax_scale", "causal", "window_left", "window_right", "sink", "rng_state", "deterministic")
_DEFAULTS = (0.0, None, False, -1, -1, None, None, False)
_TENSORS = 3  # q, k, v
_AFTER = 2  # out and lse, after q, k and v
DeviceOf = Callable[[Any], Any]


def register(torch: Any, device_of: DeviceOf) -> None:
    """Define the operators; `device_of` gives the device of a tensor."""
    for suffix, lengths, run, back in (("", "", attention.forward, attention.backward),
                                       ("_varlen", _LENGTHS, attention.forward_varlen, attention.backward_varlen)):
        between = lengths.count("Tensor ") + lengths.count("int ")
        forward = torch.library.custom_op(f"asmgen::attention{suffix}", _forward(run, between, device_of), mutates_args=(),
                                          schema=f"(Tensor q, Tensor k, Tensor v, {lengths}{_OPTIONS}) -> (Tensor, Tensor)")
        forward.register_fake(_shapes(torch))
        backward = torch.library.custom_op(f"asmgen::attention{suffix}_backward", _backward(torch, back, between, device_of),
                                           mutates_args=(), schema=f"({_READ}{lengths}{_OPTIONS}) -> (Tensor, Tensor, Tensor, Tensor)")
        backward.register_fake(_gradient_shapes(torch, between))
        forward.register_autograd(_gradients(backward, between), setup_context=_keep)


def _options(positional: Sequence[Any], named: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """The options as arguments of the functions, and whether gradients are to have the same bits each time."""
    values = {**dict(zip(_NAMES, _DEFAULTS, strict=True)), **dict(zip(_NAMES, positional, strict=False)), **named}
    window = values.pop("window_left"), values.pop("window_right")
    deterministic = values.pop("deterministic")
    return {**values, "window_size": window}, deterministic


def _forward(run: Any, between: int, device_of: DeviceOf) -> Any:
    def forward(*args: Any, **named: Any) -> Any:
        options, _ = _options(args[_TENSORS + between:], named)
        return run(*args[:_TENSORS + between], **options, return_lse=True, device=device_of(args[0]))

    return forward


def _backward(torch: Any, run: Any, between: int, device_of: DeviceOf) -> Any:
    first = 2 * _TENSORS

    def backward(*args: Any, **named: Any) -> Any:
        options, deterministic = _options(args[first + between:], named)
        found = run(*args[:first + between], **options, deterministic=deterministic, device=device_of(args[0]))
        return found if len(found) > _TENSORS else (*found, _no_elements(torch, args[1]))

    return backward


def _no_elements(torch: Any, like: Any) -> Any:
    return like.new_empty((0,), dtype=torch.float32)


def _shapes(torch: Any) -> Any:
    def shapes(q: Any, *args: Any, **named: Any) -> Any:
        return q.new_empty(q.shape), q.new_empty((*q.shape[:-3], q.shape[-2], q.shape[-3]), dtype=torch.float32)

    return shapes


def _gradient_shapes(torch: Any, between: int) -> Any:
    def shapes(dout: Any, q: Any, k: Any, v: Any, *args: Any, **named: Any) -> Any:
        options, _ = _options(args[_AFTER + between:], named)
        sink = options["sink"]
        of_sink = _no_elements(torch, q) if sink is None else sink.new_empty(sink.shape)
        return (*(one.new_empty(one.shape) for one in (q, k, v)), of_sink)

    return shapes


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    """Tensors are kept as PyTorch wants it; the others stand between them."""
    every = (*inputs, *output)
    ctx.save_for_backward(*(one for one in every if hasattr(one, "new_empty")))
    ctx.others = [None if hasattr(one, "new_empty") else (one,) for one in every]


def _kept(ctx: Any) -> list[Any]:
    tensors = iter(ctx.saved_tensors)
    return [next(tensors) if other is None else other[0] for other in ctx.others]


def _gradients(backward: Any, between: int) -> Any:
    def gradients(ctx: Any, dout: Any, dlse: Any) -> Any:
        q, k, v, *more, out, lse = _kept(ctx)
        lengths, options = more[:between], more[between:]
        dq, dk, dv, dsink = backward(dout.contiguous(), q, k, v, out, lse, *lengths, *options)
        of_options: list[Any] = [None] * len(options)
        sink = _NAMES.index("sink")
        if sink < len(options) and options[sink] is not None:
            of_options[sink] = dsink
        return (dq, dk, dv, *[None] * between, *of_options)

    return gradients
