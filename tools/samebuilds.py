"""`python -m asmgen.tools.samebuilds REV [KERNEL ...]`: does this tree build the library as a revision of it does?

For changes that move, rename and explain. Every variant of every family is built in both trees, with --choices also each single choice
of a build parameter. Code objects must agree to the byte, assembly text to the byte once comments are taken off.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

import asmgen
from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import quoted
from asmgen.kernels.registry import family as find_family
from asmgen.kernels.registry import names
from asmgen.tools.entry import status_of
from asmgen.tools.mutate import builds

# Runs in either tree, so it uses what both have: the registry, a family's build and the assembler. It answers each request, a line of JSON
# on its input, by two files.
_WORKER = """
import json, sys
from pathlib import Path
from asmgen.kernels.registry import family
from asmgen.toolchain import assemble
for number, line in enumerate(sys.stdin):
    request = json.loads(line)
    text = family(request["kernel"]).build(request["arch"], request["parameters"]).text()
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


def build_all(tree: Path, wanted: Sequence[WantedBuild], folder: Path) -> None:
    """Build all requests with the asmgen that stands in `tree`. Raises AsmgenError where it cannot."""
    lines = "".join(f"{json.dumps(asdict(one))}\n" for one in wanted)
    run = subprocess.run([sys.executable, "-P", "-c", _WORKER, str(folder)], input=lines, capture_output=True, text=True,
                         env={**os.environ, "PYTHONPATH": str(tree)})
    if run.returncode:
        done = len(run.stdout.split())
        raise AsmgenError(f"{tree} does not build {wanted[done]}: {run.stderr.strip().splitlines()[-1]}")


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
    with TemporaryDirectory() as scratch:
        old, new, tree = (Path(scratch, name) for name in ("old", "new", "tree"))
        for folder in (old, new, tree):
            folder.mkdir()
        build_all(checked_out(revision, tree), wanted, old)
        build_all(root(), wanted, new)
        for number, one in enumerate(wanted):
            told = difference(old / str(number), new / str(number))
            if told:
                differing += 1
                click.echo(f"{one}: {told}")
    click.echo(f"{len(wanted) - differing} of {len(wanted)} builds are the same as {revision}'s")
    return int(differing > 0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Never returns: exits with the status."""
    sys.exit(status_of(commands, "samebuilds", arguments))


if __name__ == "__main__":
    main()
