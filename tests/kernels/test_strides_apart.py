"""Blocks at multiples of strides: apart or not, against all places written out."""

from __future__ import annotations

import itertools
import random

import pytest

from asmgen.kernels.stridesapart import blocks_are_apart


def written_out(axes: list[tuple[int, int]], size: int) -> bool:
    places = sorted(map(sum, itertools.product(*([stride * number for number in range(count)] for stride, count in axes))))
    return all(after - before >= size for before, after in itertools.pairwise(places))


def test_drawn_axes() -> None:
    draw = random.Random(5)
    found = []
    for _ in range(3000):
        axes = [(draw.randint(0, 60), draw.randint(1, 6)) for _ in range(draw.randint(1, 4))]
        size = draw.randint(1, 6)
        found.append(blocks_are_apart(axes, size))
        assert found[-1] == written_out(axes, size), (axes, size)
    assert 500 < sum(found) < 2500


@pytest.mark.parametrize(("axes", "size", "apart"), [
    ([(3 * 128, 128), (128, 3)], 128, True), ([(3 * 128, 128), (128, 3)], 129, False),  # lines beside lines
    ([(2 * 128, 3), (3 * 128, 2)], 128, True), ([(2 * 128, 4), (3 * 128, 3)], 128, False),  # lines between lines: 3 * 2 is 2 * 3
    ([(1021 * 128, 1031), (1031 * 128, 1021), (1 << 40, 1 << 20)], 128, True), ([(1021 * 128, 1032), (1031 * 128, 1022)], 128, False),
    ([(0, 1), (5, 2)], 5, True), ([(0, 2), (5, 2)], 5, False), ([], 7, True)])
def test_axes_by_hand(axes: list[tuple[int, int]], size: int, apart: bool) -> None:
    assert blocks_are_apart(axes, size) is apart
