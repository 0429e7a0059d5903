"""Proofs from the text that waves do not race in LDS: racy and clean twins, the library, mutants of it, code objects of others, random
programs (`tests.random_races` runs a thousand) against what the emulator finds."""

from __future__ import annotations

from functools import cache

import pytest

from asmgen.author.emit.kernel import Kernel
from asmgen.checks.lint.facts import facts_of_code_object, facts_of_text
from asmgen.checks.raceproofs.outcome import PROVEN, REFUTED, UNKNOWN, RaceProof
from asmgen.checks.raceproofs.raceproof import access_kinds, prove_races
from asmgen.checks.raceproofs.valuepaths import ValuePaths
from asmgen.codeobject.load import CodeObject
from asmgen.emulator.machine.devicememory import Memory
from asmgen.emulator.machine.dispatch import Dispatch
from asmgen.emulator.scheduling.run import Options, run_launch
from asmgen.isa.arch import architecture
from asmgen.kernels.registry import family
from asmgen.program.controlflow import control_flow
from asmgen.program.program import Program
from asmgen.reader.assembly import read_text
from asmgen.reader.file import read_code_object
from asmgen.toolchain import assemble
from tests.checks.test_lds_races import BEGIN, END, TWINS, WAVES, fill, program_of
from tests.random_races import judged

BLOCK = (64 * WAVES, 1, 1)
CASES = [pytest.param(code, (REFUTED, PROVEN)[number], id=f"{name}-{'clean' if number else 'racy'}")
         for name, twins in TWINS.items() for number, code in enumerate(twins)]


@pytest.mark.parametrize(("code", "status"), CASES)
def test_racy_and_clean_twins(code: str, status: str) -> None:
    assert prove_races(program_of(BEGIN + code + END), BLOCK).status == status


@pytest.mark.parametrize(("number", "status"), [(0, REFUTED), (1, PROVEN)])
def test_addresses_by_a_truth_table_are_known(number: int, status: str) -> None:
    """v_bitop3_b32, of which compilers for gfx950 make swizzled addresses: 0x3c is the first xor the second, whatever the third is."""
    begin = BEGIN.replace("v_xor_b32 v4, 0x200, v3\n", "v_mov_b32 v11, 0x200\nv_bitop3_b32 v4, v3, v11, v0 bitop3:0x3c\n")
    assert begin != BEGIN and prove_races(program_of(begin + TWINS["a write read"][number] + END), BLOCK).status == status


@pytest.mark.parametrize(("shift", "status"), [(10, PROVEN), (2, REFUTED)])
def test_three_buffers_by_the_remainder_of_a_counter_are_told_apart(shift: int, status: str) -> None:
    """As compilers divide by 3, with one barrier a round."""
    rest = "s_mul_hi_u32 s23, s22, 0xaaaaaaab\ns_lshr_b32 s23, s23, 1\ns_mul_i32 s23, s23, 3\ns_sub_i32 s23, s22, s23\n"
    turn = f"{rest}s_lshl_b32 s23, s23, {shift}\nv_add_u32 v9, s23, v3\nv_add_u32 v10, s23, v4\nds_write_b32 v9, v0\n"
    code = f"s_mov_b32 s22, 0\nloop:\n{turn}s_waitcnt lgkmcnt(0)\ns_barrier\nds_read_b32 v8, v10\ns_add_i32 s22, s22, 1\n" \
           "s_cmp_lg_u32 s22, 7\ns_cbranch_scc1 loop\n"
    assert prove_races(program_of(BEGIN + code + END), BLOCK).status == status


def test_a_race_names_both_instructions_waves_and_bytes() -> None:
    """The first two waves that share bytes are named; the proof says for which workgroups it holds."""
    program = program_of(BEGIN + TWINS["a write read"][0] + END)
    proof = prove_races(program, BLOCK)
    assert proof.race is not None and proof.race.waves == (0, 2) and (proof.race.low, proof.race.high) == (0, 256)
    assert proof.reason.startswith("wave 0 may do ds_write_b32 v3, v0 (k.s:17) while wave 2 does ds_read_b32 v8, v4 (k.s:20)")
    assert proof.assumptions[0] == "a workgroup has 256 x 1 x 1 work-items"


