"""The imports of the project against section 1 of the design: absolute, downwards, without cycles; the judges apart from the judged.

Each rule is a function from a tree of files to sentences. It is run on the project, where it must find nothing, and on a small tree
with one planted violation, where it must find exactly that.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("isa", "regalloc", "asmgen", "kernels", "tools")
"""The folders that hold modules of asmgen."""
HOST = frozenset({"toolchain", "files", "scratch", "interrupts", "garbage"})
"""Files beside the rooms, about the machine that asmgen runs on."""
ALLOWED: dict[str, frozenset[str]] = {
    "isa": frozenset(),
    "regalloc": frozenset({"isa"}),
    "host": frozenset({"isa"}),
    "program": frozenset({"isa", "regalloc"}),
    "codeobject": frozenset({"isa", "regalloc", "program", "host"}),
    "reader": frozenset({"isa", "regalloc", "program", "codeobject", "host"}),
    "checks": frozenset({"isa", "regalloc", "program", "codeobject", "reader", "host"}),
    "author": frozenset({"isa", "regalloc", "program", "codeobject", "checks"}),
    "emulator": frozenset({"isa", "program", "codeobject", "reader"}),
    "model": frozenset({"isa", "program", "emulator"}),
    "launch": frozenset({"isa", "program", "codeobject", "reader", "emulator", "host"}),
    "tuning": frozenset({"isa", "program", "codeobject", "author", "emulator", "model", "launch", "host"}),
}
"""What each room may import (docs/ARCHITECTURE.md); kernels may import all of these, tools kernels too."""
LOADED, CALLED, TYPING = "on import", "in a function", "for type checkers"
HEAVY = ("lark", "hip", "numba", "numpy")


@dataclass(frozen=True)
class Import:
    """One imported name. `target` is dotted, `level` the dots of a relative import, `when` one of the three constants above."""

    file: str
    line: int
    source: str
    target: str
    level: int
    when: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.source} imports {'.' * self.level}{self.target} {self.when}"


@dataclass(frozen=True)
class Tree:
    """All modules of a project, and all their imports."""

    modules: frozenset[str]
    imports: tuple[Import, ...]

    def edges(self, *kinds: str) -> dict[str, set[str]]:
        """Module -> modules that its imports of these kinds name, packages on the way included."""
        result: dict[str, set[str]] = {module: set() for module in self.modules}
        for item in self.imports:
            if item.when in kinds:
                parts = item.target.split(".")
                loaded = {".".join(parts[: n + 1]) for n in range(len(parts))} & self.modules
                result[item.source] |= loaded - {item.source}
        return result


def room(module: str) -> str:
    """The room of a module: isa, regalloc, a folder of asmgen/, kernels, tools, "host"; "asmgen" for the package itself."""
    parts = module.split(".")
    if len(parts) < 2:
        return "asmgen"
    return "host" if parts[1] in HOST else parts[1]


def module_name(root: Path, path: Path) -> str:
    parts = list(path.relative_to(root).with_suffix("").parts)
    if parts[0] != "asmgen":
        parts.insert(0, "asmgen")
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def read_tree(root: Path) -> Tree:
    """Every file once: the links inside asmgen/ are passed over."""
    paths = [path for folder in FOLDERS for path in sorted(root.joinpath(folder).rglob("*.py"))]
    paths = [path for path in paths if not any(parent.is_symlink() for parent in path.parents if parent.is_relative_to(root))]
    modules = frozenset(module_name(root, path) for path in paths)
    return Tree(modules, tuple(item for path in paths for item in read_imports(root, path, modules)))


def read_imports(root: Path, path: Path, modules: frozenset[str]) -> Iterator[Import]:
    source, file, text = module_name(root, path), str(path.relative_to(root)), path.read_text()
    for node, when in walk(ast.parse(text), LOADED, "import_module" in text or "__import__" in text):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(file, node.lineno, source, alias.name, 0, when)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            for alias in node.names:
                below = f"{base}.{alias.name}".lstrip(".")
                yield Import(file, node.lineno, source, below if below in modules else base, node.level, when)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
            if name in ("import_module", "__import__"):
                yield Import(file, node.lineno, source, node.args[0].value.lstrip("."), int(node.args[0].value.startswith(".")), when)


def walk(tree: ast.AST, when: str, calls: bool) -> Iterator[tuple[ast.AST, str]]:
    """All nodes, each with when its code runs; without `calls` no expressions, which only calls import in."""
    todo = [(tree, when)]
    while todo:
        node, when = todo.pop()
        yield node, when
        if not calls and isinstance(node, ast.expr):
            continue
        inner = CALLED if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and when == LOADED else when
        typing = node.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) else []
        todo += [(child, TYPING if child in typing else inner) for child in [*ast.iter_child_nodes(node)][::-1]]


def relative_imports(tree: Tree) -> list[str]:
    """Imports that are relative, or that name a folder of ours as a package of its own."""
    own = set(FOLDERS) - {"asmgen"} | {"tests"}
    return [str(item) for item in tree.imports if item.level or item.target.split(".")[0] in own]


def unknown_modules(tree: Tree) -> list[str]:
    """Imports of an asmgen module for which there is no file."""
    return [str(item) for item in tree.imports if item.target.split(".")[0] == "asmgen" and item.target not in tree.modules]


def upward_imports(tree: Tree) -> list[str]:
    """Imports of a room that the importing one may not know, wherever they stand in the file, and files in no room."""
    ours = [item for item in tree.imports if item.target.split(".")[0] == "asmgen"]
    return [str(item) for item in ours if not _allowed(room(item.source), room(item.target))]


def _allowed(source: str, target: str) -> bool:
    if source == target or target == "asmgen" or source == "tools":
        return True
    if source in ("kernels", "asmgen"):
        return target in ALLOWED
    return target in ALLOWED.get(source, frozenset())


def family_imports(tree: Tree) -> list[str]:
    """Imports of a family's folder by another folder of the library: what two families share stands in a folder that is no family's."""
    families = {module.rpartition(".")[0] for module in tree.modules if module.startswith("asmgen.kernels.") and module.endswith(".family")}
    return [str(item) for item in tree.imports for family in families
            if (item.target + ".").startswith(family + ".") and not (item.source + ".").startswith(family + ".")
            and item.source.startswith("asmgen.kernels.") and item.source.count(".") > 2]


def package_loads(tree: Tree) -> list[str]:
    """What asmgen/__init__.py loads when it is imported: everything below imports it."""
    return [str(item) for item in tree.imports if item.source == "asmgen" and item.when == LOADED and item.target != "__future__"]


def import_cycles(tree: Tree) -> list[str]:
    """One sentence for each group of files that name each other, in functions and for type checkers too: neither can be read alone.

    A package's __init__ is loaded by whoever imports below it.
    """
    edges = tree.edges(LOADED, CALLED, TYPING)
    reached = {module: reachable(edges, module) for module in edges}
    looped = [module for module in edges if module in reached[module]]
    groups = {tuple(sorted(other for other in reached[module] if module in reached[other])) for module in looped}
    return [f"import each other: {', '.join(group)}" for group in sorted(groups)]


SUBROOMS: dict[str, tuple[str, ...]] = {
    "checks": ("finding", "waitstates", "counters", "wavegroups", "barrierraces", "raceproofs", "waits", "leases", "frontier", "explain",
               "lint", "mutants"),
    "author": ("contract", "step", "emit", "address", "schedule", "loop", "tiles", "builders", "ops", "epilogue", "family"),
    "emulator": ("machine", "semantics", "arrival", "memory", "binding", "shadow", "carried", "algebra", "hashes", "terms", "races",
                 "scheduling"),
}
"""The rooms inside a room, from the ground up."""


def upward_in_a_room(tree: Tree) -> list[str]:
    """Imports of a higher room inside a room by a lower one, of any kind, and files of such a room that stand beside its rooms."""
    found = []
    for name, floors in SUBROOMS.items():
        inside = f"asmgen.{name}."
        beside = [module for module in sorted(tree.modules) if module.startswith(inside) and module.split(".")[2] not in floors]
        found += [f"{module} stands in none of the rooms of {name}" for module in beside]
        for item in tree.imports:
            if item.source.startswith(inside) and item.target.startswith(inside) and not {item.source, item.target} & set(beside):
                low, high = (floors.index(module.split(".")[2]) for module in (item.source, item.target))
                found += [str(item)] if low < high else []
    return found


INSIDE_OUT: dict[tuple[str, str], str] = {
    ("asmgen.isa", "asmgen.isa.numbers"): "formats.py names the number formats, which take architectures and errors from isa",
    ("asmgen.isa", "asmgen.isa.opcodes"): "the opcode table is made of rows that are written with the encodings of isa",
}
"""Pairs of folders that import each other, each with its reason: no file of theirs does."""


def folder_circles(tree: Tree, allowed: dict[tuple[str, str], str] = INSIDE_OUT) -> list[str]:
    """Folders that import each other, by imports of any kind, and allowed pairs that do not. A way there names the first import."""
    folders = {module for module in tree.modules if any(other.startswith(f"{module}.") for other in tree.modules)} - {"asmgen"}
    ways: dict[tuple[str, str], Import] = {}
    for item in tree.imports:
        if {item.source, item.target} <= tree.modules:
            source, target = (module if module in folders else module.rpartition(".")[0] for module in (item.source, item.target))
            ways.setdefault((source, target), item)
    pairs = {(low, high) for low, high in ways if low < high and (high, low) in ways and {low, high} <= folders}
    needless = set(allowed) - pairs if tree.modules >= {folder for pair in allowed for folder in pair} else set()
    return [f"{low} and {high} import each other: {ways[low, high]}; {ways[high, low]}" for low, high in sorted(pairs - set(allowed))] + [
        f"{low} and {high} do not import each other" for low, high in sorted(needless)]


def reachable(edges: dict[str, set[str]], start: str) -> set[str]:
    """What is loaded from `start` on; `start` itself only through a cycle."""
    seen: set[str] = set()
    todo = list(edges[start])
    while todo:
        module = todo.pop()
        if module not in seen:
            seen.add(module)
            todo += edges[module]
    return seen


def is_judge(module: str) -> bool:
    """The emulator and the cycle model."""
    return room(module) in ("emulator", "model")


def is_judged(module: str) -> bool:
    """What they judge: the passes and analyses of placed code. The rules as data are isa's and everyone's."""
    return room(module) == "checks"


def biased_judges(tree: Tree) -> list[str]:
    """Imports of a judged pass by a judge, of any kind, and ways that lead there through other files."""
    direct = [str(item) for item in tree.imports if is_judge(item.source) and is_judged(item.target)]
    edges = tree.edges(LOADED, CALLED)
    ways = [
        f"{module} loads {other} through other files"
        for module in sorted(edges)
        if is_judge(module)
        for other in sorted(reachable(edges, module))
        if is_judged(other)
    ]
    return direct + ways


def loaded_by(statement: str, folder: Path) -> set[str]:
    """The modules that a fresh Python in `folder` has loaded after `statement`, without those that it loads to start."""
    code = f"import sys; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def plant(root: Path, **files: str) -> Tree:
    """A tree of files: the keyword `isa__x` is isa/x.py; every folder is a package."""
    for name, text in files.items():
        path = root.joinpath(*name.split("__")).with_suffix(".py")
        for folder in [parent for parent in path.parents if parent != root and parent.is_relative_to(root)]:
            folder.mkdir(exist_ok=True, parents=True)
            if not (folder / "__init__.py").exists():
                (folder / "__init__.py").write_text("")
        path.write_text(text)
    return read_tree(root)


Rule = Callable[[Tree], list[str]]
RULES: tuple[Rule, ...] = (relative_imports, unknown_modules, upward_imports, upward_in_a_room, folder_circles, family_imports,
                           package_loads, import_cycles, biased_judges)


@pytest.fixture(scope="module")
def project() -> Tree:
    return read_tree(ROOT)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_project(rule: Rule, project: Tree) -> None:
    found = rule(project)
    assert not found, "\n".join(found)


def test_every_layer_and_judge_is_read(project: Tree) -> None:
    rooms = {room(module) for module in project.modules}
    assert rooms >= {"isa", "regalloc", "program", "checks", "author", "emulator", "kernels", "tools"}
    assert any(is_judge(module) for module in project.modules)
    assert any(is_judged(module) for module in project.modules)
    assert not any("asmgen.asmgen" in module for module in project.modules)


def test_folders_stand_inside_the_package_as_links() -> None:
    for folder in set(FOLDERS) - {"asmgen"}:
        link = ROOT / "asmgen" / folder
        assert link.is_symlink() and link.readlink() == Path("..", folder)


def test_importing_the_package_loads_nothing() -> None:
    loaded = loaded_by("import asmgen", ROOT)
    assert loaded - {"__future__"} == {"asmgen"}


def test_loaded_by_sees_what_is_loaded(tmp_path: Path) -> None:
    plant(tmp_path, asmgen__deep="import lark\n")
    tmp_path.joinpath("asmgen", "__init__.py").write_text("import asmgen.deep\n")
    loaded = loaded_by("import asmgen", tmp_path)
    assert {"asmgen", "asmgen.deep", "lark"} <= loaded


@pytest.mark.parametrize("module", ["asmgen.author.emit.builder", "asmgen.toolchain", "asmgen.isa.registers"])
def test_light_modules_load_nothing_heavy(module: str) -> None:
    """What every kernel file needs leaves the grammar, the GPU, the compiler and the arrays alone."""
    loaded = {name.split(".")[0] for name in loaded_by(f"import {module}", ROOT)}
    assert loaded & set(HEAVY) == set()


def test_public_names_are_loaded_when_asked_for() -> None:
    import asmgen
    from asmgen.isa.registers import v

    assert asmgen.v is v
    assert {"v", "AsmgenError"} <= set(dir(asmgen))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = asmgen.nonsense
    for name in asmgen.__all__:
        assert getattr(asmgen, name) is not None


def only(tree: Tree, rule: Rule) -> list[str]:
    """What `rule` finds where no other rule finds anything."""
    others = [line for each in RULES if each is not rule for line in each(tree)]
    assert not others, others
    return rule(tree)


def test_relative_import_is_found(tmp_path: Path) -> None:
    found = only(plant(tmp_path, isa__x="from . import y\n", isa__y=""), relative_imports)
    assert found == ["isa/x.py:1: asmgen.isa.x imports . on import"]


def test_import_without_the_packages_name_is_found(tmp_path: Path) -> None:
    found = only(plant(tmp_path, tools__x="import os\n\nfrom isa.y import z\n", isa__y="z = 1\n"), relative_imports)
    assert found == ["tools/x.py:3: asmgen.tools.x imports isa.y on import"]


def test_missing_module_is_found(tmp_path: Path) -> None:
    assert len(only(plant(tmp_path, tools__x="from asmgen.isa.gone import z\n"), unknown_modules)) == 1


@pytest.mark.parametrize("text", [
    "import asmgen.regalloc.y\n",
    "from asmgen.regalloc import y\n",
    "from asmgen.regalloc.y import z\n",
    "def f() -> None:\n    from asmgen.regalloc import y\n",
    "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    import asmgen.regalloc.y\n",
    "from importlib import import_module\ny = import_module('asmgen.regalloc.y')\n",
])  # fmt: skip
def test_upward_import_is_found(tmp_path: Path, text: str) -> None:
    tree = plant(tmp_path, isa__x=text, regalloc__y="z = 1\n", asmgen__program__p="")
    assert len(only(tree, upward_imports)) == 1


@pytest.mark.parametrize("pair", [("regalloc", "program"), ("program", "checks"), ("checks", "author"), ("launch", "kernels"),
                                  ("author", "kernels"), ("kernels", "tools"), ("isa", "tools"), ("program", "host")])
def test_each_room_is_closed_upwards_and_open_downwards(tmp_path: Path, pair: tuple[str, str]) -> None:
    low, high = pair
    files = {"host": "asmgen__toolchain", "author": "asmgen__author__step__x", "checks": "asmgen__checks__lint__x",
             **{name: f"{name}__x" for name in ("isa", "regalloc", "kernels", "tools")}}
    one, other = (files.get(name, f"asmgen__{name}__x") for name in (low, high))
    name = {key: key.replace("__", ".") if key.startswith("asmgen") else "asmgen." + key.replace("__", ".") for key in (one, other)}
    tree = plant(tmp_path, **{one: f"import {name[other]}\n", other: ""})
    assert len(only(tree, upward_imports)) == 1
    tree = plant(tmp_path, **{one: "", other: f"import {name[one]}\n" if low != "program" or high != "host" else ""})
    assert not any(rule(tree) for rule in RULES)


@pytest.mark.parametrize("text", [
    "from asmgen.author.loop.y import z\n",
    "def f() -> None:\n    from asmgen.author.loop.y import z\n",
    "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from asmgen.author.loop.y import z\n",
])  # fmt: skip
def test_upward_import_inside_a_room_is_found(tmp_path: Path, text: str) -> None:
    tree = plant(tmp_path, asmgen__author__step__x=text, asmgen__author__loop__y="z = 1\n")
    assert len(only(tree, upward_in_a_room)) == 1
    tree = plant(tmp_path, asmgen__author__step__x="", asmgen__author__loop__y="import asmgen.author.step.x\nz = 1\n")
    assert not any(rule(tree) for rule in RULES)


@pytest.mark.parametrize("text", [
    "from asmgen.launch.streams.y import z\n",
    "def f() -> None:\n    from asmgen.launch.streams.y import z\n",
    "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from asmgen.launch.streams.y import z\n",
])  # fmt: skip
def test_circle_of_folders_is_found(tmp_path: Path, text: str) -> None:
    back = {"asmgen__launch__streams__y": "z = 1\n", "asmgen__launch__streams__w": "import asmgen.launch.copies.v\n",
            "asmgen__launch__copies__v": ""}
    tree = plant(tmp_path, asmgen__launch__copies__x=text, **back)
    assert [line.partition(":")[0] for line in only(tree, folder_circles)] == [
        "asmgen.launch.copies and asmgen.launch.streams import each other"]
    assert not folder_circles(tree, {("asmgen.launch.copies", "asmgen.launch.streams"): "for this test"})
    tree = plant(tmp_path, asmgen__launch__copies__x="", **back)
    assert not any(rule(tree) for rule in RULES)
    assert folder_circles(tree, {("asmgen.launch.copies", "asmgen.launch.streams"): "for this test"})


def test_a_file_beside_the_rooms_of_a_room_is_found(tmp_path: Path) -> None:
    assert only(plant(tmp_path, asmgen__author__x=""), upward_in_a_room) == ["asmgen.author.x stands in none of the rooms of author"]


@pytest.mark.parametrize("source", ["kernels__q__tiled", "kernels__shared__x"])
def test_import_of_another_family_is_found(tmp_path: Path, source: str) -> None:
    tree = plant(tmp_path, kernels__p__family="", kernels__p__tiled="from asmgen.kernels.p import family\n", kernels__q__family="",
                 **{source: "from asmgen.kernels.p.tiled import z\n"})
    assert only(tree, family_imports) == [f"{source.replace('__', '/')}.py:1: asmgen.{source.replace('__', '.')} imports "
                                          "asmgen.kernels.p.tiled on import"]


def test_families_share_folders_of_no_family_and_are_listed(tmp_path: Path) -> None:
    tree = plant(tmp_path, kernels__p__family="from asmgen.kernels.shared.x import z\n", kernels__shared__x="z = 1\n",
                 kernels__q__family="import asmgen.kernels.shared\n", kernels__registry="import asmgen.kernels.p.family\n")
    assert not any(rule(tree) for rule in RULES)


@pytest.mark.slow
def test_every_file_has_a_room(project: Tree) -> None:
    rooms = {room(module) for module in project.modules}
    assert rooms <= {"asmgen", "kernels", "tools", *ALLOWED}


def test_loading_package_is_found(tmp_path: Path) -> None:
    plant(tmp_path, asmgen__x="")
    tmp_path.joinpath("asmgen", "__init__.py").write_text("from __future__ import annotations\nimport numpy\n")
    assert len(only(read_tree(tmp_path), package_loads)) == 1
    tmp_path.joinpath("asmgen", "__init__.py").write_text("def __getattr__(name: str) -> object:\n    import numpy\n    return numpy\n")
    assert not any(rule(read_tree(tmp_path)) for rule in RULES)


@pytest.mark.parametrize("last", [
    "import asmgen.isa.x\n",
    "def f() -> None:\n    import asmgen.isa.x\n",
    "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    import asmgen.isa.x\n",
])  # fmt: skip
def test_cycle_is_found(tmp_path: Path, last: str) -> None:
    ring = {"isa__x": "from asmgen.isa import y\n", "isa__y": "from asmgen.isa.z import a\n", "isa__z": last + "a = 1\n"}
    tree = plant(tmp_path, **ring)
    assert only(tree, import_cycles) == ["import each other: asmgen.isa.x, asmgen.isa.y, asmgen.isa.z"]
    tree = plant(tmp_path, isa__z="a = 1\n")
    assert not any(rule(tree) for rule in RULES)


def test_cycle_through_a_package_is_found(tmp_path: Path) -> None:
    plant(tmp_path, isa__p__x="from asmgen.isa.p.y import a\n", isa__p__y="a = 1\n")
    tmp_path.joinpath("isa", "p", "__init__.py").write_text("from asmgen.isa.p.x import a\n")
    assert only(read_tree(tmp_path), import_cycles) == ["import each other: asmgen.isa.p, asmgen.isa.p.x"]


@pytest.mark.parametrize("judge", ["asmgen__emulator__run", "asmgen__model__cycles"])
def test_biased_judge_is_found(tmp_path: Path, judge: str) -> None:
    direct = plant(tmp_path, **{judge: "from asmgen.checks import flow\n", "asmgen__checks__flow": ""})
    assert biased_judges(direct)
    through = plant(tmp_path, **{judge: "import asmgen.program.shared\n", "asmgen__checks__waits": "g = 1\n",
                                 "asmgen__program__shared": "def f() -> None:\n    from asmgen.checks.waits import g\n"})
    assert "asmgen.checks.waits" in {line.split()[2] for line in biased_judges(through)}
    data = plant(tmp_path, **{judge: "import asmgen.isa.hazards\n", "isa__hazards": ""})
    assert not biased_judges(data)


def test_links_are_read_once(tmp_path: Path) -> None:
    plant(tmp_path, isa__x="", asmgen__y="")
    (tmp_path / "asmgen" / "isa").symlink_to(Path("..", "isa"))
    assert read_tree(tmp_path).modules == {"asmgen", "asmgen.y", "asmgen.isa", "asmgen.isa.x"}


def test_one_file_says_when_garbage_is_collected(project: Tree) -> None:
    assert {item.file for item in project.imports if item.target == "gc"} == {"asmgen/garbage.py"}
