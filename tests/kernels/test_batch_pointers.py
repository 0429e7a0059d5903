"""Batches whose matrices lie anywhere: arrays of addresses, or of bytes from a first matrix on."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from asmgen.codeobject.load import CodeObject
from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.products.persistent import PERSISTENT_RULES
from asmgen.kernels.registry import family
from asmgen.launch.emulated import EmulatedDevice
from asmgen.tools.running.build import build_kernel
from asmgen.tools.running.runner import run_kernel
from asmgen.tuning.started import launch_list

CASES: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("gemm-bf16", "gfx950", {"tile": "16x16x64", "schedule": "in-order", "split_k": 2}, {"m": 36, "n": 20, "k": 256, "beta": 2.0}),
    ("gemm-fp8", "gfx942", {"schedule": "elements", "scales": "row", "d_layout": "column", "c_layout": "column"},
     {"m": 36, "n": 20, "k": 70, "beta": 1.5, "b_stride_batch": 0}),
    ("gemm-fp8", "gfx950", {"tile": "32x64x128", "schedule": "in-order", "scales": "block"}, {"m": 36, "n": 20, "k": 256, "batch": 1}),
]


def test_what_contracts_say_of_pointers_and_of_the_grid() -> None:
    """Matrices of A and B are aligned as a and b are; a family without `persistent` says nothing of it."""
    contract = family("gemm-bf16").contract("gfx950", {"pointers": True})
    aligned = {argument.name for argument in contract.arguments if "16-byte aligned but for schedule=elements" in argument.doc}
    assert aligned == {"a_pointers", "b_pointers"} and "a_stride_batch" in contract.parameter("pointers").doc
    chained = [name for name in ("gemm-bf16", "gemm-fp8", "gemm-mx") if "persistent" in family(name).grid.sentence]
    assert chained == ["gemm-bf16", "gemm-fp8"]
    needs = [rule.reads for rule in PERSISTENT_RULES]
    assert len(set(needs)) == len(needs)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arch", "build", "shape"), CASES, ids=lambda one: str(one)[:30])
def test_matrices_are_found_in_any_order(name: str, arch: str, build: dict[str, Any], shape: dict[str, Any]) -> None:
    """The problem has its matrices in reverse order; scales follow the number in the batch."""
    one = build_kernel(family(name), arch, {**build, "pointers": True})
    parameters = one.kernel.contract.resolve_run({**one.kernel.parameters, "batch": 3, **shape})
    report = run_kernel(family(name), one, parameters, "emulator", 3, Options(order="serial"), program=one.kernel.program)
    assert report.passed and report.untouched and not report.findings


def test_pointers_are_addresses_where_a_matrix_is_null() -> None:
    """Of separate buffers, one of which two products share; C and its array are null, as beta is 0."""
    random = np.random.default_rng(1)
    a, b = ([random.standard_normal((rows, 64)).astype(ml_dtypes.bfloat16) for _ in range(2)] for rows in (20, 33))
    one = build_kernel(family("gemm-bf16"), "gfx950", {"tile": "32x32x64", "schedule": "interleave", "pointers": True, "out": "f32"})
    contract = one.kernel.contract
    values = contract.resolve_run({**one.kernel.parameters, "m": 20, "n": 33, "k": 64, "batch": 3})
    with EmulatedDevice("gfx950") as device:
        lie = {"a": [device.upload(a[number]) for number in (0, 1)], "b": [device.upload(one) for one in b],
               "d": [device.upload(np.full((20, 33), 7, np.float32)) for _ in range(3)]}
        order = {"a": (1, 0, 1), "b": (0, 1, 1), "d": (2, 0, 1)}
        arrays = {f"{name}_pointers": np.array([lie[name][number].address for number in order[name]], np.uint64) for name in "abd"}
        numbers = {argument.name: values[argument.name] for argument in contract.given if argument.type != "pointer"}
        null = dict.fromkeys(("a", "b", "c", "d", "c_pointers", "bias"), 0)
        launch_list(CodeObject.load(one.code_object), contract, values).start(device, {**null, **numbers, **arrays})
        for number in range(3):
            found = device.read(lie["d"][order["d"][number]], np.float32, (20, 33))
            expected = a[order["a"][number]].astype(np.float64) @ b[order["b"][number]].astype(np.float64).T
            assert np.allclose(found, expected, atol=1e-4)
        assert all(launch.findings == () for launch in device.launches)
