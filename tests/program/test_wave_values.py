"""Values known before a run against the emulator's, which knows them all: whatever is called known is right."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.checks.barrierraces.ldslocations import known_locations
from asmgen.isa.operands import OFF
from asmgen.isa.registers import NAMED, SCC_BIT, SGPR_BIT, exec_, m0, s, v, vcc
from asmgen.program.controlflow import control_flow
from asmgen.program.program import Program
from asmgen.program.wavesteps import _CARRYING, _SCALAR, _SHORT, _VECTOR, step
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
        kind = chance.randrange(10)
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
            name = chance.choice(sorted(_VECTOR | _SHORT))
            function = (_VECTOR | _SHORT)[name]
            count = function.__code__.co_argcount if hasattr(function, "__code__") else 2
            sources = [chance.choice((vector[1], scalar[1], small)), *vector[2:]][:count]
            k.emit(name, vector[0], *((vcc,) if name in _CARRYING else ()), *sources)
        elif kind == 6:
            k.emit(f"v_cmp_{chance.choice(('eq', 'gt', 'le', 'ne'))}_{chance.choice(('u32', 'i32'))}", vcc, small, vector[0])
            k.v_cndmask_b32(vector[2], vector[1], vector[3], vcc)
            k.emit(chance.choice(("s_and_saveexec_b64", "s_or_saveexec_b64")), s[10:11], vcc)
            k.v_mov_b32(vector[1], scalar[0])
            k.emit(chance.choice(("s_or_b64", "s_xor_b64")), exec_, exec_, s[10:11])
            k.s_mov_b64(exec_, -1)
        elif kind == 7:
            k.emit(f"s_cmp_{chance.choice(('eq', 'lg', 'gt', 'lt'))}_{chance.choice(('u32', 'i32'))}", scalar[0], scalar[1])
            k.s_cselect_b32(scalar[2], scalar[0], small)
        elif kind == 8:
            write_exec(k, chance)
            k.v_mov_b32(vector[1], scalar[0])
            k.s_mov_b64(exec_, -1)
        else:
            k.s_addk_i32(scalar[0], chance.randrange(-0x8000, 0x8000))
            k.v_readfirstlane_b32(scalar[1], vector[0])
            k.v_readlane_b32(scalar[2], vector[2], chance.choice((5, 63, scalar[0])))
            k.s_cmov_b32(scalar[0], scalar[2])
            k.v_mbcnt_lo_u32_b32(vector[1], chance.choice((-1, scalar[0], NAMED["vcc_lo"])), 0)
            k.v_mbcnt_hi_u32_b32(vector[2], chance.choice((-1, scalar[2], NAMED["exec_hi"])), vector[1])
            k.s_mov_b32(m0, scalar[2])
    for register in (4, 5, 8):
        k.v_mov_b32(v[register], register)
        k.s_movk_i32(s[register], register)
    write_exec(k, chance)
    k.v_mov_b32(v[5], 9)


def write_exec(k: Builder, chance: random.Random) -> None:
    """EXEC from each kind of source that can write it, whole and by halves."""
    pair, half = chance.choice((s[4:5], s[6:7], s[10:11])), chance.choice((NAMED["exec_lo"], NAMED["exec_hi"]))
    constant = chance.choice((0, 1, -1, -16, 64, 0xFFFFFFF0, 0x80000000, 0x1234, 1.0))
    source = chance.choice((pair, constant, exec_, vcc))
    logic = chance.choice(("and", "or", "xor", "andn2", "orn2", "nand", "nor", "xnor"))
    saving = chance.choice(("and", "or", "xor", "andn2", "orn2", "nand", "nor", "xnor", "andn1", "orn1"))
    number = s[5]
    if chance.random() < 0.7:
        k.s_mov_b64(pair, chance.choice((5, -3, 0x9999, 0)))
        k.s_movk_i32(number, chance.randrange(70))
    chance.choice((
        lambda: k.s_mov_b64(exec_, source), lambda: k.s_not_b64(exec_, source), lambda: k.emit(f"s_{logic}_b64", exec_, pair, source),
        lambda: k.emit(f"s_{saving}_saveexec_b64", pair, source),
        lambda: k.emit(f"s_{chance.choice(('andn1', 'andn2'))}_wrexec_b64", pair, vcc),
        lambda: k.s_mov_b32(half, chance.choice((number, constant))), lambda: k.emit(f"s_{logic}_b32", half, half, s[4]),
        lambda: k.s_bfm_b64(exec_, number, chance.choice((0, 3, 63))), lambda: k.s_bfm_b32(half, number, 7),
        lambda: k.s_lshl_b64(exec_, chance.choice((1, pair)), number), lambda: k.s_lshr_b64(exec_, exec_, 17),
        lambda: k.s_cselect_b64(exec_, pair, -1), lambda: k.s_cselect_b32(half, s[4], -1), lambda: k.s_cmov_b64(exec_, pair),
        lambda: k.s_cmov_b32(half, 3), lambda: k.s_wqm_b64(exec_, pair), lambda: k.s_mov_b64(pair, source),
        lambda: k.s_brev_b64(exec_, pair), lambda: k.s_bfe_u64(exec_, pair, 0x100004), lambda: k.s_bitset1_b64(exec_, 5),
        lambda: k.emit("v_cmpx_gt_u32", chance.choice((exec_, vcc, pair)), 40, v[0]), lambda: k.v_cmpx_lt_i32(vcc, 3, v[0]),
        lambda: k.s_mov_b64(exec_, -1)))()


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
        else:
            assert np.array_equal(found.machine.scalar[bit - SGPR_BIT], value), f"s{bit - SGPR_BIT}"
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
    """Half of the waves take each side; after the join the register holds what each brings."""
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
    program = of("s_mov_b64 vcc, -1\ns_mov_b64 exec, vcc\ns_mov_b32 exec_hi, s3\ns_endpgm")
    assert known(program, 3, SGPR_BIT + 126) == [0xFFFFFFFF] * 4 and known(program, 3, SGPR_BIT + 127) is None


@pytest.mark.parametrize(("code", "value"), [
    ("v_add_u32_sdwa v2, v1, v3 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_2 src1_sel:DWORD", 0x34 + 0x10002),
    ("v_mul_lo_u16_sdwa v2, v3, v1 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:WORD_1", 0x1234),
    ("v_lshrrev_b16 v2, 4, v1", 0x567), ("v_sub_u16 v2, 0, v3", 0xFFFE),
    ("v_add_u32_sdwa v2, v1, v3 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:BYTE_2 src1_sel:DWORD", None),
    ("v_add_u32_sdwa v2, v1, v3 dst_sel:BYTE_0 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_2 src1_sel:DWORD", None),
    ("v_add_u32_sdwa v2, sext(v1), v3 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_2 src1_sel:DWORD", None)])
def test_parts_of_registers_are_taken_where_the_result_is_whole(code: str, value: int | None) -> None:
    found = known(of(f"v_mov_b32 v1, 0x12345678\nv_mov_b32 v3, 0x10002\n{code}\ns_endpgm"), 3, 2, (64, 1, 1))
    assert found == (None if value is None else [[value] * 64])


@pytest.mark.parametrize(("move", "value"), [
    ("s_cmovk_i32 s5, 0x8000", 0xFFFF8000), ("s_cmovk_i32 s5, -2", 0xFFFFFFFE), ("s_cmovk_i32 s5, 0x7fff", 0x7FFF),
    ("s_cmov_b32 s5, 0x8000", 0x8000)])
def test_a_short_constant_that_moves_if_scc_is_set_has_its_sign(move: str, value: int) -> None:
    """Written as 0x8000 it is negative, as the emulator has it."""
    for compared, expected in ((1, value), (0, 3)):
        program = of(f"s_mov_b32 s5, 3\ns_cmp_eq_u32 s5, {2 + compared}\n{move}\ns_endpgm")
        assert known(program, 3, SGPR_BIT + 5) == [expected] * 4


def test_the_first_of_the_lanes_that_run_is_known() -> None:
    """As clang elects the lane that does an atomic for all: what the other lanes of v1 held does not matter."""
    program = of("v_cmp_lt_u32 vcc, 40, v0\ns_and_saveexec_b64 s[4:5], vcc\nv_mbcnt_lo_u32_b32 v1, exec_lo, 0\n"
                 "v_mbcnt_hi_u32_b32 v1, exec_hi, v1\nv_cmp_eq_u32 vcc, 0, v1\ns_and_saveexec_b64 s[6:7], vcc\ns_endpgm")
    low, high = known(program, 6, SGPR_BIT + 126, (128, 1, 1)), known(program, 6, SGPR_BIT + 127, (128, 1, 1))
    assert (low, high) == ([0, 1], [1 << 9, 0])


def test_partial_exec_keeps_the_other_lanes() -> None:
    program = of("v_mov_b32 v1, 5\nv_cmp_gt_u32 vcc, 3, v0\ns_and_saveexec_b64 s[4:5], vcc\nv_mov_b32 v1, 6\ns_endpgm")
    ((_, state),) = WaveValues(program, control_flow(program), (64, 1, 1), EVERYTHING).at([4])
    assert state.known[1][0].tolist() == [6] * 3 + [5] * 61


def test_an_offset_address_is_no_operand() -> None:
    k = Builder("k", "gfx950")
    k.global_load_dword(v[1], v[2:3], OFF)
    k.s_endpgm()
    assert known(k.program(), 1, 1) is None


@pytest.mark.parametrize(("code", "mask"), [
    ("v_cmpx_gt_u32 s[4:5], 3, v0\ns_and_saveexec_b64 s[4:5], s[8:9]\ns_or_b64 exec, exec, s[4:5]", 7),
    ("v_cmpx_gt_u32 s[4:5], 3, v0\ns_and_saveexec_b64 s[4:5], s[8:9]\nv_cmpx_lt_f32 s[6:7], v1, v2\ns_or_b64 exec, s[4:5], exec", 7),
    ("s_and_saveexec_b64 s[4:5], s[8:9]\ns_or_b64 exec, exec, 7", None),
    ("v_cmpx_gt_u32 s[4:5], 3, v0\ns_or_saveexec_b64 s[4:5], s[8:9]\ns_or_b64 exec, exec, s[4:5]", None),
    ("s_mov_b64 exec, 1", 1), ("s_mov_b64 exec, -2", (1 << 64) - 2), ("s_mov_b64 exec, 0xfffffffe", 0xFFFFFFFE),
    ("s_mov_b64 s[4:5], 6\ns_mov_b64 exec, s[4:5]", 6), ("s_mov_b32 s4, 3\ns_mov_b32 s5, 8\ns_mov_b64 exec, s[4:5]", 8 << 32 | 3),
    ("s_mov_b64 exec, 1.0", 0x3FF0000000000000), ("s_mov_b32 exec_lo, 0", 0xFFFFFFFF << 32), ("s_bfm_b64 exec, 3, 62", 3 << 62),
    ("s_lshl_b64 exec, 1, 63", 1 << 63), ("s_mov_b64 vcc, 12\ns_andn2_b64 exec, exec, vcc", (1 << 64) - 13),
    ("s_mov_b64 vcc, 12\ns_orn2_saveexec_b64 s[4:5], vcc", 12), ("s_mov_b64 vcc, 12\ns_andn2_wrexec_b64 s[4:5], vcc", 0),
    ("s_cmp_eq_u32 s3, s3\ns_cselect_b64 exec, 7, 9", None), ("v_cmpx_gt_u32 s[4:5], 3, v0", 7), ("s_load_dwordx2 vcc, s[0:1], 0\n"
     "s_mov_b64 exec, vcc", None), ("s_mov_b64 exec, s[8:9]", None), ("s_mov_b64 exec, s[8:9]\ns_and_b64 exec, exec, 0", 0),
    ("s_wqm_b64 exec, exec", None), ("s_cmov_b64 exec, s[8:9]", None), ("s_mov_b64 exec, src_vccz", None)])
def test_exec_is_lanes_whatever_wrote_it(code: str, mask: int | None) -> None:
    """Widths of constants as the CDNA3 ISA has them: inline integers are sign-extended to 64 bits, literals are not."""
    program = of(f"{code}\ns_endpgm")
    last = len(program) - 1
    ((_, state),) = WaveValues(program, control_flow(program), (64, 1, 1), EVERYTHING).at([last])
    lanes = state.known_exec
    assert (None if lanes is None else lanes.tolist()) == (None if mask is None else [[mask >> lane & 1 for lane in range(64)]])


@pytest.mark.parametrize("write", ["s_mov_b64 exec, 1", "s_mov_b64 exec, s[4:5]", "s_mov_b64 s[4:5], 2\ns_mov_b64 exec, s[4:5]",
                                   "s_mov_b32 exec_hi, 0", "s_bfm_b64 exec, 5, 3"])
def test_lds_places_under_such_an_exec(write: str) -> None:
    """Lint read EXEC of a literal or of a pair of SGPRs as one number a wave: an IndexError for 15 % of production objects."""
    program = of(f"v_lshlrev_b32 v1, 2, v0\n{write}\nds_read_b32 v2, v1\ns_endpgm")
    places = known_locations(program, control_flow(program), (64, 1, 1))
    found = places[len(program) - 2].mask
    expected = {"s_mov_b64 exec, 1": 0xF, "s_mov_b64 exec, s[4:5]": (1 << 256) - 1, "s_mov_b64 s[4:5], 2\ns_mov_b64 exec, s[4:5]": 0xF0,
                "s_mov_b32 exec_hi, 0": (1 << 128) - 1, "s_bfm_b64 exec, 5, 3": (1 << 32) - 1 & ~((1 << 12) - 1)}
    assert found == expected[write]


def test_lds_places_by_way_of_agprs() -> None:
    """Compilers keep lane addresses in AGPRs; lanes that EXEC leaves out keep what an AGPR held."""
    program = of("v_lshlrev_b32 v1, 2, v0\nv_accvgpr_write_b32 a3, v1\ns_mov_b64 exec, 1\nv_accvgpr_write_b32 a3, 64\n"
                 "s_mov_b64 exec, -1\nv_accvgpr_mov_b32 a4, a3\nv_accvgpr_read_b32 v2, a4\nds_read_b32 v3, v2\ns_endpgm")
    (found,) = known_locations(program, control_flow(program), (64, 1, 1)).values()
    assert found.mask == (1 << 256) - 1 & ~0xF and found.sure
