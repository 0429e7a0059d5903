"""Endless loops are told from long ones: by states that come back while nobody changes memory, whatever the order of waves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.emulator.scheduling import run as running
from asmgen.emulator.scheduling.run import Options
from asmgen.isa.operands import OFF
from asmgen.isa.registers import exec_, s, v, vcc
from tests.emulator_launch import ORDERS, Launched, launch, load_pointers, store_by_item

BUDGET = 2_000_000
"""Wave instructions: far more than any of these launches executes."""
Emit = Callable[[Builder], object]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulator looks at loops sooner, so that short ones are looked at as often as long ones are without this."""
    monkeypatch.setattr("asmgen.emulator.scheduling.scheduler._PATIENCE", 120)


def zeros(count: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    return np.zeros(count, np.uint32)


def endless(launched: Launched, branch: str) -> str:
    """The message of the launch's one runaway, which is at `branch` and was found long before the budget was spent."""
    (finding,) = (finding for finding in launched.findings if finding.check == "runaway")
    assert finding.consumer is not None and finding.consumer.name == branch
    assert "for ever" in finding.message and launched.result.wave_instructions < BUDGET / 8
    return finding.message


def go(emit: Emit, waves: int = 1, workgroups: int = 1, order: str = "lockstep", words: int = 64, budget: int = BUDGET, lds: int = 0,
       scratch: int = 0) -> Launched:
    """A launch whose s[8:9] is a buffer of zeros, after the prologue."""
    def whole(k: Builder) -> None:
        load_pointers(k, 1)
        emit(k)

    return launch("gfx942", whole, (workgroups, 1, 1), (64 * waves, 1, 1), [zeros(words)], lds=lds,
                  scratch=scratch, options=Options(checks=False, order=order, instruction_budget=budget))


def poll(k: Builder, wanted: int = 1, register: int = 1) -> None:
    """Until the first word of the buffer is `wanted`."""
    k.v_mov_b32(v[2], 0)
    k.label("poll")
    k.global_load_dword(v[register], v[2], s[8:9], sc0=True)
    k.s_waitcnt(vmcnt=0)
    k.v_readfirstlane_b32(s[21], v[register])
    k.s_cmp_eq_u32(s[21], wanted)
    k.s_cbranch_scc0("poll")


def wave_number(k: Builder) -> None:
    """Into s20, and 1 into SCC for the first wave."""
    k.v_readfirstlane_b32(s[20], v[0])
    k.s_lshr_b32(s[20], s[20], 6)
    k.s_cmp_eq_u32(s[20], 0)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("waves", "workgroups"), [(1, 1), (8, 2)])
def test_a_flag_that_nobody_sets(order: str, waves: int, workgroups: int) -> None:
    def emit(k: Builder) -> None:
        poll(k)
        k.s_endpgm()

    message = endless(go(emit, waves, workgroups, order), "s_cbranch_scc0")
    assert ("16 waves go" if waves == 8 else "the wave goes") in message and "nobody changes what `global_load_dword" in message


@pytest.mark.parametrize("order", ORDERS)
def test_waves_that_spin_at_places_of_their_own(order: str) -> None:
    """Each waits for another flag, some asleep: each loop is named."""
    def emit(k: Builder) -> None:
        wave_number(k)
        k.s_cbranch_scc0("others")
        k.label("scalar")
        k.s_load_dword(s[22], s[8:9], 4, glc=True)
        k.s_waitcnt(lgkmcnt=0)
        k.s_cmp_eq_u32(s[22], 0)
        k.s_cbranch_scc1("scalar")
        k.label("others")
        k.s_sleep(2)
        k.ds_read_b32(v[1], v[3])
        k.s_waitcnt(lgkmcnt=0)
        k.v_readfirstlane_b32(s[21], v[1])
        k.s_cmp_eq_u32(s[21], 0)
        k.s_cbranch_scc1("others")
        k.s_endpgm()

    launched = go(emit, 4, 2, order, lds=64)
    sentences = sorted(finding.message for finding in launched.findings)
    assert launched.checks == ["runaway"] * 2
    assert "6 waves" in sentences[1] and "`ds_read_b32" in sentences[1] and "2 waves" in sentences[0] and "`s_load_dword" in sentences[0]


