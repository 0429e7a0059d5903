"""Compiled loops where numba can keep nothing on disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_USE = "import doubled; assert doubled.doubled(21) == 42"
_MODULE = "from asmgen.emulator.scheduling.jit import njit\n\n@njit(cache=True)\ndef doubled(x):\n    return 2 * x\n"


@pytest.mark.slow
def test_no_folder_for_the_cache(tmp_path: Path) -> None:
    """__pycache__ and the user's cache folder are files: nothing can be written into them, whoever asks."""
    (tmp_path / "doubled.py").write_text(_MODULE)
    (tmp_path / "__pycache__").write_text("")
    (tmp_path / "home").write_text("")
    given = {**os.environ, "HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "home"), "PYTHONDONTWRITEBYTECODE": "1",
             "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parent.parent)])}
    given.pop("NUMBA_CACHE_DIR", None)
    subprocess.run([sys.executable, "-c", _USE], check=True, env=given, cwd=tmp_path)
