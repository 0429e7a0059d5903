"""Automatic waits: the counts they get, straight, over branches and loops, for registers and for tokens."""

from __future__ import annotations

from asmgen.author.emit.builder import Builder
from asmgen.author.emit.ldsmap import LdsMap
from asmgen.checks.waits.insert import insert_waits
from asmgen.isa.operands import OFF
from asmgen.isa.registers import a, m0, s, v
from asmgen.program.program import Instruction, Label


def listing(k: Builder) -> list[str]:
    """The instructions after the pass, labels with a colon; waits with their counts."""
    lines = []
    for item in insert_waits(k.program()).items:
        if isinstance(item, Instruction):
            lines.append(item.text if item.inserted else item.name)
        elif isinstance(item, Label):
            lines.append(f"{item.name}:")
    return lines


def builder(stagger: int = 0) -> Builder:
    return Builder("k", "gfx950", stagger=stagger)


def test_partial_counts_in_order_of_issue() -> None:
    k = builder()
    for number in range(3):
        k.global_load_dword(v[10 + number], v[0:1], OFF)
    for number in range(3):
        k.v_add_u32(v[20], v[20], v[10 + number])
    assert listing(k)[3:] == ["s_waitcnt vmcnt(2)", "v_add_u32", "s_waitcnt vmcnt(1)", "v_add_u32", "s_waitcnt vmcnt(0)", "v_add_u32"]


def test_a_store_counts_in_the_same_queue_and_its_data_needs_no_wait() -> None:
    k = builder()
    k.global_load_dword(v[10], v[0:1], OFF)
    k.global_store_dword(v[2:3], v[11], OFF)
    k.v_mov_b32(v[11], 0)
    k.v_mov_b32(v[12], v[10])
    assert listing(k) == ["global_load_dword", "global_store_dword", "v_mov_b32", "s_waitcnt vmcnt(1)", "v_mov_b32"]


def test_overwriting_a_destination_needs_the_wait_its_address_does_not() -> None:
    k = builder()
    k.ds_read_b32(v[10], v[0])
    k.v_mov_b32(v[0], 0)
    k.v_mov_b32(v[10], 0)
    assert listing(k) == ["ds_read_b32", "v_mov_b32", "s_waitcnt lgkmcnt(0)", "v_mov_b32"]


def test_scalar_loads_come_in_any_order() -> None:
    k = builder()
    k.s_load_dword(s[4], s[0:1], 0)
    k.s_load_dword(s[5], s[0:1], 4)
    k.s_mov_b32(s[6], s[4])
    assert listing(k)[2] == "s_waitcnt lgkmcnt(0)"


def test_lds_behind_a_scalar_load_still_counts_lds_alone() -> None:
    """Two newer LDS reads stay in flight: at most two operations outstanding cannot include an older LDS read."""
    k = builder()
    k.s_load_dword(s[4], s[0:1], 0)
    for number in range(3):
        k.ds_read_b32(v[10 + number], v[0])
    k.v_mov_b32(v[1], v[10])
    assert listing(k)[4] == "s_waitcnt lgkmcnt(2)"


def test_flat_waits_for_both_counters() -> None:
    k = builder()
    k.flat_load_dword(v[10], v[0:1])
    k.global_load_dword(v[11], v[0:1], OFF)
    k.v_mov_b32(v[1], v[10])
    assert listing(k)[2] == "s_waitcnt vmcnt(0) lgkmcnt(0)"


def test_mfma_reads_loaded_agprs() -> None:
    k = builder()
    k.ds_read_b128(a[0:3], v[0])
    k.ds_read_b128(v[4:7], v[0])
    k.v_mfma_f32_16x16x32_bf16(v[8:11], a[0:3], a[0:3], 0)
    assert listing(k)[2] == "s_waitcnt lgkmcnt(1)"


