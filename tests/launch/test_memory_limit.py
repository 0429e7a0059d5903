"""The data of `asmgen run` is bounded before it is made, and judged before it is launched."""

from __future__ import annotations

import resource
import sys

import numpy as np
import pytest

from asmgen.isa.errors import AsmgenError
from asmgen.launch.memorylimit import check_total, making_data
from asmgen.tools import cli
from asmgen.tools.running import runner
from tests.clang_objects import needs_clang

HUGE = ["run", "01-vector-add", "-p", "n=1000000000", "--device", "emulator"]


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a refused command says, besides where it would have run."""
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "running on" not in line)
    assert ended.value.code == 2
    return line


@needs_clang
def test_run_refuses_data_beyond_its_limit(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "launch", lambda *_: pytest.fail("it was launched"))
    small = ["run", "01-vector-add", "-p", "n=1000", "--device", "emulator", "--memory-limit", "100"]
    assert "its buffers have 12012 bytes, and 100 are the most: --memory-limit 12012 would allow them" in refusal(small, capsys)


@needs_clang
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds a process' address space")
def test_data_that_memory_cannot_hold_is_refused_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert "making its data takes more than 8589934592 bytes" in refusal(HUGE, capsys)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds a process' address space")
def test_the_bound_ends_with_the_making() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    with making_data("k", 1 << 20):
        assert resource.getrlimit(resource.RLIMIT_AS) != before
        assert np.ones(1 << 20).sum() == 1 << 20
    with pytest.raises(AsmgenError, match="^k: making its data takes more than 536870912 bytes"), making_data("k", 1 << 20):
        np.ones(1 << 28)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_a_total_at_the_limit_is_good() -> None:
    check_total("k", 100, 100)
    with pytest.raises(AsmgenError, match="k: its buffers have 101 bytes"):
        check_total("k", 101, 100)
