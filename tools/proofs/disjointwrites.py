"""Whether workgroups write disjoint bytes of memory, for strides of any size: from the terms of addresses of a launch. Atomics of several
workgroups may go to the same bytes, beside no store.

An address is a pointer, plus strides times numbers of rows, plus bytes in a row: pointer + s0 i0 + s1 i1 + ... + j. These numbers are
computed for each wave and lane that stored. Two workgroups write disjoint bytes where no (i0, i1, ..., j) is in both: then that holds for
all strides for which the rows of an array share no bytes. A store beyond its row's end has a j that no row has, so the addresses of the
launch itself are compared too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from asmgen.author.contract.contract import KernelContract, Parameter
from asmgen.emulator.terms.accesses import AddressSequence
from asmgen.emulator.terms.polynomials import WORD, Term
from asmgen.isa.arch import LANES
from asmgen.tools.proofs.addressrun import AddressReport
from asmgen.tools.proofs.exactnumbers import HOLDS, Numbers
from asmgen.tools.proofs.termvalues import Makings, TermValues, word_of

_ITEM = "item."
_POINTER = 1 << 40
_FAR = 4099
"""A stride beyond all rows of these launches, at which addresses must be affine too."""
_WIDER = (1, 2, 33)
"""Times the launch's strides: a lane is left out by a buffer's end where it is with each of these."""

Array = np.ndarray[Any, Any]


def is_stride(parameter: Parameter) -> bool:
    """Whether a parameter says how far apart the rows of an array lie, as those of the library do by their names."""
    return parameter.kind == "run" and parameter.type is int and ("stride" in parameter.name or parameter.name.startswith("ld"))


@dataclass(frozen=True)
class Overlap:
    """Two workgroups that write the same bytes of an array, by linear number; one of them stores."""

    array: str
    first: int
    second: int
    instruction: str

    def sentence(self) -> str:
        """For people."""
        return f"workgroups {self.first} and {self.second} write the same elements of {self.array}, one by {self.instruction}"


@dataclass(frozen=True)
class _Written:
    """What one instruction wrote: `workgroups` and `starts` [n], numbers that strides are multiplied with [n, strides], bytes of each.
    With the launch's strides and its active lanes: `addresses` [k], by the workgroups `own`."""

    array: str
    text: str
    workgroups: Array
    rows: Array
    starts: Array
    addresses: Array
    own: Array
    width: int
    atomic: bool


