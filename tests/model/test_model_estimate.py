"""Whole kernels: the round trip of loads whose hits are known, the clock of products of f16, stores that leave together."""

from __future__ import annotations

import pytest

from asmgen.emulator.scheduling.trace import WaveTrace
from asmgen.isa.timing import timing
from asmgen.model.estimate import estimate, sustained_clock
from asmgen.model.profile import Profile, profile
from asmgen.model.runsummary import of_f16
from asmgen.model.traffic import Traffic, under_load
from asmgen.reader.assembly import read_text

CHOSEN = timing("MI355X")


def timed(body: str, after: str = "", rounds: int = 50) -> Profile:
    """A loop of one wave on each SIMD; every access touches 8 lines."""
    code = read_text(f"s_mov_b32 s20, 9\nL:\n{body}s_sub_u32 s20, s20, 1\ns_cbranch_scc0 L\n{after}s_endpgm\n", "gfx950")[0]
    head = next(at for at, one in enumerate(code.instructions) if one.is_branch) + 1
    positions = (0, *tuple(range(1, head)) * rounds, *range(head, len(code.instructions)))
    accesses = sum("global" in code.instructions[position].name for position in positions)
    return profile(code, [WaveTrace(0, wave, positions, (8,) * accesses) for wave in range(4)], CHOSEN, "l2")


def test_a_round_trip_is_longer_where_the_last_level_cache_misses() -> None:
    """Who shares a line waits for it: the hits in L2 do not shorten it."""
    for l2, llc, hbm, clocks in ((10, 2, 0, 1000), (10, 2, 1, 1400), (10, 10, 5, 1400), (10, 2, 2, 1800)):
        found = under_load(CHOSEN, Traffic(l2, llc, hbm, 0, ""))
        assert found["latency_grid"] == pytest.approx(clocks) and not found.overridden
        assert all(found[name] == CHOSEN[name] for name in CHOSEN.values if name != "latency_grid")


def test_products_of_f16_run_at_a_lower_clock() -> None:
    one = "v_mfma_f32_32x32x16_{} a[0:15], v[0:3], v[4:7], a[0:15]\n"
    half, brain = timed(one.format("f16") * 4, rounds=400), timed(one.format("bf16") * 4, rounds=400)
    assert of_f16(half) and not of_f16(brain) and half.cycles == brain.cycles
    assert estimate(half, 256, 1).clock < estimate(brain, 256, 1).clock
    assert sustained_clock(CHOSEN, 0.98, f16=True) == pytest.approx(0.933 * 1600) and sustained_clock(CHOSEN, 0, f16=True) == 2400
    assert estimate(half, 256, 1).limit == estimate(brain, 256, 1).limit == "power"
    assert sustained_clock(timing("MI325X"), 0.98) / sustained_clock(timing("MI300X"), 0.98) == pytest.approx(843 / 708, rel=1e-3)


def test_stores_of_a_round_leave_together() -> None:
    """What all units store after their loops is written back at one rate, beyond what L2 keeps; of several workgroups on a unit, only the
    last waits for it alone."""
    store = "global_store_dwordx4 v[0:1], v[4:7], off\n"
    found, inside = timed("v_mov_b32 v2, v3\n", store), timed("v_mov_b32 v2, v3\n" + store, store)

    def longer(found: Profile, each: float, workgroups: int) -> float:
        ends = [estimate(found, workgroups, 1, Traffic(0, 0, 0, stored * workgroups, "")).parts["compute units"] for stored in (0, each)]
        return ends[1] - ends[0]

    each = 128e3
    one = 256 * each / 7.4e12 - each / 64 / 2400e6
    assert longer(found, each, 256) == pytest.approx(one, rel=1e-3) and longer(found, each, 768) == pytest.approx(3 * one, rel=1e-3)
    assert longer(found, each, 384) == pytest.approx(one + 128 * each / 7.4e12 - each / 64 / 2400e6, rel=1e-3)
    assert longer(found, 50e3, 256) == longer(found, each, 64) == 0  # less than L2 keeps dirty
    assert longer(inside, each, 256) == 0  # its loop waits for them itself
