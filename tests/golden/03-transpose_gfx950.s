; d[j, i] = x[i, j], float32 (gfx950)
;
; register plan, gfx950: 24 VGPRs of 256, 8 waves per SIMD; 14 SGPRs
;   registers  name         kind  lines                          why
;   v0         work_item    pin   03_transpose.py:29 to the end  x | y << 10 | z << 20, filled by the hardware
;   v1         at           pool  03_transpose.py:33 to the end
;   v[2:17]    x            pool  03_transpose.py:33 to the end
;   v[18:19]   byte         pool  03_transpose.py:34 to the end
;   v20        lane         pool  03_transpose.py:35 to the end
;   v21        number       pool  03_transpose.py:35 to 35
;   v21        into         pool  03_transpose.py:35 to the end  after 'number'
;   v22        into.t1      pool  03_transpose.py:35 to 35
;   v22        out          pool  03_transpose.py:36 to the end  after 'into.t1'
;   v23        out.t1       pool  03_transpose.py:36 to 36
;   s[0:1]     kernarg      pin   03_transpose.py:29 to the end  where the arguments lie, filled by the hardware
;   s2         workgroup_x  pin   03_transpose.py:29 to the end  filled by the hardware
;   s3         workgroup_y  pin   03_transpose.py:29 to the end  filled by the hardware
;   s[4:9]     arguments    pin   03_transpose.py:29 to the end  the kernel arguments, in order
;   s[10:11]   step         pool  03_transpose.py:34 to the end
;   s12        wave         pool  03_transpose.py:35 to the end
;   s13        into.t0      pool  03_transpose.py:35 to 35
;   s13        out.t0       pool  03_transpose.py:36 to 36       after 'into.t0'
;   s13        run          pool  03_transpose.py:38 to 38       after 'out.t0'
;   s13        run          pool  03_transpose.py:38 to 38       after 'out.t0'
;
; LDS map
; 0x00000:0x04000   16384 bytes  tile
	.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
	.amdhsa_code_object_version 6
	.text
	.protected k03_transpose_gfx950
	.globl k03_transpose_gfx950
	.p2align 8
	.type k03_transpose_gfx950,@function
