"""The code objects in files: alone, in offload bundles, shared libraries, static libraries, wheels and other archives.

Each content counts once. What is for other GPUs is counted and passed over, as is every file that holds none, but for those that are
named as code objects.
"""

from __future__ import annotations

import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO

from asmgen.codeobject.bundle import BUNDLE_MAGIC, COMPRESSED_MAGIC, entries, is_bundle
from asmgen.codeobject.elf import ELF_MAGIC, EM_AMDGPU, check_header, fat_section
from asmgen.files import MOST_BYTES, plain_size, read_plain
from asmgen.isa.arch import ARCHITECTURES
from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import shorten
from asmgen.tools.terminal.entry import internal_error

_HEAD = 64  # bytes by which a kind of file is told
_MACHINE = slice(18, 20)  # of an ELF header
_FLAGS = 12  # the field of an ELF header, as `check_header` gives it
_AMDGPU = EM_AMDGPU.to_bytes(2, "little")
_FAT_SECTION = b".hip_fatbin\0"
_ZIP = b"PK\x03\x04"
_TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_NAMED = (".hsaco", ".co")
_LIBRARY, _LIBRARY_MEMBER, _LIBRARY_SIZE = b"!<arch>\n", 60, slice(48, 58)  # ar(5): its header, and the size in a member's


@dataclass(frozen=True)
class FoundObject:
    """A code object: `file` as a user finds it (a member of an archive after "!"), its number in there from 1 on (0: it is the file),
    its target and bytes. With a `failure`: what should hold some cannot be opened, and why."""

    file: str
    number: int = 0
    target: str = ""
    data: bytes = b""
    failure: str = ""

    @property
    def label(self) -> str:
        """The file, with the number of the object where it has several."""
        return f"{self.file}#{self.number}" if self.number else self.file


class FoundObjects:
    """The code objects for gfx942 and gfx950 in files and below folders, in the order of the files' names, while it is iterated over.

    `files` is how many files there are, `read` how many were looked into; `others` counts code objects by target that are for other GPUs.
    Raises FileError for a path that is neither a folder nor a plain file.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self._files: list[Path] = []
        for path in paths:
            if path.is_dir():
                self._files += sorted(entry for entry in path.rglob("*") if entry.is_file())
            else:
                plain_size(path)
                self._files.append(path)
        self.files, self.read = len(self._files), 0
        self.others: Counter[str] = Counter()
        self._seen: set[bytes] = set()
        self._met = 0  # code objects, seen before or for other GPUs too

    def __iter__(self) -> Iterator[FoundObject]:
        for path in self._files:
            yield from self._guarded(str(path), self._in_path(path))
            self.read += 1

    def _guarded(self, file: str, found: Iterator[FoundObject]) -> Iterator[FoundObject]:
        """What is found before something fails, then the failure: the next file has nothing to do with it."""
        met = self._met
        try:
            yield from found
            if met == self._met and file.endswith(_NAMED):
                raise AsmgenError("its name is a code object's, but it holds none: damaged, or another kind of file")
        except AsmgenError as error:
            yield FoundObject(file, failure=str(error).removeprefix(f"{file}: "))
        except (OSError, RuntimeError, EOFError, zipfile.BadZipFile, tarfile.TarError) as error:  # RuntimeError: a zip with a password
            yield FoundObject(file, failure=f"cannot be read: {getattr(error, 'strerror', None) or shorten(str(error))}")
        except Exception as error:
            yield FoundObject(file, failure=internal_error(error))

    def _in_path(self, path: Path) -> Iterator[FoundObject]:
        with path.open("rb") as file:
            head = file.read(_HEAD)
        if head.startswith(_ZIP):
            with zipfile.ZipFile(path) as archive:
                for member in archive.infolist():
                    yield from self._guarded(f"{path}!{member.filename}", self._in_zip(path, archive, member))
        elif path.name.endswith(_TARS):
            with tarfile.open(path) as tar:
                for entry in tar:
                    yield from self._guarded(f"{path}!{entry.name}", self._in_tar(path, tar, entry))
        elif _promising(head):
            yield from self._in_data(str(path), read_plain(path))

    def _in_zip(self, path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[FoundObject]:
        if member.is_dir():
            return
        with archive.open(member) as file:
            head = file.read(_HEAD)
            if _promising(head):
                yield from self._in_data(f"{path}!{member.filename}", _rest(file, head))

    def _in_tar(self, path: Path, tar: tarfile.TarFile, entry: tarfile.TarInfo) -> Iterator[FoundObject]:
        file = tar.extractfile(entry) if entry.isfile() else None
        head = file.read(_HEAD) if file is not None else b""
        if file is not None and _promising(head):
            yield from self._in_data(f"{path}!{entry.name}", _rest(file, head))

    def _in_data(self, file: str, data: bytes) -> Iterator[FoundObject]:
        """The objects of one file, whatever archive it is in."""
        if data.startswith(_LIBRARY):
            parts = [part for part in _members(data) if _promising(part[:_HEAD])]
        else:
            parts = [data]
        number = 0
        for part in parts:
            if part.startswith(ELF_MAGIC) and part[_MACHINE] == _AMDGPU:
                found = [(_target(part), part)]
                alone = len(parts) == 1 and part is data
            else:
                bundled = _bundles(part)
                found = [(entry.target, entry.data) for entry in entries(bundled)] if bundled else []
                alone = False
            self._met += len(found)
            for target, code in found:
                if target and target.partition(":")[0] not in ARCHITECTURES:
                    self.others[target] += 1
                    continue
                number += not alone
                if self._is_new(code):
                    yield FoundObject(file, number, target, code)

    def _is_new(self, data: bytes) -> bool:
        digest = sha256(data).digest()
        new = digest not in self._seen
        self._seen.add(digest)
        return new


def _promising(head: bytes) -> bool:
    """Whether a file that begins so may hold code objects."""
    return head.startswith((ELF_MAGIC, BUNDLE_MAGIC, COMPRESSED_MAGIC, _LIBRARY))


def _rest(file: IO[bytes], head: bytes) -> bytes:
    """All of a member of an archive whose head was read; its header may lie about its size."""
    data = head + file.read(MOST_BYTES + 1 - len(head))
    if len(data) > MOST_BYTES:
        raise AsmgenError(f"it has more than {MOST_BYTES} bytes, and so many are the most")
    return data


def _target(data: bytes) -> str:
    """The target of a code object that stands alone; "" where its header is damaged, so that whoever reads it says why."""
    try:
        number = check_header(data)[_FLAGS] & 0xFF
    except AsmgenError:
        return ""
    return next((arch.name for arch in ARCHITECTURES.values() if arch.elf_mach == number), f"machine {number:#x}")


def _bundles(data: bytes) -> bytes:
    """The bundles of a bundle or of a host's ELF file, nothing where it has none."""
    if is_bundle(data):
        return data
    if not data.startswith(ELF_MAGIC) or _FAT_SECTION not in data:
        return b""
    return fat_section(data) or b""


def _members(data: bytes) -> Iterator[bytes]:
    """The members of a static library."""
    at = len(_LIBRARY)
    while at + _LIBRARY_MEMBER <= len(data):
        digits = data[at:at + _LIBRARY_MEMBER][_LIBRARY_SIZE].strip()
        if not digits.isdigit():
            raise AsmgenError(f"a static library whose member at {at:#x} has no size")
        start = at + _LIBRARY_MEMBER
        yield data[start:start + int(digits)]
        at = start + int(digits) + int(digits) % 2
