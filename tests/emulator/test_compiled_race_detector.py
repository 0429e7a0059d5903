"""The compiled race detector against the numpy one, on random touches; and the exact comparison of spans of device memory."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.emulator.arrival.ldscells import INACTIVE, Cells, LdsAccess, Toucher, carry, touch
from asmgen.emulator.arrival.races_kernels import carry_cells, touch_cells
from asmgen.emulator.races.globalraces import ATOMIC, ATOMIC_READ, READ, WRITE, Spans, conflicts

WAVES, WORKGROUPS, LDS = 6, 2, 512


@pytest.mark.parametrize("granule", [1, 4, 8, 16])
@pytest.mark.parametrize("seed", range(6))
def test_compiled_and_numpy_agree(granule: int, seed: int) -> None:
    """A history of touches by waves of two workgroups of three, with waits, barriers and reads that live on: all is equal at each step."""
    rng = np.random.default_rng(seed)
    first, second = Cells.make(WORKGROUPS * LDS, granule), Cells.make(WORKGROUPS * LDS, granule)
    atomic = rng.random(9) < 0.3
    issued, done, settled = (np.zeros((4, WAVES), np.int32) for _ in range(3))
    intervals = np.full(WORKGROUPS, 65530, np.int64)  # so that the 16 bits in which they are kept wrap around
    kinds = set()
    for _ in range(120):
        size = int(rng.choice([size for size in (1, 2, 4, 8, 16) if size >= granule]))
        waves = np.sort(rng.choice(WAVES, int(rng.integers(1, WAVES + 1)), replace=False)).astype(np.int64)
        homes, queue, number = waves // 3, int(rng.choice([0, 1, 1, 3])), int(rng.integers(9))
        issued[queue, waves] += 1
        at = rng.integers(0, (LDS - 16) // size, (len(waves), 5)) * size + homes[:, None] * LDS
        at = np.where(rng.random(at.shape) < 0.7, at, INACTIVE)
        write = bool(atomic[number]) or rng.random() < 0.5
        changed = (rng.random(at.shape) < rng.choice([0.0, 0.3, 1.0])) | bool(atomic[number])
        access = LdsAccess(size, queue, write, number, atomic, not write and rng.random() < 0.4, changed)
        who = Toucher(waves, waves % 3, issued[queue, waves].copy(), intervals[homes])
        carrying = rng.random() < 0.8
        mine = touch(first, at, access, who, carrying, settled, done)
        theirs = touch_cells(second, at, access, who, carrying, settled, done)
        assert mine[0].tolist() == theirs[0].tolist()
        assert mine[1].tolist() == theirs[1].tolist()
        assert mine[2].tolist() == theirs[2].tolist()
        kinds |= set(np.flatnonzero(mine[0][:, 0] >= 0).tolist())
        if rng.random() < 0.4:
            done[:, waves] = issued[:, waves]
        if rng.random() < 0.2:
            home = int(rng.integers(WORKGROUPS))
            intervals[home] += 1
            settled[:, home * 3:home * 3 + 3] = done[:, home * 3:home * 3 + 3]
            alive = homes == home
            late = Toucher(waves[alive], waves[alive] % 3, issued[queue, waves[alive]], intervals[homes[alive]])
            carry(first, at[alive], size, late)
            carry_cells(second, at[alive], size, late)
        for name in ("writes", "numbers", "readers", "carried", "tried"):
            assert getattr(first, name).tolist() == getattr(second, name).tolist(), name
    assert kinds >= {0, 2, 4, 5}


def test_refined_cells_hold_the_same() -> None:
    cells = Cells.make(64, 16)
    who = Toucher(np.array([0]), np.array([0]), np.array([1], np.int32), np.array([0]))
    nothing = np.zeros((4, 1), np.int32)
    touch(cells, np.array([[16]]), LdsAccess(16, 1, True, 0, np.array([False]), False, np.ones((1, 1), bool)), who, False, nothing, nothing)
    finer = cells.refined(4)
    assert np.flatnonzero(finer.writes).tolist() == [4, 5, 6, 7] and finer.granule == 4


@pytest.mark.parametrize("seed", range(40))
def test_conflicts_of_spans_are_exact(seed: int) -> None:
    """Against the bytes one by one: a conflict is reported in exactly those workgroups and stretches of bytes that have one."""
    rng = np.random.default_rng(seed)
    count, homes = int(rng.integers(1, 30)), np.array([0, 0, 0, 1, 1])
    low = rng.integers(1, 120, count).astype(np.int64)
    kinds = rng.choice([READ, READ, WRITE, ATOMIC, ATOMIC_READ, ATOMIC_READ], count)
    spans = Spans(rng.integers(0, 5, count), low, low + rng.integers(1, 12, count), kinds, low)
    bad = set()
    for home in (0, 1):
        for byte in range(140):
            at = [number for number in range(count) if homes[spans.waves[number]] == home and low[number] <= byte < spans.high[number]]
            if any(spans.waves[one] != spans.waves[two] and (WRITE in (kinds[one], kinds[two])
                                                             or {kinds[one], kinds[two]} == {READ, ATOMIC}) for one in at for two in at):
                bad.add(home << 47 | byte)
    found = set(conflicts(spans, homes).tolist())
    assert found <= bad
    begins = {point for point in bad if point - 1 not in bad}
    assert {max(begin for begin in begins if begin <= point) for point in found} == begins
