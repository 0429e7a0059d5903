"""Code objects of the library's kernels. Each is built once and kept in the user's cache folder; its key covers all inputs of the build."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from asmgen.author.emit.kernel import symbol_of
from asmgen.author.family.family import Family
from asmgen.codeobject.load import CodeObject
from asmgen.isa.errors import AsmgenError
from asmgen.launch.cache import cache_folder, cached, key_of, source_digest, write_checked
from asmgen.launch.launchlist import LaunchList
from asmgen.toolchain import ToolError, assemble, find_toolchain
from asmgen.tuning.started import launch_list

_MAKERS = ("author", "checks", "codeobject", "isa", "kernels", "program", "regalloc")
"""The rooms whose code determines a kernel's bytes."""


@cache
def _assembler() -> str:
    """The assembler: its path, size and time. It is empty without an assembler; kernels built without one are still found."""
    try:
        program = Path(find_toolchain().clang[0]).resolve()
        found = program.stat()
    except (ToolError, OSError):
        return ""
    return f"{program} {found.st_size} {found.st_mtime_ns}"


def code_object(family: Family, arch: str, parameters: Mapping[str, Any]) -> CodeObject:
    """The code object of a family's kernels for an architecture and resolved build parameters, from the cache folder or built now.

    Raises AsmgenError for a kernel that cannot be built. If the cache folder cannot be written, each call builds.
    """
    contract = family.contract(arch, parameters)
    name, symbols = contract.stem, {symbol_of(one.stem) for one in contract.launches}
    key = key_of(name, json.dumps(dict(parameters), sort_keys=True), source_digest(_MAKERS), _assembler())
    path = cache_folder() / "kernels" / f"{name}-{key}.co"

    def build() -> bytes:
        return assemble(family.build(arch, parameters).text(), arch, name=f"{name}.s")

    loaded = _loaded(cached(path, build), arch, symbols, str(path))
    if loaded is None:  # a valid file, but not with these kernels: another program wrote it
        data = build()
        with suppress(OSError):
            write_checked(path, data)
        loaded = CodeObject.load(data, arch, str(path))
    return loaded


def launches(family: Family, arch: str, parameters: Mapping[str, Any], resolved: Mapping[str, Any]) -> LaunchList:
    """The launches of a build for resolved run parameters. Raises AsmgenError for a kernel that cannot be built."""
    return launch_list(code_object(family, arch, parameters), family.contract(arch, parameters), resolved)


def _loaded(data: bytes, arch: str, symbols: set[str], origin: str) -> CodeObject | None:
    """The code object, if it has exactly the kernels of these names; else None."""
    try:
        found = CodeObject.load(data, arch, origin)
    except AsmgenError:
        return None
    return found if set(found.kernels) == symbols else None
