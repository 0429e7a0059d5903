"""Stores of workgroups that no two of them make: right kernels, and such whose workgroups lie too close."""

from __future__ import annotations

from dataclasses import replace

import pytest

from asmgen.kernels.registry import family
from asmgen.tools.addressrun import run_addresses
from asmgen.tools.build import build_kernel
from asmgen.tools.disjointwrites import WriteCheck
from asmgen.tools.proof import PROVEN, REFUTED
from asmgen.tools.proofclasses import given_launches
from asmgen.tools.proofsweep import default_builds
from asmgen.tools.writeclaim import write_claim

pytestmark = pytest.mark.needs_objdump


def test_workgroups_that_lie_too_close_are_refuted_by_a_launch() -> None:
    """A sum has 4 bytes. With 2 bytes from one to the next, the emulator sees the race that the formulas tell."""
    library = family("02-row-sum")
    built = build_kernel(library, "gfx950", next(default_builds(library, "gfx950")), verify=False)
    assert write_claim(library, built).status == PROVEN
    old = [item for item in built.kernel.program.instructions if item.name == "s_lshl_b32"][-1]
    near = replace(old, operands=(*old.operands[:2], 1))
    program = built.kernel.program.with_items(near if item is old else item for item in built.kernel.program.items)
    claim = write_claim(library, built, program)
    assert claim.status == REFUTED and claim.counterexample is not None and claim.counterexample["kernel"] == "02-row-sum"
    assert "workgroups 0 and 1 write the same elements of " in claim.reason and str(claim.at).startswith("global_store_dword")


@pytest.mark.slow
def test_rows_of_a_product_are_apart_whatever_the_stride_is() -> None:
    """The workgroup's rows of D begin at a multiple of the tile times ldd; half of that is no multiple that keeps them apart."""
    library = family("gemm-bf16")
    built = build_kernel(library, "gfx950", library.parse("gfx950", ("tile=64x64x64", "schedule=interleave")), verify=False)
    contract, build = built.kernel.contract, built.kernel.parameters
    values = contract.resolve_run({**build, **given_launches(contract, build)[0]})
    old = next(item for item in built.kernel.program.instructions if item.name == "s_mul_i32" and item.operands[2] == 64)
    half = replace(old, operands=(*old.operands[:2], 32))
    program = built.kernel.program.with_items(half if item is old else item for item in built.kernel.program.items)
    right, wrong = (WriteCheck(run_addresses(library, built, values, program=one), contract, values) for one in (None, program))
    assert right.overlap() is None and not right.lost and right.stores
    assert wrong.overlap() is not None
