"""What every check of placed code reports: one fault, and how a comment silences it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from asmgen.checks.finding.rules import rules
from asmgen.program.program import Instruction

_SILENCE = re.compile(r"\blint:\s*off\b((?:[ ,]+[A-Za-z][\w-]*)*)")


@dataclass(frozen=True)
class LintFinding:
    """One fault.

    `producer` is what is in flight or what wrote; `consumer` is the instruction at which the fault shows, the `position`-th of its program
    (None and -1: the whole kernel). `have` and `need` are what stands and what would be right: counts, wait states, barriers, registers or
    bytes, as the rule has it. `rounds` is how many executions of the producer before its last the fault is about. `kernel` is the program's
    name; lint sets it and `file`.
    """

    rule: str
    severity: str
    message: str
    producer: Instruction | None = None
    consumer: Instruction | None = None
    have: int | None = None
    need: int | None = None
    position: int = -1
    rounds: int = 0
    file: str = ""
    kernel: str = ""

    @property
    def line(self) -> int | None:
        """The consumer's line."""
        return self.consumer.source.line if self.consumer is not None and self.consumer.source is not None else None

    @property
    def address(self) -> int | None:
        """The consumer's address."""
        return self.consumer.address if self.consumer is not None else None

    def where(self) -> str:
        """FILE:LINE, FILE:0xADDRESS or FILE, as `asmgen explain` takes it."""
        if self.consumer is not None and self.consumer.source is not None:
            return str(self.consumer.source)
        return f"{self.file}:{self.address:#x}" if self.address is not None else self.file

    def sentence(self) -> str:
        """One line for people."""
        return f"{self.where()}: {self.severity}: {self.message} [{self.rule}]"

    def as_json(self) -> dict[str, Any]:
        """The fields of docs/FORMATS.md section 1, and beside them the kernel and where the producer stands."""
        source = self.consumer.source if self.consumer is not None else None
        producer = self.producer
        begun = producer.source if producer is not None else None
        return {"rule": self.rule, "severity": self.severity, "file": source.file if source is not None else self.file, "line": self.line,
                "address": self.address, "message": self.message, "producer": producer.text if producer is not None else None,
                "consumer": self.consumer.text if self.consumer is not None else None, "have": self.have, "need": self.need,
                "kernel": self.kernel, "producer_line": begun.line if begun is not None else None,
                "producer_address": producer.address if producer is not None else None}


def silenced(instruction: Instruction) -> frozenset[str]:
    """The rule ids that the comment after an instruction turns off there."""
    comment = f"{instruction.reason} {instruction.comment}"
    if "lint:" not in comment:
        return frozenset()
    return frozenset(name for match in _SILENCE.finditer(comment) for name in match[1].replace(",", " ").split())


def apply_silence(findings: Iterable[LintFinding], instructions: Iterable[Instruction]) -> list[LintFinding]:
    """The findings without the silenced ones, and one for each id in such a comment that no rule has."""
    kept = [finding for finding in findings if finding.consumer is None or finding.rule not in silenced(finding.consumer)]
    for position, instruction in enumerate(instructions):
        if "lint:" in instruction.comment or "lint:" in instruction.reason:
            kept += [LintFinding("L001", "warning", f"`lint: off {name}`: no rule has that id", None, instruction, position=position)
                     for name in sorted(silenced(instruction) - rules().keys())]
    return kept
