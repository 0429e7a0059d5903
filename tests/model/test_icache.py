"""The instruction cache: cold and warm code, loops that fit and loops that do not; each figure by counting, in clk."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from asmgen.emulator.scheduling.trace import WaveTrace
from asmgen.isa.timing import timing
from asmgen.model.cycles import Timeline, simulate
from asmgen.model.estimate import estimate_run
from asmgen.model.icache import InstructionCache, left_by, lines_of
from asmgen.model.profile import profile
from asmgen.model.runsummary import summary_of
from asmgen.program.program import Program
from asmgen.reader.assembly import read_text

LINE = "v_mov_b32 v1, v2\n" * 16
"""128 bytes, as nobody knows the sizes of what was read from text: 8 each. It runs for 64 clk."""


def straight(text: str) -> Program:
    return read_text(text + "s_endpgm\n", "gfx950")[0]


def run(code: Program, positions: tuple[int, ...], ahead: int = 1, cold: bool = True, waves: int = 1, room: int = 65536) -> Timeline:
    chosen = timing("MI355X", {"icache_ahead": ahead, "icache_bytes": room})
    return simulate(code, [WaveTrace(0, wave, positions, ()) for wave in range(waves)], chosen, "l2", cold=cold)


def begins(timeline: Timeline, wave: int = 0) -> list[int]:
    """When a wave issues the first instruction of each line."""
    return list(timeline.waves[wave].issued[::16])


@pytest.mark.parametrize("ahead,expected", [
    (0, [312, 688, 1064, 1440, 1816]),  # a miss, 64 clk of work, the next miss
    (1, [312, 376, 688, 752, 1064]),  # line 2 is asked for with line 1 and line 3 with line 2, while that is under way
    (2, [312, 376, 440, 688, 752])])
def test_cold_code_waits_for_each_line(ahead: int, expected: list[int]) -> None:
    code = straight(LINE * 5)
    timeline = run(code, tuple(range(len(code))), ahead)
    assert begins(timeline)[:5] == expected
    assert sum(clocks for at, cause, clocks in timeline.waves[0].stalls if cause == "fetch" and at <= 64) == expected[4] - 4 * 64


def test_warm_code_waits_for_none_and_all_waves_share_lines() -> None:
    code = straight(LINE * 5)
    positions = tuple(range(len(code)))
    assert begins(run(code, positions, cold=False))[:5] == [0, 64, 128, 192, 256]
    four = run(code, positions, waves=4)
    assert all(begins(four, wave)[:5] == [312, 376, 688, 752, 1064] for wave in range(4))


def test_a_loop_that_fits_is_fetched_once() -> None:
    code = straight(LINE * 4)
    positions = (*range(64), *range(64), *range(64), 64)
    once = begins(run(code, positions, ahead=0))
    assert [b - a for a, b in itertools.pairwise(once[:12])] == [376] * 3 + [64] * 8
    assert begins(run(code, positions, ahead=0, cold=False))[:12] == list(range(0, 12 * 64, 64))


def test_a_loop_that_does_not_fit_is_fetched_in_every_round() -> None:
    """Five lines, room for four: the line that was asked for longest ago is always the next one. 60 KB in a cache of 64 are free."""
    code = straight(LINE * 5)
    positions = (*range(80), *range(80), *range(80), 80)
    for cold in (True, False):
        times = begins(run(code, positions, ahead=0, cold=cold, room=512))
        assert [b - a for a, b in itertools.pairwise(times[4:15])] == [376] * 10
    large = straight(LINE * 480)
    rounds = (*range(7680), *range(7680), 7680)
    assert begins(run(large, rounds))[481] - begins(run(large, rounds))[480] == 64
    larger = straight(LINE * 600)
    rounds = (*range(9600), *range(9600), 9600)
    again = begins(run(larger, rounds, cold=False))
    assert again[1200 - 1] - again[600] > 599 * 100


def test_lines_of_known_addresses() -> None:
    """An instruction needs the line in which it ends."""
    one = straight("v_mov_b32 v1, v2\n" * 3)
    code = one.with_items([instruction.placed(None, address, size) for instruction, (address, size)
                           in zip(one.instructions, ((120, 4), (124, 8), (132, 4), (256, 4)), strict=True)])
    assert lines_of(code, 128) == [0, 1, 1, 2] and lines_of(one, 128) == [0, 0, 0, 0]


def test_what_a_workgroup_leaves() -> None:
    """Its last lines, as many as there is room for, the one that was asked for longest ago first."""
    code = straight(LINE * 4)
    traces = [WaveTrace(0, 0, (*range(64), *range(16, 32)), ())]
    assert left_by(code, traces, timing("MI355X")) == [0, 2, 3, 1]
    assert left_by(code, traces, timing("MI355X", {"icache_bytes": 256})) == [3, 1]
    held = InstructionCache(code, timing("MI355X"), [0, 2])
    assert held.ready(0, 100) == 0 and held.ready(1, 100) == 412 and held.ready(2, 100) == 0


def test_the_first_round_is_cold() -> None:
    code = straight(LINE * 5)
    found = profile(code, [WaveTrace(0, 0, tuple(range(len(code))), ())], timing("MI355X"), "l2")
    warm = summary_of(found)
    for workgroups in (1, 300, 1000):
        longer = estimate_run(replace(warm, cold=24000), workgroups, 1).seconds - estimate_run(warm, workgroups, 1).seconds
        assert longer == pytest.approx(24000 / 2400e6)
