"""Loads into LDS without a token beside a wave's own LDS operations on the same bytes, where known addresses say so.

LDS operations of one wave keep their order, and so do its loads into LDS; the ones and the others go to LDS on ways of their own, in no
order (docs/facts/instructions.md section 4).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from asmgen.checks.barrierraces.barrierraces import READ
from asmgen.checks.counters.barriers import described, groups_in_flight
from asmgen.checks.counters.ledger import LGKM, VM, Ledger
from asmgen.checks.finding.finding import LintFinding
from asmgen.program.program import Instruction

if TYPE_CHECKING:
    from asmgen.checks.barrierraces.ldslocations import LdsBytes

LDS_IN_FLIGHT = "W011"


@dataclass
class OwnLoads:
    """Of one program; `kinds` as `lds_kinds`, `sections` say which operations one wait lets arrive."""

    instructions: Sequence[Instruction]
    locations: Mapping[int, LdsBytes]
    kinds: Mapping[int, str]
    sections: list[int]
    limits: Mapping[str, int]
    _met: set[tuple[int, int]] = field(default_factory=set)

    def touched(self, position: int, ledger: Ledger) -> Iterator[LintFinding]:
        """An LDS read or write of bytes that a load still fills, once for each group of loads. Writes in lanes that are not known may be of
        what the load leaves out."""
        here, reads = self.locations[position], self.kinds[position] == READ
        met = [producer for producer in ledger.vm.births if producer in self.locations and
               (self.locations[producer].meets(here) if reads else self.locations[producer].surely_meets(here))]
        for group in groups_in_flight(ledger.vm, met, self.sections):
            key = (self.sections[group.last], group.rounds)
            if group.rounds or key in self._met:
                continue
            self._met.add(key)
            shared = self.locations[group.last].common(here)
            count = min(group.newer, self.limits[VM] - 1)
            newer, verb = f", {group.newer} newer" if group.newer else "", "reads" if reads else "overwrites"
            yield self._finding(
                position, group.last, count, f"{verb} LDS bytes {shared}, which {described(group, self.instructions)} may still be filling "
                f"(in flight{newer}): s_waitcnt vmcnt({count}) and a barrier belong before it")

    def filled(self, position: int, ledger: Ledger) -> Iterator[LintFinding]:
        """A load into LDS of bytes that an LDS operation of the same wave may still read or write, once for each group of these."""
        here = self.locations[position]
        met = [producer for producer in ledger.lgkm.births if producer in self.locations and self.locations[producer].surely_meets(here)]
        for verb in ("read", "write"):
            producers = [producer for producer in met if (self.kinds.get(producer) == READ) is (verb == "read")]
            for group in groups_in_flight(ledger.lgkm, producers, self.sections):
                key = (self.sections[group.last], -1 - self.sections[position])
                if group.rounds or key in self._met:
                    continue
                self._met.add(key)
                count = min(group.newer, self.limits[LGKM] - 1)
                which, shared = described(group, self.instructions, f"that {verb} LDS"), self.locations[group.last].common(here)
                yield self._finding(position, group.last, count, f"overwrites LDS bytes {shared}, which {which} may still {verb}: a load "
                                    f"into LDS does not wait for LDS operations, so s_waitcnt lgkmcnt({count}) belongs before it")

    def _finding(self, position: int, producer: int, count: int, says: str) -> LintFinding:
        consumer = self.instructions[position]
        first = self.instructions[producer]
        return LintFinding(LDS_IN_FLIGHT, "warning", f"{consumer.name} {says}", first, consumer, None, count, position)
