"""`python -m tests.fuzz N [FIRST [SEED]]`: N damaged inputs, each in a fork; prints those that end otherwise than they should. 1 if any.

What is not damaged must end with 0. A process that holds much forks slowly, so tests run this one.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main(arguments: list[str]) -> int:
    """Runs the inputs number FIRST to FIRST + N - 1."""
    from tests.fuzz import server
    from tests.fuzz.cases import Cases

    sys.setrecursionlimit(20_000)  # of what makes the inputs, not of asmgen: the server sets it back
    if not 1 <= len(arguments) <= 3 or not all(argument.isdigit() for argument in arguments):
        print("usage: python -m tests.fuzz N [FIRST [SEED]]", file=sys.stderr)
        return 2
    count, first, seed = (int(argument) for argument in (*arguments, *("0", "0")[len(arguments) - 1:]))
    ends: Counter[str] = Counter()
    faults, slowest = 0, (0.0, -1)
    with tempfile.TemporaryDirectory() as name:
        cases = Cases(Path(name))
        server.warm(list(cases.whole()), Path(name))
        for command in cases.whole():
            outcome = server.call(command, Path(name))
            if (outcome.status, outcome.fault) != (0, ""):
                faults += 1
                print(f"what is whole, {' '.join(command)}: {outcome.status} {outcome.fault}\n    {outcome.err[-600:]!r}", flush=True)
        began = server.clock()
        for number in range(first, first + count):
            case = cases.case(number, seed)
            cases.restore()
            (Path(name) / case.file).write_bytes(case.data)
            outcome = server.call(case.command, Path(name))
            ends[f"{case.kind}: {case.command[0]} {outcome.status}"] += 1
            slowest = max(slowest, (outcome.seconds, number))
            if outcome.fault:
                faults += 1
                print(f"input {number} of seed {seed}, {' '.join(case.command)}: {outcome.fault}\n    {outcome.err[-600:]!r}", flush=True)
            if (number + 1) % 500 == 0:
                print(f"... {number + 1} after {server.clock() - began:.0f} s", file=sys.stderr, flush=True)
    for end, times in sorted(ends.items()):
        print(f"{times:8d}  {end}")
    print(f"{count} inputs, {faults} faults; the slowest, number {slowest[1]}, took {slowest[0]:.1f} s of the processor")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
