"""How launches go wrong: runaways, deadlocks, ends that are none, traps, registers that were not allocated; each a finding."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.emulator.machine.errors import EmulatorError
from asmgen.emulator.scheduling.budget import ACCESS
from asmgen.emulator.scheduling.run import Options
from asmgen.isa.registers import s, v
from tests.emulator_launch import ORDERS, launch, load_pointers, store_by_item


def zeros(count: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    return np.zeros(count, np.uint32)


@pytest.mark.parametrize("order", ORDERS)
def test_runaway_names_the_loop(order: str) -> None:
    def emit(k: Builder) -> None:
        k.s_nop(0)
        k.label("outer")
        k.s_nop(1)
        k.label("inner")
        k.s_nop(2)
        k.s_branch("inner")
        k.s_cbranch_scc0("outer")
        k.s_endpgm()

    launched = launch("gfx950", emit, options=Options(order=order, instruction_budget=500))
    assert launched.checks == ["runaway"]
    finding = launched.findings[0]
    assert finding.consumer is not None and finding.consumer.name == "s_branch"
    assert "`s_nop 2`" in finding.message and "500" in finding.message
    assert 500 < launched.result.wave_instructions < 2500


def test_runaway_tells_who_waits_at_a_barrier() -> None:
    """Wave 0 waits at the barrier for a wave that spins on what wave 0 would do after it."""

    def emit(k: Builder) -> None:
        k.v_readfirstlane_b32(s[20], v[0])
        k.s_cmp_eq_u32(s[20], 0)
        k.s_cbranch_scc1("meet")
        k.label("spin")
        k.s_nop(0)
        k.s_branch("spin")
        k.label("meet")
        k.s_barrier()
        k.s_endpgm()

    launched = launch("gfx950", emit, (1, 1, 1), (128, 1, 1), options=Options(instruction_budget=5000))
    assert sorted(launched.checks) == ["barrier-deadlock", "runaway"]


def test_a_loop_inside_the_budget_is_no_finding() -> None:
    def emit(k: Builder) -> None:
        k.s_mov_b32(s[20], 100)
        k.label("loop")
        k.s_sub_u32(s[20], s[20], 1)
        k.s_cmp_lg_u32(s[20], 0)
        k.s_cbranch_scc1("loop")
        k.s_endpgm()

    assert launch("gfx950", emit, options=Options(instruction_budget=302)).checks == []
    assert launch("gfx950", emit, options=Options(instruction_budget=250)).checks == ["runaway"]


@pytest.mark.parametrize("jump", [False, True])
def test_execution_past_the_end(jump: bool) -> None:
    def emit(k: Builder) -> None:
        if jump:
            k.s_branch("end")
            k.s_endpgm()
        else:
            k.v_mov_b32(v[1], 0)
        k.label("end")

    launched = launch("gfx950", emit)
    assert launched.checks == ["past-the-end"]


def test_a_halted_wave_is_a_finding_and_a_deadlock_for_others() -> None:
    def emit(k: Builder) -> None:
        k.v_readfirstlane_b32(s[20], v[0])
        k.s_cmp_eq_u32(s[20], 0)
        k.s_cbranch_scc1("meet")
        k.s_sethalt(1)
        k.label("meet")
        k.s_barrier()
        k.s_endpgm()

    launched = launch("gfx950", emit, (1, 1, 1), (192, 1, 1))
    assert sorted(launched.checks) == ["barrier-deadlock", "halt"]
    assert "1 of 3" in next(finding.message for finding in launched.findings if finding.check == "barrier-deadlock")


def test_traps() -> None:
    def emit(k: Builder) -> None:
        load_pointers(k, 1)
        k.s_trap(3)  # a breakpoint without a debugger
        k.s_sethalt(0)
        k.v_mov_b32(v[1], 4)
        store_by_item(k, 1, 64)
        k.s_trap(2)
        k.v_mov_b32(v[1], 5)
        store_by_item(k, 1, 64)
        k.s_endpgm()

    launched = launch("gfx950", emit, buffers=[zeros(64)])
    assert launched.buffers[0].tolist() == [4] * 64 and launched.checks == ["trap"]


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(EmulatorError, match="random:SEED"):
        launch("gfx950", lambda k: k.s_endpgm(), order="random")


def test_a_register_beyond_the_allocation_is_a_finding() -> None:
    def emit(k: Builder) -> None:
        k.v_mov_b32(v[31], 1)  # the last of the arch VGPRs' half
        k.v_mov_b32(v[63], 1)  # an AGPR by another name: legal
        k.v_mov_b32(v[64], 1)
        k.s_endpgm()

    launched = launch("gfx950", emit)
    assert launched.checks == ["register-beyond-allocation"]
    consumer = launched.findings[0].consumer
    assert consumer is not None and consumer.text == "v_mov_b32 v64, 1"


@pytest.mark.parametrize("undefined_too", [False, True])
def test_undefined_registers_beside_one_beyond_the_allocation(undefined_too: bool) -> None:
    def emit(k: Builder) -> None:
        k.v_add_u32(v[2], v[64], v[40] if undefined_too else 1)
        k.v_add_u32(v[70], v[40], v[41])
        k.v_pk_mul_f32(v[70:71], v[40:41], v[64:65])
        k.v_mov_b32(v[1], v[40])
        k.s_endpgm()

    launched = launch("gfx950", emit)
    found = [(finding.check, finding.consumer.text) for finding in launched.findings if finding.consumer is not None]
    assert [text for check, text in found if check == "register-beyond-allocation"] == [
        f"v_add_u32 v2, v64, {'v40' if undefined_too else '1'}", "v_add_u32 v70, v40, v41", "v_pk_mul_f32 v[70:71], v[40:41], v[64:65]"]


def test_a_wave_that_spins_for_ever_is_found_long_before_the_budget_is_spent() -> None:
    def emit(k: Builder) -> None:
        k.label("spin")
        k.s_cmp_eq_u32(s[2], s[2])
        k.s_cbranch_scc1("spin")
        k.s_endpgm()

    launched = launch("gfx950", emit)
    assert launched.checks == ["runaway"] and launched.result.wave_instructions < 20_000
    assert "the wave goes round the loop from `s_cmp_eq_u32" in launched.findings[0].message


def test_a_long_loop_is_no_runaway() -> None:
    """One wave goes round without a barrier for long, and its state differs in one SGPR alone."""
    rounds = 60_000

    def emit(k: Builder) -> None:
        k.s_mov_b32(s[20], rounds)
        k.label("loop")
        k.s_sub_u32(s[20], s[20], 1)
        k.s_cmp_lg_u32(s[20], 0)
        k.s_cbranch_scc1("loop")
        k.s_endpgm()

    launched = launch("gfx950", emit, checks=False)
    assert launched.checks == [] and launched.result.wave_instructions == 3 * rounds + 2


@pytest.mark.parametrize("order", ORDERS)
def test_the_budget_counts_straight_line_code(order: str) -> None:
    """No backward branch anywhere: the waves of a huge grid spend the budget all the same."""
    def emit(k: Builder) -> None:
        for _ in range(9):
            k.v_mov_b32(v[1], 1)
        k.s_endpgm()

    launched = launch("gfx950", emit, (1 << 20, 1 << 20, 1), (64, 1, 1), options=Options(order=order, instruction_budget=30_000))
    assert launched.checks == ["runaway"] and "after 30000 wave instructions workgroup " in launched.findings[0].message
    assert launched.result.wave_instructions < 45_000
    enough = launch("gfx950", emit, (100, 1, 1), (64, 1, 1), options=Options(order=order, instruction_budget=1000))
    assert enough.checks == [] and enough.result.wave_instructions == 1000
    assert launch("gfx950", emit, (100, 1, 1), (64, 1, 1), options=Options(order=order, instruction_budget=999)).checks == ["runaway"]


@pytest.mark.parametrize("memory", [False, True])
def test_the_budget_counts_what_accesses_cost(memory: bool) -> None:
    """An access of one wave takes as long as dozens of waves' arithmetic: a loop of loads ends that much earlier."""
    def emit(k: Builder) -> None:
        k.s_mov_b32(s[20], 0)
        k.label("loop")
        k.s_add_u32(s[20], s[20], 1)  # so that no round is like another
        if memory:
            k.ds_read_b32(v[1], v[0])
            k.s_waitcnt(lgkmcnt=0)
        k.s_branch("loop")

    launched = launch("gfx950", emit, options=Options(instruction_budget=10_000, checks=("runaway",)))
    assert launched.checks == ["runaway"]
    message = launched.findings[0].message
    if memory:
        rounds = 10_000 / (ACCESS + 3)
        assert 4 * rounds - 4 < launched.result.wave_instructions < 4 * rounds + 8
        assert "whose accesses to memory and LDS cost as much as 10000" in message
    else:
        assert launched.result.wave_instructions >= 10_000 and "after 10000 wave instructions waves" in message
