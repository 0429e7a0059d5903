"""Runs tests against replaced semantic functions: each replacement in a child of one process that has collected all tests.

A recording says which tests use what; then, for one replacement after the other, a child installs it and runs these tests,
the fastest first, until one fails.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from asmgen.isa.errors import AsmgenError

_TIME_LIMIT = 120  # seconds of one child: a replacement that makes a kernel run without end has been noticed
TESTS = "test_emulator_*.py"


class ReplacementError(AsmgenError):
    """The tests cannot be run as they should be."""


@dataclass(frozen=True)
class Verdict:
    """What became of one replacement: `test` noticed it ("" where none did), by `how`: "assert", "error" or "time"."""

    name: str
    test: str
    how: str
    tried: int
    message: str = ""

    @property
    def survives(self) -> bool:
        """Whether no test noticed."""
        return not self.test


@dataclass(frozen=True)
class Recording:
    """Which tests use what, how long each takes in seconds, and what those said that fail as it is: they can notice nothing."""

    uses: dict[str, list[str]]
    seconds: dict[str, float]
    failed: dict[str, str]

    def tests_of(self, trigger: str) -> list[str]:
        """The tests that use it, the fastest first."""
        return sorted(self.uses.get(trigger, ()), key=lambda test: self.seconds.get(test, 0.0))


class Tests:
    """The emulator's tests, collected in this process. To be used within `collected`."""

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = {item.nodeid: item for item in items}

    def names(self) -> list[str]:
        """All of them."""
        return list(self.items)

    def passes(self, name: str) -> tuple[bool, str, str]:
        """Run one test: whether it passed, else how it failed and the last line of what it said."""
        from _pytest.runner import runtestprotocol

        for report in runtestprotocol(self.items[name], log=False, nextitem=None):
            if report.failed:
                crash = getattr(report.longrepr, "reprcrash", None)
                message = crash.message if crash is not None else str(report.longrepr)
                by_assertion = message.startswith(("assert", "AssertionError", "Failed", "hypothesis"))
                return False, "assert" if by_assertion else "error", message.splitlines()[0][:200] if message else ""
        return True, "", ""


def collected(folder: Path, use: Callable[[Tests], None], names: Iterable[str] = ()) -> None:
    """Collect the emulator's tests (or the named files' of the folder) and hand them to `use`. Raises ReplacementError where that fails."""
    try:
        import pytest
    except ImportError as missing:
        raise ReplacementError("replacing semantic functions runs the tests, which need pytest: pip install asmgen[dev]") from missing

    refused: list[AsmgenError] = []

    class Plugin:
        def pytest_runtestloop(self, session: Any) -> bool:
            if not session.testsfailed:
                try:
                    use(Tests(session.items))
                except AsmgenError as error:
                    refused.append(error)
            return True

    files = [str(folder / name) for name in names] or sorted(str(path) for path in folder.glob(TESTS))
    if not files:
        raise ReplacementError(f"{folder} holds no {TESTS}: name the tests' folder with --tests")
    status = pytest.main(["-q", "--no-header", "--no-summary", "-p", "no:cacheprovider", "-p", "no:xdist", *files], plugins=[Plugin()])
    if refused:
        raise refused[0]
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise ReplacementError(f"the tests in {folder} cannot be collected (pytest's status {int(status)})")


def in_child(work: Callable[[], Any], file: Path) -> int:
    """Do the work in a child, which leaves its result in the file as JSON; gives the child's number."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        signal.alarm(0)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (1, 2):
            os.dup2(nothing, stream)
        file.write_text(json.dumps(work()))
        status = 0
    finally:
        os._exit(status)


def step_by_step() -> None:
    """From now on compiled runs, which know no replacement, go step by step; test_compiled_runs compares what they do with the steps.

    Where a test asks for a compiled run it gets one.
    """
    from asmgen.emulator.binding.runs import Run

    whole = Run._action

    def action(self: Run, compiled: bool) -> Callable[[Any], None]:
        if compiled:
            return whole(self, compiled)
        steps = tuple(self._plain)

        def run(group: Any) -> None:
            for step in steps:
                step(group)

        return run

    Run._action = action  # type: ignore[method-assign]
    Run.spin = lambda self, branch: None  # type: ignore[method-assign]


def record(tests: Tests, witness: Callable[[Callable[[str], None]], None], jobs: int) -> Recording:
    """Run all tests once, in `jobs` children, with everything that can be replaced watched. Raises ReplacementError where a child dies."""

    def part(names: list[str]) -> dict[str, Any]:
        using: set[str] = set()
        step_by_step()
        witness(using.add)
        seconds, uses, failed = {}, {}, {}
        for name in names:
            using.clear()
            begin = time.perf_counter()
            good, _, message = tests.passes(name)
            seconds[name] = time.perf_counter() - begin
            uses[name] = sorted(using)
            if not good:
                failed[name] = message
        return {"seconds": seconds, "uses": uses, "failed": failed}

    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{number}.json") for number in range(jobs)]
        children = [in_child(lambda number=number: part(tests.names()[number::jobs]), file)  # type: ignore[misc]
                    for number, file in enumerate(files)]
        for child in children:
            os.waitpid(child, 0)
        parts = [json.loads(file.read_text()) for file in files if file.exists()]
    if len(parts) < jobs:
        raise ReplacementError("a process that recorded what tests use has died")
    failed = {test: message for part_ in parts for test, message in part_["failed"].items()}
    uses: dict[str, list[str]] = {}
    for part_ in parts:
        for test, triggers in part_["uses"].items():
            for trigger in triggers if test not in failed else ():
                uses.setdefault(trigger, []).append(test)
    return Recording(uses, {test: seconds for part_ in parts for test, seconds in part_["seconds"].items()}, failed)


@dataclass(frozen=True)
class Trial:
    """A replacement's name, how it is installed, and the tests to run against it in this order."""

    name: str
    install: Callable[[], None]
    tests: list[str]


def judge(tests: Tests, trials: Sequence[Trial], jobs: int, tell: Callable[[Verdict], None]) -> list[Verdict]:
    """The verdict on every trial, in their order; each is told as soon as it is known."""

    def one(trial: Trial) -> dict[str, Any]:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_TIME_LIMIT)
        step_by_step()
        trial.install()
        for number, name in enumerate(trial.tests, 1):
            good, how, message = tests.passes(name)
            if not good:
                return asdict(Verdict(trial.name, name, how, number, message))
        return asdict(Verdict(trial.name, "", "", len(trial.tests)))

    gc.collect()
    gc.freeze()
    found: dict[str, Verdict] = {}
    running: dict[int, tuple[Trial, Path]] = {}
    waiting = list(reversed(trials))
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            while waiting and len(running) < jobs:
                trial = waiting.pop()
                file = Path(folder, f"{len(found)}-{len(waiting)}.json")
                running[in_child(lambda trial=trial: one(trial), file)] = (trial, file)  # type: ignore[misc]
            child, status = os.wait()
            if child not in running:
                continue
            trial, file = running.pop(child)
            if os.WIFSIGNALED(status):
                verdict = Verdict(trial.name, "(unknown)", "time" if os.WTERMSIG(status) == signal.SIGALRM else "crash", 0)
            elif status:
                raise ReplacementError(f"the process that tried `{trial.name}` failed: the replacement cannot be installed")
            else:
                verdict = Verdict(**json.loads(file.read_text()))
            found[trial.name] = verdict
            tell(verdict)
    return [found[trial.name] for trial in trials]
