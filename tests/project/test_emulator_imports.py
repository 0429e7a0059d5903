"""The emulator judges what the passes make, so it shares nothing with them."""

from __future__ import annotations

import ast
from pathlib import Path

EMULATOR = Path(__file__).resolve().parents[2] / "asmgen" / "emulator"


def test_the_emulator_takes_of_a_program_its_data_alone() -> None:
    """No graph, dataflow, liveness or matcher that the passes use: of the rooms program and regalloc it loads program.program alone."""
    for path in sorted(EMULATOR.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else \
                [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for module in modules:
                if module.startswith(("asmgen.program", "asmgen.regalloc", "asmgen.checks")):
                    assert module == "asmgen.program.program", f"{path.name} imports {module}"
