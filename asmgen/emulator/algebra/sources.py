"""Sources of vector instructions as the algebra takes them: patterns with elements, or residues."""

from __future__ import annotations

from typing import Any

import numpy as np

from asmgen.emulator.algebra.elements import WIDTHS, Elements
from asmgen.emulator.algebra.residues import Residues
from asmgen.emulator.algebra.words import Word
from asmgen.emulator.carried.cells import NIBBLES, WordCells
from asmgen.emulator.carried.operandhandles import OperandSource
from asmgen.emulator.machine.state import Group


def word_of(source: OperandSource, group: Group, cells: WordCells) -> Word:
    """As an integer instruction takes it."""
    value = np.asarray(source.value(group))
    pattern = value if value.dtype.kind in "ub" else value.view(f"u{value.dtype.itemsize}")
    handles = source.handles(group)
    if not handles.any() or pattern.dtype == bool:
        return Word(pattern)
    rows = np.concatenate(list(cells.expanded(handles)), axis=-1)
    given = min(source.count, size := 2 * pattern.dtype.itemsize)
    slots = np.zeros((*rows.shape[:-1], size), np.uint32)
    slots[..., :given] = rows[..., source.low:source.low + given]
    return Word(pattern, slots)


def numbers_of(source: OperandSource, group: Group, elements: Elements, cells: WordCells) -> Residues:
    """As a float instruction takes it: the element of a format, with the modifiers of the source."""
    width = WIDTHS[source.type] // 4
    word, nibble = divmod(source.low + width - 1, NIBBLES)
    handles = source.handles(group)
    ids = cells.element(handles[min(word, len(handles) - 1)], nibble) if width <= source.count else np.zeros_like(handles[0])
    found = elements.numbers(ids, source.type, lambda: as_floats(source.raw(group), source.type))
    if source.absolute:
        found = (-found).where(np.signbit(as_floats(source.raw(group), source.type)), found)
    return -found if source.negate else found


def as_floats(value: Any, kind: str) -> Any:
    """A typed array as float64; bf16 stands in uint16."""
    value = np.asarray(value)
    if kind == "bf16":
        value = (value.astype(np.uint32) << np.uint32(16)).view(np.float32)
    elif value.dtype.kind == "u":
        value = value.view(f"f{value.dtype.itemsize}")
    return value.astype(np.float64)
