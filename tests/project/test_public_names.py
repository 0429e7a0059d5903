"""`import asmgen as ag`: its names, the stub that lists them, what they load, and README's kernel that uses them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import asmgen
from tests.tools.test_cli import call

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("numpy", "ml_dtypes", "lark", "hip", "numba", "rich", "click")


def test_the_stub_lists_the_same_names_from_the_same_modules() -> None:
    stub = ast.parse((ROOT / "asmgen" / "__init__.pyi").read_text())
    listed = {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                assert alias.asname == alias.name, "a stub offers only what it imports as itself"
                listed[alias.name] = node.module
    assert listed == asmgen._HOME  # type: ignore[attr-defined]
    assert sorted(asmgen.__all__) == sorted({"__version__", *listed}) and set(asmgen.__all__) <= set(dir(asmgen))


def test_each_name_is_that_of_its_module_and_of_no_submodule() -> None:
    """A submodule that anybody imports becomes an attribute of the package, and would hide the name."""
    modules = {path.stem for path in (ROOT / "asmgen").iterdir() if path.suffix == ".py" or (path.is_dir() and path.name[0] != "_")}
    for name in asmgen.__all__:
        assert name not in modules
        value = getattr(asmgen, name)
        assert name in ("Values", "Segments", "Phases") or getattr(value, "__name__", name) == name  # those are names of types


def test_what_an_author_needs_is_there() -> None:
    assert {
        "RegisterPlan", "KernelBuilder", "TileBuilder", "Family", "v", "a", "s", "exec_", "m0", "vcc", "scc", "mfma", "read", "write",
        "fill", "mma", "zero", "PingPong", "InOrder", "OFF",
        "AsmgenError", "OperandError", "PlanError", "TileError", "assemble", "lint_file",
        "lint_program", "Parameter", "ContractArgument", "Rule", "GridRule", "Problem", "Output", "Placement", "Swizzle", "emit_address",
    } <= set(asmgen.__all__)


def loads(statement: str) -> set[str]:
    code = f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("statement", [
    "import asmgen", "import asmgen as ag; ag.v, ag.RegisterPlan, ag.KernelBuilder, ag.TileBuilder, ag.Family"])
def test_importing_loads_neither_arrays_nor_a_grammar_nor_a_kernel(statement: str) -> None:
    loaded = loads(statement)
    assert not {name.split(".")[0] for name in loaded} & set(HEAVY)
    assert not any(name.startswith(("asmgen.kernels", "asmgen.emulator", "asmgen.tools")) for name in loaded)


TENSOR_FUNCTIONS = frozenset({"registry.py", "built.py", "attention.py", "gemm.py", "matmul.py", "productplan.py", "tensors.py",
                              "torch_ops.py", "tuned.py", "figuretables.py", "microscaled.py", "ownsizes.py", "soonest.py",
                              "whychosen.py"})
"""Files of kernels/ that call or rank kernels and write none."""


def test_kernels_are_written_with_this_import_alone() -> None:
    """Of asmgen's modules, kernels name those of the library itself."""
    found = []
    for path in sorted((ROOT / "kernels").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else \
                [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            found += [f"{path.name}:{node.lineno}: {name}" for name in names  # type: ignore[attr-defined]
                      if name.startswith("asmgen.") and not name.startswith("asmgen.kernels") and path.name not in TENSOR_FUNCTIONS]
    assert not found, found


def readme_kernel() -> str:
    """The first Python block of the section "A kernel"."""
    text = (ROOT / "README.md").read_text()
    found = re.search(r"## A kernel\n.*?```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found.group(1)


@pytest.mark.needs_objdump
def test_the_kernel_of_the_readme_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "my_kernel.py").write_text(readme_kernel())
    assert "import asmgen as ag" in readme_kernel()
    for arch in ("gfx950", "gfx942"):
        status, out, err = call(capsys, "run", f"{tmp_path / 'my_kernel.py'}:double", "--arch", arch, "--device", "emulator", "-p", "n=77")
        assert status == 0 and "passed" in out, err