@pytest.mark.parametrize("steps", [2, 3, 100])
def test_a_cycle_of_several_steps(steps: int) -> None:
    def emit(k: Builder) -> None:
        k.s_mov_b32(s[20], 0)
        k.label("spin")
        k.s_add_u32(s[20], s[20], 1)
        k.s_cmp_eq_u32(s[20], steps)
        k.s_cselect_b32(s[20], 0, s[20])
        k.s_cmp_lt_u32(s[20], 1000)
        k.s_cbranch_scc1("spin")
        k.s_endpgm()

    endless(go(emit), "s_cbranch_scc1")


def test_cycles_of_unequal_length_in_one_group() -> None:
    """Wave w toggles through 2 + w states, all in step: together they repeat only after 5,040 rounds, each of them soon."""
    def emit(k: Builder) -> None:
        wave_number(k)
        k.s_add_u32(s[21], s[20], 2)
        k.s_mov_b32(s[22], 0)
        k.label("spin")
        k.s_add_u32(s[22], s[22], 1)
        k.s_cmp_eq_u32(s[22], s[21])
        k.s_cselect_b32(s[22], 0, s[22])
        k.s_branch("spin")

    assert "8 waves go" in endless(go(emit, 8), "s_branch")


def test_a_cycle_in_one_lane_of_a_vector_register() -> None:
    def emit(k: Builder) -> None:
        k.v_mov_b32(v[4], 1)
        k.s_mov_b64(exec_, 1 << 31)
        k.label("spin")
        k.v_xor_b32(v[4], 3, v[4])
        k.v_cmp_ne_u32(vcc, 0, v[4])
        k.s_cbranch_vccnz("spin")
        k.s_endpgm()

    endless(go(emit), "s_cbranch_vccnz")


def test_a_lock_that_its_holder_never_gives_back() -> None:
    """A compare-and-swap that fails writes nothing."""
    def emit(k: Builder) -> None:
        k.v_mov_b32(v[2], 0)
        k.v_mov_b32(v[4], 1)
        k.v_mov_b32(v[5], 0)
        k.s_mov_b64(exec_, 1)
        k.label("again")
        k.global_atomic_cmpswap(v[6], v[2], v[4:5], s[8:9], sc0=True)
        k.s_waitcnt(vmcnt=0)
        k.v_cmp_ne_u32(vcc, 0, v[6])
        k.s_cbranch_vccnz("again")
        k.s_endpgm()

    assert "`global_atomic_cmpswap" in endless(go(emit, 3), "s_cbranch_vccnz")


def test_those_at_a_barrier_are_told_of_too() -> None:
    def emit(k: Builder) -> None:
        wave_number(k)
        k.s_cbranch_scc1("meet")
        poll(k)
        k.label("meet")
        k.s_barrier()
        k.s_endpgm()

    launched = go(emit, 3)
    assert sorted(launched.checks) == ["barrier-deadlock", "runaway"] and "2 waves" in endless(launched, "s_cbranch_scc0")


