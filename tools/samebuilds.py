"""`python -m asmgen.tools.samebuilds REV [KERNEL ...]`: does this tree build the library as a revision of it does?

For changes that move, rename and explain. Each variant of each family is built in both trees, with --choices also each single choice of
a build parameter. Code objects must agree to the byte. Assembly text must agree to the byte once its comments are removed. Labels may have
other names: in both texts they are numbered in their order. Each tree builds in a process of its own, both at once; progress goes to
stderr.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import click

import asmgen
from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import quoted
from asmgen.kernels.registry import family as find_family
from asmgen.kernels.registry import names
from asmgen.tools.mutate import builds
from asmgen.tools.terminal.entry import status_of

# Runs in either tree, so it uses what both have: the registry, a family's build and the assembler. Each line of its input is a request in
# JSON. It answers by two files, then by a line with the request's number.
_WORKER = r"""
import json, re, sys
from pathlib import Path
from asmgen.kernels.registry import family
from asmgen.toolchain import assemble
def renumbered(text):
    labels = dict.fromkeys(re.findall(r"^(\w+_\d+):", text, re.MULTILINE))
    new = {name: f"label_{number}" for number, name in enumerate(labels)}
    return re.sub(r"\b[A-Za-z_]\w*_\d+\b", lambda found: new.get(found[0], found[0]), text)
for number, line in enumerate(sys.stdin):
    request = json.loads(line)
    text = renumbered(family(request["kernel"]).build(request["arch"], request["parameters"]).text())
    Path(sys.argv[1], f"{number}.s").write_text(text)
    Path(sys.argv[1], f"{number}.co").write_bytes(assemble(text, request["arch"], name="kernel.s"))
    print(number, flush=True)
"""


@dataclass(frozen=True)
class WantedBuild:
    """One build: a family, an architecture and all build parameters."""

    kernel: str
    arch: str
    parameters: dict[str, Any]

    def request(self) -> str:
        """The request of a tree in JSON. Defaults that choose no variant are left out: the other tree may not have the parameter yet."""
        try:
            library = find_family(self.kernel)
            variant = library.select(self.arch, self.parameters)
            usual = {one.name: one.default for one in library.contract_of(variant).parameters if one.name not in library.fixed(variant)}
        except AsmgenError:  # building says why
            usual = {}
        given = {name: value for name, value in self.parameters.items() if name not in usual or usual[name] != value}
        return json.dumps({**asdict(self), "parameters": given})

    def __str__(self) -> str:
        return " ".join((self.kernel, self.arch, *(f"{name}={value}" for name, value in self.parameters.items())))


def requests(kernels: Sequence[str], choices: bool) -> Iterator[WantedBuild]:
    """The builds of these families, of all where none is named."""
    for name in kernels or names():
        library = find_family(name)
        for arch in library.archs:
            if choices:
                yield from (WantedBuild(name, arch, parameters) for parameters in builds(library, arch))
            else:
                yield from (WantedBuild(name, arch, library.contract_of(variant).resolve_build({})) for variant in library.variants(arch))


def difference(old: Path, new: Path) -> str:
    """What tells two builds apart, in one sentence; "" for equal ones. The paths are without suffix."""
    texts = [[code for line in path.with_suffix(".s").read_text().splitlines() if (code := _code(line))] for path in (old, new)]
    for number, (before, after) in enumerate(zip_longest(*texts, fillvalue="the end"), 1):
        if before != after:
            return f"line {number} without comments is {after!r}, and was {before!r}"
    return "" if old.with_suffix(".co").read_bytes() == new.with_suffix(".co").read_bytes() else "the text agrees, the code object does not"


def _code(line: str) -> str:
    """A line of assembly without its comment."""
    return line.partition(";")[0].strip()


class TreeBuilds:
    """The builds of one tree, in a process that works while others do. The folder gets its files."""

    def __init__(self, tree: Path, wanted: Sequence[WantedBuild], folder: Path) -> None:
        self._tree = tree
        self._wanted = wanted
        self._errors = folder / "errors.txt"
        asked = folder / "requests.txt"
        asked.write_text("".join(f"{one.request()}\n" for one in wanted))
        with asked.open() as lines, self._errors.open("w") as errors:
            self._process = subprocess.Popen([sys.executable, "-P", "-c", _WORKER, str(folder)], stdin=lines, stdout=subprocess.PIPE,
                                             stderr=errors, text=True, env={**os.environ, "PYTHONPATH": str(tree)})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()

    def wait_for(self, number: int) -> None:
        """Return when that request is built; requests are waited for in order. Raises AsmgenError where it cannot be built."""
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            self._process.wait()
            lines = self._errors.read_text().strip().splitlines()
            raise AsmgenError(f"{self._tree} does not build {self._wanted[number]}: {lines[-1] if lines else 'it was killed'}")


def compare(trees: tuple[Path, Path], wanted: Sequence[WantedBuild], scratch: Path) -> Iterator[str]:
    """For each request the difference between the builds of an old and a new tree, "" where there is none. Scratch gets their files."""
    old, new = scratch / "old", scratch / "new"
    old.mkdir()
    new.mkdir()
    with TreeBuilds(trees[0], wanted, old) as one, TreeBuilds(trees[1], wanted, new) as other:
        for number in range(len(wanted)):
            one.wait_for(number)
            other.wait_for(number)
            yield difference(old / str(number), new / str(number))


def checked_out(revision: str, folder: Path) -> Path:
    """The files of a revision of this tree. Raises AsmgenError for an unknown one."""
    archive = subprocess.run(["git", "archive", revision], cwd=root(), capture_output=True)
    if archive.returncode:
        raise AsmgenError(f"git finds no revision {quoted(revision)} in {root()}: {archive.stderr.decode().strip()}")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


def root() -> Path:
    """The folder that holds this tree."""
    return Path(asmgen.__file__).resolve().parent.parent


@click.command()
@click.argument("revision")
@click.argument("kernels", nargs=-1)
@click.option("--choices", is_flag=True, help="Also each single choice of a build parameter.")
def commands(revision: str, kernels: tuple[str, ...], choices: bool) -> int:
    """Build the library in this tree and as REVISION has it; exit with 1 where any build differs."""
    wanted = list(requests(kernels, choices))
    differing = 0
    began = time.monotonic()
    with TemporaryDirectory() as scratch:
        tree = Path(scratch, "tree")
        tree.mkdir()
        trees = checked_out(revision, tree), root()
        for number, (one, told) in enumerate(zip(wanted, compare(trees, wanted, Path(scratch)), strict=True), 1):
            if told:
                differing += 1
                click.echo(f"{one}: {told}")
            click.echo(f"{number}/{len(wanted)} {time.monotonic() - began:.0f} s {one}", err=True)
    click.echo(f"{len(wanted) - differing} of {len(wanted)} builds are the same as {revision}'s ({time.monotonic() - began:.0f} s)")
    return int(differing > 0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Never returns: exits with the status."""
    sys.exit(status_of(commands, "samebuilds", arguments))


if __name__ == "__main__":
    main()
