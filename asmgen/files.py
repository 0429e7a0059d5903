"""Files that others name: read only where they are plain files of a size that can be held, written whole or not at all.

A device, a pipe or a socket may have no end or never answer, so none of them is read.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import BinaryIO

from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import shown

MOST_BYTES = 1 << 30
"""Of a file with code in it: the largest libraries that hold code objects have some hundred megabytes."""
MOST_TEXT = 64 << 20
"""Of a text."""


class FileError(AsmgenError):
    """A file cannot be read or written: which, and why."""


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


def _opened(path: Path) -> BinaryIO:
    """A plain file, open for reading; the check is made again on what was opened, as another file may have taken its place since.

    Opened so, a pipe that did does not wait for a writer. Raises OSError, ValueError for a name with a null byte.
    """
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb")
    kind = os.fstat(file.fileno()).st_mode
    if not stat.S_ISREG(kind):
        file.close()
        raise OSError(f"it is {_kind(kind)}, no plain file")
    return file


def first_bytes(path: Path, count: int = 64) -> bytes:
    """The first bytes of a plain file, by which its kind is told. Raises FileError."""
    plain_size(path)
    try:
        with _opened(path) as file:
            return file.read(count)
    except (OSError, ValueError) as error:
        raise FileError(f"{shown(path)}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def read_plain(path: Path, most: int = MOST_BYTES) -> bytes:
    """The bytes of a plain file of at most `most` bytes. Raises FileError for anything else."""
    size = plain_size(path)
    if size > most:
        raise FileError(f"{shown(path)}: cannot be read: it has {size} bytes, and {most} are the most")
    try:
        with _opened(path) as file:
            data = file.read(most + 1)
    except (OSError, ValueError) as error:
        raise FileError(f"{shown(path)}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > most:  # a file that grows, or one of a file system that states no sizes
        raise FileError(f"{shown(path)}: cannot be read: it has more than {most} bytes")
    return data


def write_plain(path: Path, data: bytes) -> None:
    """Put a file in its place, whole: what stood there is replaced at once, links followed, or stays as it is.

    A device, a pipe and the file that the standard output goes to take the bytes as they come. Raises FileError, which names the file.
    """
    try:
        found = _found(path)
        if found is not None and (not stat.S_ISREG(found.st_mode) or _is_output(found)):
            with path.open("wb", buffering=0) as file:
                rest = memoryview(data)
                while rest:
                    rest = rest[file.write(rest):]
            return
        from asmgen.scratch import scratch_folder

        target = Path(os.path.realpath(path))
        if found is not None:
            os.close(os.open(target, os.O_WRONLY | os.O_CLOEXEC))  # a write-protected file is not replaced either
        with scratch_folder(target.parent) as scratch:
            new = scratch / target.name
            new.write_bytes(data)
            if found is not None:
                os.chmod(new, stat.S_IMODE(found.st_mode))
            os.replace(new, target)
    except (OSError, ValueError) as error:
        raise FileError(f"{shown(path)}: cannot be written: {getattr(error, 'strerror', None) or error}") from None


def _found(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _is_output(found: os.stat_result) -> bool:
    for stream in (sys.__stdout__, sys.__stderr__):
        try:
            if stream is not None and os.path.samestat(found, os.fstat(stream.fileno())):
                return True
        except (OSError, ValueError):  # it is closed
            continue
    return False
