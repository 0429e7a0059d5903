"""Whether blocks that lie at whole multiples of several strides overlap: exactly, by counting lattice points."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product


def blocks_are_apart(axes: Iterable[tuple[int, int]], size: int) -> bool:
    """Whether no two blocks of `size` elements share one. `axes` are (stride, count): a block begins at the sum of each stride times a
    number from 0 to below its count.

    Two blocks overlap where the differences of their numbers, each below the count of its axis, sum up to less than a block. An axis whose
    stride is at least the span of all smaller ones adds none, so most tensors take no search. Else the points of the two longest axes that
    do are counted for each difference along the others: some tens of microseconds for each.
    """
    ordered = sorted((stride, count) for stride, count in axes if count > 1)
    while ordered and ordered[-1][0] >= size + sum(stride * (count - 1) for stride, count in ordered[:-1]):
        ordered.pop()
    if not ordered:
        return True
    if ordered[0][0] < size:
        return False
    (a, of_a), (b, of_b), *others = sorted(ordered, key=lambda axis: -axis[1])
    plane = (a, 2 * of_a - 1, b, 2 * of_b - 1)
    high = size - 1 + a * (of_a - 1) + b * (of_b - 1)  # differences of both axes from 0 on
    # A sum and its negative overlap alike: one of the axes needs no negative differences.
    signed = [range(count if number == 0 else 2 * count - 1) for number, (_, count) in enumerate(others)]
    least = [0 if number == 0 else 1 - count for number, (_, count) in enumerate(others)]
    for numbers in product(*signed):
        differences = [low + number for low, number in zip(least, numbers, strict=True)]
        last = high - sum(stride * difference for (stride, _), difference in zip(others, differences, strict=True))
        points = _points_below(last, *plane) - _points_below(last - 2 * size + 1, *plane)
        if points > (not any(differences)):  # a block and itself
            return False
    return True


def _points_below(limit: int, a: int, of_a: int, b: int, of_b: int) -> int:
    """How many pairs of x from 0 to below `of_a` and y from 0 to below `of_b` have a x + b y of at most the limit."""
    if limit < 0:
        return 0
    of_a = min(of_a, limit // a + 1)
    whole = min(of_a, max(0, (limit - b * (of_b - 1)) // a + 1))  # numbers x for which each y does
    some = of_a - whole
    return whole * of_b + some + _floor_sum(some, b, a, limit - a * (of_a - 1))


def _floor_sum(count: int, divisor: int, factor: int, first: int) -> int:
    """The sum of (factor i + first) // divisor over i from 0 to below `count`, in as many steps as Euclid's algorithm takes."""
    total = 0
    while True:
        total += count * (count - 1) // 2 * (factor // divisor) + count * (first // divisor)
        factor, first = factor % divisor, first % divisor
        last = factor * count + first
        if last < divisor:
            return total
        count, first = divmod(last, divisor)
        divisor, factor = factor, divisor
