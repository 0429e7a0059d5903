"""Between which times a prediction lies if the parameters of the timing table may have any values of their ranges.

The launch is timed again with all parameters at the ends of their ranges that make kernels fastest, and with all at those that make them
slowest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from asmgen.isa.timing import Timing
from asmgen.tuning.again import LaunchAgain
from asmgen.tuning.prediction import Prediction
from asmgen.tuning.traced import Traced

FAST, SLOW = False, True
_STILL = 0.001  # of the time: what moves less is not named
GROUPS = ("all", "far memory")
"""Parameters that are moved together: all, and those that say how far data is."""


@dataclass(frozen=True)
class TimeRange:
    """Seconds of a launch with parameters at the ends of their ranges, by setting: "all slow", "far memory fast" and the like, and
    "clock_dense slow" for a parameter by itself. `widest` is the parameter that moves the time most, "" where nothing was asked or none
    does."""

    low: float
    high: float
    settings: Mapping[str, float]
    widest: str = ""


def time_range(traced: Traced, found: Prediction, compared: bool = False) -> TimeRange:
    """The range of a prediction. Parameters that a user set have none. `compared`: for a comparison with others there are more settings,
    and the widest parameter is not looked for; either takes some runs."""
    launch = _MovedLaunch(traced, found)
    moved = {group: launch.names[group] for group in (GROUPS if compared else GROUPS[:1])}
    moved |= {name: frozenset({name}) for name in sorted(launch.alone)}
    seconds = {f"{name} {word}": launch.at(names, end) for name, names in moved.items() for end, word in ((FAST, "fast"), (SLOW, "slow"))}
    every = [found.estimate.seconds, seconds["all fast"], seconds["all slow"]]
    return TimeRange(min(every), max(every), seconds, "" if compared else launch.widest())


class _Noted(dict[str, float]):
    """A table's values that note which of them somebody reads."""

    def __init__(self, values: Mapping[str, float]) -> None:
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> float:
        self.read.add(name)
        return super().__getitem__(name)


class _MovedLaunch:
    """A predicted launch that is timed again with parameters at the ends of their ranges."""

    def __init__(self, traced: Traced, found: Prediction) -> None:
        self.again, self.found, self.timing, self.usual = LaunchAgain(traced, found), found, found.profile.timing, found.estimate.seconds
        values = _Noted(self.timing.at_end(FAST).values)
        table = Timing(self.timing.gpu, values, self.timing.overridden)
        with _noting(values) as far_read:
            far = self.again.far(table)
        with _noting(values) as unit_read:
            run = self.again.run(table, far, cold=True)
        with _noting(values) as launch_read:
            seconds = self.again.seconds_of(run)
        read = frozenset(self.timing.ranges().keys() & (far_read | unit_read | launch_read))
        self.alone = read - far_read - unit_read  # that nothing has to be timed again for
        self.names = {"all": read, "far memory": read & far_read}
        self.known = {(read, FAST): seconds}

    def at(self, names: Collection[str], end: bool) -> float:
        """Seconds with these parameters at an end of their ranges."""
        key = frozenset(names), end
        if key not in self.known:
            table = self.timing.at_end(end, names)
            everything = key[0] == self.names["all"]
            run = replace(self.found.run, timing=table)
            if not self.alone >= key[0]:
                run = self.again.run(table, self.again.far(table), cold=everything)
            self.known[key] = self.again.seconds_of(run)
        return self.known[key]

    def widest(self) -> str:
        """The parameter that moves most, to the side on which all together move more. Among those that need another run, a group is halved
        until one is left; the second half is taken to move what the first leaves of the whole."""
        end = max((FAST, SLOW), key=lambda one: abs(self.at(self.names["all"], one) - self.usual))

        def move(names: Collection[str]) -> float:
            return abs(self.at(names, end) - self.usual) / self.usual

        best, most = max(((name, move({name})) for name in sorted(self.alone)), key=lambda found: found[1], default=("", 0.0))
        group = sorted(self.names["all"] - self.alone)
        whole = move(group)
        while len(group) > 1 and whole > most:
            half = group[:len(group) // 2]
            first = move(half)
            group, whole = (half, first) if first >= whole - first else (group[len(half):], whole - first)
        if whole > most and move(group) > most:
            best, most = group[0], move(group)
        return best if most >= _STILL else ""


@contextmanager
def _noting(values: _Noted) -> Iterator[set[str]]:
    """What is read within."""
    values.read.clear()
    noted: set[str] = set()
    yield noted
    noted |= values.read
