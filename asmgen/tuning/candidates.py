"""The variants of a family that serve a problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from asmgen.author.contract.contract import ContractError, Values
from asmgen.author.contract.variant import Variant
from asmgen.author.family.family import Family
from asmgen.author.family.nearest import HOW


@dataclass(frozen=True)
class Candidate:
    """A variant for a problem: all its parameters, and those that choose it, as `-p` takes them."""

    parameters: Mapping[str, Any]
    chosen: Mapping[str, Any]
    build: Mapping[str, Any]


def candidates(library: Family, arch: str, given: Values, units: int = 0) -> list[Candidate]:
    """The variants that agree with the given parameters and compute the same as the family's own choice, in the order of their declaration;
    with a number of compute units each with the values of further build parameters that the family would try there. A variant that is a
    last resort is one of them where no earlier one serves.

    Raises ContractError where none serves the problem: of those that have the values of build parameters that are given, the sentence of
    the last resort, which takes the most, or else of the first.
    """
    given = {**(library.settled(given) if library.settled is not None else {}), **given}
    found: list[Candidate] = []
    refusals: list[tuple[int, ContractError]] = []
    usual = library.contract(arch, given)  # which names what there is where nothing agrees
    for variant in library.variants(arch):
        fixed = library.fixed(variant)
        wanted = {name: given.get(name, value if name in HOW else usual.parameter(name).default) for name, value in fixed.items()}
        last = bool(dict(variant.further).get("last_resort"))
        if wanted != fixed or found and last:
            continue
        chosen = {**given, **{name: fixed[name] for name in HOW if name in fixed}}
        try:
            found += [_candidate(library, variant, one) for one in _tried(library, variant, chosen, units)]
        except ContractError as error:
            refusals.append((2 if library.lacking(variant, chosen) else 0 if last else 1, error))
    if not found:
        raise min(refusals, key=itemgetter(0), default=(0, ContractError(
            f"{library.name} has no variant for {arch} that serves this problem")))[1]
    return found


def _tried(library: Family, variant: Variant, chosen: Values, units: int) -> list[Values]:
    """The parameters, and with each further choice of those that are not given."""
    found = [dict(chosen)]
    if library.tuned is not None and units:
        resolved = library.contract_of(variant, chosen).resolve_run(chosen)
        for more in library.tuned(resolved, variant, units):
            one = {**more, **chosen}
            if any(name not in chosen for name in more) and one not in found:
                found.append(one)
    return list(found)


def _candidate(library: Family, variant: Variant, chosen: Values) -> Candidate:
    contract = library.contract_of(variant, chosen)
    resolved = contract.resolve_run(chosen)
    return Candidate(resolved, chosen, {name: resolved[name] for name in resolved if contract.parameter(name).kind == "build"})
