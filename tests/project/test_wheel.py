"""The wheel: every module, grammar and data file is in it, and its command works in an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("asmgen", "isa", "regalloc", "kernels", "tools")
DATA = (".py", ".pyi", ".lark", ".json", ".typed", ".html")


def run(*command: str | Path, cwd: Path) -> str:
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # which may name these sources
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, env=outside)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: setuptools leaves a build folder behind, and the project's own build/ holds kernels."""
    source = tmp_path_factory.mktemp("source") / "asmgen"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", out, source, cwd=out)
    (built,) = out.glob("asmgen-*.whl")
    return built


def expected_files() -> set[str]:
    """The names in the wheel of all code and data files of the project's folders."""
    names = set()
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            inside = path.relative_to(ROOT)
            if path.is_file() and path.suffix in DATA and not any((ROOT / parent).is_symlink() for parent in inside.parents):
                names.add(str(inside if folder == "asmgen" else Path("asmgen", inside)))
    return names


@pytest.mark.slow
def test_wheel_holds_every_file_and_no_other_package(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert expected_files() - names == set()
    assert {"asmgen/py.typed", "asmgen/isa/registers.py", "asmgen/tools/cli.py"} <= names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"asmgen"}


@pytest.mark.slow
def test_installed_wheel_lists_its_kernels_and_builds_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    """What the wheel builds in one folder and these files in another are the same bytes."""
    home = tmp_path / "venv"
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    # The dependencies are the ones of this environment; asmgen itself must come from the wheel, so the editable install's hook,
    # which only a .pth file of that folder would start, is not started: a path in a .pth file does not process .pth files there.
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    where = Path(run(python, "-c", "import asmgen.isa; print(asmgen.isa.__file__)", cwd=tmp_path).strip())
    assert where.is_relative_to(site)
    assert "gemm-bf16" in run(home / "bin" / "asmgen", "list", cwd=tmp_path)
    for kernel in (["gemm-bf16"], ["gemm-bf16", "-p", "schedule=ping-pong"], ["gemm-bf16", "--arch", "gfx942"], ["03-transpose"]):
        run(home / "bin" / "asmgen", "build", *kernel, "-o", tmp_path / "wheel", cwd=tmp_path)
        run(sys.executable, "-m", "asmgen.tools.cli", "build", *kernel, "-o", tmp_path / "files", cwd=ROOT)
    written = {path.name: path.read_bytes() for path in (tmp_path / "files").iterdir()}
    assert len(written) == 12 and written == {path.name: path.read_bytes() for path in (tmp_path / "wheel").iterdir()}
