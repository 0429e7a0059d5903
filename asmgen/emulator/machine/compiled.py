"""When compiled loops pay: a small launch is over before numba has loaded."""

from __future__ import annotations

import sys

LOADED = "numba"
FROM = 1 << 25
"""Elementary operations of a launch from which on numba is loaded: about what numpy does in the meantime."""


def loaded() -> bool:
    """Whether numba is there already, so that the smallest loops pay."""
    return LOADED in sys.modules


class Work:
    """Counts what a launch has done."""

    def __init__(self) -> None:
        self.done = 0

    def pays(self, more: int) -> bool:
        """Whether to use compiled loops for `more` operations."""
        self.done += more
        return self.done >= FROM or loaded()
