"""Rolls of mnemonics come from what a test file declares: the same whichever of its tests ran, and no declaration may be false."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.valu_cases import Cases

HERE = Path(__file__).resolve().parents[1]


def test_a_declaration_counts_before_its_test_has_run() -> None:
    cases = Cases()

    @cases.declares("v_{kind}_{size}", "v_always", also=lambda kind, size: ["v_more"] if kind == "a" else [])
    @pytest.mark.parametrize("kind", ["a", "b"])
    @pytest.mark.parametrize("size", [16, 32])
    def test(kind: str, size: int) -> None:
        raise AssertionError

    assert cases.declared == {"v_a_16", "v_a_32", "v_b_16", "v_b_32", "v_always", "v_more"}


@pytest.mark.parametrize("declared", [("v_not_b32",), ("v_not_b32", "v_mov_b32", "v_bfrev_b32")])
def test_a_false_declaration_fails(declared: tuple[str, ...]) -> None:
    cases = Cases()

    def test() -> None:
        cases.check("v_mov_b32", lambda a: a)
        cases.check("v_not_b32", lambda a: ~a & 0xFFFFFFFF)

    cases.declares("v_mov_b32", "v_not_b32")(test)()
    with pytest.raises(AssertionError, match="declares"):
        cases.declares(*declared)(test)()


def test_no_test_asks_for_a_worker_of_its_own() -> None:
    """Who needs others to have run on the same worker depends on them."""
    word = "xdist" + "_group"
    assert not [path.name for path in HERE.rglob("*.py") if word in path.read_text(encoding="utf-8")]
