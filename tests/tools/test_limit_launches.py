"""Addresses at a contract's limits: right kernels do not wrap there, the same kernels under a wider contract do, and a launch shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from asmgen.kernels.registry import family
from asmgen.tools.addressrun import run_addresses
from asmgen.tools.build import Built, build_kernel
from asmgen.tools.limitlaunches import LimitCheck, Wrap, limit_launches
from asmgen.tools.proofclasses import steady

CASES = {"gemm-bf16": ("ldd", {"m": 130, "n": 40, "k": 64}), "norm": ("x_stride", {"rows": 5})}


def widened(built: Built, name: str) -> Built:
    """The kernel under a contract that allows any 32-bit number for one stride, whatever rules said."""
    contract = built.kernel.contract
    parameters = tuple(replace(one, maximum=(1 << 32) // 8 * 8 - 8) if one.name == name else one for one in contract.parameters)
    rules = tuple(rule for rule in contract.rules if name not in rule.reads)
    return replace(built, kernel=replace(built.kernel, contract=replace(contract, parameters=parameters, rules=rules)))


@pytest.mark.parametrize("name", CASES)
def test_wider_contracts_wrap(name: str) -> None:
    stride, sizes = CASES[name]
    library = family(name)
    right = build_kernel(library, "gfx950", {}, verify=False)
    for built, wraps in ((right, False), (widened(right, stride), True)):
        contract, build = built.kernel.contract, built.kernel.parameters
        report = run_addresses(library, built, contract.resolve_run({**build, **sizes}))
        found = LimitCheck(report, contract, build).wrap()
        assert isinstance(found, Wrap) == wraps, found
        if isinstance(found, Wrap):
            assert found.parameters[stride] > sizes.get("n", 0) and found.off % (1 << 32) == 0 and found.off


def test_limits_are_as_far_as_the_contract_goes() -> None:
    contract = build_kernel(family("gemm-bf16"), "gfx950", {}, verify=False).kernel.contract
    build = contract.resolve_build({})
    found = list(limit_launches(contract, build, ("m", "lda")))
    largest = contract.parameter("lda").maximum
    assert any(launch["lda"] + contract.parameter("lda").multiple_of > largest for launch in found)
    assert all(contract.resolve_run(launch) for launch in found)


@pytest.mark.parametrize(("counts", "period"), [
    ([[1, 0], [1, 1], [1, 2], [1, 3], [1, 4], [1, 5]], 1),
    ([[1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 2, 1], [1, 2, 2], [1, 3, 2], [1, 3, 3]], 2),
    ([[1]] * 9, None), ([[2**n] for n in range(12)], None), ([[1, n] for n in range(5)], None)])
def test_loops_are_steady_where_rounds_repeat(counts: list[list[int]], period: int | None) -> None:
    assert steady(counts) == period
