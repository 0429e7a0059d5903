"""`asmgen tune --schedule`, from the search to the builds that take what it kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from asmgen.author.schedule import stepscheduler
from asmgen.kernels.registry import family
from asmgen.tools import schedulesearch
from asmgen.tools.running.build import build_kernel
from asmgen.tools.schedulesearch import search_order

PRODUCT = {"tile": "128x128x64", "schedule": "interleave"}


@pytest.mark.slow
def test_a_long_search_keeps_an_order_that_later_builds_take(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A build refines no order here, so that a search of a few orders finds a better one."""
    for name, value in (("_TRIES", 0), ("_LONG_STRETCH", (0, 2)), ("_LONG_REFINED", 2), ("_LONG_TRIES", 60), ("_PROPOSED", 1)):
        monkeypatch.setattr(stepscheduler, name, value)
    file = tmp_path / "kernel.orders.json"
    for module in (stepscheduler, schedulesearch):
        monkeypatch.setattr(module, "orders_file", lambda _: file)
    library = family("gemm-bf16")
    found = search_order(library, "gfx950", {**PRODUCT, "m": 128, "n": 128, "k": 1024})
    assert found.file == file and found.after < found.before and found.timed == 1
    monkeypatch.setattr(schedulesearch, "proposals", lambda step: [])
    again = search_order(library, "gfx950", {**PRODUCT, "m": 128, "n": 128, "k": 1024})
    assert again.before == found.after and again.file is None  # the build took what was kept
    text = build_kernel(library, "gfx950", PRODUCT | {"dtype": "f16"}).kernel.text()
    assert "kernel.orders.json keeps no order of this step and timing table" in text
    assert "keeps no order" not in build_kernel(library, "gfx950", PRODUCT).kernel.text()
