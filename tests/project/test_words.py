"""The words of docs/GLOSSARY.md: a word of its "not" column stands in no document, docstring, comment or name.

A rule of its own holds for names with words that have one meaning each (`ONE_MEANING`). Each check also runs on planted text: it must
find exactly the planted fault.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.project.test_layers import ROOT
from tests.project.test_names import sources

ALLOWED = {
    "tail": (
        (r"K tail", "the columns of K that fill no whole step"),
    ),
}
"""By refused word: patterns of text or names in which it may stand, each with the reason."""


@dataclass(frozen=True)
class Refused:
    """A word, or words in a row, of the "not" column."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(self.parts)

    @property
    def pattern(self) -> re.Pattern[str]:
        """Finds it in prose, over a line break too, and as part of a name in prose; the plural as well."""
        return re.compile("(?<![A-Za-z0-9])" + r"[\s_-]+".join(self.parts) + "s?(?![A-Za-z0-9])", re.IGNORECASE)


@dataclass(frozen=True)
class Meaning:
    """The names in which a word may stand."""

    fits: str


ONE_MEANING: dict[str, Meaning] = {
    "place": Meaning("_?place(_[a-z_]+)?|_?in_place|_IN_PLACE"),
    "window": Meaning("_?window|window_order|window_size|mask_window|WindowLimits"),
    "stage": Meaning("_?stages?|_?stage_(clocks|count|number)"),
    "turn": Meaning("_?in_turn|_TURNS"),
    "finish": Meaning("finish"),
}


