"""Every source that the project cites resolves: the file is in the repository, and it has the section, row or item that is named.

Read are all tracked text files. A citation is a path that ends in .md, with or without sections; a name of a Python file; the letter F
with a section in a row of isa/waitrules.py; `asmgen.x.y`, and `x.y` in backticks where x is a folder. Each check is also run on planted
text, where it must find exactly that.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SUFFIXES = (".py", ".md", ".txt", ".lark", ".hip", ".h", ".toml", ".sh")
NAMED = re.compile(r"(?<![\w./-])([\w./-]*\w\.md)\b(?:,? (?:section|item)s? (\d+(?:\.\d+)*)(?: (?:to|and) (\d+(?:\.\d+)*))?)?")
OLD = re.compile(r"(?<![\w/])(?:facts/[\w*]+|design\.md|/work/|[Ss]eed 00\d)")
SCRIPT = re.compile(r"(?<![\w./*-])((?:[\w-]+/)*[a-z]\w*\.py)\b")
MODULE = re.compile(r"(?<![\w.:])asmgen((?:\.[a-z]\w*)+)|`(?!kernels)(\w+)((?:\.[a-z_]\w*)+)`")  # the emulator's kernels are numba's
FACTS_ROW = re.compile(r"\bF (\d(?:\.\d)?)(?: row (\d+)| item (\d+))?")
FACTS = "docs/facts/instructions.md"


@cache
def tracked() -> tuple[str, ...]:
    """The files of the repository, those behind links once; new ones too."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git repository: there is no list of its files")
    return tuple(name for name in listed.stdout.splitlines() if (ROOT / name).is_file())


def texts() -> Iterator[tuple[str, str]]:
    """(name, text) of everything that may cite; this file plants wrong citations."""
    for name in tracked():
        if name.endswith(SUFFIXES) and name != "tests/project/test_citations.py":
            yield name, (ROOT / name).read_text()


def document(named: str, by: str) -> Path | None:
    """The file that a citation means: from the root, or beside the document that cites."""
    for path in (ROOT / named, ROOT / Path(by).parent / named, *((ROOT / "docs").rglob(named) if by.startswith("docs/") else ())):
        if path.is_file():
            return path
    return None


