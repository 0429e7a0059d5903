; d[i] = sum over j of x[i, j], float32 (gfx950)
;
; register plan, gfx950: 4 VGPRs of 256, 8 waves per SIMD; 16 SGPRs
;   registers  name         kind  lines                        why
;   v0         work_item    pin   02_row_sum.py:28 to the end  x | y << 10 | z << 20, filled by the hardware
;   v1         total        pool  02_row_sum.py:32 to the end
;   v2         x            pool  02_row_sum.py:32 to the end
;   v3         at           pool  02_row_sum.py:32 to the end
;   s[0:1]     kernarg      pin   02_row_sum.py:28 to the end  where the arguments lie, filled by the hardware
;   s2         workgroup_x  pin   02_row_sum.py:28 to the end  filled by the hardware
;   s3         byte         pool  02_row_sum.py:33 to the end  where in the row the wave is
;   s[4:8]     arguments    pin   02_row_sum.py:28 to the end  the kernel arguments, in order
;   s[12:15]   row          pool  02_row_sum.py:33 to the end  descriptor
	.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
	.amdhsa_code_object_version 6
	.text
	.protected k02_row_sum_gfx950
	.globl k02_row_sum_gfx950
	.p2align 8
	.type k02_row_sum_gfx950,@function
k02_row_sum_gfx950:
	s_load_dwordx4 s[4:7], s[0:1], 0
	s_load_dword s8, s[0:1], 16
	v_lshlrev_b32 v3, 2, v0
	v_mov_b32 v1, 0
	s_mov_b32 s3, 0
	s_waitcnt lgkmcnt(0)                                            ; s8 of s_load_dword landed
	s_lshl_b32 s14, s8, 2
	s_mov_b32 s15, 0x20000
	s_mul_i32 s12, s2, s14
	s_mul_hi_u32 s13, s2, s14
	s_add_u32 s12, s12, s4
	s_addc_u32 s13, s13, s5
loop:
	v_add_u32 v2, s3, v3
	buffer_load_dword v2, v2, s[12:15], 0 offen
	s_waitcnt vmcnt(0)                                              ; v2 of buffer_load_dword landed
	v_add_f32 v1, v2, v1
	s_add_u32 s3, s3, 0x100
	s_cmp_lt_u32 s3, s14
	s_cbranch_scc1 loop
	v_add_f32_dpp v1, v1, v1 row_shr:1 bound_ctrl:1
	s_nop 1                                                         ; v1 of v_add_f32_dpp v1, v1, v1 row_shr:1 bound_ctrl:1 (asmgen/kernels/examples/02_row_sum.py:51), read across lanes by a DPP instruction: 2 more wait states
	v_add_f32_dpp v1, v1, v1 row_shr:2 bound_ctrl:1
	s_nop 1                                                         ; v1 of v_add_f32_dpp v1, v1, v1 row_shr:2 bound_ctrl:1 (asmgen/kernels/examples/02_row_sum.py:51), read across lanes by a DPP instruction: 2 more wait states
	v_add_f32_dpp v1, v1, v1 row_shr:4 bound_ctrl:1
	s_nop 1                                                         ; v1 of v_add_f32_dpp v1, v1, v1 row_shr:4 bound_ctrl:1 (asmgen/kernels/examples/02_row_sum.py:51), read across lanes by a DPP instruction: 2 more wait states
	v_add_f32_dpp v1, v1, v1 row_shr:8 bound_ctrl:1
	s_nop 1                                                         ; v1 of v_add_f32_dpp v1, v1, v1 row_shr:8 bound_ctrl:1 (asmgen/kernels/examples/02_row_sum.py:51), read across lanes by a DPP instruction: 2 more wait states
	v_add_f32_dpp v1, v1, v1 row_bcast:15 row_mask:0xa
	s_nop 1                                                         ; v1 of v_add_f32_dpp v1, v1, v1 row_bcast:15 row_mask:0xa (asmgen/kernels/examples/02_row_sum.py:52), read across lanes by a DPP instruction: 2 more wait states
	v_add_f32_dpp v1, v1, v1 row_bcast:31 row_mask:0xc
	s_lshl_b32 s3, s2, 2
	v_mov_b32 v3, s3
	s_bfm_b64 exec, 1, 63
	global_store_dword v3, v1, s[6:7]
	s_endpgm
	.size k02_row_sum_gfx950, .-k02_row_sum_gfx950
	.p2alignl 6, 0xbf800000
	.fill 256, 4, 0xbf800000
	.section .rodata,"a",@progbits
	.p2align 6
	.amdhsa_kernel k02_row_sum_gfx950
	  .amdhsa_group_segment_fixed_size 0
	  .amdhsa_kernarg_size 20
	  .amdhsa_user_sgpr_kernarg_segment_ptr 1
	  .amdhsa_system_sgpr_workgroup_id_x 1
	  .amdhsa_system_sgpr_workgroup_id_y 0
	  .amdhsa_system_sgpr_workgroup_id_z 0
	  .amdhsa_system_vgpr_workitem_id 0
	  .amdhsa_next_free_vgpr 4
	  .amdhsa_next_free_sgpr 16
	  .amdhsa_accum_offset 4
	  .amdhsa_float_round_mode_32 0
	  .amdhsa_float_round_mode_16_64 0
	  .amdhsa_float_denorm_mode_32 0
	  .amdhsa_float_denorm_mode_16_64 3
	  .amdhsa_dx10_clamp 1
	  .amdhsa_ieee_mode 1
	  .amdhsa_fp16_overflow 0
	  .amdhsa_tg_split 0
	.end_amdhsa_kernel
	.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count: 0
    .args:
      - .address_space: 'global'
        .name: 'x'
        .offset: 0
        .size: 8
        .value_kind: 'global_buffer'
      - .address_space: 'global'
        .name: 'd'
        .offset: 8
        .size: 8
        .value_kind: 'global_buffer'
      - .name: 'n'
        .offset: 16
        .size: 4
        .value_kind: 'by_value'
    .group_segment_fixed_size: 0
    .kernarg_segment_align: 8
    .kernarg_segment_size: 20
    .max_flat_workgroup_size: 64
    .name: 'k02_row_sum_gfx950'
    .private_segment_fixed_size: 0
    .reqd_workgroup_size:
      - 64
      - 1
      - 1
    .sgpr_count: 22
    .sgpr_spill_count: 0
    .symbol: 'k02_row_sum_gfx950.kd'
    .uses_dynamic_stack: false
    .vgpr_count: 4
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target: 'amdgcn-amd-amdhsa--gfx950'
amdhsa.version:
  - 1
  - 2
...
	.end_amdgpu_metadata
