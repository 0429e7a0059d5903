"""A and B by rows and by columns on both architectures: right on odd shapes, without bank conflicts, in each order of waves."""

from __future__ import annotations

from typing import Any

import pytest

from asmgen.author.contract.contract import ContractError
from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.registry import family
from asmgen.tools.running.build import build_kernel, lint_errors
from asmgen.tools.running.runner import run_kernel

NN, TN, TT = {"b_layout": "column"}, {"a_layout": "column", "b_layout": "column"}, {"a_layout": "column"}
CASES: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("gemm-bf16", "gfx950", {"tile": "32x32x64", "schedule": "interleave", **TN}, {"m": 34, "n": 66, "k": 704, "lda": 40, "ldb": 72}),
    ("gemm-bf16", "gfx950", {"tile": "64x64x64", **NN}, {"m": 66, "n": 68, "k": 128, "ldb": 72}),
    ("gemm-bf16", "gfx950", {"tile": "128x128x64", **TT, "split_k": 2, "dtype": "f16"}, {"m": 130, "n": 126, "k": 192, "lda": 144}),
    ("gemm-bf16", "gfx950", {"tile": "256x256x64", "schedule": "ping-pong", **TN}, {"m": 136, "n": 256, "k": 192}),
    ("gemm-bf16", "gfx950", {"tile": "64x256x64", **TN, "d_layout": "column", "c_layout": "column"},
     {"m": 256, "n": 64, "k": 128, "batch": 2, "beta": 0.5}),
    ("gemm-bf16", "gfx942", {"tile": "256x256x64", "schedule": "ping-pong", **TN}, {"m": 136, "n": 122, "k": 192, "ldb": 128}),
    ("gemm-bf16", "gfx950", {"tile": "192x256x64", "schedule": "ping-pong", **NN}, {"m": 97, "n": 130, "k": 64, "ldb": 136}),
    ("gemm-bf16", "gfx950", {"tile": "128x256x64", "schedule": "producer-consumer", **TN},
     {"m": 130, "n": 34, "k": 128, "lda": 136, "ldb": 40}),
    ("gemm-fp8", "gfx950", {"tile": "64x32x128", **TT, "scales": "row", "a_dtype": "e5m2"}, {"m": 80, "n": 68, "k": 384, "batch": 2}),
    ("gemm-fp8", "gfx950", {"tile": "256x256x128", "schedule": "ping-pong", **TN}, {"m": 144, "n": 272, "k": 256}),
    ("gemm-fp8", "gfx942", {"tile": "256x256x128", "schedule": "interleave", **TN, "bias": "row"},
     {"m": 36, "n": 132, "k": 256, "lda": 48, "ldb": 144}),
]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(CASES)))
def test_products_of_each_layout(number: int) -> None:
    name, arch, build, shape = CASES[number]
    library = family(name)
    one = build_kernel(library, arch, build)
    assert not lint_errors(one)
    for seed, order in ((1, "random:5"),):
        report = run_kernel(library, one, one.kernel.contract.resolve_run({**one.kernel.parameters, **shape}), "emulator", seed,
                            Options(order=order, count_banks=True))
        assert report.passed and report.untouched and not report.findings and not report.bank_conflicts, report


@pytest.mark.parametrize(("values", "sentence"), [
    ({**TN, "m": 33}, "a multiple of 4 bytes"),
    ({**TN, "m": 32, "lda": 24}, "lda must be at least k, or m where"),
    ({**TN, "schedule": "in-order", "tile": "16x16x64"}, "no variant"),
    ({**TT, "tile": "192x256x64"}, "must be by rows with a tile of 192 rows"),
    ({**NN, "tile": "192x256x64", "d_layout": "column", "c_layout": "column"}, "must be by rows with a tile of 192 rows"),
])
def test_what_no_variant_serves_is_refused(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        family("gemm-bf16").contract("gfx950", values).resolve_run({"m": 32, "n": 64, "k": 64, "lda": 64, **values})


ELEMENTS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("gemm-bf16", "gfx950", {"a_layout": "column", "dtype": "f16"}, {"m": 133, "n": 61, "k": 99, "batch": 2}),
    ("gemm-bf16", "gfx942", {"b_layout": "column", "split_k": 2},
     {"m": 13, "n": 27, "k": 199, "lda": 211, "batch": 2, "a_stride_batch": 2777}),
    ("gemm-fp8", "gfx950", {"a_layout": "column", "scales": "row", "a_dtype": "e5m2"}, {"m": 133, "n": 31, "k": 199}),
    ("gemm-fp8", "gfx942", {}, {"m": 5, "n": 2, "k": 1}),
]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(ELEMENTS)))
def test_any_length_and_stride_is_served_by_elements(number: int) -> None:
    name, arch, build, shape = ELEMENTS[number]
    library = family(name)
    contract = library.contract(arch, {**build, **shape})
    assert contract.parameter("schedule").default == "elements"
    one = build_kernel(library, arch, {**build, "schedule": "elements"})
    for seed, order in ((0, "random:5"),):
        report = run_kernel(library, one, contract.resolve_run({**one.kernel.parameters, **shape}), "emulator", seed, Options(order=order))
        assert report.passed and report.untouched and not report.findings, report


@pytest.mark.slow
@pytest.mark.parametrize(("name", "tile"), [("gemm-bf16", "32x32x64"), ("gemm-fp8", "32x32x128")])
def test_a_drain_that_follows_the_prologue_refills_nothing_that_is_read(name: str, tile: str) -> None:
    assert not lint_errors(build_kernel(family(name), "gfx942", {"tile": tile, "schedule": "interleave"}))
