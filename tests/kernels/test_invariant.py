"""invariant=true: the same bits of an element for any m, batch, tile, schedule and layout, and what it refuses."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from asmgen.author.contract.contract import ContractError
from asmgen.codeobject.load import CodeObject
from asmgen.kernels.registry import family
from asmgen.launch.emulated import EmulatedDevice
from asmgen.tools.running.build import build_kernel
from asmgen.tuning.candidates import candidates
from asmgen.tuning.started import launch_list

M, N, K = 96, 72, 256
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("gfx950", {"tile": "32x32x64", "schedule": "interleave"}), ("gfx950", {"tile": "256x256x64", "schedule": "ping-pong"}),
    ("gfx950", {"tile": "128x128x64", "a_layout": "column", "b_layout": "column"}),
    ("gfx950", {"tile": "128x256x64", "schedule": "producer-consumer"}),
    ("gfx942", {"tile": "128x128x64", "any_k": True}), ("gfx942", {"schedule": "elements", "a_layout": "column"}),
]


def bits(device: EmulatedDevice, arch: str, build: dict[str, Any], a: Any, b: Any, rows: int, batch: int) -> np.ndarray[Any, Any]:
    """D of the first rows of A, in the last matrix of a batch of equal ones."""
    library = family("gemm-bf16")
    one = build_kernel(library, arch, {**build, "invariant": True, "out": "f32", "bias": "row"})
    contract = one.kernel.contract
    values = contract.resolve_run({**one.kernel.parameters, "m": rows, "n": N, "k": a.shape[1], "batch": batch, "a_stride_batch": 0,
                                   "b_stride_batch": 0, "alpha": 1.25})
    given = a[:rows], b
    stored = [np.ascontiguousarray(matrix.T if values[f"{name}_layout"] == "column" else matrix)
              for name, matrix in zip("ab", given, strict=True)]
    d = np.zeros((batch, N, rows) if values["d_layout"] == "column" else (batch, rows, N), np.float32)
    bias = np.linspace(-3, 3, N).astype(np.float32)
    numbers = {argument.name: values[argument.name] for argument in contract.given if argument.type != "pointer"}
    launch_list(CodeObject.load(one.code_object), contract, values).start(
        device, {**numbers, "a": stored[0], "b": stored[1], "d": d, "c": d, "bias": bias}, None)
    return d[-1].T if values["d_layout"] == "column" else d[-1]


SPLIT: list[tuple[str, dict[str, Any]]] = [
    ("gfx950", {"tile": "64x32x64", "any_k": True}), ("gfx950", {"schedule": "elements", "b_layout": "column"}),
    ("gfx950", {"tile": "256x128x64", "schedule": "ping-pong", "d_layout": "column", "c_layout": "column", "any_k": True}),
    ("gfx942", {"tile": "128x128x64", "b_layout": "column"}), ("gfx942", {"schedule": "elements"}),
]
"""With three parts of K. Where K is no whole number of steps the last one has the K tail, which those that load by elements multiply as a
step of zeros."""


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "variants", "depth"), [("gfx950", VARIANTS, K), ("gfx942", VARIANTS, K - 40), ("gfx950", SPLIT, K - 40),
                                                         ("gfx942", SPLIT, K)])
def test_bits_depend_on_neither_m_nor_tile_nor_layout(arch: str, variants: list[tuple[str, dict[str, Any]]], depth: int) -> None:
    random = np.random.default_rng(5)
    a, b = (random.standard_normal((count, depth)).astype(ml_dtypes.bfloat16) for count in (M, N))
    found = []
    with EmulatedDevice(arch) as device:
        for number, (target, build) in enumerate(variants):
            if target == arch:
                build = {**build, "split_k": 3 if variants is SPLIT else 1}
                found.append(bits(device, arch, build, a, b, M if number % 2 else 40, 1 + number % 2)[:40])
    assert all((one.view(np.uint32) == found[0].view(np.uint32)).all() for one in found[1:]) and np.abs(found[0]).max() > 1


@pytest.mark.parametrize(("build", "sentence"), [
    ({"split_k": 2, "reduce": "atomic"}, "needs reduce=ordered"), ({"schedule": "in-order"}, "needs a schedule whose waves do not share K"),
])
def test_what_adds_in_another_order_is_refused(build: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ContractError, match=f"invariant=true {sentence}"):
        family("gemm-bf16").contract("gfx950", {"invariant": True, **build}).resolve_build({"invariant": True, **build})


@pytest.mark.parametrize(("kernel", "n", "k", "parts"), [
    ("gemm-bf16", 24576, 1536, 1), ("gemm-bf16", 4096, 14336, 4), ("gemm-bf16", 10240, 8192, 3), ("gemm-bf16", 576, 7168, 4),
    ("gemm-bf16", 6144, 4096, 2), ("gemm-bf16", 5120, 2880, 1), ("gemm-bf16", 5120, 25600, 3),  # 3 leave a 16th of 256 units idle
    ("gemm-bf16", 64, 8192, 5), ("gemm-fp8", 4096, 14336, 2), ("gemm-fp8", 10240, 8192, 1), ("gemm-fp8", 576, 7168, 2),
])
def test_n_and_k_say_how_often_k_is_cut(kernel: str, n: int, k: int, parts: int) -> None:
    """Whatever tune may return has these parts, for 1 row and for 8192; without `invariant` as many are tried."""
    for m in (1, 8192):
        given = {"m": m, "n": n, "k": k}
        found = candidates(family(kernel), "gfx950", given | {"invariant": True}, 256)
        assert len(found) > 5 and {one.build["split_k"] for one in found} == {parts}
        assert parts in {one.build["split_k"] for one in candidates(family(kernel), "gfx950", given, 256)}
