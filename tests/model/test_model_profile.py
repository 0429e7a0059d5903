"""From launches to profiles: the emulator's trace, loops in their steady state, bounds, the estimate."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

from asmgen.emulator.machine.devicememory import Memory
from asmgen.emulator.scheduling.run import Options
from asmgen.emulator.scheduling.trace import NO_ARGUMENT, PRIVATE, Trace, TracedArgument, WaveTrace, has_cost
from asmgen.isa.errors import AsmgenError
from asmgen.isa.timing import GPUS, PARAMETERS, Timing, timing
from asmgen.model.chrometrace import chrome_trace
from asmgen.model.costs import costs_of
from asmgen.model.cycles import CAUSES
from asmgen.model.estimate import LIMITS, estimate, estimate_run, summary_for, sustained_clock
from asmgen.model.farmemory import FarMemory
from asmgen.model.gridcache import TileLoads, cache_rates, rates_of
from asmgen.model.gridorder import GridOrder
from asmgen.model.profile import profile, whole_load
from asmgen.model.runsummary import summary_of, transcendental
from asmgen.model.shortened import shortened
from asmgen.model.traffic import LoadOrder, Traffic, traffic
from asmgen.model.unequal import Steps, last_end
from asmgen.model.usage import BOUNDS, UnitLoad, Usage, shadow_optimum
from asmgen.reader.assembly import read_text
from asmgen.tools.profile_command import ProfileReport
from asmgen.tools.sensitivity import sensitivity, table
from tests.emulator_launch import launch
from tests.model_harness import AT_ONCE, MFMA, loop, timed, traced


def test_trace_has_what_each_wave_executed_in_any_order_of_waves() -> None:
    text = loop("v_mov_b32 v1, v0\n", 5) + "s_barrier\n"
    expected = (0, *(1, 2, 3, 4) * 5, 5, 6)
    for order in ("lockstep", "serial", "random:3"):
        _, waves = traced(text, block=192, order=order)
        assert [(wave.workgroup, wave.wave) for wave in waves] == [(0, 0), (0, 1), (0, 2)]
        assert all(wave.positions == expected for wave in waves)


def test_trace_follows_waves_that_part() -> None:
    text = "v_readfirstlane_b32 s20, v0\ns_cmp_lt_u32 s20, 64\ns_cbranch_scc1 L\nv_mov_b32 v1, v0\nL:\nv_mov_b32 v2, v0\n"
    _, waves = traced(text, block=128)
    assert [wave.positions for wave in waves] == [(0, 1, 2, 4, 5), (0, 1, 2, 3, 4, 5)]


def test_only_the_first_workgroups_run() -> None:
    data = np.zeros(8, np.uint32)
    # A trace computes nothing that only memory sees: the value goes to a scalar register too.
    text = ("s_load_dwordx2 s[10:11], s[0:1], 0x0\nv_mov_b32 v1, 1\nv_readfirstlane_b32 s4, v1\nv_lshlrev_b32 v2, 2, s2\n"
            "s_waitcnt lgkmcnt(0)\nglobal_store_dword v2, v1, s[10:11]\n")
    code = read_text(text + "s_endpgm\n", "gfx950")[0]
    trace = Trace(3)
    launched = launch("gfx950", code, (8, 1, 1), (64, 1, 1), [data], options=Options(checks=False, trace=trace))
    assert launched.buffers[0].tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
    assert [wave.workgroup for wave in trace.waves()] == [0, 1, 2]


@pytest.mark.parametrize("shift,cycles", [(4, 4), (5, 8), (6, 16), (7, 32), (8, 64)])
def test_lds_costs_come_from_real_addresses(shift: int, cycles: int) -> None:
    """b128 reads of lanes 16, 32, ... 256 bytes apart: 1 to 16 ways of four phases."""
    _, (wave,) = traced(f"v_lshlrev_b32 v1, {shift}, v0\nds_read_b128 v[4:7], v1\ns_waitcnt lgkmcnt(0)\n", lds=16384)
    assert wave.costs == (cycles,)


def test_lds_costs_of_few_lanes_and_two_addresses() -> None:
    text = ("v_lshlrev_b32 v1, 8, v0\ns_mov_b64 exec, 1\nds_read_b128 v[4:7], v1\ns_mov_b64 exec, -1\n"
            "v_lshlrev_b32 v1, 2, v0\nds_read2_b32 v[4:5], v1 offset0:0 offset1:64\ns_waitcnt lgkmcnt(0)\n")
    _, (wave,) = traced(text, lds=16384)
    assert wave.costs[0] == 1 and wave.costs[1] >= 4


@pytest.mark.parametrize("width,shift,lines", [("dword", 2, 2), ("dwordx4", 4, 8), ("dwordx4", 6, 32), ("dwordx4", 7, 64), ("dword", 0, 1)])
def test_lines_that_loads_touch(width: str, shift: int, lines: int) -> None:
    data = np.zeros(4096, np.uint32)
    registers = "v4" if width == "dword" else "v[4:7]"
    text = (f"s_load_dwordx2 s[10:11], s[0:1], 0x0\nv_lshlrev_b32 v1, {shift}, v0\nv_and_b32 v1, -4, v1\ns_waitcnt lgkmcnt(0)\n"
            f"global_load_{width} {registers}, v1, s[10:11]\ns_mov_b64 exec, 0\nglobal_load_{width} {registers}, v1, s[10:11]\n"
            "s_waitcnt vmcnt(0)\n")
    code, (wave,) = traced(text, buffers=[data])
    assert wave.costs == (lines, 0)
    assert sum(has_cost(instruction) for instruction in code.instructions) == 2


def test_steady_rounds_leave_the_ends_out() -> None:
    body = "".join(MFMA.format(16 * n, 16 * n + 15) for n in range(4))
    found = timed(loop(body, 12))
    (one,) = found.loops
    assert one.steady and one.rounds == 12
    assert one.cycles == pytest.approx(4 * 32 + 4, abs=4 * 4)
    assert one.matrix_busy == pytest.approx(128 / one.cycles / 4)  # one of four SIMDs works
    assert one.bounds.binding == "matrix" and one.distance == pytest.approx(one.cycles / 128 - 1)
    assert not timed(loop(body, 4)).loops[0].steady
    (once,) = timed(loop(body, 1)).loops
    assert not once.steady and once.rounds == 1 and once.cycles == pytest.approx(one.cycles, rel=0.15)
    passed = timed("s_branch N\n" + loop(body, 1) + "N:\n")
    without, within = (ProfileReport("k", one, estimate(one, 1, 1), summary_of(one), 1).text() for one in (passed, found))
    assert not passed.loops and "no wave comes to a loop" in without and "no wave comes" not in within


def test_matrix_busy_counts_all_waves_of_all_simds() -> None:
    """With a barrier a round two waves of a SIMD share its core; without, the older one goes first."""
    body = "".join(MFMA.format(16 * n, 16 * n + 15) for n in range(4)) * 4
    (one,) = timed(loop(body + "s_barrier\n", 12), block=512).loops
    assert one.waves == 8 and one.matrix_busy == pytest.approx(1, abs=0.04)
    assert one.cycles == pytest.approx(2 * 16 * 32, rel=0.04)
    assert one.bounds.clocks["matrix"] == 2 * 16 * 32
    (free,) = timed(loop(body, 12), block=512).loops
    assert free.waves == 8 and free.matrix_busy == pytest.approx(1, abs=0.06) and free.distance >= 0


def test_a_loop_has_the_work_of_waves_that_are_in_its_other_rounds() -> None:
    """Four waves of a SIMD that run apart, with few rounds: the first and last ones of one fill the core beside steady ones of others."""
    body = "".join(MFMA.format(16 * n, 16 * n + 15) for n in range(4)) * 4 + "s_sleep 1\n" * 4
    (one,) = timed(loop(body, 8), block=1024).loops
    assert one.waves == 16 and one.matrix_busy == pytest.approx(0.93, abs=0.03) and one.distance == pytest.approx(0.08, abs=0.03)


def test_each_unit_can_bind() -> None:
    reads = "ds_read_b128 v[4:7], v1\n" * 8 + "s_waitcnt lgkmcnt(0)\n"
    vectors = MFMA.format(0, 15) + "v_mov_b32 v20, v21\n" * 30
    scalars = "s_mov_b32 s30, s31\n" * 40
    data = np.zeros(4096, np.uint32)
    loads = "global_load_dwordx4 v[4:7], v1, s[10:11]\n" * 8 + "s_waitcnt vmcnt(0)\n"
    head = "s_load_dwordx2 s[10:11], s[0:1], 0x0\nv_lshlrev_b32 v1, 4, v0\ns_waitcnt lgkmcnt(0)\n"
    assert timed("v_lshlrev_b32 v1, 7, v0\n" + loop(reads, 8), block=256, lds=16384).loops[0].bounds.binding == "lds"
    assert timed(loop(vectors, 8)).loops[0].bounds.clocks["valu"] == 32 + 4 * 24
    assert timed(loop(scalars, 8)).loops[0].bounds.binding == "issue"
    bound = timed(head + loop(loads, 8), block=256, buffers=[data]).loops[0]
    assert bound.bounds.binding == "l1" and bound.bounds.clocks["l1"] == 4 * 8 * 16 and bound.bounds.verdict != "compute"
    assert set(bound.bounds.clocks) == set(BOUNDS) and set(bound.stalls) <= set(CAUSES)
    assert bound.cycles >= bound.bounds.clocks["l1"] and bound.memory_verdict == "bandwidth"
    chain = timed(head + loop("global_load_dword v4, v1, s[10:11]\ns_waitcnt vmcnt(0)\n", 8), buffers=[data]).loops[0]
    assert chain.bounds.verdict == "bandwidth" and chain.memory_verdict == "latency"  # one load at a time


def test_stalls_of_loops_and_instructions() -> None:
    found = timed("v_lshlrev_b32 v1, 4, v0\n" + loop("ds_read_b128 v[4:7], v1\ns_waitcnt lgkmcnt(0)\nv_mov_b32 v8, v4\n", 10), lds=16384)
    wait = next(row for row in found.instructions if found.program.instructions[row.position].name == "s_waitcnt")
    assert wait.executed == 10 and wait.stalls == {"wait lgkm": 600} and wait.issue == 40
    assert found.loops[0].stalls["wait lgkm"] == 60


def test_unroll_is_the_repetition_of_a_step() -> None:
    step = "global_load_dword v4, v[2:3], off\n" + MFMA.format(0, 15) * 2
    code = read_text(loop(step * 2 + "s_nop 0\n", 8) + "s_endpgm\n", "gfx950")[0]
    positions = (0, *range(1, len(code) - 1), *range(1, len(code)))
    found = profile(code, [WaveTrace(0, 0, positions, (2,) * 4)], timing("MI355X"))
    assert found.loops[0].unroll == 2 and found.loops[0].rounds == 2


def test_halves_of_a_tile_are_no_copies_of_a_step() -> None:
    """The same sequence twice, but with accumulators of its own."""
    load = "global_load_dword v4, v[2:3], off\n"
    code = read_text(loop(load + MFMA.format(0, 15) + load + MFMA.format(16, 31), 8) + "s_endpgm\n", "gfx950")[0]
    found = profile(code, [WaveTrace(0, 0, (0, *range(1, len(code))), (2,) * 2)], timing("MI355X"))
    assert found.loops[0].unroll == 1 and found.loops[0].rounds == 1 and not found.loops[0].steady
    eight = read_text(loop((load + MFMA.format(0, 15)) * 8, 8) + "s_endpgm\n", "gfx950")[0]
    assert profile(eight, [WaveTrace(0, 0, tuple(range(len(eight))), (2,) * 8)], timing("MI355X")).loops[0].unroll == 8


def test_workgroups_of_unequal_length() -> None:
    """XCDs have 2 units each here: of 7, 1, 1, 5 the last begins after a 1. Others have nothing to do."""
    cycles = np.zeros(32)
    cycles[0::8] = 7, 1, 1, 5
    cycles[3::8] = 1, 1, 7, 5
    assert last_end(cycles[:25], 16, 8) == 8 and last_end(cycles, 16, 8) == 8 and last_end(cycles, 8, 8) == 14
    assert last_end(cycles, 4, 2) == 8 and last_end(cycles[:4], 4, 1) == 7  # a partition has fewer
    found = timed(loop("".join(MFMA.format(16 * n, 16 * n + 15) for n in range(4)) * 8, 200), block=256)
    flops = found.loops[0].flops
    alike = Steps(200, np.full(512, 200), flops)
    assert estimate(found, 512, 1, steps=alike).seconds == pytest.approx(estimate(found, 512, 1).seconds, rel=1e-6)
    falling = Steps(200, np.repeat([400, 100], 256), flops)
    whole = estimate(found, 512, 1, steps=falling)
    assert falling.cycles(found)[[0, -1]] == pytest.approx([found.cycles + 200 * found.loops[0].cycles,
                                                            found.cycles - 100 * found.loops[0].cycles])
    assert whole.seconds == pytest.approx(1.25 * (estimate(found, 512, 1).seconds - 1e-6) + 1e-6, rel=0.01)
    assert whole.tflops * whole.seconds == pytest.approx(500 / 400 * 512 * 200 * flops / 1e12, rel=0.01)


def test_estimate_of_a_grid() -> None:
    found = timed(loop("".join(MFMA.format(16 * n, 16 * n + 15) for n in range(4)) * 8, 200), block=256)
    whole = estimate(found, 257, 1)
    assert whole.rounds == 2 and whole.limit == "power" and set(whole.parts) == {"compute units", "dispatch", "launch"}
    clock, last = sustained_clock(found.timing, found.matrix_busy), sustained_clock(found.timing, found.matrix_busy / 256)
    assert 1590 < clock < 1650 and last > 2390
    assert whole.seconds == pytest.approx(1e-6 + found.cycles / clock / 1e6 + found.cycles / last / 1e6)
    assert whole.clock == pytest.approx(2 * found.cycles / (whole.seconds * 1e6 - 1))
    assert estimate(found, 128, 1).limit == "matrix"  # half of the units leave power to the others
    assert whole.tflops == pytest.approx(257 * 4 * 200 * 32 * 32768 / whole.seconds / 1e12)
    assert estimate(timed("s_nop 0\n"), 1, 1).limit == "launch"
    assert sustained_clock(timing("MI300X"), 0) == 2100 and sustained_clock(timing("MI300X"), 1) == 1137


def test_chrome_trace_has_waves_and_units() -> None:
    found = timed("v_lshlrev_b32 v1, 4, v0\n" + loop("ds_read_b128 v[4:7], v1\ns_waitcnt lgkmcnt(0)\n" + MFMA.format(0, 15), 3), lds=16384)
    events = chrome_trace(found)["traceEvents"]
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert {"workgroup 0 wave 0, SIMD 0", "matrix core 0", "LDS pair 0"} <= names
    cores = [event for event in events if event["ph"] == "X" and event["pid"] == 2]
    assert len(cores) == 3 and {event["dur"] for event in cores} == {32}
    assert any(event.get("args", {}).get("stall") for event in events)


def test_chrome_trace_tells_every_clk_of_a_wave() -> None:
    """Issues and stalls, barriers too, lie one after the other without a hole or an overlap; events are what the format asks for."""
    found = timed("v_lshlrev_b32 v1, 4, v0\ns_cmp_eq_u32 s4, s4\n" + loop("ds_read_b128 v[4:7], v1\ns_waitcnt lgkmcnt(0)\ns_barrier\n"
                  + MFMA.format(0, 15) + "v_mov_b32 v9, v8\n", 4), block=256, lds=16384)
    document = json.loads(json.dumps(chrome_trace(found)))
    for event in document["traceEvents"]:
        assert event["ph"] in "MXbe" and {"name", "pid", "tid"} <= event.keys()
        assert event["ph"] == "M" or event["ts"] >= 0 and event.get("dur", 0) >= 0
    assert sum(event["ph"] == "X" and event["name"] == "barrier" for event in document["traceEvents"]) >= 4
    for wave in range(4):
        mine = sorted((event["ts"], event["ts"] + event["dur"]) for event in document["traceEvents"]
                      if event["ph"] == "X" and event["pid"] == 1 and event["tid"] == wave and event["dur"])
        holes = [(end, begin) for (_, end), (begin, _) in itertools.pairwise(mine) if end != begin]
        assert len(holes) <= 1, holes


def test_the_timing_table() -> None:
    assert len({row.name for row in PARAMETERS}) == len(PARAMETERS)
    for row in PARAMETERS:
        assert row.source and row.unit and row.tag.startswith("["), row
        assert all(row.on(gpu) >= 0 for gpu in GPUS)
        for gpu in GPUS:
            fastest, slowest = row.range_on(gpu)
            assert min(fastest, slowest) <= row.on(gpu) <= max(fastest, slowest), (row.name, gpu)
    ends = {row.name: row.range_on("MI355X") for row in PARAMETERS}
    assert ends["lds_latency"] == (50, 70) and ends["hbm_read"] == (6.4, 6.0) and ends["slot"] == (4, 4) and ends["launch"] == (2.0, 2.7)
    assert ends["lds_conflict_overlap"] == (8, 0) and ends["lds_read_interval"] == (8, 8)
    changed = timing("MI300X", {"lds_latency": 70})
    assert changed["lds_latency"] == 70 and changed.overridden == {"lds_latency"}
    with pytest.raises(AsmgenError, match="no GPU 'H100'"):
        timing("H100")
    with pytest.raises(AsmgenError, match="no parameter 'x'"):
        timing("MI300X", {"x": 1})
    with pytest.raises(AsmgenError, match="from 0 to"):
        timing("MI300X", {"slot": -1})


def test_sensitivity_names_what_moves() -> None:
    code, waves = traced("v_lshlrev_b32 v1, 4, v0\n" + loop("v_exp_f32 v2, v2\nv_exp_f32 v2, v2\n", 10))

    def figures(chosen: Timing) -> tuple[float, float, float]:
        found = profile(code, waves, chosen, "l2")
        return found.cycles, found.loops[0].cycles, estimate(found, 1, 1).seconds

    rows = {row.name: row for row in sensitivity(figures, timing("MI355X"))}
    assert rows["trans_latency"].changes[1][1] > 0.05
    assert rows["smem_latency"].largest == 0
    assert "valu_latency" not in rows  # it is measured
    assert "trans_latency" in table(list(rows.values()))


def test_ends_go_on_beside_the_loops_of_other_workgroups() -> None:
    """Two on a unit hide half of each later round's ends, one hides nothing."""
    found = timed("s_sleep 20\n" + loop("".join(MFMA.format(16 * n, 16 * n + 15) for n in range(4)), 50), block=256)
    ends = found.prologue + found.epilogue
    assert ends > 1000
    one, two = estimate(found, 3 * 256, 1), estimate(found, 3 * 512, 2)
    assert one.parts["compute units"] * one.clock == pytest.approx(3e-6 * found.cycles)
    assert two.parts["compute units"] * two.clock == pytest.approx(1e-6 * (3 * found.cycles - ends))
    assert two.clock < one.clock


