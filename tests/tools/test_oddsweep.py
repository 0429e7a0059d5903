"""Lint, inspect with its page, and diff come through code that nobody here wrote, or that nobody would write, without an internal error."""

from __future__ import annotations

from pathlib import Path

import pytest

from asmgen.checks.lint.linting import Linter
from asmgen.program.program import Program
from asmgen.tools import oddsweep
from asmgen.tools.oddprograms import odd_program
from asmgen.tools.oddsweep import sweep_file, sweep_program
from tests.clang_objects import ARCHS, NAMES, hip_bytes, needs_clang

pytestmark = pytest.mark.needs_objdump


@needs_clang
@pytest.mark.parametrize("number,name", list(enumerate(NAMES)), ids=NAMES)
def test_compiled_objects_go_through_all_commands(number: int, name: str, tmp_path: Path) -> None:
    path = tmp_path / "k.co"
    path.write_bytes(hip_bytes(name, ARCHS[number % 2], 2))
    assert list(sweep_file(path)) == []


@pytest.mark.parametrize("number", range(6))
def test_odd_programs_go_through_all_commands(number: int, tmp_path: Path) -> None:
    """A slice of `python -m asmgen.tools.oddsweep --count 500`."""
    assert [fault for fault in sweep_program(number, 0, tmp_path) if not fault.rightly] == []


def test_a_number_names_a_program() -> None:
    one, again, other = odd_program(3, 5), odd_program(3, 5), odd_program(3, 6)
    assert one == again and one.text != other.text and "exec" in one.text and {odd_program(0).arch, odd_program(1).arch} == set(ARCHS)


def test_faults_come_with_what_repeats_them(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def failing(linter: Linter, program: Program) -> None:
        raise KeyError("s9")

    (tmp_path / "k.s").write_text('.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\ns_endpgm\n')
    (tmp_path / "data.s").write_text('.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\ns_endpgm\n.long 0xffffffff\n')
    with pytest.raises(SystemExit) as ended:
        oddsweep.main([str(tmp_path / "k.s"), str(tmp_path / "data.s")])
    assert ended.value.code == 0 and "2 programs, 1 of them refused for what they hold, 0 faults" in capsys.readouterr().out
    monkeypatch.setattr(Linter, "lint", failing)
    with pytest.raises(SystemExit) as ended:
        oddsweep.main(["--first", "7", "--count", "1", "--keep", str(tmp_path / "kept")])
    lines = capsys.readouterr().out.splitlines()
    assert ended.value.code == 1 and (tmp_path / "kept" / "odd7.co").exists() and len(lines) == 3
    assert lines[0].startswith("--first 7 --count 1 --seed 0: lint odd7.s: internal error") and "KeyError at test_oddsweep.py" in lines[0]
