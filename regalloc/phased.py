"""Values that take turns: a pipeline's step is recorded once, and what its buffers change is a value for each phase.

    number = Phased((1, 0))           # buffer 1 in phase 0, buffer 0 in phase 1
    4 * number + 1                     # Phased((5, 1))
    held[number]                       # of an OwnedReg: held[1], with its turns (held[1], held[0])

A value that is asked for as a plain number, to index a list or to compare, is that of the present phase. `asked` is told of it: other
phases must then be found in another way.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from math import lcm
from typing import Any


class Phased:
    """`values[p % len(values)]` in phase p. Arithmetic, attributes and `map` are those of each value."""

    __slots__ = ("asked", "values")

    def __init__(self, values: Iterable[Any], asked: Callable[[], None] | None = None) -> None:
        self.values = tuple(values)
        self.asked = asked

    def map(self, of: Callable[[Any], Any]) -> Any:
        """A function of each value."""
        return Phased(map(of, self.values), self.asked)

    def _with(self, other: Any, of: Callable[[Any, Any], Any]) -> Any:
        if not isinstance(other, int | Phased):
            return NotImplemented
        count = period(self, other)
        return Phased([of(at_phase(self, phase), at_phase(other, phase)) for phase in range(count)], self.asked)

    def _now(self) -> Any:
        if self.asked is not None:
            self.asked()
        return self.values[0]

    def __add__(self, other: Any) -> Any:
        return self._with(other, operator.add)

    def __radd__(self, other: Any) -> Any:
        return self._with(other, lambda one, more: more + one)

    def __sub__(self, other: Any) -> Any:
        return self._with(other, operator.sub)

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, lambda one, more: more - one)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, operator.mul)

    def __rmul__(self, other: Any) -> Any:
        return self._with(other, operator.mul)

    def __mod__(self, other: Any) -> Any:
        return self._with(other, operator.mod)

    def __floordiv__(self, other: Any) -> Any:
        return self._with(other, operator.floordiv)

    def __xor__(self, other: Any) -> Any:
        return self._with(other, operator.xor)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.map(operator.attrgetter(name))

    def __index__(self) -> int:
        return operator.index(self._now())

    def __int__(self) -> int:
        return int(self._now())

    def __bool__(self) -> bool:
        return bool(self._now())

    def __eq__(self, other: object) -> bool:
        return bool(self._now() == (other._now() if isinstance(other, Phased) else other))

    def __lt__(self, other: Any) -> bool:
        return bool(self._now() < other)

    def __gt__(self, other: Any) -> bool:
        return bool(self._now() > other)

    def __le__(self, other: Any) -> bool:
        return bool(self._now() <= other)

    def __ge__(self, other: Any) -> bool:
        return bool(self._now() >= other)

    def __hash__(self) -> int:
        return hash(self._now())

    def __str__(self) -> str:
        return str(self._now())

    __repr__ = __str__


def at_phase(value: Any, phase: int) -> Any:
    """A value, or that of a phase if it takes turns."""
    return value.values[phase % len(value.values)] if isinstance(value, Phased) else value


def period(*values: Any) -> int:
    """After so many phases the values are the same again."""
    return lcm(1, *(len(value.values) for value in values if isinstance(value, Phased)))
