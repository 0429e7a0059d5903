"""Small programs with one fault each, for test_planted_faults.

A line that begins with "-" stands in the faulty program only, one with "+" in its repaired twin only. "@p" and "@c" mark the two
instructions that the finding must name (producer, consumer). Every program begins with PROLOGUE: two buffers of 4 KiB at s[8:9] and
s[10:11], the work-item in v1, 4 * work-item in v2, 0 in v3, the wave's number in s20; the LDS has 8 KiB; a0 and up are AGPRs.
"""

from __future__ import annotations

from dataclasses import dataclass

PROLOGUE = """
s_load_dwordx4 s[8:11], s[0:1], 0x0
v_and_b32 v1, 0x3ff, v0
v_lshlrev_b32 v2, 2, v1
v_mov_b32 v3, 0
v_readfirstlane_b32 s20, v1
s_lshr_b32 s20, s20, 6
s_waitcnt lgkmcnt(0)
s_nop 4
"""


@dataclass(frozen=True)
class Planted:
    """One fault. `waves` of the workgroup; `also` are checks that the same fault may set off too."""

    name: str
    check: str
    body: str
    waves: int = 1
    arch: str = "gfx950"
    severity: str = "error"
    also: tuple[str, ...] = ()

    def text(self, repaired: bool) -> tuple[str, int | None, int | None]:
        """The program, and the lines of producer and consumer."""
        lines = PROLOGUE.strip().split("\n")
        marked: dict[str, int] = {}
        for line in self.body.strip().split("\n"):
            code = line.strip()
            if code.startswith(("+", "-")):
                if (code[0] == "+") is not repaired:
                    continue
                code = code[1:].strip()
            for mark in ("@p", "@c"):
                if mark in code:
                    marked[mark] = len(lines) + 1
                    code = code.replace(mark, "").strip()
            lines.append(code)
        if lines[-1] == "END":
            lines.pop()
        else:
            lines.append("s_endpgm")
        return "\n".join([*lines, ""]), marked.get("@p"), marked.get("@c")


R, O, D = "read-before-wait", "overwrite-before-wait", "lds-dma-before-wait"
L, G, W, M = "lds-race", "global-race", "wait-state", "misaligned-access"
B = "workgroup-race"
UR, UL, UU, X = "uninitialised-read", "uninitialised-lds-read", "uninitialised-use", "access-outside-registry"

LOOP = """s_mov_b32 s21, 3
again:
"""
BACK = """s_sub_u32 s21, s21, 1
s_cmp_lg_u32 s21, 0
s_cbranch_scc1 again
"""