def test_the_longest_part_limits() -> None:
    found = timed(loop("v_mov_b32 v1, v0\n", 50))
    for name, l2, llc, hbm, stored in (("l2", 1e12, 0, 0, 0), ("llc", 1e12, 1e12, 0, 0), ("hbm", 2e12, 1e12, 1e12, 0),
                                       ("hbm", 0, 0, 0, 1e12)):
        whole = estimate(found, 256, 1, Traffic(l2, llc, hbm, stored, ""))
        assert whole.limit == name and whole.seconds == pytest.approx(whole.parts[name] + 1e-6)
    assert set(whole.parts) == {"compute units", "dispatch", "l2", "llc", "hbm", "launch"} and whole.limit in LIMITS
    assert whole.parts["hbm"] == pytest.approx(1e12 / 6.2e12)


def test_attention_runs_on_its_own_line_of_the_clock() -> None:
    chosen = timing("MI355X")
    assert sustained_clock(chosen, 0.8, True) == pytest.approx(2714 - 12.4 * 80) and sustained_clock(chosen, 0, True) == 2400
    for density, clock in ((0.73, 1800), (0.65, 1800), (0.61, 1800), (0.305, 2100)):  # vector instructions bind
        assert sustained_clock(chosen, density, True) == pytest.approx(clock)
    assert sustained_clock(timing("MI300X"), 1, True) == 1137
    plain = MFMA.format(0, 15) * 4
    assert not transcendental(timed(loop(plain, 8))) and transcendental(timed(loop(plain + "v_exp_f32 v8, v9\n", 8)))
    assert not transcendental(timed(loop("v_exp_f32 v8, v9\n", 8))) and not transcendental(timed("s_nop 0\n"))


