"""Static proofs that no waves of a library kernel race in LDS: each variant with each single choice of a build parameter.

    python -m tests.library_races [FAMILY ...] [--part I/N]      # a share of the builds; about 2 s of the processor each
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator

from asmgen.checks.raceproofs.raceproof import PROVEN, REFUTED, RaceProof, prove_races
from asmgen.isa.errors import AsmgenError
from asmgen.kernels.registry import family, names
from asmgen.tools.mutate import builds


def proofs(of: str, arch: str, part: int, parts: int) -> Iterator[tuple[str, RaceProof | str]]:
    """Each kernel with LDS of each build of a family: its parameters and the proof, or why there is no such build."""
    library = family(of)
    for number, build in enumerate(builds(library, arch)):
        if number % parts != part:
            continue
        try:
            built = library.build(arch, build, verify=False)
        except AsmgenError as error:
            yield f"{of} {arch} {build}", error.sentence
            continue
        for one in built.launches:
            if one.resources.lds_bytes:
                yield f"{one.resources.name} {build}", prove_races(one.program, one.contract.workgroup, one.resources.lds_bytes)


def main(arguments: list[str]) -> int:
    part, parts = 0, 1
    if "--part" in arguments:
        at = arguments.index("--part")
        part, parts = map(int, arguments[at + 1].split("/"))
        arguments = arguments[:at] + arguments[at + 2:]
    counts: Counter[str] = Counter()
    for of in arguments or names():
        for arch in family(of).archs:
            for title, proof in proofs(of, arch, part, parts):
                status, why = ("not built", proof) if isinstance(proof, str) else (proof.status, proof.reason)
                counts[status] += 1
                if status != PROVEN:
                    print(f"{status}: {title}: {why}", flush=True)
            print(f"{of} {arch}: {dict(counts)} so far", flush=True)
    return min(1, counts[REFUTED] + counts["not built"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
