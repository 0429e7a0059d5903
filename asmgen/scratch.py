"""Folders for files in the making, beside the files that they become: renaming within a file system is all or nothing.

A process that is killed leaves its folder. The next one that writes to the same place removes it: the name has the process's number, and
a living process holds a lock on its folder, which other machines and containers see that do not see the number.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = ".asmgen-"
_NAME = re.compile(r"\.asmgen-(\d{1,10})-\w+")


@contextmanager
def scratch_folder(beside: Path) -> Iterator[Path]:
    """A new empty folder in the folder `beside`, removed at the end; those that killed processes left are removed first. Raises OSError."""
    _sweep(beside)
    with tempfile.TemporaryDirectory(dir=beside, prefix=f"{_PREFIX}{os.getpid()}-", ignore_cleanup_errors=True) as name:
        handle = os.open(name, os.O_RDONLY)
        try:
            _lock(handle)
            yield Path(name)
        finally:
            os.close(handle)


def _sweep(beside: Path) -> None:
    try:
        found = [Path(entry.path) for entry in os.scandir(beside) if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False)]
    except OSError:
        return  # what is wrong with the folder shows where a file is written to it
    for folder in found:
        match = _NAME.fullmatch(folder.name)
        if match is not None and not _lives(int(match[1])) and not _held(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass  # it is another user's
    return True


def _held(folder: Path) -> bool:
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return True
    try:
        return not _lock(handle)
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False  # somebody has it, or the file system knows no locks
    return True
