"""`asmgen layout` and `asmgen banks`: tables, JSON, pictures, and how they refuse."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from asmgen.isa.mfmaoperands import layout
from tests.tools.test_cli import call, refused

SVG = "{http://www.w3.org/2000/svg}"


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    status, out, err = call(capsys, *arguments, "--json")
    assert (status, err) == (0, "")
    found: dict[str, object] = json.loads(out)
    return found


def test_layout_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "layout", "v_mfma_f32_32x32x8_f16", "--arch", "gfx942", "--operand", "d")
    assert (found["instruction"], found["operand"], found["arch"]) == ("v_mfma_f32_32x32x8_f16", "d", "gfx942")
    elements = {tuple(one["index"]): one for one in found["elements"]}  # type: ignore[attr-defined]
    assert len(elements) == 1024
    # Register r of lane l is row 8 * (r / 4) + 4 * (l / 32) + r % 4, column l % 32.
    for row, column, lane, register in ((0, 0, 0, 0), (5, 3, 35, 1), (9, 31, 31, 5), (31, 17, 49, 15)):
        assert elements[0, row, column] == {"index": [0, row, column], "lane": lane, "register": register, "bit": 0, "bits": 32}


def test_layout_of_one_lane_and_register(capsys: pytest.CaptureFixture[str]) -> None:
    """fp4 of lane 17: row 1, k 32 to 63, eight a register."""
    arguments = ("layout", "v_mfma_scale_f32_16x16x128_f8f6f4", "--operand", "a", "--formats", "fp4,fp8", "--lane", "17", "--register", "2")
    found = document(capsys, *arguments)
    assert [one["index"] for one in found["elements"]] == [[0, 1, 48 + item] for item in range(8)]  # type: ignore[attr-defined]
    assert [one["bit"] for one in found["elements"]] == [4 * item for item in range(8)]  # type: ignore[attr-defined]
    status, out, _ = call(capsys, *arguments)
    assert status == 0 and "  block 0 i 1 k 49: lane 17 register 2 bits 4 to 7\n" in out


def test_six_bits_go_on_in_the_next_register(capsys: pytest.CaptureFixture[str]) -> None:
    for register in (0, 1):
        found = document(capsys, "layout", "f32_16x16x128_f8f6f4", "--operand", "b", "--formats", "fp8,bf6", "--register", str(register),
                         "--lane", "0")
        assert [0, 5, 0] in [one["index"] for one in found["elements"]]  # type: ignore[attr-defined]


def test_layout_of_all_operands_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capsys, "layout", "f32_16x16x16_bf16")
    assert status == 0
    assert [line.split(" operand ")[1][:1] for line in out.splitlines() if " operand " in line] == ["a", "b", "d"]
    row = next(line for line in out.splitlines() if line.startswith("    5 "))
    assert row.split()[1:6] == ["5:0.0", "5:0.16", "5:1.0", "5:1.16", "21:0.0"]
    both = document(capsys, "layout", "v_mfma_scale_f32_32x32x64_f8f6f4")
    assert [one["operand"] for one in both["operands"]] == ["a", "b", "d", "scale_a", "scale_b"]  # type: ignore[attr-defined]
    sparse = document(capsys, "layout", "v_smfmac_f32_16x16x32_f16")
    assert [one["operand"] for one in sparse["operands"]] == ["a", "b", "d", "index"]  # type: ignore[attr-defined]


def test_layout_as_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.svg"
    assert call(capsys, "layout", "i32_4x4x4_16b_i8", "--operand", "d", "--svg", str(out)) == (0, "", "")
    texts = [one.text for one in ElementTree.parse(out).getroot().iter(f"{SVG}text")]
    cells = sorted(text for text in texts if text and text.replace(":", "").isdigit() and ":" in text)
    assert cells == sorted(f"{one.lane}:{one.register}" for one in layout("v_mfma_i32_4x4x4_16b_i8", "d", "gfx950"))


@pytest.mark.parametrize(("arguments", "sentence"), [
    (["nonsense"], "v_mfma_nonsense is no matrix instruction"),
    (["f32_16x16x32_bf16", "--arch", "gfx942"], "does not exist on gfx942, only on gfx950"),
    (["f32_16x16x32_bf16", "--operand", "q"], "a layout shows a, b, c, d"),
    (["f32_16x16x32_bf16", "--operand", "scale_a"], "has no scales"),
    (["f32_16x16x32_bf16", "--formats", "fp8,fp8"], "has its formats in its name"),
    (["f32_16x16x128_f8f6f4", "--formats", "fp8,fp9"], "two of fp8, bf8, fp6, bf6, fp4"),
    (["f32_16x16x32_bf16", "--operand", "a", "--register", "4"], "has nothing in register 4: lanes go from 0 to 63, registers from 0 to 3"),
    (["f32_16x16x32_bf16", "--lane", "64"], "--lane"),
    (["f32_16x16x32_bf16", "--lane", "1", "--svg", "/dev/null"], "a picture shows whole operands"),
])  # fmt: skip
def test_layout_refuses(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert sentence in refused(capsys, "layout", *arguments)


def ways(found: dict[str, object], serves: str) -> set[int]:
    return {one["ways"] for one in found["accesses"] if one["serves"] == serves}  # type: ignore[attr-defined]


@pytest.mark.parametrize(("tile", "dtype", "serves", "swizzle", "without"), [
    ("16x32", "bf16", "rows of f32_16x16x32_bf16", "st_16x32", 2), ("64x64", "bf16", "rows of f32_16x16x32_bf16", "rows_128", 4),
    ("16x128", "fp8", "rows of f32_16x16x128_f8f6f4", "fp8_128", 4),  # its article says 8
    ("16x128", "bf16", "rows to quantise for f32_16x16x128_f8f6f4", "bf16_256", 8),
    ("128x64", "bf16", "rows of f32_16x16x32_bf16", "lines:1024+32", 4),
    ("64x64", "bf16", "rows of f32_16x16x32_bf16", "3:0x70", 4)])
def test_published_patterns(tile: str, dtype: str, serves: str, swizzle: str, without: int, capsys: pytest.CaptureFixture[str]) -> None:
    plain = document(capsys, "banks", "--tile", tile, "--dtype", dtype, "--arch", "gfx950")
    assert ways(plain, serves) == {without}
    found = document(capsys, "banks", "--tile", tile, "--dtype", dtype, "--arch", "gfx950", "--swizzle", swizzle)
    assert ways(found, serves) == {1}
    for one in plain["accesses"]:  # type: ignore[attr-defined]
        assert (one["cycles"] > one["ideal"]) == (one["ways"] > 1) == (one["lanes"] is not None)


def test_banks_that_the_solver_chooses(capsys: pytest.CaptureFixture[str]) -> None:
    for arch in ("gfx942", "gfx950"):
        for dtype in ("bf16", "f16", "i8", "fp8", "f32"):
            found = document(capsys, "banks", "--tile", "64x64", "--dtype", dtype, "--arch", arch, "--swizzle", "auto")
            assert {found["accesses"][0]["ways"]} == {1}  # type: ignore[index]


def test_banks_as_text_has_a_map(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capsys, "banks", "--tile", "16x16", "--dtype", "bf16", "--arch", "gfx942")
    assert status == 0
    wanted = ["rows", "of", "f32_16x16x16_bf16", "ds_read_b64", "1", "16", "4", "4", "0", "and", "4"]
    assert any(line.split() == wanted for line in out.splitlines())
    assert "ds_write_b64" in out and "lanes 0-15" in out
    status, out, _ = call(capsys, "banks", "--tile", "64x128", "--dtype", "fp6", "--arch", "gfx950", "--swizzle", "pad:12+4")
    assert status == 0 and "ds_read_b96_tr_b6" in out and "phases assumed" in out


@pytest.mark.parametrize(("arguments", "sentence"), [
    (["--tile", "16y"], "--tile takes ROWSxCOLS"), (["--dtype", "bf17"], "--dtype takes one of"),
    (["--arch", "gfx90a"], "--arch takes one of"),
    (["--swizzle", "4:0"], "needs a positive shift and mask"), (["--swizzle", "nonsense"], "--swizzle takes st_16x32"),
    (["--tile", "15x32"], "no matrix instruction of gfx950 has bf16 operands that divide 15x32"),
    (["--swizzle", "lines:1024+32", "--tile", "16x48"], "16 rows do not spread over lines of 1024 bytes"),
    (["--swizzle", "3:0x2"], "tears rows of f32_16x16x32_bf16"), (["--swizzle", "pad:0+4"], "means nothing"),
])  # fmt: skip
def test_banks_refuses(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = {"--tile": "64x64", "--dtype": "bf16", "--arch": "gfx950"} | dict(zip(arguments[::2], arguments[1::2], strict=True))
    assert sentence in refused(capsys, "banks", *(part for pair in given.items() for part in pair))
