"""What a pipeline recorded of its step: a row for each operation, as `asmgen show KERNEL --step` prints it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from asmgen.author.step.effects import Unit
from asmgen.author.step.iterations import StepIndex
from asmgen.isa.records import dataclass


@dataclass(frozen=True)
class StepOperation:
    """An operation of a step: its stage, name, iteration ahead, condition ("" for none) and stream, how many units it has and what of them
    are blocks, the first one's text, and the author's line."""

    stage: str
    name: str
    ahead: int
    condition: str
    stream: str
    units: int
    blocks: int
    first: str
    where: str

    def as_json(self) -> dict[str, Any]:
        """JSON values."""
        return {"stage": self.stage, "operation": self.name, "iteration": self.ahead, "condition": self.condition or None,
                "stream": self.stream, "units": self.units, "blocks": self.blocks, "first": self.first, "where": self.where}


def step_table(units: Sequence[Unit], offsets: Mapping[int, int], stages: Mapping[int, str]) -> tuple[StepOperation, ...]:
    """The operations of units in emission order; `offsets` are iterations by ordinal, `stages` names by number."""
    def key(unit: Unit) -> tuple[int, str, int, str, str, str]:
        return (unit.tag.stage, _name(unit), offsets[unit.tag.ordinal], unit.tag.condition, unit.stream, unit.first.where())

    found = []
    for (stage, name, ahead, condition, stream, where), group in groupby(units, key):
        members = list(group)
        found.append(StepOperation(stages.get(stage) or str(stage), name, ahead, condition, stream, len(members),
                                   sum(unit.is_block for unit in members), members[0].first.text, where))
    return tuple(found)


def _name(unit: Unit) -> str:
    """The innermost operation's name without its iteration, which has a column of its own; a block's own name."""
    if unit.is_block:
        return f"block {unit.tag.block.partition('#')[0]}"
    name = next((one for one in reversed(unit.first.operations)), "instructions")
    return name.rpartition(" of t")[0] or name


def step_text(tables: Sequence[tuple[StepOperation, ...]]) -> str:
    """The tables as text."""
    lines = []
    for number, table in enumerate(tables, 1):
        lines.append(f"step {number} of {len(tables)}: {len(table)} operations, {sum(row.units for row in table)} units")
        head = ("stage", "iteration", "condition", "stream", "units", "operation", "where")
        rows = [head, *((row.stage, StepIndex.text(row.ahead), row.condition, row.stream, str(row.units), row.name,
                         row.where.partition(" (by ")[0]) for row in table)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        lines += ["  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines) + "\n"
