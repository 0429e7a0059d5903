"""The cycle model against figures that follow from the rules by counting: each is exact, in clk."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import pytest

from asmgen.emulator.scheduling.trace import WaveTrace, has_cost
from asmgen.isa.timing import timing
from asmgen.model.cycles import ModelError, Timeline, simulate
from asmgen.model.farmemory import FarMemory
from asmgen.model.usage import shadow_optimum
from asmgen.program.program import Program
from asmgen.reader.assembly import read_text

WIDE = "v_mfma_f32_32x32x16_bf16 a[{0}:{1}], v[0:3], v[4:7], a[{0}:{1}]\n"
NARROW = "v_mfma_f32_16x16x32_bf16 a[{0}:{1}], v[0:3], v[4:7], a[{0}:{1}]\n"
FP4 = "v_mfma_scale_f32_16x16x128_f8f6f4 a[{0}:{1}], v[0:3], v[4:7], a[{0}:{1}], v8, v9 op_sel_hi:[0,0,0] cbsz:4 blgp:4\n"


def program(text: str, arch: str = "gfx950") -> Program:
    return read_text(text + "s_endpgm\n", arch)[0]


def straight(code: Program, waves: Sequence[int] = (0,), cost: int = 4, gpu: str = "MI355X", level: str = "l2") -> Timeline:
    """Waves that all run the code from top to bottom; each access costs the same. Wave w is on SIMD w % 4."""
    costs = tuple(cost for instruction in code.instructions if has_cost(instruction))
    return simulate(code, [WaveTrace(0, wave, tuple(range(len(code))), costs) for wave in waves], timing(gpu), level)


def several(codes: Sequence[str], waves: Sequence[int], cost: int = 4, gpu: str = "MI355X",
            more: Mapping[str, float] | None = None) -> Timeline:
    """Waves with code of their own, one text after the other in one program."""
    whole = read_text("".join(text + "s_endpgm\n" for text in codes), "gfx950")[0]
    ends = [at for at, instruction in enumerate(whole.instructions) if instruction.name == "s_endpgm"]
    begins = [0, *(end + 1 for end in ends[:-1])]
    traces = []
    for wave, begin, end in zip(waves, begins, ends, strict=True):
        positions = tuple(range(begin, end + 1))
        traces.append(WaveTrace(0, wave, positions, tuple(cost for at in positions if has_cost(whole.instructions[at]))))
    return simulate(whole, traces, timing(gpu, more), "l2")


def intervals(timeline: Timeline, wave: int, name: str, code: Program) -> list[int]:
    """clk between issues of instructions whose names begin so."""
    times = timeline.waves[wave]
    clocks = [clock for position, clock in zip(times.positions, times.issued, strict=True)
              if code.instructions[position].name.startswith(name)]
    return [b - a for a, b in itertools.pairwise(clocks)]


@pytest.mark.parametrize("name,registers,occupancy,arch,gpu", [
    ("v_mfma_f32_32x32x16_bf16", (4, 4, 16), 32, "gfx950", "MI355X"),
    ("v_mfma_f32_16x16x32_bf16", (4, 4, 4), 16, "gfx950", "MI350X"),
    ("v_mfma_f32_16x16x16_bf16", (2, 2, 4), 16, "gfx942", "MI300X"),
    ("v_mfma_f32_32x32x8_f16", (2, 2, 16), 32, "gfx942", "MI325X"),
    ("v_mfma_f32_32x32x2_f32", (1, 1, 16), 64, "gfx942", "MI300X"),
    ("v_mfma_f64_16x16x4_f64", (2, 2, 8), 32, "gfx942", "MI300X"),
    ("v_mfma_f64_16x16x4_f64", (2, 2, 8), 64, "gfx950", "MI355X"),
])  # fmt: skip
@pytest.mark.parametrize("chain", [False, True])
def test_matrix_instructions_take_their_occupancy(name: str, registers: tuple[int, int, int], occupancy: int, arch: str, gpu: str,
                                                  chain: bool) -> None:
    """n independent ones, and a chain on one accumulator of the same shape."""
    def span(first: int, count: int) -> str:
        return f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"

    a, b, d = registers
    text = "".join(f"{name} {where}, {span(0, a)}, {span(8, b)}, {where}\n"
                   for n in range(7) for where in [span(16 + (0 if chain else n * d), d)])
    assert straight(program(text, arch), gpu=gpu).cycles == 7 * occupancy


@pytest.mark.parametrize("accumulator,clocks", [
    ("v[16:19], v[0:3], v[8:11], v[20:23]", 16),  # D is another register: what counts is the SrcC (docs/facts/instructions.md section 3.1)
    ("v[16:19], v[0:3], v[8:11], v[22:25]", 36),  # overlaps
    ("v[20:23], v[0:3], v[8:11], 0", 16),  # writes the same D with another SrcC
    ("v[16:19], v[20:23], v[8:11], 0", 36),  # reads it as SrcA
])  # fmt: skip
def test_an_accumulator_is_forwarded_by_its_registers(accumulator: str, clocks: int) -> None:
    name = "v_mfma_f32_16x16x32_bf16"
    code = program(f"{name} v[20:23], v[0:3], v[8:11], v[20:23]\n{name} {accumulator}\n")
    assert straight(code).waves[0].issued[1] == clocks


@pytest.mark.parametrize("cbsz,blgp,occupancy", [(0, 0, 32), (0, 4, 32), (4, 1, 32), (2, 4, 16), (4, 4, 16)])
def test_occupancy_goes_by_the_format_pair(cbsz: int, blgp: int, occupancy: int) -> None:
    width = {0: 8, 1: 8, 2: 6, 4: 4}
    text = "".join(f"v_mfma_f32_16x16x128_f8f6f4 v[{32 + 4 * n}:{35 + 4 * n}], v[0:{width[cbsz] - 1}], v[8:{7 + width[blgp]}], "
                   f"v[{32 + 4 * n}:{35 + 4 * n}] cbsz:{cbsz} blgp:{blgp}\n" for n in range(5))
    assert straight(program(text)).cycles == 5 * occupancy


def test_scaled_ones_hide_their_scale_load_in_the_one_before() -> None:
    text = "".join(FP4.format(4 * n, 4 * n + 3) for n in range(6))
    assert straight(program(text)).cycles == 6 * 16 + 4


@pytest.mark.parametrize("vector,units", [("v_mov_b32 v{0}, v1\n", 1), ("v_exp_f32 v{0}, v1\n", 2)])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 6, 7, 8, 10])
def test_windows_behind_wide_matrix_instructions(vector: str, units: int, count: int) -> None:
    """T = 32M + 4 max(0, N - 6M), a TRANS is two of N; every window has its share."""
    text = "".join(WIDE.format(16 * (n % 4), 16 * (n % 4) + 15) + "".join(vector.format(20 + at) for at in range(count)) for n in range(5))
    assert straight(program(text)).cycles == 32 * 5 + 4 * max(0, 5 * units * count - 30)


def test_packed_excess_is_the_formulas_g() -> None:
    """g(k) = 4k up to 3, then two units a packed instruction, scalars first; as one wave runs it."""
    chosen = timing("MI355X")
    assert [shadow_optimum(64, 32, 12 + k, True, chosen) - 64 for k in range(-1, 9)] == [0, 0, 4, 8, 12, 16, 16, 20, 20, 24]
    assert shadow_optimum(64, 32, 20, False, chosen) == 64 + 32
    text = WIDE.format(0, 15) + "v_mov_b32 v20, v1\n" * 9 + "v_pk_mul_f32 v[30:31], v[2:3], v[4:5]\n" * 2
    assert straight(program(text)).waves[0].issued[-1] == shadow_optimum(32, 32, 6 + 7, True, chosen)


def test_packed_never_in_the_shadow_and_delays_the_next() -> None:
    code = program(WIDE.format(0, 15) + "v_pk_mul_f32 v[20:21], v[2:3], v[4:5]\n" + WIDE.format(16, 31))
    assert straight(code).waves[0].issued[:3] == [0, 32 + 12, 48]


@pytest.mark.parametrize("degree", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("waves", [(0,), (0, 1, 2, 3)])
def test_b128_reads_follow_the_rule(degree: int, waves: tuple[int, ...]) -> None:
    """A read takes 8 clk on its pair's bus, 4 clk x degree of the banks for all waves together."""
    reads = 40
    code = program("".join(f"ds_read_b128 v[{4 + 4 * (n % 8)}:{7 + 4 * (n % 8)}], v0\n" for n in range(reads)) + "s_waitcnt lgkmcnt(0)\n")
    timeline = straight(code, waves, cost=4 * degree)
    each = max(8 * (2 if len(waves) > 1 else 1), 4 * degree * len(waves))
    for wave in range(len(waves)):
        assert set(intervals(timeline, wave, "ds_read", code)[10:]) == {each}


