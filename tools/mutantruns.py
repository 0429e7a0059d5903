"""The launches on which mutants are run, and what each of them executes of the unchanged program."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, cycle
from typing import Any

from asmgen.author.emit.kernel import Kernel
from asmgen.author.family.family import Family
from asmgen.emulator.scheduling.run import Options
from asmgen.isa.arch import LANES
from asmgen.isa.errors import AsmgenError
from asmgen.program.program import Program
from asmgen.tools.running.build import Built
from asmgen.tools.running.runner import RunReport, run_kernel
from asmgen.tools.running.smalllaunches import drawn_launches, launches

_BARREN = 150  # drawn launches in a row that execute nothing new, after which no more are drawn
_LONGER, _SHORTEST = 20, 100_000  # what a mutant may execute: times what the program does, and this more


@dataclass(frozen=True)
class KnownRun:
    """A launch that the unchanged program was run on: how often it executed each instruction, over all waves, and its bank conflicts.
    `seed` is its data's, `budget` what a mutant may execute: many times as much."""

    launch: Mapping[str, Any]
    preload: bool
    counts: tuple[int, ...]
    bank_conflicts: int
    seed: int
    budget: int


def _seeds() -> Iterator[int]:
    """Two launches each with data that holds NaN and infinities (author.problem.holds_nonfinite) and without: small and full tiles take
    turns."""
    return cycle((0, 0, 1, 1))


class Runs:
    """The launches on which a built variant's mutants are run: given ones, and drawn ones as long as code is left that none executes.

    A run of the unchanged program says what a launch executes, so that a mutant runs only where its instruction does. Of a build with
    several kernels the mutants are those of `kernel`, the variant's own where none is named; all kernels are launched. Raises AsmgenError
    where the unchanged program fails, as every mutant would be found then.
    """

    def __init__(self, family: Family, built: Built, kernel: Kernel | None = None) -> None:
        mutated = kernel or built.kernel
        self._family, self._built, self.program = family, built, mutated.program
        self._number = [one.resources.name for one in built.kernel.launches].index(mutated.resources.name)
        contract, build = built.kernel.contract, built.kernel.parameters
        preloads = (True, False) if self.program.entry else (True,)
        given = [(launch, preload) for launch in launches(contract, build) for preload in preloads]
        self._given = len(given)
        self._ahead = zip(chain(given, ((launch, True) for launch in drawn_launches(contract, build))), _seeds(), strict=False)
        self._barren = 0
        self._waves = math.prod(mutated.contract.workgroup) // LANES
        self.known: list[KnownRun] = []
        self.executed: set[tuple[int, bool]] = set()

    def through(self, position: int | None) -> Iterator[KnownRun]:
        """The runs that execute an instruction, those that found something last first; new ones are made at need. For None, which is
        where it is not known, the given launches."""
        for known in [*self.known]:
            if position is None or known.counts[position]:
                yield known
        while (position is not None or len(self.known) < self._given) and (another := self._another()) is not None:
            if position is None or another.counts[position]:
                yield another

    def run(self, launch: Mapping[str, Any], preload: bool, program: Program | Sequence[Program] | None = None, seed: int = 0,
            budget: int = Options.instruction_budget) -> RunReport:
        """One run, of the unchanged program or another one, on the data of that seed."""
        parameters = self._built.kernel.contract.resolve_run({**self._built.kernel.parameters, **launch})
        return run_kernel(self._family, self._built, parameters, "emulator", seed, program=program or self.program,
                          options=Options(preload=preload, count_banks=True, instruction_budget=budget))

    def counts(self, report: RunReport) -> tuple[int, ...]:
        """How often a run executed each instruction of the kernel that is mutated."""
        return report.launches[self._number].result.counts

    def passes(self, known: KnownRun, program: Program | Sequence[Program]) -> RunReport | None:
        """The report of a mutant's run that shows nothing; None where it does: a wrong result, an error, more bank conflicts."""
        try:
            report = self.run(known.launch, known.preload, program, known.seed, known.budget)
        except AsmgenError:
            return None
        wrong = not report.passed or any(finding.severity == "error" for finding in report.findings)
        return None if wrong or (report.bank_conflicts or 0) > known.bank_conflicts else report

    def _another(self) -> KnownRun | None:
        """The next launch that is worth keeping; None where all code is executed, or many drawn launches have executed nothing new."""
        while len(self.known) < self._given or self._barren < _BARREN and self._left():
            following = next(self._ahead, None)
            if following is None:
                return None
            (launch, preload), seed = following
            report = self.run(launch, preload, seed=seed)
            if not report.passed:
                raise AsmgenError(f"the unchanged program fails with {launch} and the data of seed {seed}, so mutants cannot be judged")
            counts = self.counts(report)
            fresh = {(position, again) for position, count in enumerate(counts)
                     for again in (False, True) if count > self._waves * again} - self.executed
            self.executed |= fresh
            self._barren = 0 if fresh else self._barren + 1
            if fresh or len(self.known) < self._given:
                self.known.append(KnownRun(launch, preload, counts, report.bank_conflicts or 0, seed,
                                           _LONGER * (report.wave_instructions or 0) + _SHORTEST))
                return self.known[-1]
        return None

    def _left(self) -> bool:
        """Whether there is code that no launch has executed."""
        return len({position for position, _ in self.executed}) < len(self.program.instructions)
