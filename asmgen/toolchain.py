"""The LLVM tools: where they are found, assembling and linking with them, disassembling.

Finding a tool looks at files only and starts no process, and nothing is remembered between calls: a cold `asmgen build` has
0.6 s for everything, and a search takes well under a millisecond of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from asmgen.isa.errors import AsmgenError
from asmgen.isa.records import dataclass

# LLVM knows gfx950 from version 20 on; asmgen's tests run with 22.
LLVM_VERSIONS = (22, 21, 20)
INSTALL_ASSEMBLER = "python -m pip install ziglang"
INSTALL_LLVM = "apt-get install clang-22 lld-22 llvm-22"
_TARGET = "amdgcn-amd-amdhsa"
_MOST_SAID = 1 << 20  # bytes of messages
_PIPE_BYTES = 1 << 18
_FILLING = 0.001  # seconds, in which llvm-objdump writes some ten thousand bytes
_ZIG_TOOLS = ("clang", "ld.lld")
_DIAGNOSTIC = re.compile(r"^<stdin>:(\d+):(\d+): (?:fatal )?error: (.*)$", re.MULTILINE)


class ToolError(AsmgenError):
    """A tool is missing or does not start: the sentence says what was tried and the one command that installs it."""


class AssemblyError(AsmgenError):
    """clang or ld.lld rejects the text; `where` is NAME:LINE of the assembly."""


@dataclass(frozen=True)
class Search:
    """What a search looks at: environment variables and three places of the file system (None: there is no such place)."""

    variables: Mapping[str, str]
    prefix: Path | None  # the Python environment: `make` unpacks LLVM into its llvm/ where it may not install packages
    rocm: Path | None  # where ROCm usually stands
    zig: Path | None  # the zig program

    @classmethod
    def here(cls) -> Search:
        """This process's environment variables and Python environment, and the ziglang package installed in it."""
        return cls(os.environ, Path(sys.prefix), Path("/opt/rocm"), zig_program())


@dataclass(frozen=True)
class Toolchain:
    """Commands, each as the first words of an argument list; `objdump` is None where there is no llvm-objdump.

    `name` says where clang was found, as `asmgen doctor` prints it.
    """

    clang: tuple[str, ...]
    lld: tuple[str, ...]
    objdump: tuple[str, ...] | None
    name: str


@dataclass(frozen=True)
class _ToolFolder:
    """Where the tools of one LLVM stand: FOLDER/NAME+SUFFIX of the first pair that has the tool. Zig is several tools in one program."""

    label: str
    folders: tuple[tuple[str, str], ...] = ()
    zig: str = ""
    clang: str = ""  # where the very file was named

    def tool(self, name: str) -> tuple[str, ...] | None:
        if name == "clang" and self.clang:
            return (self.clang,)
        if self.zig and name in _ZIG_TOOLS:
            return (self.zig, name)
        for folder, suffix in self.folders:
            path = os.path.join(folder, name + suffix)
            if _is_program(path):
                return (path,)
        return None


@dataclass(frozen=True)
class Bounds:
    """What a tool may take that works on a stranger's input: `seconds` by the clock, `most` bytes of output. It is killed beyond."""

    seconds: float
    most: int


def find_toolchain(search: Search | None = None) -> Toolchain:
    """The first place that has both clang and ld.lld, with its llvm-objdump or else the first one elsewhere.

    The order: ASMGEN_CLANG, $ROCM_PATH/llvm/bin, /opt/rocm/llvm/bin, clang-22 to clang-20 on PATH, the LLVM that `make` unpacked into
    the Python environment, ziglang. ASMGEN_CLANG may name a zig program too. Raises ToolError where no place has both, and where
    ASMGEN_CLANG names no program: what was asked for explicitly is not passed over.
    """
    search = search or Search.here()
    candidates = _candidates(search)
    for candidate in candidates:
        clang, lld = candidate.tool("clang"), candidate.tool("ld.lld")
        if clang is not None and lld is None and candidate.clang:
            lld = _first(candidates, "ld.lld")  # a clang that was asked for is used, with whichever linker there is
        if clang is not None and lld is not None:
            return Toolchain(clang, lld, candidate.tool("llvm-objdump") or _first(candidates, "llvm-objdump"), candidate.label)
    raise ToolError(f"no assembler for AMD GPUs was found (tried {_tried(search)}); `{INSTALL_ASSEMBLER}` installs one")


def find_tool(name: str, search: Search | None = None) -> tuple[str, ...] | None:
    """The command for an LLVM tool, for instance "llvm-objdump", "llvm-mc" or "llc", in the order of find_toolchain; None where missing."""
    return _first(_candidates(search or Search.here()), name)


