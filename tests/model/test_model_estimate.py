"""Whole kernels: where loads go and what far memory gives them, stores that leave together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from asmgen.emulator.scheduling.trace import WaveTrace
from asmgen.isa.timing import timing
from asmgen.model.estimate import estimate
from asmgen.model.farmemory import GridLoads, far_memory, read_rates
from asmgen.model.profile import Profile, profile
from asmgen.model.traffic import Traffic
from asmgen.reader.assembly import read_text

CHOSEN = timing("MI355X", {"workgroup_gap": 0, "wave_dispatch": 0})


def timed(body: str, after: str = "", rounds: int = 50) -> Profile:
    """A loop of one wave on each SIMD; every access touches 8 lines."""
    code = read_text(f"s_mov_b32 s20, 9\nL:\n{body}s_sub_u32 s20, s20, 1\ns_cbranch_scc0 L\n{after}s_endpgm\n", "gfx950")[0]
    head = next(at for at, one in enumerate(code.instructions) if one.is_branch) + 1
    positions = (0, *tuple(range(1, head)) * rounds, *range(head, len(code.instructions)))
    accesses = sum("global" in code.instructions[position].name for position in positions)
    return profile(code, [WaveTrace(0, wave, positions, (8,) * accesses) for wave in range(4)], CHOSEN, "l2")


def test_a_round_trip_goes_to_where_the_first_load_hits() -> None:
    """312 clk of L2; 270 ns of the last-level cache and 500 more of HBM by its share, at 1.6 GHz and at 2.4. Who shares a line waits for
    its first load: the hits in L2 do not shorten it."""
    for missed, hbm, clocks, quick in ((0, 0, 312, 312), (1, 0, 432, 648), (1, 8, 1232, 1848), (0.5, 0, 372, 480), (1, 2, 632, 948),
                                       (0, 8, 312, 312)):
        loads = GridLoads({3: missed}, 1000, 8, hbm)
        dense, idle = far_memory(CHOSEN, "grid", loads), far_memory(CHOSEN, "grid", loads, 2400)
        assert (dense.round_trip(3), idle.round_trip(3)) == (clocks, quick)
        assert dense.round_trip(2) == dense.round_trip() == 432 + 100 * hbm and dense.store == 312


def test_compute_units_share_what_far_memory_gives() -> None:
    """13.8 TB/s when all load; more each for fewer of them, up to 64 B/clk; less where the last-level cache or HBM has less for them."""
    all_load = 13.8e6 / 256 / 1600
    for units, llc, hbm, rate in ((256, 0.2, 0.1, all_load), (0, 0.2, 0, all_load), (160, 0.2, 0, 13.8e6 / 160 / 1600), (128, 0.2, 0, 64),
                                  (256, 1, 0, 7.4e6 / 256 / 1600), (256, 1, 1, 6.2e6 / 256 / 1600),
                                  (256, 0.8, 0, 7.4e6 / 0.8 / 256 / 1600)):
        found = far_memory(CHOSEN, "grid", GridLoads({}, 100, 100 * llc, 100 * hbm, units))
        assert found.rate == pytest.approx(rate)
    assert far_memory(CHOSEN, "grid", GridLoads({}, 0, 0, 0, 256)).rate == pytest.approx(all_load)  # it loads nothing
    assert (far_memory(CHOSEN, "l2").rate, far_memory(CHOSEN, "hbm").rate) == (64, 25)


def test_a_round_is_no_shorter_than_its_loads() -> None:
    """Loads of the whole GPU at 13.8 TB/s stand beside the loop and not beside the ends; cores that wait leave power to the clock."""
    found = timed("v_mfma_f32_32x32x16_bf16 a[0:15], v[0:3], v[4:7], a[0:15]\n" * 40, "s_sleep 90\n", rounds=40)
    grid = replace(found, level="grid")
    each, loop = 600e6 / 256, grid.cycles - grid.prologue - grid.epilogue
    alone, few = estimate(grid, 512, 1, Traffic(512 * 1e3, 0, 0, 0, "")), estimate(grid, 512, 1, Traffic(512 * each, 0, 0, 0, ""))
    assert alone.limit == "power" and alone.parts["compute units"] == pytest.approx(2 * grid.cycles / alone.clock / 1e6)
    ends = (grid.prologue + grid.epilogue) / few.clock / 1e6
    assert few.limit == "l2" and few.clock > alone.clock + 100 and few.parts["l2"] > 2 * loop / alone.clock / 1e6
    assert few.parts["compute units"] == pytest.approx(2 * (600 / 13.8 * 1e-6 + ends), rel=1e-3)
    part = estimate(grid, 384, 1, Traffic(384 * each, 0, 0, 0, ""))  # half as many load half as much, which is less than their loop
    half = estimate(grid, 128, 1).parts["compute units"]
    assert part.parts["compute units"] == pytest.approx(600 / 13.8 * 1e-6 + ends + half, rel=1e-3)
    quicker = estimate(grid, 384, 1, few=replace(grid, timeline=replace(grid.timeline, cycles=grid.cycles // 2)))
    assert quicker.parts["compute units"] == pytest.approx(1.5 * grid.cycles / alone.clock / 1e6, rel=0.01)


def test_stores_of_a_round_leave_together() -> None:
    """What all units store after their loops is written back at one rate while they store, beyond the 14 MB that L2s keep; of several
    workgroups on a unit, only the last waits for it alone."""
    store = "global_store_dwordx4 v[0:1], v[4:7], off\n"
    found, inside = timed("v_mov_b32 v2, v3\n", store), timed("v_mov_b32 v2, v3\n" + store, store)

    def longer(found: Profile, each: float, workgroups: int) -> float:
        ends = [estimate(found, workgroups, 1, Traffic(0, 0, 0, stored * workgroups, "")).parts["compute units"] for stored in (0, each)]
        return ends[1] - ends[0]

    each = 256e3

    def late(workgroups: int, clk: float) -> float:
        return (1 - 14e6 / workgroups / each) * (workgroups * each / 7.4e12 - clk / 2400e6)

    one, part = late(256, each / 64), late(128, each / 64)
    assert longer(found, each, 256) == pytest.approx(one, rel=1e-3) and longer(found, each, 768) == pytest.approx(3 * one, rel=1e-3)
    assert longer(found, each, 384) == pytest.approx(one + part, rel=1e-3)
    assert 0 < longer(found, 14e6 / 256 + 1, 256) < 1e-9 and longer(found, 14e6 / 256 - 1, 256) == 0  # no step where L2 is full
    partition = replace(found, timing=replace(CHOSEN, values={**CHOSEN.values, "xcds": 1, "compute_units": 32}))
    assert longer(partition, each, 32) == pytest.approx((1 - 1.75e6 / 32 / each) * (32 * each / 1.3e12 - each / 64 / 2400e6), rel=1e-3)
    slow = timed("v_mov_b32 v2, v3\n", store + "s_sleep 100\n" + store)
    assert longer(slow, each, 256) == pytest.approx(late(256, 6400 + 20), rel=1e-2)  # from the first to the last one
    assert longer(inside, each, 256) == 0  # its loop waits for them itself


def test_a_partition_reads_by_its_xcds() -> None:
    """docs/facts/measured_gfx950.md section 3: an XCD reads 1.33 TB/s. What a user says of a rate counts as it is."""
    whole, one = timing("MI355X"), timing("MI355X", {"xcds": 1, "compute_units": 32})
    assert read_rates(whole, "grid") == {"l2": 13.8, "llc": 7.4, "hbm": 6.2} and read_rates(whole, "l2")["l2"] == 31.6
    assert read_rates(one, "grid") == {"l2": 13.8 / 8, "llc": 1.33, "hbm": 1.33} and read_rates(one, "hbm")["l2"] == 31.6 / 8
    said = timing("MI355X", {"xcds": 1, "compute_units": 32, "grid_load": 2.0, "hbm_read": 1.5})
    assert read_rates(said, "grid") == {"l2": 2.0, "llc": 1.33, "hbm": 1.5}
    four = timing("MI300X", {"xcds": 4, "compute_units": 80})
    assert read_rates(four, "grid") == {"l2": pytest.approx(14.3 / 2), "llc": pytest.approx(5.32), "hbm": 4.0}


def test_the_main_loop_is_of_those_that_multiply() -> None:
    """Producers go round beside the consumers and end before them: what is after the loop is what the consumers do there."""
    code = read_text("P:\ns_sleep 2\ns_cbranch_scc0 P\ns_endpgm\nC:\nv_mfma_f32_32x32x16_bf16 a[0:15], v[0:3], v[4:7], a[0:15]\n"
                     "s_cbranch_scc0 C\ns_sleep 20\ns_endpgm\n", "gfx950")[0]

    def run(produced: int, consumed: int) -> Profile:
        loops = (*(0, 1) * produced, 2), (*(3, 4) * consumed, 5, 6)
        return profile(code, [WaveTrace(0, wave, loops[wave // 4], ()) for wave in range(8)], CHOSEN, "l2")

    even, fewer = run(40, 180), run(40, 80)
    assert even.main_loop is not None and fewer.main_loop is not None
    assert even.loops[0].total > even.loops[1].total and even.main_loop.first == 3 and even.epilogue > 20 * 64
    assert fewer.main_loop.first == 0, "a loop that is much shorter is not the main one"


def test_a_kernel_that_does_nothing_takes_a_slot() -> None:
    code = read_text("s_endpgm\n", "gfx950")[0]
    found = profile(code, [WaveTrace(0, 0, (0,), ())], CHOSEN)
    whole = estimate(found, 1000, 1, Traffic(0, 0, 0, 0, ""))
    assert found.cycles == 4 and whole.parts["compute units"] == pytest.approx(4 * 4 / 2400e6) and whole.limit == "launch"


def test_a_load_without_lanes_asks_no_memory() -> None:
    """Masked waves of compiled kernels: EXEC is 0, the load issues, and its wait has nothing to wait for."""
    code = read_text("L:\nglobal_load_dwordx4 v[0:3], v[4:5], off\ns_waitcnt vmcnt(0)\ns_cbranch_scc0 L\ns_endpgm\n", "gfx950")[0]

    def run(lines: int) -> Profile:
        return profile(code, [WaveTrace(0, 0, (*(0, 1, 2) * 20, 3), (lines,) * 20)], CHOSEN, "hbm")

    idle, busy = run(0).main_loop, run(8).main_loop
    assert idle is not None and busy is not None
    assert idle.cycles < 40 and busy.cycles > 864  # latency_hbm
    assert idle.bounds.memory == 1 and idle.bounds.verdict == "compute" and busy.bounds.memory > 16  # a clk of the cache


def test_few_units_wait_less_for_memory() -> None:
    """docs/facts: 360 ns of a pointer chase in HBM, 60 GB/s of it and 110 of the last-level cache for a unit by itself; 6.2 TB/s are
    what 103 such units ask for. Of more units each waits as those of a full GPU do. The table has the figures of a unit by itself from
    these: that they come back shows that they are applied, and proves nothing of the model."""
    table = timing("MI355X")

    def of(units: int, llc: float, hbm: float) -> tuple[float, int]:
        found = far_memory(table, "grid", GridLoads({}, 1, llc, hbm, units), 2400)
        return found.rate * 2.4, found.usual

    assert of(1, 1, 1) == (pytest.approx(60), pytest.approx(2.4 * 360, rel=0.02)) and of(1, 1, 0) == (pytest.approx(110.4), 648)
    assert of(1, 0.1, 0) == (pytest.approx(153.6), 648)  # L2 gives the most that a unit takes
    assert of(52, 1, 1)[1] == pytest.approx(2.4 * (270 + 90 + 205), rel=0.01)
    assert of(104, 1, 1)[1] == of(256, 1, 1)[1] == 2.4 * 770
    assert of(256, 1, 1)[0] == pytest.approx(6200 / 256)
