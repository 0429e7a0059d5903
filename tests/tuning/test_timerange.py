"""Ranges of predictions: from the ranges of the timing table's parameters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asmgen.emulator.scheduling.run import Options
from asmgen.emulator.scheduling.trace import Trace
from asmgen.isa.timing import GPUS, PARAMETERS, TimingParameter, timing
from asmgen.reader.assembly import read_text
from asmgen.tools.diff_command import LoopPair
from asmgen.tuning.prediction import predict
from asmgen.tuning.timerange import time_range
from asmgen.tuning.traced import Traced
from tests.emulator_launch import launch
from tests.tools.test_cli import call

EXP = "v_exp_f32 v2, v2\n"


def traced(body: str, rounds: int = 300, buffers: Sequence[Any] = ()) -> Traced:
    text = ("s_load_dwordx2 s[10:11], s[0:1], 0x0\nv_lshlrev_b32 v1, 4, v0\ns_waitcnt lgkmcnt(0)\n" if buffers else "") + \
        f"s_mov_b32 s20, {rounds}\nL:\n{body}s_sub_u32 s20, s20, 1\ns_cmp_lg_u32 s20, 0\ns_cbranch_scc1 L\ns_endpgm\n"
    code = read_text(text, "gfx950")[0]
    trace = Trace(1)
    launch("gfx950", code, (1, 1, 1), (256, 1, 1), buffers, vgprs=64, options=Options(checks=False, trace=trace))
    return Traced("k", trace, 256)


def seconds(of: Traced, **values: float) -> float:
    return predict(of, timing("MI355X", values), "l2", 1).estimate.seconds


def test_ends_of_ranges() -> None:
    """More clk are slower, more bytes a clk faster; where sources give no range there is none."""
    slow = TimingParameter("x", {"all": 5}, "clk", "[A]", "s", 4, 8)
    assert slow.range_on("MI300X") == (4, 8)
    fast = TimingParameter("x", {"all": 5}, "TB/s", "[A]", "s", {"MI300X": 4}, {"gfx942": 6, "gfx950": 7})
    assert (fast.range_on("MI300X"), fast.range_on("MI325X"), fast.range_on("MI355X")) == ((6, 4), (6, 5), (7, 5))
    assert TimingParameter("x", {"all": 5}, "clk", "[A]", "s", 4, 8, faster=True).range_on("MI300X") == (8, 4)
    assert TimingParameter("x", {"all": 5}, "clk", "[M]", "s").range_on("MI300X") == (5, 5)
    for gpu in GPUS:
        table = timing(gpu, {"lds_latency": 61})
        assert "lds_latency" not in table.ranges() and table.at_end(True)["lds_latency"] == 61
        assert table.at_end(True, ["trans_issue"])["trans_issue"] == 16 and table.at_end(True, [])["trans_issue"] == 8


@pytest.mark.slow
def test_the_range_is_what_the_ends_predict() -> None:
    """A chain of v_exp on a launch without far loads: nothing but its own parameters, the loop's and the launch's move it."""
    one = traced(EXP * 8)
    found = time_range(one, predict(one, timing("MI355X"), "l2", 1))
    ends = timing("MI355X").ranges()
    low, high = (seconds(one, **{name: pair[side] for name, pair in ends.items()}) for side in (0, 1))
    assert (found.low, found.high) == (pytest.approx(low, rel=0.002), pytest.approx(high, rel=0.002))
    assert found.low < seconds(one) < found.high and found.widest == "trans_issue"
    for name in ("trans_issue", "trans_latency", "branch_taken", "launch_device", "smem_latency", "clock_dense"):
        for value in ends[name]:
            assert found.low * 0.999 <= seconds(one, **{name: value}) <= found.high * 1.001, name


def test_the_widest_parameter_is_that_of_what_the_loop_waits_for() -> None:
    data = [np.zeros(1024, np.uint32)]
    waiting = traced("global_load_dwordx4 v[4:7], v1, s[10:11]\ns_waitcnt vmcnt(0)\n", buffers=data)
    assert time_range(waiting, predict(waiting, timing("MI355X"), "l2", 1)).widest == "latency_l2"


def test_settings_for_a_comparison_are_those_of_both() -> None:
    one, other = traced(EXP * 8), traced(EXP * 4 + "v_mov_b32 v3, v2\n")
    mine, its = (time_range(each, predict(each, timing("MI355X"), "l2", 1), compared=True) for each in (one, other))
    assert mine.widest == "" and mine.settings.keys() == its.settings.keys()
    assert mine.settings.keys() >= {"all fast", "all slow", "far memory slow", "launch_device slow"}
    assert mine.settings["launch_device slow"] == pytest.approx(seconds(one) + 1e-6)


def test_commands_say_the_range(objdump: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shape = ("01-vector-add", "-p", "n=1000000")
    found = json.loads(call(capsys, "profile", *shape, "--json")[1])
    assert found["low"] < found["seconds_predicted"] < found["high"] and found["tflops_low"] == found["tflops_high"] == 0.0
    assert f"predicted range: {found['low'] * 1e6:.1f} to {found['high'] * 1e6:.1f} us; binds: {found['limit']}; widest: " \
        in call(capsys, "profile", *shape)[1]
    known = tmp_path / "known.json"
    known.write_text(json.dumps({row.name: row.on("MI355X") for row in PARAMETERS}))
    sure = json.loads(call(capsys, "profile", *shape, "--json", "--parameters", str(known))[1])
    assert sure["low"] == sure["high"] == sure["seconds_predicted"] == pytest.approx(found["seconds_predicted"]) and sure["widest"] is None


@pytest.mark.parametrize("clocks,order", [(((10, 20), (8, 16), (15, 30)), "holds"), (((10, 20), (8, 16), (31, 30)), "open"),
                                          (((10, 10), (8, 8), (15, 15)), "open"), ((), "")])
def test_the_order_of_two_loops(clocks: tuple[tuple[float, float], ...], order: str) -> None:
    pair = LoopPair(None, None, 1.0, ({}, {}), clocks)
    assert pair.order == order and pair.as_json()["order"] == (order or None)
    if clocks:
        assert pair.ranges()[0] == (8, max(one for one, _ in clocks))