def test_the_main_loop_is_the_inner_one_wherever_its_code_stands() -> None:
    """A workgroup goes round a loop of five steps for each of eight items, from whose code, further on, it comes back."""
    inner = "steps:\n" + MFMA.format(0, 15) * 4 + "s_sub_u32 s4, s4, 1\ns_cmp_lg_u32 s4, 0\ns_cbranch_scc1 steps\ns_branch ends\n"
    outer = "items:\ns_mov_b32 s4, 5\ns_nop 7\ns_branch steps\nends:\ns_nop 7\ns_sub_u32 s5, s5, 1\ns_cmp_lg_u32 s5, 0\n"
    found = timed("s_mov_b32 s5, 8\ns_branch items\n" + inner + outer + "s_cbranch_scc1 items\n")
    main = found.main_loop
    assert main is not None and main.rounds == 5 and main.last == 8
    assert any(one.first > main.last and one.total > main.total for one in found.loops)


def test_bytes_of_a_launch() -> None:
    data = np.zeros(4096, np.uint32)
    text = ("s_load_dwordx2 s[10:11], s[0:1], 0x0\nv_lshlrev_b32 v1, 4, v0\ns_waitcnt lgkmcnt(0)\n"
            "global_load_dwordx4 v[4:7], v1, s[10:11]\nglobal_load_dword v8, v1, s[10:11]\ns_waitcnt vmcnt(0)\n"
            "global_store_dwordx2 v1, v[4:5], s[10:11]\n")
    code, waves = traced(text, block=128, buffers=[data])
    chosen = timing("MI355X")
    costs = costs_of(code, chosen)
    loaded, stored = 2 * (1024 + 256), 2 * 512  # of what lines are touched, what the lanes take
    waves = [replace(wave, arguments=(1, 0, 1)) for wave in waves]
    arguments = [TracedArgument("a", 0, 1 << 40), TracedArgument("b", 1 << 40, 4096), TracedArgument("c", 1 << 41, 4096)]
    far = traffic(costs, waves, "hbm", 100, chosen, arguments)
    assert [(one.name, one.loaded, one.stored) for one in far.arguments] == [("a", 100 * 512, 0), ("b", 100 * 2048, 100 * 1024)]
    assert (far.l2, far.llc, far.hbm, far.stored) == (100 * loaded, 100 * loaded, 100 * loaded, 100 * stored)
    near = traffic(costs, waves, "l2", 100, chosen, arguments)
    assert (near.l2, near.llc, near.stored) == (100 * loaded, 0, 0) and near.l2_hit == 1
    once = traffic(costs, waves, "grid", 1000, chosen, arguments)
    assert once.llc == 1000 * 512 + 8 * 4096 and once.hbm == 1000 * 512 + 4096  # nobody loads c; a is larger than what is loaded of it
    assert once.first == {0: 1.0, 1: 1.0} and once.loads(9).units == 9 and once.loads(9).hbm == once.hbm
    longer = traffic(costs, waves, "grid", 1000, chosen, arguments, longer=3.0)  # b is stored and loaded again, however long a loop is
    assert [(one.name, one.loaded) for one in longer.arguments] == [("a", 3 * 1000 * 512), ("b", 1000 * 2048)]
    larger = traffic(costs, waves, "grid", 1000, chosen, arguments[1:], read=40960)
    assert larger.hbm == 40960 and larger.llc == 8 * 40960 and larger.l2 == 1000 * loaded  # of either argument a half
    unknown = traffic(costs, [replace(wave, arguments=()) for wave in waves], "grid", 10, chosen, arguments)
    assert unknown.l2 == unknown.llc == unknown.hbm == 10 * loaded and [one.name for one in unknown.arguments] == [""]
    order = GridOrder(10, 100, 4, 8)
    tiled = traffic(costs, waves, "grid", 1000, chosen, arguments, LoadOrder(order.tiles_in_order(), (1, 0), 4, "it is known"))
    rates = cache_rates(order, TileLoads(2048, 512, 4), chosen)
    assert tiled.l2_hit == pytest.approx(rates.l2_hit) and tiled.llc_hit == pytest.approx(rates.llc_hit) and tiled.how == "it is known"
    assert tiled.first == {1: rates.operands[0].first, 0: rates.operands[1].first}
    assert tiled.l2 == rates.l2_bytes
    # The other half of the workgroups is like the first, but HBM gives what stays in the last-level cache once.
    fewer = timing("MI355X", {"compute_units": 500})
    half = LoadOrder(order.tiles_in_order()[:500], (1, 0), 4, "")
    sampled = traffic(costs, waves, "grid", 1000, fewer, arguments[1:2] + arguments[:1], half)
    first = rates_of(half.slabs, TileLoads(2048, 512, 4), fewer, 1)
    assert sampled.llc == pytest.approx(2 * first.llc_bytes)
    assert sampled.hbm == pytest.approx(2 * first.hbm_bytes)  # the second is too large to stay
    kept = traffic(costs, waves, "grid", 1000, fewer, arguments[1:], half)
    assert kept.hbm == sum(max(one.hbm_bytes, 4096) for one in first.operands) < 2 * first.hbm_bytes


