"""The quick look for races in device memory against the full comparison and against bytes in a dictionary, on random accesses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from asmgen.emulator.races.globalraces import ATOMIC, ATOMIC_READ, READ, WRITE, GlobalArrival, Numbers, Spans, _Row, conflicts

WAVES, LANES = 4, 8
DEVICE = cast(GlobalArrival, SimpleNamespace(machine=SimpleNamespace(work=SimpleNamespace(pays=lambda places: True))))


def rows_of(rng: np.random.Generator, aligned: bool) -> list[_Row]:
    """Some accesses, mostly of each wave in its own part of a small buffer, now and then anywhere; some lanes do nothing."""
    rows = []
    for position in range(int(rng.integers(1, 5))):
        size = int(rng.choice((1, 2, 4, 8)))
        waves = np.sort(rng.choice(WAVES, int(rng.integers(1, WAVES + 1)), replace=False)).astype(np.int64)
        own = waves[:, None] * 64 + rng.integers(0, 48, (len(waves), LANES))
        free = rng.integers(0, 64 * WAVES, own.shape)
        addresses = 0x10000 + np.where(rng.random(own.shape) < rng.choice((0.0, 0.0, 0.05)), free, own)
        if aligned:
            addresses &= -size
        counts = rng.integers(0, 3, own.shape)
        kind = int(rng.choice((READ, ATOMIC_READ, WRITE, ATOMIC)))
        rows.append(_Row(position, kind, 0, 0, waves, waves, np.zeros(len(waves), np.int32), addresses, counts, size, None))
    return rows


def changed_by_two(rows: list[_Row]) -> bool:
    """Whether a wave touches a byte that another one changes."""
    touched: dict[int, set[int]] = {}
    changed: dict[int, set[int]] = {}
    for row in rows:
        for number, wave in enumerate(row.waves.tolist()):
            for address, count in zip(row.addresses[number].tolist(), row.counts[number].tolist(), strict=True):
                for byte in range(address, address + count * row.size):
                    touched.setdefault(byte, set()).add(wave)
                    if row.kind in (WRITE, ATOMIC):
                        changed.setdefault(byte, set()).add(wave)
    return any(touched[byte] - {wave} for byte, waves in changed.items() for wave in waves)


def meeting(rows: list[_Row]) -> Numbers:
    """What the full comparison finds where all waves are of one workgroup."""
    spans: Any = Spans.join([row.lanes() for row in rows])
    return conflicts(spans, np.zeros(WAVES, np.int64)) if len(spans.low) else np.zeros(0, np.int64)


@pytest.mark.parametrize("aligned", [True, False])
def test_the_quick_look_never_hides_a_race(aligned: bool) -> None:
    rng = np.random.default_rng(7)
    said = {True: 0, False: 0}
    for _ in range(1500):
        rows = rows_of(rng, aligned)
        apart, exact = GlobalArrival._apart(DEVICE, rows), changed_by_two(rows)
        said[apart] += 1
        assert apart is not exact, rows  # cells are as small as the addresses need: the look is exact, atomics on one byte aside
        if apart:
            assert not len(meeting(rows)), rows
    assert min(said.values()) > 150, said


def test_places_too_far_apart_for_a_quick_look_show_nothing() -> None:
    rng = np.random.default_rng(3)
    row = next(row for row in rows_of(rng, True) if row.counts.any())
    assert GlobalArrival._apart(DEVICE, [row]) is not changed_by_two([row])
    other = _Row(9, WRITE, 0, 0, row.waves, row.select, row.tickets, row.addresses + (1 << 40), row.counts, row.size, None)
    assert GlobalArrival._apart(DEVICE, [row, other]) is False
