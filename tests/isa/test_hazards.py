"""Wait states: figures typed from docs/facts/instructions.md section 3, control flow, insertion, proposals, and LLVM 22's opinion."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asmgen.checks.waitstates.match import HazardModel
from asmgen.checks.waitstates.passes import insert, needed, proposals, verify, wait_states
from asmgen.isa.errors import AsmgenError
from asmgen.program.program import Instruction, Label, Program, SourceLine
from asmgen.reader.instruction import parse_instruction
from tests import llvm_mir

# Producer | consumer | wait states on gfx942 | on gfx950 ("-": not on this chip). Figures typed from the tables of section 3, and for
# matrix instructions of different opcodes on one accumulator from docs/facts/errata.md section 2.
LITERALS = """
v_mfma_f32_4x4x4_16b_f16 v[0:3], v[4:5], v[6:7], 0 | v_mfma_f32_4x4x4_16b_f16 v[0:3], v[4:5], v[6:7], v[0:3] | 2 | 2
v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0 | v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3] | 0 | 0
v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0 | v_mfma_f32_16x16x16_f16 v[8:11], v[4:5], v[6:7], v[0:3] | 0 | 0
v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0 | v_mfma_f32_16x16x32_fp8_fp8 v[0:3], v[4:5], v[6:7], v[0:3] | 5 | 6
v_mfma_f32_32x32x8_f16 v[0:15], v[20:21], v[22:23], 0 | v_mfma_f32_32x32x8_bf16 v[0:15], v[20:21], v[22:23], v[0:15] | 9 | 10
v_mfma_f32_32x32x4_2b_f16 v[0:31], v[40:41], v[42:43], 0 | v_mfma_f32_32x32x4_2b_bf16 v[0:31], v[40:41], v[42:43], v[0:31] | 17 | 18
v_mfma_f32_4x4x4_16b_f16 v[0:3], v[4:5], v[6:7], 0 | v_mfma_f32_4x4x4_16b_f16 v[8:11], v[4:5], v[6:7], v[2:5] | 3 | 4
v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0 | v_mfma_f32_16x16x16_f16 v[8:11], v[4:5], v[6:7], v[2:5] | 5 | 6
v_mfma_f32_32x32x8_f16 v[0:15], v[20:21], v[22:23], 0 | v_mfma_f32_16x16x16_f16 v[0:3], v[24:25], v[22:23], v[0:3] | 9 | 10
v_mfma_f32_32x32x4_2b_f16 v[0:31], v[40:41], v[42:43], 0 | v_mfma_f32_32x32x8_f16 v[0:15], v[44:45], v[46:47], v[0:15] | 17 | 18
v_mfma_f32_4x4x4_16b_f16 v[0:3], v[4:5], v[6:7], 0 | v_mfma_f32_4x4x1_16b_f32 v[8:11], v4, v5, v[2:5] | 3 | 3
v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0 | v_mfma_f32_16x16x4_f32 v[8:11], v4, v5, v[2:5] | 5 | 6
v_mfma_f32_32x32x8_f16 v[0:15], v[20:21], v[22:23], 0 | v_mfma_f64_16x16x4_f64 v[32:39], v[20:21], v[22:23], v[8:15] | 9 | 10
v_mfma_f32_32x32x4_2b_f16 v[0:31], v[40:41], v[42:43], 0 | v_mfma_f32_32x32x2_f32 v[0:15], v40, v41, v[0:15] | 17 | 18
v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0 | v_mfma_f32_16x16x4_f32 v[0:3], v4, v5, v[0:3] | 5 | 6
v_mfma_f32_4x4x4_16b_f16 v[0:3], v[4:5], v[6:7], 0 | v_mfma_f32_4x4x1_16b_f32 v[0:3], v4, v5, v[0:3] | 3 | 3
v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0 | v_mfma_f32_4x4x4_16b_f16 v[0:3], v[4:5], v[6:7], v[0:3] | 5 | 6
v_mfma_f32_4x4x4_16b_f16 v[0:3], v[4:5], v[6:7], 0 | v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3] | 3 | 4
v_mfma_f32_4x4x4_16b_f16 v[0:3], v[4:5], v[6:7], 0 | v_mfma_f32_4x4x4_16b_f16 v[8:11], v[2:3], v[6:7], 0 | 5 | 5
v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0 | v_mfma_f32_16x16x16_f16 v[8:11], v[4:5], v[0:1], 0 | 7 | 8
v_mfma_f32_32x32x8_f16 a[0:15], v[20:21], v[22:23], 0 | v_mfma_f32_16x16x16_f16 v[8:11], a[14:15], v[0:1], 0 | 11 | 12
v_mfma_f32_32x32x4_2b_f16 v[0:31], v[40:41], v[42:43], 0 | v_mfma_f32_16x16x4_f32 v[50:53], v44, v31, 0 | 19 | 20
v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0 | v_smfmac_f32_16x16x32_f16 v[20:23], v[4:5], v[8:11], v3 | 7 | 8
v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0 | v_smfmac_f32_16x16x32_f16 v[0:3], v[4:5], v[8:11], v12 | 5 | 6
v_smfmac_f32_16x16x32_f16 v[0:3], v[4:5], v[8:11], v12 | v_smfmac_f32_16x16x32_f16 v[2:5], v[20:21], v[8:11], v12 | 5 | 6
v_mfma_f32_4x4x4_16b_f16 v[0:3], v[4:5], v[6:7], 0 | v_add_f32 v9, v3, v3 | 5 | 5
v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0 | v_exp_f32 v9, v0 | 7 | 8
v_mfma_f32_32x32x8_f16 v[0:15], v[20:21], v[22:23], 0 | v_cmp_lt_f32 vcc, v15, v20 | 11 | 12
v_mfma_f32_32x32x4_2b_f16 v[0:31], v[40:41], v[42:43], 0 | v_mov_b32 v31, 0 | 19 | 20
v_mfma_f32_16x16x16_f16 a[0:3], v[4:5], v[6:7], a[0:3] | v_accvgpr_read_b32 v9, a0 | 7 | 8
v_mfma_f32_16x16x16_f16 a[0:3], v[4:5], v[6:7], a[0:3] | v_accvgpr_read_b32 v0, a4 | 0 | 0
v_mfma_f32_16x16x16_f16 a[0:3], v[4:5], v[6:7], a[0:3] | v_accvgpr_mov_b32 a3, a9 | 7 | 8
v_mfma_f32_16x16x16_f16 a[0:3], v[4:5], v[6:7], a[0:3] | ds_write_b32 v9, a0 | 7 | 8
v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0 | global_store_dwordx4 v[8:9], v[0:3], off | 7 | 8
v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0 | buffer_load_dword v9, v3, s[4:7], 0 offen | 7 | 8
v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0 | ds_read_b128 v[0:3], v20 | 7 | 8
v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0 | buffer_load_dword v0, s[4:7], 0 offen lds | 7 | 8
v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0 | v_mfma_f32_16x16x16_f16 v[0:3], v[8:9], v[10:11], v[12:15] | 0 | 0
v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0 | v_mfma_f32_16x16x16_f16 v[0:3], v[8:9], v[10:11], 0 | 0 | 0
v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0 | s_barrier | 0 | 0
v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0 | v_mov_b32 v9, v4 | 0 | 0
v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0 | v_mov_b32 v4, 0 | 0 | 0
v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0 | ds_read_b32 v4, v20 | 0 | 0
v_mfma_f32_16x16x8_xf32 v[0:3], v[4:5], v[6:7], 0 | v_mov_b32 v9, v0 | 7 | -
v_mfma_f32_4x4x1_16b_f32 v[0:3], v4, v5, 0 | v_mfma_f32_4x4x1_16b_f32 v[8:11], v4, v5, v[0:3] | 2 | 2
v_mfma_f32_16x16x4_f32 v[0:3], v4, v5, 0 | v_mfma_f32_16x16x4_f32 v[8:11], v4, v5, v[0:3] | 0 | 0
v_mfma_f32_16x16x4_f32 v[0:3], v4, v5, 0 | v_mfma_f32_16x16x4_f32 v[8:11], v4, v5, v[2:5] | 8 | 8
v_mfma_f32_32x32x2_f32 v[0:15], v20, v21, 0 | v_mfma_f32_16x16x4_f32 v[0:3], v20, v21, v[0:3] | 16 | 16
v_mfma_f32_16x16x4_f32 v[0:3], v4, v5, 0 | v_mfma_f32_4x4x1_16b_f32 v[0:3], v4, v5, v[0:3] | 8 | 8
v_mfma_f32_4x4x1_16b_f32 v[0:3], v4, v5, 0 | v_mfma_f32_16x16x4_f32 v[0:3], v4, v5, v[0:3] | 2 | 2
v_mfma_f32_16x16x4_f32 v[0:3], v4, v5, 0 | v_mfma_f32_16x16x16_f16 v[0:3], v[8:9], v[6:7], v[0:3] | 0 | 0
v_mfma_f32_4x4x1_16b_f32 v[0:3], v4, v5, 0 | v_mfma_f32_16x16x16_f16 v[0:3], v[8:9], v[6:7], v[0:3] | 2 | 2
v_mfma_f32_4x4x1_16b_f32 v[0:3], v4, v5, 0 | v_mfma_f32_16x16x16_f16 v[8:11], v[12:13], v[6:7], v[2:5] | 0 | 0
v_mfma_f32_4x4x1_16b_f32 v[0:3], v4, v5, 0 | v_mfma_f32_4x4x1_16b_f32 v[8:11], v4, v3, 0 | 4 | 4
v_mfma_f32_16x16x4_f32 v[0:3], v4, v5, 0 | v_add_f32 v9, v0, v4 | 10 | 10
v_mfma_f32_32x32x2_f32 v[0:15], v20, v21, 0 | v_mov_b32 v15, 0 | 18 | 18
v_mfma_f32_16x16x4_f32 v[0:3], v4, v5, 0 | flat_store_dword v[8:9], v2 | 10 | 10
v_mfma_f32_16x16x4_f32 v[0:3], v4, v5, 0 | ds_read_b32 v2, v9 | 10 | 10
v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], 0 | v_mfma_f64_16x16x4_f64 v[20:27], v[8:9], v[10:11], v[0:7] | 0 | 0
v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], 0 | v_mfma_f64_16x16x4_f64 v[20:27], v[8:9], v[10:11], v[4:11] | 9 | 17
v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], 0 | v_mfma_f32_16x16x4_f32 v[20:23], v8, v9, v[4:7] | 9 | 17
v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], 0 | v_mfma_f32_16x16x16_f16 v[20:23], v[8:9], v[10:11], v[4:7] | 0 | 0
v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], 0 | v_mfma_f32_16x16x16_f16 v[20:23], v[6:7], v[10:11], 0 | 11 | 19
v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], 0 | v_mov_b32 v20, v7 | 11 | 19
v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], 0 | v_mov_b32 v7, 0 | 11 | 19
v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], 0 | global_store_dwordx2 v[8:9], v[6:7], off | 18 | 18
v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], 0 | ds_read_b32 v7, v20 | 11 | 11
v_mfma_f64_4x4x4_4b_f64 v[0:1], v[8:9], v[10:11], 0 | v_mfma_f64_4x4x4_4b_f64 v[0:1], v[8:9], v[10:11], v[0:1] | 4 | 4
v_mfma_f64_4x4x4_4b_f64 v[0:1], v[8:9], v[10:11], 0 | v_mfma_f64_16x16x4_f64 v[20:27], v[8:9], v[10:11], v[0:7] | 4 | 4
v_mfma_f64_4x4x4_4b_f64 v[0:1], v[8:9], v[10:11], 0 | v_mfma_f32_16x16x16_f16 v[20:23], v[8:9], v[10:11], v[0:3] | 0 | 0
v_mfma_f64_4x4x4_4b_f64 v[0:1], v[8:9], v[10:11], 0 | v_mfma_f64_4x4x4_4b_f64 v[2:3], v[0:1], v[10:11], 0 | 6 | 6
v_mfma_f64_4x4x4_4b_f64 v[0:1], v[8:9], v[10:11], 0 | v_mov_b32 v1, 0 | 6 | 6
v_mfma_f64_4x4x4_4b_f64 v[0:1], v[8:9], v[10:11], 0 | scratch_store_dwordx2 off, v[0:1], s0 | 9 | 9
v_mfma_f64_4x4x4_4b_f64 v[0:1], v[8:9], v[10:11], 0 | v_fma_f64 v[20:21], v[22:23], v[24:25], v[26:27] | 2 | 2
v_mfma_f64_4x4x4_4b_f64 v[0:1], v[8:9], v[10:11], 0 | v_mul_f64 v[20:21], v[22:23], v[24:25] | 0 | 0
v_mfma_f32_4x4x4_16b_f16 v[8:11], v[4:5], v[6:7], v[0:3] | v_mov_b32 v0, 0 | 1 | 1
v_mfma_f32_16x16x16_f16 v[8:11], v[4:5], v[6:7], v[0:3] | v_mov_b32 v3, 0 | 3 | 3
v_mfma_f32_32x32x8_f16 v[32:47], v[20:21], v[22:23], v[0:15] | v_mov_b32 v3, 0 | 7 | 7
v_mfma_f32_32x32x4_2b_f16 v[32:63], v[64:65], v[66:67], v[0:31] | v_mov_b32 v3, 0 | 15 | 15
v_mfma_f32_16x16x16_f16 v[8:11], v[4:5], v[6:7], v[0:3] | global_load_dword v3, v20, s[0:1] | 3 | 3
v_mfma_f32_16x16x4_f32 v[8:11], v4, v5, v[0:3] | v_mov_b32 v0, 0 | 0 | 0
v_mfma_f64_16x16x4_f64 v[16:23], v[8:9], v[10:11], v[0:7] | v_mov_b32 v0, 0 | 0 | 0
v_smfmac_f32_16x16x32_f16 v[20:23], v[4:5], v[8:11], v12 | v_mov_b32 v12, 0 | 0 | 0
v_readlane_b32 s8, v9, 0 | buffer_load_dword v1, v2, s[4:7], s8 offen | 5 | 5
v_readfirstlane_b32 s4, v9 | buffer_store_dword v1, off, s[4:7], 0 | 5 | 5
v_cmp_lt_f32 vcc, v1, v2 | global_load_dword v3, v4, vcc | 5 | 5
v_add_co_u32_e64 v0, s[0:1], v8, v9 | global_load_lds_dword v9, s[0:1] | 5 | 5
v_readlane_b32 s8, v9, 0 | s_load_dword s0, s[8:9], 0x0 | 0 | 0
v_readlane_b32 s8, v9, 0 | s_add_u32 s0, s8, 1 | 0 | 0
s_mov_b32 s8, 0 | buffer_load_dword v1, v2, s[4:7], s8 offen | 0 | 0
s_mov_b32 s8, 0 | v_mov_b32 v0, s8 | 0 | 0
v_cmpx_lt_f32 vcc, v1, v2 | flat_load_dword v3, v[4:5] | 5 | 5
v_cmpx_lt_f32 vcc, v1, v2 | ds_read_b32 v3, v4 | 0 | 0
v_readlane_b32 s8, v9, 0 | v_add_f32 v0, s8, v1 | 2 | 2
v_cmp_lt_f32 vcc, v1, v2 | v_mov_b32 v0, vcc_lo | 2 | 2
v_cmp_lt_f32 vcc, v1, v2 | v_cndmask_b32 v0, v3, v4, vcc | 2 | 2
v_cmp_lt_f32_e64 s[8:9], v1, v2 | v_cndmask_b32_e64 v0, v3, v4, s[8:9] | 2 | 2
v_cmp_lt_f32_e64 s[8:9], v1, v2 | v_cndmask_b32 v0, v3, v4, vcc | 0 | 0
v_add_co_u32 v0, vcc, v1, v2 | v_addc_co_u32 v3, vcc, v4, v5, vcc | 2 | 2
v_readlane_b32 s8, v9, 0 | v_readlane_b32 s0, v1, s8 | 4 | 4
v_readlane_b32 s8, v9, 0 | v_writelane_b32 v0, 1, s8 | 4 | 4
v_readlane_b32 s8, v9, 0 | v_writelane_b32 v0, s8, 1 | 2 | 2
v_div_scale_f32 v0, vcc, v1, v2, v1 | v_div_fmas_f32 v3, v4, v5, v6 | 4 | 4
v_div_scale_f32 v0, s[8:9], v1, v2, v1 | v_div_fmas_f32 v3, v4, v5, v6 | 0 | 0
v_cmp_lt_f32 vcc, v1, v2 | v_mov_b32 v0, src_vccz | 5 | 5
v_cmp_lt_f32 vcc, v1, v2 | s_cbranch_vccz somewhere | 0 | 0
v_cmpx_lt_f32 vcc, v1, v2 | v_mov_b32 v0, src_execz | 5 | 5
v_cmpx_lt_f32 vcc, v1, v2 | v_mov_b32 v0, exec_lo | 2 | 2
v_cmpx_lt_f32 vcc, v1, v2 | v_readlane_b32 s0, v4, 0 | 4 | 4
v_cmpx_lt_f32 vcc, v1, v2 | v_readfirstlane_b32 s0, v4 | 4 | 4
v_cmpx_lt_f32 vcc, v1, v2 | v_writelane_b32 v4, 1, 2 | 4 | 4
v_cmpx_lt_f32 vcc, v1, v2 | v_mov_b32_dpp v3, v4 row_shl:1 row_mask:0xf bank_mask:0xf | 5 | 5
v_cmpx_lt_f32 vcc, v1, v2 | v_mfma_f32_16x16x16_f16 v[8:11], v[12:13], v[14:15], 0 | 4 | 4
v_cmpx_lt_f32 vcc, v1, v2 | v_add_f32 v3, v4, v5 | 0 | 0
v_cmpx_lt_f32 vcc, v1, v2 | v_accvgpr_read_b32 v3, a0 | 0 | 0
v_cmpx_lt_f32 vcc, v1, v2 | v_permlane32_swap_b32 v3, v4 | - | 4
s_mov_b64 exec, s[0:1] | v_mov_b32_dpp v3, v4 row_shl:1 row_mask:0xf bank_mask:0xf | 0 | 0
s_mov_b64 exec, s[0:1] | v_readlane_b32 s0, v4, 0 | 0 | 0
v_mov_b32 v0, v1 | v_mov_b32_dpp v2, v0 row_shl:1 row_mask:0xf bank_mask:0xf | 2 | 2
v_mov_b32 v0, v1 | v_add_f32_dpp v0, v2, v3 row_shl:1 row_mask:0xf bank_mask:0xf | 2 | 2
ds_read_b32 v0, v1 | v_mov_b32_dpp v2, v0 row_shl:1 row_mask:0xf bank_mask:0xf | 2 | 2
v_mov_b32 v0, v1 | v_readlane_b32 s0, v0, 0 | 1 | 1
v_mov_b32 v0, v1 | v_readfirstlane_b32 s0, v0 | 1 | 1
v_mov_b32 v0, v1 | v_permlane16_swap_b32 v2, v0 | - | 2
v_permlane32_swap_b32 v0, v1 | v_mfma_f32_16x16x16_f16 v[8:11], v[0:1], v[14:15], 0 | - | 2
v_permlane32_swap_b32 v0, v1 | v_readlane_b32 s0, v1, 0 | - | 1
v_permlane32_swap_b32 v0, v1 | v_mov_b32 v2, v1 | - | 0
v_permlane32_swap_b32 v0, v1 | ds_write_b32 v2, v1 | - | 0
v_mov_b32 v0, v1 | v_mfma_f32_16x16x16_f16 v[8:11], v[0:1], v[14:15], 0 | 2 | 2
v_mov_b32 v0, v1 | v_mfma_f32_16x16x16_f16 v[8:11], v[4:5], v[14:15], v[0:3] | 2 | 2
v_accvgpr_write_b32 a0, v1 | v_mfma_f32_16x16x16_f16 a[0:3], v[4:5], v[14:15], a[0:3] | 2 | 2
v_mov_b32 v12, v1 | v_smfmac_f32_16x16x32_f16 v[0:3], v[4:5], v[8:11], v12 | 2 | 2
v_mov_b32 v0, v1 | v_smfmac_f32_16x16x32_f16 v[0:3], v[4:5], v[8:11], v12 | 2 | 2
v_mov_b32 v0, v1 | v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[14:15], 0 | 0 | 0
v_mov_b32 v0, v1 | v_add_f32 v2, v0, v0 | 0 | 0
v_mov_b32 v0, v1 | global_store_dword v[8:9], v0, off | 0 | 0
v_exp_f32 v0, v1 | v_mul_f32 v2, v0, v3 | 1 | 1
v_exp_f32 v0, v1 | v_rcp_f32 v2, v0 | 0 | 0
v_exp_f32 v0, v1 | v_mov_b32 v0, v2 | 0 | 0
v_exp_f32 v0, v1 | ds_write_b32 v2, v0 | 0 | 0
v_exp_f32 v0, v1 | v_mfma_f32_16x16x16_f16 v[8:11], v[0:1], v[14:15], 0 | 2 | 2
v_sqrt_f64 v[0:1], v[2:3] | v_mul_f64 v[4:5], v[0:1], v[6:7] | 1 | 1
v_fract_f32 v0, v1 | v_mul_f32 v2, v0, v3 | 0 | 0
v_prng_b32 v0, v1 | v_mov_b32 v2, v0 | - | 0
v_mov_b32_sdwa v0, v1 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD | v_mov_b32 v2, v0 | 1 | 1
v_mov_b32_sdwa v0, v1 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 | v_mov_b32 v2, v0 | 0 | 0
v_mad_f16 v0, v1, v2, v3 op_sel:[0,0,0,1] | v_mov_b32 v0, v4 | 1 | 1
v_mad_f16 v0, v1, v2, v3 op_sel:[1,1,1,0] | v_mov_b32 v2, v0 | 0 | 0
v_mad_f16 v0, v1, v2, v3 op_sel:[0,0,0,1] | ds_write_b32 v2, v0 | 0 | 0
v_cvt_pk_fp8_f32 v0, v1, v2 op_sel:[0,0,1] | v_cvt_pk_fp8_f32 v0, v3, v4 | 1 | 1
v_cvt_pk_fp8_f32 v0, v1, v2 | v_cvt_pk_fp8_f32 v0, v3, v4 op_sel:[0,0,1] | 1 | 1
v_cvt_pk_fp8_f32 v0, v1, v2 | v_mov_b32 v3, v0 | 0 | 0
v_cvt_sr_fp8_f32 v0, v1, v2 op_sel:[0,0,0,1] | v_mov_b32 v3, v0 | 1 | 1
v_cvt_sr_bf8_f32 v0, v1, v2 op_sel:[0,0,1,0] | v_mov_b32 v3, v0 | 1 | 1
v_cvt_sr_bf8_f32 v0, v1, v2 | v_mov_b32 v3, v0 | 0 | 0
v_cvt_scalef32_sr_pk_fp4_f32 v0, v[2:3], v4, v5 | v_mov_b32 v3, v0 | - | 1
v_cvt_scalef32_pk_fp4_f32 v0, v1, v2, v3 | v_mov_b32 v4, v0 | - | 0
v_bitop3_b16 v0, v1, v2, v3 bitop3:0x1 op_sel:[0,0,0,1] | v_mov_b32 v4, v0 | - | 1
v_fma_mixhi_f16 v0, v1, v2, v3 | v_mov_b32 v4, v0 | 1 | 1
v_fma_mixlo_f16 v0, v1, v2, v3 | v_mov_b32 v4, v0 | 0 | 0
v_pk_add_f16 v0, v1, v2 | v_mov_b32 v4, v0 | 0 | 0
v_dot4_i32_i8 v0, v1, v2, v3 | v_dot4_i32_i8 v4, v1, v2, v0 | 0 | 0
v_dot4_i32_i8 v0, v1, v2, v3 | v_dot4_i32_i8 v4, v0, v2, v3 | 3 | 3
v_dot4_i32_i8 v0, v1, v2, v3 | v_dot4_u32_u8 v4, v1, v2, v0 | 3 | 3
v_dot4_i32_i8 v0, v1, v2, v3 | v_mov_b32 v0, v4 | 3 | 3
v_dot4_i32_i8 v0, v1, v2, v3 | v_dot4_i32_i8 v0, v4, v5, v6 | 0 | 0
v_dot2c_f32_f16 v0, v1, v2 | v_dot2c_f32_f16 v0, v3, v4 | 0 | 0
v_dot2c_f32_bf16 v0, v1, v2 | v_mov_b32 v3, v0 | - | 3
v_dot4_i32_i8 v0, v1, v2, v3 | ds_write_b32 v4, v0 | 3 | 3
v_dot4_i32_i8 v0, v1, v2, v3 | ds_read_b32 v0, v4 | 3 | 3
v_dot4_i32_i8 v0, v1, v2, v3 | v_mfma_f32_16x16x16_f16 v[8:11], v[0:1], v[14:15], 0 | 3 | 3
s_setreg_b32 hwreg(HW_REG_MODE, 0, 4), s0 | s_getreg_b32 s1, hwreg(HW_REG_MODE, 4, 4) | 2 | 2
s_setreg_b32 hwreg(HW_REG_MODE, 0, 4), s0 | s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 3 | 2 | 2
s_setreg_b32 hwreg(HW_REG_MODE, 0, 4), s0 | s_getreg_b32 s1, hwreg(HW_REG_TRAPSTS) | 0 | 0
s_setreg_b32 hwreg(HW_REG_TRAPSTS), s0 | s_rfe_b64 s[2:3] | 1 | 1
s_setreg_b32 hwreg(HW_REG_MODE), s0 | v_add_f32 v0, v1, v2 | 0 | 0
s_mov_b32 m0, s0 | buffer_load_dword v0, s[4:7], 0 offen lds | 1 | 1
s_mov_b32 m0, s0 | s_sendmsg sendmsg(MSG_INTERRUPT) | 1 | 1
s_mov_b32 m0, s0 | ds_write_addtid_b32 v0 | 1 | 1
s_mov_b32 m0, s0 | ds_write_b32 v0, v1 | 0 | 0
s_mov_b32 m0, s0 | v_mov_b32 v0, m0 | 0 | 0
s_mov_b32 m0, s0 | v_readlane_b32 s1, v0, m0 | 0 | 0
buffer_load_dword v0, s[4:7], 0 offen lds | s_mov_b32 m0, s0 | 0 | 0
global_store_dwordx4 v[8:9], v[0:3], off | v_mov_b32 v0, 0 | 2 | 2
buffer_store_dwordx3 v[0:2], v9, s[4:7], 4 offen | v_mov_b32 v2, 0 | 2 | 2
buffer_store_format_xyzw v[0:3], v9, s[4:7], 0 offen | v_mfma_f32_16x16x16_f16 v[0:3], v[14:15], v[16:17], 0 | 2 | 2
global_atomic_cmpswap_x2 v[8:9], v[0:3], off | v_mov_b32 v0, 0 | 2 | 2
buffer_store_dwordx4 v[0:3], v9, s[4:7], s0 offen | v_mov_b32 v0, 0 | 1 | 1
scratch_store_dwordx4 off, v[0:3], s0 | global_load_dword v0, v[8:9], off | 1 | 1
global_store_dwordx4 v[8:9], v[0:3], off | v_mov_b32 v8, 0 | 0 | 0
global_store_dwordx2 v[8:9], v[0:1], off | v_mov_b32 v0, 0 | 0 | 0
ds_write_b128 v9, v[0:3] | v_mov_b32 v0, 0 | 0 | 0
v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[8:15], v[16:23], 0 | v_mov_b32 v4, v0 | - | 12
v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[8:13], v[16:19], 0 cbsz:2 blgp:4 | v_mov_b32 v4, v0 | - | 8
v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[8:13], v[16:23], 0 cbsz:3 blgp:1 | v_mov_b32 v4, v0 | - | 12
v_mfma_f32_32x32x64_f8f6f4 v[0:15], v[20:27], v[28:35], 0 | v_mov_b32 v40, v0 | - | 20
v_mfma_f32_32x32x64_f8f6f4 v[40:55], v[20:27], v[28:35], v[0:15] | v_mov_b32 v0, 0 | - | 15
v_mfma_f32_16x16x128_f8f6f4 v[40:43], v[8:15], v[16:23], v[0:3] | v_mov_b32 v0, 0 | - | 7
v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[8:15], v[16:23], 0 | v_mfma_f32_16x16x32_f16 v[0:3], v[8:11], v[16:19], v[0:3] | - | 10
v_mfma_f32_16x16x32_f16 v[0:3], v[4:7], v[8:11], 0 | v_mfma_scale_f32_16x16x128_f8f6f4 v[40:43], v[8:15], v[16:23], v[32:35], v3, v4 | - | 8
"""

PAIRS = [tuple(part.strip() for part in line.split(" | ")) for line in LITERALS.strip().splitlines()]
FIGURES = [(arch, producer, consumer, int(states)) for producer, consumer, *figures in PAIRS
           for arch, states in zip(("gfx942", "gfx950"), figures, strict=True) if states != "-"]
MFMA = "v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0"


def program(arch: str, text: str) -> Program:
    """Labels and instructions of a text, one a line."""
    items: list[Instruction | Label] = []
    for number, line in enumerate(text.strip().splitlines(), 1):
        line = line.strip()
        items.append(Label(line[:-1]) if line.endswith(":") else parse_instruction(line, arch, SourceLine("k.s", number)))
    return Program("k", arch, tuple(items))


def nop_counts(mended: Program) -> list[int]:
    return [int(item.operands[0]) + 1 for item in mended.instructions if item.name == "s_nop"]  # type: ignore[arg-type]


def test_there_are_enough_literals() -> None:
    assert len(FIGURES) > 240 and len(set(FIGURES)) == len(FIGURES)


@pytest.mark.parametrize(("arch", "producer", "consumer", "states"), FIGURES)
def test_literal_figures(arch: str, producer: str, consumer: str, states: int) -> None:
    assert wait_states(arch, producer, consumer) == states


@pytest.mark.parametrize(("between", "states"), [
    ((), 7), (("s_nop 0",), 6), (("s_nop 3",), 3), (("s_nop 6",), 0), (("s_nop 15",), 0), (("v_mov_b32 v20, 0", "s_waitcnt vmcnt(0)"), 5),
    (("s_barrier", "ds_read_b32 v20, v21", "s_nop 1"), 3),
    # A long matrix instruction between is one wait state, and a producer of its own.
    (("v_mfma_f32_32x32x8_f16 v[32:47], v[4:5], v[6:7], 0",), 6), (("v_mfma_f32_32x32x8_f16 v[0:15], v[20:21], v[22:23], 0",), 11),
])
def test_instructions_between(between: tuple[str, ...], states: int) -> None:
    assert wait_states("gfx942", MFMA, "v_mov_b32 v9, v3", between) == states


def test_last_of_twenty_wait_states_counts() -> None:
    """LLVM's own search ends at 19; the CDNA4 table says 20 for 16 passes."""
    pair = ("v_mfma_f32_32x32x4_2b_f16 v[0:31], v[40:41], v[42:43], 0", "v_mov_b32 v50, v31")
    assert [wait_states("gfx950", *pair, ["s_nop 15", f"s_nop {n}"]) for n in (1, 2, 3)] == [2, 1, 0]