@pytest.mark.parametrize("waves,each", [((0,), 8), ((0, 1, 2, 3), 8)])
def test_b64_reads(waves: tuple[int, ...], each: int) -> None:
    """8 clk back to back by one wave, 8 a SIMD with four busy (measured facts, section 2)."""
    code = program("".join(f"ds_read_b64 v[{4 + 2 * (n % 8)}:{5 + 2 * (n % 8)}], v0\n" for n in range(64)) + "s_waitcnt lgkmcnt(0)\n")
    timeline = straight(code, waves, cost=2)
    assert set(intervals(timeline, 0, "ds_read", code)[16:]) == {each}


def test_gfx942_reads_alone_and_four_busy() -> None:
    reads = "".join(f"ds_read_b128 v[{4 + 4 * (n % 8)}:{7 + 4 * (n % 8)}], v0\n" for n in range(40))
    code = program(reads + "s_waitcnt lgkmcnt(0)\n", "gfx942")
    for waves, each in (((0,), 20), ((0, 1, 2, 3), 32)):
        assert set(intervals(straight(code, waves, 8, "MI300X"), 0, "ds_read", code)[16:]) == {each}


@pytest.mark.parametrize("arch,gpu,width,conflicts,measured", [
    ("gfx950", "MI350X", 64, 0, 583.4), ("gfx950", "MI350X", 64, 62, 10024), ("gfx942", "MI300X", 64, 0, 852.3),
    ("gfx942", "MI300X", 128, 0, 1384.5), ("gfx942", "MI300X", 32, 62, 6810), ("gfx942", "MI300X", 64, 60, 7158),
    ("gfx942", "MI300X", 128, 56, 7614),
])  # fmt: skip
def test_blocks_of_64_reads_by_one_wave(arch: str, gpu: str, width: int, conflicts: int, measured: float) -> None:
    """HIP documents such blocks (docs/facts, microarchitecture 2.4). MI300X b32 without conflicts is 16 % too slow here."""
    dwords = width // 32
    text = "".join(f"ds_read_b{width} v{f'[{4 + 4 * (n % 8)}:{3 + 4 * (n % 8) + dwords}]' if dwords > 1 else n + 4}, v0\n"
                   for n in range(64))
    ideal = {("gfx950", 64): 2, ("gfx942", 32): 2, ("gfx942", 64): 4, ("gfx942", 128): 8}[arch, width]
    predicted = straight(program(text + "s_waitcnt lgkmcnt(0)\n", arch), cost=ideal + conflicts, gpu=gpu).cycles
    assert predicted == pytest.approx(measured, rel=0.06)


