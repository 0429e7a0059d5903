"""Linear algebra over GF(2): a vector is an int, bit n its n-th component; a matrix is the list of its columns' vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def rank(columns: Iterable[int]) -> int:
    """How many of the columns are independent."""
    pivots: list[int] = []
    for column in columns:
        rest = _reduced(column, pivots)
        if rest:
            pivots.append(rest)
    return len(pivots)


def _reduced(vector: int, pivots: Sequence[int]) -> int:
    for pivot in pivots:
        vector = min(vector, vector ^ pivot)
    return vector


class Solver:
    """Solves `columns * x = target` for many targets: x is an int whose bit n says that column n takes part.

    Columns that depend on earlier ones take part in no solution, so among the inputs of one output the lowest is chosen.
    """

    def __init__(self, columns: Sequence[int]) -> None:
        self._pivots: list[tuple[int, int]] = []  # reduced vector, the columns whose sum it is
        self.dependent: list[int] = []
        """Sums of columns that give zero, one for each dependent column: the kernel's basis."""
        for number, column in enumerate(columns):
            vector, taken = self._reduce(column, 1 << number)
            if vector:
                self._pivots.append((vector, taken))
            else:
                self.dependent.append(taken)

    def _reduce(self, vector: int, taken: int) -> tuple[int, int]:
        for pivot, sum_ in self._pivots:
            if vector ^ pivot < vector:
                vector, taken = vector ^ pivot, taken ^ sum_
        return vector, taken

    def solve(self, target: int) -> int | None:
        """A solution, None where there is none."""
        rest, taken = self._reduce(target, 0)
        return None if rest else taken


def bits(value: int) -> list[int]:
    """The places of the bits that are set, lowest first."""
    return [location for location in range(value.bit_length()) if value >> location & 1]
