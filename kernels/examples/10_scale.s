; y[i] = f * x[i] for i < n, one element a work-item, 64 work-items a workgroup. Assembles for gfx942 and gfx950.
.text
.globl scale
.p2align 8
.type scale,@function
scale:
  s_load_dwordx4 s[4:7], s[0:1], 0x0      ; x, y
  s_load_dwordx2 s[8:9], s[0:1], 0x10     ; f, n
  v_lshl_add_u32 v0, s2, 6, v0            ; i = 64 * workgroup + work-item
  v_lshlrev_b32_e32 v1, 2, v0
  s_waitcnt lgkmcnt(0)
  v_cmp_gt_u32_e32 vcc, s9, v0            ; the lanes behind n end here
  s_and_saveexec_b64 s[10:11], vcc
  s_cbranch_execz .Ldone
  global_load_dword v2, v1, s[4:5]
  s_waitcnt vmcnt(0)
  v_mul_f32_e32 v2, s8, v2
  global_store_dword v1, v2, s[6:7]
.Ldone:
  s_endpgm
.Lend:
.size scale, .Lend - scale
.rodata
.p2align 6
.amdhsa_kernel scale
  .amdhsa_next_free_vgpr 8
  .amdhsa_next_free_sgpr 16
  .amdhsa_accum_offset 8
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_kernarg_size 24
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: scale
    .symbol: scale.kd
    .kernarg_segment_size: 24
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 16
    .vgpr_count: 8
    .max_flat_workgroup_size: 64
    .args:
      - {.name: x, .offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}
      - {.name: y, .offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global}
      - {.name: f, .offset: 16, .size: 4, .value_kind: by_value}
      - {.name: n, .offset: 20, .size: 4, .value_kind: by_value}
...
.end_amdgpu_metadata