def require_tool(name: str, search: Search | None = None) -> tuple[str, ...]:
    """As find_tool; raises ToolError where the tool is missing."""
    search = search or Search.here()
    command = find_tool(name, search)
    if command is None:
        raise ToolError(f"{name} was not found (tried {_tried(search)}, of which ziglang has none); `{INSTALL_LLVM}` installs it")
    return command


def require_objdump(search: Search | None = None) -> tuple[str, ...]:
    """The llvm-objdump command; raises ToolError where there is none."""
    return require_tool("llvm-objdump", search)


def assemble(text: str, arch: str, toolchain: Toolchain | None = None, extra: Sequence[str] = (), name: str = "<assembly>",
             bounds: Bounds | None = None) -> bytes:
    """The code object (a shared ELF) that clang and ld.lld make of assembly text; `extra` goes to clang, `name` is for messages.

    Raises AssemblyError with the first diagnostic and its line, ToolError where the tools are missing or do not start. Both run at
    once, joined by pipes: the linker starts up while clang works (39 ms against 57 ms one after the other, 3,000 lines).
    """
    tools = toolchain or find_toolchain()
    command = [*tools.clang, "-target", _TARGET, f"-mcpu={arch}", "-x", "assembler", *extra, "-c", "-", "-o", "-"]
    with _start([*tools.lld, "-shared", "/dev/stdin", "-o", "-"]) as linker:
        try:
            with _start(command) as clang:
                code, errors = _exchange(clang, text.encode(), bounds)
            if clang.returncode:
                raise _assembly_error(text, arch, name, command, clang.returncode, errors.decode(errors="replace"))
            linked, errors = linker.communicate(code)
        except BaseException:
            linker.kill()
            raise
    if linker.returncode:
        raise AssemblyError(f"{shlex.join(tools.lld)} cannot link {name} for {arch}: {_one_line(errors.decode(errors='replace'))}")
    return linked


def link(code: bytes, name: str = "<object>") -> bytes:
    """The code object (a shared ELF) that ld.lld makes of a relocatable one.

    Raises AssemblyError with the first thing that it lacks, ToolError where there is no ld.lld.
    """
    command = require_tool("ld.lld")
    # Compilers put names of the host's libraries (libm of flang) into objects of the GPU too: there are none to look for.
    with _start([*command, "-shared", "--no-dependent-libraries", "/dev/stdin", "-o", "-"]) as linker:
        linked, errors = _exchange(linker, code, None)
    if linker.returncode:
        raise AssemblyError(f"{shlex.join(command)} cannot link {name}: {_one_line(errors.decode(errors='replace'))}")
    return linked


def disassemble(code_object: bytes | Path, arch: str, *extra: str, objdump: Sequence[str] | None = None,
                bounds: Bounds | None = None) -> str:
    """What `llvm-objdump -d` prints for a code object, given as bytes or as a file; `extra` are further options.

    Raises ToolError where there is no llvm-objdump, AsmgenError where it rejects the input.
    """
    command = [*(objdump or require_objdump()), "-d", f"--mcpu={arch}", *extra]
    named = isinstance(code_object, Path)
    with _start([*command, str(code_object) if named else "-"]) as process:
        text, errors = _exchange(process, None if isinstance(code_object, Path) else code_object, bounds)
    if process.returncode:
        what = str(code_object) if named else "the code object"
        raise AsmgenError(f"llvm-objdump cannot read {what} as {arch}: {_one_line(errors.decode(errors='replace'))}")
    return text.decode(errors="replace")  # a damaged symbol's name


def zig_program() -> Path | None:
    """The zig program of the installed ziglang package: started directly it saves a Python start per call."""
    spec = find_spec("ziglang")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        program = Path(folder, "zig")
        if _is_program(str(program)):
            return program
    return None


def _candidates(search: Search) -> list[_ToolFolder]:
    path = [part for part in search.variables.get("PATH", "").split(os.pathsep) if part]
    candidates: list[_ToolFolder] = []
    asked = search.variables.get("ASMGEN_CLANG", "")
    if asked:
        candidates.append(_asked_candidate(asked, path))
    rocm = search.variables.get("ROCM_PATH", "")
    if rocm:
        candidates.append(_ToolFolder(f"{rocm}/llvm/bin", ((f"{rocm}/llvm/bin", ""),)))
    if search.rocm is not None:
        candidates.append(_ToolFolder(f"{search.rocm}/llvm/bin", ((f"{search.rocm}/llvm/bin", ""),)))
    candidates += [_ToolFolder(f"LLVM {version} on PATH", tuple((folder, f"-{version}") for folder in path)) for version in LLVM_VERSIONS]
    if search.prefix is not None:
        candidates.append(_ToolFolder(f"{search.prefix}/llvm/bin", ((f"{search.prefix}/llvm/bin", ""),)))
    if search.zig is not None:
        candidates.append(_ToolFolder("ziglang", zig=str(search.zig)))
    return candidates


