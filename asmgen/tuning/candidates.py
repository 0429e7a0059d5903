"""The variants of a family that serve a problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from asmgen.author.contract.contract import ContractError, Values
from asmgen.author.family.family import Family

HOW = ("tile", "schedule", "waves")
"""Build parameters that say how a variant computes. Others that a variant fixes say what it computes."""


@dataclass(frozen=True)
class Candidate:
    """A variant for a problem: all its parameters, and those that choose it, as `-p` takes them."""

    parameters: Mapping[str, Any]
    chosen: Mapping[str, Any]
    build: Mapping[str, Any]


def candidates(library: Family, arch: str, given: Values) -> list[Candidate]:
    """The variants that agree with the given parameters and compute the same as the family's own choice, in the order of their declaration.

    Raises ContractError where none serves the problem: the sentence of the first that agrees.
    """
    found: list[Candidate] = []
    refusal: ContractError | None = None
    usual = library.contract(arch, given)  # which names what there is where nothing agrees
    for variant in library.variants(arch):
        fixed = library.fixed(variant)
        wanted = {name: given.get(name, value if name in HOW else usual.parameter(name).default) for name, value in fixed.items()}
        if wanted != fixed:
            continue
        chosen = {**given, **{name: fixed[name] for name in HOW if name in fixed}}
        contract = library.contract_of(variant)
        try:
            resolved = contract.resolve_run(chosen)
        except ContractError as error:
            refusal = refusal or error
            continue
        build = {name: resolved[name] for name in resolved if contract.parameter(name).kind == "build"}
        found.append(Candidate(resolved, chosen, build))
    if not found:
        raise refusal or ContractError(f"{library.name} has no variant for {arch} that serves this problem")
    return found
