"""More planted faults: device memory, undefined values, wait states, alignment, bounds and ends; and all of them together."""

from __future__ import annotations

from tests.planted_faults import BACK, IN_LDS, LOOP, REGISTERS, UL, UR, UU, B, G, M, Planted, W, X
from tests.planted_faults_flat import FLAT

DEVICE = (
    Planted("two waves store to the same bytes", G, """
        - v_and_b32 v2, 0xff, v2
        global_store_dword v2, v1, s[8:9] @p @c
    """, waves=2),
    Planted("load of what another wave stored", G, """
        v_xor_b32 v4, 0x100, v2
        global_store_dword v2, v1, s[8:9] @p
        s_waitcnt vmcnt(0)
        + s_barrier
        global_load_dword v5, v4, s[8:9] @c
    """, waves=2),
    Planted("a shift in place", G, """
        s_lshl_b32 s22, s2, 11
        v_add_u32 v2, s22, v2
        global_load_dword v5, v2, s[8:9] offset:4 @p
        s_waitcnt vmcnt(0)
        v_add_u32 v5, 1, v5
        + s_barrier
        global_store_dword v2, v5, s[8:9] @c
    """, waves=4),
    Planted("a barrier without a wait", G, """
        v_xor_b32 v4, 0x100, v2
        global_store_dword v2, v1, s[8:9] @p
        + s_waitcnt vmcnt(0)
        s_barrier
        global_load_dword v5, v4, s[8:9] @c
    """, waves=2),
    Planted("an atomic and a store", G, """
        s_cmp_eq_u32 s20, 0
        s_cbranch_scc0 other
        global_store_dword v3, v3, s[8:9] @p
        s_waitcnt vmcnt(0)
        other:
        + s_barrier
        s_cmp_eq_u32 s20, 1
        s_cbranch_scc0 done
        global_atomic_add v3, v1, s[8:9] @c
        done:
    """, waves=2),
    Planted("buffer instructions", G, """
        s_mov_b32 s10, 4096
        s_mov_b32 s11, 0x20000
        v_lshlrev_b32 v4, 4, v1
        v_xor_b32 v5, 0x400, v4
        v_mov_b32 v6, 1
        v_mov_b32 v7, 2
        buffer_store_dwordx2 v[6:7], v4, s[8:11], 0 offen @p
        s_waitcnt vmcnt(0)
        + s_barrier
        buffer_load_dwordx4 v[12:15], v5, s[8:11], 0 offen @c
    """, waves=2),
    Planted("one byte of many", G, """
        - v_min_u32 v4, 63, v1
        + v_mov_b32 v4, v1
        global_store_byte v4, v1, s[8:9] @p @c
    """, waves=2),
    Planted("the last round of a loop", G, LOOP + """
        s_lshl_b32 s22, s21, 9
        v_lshl_add_u32 v4, s20, 8, s22
        - v_mov_b32 v4, s22
        v_add_u32 v4, v4, v2
        v_lshl_add_u32 v5, s20, 8, v3
        v_sub_u32 v4, v4, v5
        global_store_dword v4, v1, s[8:9] @p @c
    """ + BACK, waves=2),
    Planted("one lane of the fourth wave", G, """
        s_cmp_eq_u32 s20, 3
        s_cbranch_scc0 all
        - s_mov_b64 exec, 1
        - v_mov_b32 v2, 0
        + s_nop 0
        all:
        global_store_dword v2, v1, s[8:9] @p @c
    """, waves=4),
)

BETWEEN_WORKGROUPS = (
    Planted("two workgroups store", B, """
        v_mov_b32 v4, s2
        + s_lshl_b32 s22, s2, 8
        + v_add_u32 v2, s22, v2
        global_store_dword v2, v4, s[8:9] @p @c
    """),
    Planted("a workgroup loads what another one stores", B, """
        s_cmp_eq_u32 s2, 0
        s_cbranch_scc0 second
        v_mov_b32 v4, 7
        global_store_dword v2, v4, s[8:9] @p
        s_endpgm
        second:
        - v_mov_b32 v5, v2
        + v_add_u32 v5, 0x100, v2
        global_load_dword v6, v5, s[8:9] @c
    """),
    Planted("one byte of a dword", B, """
        s_cmp_eq_u32 s2, 0
        s_cbranch_scc0 second
        v_mov_b32 v4, 7
        global_store_byte v2, v4, s[8:9] offset:2 @p
        s_endpgm
        second:
        - global_load_ushort v6, v2, s[8:9] offset:2 @c
        + global_load_ushort v6, v2, s[8:9]
    """),
    Planted("buffer instructions of two workgroups", B, """
        s_mov_b32 s10, 4096
        s_mov_b32 s11, 0x20000
        v_mov_b32 v4, s2
        v_mov_b32 v5, s2
        v_lshlrev_b32 v6, 3, v1
        s_lshl_b32 s22, s2, 9
        - s_lshl_b32 s22, s2, 8
        buffer_store_dwordx2 v[4:5], v6, s[8:11], s22 offen @p @c
    """),
)