@pytest.mark.parametrize("waves", [1, WAVES])
@pytest.mark.parametrize("other", ["ds_write_b32 v9, v0", "ds_read_b32 v8, v9"])
@pytest.mark.parametrize(("wait", "status"), [("", UNKNOWN), ("s_waitcnt vmcnt(1)\n", UNKNOWN), ("s_waitcnt vmcnt(0)\n", PROVEN)])
def test_what_a_wave_fills_and_touches_without_a_wait_is_not_proven(wait: str, status: str, other: str, waves: int) -> None:
    """Though no other wave comes near: the load lands before or after the access. Bytes beside them need no wait."""
    for at, expected in ((0, status), (4096, PROVEN)):
        text = f"v_add_u32 v9, {at}, v3\n{fill(0)}{wait}{other}\n"
        proof = prove_races(program_of(BEGIN + text + END), (64 * waves, 1, 1))
        assert proof.status == expected, proof.reason
        assert expected == PROVEN or "no wait stands between" in proof.reason


@pytest.mark.parametrize("other", ["ds_write_b32 v9, v0", "ds_read_b32 v8, v9"])
@pytest.mark.parametrize(("wait", "status"), [("", UNKNOWN), ("s_waitcnt lgkmcnt(1)\n", UNKNOWN), ("s_waitcnt lgkmcnt(0)\n", PROVEN)])
def test_what_a_wave_touches_and_fills_without_a_wait_is_not_proven(wait: str, status: str, other: str) -> None:
    for at, expected in ((0, status), (4096, PROVEN)):
        proof = prove_races(program_of(f"{BEGIN}v_add_u32 v9, {at}, v3\n{other}\n{wait}{fill(0)}{END}"), BLOCK)
        assert proof.status == expected and (expected == PROVEN or "may still touch" in proof.reason), proof.reason


@pytest.mark.parametrize(("directive", "status"), [("", REFUTED), (".amdhsa_system_vgpr_workitem_id 1\n", PROVEN)])
def test_what_the_descriptor_does_not_ask_for_is_not_in_the_work_items_number(directive: str, status: str) -> None:
    """Rows of 64 work-items: without y the waves have the same numbers."""
    code = "v_lshlrev_b32 v1, 2, v0\nds_write_b32 v1, v0\nds_read_b32 v2, v1\ns_waitcnt lgkmcnt(0)\ns_endpgm\n"
    text = f'.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\n.type k,@function\nk:\n{code}.size k, .-k\n.amdhsa_kernel k\n{directive}' \
           ".amdhsa_next_free_vgpr 8\n.amdhsa_next_free_sgpr 8\n.amdhsa_accum_offset 8\n.end_amdhsa_kernel\n"
    (program,) = read_text(text, None, "k", "k.s")
    assert prove_races(program, (64, WAVES, 1)).status == status


UNKNOWNS = {
    "no workgroup": ("ds_write_b32 v3, v0\n", None, "the size of its workgroups is not known"),
    "an address from memory": ("global_load_dword v9, v3, s[8:9]\ns_waitcnt vmcnt(0)\nds_write_b32 v9, v0\n", BLOCK, "is not known"),
    "a computed jump": ("s_setpc_b64 s[4:5]\n", BLOCK, "code goes on at a computed address"),
    "one instruction of all waves": ("v_mov_b32 v9, 0\nds_write_b32 v9, v0\n", BLOCK, "whether they write different numbers"),
    "a flat access": ("flat_load_dword v9, v[10:11]\nds_write_b32 v3, v0\n", BLOCK, "is not known"),
}


@pytest.mark.parametrize(("code", "block", "says"), UNKNOWNS.values(), ids=list(UNKNOWNS))
def test_where_a_proof_stops(code: str, block: tuple[int, int, int] | None, says: str) -> None:
    proof = prove_races(program_of(BEGIN + code + END), block)
    assert proof.status == UNKNOWN and says in proof.reason and proof.at is not None


