"""What to change in build parameters that rules refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

_MOST_CHANGED = 3


def near_values(tries: Mapping[str, Sequence[Any]], rules: Sequence[tuple[set[str], Callable[[Mapping[str, Any]], bool]]],
                given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The smallest changes of the values in `tries`, each to one that it names, after which all rules hold: of as few values as may be, at
    most three, those back to the first one, a default, before others. Changed is what broken rules of such values alone read, or, where
    that does not serve, what rules beside them read. Nothing where no change serves."""
    own = [(reads, holds) for reads, holds in rules if tries.keys() >= reads]
    read = {name for reads, holds in own if not holds(given) for name in reads}
    beside = read.union(*(reads for reads, _ in own if reads & read))
    for names in (read, beside):
        free = {name: values for name, values in tries.items() if name in names}
        for count in range(1, _MOST_CHANGED + 1):
            found = [change for change in _changes(free, given, count) if all(holds({**given, **change}) for _, holds in rules)]
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
