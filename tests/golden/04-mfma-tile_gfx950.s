; D = A x B^T, 16 x 16 each, bf16 in, float32 out (gfx950)
;
; register plan, gfx950: 12 VGPRs (AGPRs from 12 on) + 4 AGPRs = 16 of 512, 8 waves per SIMD; 10 SGPRs
;   registers  name         kind  lines                          why
;   v0         work_item    pin   04_mfma_tile.py:28 to the end  x | y << 10 | z << 20, filled by the hardware
;   v1         into         pool  04_mfma_tile.py:42 to the end
;   v2         into.t0      pool  04_mfma_tile.py:42 to 42
;   v2         out          pool  04_mfma_tile.py:43 to the end  after 'into.t0'
;   v3         into.t1      pool  04_mfma_tile.py:42 to 42
;   v3         out.t0       pool  04_mfma_tile.py:43 to 43       after 'into.t1'
;   v4         into.t2      pool  04_mfma_tile.py:42 to 42
;   v4         out.t1       pool  04_mfma_tile.py:43 to 43       after 'into.t2'
;   v[8:9]     a            pin   04_mfma_tile.py:34 to the end  A[lane % 16, 4 * (lane / 16) + item]
;   v[10:11]   b            pin   04_mfma_tile.py:35 to the end  B in the same way
;   a[0:3]     d            pin   04_mfma_tile.py:36 to the end  D[4 * (lane / 16) + register, lane % 16]
;   s[0:1]     kernarg      pin   04_mfma_tile.py:28 to the end  where the arguments lie, filled by the hardware
;   s2         workgroup_x  pin   04_mfma_tile.py:28 to the end  filled by the hardware
;   s[4:9]     arguments    pin   04_mfma_tile.py:28 to the end  the kernel arguments, in order
	.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
	.amdhsa_code_object_version 6
	.text
	.protected k04_mfma_tile_gfx950
	.globl k04_mfma_tile_gfx950
	.p2align 8
	.type k04_mfma_tile_gfx950,@function
k04_mfma_tile_gfx950:
	s_load_dwordx4 s[4:7], s[0:1], 0
	s_load_dwordx2 s[8:9], s[0:1], 16
	v_lshrrev_b32 v2, 4, v0
	v_lshlrev_b32 v3, 5, v0
	v_and_b32 v4, 0x1e0, v3
	v_lshl_or_b32 v1, v2, 3, v4
	v_lshrrev_b32 v3, 4, v0
	v_mul_u32_u24 v4, 0xc0, v3
	v_lshl_add_u32 v2, v0, 2, v4
	s_waitcnt lgkmcnt(0)                                            ; s[4:7] of s_load_dwordx4 landed
	global_load_dwordx2 v[8:9], v1, s[4:5]
	global_load_dwordx2 v[10:11], v1, s[6:7]
	s_waitcnt vmcnt(0)                                              ; v[8:9], v[10:11] of global_load_dwordx2 landed
	v_mfma_f32_16x16x16_bf16 a[0:3], v[8:9], v[10:11], 0
	s_nop 7                                                         ; a0 of v_mfma_f32_16x16x16_bf16 a[0:3], v[8:9], v[10:11], 0 (asmgen/kernels/examples/04_mfma_tile.py:46), data or address of a memory instruction: 8 more wait states
	global_store_dword v2, a0, s[8:9]
	global_store_dword v2, a1, s[8:9] offset:64
	global_store_dword v2, a2, s[8:9] offset:128
	global_store_dword v2, a3, s[8:9] offset:192
	s_endpgm
	.size k04_mfma_tile_gfx950, .-k04_mfma_tile_gfx950
	.p2alignl 6, 0xbf800000
	.fill 256, 4, 0xbf800000
	.section .rodata,"a",@progbits
	.p2align 6
	.amdhsa_kernel k04_mfma_tile_gfx950
	  .amdhsa_group_segment_fixed_size 0
	  .amdhsa_kernarg_size 24
	  .amdhsa_user_sgpr_kernarg_segment_ptr 1
	  .amdhsa_system_sgpr_workgroup_id_x 1
	  .amdhsa_system_sgpr_workgroup_id_y 0
	  .amdhsa_system_sgpr_workgroup_id_z 0
	  .amdhsa_system_vgpr_workitem_id 0
	  .amdhsa_next_free_vgpr 16
	  .amdhsa_next_free_sgpr 10
	  .amdhsa_accum_offset 12
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
  - .agpr_count: 4
    .args:
      - .address_space: 'global'
        .name: 'a'
        .offset: 0
        .size: 8
        .value_kind: 'global_buffer'
      - .address_space: 'global'
        .name: 'b'
        .offset: 8
        .size: 8
        .value_kind: 'global_buffer'
      - .address_space: 'global'
        .name: 'd'
        .offset: 16
        .size: 8
        .value_kind: 'global_buffer'
    .group_segment_fixed_size: 0
    .kernarg_segment_align: 8
    .kernarg_segment_size: 24
    .max_flat_workgroup_size: 64
    .name: 'k04_mfma_tile_gfx950'
    .private_segment_fixed_size: 0
    .reqd_workgroup_size:
      - 64
      - 1
      - 1
    .sgpr_count: 16
    .sgpr_spill_count: 0
    .symbol: 'k04_mfma_tile_gfx950.kd'
    .uses_dynamic_stack: false
    .vgpr_count: 16
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target: 'amdgcn-amd-amdhsa--gfx950'
amdhsa.version:
  - 1
  - 2
...
	.end_amdgpu_metadata
