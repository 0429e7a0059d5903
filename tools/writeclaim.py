"""That workgroups write disjoint bytes of memory: of launches with many workgroups, for strides of any size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from asmgen.author.contract.contract import KernelContract, Values
from asmgen.author.family.family import Family
from asmgen.emulator.arrival.findings import RACES as RACE_CHECKS
from asmgen.emulator.scheduling.run import Options
from asmgen.isa.errors import AsmgenError
from asmgen.program.program import Program
from asmgen.tools.addressrun import run_addresses
from asmgen.tools.build import Built
from asmgen.tools.disjointwrites import WriteCheck
from asmgen.tools.proof import PROVEN, RACES, REFUTED, UNKNOWN, Claim, worst
from asmgen.tools.proofclasses import given_launches
from asmgen.tools.runner import run_kernel
from asmgen.tools.smalllaunches import groups_of

_MOST_GROUPS, _DOUBLED = 16, 10
_ONCE = "elements of an output share no bytes, as the contract's rules for strides have it"
_ALIKE = "workgroups of other sizes store by the same formulas"


def with_writes(races: Claim, family: Family, built: Built, program: Program | None = None) -> Claim:
    """The claim about LDS, and about what workgroups store: proven where both are."""
    writes = write_claim(family, built, program)
    found = worst([writes, races])
    return replace(found, scope=f"{races.scope.removesuffix('; not memory outside of LDS')}; {writes.scope}",
                   assumptions=tuple(dict.fromkeys((*races.assumptions, *writes.assumptions))))


def write_claim(family: Family, built: Built, program: Program | None = None) -> Claim:
    """Two workgroups write no byte of memory both, but by atomics; of the variant's own kernel."""
    contract, build = built.kernel.contract, built.kernel.parameters
    launches, most, stores = 0, 1, 0
    for launch in larger_launches(contract, build):
        values = contract.resolve_run({**build, **launch})
        scope = f"stores of {launches + 1} launches of up to {most} workgroups, for all strides"
        try:
            check = WriteCheck(run_addresses(family, built, values, program=program), contract, values)
        except AsmgenError as error:
            return Claim(RACES, UNKNOWN, scope, (), f"a launch fails: {error.sentence}")
        overlap = check.overlap()
        if overlap is not None:
            return _shown(Claim(RACES, UNKNOWN, scope, (), overlap.sentence(), overlap.instruction), family, built, values, program)
        if check.lost:
            return Claim(RACES, UNKNOWN, scope, (), check.lost)
        launches, most, stores = launches + 1, max(most, groups_of(contract, build, launch)), max(stores, check.stores)
    if not stores:
        return Claim(RACES, PROVEN, f"nothing is stored to memory but by atomics, in {launches} launches", (_ALIKE,))
    return Claim(RACES, PROVEN, f"stores of {launches} launches of up to {most} workgroups, for all strides", (_ONCE, _ALIKE))


def larger_launches(contract: KernelContract, build: Values) -> Iterator[dict[str, Any]]:
    """That of several workgroups with whole and cut tiles, and for each size one in which it alone makes workgroups many."""
    given = given_launches(contract, build)
    yield given[0]
    small: dict[str, Any] = given[min(1, len(given) - 1)]
    for name, size in small.items():
        best: dict[str, Any] | None = None
        with_it = {parameter.name: size for parameter in contract.parameters if parameter.default_from == name and parameter.type is int}
        for doubled in range(1, _DOUBLED):
            if not isinstance(size, int) or isinstance(size, bool):
                break
            for others in (with_it, {}):  # the loop of attention does not grow with its queries
                larger = {**small, **others, name: size << doubled}
                if groups_of(contract, build, small) < groups_of(contract, build, larger) <= _MOST_GROUPS:
                    best = larger
                    break
        if best is not None:
            yield best


def _shown(claim: Claim, family: Family, built: Built, values: Mapping[str, Any], program: Program | None) -> Claim:
    """Refuted where the emulator sees the race in that launch."""
    report = run_kernel(family, built, values, "emulator", 1, Options(), program=program)
    if any(finding.check in RACE_CHECKS for finding in report.findings):
        shown = {"kernel": family.name, "arch": built.kernel.resources.arch, "seed": 1,
                 "parameters": {name: value for name, value in values.items() if isinstance(value, (str, int, float, bool))}}
        return replace(claim, status=REFUTED, counterexample=shown)
    return claim