def test_first_reads_of_a_pair_issue_before_backpressure() -> None:
    code = program("".join(f"ds_read_b128 v[{4 + 4 * n}:{7 + 4 * n}], v0\n" for n in range(12)))
    assert intervals(straight(code), 0, "ds_read", code)[:7] == [4] * 7


def test_load_use_chains() -> None:
    """LDS: its latency to the wait, whose slot lies before the use. Vector: 4 clk, TRANS 12, memory the level's latency."""
    code = program("ds_read_b32 v1, v0\ns_waitcnt lgkmcnt(0)\nds_read_b32 v2, v1\n")
    assert straight(code).waves[0].issued[:3] == [0, 64, 68]
    code = program("v_add_f32 v1, v1, v2\n" * 5)
    assert intervals(straight(code), 0, "v_add", code) == [4] * 4
    code = program("v_exp_f32 v1, v1\nv_add_f32 v2, v1, v1\n")
    assert straight(code).waves[0].issued[1] == 12
    code = program("global_load_dword v1, v[2:3], off\ns_waitcnt vmcnt(0)\nv_mov_b32 v4, v1\n")
    for level, clocks in (("l2", 312), ("hbm", 864), ("grid", 432)):
        assert straight(code, cost=2, level=level).waves[0].issued[1:3] == [clocks, clocks + 4]


