"""Ranking the variants of a kernel for a problem by predicted time: `asmgen tune`, and the choice of the tensor functions.

Each variant is built, traced and timed, by some processes at once. A ranking is kept in the user's cache folder; its key covers the request
and all source that the prediction depends on. A kernel of a user's own file is ranked anew each time, because what the file loads is not
known.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO, TYPE_CHECKING, Any

import asmgen
from asmgen.isa.errors import AsmgenError
from asmgen.launch.cache import cache_folder, cached, key_of, source_digest
from asmgen.tuning.rankedvariant import RankedVariant

if TYPE_CHECKING:
    from asmgen.tuning.candidates import Candidate

_ROOMS = ("author", "checks", "codeobject", "emulator", "isa", "kernels", "launch", "model", "program", "reader", "regalloc", "tuning")
"""The rooms whose code determines a prediction."""


Progress = Callable[[int, int], None]
"""Hears how many variants are ready, of how many."""


def _unheard(ready: int, of: int) -> None:
    pass


@dataclass(frozen=True)
class Ranking:
    """The variants that serve a problem, the fastest first, on a GPU of an architecture."""

    kernel: str
    arch: str
    gpu: str
    rows: tuple[RankedVariant, ...]


def tune_request(kernel: str, arch: str | None, gpu: str | None, texts: Sequence[str], done: Progress = _unheard) -> Ranking:
    """The ranking for a request of the command line: `texts` are NAME=VALUE. A request that was made before loads no kernel.

    Raises AsmgenError for a request that no variant serves, and what building, tracing and timing raise.
    """
    def rank() -> bytes:
        from asmgen.isa.timing import gpu_of
        from asmgen.kernels.registry import family as find_family

        library = find_family(kernel)
        chosen = library.check_arch(arch or _arch_of(gpu))
        return _document(tune(kernel, chosen, gpu_of(chosen, gpu), library.parse(chosen, texts), done))

    return _ranking(_kept("request", kernel, [arch, gpu, *texts], rank))


def tune(kernel: str, arch: str, gpu: str, given: Mapping[str, Any], done: Progress = _unheard) -> Ranking:
    """The ranking for values of build and run parameters. Raises as `tune_request` does."""
    def rank() -> bytes:
        from asmgen.kernels.registry import family as find_family
        from asmgen.tuning.candidates import candidates

        serving = candidates(find_family(kernel), arch, given)
        rows = sorted(_predicted(kernel, arch, gpu, serving, done), key=lambda row: row.seconds)
        return _document(Ranking(kernel, arch, gpu, tuple(rows)))

    return _ranking(_kept("ranking", kernel, [arch, gpu, sorted(given.items())], rank))


def _kept(what: str, kernel: str, request: Any, make: Callable[[], bytes]) -> bytes:
    if kernel.rpartition(":")[0].endswith(".py"):  # a user's file
        return make()
    return cached(cache_folder() / "tuned" / f"{kernel}-{key_of(what, json.dumps(request), source_digest(_ROOMS))}.json", make)


def _document(found: Ranking) -> bytes:
    return json.dumps({"kernel": found.kernel, "arch": found.arch, "gpu": found.gpu, "rows": [row.stored() for row in found.rows]}).encode()


def _ranking(data: bytes) -> Ranking:
    found = json.loads(data)
    return Ranking(found["kernel"], found["arch"], found["gpu"], tuple(RankedVariant(**row) for row in found["rows"]))


def _arch_of(gpu: str | None) -> str:
    from asmgen.isa.timing import GPUS

    return GPUS.get(gpu or "", "")


def _predicted(name: str, arch: str, gpu: str, serving: Sequence[Candidate], done: Callable[[int, int], None]) -> Iterator[RankedVariant]:
    """A row for each candidate, in the order in which they get ready. The processes are ended where the caller stops."""
    workers = min(len(serving), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    if workers == 1:
        for ready, candidate in enumerate(serving, 1):
            yield RankedVariant(**_answer({"name": name, "arch": arch, "gpu": gpu, "given": dict(candidate.chosen)}))
            done(ready, len(serving))
        return
    todo = list(range(len(serving)))[::-1]
    results: SimpleQueue[dict[str, Any]] = SimpleQueue()
    with ExitStack() as stack:
        for _ in range(workers):
            worker = stack.enter_context(_Worker(name, arch, gpu, serving))
            Thread(target=worker.serve, args=(todo, results), daemon=True).start()
        for ready in range(1, len(serving) + 1):
            found = results.get()
            if "error" in found:
                raise AsmgenError(found["error"])
            yield RankedVariant(**found)
            done(ready, len(serving))


class _Worker:
    """A process that predicts one candidate after the other. It is a program of its own: a fork of a process that uses a GPU, or that has
    threads, may stand still, and multiprocessing's other ways run the user's script once more."""

    def __init__(self, name: str, arch: str, gpu: str, serving: Sequence[Candidate]) -> None:
        self.request = {"name": name, "arch": arch, "gpu": gpu}
        self.serving = serving
        path = os.pathsep.join([str(Path(asmgen.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen([sys.executable, "-m", "asmgen.kernels.tuned"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, start_new_session=True, env=os.environ | {"PYTHONPATH": path})

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def serve(self, todo: list[int], results: SimpleQueue[dict[str, Any]]) -> None:
        """Take candidates from `todo`, until there are none, and put a row or {"error": sentence} for each into `results`."""
        assert self.process.stdin is not None and self.process.stdout is not None
        while True:
            try:
                candidate = self.serving[todo.pop()]
            except IndexError:
                return
            try:
                self.process.stdin.write(json.dumps({**self.request, "given": dict(candidate.chosen)}) + "\n")
                self.process.stdin.flush()
                line = self.process.stdout.readline()
            except (OSError, ValueError):
                line = ""
            try:
                results.put(json.loads(line))
            except ValueError:
                results.put({"error": f"the process that times {self.request['name']} has ended with status {self.process.poll()}"})


def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    from asmgen.isa.timing import timing
    from asmgen.kernels.registry import family as find_family
    from asmgen.tuning.candidates import candidates
    from asmgen.tuning.ranked import predict_candidate

    library = find_family(request["name"])
    (candidate,) = candidates(library, request["arch"], request["given"])
    return predict_candidate(library, request["arch"], timing(request["gpu"]), candidate).stored()


def answer(requests: IO[str], replies: IO[str]) -> None:
    """What a worker does: a line of JSON for each line of JSON."""
    for line in requests:
        try:
            found = _answer(json.loads(line))
        except AsmgenError as error:
            found = {"error": str(error)}
        replies.write(json.dumps(found) + "\n")
        replies.flush()


if __name__ == "__main__":
    answer(sys.stdin, sys.stdout)
