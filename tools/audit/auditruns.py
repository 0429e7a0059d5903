"""`asmgen audit`: many code objects judged by several processes, with progress; one that fails or is killed stops no other."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from multiprocessing import active_children

from asmgen.interrupts import unwatched
from asmgen.tools.audit.auditfiles import FoundObject, FoundObjects
from asmgen.tools.audit.objectaudit import ENDED, AuditedObject, audit_object, failed

_REFRESH = 0.2  # seconds
_AHEAD = 3  # objects in memory for each process
_Numbered = tuple[int, FoundObject]


def audit_all(objects: FoundObjects, jobs: int, limit: float = 0.0) -> list[AuditedObject]:
    """Every code object in the order in which it is found, each within `limit` seconds (0: as long as it takes). Ctrl-C ends the
    processes before it goes on up."""
    audit = _Audit(objects, jobs, limit)
    try:
        audit.run()
    finally:
        audit.progress.end()
    return [audit.judged[number] for number in sorted(audit.judged)]


class _Audit:
    """One audit: what is judged so far, by the number of the object."""

    def __init__(self, objects: FoundObjects, jobs: int, limit: float) -> None:
        self._objects, self._jobs, self._limit = objects, jobs, limit
        self.judged: dict[int, AuditedObject] = {}
        self.progress = _Progress(objects)

    def run(self) -> None:
        """A process that is killed takes all that its pool has in hand: each of these objects then gets a pool of its own."""
        numbered = enumerate(self._objects)
        while lost := self._pooled(numbered, self._jobs):
            for number, found in lost:
                for _ in self._pooled(iter([(number, found)]), 1):
                    self._take(number, failed(found, ENDED, "the process that read it was killed"))

    def _pooled(self, numbered: Iterator[_Numbered], jobs: int) -> list[_Numbered]:
        """Judge what comes until nothing is left or a process was killed; what it took along."""
        working: dict[Future[AuditedObject], _Numbered] = {}
        lost: list[_Numbered] = []
        with ProcessPoolExecutor(jobs, initializer=unwatched, initargs=(os.getpid(),)) as pool:
            try:
                for number, found in numbered:
                    try:
                        working[pool.submit(audit_object, found, self._limit)] = number, found
                    except BrokenExecutor:
                        lost.append((number, found))
                    while len(working) >= _AHEAD * jobs:
                        lost += self._collected(working)
                    if lost:
                        break
                while working:
                    lost += self._collected(working)
            except BaseException:  # Ctrl-C too: nobody waits for the others
                for worker in active_children():
                    worker.kill()
                    worker.join()
                raise
        return lost

    def _collected(self, working: dict[Future[AuditedObject], _Numbered]) -> list[_Numbered]:
        """Wait for some; those that a killed process took along."""
        lost = []
        for done in wait(working, return_when=FIRST_COMPLETED).done:
            number, found = working.pop(done)
            try:
                self._take(number, done.result())
            except BrokenExecutor:
                lost.append((number, found))
        return lost

    def _take(self, number: int, audited: AuditedObject) -> None:
        self.judged[number] = audited
        self.progress.count(audited)


class _Progress:
    """One line on a terminal's stderr, written over at most some times a second; nothing elsewhere."""

    def __init__(self, objects: FoundObjects) -> None:
        self._objects = objects
        self._judged, self._instructions, self._errors = 0, 0, 0
        self._shown = time.monotonic()
        self._on = sys.stderr.isatty()

    def count(self, audited: AuditedObject) -> None:
        """Another code object."""
        self._judged += 1
        self._instructions += audited.instructions
        self._errors += sum(finding.severity == "error" for kernel in audited.kernels for finding in kernel.findings)
        now = time.monotonic()
        if self._on and now - self._shown >= _REFRESH:
            self._shown = now
            sys.stderr.write(f"\r{self._objects.read} of {self._objects.files} files, {self._judged} code objects, {self._instructions:,} "
                             f"instructions, {self._errors} errors\x1b[K")
            sys.stderr.flush()

    def end(self) -> None:
        """Take the line away."""
        if self._on:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
