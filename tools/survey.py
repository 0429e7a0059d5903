"""`python -m asmgen.tools.survey PATH...`: what lint says of every kernel in files and folders, thousands of them.

Every code object for gfx942 or gfx950 counts, alone, in an offload bundle or inside a shared library; other files are passed over.
Printed are the objects that cannot be read, each with its sentence, the findings by rule with the number of objects that have
them, and instructions a second of processor time. The status is 1 where an object cannot be read or a finding is an error, 2 for
a request that cannot be met.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import click

from asmgen.codeobject.bundle import BUNDLE_MAGIC, COMPRESSED_MAGIC
from asmgen.codeobject.load import CodeObject
from asmgen.isa.arch import ARCHITECTURES
from asmgen.isa.errors import AsmgenError
from asmgen.lint.rules import SEVERITIES, rules
from asmgen.lint.run import lint_read
from asmgen.reader.file import read_code_object
from asmgen.tools.entry import status_of

_ELF = b"\x7fELF"
_AMDGPU = (224).to_bytes(2, "little")
_MACHINE = slice(18, 20)  # of an ELF header


@dataclass(frozen=True)
class Surveyed:
    """One code object: how often each (severity, rule) was found, or why it cannot be read. Seconds are of the processor."""

    file: str
    failure: str = ""
    instructions: int = 0
    read_seconds: float = 0.0
    lint_seconds: float = 0.0
    findings: Counter[tuple[str, str]] = field(default_factory=Counter)


def candidates(paths: Iterable[Path]) -> Iterator[Path]:
    """The files among these and below these folders that may hold kernels, each content once. Raises OSError for a path that is none."""
    seen: set[bytes] = set()
    for path in paths:
        for file in sorted(entry for entry in path.rglob("*") if entry.is_file()) if path.is_dir() else [path]:
            data = file.read_bytes()
            digest = sha256(data).digest()
            if _holds_kernels(data) and digest not in seen:
                seen.add(digest)
                yield file


def _holds_kernels(data: bytes) -> bool:
    bundled = BUNDLE_MAGIC in data or COMPRESSED_MAGIC in data
    return data.startswith((BUNDLE_MAGIC, COMPRESSED_MAGIC)) or data.startswith(_ELF) and (data[_MACHINE] == _AMDGPU or bundled)


def survey(file: Path) -> list[Surveyed]:
    """What lint says of each code object in a file; one entry with a failure where the file has none that can be opened."""
    data = file.read_bytes()
    alone = data.startswith(_ELF) and data[_MACHINE] == _AMDGPU
    objects: list[CodeObject] = []
    failures: list[str] = []
    for arch in (None,) if alone else tuple(ARCHITECTURES):
        try:
            objects += CodeObject.load_all(file, arch)
        except AsmgenError as error:
            failures.append(str(error))
    return [_surveyed(file, code_object) for code_object in objects] or [Surveyed(str(file), failures[0])]


def _surveyed(file: Path, code_object: CodeObject) -> Surveyed:
    began = time.process_time()
    try:
        read = read_code_object(code_object)
    except AsmgenError as error:
        return Surveyed(str(file), str(error))
    then = time.process_time()
    report = lint_read(read, str(file), {})
    findings = Counter((finding.severity, finding.rule) for finding in report.findings)
    return Surveyed(str(file), "", report.instructions, then - began, time.process_time() - then, findings)


def summary(found: Sequence[Surveyed]) -> list[str]:
    """For people: what could not be read, findings from the worst rule on, figures."""
    lines = [f"{entry.file}: {entry.failure.removeprefix(f'{entry.file}: ')}" for entry in found if entry.failure]
    counts: Counter[tuple[str, str]] = Counter()
    holders: Counter[tuple[str, str]] = Counter()
    for entry in found:
        counts.update(entry.findings)
        holders.update(entry.findings.keys())
    known = rules()
    for severity, rule in sorted(counts, key=lambda key: (SEVERITIES.index(key[0]), -holders[key], key[1])):
        title = known[rule].title if rule in known else ""
        lines.append(f"{severity:<8}{rule:<20}{counts[severity, rule]:>8} in {holders[severity, rule]:>5} objects  {title}")
    read = [entry for entry in found if not entry.failure]
    instructions = sum(entry.instructions for entry in read)
    reading, linting = (sum(getattr(entry, name) for entry in read) for name in ("read_seconds", "lint_seconds"))
    lines.append(f"{len(read)} of {len(found)} code objects read, {instructions:,} instructions; read in "
                 f"{1e4 * reading / max(instructions, 1):.2f} s for 10,000, linted at {instructions / max(linting, 1e-9):,.0f} a second")
    return lines


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes at once.")
def commands(paths: tuple[Path, ...], jobs: int) -> int:
    """Lint every code object for gfx942 and gfx950 in files and folders; exit with 1 for errors and for what cannot be read."""
    files = list(candidates(paths))
    if not files:
        raise AsmgenError(f"no code object, offload bundle or library with one in {', '.join(map(str, paths))}")
    with ProcessPoolExecutor(jobs) as pool:
        found = [entry for entries in pool.map(survey, files) for entry in entries]
    click.echo("\n".join(summary(found)))
    return int(any(entry.failure or any(severity == "error" for severity, _ in entry.findings) for entry in found))


def main(arguments: Sequence[str] | None = None) -> None:
    """Never returns: exits with the status."""
    sys.exit(status_of(commands, "survey", arguments))


if __name__ == "__main__":
    main()
