"""hip-python as people have it: the emulated runtime's whole path under its versions, and what the adapter knows of their differences.

`make test` has the installed one and the oldest, `make test-hip` all of them; the Makefile puts each into a folder of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from asmgen.launch import hipbinding
from asmgen.launch.hip import HipDevice, visible_gpus
from asmgen.launch.hipemulator.hipcalls import CALLS
from tests.clang_objects import hip_object, needs_clang
from tests.launch.test_hip_device import FakeHip

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "hip_programs"
FOLDER = Path(sys.prefix) / "hip"
"""Each version in a folder of its name."""
VERSIONS = re.search(r"^HIP_VERSIONS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()  # type: ignore[index]
OLDEST, *OTHERS = VERSIONS
ALL = "ASMGEN_HIP_VERSIONS"
"""`make test-hip` sets it: every version is asked for, and one that is not there is an error."""
_LETTERS = {"int": "i", "unsigned int": "u", "unsigned short": "h", "unsigned char": "b", "size_t": "z", "unsigned long long": "z",
            "unsigned long": "z"}


def folder_of(version: str) -> str:
    """Where a version is installed, "" for the one of the tests' own environment."""
    if not version:
        if find_spec("hip") is None:
            pytest.skip("hip-python is not installed")
        return ""
    found = FOLDER / version
    if not (found / "hip").is_dir():
        assert ALL not in os.environ, f"hip-python {version} is not in {FOLDER}"
        pytest.skip(f"hip-python {version} is not in {FOLDER}: `make test` puts it there where it has a wheel for this Python")
    return str(found)


ASKED = VERSIONS if ALL in os.environ else [OLDEST]


@needs_clang
@pytest.mark.parametrize("version", ["", *ASKED], ids=lambda version: version or "installed")
def test_the_whole_path(version: str, tmp_path: Path) -> None:
    """Modules, launches, copies, streams, events, graphs, properties, faults on two GPUs; example 10; the functions on tensors."""
    objects = []
    for arch in ("gfx942", "gfx950"):
        objects.append(str(tmp_path / f"vector_add_{arch}.co"))
        Path(objects[-1]).write_bytes(hip_object("vector_add", arch).data)
    commands = [[str(PROGRAMS / "tensors.py"), "gfx950"],
                [str(ROOT / "kernels" / "examples" / "10_launch_your_own.py"), "--device", "hip", "--arch", "gfx942"],
                [str(PROGRAMS / "same_script.py"), "hip", "gfx950", objects[1]],
                [str(PROGRAMS / "module_api.py"), *objects], [str(PROGRAMS / "device.py"), *objects]]
    words = [word for command in commands for word in [*command, "--"]]
    path = os.pathsep.join(part for part in (folder_of(version), str(ROOT)) if part)
    done = subprocess.run([sys.executable, "-m", "asmgen.tools.cli", "hip-emulator", "--arch", "gfx942", "--arch", "gfx950",
                           sys.executable, str(PROGRAMS / "in_turn.py"), *words], capture_output=True, text=True, check=False, cwd=ROOT,
                          env={**os.environ, "PYTHONPATH": path}, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"hip-python {version}") and lines[1:3] == ["all of it", "scale ran on hip (gfx942): y = 3 x"], lines
    assert lines[3:6] == ["gfx950", "arrays True", "buffers True True"] and lines[-3:] == ["a freed buffer is refused", *["all of it"] * 2]
    assert "internal error" not in done.stderr and done.stderr.count("access-outside-registry") == 3
    assert "it holds code for gfx950, not for gfx942" in done.stderr


@pytest.mark.parametrize("version", ["", *ASKED], ids=lambda version: version or "installed")
def test_signatures_are_those_of_the_wheel(version: str) -> None:
    """Every call of the library is the symbol that the binding asks for, with the parameters it passes. Only the newest has all of them."""
    place = Path(folder_of(version) or Path(find_spec("hip").origin).parent.parent)  # type: ignore[union-attr, arg-type]
    source = next((path for path in (place / "hip" / "chip.pyx", place / "rocm" / "bindings" / "cyhip.pyx") if path.exists()), None)
    if source is None:
        pytest.skip("this hip-python comes without its sources")
    text = source.read_text()
    symbols = dict(re.findall(r'__init_symbol\(&_(\w+)__funptr,"(\w+)"\)', text))
    rows = {symbols[name]: (returned.strip(), [part.strip() for part in parameters.split(",") if part.strip()])
            for returned, parameters, name in re.findall(r"<([\w ]+\*?) \(\*\)\(([^)]*)\) noexcept nogil> _(\w+)__funptr\)", text)}
    late = {"hipModuleLoadFatBinary", "hipModuleGetFunctionCount", "hipEventRecordWithFlags"}
    missing = {call.name for call in CALLS} - rows.keys()
    assert missing <= (set() if source.parent.name == "bindings" else late), missing
    for call in CALLS:
        if call.name in missing:
            continue
        returned, parameters = rows[call.name]
        letters = "".join("p" if part.endswith(("*", "_t")) and part not in ("size_t", "hipError_t", "hipDeviceAttribute_t", "hipDevice_t")
                          and not part.startswith("hipLimit") else _LETTERS.get(part, "i") for part in parameters)
        assert letters == call.signature, (call, parameters)
        assert returned == ("const char *" if call.returns == "text" else "hipError_t"), call


class OldHip(FakeHip):
    """As hip-python up to 7.2: the caller has the structure, texts are bytes."""

    def hipDeviceProp_t(self) -> Any:
        return SimpleNamespace(name=b"", gcnArchName=b"")

    def __getattribute__(self, name: str) -> Any:
        if name == "hipDeviceProp_t":
            return object.__getattribute__(self, name)
        value = super().__getattribute__(name)
        if name != "hipGetDeviceProperties":
            return value

        def fill(prop: Any, index: int) -> tuple[Any, ...]:
            code, *found = value(index)
            if found:
                prop.name, prop.gcnArchName = found[0].name.encode() + b"\0x", found[0].gcnArchName.encode()
            return (code,)

        return fill


@pytest.mark.parametrize("kind", [FakeHip, OldHip])
def test_properties_of_both_kinds(kind: type[FakeHip]) -> None:
    fake = kind()
    assert [(gpu.name, gpu.arch) for gpu in visible_gpus(fake)] == [("Card 0", "gfx942"), ("Card 1", "gfx950")]
    assert HipDevice("gfx950", fake).gpu.index == 1


def test_the_version_is_told_by_the_package_or_by_the_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    for package, told in ((SimpleNamespace(__version__="6.2.0.1"), "6.2.0.1"), (SimpleNamespace(VERSION="5.0"), "5.0"),
                          (SimpleNamespace(), "9.9")):
        monkeypatch.setattr(hipbinding, "import_module", lambda name, package=package: package)
        monkeypatch.setattr(hipbinding.metadata, "version", lambda name: "9.9")
        assert hipbinding.version() == told
