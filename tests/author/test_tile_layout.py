"""`asmgen layout KERNEL:TILE`: elements of register tiles and of shared ones, against places typed by hand."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from tests.tools.test_cli import call, refused
from tests.tools.test_cli_layout import SVG, document

GEMM = ("-p", "tile=128x128x64", "-p", "schedule=interleave")


def elements(capsys: pytest.CaptureFixture[str], tile: str, *more: str) -> list[dict[str, Any]]:
    found = document(capsys, "layout", f"gemm-bf16:{tile}", *GEMM, *more)["elements"]
    assert isinstance(found, list)
    return found


@pytest.mark.slow
def test_a_register_tile(capsys: pytest.CaptureFixture[str]) -> None:
    """A is 32 x 64 bf16 for v_mfma_f32_16x16x32_bf16: lane 17 has row 1 and k 8 to 15 of each 32, register 5 of the tile k 42 and 43."""
    first = elements(capsys, "A", "--lane", "0", "--register", "0")[0]
    found = elements(capsys, "A", "--lane", "17", "--register", "5")
    assert [(one["index"], one["lane"], one["bit"], one["bits"]) for one in found] == [([0, 1, 42], 17, 0, 16), ([0, 1, 43], 17, 16, 16)]
    assert first["index"] == [0, 0, 0]
    assert int(found[0]["register"][1:]) == int(first["register"][1:]) + 5 and first["register"][0] == "v"
    assert len(elements(capsys, "A")) == 32 * 64


@pytest.mark.slow
def test_cells_of_a_grid(capsys: pytest.CaptureFixture[str]) -> None:
    """C[1][0] begins behind two cells of 32 x 32 accumulators, 16 AGPRs each. Transposed, register r of a lane is
    column 4 (lane / 16) + r."""
    every, one = elements(capsys, "C"), elements(capsys, "C[1][0]")
    assert len(every) == 4 * 1024 and len(one) == 1024
    places = {tuple(element["index"]): (element["lane"], element["register"]) for element in one}
    assert (places[0, 3, 6], places[0, 20, 17]) == ((19, "a34"), (4, "a45"))


@pytest.mark.slow
def test_a_shared_tile(capsys: pytest.CaptureFixture[str]) -> None:
    """Rows of 128 bytes; 16-byte chunk c of row r lies in slot c ^ (r % 8). Stages of two halves each follow one another."""
    at = {tuple(one["index"]): one["address"] for one in elements(capsys, "As")}
    for cell, row, column in ((0, 0, 0), (0, 1, 0), (1, 13, 37), (3, 63, 63)):
        assert at[cell, row, column] == cell % 2 * 8192 + cell // 2 * 16384 + row * 128 + ((column // 8) ^ row % 8) * 16 + column % 8 * 2
    assert sorted(at.values()) == list(range(0, 4 * 8192, 2))
    assert next(iter(elements(capsys, "As[1][0]")))["address"] == 16384


@pytest.mark.slow
def test_text_and_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capsys, "layout", "gemm-bf16:B[1]", *GEMM)
    assert status == 0 and "B[1]: 32 x 64 bf16" in out and out.splitlines()[3].split()[0] == "0"
    for tile in ("A", "Bs"):
        status, _, _ = call(capsys, "layout", f"gemm-bf16:{tile}", *GEMM, "--svg", str(tmp_path / "picture.svg"))
        assert status == 0
        picture = ElementTree.parse(tmp_path / "picture.svg").getroot()
        squares = picture.findall(f"{SVG}rect")
        assert len(squares) == 1 + (32 * 64 if tile == "A" else 4 * 64 * 64)
        axes, zero = picture.findall(f"{SVG}text")[1:3]
        assert axes.text == "row \\ column" and zero.text == "0"
        assert float(axes.attrib["x"]) + 6 * len(axes.text) < float(squares[1].attrib["x"]) < float(zero.attrib["x"])  # beside each other


@pytest.mark.slow
def test_what_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert "has no tile 'D'; known are C, A, B, As, Bs" in refused(capsys, "layout", "gemm-bf16:D", *GEMM)
    assert "neither lanes nor registers" in refused(capsys, "layout", "gemm-bf16:As", *GEMM, "--lane", "1")
    assert "registers from 0 to 15" in refused(capsys, "layout", "gemm-bf16:A", *GEMM, "--register", "99")
    assert "it has none at all" in refused(capsys, "layout", "01-vector-add:x")
    assert "whole tiles" in refused(capsys, "layout", "gemm-bf16:A", *GEMM, "--lane", "1", "--svg", "/dev/null")
