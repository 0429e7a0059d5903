"""The emulated HIP runtime behind the real, unpatched hip-python: users' programs, HipDevice, the table of calls against the wheel's."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from asmgen.emulator.scheduling.run import Options
from asmgen.isa.errors import AsmgenError
from asmgen.launch.hipemulator.command import environment
from asmgen.launch.hipemulator.hipcalls import CALLS, listing
from asmgen.launch.hipemulator.hipstate import Runtime
from asmgen.launch.hipemulator.start import dispatcher, handler
from tests.clang_objects import hip_object, needs_clang

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "hip_programs"
needs_hip = pytest.mark.skipif(find_spec("hip") is None, reason="hip-python is not installed")


def asmgen(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """One command in a process of its own."""
    return subprocess.run([sys.executable, "-m", "asmgen.tools.cli", *arguments], capture_output=True, text=True, check=False, cwd=ROOT,
                          env={**os.environ, "PYTHONPATH": str(ROOT), **variables}, timeout=120)


def missing_in(library: Path, symbols: list[str]) -> list[str]:
    """The symbols that a library lacks. In a process of its own: once loaded, it would be everyone's libamdhip64.so in this one."""
    code = "import ctypes, sys; library = ctypes.CDLL(sys.argv[1]); print(*(name for name in sys.argv[2:] if not hasattr(library, name)))"
    done = subprocess.run([sys.executable, "-c", code, str(library), *symbols], capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.split()


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """vector_add for both architectures, as files."""
    folder = tmp_path_factory.mktemp("objects")
    paths = {arch: folder / f"vector_add_{arch}.co" for arch in ("gfx950", "gfx942")}
    for arch, path in paths.items():
        path.write_bytes(hip_object("vector_add", arch).data)
    return {arch: str(path) for arch, path in paths.items()}


@needs_hip
@needs_clang
@pytest.mark.parametrize("arch", ["gfx950", pytest.param("gfx942", marks=pytest.mark.slow)])
def test_one_script_says_the_same_on_both_devices(objects: dict[str, str], arch: str) -> None:
    script = [sys.executable, str(PROGRAMS / "same_script.py")]
    plain = subprocess.run([*script, "emulator", arch, objects[arch]], capture_output=True, text=True, check=False,
                           env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=120)
    through = asmgen("hip-emulator", "--arch", arch, *script, "hip", arch, objects[arch])
    assert (plain.returncode, plain.stderr) == (0, "")
    assert (through.returncode, through.stderr) == (0, "")
    assert plain.stdout == through.stdout
    lines = plain.stdout.splitlines()
    assert lines[:3] == [arch, "arrays True", "buffers True True"] and lines[4] == "stream True"
    assert "argument 1 of vector_add is a pointer" in plain.stdout and "was accepted" not in plain.stdout


@needs_hip
def test_hidden_gpus_and_a_bench_that_is_refused() -> None:
    hidden = asmgen("hip-emulator", sys.executable, "-c", "from asmgen.launch.hip import hip_available; print(hip_available())",
                    HIP_VISIBLE_DEVICES="")
    assert hidden.stdout.startswith("(False, 'hipGetDeviceCount() failed with hipErrorNoDevice (100)"), hidden
    shape = ("-p", "m=128", "-p", "n=128", "-p", "k=64")
    refused = asmgen("hip-emulator", sys.executable, "-m", "asmgen.tools.cli", "bench", "gemm-bf16", *shape)
    assert refused.returncode == 2 and refused.stdout == ""
    assert refused.stderr.startswith("asmgen: this is `asmgen hip-emulator`, no GPU") and refused.stderr.count("\n") == 1


def test_the_command_line() -> None:
    calls = asmgen("hip-emulator", "--calls")
    assert calls.returncode == 0 and calls.stdout == listing() and "hipModuleLaunchKernel" in calls.stdout
    wrong = (((), "needs a command"), (("--arch", "gfx90a", "true"), "gfx90a"), (("/no/such/program",), "cannot be started"))
    for arguments, said in wrong:
        done = asmgen("hip-emulator", *arguments)
        assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1, done
    assert asmgen("hip-emulator", "sh", "-c", "exit 7").returncode == 7


def test_the_environment_names_the_library() -> None:
    found = environment(["gfx942"], variables={"LD_LIBRARY_PATH": "/mine", "KEPT": "1"})
    first, rest = found["LD_LIBRARY_PATH"].split(os.pathsep)
    assert rest == "/mine" and found["KEPT"] == "1" and found["ASMGEN_HIP_EMULATOR"] == "gfx942"
    assert missing_in(Path(first, "libamdhip64.so"), [*(call.name for call in CALLS), "hipIpcGetMemHandle"]) == ["hipIpcGetMemHandle"]
    assert Path(first, "libhiprtc.so").exists() and first == str(Path(found["ROCM_PATH"], "lib"))


def test_every_call_has_a_handler_that_takes_its_arguments() -> None:
    for call in CALLS:
        function = handler(call)
        assert function.__code__.co_argcount == 1 + len(call.signature), call
    assert len({call.name for call in CALLS}) == len(CALLS)


def test_faults_of_a_handler_are_errors_and_said() -> None:
    said: list[str] = []
    runtime = Runtime(["gfx950"], Options(), said.append)
    dispatch = dispatcher(runtime)
    numbers = {call.name: number for number, call in enumerate(CALLS)}

    def call(name: str, *values: int) -> int:
        return dispatch(numbers[name], list(values))

    assert call("hipMalloc", 0, 16) == 1  # hipErrorInvalidValue
    assert call("hipSetDevice", 1) == 101
    assert call("hipGetLastError") == 101 and call("hipGetLastError") == 0
    assert call("hipStreamDestroy", 12345) == 400
    assert call("hipStreamBeginCapture", 0, 0) == 900
    pointer = ctypes.c_uint64()
    assert call("hipMalloc", ctypes.addressof(pointer), -1) == 2  # a size_t of 2^64 - 1
    assert call("hipMalloc", ctypes.addressof(pointer), 64) == 0 and pointer.value % 256 == 0
    assert call("hipMemset", pointer.value, 7, 65) == 1 and said
    assert call("hipMemset", pointer.value, 7, 64) == 0
    assert ctypes.string_at(pointer.value, 64) == b"\7" * 64
    assert call("hipFree", pointer.value + 8) == 1 and call("hipFree", pointer.value) == 0
    assert not any("internal error" in line for line in said)


def test_no_place_for_the_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked / "cache"))
    folder = Path(environment(["gfx950"])["LD_LIBRARY_PATH"].split(os.pathsep)[0])
    assert Path(folder, "libamdhip64.so").exists()  # in the folder for temporary files
    real = tempfile.mkdtemp  # the compiler's own folder is asked for with positional arguments, by TemporaryDirectory
    monkeypatch.setattr(tempfile, "mkdtemp", lambda *given, **named: real(*given) if given else str(blocked / "too"))
    with pytest.raises(AsmgenError, match="XDG_CACHE_HOME names another folder"):
        environment(["gfx950"])
