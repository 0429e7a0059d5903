"""What `asmgen doctor` reports: each tool and package that asmgen can use, its version, and the command that installs a missing one."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec

from asmgen.launch import hipbinding
from asmgen.launch.hip import hip_available
from asmgen.toolchain import INSTALL_ASSEMBLER, INSTALL_LLVM, Search, ToolError, find_tool, find_toolchain

_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")


@dataclass(frozen=True)
class ToolStatus:
    """One line of the report. `path` is "" where the thing is missing; `install` is "" where nothing is to be done or can be.

    `version` may hold the reason why a thing is missing.
    """

    name: str
    path: str
    version: str
    install: str = ""

    @property
    def found(self) -> bool:
        return bool(self.path)


def doctor(search: Search | None = None) -> list[ToolStatus]:
    """All statuses, the assembler first. Starts each tool once to ask its version; raises nothing for a missing one."""
    search = search or Search.here()
    try:
        toolchain = find_toolchain(search)
        report = [_tool(f"clang ({toolchain.name})", toolchain.clang), _tool("ld.lld", toolchain.lld)]
        report.append(_tool("llvm-objdump", toolchain.objdump))
        report.append(_tool("llvm-mc", find_tool("llvm-mc", search)))
    except ToolError as error:  # without an assembler a lone llvm-objdump is of no interest
        report = [ToolStatus("clang", "", error.sentence, INSTALL_ASSEMBLER)]
    report.append(_tool("ziglang", (str(search.zig),) if search.zig is not None else None, INSTALL_ASSEMBLER))
    return [*report, *_packages(), _gpus()]


def _tool(name: str, command: Sequence[str] | None, install: str = INSTALL_LLVM) -> ToolStatus:
    if command is None:
        return ToolStatus(name, "", "", install)
    argument = "version" if command[-1].endswith("zig") else "--version"
    try:
        text = subprocess.run([*command, argument], capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return ToolStatus(name, "", f"{command[0]} does not start: {error}", install)
    found = _VERSION.search(text)
    if found is None:
        return ToolStatus(name, "", f"{command[0]} does not tell its version", install)
    return ToolStatus(name, " ".join(command), found[0])


def _packages() -> list[ToolStatus]:
    return [_package("numba", "numba", "python -m pip install numba"),
            _package("hip-python", "hip", "python -m pip install hip-python", hipbinding.version)]


def _package(name: str, module: str, install: str, own_version: Callable[[], str] = str) -> ToolStatus:
    spec = find_spec(module)
    if spec is None:
        return ToolStatus(name, "", "", install)
    where = spec.origin or next(iter(spec.submodule_search_locations or ()), module)
    try:
        return ToolStatus(name, where, own_version() or metadata.version(name))
    except metadata.PackageNotFoundError:
        return ToolStatus(name, where, "of unknown version")


def _gpus() -> ToolStatus:
    available, reason = hip_available()
    return ToolStatus("GPU", "hip" if available else "", reason)
