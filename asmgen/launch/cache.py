"""Files that are made once and found again by what they were made from, in the user's cache folder.

A file is its payload and a trailer: eight bytes that name the form, and the SHA-256 of the file's name, with two of its folders, and of
the payload. It appears by renaming, so that a killed process leaves no half of one under its name, and the digest is checked whenever it
is read, so that a damaged file, or one that was made under another name, is made anew. What is no plain file is not read: a pipe would
never end. Several processes may make the same file at once: each puts its own, whole, in the same place.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import asmgen
from asmgen.files import FileError, read_plain
from asmgen.scratch import scratch_folder

_FORM = b"asmgen/2"
TRAILER_BYTES = len(_FORM) + hashlib.sha256().digest_size


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/asmgen, or ~/.cache/asmgen (XDG Base Directory specification: a relative value counts as absent)."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if os.path.isabs(named) else Path(os.path.expanduser("~"), ".cache")) / "asmgen"


def key_of(*parts: str | bytes) -> str:
    """A name for what is made from these parts: 32 hexadecimal digits; different parts, different name."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:32]


@cache
def source_digest(rooms: tuple[str, ...]) -> str:
    """A digest of the source in these rooms and of the toolchain's. A changed asmgen does not use what the old one kept."""
    root = Path(asmgen.__file__).parent
    digest = hashlib.sha256()
    for path in [*(path for room in rooms for path in sorted((root / room).rglob("*.py"))), root / "toolchain.py"]:
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def read_checked(path: Path) -> bytes | None:
    """The payload of a file, None where it is not there, cannot be read, is damaged or was made under another name."""
    try:
        data = read_plain(path)
    except FileError:
        return None
    payload, form, digest = data[:-TRAILER_BYTES], data[-TRAILER_BYTES:-32], data[-32:]
    return payload if len(data) >= TRAILER_BYTES and form == _FORM and _digest(path, payload) == digest else None


def _digest(path: Path, payload: bytes) -> bytes:
    names = os.fsencode("/".join(path.absolute().parts[-3:]))  # the cache folder itself may be moved
    return hashlib.sha256(names + b"\0" + payload).digest()


def write_checked(path: Path, payload: bytes) -> None:
    """Put the file in its place, whole. Raises OSError; then whatever stood there still does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder(path.parent) as scratch:
        new = scratch / path.name
        with new.open("xb") as file:
            file.write(payload + _FORM + _digest(path, payload))
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)


def cached(path: Path, make: Callable[[], bytes]) -> bytes:
    """The payload of the file, else what `make` gives, kept there for the next time where the folder can be written."""
    payload = read_checked(path)
    if payload is None:
        payload = make()
        with contextlib.suppress(OSError):  # read-only or full: it is made again next time
            write_checked(path, payload)
    return payload


def cached_file(path: Path, make: Callable[[], bytes]) -> Path:
    """As `cached`, for what must stand in a file (the trailer after it, which loaders of ELF files do not read): where it stands.

    Where the cache folder cannot be written that is a new folder for temporary files, which stays. Raises OSError where neither can be.
    """
    if read_checked(path) is not None:
        return path
    payload = make()
    try:
        write_checked(path, payload)
        return path
    except OSError:
        other = Path(tempfile.mkdtemp(prefix="asmgen-")) / path.name
        write_checked(other, payload)
        return other
