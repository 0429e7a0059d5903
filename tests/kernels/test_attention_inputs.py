"""What attention's functions take as flash-attn's do: expanded rows, windows wider than the sequences, bounds, and nothing at all."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from asmgen.kernels import attention
from asmgen.kernels.attention_inputs import usable, with_sizes
from asmgen.kernels.tensors import TensorError
from asmgen.launch.emulated import EmulatedDevice
from tests.launch.test_launch_values import TorchTensor

BF16 = ml_dtypes.bfloat16
DEVICE = EmulatedDevice("gfx950")


@pytest.mark.parametrize(("sides", "causal", "build", "left_right"), [
    ((-1, -1), False, (False, False), (-1, -1)), ((-1, 0), False, (True, False), (-1, -1)), ((3, 0), False, (True, True), (3, -1)),
    ((18, 0), False, (True, True), (18, -1)), ((19, 0), False, (True, False), (-1, -1)),
    ((1 << 30, 1 << 30), False, (False, False), (-1, -1)),
    ((-1, 8), False, (False, True), (-1, 8)), ((-1, 9), False, (False, False), (-1, -1)), ((2, -1), True, (True, True), (2, -1))])
def test_a_side_of_a_window_is_what_it_hides(sides: Any, causal: bool, build: Any, left_right: Any) -> None:
    """10 queries and 20 keys: query i has key i + 10 as its own, so 19 keys before it, and 9 after it, are all."""
    found, values = with_sizes({"varlen": False, "causal": causal}, dict(zip(("left", "right"), sides, strict=True)), {"sq": 10, "sk": 20})
    assert (found["causal"], found["window"]) == build and (values["left"], values["right"]) == left_right


@pytest.mark.parametrize(("most", "padded", "taken"), [(4096, False, 40), (25, False, 25), (9, False, 14), (9, True, 9), (0, True, 1)])
def test_the_longest_sequence_is_a_bound(most: int, padded: bool, taken: int) -> None:
    _, values = with_sizes({"varlen": True, "padded": padded, "causal": False},
                           {"left": -1, "right": -1, "max_sq": most, "max_sk": 50}, {"b": 3, "sq": 40, "sk": 50})
    assert (values["max_sq"], values["max_sk"]) == (taken, 50)


def test_rows_that_no_load_serves_are_copied() -> None:
    rows = np.arange(2 * 5 * 3 * 64, dtype=np.float32).astype(BF16).reshape(2, 5, 3, 64)
    strange = [np.broadcast_to(rows[:, :1], (2, 5, 3, 64)), np.broadcast_to(rows[:1, :1, :1, :1], rows.shape),
               rows.reshape(2, 5, 64, 3).swapaxes(2, 3), rows.reshape(-1)[4:4 + 5 * 3 * 64].reshape(1, 5, 3, 64)]
    for array in strange:
        tensor = TorchTensor(array)
        copy = usable("q", tensor, "attention.forward")
        assert copy is not tensor and np.array_equal(copy.array, array) and usable("q", copy, "attention.forward") is copy
    for array in (rows, rows[:, :, 1:], np.broadcast_to(rows[:, :, :1], rows.shape), rows[:, ::2]):  # as they are, with heads shared too
        tensor = TorchTensor(array)
        assert usable("q", tensor, "attention.forward") is tensor


def test_nothing_is_launched_for_no_queries_or_keys() -> None:
    q, none = np.ones((2, 4, 2, 64), BF16), np.zeros((2, 0, 2, 64), BF16)
    sink = np.array([1.0, 2.0], np.float32)
    out, lse = attention.forward(q, none, none, return_lse=True, device=DEVICE)
    assert not out.astype(float).any() and (lse == -np.inf).all()
    assert (attention.forward(q, none, none, return_lse=True, sink=sink, device=DEVICE)[1] == sink[:, None]).all()
    dq, dk, dv, dsink = attention.backward(q, q, none, none, out, lse, sink=sink, device=DEVICE)
    assert not dq.astype(float).any() and dk.shape == dv.shape == none.shape and not dsink.any()
    _, dk, dv = attention.backward(none, none, q, q, none, np.zeros((2, 2, 0), np.float32), device=DEVICE)
    assert not dk.astype(float).any() and not dv.astype(float).any()
    batch = np.zeros((0, 4, 2, 64), BF16)
    assert attention.forward(batch, batch, batch, device=DEVICE).shape == batch.shape
    rows, cuts = np.zeros((0, 2, 64), BF16), np.zeros(1, np.int32)
    assert attention.forward_varlen(rows, rows, rows, cuts, cuts, 0, 0, device=DEVICE).shape == rows.shape


@pytest.mark.parametrize("cuts", [np.zeros((), np.int32), np.zeros(0, np.int32), np.zeros(1, np.int32)])
def test_rows_of_no_sequence_are_refused(cuts: Any) -> None:
    rows = np.ones((5, 2, 64), BF16)
    with pytest.raises(TensorError, match="cu_seqlens_q .*one element more than there are sequences"):
        attention.forward_varlen(rows, rows, rows, cuts, cuts, 5, 5, device=DEVICE)


def test_what_stands_beside_no_keys_is_checked_too() -> None:
    q, none = np.ones((2, 4, 2, 64), BF16), np.zeros((2, 0, 2, 64), BF16)
    with pytest.raises(TensorError, match="softmax_lse .*\\[2, 2, 4\\]"):
        attention.forward(q, none, none, softmax_lse=np.zeros((2, 4, 2), np.float32), device=DEVICE)
    with pytest.raises(TensorError, match="sink .*float32 \\[2\\]"):
        attention.forward(q, none, none, sink=np.zeros(3, np.float32), return_lse=True, device=DEVICE)
    rows, cuts = np.zeros((0, 2, 64), BF16), np.zeros(1, np.int32)
    with pytest.raises(TensorError, match="cu_seqlens_k"):
        attention.forward_varlen(rows, rows, rows, cuts, np.zeros(3, np.int32), 0, 0, device=DEVICE)
