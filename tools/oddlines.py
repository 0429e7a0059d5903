"""The lines of odd programs by kind, with places in braces that choices fill: every way to write EXEC and M0, LDS of all kinds, and more.

All are legal for the assembler with whatever choice; those under "gfx950" for that one alone.
"""

CHOICES: dict[str, tuple[str, ...]] = {
    "pair": ("s[4:5]", "s[6:7]", "s[8:9]", "vcc"),
    "wide": ("s[4:5]", "s[6:7]", "s[8:9]", "vcc", "exec", "0", "1", "-1", "-16", "64", "0x1234", "0xfffffff0", "0x80000000", "1.0", "-4.0"),
    "any_pair": ("s[4:5]", "s[6:7]", "s[8:9]", "vcc", "exec", "s[100:101]", "flat_scratch", "xnack_mask", "ttmp[4:5]"),
    "word": ("s4", "s5", "s6", "s9", "s16", "vcc_lo", "vcc_hi"),
    "any_word": ("s4", "s5", "s6", "s9", "s16", "vcc_lo", "vcc_hi", "m0", "exec_lo", "exec_hi"),
    "half": ("exec_lo", "exec_hi"),
    "constant": ("0", "1", "-1", "-16", "64", "0x1234", "0xfffffff0", "0x80000000", "1.0", "-4.0", "0x3fffc"),
    "small": ("0", "3", "31", "32", "63", "-1", "s5", "m0"),
    "special": ("src_vccz", "src_execz", "src_scc", "src_shared_base", "src_private_limit"),
    "logic": ("and", "or", "xor", "andn2", "orn2", "nand", "nor", "xnor"),
    "saved": ("and", "or", "xor", "andn2", "orn2", "nand", "nor", "xnor", "andn1", "orn1"),
    "relation": ("eq", "lt", "ne", "ge", "t", "f"),
    "ordered": ("eq", "lg", "lt", "ge"),
    "kind": ("u32", "i32"),
    "mask": ("vcc", "exec", "s[6:7]", "s[8:9]"),
    "address": ("v1", "v1", "v1", "v2", "v0", "v9"),
    "target": ("v1", "v2", "v3"),
    "offset": ("", " offset:16", " offset:1024", " offset:65535"),
    "two": ("", " offset0:1 offset1:3", " offset1:255"),
    "scalar": ("s4", "s5", "s6", "s9", "s16", "vcc_lo"),
    "condition": ("scc0", "scc1", "vccz", "vccnz", "execz", "execnz"),
    "few": ("0", "1", "2", "3"),
}

_EXEC = """\
s_mov_b64 exec, {wide}
s_mov_b64 exec, {special}
s_mov_b64 exec, 0
s_mov_b64 exec, -1
s_mov_b64 exec, 1
s_mov_b64 {pair}, exec
s_mov_b64 exec, {any_pair}
s_not_b64 exec, {wide}
s_{logic}_b64 exec, {pair}, {wide}
s_{logic}_b64 exec, exec, {pair}
s_{logic}_b64 {pair}, exec, {any_pair}
s_{saved}_saveexec_b64 {pair}, {wide}
s_{saved}_saveexec_b64 exec, {pair}
s_andn1_wrexec_b64 {pair}, {wide}
s_andn2_wrexec_b64 {pair}, {wide}
s_mov_b32 {half}, {any_word}
s_mov_b32 {half}, {constant}
s_{logic}_b32 {half}, {half}, {word}
s_wqm_b64 exec, {pair}
s_quadmask_b64 exec, {pair}
s_cselect_b64 exec, {pair}, {wide}
s_cselect_b32 {half}, {word}, {constant}
s_cmov_b64 exec, {wide}
s_cmov_b32 {half}, {word}
s_cmovk_i32 {half}, 0x11
s_movk_i32 {half}, -2
s_bfm_b64 exec, {word}, {constant}
s_bfm_b64 exec, s5, {small}
s_bfm_b32 {half}, s5, 3
s_lshl_b64 exec, {wide}, {small}
s_lshr_b64 exec, -1, {small}
s_ashr_i64 exec, {pair}, {small}
s_brev_b64 exec, {pair}
s_bitset1_b64 exec, {word}
s_bitset0_b32 {half}, 4
s_bfe_u64 exec, {pair}, 0x100004
s_bfe_i64 exec, exec, 0x200010
s_bitreplicate_b64_b32 exec, {word}
s_getpc_b64 exec
s_add_u32 {half}, {half}, 1
s_mul_i32 {half}, {word}, 3
s_movrels_b64 exec, {pair}
s_load_dwordx2 vcc, s[0:1], 0
v_cmpx_{relation}_{kind} {mask}, 2, v1
v_cmpx_{relation}_u64 {mask}, v[4:5], v[6:7]
v_cmpx_class_f32 vcc, v1, v2
v_cmpx_lt_i16 vcc, v1, v2
v_cmp_{relation}_{kind} {mask}, s4, v1
v_readlane_b32 {word}, v1, {few}
v_readfirstlane_b32 {word}, v1
v_div_scale_f32 v3, vcc, v1, v2, v1
v_add_co_u32 v3, {mask}, v1, v2"""

