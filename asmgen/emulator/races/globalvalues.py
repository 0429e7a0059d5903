"""Whether waves that store to the same bytes of device memory in one barrier interval store the same values: then no order matters.

Kernels whose waves all hold a row's sum let all of them store it. Who reads such bytes meanwhile finds the same in any order only where
the stores change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Stores:
    """Bytes that waves stored, in the order in which they did: place, wave, value; -1 - wave where the value is not known."""

    locations: Numbers
    waves: Numbers
    values: Numbers


def stored(low: Numbers, lengths: Numbers, waves: Numbers, data: NDArray[np.uint8] | None, starts: Numbers, ends: Numbers) -> Stores:
    """What lanes [n] of an instruction store from `low` on, `lengths` bytes of `data` [n, size], within the stretches starts to ends - 1.

    The stretches are sorted and do not overlap.
    """
    near = np.searchsorted(starts, low + lengths, "left") > np.searchsorted(ends, low, "right")
    low, lengths, waves = low[near], lengths[near], waves[near]
    offsets = np.arange(int(lengths.max(initial=0)))
    locations = low[:, None] + offsets
    stretch = np.searchsorted(starts, locations, "right") - 1
    inside = (offsets < lengths[:, None]) & (stretch >= 0) & (locations < ends[stretch])
    owners = np.broadcast_to(waves[:, None], locations.shape)
    values = -1 - owners if data is None else data[near][:, :len(offsets)].astype(np.int64)
    return Stores(locations[inside], owners[inside], values[inside])


def agreed(stores: list[Stores], starts: Numbers) -> NDArray[np.bool_]:
    """Which of the stretches that begin at `starts` hold the same in the end, whichever wave comes last."""
    locations, waves, values = (np.concatenate([getattr(part, column) for part in stores]) for column in ("locations", "waves", "values"))
    order = np.lexsort((waves, locations))  # stable: what a wave stored last stays after what it stored before
    locations, waves, values = locations[order], waves[order], values[order]
    last = np.append((locations[1:] != locations[:-1]) | (waves[1:] != waves[:-1]), True)
    locations, values = locations[last], values[last]
    different = (locations[1:] == locations[:-1]) & (values[1:] != values[:-1])
    result = np.ones(len(starts), bool)
    result[np.searchsorted(starts, locations[1:][different], "right") - 1] = False
    return result


def untouched(changes: list[Stores], starts: Numbers) -> NDArray[np.bool_]:
    """Which of the stretches that begin at `starts` every store leaves as they are; `changes` has 0 for bytes that stay the same."""
    result = np.ones(len(starts), bool)
    for part in changes:
        result[np.searchsorted(starts, part.locations[part.values != 0], "right") - 1] = False
    return result


def changes_of(u8: NDArray[np.uint8], addresses: Numbers, lengths: Numbers, data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """1 for each byte of `data` [waves, lanes, bytes], of each lane the first `lengths`, that is not in memory `u8` at `addresses` yet."""
    offsets = np.arange(data.shape[2])
    written = offsets < lengths[..., None]
    result = np.zeros(data.shape, np.uint8)
    result[written] = u8[(addresses[..., None] + offsets)[written]] != data[written]
    return result
