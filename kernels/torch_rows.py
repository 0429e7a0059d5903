"""Row kernels as PyTorch operators, with what torch.compile is told of shapes, and with gradients where the library has them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

DeviceOf = Callable[[Any], Any]
_FUNCTIONS = "asmgen.kernels.{}.functions"
"""Loaded by name, as families are: they import what stands beside this file."""


def define(torch: Any, device: DeviceOf) -> None:
    """Define the operators; `device` says where a tensor's kernels run."""
    _norms(torch, device)
    for kind in ("layer", "rms"):
        _added_norm(torch, device, kind)
    _softmax(torch, device)
    _activation(torch, device)
    _rope(torch, device)
    _quantize(torch, device)


def _operator(torch: Any, name: str, schema: str, run: Callable[..., Any], shapes: Callable[..., Any]) -> Any:
    made = torch.library.custom_op(f"asmgen::{name}", run, mutates_args=(), schema=schema)
    made.register_fake(shapes)
    return made


def _norms(torch: Any, device: DeviceOf) -> None:
    norm: Any = import_module(_FUNCTIONS.format("norm"))
    def layer_back(dy: Any, x: Any, weight: Any, eps: float) -> Any:
        """dx, dw and db. Mean and rstd are made again, so that nothing but x is kept."""
        _, mean, rstd = norm.layer(x, weight, None, eps, return_stats=True, device=device(x))
        return norm.backward(dy, x, rstd, weight, mean, bias=True, device=device(x))

    def rms_back(dy: Any, x: Any, weight: Any, eps: float) -> Any:
        _, rstd = norm.rms(x, weight, eps, return_stats=True, device=device(x))
        return norm.backward(dy, x, rstd, weight, device=device(x))

    def of_columns(dy: Any, x: Any, weight: Any, eps: float, count: int) -> tuple[Any, ...]:
        return (x.new_empty(x.shape), *(x.new_empty(x.shape[-1:]) for _ in range(count)))

    after_layer = _operator(torch, "layer_norm_backward", "(Tensor dy, Tensor x, Tensor? weight, float eps) -> (Tensor, Tensor, Tensor)",
                            layer_back, lambda dy, x, weight, eps: of_columns(dy, x, weight, eps, 2))
    after_rms = _operator(torch, "rms_norm_backward", "(Tensor dy, Tensor x, Tensor? weight, float eps) -> (Tensor, Tensor)", rms_back,
                          lambda dy, x, weight, eps: of_columns(dy, x, weight, eps, 1))
    layer = _operator(torch, "layer_norm", "(Tensor x, Tensor? weight=None, Tensor? bias=None, float eps=1e-5) -> Tensor",
                      lambda x, weight=None, bias=None, eps=1e-5: norm.layer(x, weight, bias, eps, device=device(x)),
                      lambda x, weight=None, bias=None, eps=1e-5: x.new_empty(x.shape))
    rms = _operator(torch, "rms_norm", "(Tensor x, Tensor? weight=None, float eps=1e-6) -> Tensor",
                    lambda x, weight=None, eps=1e-6: norm.rms(x, weight, eps, device=device(x)),
                    lambda x, weight=None, eps=1e-6: x.new_empty(x.shape))

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.eps, ctx.has = inputs[-1], [one is not None for one in inputs[1:-1]]

    def gradients(after: Any) -> Callable[..., tuple[Any, ...]]:
        def back(ctx: Any, dy: Any) -> tuple[Any, ...]:
            dx, *further = after(dy.contiguous(), *ctx.saved_tensors, ctx.eps)
            return (dx, *(one if has else None for one, has in zip(further, ctx.has, strict=True)), None)
        return back

    layer.register_autograd(gradients(after_layer), setup_context=keep)
    rms.register_autograd(gradients(after_rms), setup_context=keep)
    _operator(torch, "add_rms_norm", "(Tensor x, Tensor residual, Tensor? weight=None, float eps=1e-6) -> (Tensor, Tensor)",
              lambda x, residual, weight=None, eps=1e-6: norm.rms(x, weight, eps, residual, device=device(x)),
              lambda x, residual, weight=None, eps=1e-6: (x.new_empty(x.shape), x.new_empty(x.shape)))