@cache
def sections(path: Path) -> dict[str, str]:
    """The numbered sections of a document: number -> text up to the next heading."""
    parts = re.split(r"^#+ (\d+(?:\.\d+)*)\.? .*$", path.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def wrong_documents(name: str, text: str) -> list[str]:
    """Citations of documents or sections that are not there; of facts without a section."""
    found = []
    for match in NAMED.finditer(text):
        path, wanted = document(match[1], name), [number for number in match.groups()[1:] if number]
        if path is None:
            found.append(f"{name}: there is no {match[1]}")
            continue
        found += [f"{name}: {match[1]} has no section {number}" for number in wanted if number not in sections(path)]
        written = text[match.start() - 4:match.end() + 10]
        # A file of many rows says once what its marks mean; an f-string puts its sections in.
        marked = text[:match.start()].endswith(" section N of ") or written.startswith("F = ") or "section {" in written
        if not wanted and not marked and "facts/" in match[1] and name.endswith(".py"):
            found.append(f"{name}: {match[1]} is cited without a section")
    return found + [f"{name}: {match[0]} is no place in this repository" for match in OLD.finditer(text)]


def wrong_scripts(name: str, text: str) -> list[str]:
    """Names of Python files, in comments, strings and documents, that no tracked file has and that the document does not hold whole."""
    files = [*tracked(), *re.findall(r"^```python\n# (\w+\.py)$", text, re.MULTILINE)]
    return [f"{name}: there is no {match[1]}" for match in SCRIPT.finditer(text)
            if not any(file == match[1] or file.endswith("/" + match[1]) for file in files)]


@cache
def words(folder: str) -> frozenset[str]:
    """The words of the product's files in folders of this name, and the names of these files."""
    inside = [file for file in tracked() if file.endswith((".py", ".pyi")) and not file.startswith(("tests/", "benchmarks/"))
              and f"/{folder}/" in f"/{file}"]
    return frozenset(word for file in inside for word in (Path(file).stem, *re.findall(r"\w+", (ROOT / file).read_text())))


def wrong_modules(name: str, text: str) -> list[str]:
    """Dotted names whose module is not there, or what they name in it."""
    found = []
    for match in MODULE.finditer(text):
        if match[1]:
            place, parts = ROOT / "asmgen", match[1].strip(".").split(".")
            while parts and (place / parts[0]).is_dir():
                place /= parts.pop(0)
            module = place / f"{parts[0] if parts else '__init__'}.py"
            module = module if module.is_file() else place / "__init__.py"
            known = frozenset([module.stem, *re.findall(r"\w+", module.read_text())])
        else:
            parts, known = match[3].strip(".").split("."), words(match[2])
        if known:
            found += [f"{name}: {match[0]}: there is no {part}" for part in parts[:2] if part not in known]
    return found


def table_rows(text: str) -> list[str]:
    """The rows of the first table of a section, its heading left out; or the items of its numbered list where it has no table."""
    lines = text.splitlines()
    if not any(line.startswith("|") for line in lines):
        return [line for line in lines if re.match(r"\d+\. ", line)]
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[first + 2:]:
        if not line.startswith("|"):
            break
        rows.append(line)
    return rows


def wrong_rows(text: str) -> list[str]:
    """Rows and items of the facts that wait-state rows cite and that are not there."""
    known = sections(ROOT / FACTS)
    found = []
    for section, row, item in FACTS_ROW.findall(text):
        if section not in known:
            found.append(f"{FACTS} has no section {section}")
        elif row and int(row) > len(table_rows(known[section])):
            found.append(f"section {section} of {FACTS} has no row {row}")
        elif item and not re.search(rf"^(\| {item} \||{item}\. )", known[section], re.MULTILINE):
            found.append(f"section {section} of {FACTS} has no item {item}")
    return found


@pytest.mark.slow
def test_every_document_and_section_that_is_cited_is_there() -> None:
    found = [line for name, text in texts() for line in wrong_documents(name, text)]
    assert not found, "\n".join(found)


def test_every_python_file_that_is_named_is_there() -> None:
    """Examples of file names in tests and documents aside."""
    product = [(name, text) for name, text in texts() if name.startswith(("isa/", "regalloc/", "asmgen/", "kernels/", "docs/"))]
    found = [line for name, text in product for line in wrong_scripts(name, text)]
    assert not found, "\n".join(found)


@pytest.mark.slow
def test_every_module_that_is_named_is_there() -> None:
    """The same files; strings of code aside, which name what they make."""
    product = [(name, text) for name, text in texts() if name.startswith(("isa/", "regalloc/", "asmgen/", "kernels/", "docs/", "README"))]
    found = [line for name, text in product for line in wrong_modules(name, text)]
    assert not found, "\n".join(found)


def test_every_row_of_the_facts_that_the_wait_states_cite_is_there() -> None:
    text = (ROOT / "isa/waitrules.py").read_text()
    assert len(FACTS_ROW.findall(text)) > 50
    found = wrong_rows(text)
    assert not found, "\n".join(found)


def test_much_is_cited() -> None:
    """The facts are there for somebody: each section of semantics and each part of the instructions that code rests on is found."""
    cited = {(Path(match[1]).name, match[2]) for name, text in texts() if name.endswith(".py") for match in NAMED.finditer(text)}
    assert {("instructions.md", number) for number in "13456"} <= cited
    assert {("ARCHITECTURE.md", number) for number in "2345"} <= cited
    assert {("FORMATS.md", "2"), ("microarchitecture.md", "2.4"), ("semantics.md", "8")} <= cited


@pytest.mark.parametrize(("text", "wrong"), [
    ("docs/facts/instructions.md section 4", 0),
    ("docs/facts/instructions.md sections 4 to 6, and docs/facts/instructions.md section 3.5, item 7", 0),
    ("docs/facts/instructions.md section 44", 1),
    ("docs/facts/instructions.md sections 4 to 9", 1),
    ("docs/facts/nothing.md section 1", 1),
    ("docs/facts/semantics.md", 1),
    ("semantics.md section 8", 1),
    ("facts/semantics.md section 8", 2),
    ("design.md section 3", 2),
    ("README.md and ../../docs/ARCHITECTURE.md section 1", 0),
    ("seed 001", 1),
])
def test_planted_documents(text: str, wrong: int) -> None:
    assert len(wrong_documents("isa/numbers/x.py", text)) == wrong


@pytest.mark.parametrize(("text", "wrong"), [
    ("see merge.py", 0), ("isa/arch.py", 0), ("isa/archive.py", 1), ("nowhere.py and arch.py", 1), ("a.b.py", 0),
    ("*_kernels.py", 0), ("```python\n# own.py\n```\nsee own.py", 0), ("```python\nx = 1\n# own.py\n```", 1)])  # fmt: skip
def test_planted_scripts(text: str, wrong: int) -> None:
    assert len(wrong_scripts("isa/x.py", text)) == wrong


@pytest.mark.parametrize(("text", "wrong"), [
    ("F 3.1 row 1; F 3.5 item 2", 0), ("F 3.1 row 99", 1), ("F 3.5 item 12", 1), ("F 3.9", 1), ("F 3.1 row 24", 0)])
def test_planted_rows(text: str, wrong: int) -> None:
    assert len(wrong_rows(text)) == wrong


@pytest.mark.parametrize(("text", "wrong"), [
    ("asmgen.checks.frontier.frontier, asmgen.isa.arch.architecture and `waitstates.statesteps`", 0),
    ("asmgen.regalloc.turns", 1),
    ("`waitstates.steps_of_old` and `counters.steppes`", 2),
    ("`position.offset`, `torch.ops`, asmgen's", 0),
])
def test_planted_modules(text: str, wrong: int) -> None:
    assert len(wrong_modules("isa/x.py", text)) == wrong