def test_back_edge_gets_the_steady_count() -> None:
    """A load of the next round is issued after the use of the last one: one newer load stays in flight, also in round one."""
    k = builder()
    k.global_load_dword(v[10], v[0:1], OFF)
    k.global_load_dword(v[11], v[0:1], OFF)
    k.label("loop")
    k.v_add_u32(v[20], v[20], v[10])
    k.global_load_dword(v[10], v[0:1], OFF)
    k.v_add_u32(v[20], v[20], v[11])
    k.global_load_dword(v[11], v[0:1], OFF)
    k.s_cbranch_scc1("loop")
    k.s_endpgm()
    assert listing(k)[2:] == ["loop:", "s_waitcnt vmcnt(1)", "v_add_u32", "global_load_dword", "s_waitcnt vmcnt(1)", "v_add_u32",
                              "global_load_dword", "s_cbranch_scc1", "s_endpgm"]


def test_a_join_takes_the_stricter_path() -> None:
    k = builder()
    k.global_load_dword(v[10], v[0:1], OFF)
    k.s_cbranch_scc1("join")
    k.global_load_dword(v[11], v[0:1], OFF)
    k.label("join")
    k.v_mov_b32(v[1], v[10])
    k.v_mov_b32(v[1], v[11])
    assert listing(k)[3:] == ["join:", "s_waitcnt vmcnt(0)", "v_mov_b32", "v_mov_b32"]


def test_more_outstanding_than_the_counter_holds() -> None:
    k = builder()
    k.global_load_dword(v[10], v[0:1], OFF)
    for _ in range(70):
        k.global_load_dword(v[11], v[0:1], OFF, offset=4) if _ == 0 else k.global_store_dword(v[2:3], v[9], OFF)
    k.v_mov_b32(v[1], v[10])
    assert "s_waitcnt vmcnt(62)" in listing(k)


def test_an_authors_wait_is_taken_into_account() -> None:
    k = builder()
    k.global_load_dword(v[10], v[0:1], OFF)
    k.s_waitcnt(vmcnt=0)
    k.v_mov_b32(v[1], v[10])
    assert listing(k) == ["global_load_dword", "s_waitcnt", "v_mov_b32"]


def dma(k: Builder, token: object, count: int = 2) -> None:
    for _ in range(count):
        k.s_mov_b32(m0, 0)
        k.buffer_load_dwordx4(v[0], s[4:7], 0, offen=True, lds=True, fills=token)


def test_token_waits_before_the_barrier_and_leaves_the_other_buffer_in_flight() -> None:
    lds = LdsMap("gfx950")
    one, other = lds.take("A[0]", 2048), lds.take("A[1]", 2048)
    k = builder()
    dma(k, one)
    dma(k, other)
    k.s_barrier()
    k.ds_read_b128(v[4:7], v[1], uses=one)
    k.s_barrier()
    k.ds_read_b128(v[8:11], v[1], offset=2048, uses=other)
    names = [line for line in listing(k) if line not in ("s_mov_b32", "buffer_load_dwordx4")]
    assert names == ["s_waitcnt vmcnt(2)", "s_barrier", "ds_read_b128", "s_waitcnt vmcnt(0)", "s_barrier", "ds_read_b128"]


def test_stagger_moves_the_wait_one_barrier_up() -> None:
    lds = LdsMap("gfx950")
    token = lds.take("A", 1024)
    k = builder(stagger=1)
    dma(k, token, 1)
    k.s_barrier()
    k.s_barrier()
    k.ds_read_b128(v[4:7], v[1], uses=token)
    assert listing(k) == ["s_mov_b32", "buffer_load_dwordx4", "s_waitcnt vmcnt(0)", "s_barrier", "s_barrier", "ds_read_b128"]


def test_reads_are_waited_for_before_the_refill() -> None:
    lds = LdsMap("gfx950")
    token = lds.take("A", 1024)
    k = builder()
    k.ds_read_b128(v[4:7], v[1], uses=token)
    k.s_barrier()
    dma(k, token, 1)
    assert listing(k) == ["ds_read_b128", "s_waitcnt lgkmcnt(0)", "s_barrier", "s_mov_b32", "buffer_load_dwordx4"]


