"""What address terms share: the table, carries of lane masks and of SCC, and how operands become words with terms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.carried.cells import UNKNOWN, Handles, whole
from asmgen.emulator.carried.operandhandles import OperandSource
from asmgen.emulator.machine.state import LANES, Group, Machine
from asmgen.emulator.terms.polynomials import WORD, Term, TermVariable
from asmgen.emulator.terms.termwords import TermFlag, TermTable, TermWord, TermWords

LANE_BITS = 6


@dataclass
class TermState:
    """Of one domain. `item_bits` are the variables of the work-item's number, lowest bit first."""

    table: TermTable = field(default_factory=TermTable)
    item_bits: list[int] = field(default_factory=list)
    _carries: dict[int, Handles] = field(default_factory=dict)  # of lane masks, by machine and first register
    _scc: dict[int, Handles] = field(default_factory=dict)
    _compared: dict[int, NDArray[np.bool_]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.words = TermWords(self.table)

    # ---- carries ----

    def carries(self, machine: Machine, register: int, group: Group) -> Handles | None:
        """The terms of a lane mask that is a carry, by lane."""
        kept = self._carries.get(id(machine) << 8 | register)
        found = None if kept is None else kept[group.select]
        return found if found is not None and found.all() else None

    def keep_carries(self, machine: Machine, register: int, group: Group, flag: TermFlag | None) -> None:
        """A lane mask was written: with carries, or with something else."""
        key = id(machine) << 8 | register
        if flag is None or flag.ids is None:
            if key in self._carries:
                self._carries[key][group.select] = 0
            return
        kept = self._carries.setdefault(key, np.zeros((machine.waves, LANES), np.uint32))
        kept[group.select] = flag.ids

    def scc(self, machine: Machine, group: Group) -> TermFlag:
        """SCC as a truth, with its term."""
        values, kept = machine.scc[group.select], self._scc.get(id(machine))
        ids = np.full(values.shape, UNKNOWN, np.uint32) if kept is None else kept[group.select]
        return TermFlag(values, self.filled(ids, values) if ids.any() else None)

    def keep_scc(self, machine: Machine, group: Group, flag: TermFlag | None, compared: bool = False) -> None:
        """SCC was written, by a comparison or not; None: by what has no rule."""
        kept = self._scc.setdefault(id(machine), np.full(machine.waves, UNKNOWN, np.uint32))
        kept[group.select] = UNKNOWN if flag is None else 0 if flag.ids is None else flag.ids.reshape(-1)
        self._compared.setdefault(id(machine), np.zeros(machine.waves, bool))[group.select] = compared

    def is_compared(self, machine: Machine, group: Group) -> NDArray[np.bool_]:
        """By wave, whether a comparison wrote SCC."""
        kept = self._compared.get(id(machine))
        return np.zeros(group.size, bool) if kept is None else kept[group.select]

    # ---- operands ----

    def word(self, value: Any, handles: Handles, low: int = 0, size: int = 32) -> TermWord | TermFlag:
        """A source: its value, the handles of its words, and which bits of them it takes."""
        value = np.asarray(value)
        if value.dtype == bool:
            return TermFlag(value)
        pattern = value if value.dtype.kind == "u" else value.view(f"u{value.dtype.itemsize}")
        if not handles.any():
            return TermWord(pattern)
        algebra, bits = self.table.algebra, 8 * pattern.dtype.itemsize
        if bits == 64:
            parts = [(pattern & np.uint64(WORD - 1)).astype(np.uint32), (pattern >> np.uint64(32)).astype(np.uint32)]
            ids = [self.filled(one, part) for one, part in zip(handles, parts, strict=True)]
            return TermWord(pattern, self.table.applied(("pair",), lambda x, y: algebra.add(
                algebra.truncated(x, 32), algebra.truncated(y, 32), WORD), *ids))
        taken = min(bits, size)
        if taken == 32:
            return TermWord(pattern, self.filled(handles[0], pattern))
        known = np.where(whole(handles[0]) & (handles[0] != 0), handles[0], np.uint32(UNKNOWN))
        field_of = self.table.applied(("field", low, taken), lambda term: algebra.truncated(
            algebra.quotient(algebra.truncated(term, 32), low), taken), known)
        return TermWord(pattern, self.filled(np.where(handles[0] != 0, field_of, np.uint32(0)), pattern))

    def of(self, source: OperandSource, group: Group) -> TermWord | TermFlag:
        """A source of a vector instruction."""
        return self.word(source.value(group), source.handles(group), 4 * source.low, 4 * min(source.count, 8))

    def filled(self, handles: Handles, values: Any) -> Handles:
        """Terms of words: of the run's own values where there are none."""
        handles = np.where(whole(handles), handles, np.uint32(UNKNOWN))
        if (handles != 0).all():
            return handles
        return np.where(handles != 0, handles, self.table.constants(np.asarray(values)))

    def halves(self, word: TermWord) -> list[Handles]:
        """The terms of both registers of a 64-bit result."""
        if word.ids is None:
            return [np.zeros((1, 1), np.uint32)] * 2
        algebra = self.table.algebra
        return [word.ids, self.table.applied(("upper",), lambda term: algebra.quotient(term, 32), word.ids)]

    def in_lane(self, term: Term, lane: int) -> Term | None:
        """A term with the bits of a lane's number."""
        algebra = self.table.algebra
        values = {number: algebra.number(lane >> position & 1) for position, number in enumerate(self.item_bits[:LANE_BITS])}

        def again(variable: TermVariable, parts: tuple[Any, ...]) -> Term:
            if variable.name.startswith("floor / 2^"):
                return algebra.quotient(parts[0], int(variable.name.removeprefix("floor / 2^")))
            if variable.name == "sum":
                return parts[0]  # type: ignore[no-any-return]
            return algebra.function(variable.name, *parts, low=variable.low, high=variable.high)

        return algebra.replaced(term, values, again)


def distinct(ids: Handles, lanes: NDArray[np.bool_]) -> list[list[int]]:
    """The terms of each wave's active lanes, ascending: of [waves, 64], most often one for all."""
    if ids.size and (ids == ids[0, 0]).all():
        only = [int(ids[0, 0])]
        return [only if active else [] for active in np.logical_or.reduce(lanes, axis=1).tolist()]
    return [np.unique(row[active]).tolist() for row, active in zip(ids, lanes, strict=True)]
