"""What to change in values that rules refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

_MOST_CHANGED = 3


def near_values(tries: Mapping[str, Sequence[Any]], given: Mapping[str, Any], keeps: Callable[[Mapping[str, Any]], bool]) \
        -> list[dict[str, Any]]:
    """The smallest changes of given values, each to one of those that `tries` names for it, that keep all rules: of as few values as may
    be, at most three, those back to the first one, a default, before others. Nothing where no change serves."""
    for count in range(1, _MOST_CHANGED + 1):
        found = [change for change in _changes(tries, given, count) if keeps({**given, **change})]
        if found:
            return sorted(found, key=lambda change: sum(tries[name][0] != value for name, value in change.items()))
    return []


def _changes(tries: Mapping[str, Sequence[Any]], given: Mapping[str, Any], count: int) -> Iterator[dict[str, Any]]:
    for some in combinations(tries, count):
        for values in product(*([value for value in tries[name] if value != given[name]] for name in some)):
            yield dict(zip(some, values, strict=True))


def written(change: Mapping[str, Any]) -> str:
    """Build parameters as -p takes them."""
    return " ".join(f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in change.items())
