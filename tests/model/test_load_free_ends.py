"""What of a workgroup's ends comes on top of the time of its loads' bytes, and what that makes of a launch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from asmgen.emulator.scheduling.trace import PRIVATE, WaveTrace
from asmgen.isa.timing import timing
from asmgen.model.estimate import estimate, estimate_run
from asmgen.model.farmemory import FarMemory
from asmgen.model.loadfreeends import LoadBurst, load_free_ends
from asmgen.model.profile import Profile, profile, whole_load
from asmgen.model.runsummary import summary_of
from asmgen.model.traffic import MovedBytes, Traffic
from asmgen.model.unequal import Steps
from asmgen.reader.assembly import read_text
from asmgen.tuning.figures import launched

CHOSEN = timing("MI355X", {"workgroup_gap": 0, "wave_dispatch": 0})
LOAD = "global_load_dwordx4 v[4:7], v[0:1], off\n"
HEAD, REST, TRIP = 50, 30, 700
"""s_sleep before the first load and after the last wait, of 64 clk; the round trip in clk."""


@pytest.mark.parametrize("bursts,free", [
    ((), 800 + 900),
    ((LoadBurst(100, 4000, 432, 0, 5000),), 100 + 432 + 1000),
    ((LoadBurst(100, 4000, 432, 0),), 800 + 900),  # nobody waits for them
    ((LoadBurst(100, 4000, 432, 0, 5000), LoadBurst(5500, 5800, 300, 1, 5900)), 100 + 432 + 500 + 300 + 100),  # of the epilogue
    ((LoadBurst(100, 4000, 432, 0, 5000), LoadBurst(4900, 5200, 300, 1, 5400)), 100 + 432 + 600),  # asked for before the wait
    ((LoadBurst(100, 600, 432, 0, 700), LoadBurst(900, 1500, 432, 0, 1600), LoadBurst(2000, 2500, 432, 0, 5000)),
     100 + 432 + 1000),  # of the loop
    ((LoadBurst(100, 600, 432, 0, 700),), 100 + 432 + 100 + 900),  # the loop loads nothing: its rounds are no end
    ((LoadBurst(100, 600, 432, 0, 700), LoadBurst(5200, 5600, 432, 0, 5600)), 100 + 432 + 100 + 100 + 432 + 400)])
def test_what_comes_on_top_of_the_bytes(bursts: tuple[LoadBurst, ...], free: float) -> None:
    """A run of 6000 clk, whose main loop goes from 800 to 5100. Argument 1 is 300 clk away, argument 0 432: the trips that are among the
    clk are told."""
    clk, arguments = load_free_ends(bursts, 800, 900, 6000)
    assert clk == free and arguments[:1] == (0,) * any(one.awaited for one in bursts)
    assert arguments[1:] == tuple(one.argument for one in bursts[1:] if one.begin in (5500, 5200))


def timed(rate: float, rounds: int = 40, ahead: int = 3, arguments: bool = True, trip: int = TRIP) -> Profile:
    """Four waves, each with `ahead` loads of 1 KB on their way before and within its loop, then waits for them one by one."""
    drain = "".join(f"s_waitcnt vmcnt({left})\nv_mov_b32 v8, v4\n" for left in range(ahead - 1, -1, -1))
    code = read_text(f"s_sleep {HEAD}\n{LOAD * ahead}L:\n{LOAD}s_waitcnt vmcnt({ahead})\nv_mov_b32 v8, v4\ns_cbranch_scc0 L\n"
                     f"{drain}s_sleep {REST}\ns_endpgm\n", "gfx950")[0]
    head = 1 + ahead
    positions = (*range(head), *tuple(range(head, head + 4)) * rounds, *range(head + 4, len(code.instructions)))
    loads = ahead + rounds
    waves = [WaveTrace(0, wave, positions, (8,) * loads, () if arguments else (PRIVATE,) * loads) for wave in range(4)]
    return profile(code, waves, CHOSEN, "grid", far=FarMemory(rate, trip, 312))


@pytest.mark.parametrize("ahead", [1, 3, 12])
def test_it_does_not_depend_on_the_rate_of_the_loads(ahead: int) -> None:
    """Addresses, a trip and what follows the last data are all that a run takes beside its bytes, whatever share of them the ends have.
    Where loads are far faster than that, they leave the loop to its trips, and not the ends."""
    least = 64 * (HEAD + REST) + TRIP
    slow, slower, fast = (timed(rate, ahead=ahead) for rate in (8, 4, 64))
    assert least <= slow.load_free_ends <= least + 100
    assert slower.load_free_ends == pytest.approx(slow.load_free_ends, abs=8) == pytest.approx(fast.load_free_ends, abs=8)
    for found, rate in ((slow, 8), (slower, 4)):  # what is asked for first waits for no bytes
        assert found.cycles == pytest.approx(found.load_free_ends + (4 * (40 + ahead) - 1) * 1024 / rate, rel=0.005)
    if ahead > 1:  # and the ends themselves do
        assert slower.prologue + slower.epilogue > slow.prologue + slow.epilogue + 4 * 1024 * (ahead - 1) / 16


def test_loads_that_stay_near_are_none() -> None:
    found = timed(8, arguments=False)
    assert found.load_free_ends == found.prologue + found.epilogue


def test_bytes_of_the_ends_count_once_in_a_launch() -> None:
    """A launch whose loads bind takes a workgroup's own run, where that was timed at the rate that the launch has, and 8 B/clk of 256 units
    at 2400 MHz of idle cores are 4.9 TB/s. Only the first load waits for no bytes before it."""
    found = timed(8)
    bytes_ = (4 * 43 - 1) * 1024 * 256
    rate = 8 * 256 * 2400e6 / 13.8e12  # of what L2 gives in all
    whole = estimate(found, 256, 1, Traffic(bytes_ / rate, 0, 0, 0, ""))
    assert whole.parts["compute units"] == pytest.approx(found.cycles / 2400e6, rel=0.005)
    longer = estimate(found, 256, 1, Traffic(2 * bytes_ / rate, 0, 0, 0, ""))
    assert longer.limit == "l2" and longer.parts["compute units"] == pytest.approx(timed(4).cycles / 2400e6, rel=0.005)
    assert found.main_loop is not None
    counted = replace(found, flops=43.0, main_loop=replace(found.main_loop, flops=1.0))
    unequal = estimate(counted, 256, 1, Traffic(2 * bytes_ / rate, 0, 0, 0, ""), steps=Steps(43, np.repeat([43, 42], 128), 1.0))
    assert unequal.parts["compute units"] == pytest.approx(longer.parts["compute units"], rel=1e-3)


def test_ends_pass_while_other_workgroups_of_the_unit_load() -> None:
    """All begin together, so the first round has its ends by itself. Later a workgroup's ends are hidden by loads of the others, where
    these take longer."""
    found = replace(timed(64), level="grid")
    free, each = found.load_free_ends / 2400e6, 40e-6
    launch = Traffic(3 * each * 13.8e12, 0, 0, 0, "")
    one, two = estimate(found, 3 * 256, 1, launch), estimate(found, 3 * 512, 2, launch)
    assert one.limit == two.limit == "l2" and one.rounds == two.rounds == 3
    assert one.parts["compute units"] == pytest.approx(3 * (free + each), rel=1e-3)
    assert two.parts["compute units"] == pytest.approx(free + 3 * each, rel=1e-3)
    short = Traffic(3 * free * 13.8e12, 0, 0, 0, "")  # of two workgroups one does not hide the other's ends
    run = replace(summary_of(found), cycles=4.0, prologue=0.0, epilogue=0.0)
    assert estimate_run(run, 3 * 512, 2, short).parts["compute units"] == pytest.approx(2 * free + 2 * 1.5 * free, rel=1e-3)
    gap = replace(run, timing=timing("MI355X", {"workgroup_gap": 480, "wave_dispatch": 0}))
    later = estimate_run(gap, 3 * 256, 1, short).parts["compute units"] - estimate_run(run, 3 * 256, 1, short).parts["compute units"]
    assert later == pytest.approx(2 * 480 / 2400e6, rel=1e-3)  # a unit loads nothing between two of its workgroups


def test_what_lies_between_two_pieces_counts_once_for_each() -> None:
    """Four pieces of 20 steps of 100 clk have 400 clk between two of them; others have as much for each that they have."""
    found = timed(8)
    assert found.main_loop is not None
    run = replace(summary_of(found), cycles=10000.0, prologue=500.0, epilogue=300.0, load_free_ends=0.0,
                  main_loop=replace(found.main_loop, cycles=100.0, flops=1.0))
    each = np.array([40, 20, 160])
    assert Steps(80, each, 1.0, pieces=(2, 4)).cycles(run).tolist() == [10000 - 4000 - 800, 10000 - 6000 - 1200, 10000 + 8000 + 1600]
    assert Steps(80, each, 1.0).cycles(run).tolist() == [6000, 4000, 18000]
    assert Steps(80, each, 1.0, pieces=(2, 1)).cycles(run).tolist() == [6000, 4000, 18000], "one piece shows nothing between two"


def test_no_workgroup_is_shorter_than_its_load_free_ends() -> None:
    found = timed(8)
    assert found.main_loop is not None
    steps = Steps(43, np.array([43, 20, 1, 0]), found.flops or 1.0)
    clks = steps.cycles(replace(found, main_loop=replace(found.main_loop, flops=1.0)))
    assert clks[0] == found.cycles and clks[1] == pytest.approx(found.cycles - 23 * 512, rel=0.01)
    assert clks[2] == pytest.approx(found.load_free_ends + 512, rel=0.05) and clks[3] >= found.load_free_ends


def without_loop(loads: int, rate: float) -> Profile:
    """Four waves that ask for so many KB each and wait for all of them."""
    drain = "".join(f"s_waitcnt vmcnt({left})\nv_mov_b32 v8, v4\n" for left in range(loads - 1, -1, -1))
    code = read_text(f"s_sleep {HEAD}\n{LOAD * loads}{drain}s_sleep {REST}\ns_endpgm\n", "gfx950")[0]
    waves = [WaveTrace(0, wave, tuple(range(len(code.instructions))), (8,) * loads) for wave in range(4)]
    return profile(code, waves, CHOSEN, "grid", far=FarMemory(rate, TRIP, 312))


def test_a_launch_without_a_loop_has_its_bytes_and_its_ends() -> None:
    """Nothing arrives before it is asked for: the bytes of all units do not pass while a unit computes its addresses, nor what follows the
    last data. Where the unit itself takes longer, that is the launch's time as before."""
    found = without_loop(8, 8)
    assert found.main_loop is None
    least = 64 * (HEAD + REST) + TRIP
    assert least <= found.load_free_ends <= least + 100
    assert without_loop(8, 64).load_free_ends == pytest.approx(found.load_free_ends, abs=16)
    assert found.cycles == pytest.approx(found.load_free_ends + (4 * 8 - 1) * 1024 / 8, rel=0.01)
    each = 3 * found.cycles / 2400e6
    bound = estimate(found, 256, 1, Traffic(each * 13.8e12, 0, 0, 0, ""))
    assert bound.limit == "l2" and bound.parts["compute units"] == pytest.approx(found.load_free_ends / 2400e6 + each, rel=1e-3)
    free = estimate(found, 256, 1, Traffic(0.01 * each * 13.8e12, 0, 0, 0, ""))
    assert free.parts["compute units"] == pytest.approx(found.cycles / 2400e6, rel=1e-3)


