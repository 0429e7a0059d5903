"""Files that others name: read only where they are plain files of a size that can be held.

A device, a pipe or a socket may have no end or never answer, so none of them is opened.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import shown

MOST_BYTES = 1 << 30
"""Of a file with code in it: the largest libraries that hold code objects have some hundred megabytes."""
MOST_TEXT = 64 << 20
"""Of a text."""


class FileError(AsmgenError):
    """A file cannot be read: which, and why."""


def plain_size(path: Path) -> int:
    """The size in bytes of a plain file, links followed. Raises FileError for any other, for one that is not there too."""
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        raise FileError(f"{shown(path)}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not stat.S_ISREG(found.st_mode):
        raise FileError(f"{shown(path)}: cannot be read: it is {_kind(found.st_mode)}, no plain file")
    return found.st_size


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    return next((name for holds, name in kinds if holds(mode)), "a device")


def first_bytes(path: Path, count: int = 64) -> bytes:
    """The first bytes of a plain file, by which its kind is told. Raises FileError."""
    plain_size(path)
    try:
        with path.open("rb") as file:
            return file.read(count)
    except (OSError, ValueError) as error:
        raise FileError(f"{shown(path)}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def read_plain(path: Path, most: int = MOST_BYTES) -> bytes:
    """The bytes of a plain file of at most `most` bytes. Raises FileError for anything else."""
    size = plain_size(path)
    if size > most:
        raise FileError(f"{shown(path)}: cannot be read: it has {size} bytes, and {most} are the most")
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except (OSError, ValueError) as error:
        raise FileError(f"{shown(path)}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > most:  # a file that grows, or one of a file system that states no sizes
        raise FileError(f"{shown(path)}: cannot be read: it has more than {most} bytes")
    return data
