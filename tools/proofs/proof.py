"""What `asmgen prove` says: claims about a kernel, each proven, refuted or unknown, with its scope and what it assumes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from asmgen.author.family.family import Family
from asmgen.checks.raceproofs.outcome import PROVEN as PROVEN  # for those who make claims
from asmgen.checks.raceproofs.outcome import REFUTED as REFUTED
from asmgen.checks.raceproofs.outcome import UNKNOWN as UNKNOWN
from asmgen.tools.running.build import Built

INDEX, RACES, ORDER, ERRATA = "index", "races", "order", "errata"
CLAIMS = (INDEX, RACES, ORDER, ERRATA)


@dataclass(frozen=True)
class Claim:
    """One claim: its `status`, the `scope` that it is about, what it takes for granted, why it is not proven (`reason`), where it stops
    (`at`) and the launch that shows it to be wrong. `suspected`: it is unknown, and a launch may show it to be wrong. `early` has
    the places of all instructions that a path which may be impossible lets touch a register too early."""

    claim: str
    status: str
    scope: str
    assumptions: tuple[str, ...] = ()
    reason: str = ""
    at: str | None = None
    counterexample: Mapping[str, Any] | None = None
    suspected: bool = False
    early: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """JSON values."""
        return {"claim": self.claim, "status": self.status, "scope": self.scope, "assumptions": list(self.assumptions),
                "reason": self.reason, "at": self.at,
                "counterexample": dict(self.counterexample) if self.counterexample is not None else None}

    def lines(self) -> list[str]:
        """For people."""
        found = [f"{self.claim:7} {self.status}{': ' if self.reason else ''}{self.reason}"]
        found += [f"  at {self.at}"] if self.at is not None else []
        found.append(f"  scope: {self.scope}")
        found += [f"  assumes: {one}" for one in self.assumptions]
        if self.counterexample is not None:
            found.append("  shown by: " + ", ".join(f"{name} {value}" for name, value in self.counterexample.items()))
        return found


@dataclass(frozen=True)
class Proof:
    """All claims about a kernel, or about several that are launched as one or stand in one file; `each` has those about each of the latter,
    by its name."""

    kernel: str
    arch: str
    claims: tuple[Claim, ...]
    seconds: float
    each: tuple[tuple[str, tuple[Claim, ...]], ...] = ()

    def status(self, strict: bool = False) -> int:
        """1 where a claim is refuted; with `strict` also where one is unknown."""
        return int(any(claim.status == REFUTED or strict and claim.status == UNKNOWN for claim in self.claims))

    def as_json(self) -> dict[str, Any]:
        """The document of `asmgen prove --json`."""
        document = {"kernel": self.kernel, "arch": self.arch, "claims": [claim.as_json() for claim in self.claims],
                    "seconds": round(self.seconds, 3)}
        kernels = [{"kernel": name, "claims": [claim.as_json() for claim in claims]} for name, claims in self.each]
        return document | {"kernels": kernels} if kernels else document

    def text(self) -> str:
        """For people."""
        rows = [(f"  {name}", claims) for name, claims in self.each] + [(f"{self.kernel} ({self.arch})", self.claims)]
        return "".join(f"{line}\n" for claim in self.claims for line in claim.lines()) + \
            "".join(f"{name}: {', '.join(f'{claim.claim} {claim.status}' for claim in claims)}\n" for name, claims in rows)


def settled(claim: Claim, shown: Callable[[], Mapping[str, Any] | None]) -> Claim:
    """A claim that is refuted or suspected, with the launch that shows it, if one does."""
    found = shown() if claim.status == REFUTED or claim.suspected else None
    return claim if found is None else replace(claim, status=REFUTED, counterexample=found)


def worst(claims: list[Claim]) -> Claim:
    """Of claims about several kernels: the first that is refuted, else unknown, else the last."""
    return next((claim for status in (REFUTED, UNKNOWN) for claim in claims if claim.status == status), claims[-1])


def launch_shown(family: Family, built: Built, values: Mapping[str, Any], order: str = "lockstep") -> dict[str, Any]:
    """A launch in words that `asmgen run` takes."""
    return {"kernel": family.name, "arch": built.kernel.resources.arch, "order": order, "seed": 1,
            "parameters": {name: value for name, value in values.items() if isinstance(value, (str, int, float, bool))}}