# A wave passes a barrier before it writes, or reads what another one writes, by a register that was zeroed in the lanes of `{lanes}`.
BY_A_LANE = """global_load_dword v9, v3, s[8:9]
s_waitcnt vmcnt(0)
s_mov_b64 exec, {lanes}
v_mov_b32 v9, 0
s_mov_b64 exec, -1
s_nop 4
v_readlane_b32 s4, v9, 5
s_nop 4
s_cmp_lg_u32 s4, 0
s_cbranch_scc0 reads
s_barrier
ds_write_b32 v3, v0
s_waitcnt lgkmcnt(0)
s_barrier
s_branch met
reads:
s_barrier
ds_read_b32 v8, v4
s_waitcnt lgkmcnt(0)
s_barrier
met:
"""


@pytest.mark.parametrize(("lanes", "status"), [("1", REFUTED), ("-1", PROVEN)])
def test_lanes_left_out_keep_what_differs_between_waves(lanes: str, status: str) -> None:
    assert prove_races(program_of(BEGIN + BY_A_LANE.format(lanes=lanes) + END), BLOCK).status == status


# One wave masks lanes for a while: then all of its lanes run again, or only those in `{lanes}`.
BY_A_MASK = BY_A_LANE.replace("s_mov_b64 exec, {lanes}\nv_mov_b32 v9, 0\ns_mov_b64 exec, -1\n", """s_cmp_lg_u32 s20, 0
s_cbranch_scc1 others
s_mov_b64 exec, 1
v_mov_b32 v8, 0
s_mov_b64 exec, {lanes}
others:
v_mov_b32 v9, s8
""")


@pytest.mark.parametrize(("lanes", "status"), [("1", REFUTED), ("-1", PROVEN)])
def test_waves_all_of_whose_lanes_run_again_decide_alike(lanes: str, status: str) -> None:
    assert prove_races(program_of(BEGIN + BY_A_MASK.format(lanes=lanes) + END), BLOCK).status == status


@pytest.mark.parametrize("status", [PROVEN, REFUTED])
def test_results_of_loads_under_masks_do_not_double_the_nodes_each(status: str) -> None:
    """Eighteen registers, each constant where a branch skips its load: 2^18 combinations, as compilers write them."""
    load = "v_mov_b32 v{0}, 0\ns_and_saveexec_b64 s[28:29], vcc\ns_cbranch_execz skip{0}\nglobal_load_dword v{0}, v3, s[8:9]\n" \
           "skip{0}:\ns_or_b64 exec, exec, s[28:29]\n"
    loads, writes, later = ("".join(map(text.format, range(20, 38)))
                            for text in (load, "ds_write_b32 v3, v{0}\n", "v_mov_b32 v{0}, v3\nds_read_b32 v8, v{0}\n"))
    writes = f"s_waitcnt vmcnt(0)\n{writes}"
    read = f"s_waitcnt lgkmcnt(0)\ns_barrier\nds_read_b32 v8, v4\n{later}"
    code = loads + writes + (read if status == PROVEN else read.replace("s_barrier\n", ""))
    proof = prove_races(program_of(BEGIN + "v_cmp_gt_u32 vcc, v10, v3\n" + code + END), BLOCK, once=True)
    assert proof.status == status, proof.reason


def test_a_read_beside_what_all_waves_write_is_a_race() -> None:
    proof = prove_races(program_of(BEGIN + "v_mov_b32 v9, 0\nds_write_b32 v9, v0\nds_read_b32 v8, v9\n" + END), BLOCK)
    assert proof.status == REFUTED and "ds_read_b32" in proof.reason


