"""`python -m asmgen.tools.tunetables KERNEL --gpu GPU`: time what the choice of variants needs for shapes of current models, and keep it.

The figures stand in kernels/figures/KERNEL-GPU.json with what they were made of (`kernels/figuretables`). What is there and was made by
today's model of today's code objects is not timed again, so the tool goes on where it was stopped; other figures go. At the end it says how
much the choice gains over the best single variant, on the geometric mean of all shapes; with --invariant, what bits that depend on N and K
alone cost.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

import asmgen.kernels.tuned as tuned
from asmgen.isa.timing import GPUS, timing
from asmgen.kernels.figuretables import FigureTable, engine_digest, packaged, path_of, read_table, table_digest, write_table
from asmgen.kernels.products.contract import DEALT
from asmgen.kernels.products.modelshapes import SHAPES
from asmgen.kernels.registry import family as find_family
from asmgen.kernels.soonest import Contest, soonest
from asmgen.tools.terminal.entry import status_of
from asmgen.tuning.candidates import candidates

_BETWEEN = 8
"""So many builds are timed between two writes of the file."""


@click.command()
@click.argument("kernel")
@click.option("--gpu", required=True, type=click.Choice(sorted(GPUS)))
@click.option("--shapes", type=click.IntRange(1, len(SHAPES)), default=len(SHAPES), help="Only so many of them.")
@click.option("--gain", is_flag=True, help="Time nothing; say what the choice gains.")
@click.option("--invariant", is_flag=True, help="Time nothing; say what invariant=true costs.")
def commands(kernel: str, gpu: str, shapes: int, gain: bool, invariant: bool) -> int:
    """Time, keep, and say what the choice gains."""
    chosen = [{"m": m, "n": n, "k": k} for m, n, k in SHAPES[:shapes]]
    if invariant:
        click.echo(_cost(kernel, gpu, chosen))
        return 0
    if not gain:
        _time(kernel, gpu, chosen)
    click.echo(_gain([tuned.contest(kernel, GPUS[gpu], gpu, given, everything=True) for given in chosen]))
    return 0


def _time(kernel: str, gpu: str, chosen: Sequence[Mapping[str, Any]]) -> None:
    """Time what is not in the file yet."""
    arch, path = GPUS[gpu], path_of(kernel, gpu)
    wanted = _wanted(kernel, gpu, chosen)
    held = read_table(path)
    of_today = held.of_today(gpu)
    objects = tuned.objects_of(kernel, arch, gpu, [key for key in wanted if key in held.builds]) if of_today else {}
    found = FigureTable(table_digest(gpu), engine_digest(),
                        {key: one for key, one in held.builds.items() if objects.get(key) == one["object"]
                         and one["problem"] == tuned.typical_problem(find_family(kernel), arch, json.loads(key))})
    missing = [key for key in wanted if key not in found.builds]
    click.echo(f"{len(wanted)} builds, {len(missing)} to time", err=True)
    for first in range(0, len(missing), _BETWEEN):
        some = missing[first:first + _BETWEEN]
        found = replace(found, builds={**found.builds, **dict(tuned.timed_anew(kernel, arch, gpu, some))})
        write_table(path, found)
        click.echo(f"{min(first + _BETWEEN, len(missing))} of {len(missing)}", err=True)
    write_table(path, found)
    packaged.cache_clear()


def _wanted(kernel: str, gpu: str, chosen: Sequence[Mapping[str, Any]]) -> list[str]:
    """The builds that may serve one of the shapes."""
    library, units = find_family(kernel), timing(gpu).clocks("compute_units")
    ways: Sequence[Mapping[str, Any]] = ({},) if library.settled is None else ({}, {"invariant": True})
    keys = {tuned.timed_key(library, one.build): None for given in chosen for way in ways
            for one in candidates(library, GPUS[gpu], {**given, **way}, units)}
    return list(keys)


def _cost(kernel: str, gpu: str, chosen: Sequence[Mapping[str, Any]]) -> str:
    """What the fastest invariant variant takes of the fastest one's time, where that shares K among workgroups or waves, and elsewhere."""
    found: dict[bool, list[tuple[float, str]]] = {True: [], False: []}
    for given in chosen:
        fast, fixed = (tuned.choice(kernel, GPUS[gpu], gpu, one) for one in (given, {**given, "invariant": True}))
        shared = fast.build["split_k"] > 1 or fast.build["schedule"] == DEALT
        found[shared].append((fixed.seconds / fast.seconds, " x ".join(map(str, given.values()))))
    lines = []
    for shared, rows in found.items():
        if rows:
            most, where = max(rows)
            which = "shares" if shared else "does not share"
            mean = sum(ratio for ratio, _ in rows) / len(rows)
            lines.append(f"{len(rows)} shapes whose fastest variant {which} K: invariant=true is predicted to take {mean:.3f} of its time "
                         f"on the mean, {most:.3f} at most ({where})")
    return "\n".join(lines)


def _spelled(build: Mapping[str, Any]) -> str:
    return f"{build['tile']} {build['schedule']}" + (" persistent" if build.get("persistent") else "")


def _gain(asked: Sequence[tuned.Estimated | Contest]) -> str:
    """The geometric mean of the best single variant's time over the choice's, of the shapes that several variants serve: where one does,
    nothing is timed. Of each shape the choice is judged, and with K in one part the variants that serve all shapes, as far as their bounds
    leave room for the best one."""
    contests = [one for one in asked if isinstance(one, Contest)]
    plain = [_plain(one) for one in contests]
    common = sorted(set.intersection(*(set(one) for one in plain))) if plain else []
    if not common:
        return "no variant serves all shapes"
    choices = sum(math.log(one.seconds(one.fastest())) for one in contests)

    def mean(seconds: Callable[[Contest, int], float], name: str) -> float:
        least = (min(seconds(one, number) for number in numbers[name]) for one, numbers in zip(contests, plain, strict=True))
        return math.exp((sum(map(math.log, least)) - choices) / len(contests))

    def judged(number: int) -> float:
        means[number] = mean(lambda one, candidate: one.seconds(candidate), common[number])
        return means[number]

    means: dict[int, float] = {}
    best = soonest(len(common), [lambda number: mean(_bound, common[number])], judged)
    name, ratio = common[best], means[best]
    return f"{len(contests)} shapes: the best single variant, {name}, is predicted to take {ratio:.3f} times as long as the choice"


def _bound(contest: Contest, number: int) -> float:
    return max(contest.dispatch(number), contest.computing(number))


def _plain(contest: Contest) -> dict[str, list[int]]:
    """The numbers of the candidates with K in one part, by the name of their variant."""
    found: dict[str, list[int]] = {}
    for number, one in enumerate(contest.candidates):
        if one.build["split_k"] == 1:
            found.setdefault(_spelled(one.build), []).append(number)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Never returns: exits with the status."""
    sys.exit(status_of(commands, "tunetables", arguments))


if __name__ == "__main__":
    main()
