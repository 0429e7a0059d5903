"""Lines of assembly text to statements: labels, code, comment. Comments are `;`, `//`, `/* */` over any number of lines, and `#` lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from asmgen.isa.grammar import MAX_OPERAND_TEXT
from asmgen.isa.quote import quoted
from asmgen.reader.errors import ReadError

_LABEL = re.compile(r'([A-Za-z_.$][\w.$@]*|"[^"\n]*"|\d+)[ \t]*:(?!:)[ \t]*', re.ASCII)
_DIRECTIVE = re.compile(r"\s*\.[a-z_]+[ \t]", re.ASCII)
_MARK = re.compile(r'"|;|//|/\*')
_SPACES = re.compile(r"[ \t]+")
_SHOWN = 40


@dataclass(frozen=True)
class Statement:
    """One line: its labels, its instruction or directive with single spaces after the first word, its comment without marks."""

    line: int
    labels: tuple[str, ...]
    code: str
    comment: str


def statements(text: str, file: str) -> Iterator[Statement]:
    """The lines that hold anything. Raises ReadError for a comment that does not end and for a line longer than any statement."""
    opened = 0  # the line of the block comment that we are in
    for number, line in enumerate(text.split("\n"), 1):
        if opened:
            end = line.find("*/")
            if end < 0:
                continue
            line, opened = line[end + 2:], 0
        if line.lstrip().startswith("#"):
            continue
        code, comment, open_end = _split(line)
        if open_end:
            opened = number
        long = len(code) > MAX_OPERAND_TEXT
        if long and _DIRECTIVE.match(code) is None:
            raise ReadError(f"a line of {len(code)} characters that begins with {quoted(code.strip()[:_SHOWN])} is no instruction",
                            f"{file}:{number}")
        code = code.strip()
        labels: list[str] = []
        while ":" in code and not long:
            match = _LABEL.match(code)
            if match is None:
                break
            labels.append(match[1])
            code = code[match.end():]
        if "\t" in code or "  " in code:
            code = _SPACES.sub(" ", code)
        if code or labels or comment:
            yield Statement(number, tuple(labels), code, comment)
    if opened:
        raise ReadError("this comment does not end", f"{file}:{opened}")


def _split(line: str) -> tuple[str, str, bool]:
    """(code, comment, whether a block comment is still open at the line's end)."""
    if ";" not in line and "/" not in line:
        return line, "", False
    code: list[str] = []
    at = 0
    while True:
        match = _MARK.search(line, at)
        if match is None:
            return "".join([*code, line[at:]]), "", False
        if match[0] == '"':
            end = line.find('"', match.end())
            end = len(line) if end < 0 else end + 1
            code.append(line[at:end])
            at = end
        elif match[0] == "/*":
            code.append(line[at:match.start()] + " ")
            end = line.find("*/", match.end())
            if end < 0:
                return "".join(code), "", True
            at = end + 2
        else:
            code.append(line[at:match.start()])
            return "".join(code), line[match.end():].strip(), False
