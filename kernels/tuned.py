"""Ranking the variants of a kernel for a problem by predicted time: `asmgen tune`, and the choice of the tensor functions.

Each variant is built, traced and timed, by some processes at once; `figuretables` has what comes timed with the library. A ranking is kept
in the user's cache folder; its key covers the request and all source that the prediction depends on. A kernel of a user's own file is
ranked anew each time, because what the file loads is not known.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from itertools import compress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO, TYPE_CHECKING, Any

import asmgen
from asmgen.isa.errors import AsmgenError
from asmgen.kernels.figuretables import object_digest, packaged
from asmgen.kernels.soonest import Contest
from asmgen.launch.cache import cache_folder, cached, key_of, read_checked, source_digest, write_checked
from asmgen.tuning.rankedvariant import RankedVariant

if TYPE_CHECKING:
    from asmgen.author.contract.variant import Variant
    from asmgen.author.family.family import Family
    from asmgen.model.estimate import Estimate
    from asmgen.tuning.candidates import Candidate

PREDICTING_ROOMS = ("author", "checks", "codeobject", "emulator", "isa", "kernels", "launch", "model", "program", "reader", "regalloc",
                    "tuning")
"""The rooms whose code determines a prediction."""


_WIDENED = 3
"""Of so many variants, the fastest by themselves, further build parameters are tried where nothing was ranked."""

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
        from asmgen.isa.timing import timing
        from asmgen.kernels.registry import family as find_family
        from asmgen.tuning.candidates import candidates

        serving = candidates(find_family(kernel), arch, given, timing(gpu).clocks("compute_units"))
        jobs = [{"what": "row", "name": kernel, "arch": arch, "gpu": gpu, "given": dict(one.chosen)} for one in serving]
        rows = sorted((RankedVariant(**row) for row in _done(jobs, done)), key=lambda row: row.seconds)
        return _document(Ranking(kernel, arch, gpu, tuple(rows)))

    return _ranking(_kept("ranking", kernel, [arch, gpu, sorted(given.items())], rank))


def choose(kernel: str, arch: str, gpu: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The build parameters of the variant that is predicted the fastest. That is the first of a ranking that is kept for these values. Else
    each variant is timed once in a launch of the family's typical size, and its time for these values follows in milliseconds. Of the
    further build parameters that the family would try, those whose figures come with the library serve too; where none do, those of the
    fastest few variants.

    Without an assembler nothing is timed, and the family's own choice is taken. Raises ContractError where no variant serves.
    """
    return choice(kernel, arch, gpu, given).build


def choice(kernel: str, arch: str, gpu: str, given: Mapping[str, Any]) -> Estimated:
    """What `choose` takes. The seconds are 0 where nothing was timed."""
    found = contest(kernel, arch, gpu, given, everything=False)
    if isinstance(found, Estimated):
        return found
    number = found.fastest()
    return Estimated(found.candidates[number].build, found.seconds(number))


@dataclass(frozen=True)
class Estimated:
    """The build parameters of a variant, the seconds that it is predicted to take, 0 where nothing was asked, and those of each launch."""

    build: Mapping[str, Any]
    seconds: float = 0.0
    launches: tuple[Estimate, ...] = ()


def estimated(kernel: str, arch: str, gpu: str, given: Mapping[str, Any], everything: bool = False) -> list[Estimated]:
    """The variants among which `choose` chooses, the fastest first, from figures of launches of the family's typical size; of `everything`
    that serves, or as `choose` says."""
    found = contest(kernel, arch, gpu, given, everything)
    return [found] if isinstance(found, Estimated) else _sorted(found)


def contest(kernel: str, arch: str, gpu: str, given: Mapping[str, Any], everything: bool = False) -> Estimated | Contest:
    """The variants among which `choose` chooses, or `everything` that serves, not judged yet; or the one that is taken without figures."""
    from asmgen.isa.timing import timing
    from asmgen.kernels.registry import family as find_family
    from asmgen.toolchain import ToolError
    from asmgen.tuning.candidates import candidates

    library = find_family(kernel)
    serving = candidates(library, arch, given, timing(gpu).clocks("compute_units"))
    ranking = None if everything else read_checked(_path("ranking", kernel, [arch, gpu, sorted(given.items())]))
    if ranking is not None:
        chosen = _ranking(ranking).rows[0].parameters
        return Estimated(next(one.build for one in serving if one.chosen == chosen))
    serving = _worthwhile(library, arch, serving)
    plain = _worthwhile(library, arch, candidates(library, arch, given))
    if len(serving) == 1 or not library.typical or _is_last_resort(library.select(arch, plain[0].build)):
        return Estimated(plain[0].build)
    try:
        known, tried = of_library(kernel, gpu), [one.build for one in plain]
        more = [one for one in serving if one.build not in tried]
        if known and not everything:
            more = [one for one in more if timed_key(library, one.build) in known]
        elif not everything:
            best = [library.select(arch, one.build) for one in _sorted(_with_figures(kernel, library, arch, gpu, plain))[:_WIDENED]]
            more = [one for one in more if any(library.select(arch, one.build) is variant for variant in best)]
        return _with_figures(kernel, library, arch, gpu, [*plain, *more])
    except ToolError:
        return Estimated(plain[0].build)


