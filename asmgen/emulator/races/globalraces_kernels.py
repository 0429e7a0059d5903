"""The quick look of `globalraces`, and `globalvalues.changes_of`, compiled. Only `globalraces` loads this file: it needs numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from asmgen.emulator.machine.jit import njit


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


def changes_of(u8: Any, addresses: Any, lengths: Any, data: Any) -> Any:
    """What globalvalues.changes_of does."""
    result = np.zeros(data.shape, np.uint8)
    _changes(u8, addresses, lengths, data, result)
    return result


@njit(cache=True)
def _changes(u8: Any, addresses: Any, lengths: Any, data: Any, result: Any) -> None:
    for wave in range(data.shape[0]):
        for lane in range(data.shape[1]):
            at = addresses[wave, lane]
            for byte in range(min(lengths[wave, lane], data.shape[2])):
                if u8[at + byte] != data[wave, lane, byte]:
                    result[wave, lane, byte] = 1
