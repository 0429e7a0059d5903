"""Launches of one kernel after another on one device: code that stays bound must give what a fresh device gives."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.emulator.machine.devicememory import Memory
from asmgen.emulator.scheduling.run import Options
from asmgen.isa.registers import s, v, vcc
from asmgen.program.program import Program
from tests.emulator_launch import ORDERS, Launched, launch, load_pointers

WAVES, WORDS = 3, 8
BLOCK = (WAVES * 64, 1, 1)


def program() -> Program:
    """Each work-item stores what its registers and its LDS word held at the start, the clock, its place in a queue of atomics, and what a
    neighbour left in LDS after a loop; an offset beyond the buffer is told as a finding."""
    k = Builder("kernel", "gfx950")
    load_pointers(k, 2, 2)
    k.v_mov_b32(v[20], v[5])
    k.s_mov_b32(s[40], s[50])
    k.v_and_b32(v[1], 0x3FF, v[0])
    k.v_lshlrev_b32(v[2], 2, v[1])
    k.ds_read_b32(v[21], v[2])
    k.s_memtime(s[42:43])
    k.v_mov_b32(v[6], 1)
    k.v_mov_b32(v[7], 0)
    k.global_atomic_add(v[22], v[7], v[6], s[10:11], sc0=True)
    k.s_waitcnt(vmcnt=0, lgkmcnt=0)
    k.v_mov_b32(v[5], 77)
    k.s_movk_i32(s[50], 55)
    k.s_mov_b32(s[44], s[12])
    k.label("loop")
    k.v_add_u32(v[5], s[44], v[5])
    k.ds_write_b32(v[2], v[5])
    k.s_waitcnt(lgkmcnt=0)
    k.s_barrier()
    k.v_xor_b32(v[3], 4, v[2])
    k.ds_read_b32(v[23], v[3])
    k.s_waitcnt(lgkmcnt=0)
    k.s_barrier()
    k.s_sub_u32(s[44], s[44], 1)
    k.s_cmp_lg_u32(s[44], 0)
    k.s_cbranch_scc1("loop")
    k.s_mul_i32(s[45], s[2], WAVES * 64 * 4 * WORDS)
    k.v_mad_u32_u24(v[4], v[1], 4 * WORDS, s[45])
    k.v_add_u32(v[4], s[13], v[4])
    for number, value in enumerate((20, 21, 22, 23)):
        k.global_store_dword(v[4], v[value], s[8:9], offset=4 * number)
    for number, scalar in enumerate((40, 42)):
        k.v_mov_b32(v[24], s[scalar])
        k.global_store_dword(v[4], v[24], s[8:9], offset=16 + 4 * number)
        k.s_waitcnt(vmcnt=0)
    k.v_cmp_gt_u32(vcc, 100, v[1])
    k.s_endpgm()
    return k.program()


CODE = program()


def go(memory: Memory | None, order: str, rounds: int, groups: int = 5, offset: int = 0, checks: bool = False) -> Launched:
    buffers = [np.full((groups, WAVES * 64, WORDS), 0xABCD, np.uint32), np.array([rounds], np.uint32)]
    return launch("gfx950", CODE, (groups, 1, 1), BLOCK, buffers, [rounds, offset], lds=1024, memory=memory,
                  options=Options(checks=checks, order=order))


def last_of(memory: Memory) -> object:
    """What the last launch left, or the last one before it that left anything."""
    return memory.residents[-1] if memory.residents else None


def same(one: Launched, other: Launched) -> bool:
    return all((a == b).all() for a, b in zip(one.buffers, other.buffers, strict=True)) \
        and one.result.counts == other.result.counts and one.result.wave_instructions == other.result.wave_instructions \
        and one.checks == other.checks


@pytest.mark.parametrize("order", ORDERS)
def test_launches_on_one_device_are_those_of_fresh_ones(order: str) -> None:
    memory = Memory()
    kept = []
    for rounds, groups, offset in ((3, 5, 0), (2, 5, 0), (4, 2, 0), (4, 7, 0), (3, 2, 0), (3, 2, 1 << 30), (2, 2, 0), (5, 7, 0)):
        again, fresh = (go(where, order, rounds, groups, offset) for where in (memory, None))
        assert same(again, fresh), (rounds, groups, offset)
        assert bool(fresh.checks) is bool(offset)
        kept.append(last_of(memory))
    first, second, fewer, more, again, found, new, last = kept
    assert first is second is fewer is again is not None and more is not first  # the smallest that has room
    assert found is new is last is more and first not in memory.residents


def test_launches_with_findings_leave_nothing_bound() -> None:
    """With checks this program has findings: what it reads at the start is undefined."""
    memory = Memory()
    for checks in (False, True, False, False):
        again, fresh = (go(where, "lockstep", 3, checks=checks) for where in (memory, None))
        assert same(again, fresh)
        assert len(memory.residents) == 1  # of the first one


def checked_program() -> Program:
    """Each work-item stores the sum of two words of LDS. `stride` is how far workgroups store apart, `turn` how far from its own a
    work-item reads the second word, without a barrier, and the words are undefined where `skip` is not 0."""
    k = Builder("kernel", "gfx950")
    load_pointers(k, 1, 3)
    stride, turn, skip = s[10], s[11], s[12]
    k.v_and_b32(v[1], 0x3FF, v[0])
    k.v_lshlrev_b32(v[2], 2, v[1])
    k.s_cmp_lg_u32(skip, 0)
    k.s_cbranch_scc1("skipped")
    k.v_add_u32(v[5], 7, v[1])
    k.label("skipped")
    k.ds_write_b32(v[2], v[5])
    k.v_add_u32(v[3], turn, v[2])
    k.s_waitcnt(lgkmcnt=0)
    k.ds_read_b32(v[6], v[2])
    k.ds_read_b32(v[7], v[3])
    k.s_mul_i32(s[20], s[2], stride)
    k.v_add_u32(v[4], s[20], v[2])
    k.s_waitcnt(lgkmcnt=0)
    k.v_add3_u32(v[8], v[6], v[7], s[2])
    k.global_store_dword(v[4], v[8], s[8:9])
    k.s_endpgm()
    return k.program()


CHECKED = checked_program()
SPAN = WAVES * 64 * 4


@pytest.mark.parametrize("order", ORDERS)
def test_checked_launches_on_one_device_are_those_of_fresh_ones(order: str) -> None:
    def run(memory: Memory | None, groups: int, stride: int, turn: int, skip: int) -> Launched:
        buffers = [np.zeros((4 + groups, WAVES * 64), np.uint32)]
        return launch("gfx950", CHECKED, (groups, 1, 1), BLOCK, buffers, [stride, turn, skip], lds=2048, memory=memory,
                      options=Options(order=order))

    good, race, lds, undefined = (3, SPAN, 0, 0), (3, 4, 0, 0), (3, SPAN, 256, 0), (3, SPAN, 0, 1)
    for fault in race, lds, undefined:
        memory = Memory()
        kept = []
        for values in good, good, fault, good, fault, fault, good, good:
            before = [*memory.residents]
            again, fresh = (run(where, *values) for where in (memory, None))
            assert same(again, fresh), (fault, values)
            assert bool(fresh.checks) is (values is fault)
            assert values is good or all(one in before for one in memory.residents)
            kept.append(last_of(memory))
        assert kept[0] is kept[1] is not kept[3] is not None and kept[2] is None
    alone, memory = (1, 4, 0, 0), Memory()
    assert not any(run(memory, *values).checks for values in (alone, alone))
    assert run(memory, *race).checks == run(None, *race).checks
