"""Whether a mutant that a few launches call equivalent was told of: where its instruction feeds a comparison, launches must have met both
sides of where that turns.

Launches are searched with the unchanged program, once. Those that met a comparison's sides run the mutant too, on floats.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from itertools import chain
from typing import Any

from asmgen.author.contract.contract import KernelContract, Value, Values
from asmgen.author.family.family import Family
from asmgen.checks.mutants.mutants import Mutant
from asmgen.emulator.carried.comparisons import Sides, compared
from asmgen.isa.errors import AsmgenError
from asmgen.program.controlflow import control_flow
from asmgen.program.program import Instruction, Program
from asmgen.tools.mutantruns import Runs
from asmgen.tools.proofs.algebrarun import run_algebra
from asmgen.tools.proofs.edgelaunches import EdgeLaunches
from asmgen.tools.proofs.proof import PROVEN
from asmgen.tools.proofs.proofclasses import given_launches
from asmgen.tools.running.build import Built
from asmgen.tools.running.smalllaunches import groups_of

_SEED = 1
EQUIVALENT, NOT_TOLD = "equivalent", "not told"


class MetEdges:
    """Of one built kernel."""

    def __init__(self, family: Family, built: Built) -> None:
        self._family, self._built = family, built
        self._runs = Runs(family, built, built.kernel)
        self._digests: dict[int, bytes] = {}

    def status(self, mutant: Mutant) -> tuple[str, str]:
        """Of a mutant that changed nothing in other launches: equivalent; not told, where none met a comparison where it turns; or proven,
        wrongly, where one that did differs. And why."""
        program = self._built.kernel.program
        fed, sides = fed_comparisons(program, mutant), self._sides
        for launch in self._launches(fed):
            if not self._same(launch, mutant):
                return PROVEN, f"other bits with {dict(launch)}"
        for position in sorted(fed):
            known = sides.get(position)
            if known is None or not known.met:
                what = "executes" if known is None else "meets both sides of where it turns of"
                return NOT_TOLD, f"no launch {what} `{program.instructions[position].text}`"
        if compares_floats(mutant.original):
            return NOT_TOLD, f"launches are not searched for where `{mutant.original.text}` turns"
        return EQUIVALENT, ""

    @cached_property
    def _searched(self) -> list[tuple[Mapping[str, Any], Mapping[int, Sides]]]:
        """Launches, and what comparisons met there, by their positions."""
        contract, build, program = self._built.kernel.contract, self._built.kernel.parameters, self._built.kernel.program
        edges, found = EdgeLaunches(contract, build, program), list[tuple[Mapping[str, Any], Mapping[int, Sides]]]()
        for launch in chain(given_launches(contract, build), _larger(contract, build), edges.following()):
            report = run_algebra(self._family, self._built, contract.resolve_run({**build, **launch}), _SEED)
            edges.met(launch, report.nearest, report.sides)
            found.append((launch, {place: sides for (place, name), sides in report.sides.items() if place < len(program.instructions)
                                   and program.instructions[place].name.startswith(name)}))
        return found

    @cached_property
    def _sides(self) -> dict[int, Sides]:
        """Of all launches together."""
        found: dict[int, Sides] = {}
        for _, met in self._searched:
            for place, sides in met.items():
                found[place] = found[place].with_more(sides) if place in found else sides
        return found

    def _launches(self, fed: Collection[int]) -> list[Mapping[str, Any]]:
        """Those that met the sides of comparisons nearest to where they turn."""
        found: list[Mapping[str, Any]] = []
        for place in fed:
            nearest = self._sides.get(place)
            for end in ((nearest.below, nearest.above) if nearest is not None else ()):
                chosen = next((launch for launch, met in self._searched if end is not None and place in met
                               and end in (met[place].below, met[place].above)), None)
                if chosen is not None and chosen not in found:
                    found.append(chosen)
        return found

    def _same(self, launch: Mapping[str, Any], mutant: Mutant) -> bool:
        """Whether outputs are those of the unchanged program, bit for bit."""
        if id(launch) not in self._digests:
            self._digests[id(launch)] = self._runs.run(launch, True, seed=_SEED).digest
        try:
            report = self._runs.run(launch, True, mutant.program, _SEED)
        except AsmgenError:
            return False
        return report.digest == self._digests[id(launch)]


def _larger(contract: KernelContract, build: Values) -> Iterator[dict[str, Value]]:
    """Of the last given launch each size a step larger: so it shows by how much sides can be apart."""
    last = given_launches(contract, build)[-1]
    whole = contract.resolve_run({**build, **last})
    for parameter in contract.parameters:
        if parameter.kind == "run" and type(size := whole.get(parameter.name)) is int:
            larger = {**last, parameter.name: size + parameter.multiple_of}
            if groups_of(contract, build, larger) <= 2 * groups_of(contract, build, last):
                yield larger


def fed_comparisons(program: Program, mutant: Mutant) -> frozenset[int]:
    """The comparisons of integers and bits that what the mutant's instruction writes flows into, through registers, and itself if it is
    one."""
    flow, instructions = control_flow(program), program.instructions
    own = next(number for number, one in enumerate(instructions) if one is mutant.original)
    kept = {id(one) for one in instructions}
    writes = mutant.original.writes
    for one in mutant.program.instructions:
        writes |= 0 if id(one) in kept else one.writes
    before = [0] * len(flow.blocks)
    waiting, found = {flow.block_of[own]}, {own} if _compares(mutant.original) else set[int]()
    while waiting:
        number = waiting.pop()
        changed = before[number]
        for position in range(flow.blocks[number].first, flow.blocks[number].last + 1):
            one = instructions[position]
            if position == own:
                changed |= writes
            elif one.reads & changed:
                changed |= one.writes
                found |= {position} if _compares(one) else set()
            else:
                changed &= ~one.writes
        for following in flow.blocks[number].successors:
            if changed & ~before[following]:
                before[following] |= changed
                waiting.add(following)
    return frozenset(found)


def _compares(instruction: Instruction) -> bool:
    return compared(instruction.name) is not None


def compares_floats(instruction: Instruction) -> bool:
    """Whether what launches meet is not known, as floats are data."""
    return instruction.name.startswith(("v_cmp_", "v_cmpx_")) and instruction.form.operands[-1].type.startswith("f")
