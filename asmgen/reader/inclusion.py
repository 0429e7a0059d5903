"""What a text asks an assembler to fetch and to repeat: put in its place, or refused, before clang sees it."""

from __future__ import annotations

import re
from pathlib import Path

from asmgen.files import FileError, plain_size, read_plain
from asmgen.isa.quote import quoted, shorten
from asmgen.reader.errors import ReadError

MOST_REPEATED = 1_000_000
"""The most of anything that a line of text may ask an assembler to make."""

_INCLUDE = re.compile(r'\s*\.include\s+"([^"\n]+)"', re.IGNORECASE)
_INCBIN = re.compile(r'\.incbin\s+"([^"\n]+)"', re.IGNORECASE)
_MANY = re.compile(r"\s*\.(?:rept|fill|space|skip|zero|org|p2align\w*|align|balign\w*)\s+(?:0x[0-9a-f]{6,}|[0-9]{7,})", re.IGNORECASE)
_DEEPEST = 20
_MOST_BYTES, _MOST_FILES = 16 << 20, 500


class Inclusion:
    """Puts included files into the text of `path`, between the markers of a preprocessor: clang's own .include loses the file of a line.

    All of them together may have so many bytes, so that files which include others twice come to an end.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._left = _MOST_BYTES
        self._files = 0

    def text(self, text: str) -> str:
        """The whole text. Raises ReadError for a repetition so long, files so large or so deep in each other, that clang would not come
        to an end, and for a device or a pipe.
        """
        return self._included(text, self._path, 0)

    def _included(self, text: str, path: Path, depth: int) -> str:
        lines = text.split("\n")
        for position, line in enumerate(lines):
            where = f"{path}:{position + 1}"
            if _MANY.match(line):
                raise ReadError(f"`{shorten(line.strip())}` makes more than {MOST_REPEATED} of something", where)
            for name in _INCBIN.findall(line):
                self._fetchable(path.parent / name, name, where)
            match = _INCLUDE.match(line)
            # Where there is no such file clang says so, unless the line is in an .if that does not hold.
            if match is None or not self._fetchable(path.parent / match[1], match[1], where):
                continue
            file = path.parent / match[1]
            if depth == _DEEPEST:
                raise ReadError(f"{quoted(match[1])} cannot be included: more than {_DEEPEST} files stand in each other, or one includes "
                                "itself", where)
            try:
                data = read_plain(file, _MOST_BYTES)
            except FileError as error:
                raise ReadError(error.sentence, where) from None
            inner = self._included(data.decode("utf-8", "replace"), file, depth + 1)
            lines[position] = f'# 1 "{file}"\n{inner}\n# {position + 2} "{path if depth else "-"}"'
        return "\n".join(lines)

    def _fetchable(self, file: Path, name: str, where: str) -> bool:
        """Whether there is such a file; its bytes are taken from those that are left. Raises ReadError where it is no plain file, or too
        large.
        """
        if not file.exists():
            return False
        try:
            self._left -= plain_size(file)
            self._files += 1
        except FileError as error:
            raise ReadError(f"{quoted(name)} cannot be included: {error.sentence}", where) from None
        if self._left < 0 or self._files > _MOST_FILES:
            raise ReadError(f"{quoted(name)} cannot be included: with it there are more than {_MOST_FILES} included files, or they have "
                            f"more than {_MOST_BYTES >> 20} MB", where)
        return True
