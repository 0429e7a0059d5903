"""Files that hold several code objects: clang's offload bundles, plain or compressed, alone or inside a host ELF (.hip_fatbin).

Formats: clang's documentation of clang-offload-bundler; the compressed header in versions 1 to 3.
"""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import tempfile
import zlib
from dataclasses import dataclass
from struct import Struct

from asmgen.codeobject.descriptor import CodeObjectError

BUNDLE_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
COMPRESSED_MAGIC = b"CCOB"
_ENTRY = Struct("<QQQ")  # offset, size, length of the id
_MAX_PLAIN_BYTES = 1 << 32
_HEADERS = {  # version: (method, file size or 0, uncompressed size, hash); all after magic and version
    1: Struct("<6xH0sI8s"),
    2: Struct("<6xHII8s"),
    3: Struct("<6xHQQ8s"),
}
_ZLIB, _ZSTD = 0, 1
_TARGET = re.compile(r"amdgcn-.*?-(gfx[0-9a-z-]+(?::\w+[+-])*)$")  # the id's end: features may end in a hyphen themselves


@dataclass(frozen=True)
class BundleEntry:
    """One code object of a bundle: `triple` as the bundle spells it, and the bytes."""

    triple: str
    data: bytes

    @property
    def target(self) -> str:
        """The target id, such as "gfx942" or "gfx950:sramecc+:xnack-"; "" for a host's entry."""
        match = _TARGET.search(self.triple)
        return match[1] if match else ""

    @property
    def arch(self) -> str:
        """The target id without its features."""
        return self.target.partition(":")[0]


def is_bundle(data: bytes) -> bool:
    """Whether the bytes begin as an offload bundle, plain or compressed."""
    return data.startswith((BUNDLE_MAGIC, COMPRESSED_MAGIC))


def entries(data: bytes) -> list[BundleEntry]:
    """All non-empty GPU entries of the bundles that follow each other in `data` (a linked program has one per source file).

    Raises CodeObjectError where a bundle is cut off, damaged, or compressed in a way that cannot be undone here.
    """
    found: list[BundleEntry] = []
    at = 0
    while at >= 0:
        if data.startswith(COMPRESSED_MAGIC, at):
            plain, end = _decompress(data, at)
            found += _plain_entries(plain, 0)[0]
        else:
            members, end = _plain_entries(data, at)
            found += members
        starts = [start for start in (data.find(BUNDLE_MAGIC, end), data.find(COMPRESSED_MAGIC, end)) if start >= 0]
        at = min(starts, default=-1)
    return [entry for entry in found if entry.target and entry.data]


def choose(found: list[BundleEntry], arch: str | None) -> list[BundleEntry]:
    """The entries to load: those of `arch` ("gfx950", or a full target id), or those of the only architecture there is.

    Raises CodeObjectError that lists what is inside where nothing fits, or where several architectures fit and none was asked for.
    """
    inside = ", ".join(sorted({entry.target for entry in found})) or "nothing for a GPU"
    if arch is None:
        if len({entry.target for entry in found}) != 1:
            raise CodeObjectError(f"it is an offload bundle that holds {inside}: name the architecture to open")
        return found
    chosen = [entry for entry in found if entry.target == arch] or [entry for entry in found if _compatible(entry.target, arch)]
    if not chosen:
        raise CodeObjectError(f"it is an offload bundle without code for {arch}; it holds {inside}")
    if len({entry.target for entry in chosen}) > 1:
        raise CodeObjectError(f"it holds {inside}, several of which are {arch}: name one with its features")
    return chosen


def _compatible(target: str, wanted: str) -> bool:
    """Whether the target ids name one architecture and no feature that is on in one and off in the other."""
    (base, *features), (wanted_base, *wanted_features) = target.split(":"), wanted.split(":")
    opposite = {"+": "-", "-": "+"}
    return base == wanted_base and not any(f"{one[:-1]}{opposite[one[-1]]}" in wanted_features for one in features)