_M0 = """\
s_mov_b32 m0, {any_word}
s_mov_b32 m0, {constant}
s_mov_b32 m0, {special}
s_movk_i32 m0, 64
s_movk_i32 m0, -1
s_add_u32 m0, s16, {any_word}
s_add_u32 m0, m0, 0x400
s_addk_i32 m0, 16
s_lshl_b32 m0, s4, {small}
s_lshl_b32 m0, s4, 10
s_cselect_b32 m0, {word}, {constant}
s_cmov_b32 m0, {word}
s_sub_u32 m0, 0, m0
s_bfe_u32 m0, {word}, 0x50003
s_mov_b32 m0, 0xffff0000
s_mul_i32 m0, s4, 0x440
s_ff1_i32_b64 m0, {any_pair}
s_bcnt1_i32_b64 m0, exec
s_movrels_b32 m0, s20"""

_LDS = """\
ds_read_b32 v3, {address}{offset}
ds_read_b32 v3, {address}{offset}
ds_read_b64 v[4:5], {address}{offset}
ds_read_b128 v[4:7], {address}{offset}
ds_read_b96 a[4:6], {address}{offset}
ds_read2_b32 v[4:5], {address}{two}
ds_read2st64_b64 v[4:7], {address}{two}
ds_write_b32 {address}, v3{offset}
ds_write_b128 {address}, v[4:7]{offset}
ds_write2_b64 {address}, v[4:5], v[6:7]{two}
ds_write2st64_b32 {address}, a3, a4{two}
ds_write_b8_d16_hi {address}, v3{offset}
ds_read_u16_d16 v3, {address}{offset}
ds_add_u32 {address}, v3{offset}
ds_add_rtn_f32 v3, {address}, v4{offset}
ds_cmpst_rtn_b64 v[4:5], {address}, v[6:7], v[8:9]
ds_wrxchg2_rtn_b32 v[4:5], {address}, v6, v7{two}
ds_wrap_rtn_b32 v3, {address}, v4, v5
ds_condxchg32_rtn_b64 v[4:5], {address}, v[6:7]
ds_pk_add_bf16 {address}, v3
ds_read_addtid_b32 v3{offset}
ds_write_addtid_b32 v3{offset}
ds_permute_b32 v3, {address}, v4
ds_bpermute_b32 v3, {address}, v4{offset}
ds_swizzle_b32 v3, v4 offset:0x8055
ds_append v3{offset}
ds_consume v3{offset}
ds_gws_barrier v0 gds
ds_gws_init v0 offset:1 gds
ds_gws_sema_p gds
ds_nop
buffer_load_dword {address}, s[8:11], 0 offen lds
buffer_load_dword off, s[8:11], {small} lds
buffer_load_ubyte v[0:1], s[8:11], s5 idxen offen lds
buffer_load_dword {address}, s[8:11], s5 idxen offset:4095 lds
global_load_lds_dword v[2:3], off
global_load_lds_dword v1, s[8:9] offset:-16
global_load_lds_ushort v1, vcc
scratch_load_lds_dword v1, off"""

_MEMORY = """\
global_load_dwordx4 v[4:7], v[2:3], off
global_store_dwordx2 v1, v[4:5], s[8:9] offset:-8
flat_load_dword v3, v[2:3]
flat_store_dwordx3 v[2:3], a[4:6]
flat_atomic_add v3, v[4:5], v6 sc0
scratch_load_dword v3, off, s5
scratch_store_dword v1, v3, off
scratch_load_dwordx4 a[0:3], v1, s5 offset:-4
buffer_load_dwordx4 v[4:7], v1, s[8:11], 0 offen offset:16
buffer_store_short_d16_hi v3, off, s[8:11], s5
buffer_atomic_cmpswap v[4:5], v1, s[8:11], 0 idxen sc0
tbuffer_load_format_xyzw v[4:7], v1, s[8:11], 0 idxen
global_atomic_pk_add_bf16 v1, v3, s[8:9]
buffer_wbl2 sc1
buffer_inv sc1
s_dcache_wb
s_load_dwordx8 s[24:31], s[0:1], s5
s_buffer_load_dwordx16 s[36:51], s[8:11], 0x40
s_store_dword s5, s[8:9], 0x10
s_atomic_add s5, s[8:9], 0x10 glc
s_scratch_load_dword s5, s[8:9], 0
s_memtime s[6:7]"""