@pytest.mark.parametrize("order", ["lockstep", "random:1"])
def test_a_loop_with_a_barrier_that_never_ends(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One wave polls, and all of the workgroup go round with it."""
    monkeypatch.setattr("asmgen.emulator.scheduling.scheduler._LONG", 200)

    def emit(k: Builder) -> None:
        wave_number(k)
        k.v_mov_b32(v[2], 0)
        k.label("again")
        k.s_barrier()
        k.s_cmp_eq_u32(s[20], 0)
        k.s_cbranch_scc0("met")
        k.global_load_dword(v[1], v[2], s[8:9], sc0=True)
        k.s_waitcnt(vmcnt=0)
        k.ds_write_b32(v[2], v[1])
        k.s_waitcnt(lgkmcnt=0)
        k.label("met")
        k.s_barrier()
        k.ds_read_b32(v[3], v[2])
        k.s_waitcnt(lgkmcnt=0)
        k.v_readfirstlane_b32(s[21], v[3])
        k.s_cmp_eq_u32(s[21], 0)
        k.s_cbranch_scc1("again")
        k.s_endpgm()

    assert "8 waves" in endless(go(emit, 4, 2, order, lds=64), "s_cbranch_scc1")


@pytest.mark.parametrize("order", ORDERS)
def test_waves_that_repeat_after_different_times_meet_at_a_barrier(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them is known to repeat sooner, and still has to run for the other to pass the barrier."""
    monkeypatch.setattr("asmgen.emulator.scheduling.scheduler._LONG", 200)

    def emit(k: Builder) -> None:
        wave_number(k)
        k.s_mov_b32(s[22], 0)
        k.s_cbranch_scc0("second")
        k.label("first")
        k.s_barrier()
        k.s_branch("first")
        k.label("second")
        k.s_barrier()
        k.s_xor_b32(s[22], s[22], 5)
        k.s_branch("second")

    launched = go(emit, 2, order=order)
    assert launched.checks == ["runaway"] * 2 and launched.result.wave_instructions < BUDGET / 8


def toggle(k: Builder, store: Callable[[int], object], load: Callable[[int], object]) -> None:
    """A loop whose state is only in memory: 0 and 1 in turn, and round while it is below 2."""
    k.v_mov_b32(v[2], 0)
    k.label("spin")
    load(1)
    k.s_waitcnt(vmcnt=0, lgkmcnt=0)
    k.v_xor_b32(v[1], 1, v[1])
    store(1)
    k.s_waitcnt(vmcnt=0, lgkmcnt=0)
    k.v_mov_b32(v[1], 0)
    k.s_branch("spin")


@pytest.mark.parametrize("where", ["device", "lds", "private"])
@pytest.mark.parametrize("waves", [1, 2])
def test_a_cycle_through_memory_is_certain_for_a_lone_wave_only(where: str, waves: int) -> None:
    """Of two waves that change memory, one could see the other's value at another time."""
    def emit(k: Builder) -> None:
        if where == "device":
            toggle(k, lambda r: k.global_store_dword(v[2], v[r], s[8:9]), lambda r: k.global_load_dword(v[r], v[2], s[8:9]))
        elif where == "lds":
            toggle(k, lambda r: k.ds_write_b32(v[2], v[r]), lambda r: k.ds_read_b32(v[r], v[2]))
        else:
            toggle(k, lambda r: k.scratch_store_dword(v[2], v[r], OFF), lambda r: k.scratch_load_dword(v[r], v[2], OFF))

    launched = go(emit, waves, lds=64, scratch=16, budget=300_000 if waves > 1 else BUDGET)
    if waves == 1:
        endless(launched, "s_branch")
    else:
        assert launched.checks[-1] == "runaway" and "cost as much as 300000," in launched.findings[-1].message


def test_a_counter_in_memory_is_left_to_the_budget() -> None:
    def emit(k: Builder) -> None:
        k.v_mov_b32(v[2], 0)
        k.v_mov_b32(v[1], 1)
        k.s_mov_b64(exec_, 1)
        k.label("spin")
        k.global_atomic_add(v[2], v[1], s[8:9])
        k.s_branch("spin")

    launched = go(emit, budget=200_000)
    assert launched.checks == ["runaway"] and "cost as much as 200000," in launched.findings[0].message


def test_workgroups_that_never_start_for_want_of_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "RESIDENT_WAVES", 2)
    monkeypatch.setattr(running, "TOTAL_BYTES", 4 * 64 * 64 * 4)

    def emit(k: Builder) -> None:
        poll(k)
        k.s_endpgm()

    launched = go(emit, 1, 7)
    assert "3 workgroups cannot start" in endless(launched, "s_cbranch_scc0")


# What must not be called a runaway.

@pytest.mark.parametrize("order", ["lockstep", "serial"])
def test_a_long_countdown_in_one_lane(order: str) -> None:
    def emit(k: Builder) -> None:
        k.v_mov_b32(v[4], 1000)
        k.s_mov_b64(exec_, 1 << 31)
        k.label("loop")
        k.v_subrev_u32(v[4], 1, v[4])
        k.v_cmp_ne_u32(vcc, 0, v[4])
        k.s_cbranch_vccnz("loop")
        k.s_endpgm()

    assert go(emit, 3, order=order).checks == []


