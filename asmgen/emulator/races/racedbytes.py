"""Bytes of device memory for which the waves of a workgroup raced already: what workgroups leave there says nothing about them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MOST = 1 << 20
Numbers = NDArray[np.int64]


class RacedBytes:
    """Stretches of bytes; all bytes where there are too many of them."""

    def __init__(self) -> None:
        self._stretches = np.empty((0, 2), np.int64)
        self._all = False

    def add(self, starts: Numbers, ends: Numbers) -> None:
        """Bytes starts to ends - 1."""
        if not self._all:
            self._stretches = np.unique(np.concatenate([self._stretches, np.stack([starts, ends], axis=1)]), axis=0)
            self._all = len(self._stretches) > _MOST

    def meets(self, low: int, high: int) -> bool:
        """Whether some of the bytes low to high - 1 are among them."""
        return self._all or bool(((self._stretches[:, 0] < high) & (self._stretches[:, 1] > low)).any())