def test_accesses_know_their_argument() -> None:
    """By the lowest address of the lanes that take part; those of LDS, and of no lane, have none."""
    data, memory = [np.zeros(1024, np.uint32), np.zeros(2048, np.uint32)], Memory()
    text = ("s_load_dwordx4 s[8:11], s[0:1], 0x0\nv_lshlrev_b32 v1, 2, v0\ns_waitcnt lgkmcnt(0)\n"
            "global_load_dword v4, v1, s[10:11]\nglobal_load_dword v5, v1, s[8:9]\nds_read_b32 v6, v1\ns_waitcnt vmcnt(0) lgkmcnt(0)\n"
            "global_store_dword v1, v4, s[8:9]\ns_mov_b64 exec, 0\nglobal_load_dword v4, v1, s[10:11]\n")
    code = read_text(text + "s_endpgm\n", "gfx950")[0]
    trace = Trace(1)
    launch("gfx950", code, (1, 1, 1), (64, 1, 1), data, lds=4096, vgprs=128, options=Options(checks=False, trace=trace), memory=memory)
    assert [wave.arguments for wave in trace.waves()] == [()]
    starts = {interval.end - interval.start: interval.start for interval in memory.intervals}
    first, second = starts[4096], starts[8192]
    trace.arguments = (TracedArgument("y", second, 8192), TracedArgument("x", first, 4096))
    assert [wave.arguments for wave in trace.waves()] == [(0, 1, NO_ARGUMENT, 1, NO_ARGUMENT)]
    trace.arguments = (TracedArgument("x", first, 4096),)
    assert [wave.arguments for wave in trace.waves()] == [(NO_ARGUMENT, 0, NO_ARGUMENT, 0, NO_ARGUMENT)]


