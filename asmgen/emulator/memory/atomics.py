"""Atomic operations of LDS and memory: what each does to a value, and lanes that meet at one address.

Lanes take their turns in lane order, waves in ascending order before that. Rules from the CDNA3 ISA's pseudo-code (DS and FLAT
instructions). Float additions keep denormals and round to nearest even (that MODE has no say is inferred); minimum and
maximum compare plainly, so that memory keeps its value where either is NaN. Addresses are aligned to the element (inferred).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.machine.state import Group
from asmgen.emulator.memory.lanes import Addresses, ByteView, Lanes
from asmgen.emulator.semantics.values import write_lanes

Array = NDArray[Any]
Change = Callable[[Array, Array, Array], Array]
"""(memory's value, first datum, second datum) to the new value."""

_TYPES: dict[str, type[np.generic]] = {"u32": np.uint32, "b32": np.uint32, "i32": np.int32, "f32": np.float32, "u64": np.uint64,
                                       "b64": np.uint64, "i64": np.int64, "f64": np.float64, "v2f16": np.uint32, "v2bf16": np.uint32}


def _increment(old: Array, x: Array, _: Array) -> Array:
    values: Array = np.where(old >= x, old.dtype.type(0), old + old.dtype.type(1))
    return values


def _decrement(old: Array, x: Array, _: Array) -> Array:
    return np.where((old == 0) | (old > x), x, old - old.dtype.type(1))


def _add(old: Array, x: Array, _: Array) -> Array:
    return _own_nan(old + x, old, x)


def _own_nan(result: Array, old: Array, x: Array) -> Array:
    """The NaN of opposite infinities is positive; this host's is negative."""
    if result.dtype.kind != "f":
        return result
    return np.where(np.isnan(result) & ~np.isnan(old) & ~np.isnan(x), result.dtype.type(np.nan), result)


def _add_halves(old: Array, x: Array, _: Array) -> Array:
    both = _add(np.ascontiguousarray(old).view(np.float16), np.ascontiguousarray(x).view(np.float16), x)
    return both.view(np.uint32)


def _add_bf16(old: Array, x: Array, _: Array) -> Array:
    """Two sums in f32, each rounded to bf16: 24 bits are enough for that to be one rounding."""
    parts = []
    for shift in (np.uint32(16), np.uint32(0)):
        first, second = ((word << shift & np.uint32(0xFFFF0000)).view(np.float32) for word in (old, x))
        total = _own_nan(first + second, first, second).view(np.uint32)
        rounded = (total + np.uint32(0x7FFF) + (total >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
        is_nan = (total & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
        parts.append(np.where(is_nan, total >> np.uint32(16) | np.uint32(0x40), rounded))
    values: Array = parts[0] | parts[1] << np.uint32(16)
    return values


def _exchange_halves(old: Array, x: Array, _: Array) -> Array:
    """Each half of a 64-bit value with its top bit set replaces memory's, without that bit."""
    result = old
    for shift in (0, 32):
        half = np.uint64(0xFFFFFFFF << shift)
        wanted = (x >> np.uint64(shift + 31) & np.uint64(1)) != 0
        result = np.where(wanted, result & ~half | x & np.uint64(0x7FFFFFFF << shift), result)
    return result


CHANGES: dict[str, Change] = {
    "swap": lambda old, x, y: x,
    "add": _add,
    "sub": lambda old, x, y: old - x,
    "rsub": lambda old, x, y: x - old,
    "inc": _increment,
    "dec": _decrement,
    "min": lambda old, x, y: np.where(x < old, x, old),
    "max": lambda old, x, y: np.where(x > old, x, old),
    "and": lambda old, x, y: old & x,
    "or": lambda old, x, y: old | x,
    "xor": lambda old, x, y: old ^ x,
    "cmpswap": lambda old, x, y: np.where(old == y, x, old),
    "mskor": lambda old, x, y: old & ~x | y,
    "wrap": lambda old, x, y: np.where(old >= x, old - x, old + y),
    "pk_add_f16": _add_halves,
    "pk_add_bf16": _add_bf16,
    "condxchg32": _exchange_halves,
}


@dataclass(frozen=True)
class Atomic:
    """One operation: its name in CHANGES, the element's type, and whether the old value is asked for."""

    change: str
    element: np.dtype[Any]
    returns: bool

    @property
    def words(self) -> int:
        """32-bit registers of an element."""
        return self.element.itemsize // 4


def atomic_of(operation: str, operand_type: str, returns: bool) -> Atomic:
    """`operation` as a mnemonic has it ("add", "umin", "cmpst", "pk_add_bf16"). Raises KeyError for one that does not exist."""
    change = {"umin": "min", "smin": "min", "umax": "max", "smax": "max", "wrxchg": "swap", "wrxchg2": "swap", "wrxchg2st64": "swap",
              "cmpst": "cmpswap"}.get(operation, operation)
    if change not in CHANGES:
        raise KeyError(operation)
    return Atomic(change, np.dtype(_TYPES[operand_type]), returns)


def perform(view: ByteView, addresses: Addresses, valid: Lanes, atomic: Atomic, first: Array, second: Array) -> Array:
    """Do it for all valid lanes, in order; returns memory's value before each lane's turn, 0 in other lanes.

    All arrays have one shape; `first` and `second` are the lanes' data as 32- or 64-bit patterns.
    """
    size = atomic.element.itemsize
    cells = (view.u64 if size == 8 else view.u32).view(atomic.element)
    found = np.zeros(addresses.shape, first.dtype)
    at = (addresses[valid] - view.origin) >> (3 if size == 8 else 2)
    if len(at):
        x, y = (np.ascontiguousarray(data[valid]).view(atomic.element) for data in (first, second))
        found[valid] = _in_turn(cells, at, atomic, x, y).view(first.dtype)
    return found


def _in_turn(cells: Array, at: Addresses, atomic: Atomic, x: Array, y: Array) -> Array:
    """Memory's values before each turn, [n]; turns are in array order, as far as that matters: cell by cell."""
    change = CHANGES[atomic.change]
    order = np.argsort(at, kind="stable")
    ordered = at[order]
    begins = np.ones(len(at), bool)
    begins[1:] = ordered[1:] != ordered[:-1]
    start = np.maximum.accumulate(np.where(begins, np.arange(len(at)), 0))
    turn = np.arange(len(at)) - start
    if turn.max() == 0:
        old = cells[at]
        cells[at] = change(old, x, y)
        return old
    if atomic.change in ("add", "sub") and atomic.element.kind in "iu":
        return _running_sums(cells, at, order, start, begins, x if atomic.change == "add" else -x)
    if atomic.change == "add" and not atomic.returns:
        distinct, location = np.unique(at, return_inverse=True)
        totals = cells[distinct]
        np.add.at(totals, location, x)  # one after the other, in array order
        if not np.isnan(totals).any():  # the slow way gives NaNs as they should be
            cells[distinct] = totals
            return np.zeros_like(x)
    found = np.empty_like(x)
    by_turn = order[np.argsort(turn, kind="stable")]
    ends = np.cumsum(np.bincount(turn))
    for begin, end in zip([0, *ends[:-1]], ends, strict=True):
        lanes = by_turn[begin:end]
        old = cells[at[lanes]]
        found[lanes] = old
        cells[at[lanes]] = change(old, x[lanes], y[lanes])
    return found


def _running_sums(cells: Array, at: Addresses, order: Array, start: Array, begins: Array, x: Array) -> Array:
    """Integer additions commute and wrap: each lane sees memory plus what came before it."""
    added = x[order]
    before = np.cumsum(added, dtype=added.dtype) - added
    before -= before[start]
    old = cells[at[order]] + before
    ends = np.append(begins[1:], True)
    cells[at[order][ends]] = (old + added)[ends]
    found = np.empty_like(x)
    found[order] = old
    return found


def joined(vector: Array, slot: int, words: int, group: Group) -> Array:
    """One register, or two as a 64-bit number, [waves, 64]."""
    low = vector[slot, group.select]
    return low if words == 1 else low | vector[slot + 1, group.select].astype(np.uint64) << np.uint64(32)


def write_joined(vector: Array, slot: int, words: int, group: Group, value: Array) -> None:
    """The active lanes' numbers into one register, or two."""
    write_lanes(vector[slot], group, value.astype(np.uint32))
    if words == 2:
        write_lanes(vector[slot + 1], group, (value >> np.uint64(32)).astype(np.uint32))