def test_older_producer_of_the_same_register_still_counts() -> None:
    assert wait_states("gfx950", "v_mfma_f32_32x32x64_f8f6f4 v[0:15], v[20:27], v[30:37], 0", "v_mov_b32 v40, v0", [
        "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[42:43], v[44:45], 0"]) == 19


def test_wrong_text_is_refused_with_a_sentence() -> None:
    with pytest.raises(AsmgenError, match="v_add_f32"):
        wait_states("gfx942", "v_add_f32 v0, v1", "v_mov_b32 v2, v0")
    with pytest.raises(AsmgenError, match="gfx950"):
        wait_states("gfx942", "v_permlane32_swap_b32 v0, v1", "v_mov_b32 v2, v0")


def test_back_edge_and_both_sides_of_a_branch() -> None:
    looping = program("gfx942", f"""
        loop:
        v_add_f32 v9, v0, v9
        s_cmp_lg_u32 s0, 0
        s_cbranch_scc0 out
        {MFMA}
        s_branch loop
        out:
        v_mov_b32 v8, v1
        s_endpgm""")
    findings = verify(looping)
    assert [(finding.position, finding.have, finding.need) for finding in findings] == [(0, 1, 7), (5, 4, 7)]
    assert all("k.s:5" in finding.message for finding in findings)
    mended = insert(looping)
    assert nop_counts(mended) == [6]
    assert not verify(mended)


