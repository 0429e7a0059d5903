"""Handles of words, and what is left of their tables where nothing names some of them any more."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.emulator.carried.cells import UNKNOWN, Handles, WordCells
from asmgen.emulator.terms.termstate import distinct


@pytest.mark.parametrize("seed", range(3))
def test_words_name_the_same_elements_in_smaller_tables(seed: int) -> None:
    chance, cells, elements = np.random.default_rng(seed), WordCells(), 5000
    slots = [chance.integers(2, elements, (20, 4, 8), np.uint32) * (chance.random((20, 4, 8)) < 0.3) for _ in range(3)]
    words = [cells.joined(one.astype(np.uint32)) for one in slots]
    before = [cells.expanded(one) for one in words]
    dropped = words.pop(0)
    alive = cells.compacted(words, elements)
    named = {0, UNKNOWN, *(int(one) for part in before[1:] for one in np.unique(part))}
    assert set(np.flatnonzero(alive).tolist()) == named
    numbers = {old: new for new, old in enumerate(sorted(named))}
    for old, handles in zip(before[1:], words, strict=True):
        assert (cells.expanded(handles) == np.vectorize(numbers.get)(old)).all()
    assert cells.used <= sum(one.size for one in words) and dropped.size


def test_compiled_code_finds_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(1)
    slots = (chance.integers(2, 5000, (6, 700, 8), np.uint32) * (chance.random((6, 700, 8)) < 0.2)).astype(np.uint32)
    found = []
    for compiled in (False, True):
        monkeypatch.setattr("asmgen.emulator.carried.cells.loaded", lambda compiled=compiled: compiled)
        cells = WordCells()
        words = cells.joined(slots), cells.joined(slots[0, 0]), cells.joined(slots[:, ::7])
        assert (cells.expanded(words[0]) == slots).all()
        elements = [cells.element(words[2].T, nibble) for nibble in (3, 7)]
        found.append([*words, cells.expanded(words[0].T), *elements, cells.element(words[1], 7)])
    for one, other in zip(*found, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape and (one == other).all()


@pytest.mark.parametrize("ids", [np.full((3, 4), 7), np.array([[7, 7, 8, 7], [2, 2, 2, 2], [9, 1, 1, 9]])])
def test_terms_of_each_waves_active_lanes(ids: Handles) -> None:
    lanes = np.array([[True, True, False, True], [False] * 4, [True] * 4])
    assert distinct(ids.astype(np.uint32), lanes) == [sorted({int(one) for one in row[active]})
                                                      for row, active in zip(ids, lanes, strict=True)]
