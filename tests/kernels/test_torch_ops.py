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


def stand_in() -> tuple[Any, dict[str, Any]]:
    ops: dict[str, Any] = {}

    def custom_op(name: str, run: Any, mutates_args: tuple[str, ...], schema: str) -> Any:
        ops[name] = SimpleNamespace(run=run, mutates=mutates_args, schema=schema)
        return SimpleNamespace(register_fake=lambda shapes: setattr(ops[name], "shapes", shapes))

    return SimpleNamespace(library=SimpleNamespace(custom_op=custom_op)), ops


def test_operators_are_defined_and_right(monkeypatch: pytest.MonkeyPatch) -> None:
    torch, ops = stand_in()
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delitem(sys.modules, "asmgen.kernels.torch_ops", raising=False)
    monkeypatch.setattr("asmgen.kernels.gemm.choose", first_declared)
    importlib.import_module("asmgen.kernels.torch_ops")
    product, into = ops["asmgen::gemm_bf16"], ops["asmgen::gemm_bf16_out"]
    assert (product.mutates, into.mutates) == ((), ("out",)) and into.schema == "(Tensor a, Tensor b, Tensor(a!) out) -> ()"
    rng = np.random.default_rng(3)
    a, b = (TorchTensor(rng.standard_normal((rows, 64)).astype(ml_dtypes.bfloat16)) for rows in (40, 24))
    assert product.shapes(a, b).shape == (40, 24)
    expected = a.array.astype(np.float64) @ b.array.astype(np.float64).T
    out = a.new_empty((40, 24))
    into.run(a, b, out)
    for found in (product.run(a, b), out):
        assert found.shape == (40, 24) and np.abs(found.array.astype(np.float64) - expected).max() < 0.2


def test_without_torch_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "asmgen.kernels.torch_ops", raising=False)
    with pytest.raises(AsmgenError, match="needs PyTorch, and no torch is installed"):
        importlib.import_module("asmgen.kernels.torch_ops")