def test_shortest_path_counts() -> None:
    diamond = program("gfx950", f"""
        {MFMA}
        s_cbranch_vccz short
        s_nop 9
        short:
        v_mov_b32 v8, v1
        s_endpgm""")
    assert [(finding.have, finding.need) for finding in verify(diamond)] == [(1, 8)]
    assert nop_counts(insert(diamond)) == [10, 7]


def test_unreached_and_far_producers_are_silent() -> None:
    assert not verify(program("gfx950", f"{MFMA}\ns_endpgm\nv_mov_b32 v8, v1\ns_endpgm"))
    assert not verify(program("gfx950", f"{MFMA}\ns_nop 3\ns_nop 3\nv_mov_b32 v8, v1\ns_endpgm"))


def test_insertion_splits_long_nops_and_says_why() -> None:
    lines = "v_mfma_f32_32x32x4_2b_f16 v[0:31], v[40:41], v[42:43], 0\nv_mov_b32 v50, v31\nv_mov_b32 v51, v30\ns_endpgm"
    mended = insert(program("gfx950", lines))
    assert nop_counts(mended) == [16, 4]
    assert mended.instructions[1].reason.startswith("v31 of v_mfma_f32_32x32x4_2b_f16") and "k.s:1" in mended.instructions[1].reason
    assert not needed(mended) and insert(mended) is mended
    assert needed(program("gfx950", lines))[1][0] == 20


