"""Batches, bias by rows and by columns, D by columns: on the emulator, against float64, with strides that leave gaps or share a matrix."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asmgen.author.contract.contract import ContractError, Rule
from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.products.streams import CHUNK
from asmgen.kernels.registry import family
from asmgen.tools.running.build import build_kernel
from asmgen.tools.running.runner import run_kernel

COLUMNS = {"d_layout": "column", "c_layout": "column"}
CASES: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("gemm-bf16", "gfx950", {"tile": "64x64x64", "bias": "column", "out": "f32"}, {"m": 70, "n": 33, "k": 128, "batch": 3}),
    ("gemm-bf16", "gfx950", {"tile": "64x64x64", "split_k": 3, "bias": "column"},
     {"m": 40, "n": 70, "k": 256, "batch": 2, "ldd": 144, "d_stride_batch": 72, "a_stride_batch": 0, "beta": 0.5}),
    ("gemm-bf16", "gfx950", {"schedule": "in-order", "tile": "16x32x64", "bias": "column"}, {"m": 20, "n": 33, "k": 256, "batch": 2}),
    ("gemm-bf16", "gfx942", {**COLUMNS, "bias": "row", "dtype": "f16"}, {"m": 128, "n": 128, "k": 64, "b_stride_batch": 128 * 64 + 40}),
    ("gemm-bf16", "gfx950", {"tile": "128x256x64", "schedule": "ping-pong", **COLUMNS, "bias": "column"},
     {"m": 250, "n": 130, "k": 128, "batch": 2, "beta": 1.0}),
    ("gemm-fp8", "gfx950", {"scales": "row", "tile": "64x64x128", **COLUMNS, "a_dtype": "e5m2"}, {"m": 64, "n": 70, "k": 256, "batch": 2}),
    ("gemm-fp8", "gfx950", {"scales": "block"}, {"m": 64, "n": 130, "k": 256, "batch": 2}),
]


@pytest.mark.parametrize("number", range(len(CASES)))
@pytest.mark.slow
def test_each_matrix_of_a_batch_is_a_product_of_its_own(number: int) -> None:
    name, arch, build, shape = CASES[number]
    library = family(name)
    one = build_kernel(library, arch, build)
    values = one.kernel.contract.resolve_run({**one.kernel.parameters, **shape})
    seed, order = ((1, "serial"), (0, "random:3"))[number % 2]  # by even seeds a NaN
    report = run_kernel(library, one, values, "emulator", seed, Options(order=order))
    assert report.passed and report.untouched and not report.findings, report


@pytest.mark.parametrize(("values", "sentence"), [
    ({"batch": 2, "d_stride_batch": 100}, "keep the matrices of D apart"),
    ({"batch": 30000, "split_k": 3}, "at most 65535"),
    ({"d_layout": "column"}, "c_layout must be d_layout"),
    ({**COLUMNS, "ldd": 16, "m": 20}, "ldd must be at least"),
    ({"batch": 2, "a_stride_batch": 68}, "a multiple of 8"),
])
def test_what_no_build_serves_is_refused(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        family("gemm-bf16").contract("gfx950", values).resolve_run({"m": 16, "n": 16, "k": 64, **values})


def test_matrices_may_lie_row_by_row_side_by_side() -> None:
    contract = family("gemm-bf16").contract("gfx950")
    assert contract.resolve_run({"m": 16, "n": 16, "k": 64, "batch": 4, "ldd": 64, "d_stride_batch": 16})["d_stride_batch"] == 16


ATOMIC: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("gemm-bf16", "gfx950", {"tile": "64x64x64", "split_k": 3, "reduce": "atomic", "bias": "row"},
     {"m": 70, "n": 40, "k": 256, "batch": 2, "beta": 0.5}),
    ("gemm-fp8", "gfx950", {"tile": "64x64x128", "scales": "row", "split_k": 3, "reduce": "atomic", **COLUMNS},
     {"m": 70, "n": 40, "k": 512}),
]


@pytest.mark.parametrize("number", range(len(ATOMIC)))
@pytest.mark.slow
def test_memory_adds_the_parts(number: int) -> None:
    name, arch, build, shape = ATOMIC[number]
    one = build_kernel(family(name), arch, build)
    values = one.kernel.contract.resolve_run({**one.kernel.parameters, **shape})
    assert [workspace.zeroed for workspace in one.kernel.contract.workspaces] == [True]
    assert one.kernel.contract.workspace_bytes_of(values)["parts"] == 4 * values["batch"] * 64 * (70 if number == 0 else 40) * \
        (1 if number == 0 else 2)
    report = run_kernel(family(name), one, values, "emulator", 1, Options(order="random:3"))
    assert report.passed and report.untouched and not report.findings, report


@pytest.mark.slow
def test_some_of_the_random_products() -> None:
    """The first of `python -m tests.random_gemm`, of builds that are made quickly."""
    from tests.random_gemm import failure

    assert [wrong for number in range(1) if (wrong := failure(number))] == []


def test_drawn_shapes_have_tiles_in_several_parts_and_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of stream_k have chunks enough to be cut; and where no shape fits, `python -m tests.random_gemm` says so."""
    from tests.random_gemm import drawn_shape

    build = {"stream_k": True, "tile": "256x256x128"}
    contract = family("gemm-fp8").contract("gfx950", build)
    one: Any = SimpleNamespace(kernel=SimpleNamespace(contract=contract, parameters=contract.resolve_build(build)))
    random = np.random.default_rng(1)
    assert max(drawn_shape(random, one)["k"] for _ in range(8)) >= 2 * CHUNK * 128
    monkeypatch.setattr("tests.random_gemm.TRIES", 20)
    one.kernel.contract = replace(contract, rules=(*contract.rules, Rule("k must be 1", ("k",), lambda p: p["k"] == 1)))
    with pytest.raises(ContractError, match="takes none with .*k must be 1"):
        drawn_shape(random, one)