def _added_norm(torch: Any, device: DeviceOf, kind: str) -> None:
    """flash-attn's dropout_add_layer_norm and dropout_add_rms_norm: out, the sum that was normalised, mean (of layer) and rstd."""
    norm: Any = import_module(_FUNCTIONS.format("norm"))
    layer = kind == "layer"
    figures, sums = (2, 2) if layer else (1, 1)

    def forward(x: Any, residual: Any, weight: Any, *further: Any) -> Any:
        bias, (p, seed, offset, eps) = (further[0] if layer else None), further[-4:]
        named = {"eps": eps, "residual": residual, "dropout_p": p, "seed": seed, "offset": offset, "return_stats": True}
        return norm.layer(x, weight, bias, device=device(x), **named) if layer else norm.rms(x, weight, device=device(x), **named)

    def after(dy: Any, dr: Any, r: Any, weight: Any, mean: Any, rstd: Any, p: float, seed: int, offset: int) -> Any:
        """dx, dresidual, dw and, of layer, db."""
        found = norm.backward(dy, r, rstd, weight, mean, residual=dr, bias=layer, dropout_p=p, seed=seed, offset=offset,
                              return_dresidual=p > 0, device=device(r))
        dx, added, of_columns = found[0], found[-1] if p > 0 else found[0].clone(), found[1:1 + sums]
        return dx, added, *of_columns

    def like(x: Any, *further: Any) -> tuple[Any, ...]:
        rows = x.new_empty(x.shape[:-1]).numel()
        return x.new_empty(x.shape), x.new_empty(x.shape), *(x.new_empty((rows,), dtype=torch.float32) for _ in range(figures))

    bias = ", Tensor? bias" if layer else ""
    made = _operator(torch, f"dropout_add_{kind}_norm", f"(Tensor x, Tensor residual, Tensor? weight{bias}, float dropout_p, int seed, int "
                     f"offset, float eps) -> ({', '.join(['Tensor'] * (2 + figures))})", forward, like)
    back = _operator(torch, f"dropout_add_{kind}_norm_backward", "(Tensor dy, Tensor dr, Tensor r, Tensor? weight, Tensor? mean, Tensor "
                     f"rstd, float dropout_p, int seed, int offset) -> ({', '.join(['Tensor'] * (2 + sums))})", after,
                     lambda dy, dr, r, *further: (r.new_empty(r.shape), r.new_empty(r.shape),
                                                  *(r.new_empty(r.shape[-1:]) for _ in range(sums))))

    def keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.save_for_backward(inputs[2], output[1], *output[2:])
        ctx.draws, ctx.has = inputs[-4:-1], [one is not None for one in inputs[2:-4]]

    def gradients(ctx: Any, dy: Any, dr: Any, *further: Any) -> tuple[Any, ...]:
        weight, r, *stats = ctx.saved_tensors
        mean, rstd = stats if layer else (None, *stats)
        dx, dresidual, *of_columns = back(dy.contiguous(), dr.contiguous(), r, weight, mean, rstd, *ctx.draws)
        return dx, dresidual, *(one if has else None for one, has in zip(of_columns, ctx.has, strict=True)), *[None] * 4

    made.register_autograd(gradients, setup_context=keep)


def _softmax(torch: Any, device: DeviceOf) -> None:
    softmax: Any = import_module(_FUNCTIONS.format("softmax"))
    back = _operator(torch, "softmax_backward", "(Tensor y, Tensor dy, bool log=False) -> Tensor",
                     lambda y, dy, log=False: softmax.backward(y, dy, log, device=device(y)), lambda y, dy, log=False: y.new_empty(y.shape))
    forward = _operator(torch, "softmax", "(Tensor x, bool log=False, bool causal=False) -> Tensor",
                        lambda x, log=False, causal=False: softmax.apply(x, log, "causal" if causal else "none", device=device(x)),
                        lambda x, log=False, causal=False: x.new_empty(x.shape))

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(output)
        ctx.log = inputs[1]

    forward.register_autograd(lambda ctx, dy: (back(ctx.saved_tensors[0], dy.contiguous(), ctx.log), None, None), setup_context=keep)


