"""What `asmgen inspect` says of foreign kernels: AGPRs, arguments, workgroup, waits, matrix cycles, bytes, who takes which loop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from asmgen.checks.lint.facts import KernelFacts
from asmgen.codeobject.textmetadata import text_metadata
from asmgen.reader.assembly import read_text
from asmgen.toolchain import assemble
from asmgen.tools.inspection.codefigures import waves_text
from asmgen.tools.inspection.inspection import inspect_file, inspect_program
from asmgen.tools.inspection.inspectiontext import inspection_text, resources_text, wait_rows
from tests.clang_objects import needs_clang

TEXT = """\
.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
.text
.globl split
.p2align 8
.type split,@function
split:
s_load_dwordx2 s[4:5], s[0:1], 0x0
s_load_dword s6, s[0:1], 0x10
v_lshrrev_b32 v1, 6, v0
v_readfirstlane_b32 s20, v1
v_lshlrev_b32 v2, 4, v0
s_waitcnt lgkmcnt(0)
s_cmp_lt_u32 s20, 2
s_cbranch_scc0 Lconsume
Lproduce:
s_mov_b32 m0, 0
s_nop 0
buffer_load_dwordx4 v2, s[8:11], 0 offen lds
global_load_dwordx4 v[4:7], v2, s[4:5]
global_load_ushort v8, v2, s[4:5]
s_waitcnt vmcnt(1)
s_barrier
s_sub_u32 s6, s6, 1
s_cbranch_scc1 Lproduce
s_endpgm
Lconsume:
s_barrier
ds_read_b64 v[4:5], v2
s_waitcnt vmcnt(0) lgkmcnt(0)
v_mfma_f32_32x32x16_bf16 a[240:255], v[4:7], v[4:7], a[240:255]
v_mfma_f32_16x16x32_bf16 a[0:3], v[4:7], v[4:7], a[0:3]
v_mfma_f32_16x16x32_bf16 a[4:7], v[4:7], v[4:7], a[4:7]
global_store_dwordx2 v2, v[4:5], s[4:5]
s_sub_u32 s6, s6, 1
s_cbranch_scc1 Lconsume
s_endpgm
.Lend:
.size split, .Lend-split
.rodata
.p2align 6
.amdhsa_kernel split
  .amdhsa_next_free_vgpr 512
  .amdhsa_next_free_sgpr 32
  .amdhsa_accum_offset 256
  .amdhsa_group_segment_fixed_size 8192
  .amdhsa_user_sgpr_count 2
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: split
    .symbol: 'split.kd'
    .kernarg_segment_size: 20
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 8192
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 32
    .vgpr_count: 512
    .max_flat_workgroup_size: 256
    .args:
      - .name: "out"
        .offset: 0
        .size: 8
        .value_kind: global_buffer
        .address_space: global
      - .name: rounds
        .size: 4
        .offset: 0x10
        .value_kind: by_value
...
.end_amdgpu_metadata
"""


@pytest.fixture(params=["s", pytest.param("co", marks=[needs_clang, pytest.mark.needs_objdump])])
def report(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Of the text and of the code object made of it."""
    path = tmp_path / f"split.{request.param}"
    path.write_bytes(TEXT.encode() if request.param == "s" else assemble(TEXT, "gfx950"))
    return inspect_file(path)


def test_agprs_in_use_count_where_the_metadata_leave_them_out(report: Any) -> None:
    (kernel,) = report.as_json()["kernels"]
    assert (kernel["vgpr"], kernel["agpr"], kernel["lds"], kernel["occupancy"]) == (512, 256, 8192, 1)
    assert "512 VGPRs of the unified file, 256 of them AGPRs" in inspection_text(report)


def test_arguments_and_workgroup(report: Any) -> None:
    (kernel,) = report.as_json()["kernels"]
    assert kernel["arguments"] == [{"name": "out", "offset": 0, "size": 8, "kind": "global_buffer"},
                                   {"name": "rounds", "offset": 16, "size": 4, "kind": "by_value"}]
    assert kernel["workgroup"] == {"most": 256, "block": [256, 1, 1], "waves": 4}
    text = inspection_text(report)
    assert "at most 256 work-items, 4 waves" in text and "rounds        16      4  by_value" in text


def test_matrix_cycles_bytes_and_waves_of_each_loop(report: Any) -> None:
    """Two passes less or more change the cycles: 32x32x16 has 8 of them, 16x16x32 has 4, each of 4 cycles."""
    produce, consume = report.as_json()["kernels"][0]["loops"]
    assert produce["mfma_kinds"] == [] and produce["bytes"] == {"global_load": 64 * 18, "lds_dma": 1024}
    assert consume["bytes"] == {"global_store": 512, "lds_load": 512}
    assert [(kind["name"], kind["count"], kind["passes"], kind["cycles"]) for kind in consume["mfma_kinds"]] == [
        ("v_mfma_f32_16x16x32_bf16", 2, 4, 16), ("v_mfma_f32_32x32x16_bf16", 1, 8, 32)]
    assert consume["mfma_cycles"] == 64 and (consume["mfma"], consume["waits"], consume["barriers"]) == (3, 1, 1)
    assert (produce["waves"], consume["waves"]) == ([0, 1], [2, 3])
    text = inspection_text(report)
    assert "taken by waves 0 to 1 of 4" in text and "taken by waves 2 to 3 of 4" in text
    assert "2 v_mfma_f32_16x16x32_bf16 of 16 cycles, 1 v_mfma_f32_32x32x16_bf16 of 32 cycles: 64 cycles" in text
    assert "global_load 1152, lds_dma 1024" in text


