"""Lists of matrices of gemm.matmul: what is refused before any launch, and which scales belong to each product."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from asmgen.kernels import gemm, matrixscales
from asmgen.kernels import matmul as module
from asmgen.kernels.matrixlists import addresses, for_each_row, is_own
from asmgen.kernels.rowlaunch import ones
from asmgen.launch.emulated import EmulatedDevice
from asmgen.launch.hip import HipDevice
from tests.launch.test_hip_device import FakeHip
from tests.launch.test_launch_values import TorchTensor

BF16 = ml_dtypes.bfloat16


def drawn(seed: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(BF16)


def on(gpu: int, array: np.ndarray[Any, Any]) -> TorchTensor:
    return TorchTensor(array, "cuda", gpu)


WHOLE = drawn(1, 64, 64)
OUTS = [np.zeros((16, 16), BF16) for _ in range(2)]


def square(number: int) -> np.ndarray[Any, Any]:
    """Matrices of 16 x 16 in rows of 64, the second of which has half of the first's rows."""
    return WHOLE[8 * number:8 * number + 16, :16]


Change = dict[str, Any]
CHANGES: list[tuple[Change, str]] = [
    ({"a": [drawn(1, 5, 16, 64)] * 2}, r"a\[0\] of gemm.matmul must be a matrix where"),
    ({"b": drawn(2, 1, 64, 16)}, r"b\[0\] of gemm.matmul must be a matrix where"),
    ({"a": [drawn(1, 16, 64), drawn(2, 16, 32)]}, r"a\[1\] of gemm.matmul has \[16, 32\] elements"),
    ({"out": [OUTS[0], OUTS[0]]}, r"out\[0\] of gemm.matmul shares elements with out\[1\]"),
    ({"a": [drawn(1, 16, 16), square(0)], "b": drawn(2, 16, 16), "out": [square(0), OUTS[1]]}, r"out\[0\] .* elements with a\[1\]"),
    ({"c": [OUTS[1], OUTS[0]], "beta": 1.0}, r"out\[0\] of gemm.matmul shares elements with c\[1\]"),
    ({"bias": OUTS[1][3]}, r"out\[1\] of gemm.matmul shares elements with bias"),
    ({"b_scale": OUTS[1].view(np.float32)[2, :1]}, r"out\[1\] of gemm.matmul shares elements with b_scale"),
]
OF_A_GPU: list[tuple[Change, str]] = [
    ({"a": [on(1, drawn(1, 16, 64)), drawn(2, 16, 64)]}, r"a\[1\] of gemm.matmul is in host memory, and a\[0\] on GPU 1"),
    ({"b": [on(1, drawn(1, 64, 16)), TorchTensor(drawn(2, 64, 16))]}, r"b\[1\] of gemm.matmul is in host memory, and a\[0\] on GPU 1"),
    ({"out": [on(1, OUTS[0]), on(0, OUTS[1])]}, r"out\[1\] of gemm.matmul is on GPU 0, and a\[0\] on GPU 1"),
    ({"c": [on(1, OUTS[0]), on(1, np.concatenate(OUTS)[:16])], "beta": 1.0, "out": [on(1, OUTS[0]), on(1, OUTS[0])]}, "shares elements"),
    ({"c": [on(1, square(1)), on(1, square(6))], "out": [on(1, square(0)), on(1, square(6))], "beta": 1.0}, r"out\[0\] .* with c\[0\]"),
    ({name: [on(0, drawn(1, *shape)) for _ in "12"] for name, shape in (("a", (16, 64)), ("b", (64, 16)), ("out", (16, 16)))},
     r"a\[0\] of gemm.matmul is on GPU 0, and the kernel runs on GPU 1"),
]


def given(place: Callable[[np.ndarray[Any, Any]], Any]) -> dict[str, Any]:
    lists = {"a": [drawn(3, 16, 64), drawn(4, 16, 64)], "b": [drawn(5, 64, 16), drawn(6, 64, 16)], "out": OUTS}
    return {name: [place(one) for one in some] for name, some in lists.items()}


