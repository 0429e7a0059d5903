"""The choice of a product's variant beside the best it has: `python -m benchmarks.choice_rule [KERNEL] [GPU] [SHAPES] [SEED]`.

The rule: by whole predictions, which `asmgen tune` makes, the choice takes at most NEAR times as long as the best variant. The choice is
made by quick figures; the few that are the fastest by these are predicted whole here. SHAPES is how many of `modelshapes.SHAPES` are
judged, the first ones, or with a SEED drawn ones; or the shapes themselves, as 64x8192x8192,16x4096x4096.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from asmgen.isa.timing import GPUS, timing
from asmgen.kernels.products.modelshapes import SHAPES
from asmgen.kernels.registry import family
from asmgen.kernels.tuned import Estimated, contest
from asmgen.tuning.prediction import predict
from asmgen.tuning.ranked import trace_candidate
from benchmarks.few_rows import named

NEAR = 1.02
FASTEST = 5
"""So many, the fastest by quick figures, are predicted whole. The best of all may be another one."""

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Judged:
    """A variant that may be the best: seconds by quick figures and by a whole prediction."""

    build: str
    quick: float
    whole: float


def judged(kernel: str, gpu: str, shape: Shape) -> list[Judged]:
    """The fastest few by quick figures, the choice first. One alone where nothing is compared."""
    library, arch, table = family(kernel), GPUS[gpu], timing(gpu)
    found = contest(kernel, arch, gpu, dict(zip("mnk", shape, strict=True)))
    if isinstance(found, Estimated):
        return [Judged(named(found.build), found.seconds, found.seconds)]
    quick = [found.seconds(number) for number in range(len(found.candidates))]
    first = sorted(range(len(quick)), key=quick.__getitem__)[:FASTEST]
    assert found.fastest() == first[0]
    rows = []
    for number in first:
        candidate = found.candidates[number]
        whole = sum(predict(one, table, "grid", 1).estimate.seconds for one in trace_candidate(library, arch, candidate))
        rows.append(Judged(named(candidate.build), quick[number], whole))
    return rows


def shapes_of(text: str, seed: str = "") -> Sequence[Shape]:
    """The shapes that SHAPES and SEED name."""
    if "x" in text:
        m_n_k = [tuple(map(int, one.split("x"))) for one in text.split(",")]
        return [(m, n, k) for m, n, k in m_n_k]
    return Random(seed).sample(SHAPES, int(text)) if seed else SHAPES[:int(text)]


def main(kernel: str = "gemm-bf16", gpu: str = "MI355X", shapes: str = str(len(SHAPES)), seed: str = "") -> None:
    """Print the choice and the best of each shape as it is judged, and how many miss the rule."""
    ratios = []
    print("M x N x K              choice/best   quick us  whole us   choice, and the best where it is another")
    for shape in shapes_of(shapes, seed):
        rows = judged(kernel, gpu, shape)
        choice, best = rows[0], min(rows, key=lambda row: row.whole)
        ratios.append(choice.whole / best.whole if len(rows) > 1 else 1.0)
        for row in [choice, best][:1 + (best is not choice)]:
            first = f"{' x '.join(map(str, shape)):22} {ratios[-1]:11.3f}" if row is choice else " " * 34
            print(f"{first} {row.quick * 1e6:10.2f} {row.whole * 1e6:9.2f}   {row.build}", flush=True)
    missed = sum(ratio > NEAR for ratio in ratios)
    print(f"{missed} of {len(ratios)} choices take more than {NEAR} of the best of the {FASTEST} fastest by quick figures, "
          f"at most {max(ratios):.3f}; all predicted")


if __name__ == "__main__":
    main(*sys.argv[1:])
