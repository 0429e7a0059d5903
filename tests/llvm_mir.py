# ruff: noqa: E501
"""Instructions as assembly and as LLVM's machine code (MIR), so that LLVM's own hazard recognizer can judge pairs of them.

The MIR was made with llvm-mc's and llc's version 22 (`llvm-mc -show-inst` names the opcode and operands, llc the implicit ones).
"""

from __future__ import annotations

import re
import shutil
import subprocess

LLC = shutil.which("llc-22") or shutil.which("llc")

# Assembly | architectures | MIR.
_TABLE = r"""
v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3] | both | $vgpr0_vgpr1_vgpr2_vgpr3 = V_MFMA_F32_16X16X16F16_vgprcd_e64 $vgpr4_vgpr5, $vgpr6_vgpr7, $vgpr0_vgpr1_vgpr2_vgpr3, 0, 0, 0, implicit $mode, implicit $exec
v_mfma_f32_16x16x16_f16 v[8:11], v[0:1], v[6:7], v[12:15] | both | $vgpr8_vgpr9_vgpr10_vgpr11 = V_MFMA_F32_16X16X16F16_vgprcd_e64 $vgpr0_vgpr1, $vgpr6_vgpr7, $vgpr12_vgpr13_vgpr14_vgpr15, 0, 0, 0, implicit $mode, implicit $exec
v_mfma_f32_16x16x16_f16 v[8:11], v[4:5], v[6:7], v[2:5] | both | $vgpr8_vgpr9_vgpr10_vgpr11 = V_MFMA_F32_16X16X16F16_vgprcd_e64 $vgpr4_vgpr5, $vgpr6_vgpr7, $vgpr2_vgpr3_vgpr4_vgpr5, 0, 0, 0, implicit $mode, implicit $exec
v_mfma_f32_16x16x16_f16 v[0:3], v[20:21], v[22:23], v[12:15] | both | $vgpr0_vgpr1_vgpr2_vgpr3 = V_MFMA_F32_16X16X16F16_vgprcd_e64 $vgpr20_vgpr21, $vgpr22_vgpr23, $vgpr12_vgpr13_vgpr14_vgpr15, 0, 0, 0, implicit $mode, implicit $exec
v_mfma_f32_16x16x16_f16 a[0:3], v[20:21], a[0:1], a[0:3] | both | $agpr0_agpr1_agpr2_agpr3 = V_MFMA_F32_16X16X16F16_e64 $vgpr20_vgpr21, $agpr0_agpr1, $agpr0_agpr1_agpr2_agpr3, 0, 0, 0, implicit $mode, implicit $exec
v_mfma_f32_4x4x4_16b_f16 v[0:3], v[4:5], v[6:7], v[0:3] | both | $vgpr0_vgpr1_vgpr2_vgpr3 = V_MFMA_F32_4X4X4F16_vgprcd_e64 $vgpr4_vgpr5, $vgpr6_vgpr7, $vgpr0_vgpr1_vgpr2_vgpr3, 0, 0, 0, implicit $mode, implicit $exec
v_mfma_f32_32x32x8_f16 v[0:15], v[20:21], v[22:23], v[0:15] | both | $vgpr0_vgpr1_vgpr2_vgpr3_vgpr4_vgpr5_vgpr6_vgpr7_vgpr8_vgpr9_vgpr10_vgpr11_vgpr12_vgpr13_vgpr14_vgpr15 = V_MFMA_F32_32X32X8F16_vgprcd_e64 $vgpr20_vgpr21, $vgpr22_vgpr23, $vgpr0_vgpr1_vgpr2_vgpr3_vgpr4_vgpr5_vgpr6_vgpr7_vgpr8_vgpr9_vgpr10_vgpr11_vgpr12_vgpr13_vgpr14_vgpr15, 0, 0, 0, implicit $mode, implicit $exec
v_mfma_f32_32x32x8_f16 v[32:47], v[20:21], v[22:23], v[0:15] | both | $vgpr32_vgpr33_vgpr34_vgpr35_vgpr36_vgpr37_vgpr38_vgpr39_vgpr40_vgpr41_vgpr42_vgpr43_vgpr44_vgpr45_vgpr46_vgpr47 = V_MFMA_F32_32X32X8F16_vgprcd_e64 $vgpr20_vgpr21, $vgpr22_vgpr23, $vgpr0_vgpr1_vgpr2_vgpr3_vgpr4_vgpr5_vgpr6_vgpr7_vgpr8_vgpr9_vgpr10_vgpr11_vgpr12_vgpr13_vgpr14_vgpr15, 0, 0, 0, implicit $mode, implicit $exec
v_mfma_f32_32x32x4_2b_f16 v[0:31], v[40:41], v[42:43], v[0:31] | both | $vgpr0_vgpr1_vgpr2_vgpr3_vgpr4_vgpr5_vgpr6_vgpr7_vgpr8_vgpr9_vgpr10_vgpr11_vgpr12_vgpr13_vgpr14_vgpr15_vgpr16_vgpr17_vgpr18_vgpr19_vgpr20_vgpr21_vgpr22_vgpr23_vgpr24_vgpr25_vgpr26_vgpr27_vgpr28_vgpr29_vgpr30_vgpr31 = V_MFMA_F32_32X32X4F16_vgprcd_e64 $vgpr40_vgpr41, $vgpr42_vgpr43, $vgpr0_vgpr1_vgpr2_vgpr3_vgpr4_vgpr5_vgpr6_vgpr7_vgpr8_vgpr9_vgpr10_vgpr11_vgpr12_vgpr13_vgpr14_vgpr15_vgpr16_vgpr17_vgpr18_vgpr19_vgpr20_vgpr21_vgpr22_vgpr23_vgpr24_vgpr25_vgpr26_vgpr27_vgpr28_vgpr29_vgpr30_vgpr31, 0, 0, 0, implicit $mode, implicit $exec
v_mfma_f32_4x4x1_16b_f32 v[0:3], v4, v5, v[0:3] | both | $vgpr0_vgpr1_vgpr2_vgpr3 = V_MFMA_F32_4X4X1F32_vgprcd_e64 $vgpr4, $vgpr5, $vgpr0_vgpr1_vgpr2_vgpr3, 0, 0, 0, implicit $mode, implicit $exec
v_mfma_f32_16x16x4_f32 v[0:3], v4, v5, v[0:3] | both | $vgpr0_vgpr1_vgpr2_vgpr3 = V_MFMA_F32_16X16X4F32_vgprcd_e64 $vgpr4, $vgpr5, $vgpr0_vgpr1_vgpr2_vgpr3, 0, 0, 0, implicit $mode, implicit $exec
v_mfma_f32_16x16x4_f32 v[8:11], v0, v5, v[2:5] | both | $vgpr8_vgpr9_vgpr10_vgpr11 = V_MFMA_F32_16X16X4F32_vgprcd_e64 $vgpr0, $vgpr5, $vgpr2_vgpr3_vgpr4_vgpr5, 0, 0, 0, implicit $mode, implicit $exec
v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], v[0:7] | both | $vgpr0_vgpr1_vgpr2_vgpr3_vgpr4_vgpr5_vgpr6_vgpr7 = V_MFMA_F64_16X16X4F64_vgprcd_e64 $vgpr8_vgpr9, $vgpr10_vgpr11, $vgpr0_vgpr1_vgpr2_vgpr3_vgpr4_vgpr5_vgpr6_vgpr7, 0, 0, 0, implicit $mode, implicit $exec
v_mfma_f64_16x16x4_f64 v[16:23], v[8:9], v[10:11], v[2:9] | both | $vgpr16_vgpr17_vgpr18_vgpr19_vgpr20_vgpr21_vgpr22_vgpr23 = V_MFMA_F64_16X16X4F64_vgprcd_e64 $vgpr8_vgpr9, $vgpr10_vgpr11, $vgpr2_vgpr3_vgpr4_vgpr5_vgpr6_vgpr7_vgpr8_vgpr9, 0, 0, 0, implicit $mode, implicit $exec
v_mfma_f64_4x4x4_4b_f64 v[0:1], v[8:9], v[10:11], v[0:1] | both | $vgpr0_vgpr1 = V_MFMA_F64_4X4X4F64_vgprcd_e64 $vgpr8_vgpr9, $vgpr10_vgpr11, $vgpr0_vgpr1, 0, 0, 0, implicit $mode, implicit $exec
v_smfmac_f32_16x16x32_f16 v[0:3], v[4:5], v[8:11], v12 | both | $vgpr0_vgpr1_vgpr2_vgpr3 = V_SMFMAC_F32_16X16X32_F16_e64 $vgpr4_vgpr5, $vgpr8_vgpr9_vgpr10_vgpr11, $vgpr12, 0, 0, $vgpr0_vgpr1_vgpr2_vgpr3, implicit $mode, implicit $exec
v_smfmac_f32_16x16x32_f16 v[20:23], v[4:5], v[8:11], v1 | both | $vgpr20_vgpr21_vgpr22_vgpr23 = V_SMFMAC_F32_16X16X32_F16_e64 $vgpr4_vgpr5, $vgpr8_vgpr9_vgpr10_vgpr11, $vgpr1, 0, 0, $vgpr20_vgpr21_vgpr22_vgpr23, implicit $mode, implicit $exec
v_mov_b32 v0, v9 | both | $vgpr0 = V_MOV_B32_e32 $vgpr9, implicit $exec
v_mov_b32 v9, v0 | both | $vgpr9 = V_MOV_B32_e32 $vgpr0, implicit $exec
v_mov_b32 v1, s0 | both | $vgpr1 = V_MOV_B32_e32 $sgpr0, implicit $exec
v_mov_b32 v1, vcc_hi | both | $vgpr1 = V_MOV_B32_e32 $vcc_hi, implicit $exec
v_mov_b32 v1, exec_lo | both | $vgpr1 = V_MOV_B32_e32 $exec_lo, implicit $exec
v_add_f32 v0, v1, v2 | both | $vgpr0 = V_ADD_F32_e32 $vgpr1, $vgpr2, implicit $mode, implicit $exec
v_fma_f64 v[60:61], v[62:63], v[64:65], v[66:67] | both | $vgpr60_vgpr61 = V_FMA_F64_e64 0, $vgpr62_vgpr63, 0, $vgpr64_vgpr65, 0, $vgpr66_vgpr67, 0, 0, implicit $mode, implicit $exec
v_accvgpr_read_b32 v0, a0 | both | $vgpr0 = V_ACCVGPR_READ_B32_e64 $agpr0, implicit $exec
v_accvgpr_write_b32 a0, v0 | both | $agpr0 = V_ACCVGPR_WRITE_B32_e64 $vgpr0, implicit $exec
v_swap_b32 v0, v9 | both | $vgpr0, $vgpr9 = V_SWAP_B32 $vgpr9, $vgpr0, implicit $exec
v_exp_f32 v0, v9 | both | $vgpr0 = V_EXP_F32_e32 $vgpr9, implicit $mode, implicit $exec
v_rcp_f32 v1, v0 | both | $vgpr1 = V_RCP_F32_e32 $vgpr0, implicit $mode, implicit $exec
v_pk_mul_f32 v[8:9], v[0:1], v[2:3] op_sel_hi:[0,1] | both | $vgpr8_vgpr9 = V_PK_MUL_F32 0, $vgpr0_vgpr1, 8, $vgpr2_vgpr3, 0, 0, 2, 0, 0, implicit $mode, implicit $exec
v_pk_add_f32 v[0:1], v[2:3], v[8:9] | both | $vgpr0_vgpr1 = V_PK_ADD_F32 8, $vgpr2_vgpr3, 8, $vgpr8_vgpr9, 0, 0, -1, 0, 0, implicit $mode, implicit $exec
v_dot2_f32_f16 v0, v1, v2, v0 | both | $vgpr0 = V_DOT2_F32_F16 8, $vgpr1, 8, $vgpr2, 8, $vgpr0, 0, 0, -1, 0, 0, implicit $mode, implicit $exec
v_dot4_i32_i8 v0, v8, v9, v10 | both | $vgpr0 = V_DOT4_I32_I8 0, $vgpr8, 0, $vgpr9, 0, $vgpr10, 0, 0, 0, implicit $exec
v_dot2c_f32_f16 v0, v8, v9 | both | $vgpr0 = V_DOT2C_F32_F16_e32 $vgpr8, $vgpr9, $vgpr0, implicit $mode, implicit $exec
v_cvt_pk_fp8_f32 v0, v8, v9 op_sel:[0,0,1] | both | $vgpr0 = V_CVT_PK_FP8_F32_e64 8, $vgpr8, 0, $vgpr9, $vgpr0, 4, implicit $mode, implicit $exec
v_mov_b32_sdwa v0, v9 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD | both | $vgpr0 = V_MOV_B32_sdwa 0, $vgpr9, 0, 1, 2, 6, implicit $exec, implicit $vgpr0(tied-def 0)
v_mov_b32_dpp v9, v0 row_shr:1 row_mask:0xf bank_mask:0xf | both | $vgpr9 = V_MOV_B32_dpp $vgpr9, $vgpr0, 273, 15, 15, 0, implicit $exec
v_mov_b32_dpp v0, v9 quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf | both | $vgpr0 = V_MOV_B32_dpp $vgpr0, $vgpr9, 228, 15, 15, 0, implicit $exec
v_cmp_lt_f32 vcc, v8, v9 | both | V_CMP_LT_F32_e32 $vgpr8, $vgpr9, implicit-def $vcc, implicit $mode, implicit $exec
v_cmp_lt_f32_e64 s[0:1], v8, v9 | both | $sgpr0_sgpr1 = V_CMP_LT_F32_e64 0, $vgpr8, 0, $vgpr9, 0, implicit $mode, implicit $exec
v_cmpx_lt_f32 vcc, v8, v9 | both | V_CMPX_LT_F32_e32 $vgpr8, $vgpr9, implicit-def $vcc, implicit-def $exec, implicit $mode, implicit $exec
v_cndmask_b32 v0, v8, v9, vcc | both | $vgpr0 = V_CNDMASK_B32_e32 $vgpr8, $vgpr9, implicit $vcc, implicit $exec
v_cndmask_b32_e64 v0, v8, v9, s[0:1] | both | $vgpr0 = V_CNDMASK_B32_e64 0, $vgpr8, 0, $vgpr9, $sgpr0_sgpr1, implicit $exec
v_addc_co_u32 v0, vcc, v8, v9, vcc | both | $vgpr0 = V_ADDC_CO_U32_e32_gfx9 $vgpr8, $vgpr9, implicit-def $vcc, implicit $vcc, implicit $exec
v_div_fmas_f32 v0, v8, v9, v10 | both | $vgpr0 = V_DIV_FMAS_F32_e64 0, $vgpr8, 0, $vgpr9, 0, $vgpr10, 0, 0, implicit $mode, implicit $vcc, implicit $exec
v_readlane_b32 s0, v0, 1 | both | $sgpr0 = V_READLANE_B32 $vgpr0, 1
v_readlane_b32 s1, v9, s0 | both | $sgpr1 = V_READLANE_B32 $vgpr9, $sgpr0
v_readfirstlane_b32 s0, v0 | both | $sgpr0 = V_READFIRSTLANE_B32 $vgpr0, implicit $exec
v_writelane_b32 v0, s0, 3 | both | $vgpr0 = V_WRITELANE_B32 $sgpr0, 3, $vgpr0
buffer_load_dword v0, v9, s[4:7], s0 offen | both | $vgpr0 = BUFFER_LOAD_DWORD_OFFEN $vgpr9, $sgpr4_sgpr5_sgpr6_sgpr7, $sgpr0, 0, 0, 0, implicit $exec
buffer_load_dword v0, s[4:7], s0 offen lds | both | BUFFER_LOAD_DWORD_LDS_OFFEN $vgpr0, $sgpr4_sgpr5_sgpr6_sgpr7, $sgpr0, 0, 0, 0, implicit $exec, implicit $m0
buffer_store_dwordx4 v[0:3], v9, s[4:7], 0 offen | both | BUFFER_STORE_DWORDX4_OFFEN $vgpr0_vgpr1_vgpr2_vgpr3, $vgpr9, $sgpr4_sgpr5_sgpr6_sgpr7, 0, 0, 0, 0, implicit $exec
buffer_store_dwordx4 v[0:3], v9, s[4:7], s0 offen | both | BUFFER_STORE_DWORDX4_OFFEN $vgpr0_vgpr1_vgpr2_vgpr3, $vgpr9, $sgpr4_sgpr5_sgpr6_sgpr7, $sgpr0, 0, 0, 0, implicit $exec
global_store_dwordx4 v[8:9], v[0:3], off | both | GLOBAL_STORE_DWORDX4 $vgpr8_vgpr9, $vgpr0_vgpr1_vgpr2_vgpr3, 0, 0, implicit $exec
global_load_dword v9, v0, s[0:1] | both | $vgpr9 = GLOBAL_LOAD_DWORD_SADDR $sgpr0_sgpr1, $vgpr0, 0, 0, implicit $exec
ds_read_b128 v[0:3], v9 | both | $vgpr0_vgpr1_vgpr2_vgpr3 = DS_READ_B128_gfx9 $vgpr9, 0, 0, implicit $exec
ds_write_b32 v9, v0 | both | DS_WRITE_B32_gfx9 $vgpr9, $vgpr0, 0, 0, implicit $exec
s_mov_b32 m0, s0 | both | $m0 = S_MOV_B32 $sgpr0
s_load_dword s0, s[4:5], 0x0 | both | $sgpr0 = S_LOAD_DWORD_IMM $sgpr4_sgpr5, 0, 0
s_sendmsg sendmsg(MSG_INTERRUPT) | both | S_SENDMSG 1, implicit $exec, implicit $m0
v_permlane32_swap_b32 v0, v9 | gfx950 | $vgpr0, $vgpr9 = V_PERMLANE32_SWAP_B32_e32 $vgpr0, $vgpr9, implicit $exec
v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[8:15], v[16:23], v[0:3] | gfx950 | $vgpr0_vgpr1_vgpr2_vgpr3 = V_MFMA_F32_16X16X128_F8F6F4_f8_f8_vgprcd_e64 $vgpr8_vgpr9_vgpr10_vgpr11_vgpr12_vgpr13_vgpr14_vgpr15, $vgpr16_vgpr17_vgpr18_vgpr19_vgpr20_vgpr21_vgpr22_vgpr23, $vgpr0_vgpr1_vgpr2_vgpr3, 0, 0, implicit $mode, implicit $exec
v_mfma_scale_f32_16x16x128_f8f6f4 v[40:43], v[8:15], v[16:23], v[32:35], v0, v1 | gfx950 | $vgpr40_vgpr41_vgpr42_vgpr43 = V_MFMA_SCALE_F32_16X16X128_F8F6F4_f8_f8_vgprcd_e64 $vgpr8_vgpr9_vgpr10_vgpr11_vgpr12_vgpr13_vgpr14_vgpr15, $vgpr16_vgpr17_vgpr18_vgpr19_vgpr20_vgpr21_vgpr22_vgpr23, $vgpr32_vgpr33_vgpr34_vgpr35, 0, 0, $vgpr0, $vgpr1, 0, 0, implicit $mode, implicit $exec
v_mfma_f32_32x32x64_f8f6f4 v[0:15], v[20:27], v[30:37], v[0:15] | gfx950 | $vgpr0_vgpr1_vgpr2_vgpr3_vgpr4_vgpr5_vgpr6_vgpr7_vgpr8_vgpr9_vgpr10_vgpr11_vgpr12_vgpr13_vgpr14_vgpr15 = V_MFMA_F32_32X32X64_F8F6F4_f8_f8_vgprcd_e64 $vgpr20_vgpr21_vgpr22_vgpr23_vgpr24_vgpr25_vgpr26_vgpr27, $vgpr30_vgpr31_vgpr32_vgpr33_vgpr34_vgpr35_vgpr36_vgpr37, $vgpr0_vgpr1_vgpr2_vgpr3_vgpr4_vgpr5_vgpr6_vgpr7_vgpr8_vgpr9_vgpr10_vgpr11_vgpr12_vgpr13_vgpr14_vgpr15, 0, 0, implicit $mode, implicit $exec
v_cvt_scalef32_pk_fp4_f32 v0, v8, v9, v10 op_sel:[0,0,0,1] | gfx950 | $vgpr0 = V_CVT_SCALEF32_PK_FP4_F32_e64 8, $vgpr8, 0, $vgpr9, 0, $vgpr10, $vgpr0, 8, implicit $mode, implicit $exec
v_mfma_f32_16x16x8_xf32 v[0:3], v[4:5], v[6:7], v[0:3] | gfx942 | $vgpr0_vgpr1_vgpr2_vgpr3 = V_MFMA_F32_16X16X8XF32_vgprcd_e64 $vgpr4_vgpr5, $vgpr6_vgpr7, $vgpr0_vgpr1_vgpr2_vgpr3, 0, 0, 0, implicit $mode, implicit $exec
"""

