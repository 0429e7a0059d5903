"""What becomes of index mutants: a launch finds them, or their outputs are the program's bit for bit, or they survive."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import cycle

from asmgen.checks.mutants.indexmutants import INDEX_KINDS, IndexMutants
from asmgen.checks.mutants.mutants import Mutant
from asmgen.tools.mutantruns import KnownRun, Runs

LAUNCHES = 50
"""On that many launches a mutant's outputs have to be the program's for it to be called equivalent."""


@dataclass(frozen=True)
class Survivor:
    """A mutant that the example shapes with their data let through, and what is known of it."""

    mutant: Mutant
    why: str

    def __str__(self) -> str:
        return f"[{self.mutant.kind}] {self.mutant}  ({self.why})"


@dataclass
class IndexScore:
    """One variant: of its mutants, how many launches found, which are equivalent and which survive."""

    title: str
    killed: int = 0
    kinds: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(INDEX_KINDS, 0)))
    equivalent: list[Mutant] = field(default_factory=list)
    survivors: list[Survivor] = field(default_factory=list)

    def lines(self) -> list[str]:
        """For people."""
        count = self.killed + len(self.equivalent) + len(self.survivors)
        kinds = ", ".join(f"{number} {kind}" for kind, number in self.kinds.items() if number)
        return [f"{self.title}: of {count} index mutants {self.killed} found, {len(self.equivalent)} equivalent, "
                f"{len(self.survivors)} surviving; {kinds}",
                *(f"  equivalent: [{mutant.kind}] {mutant}" for mutant in self.equivalent),
                *(f"  survives: {survivor}" for survivor in self.survivors)]


class IndexJudge:
    """Runs mutants of one variant; remembers the outputs of the unchanged program by launch and seed."""

    def __init__(self, runs: Runs, launches: int = LAUNCHES) -> None:
        self._runs, self._launches = runs, launches
        self._locations = {id(instruction): position for position, instruction in enumerate(runs.program.instructions)}
        self._others: dict[tuple[int, int], tuple[KnownRun, bytes]] = {}

    def score(self, title: str, count: int, seed: int) -> IndexScore:
        """Judge `count` mutants that are drawn with that seed."""
        found = IndexScore(title)
        for mutant in IndexMutants(self._runs.program).drawn(count, seed):
            found.kinds[mutant.kind] += 1
            why = self.survives(mutant)
            if why is None:
                found.killed += 1
            elif why:
                found.survivors.append(Survivor(mutant, why))
            else:
                found.equivalent.append(mutant)
        return found

    def survives(self, mutant: Mutant) -> str | None:
        """None for a mutant that is found on the example shapes, "" for an equivalent one, else why it is neither."""
        through: list[KnownRun] = []
        for known in self._runs.through(self._locations[id(mutant.original)]):
            report = self._runs.passes(known, mutant.program)
            if report is None:
                self._runs.known.remove(known)
                self._runs.known.insert(0, known)  # the next mutant is on the same path, mostly
                return None
            through.append(known)
        if not through:
            return "no launch executes it"
        for number, known in zip(range(self._launches), cycle(through), strict=False):
            again, output = self._other_data(known, number // len(through))
            report = self._runs.passes(again, mutant.program)
            if report is None:
                return f"found with the data of seed {again.seed} only, by {dict(known.launch)}"
            if report.digest != output:
                return f"other bits within the tolerance, first with {dict(known.launch)}"
        return ""

    def _other_data(self, known: KnownRun, number: int) -> tuple[KnownRun, bytes]:
        """The same launch with other data (the same for number 0), and the unchanged program's output."""
        key = (id(known), known.seed + number)  # the runs keep it
        if key not in self._others:
            report = self._runs.run(known.launch, known.preload, seed=key[1])
            counts, conflicts = self._runs.counts(report), report.bank_conflicts or 0
            self._others[key] = replace(known, seed=key[1], counts=counts, bank_conflicts=conflicts), report.digest
        return self._others[key]
