"""Certificates: what was proven of a code object, tied to its bytes; and their verification."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asmgen import __version__
from asmgen.files import MOST_BYTES, MOST_TEXT, FileError, read_plain
from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import shown
from asmgen.tools.proofs.proof import PROVEN, RACES, UNKNOWN, Claim, Proof
from asmgen.tools.proofs.textclaims import code_of, text_claims
from asmgen.tools.running.build import Built

SUFFIX = ".proof.json"
_FIELDS = {"asmgen": str, "code_object": str, "sha256": str, "kernel": str, "arch": str, "workgroups": dict, "claims": list}


@dataclass(frozen=True)
class Verified:
    """A certificate against its code object: `wrong` are sentences, `again` the claims that were judged again."""

    file: str
    wrong: tuple[str, ...]
    again: tuple[Claim, ...]

    def as_json(self) -> dict[str, Any]:
        """The document of `asmgen verify-certificate --json`."""
        return {"file": self.file, "holds": not self.wrong, "wrong": list(self.wrong), "again": [claim.as_json() for claim in self.again]}

    def text(self) -> str:
        """For people."""
        lines = [f"{claim.claim} {claim.status}, judged again" for claim in self.again] + [f"{self.file}: {one}" for one in self.wrong]
        return "".join(f"{line}\n" for line in [*lines, f"{self.file}: {'does not hold' if self.wrong else 'holds'}"])


def certificate(built: Built, proof: Proof) -> dict[str, Any]:
    """What stands in NAME.proof.json beside NAME.co."""
    workgroups = {kernel.resources.name: list(kernel.contract.workgroup) for kernel in built.kernel.launches}
    made = {"asmgen": __version__, "code_object": f"{built.kernel.name}.co", "sha256": hashlib.sha256(built.code_object).hexdigest(),
            "family": built.kernel.contract.name, "parameters": dict(built.kernel.parameters), "workgroups": workgroups, **proof.as_json()}
    return made | {"own_sha256": _own_hash(made)}


def _own_hash(document: Mapping[str, Any]) -> str:
    """Of all that a certificate says but this."""
    said = {name: value for name, value in document.items() if name != "own_sha256"}
    return hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def certificate_text(built: Built, proof: Proof) -> bytes:
    """The file's bytes."""
    return (json.dumps(certificate(built, proof), indent=1, sort_keys=True) + "\n").encode()


def verify_certificate(path: Path) -> Verified:
    """Compare a certificate with the code object beside it, and judge again what follows from its code: races and errata.

    Raises AsmgenError where either file cannot be read, or is not what it should be.
    """
    document = _read(path)
    code = path.parent / Path(document["code_object"]).name
    try:
        data = read_plain(code, MOST_BYTES)
    except FileError as error:
        raise AsmgenError(error.sentence) from None
    if hashlib.sha256(data).hexdigest() != document["sha256"]:
        return Verified(str(path), (f"{code.name} is not the code object that it was made for: its SHA-256 is another one",), ())
    changed = document.get("own_sha256") != _own_hash(document)
    wrong = ["it was changed after it was made: its own SHA-256 is another one"] if changed else []
    blocks = document["workgroups"]
    kernels = code_of(data, list(blocks)) if blocks else []
    absent = sorted(blocks.keys() - {program.name for program, _ in kernels})
    if absent or not kernels:
        return Verified(str(path), (*wrong, f"{code.name} has no kernel {shown(absent[0])}" if absent else "it names no kernel"), ())
    again = text_claims(kernels, [_block(path, blocks.get(program.name)) for program, _ in kernels])
    other = sorted({program.arch for program, _ in kernels} - {document["arch"]})
    wrong += [f"it says {shown(document['arch'])}, and {code.name} is for {other[0]}"] if other else []
    rows = {row["claim"]: row for row in document["claims"] if isinstance(row, Mapping) and isinstance(row.get("claim"), str)}
    said = {claim: row.get("status") for claim, row in rows.items()}
    wrong += [f"it says {claim.claim} {said.get(claim.claim)}, which is {claim.status}" for claim in again
             if said.get(claim.claim) != claim.status and not _by_launches(claim, rows.get(claim.claim, {}))]
    return Verified(str(path), tuple(wrong), tuple(again))


def _by_launches(claim: Claim, row: Mapping[str, Any]) -> bool:
    """Whether launches, which are not run again, may have said less than the code alone: of stores to memory."""
    return claim.claim == RACES and claim.status == PROVEN and (row.get("status") == UNKNOWN or bool(row.get("counterexample")))


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(read_plain(path, MOST_TEXT).decode())
    except FileError as error:
        raise AsmgenError(error.sentence) from None
    except (ValueError, RecursionError):  # no UTF-8, no JSON, or an integer that Python does not convert
        raise AsmgenError(f"{shown(path)} is no JSON document; a certificate is what `asmgen build --prove` writes") from None
    lacks = [name for name, kind in _FIELDS.items() if not isinstance(document, dict) or not isinstance(document.get(name), kind)]
    if lacks:
        raise AsmgenError(f"{shown(path)} is no certificate: it has no {lacks[0]}; `asmgen build --prove` writes one")
    return dict(document)


def _block(path: Path, value: Any) -> tuple[int, int, int]:
    if isinstance(value, list) and len(value) == 3 and all(type(size) is int and 0 < size <= 1024 for size in value):
        return value[0], value[1], value[2]
    raise AsmgenError(f"{shown(path)} is no certificate: a workgroup is three sizes from 1 to 1024, not {value!r}")
