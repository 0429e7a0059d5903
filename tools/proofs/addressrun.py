"""A kernel of a family run with address terms: where each memory instruction goes, as a sum of what the launch gives.

The terms are in ids of workgroups, bits of the work-item's number, arguments and their products. What wraps, and what is no polynomial,
is said in them (emulator.terms.polynomials). Of an instruction in a loop, a sequence says how its address grows from one execution to the
next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.author.contract.contract import KernelContract
from asmgen.author.family.family import Family
from asmgen.codeobject.arguments import is_hidden
from asmgen.codeobject.load import KernelRecord
from asmgen.emulator.carried.tracker import Tracker
from asmgen.emulator.scheduling.run import LaunchResult, Options
from asmgen.emulator.terms.accesses import AddressSequence
from asmgen.emulator.terms.decisions import DecisionTerms
from asmgen.emulator.terms.polynomials import WORD, Polynomials, Term
from asmgen.emulator.terms.termrules import POINTER, GivenArgument, TermRules
from asmgen.emulator.terms.termwords import TermTable
from asmgen.program.program import Program
from asmgen.tools.proofs.algebrarun import larger
from asmgen.tools.proofs.contractlimits import greatest_grid
from asmgen.tools.running.build import Built
from asmgen.tools.running.keptdevices import code_object_of, kept_devices
from asmgen.tools.running.runner import emulator
from asmgen.tuning.started import launch_list, upload, values_of

_KEPT = 2
"""Reports, which take memory."""


@dataclass(frozen=True)
class AddressReport:
    """All sequences of addresses of a launch of `program` with `parameters`, with the table that they are terms of, and the decisions of
    waves. `met` says, by instruction and wave, how many branches the wave had met at each execution; `lanes`, by store, wave and term,
    where lanes stored; `reached`, by instruction, the waves that came there, with lanes or none; `truths`, by comparison and wave, the
    terms of its truths; `decided`, alike, of SCC that no comparison wrote, by what it decides, and `outcomes` what it was; `used`, by
    instruction and wave, terms that end in data or lane masks."""

    sequences: tuple[AddressSequence, ...]
    table: TermTable
    launch: LaunchResult
    decisions: DecisionTerms
    program: Program
    met: Mapping[tuple[int, int], Sequence[int]]
    lanes: Mapping[tuple[int, int], Mapping[Term | None, NDArray[np.bool_]]]
    parameters: Mapping[str, Any]
    reached: Mapping[int, frozenset[int]]
    truths: Mapping[tuple[int, int], Set[Term | None]]
    decided: Mapping[tuple[int, int], Set[Term | None]] = field(default_factory=dict)
    used: Mapping[tuple[int, int], Set[Term | None]] = field(default_factory=dict)
    outcomes: Mapping[int, Set[bool]] = field(default_factory=dict)

    @property
    def algebra(self) -> Polynomials:
        """The variables and arithmetic of the terms."""
        return self.table.algebra

    def unknown(self) -> list[AddressSequence]:
        """Those of which some term is not known."""
        return [one for one in self.sequences if not one.known]

    def sentence(self, sequence: AddressSequence) -> str:
        """For people: the first term, and how it goes on."""
        first = sequence.terms[0]
        if first is None:
            return f"`{sequence.instruction.text}`: the {sequence.what} is not known"
        step = sequence.step(self.table)
        said = f"`{sequence.instruction.text}`: {sequence.what} {self.algebra.text(first)}"
        if step is None:
            return f"{said}, then others ({len(sequence.terms)} executions)"
        return said if not step else f"{said} + n ({self.algebra.text(step)}), n < {len(sequence.terms)}"

    def wraps(self, term: Term) -> list[str]:
        """The parts of a term that say where it wraps, or may."""
        found = {self.algebra.name(number) for monomial, _ in term for number in monomial
                 if self.algebra.variables[number].name == "floor / 2^32"}
        return sorted(found)


def given_arguments(kernel: KernelRecord, contract: KernelContract) -> list[GivenArgument]:
    """The arguments of a kernel, with the bounds that its contract's parameters of the same names have."""
    bounds = {parameter.name: (parameter.minimum, parameter.maximum) for parameter in contract.parameters if parameter.type is int}
    found = []
    for row in kernel.arguments:
        if is_hidden(row) or row.size not in (4, 8):
            continue
        name = row.name or f"argument {row.offset}"
        low, high = bounds.get(name, (None, None))
        if row.size == 8:
            found.append(GivenArgument(name, row.offset, 8, 0, POINTER))
        else:
            found.append(GivenArgument(name, row.offset, 4, int(low or 0), WORD - 1 if high is None else int(high)))
    return found


def run_addresses(family: Family, built: Built, parameters: Mapping[str, Any], seed: int = 1,
                  program: Program | None = None, magnitude: int = 0) -> AddressReport:
    """Launch a built kernel and note where it goes; of several the variant's. Inputs are those of `run_algebra`. In a block of `keeping`
    the first launches are followed once: claims ask for the same ones."""
    kept, key = kept_devices(built), (repr(sorted(parameters.items())), seed, id(program), magnitude)  # a report keeps its program
    report: AddressReport | None = kept.found.get(key) if kept is not None else None
    if report is None:
        report = _followed(family, built, parameters, seed, program, magnitude)
        if kept is not None and len(kept.found) < _KEPT:
            kept.found[key] = report
    return report


def _followed(family: Family, built: Built, parameters: Mapping[str, Any], seed: int, program: Program | None,
              magnitude: int) -> AddressReport:
    problem = larger(family.problem(parameters, seed), magnitude)
    contract, resources = built.kernel.contract, built.kernel.resources
    followed = program or built.kernel.program
    with emulator(built, resources.arch, Options(checks=False), lambda sentence: None, followed) as device:
        launches = launch_list(code_object_of(built), contract, parameters)
        buffers = upload(device, contract, problem, parameters)
        values, own = values_of(contract, problem, buffers), len(built.kernel.before)
        replace(launches, steps=launches.steps[:own]).start(device, values)
        rules = TermRules(given_arguments(launches.steps[own].kernel, contract), greatest_grid(contract, built.kernel.parameters))
        device.follow(Tracker(device.memory, rules))
        replace(launches, steps=launches.steps[own:own + 1]).start(device, values)
        terms = rules.state.table.terms
        lanes = {key: {terms[number]: active for number, active in by_term.items()} for key, by_term in rules.accesses.lanes.items()}
        reached = {number: frozenset(by_wave) for (number, _), by_wave in rules.accesses.executed.items()}
        truths, decided, used = ({key: {terms[number] for number in known} for key, known in noted.items()}
                                 for noted in (rules.comparisons.truths, rules.used.truths, rules.used.terms))
        return AddressReport(tuple(rules.accesses.sequences()), rules.state.table, device.launches[-1], rules.decisions, followed,
                             rules.accesses.met, lanes, parameters, reached, truths, decided, used, rules.used.outcomes)
