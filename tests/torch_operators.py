"""The library's operators under PyTorch itself, on the emulator: `make test-torch`. `make test` has no PyTorch and leaves them out.

`opcheck` holds each operator to its schema, its fake kernel to its results, and its gradients to what torch.compile needs; values and
gradients are compared with PyTorch's own functions in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import asmgen.kernels.torch_ops  # noqa: F401  defines the operators

OPS = torch.ops.asmgen
BF16 = torch.bfloat16


def drawn(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0, grad: bool = False) -> torch.Tensor:
    made = torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)
    return made.requires_grad_(grad)


def whole(*shape: int, dtype: torch.dtype, most: int = 1 << 30) -> torch.Tensor:
    return (torch.arange(torch.Size(shape).numel()) % most).reshape(shape).to(dtype)


def heads(count: int, dtype: torch.dtype = BF16, grad: bool = False) -> list[torch.Tensor]:
    return [drawn(1, 32, count, 128, dtype=dtype, seed=number, grad=grad) for number in range(3)]


X, W, B = drawn(3, 40), drawn(40), drawn(40, seed=1)
TABLE = [torch.rand(5, 16), torch.rand(5, 16)]
STARTS = torch.tensor([0, 20, 32], dtype=torch.int32)
EIGHTS, SCALES = drawn(24, 64).to(torch.float8_e4m3fn), (torch.rand(24, 1), torch.rand(1, 24))
RANDOM = torch.tensor([5, 7])
COMPARED = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
SAMPLES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("layer_norm", (drawn(3, 40, grad=True), W, B), {}),
    ("layer_norm", (drawn(2, 3, 41, dtype=BF16),), {}),
    ("layer_norm_backward", (X, X, W, 1e-5), {}),
    ("rms_norm", (drawn(3, 40, grad=True), drawn(40, grad=True)), {}),
    ("rms_norm_backward", (X, X, None, 1e-6), {}),
    ("add_rms_norm", (X, drawn(3, 40, seed=2), W), {}),
    ("dropout_add_layer_norm", (drawn(3, 40, grad=True), drawn(3, 40, seed=2, grad=True), W, B, 0.25, 3, 9, 1e-5), {}),
    ("dropout_add_rms_norm", (drawn(3, 40, grad=True), drawn(3, 40, seed=2), None, 0.0, 0, 0, 1e-6), {}),
    ("dropout_add_layer_norm_backward", (X, X, X, W, drawn(3), torch.rand(3) + 0.5, 0.25, 3, 9), {}),
    ("dropout_add_rms_norm_backward", (X, X, X, W, None, torch.rand(3) + 0.5, 0.0, 0, 0), {}),
    ("softmax", (drawn(3, 40, grad=True),), {}),
    ("softmax", (drawn(2, 4, 7, dtype=BF16), True, True), {}),
    ("softmax_backward", (torch.softmax(X, -1), X), {}),
    ("activation", (drawn(3, 40, grad=True),), {"kind": "gelu"}),
    ("activation", (drawn(3, 40, grad=True), drawn(3, 40, seed=3, grad=True)), {"kind": "swiglu"}),
    ("activation_backward", (X, X, None, "silu", "none", -1.0), {}),
    ("silu_and_mul", (X,), {}),
    ("rope", (drawn(2, 5, 3, 64, grad=True), *TABLE), {}),
    ("rope", (drawn(9, 2, 64),), {"layout": "thd", "cu_seqlens": torch.tensor([0, 4, 9], dtype=torch.int32), "max_s": 5}),
    ("rope_qk", (drawn(2, 5, 3, 64, grad=True), drawn(2, 5, 1, 64, grad=True), *TABLE, whole(2, 5, dtype=torch.int32, most=5)), {}),
    ("rope_and_cache", (drawn(1, 5, 3, 64), drawn(1, 5, 1, 64), drawn(1, 5, 1, 64, seed=1), torch.zeros(8, 1, 64), torch.zeros(8, 1, 64),
                        whole(1, 5, dtype=torch.int32), None, None, 1e-6, *TABLE), {}),
    ("rope_and_cache", (drawn(1, 5, 3, 64), drawn(1, 5, 1, 64), drawn(1, 5, 1, 64, seed=1), *(torch.zeros(8, 1, 64, dtype=torch.uint8)
                        for _ in range(2)), whole(1, 5, dtype=torch.int64)),
     {"k_scale": torch.tensor([0.05]), "v_scale": torch.tensor([0.1]), "theta": 500.0}),
    ("quantize", (drawn(3, 64),), {}),
    ("quantize", (drawn(32, 64), "mxfp4", "auto", "even", "shuffled"), {}),  # scales of rows up to 32 that are none stay as they were
    ("quantize", (drawn(3, 64, dtype=BF16), "int8", "tensor"), {"scale": torch.tensor([0.05])}),
    ("quantize", (drawn(3, 256), "fp8", "128"), {"smooth": torch.rand(256) + 0.5}),
    ("quantize_both_ways", (drawn(5, 64),), {}),
    ("quantize_both_ways", (drawn(5, 160), "fp8"), {"group": "128"}),
    ("quantize_both_ways", (drawn(5, 64), "int8"), {"group": "tensor", "scale": torch.tensor([0.05])}),
    ("gemm_bf16", (drawn(40, 64, dtype=BF16), drawn(24, 64, dtype=BF16)), {}),
    ("gemm_bf16_out", (drawn(40, 64, dtype=BF16), drawn(24, 64, dtype=BF16), torch.zeros(40, 24, dtype=BF16)), {}),
    ("gemm_mx", (drawn(16, 64, dtype=BF16), None, torch.full((16, 32), 0x22, dtype=torch.uint8),
                 torch.full((16, 2), 126, dtype=torch.uint8)), {}),
    ("gemm_mx", (torch.full((16, 48), 0x22, dtype=torch.uint8), None, torch.full((16, 48), 0x22, dtype=torch.uint8), None),
     {"a_dtype": "fp6", "b_dtype": "bf6", "fp6_storage": "planes", "c": drawn(16, 16, dtype=BF16), "bias": drawn(16, dtype=BF16),
      "alpha": 0.5, "beta": 2.0}),
    ("gemm_mx_out", (drawn(16, 64, dtype=BF16), None, torch.full((16, 32), 0x22, dtype=torch.uint8),
                     torch.full((16, 2), 126, dtype=torch.uint8), torch.zeros(16, 16, dtype=BF16)), {}),
    ("matmul", (drawn(2, 40, 64, dtype=BF16), drawn(64, 24, dtype=BF16)), {}),
    ("matmul", (EIGHTS, EIGHTS.T, *SCALES, drawn(24, dtype=BF16)), {"c": drawn(24, 24, dtype=BF16), "beta": 2.0}),
    ("gemm_fp8", (EIGHTS, EIGHTS, *SCALES), {"alpha": 0.5}),
    ("gemm_fp8_out", (drawn(2, 8, 64).to(torch.float8_e5m2fnuz), drawn(24, 64).to(torch.float8_e4m3fnuz), torch.zeros(2, 8, 24)), {}),
    ("attention", tuple(heads(1, grad=True)), {"causal": True}),
    ("attention", tuple(heads(2)), {"sink": drawn(2), "dropout_p": 0.25, "rng_state": RANDOM}),
    ("attention_varlen", (*(drawn(32, 1, 128, dtype=BF16, seed=number) for number in range(3)), STARTS, STARTS, 20, 20), {}),
]


@pytest.mark.parametrize("number", range(len(SAMPLES)), ids=[f"{number}-{one[0]}" for number, one in enumerate(SAMPLES)])
def test_operators_are_what_pytorch_is_told(number: int) -> None:
    name, args, named = SAMPLES[number]
    eight = any(isinstance(one, torch.Tensor) and "float8" in str(one.dtype) for one in args)
    checks = COMPARED[1:] if eight else COMPARED  # PyTorch's check of a schema subtracts what is read, and it cannot subtract float8
    torch.library.opcheck(getattr(OPS, name).default, args, named, test_utils=checks)


def test_every_operator_has_a_sample() -> None:
    names = [one for one in torch._C._dispatch_get_all_op_names() if one.startswith("asmgen::")]
    defined = {one.removeprefix("asmgen::").split(".")[0] for one in names}
    by_their_forward_ones = {"attention_backward", "attention_varlen_backward"}
    assert defined - {one[0] for one in SAMPLES} == by_their_forward_ones


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    c, s = cos[:, None], sin[:, None]
    one, other, rest = x[..., :16], x[..., 16:32], x[..., 32:]
    return torch.cat([one * c - other * s, other * c + one * s, rest], -1)


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = True) -> torch.Tensor:
    q, k, v = (one.float().transpose(1, 2) for one in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2)


GRADIENTS: list[tuple[Callable[..., Any], Callable[..., Any], list[torch.Tensor], float]] = [
    (OPS.layer_norm, lambda x, w, b: F.layer_norm(x, (40,), w, b), [X, W, B], 2e-5),
    (OPS.rms_norm, lambda x, w: F.rms_norm(x, (40,), w, 1e-6), [X, W], 2e-5),
    (lambda x, r, w, b: OPS.dropout_add_layer_norm(x, r, w, b, 0.0, 0, 0, 1e-5)[:2],
     lambda x, r, w, b: (F.layer_norm(x + r, (40,), w, b), x + r), [X, drawn(3, 40, seed=4), W, B], 2e-5),
    (lambda x, r, w: OPS.dropout_add_rms_norm(x, r, w, 0.0, 0, 0, 1e-6)[:2],
     lambda x, r, w: (F.rms_norm(x + r, (40,), w, 1e-6), x + r), [X, drawn(3, 40, seed=4), W], 2e-5),
    (OPS.softmax, lambda x: torch.softmax(x, -1), [X], 1e-6),
    (lambda x: OPS.softmax(x, True), lambda x: torch.log_softmax(x, -1), [X], 1e-5),
    (lambda x: OPS.softmax(x, False, True), lambda x: torch.softmax(x.masked_fill(torch.ones(7, 7).triu(1) > 0, -torch.inf), -1),
     [drawn(2, 7, 7)], 1e-6),
    (OPS.activation, F.silu, [X], 1e-5),
    (lambda x, up: OPS.activation(x, up, "gelu"), lambda x, up: F.gelu(x) * up, [X, drawn(3, 40, seed=5)], 1e-5),
    (lambda x, up: OPS.activation(x, up, "swiglu"), lambda x, up: x * torch.sigmoid(1.702 * x) * (up + 1), [X, drawn(3, 40, seed=5)], 1e-5),
    (lambda x: OPS.rope(x, *TABLE), lambda x: rotated(x, *TABLE), [drawn(2, 5, 3, 64)], 1e-6),
    (lambda q, k: OPS.rope_qk(q, k, *TABLE), lambda q, k: (rotated(q, *TABLE), rotated(k, *TABLE)),
     [drawn(2, 5, 3, 64), drawn(2, 5, 1, 64)], 1e-6),
    (lambda q, k, v: OPS.attention(q, k, v, causal=True)[0], attended, heads(2), 3e-2),
]


@pytest.mark.parametrize("number", range(len(GRADIENTS)))
def test_values_and_gradients_are_those_of_pytorch(number: int) -> None:
    """Of each result an own random gradient arrives."""
    ours, theirs, given, error = GRADIENTS[number]
    found, expected = [], []
    for function, into in ((ours, found), (theirs, expected)):
        inputs = [one.detach().clone().requires_grad_() for one in given]
        results = function(*inputs)
        results = results if isinstance(results, tuple) else (results,)
        sum((one.float() * drawn(*one.shape, seed=9)).sum() for one in results).backward()
        into += [*(one.detach().float() for one in results), *(one.grad.float() for one in inputs)]
    for one, other in zip(found, expected, strict=True):
        assert (one - other).abs().max() <= error * max(1.0, float(other.abs().max()))


def test_dropout_of_the_gradient_is_that_of_the_result() -> None:
    x, residual, dy = drawn(4, 64, grad=True), torch.zeros(4, 64), drawn(4, 64, seed=6)
    _, r, *_ = OPS.dropout_add_rms_norm(x, residual, None, 0.5, 11, 13, 1e-6)
    r.backward(dy)
    assert 0 < int((r == 0).sum()) < r.numel() and torch.equal(x.grad == 0, r == 0)
    torch.testing.assert_close(x.grad, torch.where(r == 0, 0.0, 2 * dy))


def test_a_compiled_graph_keeps_operators_whole() -> None:
    graphs: list[Any] = []

    def kept(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(lambda x: torch.relu(OPS.rms_norm(OPS.silu_and_mul(x))), backend=kept, fullgraph=True)
    x = drawn(3, 80)
    torch.testing.assert_close(compiled(x), torch.relu(F.rms_norm(F.silu(x[:, :40]) * x[:, 40:], (40,), None, 1e-6)), rtol=1e-4, atol=1e-5)
    names = [str(node.target).removesuffix(".default") for node in graphs[0].graph.nodes]
    assert [name for name in names if "asmgen" in name] == ["asmgen.silu_and_mul", "asmgen.rms_norm"]
