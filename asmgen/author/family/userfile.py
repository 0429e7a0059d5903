"""Families in a user's own file, named FILE.py:NAME, where NAME is the family's name or the variable that holds it."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asmgen.author.contract.contract import did_you_mean
from asmgen.author.family.family import Family
from asmgen.isa.errors import AsmgenError


def names_a_file(text: str) -> bool:
    """Whether a kernel's name means a file and not the library."""
    return text.endswith(".py") or ".py:" in text


def families_of(namespace: Mapping[str, Any]) -> dict[str, Family]:
    """The families of a module by variable."""
    return {name: value for name, value in namespace.items() if isinstance(value, Family)}


def family_of_file(text: str) -> Family:
    """The family that FILE.py:NAME names. The file's folder is where its own imports look first, as for `python FILE.py`.

    Raises AsmgenError where there is no such file, it raises, or it has no such family.
    """
    path, name = _split(text)
    found = families_of(_load(path))
    if not found:
        raise AsmgenError(f"{path} has no kernel: none of its variables holds an asmgen Family")
    by_name = {family.name: family for family in found.values()} | found
    if name not in by_name:
        known = dict.fromkeys(family.name for family in found.values())
        asked = f"{path} has no kernel {name!r}; " if name else "a kernel of a file is named FILE.py:NAME; "
        raise AsmgenError(f"{asked}{did_you_mean(name, known)}")
    return by_name[name]


def _split(text: str) -> tuple[Path, str]:
    if text.endswith(".py"):
        return Path(text), ""
    path, _, name = text.rpartition(".py:")
    return Path(f"{path}.py"), name


def _load(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise AsmgenError(f"there is no file {path}")
    whole = path.resolve()
    # A name of its own in sys.modules, where data classes and pickles look for it, and no module of another name is hidden.
    spec = importlib.util.spec_from_file_location(f"asmgen_user_file_{path.stem}", whole)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if str(whole.parent) not in sys.path:
        sys.path.insert(0, str(whole.parent))
    sys.modules[spec.name] = module
    try:
        # Not through the loader: its bytecode cache takes a file of one size, changed within a second, for the one before.
        exec(compile(whole.read_bytes(), str(whole), "exec"), vars(module))
    except AsmgenError:
        raise
    except SyntaxError as error:
        raise AsmgenError(f"{path} is no Python: {error.msg}, at line {error.lineno} of {Path(error.filename or path).name}") from None
    except (Exception, SystemExit) as error:
        raise AsmgenError(f"{path} cannot be loaded: {_line(error, whole)} raised {type(error).__name__}: {error}") from None
    return vars(module)


def _line(error: BaseException, path: Path) -> str:
    """The file's own line that an error came through."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    return f"line {lines[-1]}" if lines else "it"
