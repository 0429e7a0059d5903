"""`python -m tests.replacements.replace_semantics`: does a test notice when a semantic function of the emulator copies its first source?

Every function is replaced in turn, in a child process that then runs the tests which use it. The score by table and the survivors are
printed; the status is 1 where one survives that is not known to be equivalent, 2 for a request that cannot be met.

`--sample` takes the tests from tests/emulator/noticed_replacements.txt, which a full run writes (`--write`), instead of recording which
tests use what.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from asmgen.tools.terminal.entry import status_of
from tests.replacements.replaced_functions import all_functions, witness_functions
from tests.replacements.replaced_instructions import all_instructions, witness_instructions
from tests.replacements.replacement_runs import Recording, ReplacementError, Tests, Trial, Verdict, collected, judge, record
from tests.replacements.replacements import EQUIVALENT, Note, Replacement, by_instruction, scalar_tables, vector_tables, witness_tables

NOTICED = "noticed_replacements.txt"
_HEADING = "# Replacements of semantic functions, and a test that notices each: python -m tests.replacements.replace_semantics --write\n"


def all_replacements() -> list[Replacement]:
    """Every replacement, those that are equivalent included."""
    return [*vector_tables(), *scalar_tables(), *by_instruction(), *all_instructions(), *all_functions()]


def witness(note: Note) -> None:
    """Have `note` told the trigger of everything that is used."""
    witness_tables(note)
    witness_functions(note)
    witness_instructions(note)


def read_noticed(folder: Path) -> dict[str, str]:
    """The test that notices each replacement, as the last full run has written it. Raises ReplacementError where there is no such file."""
    file = folder / NOTICED
    if not file.exists():
        raise ReplacementError(f"{file} does not exist: a full run with --write makes it")
    lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("\t") for line in lines)


def summary(replacements: Sequence[Replacement], verdicts: Sequence[Verdict]) -> list[str]:
    """The score by table, and survivors."""
    tables: dict[str, list[Verdict]] = {}
    for replacement, verdict in zip(replacements, verdicts, strict=True):
        tables.setdefault(replacement.table, []).append(verdict)
    lines = []
    for table, some in [*tables.items(), ("all", list(verdicts))]:
        noticed = sum(not verdict.survives for verdict in some)
        ways = {how: sum(verdict.how == how for verdict in some) for how in ("error", "time", "crash")}
        others = "".join(f", {count} by {how}" for how, count in ways.items() if count)
        lines.append(f"{table}: {noticed} of {len(some)} noticed ({100.0 * noticed / len(some):.1f} %){others}")
    lines += [f"  survives: {verdict.name} ({verdict.tried} tests use it)" for verdict in verdicts if verdict.survives]
    return lines


def write_noticed(folder: Path, verdicts: Sequence[Verdict], complete: bool) -> None:
    """Keep which test noticed what; a run over a part leaves the other lines."""
    file = folder / NOTICED
    known = read_noticed(folder) if file.exists() and not complete else {}
    known |= {verdict.name: _relative(verdict.test) for verdict in verdicts if not verdict.survives and verdict.how != "time"}
    file.write_text(_HEADING + "".join(f"{name}\t{test}\n" for name, test in sorted(known.items())))


def _relative(test: str) -> str:
    """A test's name from its file's name on."""
    path, _, rest = test.partition("::")
    return f"{path.rsplit('/', 1)[-1]}::{rest}"


def trials(replacements: Sequence[Replacement], tests: Tests, recording: Recording | None, folder: Path) -> list[Trial]:
    """What to run against each replacement: what has been recorded, or else what noticed it last time, or the tests of that file."""
    if recording is not None:
        return [Trial(str(one), one.install, recording.tests_of(one.trigger)) for one in replacements]
    by_name = {_relative(name): name for name in tests.names()}
    noticed = read_noticed(folder)
    found = []
    for one in replacements:
        known = noticed.get(str(one))
        if known is None:
            raise ReplacementError(f"{folder / NOTICED} does not have `{one}`: run python -m tests.replacements.replace_semantics --write")
        function = known.split("[")[0]
        likely = [name for short, name in by_name.items() if short.split("[")[0] == function and short != known]
        found.append(Trial(str(one), one.install, [by_name[known]] if known in by_name else likely))
    return found


def choose(table: str | None, sample: int | None, seed: int) -> list[Replacement]:
    """The replacements to try. Raises ReplacementError for a table that does not exist."""
    replacements = all_replacements()
    tables = list(dict.fromkeys(one.table for one in replacements))
    if table is not None and table not in tables:
        raise ReplacementError(f"there is no table `{table}`; there are {', '.join(tables)}")
    chosen = [one for one in replacements if (table is None or one.table == table) and str(one) not in EQUIVALENT]
    return random.Random(seed).sample(chosen, min(sample, len(chosen))) if sample is not None else chosen


def _recorded(tests: Tests, jobs: int, file: Path | None) -> Recording:
    if file is not None and file.exists():
        return Recording(**json.loads(file.read_text()))
    recording = record(tests, witness, jobs)
    if file is not None:
        file.write_text(json.dumps(asdict(recording)))
    return recording


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--table", help="only this table's functions")
@click.option("--only", help="only replacements whose name contains this")
@click.option("--missing", is_flag=True, help=f"only what {NOTICED} does not have yet")
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1, 64), help="processes at a time")
@click.option("--sample", type=click.IntRange(1), help="so many replacements, chosen by --seed")
@click.option("--seed", default=0, show_default=True, help="of the sample")
@click.option("--tests", "folder", default="tests/emulator", show_default=True, type=click.Path(path_type=Path), help="the tests' folder")
@click.option("--recording", "file", type=click.Path(path_type=Path), help="take from this file which tests use what, or keep it there")
@click.option("--write", is_flag=True, help=f"keep which test notices what in {NOTICED}")
@click.option("--list", "listing", is_flag=True, help="print the replacements' names and run nothing")
@click.option("-v", "--verbose", is_flag=True, help="print every verdict")
def command(table: str | None, only: str | None, missing: bool, jobs: int, sample: int | None, seed: int, folder: Path,
            file: Path | None, write: bool, listing: bool, verbose: bool) -> int:
    """Replace the emulator's semantic functions one by one; every replacement must fail a test."""
    known = read_noticed(folder) if missing else {}
    chosen = [one for one in choose(table, sample, seed) if (only is None or only in str(one)) and str(one) not in known]
    if listing:
        for one in chosen:
            click.echo(str(one))
        return 0
    verdicts: list[Verdict] = []
    out = os.dup(1)  # pytest captures this process's output

    def tell(line: str) -> None:
        os.write(out, f"{line}\n".encode())

    def each(verdict: Verdict) -> None:
        if verdict.survives or verbose:
            tell(f"{verdict.name}: {'survives' if verdict.survives else f'{verdict.how} {verdict.test} {verdict.message}'}")

    def use(tests: Tests) -> None:
        import asmgen.emulator.arrival.races_kernels  # noqa: F401  children need not load compiled loops again

        recording = None if sample is not None else _recorded(tests, jobs, file)
        for test, message in recording.failed.items() if recording is not None else ():
            tell(f"{test} fails as it is and is left out: {message}")
        verdicts.extend(judge(tests, trials(chosen, tests, recording, folder), jobs, each))

    files = sorted({read_noticed(folder).get(str(one), "").split("::")[0] for one in chosen} - {""}) if sample is not None else ()
    collected(folder, use, files)
    for line in summary(chosen, verdicts):
        tell(line)
    if write:
        write_noticed(folder, verdicts, sample is None and table is None and only is None and not missing)
    return int(any(verdict.survives for verdict in verdicts))


def main(arguments: Sequence[str] | None = None) -> int:
    """The status."""
    return status_of(command, "replace_semantics", arguments)


if __name__ == "__main__":
    sys.exit(main())