def test_packed_units_fill_the_room_behind_the_hazard() -> None:
    """T = 32M + g(N - 6M): the bound of code that covers all windows, then 3 plain ones, then pairs, is the optimum."""
    chosen, packed, plain = timing("MI355X"), "v_pk_add_f32 v[20:21], v[22:23], v[24:25]\n", "v_mov_b32 v26, v27\n"
    for excess in (0, 1, 3, 4, 5, 9, 12):
        pairs = max(0, excess - 3) // 2
        body = MFMA.format(0, 15) * 2 + plain * (12 + excess - 2 * pairs) + packed * pairs
        (one,) = timed(loop(body, 8)).loops
        assert one.bounds.clocks["valu"] == shadow_optimum(64, 32, 12 + excess, True, chosen), excess
        assert one.cycles >= one.bounds.clocks["valu"]
    assert timed(loop(MFMA.format(0, 15) + packed, 8)).loops[0].bounds.clocks["valu"] == 32 + 12 + 4


@pytest.mark.parametrize("edges,latency,rate,verdict,least", [
    ((256, 256), 1000, 64, "compute", 65536 * 1000 / 32768), ((256, 256), 1100, 64, "latency", 65536 * 1100 / 32768),
    ((128, 128), 1000, 64, "latency", 32768 * 1000 / 32768), ((64, 64), 100, 64, "bandwidth", 16384 / 64),
    ((128, 128), 432, 37.5, "bandwidth", 32768 / 37.5), ((256, 256), 432, 37.5, "compute", 65536 / 37.5)])