_BODY = """---
name: f{n}
tracksRegLiveness: false
body: |
  bb.0:
    {first}
    {second}
    S_ENDPGM 0
...
"""


def machine_code(arch: str) -> dict[str, str]:
    """The instructions of an architecture: assembly to MIR."""
    rows = [line.split(" | ") for line in _TABLE.strip().splitlines()]
    return {text: mir for text, archs, mir in rows if archs in ("both", arch)}


def wait_states(arch: str, pairs: list[tuple[str, str]]) -> list[int]:
    """How many wait states LLVM inserts between the two instructions (MIR) of each pair."""
    assert LLC is not None
    names = "".join(f"  define amdgpu_kernel void @f{number}() #0 {{ ret void }}\n" for number in range(len(pairs)))
    module = f'--- |\n{names}  attributes #0 = {{ "amdgpu-agpr-alloc"="256" }}\n...\n'
    bodies = "".join(_BODY.format(n=number, first=first, second=second) for number, (first, second) in enumerate(pairs))
    # Without XNACK: its rule about loads in one clause is none of the hardware's wait states.
    command = [LLC, "-mtriple=amdgcn", f"-mcpu={arch}", "-mattr=-xnack", "-x", "mir", "-run-pass", "post-RA-hazard-rec", "-", "-o", "-"]
    text = subprocess.run(command, input=module + bodies, capture_output=True, text=True, check=True).stdout
    states = [0] * len(pairs)
    for part in text.split("\nname:")[1:]:
        number = int(re.match(r"\s*f(\d+)", part)[1])  # type: ignore[index]
        states[number] = sum(int(count) + 1 for count in re.findall(r"^\s*S_NOP (\d+)$", part, re.MULTILINE))
    return states
