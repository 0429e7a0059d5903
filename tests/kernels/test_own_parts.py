"""persistent=true with split_k: a workgroup adds the parts of a tile itself, to the bits of workgroups that share the tile."""

from __future__ import annotations

from typing import Any

import pytest

from asmgen.author.contract.contract import ContractError
from asmgen.kernels.registry import family
from asmgen.tuning.candidates import candidates
from tests.kernels.test_persistent import FP8, LIBRARY, SMALL, check_bits, check_executed

PING_PONG = {"tile": "256x256x64", "schedule": "ping-pong"}
CASES: list[tuple[Any, str, dict[str, Any], dict[str, Any]]] = [
    # parts of four and three steps, several tiles of a workgroup, cut rows and columns, a batch
    (LIBRARY, "gfx950", {**SMALL, "split_k": 3, "bias": "row", "window": 2, "preload": True},
     {"m": 250, "n": 300, "k": 704, "workgroups": 2, "batch": 2, "beta": 2.0, "alpha": 0.5}),
    (LIBRARY, "gfx950", {**PING_PONG, "split_k": 2, "d_layout": "column", "c_layout": "column"},
     {"m": 136, "n": 300, "k": 384, "workgroups": 1}),
    (LIBRARY, "gfx950", {"tile": "256x256x64", "schedule": "interleave", "split_k": 2, "a_layout": "column", "bias": "row"},
     {"m": 264, "n": 256, "k": 448, "workgroups": 1}),
    (LIBRARY, "gfx942", {**SMALL, "split_k": 3, "dtype": "f16", "b_layout": "column"}, {"m": 130, "n": 128, "k": 576, "workgroups": 1}),
    (LIBRARY, "gfx942", {**PING_PONG, "split_k": 2, "bias": "row"}, {"m": 260, "n": 256, "k": 448, "workgroups": 1, "beta": 2.0}),
    (FP8, "gfx950", {"tile": "128x256x128", "schedule": "ping-pong", "split_k": 2},
     {"m": 130, "n": 300, "k": 896, "workgroups": 1, "alpha": 0.5}),
    (FP8, "gfx942", {"tile": "128x128x128", "schedule": "interleave", "split_k": 2, "bias": "column"},
     {"m": 132, "n": 128, "k": 768, "workgroups": 1, "beta": 2.0}),
]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(CASES)))
def test_bits_are_those_of_workgroups_that_share_a_tile(number: int) -> None:
    check_bits(*CASES[number])


REACHED: list[dict[str, Any]] = [
    {"m": 130, "n": 128, "k": 576, "beta": 0.5}, {"m": 16, "n": 264, "k": 768}, {"m": 16, "n": 256, "k": 704, "batch": 2},
    {"m": 16, "n": 140, "k": 832, "beta": 1.0, "alpha": 2.0}, {"m": 16, "n": 256, "k": 704, "batch": 2, "ldc": 257, "beta": 1.0},
]


@pytest.mark.slow
def test_each_instruction_is_executed() -> None:
    check_executed({**SMALL, "persistent": True, "split_k": 3}, REACHED)


@pytest.mark.parametrize(("kernel", "values", "sentence"), [
    ("gemm-bf16", {"k": 320}, "at least 3 steps in each part of K"),
    ("gemm-bf16", {"k": 256, "split_k": 3}, "at least 3 steps in each part of K"),  # the third would have none
    ("gemm-bf16", {"reduce": "atomic"}, "reduce=ordered"), ("gemm-bf16", {"any_k": True}, "any_k=false"),
    ("gemm-fp8", {"scales": "row", "k": 768}, "scales=tensor"),
])
def test_what_own_parts_do_not_serve_is_refused(kernel: str, values: dict[str, Any], sentence: str) -> None:
    given = {"persistent": True, "split_k": 2, "m": 256, "n": 256, "k": 384, **values}
    with pytest.raises(ContractError, match=f"persistent=true with split_k above 1 needs {sentence}"):
        family(kernel).contract("gfx950", given).resolve_run(given)


@pytest.mark.parametrize(("kernel", "arch", "parts"), [("gemm-bf16", "gfx950", 2), ("gemm-bf16", "gfx942", 2), ("gemm-fp8", "gfx950", 1)])
def test_tune_tries_it_for_many_rows_of_invariant_products(kernel: str, arch: str, parts: int) -> None:
    for m, tried in ((8192, parts > 1), (64, False)):
        found = candidates(family(kernel), arch, {"m": m, "n": 8192, "k": 8192, "invariant": True}, 256)
        assert {one.build["split_k"] for one in found} == {parts}
        assert any(one.build["persistent"] and one.build["split_k"] > 1 for one in found) == tried


def test_each_workgroup_has_a_slot() -> None:
    build = {**PING_PONG, "persistent": True, "split_k": 2}
    contract = LIBRARY.contract("gfx950", build)
    for m, slots in ((300, 2), (8192, 256)):
        values = contract.resolve_run({**build, "m": m, "n": 8192 if m == 8192 else 256, "k": 1024})
        assert contract.workspace_bytes_of(values) == {"parts": slots * 4 * 256 * 256}
