"""What the bits of library kernels depend on: not on the order of waves, tile or batch; a lazy rescale asks the data."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from asmgen.kernels.registry import family
from asmgen.tools.proofs.hashrun import HashReport, run_hashes
from asmgen.tools.running.build import build_kernel

pytestmark = pytest.mark.slow


@cache
def hashes(kernel: str, order: str = "lockstep", **values: Any) -> HashReport:
    found = family(kernel)
    contract = found.contract("gfx950", values)
    resolved = contract.resolve_run(values)
    built = build_kernel(found, "gfx950", {key: resolved[key] for key in resolved if contract.parameter(key).kind == "build"}, verify=False)
    return run_hashes(found, built, resolved, order=order)


def gemm(m: int = 64, tile: str = "64x256x64", order: str = "lockstep", schedule: str = "interleave") -> HashReport:
    return hashes("gemm-bf16", order, m=m, n=64, k=128, tile=tile, schedule=schedule)


def test_a_product_is_repeatable_and_invariant() -> None:
    plain = gemm()
    assert plain.equal(gemm(order="random:3")) and not plain.decisions
    assert plain.equal(gemm(tile="256x128x64", schedule="ping-pong")), "another tile and schedule, the same products in the same order"
    assert plain.equal(gemm(tile="64x64x64")), "accumulators that are cleared in another way"
    assert not plain.equal(gemm(tile="32x32x64", schedule="in-order")), "waves that share K"
    larger = gemm(m=128)
    assert (larger.outputs["d"][:64] == plain.outputs["d"]).all() and len(np.unique(larger.outputs["d"])) == larger.outputs["d"].size


def test_a_lazy_rescale_of_attention_asks_the_data() -> None:
    """An eager one asks only whether scores are huge."""
    branches = {}
    for rescale in ("lazy", "eager"):
        found = hashes("attention-forward", b=1, hq=1, sq=20, sk=70, d=64, rescale=rescale)
        assert not found.unknown["o"].any()
        branches[rescale] = sum(one.is_branch for one in found.decisions)
    assert branches["lazy"] > branches["eager"] > 0