def test_two_waves_overlap_matrix_and_vector_work() -> None:
    matrix = "".join(WIDE.format(16 * (n % 4), 16 * (n % 4) + 15) for n in range(8))
    vector = "".join(f"v_mov_b32 v{20 + n % 8}, v1\n" for n in range(6 * 8))
    assert several([matrix, vector], (0, 4)).cycles == 8 * 32
    alone = straight(program(matrix + vector)).cycles
    assert alone == 8 * 32 + (48 - 6) * 4


def test_one_wave_hides_no_dependent_chain_and_two_do() -> None:
    chain = "v_exp_f32 v1, v1\n" * 20
    assert straight(program(chain)).waves[0].issued[-1] == 12 * 19 + 4
    two = several([chain, chain], (0, 4))
    assert [wave.issued[-2] for wave in two.waves] == [12 * 19 + 4 * 19, 12 * 19 + 4 * 19 + 8]  # 8 clk of issue each: 16 for both


def test_paired_simds_in_phase_share_the_issue_bus() -> None:
    """8 waves of scaled fp4: one free slot an MFMA, the pair's bus takes one read in it, so each SIMD gets one in 32 clk. Where reads of
    other waves issue 4 clk after the MFMA there are three slots, and each SIMD gets one in 16."""
    matrix = "".join(FP4.format(4 * (n % 8), 4 * (n % 8) + 3) for n in range(40))
    reads = "".join(f"ds_read_b128 v[{16 + 4 * (n % 8)}:{19 + 4 * (n % 8)}], v0\n" for n in range(12))
    blocked = {"scaled_beside": 12}
    paired = several([matrix, matrix, reads, reads], (0, 2, 4, 6), more=blocked)
    for wave in (2, 3):
        issued = paired.waves[wave].issued
        assert {b - a for a, b in itertools.pairwise(issued[2:12])} == {32}
    early = several([matrix, matrix, reads, reads], (0, 2, 4, 6))
    for wave in (2, 3):
        assert sum(clock % 16 in (0, 4) for clock in early.waves[wave].issued[2:12]) and early.waves[wave].issued[11] <= 16 * 10
        assert early.waves[0].issued[39] == paired.waves[0].issued[39]
    apart = several([matrix, matrix, reads, reads], (0, 1, 4, 5), more=blocked)
    for wave in (2, 3):
        issued = apart.waves[wave].issued
        assert {b - a for a, b in itertools.pairwise(issued[2:12])} == {16}


def test_matrix_instructions_keep_their_pace_beside_reads_of_higher_priority() -> None:
    matrix = "".join(NARROW.format(4 * (n % 8), 4 * (n % 8) + 3) for n in range(20))
    reads = "s_setprio 3\n" + "".join(f"ds_read_b128 v[{16 + 4 * (n % 8)}:{19 + 4 * (n % 8)}], v0\n" for n in range(12))
    both = several([matrix, reads], (0, 4))
    assert both.waves[0].issued[19] == 19 * 16
    assert all(clock % 16 >= 8 for clock in both.waves[1].issued[1:12])


def test_priority_decides_between_vector_instructions() -> None:
    work = "".join(f"v_mov_b32 v{20 + n % 8}, v1\n" for n in range(10))
    old, young = several(["s_mov_b32 s0, s1\n" + work, "s_setprio 2\n" + work], (0, 4)).waves
    assert young.issued[10] == 40 and old.issued[1] == 44


def test_a_nop_beside_another_wave_costs_its_wave_four_times_its_length() -> None:
    """Alone, and with waves that only stand at a barrier, it takes its own 8 clk. The other wave goes on."""
    work = "".join(f"v_mov_b32 v{20 + n % 8}, v1\n" for n in range(8))
    nop, other = several(["s_nop 1\nv_mov_b32 v1, v2\n", work], (0, 4)).waves
    assert nop.issued[:2] == [0, 32] and other.issued[:8] == list(range(0, 32, 4))
    assert several(["s_nop 1\nv_mov_b32 v1, v2\n", work], (0, 4), more={"nop_beside": 1}).waves[0].issued[:2] == [0, 8]
    alone = straight(program("s_nop 1\nv_mov_b32 v1, v2\n")).waves[0]
    elsewhere, _ = several(["s_nop 1\nv_mov_b32 v1, v2\n", work], (0, 1)).waves
    waiting, _ = several(["v_mov_b32 v1, v2\n" * 4 + "s_nop 1\nv_mov_b32 v1, v2\ns_barrier\n", "s_barrier\n"], (0, 4)).waves
    assert alone.issued[1] == elsewhere.issued[1] == 8 and waiting.issued[5] - waiting.issued[4] == 8


