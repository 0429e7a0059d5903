"""Claims that the emulator settles in other domains than floats: exact algebra for what is computed, address terms for where, expression
hashes for the order of operations."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from asmgen.author.family.family import Family
from asmgen.emulator.scheduling.run import Options
from asmgen.isa.errors import AsmgenError
from asmgen.program.program import Program
from asmgen.tools.addressrun import run_addresses
from asmgen.tools.algebrarun import run_algebra
from asmgen.tools.build import Built
from asmgen.tools.executed import executed
from asmgen.tools.hashrun import run_hashes
from asmgen.tools.proof import INDEX, ORDER, PROVEN, REFUTED, UNKNOWN, Claim
from asmgen.tools.proofclasses import proof_launches
from asmgen.tools.runner import run_kernel

ORDERS = ("lockstep", "serial", "random:3")
_BUDGET = 20_000_000
"""Wave instructions of a launch of a few workgroups, of which a right one takes less than a million."""
_ROUNDED = "rounding is not part of it: residues are exact"
_CHANCE = "a wrong term has the right residue with probability degree / 2^30 a run"
_SIZES = "the kernel decides by sizes as in these launches: other sizes run the same code for more rounds and more workgroups"


@dataclass
class Ran:
    """The launches of an index claim so far."""

    counts: list[tuple[int, ...]] = field(default_factory=list)
    elements: int = 0
    last: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{len(self.counts)} launches, {self.elements} elements of outputs"


def index_claim(family: Family, built: Built, seconds: float, program: Program | None = None) -> Claim:
    """Each element of each output is the family's reference polynomial, in each of the launches of `proof_launches`, which together execute
    all code; addresses are known and do not wrap for any size that the contract allows. `program` is judged instead of the built one.

    It takes `seconds` of the processor at most; what is not done then is unknown.
    """
    if family.algebra is None:
        return Claim(INDEX, UNKNOWN, "nothing", (), f"{family.name} has no reference in exact residues (docs/ALGEBRA.md)")
    began, ran, judged = time.process_time(), Ran(), program or built.kernel.program
    contract, build = built.kernel.contract, built.kernel.parameters
    several: Mapping[str, Any] | None = None
    for number, launch in enumerate(proof_launches(contract, build)):
        values = contract.resolve_run({**build, **launch})
        several = values if several is None else several
        wrong = _wrong(family, built, values, program, checks=number == 0)
        if isinstance(wrong, str):
            return Claim(INDEX, REFUTED, f"{ran}, and one that fails", (_ROUNDED, _CHANCE), wrong, None, _shown(family, built, values))
        ran.counts.append(wrong[0])
        ran.elements += wrong[1]
        if number >= 3 and not _missing(judged, ran.counts) and _rounds_enough(number):
            break
        if time.process_time() - began > seconds:
            return Claim(INDEX, UNKNOWN, f"{ran}, all equal", (_ROUNDED, _CHANCE), f"the {seconds:g} s were over before all launches ran")
    scope = f"{ran}, all equal to the reference; addresses of the first of these for all sizes of the contract"
    assumed = (_ROUNDED, _CHANCE, _SIZES)
    missing = _missing(judged, ran.counts)
    if missing:
        return Claim(INDEX, UNKNOWN, scope, assumed, f"{len(missing)} instructions are executed by none of the launches",
                     _placed(judged, missing[0]))
    assert several is not None
    doubt = _addresses(family, built, several, program)
    return Claim(INDEX, PROVEN if doubt is None else UNKNOWN, scope, assumed, *(doubt or ("", None)))


def order_claim(family: Family, built: Built, program: Program | None = None) -> Claim:
    """The bits of outputs do not depend on the order of waves: the expression that makes each element is the same in three of them."""
    contract, build = built.kernel.contract, built.kernel.parameters
    values = contract.resolve_run({**build, **next(iter(proof_launches(contract, build)))})
    try:
        reports = [run_hashes(family, built, values, order=order, program=program) for order in ORDERS]
    except AsmgenError as error:
        return Claim(ORDER, UNKNOWN, "one launch", (), f"it fails: {error.sentence}", None, _shown(family, built, values))
    first = reports[0]
    scope = f"order of waves, one launch of {sum(part.size for part in first.outputs.values())} elements in the orders {', '.join(ORDERS)}"
    assumed = ["instructions give the same bits of the same operands each time"]
    if first.decisions:
        where = ", ".join(dict.fromkeys(one.text for one in first.decisions[:3]))
        assumed.append(f"data decides alike at {len(first.decisions)} instructions ({where})")
    for order, report in zip(ORDERS, reports, strict=True):
        for name, found in report.outputs.items():
            other = (found != first.outputs[name]) & ~(report.unknown[name] | first.unknown[name])
            if other.any():
                why = f"element {np.argwhere(other)[0].tolist()} of {name} is another expression in the order {order} than in {ORDERS[0]}"
                return Claim(ORDER, REFUTED, scope, tuple(assumed), why, None, _shown(family, built, values, order))
    lost = next((name for report in reports for name, part in report.unknown.items() if part.any()), None)
    if lost is not None:
        return Claim(ORDER, UNKNOWN, scope, tuple(assumed), f"of elements of {lost} it is not known what made them")
    return Claim(ORDER, PROVEN, scope, tuple(assumed))


def race_launch(family: Family, built: Built) -> Mapping[str, Any] | None:
    """A launch in which the emulator sees waves race in LDS, of the first few."""
    contract, build = built.kernel.contract, built.kernel.parameters
    for _, launch in zip(range(4), proof_launches(contract, build), strict=False):
        values = contract.resolve_run({**build, **launch})
        for order in ORDERS:
            report = run_kernel(family, built, values, "emulator", 1, Options(order=order))
            if any(finding.check == "lds-race" for finding in report.findings):
                return _shown(family, built, values, order)
    return None


def _wrong(family: Family, built: Built, values: Mapping[str, Any], program: Program | None,
           checks: bool) -> str | tuple[tuple[int, ...], int]:
    """Why a launch is wrong; else how often it executed what, and how many elements were compared."""
    try:
        report = run_algebra(family, built, values, program=program, checks=checks, budget=_BUDGET)
    except AsmgenError as error:
        return f"the launch fails: {error.sentence}"
    if not report.equal:
        return report.mismatches[0].sentence()
    errors = [finding for finding in report.launch.findings if finding.severity == "error"]
    if errors:
        return f"{errors[0].check}: {errors[0].message}"
    return report.launch.counts, report.elements


def _rounds_enough(number: int) -> bool:
    """Whether so many launches ran that loops had each count of rounds that given launches have, and some drawn ones."""
    return number >= 16


def _missing(program: Program, counts: list[tuple[int, ...]]) -> list[int]:
    """The positions that no launch executed, but for the entry of firmware that does not preload arguments."""
    entry = program.labels.get(program.entry, 0) if program.entry else 0
    return [position for position in executed(program, counts).missing if position >= entry]


def _addresses(family: Family, built: Built, values: Mapping[str, Any], program: Program | None) -> tuple[str, str] | None:
    """Why addresses are not what they should be for all sizes, and at which instruction."""
    report = run_addresses(family, built, values, program=program)
    for sequence in report.sequences:
        if not sequence.known:
            return f"the {sequence.what} is not known as a formula", sequence.instruction.text
        for term in sequence.terms:
            if sequence.what in ("address", "offset") and term is not None and report.wraps(term):
                return f"the {sequence.what} may wrap at 2^32 for sizes that the contract allows", sequence.instruction.text
    return None


def _placed(program: Program, position: int) -> str:
    instruction = program.instructions[position]
    return f"{instruction.where() or program.name}: {instruction.text}"


def _shown(family: Family, built: Built, values: Mapping[str, Any], order: str = "lockstep") -> dict[str, Any]:
    """A launch in words that `asmgen run` takes."""
    return {"kernel": family.name, "arch": built.kernel.resources.arch, "order": order, "seed": 1,
            "parameters": {name: value for name, value in values.items() if isinstance(value, (str, int, float, bool))}}
