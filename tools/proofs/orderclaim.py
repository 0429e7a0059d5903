"""The claim order, which expression hashes settle; and launches that show other claims to be wrong, as they race in LDS in some order of
waves, or touch a register before its load has arrived."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import chain, islice
from typing import Any

import numpy as np

from asmgen.author.family.family import Family
from asmgen.emulator.arrival.findings import Finding
from asmgen.emulator.scheduling.run import Options
from asmgen.isa.errors import AsmgenError
from asmgen.program.program import Program
from asmgen.tools.proofs.algebrarun import SEED
from asmgen.tools.proofs.hashrun import HashReport, run_hashes
from asmgen.tools.proofs.proof import ORDER, PROVEN, REFUTED, UNKNOWN, Claim, launch_shown
from asmgen.tools.proofs.proofclasses import Lengths, given_launches, longer_loops, several_rounds
from asmgen.tools.proofs.runclaims import steps_of
from asmgen.tools.proofs.strainedruns import covering, on_floats
from asmgen.tools.running.build import Built
from asmgen.tools.running.executed import placed, unexecuted
from asmgen.tools.running.runner import run_kernel

ORDERS = ("lockstep", "serial", "random:3")
_EARLY = ("read-before-wait", "overwrite-before-wait")
_MOST_EARLY = 16
"""Launches in which the emulator looks for a register that is touched too early."""


def order_claim(family: Family, built: Built, program: Program | None = None) -> Claim:
    """The bits of outputs do not depend on the order of waves: the expression that makes each element is the same in three of them.
    Launches together execute each matrix instruction."""
    judged = program or built.kernel.program
    compared = _Compared(family, built, program)
    for values in _launches(family, built, program):
        wrong = compared.launch(values)
        if wrong is not None:
            return wrong
    left = _matrix(judged, compared.counts)
    if left:
        return compared.claim(UNKNOWN, f"{len(left)} matrix instructions are executed by none of the launches", placed(judged, left[0]))
    if compared.lost is not None:
        return compared.claim(UNKNOWN, f"of elements of {compared.lost} it is not known what made them")
    return compared.claim(PROVEN)


def _launches(family: Family, built: Built, program: Program | None) -> list[Mapping[str, Any]]:
    """Few that together execute all matrix instructions, by floats: of given launches, those of the fewest workgroups first, as each wave's
    order counts alone, and of those with loops a step longer each time. Without matrix instructions one of one workgroup, and one of
    several in any case where atomics in memory are."""
    contract, build, judged = built.kernel.contract, built.kernel.parameters, program or built.kernel.program
    given, shared = given_launches(contract, build), _adds_in_memory(judged)
    first = contract.resolve_run({**build, **(given[0] if shared else given[min(1, len(given) - 1)])})
    wanted = _matrix(judged, [])
    left, found, counts = {*wanted}, list[Mapping[str, Any]](), list[tuple[int, ...]]()
    fewest = sorted((contract.resolve_run({**build, **one}) for one in given), key=lambda values: math.prod(contract.grid_of(values)))
    longer = (contract.resolve_run({**build, **one}) for one in longer_loops(contract, build, steps_of(family, built), _work_of))
    for values in chain([first] if shared else [], fewest, longer):
        if not left:
            break
        ran = on_floats(family, built, program, values, SEED)[0]
        executed = {position for position in wanted if ran and ran[position]}
        if executed & left:
            found.append(values)
            counts.append(tuple(position in executed for position in wanted))
            left -= executed
    few = covering(found, counts)
    return [first, *few] if (shared or not few) and first not in few else few


def _work_of(size: Lengths) -> int:
    """Of the longest launch of a size, roughly: that of more heads has all rows of each."""
    return math.prod(value for value in size.coarse[-1].values() if type(value) is int and value)


def _matrix(judged: Program, counts: list[tuple[int, ...]]) -> list[int]:
    """The instructions of the matrix cores that ran in none of these launches."""
    return [position for position in unexecuted(judged, counts) if "mfma" in judged.instructions[position].opcode.classes]


class _Compared:
    """Launches of a kernel, each in several orders of waves."""

    def __init__(self, family: Family, built: Built, program: Program | None) -> None:
        self._family, self._built, self._program = family, built, program
        self.counts: list[tuple[int, ...]] = []
        self.lost: str | None = None
        self._elements, self._orders, self._decisions = 0, len(ORDERS), dict[int, str]()

    def claim(self, status: str, reason: str = "", at: str | None = None, shown: Mapping[str, Any] | None = None) -> Claim:
        """A claim about the launches so far."""
        launches = f"{len(self.counts)} launches" if len(self.counts) > 1 else "one launch"
        scope = f"order of waves, {launches} of {self._elements} elements in the orders {', '.join(ORDERS[:self._orders])}"
        assumed = ["instructions give the same bits of the same operands each time"]
        if self._decisions:
            where = ", ".join(dict.fromkeys([*self._decisions.values()][:3]))
            assumed.append(f"data decides alike at {len(self._decisions)} instructions ({where})")
        return Claim(ORDER, status, scope, tuple(assumed), reason, at, shown)

    def launch(self, values: Mapping[str, Any]) -> Claim | None:
        """A launch in all orders: the claim where it is not the same in one as in the first, or fails."""
        first: HashReport | None = None
        for number, order in enumerate(ORDERS, 1):
            self._orders = number
            try:
                report = run_hashes(self._family, self._built, values, order=order, program=self._program)
            except AsmgenError as error:
                return self.claim(UNKNOWN, f"it fails: {error.sentence}", shown=launch_shown(self._family, self._built, values, order))
            first = self._begin(report) if first is None else first
            for name, found in report.outputs.items():
                other = (found != first.outputs[name]) & ~(report.unknown[name] | first.unknown[name])
                if other.any():
                    why = f"element {np.argwhere(other)[0].tolist()} of {name} is another expression in the order {order} than in " \
                        f"{ORDERS[0]}"
                    return self.claim(REFUTED, why, shown=launch_shown(self._family, self._built, values, order))
            self.lost = self.lost or next((name for name, part in report.unknown.items() if part.any()), None)
        return None

    def _begin(self, report: HashReport) -> HashReport:
        """The first order of a launch."""
        self.counts.append(report.launch.counts)
        self._elements += sum(part.size for part in report.outputs.values())
        self._decisions |= {id(one): one.text for one in report.decisions}
        return report


def _adds_in_memory(program: Program) -> bool:
    """Whether workgroups may change what others read: atomics in memory do not depend on one workgroup alone."""
    rows = [instruction.opcode.memory for instruction in program.instructions]
    return any(row is not None and row.kind == "atomic" and row.space != "lds" for row in rows)


def race_launch(family: Family, built: Built) -> Mapping[str, Any] | None:
    """A launch in which the emulator sees waves race in LDS, of the first few."""
    contract, build = built.kernel.contract, built.kernel.parameters
    for _, launch in enumerate(given_launches(contract, build)[:4]):
        values = contract.resolve_run({**build, **launch})
        for order in ORDERS:
            report = run_kernel(family, built, values, "emulator", 1, Options(order=order))
            if any(finding.check == "lds-race" for finding in report.findings):
                return launch_shown(family, built, values, order)
    return None


def early_launch(family: Family, built: Built, errata: Claim, program: Program | None = None) -> Mapping[str, Any] | None:
    """A launch in which the emulator sees an instruction of a claim touch a register before a wait says that its load has arrived: one of
    the given ones, of several rounds, or with loops a step longer each time."""
    contract, build = built.kernel.contract, built.kernel.parameters
    some = chain(given_launches(contract, build), several_rounds(contract, build), longer_loops(contract, build, steps_of(family, built)))
    for launch in islice(some, _MOST_EARLY):
        values = contract.resolve_run({**build, **launch})
        report = run_kernel(family, built, values, "emulator", 1, Options(), program=program)
        if any(is_early(finding, errata) for finding in report.findings):
            return launch_shown(family, built, values)
    return None


def is_early(finding: Finding, errata: Claim) -> bool:
    """Whether the emulator found that one of the instructions that a claim suspects touches a register too early."""
    return finding.check in _EARLY and finding.severity == "error" and finding.consumer is not None \
        and any(place.endswith(f": {finding.consumer.text}") for place in errata.early)
