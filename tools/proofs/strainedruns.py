"""Runs on floats for what exact algebra does not see: a maximum or a mean that cancels, what NaN and infinities do.

exp(x - m) / sum exp(x - m) is one number for each m: a kernel that drops or misreads its maximum equals the reference and overflows. So a
launch of many rows runs on data that a wrong maximum or mean ruins (`strained` of author.contract.problem), and on such with NaN and
infinities; each result must be within the family's bound of its float64 reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from asmgen.author.contract.contract import KernelContract, Values
from asmgen.author.contract.problem import FIRST_STRAINED
from asmgen.author.family.family import Family
from asmgen.emulator.scheduling.run import UNWRITTEN, Options
from asmgen.isa.errors import AsmgenError
from asmgen.program.program import Program
from asmgen.tools.proofs.proofclasses import given_launches
from asmgen.tools.running.build import Built
from asmgen.tools.running.runner import RunReport, run_kernel

T = TypeVar("T")
SEEDS = (FIRST_STRAINED + 1, FIRST_STRAINED, 0)
"""Of data: finite, with NaN and infinities, ordinary with these."""
_GROUPS, _INSTRUCTIONS, _BYTES = 256, 200_000, 1 << 22
"""What the launch of many rows has at most: workgroups, wave instructions and bytes of arguments."""


def strained_launches(family: Family, built: Built, program: Program | None) -> Iterator[tuple[Mapping[str, Any], int, str]]:
    """(parameters, seed, what is wrong or "") of each run: those of many rows first, then small ones."""
    contract, build = built.kernel.contract, built.kernel.parameters
    given = given_launches(contract, build)[:2]
    values = [contract.resolve_run({**build, **launch}) for launch in given]
    for seed in SEEDS:
        report, wrong = _judged(family, built, values[0], seed, program)
        yield values[0], seed, wrong
        if seed == SEEDS[0] and report is not None:
            larger = _of_many_rows(contract, build, given[0], _times(family, values[0], report))
            if larger is not None:
                values.insert(1, contract.resolve_run({**build, **larger}))
    for launch in values[1:]:
        for seed in SEEDS[:2]:
            yield launch, seed, _judged(family, built, launch, seed, program)[1]


def strained_again(family: Family, built: Built, program: Program | None,
                   launches: Sequence[Values]) -> Iterator[tuple[Mapping[str, Any], int, str]]:
    """As `strained_launches`, of launches with these parameters, each with data of its own."""
    for number, values in enumerate(launches):
        seed = FIRST_STRAINED + 3 + 2 * number
        yield values, seed, _judged(family, built, values, seed, program)[1]


def on_floats(family: Family, built: Built, program: Program | None, values: Values, seed: int,
              preload: bool = True) -> tuple[tuple[int, ...], str]:
    """How often an ordinary launch executes what, which takes a fraction of what algebra does; and what is wrong, or "". Without `preload`
    on firmware that leaves arguments in memory."""
    report, wrong = _judged(family, built, values, seed, program, preload)
    return (report.counts if report is not None else ()), wrong


def covering(launches: Sequence[T], counts: Sequence[tuple[int, ...]]) -> list[T]:
    """Launches that together execute each instruction that one of all does: the one that adds most first."""
    ran = [np.asarray(one) > 0 for one in counts]
    found: list[T] = []
    left = np.logical_or.reduce(ran) if ran else np.zeros(0, bool)
    while left.any():
        best = max(range(len(ran)), key=lambda number: int((ran[number] & left).sum()))
        found.append(launches[best])
        left &= ~ran[best]
    return found


def _judged(family: Family, built: Built, values: Values, seed: int, program: Program | None,
            preload: bool = True) -> tuple[RunReport | None, str]:
    options = Options(preload=preload, checks=False, instruction_budget=20 * _INSTRUCTIONS, unwritten=UNWRITTEN)
    try:
        report = run_kernel(family, built, values, "emulator", seed, options, program=program)
    except AsmgenError as error:
        return None, f"the launch fails: {error.sentence}"
    if report.passed:
        return report, ""
    why = f"the largest error is {report.worst:.3g} of its bound" if report.untouched else "bytes change that no output has"
    return report, f"on the data of seed {seed} {why}"


def _times(family: Family, values: Values, report: RunReport) -> int:
    """How many times as large a launch may be."""
    arrays = sum(one.nbytes for one in family.problem(values, SEEDS[0]).arguments.values() if isinstance(one, np.ndarray))
    return min(_INSTRUCTIONS // max(report.wave_instructions or 1, 1), _BYTES // max(arrays, 1))


def _of_many_rows(contract: KernelContract, build: Values, launch: Values, times: int) -> dict[str, Any] | None:
    """The launch with the first size that makes workgroups more so many times as large, as far as that gives at most `_GROUPS`."""
    def groups(values: Values) -> int:
        try:
            return int(np.prod(contract.grid_of(contract.resolve_run({**build, **values}))))
        except AsmgenError:
            return _GROUPS + 1

    for name, size in launch.items():
        if not isinstance(size, int) or not 1 <= groups(launch) < groups({**launch, name: 4 * size}) <= _GROUPS:
            continue
        factor = times
        while factor > 1 and groups({**launch, name: factor * size}) > _GROUPS:
            factor //= 2
        if factor > 1:
            return {**launch, name: factor * size}
    return None
