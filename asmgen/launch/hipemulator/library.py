"""libamdhip64.so and libhiprtc.so of the emulator: C text from the table of calls, compiled once by the toolchain, kept by content."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
from functools import partial
from pathlib import Path

from asmgen.isa.errors import AsmgenError
from asmgen.launch.cache import cache_folder, cached_file, key_of
from asmgen.launch.hipemulator.hipcalls import CALLS, Call
from asmgen.toolchain import INSTALL_ASSEMBLER, ToolError, find_toolchain

RUNTIME, COMPILER = "libamdhip64.so", "libhiprtc.so"
_TYPES = {"p": "void *", "i": "int", "u": "unsigned int", "h": "unsigned short", "b": "unsigned char", "z": "u64"}
_MACHINES = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
_OPTIONS = ("-O2", "-fPIC", "-ffreestanding", "-fno-stack-protector", "-fvisibility=default", "-Wall", "-Werror")


def runtime_source(idle: frozenset[str] = frozenset()) -> str:
    """The C text of libamdhip64.so. The calls named in `idle` succeed and do nothing: what is left of their time is the caller's."""
    return Path(__file__).with_name("forward.c").read_text() + "".join(_definition(number, call, idle) for number, call in enumerate(CALLS))


def _definition(number: int, call: Call, idle: frozenset[str]) -> str:
    parameters = ", ".join(f"{_TYPES[letter]} a{index}" for index, letter in enumerate(call.signature)) or "void"
    if call.name in idle:
        return f"int {call.name}({parameters}) {{ return 0; }}\n"
    values = ", ".join(f"(i64)a{index}" for index in range(len(call.signature))) or "0"
    forwarded = f"i64 arguments[] = {{{values}}}; return"
    if call.returns == "text":
        return f"const char *{call.name}({parameters}) {{ {forwarded} (const char *)forward({number}, arguments); }}\n"
    return f"int {call.name}({parameters}) {{ {forwarded} (int)forward({number}, arguments); }}\n"


def library_folders(idle: frozenset[str] = frozenset()) -> list[Path]:
    """The folder of each library, made where it is not there. Raises AsmgenError where no place can be written, ToolError."""
    sources = {RUNTIME: runtime_source(idle), COMPILER: "/* hiprtc is not emulated: every one of its calls fails by name. */\n"}
    target = _MACHINES.get(platform.machine())
    if target is None:
        raise AsmgenError(f"asmgen hip-emulator runs on {' and '.join(_MACHINES)} hosts, not on {platform.machine()}")
    folder = cache_folder() / f"hip-emulator-{key_of(*sources.values(), target, *_OPTIONS)}"
    try:
        where = [cached_file(folder / "lib" / name, partial(_compile, name, text, target)) for name, text in sources.items()]
    except OSError as error:
        raise AsmgenError(f"the library of asmgen hip-emulator cannot be written to {folder}, nor to {tempfile.gettempdir()}: "
                          f"{error.strerror or error}; XDG_CACHE_HOME names another folder") from None
    return list(dict.fromkeys(path.parent for path in where))


def search_path(folders: list[Path], now: str = "") -> str:
    """LD_LIBRARY_PATH with these folders before what stands there `now`."""
    return os.pathsep.join(part for part in (*map(str, folders), now) if part)


def _compile(name: str, text: str, target: str) -> bytes:
    """The library's bytes: the toolchain's clang and ld.lld, which need neither headers nor libraries of the host."""
    tools = find_toolchain()
    with tempfile.TemporaryDirectory(prefix="asmgen-") as scratch:
        source, code, library = (Path(scratch, part) for part in ("forward.c", "forward.o", name))
        source.write_text(text)
        _run([*tools.clang, "-target", target, *_OPTIONS, "-c", str(source), "-o", str(code)])
        _run([*tools.lld, "-shared", "-soname", name, str(code), "-o", str(library)])
        return library.read_bytes()


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError(f"{command[0]} does not run ({error}); `{INSTALL_ASSEMBLER}` installs a compiler that does") from None
    if done.returncode:
        said = " ".join(done.stderr.split())[:400]
        raise ToolError(f"{command[0]} cannot compile the library of asmgen hip-emulator ({said}); `{INSTALL_ASSEMBLER}` installs one that "
                        "can")