def test_the_last_round_has_the_bounds_of_its_own_workgroups() -> None:
    """Eight on a unit are bound by its path to memory, one that is there alone at last by itself. Where more are left, all of them are."""
    found = replace(without_loop(64, 64), level="l2")
    load = whole_load(found, traces_of(found))

    def clk(workgroups: int) -> float:
        return estimate(found, workgroups, 1, fitting=8, load=lambda: load).parts["compute units"] * 2400e6

    def bound(count: int) -> float:
        return load.times(count).bounds(CHOSEN, found.far).least

    assert bound(4) > found.cycles > bound(1)
    assert clk(8 * 256) == pytest.approx(bound(8), rel=1e-3)
    assert clk(16 * 256) == pytest.approx(2 * bound(8), rel=1e-3)
    assert clk(9 * 256) == pytest.approx(bound(8) + found.cycles, rel=1e-3)
    assert clk(12 * 256) == pytest.approx(bound(8) + bound(4), rel=1e-3)
    run = replace(summary_of(timed(64)), level="l2", prologue=4000.0, epilogue=4000.0)  # ends of more steps than a workgroup has here
    few, full = Steps(43, np.full(9 * 256, 0), run.flops), Steps(43, np.full(8 * 256, 0), run.flops)
    run = replace(run, load=load.loading(0), cycles=43 * run.main_loop.cycles) if run.main_loop is not None else run
    last = estimate_run(run, 9 * 256, 1, fitting=8, steps=few).parts["compute units"]
    last -= estimate_run(run, 8 * 256, 1, fitting=8, steps=full).parts["compute units"]
    assert last * 2400e6 == pytest.approx(run.load_free_ends, rel=1e-3)
    assert clk(12 * 256 + 1) == pytest.approx(bound(8) + bound(5), rel=1e-3)


