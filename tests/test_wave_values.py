"""Values known before a run against the emulator's, which knows them all: whatever is called known is right."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from asmgen.author.builder import Builder
from asmgen.isa.operands import OFF
from asmgen.isa.registers import SCC_BIT, SGPR_BIT, exec_, m0, s, v, vcc
from asmgen.program.controlflow import control_flow
from asmgen.program.program import Program
from asmgen.program.wavesteps import _SCALAR, _VECTOR, step
from asmgen.program.wavevalues import WaveValues
from asmgen.reader.assembly import read_text
from tests.emulator_harness import run

EVERYTHING = (1 << 800) - 1
WAVES = 2
CONSTANTS = (0, 1, 3, 31, 64, -1, 0x1234, 0x80000000, 0xFFFF0004)


def random_code(k: Builder, seed: int) -> None:
    chance = random.Random(seed)
    k.v_readfirstlane_b32(s[3], v[0])
    for _ in range(60):
        kind = chance.randrange(9)
        scalar, vector = [s[chance.randrange(3, 8)] for _ in range(3)], [v[chance.randrange(6)] for _ in range(4)]
        constant = chance.choice(CONSTANTS)
        small = constant if -16 <= constant <= 64 else 7
        if kind < 3:
            name = chance.choice(sorted(_SCALAR))
            count = _SCALAR[name].__code__.co_argcount if hasattr(_SCALAR[name], "__code__") else 2
            if name == "s_movk_i32":
                k.emit(name, scalar[0], chance.randrange(-0x8000, 0x8000))
            elif count == 1:
                k.emit(name, scalar[0], chance.choice((scalar[1], constant)))
            else:
                k.emit(name, scalar[0], scalar[1], chance.choice((scalar[2], constant)))
        elif kind < 6:
            name = chance.choice(sorted(_VECTOR))
            count = _VECTOR[name].__code__.co_argcount if hasattr(_VECTOR[name], "__code__") else 2
            sources = [chance.choice((vector[1], scalar[1], small)), *vector[2:]][:count]
            k.emit(name, vector[0], *((vcc,) if name == "v_add_co_u32" else ()), *sources)
        elif kind == 6:
            k.emit(f"v_cmp_{chance.choice(('eq', 'gt', 'le', 'ne'))}_{chance.choice(('u32', 'i32'))}", vcc, small, vector[0])
            k.emit(chance.choice(("s_and_saveexec_b64", "s_or_saveexec_b64")), s[10:11], vcc)
            k.v_mov_b32(vector[1], scalar[0])
            k.emit(chance.choice(("s_or_b64", "s_xor_b64")), exec_, exec_, s[10:11])
            k.s_mov_b64(exec_, -1)
        elif kind == 7:
            k.emit(f"s_cmp_{chance.choice(('eq', 'lg', 'gt', 'lt'))}_{chance.choice(('u32', 'i32'))}", scalar[0], scalar[1])
            k.s_cselect_b32(scalar[2], scalar[0], small)
        else:
            k.s_addk_i32(scalar[0], chance.randrange(-0x8000, 0x8000))
            k.v_readfirstlane_b32(scalar[1], vector[0])
            k.v_mbcnt_lo_u32_b32(vector[1], -1, 0)
            k.v_mbcnt_hi_u32_b32(vector[2], -1, vector[1])
            k.s_mov_b32(m0, scalar[2])


@pytest.mark.parametrize("seed", range(40))
def test_what_is_known_is_right(seed: int) -> None:
    k = Builder("k", "gfx950")
    random_code(k, seed)
    program = k.program()
    number = np.arange(WAVES * 64, dtype=np.uint32).reshape(WAVES, 64)
    start = {index: np.full((WAVES, 64), 77, np.uint32) for index in range(1, 6)} | {0: number}
    found = run("gfx950", lambda other: random_code(other, seed), vgprs=start, sgprs=dict.fromkeys(range(3, 12), 99), waves=WAVES)
    values = WaveValues(program, control_flow(program), (WAVES * 64, 1, 1), EVERYTHING)
    ((_, state),) = values.at([len(program) - 1])
    step(state, program.instructions[-1])
    checked = 0
    for bit, value in state.known.items():
        if bit < 256:
            assert np.array_equal(found.machine.vector[bit], value), f"v{bit}"
        elif bit == SCC_BIT:
            assert np.array_equal(found.machine.scc.astype(int), value), "scc"
        elif value.ndim == 1:
            assert np.array_equal(found.machine.scalar[bit - SGPR_BIT], value), f"s{bit - SGPR_BIT}"
        else:
            words = [sum(int(on) << lane for lane, on in enumerate(row)) for row in value]
            assert [int(found.machine.scalar[bit - SGPR_BIT, wave]) | int(found.machine.scalar[bit - SGPR_BIT + 1, wave]) << 32
                    for wave in range(WAVES)] == words, f"mask at s{bit - SGPR_BIT}"
        checked += 1
    assert checked >= 3


def of(code: str) -> Program:
    (program,) = read_text(f'.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\nk:\n.type k,@function\n{code}\n.size k, .-k\n', None, "k")
    return program


def known(program: Program, position: int, bit: int, block: tuple[int, int, int] | None = (256, 1, 1)) -> Any:
    ((_, state),) = WaveValues(program, control_flow(program), block, EVERYTHING).at([position])
    value = state.known.get(bit)
    return None if value is None else value[state.waves].tolist()


WAVE = "v_lshrrev_b32 v1, 6, v0\nv_readfirstlane_b32 s4, v1\n"


def test_the_wave_and_what_follows_from_it() -> None:
    program = of(WAVE + "s_lshl_b32 s5, s4, 10\ns_add_u32 m0, s5, 0x4000\ns_endpgm")
    assert known(program, 4, SGPR_BIT + 124) == [0x4000, 0x4400, 0x4800, 0x4C00]
    assert known(program, 4, SGPR_BIT + 124, None) is None
    assert known(of("s_movk_i32 m0, 64\ns_endpgm"), 1, SGPR_BIT + 124, None) == [64]


def test_work_items_of_several_dimensions_are_packed() -> None:
    program = of("v_and_b32 v1, 0x3ff, v0\nv_bfe_u32 v2, v0, 10, 10\nv_lshrrev_b32 v3, 20, v0\ns_endpgm")
    x, y, z = (known(program, 3, bit, (8, 4, 3)) for bit in (1, 2, 3))
    assert (x[1][5], y[1][5], z[1][5]) == (5, 0, 2) and (x[0][63], y[0][63], z[0][63]) == (7, 3, 1)


def test_a_buffer_that_a_loop_changes_is_unknown_and_one_that_it_keeps_is_known() -> None:
    program = of("s_mov_b32 s5, 0\ns_mov_b32 s6, 64\nloop:\ns_nop 0\ns_xor_b32 s5, s5, 0x4000\ns_mov_b32 s7, s6\ns_cbranch_scc1 loop\n"
                 "s_endpgm")
    assert known(program, 2, SGPR_BIT + 5) is None and known(program, 5, SGPR_BIT + 5) is None
    assert known(program, 5, SGPR_BIT + 7) == [64] * 4


def test_waves_part_and_meet() -> None:
    """Half of the waves take each side; behind the join the register holds what each brings."""
    code = WAVE + "s_cmp_lt_u32 s4, 2\ns_cbranch_scc1 low\ns_mov_b32 s5, 7\ns_branch both\nlow:\ns_mov_b32 s5, 8\nboth:\ns_endpgm"
    program = of(code)
    assert known(program, 7, SGPR_BIT + 5) == [8, 8, 7, 7]
    flow = control_flow(program)
    takes = WaveValues(program, flow, (256, 1, 1)).takes
    assert [takes[flow.block_of[position]].tolist() for position in (4, 6)] == [[False, False, True, True], [True, True, False, False]]


def test_loads_calls_and_floats_make_unknown() -> None:
    assert known(of("s_mov_b32 s5, 1\ns_load_dword s5, s[0:1], 0\ns_endpgm"), 2, SGPR_BIT + 5) is None
    assert known(of("s_mov_b32 s5, 1\ns_swappc_b64 s[30:31], s[8:9]\ns_endpgm"), 2, SGPR_BIT + 5) is None
    assert known(of("v_mov_b32 v1, 1\nv_add_f32 v1, v1, v1\ns_endpgm"), 2, 1) is None
    assert known(of("s_mov_b64 vcc, -1\ns_mov_b32 vcc_hi, s3\ns_endpgm"), 2, SGPR_BIT + 106) is None


def test_partial_exec_keeps_the_other_lanes() -> None:
    program = of("v_mov_b32 v1, 5\nv_cmp_gt_u32 vcc, 3, v0\ns_and_saveexec_b64 s[4:5], vcc\nv_mov_b32 v1, 6\ns_endpgm")
    ((_, state),) = WaveValues(program, control_flow(program), (64, 1, 1), EVERYTHING).at([4])
    assert state.known[1][0].tolist() == [6] * 3 + [5] * 61


def test_an_offset_address_is_no_operand() -> None:
    k = Builder("k", "gfx950")
    k.global_load_dword(v[1], v[2:3], OFF)
    k.s_endpgm()
    assert known(k.program(), 1, 1) is None
