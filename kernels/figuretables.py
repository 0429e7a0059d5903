"""Figures that come with the library (`kernels/figures/KERNEL-GPU.json`): what `tuned` needs to choose a variant, timed before.

A file says what its figures were made of: `table` is a digest of the timing table's values for the GPU, `engine` one of the code of the
model, and each build has the digest of the code object that was timed. Comments and docstrings belong to none of them. Figures whose
digests differ are stale: they still choose, as an older model did, and `asmgen tune --why` remarks on it. `problem` has the sizes of the
launch that was timed: a figure is read as one of the family's typical launch, so one of other sizes is none.
`python -m asmgen.tools.tunetables` makes them anew.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import asmgen

FOLDER = Path(__file__).resolve().parent / "figures"
_ENGINE = ("model", "tuning")
"""The rooms whose code turns a trace into a time."""


@dataclass(frozen=True)
class FigureTable:
    """The figures of a kernel on a GPU, by build: {"object": digest, "problem": sizes, "figures": of each of its launches}."""

    table: str = ""
    engine: str = ""
    builds: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def of_today(self, gpu: str) -> bool:
        """Whether the model is still the one that made the figures."""
        return (self.table, self.engine) == (table_digest(gpu), engine_digest())


def path_of(kernel: str, gpu: str) -> Path:
    """Where the figures of a kernel of the library stand."""
    return FOLDER / f"{kernel}-{gpu}.json"


@cache
def packaged(kernel: str, gpu: str) -> FigureTable:
    """The figures that come with the library; none for a user's kernel, or where a file is no such table."""
    return read_table(path_of(kernel, gpu)) if "/" not in kernel and ":" not in kernel else FigureTable()


def read_table(path: Path) -> FigureTable:
    """A file's figures; none where there is no file, or it is no such table."""
    try:
        document = json.loads(path.read_text())
        builds = {str(key): {"object": str(one["object"]), "problem": dict(one["problem"]), "figures": list(one["figures"])}
                  for key, one in document["builds"].items()}
        return FigureTable(str(document["table"]), str(document["engine"]), builds)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return FigureTable()


def write_table(path: Path, found: FigureTable) -> None:
    """Keep figures, a build a line, to seven digits."""
    path.parent.mkdir(exist_ok=True)
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(_rounded(one), separators=(',', ':'))}"
                       for key, one in sorted(found.builds.items()))
    path.write_text(f'{{"table": "{found.table}", "engine": "{found.engine}", "builds": {{\n{lines}\n}}}}\n')


@cache
def table_digest(gpu: str) -> str:
    """The digest of the timing table's values for a GPU."""
    from asmgen.isa.timing import PARAMETERS

    return _short(json.dumps({row.name: row.on(gpu) for row in PARAMETERS}, sort_keys=True))


@cache
def engine_digest() -> str:
    """The digest of the model's code, without comments and docstrings."""
    root = Path(asmgen.__file__).parent
    paths = [path for room in _ENGINE for path in sorted((root / room).glob("*.py"))]
    return _short("\n".join(f"{path.relative_to(root)} {_code(path.read_text())}" for path in paths))


def object_digest(code: bytes) -> str:
    """The digest of a code object."""
    return hashlib.sha256(code).hexdigest()[:16]


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, Mapping):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value


def _short(text: str) -> str:
    return object_digest(text.encode())


def _code(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):  # an expression that is a string alone does nothing
            node.body = [one for one in body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]  # type: ignore[attr-defined]
    return ast.dump(tree)
