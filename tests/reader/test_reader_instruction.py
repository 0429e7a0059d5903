"""The parser of one line: the spellings that llvm-mc accepts, compared by encoding with what it prints, and its sentences."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from asmgen.isa.errors import AsmgenError
from asmgen.isa.operands import GprIdx, HwReg, SendMsg, Special, Symbol, Waitcnt
from asmgen.isa.registers import Modified, a, m0, s, v, vcc
from asmgen.program.program import SourceLine
from asmgen.reader.instruction import parse_instruction
from tests.isa.test_hazards import PAIRS

LLVM_MC = shutil.which("llvm-mc-22") or shutil.which("llvm-mc")

SPELLINGS = """
v_add_f32 v1, -v2, |v3|
v_add_f32_e64 v1, -|v2|, neg(v3) clamp mul:2
v_add_f32_e64 v1,v2,abs(v3)   div:2
v_add_f32 v1, 0x42f60000, v2 ; a comment
v_add_f32 v1, 1.0, v2 // another
v_add_f32 v1, -0.5, v2
v_mov_b32 v1, -1
v_mov_b32 v[1], 0b101
v_mov_b32 v1, 017
v_mov_b32 v1, 1e2
v_mov_b32 v1, 0.15915494
v_mul_f64 v[0:1], v[2:3], -v[4:5]
v_mul_f32_sdwa v1, -v2, |v3| dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_0 src1_sel:DWORD
v_add_u32_sdwa v1, sext(v2), v3 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:DWORD
v_mov_b32_dpp v1, v2 quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf bound_ctrl:0
v_add_f32_dpp v1, -v2, |v3| row_ror:4 row_mask:0xa bank_mask:0x5
v_pk_fma_f16 v1, v2, v3, v4 op_sel:[0,1,0] op_sel_hi:[1,0,1] neg_lo:[1,0,0] neg_hi:[0,1,0]
v_cvt_pk_fp8_f32 v1, v2, v3 op_sel:[0,0,1,0]
v_cvt_sr_fp8_f32 v1, v2, v3 op_sel:[0,0,0,1]
v_cmp_lt_f32 vcc, v1, v2
v_cmp_lt_f32_e64 s[2:3], v1, |v2|
v_cndmask_b32 v1, v2, v3, vcc
v_addc_co_u32_e64 v1, s[2:3], v4, v5, s[6:7]
v_mfma_f32_16x16x16f16 a[0:3], v[4:5], a[6:7], a[0:3]
v_mfma_f32_32x32x8bf16_1k v[0:15], v[20:21], v[22:23], 1.0 cbsz:1 abid:2 blgp:3
v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], v[0:7] neg:[1,1,0]
v_accvgpr_write_b32 acc1, 1.0
s_mov_b64 [s2,s3], exec
s_mov_b32 ttmp4, m0
s_mov_b64 vcc, ttmp[4:5]
s_add_u32 s0, s1, -17
s_mov_b32 s0, src_shared_base
s_and_b32 s0, vcc_lo, flat_scratch_hi
s_waitcnt vmcnt(0) & lgkmcnt(0)
s_waitcnt vmcnt(3), expcnt(1) lgkmcnt(15)
s_waitcnt vmcnt_sat(100)
s_waitcnt 0xc07f
s_setreg_b32 hwreg(HW_REG_MODE, 0, 4), s2
s_setreg_imm32_b32 hwreg(1,4,2), 0x3
s_getreg_b32 s2, hwreg(HW_REG_XCC_ID)
s_sendmsg sendmsg(MSG_INTERRUPT)
s_set_gpr_idx_on s0, gpr_idx(SRC0,DST)
s_nop 7
s_load_dwordx2 s[0:1], s[2:3], 0x10
s_load_dword s0, s[2:3], s4 offset:0x8
s_buffer_load_dwordx4 s[4:7], s[8:11], 32
buffer_load_dword v1, v2, s[4:7], s8 offen offset:4095 sc0 nt sc1
buffer_load_dword v1, off, s[4:7], 0
buffer_load_dword off, s[4:7], m0 lds
buffer_load_dwordx4 a[0:3], v[2:3], s[4:7], 0 idxen offen
tbuffer_load_format_x v1, off, s[4:7], 0 format:[BUF_DATA_FORMAT_32,BUF_NUM_FORMAT_FLOAT] offset:4
global_load_dwordx2 v[0:1], v2, s[4:5] offset:-4096
global_atomic_add_f32 v[0:1], v2, off
scratch_store_dword off, v1, s0 offset:16
flat_load_dword v1, v[2:3] offset:16
ds_read2_b32 v[0:1], v2 offset0:4 offset1:9
ds_write_b128 v4, a[0:3] offset:65520
ds_swizzle_b32 v0, v1 offset:0x8055
ds_swizzle_b32 v0, v1 offset:swizzle(SWAP,1)
ds_swizzle_b32 v0, v1 offset:swizzle(BITMASK_PERM,"01pip")
ds_swizzle_b32 v0, v1 offset:swizzle(QUAD_PERM,3,2,1,0)
buffer_wbl2 sc0 sc1
v_readlane_b32 s0, v1, m0
v_div_scale_f32 v0, vcc, v1, v2, v3
"""


def encodings(arch: str, lines: list[str]) -> list[str]:
    assert LLVM_MC is not None
    command = [LLVM_MC, "-arch=amdgcn", f"-mcpu={arch}", "-show-encoding"]
    text = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True).stdout
    return re.findall(r"encoding: (\[.*?\])", text)


@pytest.mark.skipif(LLVM_MC is None, reason="there is no llvm-mc")
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_parsed_and_printed_it_encodes_as_before(arch: str) -> None:
    lines = SPELLINGS.strip().splitlines()
    for producer, consumer, *figures in PAIRS:
        if figures[arch == "gfx950"] != "-":
            lines += [line for line in (producer, consumer) if not line.startswith("s_cbranch")]
    lines = list(dict.fromkeys(lines))
    printed = [parse_instruction(line, arch).text for line in lines]
    before, after = encodings(arch, lines), encodings(arch, printed)
    assert len(before) == len(lines)
    assert [line for line, one, two in zip(lines, before, after, strict=True) if one != two] == []


def test_operands() -> None:
    def operands(text: str) -> tuple[object, ...]:
        return parse_instruction(text, "gfx950").operands

    assert operands("v_add_f32 v1, -|v2|, 1.0") == (v[1], Modified(v[2], neg=True, abs=True), 1.0)
    assert operands("s_mov_b64 vcc, [s2,s3]") == (vcc, s[2:3])
    assert operands("v_accvgpr_read_b32 v0, acc[7]") == (v[0], a[7])
    assert operands("s_mov_b32 m0, -5") == (m0, -5)
    assert operands("v_mov_b32 v0, vccz") == (v[0], Special("src_vccz"))
    assert operands("s_branch loop_1") == (Symbol("loop_1"),)
    assert operands("s_waitcnt lgkmcnt(0) vmcnt(2)") == (Waitcnt(vmcnt=2, lgkmcnt=0),)
    assert operands("s_getreg_b32 s0, hwreg(HW_REG_MODE, 4, 2)") == (s[0], HwReg(1, 4, 2))
    assert operands("s_sendmsg sendmsg(MSG_INTERRUPT)") == (SendMsg(1),)
    assert operands("s_set_gpr_idx_on s0, gpr_idx(DST,SRC0)") == (s[0], GprIdx(9))
    assert dict(parse_instruction("v_mov_b32_dpp v0, v1 row_shl:1 bound_ctrl:0", "gfx942").modifiers) == {"row_shl": 1, "bound_ctrl": 0}


@pytest.mark.parametrize("text", [
    "", "v_add_f33 v0, v1, v2", "v_add_f32 v0, v1", "v_mov_b32 v0, v[3:2]", "v_mov_b32 v0, v256", "v_mov_b32 v0, {",
    "v_add_f32 v0, |v1, v2",
    "s_getreg_b32 s0, hwreg(HW_REG_NONE)", "s_mov_b64 s[0:1], [s2,s4]", "v_mov_b32 v0, v1 offset:", "v_mov_b32 v0, v1\nv_mov_b32 v0, v1",
])
def test_faults_name_the_text_and_the_place(text: str) -> None:
    with pytest.raises(AsmgenError) as caught:
        parse_instruction(text, "gfx942", SourceLine("k.s", 7))
    assert caught.value.where == "k.s:7"
    assert text.splitlines()[0] in caught.value.sentence if text else caught.value.sentence


def test_an_unknown_mnemonic_names_its_neighbours() -> None:
    with pytest.raises(AsmgenError, match="v_add_f32"):
        parse_instruction("v_add_f33 v0, v1, v2", "gfx942")
