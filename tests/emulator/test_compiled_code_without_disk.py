"""Compiled loops where numba can keep nothing on disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_USE = "import doubled; assert doubled.doubled(21) == 42"
_MODULE = "from asmgen.emulator.machine.jit import njit\n\n@njit(cache=True)\ndef doubled(x):\n    return 2 * x\n"


@pytest.mark.slow
def test_no_folder_for_the_cache(tmp_path: Path) -> None:
    """__pycache__ and the user's cache folder are files: nothing can be written into them, whoever asks."""
    (tmp_path / "doubled.py").write_text(_MODULE)
    (tmp_path / "__pycache__").write_text("")
    (tmp_path / "home").write_text("")
    given = {**os.environ, "HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "home"), "PYTHONDONTWRITEBYTECODE": "1",
             "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])}
    given.pop("NUMBA_CACHE_DIR", None)
    subprocess.run([sys.executable, "-c", _USE], check=True, env=given, cwd=tmp_path)


@pytest.mark.slow
def test_kept_code_of_another_file(tmp_path: Path) -> None:
    """A number, and a function's number, of other files: code that was kept is used while they stay, and compiled anew when they change."""
    package = tmp_path / "compiled"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "factors.py").write_text("FACTOR = 2\n")
    (package / "offsets.py").write_text("OFFSET = 1\n")
    (package / "inner.py").write_text("from asmgen.emulator.machine.jit import njit\nfrom compiled.offsets import OFFSET\n\n"
                                      "@njit(cache=True)\ndef shifted(x):\n    return x + OFFSET\n")
    (package / "outer.py").write_text("from asmgen.emulator.machine.jit import njit\nfrom compiled.factors import FACTOR\n"
                                      "from compiled.inner import shifted\n\n"
                                      "@njit(cache=True)\ndef scaled(x):\n    return FACTOR * shifted(x)\n")
    given = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])]),
             "NUMBA_CACHE_DIR": str(tmp_path / "kept")}

    def said() -> str:
        script = "from compiled.outer import scaled; print(scaled(20), sum(scaled.stats.cache_hits.values()), scaled.__name__)"
        return subprocess.run([sys.executable, "-c", script], check=True, env=given, capture_output=True, text=True).stdout.strip()

    assert said() == "42 0 scaled"
    assert said() == "42 1 scaled"
    (package / "factors.py").write_text("FACTOR = 3\n")
    assert said() == "63 0 scaled"
    (package / "offsets.py").write_text("OFFSET = 2\n")
    assert said() == "66 0 scaled"