def test_a_write_waits_for_the_waves_own_dma_of_its_bytes_and_a_dma_for_the_write() -> None:
    """A write of other bytes, and another DMA of the same, need no wait."""
    lds = LdsMap("gfx950")
    token, other = lds.take("A", 1024), lds.take("B", 1024)
    k = builder()
    dma(k, token, 2)
    k.ds_write_b128(v[1], v[4:7], fills=other)
    dma(k, other, 1)
    k.ds_write_b128(v[1], v[4:7], fills=token)
    load = ["s_mov_b32", "buffer_load_dwordx4"]
    assert listing(k) == [*load, *load, "ds_write_b128", load[0], "s_waitcnt lgkmcnt(0)", load[1], "s_waitcnt vmcnt(1)", "ds_write_b128"]


def test_without_tokens_barriers_drain_lds_writes_but_not_loads() -> None:
    k = builder()
    k.global_load_dword(v[10], v[0:1], OFF)
    k.ds_read_b32(v[11], v[0])
    k.ds_write_b32(v[0], v[1])
    k.s_barrier()
    assert listing(k)[3:] == ["s_waitcnt lgkmcnt(0)", "s_barrier"]


def test_a_barrier_that_drains_lds_data_spares_the_waits_behind_it() -> None:
    """As compilers do: two waits become one. Where the newer read is used after another wait, the barrier lets it fly."""
    k = builder()
    k.ds_write_b32(v[0], v[9])
    k.ds_read_b32(v[1], v[0])
    k.s_barrier()
    k.v_mov_b32(v[2], v[1])
    assert listing(k) == ["ds_write_b32", "ds_read_b32", "s_waitcnt lgkmcnt(0)", "s_barrier", "v_mov_b32"]
    k = builder()
    k.ds_write_b32(v[0], v[9])
    k.ds_read_b32(v[1], v[0])
    k.s_barrier()
    k.s_load_dword(s[4], s[0:1], 0)
    k.s_add_u32(s[5], s[4], 1)
    k.v_mov_b32(v[2], v[1])
    assert listing(k)[2:] == ["s_waitcnt lgkmcnt(1)", "s_barrier", "s_load_dword", "s_waitcnt lgkmcnt(0)", "s_add_u32", "v_mov_b32"]


def test_the_waves_own_dma_is_waited_for_before_its_own_read() -> None:
    lds = LdsMap("gfx950")
    token = lds.take("A", 1024)
    k = builder()
    dma(k, token, 1)
    k.ds_read_b128(v[4:7], v[1], uses=token)
    assert listing(k)[2:] == ["s_waitcnt vmcnt(0)", "ds_read_b128"]


def test_reason_names_what_landed_and_what_stays_in_flight() -> None:
    k = builder()
    k.global_load_dwordx4(v[4:7], v[0:1], OFF)
    k.global_load_dword(v[8], v[0:1], OFF)
    k.v_mov_b32(v[1], v[5])
    (wait,) = [item for item in insert_waits(k.program()).instructions if item.inserted]
    assert wait.reason == "v[4:7] of global_load_dwordx4 landed, 1 newer vector-memory operation in flight"


def test_a_slot_leaves_older_lds_data_to_the_wait_for_newer_ones() -> None:
    """LDS operations are in order: the wait for the exchange serves the older read too. Where the exchange's data is touched later than the
    read's, or never, the slot waits for the read; and for a load in any case."""
    def listed(*uses: int, loaded: bool = False) -> list[str]:
        k = builder()
        k.ds_read_b32(v[10], v[0])
        if loaded:
            k.global_load_dword(v[12], v[2:3], OFF)
        k.wait_slot()
        k.ds_swizzle_b32(v[11], v[1], offset=16415)
        for use in uses:
            k.v_add_u32(v[20], v[20], v[use])
        return [line for line in listing(k) if line.startswith("s_wait") or line.startswith("v_")]

    assert listed(11, 10) == ["s_waitcnt lgkmcnt(0)", "v_add_u32", "v_add_u32"]
    assert listed(10, 11) == ["s_waitcnt lgkmcnt(0)", "v_add_u32", "s_waitcnt lgkmcnt(0)", "v_add_u32"]
    assert listed(10) == ["s_waitcnt lgkmcnt(0)", "v_add_u32"]
    assert listed(11, 10, 12, loaded=True) == ["s_waitcnt vmcnt(0)", "s_waitcnt lgkmcnt(0)", "v_add_u32", "v_add_u32", "v_add_u32"]
