"""`asmgen show`: the operations of a kernel's step, as its author wrote them."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from asmgen.tools.cli import commands


def shown(*arguments: str) -> str:
    return CliRunner().invoke(commands, ["show", *arguments], standalone_mode=False, catch_exceptions=False).stdout


def test_the_step_of_attention_has_its_stages_and_conditions() -> None:
    rows = json.loads(shown("attention-forward", "--step", "--json"))["steps"][0]
    assert list(dict.fromkeys(row["stage"] for row in rows)) == ["maximum", "P V", "rescale", "K Q"]
    assert {row["condition"] for row in rows} == {None, "first", "later", "masked"}
    assert [(row["iteration"], row["stream"], row["units"]) for row in rows if row["operation"].startswith("mma")] == [
        (0, "matrix", 16), (2, "matrix", 16)]
    assert all("pingpong.py:" in row["where"] for row in rows)


def test_text_and_kernels_without_a_pipeline() -> None:
    text = shown("gemm-bf16", "--step").splitlines()
    assert text[0].startswith("step 1 of 1: ")
    assert text[1].split() == ["stage", "iteration", "condition", "stream", "units", "operation", "where"]
    assert any(line.split()[:3] == ["C11", "t", "matrix"] for line in text)
    assert shown("01-vector-add", "--step") == "01-vector-add_gfx950 has no pipeline\n"
    assert "arguments" in shown("01-vector-add")


@pytest.mark.parametrize("arguments", [("no-kernel",), ("gemm-bf16", "-p", "tile=1x1x1")])
def test_wrong_arguments(arguments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(commands, ["show", *arguments], standalone_mode=False)
    assert result.exit_code or result.exception or result.return_value