k03_transpose_gfx950:
	s_load_dwordx4 s[4:7], s[0:1], 0
	s_load_dwordx2 s[8:9], s[0:1], 16
	v_lshrrev_b32 v21, 6, v0
	s_nop 0                                                         ; v21 of v_lshrrev_b32 v21, 6, v0 (asmgen/kernels/examples/03_transpose.py:35), read across lanes: 1 more wait state
	v_readfirstlane_b32 s12, v21
	v_and_b32 v20, 63, v0
	s_mul_i32 s13, s12, 0x1040
	v_lshlrev_b32 v22, 2, v20
	v_xor_b32 v21, s13, v22
	s_lshl_b32 s13, s12, 6
	v_mul_u32_u24 v23, 0x104, v20
	v_xor_b32 v22, s13, v23
	s_lshl2_add_u32 s13, s3, s12
	s_waitcnt lgkmcnt(0)                                            ; s[8:9] of s_load_dwordx2 landed
	s_mul_i32 s13, s13, s9
	s_lshl2_add_u32 s13, s2, s13
	v_lshlrev_b32 v18, 2, v20
	v_lshl_add_u32 v18, s13, 6, v18
	s_lshl_b32 s10, s9, 2
	s_lshl2_add_u32 s13, s2, s12
	s_mul_i32 s13, s13, s8
	s_lshl2_add_u32 s13, s3, s13
	v_lshlrev_b32 v19, 2, v20
	v_lshl_add_u32 v19, s13, 6, v19
	s_lshl_b32 s11, s8, 2
	global_load_dword v2, v18, s[4:5]
	v_add_u32 v18, s10, v18
	global_load_dword v3, v18, s[4:5]
	v_add_u32 v18, s10, v18
	global_load_dword v4, v18, s[4:5]
	v_add_u32 v18, s10, v18
	global_load_dword v5, v18, s[4:5]
	v_add_u32 v18, s10, v18
	global_load_dword v6, v18, s[4:5]
	v_add_u32 v18, s10, v18
	global_load_dword v7, v18, s[4:5]
	v_add_u32 v18, s10, v18
	global_load_dword v8, v18, s[4:5]
	v_add_u32 v18, s10, v18
	global_load_dword v9, v18, s[4:5]
	v_add_u32 v18, s10, v18
	global_load_dword v10, v18, s[4:5]
	v_add_u32 v18, s10, v18
	global_load_dword v11, v18, s[4:5]
	v_add_u32 v18, s10, v18
	global_load_dword v12, v18, s[4:5]
	v_add_u32 v18, s10, v18
	global_load_dword v13, v18, s[4:5]
	v_add_u32 v18, s10, v18
	global_load_dword v14, v18, s[4:5]
	v_add_u32 v18, s10, v18
	global_load_dword v15, v18, s[4:5]
	v_add_u32 v18, s10, v18
	global_load_dword v16, v18, s[4:5]
	v_add_u32 v18, s10, v18
	global_load_dword v17, v18, s[4:5]
	v_add_u32 v18, s10, v18
	s_waitcnt vmcnt(15)                                             ; v2 of global_load_dword landed, 15 newer vector-memory operations in flight
	ds_write_b32 v21, v2                                            ; lds write tile 0x0:0x4000
	v_xor_b32 v1, 0x104, v21
	s_waitcnt vmcnt(14)                                             ; v3 of global_load_dword landed, 14 newer vector-memory operations in flight
	ds_write_b32 v1, v3                                             ; lds write tile 0x0:0x4000
	v_xor_b32 v1, 0x208, v21
	s_waitcnt vmcnt(13)                                             ; v4 of global_load_dword landed, 13 newer vector-memory operations in flight
	ds_write_b32 v1, v4                                             ; lds write tile 0x0:0x4000
	v_xor_b32 v1, 0x30c, v21
	s_waitcnt vmcnt(12)                                             ; v5 of global_load_dword landed, 12 newer vector-memory operations in flight
	ds_write_b32 v1, v5                                             ; lds write tile 0x0:0x4000
	v_xor_b32 v1, 0x410, v21
	s_waitcnt vmcnt(11)                                             ; v6 of global_load_dword landed, 11 newer vector-memory operations in flight
	ds_write_b32 v1, v6                                             ; lds write tile 0x0:0x4000
	v_xor_b32 v1, 0x514, v21
	s_waitcnt vmcnt(10)                                             ; v7 of global_load_dword landed, 10 newer vector-memory operations in flight
	ds_write_b32 v1, v7                                             ; lds write tile 0x0:0x4000
	v_xor_b32 v1, 0x618, v21
	s_waitcnt vmcnt(9)                                              ; v8 of global_load_dword landed, 9 newer vector-memory operations in flight
	ds_write_b32 v1, v8                                             ; lds write tile 0x0:0x4000
	v_xor_b32 v1, 0x71c, v21
	s_waitcnt vmcnt(8)                                              ; v9 of global_load_dword landed, 8 newer vector-memory operations in flight
	ds_write_b32 v1, v9                                             ; lds write tile 0x0:0x4000
	v_xor_b32 v1, 0x820, v21
	s_waitcnt vmcnt(7)                                              ; v10 of global_load_dword landed, 7 newer vector-memory operations in flight
	ds_write_b32 v1, v10                                            ; lds write tile 0x0:0x4000
	v_xor_b32 v1, 0x924, v21
	s_waitcnt vmcnt(6)                                              ; v11 of global_load_dword landed, 6 newer vector-memory operations in flight
	ds_write_b32 v1, v11                                            ; lds write tile 0x0:0x4000
	v_xor_b32 v1, 0xa28, v21
	s_waitcnt vmcnt(5)                                              ; v12 of global_load_dword landed, 5 newer vector-memory operations in flight
	ds_write_b32 v1, v12                                            ; lds write tile 0x0:0x4000
	v_xor_b32 v1, 0xb2c, v21
	s_waitcnt vmcnt(4)                                              ; v13 of global_load_dword landed, 4 newer vector-memory operations in flight
	ds_write_b32 v1, v13                                            ; lds write tile 0x0:0x4000
	v_xor_b32 v1, 0xc30, v21
	s_waitcnt vmcnt(3)                                              ; v14 of global_load_dword landed, 3 newer vector-memory operations in flight
	ds_write_b32 v1, v14                                            ; lds write tile 0x0:0x4000
	v_xor_b32 v1, 0xd34, v21
	s_waitcnt vmcnt(2)                                              ; v15 of global_load_dword landed, 2 newer vector-memory operations in flight
	ds_write_b32 v1, v15                                            ; lds write tile 0x0:0x4000
	v_xor_b32 v1, 0xe38, v21
	s_waitcnt vmcnt(1)                                              ; v16 of global_load_dword landed, 1 newer vector-memory operation in flight
	ds_write_b32 v1, v16                                            ; lds write tile 0x0:0x4000
	v_xor_b32 v1, 0xf3c, v21
	s_waitcnt vmcnt(0)                                              ; v17 of global_load_dword landed
	ds_write_b32 v1, v17                                            ; lds write tile 0x0:0x4000
	s_waitcnt lgkmcnt(0)                                            ; tile of ds_write_b32 landed
	s_barrier
	ds_read_b32 v2, v22                                             ; lds read tile 0x0:0x4000
	v_xor_b32 v1, 4, v22
	ds_read_b32 v3, v1                                              ; lds read tile 0x0:0x4000
	v_xor_b32 v1, 8, v22
	ds_read_b32 v4, v1                                              ; lds read tile 0x0:0x4000
	v_xor_b32 v1, 12, v22
	ds_read_b32 v5, v1                                              ; lds read tile 0x0:0x4000
	v_xor_b32 v1, 16, v22
	ds_read_b32 v6, v1                                              ; lds read tile 0x0:0x4000
	v_xor_b32 v1, 20, v22
	ds_read_b32 v7, v1                                              ; lds read tile 0x0:0x4000
	v_xor_b32 v1, 24, v22
	ds_read_b32 v8, v1                                              ; lds read tile 0x0:0x4000
	v_xor_b32 v1, 28, v22
	ds_read_b32 v9, v1                                              ; lds read tile 0x0:0x4000
	v_xor_b32 v1, 32, v22
	ds_read_b32 v10, v1                                             ; lds read tile 0x0:0x4000
	v_xor_b32 v1, 36, v22
	ds_read_b32 v11, v1                                             ; lds read tile 0x0:0x4000
	v_xor_b32 v1, 40, v22
	ds_read_b32 v12, v1                                             ; lds read tile 0x0:0x4000
	v_xor_b32 v1, 44, v22
	ds_read_b32 v13, v1                                             ; lds read tile 0x0:0x4000
	v_xor_b32 v1, 48, v22
	ds_read_b32 v14, v1                                             ; lds read tile 0x0:0x4000
	v_xor_b32 v1, 52, v22
	ds_read_b32 v15, v1                                             ; lds read tile 0x0:0x4000
	v_xor_b32 v1, 56, v22
	ds_read_b32 v16, v1                                             ; lds read tile 0x0:0x4000
	v_xor_b32 v1, 60, v22
	ds_read_b32 v17, v1                                             ; lds read tile 0x0:0x4000
	s_waitcnt lgkmcnt(14)                                           ; v2 of ds_read_b32 landed, 14 newer LDS operations in flight
	global_store_dword v19, v2, s[6:7]
	v_add_u32 v19, s11, v19
	global_store_dword v19, v3, s[6:7]
	v_add_u32 v19, s11, v19
	s_waitcnt lgkmcnt(13)                                           ; v4 of ds_read_b32 landed, 13 newer LDS operations in flight
	global_store_dword v19, v4, s[6:7]
	v_add_u32 v19, s11, v19
	s_waitcnt lgkmcnt(12)                                           ; v5 of ds_read_b32 landed, 12 newer LDS operations in flight
	global_store_dword v19, v5, s[6:7]
	v_add_u32 v19, s11, v19
	s_waitcnt lgkmcnt(11)                                           ; v6 of ds_read_b32 landed, 11 newer LDS operations in flight
	global_store_dword v19, v6, s[6:7]
	v_add_u32 v19, s11, v19
	s_waitcnt lgkmcnt(10)                                           ; v7 of ds_read_b32 landed, 10 newer LDS operations in flight
	global_store_dword v19, v7, s[6:7]
	v_add_u32 v19, s11, v19
	s_waitcnt lgkmcnt(9)                                            ; v8 of ds_read_b32 landed, 9 newer LDS operations in flight
	global_store_dword v19, v8, s[6:7]
	v_add_u32 v19, s11, v19
	s_waitcnt lgkmcnt(8)                                            ; v9 of ds_read_b32 landed, 8 newer LDS operations in flight
	global_store_dword v19, v9, s[6:7]
	v_add_u32 v19, s11, v19
	s_waitcnt lgkmcnt(7)                                            ; v10 of ds_read_b32 landed, 7 newer LDS operations in flight
	global_store_dword v19, v10, s[6:7]
	v_add_u32 v19, s11, v19
	s_waitcnt lgkmcnt(6)                                            ; v11 of ds_read_b32 landed, 6 newer LDS operations in flight
	global_store_dword v19, v11, s[6:7]
	v_add_u32 v19, s11, v19
	s_waitcnt lgkmcnt(5)                                            ; v12 of ds_read_b32 landed, 5 newer LDS operations in flight
	global_store_dword v19, v12, s[6:7]
	v_add_u32 v19, s11, v19
	s_waitcnt lgkmcnt(4)                                            ; v13 of ds_read_b32 landed, 4 newer LDS operations in flight
	global_store_dword v19, v13, s[6:7]
	v_add_u32 v19, s11, v19
	s_waitcnt lgkmcnt(3)                                            ; v14 of ds_read_b32 landed, 3 newer LDS operations in flight
	global_store_dword v19, v14, s[6:7]
	v_add_u32 v19, s11, v19
	s_waitcnt lgkmcnt(2)                                            ; v15 of ds_read_b32 landed, 2 newer LDS operations in flight
	global_store_dword v19, v15, s[6:7]
	v_add_u32 v19, s11, v19
	s_waitcnt lgkmcnt(1)                                            ; v16 of ds_read_b32 landed, 1 newer LDS operation in flight
	global_store_dword v19, v16, s[6:7]
	v_add_u32 v19, s11, v19
	s_waitcnt lgkmcnt(0)                                            ; v17 of ds_read_b32 landed
	global_store_dword v19, v17, s[6:7]
	v_add_u32 v19, s11, v19
	s_endpgm
	.size k03_transpose_gfx950, .-k03_transpose_gfx950
	.p2alignl 6, 0xbf800000
	.fill 256, 4, 0xbf800000
	.section .rodata,"a",@progbits
	.p2align 6
	.amdhsa_kernel k03_transpose_gfx950
	  .amdhsa_group_segment_fixed_size 16384
	  .amdhsa_kernarg_size 24
	  .amdhsa_user_sgpr_kernarg_segment_ptr 1
	  .amdhsa_system_sgpr_workgroup_id_x 1
	  .amdhsa_system_sgpr_workgroup_id_y 1
	  .amdhsa_system_sgpr_workgroup_id_z 0
	  .amdhsa_system_vgpr_workitem_id 0
	  .amdhsa_next_free_vgpr 24
	  .amdhsa_next_free_sgpr 14
	  .amdhsa_accum_offset 24
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
      - .name: 'm'
        .offset: 16
        .size: 4
        .value_kind: 'by_value'
      - .name: 'n'
        .offset: 20
        .size: 4
        .value_kind: 'by_value'
    .group_segment_fixed_size: 16384
    .kernarg_segment_align: 8
    .kernarg_segment_size: 24
    .max_flat_workgroup_size: 256
    .name: 'k03_transpose_gfx950'
    .private_segment_fixed_size: 0
    .reqd_workgroup_size:
      - 256
      - 1
      - 1
    .sgpr_count: 20
    .sgpr_spill_count: 0
    .symbol: 'k03_transpose_gfx950.kd'
    .uses_dynamic_stack: false
    .vgpr_count: 24
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target: 'amdgcn-amd-amdhsa--gfx950'
amdhsa.version:
  - 1
  - 2
...
	.end_amdgpu_metadata
