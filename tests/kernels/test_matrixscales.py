"""Scales of float8 products of tensors: what shapes they may have, and to which axes they belong."""

from __future__ import annotations

import re

import numpy as np
import pytest

from asmgen.kernels.matrixscales import scaling_of
from asmgen.kernels.tensors import Facts, TensorError
from asmgen.kernels.usableviews import repeated
from tests.launch.test_launch_values import TorchTensor


def facts(shape: tuple[int, ...]) -> Facts:
    return shape, (1,) * len(shape), "float32"


@pytest.mark.parametrize(("shape", "axes"), [
    ((1, 1), (1,)), ((5,), (1, 1, 5)), ((5, 1), (1, 1, 5)), ((1, 5), (1, 1, 5)), ((3, 5), (1, 3, 5)), ((2, 1, 5), (2, 1, 5)),
    ((2, 3, 5), (2, 3, 5)), ((2, 3, 5, 1), (2, 3, 5)), ((2, 3, 1), (2, 3, 1)), ((3, 1), (1, 3, 1)), ((2, 1, 1), (2, 1, 1)),
    ((30,), (2, 3, 5)), ((6, 5), (2, 3, 5)), ((3, 2, 5), None), ((5, 6), None), ((2, 5), None), ((6,), None), ((5, 2), None),
])
def test_scales_of_two_by_three_matrices_of_five_rows(shape: tuple[int, ...], axes: tuple[int, ...] | None) -> None:
    def found() -> tuple[int, ...]:
        return scaling_of("f", {"a_scale": facts(shape), "b_scale": facts((7,))}, "gemm-fp8", 5, 7, 256, (2, 3)).axes["a_scale"][0]

    if axes is None:
        with pytest.raises(TensorError, match=re.escape(f"a_scale of f must have 1, 5 or 30 scales, got the shape {list(shape)}")):
            found()
    else:
        assert found() == axes


def test_rows_or_matrices_and_blocks() -> None:
    with pytest.raises(TensorError, match=r"one for each of 5 rows or for each matrix of \[5\]; \[5\] would work"):
        scaling_of("f", {"a_scale": facts((5, 1))}, "gemm-fp8", 5, 7, 256, (5,))
    blocks = {"a_scale": facts((1, 5, 2)), "b_scale": facts((1, 2))}
    assert scaling_of("f", blocks, "gemm-fp8", 5, 7, 256, (1,)).build == {"scales": "block"}
    with pytest.raises(TensorError, match="got the shape"):
        scaling_of("f", blocks, "gemm-fp8", 5, 7, 256, (2,))
    assert scaling_of("f", blocks, "gemm-fp8", 5, 7, 130, (1,)).build == {"scales": "block"}  # the last block has two columns


@pytest.mark.parametrize("kind", [np.asarray, TorchTensor])
def test_scales_are_repeated_along_their_own_axes(kind: type) -> None:
    made = repeated("f", "a_scale", kind(np.float32([[2, 3, 4]])), (1, 3, 1), (2, 3, 2), None)
    assert getattr(made, "array", made).tolist() == [[[2, 2], [3, 3], [4, 4]]] * 2