@dataclass
class WriteCheck:
    """Of the launch of a report, whose parameters are `values`. `lost` says why it cannot be told."""

    report: AddressReport
    contract: KernelContract
    values: Mapping[str, Any]
    lost: str = ""
    stores: int = 0
    _known: dict[tuple[tuple[int, ...], tuple[int, ...]], TermValues] = field(default_factory=dict)
    _moving: dict[tuple[tuple[int, ...], tuple[int, ...], Term], Numbers] = field(default_factory=dict)
    """What terms are without their constants, by waves and strides: stores side by side differ in the constant alone."""

    def __post_init__(self) -> None:
        self._algebra = self.report.algebra
        self._makings = Makings(self._algebra)
        strides = {parameter.name for parameter in self.contract.parameters if is_stride(parameter)}
        given = {variable.name: number for number, variable in enumerate(self._algebra.variables) if variable.given}
        self._strides = [number for name, number in given.items() if name in strides]
        numbers = {parameter.name for parameter in self.contract.parameters}
        self._pointers = {number: name for name, number in given.items()
                          if self._algebra.variables[number].high >= WORD and name not in numbers}
        self._given = given
        self._ones = (1,) * len(self._strides)
        self._launched = tuple(word_of(self.values[self._algebra.variables[number].name]) for number in self._strides)
        self._grid = self.contract.grid_of(self.values)
        x, y, z = self.contract.workgroup
        self._waves = -(-x * y * z // LANES)
        self._beside: dict[tuple[int, int, str], list[AddressSequence]] = {}
        for sequence in self.report.sequences:
            for wave in sequence.waves if sequence.what in ("offset", "records") else ():
                self._beside.setdefault((id(sequence.instruction), wave, sequence.what), []).append(sequence)

    def overlap(self) -> Overlap | None:
        """The first that is found; `lost` is not empty where a store is not followed."""
        written: dict[str, list[_Written]] = {}
        for sequence in self.report.sequences:
            row = sequence.instruction.opcode.memory
            if sequence.what != "address" or row is None or row.kind == "load":
                continue
            self.stores += row.kind == "store"
            places = {term: place for place, term in reversed([*enumerate(sequence.terms)])}
            for term, place in places.items():
                if term is None:
                    self.lost = self.lost or f"where `{sequence.instruction.text}` stores is not known as a formula"
                    continue
                try:
                    one = self._written(sequence, term, place)
                except (KeyError, TypeError, ValueError, OverflowError) as error:
                    self.lost = self.lost or f"where `{sequence.instruction.text}` stores is made of what is not followed ({error})"
                    continue
                written.setdefault(one.array, []).append(one)
        return next((found for parts in written.values() if (found := _shared(parts)) is not None), None)

    def _written(self, sequence: AddressSequence, term: Term, place: int) -> _Written:
        row = sequence.instruction.opcode.memory
        assert row is not None
        pointers = sorted({self._pointers[number] for monomial, _ in term for number in monomial if number in self._pointers})
        if len(pointers) != 1:
            raise ValueError(f"{len(pointers)} pointers")
        parts, waves = self._makings.of(term), sequence.waves
        used = [place for place, number in enumerate(self._strides) if parts >> number & 1]
        self._known = {key: values for key, values in self._known.items() if key[0] in (waves, waves[:1])}  # others take memory
        self._moving = {key: values for key, values in self._moving.items() if key[0] in (waves, waves[:1])}
        base = self._lane_values(term, waves, self._ones)
        each = {place: self._lane_values(term, waves, self._with({place: 2})) - base for place in used}
        self._assert_affine(term, waves[:1], base[:1], {place: one[:1] for place, one in each.items()})
        none = np.zeros_like(base)
        flat = np.stack([each.get(place, none) for place in range(len(self._strides))], -1).reshape(base.size, len(self._strides)) \
            if self._strides else np.zeros((base.size, 0), np.int64)
        starts = (base - sum(each.values(), none) - _POINTER).reshape(-1)
        addresses = (self._lane_values(term, waves, self._launched) - _POINTER).reshape(-1)
        groups = np.repeat(np.array(waves, np.int64) // self._waves, LANES)
        here, own = (inside.reshape(-1) for inside in self._in_range(sequence, place))
        active = [self.report.lanes.get((id(sequence.instruction), wave), {}).get(term, np.ones(LANES, bool)) for wave in waves]
        now = own & np.concatenate(active)
        width = max(int(row.bytes), 1)
        return _Written(pointers[0], sequence.instruction.text, groups[here], flat[here], starts[here], addresses[now], groups[now], width,
                        row.kind == "atomic")

    def _with(self, others: Mapping[int, int]) -> tuple[int, ...]:
        """Strides of 1 but for some, by their places."""
        return tuple(others.get(place, 1) for place in range(len(self._strides)))

    def _assert_affine(self, term: Term, waves: tuple[int, ...], base: Array, each: Mapping[int, Array]) -> None:
        """Raises ValueError where a term is not affine in strides: alone, with one of them far, with all of them."""
        tried = [{place: factor} for place in each for factor in (3, _FAR)]
        tried += [dict.fromkeys(each, _FAR), {place: 2 + number for number, place in enumerate(each)}] if len(each) > 1 else []
        for others in tried:
            expected = base + sum(((factor - 1) * each[place] for place, factor in others.items()), np.zeros_like(base))
            if (self._lane_values(term, waves, self._with(others)) != expected).any():
                raise ValueError("a stride that it is not affine in")

    def _in_range(self, sequence: AddressSequence, place: int) -> tuple[Array, Array]:
        """The lanes of each wave that a buffer's end does not leave out: with one of some multiples of the launch's strides, and with
        these themselves. What it leaves out writes nothing. All, where that is not known."""
        wider, own = np.ones((2, len(sequence.waves), LANES), bool)
        alike = dict[tuple[Term, Term], list[int]]()
        for row, wave in enumerate(sequence.waves):
            beside = [self._beside.get((id(sequence.instruction), wave, what), []) for what in ("offset", "records")]
            terms = [parts[0].terms[place] for parts in beside if len(parts) == 1 and place < len(parts[0].terms)]
            if len(terms) == len(beside) and terms[0] is not None and terms[1] is not None:
                alike.setdefault((terms[0], terms[1]), []).append(row)
        for (first, last), rows in alike.items():
            inside = [offset[rows] % WORD < records[rows] % WORD for offset, records in (
                (self._lane_values(term, sequence.waves, tuple(times * one for one in self._launched)) for term in (first, last))
                for times in _WIDER)]
            wider[rows], own[rows] = np.logical_or.reduce(inside), inside[_WIDER.index(1)]
        return wider, own

    def _lane_values(self, term: Term, waves: tuple[int, ...], strides: tuple[int, ...]) -> Array:
        """What a term is in each lane of some waves, with these strides, [waves, 64]. Raises OverflowError for numbers beyond 64 bits."""
        moving = tuple(part for part in term if part[0])
        constant = sum(factor for monomial, factor in term if not monomial)
        found = self._moving.get((waves, strides, moving))
        if found is None:
            if (waves, strides) not in self._known:
                self._known[waves, strides] = TermValues(self._makings, self._launch(waves, strides), LANES * len(waves))
            found = self._moving[waves, strides, moving] = np.asarray(self._known[waves, strides].of(moving))
        if found.dtype == object or abs(constant) >= HOLDS or int(np.abs(found).max(initial=0)) >= HOLDS:
            found = found.astype(object)  # the sum may be beyond 64 bits
        return np.asarray(found + constant).astype(np.int64).reshape(len(waves), LANES)

    def _launch(self, waves: tuple[int, ...], strides: tuple[int, ...]) -> dict[int, Array]:
        """What the launch gives to the lanes of waves."""
        groups, own = np.divmod(np.repeat(np.array(waves, np.int64), LANES), self._waves)
        items, (x, y, _) = own * LANES + np.tile(np.arange(LANES), len(waves)), self._grid
        ids = {"workgroup.x": groups % x, "workgroup.y": groups // x % y, "workgroup.z": groups // (x * y)}
        known = dict[int, Any]()
        for name, number in self._given.items():
            if number in self._pointers:
                known[number] = _POINTER
            elif name.startswith(_ITEM):
                known[number] = items >> int(name.removeprefix(_ITEM)) & 1
            elif name in ids or number in self._strides or not isinstance(self.values[name], str):
                known[number] = ids[name] if name in ids else word_of(self.values[name])
        known |= dict(zip(self._strides, strides, strict=True))
        return {number: np.broadcast_to(np.asarray(value, np.int64), items.shape) for number, value in known.items()}


def _shared(parts: list[_Written]) -> Overlap | None:
    """Bytes of one array that two workgroups write: for all strides, or with the launch's own."""
    alone = [(np.zeros((len(one.addresses), 0), np.int64), one.addresses, one.own) for one in parts]
    return _same_cells(parts, [(one.rows, one.starts, one.workgroups) for one in parts]) or _same_cells(parts, alone)


def _same_cells(parts: list[_Written], located: list[tuple[Array, Array, Array]]) -> Overlap | None:
    """The first (rows, byte) of two workgroups, one of which stores; `located` are the rows, first bytes and workgroups of each part."""
    unit = math.gcd(*(one.width for one in parts), *(int(np.gcd.reduce(starts)) for _, starts, _ in located))
    counts = [one.width // unit for one in parts]
    rows = np.concatenate([np.repeat(rows, count, axis=0) for count, (rows, _, _) in zip(counts, located, strict=True)])
    places = np.concatenate([((starts // unit)[:, None] + np.arange(count)).reshape(-1)
                             for count, (_, starts, _) in zip(counts, located, strict=True)])
    if not len(places):
        return None
    groups = np.concatenate([np.repeat(groups, count) for count, (_, _, groups) in zip(counts, located, strict=True)])
    numbers = np.repeat(np.arange(len(parts)), [count * len(starts) for count, (_, starts, _) in zip(counts, located, strict=True)])
    cells = one_number([*rows.T, places])
    order = np.argsort(cells)
    begins = np.flatnonzero(np.diff(cells[order], prepend=cells[order[0]] - 1))
    stored, by = ~np.array([one.atomic for one in parts])[numbers], groups[order]
    shared = (np.minimum.reduceat(by, begins) != np.maximum.reduceat(by, begins)) & np.logical_or.reduceat(stored[order], begins)
    if not shared.any():
        return None
    same = np.flatnonzero(cells == cells[order[begins[int(np.argmax(shared))]]])
    same = same[np.argsort(groups[same], kind="stable")]
    store = same[int(np.argmax(stored[same]))]
    other = next(one for one in same if groups[one] != groups[store])
    first, second = sorted((store, other), key=lambda one: int(groups[one]))
    return Overlap(parts[0].array, int(groups[first]), int(groups[second]), parts[int(numbers[second])].text)


def one_number(columns: Sequence[Array]) -> Array:
    """A number for each row of some columns, ordered as the rows are: equal where these are equal in all columns, and only there. Columns
    are digits of it; where 63 bits do not hold these, numbers so far and the next column are their ranks."""
    found, size = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        low = int(column.min())
        span = int(column.max()) - low + 1
        if size * span >= 1 << 63:
            found, column = (np.unique(one, return_inverse=True)[1].reshape(-1).astype(np.int64) for one in (found, column))
            low, size, span = 0, int(found.max()) + 1, int(column.max()) + 1
        found, size = found * span + (column - low), size * span
    return found
