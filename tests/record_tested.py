"""Writes tools/tested.txt: the mnemonics that the emulator's semantics tests execute and compare with independent references.

Run it as `python tests/record_tested.py` after adding such tests; `asmgen list --isa` shows the result.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from asmgen.emulator.scheduling.coverage import executed

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "tools" / "tested.txt"
_HEADING = "# Mnemonics that tests/emulator/test_emulator_*.py execute and compare with a reference. Written by tests/record_tested.py.\n"


def main() -> None:
    """Run the emulator's tests and collect."""
    files = sorted(str(path) for path in (ROOT / "tests" / "emulator").glob("test_emulator_*.py"))
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "ASMGEN_RECORD_TESTED": folder}
        subprocess.run([sys.executable, "-m", "pytest", "-q", "-n", "2", *files], check=True, env=environment, cwd=ROOT)
        reached = {name for part in Path(folder).iterdir() for name in part.read_text().split()}
    # Tests reach instructions without semantics too, to see that they are refused.
    found = reached & (executed("gfx942") | executed("gfx950"))
    TARGET.write_text(_HEADING + "".join(f"{name}\n" for name in sorted(found)))
    print(f"{len(found)} mnemonics in {TARGET}")


if __name__ == "__main__":
    main()