_MATRIX = """\
v_mfma_f32_16x16x16_bf16 a[0:3], v[4:5], v[6:7], a[0:3]
v_mfma_f32_32x32x8_f16 v[16:31], a[4:5], v[6:7], 0
v_mfma_f64_16x16x4_f64 v[16:23], v[4:5], v[6:7], v[16:23] neg:[1,0,0]
v_mfma_f32_4x4x4_16b_f16 a[0:3], v[4:5], v[6:7], 1.0 cbsz:2 abid:1
v_mfma_i32_16x16x32_i8 v[16:19], v[4:5], v[6:7], v[16:19]
v_smfmac_f32_32x32x16_f16 a[0:15], v[4:5], v[8:11], v1 cbsz:1
v_accvgpr_read_b32 v3, a0
v_accvgpr_write_b32 a1, v3
v_accvgpr_write_b32 a1, 1.0
v_accvgpr_mov_b32 a2, a3"""

_VECTOR = """\
v_mov_b32 {target}, {any_word}
v_mov_b32 {target}, 1.0
v_lshlrev_b32 {target}, 2, v0
v_add_u32 {target}, {any_word}, v1
v_mbcnt_lo_u32_b32 {target}, -1, 0
v_mbcnt_lo_u32_b32 {target}, exec_lo, 0
v_mbcnt_hi_u32_b32 {target}, exec_hi, {target}
v_cndmask_b32 {target}, v1, v2, {mask}
v_mov_b32_dpp {target}, v1 row_shr:1 row_mask:0xf bank_mask:0xf
v_add_f32_dpp {target}, v1, v2 quad_perm:[1,0,3,2] row_mask:0x3 bank_mask:0xf bound_ctrl:0
v_mov_b32_sdwa {target}, v1 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1
v_cmp_eq_u32_sdwa {pair}, v1, v2 src0_sel:BYTE_0 src1_sel:DWORD
v_cmp_lt_u32 {mask}, {any_word}, v1
v_mad_u32_u24 {target}, v1, {word}, v2
v_writelane_b32 {target}, {any_word}, 3
v_writelane_b32 {target}, s5, m0
v_mov_b64 v[4:5], {any_pair}
v_lshl_or_b32 {target}, v1, 4, {any_word}
v_readfirstlane_b32 {word}, {target}
v_pk_fma_f32 v[4:5], v[6:7], {any_pair}, v[8:9]
v_swap_b32 v3, v4
v_nop
v_min_u32 {target}, 0xff, v1
v_bfe_u32 {target}, v0, 10, 10"""

_SCALAR = """\
s_mov_b32 {scalar}, {any_word}
s_mov_b32 {scalar}, {constant}
s_cmp_{ordered}_{kind} {any_word}, {constant}
s_add_u32 {scalar}, {any_word}, {scalar}
s_addc_u32 {scalar}, {any_word}, 0
s_bitcmp1_b32 {any_word}, {scalar}
s_xor_b32 {scalar}, {scalar}, {any_word}
s_mov_b64 {pair}, {any_pair}
s_{logic}_b64 {pair}, {any_pair}, {pair}
s_cmp_lg_u64 {any_pair}, 0
s_cmpk_eq_u32 {scalar}, 0xffff
s_getreg_b32 {scalar}, hwreg(HW_REG_HW_ID)
s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 3
s_setprio {few}
s_nop {few}
s_sleep {few}
s_sethalt 0
s_trap 2
s_sendmsg sendmsg(MSG_INTERRUPT)
s_set_gpr_idx_on s5, 3
s_set_gpr_idx_off
s_set_gpr_idx_idx s5
s_wakeup"""

_WAITS = """\
s_barrier
s_barrier
s_waitcnt 0
s_waitcnt vmcnt(3)
s_waitcnt lgkmcnt(0)
s_waitcnt vmcnt(0) lgkmcnt(2)
s_waitcnt 0xffff"""

_GFX950 = {"lds": """\
ds_read_b64_tr_b16 v[4:5], {address}{offset}
ds_read_b96_tr_b6 v[4:6], {address}
buffer_load_dwordx4 {address}, s[8:11], 0 offen lds
global_load_lds_dwordx3 v[2:3], off""", "matrix": """\
v_mfma_scale_f32_16x16x128_f8f6f4 v[16:19], v[32:39], v[40:47], v[16:19], v1, v2 op_sel_hi:[0,0,0]
v_mfma_scale_f32_32x32x64_f8f6f4 a[0:15], v[32:37], v[40:43], a[0:15], v1, v2 op_sel_hi:[0,0,0] cbsz:2 blgp:4
v_mfma_f32_32x32x16_bf16 a[0:15], v[4:7], v[8:11], a[0:15]
v_smfmac_f32_16x16x64_bf16 a[0:3], v[4:7], v[8:15], v1
v_permlane32_swap_b32 v3, v4
v_cvt_scalef32_pk_fp4_f32 v3, v1, v2, v4"""}

_ALL = {"exec": _EXEC, "m0": _M0, "lds": _LDS, "memory": _MEMORY, "matrix": _MATRIX, "vector": _VECTOR, "scalar": _SCALAR, "waits": _WAITS}


def lines_of(kind: str, arch: str) -> list[str]:
    """The lines of a kind that an architecture has."""
    return _ALL[kind].splitlines() + (_GFX950.get(kind, "").splitlines() if arch == "gfx950" else [])
