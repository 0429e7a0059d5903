"""Sources of vector instructions as hashes, and results as elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.algebra.elements import WIDTHS
from asmgen.emulator.carried.cells import Handles, WordCells
from asmgen.emulator.carried.operandhandles import OperandSource
from asmgen.emulator.hashes.expressions import Expressions, Hashes, mixed, named
from asmgen.emulator.hashes.nibblecells import codes
from asmgen.emulator.hashes.nibblewords import NibbleWord
from asmgen.emulator.machine.state import Group

Flags = NDArray[np.bool_]
ABSOLUTE, NEGATED = named("absolute"), named("negated")


@dataclass(frozen=True)
class Hashed:
    """What a value is, where it has an element rather than being a constant, and DATA and LOST of it (`expressions`)."""

    hashes: Hashes
    has: Flags
    data: NDArray[np.uint8]


def pattern_of(value: Any) -> Any:
    """The bits of a typed array; truths stay truths."""
    value = np.asarray(value)
    return value if value.dtype.kind in "ub" else value.view(f"u{value.dtype.itemsize}")


def field_of(source: OperandSource, group: Group, cells: WordCells, nibbles: int) -> Handles:
    """The codes of a source's low nibbles."""
    rows = np.concatenate(list(cells.expanded(source.handles(group))), axis=-1)
    field = np.zeros((*rows.shape[:-1], nibbles), np.uint32)
    given = min(source.count, nibbles)
    field[..., :given] = rows[..., source.low:source.low + given]
    return field


def hash_of(source: OperandSource, group: Group, cells: WordCells, table: Expressions) -> Hashed:
    """A source with its modifiers: a constant by its bits."""
    bits = pattern_of(source.value(group))
    nibbles = 1 if bits.dtype == bool else 2 * bits.dtype.itemsize
    if source.type in WIDTHS:
        nibbles = min(nibbles, WIDTHS[source.type] // 4)
    field = field_of(source, group, cells, nibbles)
    constant = table.of(np.zeros_like(field), bits)
    has = np.asarray(field.any(axis=-1))
    if not has.any():
        return Hashed(constant, has, has.astype(np.uint8))
    found = table.of(field, pattern_of(source.raw(group)))
    for flag, name in ((source.absolute, ABSOLUTE), (source.negate, NEGATED)):
        found = mixed(name, found) if flag else found
    return Hashed(np.where(has, found, constant), has, table.data(field))


def word_of(source: OperandSource, group: Group, cells: WordCells) -> Any:
    """A source as an integer instruction takes it: a pattern with codes, or truths."""
    bits = pattern_of(source.value(group))
    if bits.dtype == bool:
        return bits
    field = field_of(source, group, cells, 2 * bits.dtype.itemsize)
    return NibbleWord(bits, field if field.any() else None)


def united(given: list[Hashed], result: Hashes, always: bool = False) -> Hashed:
    """The result of these, an expression where one of them is."""
    has, data = np.asarray(always), np.zeros((), np.uint8)
    for one in given:
        has, data = np.asarray(has | one.has), np.asarray(data | one.data)
    return Hashed(result, has, data)


def made(value: Hashed, nibbles: int, table: Expressions) -> Handles:
    """The codes of new elements [..., nibbles], of none where the result is a constant."""
    shape = np.broadcast_shapes(value.hashes.shape, value.has.shape)
    if not value.has.any():
        return np.zeros((*shape, nibbles), np.uint32)
    fresh = codes(table.made(np.broadcast_to(value.hashes, shape), nibbles, value.data), nibbles)
    return np.where(np.broadcast_to(value.has, shape)[..., None], fresh, np.uint32(0))