def test_loop_gets_no_nop_that_another_makes_superfluous() -> None:
    """The nops before the first consumer serve the second too, when the block is seen with its back-edge."""
    body = program("gfx942", f"""
        v_mov_b32 v9, 0
        loop:
        v_mov_b32 v8, v0
        v_mov_b32 v10, v1
        s_cbranch_vccz loop2
        s_endpgm
        loop2:
        {MFMA}
        s_branch loop""")
    assert nop_counts(insert(body)) == [6]


def test_match_llvm_takes_llvm_alone() -> None:
    isa_only = program("gfx942", "v_cmp_lt_f32 vcc, v1, v2\nv_mov_b32 v0, src_vccz\ns_endpgm")
    assert [finding.severity for finding in verify(isa_only)] == ["warning"]
    assert not verify(isa_only, match_llvm=True)
    artefact = program("gfx942", "v_pk_add_f16 v0, v1, v2\nv_mov_b32 v3, v0\ns_endpgm")
    assert not verify(artefact)
    assert [finding.rule for finding in verify(artefact, match_llvm=True)] == ["packed-touch"]


def test_proposals_are_independent_and_move_only_when_accepted() -> None:
    lacking = program("gfx942", f"""
        {MFMA}
        v_mov_b32 v8, v1
        v_mul_f32 v20, v21, v22
        v_mul_f32 v23, v8, v22
        s_add_u32 s0, s1, s2
        v_exp_f32 v24, v20
        ds_read_b32 v30, v31
        v_mul_f32 v25, v26, v27
        s_waitcnt lgkmcnt(0)
        v_mul_f32 v28, v26, v27
        s_endpgm""")
    offered = proposals(lacking)
    assert [lacking.instructions[proposal.candidate].text for proposal in offered] == [
        "v_mul_f32 v20, v21, v22", "s_add_u32 s0, s1, s2", "v_mul_f32 v25, v26, v27"]
    assert {proposal.position for proposal in offered} == {1}
    assert nop_counts(insert(lacking)) == [7]
    filled = insert(lacking, offered)
    assert nop_counts(filled)[0] == 4
    assert not verify(filled)
    assert sorted(item.text for item in filled.instructions if item.name != "s_nop") == sorted(item.text for item in lacking.instructions)