UNDEFINED = (
    Planted("a VGPR", UR, """
        + v_mov_b32 v9, 0
        v_add_u32 v5, v9, v1 @c
    """, severity="warning"),
    Planted("an SGPR", UR, """
        + s_mov_b32 s30, 0
        s_add_u32 s31, s30, 1 @c
    """, severity="warning"),
    Planted("an AGPR", UR, """
        + v_accvgpr_write_b32 a7, 0
        v_accvgpr_read_b32 v5, a7 @c
    """, severity="warning"),
    Planted("an accumulator", UR, """
        v_mov_b32 v6, 0
        v_mov_b32 v7, 0
        + v_accvgpr_write_b32 a3, 0
        v_accvgpr_write_b32 a0, 0
        v_accvgpr_write_b32 a1, 0
        v_accvgpr_write_b32 a2, 0
        s_nop 1
        v_mfma_f32_16x16x16_f16 a[0:3], v[6:7], v[6:7], a[0:3] @c
    """, severity="warning"),
    Planted("one path leaves it out", UR, """
        s_cmp_eq_u32 s20, 0
        s_cbranch_scc1 without
        v_mov_b32 v9, 0
        without:
        + v_mov_b32 v9, 1
        v_add_u32 v5, v9, v1 @c
    """, waves=2, severity="warning"),
    Planted("the first round of a loop", UR, "+ v_mov_b32 v9, 0\n" + LOOP + """
        v_add_u32 v5, v9, v1 @c
        v_mov_b32 v9, 1
    """ + BACK, severity="warning"),
    Planted("VCC", UR, """
        + v_cmp_eq_u32 vcc, v1, v2
        v_cndmask_b32 v5, v1, v2, vcc @c
    """, severity="warning"),
    Planted("LDS", UL, """
        + ds_write_b32 v2, v1
        + s_waitcnt lgkmcnt(0)
        ds_read_b32 v5, v2 @c
    """, severity="warning"),
    Planted("half of an LDS read", UL, """
        v_lshlrev_b32 v4, 3, v1
        ds_write_b32 v4, v1
        + ds_write_b32 v4, v1 offset:4
        s_waitcnt lgkmcnt(0)
        ds_read_b64 v[6:7], v4 @c
    """, severity="warning"),
    Planted("an LDS atomic", UL, """
        + ds_write_b32 v2, v3
        ds_add_u32 v2, v1 @c
    """, severity="warning"),
    Planted("what a sum of it addresses", UU, """
        - v_and_b32 v5, 0xfc, v9 @p
        + v_and_b32 v5, 0xfc, v1 @p
        global_load_dword v6, v5, s[8:9] @c
    """, also=(UR,)),
    Planted("a branch", UU, """
        + s_mov_b32 s30, 1
        s_cmp_eq_u32 s30, 0 @p
        s_cbranch_scc1 over @c
        s_nop 0
        over:
    """, also=(UR,)),
    Planted("EXEC", UU, """
        + s_mov_b32 s30, -1
        s_not_b32 s31, s30 @p
        s_mov_b32 exec_lo, s31 @c
    """, also=(UR,)),
    Planted("a store", UU, """
        + v_mov_b32 v9, 0
        v_add_u32 v5, v9, v1 @p
        global_store_dword v2, v5, s[8:9] @c
    """, also=(UR,)),
    Planted("a store of an AGPR", UU, """
        + v_accvgpr_write_b32 a7, 0
        v_accvgpr_mov_b32 a6, a7 @p
        global_store_dword v2, a6, s[8:9] @c
    """, also=(UR,)),
    Planted("a store of unwritten LDS", UU, """
        + ds_write_b32 v2, v1
        ds_read_b32 v5, v2 @p
        s_waitcnt lgkmcnt(0)
        global_store_dword v2, v5, s[8:9] @c
    """, also=(UL,)),
    Planted("a branch on unwritten LDS", UU, """
        + ds_write_b32 v2, v1
        ds_read_b32 v5, v2
        s_waitcnt lgkmcnt(0)
        v_readfirstlane_b32 s30, v5
        s_cmp_eq_u32 s30, 0 @p
        s_cbranch_scc1 over @c
        s_nop 0
        over:
    """, also=(UL,)),
)