REGISTERS = (
    Planted("a half over a half of another queue", R, """
        ds_write_b32 v2, v1
        s_waitcnt lgkmcnt(0)
        - ds_read_u16_d16 v4, v3 @p
        + global_load_short_d16 v4, v3, s[8:9]
        global_load_short_d16_hi v4, v3, s[8:9] offset:2 @c
        s_waitcnt vmcnt(0) lgkmcnt(0)
    """),
    Planted("a half from where the other half says", R, """
        v_mov_b32 v4, 0
        global_load_short_d16 v4, v3, s[8:9] @p
        - global_load_short_d16_hi v4, v4, s[8:9] @c
        + global_load_short_d16_hi v4, v3, s[8:9]
        s_waitcnt vmcnt(0)
    """),
    Planted("global load", R, """
        global_load_dword v4, v2, s[8:9] @p
        + s_waitcnt vmcnt(0)
        v_add_u32 v5, v4, v1 @c
    """),
    Planted("one of two waves waits", R, """
        global_load_dword v4, v2, s[8:9] @p
        s_cmp_eq_u32 s20, 0
        - s_cbranch_scc1 over
        + s_nop 0
        s_waitcnt vmcnt(0)
        over:
        v_add_u32 v5, v4, v1 @c
    """, waves=2),
    Planted("second of two loads", R, """
        global_load_dword v4, v2, s[8:9]
        global_load_dword v5, v2, s[10:11] @p
        - s_waitcnt vmcnt(1)
        + s_waitcnt vmcnt(0)
        v_add_u32 v6, v4, v5 @c
    """),
    Planted("a store counts too", R, """
        global_load_dword v4, v2, s[8:9] @p
        global_store_dword v2, v1, s[10:11]
        - s_waitcnt vmcnt(2)
        + s_waitcnt vmcnt(1)
        v_add_u32 v6, v4, v1 @c
    """),
    Planted("the wrong counter", R, """
        global_load_dword v4, v2, s[8:9] @p
        - s_waitcnt lgkmcnt(0)
        + s_waitcnt vmcnt(0)
        v_add_u32 v5, v4, v1 @c
    """),
    Planted("LDS read", R, """
        ds_write_b32 v2, v1
        s_waitcnt lgkmcnt(0)
        ds_read_b32 v4, v2 @p
        + s_waitcnt lgkmcnt(0)
        v_add_u32 v5, v4, v1 @c
    """),
    Planted("second of two LDS reads", R, """
        ds_write_b32 v2, v1
        ds_read_b32 v4, v2
        ds_read_b32 v5, v2 @p
        - s_waitcnt lgkmcnt(1)
        + s_waitcnt lgkmcnt(0)
        v_add_u32 v6, v4, v5 @c
    """),
    Planted("permutation across lanes", R, """
        ds_bpermute_b32 v4, v2, v1 @p
        + s_waitcnt lgkmcnt(0)
        v_add_u32 v5, v4, v1 @c
    """),
    Planted("scalar load", R, """
        s_load_dword s12, s[8:9], 0x0 @p
        + s_waitcnt lgkmcnt(0)
        s_add_u32 s13, s12, 1 @c
    """),
    Planted("scalar loads arrive in any order", R, """
        s_load_dword s12, s[8:9], 0x0 @p
        s_load_dword s13, s[8:9], 0x4
        - s_waitcnt lgkmcnt(1)
        + s_waitcnt lgkmcnt(0)
        s_add_u32 s14, s12, 1 @c
    """),
    Planted("a scalar load that makes an address", R, """
        s_load_dwordx2 s[12:13], s[0:1], 0x0 @p
        + s_waitcnt lgkmcnt(0)
        global_load_dword v4, v2, s[12:13] @c
    """),
    Planted("load into an AGPR", R, """
        global_load_dword a1, v2, s[8:9] @p
        + s_waitcnt vmcnt(0)
        v_accvgpr_read_b32 v5, a1 @c
    """),
    Planted("matrix operand", R, """
        v_mov_b32 v6, 0
        v_mov_b32 v7, 0
        global_load_dwordx2 v[4:5], v2, s[8:9] @p
        s_nop 1
        + s_waitcnt vmcnt(0)
        v_mfma_f32_16x16x16_f16 a[0:3], v[4:5], v[6:7], 0 @c
    """),
    Planted("store data", R, """
        global_load_dword v4, v2, s[8:9] @p
        + s_waitcnt vmcnt(0)
        global_store_dword v2, v4, s[10:11] @c
    """),
    Planted("loop back-edge", R, "v_mov_b32 v4, 0\n" + LOOP + """
        v_add_u32 v5, v4, v1 @c
        global_load_dword v4, v2, s[8:9] @p
        + s_waitcnt vmcnt(0)
    """ + BACK),
    Planted("one arm of a branch", R, """
        v_mov_b32 v4, 0
        s_cmp_lg_u32 s20, 0
        s_cbranch_scc1 join
        global_load_dword v4, v2, s[8:9] @p
        + s_waitcnt vmcnt(0)
        join:
        v_add_u32 v5, v4, v1 @c
    """),
    Planted("the second wave only", R, """
        v_mov_b32 v4, 0
        s_cmp_eq_u32 s20, 0
        s_cbranch_scc1 join
        global_load_dword v4, v2, s[8:9] @p
        + s_waitcnt vmcnt(0)
        join:
        v_add_u32 v5, v4, v1 @c
    """, waves=2),
    Planted("a flat load counts twice", R, """
        v_mov_b32 v6, s8
        v_mov_b32 v7, s9
        flat_load_dword v4, v[6:7] @p
        s_waitcnt vmcnt(0)
        + s_nop 0
        + s_waitcnt lgkmcnt(0)
        v_add_u32 v5, v4, v1 @c
    """),
    Planted("half of the lanes", R, """
        s_mov_b64 exec, 0xff
        global_load_dword v4, v2, s[8:9] @p
        + s_waitcnt vmcnt(0)
        v_add_u32 v5, v4, v1 @c
    """),
    Planted("an atomic's old value", R, """
        global_atomic_add v4, v2, v1, s[8:9] sc0 @p
        + s_waitcnt vmcnt(0)
        v_add_u32 v5, v4, v1 @c
    """),
    Planted("buffer load", R, """
        s_mov_b32 s10, 4096
        s_mov_b32 s11, 0x20000
        buffer_load_dwordx4 v[4:7], v2, s[8:11], 0 offen @p
        + s_waitcnt vmcnt(0)
        v_add_u32 v12, v7, v1 @c
    """),
    Planted("a move over a pending load", O, """
        global_load_dword v4, v2, s[8:9] @p
        + s_waitcnt vmcnt(0)
        v_mov_b32 v4, 0 @c
    """),
    Planted("a move over a pending scalar load", O, """
        s_load_dwordx2 s[12:13], s[8:9], 0x0 @p
        + s_waitcnt lgkmcnt(0)
        s_mov_b32 s13, 0 @c
    """),
    Planted("an accumulator over a pending load", O, """
        v_mov_b32 v6, 0
        v_mov_b32 v7, 0
        global_load_dword a2, v2, s[8:9] @p
        s_nop 1
        + s_waitcnt vmcnt(0)
        v_mfma_f32_16x16x16_f16 a[0:3], v[6:7], v[6:7], 0 @c
    """),
    Planted("an LDS read over a pending global load", O, """
        ds_write_b32 v2, v1
        global_load_dword v4, v2, s[8:9] @p
        - s_waitcnt lgkmcnt(0)
        + s_waitcnt vmcnt(0)
        ds_read_b32 v4, v2 @c
    """),
    Planted("a pending load is overwritten in the next round", O, LOOP + """
        v_mov_b32 v4, 0 @c
        global_load_dword v4, v2, s[8:9] @p
        + s_waitcnt vmcnt(0)
    """ + BACK),
    Planted("a load over a load", O, """
        global_load_dword v4, v2, s[8:9] @p
        + s_waitcnt vmcnt(0)
        global_load_dword v4, v2, s[10:11] @c
    """, severity="warning"),
)