def test_memory_pipeline_of_tiles(edges: tuple[int, int], latency: int, rate: float, verdict: str, least: float) -> None:
    """Four waves that make a tile of 16-bit elements in steps of 64, with 32 KB under way for a round trip without its queue."""
    (tm, tn), chosen, far = edges, timing("MI355X"), FarMemory(rate, latency, 312)
    matrix, bytes_ = 16 * tm * tn * 64 / (16 * 16 * 32 * 4), (tm + tn) * 64 * 2
    each = Usage(matrix=matrix, load_bytes=bytes_ / 4, flight=bytes_ * latency / 4, l1=bytes_ / 64 / 4)
    found = UnitLoad([[each] for _ in range(4)]).bounds(chosen, far)
    assert found.verdict == verdict and found.memory == pytest.approx(least)


def test_workgroups_that_fit_fill_each_others_gaps() -> None:
    """Four waves wait for LDS three quarters of the time: two such workgroups take no longer, and enough of them what a part needs."""
    body = "ds_read_b128 v[4:7], v1\ns_waitcnt lgkmcnt(0)\n" * 4
    code, waves = traced("v_lshlrev_b32 v1, 4, v0\n" + loop(body, 50), block=256, lds=16384)
    found = profile(code, waves, AT_ONCE, "l2")
    load = lambda: whole_load(found, waves)  # noqa: E731
    alone, two, many = (estimate(found, 256 * 8, 1, None, fitting, load) for fitting in (1, 2, 8))
    assert (alone.together, two.together, many.together) == (1, 2, 8) and (alone.rounds, two.rounds, many.rounds) == (8, 4, 1)
    assert alone.limit == "latency" and many.limit == "lds"
    assert two.parts["compute units"] < 0.6 * alone.parts["compute units"]
    bound = load().times(8).bounds(found.timing, found.far).clocks["lds"]
    assert bound == 8 * load().bounds(found.timing, found.far).clocks["lds"] > found.cycles
    assert many.parts["compute units"] == pytest.approx(bound / 2400e6)
    assert estimate(found, 300, 1, None, 8, load).together == 2  # no more than there are
    summary = summary_for(found, 256 * 8, 1, 2, load)
    slower = [estimate_run(replace(summary, beside=more), 256 * 8, 1, None, fitting) for more, fitting in ((1.5, 2), (0.5, 8))]
    assert slower[0].parts["compute units"] == pytest.approx(1.5 * two.parts["compute units"], rel=0.02)
    assert slower[1].parts["compute units"] == pytest.approx(bound / 2400e6)  # no less than the bound