@pytest.mark.parametrize("gap", [0, 1, 2, 3, 4])
def test_the_gap_of_matrix_instructions_is_in_clk(gap: int) -> None:
    text = "".join(NARROW.format(4 * (n % 8), 4 * (n % 8) + 3) for n in range(33))
    code = program(text)
    found = simulate(code, [WaveTrace(0, 0, tuple(range(len(code))), ())], timing("MI355X", {"mfma_gap": gap}), "l2")
    assert found.waves[0].issued[32] == (16 + gap) * 32 // 4 * 4


def test_reads_and_vector_memory_share_a_port_and_other_categories_go_beside() -> None:
    read, load, vector = "ds_read_b32 v1, v0\n" * 3, "global_load_dword v2, v[4:5], off\n" * 3, "v_mov_b32 v6, v7\n" * 3
    timeline = several([read, load, vector], (0, 4, 8))
    assert timeline.waves[0].issued[:3] == [0, 4, 8]
    assert timeline.waves[1].issued[:3] == [12, 16, 20]
    assert timeline.waves[2].issued[:3] == [0, 4, 8]
    assert ("memory port", 12) in [(cause, clocks) for _, cause, clocks in timeline.waves[1].stalls] or sum(
        clocks for _, cause, clocks in timeline.waves[1].stalls if cause == "memory port") == 12


def test_vector_memory_queue_and_return() -> None:
    """12 go into the queue, then one each 16 clk; four waves see 64. Twice the lines take twice as long."""
    code = program("".join(f"global_load_dwordx4 v[{4 + 4 * (n % 8)}:{7 + 4 * (n % 8)}], v[0:1], off\n" for n in range(30)))
    alone = intervals(straight(code, cost=8), 0, "global_load", code)
    assert alone[:12] == [4] * 12 and set(alone[18:]) == {16}
    four = intervals(straight(code, (0, 1, 2, 3), cost=8), 0, "global_load", code)
    assert set(four[20:26]) == {64}
    assert set(intervals(straight(code, cost=16), 0, "global_load", code)[18:]) == {32}


def test_bytes_in_flight_limit_far_loads() -> None:
    """32 loads of 1 KB are under way for a round trip of 1000 clk; a shorter one is hidden after what comes back in a clk.
    Loads of which few lanes are inside a buffer move the lines of these."""
    code = program("".join(f"global_load_dwordx4 v[{4 + 4 * (n % 8)}:{7 + 4 * (n % 8)}], v[0:1], off\n" for n in range(250)))
    for rate, trip, lines, each in ((64, 1000, 8, 1000 / 32), (64, 400, 8, 16), (37.5, 400, 8, 1024 / 37.5), (37.5, 1000, 8, 1000 / 32),
                                    (64, 1000, 1, 16), (10, 400, 4, 512 / 10)):
        found = simulate(code, [WaveTrace(0, 0, tuple(range(len(code))), (lines,) * 250)], timing("MI355X"),
                         far=FarMemory(rate, trip, 312))
        issued = found.waves[0].issued
        assert issued[216] - issued[120] == pytest.approx(96 * each, abs=28)


def test_a_unit_that_has_asked_for_little_gets_a_burst() -> None:
    """At a share of 32 B/clk loads of 1 KB are back each 32 clk, but each 16 after 1000 clk without any: 16 KB of the share that was left,
    and 32 B for each clk of the burst, are 32 loads."""
    loads = "".join(f"global_load_dwordx4 v[{4 + 4 * (n % 8)}:{7 + 4 * (n % 8)}], v[0:1], off\n" for n in range(48))
    for ahead, burst, quick in (("", 16384, 1), ("s_sleep 16\n", 16384, 32), ("s_sleep 16\n", 0, 1), ("s_sleep 2\n", 16384, 8)):
        code = program(ahead + loads)
        far = FarMemory(32, 400, 312, burst=burst)
        trace = WaveTrace(0, 0, tuple(range(len(code))), (8,) * 48)
        done = [end for _, _, _, end in simulate(code, [trace], timing("MI355X"), far=far, spans=True).accesses]
        between = [b - a for a, b in itertools.pairwise(done)]
        assert between[:quick - 1] == [16] * (quick - 1) and set(between[quick + 1:]) == {32}


