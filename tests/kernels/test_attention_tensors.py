"""Attention on tensors: values of all four functions against float64, what is refused, and PyTorch operators on a stand-in for torch."""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from asmgen.kernels import attention
from asmgen.kernels.tensors import TensorError
from asmgen.launch.emulated import EmulatedDevice
from tests.kernels.test_torch_ops import stand_in
from tests.launch.test_launch_values import TorchTensor

BF16 = ml_dtypes.bfloat16
DEVICE = EmulatedDevice("gfx950")


def tensors(rng: np.random.Generator, *shape: int, count: int = 1) -> list[Any]:
    return [rng.standard_normal(shape).astype(BF16) for _ in range(count)]


def reference(q: Any, k: Any, v: Any, do: Any, right: int | None, sink: Any = None) -> tuple[Any, ...]:
    """O, LSE, dQ, dK, dV and dsink of one sequence in float64, a head at a time; key j is seen up to i + sk - sq + right."""
    q, k, v, do = (np.asarray(one, np.float64) for one in (q, k, v, do))
    (sq, hq, d), (sk, hkv, _) = q.shape, k.shape
    o, lse, dq, dk, dv = np.zeros(q.shape), np.zeros((hq, sq)), np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    dsink = np.zeros(hq)
    for head in range(hq):
        its = head * hkv // hq
        scores = q[:, head] @ k[:, its].T * d**-0.5
        if right is not None:
            scores[np.triu_indices(sq, sk - sq + right + 1, sk)] = -np.inf
        total = np.exp(scores).sum(1) + (0 if sink is None else np.exp(float(sink[head])))
        shares = np.exp(scores) / total[:, None]
        o[:, head], lse[head] = shares @ v[:, its], np.log(total)
        delta = (do[:, head] * o[:, head]).sum(1)
        slopes = shares * (do[:, head] @ v[:, its].T - delta[:, None])
        dq[:, head] = slopes @ k[:, its] * d**-0.5
        dk[:, its] += slopes.T @ q[:, head] * d**-0.5
        dv[:, its] += shares.T @ do[:, head]
        if sink is not None:
            dsink[head] = -(np.exp(float(sink[head])) / total * delta).sum()
    return o, lse, dq, dk, dv, dsink


def close(found: Any, expected: Any) -> bool:
    return bool(np.abs(np.asarray(found, np.float64) - expected).max() < 0.03)


@pytest.mark.slow
def test_both_directions_of_batches() -> None:
    """Two batches, two heads of queries for each of keys, views with gaps, a sink; twice the same bits."""
    rng = np.random.default_rng(1)
    wide, = tensors(rng, 2, 40, 8, 64)
    q, (do,) = wide[:, :, ::2], tensors(rng, 2, 40, 4, 64)
    (k, v), sink = tensors(rng, 2, 50, 2, 64, count=2), rng.standard_normal(4).astype(np.float32)
    out, lse = attention.forward(q, k, v, causal=True, sink=sink, return_lse=True, device=DEVICE)
    found = attention.backward(do, q, k, v, out, lse, causal=True, deterministic=True, sink=sink, device=DEVICE)
    again = attention.backward(do, q, k, v, out, lse, causal=True, deterministic=True, sink=sink, device=DEVICE)
    assert all(one.tobytes() == other.tobytes() for one, other in zip(found, again, strict=True))
    o, logarithms, dq, dk, dv, dsink = (np.stack(some) for some in zip(
        *(reference(q[b], k[b], v[b], do[b], 0, sink) for b in range(2)), strict=True))
    assert close(out, o) and np.abs(lse - logarithms).max() < 1e-5
    assert all(close(one, its) for one, its in zip(found, (dq, dk, dv, dsink.sum(0)), strict=True))


@pytest.mark.slow
def test_both_directions_of_sequences() -> None:
    """Three sequences, one without queries; a window without a limit on the left; given outputs."""
    rng = np.random.default_rng(2)
    (q, do), (k, v) = tensors(rng, 40, 2, 64, count=2), tensors(rng, 50, 2, 64, count=2)
    cuts, of_keys = np.array([0, 15, 15, 40], np.int32), np.array([0, 20, 30, 50], np.int32)
    given = np.empty_like(q)
    out, lse = attention.forward_varlen(q, k, v, cuts, of_keys, 999, 20, window_size=(99, 6), return_lse=True, out=given, device=DEVICE)
    assert out is given and lse.shape == (2, 40)
    found = attention.backward_varlen(do, q, k, v, out, lse, cuts, of_keys, 25, 20, window_size=(-1, 6), device=DEVICE)
    for first, last, key0, end in ((0, 15, 0, 20), (15, 15, 20, 30), (15, 40, 30, 50)):
        rows, keys = slice(first, last), slice(key0, end)
        o, logarithms, dq, dk, dv, _ = reference(q[rows], k[keys], v[keys], do[rows], 6)
        pairs = ((found[1][keys], dk), (found[2][keys], dv), *(((out[rows], o), (found[0][rows], dq)) if last > first else ()))
        assert all(close(one, its) for one, its in pairs)
        assert np.allclose(lse[:, rows], logarithms, 1e-5, 1e-5)


