"""How large product files and functions may grow. Each rule also runs on planted files: it must find exactly the planted fault.

Complexity is McCabe's number as ruff counts it (C901): 1, and 1 more for each branch, loop, `except`, `case` and inner function.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.test_layers import FOLDERS, ROOT

MOST_LINES = 500
MOST_COMPLEX = 25

TABLES: dict[str, str] = {
    "asmgen/emulator/binding/runs_kernel.py:scalar_result": "a dispatcher: a branch for each scalar operation, compiled by numba",
    "asmgen/emulator/races/workgrouptraces_kernels.py:_trace": "a loop compiled by numba, with a branch for each kind of access",
}
"""Functions above the limit, each with its reason: tables and dispatchers. An entry that is not needed is a fault too."""


def product_files(root: Path) -> list[Path]:
    """Every Python file of the product once: the links inside asmgen/ are passed over."""
    paths = [path for folder in (*FOLDERS, "benchmarks") for path in sorted(root.joinpath(folder).rglob("*.py"))]
    return [path for path in paths if not any(parent.is_symlink() for parent in path.parents if parent.is_relative_to(root))]


def long_files(root: Path) -> list[str]:
    """Files with more lines than MOST_LINES."""
    lengths = {path: len(path.read_text().splitlines()) for path in product_files(root)}
    return [f"{path.relative_to(root)} has {length} lines" for path, length in lengths.items() if length > MOST_LINES]


def complexities(root: Path, above: int) -> dict[str, int]:
    """Complexity by FILE:FUNCTION of all functions above a number."""
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select", "C901", "--output-format", "json",
               "--config", f"lint.mccabe.max-complexity={above}", *map(str, product_files(root))]
    found = {}
    for row in json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout):
        assert row["code"] == "C901", row
        match = re.match(r"`(\w+)` is too complex \((\d+) > ", row["message"])
        assert match is not None, row["message"]
        found[f"{Path(row['filename']).resolve().relative_to(root.resolve())}:{match[1]}"] = int(match[2])
    return found


def complex_functions(root: Path, tables: dict[str, str]) -> list[str]:
    """Functions above MOST_COMPLEX that are no table, and tables that are not above it."""
    found = complexities(root, MOST_COMPLEX)
    return [f"{name} has complexity {number}" for name, number in found.items() if name not in tables] + [
        f"{name} is named as a table and needs no exception" for name in tables if name not in found]


def test_no_product_file_is_too_long() -> None:
    assert not long_files(ROOT)


def test_no_function_is_too_complex() -> None:
    assert not complex_functions(ROOT, TABLES)


def test_every_table_has_a_reason() -> None:
    assert all(len(reason.split()) > 3 for reason in TABLES.values())


def branches(number: int, name: str = "f") -> str:
    """A function of that complexity."""
    return f"def {name}(x: int) -> None:\n" + "".join(f"    if x == {at}:\n        print({at})\n" for at in range(number - 1))


@pytest.mark.parametrize("lines,found", [(MOST_LINES, []), (MOST_LINES + 1, ["tools/x.py has 501 lines"])])
def test_long_file_is_found(tmp_path: Path, lines: int, found: list[str]) -> None:
    tmp_path.joinpath("tools").mkdir()
    tmp_path.joinpath("tools", "x.py").write_text("\n" * lines)
    assert long_files(tmp_path) == found


def test_complex_function_is_found(tmp_path: Path) -> None:
    tmp_path.joinpath("tools").mkdir()
    file = tmp_path / "tools" / "x.py"
    file.write_text(branches(MOST_COMPLEX))
    assert complex_functions(tmp_path, {}) == []
    file.write_text(branches(MOST_COMPLEX + 1) + "class C:\n" + "".join(f"    {line}\n" for line in branches(40, "g").splitlines()))
    assert complex_functions(tmp_path, {}) == ["tools/x.py:f has complexity 26", "tools/x.py:g has complexity 40"]
    assert complex_functions(tmp_path, {"tools/x.py:f": "a table"}) == ["tools/x.py:g has complexity 40"]


def test_an_exception_that_nobody_needs_is_found(tmp_path: Path) -> None:
    tmp_path.joinpath("tools").mkdir()
    tmp_path.joinpath("tools", "x.py").write_text(branches(MOST_COMPLEX))
    assert complex_functions(tmp_path, {"tools/x.py:f": "a table"}) == ["tools/x.py:f is named as a table and needs no exception"]
