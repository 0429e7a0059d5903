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
DOUBLE_WORDS = frozenset({"f64", "b64", "u64", "i64"})
"""Types of one number in two registers."""
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
    """A source with its modifiers: a constant by its bits, a list of numbers in several registers by all of them."""
    handles = source.handles(group)
    if len(handles) > 1 and source.type not in DOUBLE_WORDS:
        return _hash_of_list(np.asarray(source.raw(group)).view(np.uint32), cells.expanded(handles), table)
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


def _hash_of_list(words: Any, fields: Handles, table: Expressions) -> Hashed:
    """Of registers [n, waves, lanes]."""
    data = np.bitwise_or.reduce(table.data(fields), axis=0)
    hashes = mixed(*(table.of(field, bits) for field, bits in zip(fields, words, strict=True)))
    return Hashed(hashes, np.asarray(fields.any(axis=(0, -1))), data)


def hash_of_bytes(source: OperandSource, low: int, nibbles: int, group: Group, cells: WordCells, table: Expressions) -> Hashed:
    """Some nibbles of a register, from number `low` on, which the source's own pattern begins with."""
    field = cells.expanded(source.handles(group)[0])[..., low:low + nibbles]
    bits = np.asarray(source.raw(group)).view(np.uint32) & np.uint32((1 << 4 * nibbles) - 1)
    return Hashed(table.of(field, bits), np.asarray(field.any(axis=-1)), table.data(field))


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
