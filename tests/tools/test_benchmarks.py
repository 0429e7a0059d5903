"""Every benchmark runs, on its smallest size: what nobody runs stops working."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.__main__ import QUICK, run

_SLOW = {"attention_forms", "build", "choice_rule", "definedness", "emulator", "gemm", "launch", "lint", "mfma_loop", "reader"}
_SHARED = {"__init__", "__main__", "loops"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) if name in _SLOW else name for name in QUICK])
def test_quick(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(name, quick=True)
    assert len(capsys.readouterr().out.splitlines()) > 1


def test_all_are_run() -> None:
    assert set(QUICK) == {file.stem for file in (Path(__file__).parents[2] / "benchmarks").glob("*.py")} - _SHARED


def test_unknown() -> None:
    with pytest.raises(SystemExit) as caught:
        run("nothing", quick=True)
    said, names = str(caught.value).split("; there are ")
    assert said == "there is no benchmark 'nothing'" and set(names.split(", ")) == set(QUICK)