def _asked_candidate(asked: str, path: Sequence[str]) -> _ToolFolder:
    """The place of ASMGEN_CLANG: a path, or a name on `path`. The other tools stand beside it, beside the file it links to, or on PATH."""
    choices = [asked] if os.sep in asked else [os.path.join(folder, asked) for folder in path]
    clang = next((choice for choice in choices if _is_program(choice)), None)
    if clang is None:
        raise ToolError(
            f"ASMGEN_CLANG is {asked!r}, which is not a program; set it to the path of a clang that knows AMD GPUs, or unset it: then "
            f"asmgen looks for one, and `{INSTALL_ASSEMBLER}` installs one"
        )
    base = os.path.basename(clang)
    if base == "zig":
        return _ToolFolder("ASMGEN_CLANG", zig=clang)
    found = re.fullmatch(r"clang(-\d+)", base)
    suffix = found[1] if found else ""
    folders = [(os.path.dirname(clang), suffix), (os.path.dirname(os.path.realpath(clang)), "")]
    if suffix:
        folders += [(folder, suffix) for folder in path]
    return _ToolFolder("ASMGEN_CLANG", tuple(folders), clang=clang)


def _first(candidates: Sequence[_ToolFolder], name: str) -> tuple[str, ...] | None:
    return next((command for candidate in candidates if (command := candidate.tool(name)) is not None), None)


def _tried(search: Search) -> str:
    """The places of a search in words, those that are not set included: they are what the user may set."""
    rocm = search.variables.get("ROCM_PATH", "")
    tried = ["ASMGEN_CLANG" if search.variables.get("ASMGEN_CLANG") else "ASMGEN_CLANG (not set)"]
    tried.append(f"{rocm}/llvm/bin" if rocm else "$ROCM_PATH/llvm/bin (not set)")
    if search.rocm is not None:
        tried.append(f"{search.rocm}/llvm/bin")
    tried.append(f"LLVM {LLVM_VERSIONS[0]} to {LLVM_VERSIONS[-1]} on PATH")
    if search.prefix is not None:
        tried.append(f"{search.prefix}/llvm/bin")
    return ", ".join([*tried, "the pip package ziglang"])


def _is_program(path: str) -> bool:
    return os.access(path, os.X_OK) and os.path.isfile(path)


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        raise ToolError(f"{command[0]} does not start ({error.strerror}); `{INSTALL_ASSEMBLER}` installs an assembler that does") from error


def _exchange(process: subprocess.Popen[bytes], data: bytes | None, bounds: Bounds | None) -> tuple[bytes, bytes]:
    """As `communicate`; a process that goes beyond its bounds is killed."""
    if bounds is None:
        return process.communicate(data)
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    said: list[bytes] = []
    helpers = [threading.Thread(target=_feed, args=(process.stdin, data or b"")),
               threading.Thread(target=lambda stream: said.append(stream.read(_MOST_SAID)), args=(process.stderr,))]
    watch = threading.Timer(bounds.seconds, process.kill)
    for thread in (*helpers, watch):
        thread.start()
    try:
        found = _gathered(process.stdout, bounds.most)
        if len(found) > bounds.most:
            process.kill()
        helpers[1].join()
        process.stderr.close()  # nobody reads the rest, so that whoever says more ends
        process.wait()
    finally:
        watch.cancel()
    helpers[0].join()
    return found, said[0]


def _gathered(stream: IO[bytes], most: int) -> bytes:
    """What comes out of a pipe, as soon as it is more than `most` bytes no further.

    A process that writes line by line would be read some lines at a time, which takes longer than making use of them: the pipe is given
    time to fill.
    """
    with contextlib.suppress(AttributeError, OSError):  # a limit on the size of pipes
        fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    parts, size = [], 0
    while size <= most and (part := os.read(stream.fileno(), _PIPE_BYTES)):
        parts.append(part)
        size += len(part)
        time.sleep(_FILLING)
    return b"".join(parts)


def _feed(stream: IO[bytes], data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):
        stream.write(data)
    with contextlib.suppress(BrokenPipeError):
        stream.close()


def _assembly_error(text: str, arch: str, name: str, command: Sequence[str], status: int, errors: str) -> AsmgenError:
    diagnostics = list(_DIAGNOSTIC.finditer(errors))
    if not diagnostics:
        return AssemblyError(f"`{shlex.join(command)}` failed on {name} with status {status}: {_one_line(errors)}")
    first = diagnostics[0]
    number = int(first[1])
    line = text.split("\n")[number - 1].strip() if number <= text.count("\n") + 1 else ""
    more = f" (the first of {len(diagnostics)} errors)" if len(diagnostics) > 1 else ""
    return AssemblyError(f"clang for {arch} rejects `{line}`: {first[3]}{more}", f"{name}:{number}")


def _one_line(errors: str) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return "; ".join(lines[:3]) if lines else "it says nothing"