@pytest.mark.parametrize(("barrier", "status"), [("", REFUTED), ("s_barrier\n", PROVEN)])
def test_lanes_run_again_after_an_if_by_data_in_an_if_by_the_work_item(barrier: str, status: str) -> None:
    """As in a sort: the lanes of the outer `if` read what the other wave writes."""
    code = f"v_lshlrev_b32 v3, 2, v0\nds_write_b32 v3, v0\ns_waitcnt lgkmcnt(0)\n{barrier}v_and_b32 v4, 63, v0\n" \
           "v_cmp_gt_u32 vcc, 32, v4\ns_and_saveexec_b64 s[40:41], vcc\ns_cbranch_execz after\nv_cmp_gt_f32 vcc, v8, v9\n" \
           "s_and_saveexec_b64 s[42:43], vcc\ns_cbranch_execz same\nv_mov_b32 v9, v8\nsame:\ns_or_b64 exec, exec, s[42:43]\n" \
           "v_xor_b32 v10, 0x100, v3\nds_read_b32 v8, v10\nafter:\ns_or_b64 exec, exec, s[40:41]\ns_waitcnt lgkmcnt(0)\ns_endpgm\n"
    assert prove_races(program_of(code), (128, 1, 1)).status == status


def optional_loads(count: int, flags: int) -> str:
    """Loads that a prologue may leave out, as Triton's with several stages; some have a flag, which decides something at the end."""
    found = ""
    for one in range(count):
        flag = [f"s_mov_b32 s{40 + one}, {value}\n" if one < flags else "" for value in (0, 1)]
        found += f"s_cmp_lt_u32 s22, {one}\ns_cbranch_scc1 out{one}\n{flag[1]}global_load_dword v{20 + one}, v[10:11], off\n" \
                 f"s_branch in{one}\nout{one}:\n{flag[0]}in{one}:\n"
    return found


@pytest.mark.parametrize(("number", "status"), [(0, REFUTED), (1, PROVEN)])
def test_branches_around_many_loads_before_a_barrier_do_not_double_its_ways_each(number: int, status: str) -> None:
    assert prove_races(program_of(BEGIN + optional_loads(12, 0) + TWINS["a write read"][number] + END), BLOCK).status == status


def test_what_is_not_told_apart_any_more_is_one_node() -> None:
    used = "s_add_u32 s22, s22, s40\ns_add_u32 s22, s22, s41\ns_cmp_lt_u32 s22, s9\ns_cbranch_scc1 past\ns_nop 0\npast:\n"
    program = program_of(BEGIN + optional_loads(4, 2) + TWINS["a write read"][1] + used + END)
    flow = control_flow(program)
    paths = ValuePaths(program, flow, BLOCK, sorted(access_kinds(program)))
    assert sorted(node.block for node in paths.nodes) == [block.number for block in flow.blocks]


def test_what_needs_no_proof() -> None:
    """A workgroup of one wave, code without LDS, flat accesses of a kernel without LDS."""
    assert prove_races(program_of(BEGIN + TWINS["a write read"][0] + END), (64, 1, 1)).status == PROVEN
    assert prove_races(program_of("s_endpgm\n"), None).status == PROVEN
    assert prove_races(program_of("flat_load_dword v9, v[10:11]\ns_endpgm\n"), BLOCK, 0).status == PROVEN


# Two clusters of four waves each: one computes from registers while the other moves data. s20: the wave; s22: rounds, an argument.
# Between the clusters stands the barrier that only the second one passes at the begin, only the first one at the end.
CLUSTERS = """s_load_dwordx2 s[8:9], s[0:1], 0
s_load_dword s22, s[0:1], 8
v_and_b32 v0, 0x3ff, v0
v_lshlrev_b32 v3, 4, v0
v_xor_b32 v4, 0x1000, v3
v_xor_b32 v6, 0x400, v3
v_lshrrev_b32 v5, 6, v0
s_nop 1
v_readfirstlane_b32 s20, v5
s_lshl_b32 s21, s20, 10
s_mov_b32 s24, 0
s_waitcnt lgkmcnt(0)
s_mov_b32 m0, s21
s_nop 4
global_load_lds_dwordx4 v3, s[8:9]
{wait}
s_barrier
s_cmp_lt_u32 s20, 4
s_cbranch_scc1 loop
s_barrier
loop:
s_xor_b32 s24, s24, {turn}
s_add_u32 m0, s21, s24
{read}
global_load_lds_dwordx4 v3, s[8:9]
{arrive}
s_barrier
v_mfma_f32_16x16x32_bf16 v[16:19], v[8:11], v[8:11], v[16:19]
{land}
s_barrier
v_xor_b32 v4, {turn}, v4
v_xor_b32 v6, {turn}, v6
s_sub_u32 s22, s22, 1
s_cmp_lg_u32 s22, 0
s_cbranch_scc1 loop
s_cmp_ge_u32 s20, 4
s_cbranch_scc1 level
s_barrier
level:
s_waitcnt vmcnt(0)
s_endpgm
"""
RIGHT = {"wait": "s_waitcnt vmcnt(0)", "turn": "0x2000", "read": "ds_read_b128 v[8:11], v4\nds_read_b128 v[12:15], v6",
         "arrive": "s_waitcnt vmcnt(0) lgkmcnt(0)", "land": "s_nop 0"}
