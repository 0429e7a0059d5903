"""`python -m asmgen.tools.tunetables`: what the choice gains over the best single variant."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import click
import pytest

from asmgen.kernels.soonest import Contest
from asmgen.kernels.tuned import Estimated
from asmgen.tools.tunetables import _gain, commands
from asmgen.tuning.candidates import Candidate

Times = dict[tuple[str, int, int], float]
"""Seconds by tile, parts of K and window."""


@dataclass(frozen=True)
class Known(Contest):
    """A contest whose candidates take times that are known."""

    times: tuple[float, ...] = ()
    judged: list[int] = field(default_factory=list)

    def seconds(self, number: int) -> float:
        self.judged.append(number)
        return self.times[number]

    def dispatch(self, number: int) -> float:
        return self.times[number] / 2

    def computing(self, number: int) -> float:
        return 0.9 * self.times[number]


def known(times: Times) -> Known:
    builds = [{"tile": tile, "schedule": "s", "split_k": parts, "window": window} for tile, parts, window in times]
    nothing: Any = None
    return Known(nothing, "gfx950", nothing, [Candidate(one, one, one) for one in builds], [], tuple(times.values()))


def test_the_choice_is_beside_the_best_variant_that_serves_all_shapes() -> None:
    """Of two windows of a variant the faster one counts. 8x8 is the fastest, and does not serve the second shape; parts of K are none of
    a single variant. 1x1 takes 2 / 1 and 8 / 4 of the choice's time, 4x4 4 / 1 and 5 / 4."""
    first = known({("1x1", 1, 0): 2, ("1x1", 1, 3): 7, ("4x4", 1, 0): 4, ("8x8", 1, 0): 1, ("1x1", 2, 0): 3})
    second = known({("1x1", 1, 0): 9, ("1x1", 1, 3): 8, ("4x4", 1, 0): 5, ("4x4", 2, 0): 4})
    said = _gain([first, Estimated({}), second])
    assert said == "2 shapes: the best single variant, 1x1 s, is predicted to take 2.000 times as long as the choice"
    assert 4 not in first.judged, "neither the choice nor a single variant"
    assert 2 not in first.judged, "its bounds, nine tenths of its times, are above the best one's times"


@pytest.mark.parametrize("rows", [[], [Estimated({})], [known({("1x1", 1, 0): 1}), known({("4x4", 1, 0): 1, ("1x1", 2, 0): 1})]])
def test_no_variant_may_serve_all_shapes(rows: list[Estimated | Contest]) -> None:
    assert _gain(rows) == "no variant serves all shapes"


@pytest.mark.parametrize("shapes", [-1, 0, 1000])
def test_so_many_shapes_as_there_are(shapes: int) -> None:
    """None would leave nothing of a file."""
    with pytest.raises(click.BadParameter, match="is not in the range 1<=x<="):
        commands(["gemm-bf16", "--gpu", "MI300X", "--gain", "--shapes", str(shapes)], standalone_mode=False)
