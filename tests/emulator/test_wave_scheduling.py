"""Control: branches, calls, barriers, the three orders, semaphores, budgets, start-up registers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.emulator.scheduling import run as running
from asmgen.emulator.scheduling.run import Options
from asmgen.isa.registers import Reg, exec_, s, v
from tests.emulator_launch import ORDERS, launch, load_pointers, store_by_item

ARCHS = ("gfx942", "gfx950")


def zeros(count: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    return np.zeros(count, np.uint32)


@pytest.mark.parametrize("order", ORDERS)
def test_every_wave_runs_its_own_number_of_rounds(order: str) -> None:
    """Lane 0's work-item number and the workgroup decide the trip count; all meet again and store."""

    def emit(k: Builder) -> None:
        load_pointers(k, 1)
        k.v_readfirstlane_b32(s[20], v[0])
        k.s_lshr_b32(s[20], s[20], 5)
        k.s_add_u32(s[20], s[20], s[2])  # 2 * wave + workgroup
        k.v_mov_b32(v[1], 100)
        k.label("loop")
        k.s_cmp_eq_u32(s[20], 0)
        k.s_cbranch_scc1("done")
        k.v_add_u32(v[1], 3, v[1])
        k.s_sub_u32(s[20], s[20], 1)
        k.s_branch("loop")
        k.label("done")
        store_by_item(k, 1, 256)
        k.s_endpgm()

    launched = launch("gfx950", emit, (3, 1, 1), (256, 1, 1), [zeros(768)], order=order)
    expected = [100 + 3 * (2 * (item // 64) + group) for group in range(3) for item in range(256)]
    assert launched.buffers[0].tolist() == expected and launched.checks == []


@pytest.mark.parametrize("barrier", [False, True])
def test_waves_with_different_trip_counts_reconverge(barrier: bool) -> None:
    """After the loop all waves of a lock-step launch stand together again, so the tail is bound and counted once for all.

    With a barrier in the program too: who can still come to the tail before the barrier is waited for.
    """

    def emit(k: Builder) -> None:
        k.v_readfirstlane_b32(s[20], v[0])
        k.label("loop")
        k.s_sub_u32(s[20], s[20], 64)
        k.s_cbranch_scc0("loop")
        k.label("tail")
        k.s_nop(0)
        if barrier:
            k.s_barrier()
        k.s_endpgm()

    sizes: list[int] = []

    def watch(step: object) -> object:
        return (lambda group: sizes.append(group.size)) if step.instruction.name == "s_nop" else None  # type: ignore[attr-defined]

    launch("gfx950", emit, (2, 1, 1), (512, 1, 1), options=Options(watchers=(watch,)))  # type: ignore[arg-type]
    assert sizes == [16]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name,taken", [("s_cbranch_scc0", [1, 0, 1, 0]), ("s_cbranch_scc1", [0, 1, 0, 1]),
                                        ("s_cbranch_vccz", [1, 1, 0, 0]),
                                        ("s_cbranch_vccnz", [0, 0, 1, 1]), ("s_branch", [1, 1, 1, 1]), ("s_cbranch_cdbgsys", [0, 0, 0, 0])])
def test_conditions(order: str, name: str, taken: list[int]) -> None:
    """Wave w has SCC = w & 1 and VCC = w & 2, in the upper half only."""

    def emit(k: Builder) -> None:
        load_pointers(k, 1)
        k.v_readfirstlane_b32(s[20], v[0])
        k.s_lshr_b32(s[20], s[20], 6)
        k.s_mov_b32(Reg("s", 106), 0)
        k.s_and_b32(Reg("s", 107), s[20], 2)
        k.s_bitcmp1_b32(s[20], 0)
        k.v_mov_b32(v[1], 1)
        k.emit(name, "there")
        k.v_mov_b32(v[1], 0)
        k.label("there")
        store_by_item(k, 1, 256)
        k.s_endpgm()

    launched = launch("gfx942", emit, (1, 1, 1), (256, 1, 1), [zeros(256)], order=order)
    assert launched.buffers[0][::64].tolist() == taken


@pytest.mark.parametrize("name,expected", [("s_cbranch_execz", [1, 0]), ("s_cbranch_execnz", [0, 1])])
def test_conditions_on_exec(name: str, expected: list[int]) -> None:
    def emit(k: Builder) -> None:
        load_pointers(k, 1)
        k.v_readfirstlane_b32(s[20], v[0])
        k.s_mov_b32(Reg("s", 126), 0)
        k.s_mov_b32(Reg("s", 127), s[20])  # only the upper half differs
        k.v_mov_b32(v[1], 1)
        k.s_mov_b32(s[21], 1)
        k.emit(name, "there")
        k.s_mov_b32(s[21], 0)
        k.label("there")
        k.s_mov_b64(exec_, -1)
        k.v_mov_b32(v[1], s[21])
        store_by_item(k, 1, 128)
        k.s_endpgm()

    assert launch("gfx950", emit, (1, 1, 1), (128, 1, 1), [zeros(128)]).buffers[0][::64].tolist() == expected


@pytest.mark.parametrize("order", ORDERS)
def test_calls_returns_and_function_pointers(order: str) -> None:
    """s_call, s_swappc to an address that differs from wave to wave, s_setpc back; addresses are synthetic here."""

    def emit(k: Builder) -> None:
        load_pointers(k, 1)
        k.v_mov_b32(v[1], 0)
        k.v_readfirstlane_b32(s[20], v[0])
        k.s_lshr_b32(s[20], s[20], 6)
        k.s_call_b64(s[30:31], "five")
        k.s_getpc_b64(s[40:41])  # this is the first of three entries of a table of code, 8 bytes each
        k.s_branch("chosen")
        k.s_branch("five")
        k.s_branch("seven")
        k.label("chosen")
        k.s_and_b32(s[22], s[20], 1)
        k.s_lshl_b32(s[22], s[22], 3)
        k.s_add_u32(s[40], s[40], 8)
        k.s_addc_u32(s[41], s[41], 0)
        k.s_add_u32(s[40], s[40], s[22])
        k.s_addc_u32(s[41], s[41], 0)
        k.s_swappc_b64(s[30:31], s[40:41])
        store_by_item(k, 1, 256)
        k.s_endpgm()
        k.label("five")
        k.v_add_u32(v[1], 5, v[1])
        k.s_setpc_b64(s[30:31])
        k.label("seven")
        k.v_add_u32(v[1], 7, v[1])
        k.s_setpc_b64(s[30:31])

    launched = launch("gfx950", emit, (1, 1, 1), (256, 1, 1), [zeros(256)], order=order)
    assert launched.buffers[0][::64].tolist() == [10, 12, 10, 12] and launched.checks == []


def test_a_jump_to_nowhere_is_a_finding() -> None:
    def emit(k: Builder) -> None:
        k.s_mov_b64(s[30:31], 0x1234)
        k.s_setpc_b64(s[30:31])

    launched = launch("gfx950", emit)
    assert launched.checks == ["jump-outside-code"]
    consumer = launched.findings[0].consumer
    assert consumer is not None and consumer.name == "s_setpc_b64"


def test_fork_and_join_run_both_sides() -> None:
    """The fork stack: lanes whose bit is set take one side, the others the other, then all go on together."""

    def emit(k: Builder) -> None:
        load_pointers(k, 1)
        k.v_mov_b32(v[1], 1)
        k.s_mov_b32(s[60], 0)  # the stack's depth before the fork; the stack itself is s0 to s3
        k.s_mov_b64(s[50:51], s[8:9])
        k.s_mov_b64(s[62:63], 0xFF00)
        k.s_cbranch_i_fork(s[62:63], "taken")
        k.v_mov_b32(v[1], 2)
        k.s_branch("join")
        k.label("taken")
        k.v_mov_b32(v[1], 3)
        k.label("join")
        k.s_cbranch_join(s[60])
        k.s_mov_b64(exec_, -1)  # the join leaves the mask of the side that ran last
        k.s_mov_b32(s[2], 0)
        store_by_item(k, 1, 64, base=50)
        k.s_endpgm()

    launched = launch("gfx942", emit, buffers=[zeros(64)])
    assert launched.buffers[0].tolist() == [3 if 8 <= lane < 16 else 2 for lane in range(64)]


def lds_exchange(k: Builder) -> None:
    """Wave w of four writes LDS, and reads after a barrier what wave (w + 1) % 4 wrote."""
    load_pointers(k, 1)
    k.v_lshlrev_b32(v[1], 2, v[0])
    k.v_add_u32(v[2], 1000, v[0])
    k.ds_write_b32(v[1], v[2])
    k.s_waitcnt(lgkmcnt=0)
    k.s_barrier()
    k.v_add_u32(v[1], 256, v[1])
    k.v_and_b32(v[1], 1023, v[1])
    k.ds_read_b32(v[3], v[1])
    k.s_waitcnt(lgkmcnt=0)
    store_by_item(k, 3, 256)
    k.s_endpgm()


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("order", ORDERS)
def test_barrier_and_lds(arch: str, order: str) -> None:
    launched = launch(arch, lds_exchange, (5, 1, 1), (256, 1, 1), [zeros(1280)], order=order, lds=1024)
    assert launched.buffers[0].tolist() == [1000 + (item + 64) % 256 for item in range(256)] * 5 and launched.checks == []


def test_dynamic_lds() -> None:
    launched = launch("gfx950", lds_exchange, (2, 1, 1), (256, 1, 1), [zeros(512)], dynamic_lds=1024)
    assert launched.buffers[0].tolist() == [1000 + (item + 64) % 256 for item in range(256)] * 2 and launched.checks == []


@pytest.mark.parametrize("order", ORDERS)
def test_half_of_the_waves_one_barrier_ahead(order: str) -> None:
    """Ping-pong: waves 2 and 3 meet one barrier before the loop and one fewer after it, and so run half a round late.

    In round r a wave writes r into the r-th of four cells. The late waves read what their partners wrote in this round, the others
    what theirs wrote in the round before; both would race, or read something else, if a barrier were counted wrongly.
    """

    def emit(k: Builder) -> None:
        load_pointers(k, 1)
        k.v_readfirstlane_b32(s[20], v[0])
        k.s_lshr_b32(s[20], s[20], 6)
        k.s_cmp_lt_u32(s[20], 2)
        k.s_cselect_b32(s[22], 1, 0)  # how many rounds ago the cell was written that is read
        k.v_lshlrev_b32(v[1], 2, v[0])
        k.v_xor_b32(v[2], 512, v[1])  # the partner is the wave two further
        k.v_mov_b32(v[5], 0)
        k.ds_write_b32(v[1], v[5])
        k.s_waitcnt(lgkmcnt=0)
        k.s_barrier()
        k.s_mov_b32(s[21], 1)
        k.s_cbranch_scc1("loop")
        k.s_barrier()
        k.label("loop")
        k.s_and_b32(s[23], s[21], 3)
        k.v_lshl_add_u32(v[6], s[23], 10, v[1])
        k.v_mov_b32(v[3], s[21])
        k.ds_write_b32(v[6], v[3])
        k.s_waitcnt(lgkmcnt=0)
        k.s_barrier()
        k.s_sub_u32(s[23], s[21], s[22])
        k.s_and_b32(s[23], s[23], 3)
        k.v_lshl_add_u32(v[6], s[23], 10, v[2])
        k.ds_read_b32(v[4], v[6])
        k.s_waitcnt(lgkmcnt=0)
        k.s_barrier()
        k.v_lshl_or_b32(v[5], v[5], 4, v[4])
        k.s_add_u32(s[21], s[21], 1)
        k.s_cmp_le_u32(s[21], 6)
        k.s_cbranch_scc1("loop")
        k.s_cmp_lg_u32(s[22], 0)
        k.s_cbranch_scc0("end")
        k.s_barrier()
        k.label("end")
        store_by_item(k, 5, 256)
        k.s_endpgm()

    launched = launch("gfx950", emit, (2, 1, 1), (256, 1, 1), [zeros(512)], order=order, lds=4096)
    assert launched.buffers[0][::64].tolist() == [0x012345, 0x012345, 0x123456, 0x123456] * 2 and launched.checks == []


def two_copies(k: Builder, early: int, late: int) -> None:
    """After a barrier wave 0 clears its neighbour's LDS in one copy of the code, `early` instructions in, and wave 1 reads it in another.

    Wave 1 reads `late` instructions after the barrier.
    """
    load_pointers(k, 1)
    k.v_readfirstlane_b32(s[20], v[0])
    k.v_lshlrev_b32(v[2], 2, v[0])
    k.v_add_u32(v[3], 7, v[0])
    k.ds_write_b32(v[2], v[3])
    k.s_waitcnt(lgkmcnt=0)
    k.s_barrier()
    k.v_mov_b32(v[1], 0)
    k.s_cmp_eq_u32(s[20], 0)
    k.s_cbranch_scc0("second")
    for _ in range(early):
        k.v_mov_b32(v[1], 0)
    k.ds_write_b32(v[2], v[1], offset=256)
    k.s_branch("end")
    k.label("second")
    for _ in range(late):
        k.v_mov_b32(v[1], 0)
    k.ds_read_b32(v[1], v[2])
    k.label("end")
    k.s_waitcnt(lgkmcnt=0)
    k.s_barrier()
    store_by_item(k, 1, 128)
    k.s_endpgm()


@pytest.mark.parametrize(("early", "late", "cleared"), [(64, 16, False), (16, 64, True)])
def test_copies_of_the_code_run_side_by_side(early: int, late: int, cleared: bool) -> None:
    """Neither copy gets far ahead of the other in lock-step, as on hardware; the race is found all the same."""
    launched = launch("gfx942", lambda k: two_copies(k, early, late), block=(128, 1, 1), buffers=[zeros(128)], lds=512)
    assert launched.buffers[0][:64].tolist() == [0] * 64
    assert launched.buffers[0][64:].tolist() == ([0] * 64 if cleared else list(range(71, 135)))
    assert launched.checks == ["lds-race"]


@pytest.mark.parametrize("order", ORDERS)
def test_barrier_waits_for_living_waves_only(order: str) -> None:
    """Waves 1 and 3 end early: the others still meet, also in divergent code at different barriers."""

    def emit(k: Builder) -> None:
        load_pointers(k, 1)
        k.v_readfirstlane_b32(s[20], v[0])
        k.s_lshr_b32(s[20], s[20], 6)
        k.v_mov_b32(v[1], 9)
        k.s_bitcmp1_b32(s[20], 0)
        k.s_cbranch_scc1("end")
        k.s_cmp_eq_u32(s[20], 0)
        k.s_cbranch_scc1("first")
        k.s_barrier()
        k.v_mov_b32(v[1], 2)
        k.s_branch("store")
        k.label("first")
        k.s_mov_b64(exec_, 0)
        k.s_barrier()  # under an empty EXEC it counts all the same
        k.s_mov_b64(exec_, -1)
        k.v_mov_b32(v[1], 1)
        k.label("store")
        store_by_item(k, 1, 256)
        k.label("end")
        k.s_endpgm()

    launched = launch("gfx950", emit, (2, 1, 1), (256, 1, 1), [zeros(512)], order=order)
    assert launched.buffers[0][::64].tolist() == [1, 0, 2, 0] * 2 and launched.checks == []


def wait_for_flag(k: Builder, sleeping: bool) -> None:
    """Workgroup g of n waits until the flag is n - 1 - g, then adds 1: the last one goes first."""
    load_pointers(k, 2, 1)  # s[8:9] flag, s[10:11] results, s12 n
    k.s_sub_u32(s[20], s[12], 1)
    k.s_sub_u32(s[20], s[20], s[2])
    k.v_mov_b32(v[2], 0)
    k.label("spin")
    if sleeping:
        k.s_sleep(1)
    k.global_load_dword(v[1], v[2], s[8:9])
    k.s_waitcnt(vmcnt=0)
    k.v_readfirstlane_b32(s[21], v[1])
    k.s_cmp_eq_u32(s[21], s[20])
    k.s_cbranch_scc0("spin")
    store_by_item(k, 1, 64, base=10)
    k.s_waitcnt(vmcnt=0)
    k.s_add_u32(s[21], s[21], 1)
    k.v_mov_b32(v[1], s[21])
    k.global_store_dword(v[2], v[1], s[8:9])
    k.s_endpgm()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("sleeping", [False, True])
def test_semaphores_between_workgroups(order: str, sleeping: bool) -> None:
    launched = launch("gfx950", lambda k: wait_for_flag(k, sleeping), (6, 1, 1), (64, 1, 1), [zeros(1), zeros(384)], [6], order=order)
    assert launched.buffers[1][::64].tolist() == [5, 4, 3, 2, 1, 0] and launched.checks == []


@pytest.mark.parametrize("order", ORDERS)
def test_semaphores_beyond_the_resident_workgroups(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first workgroups wait for the last, which do not fit at the same time: they are started when the first make no progress."""
    monkeypatch.setattr(running, "RESIDENT_WAVES", 2)
    launched = launch("gfx950", lambda k: wait_for_flag(k, True), (5, 1, 1), (64, 1, 1), [zeros(1), zeros(320)], [5], order=order,
                      checks=False)
    assert launched.buffers[1][::64].tolist() == [4, 3, 2, 1, 0]


@pytest.mark.parametrize("checks", [False, True])
def test_a_grid_of_many_rounds(checks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round's waves start with empty registers and LDS, and with the ids of their own workgroups."""
    monkeypatch.setattr(running, "RESIDENT_WAVES", 12)

    def emit(k: Builder) -> None:
        load_pointers(k, 1)
        k.v_lshlrev_b32(v[1], 2, v[0])
        k.ds_read_b32(v[2], v[1])
        k.s_waitcnt(lgkmcnt=0)
        k.v_add_u32(v[3], v[3], v[2])
        k.s_lshl_b32(s[22], s[3], 8)
        k.s_lshl_b32(s[23], s[4], 16)
        k.s_or_b32(s[22], s[22], s[23])
        k.s_or_b32(s[22], s[22], s[2])
        k.v_add_u32(v[3], s[22], v[3])
        k.ds_write_b32(v[1], v[3])
        k.s_waitcnt(lgkmcnt=0)
        k.s_mul_i32(s[24], s[4], 21)
        k.s_mul_i32(s[25], s[3], 7)
        k.s_add_u32(s[24], s[24], s[25])
        k.s_add_u32(s[2], s[24], s[2])
        store_by_item(k, 3, 192)
        k.s_endpgm()

    count = 7 * 3 * 2
    launched = launch("gfx950", emit, (7, 3, 2), (192, 1, 1), [zeros(192 * count)], lds=768, checks=checks)
    expected = [x | y << 8 | z << 16 for z in range(2) for y in range(3) for x in range(7)]
    assert launched.buffers[0].reshape(count, 192).tolist() == [[number] * 192 for number in expected]
    assert launched.result.wave_instructions == sum(launched.result.counts) == count * 3 * len(launched.result.counts)


def test_work_item_ids_and_lanes_beyond_the_block() -> None:
    """A block of 5 x 3 x 7 = 105 work-items: two waves, 41 lanes of the second active."""

    def emit(k: Builder) -> None:
        load_pointers(k, 1)
        k.v_bfe_u32(v[1], v[0], 10, 10)
        k.v_bfe_u32(v[2], v[0], 20, 10)
        k.v_and_b32(v[3], 0x3FF, v[0])
        k.v_mul_u32_u24(v[2], 3, v[2])
        k.v_add_u32(v[1], v[1], v[2])
        k.v_mul_u32_u24(v[1], 5, v[1])
        k.v_add_u32(v[1], v[1], v[3])
        k.v_lshlrev_b32(v[1], 2, v[1])
        k.global_store_dword(v[1], v[0], s[8:9])
        k.s_endpgm()

    launched = launch("gfx950", emit, (1, 1, 1), (5, 3, 7), [np.full(128, 77, np.uint32)])
    expected = [x | y << 10 | z << 20 for z, y, x in itertools.product(range(7), range(3), range(5))]
    assert launched.buffers[0].tolist() == expected + [77] * 23 and launched.checks == []
