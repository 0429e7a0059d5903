"""Names have one meaning: no class stands for two things in the product, and no module or package either.

What may repeat is listed, with the reason. The check is run on the project and on planted trees.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

from tests.project.test_layers import FOLDERS, LOADED, ROOT, walk

SAME_THING = {
    "errors": "the exceptions of the room that the file stands in",
}
"""Modules that may repeat, and the one meaning that all of them have."""


def sources(root: Path) -> list[Path]:
    """Every Python file of the product once, the links inside asmgen/ passed over."""
    found = [path for folder in FOLDERS for path in sorted(root.joinpath(folder).rglob("*.py"))]
    return [path for path in found if not any(parent.is_symlink() for parent in path.parents if parent.is_relative_to(root))]


def twice_named_classes(root: Path) -> list[str]:
    """A sentence for each name of two classes; kernels of different families may have private parts of one name."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in sources(root):
        for node, _ in walk(ast.parse(path.read_text()), LOADED, calls=False):
            if isinstance(node, ast.ClassDef) and not (node.name.startswith("_") and path.is_relative_to(root / "kernels")):
                places[node.name].append(f"{path.relative_to(root)}:{node.lineno}")
    return [f"{name} stands for {len(found)} things: {', '.join(found)}" for name, found in sorted(places.items()) if len(found) > 1]


def twice_named_modules(root: Path) -> list[str]:
    """The same of modules and packages; X/X.py is the head of package X. Files of a family may bear the name of the author's room."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in sources(root):
        name = path.stem if path.stem != "__init__" else path.parent.name
        heads_its_package = path.stem == path.parent.name
        if not path.is_relative_to(root / "kernels") and name not in SAME_THING and not heads_its_package:
            places[name].append(str(path.relative_to(root)))
    return [f"{name} stands for {len(found)} modules: {', '.join(found)}" for name, found in sorted(places.items()) if len(found) > 1]


def plant(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root.joinpath(*name.replace("INIT", "@").split("__")).with_suffix(".py")
        path = path.with_name("__init__.py") if path.stem == "@" else path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.slow
def test_no_class_stands_for_two_things() -> None:
    found = twice_named_classes(ROOT)
    assert not found, "\n".join(found)


def test_no_module_stands_for_two_things() -> None:
    found = twice_named_modules(ROOT)
    assert not found, "\n".join(found)


def test_exceptions_from_the_rule_are_used() -> None:
    names = [path.stem for path in sources(ROOT)]
    assert all(names.count(name) > 1 for name in SAME_THING)


def test_planted_classes_are_found(tmp_path: Path) -> None:
    plant(tmp_path, isa__x="class A: ...\nclass B:\n    class C: ...\n", tools__y="class C: ...\n", kernels__z="class _P: ...\n",
          kernels__w="class _P: ...\n")
    assert twice_named_classes(tmp_path) == ["C stands for 2 things: isa/x.py:3, tools/y.py:1"]


def test_planted_modules_are_found(tmp_path: Path) -> None:
    plant(tmp_path, isa__x="", asmgen__y__x="", asmgen__y__INIT="", tools__y="", tools__z__z="", tools__z__INIT="", isa__errors="",
          asmgen__w__errors="", kernels__f__x="")
    assert twice_named_modules(tmp_path) == ["x stands for 2 modules: isa/x.py, asmgen/y/x.py",
                                             "y stands for 2 modules: asmgen/y/__init__.py, tools/y.py"]
