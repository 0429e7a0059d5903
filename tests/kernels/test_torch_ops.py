"""PyTorch operators of the library on a stand-in for torch: schemas, what torch.compile is told of shapes, and values on host tensors."""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from asmgen.isa.errors import AsmgenError
from tests.launch.test_launch_values import TorchTensor, first_declared


class Operator:
    """What `custom_op` returns."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __call__(self, *args: Any) -> Any:
        return self.held.run(*args)

    def register_fake(self, shapes: Any) -> None:
        self.held.shapes = shapes

    def register_autograd(self, gradients: Any, setup_context: Any) -> None:
        self.held.gradients, self.held.keep = gradients, setup_context


def stand_in() -> tuple[Any, dict[str, Any]]:
    ops: dict[str, Any] = {}

    def custom_op(name: str, run: Any, mutates_args: tuple[str, ...], schema: str) -> Any:
        assert "Tensor" not in schema.partition(" -> ")[0].partition("*,")[2], f"PyTorch refuses tensors by name alone: {schema}"
        ops[name] = SimpleNamespace(run=run, mutates=mutates_args, schema=schema)
        return Operator(ops[name])

    return SimpleNamespace(library=SimpleNamespace(custom_op=custom_op), float32="float32", bfloat16=ml_dtypes.bfloat16), ops


def test_operators_are_defined_and_right(monkeypatch: pytest.MonkeyPatch) -> None:
    torch, ops = stand_in()
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delitem(sys.modules, "asmgen.kernels.torch_ops", raising=False)
    monkeypatch.setattr("asmgen.kernels.productplan.choose", first_declared)
    importlib.import_module("asmgen.kernels.torch_ops")
    product, into = ops["asmgen::gemm_bf16"], ops["asmgen::gemm_bf16_out"]
    assert (product.mutates, into.mutates) == ((), ("out",)) and into.schema == "(Tensor a, Tensor b, Tensor(a!) out) -> ()"
    scaled, scaled_into = ops["asmgen::gemm_mx"], ops["asmgen::gemm_mx_out"]
    assert (scaled.mutates, scaled_into.mutates) == ((), ("out",)) and ", Tensor(a!) out, Tensor? c=None" in scaled_into.schema
    ones = TorchTensor(np.ones((3, 64), ml_dtypes.bfloat16))
    codes, halves = TorchTensor(np.full((16, 32), 0x22, np.uint8)), TorchTensor(np.full((16, 2), 126, np.uint8))  # 1.0 and 2^-1
    written = ones.new_empty((3, 16))
    scaled_into.run(ones, None, codes, halves, written)
    assert (written.array == 32).all() and scaled.shapes(ones, None, codes, halves).shape == (3, 16)
    assert (scaled.run(ones, None, codes, halves).array == 32).all()
    rng = np.random.default_rng(3)
    a, b = (TorchTensor(rng.standard_normal((rows, 64)).astype(ml_dtypes.bfloat16)) for rows in (40, 24))
    assert product.shapes(a, b).shape == (40, 24)
    expected = a.array.astype(np.float64) @ b.array.astype(np.float64).T
    out = a.new_empty((40, 24))
    into.run(a, b, out)
    for found in (product.run(a, b), out):
        assert found.shape == (40, 24) and np.abs(found.array.astype(np.float64) - expected).max() < 0.2
    eights, eights_into, general = (ops[f"asmgen::{name}"] for name in ("gemm_fp8", "gemm_fp8_out", "matmul"))
    assert (eights.mutates, eights_into.mutates, general.schema) == ((), ("out",), eights.schema)
    a, b = (TorchTensor(rng.standard_normal((rows, 64)).astype(ml_dtypes.float8_e4m3fnuz)) for rows in (20, 24))
    scale, bias = TorchTensor(np.float32([0.5])), TorchTensor(np.arange(24).astype(ml_dtypes.bfloat16))
    expected = 0.5 * a.array.astype(np.float64) @ b.array.astype(np.float64).T + np.arange(24)
    out = a.new_empty((20, 24), ml_dtypes.bfloat16)
    eights_into.run(a, b, out, scale, TorchTensor(np.float32([1])), bias, alpha=1.0)
    assert np.abs(out.array.astype(np.float64) - expected).max() < 0.2
    for made in (eights.shapes(a, b, scale), general.shapes(a, b.transpose(0, 1), scale)):
        assert made.shape == (20, 24) and made.dtype == "torch.bfloat16"


class Contiguous(TorchTensor):
    """With what gradients ask of a tensor besides."""

    def contiguous(self) -> Contiguous:
        return self

    def clone(self) -> Contiguous:
        return Contiguous(self.array.copy())

    def numel(self) -> int:
        return int(self.array.size)

    def new_empty(self, shape: tuple[int, ...], dtype: Any = None) -> Contiguous:
        return Contiguous(np.zeros(shape, dtype or self.array.dtype))


@pytest.mark.slow
def test_row_operators_and_their_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    torch, ops = stand_in()
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delitem(sys.modules, "asmgen.kernels.torch_ops", raising=False)
    importlib.import_module("asmgen.kernels.torch_ops")
    rng = np.random.default_rng(5)
    x, dy = (Contiguous(rng.standard_normal((3, 40)).astype(np.float32)) for _ in range(2))
    softmax, saved = ops["asmgen::softmax"], SimpleNamespace()
    y = softmax.run(x)
    saved.save_for_backward = lambda *tensors: setattr(saved, "saved_tensors", tensors)
    softmax.keep(saved, (x, False, False), y)
    (dx, *none) = softmax.gradients(saved, dy)
    exact = np.exp(x.array) / np.exp(x.array).sum(1, keepdims=True)
    assert softmax.shapes(x).shape == y.shape and np.allclose(y.array, exact, atol=1e-6) and none == [None, None]
    assert np.allclose(dx.array, exact * (dy.array - (exact * dy.array).sum(1, keepdims=True)), atol=1e-6)
    gate, nothings = ops["asmgen::activation"], [None] * 3
    options = ("silu", "none", -1.0)
    made = gate.run(x, dy, *options)
    share = 1 / (1 + np.exp(-x.array))
    gate.keep(saved, (x, dy, *options), made)
    dx, dup, *none = gate.gradients(saved, dy)
    assert gate.shapes(x, dy).shape == made.shape and np.allclose(made.array, x.array * share * dy.array, atol=1e-5) and none == nothings
    assert np.allclose(dup.array, dy.array * x.array * share, atol=1e-5)
    assert np.allclose(dx.array, dy.array**2 * share * (1 + x.array * (1 - share)), atol=1e-5)
    gate.keep(saved, (x, None, *options), gate.run(x))
    assert gate.gradients(saved, dy)[1] is None and ops["asmgen::silu_and_mul"].shapes(x).shape == (3, 20)
    both, heads = ops["asmgen::rope_qk"], [Contiguous(rng.standard_normal((1, 5, count, 8)).astype(np.float32)) for count in (2, 1)]
    angles = (None, None, None, "gptj", "bshd", False, 100.0, 0, False, None, None, 0)
    turned = both.run(*heads, *angles)
    both.keep(saved, (*heads, *angles), turned)
    *again, nothing = both.gradients(saved, *turned)[:3]
    assert nothing is None and len(both.gradients(saved, *turned)) == 14 and [one.shape for one in both.shapes(*heads)] == [
        one.shape for one in heads]
    assert all(np.allclose(one.array, x_.array, atol=1e-5) for one, x_ in zip(again, heads, strict=True))
    assert not np.allclose(turned[0].array, heads[0].array, atol=0.1)
    norm = ops["asmgen::rms_norm"]
    made = norm.run(x, Contiguous(np.ones(40, np.float32)))
    assert np.allclose(made.array, x.array / np.sqrt((x.array**2).mean(1, keepdims=True) + 1e-6), atol=1e-5)
    assert norm.shapes(x).shape == (3, 40)
    w = Contiguous(np.ones(40, np.float32))
    norm.keep(saved, (x, w, 1e-6), made)
    dx, dw, nothing = norm.gradients(saved, dy)
    rstd = 1 / np.sqrt((x.array**2).mean(1, keepdims=True) + 1e-6)
    h = x.array * rstd
    assert nothing is None and np.allclose(dw.array, (dy.array * h).sum(0), atol=1e-5)
    assert np.allclose(dx.array, rstd * (dy.array - h * (dy.array * h).mean(1, keepdims=True)), atol=1e-5)
    for p in (0.0, 0.5):
        _added_norm_and_its_gradients(ops["asmgen::dropout_add_layer_norm"], p, x, dy)


def _added_norm_and_its_gradients(norm: Any, p: float, x: Contiguous, dy: Contiguous) -> None:
    """As float64 has them, with the elements that the sum says were kept."""
    residual, w, b = (Contiguous(np.float32(scale) * dy.array[::-1, ::-1][:rows].copy()) for scale, rows in ((0.5, 3), (1.0, 1), (2.0, 2)))
    w, b = Contiguous(w.array[0]), Contiguous(b.array[1])
    inputs = (x, residual, w, b, p, 3, 5, 1e-5)
    made, saved = norm.run(*inputs), SimpleNamespace()
    out, r, mean, rstd = (one.array.astype(float) for one in made)
    kept = np.abs(r - residual.array) > 1e-6
    assert kept.all() if p == 0 else 0.3 < kept.mean() < 0.7
    assert np.allclose(r, residual.array + np.where(kept, x.array / (1 - p), 0), atol=1e-5)
    h = (r - r.mean(1, keepdims=True)) / np.sqrt(r.var(1, keepdims=True) + 1e-5)
    assert np.allclose(out, h * w.array + b.array, atol=1e-4) and np.allclose(mean, r.mean(1), atol=1e-5)
    assert [one.shape for one in norm.shapes(*inputs)] == [one.shape for one in made]
    saved.save_for_backward = lambda *tensors: setattr(saved, "saved_tensors", tensors)
    norm.keep(saved, inputs, made)
    dx, dresidual, dw, db, *nothing = norm.gradients(saved, dy, x, None, None)
    g = dy.array * w.array
    total = rstd[:, None] * (g - g.mean(1, keepdims=True) - h * (g * h).mean(1, keepdims=True)) + x.array
    assert np.allclose(dresidual.array, total, atol=1e-4) and np.allclose(dx.array, np.where(kept, total / (1 - p), 0), atol=1e-4)
    assert np.allclose(dw.array, (dy.array * h).sum(0), atol=1e-4) and np.allclose(db.array, dy.array.sum(0), atol=1e-5)
    assert nothing == [None] * 4


def test_without_torch_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "asmgen.kernels.torch_ops", raising=False)
    with pytest.raises(AsmgenError, match="needs PyTorch, and no torch is installed"):
        importlib.import_module("asmgen.kernels.torch_ops")
