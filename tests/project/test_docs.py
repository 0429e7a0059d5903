"""docs/WRITE_A_KERNEL.md word for word: its files build, its commands succeed, its mistakes are refused. Documents are 120 wide."""

from __future__ import annotations

import ast
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.tools.test_cli import call

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/WRITE_A_KERNEL.md"
WIDEST = 120
DOCUMENTS = (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))


def blocks(language: str) -> list[str]:
    """The fenced blocks of that language of the page."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def files() -> dict[str, str]:
    """The page's files by the name in their first line."""
    return {block.partition("\n")[0].removeprefix("# "): block for block in blocks("python")}


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with the page's files in it, as the working folder."""
    for name, text in files().items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_the_files_of_the_page_import_asmgen_alone() -> None:
    assert list(files()) == ["double.py", "rmsnorm.py", "gemm.py", "square_plus.py"]
    for name, text in files().items():
        found = [ast.unparse(node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
        assert found == ["import asmgen as ag"], name


def sections() -> dict[str, tuple[list[list[str]], list[str]]]:
    """By the page's file that stands before them: the commands, and the lines that are quoted."""
    found: dict[str, tuple[list[list[str]], list[str]]] = {}
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE):
        if language == "python":
            commands, quoted = found[text.partition("\n")[0].removeprefix("# ")] = [], []
        elif language == "sh":
            commands += [shlex.split(line) for line in text.splitlines()]
        elif language == "text":
            quoted += [line.strip() for line in text.splitlines()]
    return found


@pytest.mark.needs_objdump
@pytest.mark.slow
@pytest.mark.parametrize("file", sections())
def test_each_command_of_the_page_succeeds_and_prints_what_the_page_quotes(
        typed: Path, capsys: pytest.CaptureFixture[str], file: str) -> None:
    commands, quoted = sections()[file]
    for verb in ("build", "lint", "run"):
        assert any(command[1] == verb and file.partition("_")[0].partition(".")[0] in command[2] for command in commands), verb
    printed = []
    for program, *arguments in commands:
        status, out, err = call(capsys, *arguments)
        assert program == "asmgen" and status == 0, f"{' '.join(arguments)}: {err}"
        if arguments[0] == "run":
            assert ": passed" in out
        printed.append(out)
    printed += [path.read_text() for path in (typed / "build").glob("*.s")]
    for line in quoted:
        assert any(line in out for out in printed), line


def mistakes() -> list[tuple[str, str, str, str]]:
    """(file, text, what is written instead, message) of the page."""
    found = []
    for block in blocks("mistakes"):
        for file, right, wrong, message in re.findall(r"^(\S+): (.*) -> (.*)\n((?:    .*\n)+)", block, re.MULTILINE):
            found.append((file, right, wrong, " ".join(message.split())))
    return found


def test_the_page_shows_mistakes() -> None:
    assert len(mistakes()) == "".join(blocks("mistakes")).count(" -> ") > 5


@pytest.mark.parametrize("number", range(len(mistakes())))
def test_each_mistake_is_refused_as_the_page_says(typed: Path, capsys: pytest.CaptureFixture[str], number: int) -> None:
    file, right, wrong, message = mistakes()[number]
    text = files()[file]
    assert text.count(right) == 1, right
    (typed / file).write_text(text.replace(right, wrong))
    family = re.search(r'name="(\S+)", title', text)
    assert family is not None
    status, _, err = call(capsys, "build", f"{file}:{family[1]}")
    assert status == 2 and err.endswith(f": {message}\n"), err
    at = 1 + text[:text.index(right)].count("\n")
    assert f"asmgen: {file}:" in err and abs(int(err.split(":")[2]) - at) <= 1


def too_wide(text: str) -> list[int]:
    """The numbers of a document's lines that are wider than allowed."""
    return [number for number, line in enumerate(text.splitlines(), 1) if len(line) > WIDEST]


def test_no_line_of_a_document_is_too_wide() -> None:
    found = [f"{path.relative_to(ROOT)}:{number}" for path in DOCUMENTS for number in too_wide(path.read_text())]
    assert not found, "\n".join(found)


def test_width_of_planted_lines() -> None:
    assert too_wide("a\n" + "b" * 120 + "\n" + "c" * 121 + "\n| " + "d" * 120) == [3, 4]