@pytest.mark.parametrize(("change", "sentence"), CHANGES)
def test_lists_of_the_host_are_checked_before_any_launch(change: Change, sentence: str) -> None:
    before = [one.copy() for one in (*OUTS, WHOLE)]
    with EmulatedDevice("gfx950") as device:
        with pytest.raises(gemm.TensorError, match=sentence):
            gemm.matmul(**given(np.asarray) | change, device=device)
        assert not device.launches
    assert all(np.array_equal(*pair) for pair in zip(before, (*OUTS, WHOLE), strict=True))


@pytest.mark.parametrize(("change", "sentence"), OF_A_GPU)
def test_lists_of_a_gpu_are_checked_before_any_launch(change: Change, sentence: str) -> None:
    fake = FakeHip()
    with HipDevice("gfx950", fake, 1) as device, pytest.raises(gemm.TensorError, match=sentence):
        gemm.matmul(**given(lambda one: on(1, one)) | change, device=device)
    assert not fake.launches


def test_a_vector_as_b_is_refused() -> None:
    with EmulatedDevice("gfx950") as device, pytest.raises(gemm.TensorError, match="b of gemm.matmul must be a matrix"):
        gemm.matmul(drawn(1, 4, 8), drawn(2, 8), device=device)


SHAPES: list[tuple[tuple[int, ...], bool | str]] = [
    ((1,), False), ((1, 1), False), ((4,), False), ((4, 1), False), ((2, 4), True), ((2, 4, 1), True), ((2, 1), True), ((2, 4, 3), True),
    ((4, 3), False), ((2,), "1 scale or of 4"), ((4, 2), "1 scale or of 4"), ((3, 4), "1 scale or of 4"),
]


@pytest.mark.parametrize(("shape", "expected"), SHAPES)
def test_scales_of_two_products_of_four_rows(shape: tuple[int, ...], expected: bool | str) -> None:
    scale = np.zeros(shape, np.float32)
    if isinstance(expected, bool):
        assert is_own("f", "a_scale", scale, 2, 4, (4, 3)) == expected
    else:
        with pytest.raises(gemm.TensorError, match=expected):
            is_own("f", "a_scale", scale, 2, 4, (4, 3))


def test_a_scale_of_each_product_is_one_for_each_of_its_rows() -> None:
    of_two = np.float32([[2], [3]])
    for made in (for_each_row("f", "a_scale", of_two, 2, 3), for_each_row("f", "a_scale", TorchTensor(of_two), 2, 3).array):
        assert made.tolist() == [[2, 2, 2], [3, 3, 3]]
    with pytest.raises(gemm.TensorError, match="one for each of 4 products or one for each of 4 rows"):
        is_own("f", "a_scale", np.ones((4, 1), np.float32), 4, 4, (4, 1))
    assert not is_own("f", "b_scale", np.ones((1, 3), np.float32), 1, 100, (1, 3))


def test_a_kernel_on_another_stream_needs_nothing_of_the_current_one() -> None:
    done: list[str] = []
    device = SimpleNamespace(upload=lambda array: array.tolist(), free=lambda buffer: done.append("free"),
                             synchronize=lambda: done.append("synchronize"))
    like = SimpleNamespace(new_tensor=None, new_ones=None)
    with ExitStack() as stack:
        assert addresses(stack, device, like, [16, 32], 7) == [16, 32] and not done
    assert done == ["synchronize", "free"]
    assert matrixscales.ones("f", like, 3, 7).tolist() == [1, 1, 1]
    empty = SimpleNamespace(shape=(2, 0), dtype="torch.bfloat16", new_zeros=None)
    a, b = module._with_columns(module._MATMUL, empty, SimpleNamespace(shape=(0, 3), dtype="torch.float8_e4m3fn", new_zeros=None), 7)
    assert (a.tolist(), a.dtype, b.tolist(), b.dtype) == ([[0], [0]], BF16, [[0, 0, 0]], ml_dtypes.float8_e4m3fn)
    assert ones(SimpleNamespace(dtype="torch.bfloat16", new_ones=None), 2, 7).dtype == BF16