def test_proposal_replaces_a_nop_that_stands_there() -> None:
    waiting = program("gfx942", f"{MFMA}\ns_nop 6\nv_mov_b32 v8, v1\nv_mul_f32 v20, v21, v22\ns_endpgm")
    filled = insert(waiting, proposals(waiting))
    assert [item.text for item in filled.instructions][1:4] == ["v_mul_f32 v20, v21, v22", "s_nop 5", "v_mov_b32 v8, v1"]
    assert not verify(filled)


VOCABULARY = [
    MFMA, "v_mfma_f32_32x32x8_f16 v[0:15], v[20:21], v[22:23], v[0:15]", "v_mov_b32 v3, v9", "v_mov_b32 v9, v3", "v_exp_f32 v0, v9",
    "v_cmp_lt_f32 vcc, v0, v9", "v_readfirstlane_b32 s4, v3", "buffer_load_dword v1, v9, s[4:7], 0 offen", "s_mov_b32 m0, s4",
    "buffer_load_dword v9, s[4:7], 0 offen lds", "v_cndmask_b32 v3, v0, v9, vcc", "s_nop 2", "ds_write_b32 v9, v0",
    "global_store_dwordx4 v[8:9], v[0:3], off", "v_mov_b32_dpp v1, v3 row_shl:1 row_mask:0xf bank_mask:0xf", "s_add_u32 s4, s4, 1"]
