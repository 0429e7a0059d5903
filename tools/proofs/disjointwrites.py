"""Whether workgroups write disjoint bytes of memory, for strides of any size: from the terms of addresses of a launch. Atomics of several
workgroups may go to the same bytes, beside no store.

An address is a pointer, plus strides times numbers of rows, plus bytes in a row: pointer + s0 i0 + s1 i1 + ... + j. These numbers are
computed for each wave and lane that stored. Two workgroups write disjoint bytes where no (i0, i1, ..., j) is in both: then that holds for
all strides for which the rows of an array share no bytes. A store beyond its row's end has a j that no row has, so the addresses of the
launch itself are compared too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from asmgen.author.contract.contract import KernelContract, Parameter
from asmgen.emulator.terms.accesses import AddressSequence
from asmgen.emulator.terms.polynomials import WORD, Term
from asmgen.isa.arch import LANES
from asmgen.tools.proofs.addressrun import AddressReport
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
        parts = self._parts(term)
        used = [place for place, number in enumerate(self._strides) if number in parts]
        waves = sequence.waves
        self._known = {key: values for key, values in self._known.items() if key[0] in (waves, waves[:1])}  # others take memory
        base = self._lane_values(term, waves, self._ones)
        each = {place: self._lane_values(term, waves, self._with({place: 2})) - base for place in used}
        self._assert_affine(term, waves[:1], base[:1], {place: one[:1] for place, one in each.items()})
        none = np.zeros_like(base)
        flat = np.stack([each.get(place, none) for place in range(len(self._strides))], -1).reshape(base.size, len(self._strides)) \
            if self._strides else np.zeros((base.size, 0), np.int64)
        starts = (base - sum(each.values(), none) - _POINTER).reshape(-1)
        addresses = (self._lane_values(term, waves, self._launched) - _POINTER).reshape(-1)
        groups = np.repeat(np.array(waves, np.int64) // self._waves, LANES)
        here = self._in_range(sequence, place, _WIDER).reshape(-1)
        active = [self.report.lanes.get((id(sequence.instruction), wave), {}).get(term, np.ones(LANES, bool)) for wave in waves]
        now = self._in_range(sequence, place, (1,)).reshape(-1) & np.concatenate(active)
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

    def _in_range(self, sequence: AddressSequence, place: int, factors: tuple[int, ...]) -> Array:
        """The lanes of each wave that a buffer's end does not leave out, with the launch's strides times one of some factors: what it
        leaves out writes nothing. All, where that is not known."""
        inside, alike = np.ones((len(sequence.waves), LANES), bool), dict[tuple[Term, Term], list[int]]()
        for row, wave in enumerate(sequence.waves):
            beside = [self._beside.get((id(sequence.instruction), wave, what), []) for what in ("offset", "records")]
            terms = [parts[0].terms[place] for parts in beside if len(parts) == 1 and place < len(parts[0].terms)]
            if len(terms) == len(beside) and terms[0] is not None and terms[1] is not None:
                alike.setdefault((terms[0], terms[1]), []).append(row)
        for (first, last), rows in alike.items():
            inside[rows] = False
            for times in factors:
                wider = tuple(times * one for one in self._launched)
                offset, records = (self._lane_values(term, sequence.waves, wider)[rows] for term in (first, last))
                inside[rows] |= offset % WORD < records % WORD
        return inside

    def _lane_values(self, term: Term, waves: tuple[int, ...], strides: tuple[int, ...]) -> Array:
        """What a term is in each lane of some waves, with these strides, [waves, 64]. Raises OverflowError for numbers beyond 64 bits."""
        if (waves, strides) not in self._known:
            self._known[waves, strides] = TermValues(self._makings, self._launch(waves, strides), LANES * len(waves))
        return np.asarray(self._known[waves, strides].of(term)).astype(np.int64).reshape(len(waves), LANES)

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

    def _parts(self, term: Term) -> set[int]:
        """The variables that a term is made of."""
        found, waiting = set[int](), [number for monomial, _ in term for number in monomial]
        while waiting:
            number = waiting.pop()
            if number not in found:
                found.add(number)
                variable = self._algebra.variables[number]
                waiting += variable.bits
                waiting += [inner for one in variable.made_of if isinstance(one, tuple) for monomial, _ in one for inner in monomial]
        return found


def _shared(parts: list[_Written]) -> Overlap | None:
    """Bytes of one array that two workgroups write: for all strides, or with the launch's own."""
    alone = [(np.zeros((len(one.addresses), 0), np.int64), one.addresses, one.own) for one in parts]
    return _same_cells(parts, [(one.rows, one.starts, one.workgroups) for one in parts]) or _same_cells(parts, alone)


def _same_cells(parts: list[_Written], located: list[tuple[Array, Array, Array]]) -> Overlap | None:
    """The first (rows, byte) of two workgroups, one of which stores; `located` are the rows, first bytes and workgroups of each part."""
    unit = math.gcd(*(one.width for one in parts), *(int(np.gcd.reduce(starts)) for _, starts, _ in located))
    cells = []
    for number, (one, (rows, starts, workgroups)) in enumerate(zip(parts, located, strict=True)):
        count = one.width // unit
        place = (starts // unit)[:, None] + np.arange(count)
        cells.append(np.column_stack([np.repeat(rows, count, axis=0), place.reshape(-1), np.repeat(workgroups, count),
                                      np.full(place.size, number)]))
    every = np.concatenate(cells)
    every = every[np.lexsort(every.T[-2::-1])]
    if not len(every):
        return None
    begins = np.flatnonzero(np.concatenate([[True], (every[1:, :-2] != every[:-1, :-2]).any(axis=1)]))
    ends = np.append(begins[1:], len(every)) - 1
    stored = ~np.array([one.atomic for one in parts])[every[:, -1]]
    shared = (every[begins, -2] != every[ends, -2]) & np.logical_or.reduceat(stored, begins)
    if not shared.any():
        return None
    cell = slice(begins[int(np.argmax(shared))], ends[int(np.argmax(shared))] + 1)
    store = every[cell][int(np.argmax(stored[cell]))]
    other = next(one for one in every[cell] if one[-2] != store[-2])
    first, second = sorted((store, other), key=lambda one: int(one[-2]))
    return Overlap(parts[0].array, int(first[-2]), int(second[-2]), parts[int(second[-1])].text)

