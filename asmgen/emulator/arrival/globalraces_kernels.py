"""The quick look of `globalraces`, compiled. Only `globalraces` loads this file: it needs numba."""

from __future__ import annotations

from typing import Any

from asmgen.emulator.scheduling.jit import njit


@njit(cache=True)
def take(owners: Any, addresses: Any, counts: Any, size: int, shift: int, low: int, waves: Any, keeps: bool) -> bool:
    """Whether all cells that the lanes [waves, lanes] touch are nobody's or their own wave's; where it `keeps` them they become its own.

    owners [cells] of 1 << shift bytes from address `low` on: wave + 1, or 0. All addresses and sizes are multiples of a cell's.
    """
    for number in range(addresses.shape[0]):
        me = waves[number] + 1
        for lane in range(addresses.shape[1]):
            first = (addresses[number, lane] - low) >> shift
            for cell in range(first, first + (counts[number, lane] * size >> shift)):
                owner = owners[cell]
                if owner != 0 and owner != me:
                    return False
                if keeps:
                    owners[cell] = me
    return True