BLOCKS = st.lists(st.tuples(st.lists(st.sampled_from(VOCABULARY), max_size=6), st.integers(0, 4), st.booleans()), min_size=1, max_size=4)


@pytest.mark.slow
@settings(max_examples=150)
@given(BLOCKS, st.sampled_from(["gfx942", "gfx950"]))
def test_random_programs_are_clean_after_insertion_and_no_nop_is_spare(blocks: list[tuple[list[str], int, bool]], arch: str) -> None:
    lines = []
    for number, (body, target, conditional) in enumerate(blocks):
        lines += [f"b{number}:", *body, f"{'s_cbranch_scc0' if conditional else 's_branch'} b{target % len(blocks)}"]
    original = program(arch, "\n".join([*lines, "s_endpgm"]))
    mended = insert(original)
    assert not verify(mended)
    assert [item.text for item in mended.instructions if not item.reason] == [item.text for item in original.instructions]
    for place, item in enumerate(mended.items):
        if isinstance(item, Instruction) and item.reason:
            # One state fewer in any inserted nop is one too few.
            count = item.operands[0]
            assert isinstance(count, int)
            fewer = [parse_instruction(f"s_nop {count - 1}", arch)] if count else []
            assert verify(mended.with_items([*mended.items[:place], *fewer, *mended.items[place + 1:]]))