def _with_figures(kernel: str, library: Family, arch: str, gpu: str, some: Sequence[Candidate]) -> Contest:
    """Candidates with what was timed of them. Raises as `_figures` does."""
    from asmgen.isa.timing import timing
    from asmgen.tuning.figures import restored_figures

    keys, table = [timed_key(library, one.build) for one in some], timing(gpu)
    figures = _figures(kernel, arch, gpu, tuple(keys))
    return Contest(library, arch, table, some, [[restored_figures(each, table) for each in figures[key]] for key in keys])


def _sorted(judge: Contest) -> list[Estimated]:
    found = []
    for number, one in enumerate(judge.candidates):
        estimates = judge.estimates(number)
        found.append(Estimated(one.build, sum(estimate.seconds for estimate in estimates), estimates))
    return sorted(found, key=lambda one: one.seconds)


def timed_key(library: Family, build: Mapping[str, Any]) -> str:
    """The build whose figures stand for a build's, as a key."""
    return _build_key(build if library.timed_as is None else library.timed_as(build))


def _worthwhile(library: Family, arch: str, serving: Sequence[Candidate]) -> list[Candidate]:
    """The candidates without those that have more rows than the problem, where one of fewer rows serves too, and without a last resort
    where anything else serves, whichever is declared first.

    A variant says by `worth_from` from how many rows on it is worth its work. Its figures are those of a launch of all its rows; what loads
    of rows that are not there cost does not show in them."""
    variants = [library.select(arch, one.build) for one in serving]
    usual = [not _is_last_resort(variant) for variant in variants]
    if any(usual):
        serving, variants = list(compress(serving, usual)), list(compress(variants, usual))

    def is_worth(one: Candidate, variant: Variant) -> bool:
        return bool(one.parameters.get("m", math.inf) >= dict(variant.further).get("worth_from", 0))

    fewest = min((variant.tile[:1] for one, variant in zip(serving, variants, strict=True) if is_worth(one, variant)), default=())
    return [one for one, variant in zip(serving, variants, strict=True) if is_worth(one, variant) or variant.tile[:1] <= fewest]


def _is_last_resort(variant: Variant) -> bool:
    return bool(dict(variant.further).get("last_resort"))


@cache
def _figures(kernel: str, arch: str, gpu: str, builds: tuple[str, ...]) -> dict[str, Any]:
    """What was timed once of builds, by their parameters: what this source timed here, or what comes with the library. Raises ToolError
    where neither has one, and there is no assembler."""
    found = _kept_figures(kernel, arch, gpu, builds)
    found = {build: figures for build, figures in of_library(kernel, gpu).items() if build in builds} | found
    missing = [build for build in builds if build not in found]
    return found | {key: one["figures"] for key, one in timed_anew(kernel, arch, gpu, missing)}


@cache
def of_library(kernel: str, gpu: str) -> dict[str, Any]:
    """The figures that come with the library, by build, but for those that today's model cannot read: another one may have other fields,
    or have timed a launch of other sizes."""
    from asmgen.isa.timing import timing
    from asmgen.kernels.registry import family as find_family
    from asmgen.tuning.figures import restored_figures

    found = {}
    for build, one in packaged(kernel, gpu).builds.items():
        with suppress(TypeError, KeyError, ValueError, AttributeError, AsmgenError):
            if one["problem"] == typical_problem(find_family(kernel), _arch_of(gpu), json.loads(build)):
                found[build] = [figures for figures in one["figures"] if restored_figures(figures, timing(gpu))]
    return found


def typical_problem(library: Family, arch: str, build: Mapping[str, Any]) -> dict[str, Any]:
    """The sizes of the launch by whose figures a build is judged. Raises ContractError where there is no such build."""
    return library.typical_for(library.contract(arch, build))


def _kept_figures(kernel: str, arch: str, gpu: str, builds: Sequence[str]) -> dict[str, Any]:
    """What this source timed here before."""
    kept = {build: read_checked(_path("figures", kernel, [arch, gpu, build])) for build in builds}
    return {build: json.loads(data) for build, data in kept.items() if data is not None}


