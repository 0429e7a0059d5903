"""`asmgen layout`: which lane, register and bits hold each element of a matrix instruction's operand, as table, JSON and picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from asmgen.isa.errors import AsmgenError, OperandError
from asmgen.isa.layouts_mfma import OPERANDS, element_type
from asmgen.isa.mfmaoperands import Element, layout, matrix_row
from asmgen.isa.opcodes.mfma import F8F6F4_FORMATS, MFMA, MfmaRow

AXES = {"a": ("i", "k"), "b": ("k", "j"), "c": ("i", "j"), "d": ("i", "j"), "scale_a": ("i", "kb"), "scale_b": ("kb", "j"),
        "index": ("i", "k")}
"""What rows and columns of an operand's table count; kb are blocks of 32 k."""


@dataclass(frozen=True)
class OperandTable:
    """One operand: its element type and all its elements, or those of one lane and register."""

    instruction: str
    arch: str
    operand: str
    type: str
    elements: tuple[Element, ...]

    def as_json(self) -> dict[str, Any]:
        """The fields of `asmgen layout --json`."""
        return {"instruction": self.instruction, "arch": self.arch, "operand": self.operand, "type": self.type,
                "elements": [{"index": list(one.index), "lane": one.lane, "register": one.register, "bit": one.bit, "bits": one.bits}
                             for one in self.elements]}


def operand_tables(instruction: str, arch: str | None = None, operand: str | None = None, formats: str | None = None,
                   lane: int | None = None, register: int | None = None) -> list[OperandTable]:
    """The tables of one operand, or of all that the instruction has. `formats` are A's and B's of f8f6f4 ("fp8,fp4").

    Raises OperandError for what does not exist, with what does.
    """
    name = instruction if instruction.startswith("v_") else f"v_mfma_{instruction}"
    chosen = arch or _newest(name)
    row = matrix_row(name, chosen)
    cbsz, blgp = _formats(row, formats)
    if operand is not None and operand not in OPERANDS:
        raise OperandError(f"there is no operand {operand!r}; a layout shows {', '.join(OPERANDS)}")
    names = [operand] if operand else ["a", "b", "d", *(["scale_a", "scale_b"] if row.scaled else []), *(["index"] if row.sparse else [])]
    found, everything = [], []
    for one in names:
        elements = layout(name, one, chosen, cbsz=cbsz if row.f8f6f4 else 0, blgp=blgp if row.f8f6f4 else 0)
        everything += elements
        kept = tuple(each for each in elements if lane in (None, each.lane) and (register is None or register in _registers(each)))
        if kept:
            found.append(OperandTable(name, chosen, one, _type(row, one, cbsz, blgp), kept))
    if not found:
        asked = " and ".join(f"{what} {number}" for what, number in (("lane", lane), ("register", register)) if number is not None)
        raise OperandError(f"{name} {', '.join(names)} has nothing in {asked}: lanes go from 0 to {max(each.lane for each in everything)}, "
                           f"registers from 0 to {max(max(_registers(each)) for each in everything)}")
    return found


