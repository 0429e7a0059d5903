"""Families of several launches: which kernels a build has, in which order, with which contract, and that they stand in one code object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import asmgen as ag
from asmgen.codeobject.load import CodeObject
from asmgen.tools.inspection.inspection import inspect_file
from asmgen.tools.running.build import build_kernel, lint_errors, write_built
from tests.in_parts import POINTERS, family


@pytest.mark.parametrize(("again", "names"), [(0, ["in-parts first", "in-parts"]), (1, ["in-parts first", "in-parts", "in-parts last"])])
def test_a_build_parameter_decides_which_kernels_are_launched(again: int, names: list[str]) -> None:
    contract = family().contract("gfx950", {"again": again})
    assert [one.name for one in contract.launches] == names
    assert [argument.name for argument in contract.given] == ["x", "d", "more"] if not again else True
    resolved = contract.resolve_run({"n": 256, "again": again})
    assert [one.grid_of(resolved) for one in contract.launches] == [(4, 1, 1), (2, 1, 1), (4, 1, 1)][:2 + again]
    assert [one.workgroup[0] for one in contract.launches] == [64, 128, 64][:2 + again]
    assert contract.workspace_bytes_of(resolved) == {"half": 1024}


def test_one_code_object_has_all_kernels_and_the_json_says_how_to_launch_them(tmp_path: Path) -> None:
    built = build_kernel(family(), "gfx942", {"again": 1})
    assert not lint_errors(built)
    text, code, described = write_built(built, tmp_path)
    kernels = CodeObject.load(code).kernels
    document = json.loads(described.read_text())
    stem = text.stem.replace("-", "_")
    assert [row["symbol"] for row in document["launches"]] == [f"{stem}_first", stem, f"{stem}_last"]
    assert set(kernels) == {row["symbol"] for row in document["launches"]}
    for row in document["launches"]:
        assert [argument.name for argument in kernels[row["symbol"]].arguments] == [argument["name"] for argument in row["arguments"]]
    assert [row["grid"] for row in document["launches"]] == [
        {"sentence": "n / 64", "example": [4, 1, 1]}, {"sentence": "ceil(n / 128)", "example": [2, 1, 1]},
        {"sentence": "n / 64", "example": [4, 1, 1]}]
    assert document["workspaces"] == [{"name": "half", "doc": "2 x", "bytes": {"sentence": "4 n", "example": 1024}, "zeroed": False}]
    assert not {"grid", "workgroup", "arguments", "symbol", "lds_bytes"} & document.keys()  # of one kernel alone they would mislead
    for file in (text, code):
        assert {kernel.name for kernel in inspect_file(file, "gfx942").kernels} == set(kernels)
    assert any("at" in cell for kernel in inspect_file(code).kernels for row in kernel.as_json()["register_map"]["rows"]
               for cell in row["cells"])


def sentence(call: Any, *given: Any, **named: Any) -> str:
    with pytest.raises(ag.ContractError) as caught:
        call(*given, **named)
    return caught.value.sentence


def test_contradictions_are_refused() -> None:
    made = family()
    rule = ag.GridRule("1", lambda p, variant: (1, 1, 1))
    assert "has a kernel 'last' beside its variants already" in sentence(made.companion, "last", "", POINTERS, rule)
    assert "written by a function, not by 3" in sentence(made.companion("more", "", POINTERS, rule), 3)
    assert "more is a f32 of one kernel and a u32 of another" in sentence(
        made.companion("other", "", (ag.ContractArgument("more", "u32", ""),), rule), lambda k: None)
    assert "workspace halves is no pointer argument; did you mean 'half'?" in sentence(
        family, workspaces=(ag.Workspace("halves", "", 4),))


def test_memory_that_is_too_small_for_a_workspace_is_refused() -> None:
    contract = family().contract("gfx950")
    resolved = contract.resolve_run({"n": 384})
    contract.check_workspace("half", 1536, resolved)
    assert sentence(contract.check_workspace, "half", 1535, resolved) == (
        "half of in-parts must have at least 1536 bytes (4 n), got 1535")
    assert "no workspace 'd'" in sentence(contract.check_workspace, "d", 1 << 20, resolved)