def timed_anew(kernel: str, arch: str, gpu: str, builds: Sequence[str], done: Progress = _unheard) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each build as it gets ready: its key, and {"object": the digest of what was timed, "problem": the launch's sizes, "figures": of each
    launch}. Raises ToolError where there is no assembler."""
    from asmgen.toolchain import find_toolchain

    if not builds:
        return
    find_toolchain()
    jobs = [{"what": "figures", "name": kernel, "arch": arch, "gpu": gpu, "build": json.loads(build)} for build in builds]
    for ready in _done(jobs, done):
        with suppress(OSError):  # read-only or full: it is timed again next time
            write_checked(_path("figures", kernel, [arch, gpu, ready["key"]]), json.dumps(ready["figures"]).encode())
        yield ready["key"], {name: ready[name] for name in ("object", "problem", "figures")}


def objects_of(kernel: str, arch: str, gpu: str, builds: Sequence[str]) -> dict[str, str]:
    """The digests of the code objects of builds as they are today."""
    jobs = [{"what": "object", "name": kernel, "arch": arch, "gpu": gpu, "build": json.loads(build)} for build in builds]
    return {one["key"]: one["object"] for one in _done(jobs, _unheard)} if jobs else {}


def _build_key(build: Mapping[str, Any]) -> str:
    return json.dumps(dict(build), sort_keys=True)


def _path(what: str, kernel: str, request: Any) -> Path:
    return cache_folder() / "tuned" / f"{kernel}-{key_of(what, json.dumps(request), source_digest(PREDICTING_ROOMS))}.json"


def _kept(what: str, kernel: str, request: Any, make: Callable[[], bytes]) -> bytes:
    if kernel.rpartition(":")[0].endswith(".py"):  # a user's file
        return make()
    return cached(_path(what, kernel, request), make)


def _document(found: Ranking) -> bytes:
    return json.dumps({"kernel": found.kernel, "arch": found.arch, "gpu": found.gpu, "rows": [row.stored() for row in found.rows]}).encode()


def _ranking(data: bytes) -> Ranking:
    found = json.loads(data)
    return Ranking(found["kernel"], found["arch"], found["gpu"], tuple(RankedVariant(**row) for row in found["rows"]))


def _arch_of(gpu: str | None) -> str:
    from asmgen.isa.timing import GPUS

    return GPUS.get(gpu or "", "")


def _done(jobs: Sequence[Mapping[str, Any]], done: Progress) -> Iterator[dict[str, Any]]:
    """What comes of each job, in the order in which they get ready. The processes are ended where the caller stops."""
    workers = min(len(jobs), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    if workers == 1:
        for ready, job in enumerate(jobs, 1):
            yield _answer(job)
            done(ready, len(jobs))
        return
    todo = list(jobs)[::-1]
    results: SimpleQueue[dict[str, Any]] = SimpleQueue()
    with ExitStack() as stack:
        for _ in range(workers):
            Thread(target=stack.enter_context(_Worker()).serve, args=(todo, results), daemon=True).start()
        for ready in range(1, len(jobs) + 1):
            found = results.get()
            if "error" in found:
                raise AsmgenError(found["error"])
            yield found
            done(ready, len(jobs))


class _Worker:
    """A process that does one job after the other. It is a program of its own: a fork of a process that uses a GPU, or that has threads,
    may stand still, and multiprocessing's other ways run the user's script once more."""

    def __init__(self) -> None:
        path = os.pathsep.join([str(Path(asmgen.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen([sys.executable, "-m", "asmgen.kernels.tuned"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, start_new_session=True, env=os.environ | {"PYTHONPATH": path})

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def serve(self, todo: list[Mapping[str, Any]], results: SimpleQueue[dict[str, Any]]) -> None:
        """Take jobs from `todo`, until there are none, and put what comes of each, or {"error": sentence}, into `results`."""
        assert self.process.stdin is not None and self.process.stdout is not None
        while True:
            try:
                job = todo.pop()
            except IndexError:
                return
            try:
                self.process.stdin.write(json.dumps(dict(job)) + "\n")
                self.process.stdin.flush()
                line = self.process.stdout.readline()
            except (OSError, ValueError):
                line = ""
            try:
                results.put(json.loads(line))
            except ValueError:
                results.put({"error": f"the process that times {job['name']} has ended with status {self.process.poll()}"})


def _answer(job: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a variant that serves given values alone, a build's code object, or its figures in a launch of the typical size."""
    from asmgen.isa.timing import timing
    from asmgen.kernels.registry import family as find_family
    from asmgen.tuning.candidates import Candidate, candidates
    from asmgen.tuning.figures import figures_of, stored_figures
    from asmgen.tuning.ranked import assembled, predict_candidate

    library, arch, table = find_family(job["name"]), job["arch"], timing(job["gpu"])
    if job["what"] == "row":
        (candidate,) = candidates(library, arch, job["given"])
        return predict_candidate(library, arch, table, candidate).stored()
    build = job["build"]
    made = assembled(library, arch, build)
    known = {"key": _build_key(build), "object": object_digest(made[1])}
    if job["what"] == "object":
        return known
    problem = typical_problem(library, arch, build)
    typical = library.contract(arch, build).resolve_run({**build, **problem})
    found = figures_of(library, arch, table, Candidate(typical, build, build), made)
    return known | {"problem": problem, "figures": [stored_figures(one) for one in found]}


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
