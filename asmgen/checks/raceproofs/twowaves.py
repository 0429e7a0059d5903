"""Two waves at barriers with the same number, and where they may be at the next ones.

The wave that comes second to a decision that both take alike goes the way of the first: what the first has decided is *pending* until then.
So it is with what both compute alike in code of their own. Where the two decide or compute something else, nothing is known from then on.
"""

from __future__ import annotations

from collections.abc import Iterator

from asmgen.checks.raceproofs.intervals import END, Decision, Intervals, Way
from asmgen.checks.raceproofs.lifetimes import Key
from asmgen.isa.records import dataclass

_MOST_PENDING = 64


@dataclass(frozen=True)
class TwoWaves:
    """Two waves at barriers with the same number. `pending` are decisions that the one which is `ahead` (1: the first, -1: the second) has
    taken and the other will take; None where nothing is known of what the two decide. `alive` is what each still does to LDS on the ways
    that they have come; None for what any way there leaves."""

    one: Key
    other: Key
    ahead: int
    pending: tuple[Decision, ...] | None
    alive: tuple[frozenset[Key], frozenset[Key]] | None

    def flying(self, mine: Intervals, theirs: Intervals) -> tuple[frozenset[Key], frozenset[Key]]:
        """What may be alive of each as they pass these barriers."""
        return self.alive or (mine.alive(self.one), theirs.alive(self.other))


def onward(pair: TwoWaves, mine: Intervals, theirs: Intervals) -> Iterator[tuple[TwoWaves, frozenset[Key], frozenset[Key]]]:
    """Where two waves are next, on all ways that they may take together, and what of each is alive meanwhile."""
    over, beyond = pair.flying(mine, theirs)
    others = [(way, beyond | way.accesses) for way in theirs.ways(pair.other)]
    for first in mine.ways(pair.one):
        here = over | first.accesses
        for second, there in others:
            compared = _compared(pair, first, second)
            if compared is not None:
                alive = None if pair.alive is None else (here & mine.alive(first.after), there & theirs.alive(second.after))
                yield TwoWaves(first.after, second.after, *compared, alive), here, there


def _compared(pair: TwoWaves, first: Way, second: Way) -> tuple[int, tuple[Decision, ...] | None] | None:
    """Which wave is ahead after one of these ways each, by what it decided; None where they would not decide so."""
    if pair.pending is None:
        return 0, None
    mine = (*pair.pending, *first.decisions) if pair.ahead > 0 else first.decisions
    theirs = (*pair.pending, *second.decisions) if pair.ahead < 0 else second.decisions
    for (what, way), (other, taken) in zip(mine, theirs, strict=False):
        if what != other:
            return 0, None
        if way != taken:
            return None
    met = min(len(mine), len(theirs))
    pending = mine[met:] or theirs[met:]
    ahead = (len(mine) > met) - (len(theirs) > met)
    ended = (pair.one, pair.other)[ahead > 0] == END if ahead else END in (pair.one, pair.other)
    if ended or len(pending) > _MOST_PENDING:  # who has ended will not decide what the other has decided
        return 0, None
    return ahead, pending
