"""The register plan and the register map as text: printed from the objects, so that they cannot drift from the code."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from asmgen.isa.records import dataclass
from asmgen.isa.registers import SGPR_COUNT, VGPR_COUNT, Reg, m0
from asmgen.regalloc.plan import RegisterPlan
from asmgen.regalloc.ranges import Range, Span, short_file

MAP_WIDTH = 100
_CELL_WIDTH = 26
_FREE = "."
_FILE_ORDER = ("v", "a", "s", "scc")
Owners = tuple[tuple[str, ...], ...]
"""The names that hold a register, in order of their beginning, for each region."""


@dataclass(frozen=True)
class MapColumn:
    """A column of the register map: a part of the program with a name, from position `first` to `last`, both inclusive."""

    name: str
    first: int
    last: int


@dataclass(frozen=True)
class MapRow:
    """Neighbouring registers that the same names hold in every region; one tuple of names a region, in order of their beginning."""

    reg: Reg
    owners: Owners


def format_plan(plan: RegisterPlan) -> str:
    """The plan as one block: a line with the totals, then for each range its registers, name, kind, lines of taking and release, why."""
    lines = [_totals(plan)]
    cells = [("registers", "name", "kind", "lines", "why")]
    cells += [(str(row.range.reg), row.range.name, row.range.kind, _lifetime(row.range), row.why) for row in plan.table()]
    widths = [max(len(row[column]) for row in cells) for column in range(4)]
    for *fixed, why in cells:
        lines.append(f"  {_columns(fixed, widths)}  {why}".rstrip())
    return "\n".join(lines) + "\n"


def _totals(plan: RegisterPlan) -> str:
    used = plan.resources()
    parts = f"{used.vgprs} VGPRs"
    if used.agprs:
        parts += f" (AGPRs from {used.accum_offset} on) + {used.agprs} AGPRs = {used.total} of {plan.limit}"
    else:
        parts += f" of {min(plan.limit, VGPR_COUNT)}"
    waves = f"{used.waves_per_simd} wave{'s' if used.waves_per_simd > 1 else ''} per SIMD"
    if plan.waves is not None:
        waves += f" ({plan.waves} wanted)"
    return f"register plan, {plan.arch}: {parts}, {waves}; {used.sgprs} SGPRs"


def _lifetime(r: Range) -> str:
    if r.released is None:
        return f"{short_file(r.taken)} to the end"
    if r.ended_by:
        return f"{short_file(r.taken)} to {r.ended_by.partition(',')[0]}"
    return f"{short_file(r.taken)} to {short_file(r.released, r.taken).removeprefix('line ')}"


def map_rows(spans: Sequence[Span], regions: Sequence[MapColumn]) -> list[MapRow]:
    """The register map as data: rows by file and number, equal neighbours joined, free runs only between registers that are used."""
    return _join(_owners(spans, regions))


def _owners(spans: Sequence[Span], regions: Sequence[MapColumn]) -> dict[str, list[Owners]]:
    """For each file, for each of its registers up to the last one used, the names in each region."""
    table: dict[str, list[Owners]] = {}
    for file in _FILE_ORDER:
        own = sorted((span for span in spans if span.reg.file == file), key=lambda span: (span.first, span.last, span.name))
        holders: list[list[Span]] = [[] for _ in range(max((span.reg.last + 1 for span in own), default=0))]
        for span in own:
            for index in range(span.reg.index, span.reg.last + 1):
                holders[index].append(span)
        table[file] = [tuple(_names(of_one, region) for region in regions) for of_one in holders]
    return table


def _names(spans: Sequence[Span], region: MapColumn) -> tuple[str, ...]:
    return tuple(dict.fromkeys(span.name for span in spans if span.first <= region.last and region.first <= span.last))


def _join(table: dict[str, list[Owners]]) -> list[MapRow]:
    rows: list[MapRow] = []
    for file, cells in table.items():
        used = [index for index, owners in enumerate(cells) if any(owners)]
        if not used:
            continue
        index = used[0]
        for owners, run in groupby(cells[index: used[-1] + 1]):
            count = len(list(run))
            # A free run up to a special register says nothing: specials are in no pool.
            if any(owners) or file != "s" or index + count <= SGPR_COUNT:
                rows.extend(MapRow(reg, owners) for reg in _named_parts(file, index, count))
            index += count
    return rows


def _named_parts(file: str, index: int, count: int) -> list[Reg]:
    """The run as the assembler can name it: special scalar registers (vcc, exec) are no part of s[...]."""
    if file != "s" or index + count <= SGPR_COUNT:
        return [Reg(file, index, count)]
    plain = [Reg(file, index, SGPR_COUNT - index)] if index < SGPR_COUNT else []
    first = max(index, SGPR_COUNT)
    # Pairs first: vcc rather than vcc_lo and vcc_hi.
    while first < index + count:
        size = 2 if first % 2 == 0 and first + 1 < index + count and first != m0.index else 1
        plain.append(Reg(file, first, size))
        first += size
    return plain


def format_map(spans: Sequence[Span], regions: Sequence[MapColumn], width: int = MAP_WIDTH) -> str:
    """The register map as text of at most `width` (at least 40) characters a line.

    One row a run of registers, one column a region, in each cell the names that hold the registers there, in order ("k, p": k, then or
    also p), "." where nobody does. Columns that do not fit side by side follow in further blocks, each with its own joined rows.
    """
    table = _owners(spans, regions)
    blocks = []
    first = 0
    while first < len(regions):
        cells = _cells(table, regions, first, first + 1)
        last = first + 1
        while last < len(regions) and _width(wider := _cells(table, regions, first, last + 1)) <= max(width, 40):
            last, cells = last + 1, wider
        blocks.append(_format_block(cells))
        first = last
    return "\n".join(blocks)


def _cells(table: dict[str, list[Owners]], regions: Sequence[MapColumn], first: int, last: int) -> list[tuple[str, ...]]:
    """The text of the regions `first` to `last - 1`, the heading first."""
    rows = _join({file: [owners[first:last] for owners in column] for file, column in table.items()})
    heading = ("", *(_clip(region.name) for region in regions[first:last]))
    return [heading, *((str(row.reg), *(_cell(names) for names in row.owners)) for row in rows)]


def _width(cells: Sequence[tuple[str, ...]]) -> int:
    return sum(max(len(row[column]) for row in cells) + 2 for column in range(len(cells[0]))) - 2


def _format_block(cells: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    return "".join(_columns(row, widths).rstrip() + "\n" for row in cells)


def _columns(texts: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(text.ljust(width) for text, width in zip(texts, widths, strict=True))


def _cell(names: Sequence[str]) -> str:
    """The names as far as they fit, then how many more."""
    for count in range(len(names), 0, -1):
        more = f" +{len(names) - count}" if count < len(names) else ""
        text = ", ".join(names[:count]) + more
        if len(text) <= _CELL_WIDTH:
            return text
    return _clip(names[0], f" +{len(names) - 1}" if len(names) > 1 else "") if names else _FREE


def _clip(name: str, more: str = "") -> str:
    room = _CELL_WIDTH - len(more)
    return (name if len(name) <= room else name[: room - 2] + "..") + more