DMA = "s_mov_b32 s10, 4096\ns_mov_b32 s11, 0x20000\ns_mov_b32 m0, 0\ns_nop 0\n"

IN_LDS = (
    Planted("LDS-DMA and its own read", D, DMA + """
        buffer_load_dword v2, s[8:11], 0 offen lds @p
        + s_waitcnt vmcnt(0)
        ds_read_b32 v4, v2 @c
    """),
    Planted("LDS-DMA on the older chip", D, DMA + """
        buffer_load_dword v2, s[8:11], 0 offen lds @p
        + s_waitcnt vmcnt(0)
        ds_read_b32 v4, v2 @c
    """, arch="gfx942"),
    Planted("wide LDS-DMA", D, DMA + """
        v_lshlrev_b32 v4, 4, v1
        buffer_load_dwordx4 v4, s[8:11], 0 offen lds @p
        + s_waitcnt vmcnt(0)
        ds_read_b128 v[8:11], v4 @c
    """),
    Planted("the second LDS-DMA", D, DMA + """
        buffer_load_dword v2, s[8:11], 0 offen lds
        buffer_load_dword v2, s[8:11], 0 offen offset:256 lds @p
        - s_waitcnt vmcnt(1)
        + s_waitcnt vmcnt(0)
        ds_read_b32 v4, v2 offset:256 @c
    """),
    Planted("a write over LDS-DMA", D, DMA + """
        buffer_load_dword v2, s[8:11], 0 offen lds @p
        - s_waitcnt lgkmcnt(0)
        + s_waitcnt vmcnt(0)
        ds_write_b32 v2, v1 @c
    """),
    Planted("LDS-DMA of the round before", D, DMA + "ds_write_b32 v2, v1\ns_waitcnt lgkmcnt(0)\n" + LOOP + """
        ds_read_b32 v4, v2 @c
        s_waitcnt lgkmcnt(0)
        buffer_load_dword v2, s[8:11], 0 offen lds @p
        + s_waitcnt vmcnt(0)
    """ + BACK),
    Planted("write and read without a barrier", L, """
        v_xor_b32 v4, 0x100, v2
        ds_write_b32 v2, v1 @p
        s_waitcnt lgkmcnt(0)
        + s_barrier
        ds_read_b32 v5, v4 @c
    """, waves=2),
    Planted("four waves", L, """
        v_xor_b32 v4, 0x300, v2
        ds_write_b32 v2, v1 @p
        s_waitcnt lgkmcnt(0)
        + s_barrier
        ds_read_b32 v5, v4 @c
    """, waves=4),
    Planted("a barrier before the wait", L, """
        v_xor_b32 v4, 0x100, v2
        ds_write_b32 v2, v1 @p
        + s_waitcnt lgkmcnt(0)
        s_barrier
        ds_read_b32 v5, v4 @c
        s_waitcnt lgkmcnt(0)
    """, waves=2),
    Planted("a read and the next write", L, """
        v_xor_b32 v4, 0x100, v2
        ds_write_b32 v2, v1
        s_waitcnt lgkmcnt(0)
        s_barrier
        ds_read_b32 v5, v4 @p
        s_waitcnt lgkmcnt(0)
        + s_barrier
        ds_write_b32 v2, v3 @c
    """, waves=2),
    Planted("a read that was not waited for, and the next write", L, """
        v_xor_b32 v4, 0x100, v2
        ds_write_b32 v2, v1
        s_waitcnt lgkmcnt(0)
        s_barrier
        ds_read_b32 v5, v4 @p
        + s_waitcnt lgkmcnt(0)
        s_barrier
        ds_write_b32 v2, v3 @c
    """, waves=2),
    Planted("two waves write the same bytes", L, """
        - v_and_b32 v4, 0xff, v2
        + v_mov_b32 v4, v2
        ds_write_b32 v4, v1 @p @c
    """, waves=2),
    Planted("LDS-DMA that is waited for behind the barrier", L, DMA + """
        s_lshl_b32 m0, s20, 8
        s_nop 0
        v_xor_b32 v4, 0x100, v2
        buffer_load_dword v2, s[8:11], 0 offen lds @p
        + s_waitcnt vmcnt(0)
        s_barrier
        - s_waitcnt vmcnt(0)
        ds_read_b32 v5, v4 @c
    """, waves=2),
    Planted("the same byte", L, """
        - v_lshrrev_b32 v4, 1, v1
        + v_mov_b32 v4, v1
        v_and_b32 v5, 0x7f, v4
        - v_and_b32 v5, 0x1f, v4
        ds_write_b8 v5, v1 @p @c
    """, waves=2),
    Planted("the same value in the same byte", L, """
        - v_lshrrev_b32 v4, 1, v1
        + v_mov_b32 v4, v1
        v_and_b32 v5, 0x7f, v4
        - v_and_b32 v5, 0x1f, v4
        ds_write_b8 v5, v3 @p @c
    """, waves=2, severity="warning"),
    Planted("an atomic and a plain read", L, """
        ds_write_b32 v2, v3
        s_waitcnt lgkmcnt(0)
        s_barrier
        v_xor_b32 v4, 0x100, v2
        ds_add_u32 v2, v1 @p
        s_waitcnt lgkmcnt(0)
        + s_barrier
        ds_read_b32 v5, v4 @c
    """, waves=2),
    Planted("the second barrier of a loop", L, "v_xor_b32 v4, 0x100, v2\n" + LOOP + """
        v_add_u32 v6, s21, v1
        ds_write_b32 v2, v6 @c
        s_waitcnt lgkmcnt(0)
        s_barrier
        ds_read_b32 v5, v4 @p
        s_waitcnt lgkmcnt(0)
        + s_barrier
    """ + BACK, waves=2),
    Planted("one lane", L, """
        ds_write_b32 v2, v1 @p
        s_waitcnt lgkmcnt(0)
        v_xor_b32 v4, 0x100, v2
        s_mov_b64 exec, 0x20
        + s_barrier
        ds_read_b32 v5, v4 @c
    """, waves=2),
    Planted("two places", L, """
        ds_write2st64_b32 v2, v1, v3 offset0:0 offset1:2 @p
        v_xor_b32 v4, 0x100, v2
        s_waitcnt lgkmcnt(0)
        + s_barrier
        ds_read2st64_b32 v[6:7], v4 offset0:0 offset1:2 @c
    """, waves=2),
    Planted("a branch of one wave", L, """
        s_cmp_eq_u32 s20, 0
        s_cbranch_scc0 other
        ds_write_b32 v2, v1 @p
        s_waitcnt lgkmcnt(0)
        other:
        + s_barrier
        s_cmp_eq_u32 s20, 1
        s_cbranch_scc0 done
        v_xor_b32 v4, 0x100, v2
        ds_read_b32 v5, v4 @c
        done:
    """, waves=2),
    Planted("ping-pong with one barrier too few", L, """
        v_xor_b32 v4, 0x200, v2
        ds_write_b32 v2, v3
        s_waitcnt lgkmcnt(0)
        s_barrier
        s_cmp_lt_u32 s20, 2
        s_cbranch_scc1 first
        - s_nop 0
        + s_barrier
        first:
        s_mov_b32 s21, 3
        again:
        s_cmp_lt_u32 s20, 2
        s_cbranch_scc0 late
        ds_write_b32 v2, v1 @p
        s_branch joined
        late:
        ds_read_b32 v5, v4 @c
        joined:
        s_waitcnt lgkmcnt(0)
        s_barrier
        s_nop 0
        s_barrier
    """ + BACK, waves=4),
)
