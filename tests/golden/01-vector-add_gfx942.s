; d = x + y, float32 (gfx942)
;
; register plan, gfx942: 6 VGPRs of 256, 8 waves per SIMD; 24 SGPRs
;   registers  name         kind  lines                           why
;   v0         work_item    pin   01_vector_add.py:26 to the end  x | y << 10 | z << 20, filled by the hardware
;   v1         at           pool  01_vector_add.py:31 to the end  byte of the first element
;   v[2:3]     x            pool  01_vector_add.py:30 to the end
;   v[4:5]     y            pool  01_vector_add.py:30 to the end
;   s[0:1]     kernarg      pin   01_vector_add.py:26 to the end  where the arguments lie, filled by the hardware
;   s2         workgroup_x  pin   01_vector_add.py:26 to the end  filled by the hardware
;   s[4:10]    arguments    pin   01_vector_add.py:26 to the end  the kernel arguments, in order
;   s[12:15]   x_buffer     pool  01_vector_add.py:32 to the end
;   s[16:19]   y_buffer     pool  01_vector_add.py:32 to the end
;   s[20:23]   d_buffer     pool  01_vector_add.py:32 to the end
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
	.amdhsa_code_object_version 6
	.text
	.protected k01_vector_add_gfx942
	.globl k01_vector_add_gfx942
	.p2align 8
	.type k01_vector_add_gfx942,@function
k01_vector_add_gfx942:
	s_load_dwordx4 s[4:7], s[0:1], 0
	s_load_dwordx2 s[8:9], s[0:1], 16
	s_load_dword s10, s[0:1], 24
	v_mov_b32 v1, 0x800
	v_mul_lo_u32 v1, s2, v1
	v_lshl_add_u32 v1, v0, 2, v1
	s_waitcnt lgkmcnt(0)
	s_mov_b64 s[12:13], s[4:5]
	s_lshl_b32 s14, s10, 2
	s_mov_b32 s15, 0x20000
	s_mov_b64 s[16:17], s[6:7]
	s_lshl_b32 s18, s10, 2
	s_mov_b32 s19, 0x20000
	s_mov_b64 s[20:21], s[8:9]
	s_lshl_b32 s22, s10, 2
	s_mov_b32 s23, 0x20000
	buffer_load_dword v2, v1, s[12:15], 0 offen
	buffer_load_dword v4, v1, s[16:19], 0 offen
	buffer_load_dword v3, v1, s[12:15], 0 offen offset:1024
	buffer_load_dword v5, v1, s[16:19], 0 offen offset:1024
	s_waitcnt vmcnt(2)
	v_add_f32 v2, v2, v4
	buffer_store_dword v2, v1, s[20:23], 0 offen
	s_waitcnt vmcnt(1)
	v_add_f32 v3, v3, v5
	buffer_store_dword v3, v1, s[20:23], 0 offen offset:1024
	s_endpgm
	.size k01_vector_add_gfx942, .-k01_vector_add_gfx942
	.p2alignl 6, 0xbf800000
	.fill 256, 4, 0xbf800000
	.section .rodata,"a",@progbits
	.p2align 6
	.amdhsa_kernel k01_vector_add_gfx942
	  .amdhsa_group_segment_fixed_size 0
	  .amdhsa_kernarg_size 28
	  .amdhsa_user_sgpr_kernarg_segment_ptr 1
	  .amdhsa_system_sgpr_workgroup_id_x 1
	  .amdhsa_system_sgpr_workgroup_id_y 0
	  .amdhsa_system_sgpr_workgroup_id_z 0
	  .amdhsa_system_vgpr_workitem_id 0
	  .amdhsa_next_free_vgpr 6
	  .amdhsa_next_free_sgpr 24
	  .amdhsa_accum_offset 8
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
        .name: 'y'
        .offset: 8
        .size: 8
        .value_kind: 'global_buffer'
      - .address_space: 'global'
        .name: 'd'
        .offset: 16
        .size: 8
        .value_kind: 'global_buffer'
      - .name: 'n'
        .offset: 24
        .size: 4
        .value_kind: 'by_value'
    .group_segment_fixed_size: 0
    .kernarg_segment_align: 8
    .kernarg_segment_size: 28
    .max_flat_workgroup_size: 256
    .name: 'k01_vector_add_gfx942'
    .private_segment_fixed_size: 0
    .reqd_workgroup_size:
      - 256
      - 1
      - 1
    .sgpr_count: 30
    .sgpr_spill_count: 0
    .symbol: 'k01_vector_add_gfx942.kd'
    .uses_dynamic_stack: false
    .vgpr_count: 6
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target: 'amdgcn-amd-amdhsa--gfx942'
amdhsa.version:
  - 1
  - 2
...
	.end_amdgpu_metadata
