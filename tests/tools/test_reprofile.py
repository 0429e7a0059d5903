"""`python -m asmgen.tools.reprofile`: a row for every variant on each problem of its family, kept in a file, compared with another."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from asmgen.isa.timing import GPUS
from asmgen.kernels.registry import family
from asmgen.tools import reprofile


@pytest.mark.slow
def test_every_variant_has_a_row_for_each_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """Built from what the variant fixes and the problem asks."""
    asked: list[tuple[str, Any]] = []
    monkeypatch.setattr(reprofile, "build_kernel", lambda library, arch, build: asked.append((arch, build)))
    monkeypatch.setattr(reprofile, "report_kernel", lambda *_: None)
    keys: set[str] = set()
    for name, problems in reprofile.PROBLEMS.items():
        library = family(name)
        found = list(reprofile.rows(library))
        for variant in library.variants():
            mine = [row for row in found if row.variant == variant]
            refused = name == "gemm-mx" and {"whole-k": 2}.get(variant.schedule, 0)  # all of K in registers takes no more
            assert len(mine) == len(problems) - refused, variant
        assert all(GPUS[row.gpu] == row.variant.arch for row in found) and len(asked) == len(found)
        for row, (arch, build) in zip(found, asked, strict=True):
            fixed = library.fixed(row.variant)
            assert arch == row.variant.arch and {name: build.get(name, value) for name, value in fixed.items()} == fixed
            assert ("tile" in build) == bool(row.variant.tile)
        assert not keys & {row.key for row in found} and len({row.key for row in found}) == len(found)
        keys |= {row.key for row in found}
        assert not list(reprofile.rows(library, known=keys)), "rows that are known are not predicted again"
        asked.clear()
    assert {row.gpu for row in reprofile.rows(family("gemm-fp8"), "MI325X")} == {"MI325X"}


@pytest.mark.slow
@pytest.mark.needs_objdump
def test_a_run_goes_on_where_its_file_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(reprofile, "PROBLEMS", {"rope": ({"b": 1, "s": 64, "h": 2},)})
    first, again = (CliRunner().invoke(reprofile.main, ["--gpu", "MI355X", "--json", str(tmp_path / "rows")]) for _ in range(2))
    assert first.exit_code == again.exit_code == 0 and again.output.count("\n") == 1
    (key, figures), = reprofile.kept(tmp_path / "rows").items()
    assert key.split(" | ")[:3] == ["rope", "MI355X", "the only one"] and first.output.splitlines()[1].endswith(figures["limit"])
    monkeypatch.setattr(reprofile, "source_digest", lambda _: "another")
    other = CliRunner().invoke(reprofile.main, ["--json", str(tmp_path / "rows")])
    assert other.exit_code == 1 and "another state of the source" in other.output


def test_two_files_stand_beside_each_other() -> None:
    """Times of a variant's problems on one line; a change is told where it is more than half a per cent."""
    def some(**times: float) -> dict[str, Any]:
        return {f"gemm-bf16 | MI355X | 16x16x64 in-order | k={name[1:]}": {"us": time} for name, time in times.items()}

    assert reprofile.beside(some(k1=10.0, k2=20.0), some(k1=10.04, k2=25.0, k3=7.0)).splitlines() == [
        "3 rows, 2 of them in both; 1 differ by more than 0.5%; median +12.7%, from +0.4% to +25.0%", "",
        "| gemm-bf16 on MI355X | us predicted, before / after |", "|---|---|",
        "| 16x16x64 in-order | 10.0 / 10.0, 20.0 / 25.0 (+25.0%), new / 7.0 |"]
    turns = {f"rope | {gpu} | {name} | b=1": {"us": 1.0} for name, gpu in (("a", "MI355X"), ("b", "MI300X"), ("c", "MI355X"))}
    lines = reprofile.beside({}, turns).splitlines()
    assert [line.split()[1] for line in lines if line.startswith("| ")] == ["rope", "a", "c", "rope", "b"]


def test_a_comparison_has_two_files_and_chooses_no_rows(tmp_path: Path) -> None:
    """What it would not heed is refused."""
    before, after, absent = (str(tmp_path / name) for name in ("before", "after", "absent"))
    for path, time in ((before, 10.0), (after, 20.0)):
        Path(path).write_text(json.dumps({"source": path, "rows": {"rope | MI355X | a | b=1": {"us": time}}}))
    both = ["--json", after, "--before", before]
    compared = CliRunner().invoke(reprofile.main, both)
    assert compared.exit_code == 0 and "10.0 / 20.0 (+100.0%)" in compared.output
    for given in (["--gpu", "MI355X"], ["--kernel", "rope"]):
        found = CliRunner().invoke(reprofile.main, [*both, *given])
        assert found.exit_code == 2 and "compares all rows of two files" in found.output
    for given, told in (([], "the file that --json names"), (["--json", absent], f"there is no {absent}; a run without --before makes it")):
        found = CliRunner().invoke(reprofile.main, ["--before", before, *given])
        assert found.exit_code == 2 and told in found.output and "0 rows" not in found.output


def test_a_line_has_a_place_for_a_loop_that_is_not_there() -> None:
    loop = SimpleNamespace(cycles=100.0, matrix_busy=0.5, bounds=SimpleNamespace(binding="lds"))
    for main_loop in (loop, None):
        report: Any = SimpleNamespace(profile=SimpleNamespace(main_loop=main_loop, matrix_busy=0.25),
                                      estimate=SimpleNamespace(seconds=2e-6, tflops=3.0, limit="latency"))
        variant: Any = None
        text = reprofile.line("key", reprofile.ReprofileRow("key", variant, "MI355X", report).figures())
        assert len(text) == len(reprofile.line("key", {"us": 1, "tflops": 1, "busy": 0, "limit": "latency"}))
        assert ("no loop" in text) == (main_loop is None)