STATES = (
    Planted("M0 right before a buffer load into LDS", W, """
        s_mov_b32 s10, 4096
        s_mov_b32 s11, 0x20000
        s_mov_b32 m0, 64 @p
        + s_nop 0
        buffer_load_dword v2, s[8:11], 0 offen lds @c
    """, severity="note"),
    Planted("M0 moved on one way to a buffer load into LDS", W, """
        s_mov_b32 s10, 4096
        s_mov_b32 s11, 0x20000
        s_mov_b32 m0, 64
        s_cmp_lg_u32 s20, 0
        s_cbranch_scc1 on
        s_add_u32 m0, m0, 256 @p
        + s_nop 0
        on:
        buffer_load_dword v2, s[8:11], 0 offen lds @c
    """, severity="note"),
    Planted("a matrix source behind another matrix instruction", W, """
        v_mov_b32 v6, 0
        v_mov_b32 v7, 0
        s_nop 1
        v_mfma_f32_16x16x16_f16 v[12:15], v[6:7], v[6:7], 0 @p
        v_mfma_f32_32x32x8_f16 v[16:31], v[6:7], v[6:7], 0
        + s_nop 5
        v_mfma_f32_16x16x16_f16 v[32:35], v[12:13], v[6:7], 0 @c
    """, arch="gfx942"),
    Planted("a matrix result that the next one overwrites", W, """
        v_mov_b32 v6, 0
        v_mov_b32 v7, 0
        s_nop 1
        v_mfma_f32_16x16x16_f16 v[12:15], v[6:7], v[6:7], 0
        v_mfma_f32_16x16x16_f16 v[12:15], v[6:7], v[6:7], 0 @p
        - s_nop 5
        + s_nop 6
        v_add_u32 v5, v12, v1 @c
    """, arch="gfx942"),
    Planted("a matrix result", W, """
        v_mov_b32 v6, 0
        v_mov_b32 v7, 0
        s_nop 1
        v_mfma_f32_16x16x16_f16 v[12:15], v[6:7], v[6:7], 0 @p
        - s_nop 5
        + s_nop 6
        v_add_u32 v5, v12, v1 @c
    """, arch="gfx942"),
    Planted("a matrix operand", W, """
        v_mov_b32 v6, 0
        v_mov_b32 v7, 0 @p
        - s_nop 0
        + s_nop 1
        v_mfma_f32_16x16x16_f16 v[12:15], v[6:7], v[6:7], 0 @c
    """),
    Planted("a matrix result in the next round", W, "v_mov_b32 v6, 0\nv_mov_b32 v7, 0\nv_mov_b32 v12, 0\ns_nop 1\n" + LOOP + """
        v_add_u32 v5, v12, v1 @c
        v_mfma_f32_16x16x16_f16 v[12:15], v[6:7], v[6:7], 0 @p
        + s_nop 7
        + s_nop 1
    """ + BACK),
    Planted("an SGPR of a lane as an address", W, """
        s_mov_b32 s14, 0
        s_mov_b32 s15, 0
        v_readfirstlane_b32 s12, v3 @p
        s_mov_b32 s13, 0
        - s_nop 2
        + s_nop 3
        buffer_load_dword v4, v2, s[12:15], 0 offen @c
    """),
    Planted("the data of a wide store", W, """
        v_mov_b32 v4, 0
        v_mov_b32 v5, 0
        v_mov_b32 v6, 0
        v_mov_b32 v7, 0
        v_lshlrev_b32 v12, 4, v1
        global_store_dwordx4 v12, v[4:7], s[8:9] @p
        + s_nop 1
        v_mov_b32 v6, 1 @c
    """),
    Planted("a lane of a fresh register", W, """
        v_add_u32 v5, v1, v2 @p
        + s_nop 0
        v_readfirstlane_b32 s12, v5 @c
    """),
    Planted("one branch is too short", W, """
        v_mov_b32 v6, 0
        v_mov_b32 v7, 0
        s_nop 1
        v_mfma_f32_16x16x16_f16 v[12:15], v[6:7], v[6:7], 0 @p
        s_cmp_eq_u32 s20, 0
        s_cbranch_scc1 over
        s_nop 7
        over:
        + s_nop 7
        v_add_u32 v5, v12, v1 @c
    """),
    Planted("a matrix core that is not busy for long enough", W, """
        v_mov_b32 v6, 0
        v_mov_b32 v7, 0
        s_nop 1
        v_mfma_f32_16x16x16_f16 v[12:15], v[6:7], v[6:7], 0 @p
        v_mfma_f32_16x16x16_f16 v[16:19], v[6:7], v[6:7], 0
        + v_mfma_f32_16x16x16_f16 v[20:23], v[6:7], v[6:7], 0
        v_add_u32 v5, v12, v1 @c
    """),
    Planted("another SGPR than that of the lane is rewritten", W, """
        s_mov_b32 s12, 0
        s_nop 0
        v_readfirstlane_b32 s12, v3 @p
        - s_and_b32 s13, s12, 0xffff
        + s_and_b32 s12, s12, 0xffff
        v_add_u32 v5, s12, v1 @c
    """),
)

