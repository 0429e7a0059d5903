"""The LDS map of a kernel: which bytes are filled and read by which instructions, by the names of their tokens where they have some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asmgen.checks.barrierraces.ldslocations import known_locations
from asmgen.program.controlflow import ControlFlow
from asmgen.program.program import Program

_FILLING = ("lds_write", "lds_dma")
_READING = ("lds_read",)


@dataclass(frozen=True)
class LdsRow:
    """Bytes `low` to `high` - 1: how many instructions fill them and read them. `name` is "" where nothing says it."""

    name: str
    low: int
    high: int
    fills: int
    reads: int

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return dict(vars(self))


@dataclass(frozen=True)
class LdsUse:
    """The map, and how many LDS instructions it does not have because their addresses do not follow from constants and work-item."""

    rows: tuple[LdsRow, ...] = ()
    unknown: int = 0

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {"rows": [row.as_json() for row in self.rows], "unknown": self.unknown}


def lds_use(program: Program, flow: ControlFlow, groups: Sequence[str], block: tuple[int, int, int] | None,
            named: Sequence[Mapping[str, Any]] = ()) -> LdsUse:
    """Of a program. `named` are the ranges {name, low, high} of a map beside the code object: they get the counts of what lies in them."""
    touched: list[tuple[str, int, int, bool]] = []
    unknown = 0
    asked = [position for position, group in enumerate(groups) if group in _FILLING + _READING]
    locations = known_locations(program, flow, block) if asked else {}
    for position in asked:
        fills, tokens = groups[position] in _FILLING, program.instructions[position].tokens
        if tokens:
            touched += [(token.name, token.low, token.high, fills) for token in tokens]
        elif position in locations:
            mask = locations[position].mask
            touched.append(("", (mask & -mask).bit_length() - 1, mask.bit_length(), fills))
        else:
            unknown += 1
    rows = [(row["name"], int(row["low"]), int(row["high"])) for row in named] or _ranges(touched)
    return LdsUse(tuple(LdsRow(name, low, high, *(sum(1 for _, first, last, filling in touched
                                                      if filling is fills and first < high and last > low) for fills in (True, False)))
                        for name, low, high in rows), unknown)


def _ranges(touched: Sequence[tuple[str, int, int, bool]]) -> list[tuple[str, int, int]]:
    """Named ranges as they are; of others those that meet joined."""
    found = list({(name, low, high) for name, low, high, _ in touched if name})
    joined: list[tuple[int, int]] = []
    for low, high in sorted((low, high) for name, low, high, _ in touched if not name):
        if joined and low < joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], high)
        else:
            joined.append((low, high))
    return sorted(found + [("", low, high) for low, high in joined], key=lambda row: (row[1], row[2], row[0]))
