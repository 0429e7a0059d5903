"""Launches that come to the edges of comparisons, by terms."""

from __future__ import annotations

import pytest

from asmgen.kernels.registry import family
from asmgen.tools.proofs.edgelaunches import Key
from asmgen.tools.proofs.edgeterms import Base, EdgeTerms
from asmgen.tools.proofs.limitlaunches import LimitCheck
from asmgen.tools.proofs.proof import PROVEN, REFUTED
from asmgen.tools.proofs.runclaims import index_claim
from asmgen.tools.running.build import build_kernel
from tests.tools.test_limit_launches import other_rows, with_row

_ROW = "s_lshl_b32 s3, s2, 2\n"
_SCALAR, _VECTOR, _EQUAL = "s_cmp_gt_u32 s2, 20\n", "v_mov_b32 v4, s2\nv_cmp_gt_u32 vcc, 21, v4\n", "s_cmp_eq_u32 s2, 30\n"


def keys(check: LimitCheck, text: str, *turns: int) -> list[Key]:
    """Of the comparison that a text ends with."""
    own = text.splitlines()[-1]
    (position,) = (number for number, one in enumerate(check.report.program.instructions) if one.text == own)
    return [((position, own.split()[0]), turn) for turn in turns]


def edge_terms(check: LimitCheck, left: list[Key], most: int = 100) -> EdgeTerms:
    base = Base({"m": 3, "n": 128}, [1] * len(check.report.program.instructions))
    return EdgeTerms([check], check._contract, {}, lambda: left, lambda position: base, lambda values: int(str(values["m"])) <= most,
                     {"m": 1, "n": 64})


def test_one_launch_meets_several_edges_and_is_short() -> None:
    """Row 21 is one more than 20 and no less than 21; rows of 64 columns tell as much as those of 128. The next launch has row 20."""
    check = with_row(_ROW, 3, behind=f"{_SCALAR}{_VECTOR}")
    left = keys(check, _SCALAR, 0, 1) + keys(check, _VECTOR, 0)
    terms, launches = edge_terms(check, left), list[dict[str, object]]()
    for launch in terms.following():
        launches.append(launch)
        left[:] = [] if len(launches) > 1 else left[:1]
    assert launches == [{"m": 22, "n": 64}, {"m": 21, "n": 64}] and not terms.unmet()


def test_an_edge_that_launches_should_meet_and_do_not_is_named() -> None:
    """The short launch runs, then that with columns as they were. Launches that are too long are not made; next to equal sides counts for
    nothing."""
    check = with_row(_ROW, 3, behind=f"{_SCALAR}{_EQUAL}")
    inequality, equality = keys(check, _SCALAR, 0), keys(check, _EQUAL, 1)
    terms = edge_terms(check, inequality + equality)
    assert edge_terms(check, inequality).unmet() == [] and [*edge_terms(check, inequality, 20).following()] == []
    launches = [*terms.following()]
    assert launches[:2] == [{"m": 21, "n": 64}, {"m": 21, "n": 128}] and {"m": 30, "n": 64} in launches and terms.unmet() == inequality


@pytest.mark.parametrize(("around", "first"), [
    ("s_cmp_gt_u32 s8, 150\ns_cbranch_scc1 around\n", {"m": 73, "n": 128}), ("", {"m": 3, "n": 198})])
def test_launches_come_first_in_which_waves_come_to_an_edge(around: str, first: dict[str, int]) -> None:
    """A row's number and length are 200 together where rows are long, or where there are many, which is more work. Long ones go around."""
    sum_of_both = "s_add_u32 s91, s2, s8\ns_cmp_gt_u32 s91, 0xc8\n"
    check = with_row(_ROW, 3, behind=f"{around}{sum_of_both}s_cbranch_scc1 over\ns_nop 0\nover:\ns_nop 1\naround:\n")
    terms = edge_terms(check, keys(check, sum_of_both, 0))
    assert next(terms.following()) == first


@pytest.mark.parametrize(("behind", "status"), [
    (_SCALAR, PROVEN), ("s_cmp_eq_u32 s2, 300\ns_cselect_b64 exec, 0, exec\n", REFUTED)])
def test_the_one_row_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch, behind: str, status: str) -> None:
    """No launch has 301 rows but one that terms choose."""
    monkeypatch.setattr("asmgen.tools.proofs.edgelaunches._MOST", 0)
    _, program = other_rows(_ROW, behind)
    claim = index_claim(family("02-row-sum"), build_kernel(family("02-row-sum"), "gfx942", {}, verify=False), 60.0, program)
    assert claim.status == status and not [one for one in claim.assumptions if "s_cmp_gt_u32 s2, 20" in one], claim.reason
