"""Stores of workgroups that no two of them make: right kernels, and such whose workgroups lie too close."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from asmgen.author.contract.contract import KernelContract, Parameter
from asmgen.emulator.terms.accesses import AddressSequence
from asmgen.emulator.terms.polynomials import WORD, Polynomials, Term
from asmgen.kernels.registry import family
from asmgen.reader.assembly import read_text
from asmgen.tools.proofs.addressrun import AddressReport, run_addresses
from asmgen.tools.proofs.disjointwrites import WriteCheck, one_number
from asmgen.tools.proofs.proof import PROVEN, REFUTED, UNKNOWN
from asmgen.tools.proofs.proofclasses import given_launches
from asmgen.tools.proofs.writeclaim import further_launches, larger_launches, write_claim
from asmgen.tools.proofsweep import default_builds
from asmgen.tools.running.build import build_kernel

pytestmark = pytest.mark.needs_objdump

Formula = Callable[..., Any]


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


def stored(formula: Formula, ldd: int = 128, records: Formula | None = None, by: tuple[str, ...] = ("buffer_store_dword",)) -> WriteCheck:
    """A launch of two workgroups of a wave: a lane stores 4 bytes at the formula of (algebra, pointer, ldd, ldc, workgroup, 4 lane). Of
    several instructions `by`, each is one workgroup's."""
    algebra = Polynomials()
    most = {"d": (1 << 64) - 1, "ldd": WORD - 1, "ldc": WORD - 1, "workgroup.x": 1}
    given = [algebra.variable(name, 0, high) for name, high in most.items()]
    lane: Term = ()
    for bit in range(6):
        lane = algebra.add(lane, algebra.variable(f"item.{bit}", 0, 1), 4 << bit)
    (program,) = read_text("".join(f"{name} v0, v1, s[0:3], 0 offen\n" for name in by) + "s_endpgm\n", "gfx950")
    ends = {} if records is None else {"offset": lane, "records": records(algebra, *given, lane)}
    sequences = [AddressSequence(program.instructions[number], what, (0, 1) if len(by) == 1 else (number,), (term,))
                 for number in range(len(by)) for what, term in {"address": formula(algebra, *given, lane), **ends}.items()]
    strides = [Parameter(name, "run", int, "bytes from row to row") for name in ("ldd", "ldc")]
    contract = SimpleNamespace(parameters=strides, workgroup=(64, 1, 1), grid_of=lambda values: (2, 1, 1))
    return WriteCheck(cast(AddressReport, SimpleNamespace(algebra=algebra, sequences=sequences, lanes={})), cast(KernelContract, contract),
                      {"ldd": ldd, "ldc": 128})


def rows(algebra: Polynomials, d: Term, ldd: Term, ldc: Term, group: Term, lane: Term) -> Term:
    return algebra.add(algebra.add(d, algebra.mul(ldd, group)), lane)


def test_a_store_past_its_row_meets_the_next_row() -> None:
    """64 lanes store 256 bytes: with rows 128 bytes apart the last 128 are the next workgroup's, which has other rows."""
    assert stored(rows, 256).overlap() is None
    found = stored(rows, 128).overlap()
    assert found is not None and (found.first, found.second) == (0, 1)


def test_a_buffer_that_grows_with_a_stride_leaves_no_lane_out() -> None:
    """The second half of a workgroup's bytes are the next one's. A buffer of 128 bytes has none of them; one of ldd bytes has with larger
    strides than the launch's."""
    def near(algebra: Polynomials, d: Term, ldd: Term, ldc: Term, group: Term, lane: Term) -> Term:
        return algebra.add(algebra.add(d, group, 128), lane)

    assert stored(near, 128, lambda algebra, d, ldd, *_: algebra.number(128)).overlap() is None
    assert stored(near, 128, lambda algebra, d, ldd, *_: ldd).overlap() is not None


@pytest.mark.parametrize(("by", "meet"), [
    (("buffer_atomic_add", "buffer_atomic_add"), False), (("buffer_atomic_add", "buffer_store_dword"), True),
    (("buffer_store_dword", "buffer_atomic_add"), True)])
def test_atomics_of_workgroups_meet_stores_alone(by: tuple[str, ...], meet: bool) -> None:
    def same(algebra: Polynomials, d: Term, ldd: Term, ldc: Term, group: Term, lane: Term) -> Term:
        return algebra.add(d, lane)

    check = stored(same, by=by)
    assert (check.overlap() is not None) == meet and check.stores == by.count("buffer_store_dword")