ALIGNED = (
    Planted("four dwords of LDS at a multiple of 8", M, """
        v_lshlrev_b32 v4, 4, v1
        v_mov_b32 v6, 0
        v_mov_b32 v7, 0
        v_mov_b32 v8, 0
        v_mov_b32 v9, 0
        - v_add_u32 v4, 8, v4 @p
        + v_add_u32 v4, 16, v4 @p
        ds_write_b128 v4, v[6:9] @c
    """, severity="warning"),
    Planted("two dwords of LDS at a multiple of 4", M, """
        v_mov_b32 v6, 0
        v_mov_b32 v7, 0
        - v_add_u32 v4, 4, v3 @p
        + v_add_u32 v4, 8, v3 @p
        ds_write_b64 v4, v[6:7] @c
    """, severity="warning"),
    Planted("an LDS atomic at an odd short", M, """
        v_add_u32 v5, 8, v3
        ds_write_b64 v3, v[2:3]
        ds_write_b64 v5, v[2:3]
        - v_add_u32 v4, 2, v3 @p
        + v_add_u32 v4, 4, v3 @p
        ds_add_u32 v4, v1 @c
    """),
    Planted("an atomic of 64 bits at a multiple of 4", M, """
        v_mov_b32 v6, 0
        v_mov_b32 v7, 0
        - v_add_u32 v4, 4, v3 @p
        + v_add_u32 v4, 8, v3 @p
        global_atomic_add_x2 v4, v[6:7], s[8:9] @c
    """),
    Planted("a scalar load drops two bits", M, """
        s_mov_b32 s13, s9
        - s_add_u32 s12, s8, 2 @p
        + s_add_u32 s12, s8, 4 @p
        s_load_dword s14, s[12:13], 0x0 @c
    """),
    Planted("a dword of device memory at an odd address", M, """
        - v_add_u32 v4, 1, v2 @p
        + v_add_u32 v4, 4, v2 @p
        global_load_dword v5, v4, s[8:9] @c
    """, severity="warning"),
)

OUTSIDE = (
    Planted("a load behind the buffer", X, """
        - v_add_u32 v4, 0xf40, v2 @p
        + v_add_u32 v4, 0xf00, v2 @p
        global_load_dword v5, v4, s[8:9] @c
    """),
    Planted("a store of one lane too many", X, """
        v_lshlrev_b32 v4, 6, v1
        - v_add_u32 v4, 64, v4 @p
        + v_add_u32 v4, 60, v4 @p
        global_store_dword v4, v1, s[8:9] @c
    """),
    Planted("a scalar load behind the buffer", X, """
        s_mov_b32 s13, s9
        - s_add_u32 s12, s8, 4096 @p
        + s_add_u32 s12, s8, 4092 @p
        s_load_dword s14, s[12:13], 0x0 @c
    """),
    Planted("a flat store behind LDS", X, """
        s_mov_b64 s[12:13], src_shared_base
        v_mov_b32 v5, s13
        - v_add_u32 v4, 0x1f04, v2 @p
        + v_add_u32 v4, 0x1f00, v2 @p
        flat_store_dword v[4:5], v1 @c
    """),
    Planted("a loop that goes on", X, "v_mov_b32 v4, v2\n- s_mov_b32 s21, 17\n+ s_mov_b32 s21, 16\nagain:" + """
        global_store_dword v4, v1, s[8:9] @c
        v_add_u32 v4, 0x100, v4
    """ + BACK),
)

ENDS = (
    Planted("a barrier that another wave never reaches", "barrier-deadlock", """
        s_cmp_eq_u32 s20, 0
        s_cbranch_scc1 meet
        - s_sethalt 1 @p
        meet:
        s_barrier @c
    """, waves=2, also=("halt",)),
    Planted("a barrier whose other waves spin", "barrier-deadlock", """
        s_cmp_eq_u32 s20, 0
        s_cbranch_scc1 meet
        spin:
        - s_branch spin @p
        meet:
        s_barrier @c
    """, waves=3, also=("runaway",)),
    Planted("no end", "past-the-end", """
        + s_cbranch_scc0 end
        v_mov_b32 v4, 0 @c
        + end:
        + s_endpgm
        END
    """),
    Planted("a register too many", "register-beyond-allocation", """
        - v_mov_b32 v64, 0 @c
        + v_mov_b32 v63, 0
    """),
    Planted("a loop without an end", "runaway", """
        s_mov_b32 s21, 0
        again:
        s_add_u32 s21, s21, 1 @p
        - s_cmp_lg_u32 s21, 0
        + s_cmp_lg_u32 s21, 9
        s_cbranch_scc1 again @c
    """),
)

FAULTS = (*REGISTERS, *IN_LDS, *FLAT, *DEVICE, *BETWEEN_WORKGROUPS, *UNDEFINED, *STATES, *ALIGNED, *OUTSIDE, *ENDS)
