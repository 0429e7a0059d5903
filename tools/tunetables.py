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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

import asmgen.kernels.tuned as tuned
from asmgen.isa.timing import GPUS, timing
from asmgen.kernels.figuretables import FigureTable, engine_digest, packaged, path_of, read_table, table_digest, write_table
from asmgen.kernels.products.contract import DEALT
from asmgen.kernels.products.modelshapes import SHAPES
from asmgen.kernels.registry import family as find_family
from asmgen.tools.terminal.entry import status_of
from asmgen.tuning.candidates import candidates

_BETWEEN = 8
"""So many builds are timed between two writes of the file."""


@click.command()
@click.argument("kernel")
@click.option("--gpu", required=True, type=click.Choice(sorted(GPUS)))
@click.option("--shapes", type=int, default=len(SHAPES), help="Only so many of them.")
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
    click.echo(_gain([tuned.estimated(kernel, GPUS[gpu], gpu, given, everything=True) for given in chosen]))
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
        fast, fixed = (tuned.estimated(kernel, GPUS[gpu], gpu, one)[0] for one in (given, {**given, "invariant": True}))
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


def _spelled(one: tuned.Estimated) -> str:
    build = one.build
    return f"{build['tile']} {build['schedule']}" + (f" split_k={build['split_k']}" if build["split_k"] > 1 else "") + (
        " persistent" if build.get("persistent") else "")


def _gain(rows: Sequence[Sequence[tuned.Estimated]]) -> str:
    """The geometric mean of the best single variant's time over the choice's, of the shapes that several variants serve: where one does,
    nothing is timed."""
    rows = [row for row in rows if row[0].seconds]
    plain = [{_spelled(one): one.seconds for one in row[::-1] if one.build["split_k"] == 1} for row in rows]
    common = set.intersection(*(set(one) for one in plain)) if plain else set()
    if not common:
        return "no variant serves all shapes"

    def ratio(name: str) -> float:
        return math.exp(sum(math.log(one[name] / row[0].seconds) for one, row in zip(plain, rows, strict=True)) / len(rows))

    best = min(common, key=ratio)
    return f"{len(rows)} shapes: the best single variant, {best}, is predicted to take {ratio(best):.3f} times as long as the choice"


def main(arguments: Sequence[str] | None = None) -> None:
    """Never returns: exits with the status."""
    sys.exit(status_of(commands, "tunetables", arguments))


if __name__ == "__main__":
    main()
