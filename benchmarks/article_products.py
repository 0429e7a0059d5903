"""The six products of article 001 (docs/facts/blockscales.md section 5) by form of kernel: `python -m benchmarks.article_products`.

A of bf16 is quantised in the kernel, B and its scales are shuffled. Of each form the build is shown that is predicted to be the fastest
one on MI355X, with the parts of K that share a tile. The article's times are measured, with A's quantisation and with the host; ours are
predicted times of the device, from the first launch's begin to the last one's end.
"""

from __future__ import annotations

from collections.abc import Sequence

from asmgen.isa.timing import timing
from asmgen.kernels.registry import family
from asmgen.tuning.candidates import Candidate, candidates
from asmgen.tuning.ranked import predict_candidate

SHAPES = (((4, 2880, 512), 8.20), ((16, 2112, 7168), 20.87), ((32, 4096, 512), 9.46), ((32, 2880, 512), 9.87), ((64, 7168, 2048), 12.74),
          ((256, 3072, 1536), 12.22))
"""M, N, K and the microseconds that AITER takes in the article, those of 32 x 2880 x 512 with M = 64."""
FORMS = ("whole-k", "basic", "streamed", "blocked", "interleave")
OPERANDS = {"a_dtype": "bf16", "b_dtype": "fp4", "b_order": "shuffled", "scale_order": "shuffled"}
ARCH, GPU = "gfx950", "MI355X"


def form_of(candidate: Candidate) -> str:
    """The schedule of a build, and whether several workgroups share a tile."""
    return str(candidate.build["schedule"]) + (" split-K" if candidate.build["split_k"] > 1 else "")


def best_of_forms(shape: Sequence[int], forms: Sequence[str] = FORMS) -> dict[str, tuple[float, str]]:
    """By form, the predicted microseconds of its fastest build, and that build."""
    library, table = family("gemm-mx"), timing(GPU)
    found: dict[str, tuple[float, str]] = {}
    for one in candidates(library, ARCH, {**OPERANDS, **dict(zip("mnk", shape, strict=True))}, table.clocks("compute_units")):
        form = form_of(one)
        if form.partition(" ")[0] in forms:
            row = predict_candidate(library, ARCH, table, one)
            made = f"{one.build['tile']}, {one.build['split_k']} parts"
            found[form] = min(found.get(form, (float("inf"), "")), (row.seconds * 1e6, made))
    return found


def main(shapes: int = len(SHAPES)) -> None:
    """Print the table of the first so many shapes."""
    print("M, N, K              form                 predicted us   build                  article, measured with the host, us")
    for shape, measured in SHAPES[:shapes]:
        for form, (predicted, build) in sorted(best_of_forms(shape).items(), key=lambda row: row[1]):
            print(f"{shape!s:20} {form:20} {predicted:12.2f}   {build:22} {measured:6.2f}", flush=True)


if __name__ == "__main__":
    main()