def _plain_entries(data: bytes, start: int) -> tuple[list[BundleEntry], int]:
    """The entries of the plain bundle at `start`, and where its last byte ends."""
    at = start + len(BUNDLE_MAGIC)
    if not data.startswith(BUNDLE_MAGIC, start) or at + 8 > len(data):
        raise CodeObjectError("its offload bundle is cut off or has no bundle header")
    count = int.from_bytes(data[at : at + 8], "little")
    at += 8
    found = []
    end = at
    for index in range(count):
        if at + _ENTRY.size > len(data):
            raise CodeObjectError(f"its offload bundle announces {count} entries and ends in the header of number {index}")
        offset, size, id_size = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        if at + id_size > len(data) or start + offset + size > len(data):
            raise CodeObjectError(f"entry {index} of its offload bundle reaches beyond the end of the file")
        triple = data[at : at + id_size].decode("utf-8", "replace")
        at += id_size
        found.append(BundleEntry(triple, data[start + offset : start + offset + size]))
        end = max(end, at, start + offset + size)
    return found, end


def _decompress(data: bytes, start: int) -> tuple[bytes, int]:
    """The plain bundle after the compressed one at `start`, and where the compressed one ends."""
    version = int.from_bytes(data[start + 4 : start + 6], "little")
    header = _HEADERS.get(version)
    if header is None or start + header.size > len(data):
        raise CodeObjectError(f"its compressed offload bundle is cut off or of the unknown version {version}; known are 1 to 3")
    method, file_size, plain_size, _ = header.unpack_from(data, start)
    end = start + file_size if file_size else len(data)
    if not start + header.size <= end <= len(data) or plain_size > _MAX_PLAIN_BYTES:
        raise CodeObjectError("its compressed offload bundle announces sizes that do not fit the file")
    packed = data[start + header.size : end]
    if method == _ZLIB:
        try:
            plain = zlib.decompressobj().decompress(packed, plain_size + 1)
        except zlib.error as error:
            raise CodeObjectError("its compressed offload bundle is damaged (zlib)") from error
    elif method == _ZSTD:
        plain = _unpack_zstd(packed, plain_size)
    else:
        raise CodeObjectError(f"its offload bundle is compressed by the unknown method {method}; known are zlib (0) and zstd (1)")
    if len(plain) != plain_size:
        raise CodeObjectError(f"its compressed offload bundle announces {plain_size} bytes and does not unpack to so many")
    return plain, end


def _unpack_zstd(packed: bytes, plain_size: int) -> bytes:
    """zstd through the first of: Python 3.14's own module, the wheel zstandard, the command zstd. None of them is a dependency."""
    damaged = CodeObjectError("its compressed offload bundle is damaged (zstd)")
    try:
        decompressor = importlib.import_module("compression.zstd").ZstdDecompressor()
    except ImportError:
        pass
    else:
        try:
            return bytes(decompressor.decompress(packed, plain_size + 1))
        except Exception as error:  # ZstdError is named by a module that may not exist
            raise damaged from error
    try:
        reader = importlib.import_module("zstandard").ZstdDecompressor()
    except ImportError:
        pass
    else:
        try:
            with reader.stream_reader(packed) as stream:
                return bytes(stream.read(plain_size + 1))
        except Exception as error:  # as above
            raise damaged from error
    command = shutil.which("zstd")
    if command is None:
        raise CodeObjectError(
            "its offload bundle is compressed with zstd, which this Python cannot unpack: `pip install zstandard`, "
            "or unpack it with `clang-offload-bundler --unbundle`"
        )
    with tempfile.TemporaryFile() as source:  # a file, so that nobody has to feed the pipe while the result is read
        source.write(packed)
        source.seek(0)
        with subprocess.Popen([command, "-dcq"], stdin=source, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            plain = process.stdout.read(plain_size + 1)
            if len(plain) > plain_size:
                process.kill()
    if process.returncode:
        raise damaged
    return plain