def test_a_loop_gone_through_once_is_not_the_main_one() -> None:
    """A loop over heads holds the loop over keys: rounds are the inner one's, which takes the most, and so are those a cut trace loses."""
    inner = loop("v_mul_f32 v1, v1, v1\n" * 9, 20)
    nested = "s_mov_b32 s21, 1\nO:\n" + "v_mov_b32 v2, v0\n" * 30 + inner + "s_sub_u32 s21, s21, 1\ns_cmp_lg_u32 s21, 0\ns_cbranch_scc1 O\n"
    code, waves = traced(nested)
    found = profile(code, waves, AT_ONCE, "l2")
    main = found.main_loop
    assert main is not None and len(found.loops) == 2 and (main.rounds, main.total) == (20, min(one.total for one in found.loops))
    cut = shortened(code, waves)
    fewer = profile(code, cut.traces, AT_ONCE, "l2")
    assert fewer.main_loop is not None and fewer.cycles + cut.rounds * fewer.main_loop.cycles == found.cycles
    nested = nested.replace("s21, 1\nO", "s21, 3\nO")
    several = profile(*traced(nested), AT_ONCE).main_loop
    assert found.prologue > 30 * 4 and several is not None and several.rounds == 20
    outer = profile(*traced(nested.replace("v_mov_b32 v2, v0\n" * 30, "v_mov_b32 v2, v0\n" * 400)), AT_ONCE).main_loop
    assert outer is not None and outer.rounds == 3, "the inner one takes less than half of the time"