@pytest.mark.parametrize(("why", "formula"), [
    ("not affine", lambda algebra, d, ldd, ldc, group, lane: algebra.add(d, algebra.function("min", ldd, algebra.number(1000)))),
    ("not affine", lambda algebra, d, ldd, ldc, group, lane: algebra.add(d, algebra.mul(ldd, ldc))),
    ("not followed", lambda algebra, d, ldd, ldc, group, lane: algebra.add(d, lane, 1 << 64)),
    ("not known as a formula", lambda *_: None), ("0 pointers", lambda algebra, d, ldd, *_: ldd)])
def test_what_is_no_formula_of_rows_is_lost(why: str, formula: Formula) -> None:
    check = stored(formula)
    check.overlap()
    assert why in check.lost.replace("that it is not affine in", "not affine")


@pytest.mark.slow
def test_a_kernel_without_an_example_runs_in_several_workgroups() -> None:
    library = family("03-transpose")
    claim = write_claim(library, build_kernel(library, "gfx950", {}, verify=False))
    assert claim.status == PROVEN and "up to 16 workgroups" in claim.scope


def test_a_store_that_no_launch_executes_is_named() -> None:
    library = family("02-row-sum")
    built = build_kernel(library, "gfx950", next(default_builds(library, "gfx950")), verify=False)
    store = next(item for item in built.kernel.program.instructions if item.name.startswith("global_store"))
    (first,) = read_text("s_cmp_eq_u32 s0, s0\ns_cbranch_scc0 never\ns_endpgm\nnever:\ns_endpgm\n", "gfx950")
    program = built.kernel.program.with_items([*first.items[:2], *built.kernel.program.items, first.items[3], store, first.items[4]])
    late = write_claim(library, built, program, 0.0)
    assert late.status == UNKNOWN and late.reason.startswith("the 0 s for stores were over")
    claim = write_claim(library, built, program)
    assert claim.status == UNKNOWN and "1 stores are executed by no launch" in claim.reason and str(claim.at).endswith(store.text)


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
    whole = [launch["k"] for launch in further_launches(contract, build) if (launch["m"], launch["n"]) == (128, 64)]
    assert set(whole) >= set(range(64, 14 * 64 + 1, 64)), "each end of a loop may store whole tiles by code of its own"


@pytest.mark.parametrize(("kernel", "long", "short"), [("attention-forward", "sq", "sk"), ("attention-backward", "sk", "sq")])
def test_a_launch_of_many_workgroups_has_loops_of_one_tile(kernel: str, long: str, short: str) -> None:
    """Workgroups are many by queries forward and by keys backward; the loop goes over the other one, which follows from it by default."""
    library = family(kernel)
    contract = library.contract_of(library.variants("gfx950")[0])
    found = [launch for launch in larger_launches(contract, contract.resolve_build({})) if launch.get(long, 0) > 1024]
    assert [launch[long] for launch in found] == [4096] and [launch[short] for launch in found] == [256]


def test_a_stride_stays_as_large_as_its_rows() -> None:
    """A stride follows from the size of rows, and the contract refuses a smaller one."""
    library = family("gemm-bf16")
    contract = library.contract_of(library.variants("gfx950")[0])
    build = contract.resolve_build({})
    for launch in larger_launches(contract, build):
        values = contract.resolve_run({**build, **launch})
        assert int(values["ldd"]) >= int(values["n"])


@pytest.mark.parametrize("most", [3, 1 << 21, 1 << 40, (1 << 63) - 1])
def test_rows_have_one_number_where_all_their_columns_are_equal(most: int) -> None:
    rng = np.random.default_rng(most % 1009)
    few = rng.integers(-most, most, (12, 5))
    rows = few[rng.integers(0, 12, 300)]
    rows[:, 2] = few[rng.integers(0, 12, 300), 2]
    found, (_, back) = one_number(list(rows.T)), np.unique(rows, axis=0, return_inverse=True)
    _, ranks = np.unique(found, return_inverse=True)
    assert ranks.tolist() == back.reshape(-1).tolist()


@pytest.mark.parametrize(("further", "meet"), [(256, False), (508, True), (512, True)])
def test_stores_that_differ_in_a_constant_are_told_apart(further: int, meet: bool) -> None:
    """Rows of 512 bytes: the second store's 256 bytes are in the same row, or in the next workgroup's."""
    check = stored(rows, 512, by=("buffer_store_dword",) * 2)
    algebra, (first, second) = check.report.algebra, check.report.sequences
    (term,) = second.terms
    assert term is not None
    both = [replace(first, waves=(0, 1)), replace(second, waves=(0, 1), terms=(algebra.add(term, algebra.number(further)),))]
    check.report.sequences = both  # type: ignore[misc]
    assert (check.overlap() is not None, check.lost) == (meet, "")
