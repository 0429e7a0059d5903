"""Row kernels on tensors: norm, softmax, activation, rope and quantize, against plain numpy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from asmgen.kernels import activation, norm, quantize, rope, softmax
from asmgen.kernels.tensors import TensorError
from asmgen.launch.emulated import EmulatedDevice
from tests.launch.test_launch_values import TorchTensor

BF16 = ml_dtypes.bfloat16


@pytest.fixture(scope="module")
def device() -> EmulatedDevice:
    return EmulatedDevice("gfx950")


def drawn(*shape: int, dtype: Any = BF16) -> Any:
    return np.random.default_rng(7).standard_normal(shape).astype(dtype)


def close(found: Any, expected: Any) -> bool:
    return bool(np.abs(found.astype(float) - expected).max() < 0.03)


def test_layer_norm_with_residual_in_place_and_stats(device: EmulatedDevice) -> None:
    x, residual, w, b = drawn(2, 3, 100), drawn(2, 3, 100) * BF16(0.5), drawn(100), drawn(100)
    r = residual.astype(float) + x.astype(float)
    expected = (r - r.mean(-1, keepdims=True)) / np.sqrt(r.var(-1, keepdims=True) + 1e-5) * w.astype(float) + b.astype(float)
    out, stored, mean, rstd = norm.layer(x, w, b, residual=residual, residual_out=residual, return_stats=True, device=device)
    assert stored is residual and close(stored, r) and close(out, expected)
    assert np.allclose(mean, r.mean(-1).ravel(), atol=1e-5) and np.allclose(rstd, 1 / np.sqrt(r.var(-1) + 1e-5).ravel(), rtol=1e-4)


def test_gradients_of_rms_norm_through_dropout(device: EmulatedDevice) -> None:
    """Rows of an odd number of float32, which begin anywhere."""
    x, dy, w = drawn(9, 41, dtype=np.float32), drawn(9, 41, dtype=np.float32)[::-1].copy(), drawn(41, dtype=np.float32)
    _, mask, rstd = norm.rms(x, w, dropout_p=0.5, seed=3, return_mask=True, device=device)
    r = x * mask * 2
    assert mask.shape == x.shape and 0.3 < mask.mean() < 0.7
    assert np.allclose(rstd, 1 / np.sqrt((r**2).mean(1) + 1e-6), rtol=1e-5)
    dx, dw, dresidual = norm.backward(dy, r, rstd, w, dropout_p=0.5, seed=3, return_dresidual=True, device=device)
    h, g = r * rstd[:, None], dy * w
    expected = rstd[:, None] * (g - h * (g * h).mean(1, keepdims=True))
    assert np.allclose(dresidual, expected, atol=1e-5) and np.allclose(dx, expected * mask * 2, atol=1e-5)
    assert np.allclose(dw, (dy * h).sum(0), atol=1e-5)


def test_rms_norm_to_8_bits(device: EmulatedDevice) -> None:
    x = drawn(3, 64)
    out, scale = norm.rms(x, out_dtype="fp8", device=device)
    own = x.astype(float)
    expected = own / np.sqrt((own**2).mean(-1, keepdims=True) + 1e-6)
    assert out.dtype == ml_dtypes.float8_e4m3fn and np.allclose(scale, np.abs(expected).max(1) / 448, rtol=1e-4)
    assert np.abs(out.astype(float) * scale[:, None] - expected).max() <= np.abs(expected).max() / 16
    blocks, scales = norm.rms(x, out_dtype="mxfp8", device=device)
    made = blocks.astype(float) * np.repeat(2.0 ** (scales.astype(float) - 127), 32, 1)
    assert scales.shape == (3, 2) and np.abs(made - expected).max() <= np.abs(expected).max() / 16


def test_rms_norm_of_a_view_by_elements(device: EmulatedDevice) -> None:
    x = TorchTensor(drawn(4, 65)[:, :63])
    out = norm.rms(x, TorchTensor(np.ones(63, BF16)), device=device)
    own = x.array.astype(float)
    assert close(out.array, own / np.sqrt((own**2).mean(-1, keepdims=True) + 1e-6))


def test_softmax_and_its_gradient(device: EmulatedDevice) -> None:
    x, dy = drawn(3, 4, 70, dtype=np.float32), drawn(3, 4, 70, dtype=np.float32) * np.float32(0.1)
    expected = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    assert np.allclose(softmax.apply(x, device=device), expected, atol=1e-6)
    found = softmax.backward(expected, dy, device=device)
    assert np.allclose(found, expected * (dy - (expected * dy).sum(-1, keepdims=True)), atol=1e-6)
    causal = softmax.apply(x, mask="causal", device=device)
    assert np.allclose(causal.sum(-1), 1, atol=1e-5) and not causal[:, 0, 67:].any() and causal[:, 3].all()


@pytest.mark.slow
def test_gates_and_their_gradients(device: EmulatedDevice) -> None:
    x, dy = drawn(3, 2, 44, dtype=np.float32) * np.float32(3), drawn(3, 2, 22, dtype=np.float32)
    gate, up = x[..., :22].astype(float), x[..., 22:].astype(float)
    share = 1 / (1 + np.exp(-gate))
    assert np.allclose(activation.apply(x, gated=True, device=device), gate * share * up, atol=1e-5)
    dx, dup = activation.backward(dy, x[..., :22], up=x[..., 22:], device=device)
    assert np.allclose(dx, dy * up * share * (1 + gate * (1 - share)), atol=1e-5) and np.allclose(dup, dy * gate * share, atol=1e-5)
    cut, kept = np.minimum(gate, 2), np.clip(up, -2, 2)
    assert np.allclose(activation.apply(x[..., :22], "swiglu", x[..., 22:], limit=2.0, device=device),
                       cut / (1 + np.exp(-1.702 * cut)) * (kept + 1), atol=1e-5)
    found = activation.apply(drawn(2, 15), "gelu", approximate="tanh", device=device)
    own = drawn(2, 15).astype(float)
    assert close(found, 0.5 * own * (1 + np.tanh(np.sqrt(2 / np.pi) * (own + 0.044715 * own**3))))


@pytest.mark.slow
def test_quantisation_by_rows_and_by_blocks(device: EmulatedDevice) -> None:
    x = drawn(5, 96)
    d, scale = quantize.to(x, device=device)
    assert d.dtype == ml_dtypes.float8_e4m3fn and close(d.astype(float) * scale[:, None] / 4, x.astype(float) / 4)
    d, scale = quantize.to(x, "mxfp4", layout="shuffled", device=device)
    assert d.shape == (5, 48) and d.dtype == np.uint8 and scale.shape == (32, 8)
    both = quantize.to(x, "mxfp8", columnwise=True, device=device)
    assert [one.shape for one in both] == [(5, 96), (5, 3), (96, 32), (96, 1)]
    again = both[2].astype(float) * np.exp2(both[3].astype(float) - 127)
    assert close(again[:, :5].T / 8, x.astype(float) / 8) and not again[:, 5:].any()
    given = np.array([0.05], np.float32)
    e, of_e, d_t, scale_t = quantize.to(x, "int8", "tensor", scale=given, columnwise=True, device=device)
    assert of_e is scale_t is given and d_t.shape == (96, 32) and np.array_equal(e, d_t.T[:5]) and close(e * 0.05, x.astype(float))
    _, of_e, d_t, scale_t = quantize.to(x, "fp8", "128", columnwise=True, device=device)
    assert of_e.shape == (5, 1) and scale_t.shape == (96, 1) and close((d_t.astype(float) * scale_t / 4).T[:5], x.astype(float) / 4)
    weights, _ = quantize.to(drawn(16, 64), "mxfp4", order="shuffled", device=device)
    plain, _ = quantize.to(drawn(16, 64), "mxfp4", device=device)
    assert np.array_equal(weights.reshape(2, 16, 16), plain.reshape(16, 2, 16).swapaxes(0, 1))
    codes = np.stack([d & 15, d >> 4], -1).reshape(5, 96)
    numbers = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])[codes & 7] * np.where(codes & 8, -1, 1)
    size = 2.0 ** (scale.ravel()[[0, 64, 128]].astype(float) - 127)  # row 0, blocks 0 to 2
    assert np.abs(numbers[0] * np.repeat(size, 32) - x[0].astype(float)).max() <= 0.26 * np.abs(x.astype(float)).max()


def test_rope_of_two_tensors_by_positions_and_back(device: EmulatedDevice) -> None:
    q, k = drawn(2, 5, 3, 64, dtype=np.float32), drawn(2, 5, 1, 64, dtype=np.float32)
    angles = np.random.default_rng(1).uniform(-3, 3, (9, 16))
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    positions = np.random.default_rng(2).integers(0, 9, (2, 5)).astype(np.int32)
    y, y2 = rope.apply(q, cos, sin, positions, x2=k, device=device)
    for x, found in ((q, y), (k, y2)):
        c, s = (table[positions][:, :, None] for table in (cos, sin))
        one, other = x[..., :16], x[..., 16:32]
        expected = np.concatenate([one * c - other * s, other * c + one * s, x[..., 32:]], -1)
        assert np.allclose(found, expected, atol=1e-6)
    assert np.allclose(rope.apply(y, cos, sin, positions, backward=True, device=device), q, atol=1e-6)
    thd = rope.apply(q.reshape(10, 3, 64), cos, sin, positions.ravel(), layout="thd", device=device)
    assert np.array_equal(thd.reshape(y.shape), y)


@pytest.mark.slow
def test_rope_of_sequences_into_a_cache(device: EmulatedDevice) -> None:
    """As a layer of a served model has it: normalised queries and keys, angles by theta, keys and values into blocks of a cache."""
    q, k, v = (drawn(7, heads, 64, dtype=np.float32) for heads in (3, 1, 1))
    weight = drawn(64, dtype=np.float32)
    blocks, values = np.full((4, 2, 1, 64), 9, np.float32), np.full((4, 2, 1, 64), 9, np.float32)
    slots = np.array([5, 0, -1, 3, 7, 2, 1])
    y, cached = rope.apply(q, x2=k, layout="thd", cu_seqlens=np.array([0, 3, 7], np.int32), max_s=5, theta=5e5, rotated=32,
                           offsets=np.array([10, 10, 10, 0, 0, 0, 0]), weight=weight, weight2=weight, slot_mapping=slots, v=v, out2=blocks,
                           v_cache=values, device=device)
    angles = np.array([10, 11, 12, 0, 1, 2, 3])[:, None, None] * 5e5 ** (-np.arange(16) / 16)
    c, s = np.cos(angles), np.sin(angles)
    for x, found, rows in ((q, y, np.arange(7)), (k, cached.reshape(8, 1, 64), slots)):
        own = x / np.sqrt((x.astype(float)**2).mean(-1, keepdims=True) + 1e-6) * weight
        one, other = own[..., :16], own[..., 16:32]
        expected = np.concatenate([one * c - other * s, other * c + one * s, own[..., 32:]], -1)
        assert np.allclose(found[rows[rows >= 0]], expected[rows >= 0], atol=1e-5)
    assert np.array_equal(values.reshape(8, 1, 64)[slots[slots >= 0]], v[slots >= 0]) and (cached.reshape(8, 64)[[4, 6]] == 9).all()
    eights = [np.zeros((8, 1, 64), kind) for kind in (np.uint8, np.uint8)]
    rope.apply(q, x2=k, layout="thd", slot_mapping=slots, v=v, out2=eights[0], v_cache=eights[1], k_scale=np.full(1, 0.05, np.float32),
               v_scale=np.full(1, 0.25, np.float32), device=device)
    assert close(eights[1].view(ml_dtypes.float8_e4m3fn)[slots[slots >= 0]].astype(float) / 32, v[slots >= 0].astype(float) / 8)
    with pytest.raises(TensorError, match="k_scale and v_scale of rope.apply must be given where caches are fp8"):
        rope.apply(q, x2=k, layout="thd", slot_mapping=slots, v=v, out2=eights[0], v_cache=eights[1], device=device)


@pytest.mark.parametrize(("call", "sentence"), [
    (lambda device: norm.layer(drawn(2, 8, dtype=np.int32), device=device), "x of norm.layer must be bfloat16"),
    (lambda device: norm.rms(drawn(2, 8), drawn(7), device=device), "weight of norm.rms must be 8 elements of bf16"),
    (lambda device: norm.rms(drawn(2, 48), out_dtype="mxfp4", device=device), "multiple of 32 where out_dtype is mxfp4, got 48"),
    (lambda device: norm.rms(drawn(2, 8), return_mask=True, device=device), "return_mask of norm.rms needs dropout_p"),
    (lambda device: softmax.apply(drawn(2, 8), mask="length", device=device), "lengths of softmax.apply must be int32"),
    (lambda device: activation.apply(drawn(2, 8), "swiglu", device=device), "up of activation.apply must be given where kind is swiglu"),
    (lambda device: activation.apply(drawn(2, 8), up=drawn(2, 6), device=device), "up of activation.apply must have the shape"),
    (lambda device: quantize.to(drawn(2, 8), group="tensor", device=device), "scale of quantize.to must be given"),
    (lambda device: rope.apply(drawn(2, 8), drawn(2, 4), drawn(2, 4), device=device), "x of rope.apply must have the axes bshd"),
    (lambda device: rope.apply(drawn(2, 2, 2, 8), slot_mapping=np.zeros(4), device=device), "x2, out2, v and v_cache"),
    (lambda device: rope.apply(drawn(4, 2, 8), layout="thd", cu_seqlens=np.zeros(3), device=device), "cu_seqlens of rope.apply must be"),
    (lambda device: quantize.to(drawn(2, 6), device=device), "rows at multiples of 4 bytes")])
def test_what_is_not_taken_is_refused(call: Any, sentence: str, device: EmulatedDevice) -> None:
    with pytest.raises(TensorError, match=sentence):
        call(device)


def test_scales_and_lengths_of_other_sizes_are_refused() -> None:
    """They would be read, or written, beyond their ends."""
    x = np.ones((4, 256), np.float32)
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (quantize.to, {"scale_out": np.zeros(3, np.float32)}, r"scale_out of quantize.to must be \[4\] of float32"),
        (quantize.to, {"group": "128", "scale_out": np.zeros((4, 1), np.float32)}, r"must be \[4, 2\] of float32.*got \[4, 1\]"),
        (quantize.to, {"to": "mxfp4", "scale_out": np.zeros((4, 8), np.float32)}, r"must be \[4, 8\] of uint8.*of float32"),
        (quantize.to, {"group": "tensor", "scale": np.ones(1)}, "scale of quantize.to must be 1 elements of f32"),
        (softmax.apply, {"mask": "length", "lengths": np.ones(3, np.int32)}, "lengths of softmax.apply must be int32 numbers side by side")]
    with EmulatedDevice("gfx950") as device:
        for function, named, sentence in wrong:
            with pytest.raises(TensorError, match=sentence):
                function(x, **named, device=device)