@pytest.mark.parametrize("rate,ahead,rounds", [(8, 3, 40), (4, 12, 40), (64, 12, 20)])
def test_another_launch_has_its_own_round_trips(rate: float, ahead: int, rounds: int) -> None:
    """Figures of a launch whose data was near, read for one whose data is far, are those of a run that was timed there, and the other way
    round. What is in flight bounds the loop of the last case. With the trips that were timed nothing changes."""
    near, far = (timed(rate, rounds, ahead, trip=trip) for trip in (400, 1600))
    moved = MovedBytes((4 * 1024.0 * (rounds + ahead),), (0.0,), 1)
    summaries = [replace(summary_of(one, whole_load(one, traces_of(one))), level="grid") for one in (near, far)]
    for run, other in (summaries, summaries[::-1]):
        found = launched(run, moved, other.far)
        assert found.load_free_ends == pytest.approx(other.load_free_ends, abs=8)
        if other is summaries[1]:
            assert found.cycles == pytest.approx(other.cycles, rel=0.06)
        assert found.matrix_busy == run.matrix_busy == 0
        assert found.main_loop is not None and run.main_loop is not None
        assert launched(run, moved, run.far) == run
    assert summaries[1].load_free_ends - summaries[0].load_free_ends == pytest.approx(1200, abs=8)


def traces_of(found: Profile) -> list[WaveTrace]:
    """Of a profile of `timed`."""
    costs = found.timeline.costs
    return [WaveTrace(0, wave.wave, wave.positions, (8,) * sum(costs[at].traced for at in wave.positions)) for wave in found.timeline.waves]