FAULTS = {
    "one buffer for both": {"turn": "0"},
    "a read in flight over the barrier": {"arrive": "s_waitcnt vmcnt(0) lgkmcnt(1)"},
    "a fill that lands a stage late": {"arrive": "s_waitcnt lgkmcnt(0)", "land": "s_waitcnt vmcnt(0)"},
    "reads a stage late": {"read": "s_nop 0", "land": f"{RIGHT['read']}\ns_waitcnt lgkmcnt(0)"},
}
HEAD = """.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
.text
.globl k
.p2align 8
.type k,@function
k:
{code}.size k, .-k
.rodata
.p2align 6
.amdhsa_kernel k
.amdhsa_next_free_vgpr 64
.amdhsa_next_free_sgpr 40
.amdhsa_accum_offset 32
.amdhsa_group_segment_fixed_size 32768
.amdhsa_user_sgpr_kernarg_segment_ptr 1
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - {{.name: k, .symbol: k.kd, .kernarg_segment_size: 16, .group_segment_fixed_size: 32768, .private_segment_fixed_size: 0,
     .kernarg_segment_align: 8, .wavefront_size: 64, .sgpr_count: 40, .vgpr_count: 64, .max_flat_workgroup_size: 512, .args: []}}
...
.end_amdgpu_metadata
"""


def text_of(code: str, directives: str = "") -> str:
    return HEAD.replace(".end_amdhsa_kernel", f"{directives}.end_amdhsa_kernel").format(code=code)


def proof_of_object(code: str, directives: str = "") -> RaceProof:
    """Assembled by clang, and judged by what the object says."""
    read = read_code_object(CodeObject.load(assemble(text_of(code, directives), "gfx950")))
    assert read.code_object is not None
    facts = facts_of_code_object(read.code_object)["k"]
    return prove_races(read.programs[0], facts.block, facts.lds, info=facts.workgroup_info)


@pytest.mark.parametrize("fault", FAULTS, ids=list(FAULTS))
def test_two_clusters_of_others_that_race(fault: str) -> None:
    assert proof_of_object(CLUSTERS.format(**RIGHT | FAULTS[fault])).status == REFUTED


def test_two_clusters_of_others_that_are_right() -> None:
    assert proof_of_object(CLUSTERS.format(**RIGHT)).status == PROVEN


@pytest.mark.parametrize(("decides", "directives", "status"), [
    ("s3", ".amdhsa_system_sgpr_workgroup_info 1\n", REFUTED), ("s2", ".amdhsa_system_sgpr_workgroup_info 1\n", PROVEN),
    ("s4", ".amdhsa_system_sgpr_workgroup_id_z 1\n.amdhsa_system_sgpr_workgroup_info 1\n", REFUTED)])
def test_bit_31_of_the_info_is_set_in_the_first_wave_alone(decides: str, directives: str, status: str) -> None:
    """The first wave reads what the next one writes. By the workgroup's id all of them read or all write."""
    code = ("v_lshlrev_b32 v3, 2, v0\nv_xor_b32 v4, 0x100, v3\n"
            f"s_cmp_lt_i32 {decides}, 0\ns_cbranch_scc1 reads\nds_write_b32 v4, v0\ns_branch ends\nreads:\nds_read_b32 v8, v3\nends:\n"
            "s_waitcnt lgkmcnt(0)\ns_barrier\ns_endpgm\n")
    assert proof_of_object(code, directives).status == status
    text = text_of(code, directives)
    loaded = CodeObject.load(assemble(text, "gfx950"))
    assert ("workgroup_info", facts_of_text(text, "gfx950")["k"].workgroup_info, 1) in loaded.kernel("k").descriptor.sgpr_layout()
    (program,) = read_code_object(loaded).programs
    result = run_launch(program, loaded.kernel("k").descriptor, architecture("gfx950"), Dispatch((1, 1, 1), (512, 1, 1), 0, b""), Memory(),
                        Options())
    assert ("lds-race" in {finding.check for finding in result.findings}) == (status == REFUTED)


