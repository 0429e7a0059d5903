"""Planted faults of flat instructions that go to LDS: lgkmcnt alone says when they are done there."""

from __future__ import annotations

from tests.planted_faults import UL, L, Planted, R

_TO_LDS = """
        s_mov_b64 s[12:13], src_shared_base
        v_mov_b32 v5, s13
        v_mov_b32 v4, v2
        v_mov_b32 v7, s13
        v_xor_b32 v6, 0x100, v2
"""
"""v[4:5]: this lane's dword of LDS; v[6:7]: the other wave's, of two."""

FLAT = (
    Planted("a flat load from LDS alone", R, f"""
        ds_write_b32 v2, v1
        s_waitcnt lgkmcnt(0)
        {_TO_LDS}
        flat_load_dword v8, v[4:5] @p
        - s_waitcnt vmcnt(0)
        + s_waitcnt lgkmcnt(0)
        v_add_u32 v8, v8, v1 @c
    """),
    Planted("one lane of a flat load goes to device memory", R, f"""
        ds_write_b32 v2, v1
        s_waitcnt lgkmcnt(0)
        {_TO_LDS}
        s_mov_b64 exec, 1
        - v_mov_b32 v4, s8
        - v_mov_b32 v5, s9
        s_mov_b64 exec, -1
        flat_load_dword v8, v[4:5] @p
        s_waitcnt lgkmcnt(0)
        v_add_u32 v8, v8, v1 @c
    """),
    Planted("a flat store to LDS over a barrier", L, f"""
        {_TO_LDS}
        flat_store_dword v[4:5], v1 @p
        - s_waitcnt vmcnt(0)
        + s_waitcnt lgkmcnt(0)
        s_barrier
        ds_read_b32 v8, v6 @c
        s_waitcnt lgkmcnt(0)
    """, waves=2),
    Planted("a flat load of what the other wave wrote", L, f"""
        {_TO_LDS}
        ds_write_b32 v2, v1 @p
        s_waitcnt lgkmcnt(0)
        + s_barrier
        flat_load_dword v8, v[6:7] @c
        s_waitcnt lgkmcnt(0)
    """, waves=2, also=(UL,)),
    Planted("a flat load in flight over a barrier", L, f"""
        ds_write_b32 v2, v1
        s_waitcnt lgkmcnt(0)
        s_barrier
        {_TO_LDS}
        flat_load_dword v8, v[6:7] @p
        - s_waitcnt vmcnt(0)
        + s_waitcnt lgkmcnt(0)
        s_barrier
        ds_write_b32 v2, v3 @c
    """, waves=2),
    Planted("a flat load from LDS and a scalar load, one of which is waited for", R, f"""
        ds_write_b32 v2, v1
        s_waitcnt lgkmcnt(0)
        {_TO_LDS}
        flat_load_dword v8, v[4:5] @p
        s_load_dword s14, s[8:9], 0x0
        - s_waitcnt lgkmcnt(1)
        + s_waitcnt lgkmcnt(0)
        v_add_u32 v8, v8, v1 @c
    """),
)