def test_private_memory_is_interleaved_and_stays_in_l2() -> None:
    """A dword a lane takes two lines, four of them eight; an odd offset of one lane takes one line more."""
    text = ("s_load_dwordx4 s[8:11], s[0:1], 0x0\nv_lshlrev_b32 v1, 2, v0\nv_cmp_eq_u32 vcc, 0, v0\nv_cndmask_b32_e64 v2, 0, 32, vcc\n"
            "scratch_store_dword off, v1, off offset:8\nscratch_store_dwordx4 off, v[4:7], off offset:16\n"
            "scratch_load_dword v8, v2, off offset:8\ns_waitcnt vmcnt(0) lgkmcnt(0)\nglobal_load_dword v4, v1, s[8:9]\n")
    code, memory, trace = read_text(text + "s_endpgm\n", "gfx950")[0], Memory(), Trace(1)
    launch("gfx950", code, (1, 1, 1), (64, 1, 1), [np.zeros(1024, np.uint32)] * 2, vgprs=128, scratch=64,
           options=Options(checks=False, trace=trace), memory=memory)
    start = next(interval.start for interval in memory.intervals if interval.end - interval.start == 4096)
    trace.arguments = (TracedArgument("x", start, 4096),)
    waves, chosen = list(trace.waves()), timing("MI355X")
    assert [wave.costs for wave in waves] == [(2, 8, 3, 2)]
    assert waves[0].arguments[:3] == (PRIVATE, PRIVATE, PRIVATE)
    moved = traffic(costs_of(code, chosen), waves, "grid", 10, chosen, trace.arguments)
    assert (moved.l2, moved.stored) == (10 * 256, 0)
    assert FarMemory(64, 900, 312, {0: 700}).round_trip(PRIVATE) == 312