# Rows in which asmgen asks for other figures than LLVM 22 (section 3.5): the ISA text alone, nobody but LLVM by mistake, or an open
# finding (docs/facts/errata.md section 2).
MORE_THAN_LLVM = {"dgemm16-valu-write-isa", "dot-mfma-read", "xdl-srcc-passes", "xdl-sgemm-srcc-class", "sgemm-srcc-passes",
                  "wide-store-load", "wide-store-soffset", "part-part", "mixhi-read", "valu-vccz", "xdl-srcc-opcode"}


@pytest.mark.slow
@pytest.mark.skipif(llvm_mir.LLC is None, reason="there is no llc")
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_llvm_agrees_on_every_pair(arch: str) -> None:
    """4,000 pairs: with `match_llvm` the same figures as LLVM's hazard recognizer, without it more only by the rows of section 3.5."""
    mir = llvm_mir.machine_code(arch)
    instructions = {text: parse_instruction(text, arch) for text in mir}
    matching, own = HazardModel(arch, match_llvm=True), HazardModel(arch)
    theirs = {text: matching.facts(instruction) for text, instruction in instructions.items()}
    ours = {text: own.facts(instruction) for text, instruction in instructions.items()}
    pairs = [(first, second) for first in mir for second in mir]
    figures = llvm_mir.wait_states(arch, [(mir[first], mir[second]) for first, second in pairs])
    assert sum(states > 0 for states in figures) > 300
    for (first, second), states in zip(pairs, figures, strict=True):
        assert matching.states(theirs[first], theirs[second]) == states, (first, second)
        mine = own.states(ours[first], ours[second])
        if mine > states:
            assert {need.rule.id for need in own.needs(ours[first], ours[second]) if need.states == mine} & MORE_THAN_LLVM, (first, second)
        elif mine < states:
            assert states == 1 and "packed_default" in matching.classes(theirs[first]), (first, second)