def _registers(element: Element) -> range:
    return range(element.register, element.register + (element.bit + element.bits - 1) // 32 + 1)


def _newest(name: str) -> str:
    row = MFMA.get(name)
    return "gfx950" if row is None or "gfx950" in row.archs else "gfx942"


def _formats(row: MfmaRow, formats: str | None) -> tuple[int, int]:
    if formats is None:
        return 0, 0
    if not row.f8f6f4:
        raise OperandError(f"{row.name} has its formats in its name; --formats is for v_mfma_*_f8f6f4")
    parts = [part.strip() for part in formats.split(",")]
    if len(parts) != 2 or any(part not in F8F6F4_FORMATS for part in parts):
        raise OperandError(f"--formats takes A's and B's, two of {', '.join(F8F6F4_FORMATS)} with a comma between, not {formats!r}")
    return F8F6F4_FORMATS.index(parts[0]), F8F6F4_FORMATS.index(parts[1])


def _type(row: MfmaRow, operand: str, cbsz: int, blgp: int) -> str:
    if operand.startswith("scale"):
        return "e8m0"
    if operand == "index":
        return "2 bits"
    return element_type(row, operand, blgp if operand == "b" else cbsz)


def cell(element: Element) -> str:
    """lane:register, and its lowest bit where a register holds several."""
    return f"{element.lane}:{element.register}" + (f".{element.bit}" if element.bits < 32 else "")


def tables_text(tables: Sequence[OperandTable], listed: bool) -> str:
    """For people: a grid for each block, or (`listed`) a line an element."""
    parts = []
    for table in tables:
        row_name, column_name = AXES[table.operand]
        lines = [f"{table.instruction} operand {table.operand} ({table.type}, {table.arch}): "
                 + ("lane:register" + (".lowest bit" if table.elements[0].bits < 32 else ""))]
        if listed:
            lines += [f"  block {one.index[0]} {row_name} {one.index[1]} {column_name} {one.index[2]}: lane {one.lane} "
                      f"register {one.register} bits {one.bit} to {one.bit + one.bits - 1}" for one in table.elements]
        else:
            for block, grid in _grids(table):
                width = max(len(text) for line in grid for text in line)
                if len(_grids(table)) > 1:
                    lines.append(f"block {block}")
                lines.append(f"{row_name}\\{column_name}".rjust(5) + " "
                             + " ".join(str(number).rjust(width) for number in range(len(grid[0]))))
                lines += [str(number).rjust(5) + " " + " ".join(text.rjust(width) for text in line) for number, line in enumerate(grid)]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _grids(table: OperandTable) -> list[tuple[int, list[list[str]]]]:
    grids: dict[int, list[list[str]]] = {}
    for one in table.elements:
        block, row, column = one.index
        grid = grids.setdefault(block, [])
        while len(grid) <= row:
            grid.append([])
        assert len(grid[row]) == column
        grid[row].append(cell(one))
    return sorted(grids.items())


# ---- the picture ----

_CELL_HEIGHT, _LETTER, _MARGIN, _HEAD = 20, 6.4, 46, 44


@dataclass(frozen=True)
class Drawing:
    """One grid of a picture: what stands above it and at its edges, its cells' texts and what each is coloured by, 0 to 63."""

    title: str
    axes: tuple[str, str]
    cells: Sequence[Sequence[tuple[str, int]]]


def tables_svg(tables: Sequence[OperandTable]) -> str:
    """One picture of all tables, below each other: a square for each element, coloured by lane, with lane and register in it.

    Raises AsmgenError for tables of some elements only.
    """
    drawings = []
    for table in tables:
        for block, grid in _grids(table):
            if len({len(line) for line in grid}) != 1:
                raise AsmgenError("a picture shows whole operands; leave out --lane and --register")
            blocks = f", block {block}" if table.elements[-1].index[0] else ""
            title = f"{table.instruction} {table.operand} ({table.type}{blocks}): lane:register" + (".bit" if "." in grid[0][0] else "")
            drawings.append(Drawing(title, AXES[table.operand], [[(text, int(text.partition(":")[0])) for text in line] for line in grid]))
    return drawings_svg(drawings)


def drawings_svg(drawings: Sequence[Drawing]) -> str:
    """One picture of all grids, below each other."""
    parts: list[str] = []
    top = width = 0.0
    for drawing in drawings:
        drawn, size = _grid_svg(drawing, top)
        parts += drawn
        top, width = top + size[1], max(width, size[0])
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{top:.0f}" viewBox="0 0 {width:.0f} {top:.0f}" '
            'font-family="monospace" font-size="10">\n<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n")


def _grid_svg(drawing: Drawing, top: float) -> tuple[list[str], tuple[float, float]]:
    cells, axes = drawing.cells, " \\ ".join(drawing.axes)
    left = max(_MARGIN, len(axes) * _LETTER + 12)
    step = max(max(len(text) for line in cells for text, _ in line), 3) * _LETTER + 6
    parts = [f'<text x="6" y="{top + 16:.0f}" font-size="13">{drawing.title}</text>',
             f'<text x="6" y="{top + 36:.0f}">{axes}</text>']
    for column in range(len(cells[0])):
        parts.append(f'<text x="{left + (column + 0.5) * step:.1f}" y="{top + 36:.0f}" text-anchor="middle" fill="#555">{column}</text>')
    for row, line in enumerate(cells):
        y = top + _HEAD + row * _CELL_HEIGHT
        parts.append(f'<text x="{left - 6:.1f}" y="{y + 14:.0f}" text-anchor="end" fill="#555">{row}</text>')
        for column, (text, hue) in enumerate(line):
            x = left + column * step
            parts.append(f'<rect x="{x:.1f}" y="{y:.0f}" width="{step:.1f}" height="{_CELL_HEIGHT}" fill="{_colour(hue)}" stroke="#888" '
                         f'stroke-width="0.5"/><text x="{x + step / 2:.1f}" y="{y + 14:.0f}" text-anchor="middle">{text}</text>')
    width = max(left + len(cells[0]) * step + 6, len(drawing.title) * 8.2 + 12)
    return parts, (width, _HEAD + len(cells) * _CELL_HEIGHT + 12)


def _colour(lane: int) -> str:
    """Groups of 16 lanes have a hue each, a group's lanes grow darker."""
    return f"hsl({(200, 30, 120, 300)[lane // 16]}, 70%, {94 - lane % 16 * 2}%)"
