"""`python -m asmgen.tools.oddsweep [--count N] [--seed S] [FILE...]`: programs that nobody would write, through everything that reads code.

Each generated program (`oddprograms`), or each file that is named, goes as text and as code object through lint, inspect with its page, and
diff with itself, in this process. Printed is where asmgen fails or refuses, with the command that repeats it. The status is 1 where it
fails, and where it refuses a generated program without random words in its code.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click

from asmgen.checks.lint.linting import lint_file
from asmgen.isa.errors import AsmgenError
from asmgen.toolchain import assemble
from asmgen.tools.diff_command import diff_files
from asmgen.tools.inspection.htmlreport import write_html
from asmgen.tools.inspection.inspection import FileReport, inspect_file
from asmgen.tools.inspection.inspectiontext import inspection_text
from asmgen.tools.lint_command import lint_rows, lint_text
from asmgen.tools.oddprograms import odd_program
from asmgen.tools.terminal.entry import internal_error, status_of


@dataclass(frozen=True)
class Fault:
    """What a command said instead of an answer; `rightly` where it refuses what it may refuse."""

    file: str
    command: str
    sentence: str
    rightly: bool = False


def sweep_file(path: Path, refusable: bool = False) -> Iterator[Fault]:
    """The faults at a file that all commands should take, or may refuse. The page is written beside it."""
    def lint() -> None:
        report = lint_file(path)
        lint_text(report), json.dumps(lint_rows(report))

    @cache
    def inspected() -> FileReport:
        return inspect_file(path)

    def inspect() -> None:
        inspection_text(inspected()), json.dumps(inspected().as_json())

    def page() -> None:
        write_html(inspected(), path.with_suffix(".html"))

    def diff() -> None:
        found = diff_files(path, path)
        found.text(), json.dumps(found.as_json())

    commands: dict[str, Callable[[], None]] = {"lint": lint, "inspect": inspect, "inspect --html": page, "diff": diff}
    for name, command in commands.items():
        try:
            command()
        except AsmgenError as error:
            yield Fault(path.name, name, str(error), rightly=refusable)
        except Exception as error:
            yield Fault(path.name, name, internal_error(error))


def sweep_program(number: int, seed: int, folder: Path) -> Iterator[Fault]:
    """The faults at a generated program, whose files are written into a folder."""
    program = odd_program(number, seed)
    text = folder / f"odd{number}.s"
    text.write_text(program.text)
    yield from sweep_file(text, program.data)
    try:
        text.with_suffix(".co").write_bytes(assemble(program.text, program.arch))
    except AsmgenError as error:
        yield Fault(text.name, "assemble", str(error))
        return
    yield from sweep_file(text.with_suffix(".co"), program.data)


@click.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--count", default=500, show_default=True, type=click.IntRange(1), help="Programs.")
@click.option("--first", default=0, show_default=True, type=click.IntRange(0), help="Number of the first one.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Leave the programs with faults here.")
def commands(files: tuple[Path, ...], count: int, first: int, seed: int, keep: Path | None) -> int:
    """Run programs that nobody would write through lint, inspect, its page and diff; exit with 1 where one of these fails."""
    faults, refused, slowest = 0, 0, (0.0, "")
    subjects: Sequence[int | Path] = files or range(first, first + count)
    with tempfile.TemporaryDirectory() as name:
        for subject in subjects:
            began = time.process_time()
            folder = Path(name)
            if isinstance(subject, Path):
                copy = folder / subject.name
                copy.write_bytes(subject.read_bytes())
                found, again = list(sweep_file(copy, refusable=True)), str(subject)
            else:
                found, again = list(sweep_program(subject, seed, folder)), f"--first {subject} --count 1 --seed {seed}"
            slowest = max(slowest, (time.process_time() - began, again))
            refused += any(fault.rightly for fault in found)
            for fault in found:
                if files or not fault.rightly:
                    click.echo(f"{again}: {fault.command} {fault.file}: {fault.sentence}")
            found = [fault for fault in found if not fault.rightly]
            faults += len(found)
            for file in folder.iterdir():
                if found and keep is not None:
                    keep.mkdir(parents=True, exist_ok=True)
                    (keep / file.name).write_bytes(file.read_bytes())
                file.unlink()
    click.echo(f"{len(subjects)} programs, {refused} of them refused for what they hold, {faults} faults; "
               f"the slowest ({slowest[1]}) took {slowest[0]:.1f} s of the processor")
    return int(faults > 0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Never returns: exits with the status."""
    sys.exit(status_of(commands, "oddsweep", arguments))


if __name__ == "__main__":
    main()