@pytest.mark.parametrize("where", ["lds", "private"])
def test_a_long_countdown_in_memory(where: str) -> None:
    """What a compiler makes of a loop without optimisation: the registers repeat, and the counter lies in memory."""
    def emit(k: Builder) -> None:
        k.v_mov_b32(v[2], 0)
        k.v_mov_b32(v[1], 1000)
        (k.ds_write_b32(v[2], v[1]) if where == "lds" else k.scratch_store_dword(v[2], v[1], OFF))
        k.s_waitcnt(vmcnt=0, lgkmcnt=0)
        k.label("loop")
        (k.ds_read_b32(v[1], v[2]) if where == "lds" else k.scratch_load_dword(v[1], v[2], OFF))
        k.s_waitcnt(vmcnt=0, lgkmcnt=0)
        k.v_subrev_u32(v[1], 1, v[1])
        k.v_cmp_ne_u32(vcc, 0, v[1])
        (k.ds_write_b32(v[2], v[1]) if where == "lds" else k.scratch_store_dword(v[2], v[1], OFF))
        k.s_waitcnt(vmcnt=0, lgkmcnt=0)
        k.v_mov_b32(v[1], 0)
        k.s_cbranch_vccnz("loop")
        k.s_endpgm()

    assert go(emit, lds=64, scratch=16).checks == []


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("waves", [2, 8])
def test_a_flag_that_another_wave_sets_late(order: str, waves: int) -> None:
    def emit(k: Builder) -> None:
        wave_number(k)
        k.s_cbranch_scc1("work")
        poll(k, 1)
        k.s_endpgm()
        k.label("work")
        k.s_mov_b32(s[22], 500)
        k.label("loop")
        k.s_sub_u32(s[22], s[22], 1)
        k.s_cmp_lg_u32(s[22], 0)
        k.s_cbranch_scc1("loop")
        k.v_mov_b32(v[1], 1)
        k.v_mov_b32(v[2], 0)
        k.global_store_dword(v[2], v[1], s[8:9])
        k.s_endpgm()

    assert go(emit, waves, order=order).checks == []


@pytest.mark.parametrize("order", ORDERS)
def test_a_ticket_lock(order: str) -> None:
    """Every wave takes a ticket, waits for its number, and adds to a counter that is not atomic."""
    def emit(k: Builder) -> None:
        k.v_mov_b32(v[1], 1)
        k.v_mov_b32(v[2], 0)
        k.s_mov_b64(exec_, 1)
        k.global_atomic_add(v[3], v[2], v[1], s[8:9], offset=8, sc0=True)
        k.s_waitcnt(vmcnt=0)
        k.label("wait")
        k.global_load_dword(v[4], v[2], s[8:9], sc0=True)
        k.s_waitcnt(vmcnt=0)
        k.v_cmp_ne_u32(vcc, v[4], v[3])
        k.s_cbranch_vccnz("wait")
        k.s_mov_b32(s[22], 60)
        k.label("hold")
        k.s_sub_u32(s[22], s[22], 1)
        k.s_cmp_lg_u32(s[22], 0)
        k.s_cbranch_scc1("hold")
        k.global_load_dword(v[5], v[2], s[8:9], offset=4)
        k.s_waitcnt(vmcnt=0)
        k.v_add_u32(v[5], 1, v[5])
        k.global_store_dword(v[2], v[5], s[8:9], offset=4)
        k.s_waitcnt(vmcnt=0)
        k.global_atomic_add(v[2], v[1], s[8:9])
        k.s_endpgm()

    launched = go(emit, 4, 2, order)
    assert launched.checks == [] and launched.buffers[0][:3].tolist() == [8, 8, 8]


