"""Where an instruction of a kernel comes from: its author's line, and the operation that emitted it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from asmgen.program.program import Instruction, Program

_AWAITED = re.compile(r"^(?![vas](?:\d+\b|\[\d+:))([A-Za-z_]\w*)(?:\[|\s)")  # what the reason of a wait names first, if no registers


@dataclass(frozen=True)
class Origin:
    """`line` is FILE:LINE of the author, `helper` that of code that he called and that wrote the instruction, `operation` the tile
    operation, `reason` why a pass put it there; "" for what there is not."""

    line: str
    helper: str
    operation: str
    reason: str

    def as_json(self) -> dict[str, Any]:
        """The fields that an instruction of a profile has beside its own."""
        return {name: value or None for name, value in vars(self).items()}

    @property
    def awaited(self) -> str:
        """The tile that a wait is for, "" where its reason names none."""
        found = _AWAITED.match(self.reason)
        return found[1] if found else ""

    def __str__(self) -> str:
        """For people: the operation, or the wait's tile, and the lines."""
        what = f"for {self.awaited}" if self.awaited else self.operation
        return " ".join(part for part in (what, f"at {self.line}" if self.line else "", f"({self.helper})" if self.helper else "") if part)


def origins(traced: Program, written: Program | None) -> tuple[Origin, ...]:
    """The origin of each instruction of a program that was traced, from the program as its author wrote it; () where the two differ."""
    if written is None or [one.name for one in traced.instructions] != [one.name for one in written.instructions]:
        return ()
    return tuple(_origin(instruction) for instruction in written.instructions)


def _origin(instruction: Instruction) -> Origin:
    return Origin(str(instruction.source or ""), str(instruction.helper or ""), ", ".join(instruction.operations), instruction.reason)
