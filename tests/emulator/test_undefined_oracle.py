"""How undefined bits pass through an instruction, against an exact oracle: the instruction itself, run on all values of some bits.

Every lane (and every wave of scalar registers) is a case of its own: random and special values, of which up to five bits are undefined.
A bit of a result that two assignments give different values must be called undefined; for bitwise functions, shifts by any amount,
permutations, fields and selects no other bit may be.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from asmgen.emulator.arrival.arrival import Counters
from asmgen.emulator.arrival.findings import Findings
from asmgen.emulator.binding.decode import bind
from asmgen.emulator.machine.state import EXEC, VCC, Group, Machine
from asmgen.emulator.memory.ldsops import LdsContext
from asmgen.emulator.memory.vmem import Context, Deliveries
from asmgen.emulator.semantics import meaning, salu
from asmgen.emulator.semantics.integers import _FORMULAS, INTEGER
from asmgen.emulator.semantics.packed import PACKED
from asmgen.emulator.shadow import shadowinteger
from asmgen.emulator.shadow.shadowbind import bind_shadow
from asmgen.emulator.shadow.shadowmemory import Carrier, device_shadow
from asmgen.emulator.shadow.undefineduses import use_of
from asmgen.program.program import Instruction
from asmgen.reader.assembly import read_text
from tests.emulator_harness import new_machine

WAVES, BITS = 8, 5
# v0 to v5, s[20:25], VCC and SCC have undefined bits; v8 and up and s[30:31] are the results; v12 is kept in part.
EXACT = """
v_mov_b32 v8, v0
v_mov_b64 v[8:9], v[0:1]
v_not_b32 v8, v0
v_and_b32 v8, v0, v1
v_and_b32 v8, 0xff00ff, v1
v_or_b32 v8, v0, v1
v_xor_b32 v8, v0, v1
v_xnor_b32 v8, v0, v1
v_bfi_b32 v8, v0, v1, v2
v_and_or_b32 v8, v0, v1, v2
v_or3_b32 v8, v0, v1, v2
v_bitop3_b32 v8, v0, v1, v2 bitop3:0x6a
v_bfrev_b32 v8, v0
v_lshlrev_b32 v8, v0, v1
v_lshrrev_b32 v8, v0, v1
v_ashrrev_i32 v8, v0, v1
v_lshlrev_b16 v8, v0, v1
v_ashrrev_i16 v8, v0, v1
v_lshlrev_b64 v[8:9], v0, v[2:3]
v_lshrrev_b64 v[8:9], v0, v[2:3]
v_ashrrev_i64 v[8:9], v0, v[2:3]
v_lshlrev_b32 v8, 7, v1
v_perm_b32 v8, v0, v1, v2
v_alignbit_b32 v8, v0, v1, v2
v_alignbyte_b32 v8, v0, v1, 3
v_bfe_u32 v8, v0, 5, 9
v_bfe_i32 v8, v0, 5, 9
v_cndmask_b32 v8, v0, v1, vcc
v_cndmask_b32 v8, v0, v1, s[20:21]
v_lshl_or_b32 v8, v0, 8, v3
v_pk_mov_b32 v[8:9], v[0:1], v[2:3] op_sel:[1,0]
v_pk_lshlrev_b16 v8, v0, v1 op_sel:[0,1]
v_mov_b32_sdwa v12, v0 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1
v_mov_b32_sdwa v12, sext(v0) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_2
v_and_b32_sdwa v12, v0, v1 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:BYTE_3
v_mov_b32_dpp v12, v0 row_shr:1 row_mask:0xf bank_mask:0xf
v_mov_b32_dpp v12, v0 quad_perm:[3,2,1,0] row_mask:0x5 bank_mask:0xf
v_swap_b32 v0, v1
v_permlane32_swap_b32 v0, v1
v_readlane_b32 s30, v0, 3
v_readfirstlane_b32 s30, v0
v_writelane_b32 v12, s20, 5
ds_swizzle_b32 v8, v0 offset:0x8055
v_accvgpr_write_b32 a0, v0
s_mov_b64 s[30:31], s[20:21]
s_not_b32 s30, s20
s_and_b64 s[30:31], s[20:21], s[22:23]
s_or_b32 s30, s20, s21
s_xor_b64 s[30:31], s[20:21], s[22:23]
s_andn2_b32 s30, s20, s21
s_orn2_b32 s30, s20, s21
s_nand_b32 s30, s20, s21
s_nor_b64 s[30:31], s[20:21], s[22:23]
s_brev_b32 s30, s20
s_sext_i32_i8 s30, s20
s_lshl_b32 s30, s20, s21
s_lshr_b64 s[30:31], s[20:21], s22
s_ashr_i32 s30, s20, s21
s_cselect_b32 s30, s20, s21
s_pack_lh_b32_b16 s30, s20, s21
s_bfe_u32 s30, s20, 0x90005
s_bfe_i64 s[30:31], s[20:21], 0x90005
s_bitset1_b32 s30, s20
""".strip().split("\n")
SOUND = """
v_add_u32 v8, v0, v1
v_add_u32 v8, v0, v0
v_sub_u32 v8, v0, v1
v_subrev_u32 v8, v0, v1
v_add_u16 v8, v0, v1
v_add_u32 v8, v0, v1 clamp
v_add_co_u32 v8, vcc, v0, v1
v_addc_co_u32 v8, s[30:31], v0, v1, vcc
v_sub_co_u32 v8, vcc, v0, v1
v_subb_co_u32 v8, vcc, v0, v1, vcc
v_subbrev_co_u32 v8, vcc, v0, v1, vcc
v_add3_u32 v8, v0, v1, v2
v_lshl_add_u32 v8, v0, v1, v2
v_lshl_add_u32 v8, v0, 4, v2
v_add_lshl_u32 v8, v0, v1, v2
v_lshl_add_u64 v[8:9], v[0:1], 3, v[2:3]
v_xad_u32 v8, v0, v1, v2
v_mul_lo_u32 v8, v0, v1
v_mul_lo_u32 v8, v0, 24
v_mul_hi_u32 v8, v0, v1
v_mul_hi_i32 v8, v0, v1
v_mul_u32_u24 v8, v0, v1
v_mul_i32_i24 v8, v0, v1
v_mul_hi_i32_i24 v8, v0, v1
v_mad_u32_u24 v8, v0, v1, v2
v_mad_i32_i24 v8, v0, v1, v2
v_mad_u64_u32 v[8:9], vcc, v0, v1, v[2:3]
v_mad_i64_i32 v[8:9], vcc, v0, v1, v[2:3]
v_mad_u16 v12, v0, v1, v2 op_sel:[1,0,1,1]
v_mad_i32_i16 v8, v0, v1, v2 op_sel:[1,0,0,0]
v_bfe_u32 v8, v0, v1, v2
v_bfe_i32 v8, v0, v1, v2
v_min_u32 v8, v0, v1
v_max_i32 v8, v0, v1
v_min3_i32 v8, v0, v1, v2
v_med3_u32 v8, v0, v1, v2
v_med3_i16 v8, v0, v1, v2
v_bcnt_u32_b32 v8, v0, v1
v_mbcnt_lo_u32_b32 v8, v0, v1
v_mbcnt_hi_u32_b32 v8, v0, v1
v_ffbh_u32 v8, v0
v_ffbl_b32 v8, v0
v_ffbh_i32 v8, v0
v_sad_u8 v8, v0, v1, v2
v_msad_u8 v8, v0, v1, v2
v_sad_u16 v8, v0, v1, v2
v_lerp_u8 v8, v0, v1, v2
v_bfm_b32 v8, v0, v1
v_sat_pk_u8_i16 v8, v0
v_cvt_pk_u16_u32 v8, v0, v1
v_cvt_pk_i16_i32 v8, v0, v1
v_ashr_pk_i8_i32 v12, v0, v1, v2
v_cmp_eq_u32 vcc, v0, v1
v_cmp_ne_u64 vcc, v[0:1], v[2:3]
v_cmp_lt_i32 s[30:31], v0, v1
v_cmp_ge_u16 vcc, v0, v1
v_cmp_le_u32 vcc, 16, v1
v_cmp_gt_f32 vcc, v0, v1
v_cmp_class_f32 vcc, v0, v1
v_add_f32 v8, v0, v1
v_add_f32 v8, -v0, |v1|
v_fma_f32 v8, v0, v1, v2
v_fmac_f32 v12, v0, v1
v_add_f64 v[8:9], v[0:1], v[2:3]
v_pk_add_f16 v8, v0, v1 op_sel:[1,0] op_sel_hi:[0,1]
v_pk_fma_f32 v[8:9], v[0:1], v[2:3], v[4:5]
v_pk_add_u16 v8, v0, v1
v_pk_mad_i16 v8, v0, v1, v2 op_sel:[0,1,0]
v_pk_max_i16 v8, v0, v1
v_fma_mixhi_f16 v12, v0, v1, v2 op_sel_hi:[1,0,1]
v_dot2_f32_f16 v8, v0, v1, v2
v_dot4_i32_i8 v8, v0, v1, v2
v_cvt_f16_f32 v8, v0
v_cvt_pkrtz_f16_f32 v8, v0, v1
v_cvt_pk_u8_f32 v8, v0, v1, v2
v_cvt_f32_ubyte1 v8, v0
v_cvt_pk_bf16_f32 v8, v0, v1
v_add_u32_sdwa v12, v0, v1 dst_sel:BYTE_2 dst_unused:UNUSED_SEXT src0_sel:BYTE_1 src1_sel:WORD_1
v_add_u32_dpp v12, v0, v1 row_ror:3 row_mask:0xf bank_mask:0xa bound_ctrl:0
v_readlane_b32 s30, v0, s20
v_mfma_f32_4x4x4_16b_f16 v[8:11], v[0:1], v[2:3], v[4:7]
ds_bpermute_b32 v8, v0, v1
ds_permute_b32 v8, v0, v1
s_add_u32 s30, s20, s21
s_add_i32 s30, s20, s21
s_sub_i32 s30, s20, s21
s_addc_u32 s30, s20, s21
s_subb_u32 s30, s20, s21
s_mul_i32 s30, s20, s21
s_mul_hi_u32 s30, s20, s21
s_min_i32 s30, s20, s21
s_max_u32 s30, s20, s21
s_lshl2_add_u32 s30, s20, s21
s_bfe_u32 s30, s20, s21
s_bfe_i32 s30, s20, s21
s_bcnt1_i32_b64 s30, s[20:21]
s_ff1_i32_b32 s30, s20
s_abs_i32 s30, s20
s_absdiff_i32 s30, s20, s21
s_cmp_lt_i32 s20, s21
s_cmp_eq_u64 s[20:21], s[22:23]
s_cmpk_gt_u32 s20, 0x30
s_bitcmp1_b32 s20, s21
s_addk_i32 s20, 0x30
s_mulk_i32 s20, 6
s_cmov_b32 s30, s20
s_bitset0_b64 s[30:31], s20
s_bfm_b32 s30, s20, s21
s_quadmask_b32 s30, s20
s_wqm_b64 s[30:31], s[20:21]
s_flbit_i32_b64 s30, s[20:21]
s_bitreplicate_b64_b32 s[30:31], s20
""".strip().split("\n")
SPECIAL = np.array([0, 1, 2, 3, 5, 31, 32, 33, 63, 255, 0x0C0D0704, 0x03020100, 0xFFFFFFFF,
                    0x80000000, 0x7FFFFFFF, 0x3F800000, 0xFF], np.uint32)


def instruction_of(text: str) -> Instruction:
    (program,) = read_text(f"{text}\ns_endpgm\n", "gfx950")
    return program.instructions[0]


def random_words(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    words = generator.integers(0, 1 << 32, shape, dtype=np.uint32)
    return np.where(generator.random(shape) < 0.5, generator.choice(SPECIAL, shape), words)


def spread(generator: np.random.Generator, registers: int, cases: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """BITS masks [BITS, registers, *cases] of one bit each, some of them of none."""
    masks = np.zeros((BITS, registers, *cases), np.uint32)
    for number in range(BITS):
        place = generator.integers(0, registers, cases)
        bit = np.uint32(1) << generator.integers(0, 32, cases, dtype=np.uint32)
        bit = np.where(generator.random(cases) < 0.7, bit, np.uint32(0))
        np.put_along_axis(masks[number], place[None], bit[None], 0)
    return masks


class Case:
    """An instruction with a machine, and which bits of its registers are undefined."""

    def __init__(self, text: str, full: bool) -> None:
        self.instruction = instruction_of(text)
        generator = np.random.default_rng(zlib.crc32(text.encode()) + full)
        machine = self.machine = new_machine("gfx950", WAVES)
        machine.vector[:16] = random_words(generator, (16, WAVES, 64))
        machine.scalar[20:34] = random_words(generator, (14, WAVES))
        machine.scalar[VCC:VCC + 2] = random_words(generator, (2, WAVES))
        machine.scc[:] = generator.random(WAVES) < 0.5
        machine.scalar[EXEC:EXEC + 2] = 0xFFFFFFFF if full else random_words(generator, (2, WAVES)) | np.uint32(1 << 7)
        self.across = text.startswith(("v_readlane", "v_readfirst", "v_mfma", "ds_permute", "ds_bpermute", "v_mbcnt"))
        # What crosses lanes has its undefined bits in few lanes, so that all their values can be tried together.
        vector = spread(generator, 6, (WAVES, 64))
        if self.across or "dpp" in text or "swap" in text or "swizzle" in text:
            vector[..., :] *= (np.arange(64) == 7).astype(np.uint32)
        self.vector = vector
        self.scalar = spread(generator, 8, (WAVES,))  # s[20:25] and VCC
        if not any(name in text for name in ("s2", "vcc")):
            self.scalar[:] = 0
        self.scc = generator.random(WAVES) < 0.3 if "s_c" in text or "_u32 s" in text else np.zeros(WAVES, bool)
        self.context = Context(machine, Counters(WAVES), Findings(), Deliveries(machine, Counters(WAVES)), None)
        self.lds = LdsContext(machine, Counters(WAVES), None, None)

    def oracle(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Which bits of all registers, of scalar ones and of SCC differ between two assignments."""
        machine = self.machine
        step = bind(0, self.instruction, machine, self.context, self.lds)
        kept = machine.vector[:16].copy(), machine.scalar.copy(), machine.scc.copy()
        ones: list[Any] = [0, 0, False]
        zeros: list[Any] = [0, 0, False]
        for assignment in range(1 << BITS + 1):
            machine.vector[:16], machine.scalar[:], machine.scc[:] = (part.copy() for part in kept)
            for bit in range(BITS):
                if assignment >> bit & 1:
                    machine.vector[:6] ^= self.vector[bit]
                    machine.scalar[20:26] ^= self.scalar[bit][:6]
                    machine.scalar[VCC:VCC + 2] ^= self.scalar[bit][6:]
            if assignment >> BITS & 1:
                machine.scc ^= self.scc
            with np.errstate(all="ignore"):
                step(Group(machine, np.arange(WAVES), 0))
            after = machine.vector[:16].copy(), machine.scalar.copy(), machine.scc.copy()
            for number, part in enumerate(after):
                ones[number], zeros[number] = ones[number] | part, zeros[number] | ~part
        machine.vector[:16], machine.scalar[:], machine.scc[:] = kept
        return ones[0] & zeros[0], ones[1] & zeros[1], ones[2] & zeros[2]

    def followed(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The same as the shadow has it."""
        machine = self.machine
        shadow = Machine(machine.arch, WAVES, machine.workgroups, machine.registers + 1, machine.accum_offset, machine.lds_bytes,
                         machine.memory)
        shadow.workgroup = machine.workgroup
        shadow.vector[:6] = np.bitwise_or.reduce(self.vector, axis=0)
        scalar = np.bitwise_or.reduce(self.scalar, axis=0)
        shadow.scalar[20:26], shadow.scalar[VCC:VCC + 2] = scalar[:6], scalar[6:]
        shadow.scc[:] = self.scc
        carrier = Carrier(machine, shadow, device_shadow(machine.memory), lambda group, instruction: np.zeros(group.size, np.int32))
        with np.errstate(all="ignore"):
            bind_shadow(self.instruction, 0, carrier, use_of(self.instruction, machine.accum_offset))(Group(machine, np.arange(WAVES), 0))
        shadow.scalar[122] = 0
        return shadow.vector[:16], shadow.scalar, shadow.scc


@pytest.mark.parametrize("full", [True, False], ids=["all lanes", "some lanes"])
@pytest.mark.parametrize("text", EXACT + SOUND)
def test_bits_that_may_differ_are_undefined(text: str, full: bool) -> None:
    case = Case(text, full)
    names = ("vector", "scalar", "SCC")
    for name, wanted, found in zip(names, case.oracle(), case.followed(), strict=True):
        missed = wanted & ~found
        assert not missed.any(), f"{name}: {[tuple(at) for at in np.argwhere(missed)[:4]]} are called defined"
        if text in EXACT and name != "SCC":
            more = found & ~wanted
            assert not more.any(), f"{name}: {[(tuple(at), hex(found[tuple(at)])) for at in np.argwhere(more)[:4]]} are called undefined"


def test_integer_meanings_stand_once() -> None:
    """Arrays and undefined bits interpret the same tables, without entries of their own but sums of several registers."""
    several = {"v_qsad_pk_u16_u8", "v_mqsad_pk_u16_u8", "v_mqsad_u32_u8"}
    assert set(INTEGER) - several == set(meaning.VECTOR) == set(shadowinteger.VECTOR)
    assert set(salu.SCALAR) == set(meaning.SCALAR) == set(shadowinteger.SCALARS)
    assert set(salu.WITH_SCC) == set(meaning.WITH_SCC) == set(shadowinteger.WITH_SCC)
    assert set(meaning.PACKED) == set(shadowinteger.PACKED) <= set(PACKED)


@pytest.mark.parametrize("table", sorted(_FORMULAS))
def test_formulas_are_their_truth_tables(table: int) -> None:
    sources = [np.uint32(row) for row in (0xF0, 0xCC, 0xAA)]  # the eight rows side by side
    assert int(_FORMULAS[table](*sources)) & 0xFF == table