@cache
def parts_of(name: str) -> tuple[str, ...]:
    """The words of a name in snake_case or CamelCase, in lower case."""
    return tuple(part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", name))


def refused_words(glossary: str) -> list[Refused]:
    """The words in backticks of the last column, each once."""
    rows = [line.split("|") for line in glossary.splitlines() if line.startswith("|")]
    found = [Refused(parts_of(word)) for row in rows for word in re.findall(r"`([^`]+)`", row[3])]
    return list(dict.fromkeys(found))


def wrong_text(text: str, words: list[Refused]) -> Iterator[tuple[int, Refused]]:
    """Each refused word of a text with its line, counted from 0."""
    if not words or not re.search("|".join(word.parts[0] for word in words), text, re.IGNORECASE):
        return
    for word in words:
        allowed = [match.span() for pattern, _ in ALLOWED.get(str(word), ()) for match in re.finditer(pattern, text)]
        for match in word.pattern.finditer(text):
            if not any(low <= match.start() and match.end() <= high for low, high in allowed):
                yield text[:match.start()].count("\n"), word


def wrong_name(name: str, words: list[Refused]) -> Iterator[Refused]:
    """The refused words that a name has among its parts."""
    parts = parts_of(name)
    starts = {*parts, *(part[:-1] for part in parts if part.endswith("s"))}
    for word in words:
        if word.parts[0] not in starts:
            continue
        length = len(word.parts)
        rows = [parts[first:first + length] for first in range(len(parts) - length + 1)]
        hit = any(row[:-1] == word.parts[:-1] and row[-1] in (word.parts[-1], word.parts[-1] + "s") for row in rows)
        if hit and not any(re.fullmatch(pattern, name) for pattern, _ in ALLOWED.get(str(word), ())):
            yield word


class Nodes:
    """The nodes of a file by their type; what only loads a name is left out."""

    def __init__(self, text: str) -> None:
        self._by_type: dict[type, list[ast.AST]] = {}
        todo: list[ast.AST] = [ast.parse(text)]
        for node in todo:
            self._by_type.setdefault(type(node), []).append(node)
            for value in vars(node).values():
                if isinstance(value, list):
                    todo += [one for one in value if isinstance(one, ast.AST)]
                elif isinstance(value, ast.AST) and not isinstance(value, ast.Load):
                    todo.append(value)

    def of(self, *types: type) -> Iterator[Any]:
        """Those of some types."""
        for type_ in types:
            yield from self._by_type.get(type_, ())


def docstrings(nodes: Nodes) -> Iterator[tuple[int, str]]:
    """(line, text) of every docstring and of every string that stands alone, as those behind attributes do."""
    for node in nodes.of(ast.Expr):
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def comments(text: str, words: list[Refused]) -> Iterator[tuple[int, str]]:
    """(line, text) of the comments of a file; those of neighbouring lines are one text. None where it has no such word after any #."""
    marked = [line.partition("#")[2] for line in text.splitlines() if "#" in line]
    if not any("#" in line.lstrip("#") for line in marked) and not any(wrong_text("\n".join(line.lstrip("#") for line in marked), words)):
        return
    lines = {token.start[0]: token.string.lstrip("#") for token in tokenize.generate_tokens(io.StringIO(text).readline)
             if token.type == tokenize.COMMENT}
    first = 0
    for line in sorted(lines):
        if line - 1 not in lines:
            first = line
        if line + 1 not in lines:
            yield first, "\n".join(lines[number] for number in range(first, line + 1))


def declared_names(nodes: Nodes) -> Iterator[tuple[int, str]]:
    """(line, name) of functions, classes, parameters and attributes."""
    for one in nodes.of(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef):
        yield one.lineno, one.name
    yield from ((one.lineno, one.arg) for one in nodes.of(ast.arg))
    yield from ((one.lineno, one.attr) for one in nodes.of(ast.Attribute) if isinstance(one.ctx, ast.Store))
    for scope in nodes.of(ast.Module, ast.ClassDef):
        for statement in scope.body:
            targets = statement.targets if isinstance(statement, ast.Assign) else \
                [statement.target] if isinstance(statement, ast.AnnAssign) else []
            yield from ((target.lineno, target.id) for target in targets if isinstance(target, ast.Name))


def local_names(nodes: Nodes) -> Iterator[tuple[int, str]]:
    """(line, name) of every variable that is set."""
    return ((node.lineno, node.id) for node in nodes.of(ast.Name) if isinstance(node.ctx, ast.Store))


def faults_of_source(text: str, words: list[Refused], stem: str = "x") -> list[tuple[int, str]]:
    """(line, sentence) for each refused word of a Python file, and for each of one meaning that means something else."""
    nodes = Nodes(text)
    declared = list(declared_names(nodes))
    found = [(line + at, f"'{word}' in a docstring") for line, part in docstrings(nodes) for at, word in wrong_text(part, words)]
    found += [(line + at, f"'{word}' in a comment") for line, part in comments(text, words) for at, word in wrong_text(part, words)]
    found += [(line, f"'{word}' in the name {name}") for line, name in {*declared, *local_names(nodes)}
              for word in wrong_name(name, words)]
    found += [(1, f"'{word}' in the name of the file") for word in wrong_name(stem, words)]
    found += [(line, f"'{word}' has another meaning in the name {name}") for line, name in [(1, stem), *declared]
              for word in other_meanings(name)]
    return sorted(found)


@cache
def other_meanings(name: str) -> tuple[str, ...]:
    """The words of one meaning that mean something else in a declared name."""
    return tuple(word for word, meaning in ONE_MEANING.items()
                 if {word, word + "s"} & {*parts_of(name)} and not re.fullmatch(meaning.fits, name))


def documents(root: Path) -> list[Path]:
    """README and all of docs but the glossary, which names the refused words."""
    return [path for path in (root / "README.md", *sorted((root / "docs").rglob("*.md"))) if path.is_file() and path.stem != "GLOSSARY"]


def faults(root: Path, words: list[Refused]) -> list[str]:
    """file:line and a sentence for each fault in documents and sources."""
    found = []
    for path in [*documents(root), *sources(root)]:
        name = str(path.relative_to(root))
        text = path.read_text()
        if path.suffix == ".py":
            here = faults_of_source(text, words, path.stem)
        else:
            here = sorted((1 + line, f"'{word}' in a document") for line, word in wrong_text(text, words))
        found += [f"{name}:{line}: {sentence}" for line, sentence in here]
    return found


WORDS = refused_words((ROOT / "docs/GLOSSARY.md").read_text())


@pytest.mark.slow
def test_the_project_uses_the_words_of_the_glossary() -> None:
    found = faults(ROOT, WORDS)
    assert not found, "\n".join(found)


def test_the_glossary_is_short_and_refuses_words() -> None:
    rows = [line for line in (ROOT / "docs/GLOSSARY.md").read_text().splitlines() if line.startswith("| ")]
    assert 40 <= len(rows) - 1 <= 56 and all(line.count("|") == 4 for line in rows)
    assert {"ending", "aside", "wait point", "in front of"} <= {str(word) for word in WORDS}


def test_allowed_patterns_hold_their_word() -> None:
    for word, rows in ALLOWED.items():
        assert word in {str(one) for one in WORDS} and all(word.replace(" ", "") in re.sub("[ _]", "", pattern).lower() and reason
                                                           for pattern, reason in rows)


PLANTED = [Refused(("tail",)), Refused(("in", "front", "of"))]


@pytest.mark.parametrize(("text", "found"), [
    ('"""The tail of a loop."""\n', [(1, "'tail' in a docstring")]),
    ('def f():\n    """A step.\n\n    It stands in front\n    of it."""\n', [(4, "'in front of' in a docstring")]),
    ("x = 1\ny = 2  # in the tails\n", [(2, "'tail' in a comment")]),
    ("# this stands in\n# front of that\nx = 1\n", [(1, "'in front of' in a comment")]),
    ("def copy_tail():\n    pass\n", [(1, "'tail' in the name copy_tail")]),
    ("class TailCopy:\n    pass\n", [(1, "'tail' in the name TailCopy")]),
    ("def f(x, *, tails=1):\n    pass\n", [(1, "'tail' in the name tails")]),
    ("class C:\n    tail: int\n", [(2, "'tail' in the name tail")]),
    ("def f(self):\n    self.tail = 1\n", [(2, "'tail' in the name tail")]),
    ("def f():\n    in_front_of = 1\n", [(2, "'in front of' in the name in_front_of")]),
    ('def f(detail, k):\n    """The K tail is detailed; `x.curtail`."""\n    return k.tail(f)  # of another package; _Tailor\n', []),
    ("def f(k_tail):\n    return \"the tail\"\n", [(1, "'tail' in the name k_tail")]),
])
def test_planted_sources(text: str, found: list[tuple[int, str]]) -> None:
    assert faults_of_source(text, PLANTED) == found


@pytest.mark.parametrize(("text", "stem", "found"), [
    ("places = 1\n", "x", [(1, "'place' has another meaning in the name places")]),
    ("def watch_window(): ...\n", "x", [(1, "'window' has another meaning in the name watch_window")]),
    ("def finish(): ...\n", "window", []),
    ("def f(turn): ...\n", "x", [(1, "'turn' has another meaning in the name turn")]),
    ("def place_tile(window, stages): ...\n", "x", []),
])
def test_planted_meanings(text: str, stem: str, found: list[tuple[int, str]]) -> None:
    assert faults_of_source(text, [], stem) == found


def test_planted_files(tmp_path: Path) -> None:
    for name, text in {"README.md": "The K tail.\n", "docs/GLOSSARY.md": "`tail`\n", "docs/ARCHITECTURE.md": "It ends.\nThe Tail of it.\n",
                       "isa/tail_of.py": "x = 1\n", "tools/y.py": "# tall\n", "kernels/z.py": "tailor = 1\n"}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert faults(tmp_path, PLANTED) == [
        "docs/ARCHITECTURE.md:2: 'tail' in a document", "isa/tail_of.py:1: 'tail' in the name of the file"]


def test_planted_glossary() -> None:
    assert refused_words("| word | meaning | not |\n|---|---|---|\n| a `b` | c | `tail`, `WaitPoint`, `wait point` |\n") == [
        Refused(("tail",)), Refused(("wait", "point"))]
