"""Tables as plain text, as every command prints them."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

WIDTH = 120
"""Columns of a printed line."""


def render(*parts: Any) -> str:
    """Rich tables and strings as plain text."""
    target = io.StringIO()
    console = Console(file=target, width=WIDTH, highlight=False, markup=False)
    for part in parts:
        console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in target.getvalue().splitlines())


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], numbers: Sequence[str] = ()) -> Table:
    """A table without frames; the columns in `numbers` are right-aligned."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in numbers else "left", no_wrap=column in numbers)
    for row in rows:
        made.add_row(*(str(cell) for cell in row))
    return made