def test_what_each_wait_releases(report: Any) -> None:
    """Of the producer's round the register load issued last may stay in flight; the one of the round before and the data for LDS land."""
    waits = report.as_json()["kernels"][0]["wait_list"]
    assert [(wait["text"], wait["counts"]) for wait in waits] == [
        ("s_waitcnt lgkmcnt(0)", {"lgkmcnt": 0}), ("s_waitcnt vmcnt(1)", {"vmcnt": 1}),
        ("s_waitcnt vmcnt(0) lgkmcnt(0)", {"vmcnt": 0, "lgkmcnt": 0})]
    shown = [[(row["counter"], row["operations"], row["operation"], row["brings"]) for row in wait["releases"]] for wait in waits]
    assert shown[0] == [("lgkmcnt", 1, "s_load_dwordx2", "registers"), ("lgkmcnt", 1, "s_load_dword", "registers")]
    assert shown[1] == [("vmcnt", 1, "buffer_load_dwordx4 lds", "LDS data"), ("vmcnt", 1, "global_load_dwordx4", "registers")]
    assert shown[2] == [("vmcnt", 1, "global_store_dwordx2", "completion"), ("lgkmcnt", 1, "ds_read_b64", "registers")]
    assert wait_rows(report.kernels[0])[1][1::2] == ("vmcnt(1)", "1 buffer_load_dwordx4 lds (LDS data), 1 global_load_dwordx4 (registers)")
    json.dumps(report.as_json())


def test_one_loop_for_all_waves_is_not_spoken_of(tmp_path: Path) -> None:
    path = tmp_path / "split.s"
    path.write_text(TEXT.replace("s_cmp_lt_u32 s20, 2", "s_cmp_lt_u32 s20, s6"))
    report = inspect_file(path)
    assert [loop.waves for loop in report.kernels[0].loops] == [(0, 1, 2, 3)] * 2 and "taken by" not in inspection_text(report)


def test_without_metadata_nothing_is_made_up(tmp_path: Path) -> None:
    path = tmp_path / "split.s"
    path.write_text(TEXT.split(".rodata")[0])
    (kernel,) = inspect_file(path).as_json()["kernels"]
    assert kernel["arguments"] == [] and kernel["workgroup"] == {"most": None, "block": None, "waves": None}
    assert kernel["agpr"] == 256 and [loop["waves"] for loop in kernel["loops"]] == [None, None]


def test_a_row_of_work_items_and_lds_of_the_launch() -> None:
    """As Triton's attention: y and z stand in v0 and nothing takes them, LDS is given at the launch."""
    code = "v_and_b32 v0, 0x3ff, v0\nv_and_or_b32 v1, v0, 48, s20\nv_lshlrev_b32 v0, 2, v0\nds_write_b32 v0, v1\ns_endpgm\n"
    (program,) = read_text(code, "gfx950", "row")
    kernel = inspect_program(program, None, facts=KernelFacts(lds=0, most=512))
    assert kernel.block == (512, 1, 1) and "0 bytes of LDS and what a launch adds, 0 of scratch" in resources_text(kernel)
    assert "512 bytes of LDS, 0 of scratch" in resources_text(inspect_program(program, None, facts=KernelFacts(lds=512, most=512)))


def test_waves_text() -> None:
    assert [waves_text(waves) for waves in ((), (3,), (0, 1, 2, 3), (0, 2, 3, 7))] == ["", "3", "0 to 3", "0, 2 to 3, 7"]


@pytest.mark.parametrize("text", [
    "", ".amdgpu_metadata\n.end_amdgpu_metadata", ".amdgpu_metadata\n- - -\n.end_amdgpu_metadata", ".amdgpu_metadata\namdhsa.kernels:\n"
    ".end_amdgpu_metadata", ".amdgpu_metadata\namdhsa.kernels: 5\n.end_amdgpu_metadata",
    ".amdgpu_metadata\namdhsa.kernels:\n" + "".join(f"{' ' * depth}- .a:\n" for depth in range(200)) + ".end_amdgpu_metadata"])
def test_damaged_metadata_are_passed_over(text: str) -> None:
    assert text_metadata(text) == {}


def test_metadata_of_two_kernels_and_lists_at_their_keys_column() -> None:
    found = text_metadata("""\
.amdgpu_metadata
amdhsa.kernels:
- .name: a
  .args:
  - .offset: 0
    .size: 4
  .reqd_workgroup_size:
  - 64
  - 2
  - 1
- .reqd_workgroup_size: [ 8, 8, 2 ]   # flow
  .name: b
amdhsa.version:
  - 1
.end_amdgpu_metadata
""")
    assert found == {"a": {".name": "a", ".args": [{".offset": 0, ".size": 4}], ".reqd_workgroup_size": [64, 2, 1]},
                     "b": {".reqd_workgroup_size": [8, 8, 2], ".name": "b"}}


def test_tagged_names_in_metadata_text() -> None:
    """What looks like a number to YAML is written with a tag, by us as well."""
    for name in ("!str '_04_tile'", "!!str \"_04_tile\"", "'_04_tile'"):
        text = f"\t.amdgpu_metadata\n---\namdhsa.kernels:\n  - .name: {name}\n    .sgpr_count: 5\n...\n\t.end_amdgpu_metadata\n"
        assert text_metadata(text) == {"_04_tile": {".name": "_04_tile", ".sgpr_count": 5}}
