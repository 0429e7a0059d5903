"""That workgroups write disjoint bytes of memory: of launches with many workgroups, for strides of any size."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, islice
from typing import Any

from asmgen.author.contract.contract import KernelContract, Values
from asmgen.author.family.family import Family
from asmgen.emulator.arrival.findings import RACES as RACE_CHECKS
from asmgen.emulator.scheduling.run import Options
from asmgen.isa.errors import AsmgenError
from asmgen.program.program import Program
from asmgen.tools.proofs.addressrun import run_addresses
from asmgen.tools.proofs.disjointwrites import WriteCheck
from asmgen.tools.proofs.proof import PROVEN, RACES, REFUTED, UNKNOWN, Claim, worst
from asmgen.tools.proofs.proofclasses import given_launches, lengths, more_launches
from asmgen.tools.proofs.textclaims import LDS_ALONE
from asmgen.tools.running.build import Built
from asmgen.tools.running.executed import executed
from asmgen.tools.running.runner import run_kernel
from asmgen.tools.running.smalllaunches import groups_of

_MOST_GROUPS, _DOUBLED = 16, 10
_DRAWN = 12
_LONGEST = 14
"""Steps of a loop: tiles in up to 8 stages, filled 6 ahead, come to each end of it."""
_SECONDS = 20.0
"""Of the processor, for launches with stores: with 40 for index, a variant stays within its 60."""
_ONCE = "elements of an output share no bytes, as the contract's rules for strides have it"
_ALIKE = "workgroups of other sizes store by the same formulas"
_NO_WRAP = "addresses do not wrap (claim index)"


def with_writes(races: Claim, family: Family, built: Built, program: Program | None = None, seconds: float = _SECONDS) -> Claim:
    """The claim about LDS, and about what workgroups store: proven where both are."""
    writes = write_claim(family, built, program, seconds)
    beside = [kernel.resources.name for kernel in built.kernel.launches if kernel.resources.name != built.kernel.resources.name]
    apart = f"; not what is stored by {', '.join(beside)}, launched with it" if beside else ""
    found = worst([writes, races])
    return replace(found, scope=f"{races.scope.removesuffix(LDS_ALONE)}; {writes.scope}{apart}",
                   assumptions=tuple(dict.fromkeys((*races.assumptions, *writes.assumptions))))


def write_claim(family: Family, built: Built, program: Program | None = None, seconds: float = _SECONDS) -> Claim:
    """Two workgroups write no byte of memory both, but by atomics; of the variant's own kernel. Unknown where a store is executed by no
    launch of several workgroups, and where `seconds` of the processor are over before all launches ran."""
    contract, build = built.kernel.contract, built.kernel.parameters
    stored, until = _Stored(family, built, program), time.process_time() + seconds
    given = [(launch, False) for launch in larger_launches(contract, build)]
    for launch, further in chain(given, ((launch, True) for launch in further_launches(contract, build))):
        if further and not stored.left:
            break
        if time.process_time() > until:
            return stored.over(seconds)
        wrong = stored.wrong(launch)
        if wrong is not None:
            return wrong
    return stored.claim()


@dataclass
class _Stored:
    """What launches stored so far. `left` are the positions of stores that none of several workgroups executed."""

    family: Family
    built: Built
    program: Program | None
    most: int = 1
    stores: int = 0
    launches: int = 0
    counts: list[tuple[int, ...]] = field(default_factory=list)
    left: list[int] = field(default_factory=list)

    def wrong(self, launch: Values) -> Claim | None:
        """Why it is not proven, by one launch more."""
        contract, build = self.built.kernel.contract, self.built.kernel.parameters
        values, groups = contract.resolve_run({**build, **launch}), groups_of(contract, build, launch)
        self.launches, self.most = self.launches + 1, max(self.most, groups)
        try:
            report = run_addresses(self.family, self.built, values, program=self.program)
        except AsmgenError as error:
            return self._said(UNKNOWN, f"a launch fails: {error.sentence}")
        check = WriteCheck(report, contract, values)
        overlap = check.overlap()
        if overlap is not None:
            return _shown(self._said(UNKNOWN, overlap.sentence(), overlap.instruction), self.family, self.built, values, self.program)
        if check.lost:
            return self._said(UNKNOWN, check.lost)
        self.counts += [report.launch.counts] if groups > 1 or self.most == 1 else []
        self.left, self.stores = _stores(report.program, self.counts), max(self.stores, check.stores)
        return None

    def claim(self) -> Claim:
        """After the last launch."""
        judged = self.program or self.built.kernel.program
        if self.left:
            first = judged.instructions[self.left[0]]
            why = f"{len(self.left)} stores are executed by no launch of several workgroups"
            return self._said(UNKNOWN, why, f"{first.where() or judged.name}: {first.text}")
        if self.stores:
            return replace(self._said(PROVEN), assumptions=(_ONCE, _ALIKE, _NO_WRAP))
        scope = f"nothing is stored to memory by {judged.name} but by atomics, in {self.launches} launches"
        return Claim(RACES, PROVEN, scope, (_ALIKE,))

    def over(self, seconds: float) -> Claim:
        """After the last launch that time was left for."""
        left = f" and {len(self.left)} stores were executed by none of several workgroups" if self.left else ""
        return self._said(UNKNOWN, f"the {seconds:g} s for stores were over before all launches ran{left}")

    def _said(self, status: str, why: str = "", at: str | None = None) -> Claim:
        scope = f"stores of {(self.program or self.built.kernel.program).name} in {self.launches} launches of up to {self.most} " \
            f"workgroups, for all strides"
        return Claim(RACES, status, scope, (), why, at)


def _stores(program: Program, counts: Sequence[tuple[int, ...]]) -> list[int]:
    """The positions of stores to memory that can be executed, and that no launch executed."""
    rows = [instruction.opcode.memory for instruction in program.instructions]
    return [position for position in executed(program, counts).missing
            if (row := rows[position]) is not None and row.kind == "store" and row.space != "lds"]


def larger_launches(contract: KernelContract, build: Values) -> Iterator[dict[str, Any]]:
    """That of several workgroups with whole and cut tiles, for each size one in which it alone makes workgroups many, and where workgroups
    take one tile or row after another, such of fewer workgroups."""
    given = given_launches(contract, build)
    yield given[0]
    small: dict[str, Any] = given[min(1, len(given) - 1)] or {
        parameter.name: parameter.default for parameter in contract.parameters
        if parameter.kind == "run" and type(parameter.default) is int and not parameter.default_from}
    for name, size in small.items():
        best: dict[str, Any] | None = None
        for doubled in range(1, _DOUBLED):
            if not isinstance(size, int) or isinstance(size, bool):
                break
            larger = {**small, name: size << doubled}
            if groups_of(contract, build, small) < groups_of(contract, build, larger) <= _MOST_GROUPS:
                best = larger
        if best is not None:
            best = _shortest(contract, build, best, name, small)
            yield best
            yield from _fewer(contract, build, best, (2, 3))
    yield from _fewer(contract, build, given[0], (2, 3))


def _shortest(contract: KernelContract, build: Values, launch: dict[str, Any], name: str, small: Mapping[str, Any]) -> dict[str, Any]:
    """The launch with that size, and each that follows from it, as small as workgroups stay as many: the loop of attention does not grow
    with its queries, and its workgroups backward do not with anything but keys."""
    following = [one.name for one in contract.parameters if one.default_from == name and one.type is int]
    groups, sizes = groups_of(contract, build, launch), [name, *following]
    for count in range(len(sizes), 0, -1):
        for some in combinations(sizes, count):
            shorter = {**launch, **dict.fromkeys(following, launch[name]), **dict.fromkeys(some, small[name])}
            if groups_of(contract, build, shorter) == groups:
                return shorter
    return launch


def _fewer(contract: KernelContract, build: Values, launch: dict[str, Any], counts: Sequence[int]) -> Iterator[dict[str, Any]]:
    """The launch with fewer workgroups, but several, by a number that is no size."""
    for option in contract.parameters:
        if option.kind == "run" and option.type is int and (option.default_from or type(option.default) is int):
            several = ({**launch, option.name: count} for count in counts if option.name not in launch)
            yield from (fewer for fewer in several if 1 < groups_of(contract, build, fewer) < groups_of(contract, build, launch))


def further_launches(contract: KernelContract, build: Values) -> Iterator[dict[str, Any]]:
    """Others: with whole tiles and loops of each length, whose ends may store each for themselves; those of one workgroup, as those of
    `smalllaunches` and drawn ones, made ones of several by a size that makes these more."""
    given = given_launches(contract, build)
    several: dict[str, Any] = given[0]
    for length in lengths(contract, build):
        for launch in length.coarse[:_LONGEST]:
            yield from islice(_more_groups(contract, build, launch, {}), 1)
    for launch in (*given[1:], *islice(more_launches(contract, build), _DRAWN)):
        yield from _more_groups(contract, build, launch, several)


def _more_groups(contract: KernelContract, build: Values, launch: dict[str, Any], several: Values) -> Iterator[dict[str, Any]]:
    """The launch with more workgroups, by one size each time: that of the launch of several, or twice its own."""
    one = groups_of(contract, build, launch)
    for name, size in launch.items():
        for larger in ({**launch, name: several.get(name, size)}, {**launch, name: 2 * size} if type(size) is int else launch):
            if one < groups_of(contract, build, larger) <= _MOST_GROUPS:
                yield larger


def _shown(claim: Claim, family: Family, built: Built, values: Mapping[str, Any], program: Program | None) -> Claim:
    """Refuted where the emulator sees the race in that launch."""
    report = run_kernel(family, built, values, "emulator", 1, Options(), program=program)
    if any(finding.check in RACE_CHECKS for finding in report.findings):
        shown = {"kernel": family.name, "arch": built.kernel.resources.arch, "seed": 1,
                 "parameters": {name: value for name, value in values.items() if isinstance(value, (str, int, float, bool))}}
        return replace(claim, status=REFUTED, counterexample=shown)
    return claim
