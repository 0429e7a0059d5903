"""Whether sets of accesses to LDS by different waves have bytes in common, one of them a write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from asmgen.checks.raceproofs.lifetimes import Key
from asmgen.checks.raceproofs.valuepaths import ValuePaths

LOAD, STORE, ATOMIC = "load", "store", "atomic"
_CLASH = ((STORE, LOAD), (STORE, STORE), (STORE, ATOMIC), (LOAD, STORE), (LOAD, ATOMIC), (ATOMIC, STORE), (ATOMIC, LOAD))
"""Reads do not disturb each other, and atomics do not: their order is free, their effect is whole."""
_MOST_SEARCHES = 10_000
"""How often an instruction that races with itself alone may be met before that is all that is said."""


@dataclass(frozen=True)
class Conflict:
    """Two accesses that clash at bytes `low` to `high` - 1 for `waves`; without waves, where the first goes is not known."""

    first: Key
    second: Key
    waves: tuple[int, int] | None = None
    low: int = 0
    high: int = 0
    sure: bool = False

    @property
    def alike(self) -> bool:
        """Whether both are one instruction that writes: then both may write the same numbers."""
        return self.first[1] == self.second[1]

    def better(self, other: Conflict | None) -> bool:
        """Whether it says more than another one: known lanes before others, then two instructions before one."""
        return other is None or (self.sure, not self.alike) > (other.sure, not other.alike)


@dataclass(frozen=True)
class _Bytes:
    """What accesses touch: by kind and wave a mask of bytes, and by kind the accesses of unknown places."""

    known: Mapping[tuple[str, int], int]
    unknown: Mapping[str, Key]
    kinds: frozenset[str]


class Conflicts:
    """Of a program's paths; `kinds` by position."""

    def __init__(self, paths: ValuePaths, kinds: Mapping[int, str]) -> None:
        self._paths, self._kinds = paths, kinds
        self._searches = 0
        self._summed: dict[tuple[frozenset[Key], int], _Bytes] = {}

    def between(self, mine: frozenset[Key], one: int, theirs: frozenset[Key], other: int) -> Conflict | None:
        """A clash of accesses of some wave in `one` with some of another wave in `other`, one of known places first."""
        first, second = self._sum(mine, one), self._sum(theirs, other)
        unsure: Conflict | None = None
        for kind, against in _CLASH:
            for wave in _waves(one):
                bytes_here = first.known.get((kind, wave), 0)
                for rival in _waves(other) if bytes_here else ():
                    if wave != rival and bytes_here & second.known.get((against, rival), 0):
                        found = self._named(mine, theirs, kind, against, wave, rival)
                        if self._enough(found):
                            return found
                        unsure = found if found.better(unsure) else unsure
        return unsure or self._unknown(first, second, theirs) or self._unknown(second, first, mine)

    def alone(self, unordered: Mapping[Key, frozenset[Key]]) -> Conflict | None:
        """A clash of a wave with itself: an access of bytes that the wave's own may still touch, one of the two a load into LDS."""
        for key, alive in sorted(unordered.items()):
            for first in sorted(alive):
                mine, others = (self._paths.nodes[number].touched.get(position) for number, position in (first, key))
                if mine is None or others is None:
                    return Conflict(first, key)
                for wave in _waves(self._paths.nodes[first[0]].waves & self._paths.nodes[key[0]].waves):
                    common = mine.of(wave) & others.of(wave)
                    if common:
                        return Conflict(first, key, (wave, wave), *_first_run(common))
        return None

    def _enough(self, found: Conflict) -> bool:
        """Whether to look no further: two instructions race, or one does in many ways and none beside it was found."""
        if found.sure and found.alike:
            self._searches += 1
        return found.sure and (not found.alike or self._searches > _MOST_SEARCHES)

    def _unknown(self, first: _Bytes, second: _Bytes, theirs: frozenset[Key]) -> Conflict | None:
        for kind, key in first.unknown.items():
            for against in second.kinds:
                if (kind, against) in _CLASH:
                    return Conflict(key, next(one for one in theirs if self._kinds[one[1]] == against))
        return None

    def _named(self, mine: frozenset[Key], theirs: frozenset[Key], kind: str, against: str, wave: int, rival: int) -> Conflict:
        """Two of the accesses that clash, such whose lanes are known before others."""
        unsure: Conflict | None = None
        second = list(self._touching(theirs, against, rival))
        for first, bytes_here, sure in self._touching(mine, kind, wave):
            for key, others, both in second:
                common = bytes_here & others
                if common:
                    found = Conflict(first, key, (wave, rival), *_first_run(common), sure and both)
                    if self._enough(found):
                        return found
                    unsure = found if found.better(unsure) else unsure
        assert unsure is not None
        return unsure

    def _touching(self, keys: frozenset[Key], kind: str, wave: int) -> Iterator[tuple[Key, int, bool]]:
        for key in sorted(keys):
            patterns = self._paths.nodes[key[0]].touched.get(key[1])
            if self._kinds[key[1]] == kind and patterns is not None:
                touched = patterns.of(wave)
                if touched:
                    yield key, touched, patterns.sure

    def _sum(self, keys: frozenset[Key], waves: int) -> _Bytes:
        known = self._summed.get((keys, waves))
        if known is None:
            known = self._summed[keys, waves] = self._summed_up(keys, waves)
        return known

    def _summed_up(self, keys: frozenset[Key], waves: int) -> _Bytes:
        masks: dict[tuple[str, int], int] = {}
        unknown: dict[str, Key] = {}
        kinds = set()
        for key in sorted(keys):
            kind, patterns = self._kinds[key[1]], self._paths.nodes[key[0]].touched.get(key[1])
            if patterns is None:
                unknown.setdefault(kind, key)
                kinds.add(kind)
                continue
            for wave in _waves(waves):
                touched = patterns.of(wave)
                if touched:
                    kinds.add(kind)
                    masks[kind, wave] = masks.get((kind, wave), 0) | touched
        return _Bytes(masks, unknown, frozenset(kinds))


def _first_run(mask: int) -> tuple[int, int]:
    """Where the first bytes of a mask that follow each other begin and end."""
    low = (mask & -mask).bit_length() - 1
    return low, low + (~(mask >> low) & (mask >> low) + 1).bit_length() - 1


def _waves(mask: int) -> Iterator[int]:
    return (wave for wave in range(mask.bit_length()) if mask >> wave & 1)
