"""Launches: the gap between workgroups of a compute unit, their dispatch, what the host sees."""

from __future__ import annotations

import json

import numpy as np
import pytest

from asmgen.emulator.scheduling.trace import WaveTrace
from asmgen.isa.timing import timing
from asmgen.model.estimate import Estimate, estimate
from asmgen.model.profile import Profile, profile
from asmgen.model.unequal import Steps
from asmgen.reader.assembly import read_text
from tests.tools.test_cli import call

MFMA = "v_mfma_f32_32x32x16_bf16 a[0:15], v[0:3], v[4:7], a[0:15]\n"


def timed(body: str, waves: int = 4, rounds: int = 50, **values: float) -> Profile:
    """A loop of so many waves; workgroups begin and follow each other at once, unless `values` say more."""
    code = read_text(f"s_mov_b32 s20, 9\nL:\n{body}s_sub_u32 s20, s20, 1\ns_cbranch_scc0 L\ns_endpgm\n", "gfx950")[0]
    tail = len(code.instructions) - 1
    positions = (0, *tuple(range(1, tail)) * rounds, tail)
    table = timing("MI355X", {"workgroup_gap": 0, "wave_dispatch": 0, "traced_loops": 0, "clock_odd_xcds": 0, **values})
    return profile(code, [WaveTrace(0, wave, positions, ()) for wave in range(waves)], table, "l2")


def clk(whole: Estimate) -> float:
    """Of a launch whose clock is known."""
    return whole.parts["compute units"] * whole.clock * 1e6


@pytest.mark.parametrize(("workgroups", "gaps"), [(100, 0), (256, 0), (300, 1), (512, 1), (768, 2), (1024, 3)])
def test_each_workgroup_but_the_first_of_a_unit_begins_after_a_gap(workgroups: int, gaps: int) -> None:
    body = "v_mov_b32 v0, v1\n" * 40  # at one clock
    plain, later = (estimate(timed(body, workgroup_gap=gap), workgroups, 1) for gap in (0, 700))
    assert clk(later) - clk(plain) == pytest.approx(700 * gaps)


def test_several_workgroups_of_a_unit_hide_parts_of_the_gap() -> None:
    body = "v_mov_b32 v0, v1\n" * 40
    plain, later = (estimate(timed(body, workgroup_gap=gap), 1024, 2) for gap in (0, 700))
    assert clk(later) - clk(plain) == pytest.approx(350)


def test_workgroups_of_unequal_length_wait_too() -> None:
    """256 long ones and 256 short ones: each unit has one of either, and one gap between them, of which the launch's mean is a half."""
    found = [timed(MFMA * 8, workgroup_gap=gap) for gap in (0, 900)]
    assert found[0].main_loop is not None
    steps = Steps(50, np.repeat([100, 20], 256), found[0].main_loop.flops)
    plain, later = (clk(estimate(one, 512, 1, steps=steps)) for one in found)
    assert 900 * 0.5 <= later - plain <= 900 * 2 * 0.5 + 1


def test_attention_ends_with_the_slowest_xcds() -> None:
    """Loops that mix matrix and transcendental instructions take as much longer as traces read high, and odd XCDs are behind the clock that
    is said; other loops know neither."""
    mixed = MFMA * 4 + "v_exp_f32 v8, v9\n"
    for body, share in ((mixed, 0.01), (MFMA * 4, 0.0)):
        plain, longer, behind = (timed(body, rounds=400, **{"traced_loops": 0, "clock_odd_xcds": 0, **values})
                                 for values in ({}, {"traced_loops": 0.01}, {"clock_odd_xcds": 40}))
        in_loop = (plain.cycles - plain.prologue - plain.epilogue) / plain.cycles
        for workgroups in (256, 512, 8192):
            usual, more, slow = (estimate(one, workgroups, 1) for one in (plain, longer, behind))
            assert usual.clock == pytest.approx(more.clock) and usual.clock == pytest.approx(slow.clock)
            assert clk(more) / clk(usual) - 1 == pytest.approx(share * in_loop, abs=1e-6)
            assert clk(slow) / clk(usual) == pytest.approx(usual.clock / (usual.clock - 40) if share else 1)


def test_waves_are_dispatched_one_after_the_other() -> None:
    """A wave a clk of each XCD: 4096 workgroups of 8 waves take 4096 clk of 8 XCDs, and a round begins over 256."""
    short = timed("", waves=8, rounds=1, wave_dispatch=1)
    whole = estimate(short, 4096 * 64, 1, fitting=1)
    assert whole.parts["dispatch"] == pytest.approx(4096 * 64 / 2400e6)
    one, none = (estimate(timed("v_mov_b32 v0, v1\n" * 40, waves=8, wave_dispatch=rate), 256, 1) for rate in (1, 0))
    assert clk(one) - clk(none) == pytest.approx(256)
    quick = estimate(timed("", waves=1, rounds=1, wave_dispatch=600), 256 * 100, 1)
    assert quick.limit == "launch" and quick.seconds == pytest.approx(256 * 100 * 600 / 8 / 2400e6 + 1e-6)


def test_the_host_sees_more_than_the_device() -> None:
    """1 us before the first wave, 2 us by events."""
    whole = estimate(timed("v_mov_b32 v0, v1\n" * 40), 256, 1)
    assert whole.seconds == pytest.approx(whole.parts["compute units"] + 1e-6) and whole.host_seconds == pytest.approx(whole.seconds + 1e-6)


def test_the_command_says_whose_time_it_is(objdump: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(call(capsys, "profile", "01-vector-add", "-p", "n=100000", "--json")[1])
    assert found["time"] == "device" and found["host_seconds_predicted"] == pytest.approx(found["seconds_predicted"] + 1e-6)
    text = call(capsys, "profile", "01-vector-add", "-p", "n=100000")[1]
    device, host = (f"{found[name] * 1e6:.1f}" for name in ("seconds_predicted", "host_seconds_predicted"))
    assert f"{device} us of the device ({host} as the host sees it)" in text
