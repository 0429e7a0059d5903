"""Runs commands of asmgen in forks of this process, which has loaded everything: within limits, with what they print and take."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SECONDS = 5.0
"""Of processor time, for any answer."""
MEMORY = 2 << 30
"""Bytes of address space beyond what the server has."""
_STOP = 20  # seconds, of the processor and by the clock times this many:
_CLOCK = 6
_LONGEST = 2500  # characters of a sentence: names of kernels may be long, and eight of them are listed


@dataclass(frozen=True)
class Outcome:
    """How a command ended: `status` negative for a signal, `seconds` of the processor, its tools' included."""

    status: int
    seconds: float
    out: str
    err: str

    @property
    def fault(self) -> str:
        """What is wrong with it, "" where it ended as it should."""
        lines = [line for line in self.err.splitlines() if "running on the emulator" not in line]
        if self.status not in (0, 1, 2):
            return f"it ended with status {self.status}"
        if "internal error" in self.err or "Traceback" in self.err:
            return "an internal error"
        if self.seconds > SECONDS:
            return f"it took {self.seconds:.1f} s"
        if self.status == 2 and len(lines) != 1 or self.status != 2 and lines:
            return f"{len(lines)} lines of messages at status {self.status}"
        if any(len(line) > _LONGEST or not line.isprintable() for line in lines):
            return "a message too long, or with control characters"
        return ""


def warm(commands: Sequence[Sequence[str]], folder: Path) -> None:
    """Runs commands here, in `folder`, so that what they load and compile is there for the forks."""
    from asmgen.tools import cli

    before = Path.cwd()
    os.chdir(folder)
    try:
        for command in commands:
            with contextlib.redirect_stdout(None), contextlib.redirect_stderr(None), contextlib.suppress(Exception):
                cli.commands.main(args=list(command), prog_name="asmgen", standalone_mode=False)
    finally:
        os.chdir(before)


def call(command: Sequence[str], folder: Path) -> Outcome:
    """Run a command in a fork, in `folder`."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if not child:
            _child(command, folder, out.fileno(), err.fileno())
        _, status, usage = os.wait4(child, 0)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read(1 << 20).decode("utf-8", "replace"))
    return Outcome(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, *texts)


def _child(command: Sequence[str], folder: Path, out: int, err: int) -> None:
    """Never returns."""
    status = 99
    try:
        from asmgen.tools import cli

        sys.setrecursionlimit(1000)
        os.chdir(folder)
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115  # the process ends here
        resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MEMORY,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (_STOP, _STOP + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.setitimer(signal.ITIMER_REAL, _STOP * _CLOCK)
        try:
            cli.main(list(command))
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 98
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def clock() -> float:
    """Seconds, for progress."""
    return time.monotonic()