def test_loads_of_each_argument_have_their_own_round_trip() -> None:
    """They come back in order: a near one waits for a far one before it."""
    code = program("global_load_dword v1, v[2:3], off\nglobal_load_dword v4, v[2:3], off\ns_waitcnt vmcnt(1)\ns_waitcnt vmcnt(0)\n")
    far = FarMemory(64, 432, 312, {1: 1232})
    for arguments, first, second in (((0, 1), 432, 4 + 1232), ((1, 0), 1232, 1236), ((-1, 1), 432, 4 + 1232), ((), 432, 436)):
        trace = WaveTrace(0, 0, tuple(range(len(code))), (2, 2), arguments)
        issued = simulate(code, [trace], timing("MI355X"), far=far).waves[0].issued
        assert issued[2] == first and issued[3] == max(second, first + 4)


def test_writes_wait_for_loads_into_lds() -> None:
    load = "s_mov_b32 m0, 0\ns_nop 0\n" + "buffer_load_dwordx4 v8, s[0:3], 0 offen lds\n" * 8
    idle = straight(program(load + "s_waitcnt vmcnt(0)\nds_write_b32 v1, v2\ns_waitcnt lgkmcnt(0)\n"), cost=8)
    assert idle.waves[0].issued[-2] - idle.waves[0].issued[-3] < 80
    busy = straight(program(load + "s_waitcnt vmcnt(7)\nds_write_b32 v1, v2\ns_waitcnt lgkmcnt(0)\n"), cost=8)
    assert busy.waves[0].issued[-2] - busy.waves[0].issued[-3] >= 7 * 16 + 50


def test_waits_branches_nops_and_barriers() -> None:
    code = program("s_waitcnt vmcnt(0)\ns_nop 3\nv_mov_b32 v1, v2\n")
    assert straight(code).waves[0].issued[:3] == [0, 4, 20]
    timeline = several(["s_barrier\nv_mov_b32 v1, v2\n", "s_nop 9\ns_barrier\nv_mov_b32 v1, v2\n"], (0, 1))
    assert timeline.waves[1].issued[:3] == [0, 40, 48] and timeline.waves[0].issued[:2] == [0, 48]
    assert (0, "barrier", 44) in timeline.waves[0].stalls
    jump = read_text("s_branch L\nv_mov_b32 v1, v2\nL:\ns_endpgm\n", "gfx950")[0]
    assert simulate(jump, [WaveTrace(0, 0, (0, 2), ())], timing("MI355X")).waves[0].issued == [0, 24]


def test_an_ended_wave_is_not_waited_for_and_stores_drain() -> None:
    assert several(["s_barrier\n", "v_mov_b32 v1, v2\n"], (0, 1)).waves[0].issued[-1] == 12
    code = program("global_store_dword v[0:1], v2, off\n")
    assert straight(code, cost=2).cycles == 312


def test_kernel_arguments_come_from_the_host() -> None:
    code = program("s_load_dwordx2 s[0:1], s[4:5], 0x0\ns_load_dword s2, s[4:5], 0x8\ns_waitcnt lgkmcnt(0)\n"
                   "s_load_dword s3, s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\n")
    assert straight(code).waves[0].issued[2:5] == [1000, 1004, 1204]


def test_every_clk_of_a_wave_is_issue_or_a_stall() -> None:
    text = (NARROW.format(0, 3) + "ds_read_b128 v[20:23], v0\nv_add_f32 v1, v1, v2\ns_barrier\nv_add_f32 v1, v1, v2\n"
            "s_waitcnt lgkmcnt(0)\ns_nop 1\n") * 4
    code = program(text)
    timeline = straight(code, range(8))
    for wave in timeline.waves:
        held = sum(timeline.costs[position].hold for position in wave.positions)
        assert held + sum(clocks for *_, clocks in wave.stalls) == wave.issued[-1] + 4


def test_what_cannot_be_timed_is_refused() -> None:
    code = program("s_barrier\n")
    with pytest.raises(ModelError, match="no wave"):
        simulate(code, [], timing("MI355X"))
    with pytest.raises(ModelError, match="grid, l2, hbm"):
        simulate(code, [WaveTrace(0, 0, (0, 1), ())], timing("MI355X"), "tape")
    with pytest.raises(ModelError, match="fewer memory accesses"):
        simulate(program("ds_read_b32 v1, v0\n"), [WaveTrace(0, 0, (0, 1), ())], timing("MI355X"))
