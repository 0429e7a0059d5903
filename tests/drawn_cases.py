"""The loop of tools that draw numbered cases and judge each."""

from __future__ import annotations

from collections.abc import Callable

_SHOWN = 900  # characters of a failure
_BETWEEN = 10  # cases from one line of progress to the next


def failed_of(failure: Callable[[int, int], str], count: int, seed: int) -> int:
    """Judge that many cases of a seed; prints what `failure` says of each, "" if it is right. Returns how many failed."""
    failed = 0
    for number in range(count):
        wrong = failure(number, seed)
        failed += bool(wrong)
        if wrong:
            print(wrong[:_SHOWN], flush=True)
        if (number + 1) % _BETWEEN == 0:
            print(f"{number + 1} cases, {failed} failed", flush=True)
    return failed
