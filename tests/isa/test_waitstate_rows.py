"""Every row of isa/waitrules.py fires at one wait state too few and is silent at its figure, on every architecture that has it."""

from __future__ import annotations

import pytest

from asmgen.checks.waitstates.passes import insert, verify
from asmgen.isa.opcodes.mfma import MFMA
from asmgen.isa.waitrules import ARCHS, CLASSES, MOST_WAIT_STATES, RELATIONS, ROLES, RULES, WaitRule
from asmgen.program.program import Program
from asmgen.reader.instruction import parse_instruction

# (producer, consumer) in which the row is the one that asks for most. Rows of several passes have several examples.
EXAMPLES: dict[str, list[tuple[str, str]]] = {
    "xdl-srcc-same": [("v_mfma_f32_4x4x4_16b_f16 v[0:3], v[4:5], v[6:7], v[0:3]",
                       "v_mfma_f32_4x4x4_16b_f16 v[8:11], v[20:21], v[22:23], v[0:3]")],
    "xdl-srcc": [("v_mfma_f32_4x4x4_16b_f16 v[0:3], v[4:5], v[6:7], v[0:3]", "v_mfma_f32_4x4x4_16b_f16 v[8:11], v[4:5], v[6:7], v[2:5]"),
                 ("v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3]", "v_smfmac_f32_16x16x32_f16 v[2:5], v[20:21], v[8:11], v12"),
                 ("v_mfma_f32_32x32x8_f16 a[0:15], v[4:5], v[6:7], a[0:15]", "v_mfma_f32_16x16x16_f16 a[20:23], v[4:5], v[6:7], a[4:7]"),
                 ("v_mfma_f32_32x32x4_2b_f16 v[0:31], v[40:41], v[42:43], 0",
                  "v_mfma_f32_16x16x16_f16 v[50:53], v[44:45], v[46:47], v[28:31]")],
    "xdl-srcc-passes": [("v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3]",
                         "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[4:5], v[6:7], v[0:3]"),
                        ("v_mfma_f32_4x4x4_16b_f16 v[0:3], v[4:5], v[6:7], v[0:3]",
                         "v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3]")],
    "xdl-srcc-opcode": [("v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3]",
                         "v_mfma_f32_16x16x16_bf16 v[0:3], v[4:5], v[6:7], v[0:3]"),
                        ("v_mfma_f32_4x4x4_16b_f16 a[0:3], v[4:5], v[6:7], 0", "v_mfma_f32_4x4x4_16b_bf16 v[8:11], v[4:5], v[6:7], a[0:3]"),
                        ("v_mfma_f32_32x32x16_fp8_bf8 v[0:15], v[20:21], v[22:23], 0",
                         "v_mfma_f32_32x32x16_bf8_fp8 v[0:15], v[20:21], v[22:23], v[0:15]"),
                        ("v_smfmac_f32_32x32x16_f16 v[0:15], v[20:21], v[24:27], v28",
                         "v_mfma_f32_32x32x8_f16 v[0:15], v[20:21], v[22:23], v[0:15]")],
    "xdl-sgemm-srcc": [("v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3]", "v_mfma_f32_16x16x4_f32 v[8:11], v4, v5, v[2:5]"),
                       ("v_mfma_f32_4x4x4_16b_f16 v[0:3], v[4:5], v[6:7], v[0:3]",
                        "v_mfma_f64_4x4x4_4b_f64 v[10:11], v[4:5], v[6:7], v[2:3]")],
    "xdl-sgemm-srcc-class": [("v_mfma_f32_32x32x8_f16 v[0:15], v[20:21], v[22:23], 0",
                              "v_mfma_f32_32x32x2_f32 v[0:15], v20, v21, v[0:15]")],
    "sgemm-srcc-same": [("v_mfma_f32_4x4x1_16b_f32 v[0:3], v4, v5, v[0:3]", "v_mfma_f32_4x4x1_16b_f32 v[8:11], v4, v5, v[0:3]")],
    "sgemm-srcc": [("v_mfma_f32_16x16x4_f32 v[0:3], v4, v5, v[0:3]", "v_mfma_f32_16x16x4_f32 v[8:11], v4, v5, v[2:5]"),
                   ("v_mfma_f32_32x32x2_f32 v[0:15], v20, v21, 0", "v_mfma_f64_16x16x4_f64 v[32:39], v[20:21], v[22:23], v[4:11]")],
    "sgemm-srcc-passes": [("v_mfma_f32_16x16x4_f32 v[0:3], v4, v5, v[0:3]", "v_mfma_f32_4x4x1_16b_f32 v[0:3], v4, v5, v[0:3]")],
    "two-pass-srcc-other": [("v_mfma_f32_4x4x1_16b_f32 v[0:3], v4, v5, v[0:3]", "v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3]")],
    "dgemm16-srcc": [("v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], 0", "v_mfma_f64_16x16x4_f64 v[20:27], v[8:9], v[10:11], v[4:11]")],
    "dgemm4-srcc-same": [("v_mfma_f64_4x4x4_4b_f64 v[0:1], v[8:9], v[10:11], 0",
                          "v_mfma_f64_4x4x4_4b_f64 v[0:1], v[8:9], v[10:11], v[0:1]")],
    "dgemm4-srcc": [("v_mfma_f64_4x4x4_4b_f64 v[0:1], v[8:9], v[10:11], 0", "v_mfma_f32_16x16x4_f32 v[20:23], v8, v9, v[0:3]")],
    "xdl-srcab": [("v_mfma_f32_4x4x4_16b_f16 v[0:3], v[4:5], v[6:7], 0", "v_mfma_f32_4x4x4_16b_f16 v[8:11], v[0:1], v[6:7], 0"),
                  ("v_mfma_f32_32x32x4_2b_f16 v[0:31], v[40:41], v[42:43], 0",
                   "v_smfmac_f32_16x16x32_f16 v[50:53], v[44:45], v[60:63], v31")],
    "sgemm-srcab": [("v_mfma_f32_16x16x4_f32 v[0:3], v4, v5, 0", "v_mfma_f32_16x16x4_f32 v[8:11], v5, v3, 0")],
    "dgemm16-srcab": [("v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], 0", "v_mfma_f64_16x16x4_f64 v[20:27], v[6:7], v[10:11], 0")],
    "dgemm4-srcab": [("v_mfma_f64_4x4x4_4b_f64 v[0:1], v[8:9], v[10:11], 0", "v_mfma_f32_16x16x4_f32 v[20:23], v8, v1, 0")],
    "xdl-valu-read": [("v_mfma_f32_4x4x4_16b_f16 v[0:3], v[4:5], v[6:7], 0", "v_add_f32 v8, v9, v3"),
                      ("v_mfma_f32_16x16x16_f16 a[0:3], v[4:5], v[6:7], a[0:3]", "v_accvgpr_read_b32 v9, a3"),
                      ("v_smfmac_f32_32x32x16_f16 v[0:15], v[20:21], v[24:27], v28", "v_exp_f32 v30, v15"),
                      ("v_mfma_i32_32x32x4_2b_i8 v[0:31], v40, v41, v[0:31]",
                       "v_mov_b32_dpp v50, v31 row_shl:1 row_mask:0xf bank_mask:0xf")],
    "xdl-valu-write": [("v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0", "v_mov_b32 v3, v9"),
                       ("v_mfma_f32_32x32x8_bf16 a[0:15], v[4:5], v[6:7], 0", "v_accvgpr_write_b32 a15, 1.0")],
    "sgemm-valu-read": [("v_mfma_f32_32x32x2_f32 v[0:15], v20, v21, 0", "v_readlane_b32 s0, v15, 1")],
    "sgemm-valu-write": [("v_mfma_f32_32x32x1_2b_f32 v[0:31], v40, v41, 0", "v_mov_b32 v31, v50")],
    "dgemm16-valu-read": [("v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], 0", "v_add_f64 v[20:21], v[6:7], v[8:9]")],
    "dgemm16-valu-write": [("v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], 0", "v_mov_b32 v7, 0")],
    "dgemm16-valu-write-isa": [("v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], 0", "v_mov_b32 v7, 0")],
    "dgemm4-valu-read": [("v_mfma_f64_4x4x4_4b_f64 v[0:1], v[8:9], v[10:11], 0", "v_mov_b32 v9, v1")],
    "dgemm4-valu-write": [("v_mfma_f64_4x4x4_4b_f64 v[0:1], v[8:9], v[10:11], 0", "v_mov_b64 v[0:1], v[8:9]")],
    "xdl-memory-read": [("v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0", "global_store_dwordx4 v[8:9], v[0:3], off"),
                        ("v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0", "ds_read_b32 v9, v3"),
                        ("v_mfma_f32_32x32x8_f16 a[0:15], v[4:5], v[6:7], 0", "ds_write_b128 v9, a[12:15]")],
    "sgemm-memory-read": [("v_mfma_f32_16x16x4_f32 v[0:3], v4, v5, 0", "buffer_store_dword v3, v9, s[4:7], 0 offen")],
    "dgemm16-memory-read": [("v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], 0", "flat_store_dwordx2 v[8:9], v[6:7]")],
    "dgemm4-memory-read": [("v_mfma_f64_4x4x4_4b_f64 v[0:1], v[8:9], v[10:11], 0", "ds_write_b64 v9, v[0:1]")],
    "xdl-load-write": [("v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0", "ds_read_b32 v3, v9")],
    "sgemm-load-write": [("v_mfma_f32_16x16x4_f32 v[0:3], v4, v5, 0", "global_load_dword v0, v9, s[0:1]")],
    "dgemm16-load-write": [("v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], 0", "buffer_load_dword v7, v9, s[4:7], 0 offen")],
    "dgemm4-load-write": [("v_mfma_f64_4x4x4_4b_f64 v[0:1], v[8:9], v[10:11], 0", "scratch_load_dword v1, off, s0")],
    "dgemm-fma-f64": [("v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], 0", "v_fma_f64 v[20:21], v[22:23], v[24:25], v[26:27]"),
                      ("v_mfma_f64_4x4x4_4b_f64 v[0:1], v[8:9], v[10:11], 0", "v_fmac_f64 v[20:21], v[22:23], v[24:25]")],
    "xdl-srcc-valu-write": [("v_mfma_f32_4x4x4_16b_f16 v[8:11], v[4:5], v[6:7], v[0:3]", "v_mov_b32 v3, 0"),
                            ("v_mfma_f32_16x16x16_f16 v[8:11], v[4:5], v[6:7], v[0:3]", "v_exp_f32 v0, v20"),
                            ("v_mfma_f32_32x32x8_f16 v[32:47], v[20:21], v[22:23], v[0:15]", "v_mov_b32 v15, 0"),
                            ("v_mfma_f32_32x32x4_2b_f16 a[32:63], v[20:21], v[22:23], a[0:31]", "v_accvgpr_write_b32 a0, v40")],
    "xdl-srcc-load-write": [("v_mfma_f32_16x16x16_f16 v[8:11], v[4:5], v[6:7], v[0:3]", "ds_read_b64 v[2:3], v20")],
    "valu-sgpr-vmem": [("v_readlane_b32 s6, v9, 0", "buffer_load_dword v1, v2, s[4:7], 0 offen"),
                       ("v_readfirstlane_b32 s9, v9", "buffer_store_dword v1, v2, s[4:7], s9 offen"),
                       ("v_cmp_lt_f32_e64 s[4:5], v1, v2", "global_load_dword v8, v9, s[4:5]"),
                       ("v_add_co_u32 v1, vcc, v2, v3", "scratch_store_dword off, v8, vcc_hi")],
    "valu-exec-vmem": [("v_cmpx_lt_f32 vcc, v1, v2", "global_store_dword v[8:9], v10, off")],
    "valu-sgpr-constant": [("v_readlane_b32 s6, v9, 0", "v_add_f32 v1, s6, v2"), ("v_readlane_b32 s6, v9, 0", "v_writelane_b32 v1, s6, 3"),
                           ("v_div_scale_f32 v1, vcc, v2, v3, v2", "v_mov_b32 v8, vcc_lo"), ("v_cmpx_eq_u32 vcc, v1, v2",
                            "v_mov_b32 v8, exec_hi")],
    "valu-sgpr-carry": [("v_cmp_lt_f32_e64 s[6:7], v1, v2", "v_cndmask_b32_e64 v9, v2, v3, s[6:7]"),
                        ("v_add_co_u32 v1, vcc, v2, v3", "v_addc_co_u32 v9, vcc, v5, v6, vcc")],
    "valu-vcc-half": [("v_readlane_b32 vcc_lo, v1, 0", "v_mov_b32 v8, vcc_hi")],
    "valu-sgpr-lane": [("v_readfirstlane_b32 s6, v9", "v_readlane_b32 s8, v1, s6"), ("v_cmp_lt_f32 vcc, v1, v2",
                        "v_writelane_b32 v9, 1, vcc_hi")],
    "valu-vcc-div-fmas": [("v_div_scale_f32 v1, vcc, v2, v3, v2", "v_div_fmas_f32 v9, v4, v5, v6"),
                          ("v_cmp_lt_f32 vcc, v1, v2", "v_div_fmas_f64 v[10:11], v[4:5], v[6:7], v[8:9]")],
    "valu-vccz": [("v_cmp_lt_f32 vcc, v1, v2", "v_mov_b32 v9, src_vccz"), ("v_cmpx_lt_f32 vcc, v1, v2", "v_mov_b32 v9, src_execz")],
    "valu-exec-lane": [("v_cmpx_lt_f32 vcc, v1, v2", "v_readfirstlane_b32 s9, v8"), ("v_cmpx_lt_f32 vcc, v1, v2",
                        "v_writelane_b32 v9, 1, 2")],
    "valu-exec-dpp": [("v_cmpx_lt_f32 vcc, v1, v2", "v_add_f32_dpp v9, v8, v7 row_ror:4 row_mask:0xf bank_mask:0xf")],
    "valu-exec-mfma": [("v_cmpx_lt_f32 vcc, v1, v2", "v_mfma_f32_16x16x16_f16 v[8:11], v[12:13], v[14:15], 0")],
    "valu-exec-permlane": [("v_cmpx_lt_f32 vcc, v1, v2", "v_permlane16_swap_b32 v8, v9")],
    "valu-dpp": [("v_add_f32 v0, v8, v9", "v_mov_b32_dpp v1, v0 quad_perm:[3,2,1,0] row_mask:0xf bank_mask:0xf")],
    "valu-dpp-rest": [("v_add_f32 v0, v8, v9", "v_mov_b32_dpp v0, v1 row_mirror row_mask:0xf bank_mask:0xf"),
                      ("v_mul_f32 v0, v8, v9", "v_mul_f32_dpp v2, v4, v0 row_newbcast:3 row_mask:0xf bank_mask:0xf")],
    "load-dpp": [("ds_read_b32 v0, v9", "v_mov_b32_dpp v1, v0 row_shl:1 row_mask:0xf bank_mask:0xf")],
    "valu-read-lane": [("v_add_f32 v0, v8, v9", "v_readlane_b32 s0, v0, 0"), ("v_accvgpr_read_b32 v0, a9", "v_readfirstlane_b32 s0, v0")],
    "valu-permlane": [("v_add_f32 v0, v8, v9", "v_permlane32_swap_b32 v0, v1"), ("v_add_f32 v0, v8, v9", "v_permlane16_swap_b32 v1, v0")],
    "valu-mfma": [("v_add_f32 v0, v8, v9", "v_mfma_f32_16x16x16_f16 v[4:7], v[0:1], v[2:3], 0"),
                  ("v_accvgpr_write_b32 a3, v9", "v_mfma_f32_16x16x16_f16 a[0:3], v[0:1], v[2:3], a[0:3]"),
                  ("v_exp_f32 v2, v8", "v_smfmac_f32_16x16x32_f16 v[0:3], v[4:5], v[8:11], v12"),
                  ("v_swap_b32 v20, v12", "v_smfmac_f32_16x16x32_f16 v[0:3], v[4:5], v[8:11], v12")],
    "trans-valu": [("v_exp_f32 v0, v9", "v_mul_f32 v1, v0, v2"), ("v_rsq_f64 v[0:1], v[8:9]", "v_cvt_f32_f64 v4, v[0:1]")],
    "trans-dma": [("v_exp_f32 v0, v9", "buffer_load_dword v0, s[4:7], 0 offen lds")],
    "shifted-read": [("v_mov_b32_sdwa v0, v9 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:DWORD", "v_mov_b32 v1, v0"),
                     ("v_cvt_pk_fp8_f32 v0, v8, v9 op_sel:[0,0,1]", "v_cvt_f32_fp8 v1, v0"),
                     ("v_mad_u16 v0, v8, v9, v10 op_sel:[0,0,0,1]", "v_add_u32 v1, v0, v2")],
    "shifted-write": [("v_add_i16 v0, v8, v9 op_sel:[0,0,1]", "v_mov_b32 v0, 0"),
                      ("v_add_i16 v0, v8, v9 op_sel:[0,0,1]", "v_mfma_f32_16x16x16_f16 v[0:3], v[20:21], v[22:23], 0")],
    "shifted-dma": [("v_add_i16 v0, v8, v9 op_sel:[0,0,1]", "global_load_lds_dword v0, s[4:5]")],
    "part-part": [("v_cvt_pk_fp8_f32 v0, v8, v9", "v_cvt_pk_fp8_f32 v0, v6, v7 op_sel:[0,0,1]")],
    "mixhi-read": [("v_fma_mixhi_f16 v0, v8, v9, v10", "v_pk_add_f16 v1, v0, v2")],
    "packed-touch": [("v_pk_add_f32 v[0:1], v[2:3], v[8:9]", "v_mov_b32 v4, v1"), ("v_fma_mix_f32 v0, v1, v2, v3 op_sel_hi:[1,0,0]",
                      "v_mov_b32 v0, 0")],
    "dot-same-srcab": [("v_dot4_i32_i8 v0, v8, v9, v10", "v_dot4_i32_i8 v1, v0, v9, v10"), ("v_dot2c_f32_f16 v0, v8, v9",
                        "v_dot2c_f32_f16 v1, v8, v0")],
    "dot-valu-read": [("v_dot4_i32_i8 v0, v8, v9, v10", "v_add_u32 v1, v0, v2"), ("v_dot4_i32_i8 v0, v8, v9, v10",
                       "v_dot8_i32_i4 v1, v8, v9, v0")],
    "dot-valu-write": [("v_dot2_f32_f16 v0, v8, v9, v10", "v_mov_b32 v0, 0")],
    "dot-memory-read": [("v_dot4_i32_i8 v0, v8, v9, v10", "ds_write_b32 v4, v0")],
    "dot-load-write": [("v_dot4_i32_i8 v0, v8, v9, v10", "ds_read_b32 v0, v4")],
    "dot-mfma-read": [("v_dot4_i32_i8 v0, v8, v9, v10", "v_mfma_f32_16x16x16_f16 v[4:7], v[20:21], v[22:23], v[0:3]")],
    "setreg-getreg": [("s_setreg_b32 hwreg(HW_REG_MODE, 4, 4), s0", "s_getreg_b32 s1, hwreg(HW_REG_MODE)")],
    "setreg-setreg": [("s_setreg_imm32_b32 hwreg(HW_REG_TRAPSTS, 0, 3), 1", "s_setreg_b32 hwreg(HW_REG_TRAPSTS), s0")],
    "setreg-rfe": [("s_setreg_b32 hwreg(HW_REG_TRAPSTS), s0", "s_rfe_b64 s[2:3]")],
    "setvskip-getreg": [("s_setvskip s0, 0", "s_getreg_b32 s1, hwreg(HW_REG_MODE)")],
    "setreg-vskip": [("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 28, 1), 0", "v_mov_b32 v0, 0")],
    "salu-m0": [("s_mov_b32 m0, s0", "s_sendmsg sendmsg(MSG_INTERRUPT)"),
                ("s_mov_b32 m0, s0", "global_load_lds_dword v[0:1], off"), ("s_mov_b32 m0, s0", "ds_read_addtid_b32 v0"),
                ("s_mov_b32 m0, s0", "s_movrels_b32 s4, s0")],
    "salu-m0-buffer": [("s_add_u32 m0, m0, 64", "buffer_load_dword v0, s[4:7], 0 offen lds")],
    "wide-store-valu": [("global_store_dwordx4 v[8:9], v[0:3], off", "v_mov_b32 v3, 0"),
                        ("buffer_store_dwordx3 a[0:2], v9, s[4:7], 0 offen", "v_accvgpr_write_b32 a2, v0"),
                        ("flat_atomic_cmpswap_x2 v[8:9], v[0:3]", "v_mfma_f32_16x16x16_f16 v[0:3], v[20:21], v[22:23], 0")],
    "wide-store-load": [("global_store_dwordx4 v[8:9], v[0:3], off", "ds_read_b32 v3, v20")],
    "wide-store-soffset": [("buffer_store_dwordx4 v[0:3], v9, s[4:7], s8 offen", "v_mov_b32 v3, 0")],
}

