"""`python -m asmgen.tools.survey PATH...`: what lint says of every kernel in files and folders, thousands of them.

Every code object for gfx942 or gfx950 counts, alone, in an offload bundle or inside a shared library; other files are passed over.
Printed are the objects that cannot be read or that asmgen fails at, each with its sentence, the findings by rule with the
number of objects that have them, and instructions a second of processor time; on a terminal, meanwhile, how far it is.
The status is 1 where an object cannot be read or a finding is an error, 2 for a request that cannot be met.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from hashlib import sha256
from multiprocessing import active_children
from pathlib import Path

import click

from asmgen.checks.finding.rules import SEVERITIES, rules
from asmgen.checks.lint.facts import facts_of_code_object
from asmgen.checks.lint.linting import Linter
from asmgen.codeobject.bundle import BUNDLE_MAGIC, COMPRESSED_MAGIC
from asmgen.codeobject.load import CodeObject
from asmgen.files import plain_size
from asmgen.garbage import collection_paused
from asmgen.interrupts import unwatched
from asmgen.isa.arch import ARCHITECTURES
from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import printable
from asmgen.reader.disassembly import read_programs
from asmgen.tools.entry import internal_error, status_of

_REFRESH = 0.2  # seconds
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
    """The files among these and below these folders that may hold kernels, each content once, and those that cannot be read. Raises
    FileError for a path that is neither a folder nor a plain file."""
    seen: set[bytes] = set()
    for path in paths:
        if not path.is_dir():
            plain_size(path)
        for file in sorted(entry for entry in path.rglob("*") if entry.is_file()) if path.is_dir() else [path]:
            try:
                data = file.read_bytes()
            except OSError:  # `survey` says why
                yield file
                continue
            digest = sha256(data).digest()
            if _holds_kernels(data) and digest not in seen:
                seen.add(digest)
                yield file


def _holds_kernels(data: bytes) -> bool:
    bundled = BUNDLE_MAGIC in data or COMPRESSED_MAGIC in data
    return data.startswith((BUNDLE_MAGIC, COMPRESSED_MAGIC)) or data.startswith(_ELF) and (data[_MACHINE] == _AMDGPU or bundled)


def survey(file: Path) -> list[Surveyed]:
    """What lint says of each code object in a file; one entry with a failure where the file has none that can be opened."""
    try:
        return _survey(file)
    except OSError as error:
        return [Surveyed(str(file), f"cannot be read: {error.strerror}")]
    except Exception as error:  # a fault of asmgen at one file says nothing of the next
        return [Surveyed(str(file), internal_error(error))]


def _survey(file: Path) -> list[Surveyed]:
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
    """Kernel by kernel, so that an object takes no more memory than its largest kernel, without a search for cycles in between."""
    with collection_paused():
        return _surveyed_kernels(file, code_object)


def _surveyed_kernels(file: Path, code_object: CodeObject) -> Surveyed:
    reading = linting = 0.0
    instructions = 0
    findings: Counter[tuple[str, str]] = Counter()
    linter = Linter(str(file), facts_of_code_object(code_object))
    began = time.process_time()
    at = ""
    try:
        for program in read_programs(code_object):
            at = program.name
            then = time.process_time()
            findings.update((finding.severity, finding.rule) for finding in linter.lint(program))
            ended = time.process_time()
            instructions += len(program)
            reading, linting, began = reading + then - began, linting + ended - then, ended
    except AsmgenError as error:
        return Surveyed(str(file), str(error))
    except Exception as error:
        return Surveyed(str(file), f"{code_object.origin}: {internal_error(error)}, at or after kernel {printable(at)}")
    if not instructions:
        return Surveyed(str(file), f"{code_object.origin}: it holds no code")
    return Surveyed(str(file), "", instructions, reading, linting, findings)


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


def _surveyed_all(files: Sequence[Path], jobs: int) -> Iterator[tuple[int, Surveyed]]:
    """(number of the file, what its objects say), as they come, with progress where somebody watches."""
    shown = _Progress(len(files))
    for number, entries in _in_processes(dict(enumerate(files)), jobs):
        for entry in entries:
            shown.count(entry)
            yield number, entry
        shown.file()
    shown.end()


def _in_processes(files: Mapping[int, Path], jobs: int) -> Iterator[tuple[int, list[Surveyed]]]:
    """A process that is killed takes all that its pool still has to do: each of these files then gets a pool of its own."""
    lost: list[int] = []
    with ProcessPoolExecutor(jobs, initializer=unwatched, initargs=(os.getpid(),)) as pool:
        try:
            numbers = {pool.submit(survey, file): number for number, file in files.items()}
            for done in as_completed(numbers):
                try:
                    entries = done.result()
                except BrokenExecutor:
                    lost.append(numbers[done])
                else:
                    yield numbers[done], entries
        except BaseException:  # Ctrl-C too: nobody waits for the others
            for worker in active_children():
                worker.kill()
                worker.join()
            raise
    if len(files) == 1:
        yield from ((number, [Surveyed(str(files[number]), "the process that read it was killed")]) for number in lost)
    else:
        for number in sorted(lost):
            yield from _in_processes({number: files[number]}, 1)


class _Progress:
    """One line on a terminal's stderr, written over at most some times a second; nothing elsewhere."""

    def __init__(self, files: int) -> None:
        self._files, self._done, self._instructions, self._failures, self._errors = files, 0, 0, 0, 0
        self._began = self._shown = time.monotonic()
        self._on = sys.stderr.isatty()

    def count(self, entry: Surveyed) -> None:
        """Another code object."""
        self._instructions += entry.instructions
        self._failures += bool(entry.failure)
        self._errors += sum(count for (severity, _), count in entry.findings.items() if severity == "error")

    def file(self) -> None:
        """Another file is done."""
        self._done += 1
        now = time.monotonic()
        if self._on and (now - self._shown >= _REFRESH or self._done == self._files):
            self._shown = now
            rest = (now - self._began) / self._done * (self._files - self._done)
            sys.stderr.write(f"\r{self._done} of {self._files} files, {self._instructions:,} instructions, {self._errors} errors, "
                             f"{self._failures} not read, about {rest:.0f} s to go\x1b[K")
            sys.stderr.flush()

    def end(self) -> None:
        """Take the line away."""
        if self._on:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("-j", "--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes at once.")
def commands(paths: tuple[Path, ...], jobs: int) -> int:
    """Lint every code object for gfx942 and gfx950 in files and folders; exit with 1 for errors and for what cannot be read."""
    files = list(candidates(paths))
    if not files:
        raise AsmgenError(f"no code object, offload bundle or library with one in {', '.join(map(str, paths))}")
    found = [entry for _, entry in sorted(_surveyed_all(files, jobs), key=lambda numbered: numbered[0])]
    click.echo("\n".join(summary(found)))
    return int(any(entry.failure or any(severity == "error" for severity, _ in entry.findings) for entry in found))


def main(arguments: Sequence[str] | None = None) -> None:
    """Never returns: exits with the status."""
    sys.exit(status_of(commands, "survey", arguments))


if __name__ == "__main__":
    main()