@pytest.mark.parametrize("clock", ["s_memtime", "s_memrealtime"])
def test_a_loop_that_polls_the_clock(clock: str) -> None:
    """The registers are the same at every branch, and yet the time-out comes."""
    ticks = 30_000 if clock == "s_memtime" else 1_500

    def emit(k: Builder) -> None:
        read = getattr(k, clock)
        read(s[22:23])
        k.s_waitcnt(lgkmcnt=0)
        k.s_add_u32(s[24], s[22], ticks)
        k.label("wait")
        read(s[22:23])
        k.s_waitcnt(lgkmcnt=0)
        k.s_cmp_lt_u32(s[22], s[24])
        k.s_mov_b64(s[22:23], 0)
        k.s_cbranch_scc1("wait")
        k.s_endpgm()

    launched = go(emit, 2)
    assert launched.checks == [] and launched.result.wave_instructions > 7_000


def test_sleep_passes_time() -> None:
    """64 cycles a unit: 1,000 sleeps of 100 units are more than six million cycles."""
    def emit(k: Builder) -> None:
        k.s_memtime(s[22:23])
        k.s_waitcnt(lgkmcnt=0)
        k.s_mov_b32(s[20], 1000)
        k.label("sleep")
        k.s_sleep(100)
        k.s_sub_u32(s[20], s[20], 1)
        k.s_cmp_lg_u32(s[20], 0)
        k.s_cbranch_scc1("sleep")
        k.s_memtime(s[24:25])
        k.s_waitcnt(lgkmcnt=0)
        k.s_sub_u32(s[24], s[24], s[22])
        k.v_mov_b32(v[1], s[24])
        store_by_item(k, 1, 64)
        k.s_endpgm()

    launched = go(emit)
    assert launched.checks == [] and 6_400_000 <= launched.buffers[0][0] < 6_500_000


def test_polling_with_a_barrier_for_workgroups_that_start_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first workgroup's loop passes a barrier each time; that it gets nowhere makes room for the one that sets the flag."""
    monkeypatch.setattr("asmgen.emulator.scheduling.scheduler._LONG", 200)
    monkeypatch.setattr(running, "RESIDENT_WAVES", 2)

    def emit(k: Builder) -> None:
        k.v_mov_b32(v[2], 0)
        k.s_cmp_eq_u32(s[2], 2)
        k.s_cbranch_scc1("set")
        k.label("again")
        k.s_barrier()
        k.global_load_dword(v[1], v[2], s[8:9], sc0=True)
        k.s_waitcnt(vmcnt=0)
        k.v_readfirstlane_b32(s[21], v[1])
        k.s_barrier()
        k.s_cmp_eq_u32(s[21], 0)
        k.s_cbranch_scc1("again")
        k.s_endpgm()
        k.label("set")
        k.v_mov_b32(v[1], 1)
        k.global_store_dword(v[2], v[1], s[8:9])
        k.s_endpgm()

    assert go(emit, 2, 3).checks == []


@pytest.mark.parametrize("order", ORDERS)
def test_who_waits_at_a_barrier_now_may_get_on_later(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two waves that poll repeat their states; the one that they meet at a barrier in each round counts down and then sets the flag."""
    monkeypatch.setattr("asmgen.emulator.scheduling.scheduler._LONG", 200)

    def emit(k: Builder) -> None:
        wave_number(k)
        k.v_mov_b32(v[2], 0)
        k.s_mov_b32(s[22], 500)
        k.s_cbranch_scc0("poll")
        k.label("work")
        k.s_barrier()
        k.s_sub_u32(s[22], s[22], 1)
        k.s_cmp_lg_u32(s[22], 0)
        k.s_cbranch_scc1("work")
        k.v_mov_b32(v[1], 1)
        k.global_store_dword(v[2], v[1], s[8:9])
        k.s_endpgm()
        k.label("poll")
        k.s_barrier()
        k.global_load_dword(v[1], v[2], s[8:9], sc0=True)
        k.s_waitcnt(vmcnt=0)
        k.v_readfirstlane_b32(s[21], v[1])
        k.s_cmp_eq_u32(s[21], 0)
        k.s_cbranch_scc1("poll")
        k.s_endpgm()

    assert go(emit, 3, order=order).checks == []
