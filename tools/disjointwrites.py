"""Whether workgroups write disjoint bytes of memory, for strides of any size: from the terms of addresses of a launch.

An address is a pointer, plus strides times numbers of rows, plus bytes in a row: pointer + s0 i0 + s1 i1 + ... + j. These numbers are
computed for each wave and lane that stored. Two workgroups write disjoint bytes where no (i0, i1, ..., j) is in both: then that holds for
all strides for which the rows of an array share no bytes.
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
from asmgen.tools.addressrun import AddressReport
from asmgen.tools.limitlaunches import TermFunctions, word_of

_ITEM = "item."
_LANE_BITS = (LANES - 1).bit_length()
_POINTER = 1 << 40
_REAL = -2
"""In place of a stride: all strides are those of the launch."""

Array = np.ndarray[Any, Any]


def is_stride(parameter: Parameter) -> bool:
    """Whether a parameter says how far apart the rows of an array lie, as those of the library do by their names."""
    return parameter.kind == "run" and parameter.type is int and ("stride" in parameter.name or parameter.name.startswith("ld"))


@dataclass(frozen=True)
class Overlap:
    """Two workgroups that write the same bytes of an array, by linear number."""

    array: str
    first: int
    second: int
    instruction: str

    def sentence(self) -> str:
        """For people."""
        return f"workgroups {self.first} and {self.second} write the same elements of {self.array}, one by {self.instruction}"


@dataclass(frozen=True)
class _Written:
    """What one instruction wrote: `workgroup` and `start` [n], numbers that strides are multiplied with [n, strides], bytes of each."""

    array: str
    text: str
    workgroups: Array
    rows: Array
    starts: Array
    width: int


@dataclass
class WriteCheck:
    """Of the launch of a report, whose parameters are `values`. `lost` says why it cannot be told."""

    report: AddressReport
    contract: KernelContract
    values: Mapping[str, Any]
    lost: str = ""
    stores: int = 0
    _known: dict[tuple[int, int], dict[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._algebra = self.report.algebra
        self._functions = TermFunctions()
        strides = {parameter.name for parameter in self.contract.parameters if is_stride(parameter)}
        given = {variable.name: number for number, variable in enumerate(self._algebra.variables) if variable.given}
        self._strides = [number for name, number in given.items() if name in strides]
        numbers = {parameter.name for parameter in self.contract.parameters}
        self._pointers = {number: name for name, number in given.items()
                          if self._algebra.variables[number].high >= WORD and name not in numbers}
        self._lanes = {given[f"{_ITEM}{bit}"]: bit for bit in range(_LANE_BITS) if f"{_ITEM}{bit}" in given}
        self._given = given
        self._grid = self.contract.grid_of(self.values)
        x, y, z = self.contract.workgroup
        self._waves = -(-x * y * z // LANES)
        self._mixed: dict[int, bool] = {}
        self._beside: dict[tuple[int, int, str], list[AddressSequence]] = {}
        for sequence in self.report.sequences:
            for wave in sequence.waves if sequence.what in ("offset", "records") else ():
                self._beside.setdefault((id(sequence.instruction), wave, sequence.what), []).append(sequence)

    def overlap(self) -> Overlap | None:
        """The first that is found; `lost` is not empty where a store is not followed."""
        written: dict[str, list[_Written]] = {}
        for sequence in self.report.sequences:
            row = sequence.instruction.opcode.memory
            if sequence.what != "address" or row is None or row.kind != "store":
                continue
            self.stores += 1
            places = {term: place for place, term in reversed([*enumerate(sequence.terms)])}
            for term, place in places.items():
                if term is None:
                    self.lost = self.lost or f"where `{sequence.instruction.text}` stores is not known as a formula"
                    continue
                try:
                    one = self._written(sequence, term, place)
                except (KeyError, TypeError, ValueError) as error:
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
        used = [number for number in self._strides if number in self._parts(term)]
        rows, starts = [], []
        for number, wave in enumerate(sequence.waves):
            ones = self._lane_values(term, wave, None)
            each = [self._lane_values(term, wave, stride) - ones for stride in used]
            if number == 0 and any((self._lane_values(term, wave, stride, 3) - ones != 2 * one).any()
                                   for stride, one in zip(used, each, strict=True)):
                raise ValueError("a stride that it is not affine in")
            rows.append([np.zeros(LANES, np.int64) if stride not in used else each[used.index(stride)] for stride in self._strides])
            starts.append(ones - sum(each, np.zeros(LANES, np.int64)) - _POINTER)
        groups = np.repeat(np.array(sequence.waves, np.int64) // self._waves, LANES)
        by_wave = np.array(rows, np.int64).reshape(len(sequence.waves), len(self._strides), LANES)
        flat = by_wave.swapaxes(1, 2).reshape(len(groups), len(self._strides))
        here = np.concatenate([self._in_range(sequence, wave, place) for wave in sequence.waves])
        width = max(int(row.bytes), 1)
        return _Written(pointers[0], sequence.instruction.text, groups[here], flat[here], np.concatenate(starts)[here], width)

    def _in_range(self, sequence: AddressSequence, wave: int, place: int) -> Array:
        """The lanes of a wave that a buffer's end does not leave out, which writes nothing; all, where that is not known."""
        beside = [self._beside.get((id(sequence.instruction), wave, what), []) for what in ("offset", "records")]
        terms = [parts[0].terms[place] for parts in beside if len(parts) == 1 and place < len(parts[0].terms)]
        if len(terms) < 2 or None in terms:
            return np.ones(LANES, bool)
        offset, records = (self._lane_values(term, wave, _REAL) for term in terms if term is not None)
        return np.asarray(offset % WORD < records % WORD)

    def _lane_values(self, term: Term, wave: int, stride: int | None, factor: int = 2) -> Array:
        """What a term is in each lane of a wave, with strides of 1 but for one of `factor`."""
        known = self._launch(wave, stride, factor)
        total = np.zeros(LANES, np.int64)
        for monomial, coefficient in term:
            product: Any = coefficient
            for number in monomial:
                product = product * (self._by_lane(number, known) if self._of_lanes(number) else self._algebra.value(
                    (((number,), 1),), known, self._functions))
            total = total + product
        return np.broadcast_to(np.asarray(total, np.int64), LANES)

    def _launch(self, wave: int, stride: int | None, factor: int) -> dict[int, int]:
        """What the launch gives to a wave."""
        key = wave, -1 if stride is None else stride * 4 + factor
        if key not in self._known:
            group, own = divmod(wave, self._waves)
            x, y, _ = self._grid
            ids = {"workgroup.x": group % x, "workgroup.y": group // x % y, "workgroup.z": group // (x * y)}
            known = {}
            for name, number in self._given.items():
                if number in self._pointers:
                    known[number] = _POINTER
                elif name.startswith(_ITEM):
                    bit = int(name.removeprefix(_ITEM))
                    if bit >= _LANE_BITS:
                        known[number] = own >> bit - _LANE_BITS & 1
                elif name in ids or number in self._strides or not isinstance(self.values[name], str):
                    ones = number in self._strides and stride != _REAL
                    known[number] = ids[name] if name in ids else 1 if ones else word_of(self.values[name])
            if stride is not None and stride != _REAL:
                known[stride] = factor
            self._known[key] = known
        return self._known[key]

    def _by_lane(self, number: int, known: Mapping[int, int]) -> Array:
        lanes = np.arange(LANES, dtype=np.int64)
        if number in self._lanes:
            return lanes >> self._lanes[number] & 1
        found = []
        for lane in range(LANES):
            given = {at: value for at, value in known.items() if not self._of_lanes(at)}
            given |= {at: lane >> bit & 1 for at, bit in self._lanes.items()}
            found.append(self._algebra.value((((number,), 1),), given, self._functions))
        return np.array(found, np.int64)

    def _of_lanes(self, number: int) -> bool:
        """Whether a variable is not the same for all lanes of a wave."""
        if number not in self._mixed:
            variable = self._algebra.variables[number]
            parts = [inner for one in variable.made_of if isinstance(one, tuple) for monomial, _ in one for inner in monomial]
            parts += list(variable.bits - {number})
            self._mixed[number] = number in self._lanes or any(self._of_lanes(inner) for inner in parts)
        return self._mixed[number]

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
    """Bytes of one array that two workgroups write."""
    unit = math.gcd(*(one.width for one in parts), *(int(np.gcd.reduce(one.starts)) for one in parts))
    cells = []
    for number, one in enumerate(parts):
        count = one.width // unit
        place = (one.starts // unit)[:, None] + np.arange(count)
        cells.append(np.column_stack([np.repeat(one.rows, count, axis=0), place.reshape(-1), np.repeat(one.workgroups, count),
                                      np.full(place.size, number)]))
    every = np.concatenate(cells)
    every = every[np.lexsort(every.T[-2::-1])]
    same = (every[1:, :-2] == every[:-1, :-2]).all(axis=1) & (every[1:, -2] != every[:-1, -2])
    if not same.any():
        return None
    first, second = every[int(np.argmax(same)):][:2]
    return Overlap(parts[0].array, int(first[-2]), int(second[-2]), parts[int(second[-1])].text)