# Rows whose figure another row of the same pair exceeds, so that verify names the other one.
SHADOWED = {("dgemm16-valu-write", "gfx950")}

CASES = [(rule, arch, *pair) for rule in RULES for arch in sorted(rule.archs) for pair in EXAMPLES.get(rule.id, [])
         if (rule.id, arch) not in SHADOWED]


def passes_of(text: str, arch: str) -> int:
    row = MFMA.get(text.split()[0])
    return row.passes_on(arch) if row is not None else 0


def program(arch: str, lines: list[str]) -> Program:
    return Program("row", arch, tuple(parse_instruction(line, arch) for line in lines))


def nops(count: int) -> list[str]:
    return [f"s_nop {min(count - done, 16) - 1}" for done in range(0, count, 16)]


def test_every_row_has_an_example_and_a_unique_id() -> None:
    assert {rule.id for rule in RULES} == set(EXAMPLES)
    assert len({rule.id for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_rows_use_the_closed_sets(rule: WaitRule) -> None:
    assert rule.producer in CLASSES and rule.consumer in CLASSES and rule.relation in RELATIONS
    assert rule.overlap == "any" or all(role in ROLES for role in rule.roles)
    assert rule.asked_by in ("isa", "llvm", "both", "open") and rule.source and rule.text
    assert all(rule.states_on(arch, passes) <= MOST_WAIT_STATES for arch in ARCHS for passes in (0, 2, 4, 8, 16))


@pytest.mark.parametrize(("rule", "arch", "producer", "consumer"), CASES, ids=lambda value: getattr(value, "id", value))
def test_row_fires_one_below_and_is_silent_at_its_figure(rule: WaitRule, arch: str, producer: str, consumer: str) -> None:
    states = rule.states_on(arch, passes_of(producer, arch))
    assert states > 0
    found = verify(program(arch, [producer, *nops(states - 1), consumer]), match_llvm=rule.artefact)
    assert [(finding.rule, finding.have, finding.need) for finding in found] == [(rule.id, states - 1, states)]
    assert found[0].severity == {"both": "error", "isa": "warning", "llvm": "note", "open": "note"}[rule.asked_by] or rule.doubt
    doubted = {"valu-dpp-rest": "warning", "salu-m0-buffer": "note"}
    assert not rule.doubt or found[0].severity == doubted[rule.id] and rule.doubt in found[0].message
    assert found[0].producer.text in found[0].message and found[0].consumer.text in found[0].message
    assert not verify(program(arch, [producer, *nops(states), consumer]), match_llvm=rule.artefact)
    if not rule.artefact:
        mended = insert(program(arch, [producer, consumer]))
        assert sum(item.operands[0] + 1 for item in mended.instructions if item.name == "s_nop") == states  # type: ignore[operator]


@pytest.mark.parametrize("arch", ARCHS)
def test_shadowed_row(arch: str) -> None:
    """DGEMM overwritten by a vector instruction: LLVM and ISA agree on 11, the CDNA4 text alone goes on to 19."""
    producer, consumer = EXAMPLES["dgemm16-valu-write"][0]
    severities = [[finding.severity for finding in verify(program(arch, [producer, *nops(have), consumer]))] for have in (10, 11, 18, 19)]
    assert severities == ([["error"], [], [], []] if arch == "gfx942" else [["error"], ["warning"], ["warning"], []])


def test_the_carry_of_a_moved_result_is_not_moved() -> None:
    moved = "v_add_co_u32_sdwa v0, vcc, v8, v9 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:DWORD src1_sel:DWORD"
    assert not verify(program("gfx942", [moved, "v_sub_co_u32 v1, vcc, v2, v3"]))
    assert [finding.rule for finding in verify(program("gfx942", [moved, "v_sub_co_u32 v0, vcc, v2, v3"]))] == ["shifted-write"]
