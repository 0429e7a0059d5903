"""`python -m asmgen.tools.tunetables KERNEL --gpu GPU`: time what the choice of variants needs for shapes of current models, and keep it.

The figures stand in kernels/figures/KERNEL-GPU.json with the digest of the source that made them; the tensor functions take them where
the source is the same and the user's cache has none. What was timed by the same source is not timed again, so the tool goes on where it
was stopped. At the end it prints how much the choice gains over the best single variant, on the geometric mean of all shapes.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

import asmgen.kernels.tuned as tuned
from asmgen.isa.errors import AsmgenError
from asmgen.isa.timing import GPUS
from asmgen.kernels.products.modelshapes import SHAPES
from asmgen.kernels.registry import family as find_family
from asmgen.tools.entry import status_of

_FOLDER = Path(tuned.__file__).resolve().parent / "figures"


@click.command()
@click.argument("kernel")
@click.option("--gpu", required=True, type=click.Choice(sorted(GPUS)))
@click.option("--shapes", type=int, default=len(SHAPES), help="Only so many of them.")
def commands(kernel: str, gpu: str, shapes: int) -> int:
    """Time, keep, and say what the choice gains."""
    arch, path = GPUS[gpu], _FOLDER / f"{kernel}-{gpu}.json"
    held = _held(path)
    library = find_family(kernel)
    rows: list[list[tuned.Estimated]] = []
    for number, (m, n, k) in enumerate(SHAPES[:shapes], 1):
        given = {"m": m, "n": n, "k": k}
        try:
            found = tuned.estimated(kernel, arch, gpu, given)
        except AsmgenError as error:
            click.echo(f"{m} x {n} x {k}: {error}", err=True)
            continue
        rows.append(found)
        keys = {tuned.timed_key(library, one.build) for one in found}
        held["figures"] |= tuned.figures_by_build(kernel, arch, gpu, tuple(sorted(keys)))
        _FOLDER.mkdir(exist_ok=True)
        path.write_text(json.dumps(held, sort_keys=True, indent=0) + "\n")
        click.echo(f"{number} of {shapes}: {m} x {n} x {k}: {_spelled(found[0])}, {found[0].seconds * 1e6:.1f} us", err=True)
    click.echo(_gain(rows))
    return 0


def _held(path: Path) -> dict[str, Any]:
    """What the same source timed before."""
    known = json.loads(path.read_text()) if path.is_file() else {}
    digest = tuned.model_digest()
    return {"model": digest, "figures": known["figures"] if known.get("model") == digest else {}}


def _spelled(one: tuned.Estimated) -> str:
    build = one.build
    return f"{build['tile']} {build['schedule']}" + (f" split_k={build['split_k']}" if build["split_k"] > 1 else "")


def _gain(rows: Sequence[Sequence[tuned.Estimated]]) -> str:
    """The geometric mean of the best single variant's time over the choice's."""
    plain = [{_spelled(one): one.seconds for one in row if one.build["split_k"] == 1} for row in rows]
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
