"""Code objects that clang makes of tests/hip_sources: each is compiled once a session, several at a time where many are asked for.

The workers of a session share what they have compiled in a folder (`share`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

from asmgen.codeobject.load import CodeObject
from asmgen.toolchain import LLVM_VERSIONS

SOURCES = Path(__file__).resolve().parent / "hip_sources"
NAMES = tuple(sorted(path.stem for path in SOURCES.glob("*.hip")))
ARCHS = ("gfx942", "gfx950")
LEVELS = (1, 2)  # clang makes of all sources the same code with -O3 as with -O2
JOBS = 2
OPTIONS = {"preload_args": ("-mllvm", "-amdgpu-kernarg-preload-count=8")}
_CLANG = next((name for name in (f"clang-{version}" for version in LLVM_VERSIONS) if shutil.which(name)), None)
_LINKS = _CLANG is not None and shutil.which(_CLANG.replace("clang", "ld.lld")) is not None

needs_clang = pytest.mark.skipif(not _LINKS, reason="no clang and ld.lld of LLVM 20 to 22 on PATH")


_shared: list[Path] = []


def share(folder: Path) -> None:
    """From now on what is compiled is kept in `folder`, which is this session's, and found there."""
    _shared[:] = [folder]


def _compile(name: str, arch: str, level: int, *extra: str) -> bytes:
    if not _shared:
        return _compiled(name, arch, level, *extra)
    kept = _shared[0] / f"{name}-{arch}-O{level}{''.join(extra)}"
    if not kept.exists():
        made = kept.with_name(f"{kept.name}.{os.getpid()}.{threading.get_ident()}")
        made.write_bytes(_compiled(name, arch, level, *extra))
        made.replace(kept)
    return kept.read_bytes()


def _compiled(name: str, arch: str, level: int, *extra: str) -> bytes:
    assert _CLANG is not None
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "output")
        command = [
            _CLANG,
            "-x",
            "hip",
            f"--offload-arch={arch}",
            "--offload-device-only",
            "--no-gpu-bundle-output",
            "-nogpulib",
            "-nogpuinc",
            f"-O{level}",
            *OPTIONS.get(name, ()),
            *extra,
            str(SOURCES / f"{name}.hip"),
            "-o",
            str(output),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return output.read_bytes()


@cache
def hip_object(name: str, arch: str, level: int = 2) -> CodeObject:
    """tests/hip_sources/NAME.hip compiled for an architecture with -O0 to -O3; kernels have the names in the source."""
    return CodeObject.load(hip_bytes(name, arch, level))


def hip_bytes(name: str, arch: str, level: int) -> bytes:
    """The same as a file."""
    return _compile(name, arch, level)


@cache
def hip_assembly(name: str, arch: str, level: int = 2) -> str:
    """The same as clang's -S prints it."""
    return _compile(name, arch, level, "-S").decode()


@cache
def hip_object_with_lines(name: str, arch: str) -> CodeObject:
    """The same, -O1, with line information."""
    return CodeObject.load(_compile(name, arch, 1, "-g"))


def hip_objects(arch: str, level: int) -> dict[str, CodeObject]:
    """All sources, by name."""
    with ThreadPoolExecutor(JOBS) as pool:
        return dict(zip(NAMES, pool.map(lambda name: hip_object(name, arch, level), NAMES), strict=True))