def _activation(torch: Any, device: DeviceOf) -> None:
    activation: Any = import_module(_FUNCTIONS.format("activation"))

    def apply(x: Any, up: Any = None, kind: str = "silu", approximate: str = "none", limit: float = -1.0) -> Any:
        return activation.apply(x, kind, up, approximate, limit, device=device(x))

    def after(dy: Any, x: Any, up: Any, kind: str, approximate: str, limit: float) -> Any:
        """dx and dup, which has no elements where there is no up: an operator's results are fixed in number."""
        found = activation.backward(dy, x, kind, up, approximate, limit, device=device(x))
        return found if up is not None else (found, x.new_empty((0,)))

    made = _operator(torch, "activation", "(Tensor x, Tensor? up=None, str kind='silu', str approximate='none', float limit=-1.0) -> "
                     "Tensor", apply, lambda x, *further, **named: x.new_empty(x.shape))
    back = _operator(torch, "activation_backward", "(Tensor dy, Tensor x, Tensor? up, str kind, str approximate, float limit) -> (Tensor, "
                     "Tensor)", after, lambda dy, x, up, *further: (x.new_empty(x.shape), x.new_empty((0,) if up is None else up.shape)))
    _operator(torch, "silu_and_mul", "(Tensor x) -> Tensor", lambda x: activation.apply(x, gated=True, device=device(x)),
              lambda x: x.new_empty((*x.shape[:-1], x.shape[-1] // 2)))

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.further = inputs[2:]

    def gradients(ctx: Any, dy: Any) -> tuple[Any, ...]:
        x, up = ctx.saved_tensors
        dx, dup = back(dy.contiguous(), x, up, *ctx.further)
        return dx, dup if up is not None else None, *[None] * 3

    made.register_autograd(gradients, setup_context=keep)


_ANGLES = "Tensor? cos=None, Tensor? sin=None, Tensor? positions=None, str style='neox', str layout='bshd', bool backward=False, " \
    "float theta=10000.0, int rotated=0, bool nope_first=False, Tensor? offsets=None, Tensor? cu_seqlens=None, int max_s=0"
"""Of rope's operators, in this order."""
_OF_ANGLES = ("cos", "sin", "positions", "style", "layout", "backward", "theta", "rotated", "nope_first", "offsets", "cu_seqlens", "max_s")


def _rope(torch: Any, device: DeviceOf) -> None:
    rope: Any = import_module(_FUNCTIONS.format("rope"))

    def one(x: Any, *angles: Any, **named: Any) -> Any:
        return rope.apply(x, **dict(zip(_OF_ANGLES, angles, strict=False)), **named, device=device(x))

    def two(q: Any, k: Any, *angles: Any, **named: Any) -> Any:
        return rope.apply(q, x2=k, **dict(zip(_OF_ANGLES, angles, strict=False)), **named, device=device(q))

    def into_cache(q: Any, k: Any, v: Any, key_cache: Any, value_cache: Any, slot_mapping: Any, q_weight: Any = None, k_weight: Any = None,
                   eps: float = 1e-6, *further: Any, **named: Any) -> Any:
        y, _ = rope.apply(q, x2=k, v=v, out2=key_cache, v_cache=value_cache, slot_mapping=slot_mapping, weight=q_weight, weight2=k_weight,
                          eps=eps, **dict(zip((*_OF_ANGLES, "k_scale", "v_scale"), further, strict=False)), **named, device=device(q))
        return y

    single = _operator(torch, "rope", f"(Tensor x, {_ANGLES}) -> Tensor", one, lambda x, *angles, **named: x.new_empty(x.shape))
    both = _operator(torch, "rope_qk", f"(Tensor q, Tensor k, {_ANGLES}) -> (Tensor, Tensor)", two,
                     lambda q, k, *angles, **named: (q.new_empty(q.shape), k.new_empty(k.shape)))
    filled = torch.library.custom_op(
        "asmgen::rope_and_cache", into_cache, mutates_args=("key_cache", "value_cache"),
        schema="(Tensor q, Tensor k, Tensor v, Tensor(a!) key_cache, Tensor(b!) value_cache, Tensor slot_mapping, Tensor? q_weight=None, "
               f"Tensor? k_weight=None, float eps=1e-6, {_ANGLES}, Tensor? k_scale=None, Tensor? v_scale=None) -> Tensor")
    filled.register_fake(lambda q, *further, **named: q.new_empty(q.shape))

    def keep(count: int) -> Callable[..., None]:
        def of_inputs(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            angles = dict(zip(_OF_ANGLES, inputs[count:], strict=True))
            ctx.held = [name for name, value in angles.items() if hasattr(value, "shape")]
            ctx.save_for_backward(*(angles[name] for name in ctx.held))
            ctx.further = {name: value for name, value in angles.items() if name not in ctx.held}
        return of_inputs

    def back(made: Any) -> Callable[..., tuple[Any, ...]]:
        def gradient(ctx: Any, *dy: Any) -> tuple[Any, ...]:
            angles = {**ctx.further, **dict(zip(ctx.held, ctx.saved_tensors, strict=True))}
            angles["backward"] = not angles["backward"]
            found = made(*(one.contiguous() for one in dy), *(angles[name] for name in _OF_ANGLES))
            return (*(found if len(dy) > 1 else (found,)), *[None] * len(_OF_ANGLES))
        return gradient

    single.register_autograd(back(single), setup_context=keep(1))
    both.register_autograd(back(both), setup_context=keep(2))


def _quantize(torch: Any, device: DeviceOf) -> None:
    """A scale that is given, of group tensor, comes back as a copy: results of operators are no arguments."""
    quantize: Any = import_module(_FUNCTIONS.format("quantize"))

    def shapes(x: Any, to: str = "fp8", group: str = "auto", rounding: str = "even", layout: str = "plain", scale: Any = None,
               smooth: Any = None) -> tuple[Any, Any]:
        made = quantize.shapes_of(x.shape, to, group, layout, quantize.architecture_of(x))
        d, found = (x.new_empty(shape, dtype=getattr(torch, kind)) for shape, kind in made)
        return d, found if scale is None else scale.new_empty(scale.shape)

    def run(x: Any, to: str = "fp8", group: str = "auto", rounding: str = "even", layout: str = "plain", scale: Any = None,
            smooth: Any = None) -> tuple[Any, Any]:
        d, found = quantize.to(x, to, group, rounding, layout, scale, smooth, device=device(x))
        return d, found if scale is None else scale.clone()

    _operator(torch, "quantize", "(Tensor x, str to='fp8', str group='auto', str rounding='even', str layout='plain', Tensor? scale=None, "
              "Tensor? smooth=None) -> (Tensor, Tensor)", run, shapes)

    def both_shapes(x: Any, to: str = "mxfp8", rounding: str = "even", layout: str = "plain", group: str = "auto",
                    scale: Any = None) -> tuple[Any, ...]:
        _, scale_t = shapes(x.new_empty((x.shape[-1], x.shape[-2])), to, group, rounding, layout, scale)
        d_t, kind = quantize.shape_of_transpose(x.shape, to, quantize.architecture_of(x))
        return *shapes(x, to, group, rounding, layout, scale), x.new_empty(d_t, dtype=getattr(torch, kind)), scale_t

    def both(x: Any, to: str = "mxfp8", rounding: str = "even", layout: str = "plain", group: str = "auto",
             scale: Any = None) -> tuple[Any, ...]:
        d, found, d_t, found_t = quantize.to(x, to, group, rounding, layout, scale, columnwise=True, device=device(x))
        return (d, found, d_t, found_t) if scale is None else (d, scale.clone(), d_t, scale.clone())

    _operator(torch, "quantize_both_ways", "(Tensor x, str to='mxfp8', str rounding='even', str layout='plain', str group='auto', Tensor? "
              "scale=None) -> (Tensor, Tensor, Tensor, Tensor)", both, both_shapes)