@cache
def kernel(name: str, arch: str, number: int) -> Kernel:
    library = family(name)
    return library.build(arch, library.contract_of(library.variants(arch)[number]).resolve_build({}))


def proof_of(built: Kernel, program: Program | None = None) -> RaceProof:
    return prove_races(program or built.program, built.contract.workgroup, built.lds.size)


@pytest.mark.parametrize(("name", "arch", "number"), [("gemm-bf16", "gfx950", 0), ("gemm-bf16", "gfx950", 3), ("gemm-bf16", "gfx942", 1),
                                                      ("attention-forward", "gfx950", 1)])
@pytest.mark.slow_after_first
def test_kernels_of_the_library_are_proven(name: str, arch: str, number: int) -> None:
    proof = proof_of(kernel(name, arch, number))
    assert (proof.status, proof.reason) == (PROVEN, "")


@pytest.mark.slow
def test_values_that_a_step_computes_are_written_between_their_barriers() -> None:
    """Of 27 orders of this step, 18 write a value before the barrier that was chosen for it; one of them was the fastest."""
    library = family("attention-backward")
    proof = proof_of(library.build("gfx942", {"d": 64, "dtype": "bf16", "rounding": "truncated"}))
    assert (proof.status, proof.reason) == (PROVEN, "")


@pytest.mark.slow
def test_no_barrier_of_an_interleaved_product_can_be_spared() -> None:
    built = kernel("gemm-bf16", "gfx950", 0)
    barriers = [item for item in built.program.items if str(item) == "s_barrier"]
    for barrier in barriers:
        shorter = built.program.with_items(item for item in built.program.items if item is not barrier)
        assert proof_of(built, shorter).status == REFUTED


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.slow_after_first
def test_what_is_proven_of_a_random_program_does_not_race(seed: int) -> None:
    proof, races = judged(seed)
    assert not (proof.status == PROVEN and races)


CONTRARY = """v_lshlrev_b32 v3, 2, v0
v_xor_b32 v4, 0x100, v3
v_lshrrev_b32 v6, 6, v0
v_readfirstlane_b32 s20, v6
s_load_dword s30, s[0:1], 8
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 {decides}, 0
s_cbranch_scc1 reads
ds_write_b32 v4, v0
s_branch ends
reads:
ds_read_b32 v8, v3
ends:
s_waitcnt lgkmcnt(0)
s_endpgm
"""


@pytest.mark.parametrize(("decides", "status"), [("s30", UNKNOWN), ("s20", REFUTED)])
def test_waves_do_not_decide_alike_in_contrary_ways(decides: str, status: str) -> None:
    """One wave would write what another reads if they went different ways, on which only the wave's number can send them."""
    text = f'.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\nk:\n.type k,@function\n{CONTRARY.format(decides=decides)}.size k, .-k\n'
    (program,) = read_text(text, None, "k", "k.s")
    assert prove_races(program, (128, 1, 1)).status == status


@pytest.mark.parametrize(("decides", "status"), [("s30", PROVEN), ("s20", REFUTED)])
def test_what_lives_over_a_barrier_came_there_on_the_waves_own_way(decides: str, status: str) -> None:
    """As before, but with a barrier where the ways have met: what one way leaves in flight meets nothing of the other there."""
    code = CONTRARY.format(decides=decides).replace("ends:\n", "ends:\ns_barrier\ns_barrier\n")
    (program,) = read_text(f'.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\nk:\n.type k,@function\n{code}.size k, .-k\n', None, "k", "k.s")
    assert prove_races(program, (128, 1, 1)).status == status
