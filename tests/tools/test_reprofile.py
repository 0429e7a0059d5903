"""`python -m asmgen.tools.reprofile`: a row for every variant on each problem of its family."""

from __future__ import annotations

from typing import Any

import pytest

from asmgen.isa.timing import GPUS
from asmgen.kernels.registry import family
from asmgen.tools import reprofile


def test_every_variant_has_a_row_for_each_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """Built from what the variant fixes and the problem asks."""
    asked: list[tuple[str, Any]] = []
    monkeypatch.setattr(reprofile, "build_kernel", lambda library, arch, build: asked.append((arch, build)))
    monkeypatch.setattr(reprofile, "report_kernel", lambda *_: None)
    for name, problems in reprofile.PROBLEMS.items():
        library = family(name)
        found = list(reprofile.rows(library))
        short = [variant for variant in library.variants() if variant.schedule == "whole-k"]  # takes no K of these problems
        assert [row.variant for row in found] == [variant for variant in library.variants() for _ in problems if variant not in short]
        assert all(GPUS[row.gpu] == row.variant.arch for row in found) and len(asked) == len(found)
        for row, (arch, build) in zip(found, asked, strict=True):
            assert (build["tile"], build["schedule"], arch) == (row.variant.tile_text, row.variant.schedule, row.variant.arch)
        asked.clear()
    assert {row.gpu for row in reprofile.rows(family("gemm-fp8"), "MI325X")} == {"MI325X"}


@pytest.mark.needs_objdump
def test_a_row_names_time_and_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reprofile, "PROBLEMS", {"gemm-bf16": ({"m": 256, "n": 256, "k": 256},)})
    row = next(reprofile.rows(family("gemm-bf16")))
    words = row.text().split()
    assert words[:4] == ["gemm-bf16", "MI355X", "128x128x64", "interleave"] and words[-1] == row.report.estimate.limit
    assert f"{row.report.estimate.seconds * 1e6:.1f}" in words and len(reprofile.HEADING) >= len(row.text()) - 12
