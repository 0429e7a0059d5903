"""Whether waves that write the same bytes of LDS in one barrier interval write the same values: then no order of theirs matters.

Compilers let every wave store a value that all of them hold (a row's maximum after a reduction), and hand-written kernels let
every wave load the same row into LDS. What such bytes hold in the end does not depend on who comes last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Addresses = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Registers = NDArray[np.uint32]
Contents = Callable[[Addresses], Bytes]
"""What stands at byte addresses of the machine's LDS, or will when all LDS-DMA on its way has arrived."""


def bytes_of(words: NDArray[Any], size: int) -> Bytes:
    """The data [waves, lanes, size] of registers [words, waves, lanes]."""
    return np.ascontiguousarray(np.moveaxis(words, 0, -1).astype(np.uint32, copy=False)).view(np.uint8)[..., :size]


def changes(lds: Bytes, at: Addresses, words: Registers, size: int, stride: int) -> NDArray[np.bool_]:
    """Whether a lane's `size` bytes of registers [words, waves, lanes] are others than stand at `at` [waves, lanes] of `lds`; not for
    inactive lanes.

    Where `at` has the waves of the first workgroup only, the others do the same in their own `stride` bytes: any of them counts.
    """
    data = bytes_of(words, size)
    homes = stride * np.arange(len(data) // len(at))[:, None, None, None]
    active = at >= 0
    locations = np.where(active[..., None], at[..., None] + np.arange(data.shape[2]), 0) + homes
    differs = (lds[locations] != data.reshape(locations.shape)).any(axis=(0, 3))
    return np.asarray(differs & active, bool)


def first_differing(at: Addresses, data: Bytes, hits: NDArray[np.int64], granule: int, contents: Contents) -> NDArray[np.int64] | None:
    """The first of `hits`, rows (cell, wave's index, ...), at which a byte gets another value than the wave before gave it, or None.

    `at` [waves, lanes] are byte addresses, negative for inactive lanes, and `data` [waves, lanes, size] what an instruction is about
    to write there, wave after wave. `hits` are the cells in which it races, each with the wave.
    """
    writers = at >= 0
    locations = (at[writers][:, None] + np.arange(data.shape[2])).ravel()
    waves = np.repeat(np.nonzero(writers)[0], data.shape[2])
    order = np.lexsort((waves, locations))
    locations, waves, written = locations[order], waves[order], data[writers].ravel()[order]
    # Of lanes of one wave that write one byte, the highest wins.
    wins = np.append((locations[1:] != locations[:-1]) | (waves[1:] != waves[:-1]), True)
    locations, waves, written = locations[wins], waves[wins], written[wins]
    starts = np.append(True, locations[1:] != locations[:-1])
    first = np.maximum.accumulate(np.where(starts, np.arange(len(locations)), 0))
    # The first wave to write a byte here may race with one that wrote it before; those that follow race with each other.
    differs = written != np.where(starts, contents(locations), written[first])
    if not differs.any():
        return None
    wrong = set(zip((locations[differs] // granule).tolist(), waves[differs].tolist(), strict=True))
    return next((hit for hit in hits if (int(hit[0]), int(hit[1])) in wrong), None)
