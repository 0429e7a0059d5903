"""Python's collector of reference cycles: the one place that says when it runs.

What asmgen makes has hardly any cycles and lasts to the end of a command. The collector would search all of it again and again.
"""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = 50_000, 20, 50  # objects, young and middle collections before the next older one: the search took a fifth of a command's time


def collect_seldom() -> None:
    """For a whole command: few searches, and none as Python ends."""
    gc.set_threshold(*_THRESHOLDS)
    atexit.register(gc.freeze)


@contextmanager
def collection_paused(keep: bool = False) -> Iterator[None]:
    """No search for cycles within: among the instructions of a file it took a third of the time of reading.

    With `keep`, what was made within counts as old afterwards, so that the next search does not go through it: a build makes some hundred
    thousand objects, and of 20,000 instructions the search took a fourth of the time. Not where the process has frozen objects itself:
    they stay frozen.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if keep and not _frozen_by_process():
            gc.freeze()
            gc.unfreeze()  # moves all objects to the oldest generation
        if running:
            gc.enable()


_found_frozen: list[int] = []  # how many, once some were found


def _frozen_by_process() -> bool:
    """Whether the process has frozen objects itself. Python walks through all of them to count them, .3 s of some million, so they are
    counted until some are found: who freezes objects goes on to."""
    if not _found_frozen and (count := gc.get_freeze_count()):
        _found_frozen.append(count)
    return bool(_found_frozen)
