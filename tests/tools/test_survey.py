"""The survey of many code objects: what counts as one, what it says, how it ends."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from asmgen.checks.finding.finding import LintFinding
from asmgen.checks.lint.linting import Linter
from asmgen.files import FileError
from asmgen.kernels.registry import family
from asmgen.program.program import Program
from asmgen.toolchain import assemble
from asmgen.tools import survey
from asmgen.tools.build import build_kernel
from tests.codeobject.test_load import GPU, HOST, make_bundle

pytestmark = pytest.mark.needs_objdump
FAULTY = """\
.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
f:
.type f,@function
ds_read_b32 v1, v0
v_mov_b32 v2, v1
s_endpgm
.size f, .-f
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good kernel of the library twice, a function with a missing wait, a cut-off object, a text."""
    found = tmp_path_factory.mktemp("kernels")
    (found / "deep").mkdir()
    library = family("gemm-bf16")
    good = build_kernel(library, "gfx950", {}).code_object
    (found / "good.co").write_bytes(good)
    (found / "deep" / "again.co").write_bytes(good)
    (found / "deep" / "faulty.co").write_bytes(assemble(FAULTY, "gfx942"))
    (found / "cut.co").write_bytes(good[:200])
    (found / "notes.txt").write_text("no kernel")
    return found


def test_each_content_counts_once(folder: Path) -> None:
    assert [path.name for path in survey.candidates([folder])] == ["cut.co", "again.co", "faulty.co"]


def test_what_is_said_of_each(folder: Path) -> None:
    (good,), (faulty,), (cut,) = (survey.survey(folder / name) for name in ("good.co", "deep/faulty.co", "cut.co"))
    assert not good.failure and good.instructions > 500 and not any(severity == "error" for severity, _ in good.findings)
    assert faulty.findings["error", "W001"] == 1 and faulty.instructions == 3
    assert "cut.co" in cut.failure and not cut.instructions


def test_status_and_summary(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        survey.main([str(folder)])
    lines = capsys.readouterr().out.splitlines()
    assert ended.value.code == 1
    assert lines[0].startswith(f"{folder / 'cut.co'}: ") and lines[0].count("cut.co") == 1
    assert lines[1].split()[:5] == ["error", "W001", "1", "in", "1"]
    assert lines[-1].startswith("2 of 3 code objects read")
    with pytest.raises(SystemExit) as ended:
        survey.main([str(folder / "good.co")])
    assert ended.value.code == 0
    with pytest.raises(SystemExit) as ended:
        survey.main([str(folder / "notes.txt")])
    assert ended.value.code == 2 and "notes.txt" in capsys.readouterr().err


def test_files_that_cannot_be_read_are_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Path.read_bytes

    def failing(path: Path) -> bytes:
        if path.name == "faulty.co":
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", failing)
    assert [path.name for path in survey.candidates([folder])] == ["cut.co", "again.co", "faulty.co"]
    (found,) = survey.survey(folder / "deep" / "faulty.co")
    assert found.failure == "cannot be read: Permission denied"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="it is a pipe"):
        list(survey.candidates([tmp_path / "pipe"]))


def test_a_fault_of_ours_leaves_the_others(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where it kills the process: the objects that waited for their turn are still read."""
    lint = Linter.lint

    def failing(linter: Linter, program: Program) -> list[LintFinding]:
        if program.name != "f":
            return lint(linter, program)
        if deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        raise IndexError("too many indices")

    monkeypatch.setattr(Linter, "lint", failing)
    for deadly, sentence in ((False, "internal error, which no input should cause: IndexError at test_survey.py:"),
                             (True, "the process that read it was killed")):
        with pytest.raises(SystemExit) as ended:
            survey.main([str(folder)])
        lines = capsys.readouterr().out.splitlines()
        assert ended.value.code == 1 and lines[-1].startswith("1 of 3 code objects read")
        (said,) = (line for line in lines if "faulty.co" in line)
        assert sentence in said and (deadly or "kernel f" in said)


def test_a_bundle_counts_for_each_architecture(folder: Path, tmp_path: Path) -> None:
    objects = {GPU + arch: (folder / name).read_bytes() for arch, name in (("gfx942", "deep/faulty.co"), ("gfx950", "good.co"))}
    bundled = tmp_path / "both.hipfb"
    bundled.write_bytes(make_bundle({HOST: b"", **objects, GPU + "gfx1100": b"other"}))
    assert list(survey.candidates([tmp_path])) == [bundled]
    assert [entry.instructions > 3 for entry in survey.survey(bundled)] == [False, True]