@pytest.mark.slow
def test_dropout_is_that_of_numbers_and_of_memory() -> None:
    rng = np.random.default_rng(3)
    q, k, v = tensors(rng, 1, 33, 1, 64, count=3)
    plain = attention.forward(q, k, v, device=DEVICE)
    one = attention.forward(q, k, v, 0.5, seed=7, offset=9, device=DEVICE)
    other = attention.forward(q, k, v, 0.5, rng_state=np.array([7, 9], np.int64), device=DEVICE)
    assert one.tobytes() == other.tobytes() != plain.tobytes()


@pytest.mark.parametrize(("change", "sentence"), [
    ({"k": (1, 5, 2, 64)}, r"v of attention.forward must be \[1, 5, 2, 64\], got \[1, 5, 1, 64\]"),
    ({"q": (5, 1, 64)}, r"q of attention.forward must be \(batch, rows, heads, d\)"),
    ({"q": (1, 5, 1, 96), "k": (1, 5, 1, 96), "v": (1, 5, 1, 96)}, "no variant dropout=false d=96"),
    ({"q": (1, 5, 3, 64), "k": (1, 5, 2, 64), "v": (1, 5, 2, 64)}, "hq must be a multiple of hkv"),
    ({"sink": (4,)}, r"sink of attention.forward must be float32 \[1\] without gaps"),
    ({"softcap": 30.0}, "softcap is 30.0, but no kernel here caps scores"),
    ({"alibi_slopes": (1,)}, "alibi_slopes were given, but no kernel"),
    ({"return_attn_probs": True}, "return_attn_probs was asked for, but probabilities are never in memory")])
def test_what_does_not_fit_is_refused_by_name(change: dict[str, Any], sentence: str) -> None:
    shapes = {"q": (1, 5, 1, 64), "k": (1, 5, 1, 64), "v": (1, 5, 1, 64), **change}
    given = {name: np.zeros(shape, np.float32 if name == "sink" else BF16) if isinstance(shape, tuple) else shape
             for name, shape in shapes.items()}
    with pytest.raises(TensorError, match=sentence):
        attention.forward(**given, device=DEVICE)


def test_outputs_that_share_inputs_are_refused() -> None:
    q, k, v = (np.zeros((1, 5, 1, 64), BF16) for _ in range(3))
    with pytest.raises(TensorError, match="out of attention.forward shares elements with v"):
        attention.forward(q, k, v, out=v, device=DEVICE)


class Context:
    """What PyTorch gives a backward formula."""

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["", "_varlen"])
def test_operators_have_shapes_and_gradients(monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    torch, ops = stand_in()
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delitem(sys.modules, "asmgen.kernels.torch_ops", raising=False)
    importlib.import_module("asmgen.kernels.torch_ops")
    forward, backward = ops[f"asmgen::attention{suffix}"], ops[f"asmgen::attention{suffix}_backward"]
    assert forward.mutates == backward.mutates == () and forward.schema.count("Tensor? ") == 2
    rng = np.random.default_rng(4)
    arrays = tensors(rng, *(() if suffix else (1,)), 35, 2, 64, count=4)
    q, k, v, dout = map(TorchTensor, arrays)
    sink = TorchTensor(rng.standard_normal(2).astype(np.float32))
    lengths = [TorchTensor(np.array([0, 35], np.int32))] * 2 + [35, 35] if suffix else []
    options = (0.0, None, True, -1, -1, sink, None, True)
    out, lse = forward.run(q, k, v, *lengths, *options)
    made = forward.shapes(q, k, v, *lengths, *options)
    assert [(one.shape, one.array.dtype) for one in made] == [(one.shape, one.array.dtype) for one in (out, lse)]
    ctx: Any = Context()
    forward.keep(ctx, (q, k, v, *lengths, *options), (out, lse))
    found = forward.gradients(ctx, dout, None)
    assert len(found) == 3 + len(lengths) + len(options)
    assert [one is None for one in found] == [False] * 3 + [True] * len(lengths) + [True] * 5 + [False, True, True]
    flat = [array.reshape(35, 2, 64) for array in arrays]
    expected = reference(*flat, 0, sink.array)
    assert all(close(one.array.reshape(its.shape), its) for one, its in zip((out, *found[:3]), (expected[0], *expected[2:5]), strict=True))
    assert close(found[3 + len(lengths) + 5].array, expected[5])
    shapes = backward.shapes(dout, q, k, v, out, lse, *lengths, 0.0)
    assert [one.shape for one in shapes] == [q.shape, k.shape, v.shape, (0,)]
    assert isinstance(torch, SimpleNamespace)
