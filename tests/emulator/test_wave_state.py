"""State that waves of one workgroup hold differently: rounding modes, VSKIP, relative indices, M0; and how it begins."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.isa.operands import HwReg
from asmgen.isa.registers import Reg, m0, s, v, vcc
from tests.emulator.test_wave_scheduling import zeros
from tests.emulator_launch import ORDERS, launch, load_pointers, store_by_item


@pytest.mark.parametrize("order", ORDERS)
def test_mode_that_differs_between_waves(order: str) -> None:
    """Wave w sets the rounding of f32 to w: 1 + 2^-24 rounds to 1 or to the next float, and -(1 + 2^-24) the other way."""

    def emit(k: Builder) -> None:
        load_pointers(k, 1)
        k.v_readfirstlane_b32(s[20], v[0])
        k.s_lshr_b32(s[20], s[20], 6)
        k.s_setreg_b32(HwReg(1, 0, 2), s[20])
        k.v_mov_b32(v[1], 0x33800000)
        k.v_add_f32(v[1], 1.0, v[1])
        k.s_getreg_b32(s[21], HwReg(1, 0, 2))
        k.v_lshl_add_u32(v[1], v[1], 2, s[21])
        store_by_item(k, 1, 256)
        k.s_endpgm()

    launched = launch("gfx950", emit, (1, 1, 1), (256, 1, 1), [zeros(256)], order=order)
    one, above = 0x3F800000 << 2 & 0xFFFFFFFF, 0x3F800001 << 2 & 0xFFFFFFFF
    assert launched.buffers[0][::64].tolist() == [one, above + 1, one + 2, one + 3]


@pytest.mark.parametrize("order", ORDERS)
def test_vskip_that_differs_between_waves(order: str) -> None:
    def emit(k: Builder) -> None:
        load_pointers(k, 1)
        k.v_readfirstlane_b32(s[20], v[0])
        k.s_lshr_b32(s[20], s[20], 6)
        k.s_mov_b32(s[21], 0b0110)
        k.v_mov_b32(v[1], 1)
        k.s_setvskip(s[21], s[20])
        k.v_mov_b32(v[1], 2)
        k.s_mov_b32(s[22], 5)
        k.s_setvskip(0, 0)
        k.v_add_u32(v[1], s[22], v[1])
        store_by_item(k, 1, 256)
        k.s_endpgm()

    launched = launch("gfx942", emit, (1, 1, 1), (256, 1, 1), [zeros(256)], order=order)
    assert launched.buffers[0][::64].tolist() == [7, 6, 6, 7] and launched.checks == []
    assert launched.result.counts[6:9] == (4, 2, 4)  # a skipped instruction is not issued


@pytest.mark.parametrize("order", ORDERS)
def test_relative_index_that_differs_between_waves(order: str) -> None:
    """A loop over the index, another first one in each wave: v[8 + index] sums up."""

    def emit(k: Builder) -> None:
        load_pointers(k, 1)
        k.v_readfirstlane_b32(s[20], v[0])
        k.s_lshr_b32(s[20], s[20], 6)
        for number in range(6):
            k.v_mov_b32(v[8 + number], 10 ** number)
        k.v_mov_b32(v[1], 0)
        k.s_mov_b32(s[21], 3)
        k.label("loop")
        k.s_set_gpr_idx_on(s[20], 1)
        k.v_mov_b32(v[2], v[8])
        k.s_set_gpr_idx_off()
        k.v_add_u32(v[1], v[1], v[2])
        k.s_add_u32(s[20], s[20], 1)
        k.s_sub_u32(s[21], s[21], 1)
        k.s_cmp_lg_u32(s[21], 0)
        k.s_cbranch_scc1("loop")
        store_by_item(k, 1, 256)
        k.s_endpgm()

    launched = launch("gfx942", emit, (1, 1, 1), (256, 1, 1), [zeros(256)], order=order)
    assert launched.buffers[0][::64].tolist() == [111, 1110, 11100, 111000] and launched.checks == []


def test_checks_see_a_scalar_load_that_is_not_waited_for() -> None:
    def emit(k: Builder) -> None:
        k.s_load_dwordx2(s[8:9], s[0:1], 0)
        k.s_mov_b64(s[10:11], s[8:9])
        k.s_endpgm()

    assert launch("gfx950", emit, buffers=[zeros(1)]).checks == ["read-before-wait"]
    assert launch("gfx950", emit, buffers=[zeros(1)], checks=False).checks == []


def test_vcc_and_m0_start_empty() -> None:
    def emit(k: Builder) -> None:
        load_pointers(k, 1)
        k.s_or_b32(s[20], m0, Reg("s", 106))
        k.s_or_b32(s[20], s[20], Reg("s", 107))
        k.v_mov_b32(v[1], s[20])
        k.v_addc_co_u32(v[1], vcc, v[1], v[1], vcc)
        store_by_item(k, 1, 64)
        k.s_endpgm()

    assert not launch("gfx950", emit, buffers=[np.ones(64, np.uint32)]).buffers[0].any()
