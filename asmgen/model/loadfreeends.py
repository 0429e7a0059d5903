"""What a workgroup's ends take beside the time of its loads' bytes: what comes before its first load and after its last one, and a trip.

A launch takes no less than the time that far memory needs for all of its bytes. The ends of a loop wait for some of them, so they do not
come on top of that time. What does is what is executed before the first load and after the last wait for one, and the round trip to the
first data: none of it depends on what far memory gives in a clk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(slots=True)
class LoadBurst:
    """Loads that are under way from clk `begin` to `end` without a gap, the round trip of the first one and the argument that it is of, and
    when the last wave that has to wait for any of them goes on; 0 as long as none has."""

    begin: int
    end: int
    trip: int
    argument: int
    awaited: int = 0


def load_free_ends(bursts: Sequence[LoadBurst], before: float, after: float, cycles: float) -> tuple[float, tuple[int, ...]]:
    """The clk of a run, of so many before its main loop and after it, that come on top of the time of the loads' bytes, and the arguments
    whose round trips are among them. Loads of the ends that are asked for when all others are there have a trip of their own. Without loads
    all of the ends come on top. Without a loop all of the run is ends."""
    loop = before, cycles - after
    awaited = [one for one in bursts if one.awaited]
    if not awaited:
        return before + after, ()
    first, last = awaited[0], awaited[-1]
    arguments = [first.argument]
    free = _outside(0, first.begin, loop) + first.trip + _outside(last.awaited, cycles, loop)
    for one, following in pairwise(awaited):
        if following.begin >= one.awaited and not loop[0] < following.begin < loop[1]:
            free += _outside(one.awaited, following.begin, loop) + following.trip
            arguments.append(following.argument)
    return free, tuple(arguments)


def _outside(begin: float, end: float, loop: tuple[float, float]) -> float:
    """clk from `begin` to `end` without those of a whole loop."""
    whole = begin <= loop[0] and loop[1] <= end
    return end - begin - (loop[1] - loop[0] if whole else 0)
