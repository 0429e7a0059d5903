"""The rows of a printed register plan."""

from __future__ import annotations

from collections.abc import Sequence

from asmgen.isa.records import dataclass
from asmgen.regalloc.ranges import Range


@dataclass(frozen=True)
class PlanRow:
    """One line of the printed plan; `why` says what a view is for and whose registers the range takes over."""

    range: Range
    why: str


def plan_rows(ranges: Sequence[Range]) -> list[PlanRow]:
    """One row a range, by file (v, a, s, scc) and number, then in the order of their taking, in which `ranges` are."""
    rows = []
    before: dict[tuple[int, str], None] = {}  # (registers, name) of all that owned some, the last one last
    for r in ranges:
        rows.append(PlanRow(r, _why(ranges, r, before)))
        if r.owns:
            before.pop((r.reg.mask, r.name), None)
            before[r.reg.mask, r.name] = None
    return sorted(rows, key=lambda row: ("vas".find(row.range.reg.file) % 4, row.range.reg.index, row.range.lease))


def _why(ranges: Sequence[Range], r: Range, before: dict[tuple[int, str], None]) -> str:
    """Why a name shares registers; `before` are (registers, name) of those that owned some before, the last one last."""
    parts = []
    if r.parents:
        parts.append(f"{r.kind} of " + " and ".join(repr(ranges[lease].name) for lease in r.parents))
    else:
        bits, names = r.reg.mask, []
        for mask, name in reversed(before):
            if not bits:
                break
            # Only the last holder of each register is of interest.
            if mask & bits and name != r.name:
                bits &= ~mask
                names.append(repr(name))
        if names:
            parts.append("after " + " and ".join(names))
    return ": ".join([*parts, r.note] if r.note else parts)
