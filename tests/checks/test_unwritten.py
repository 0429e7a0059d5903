"""R005: registers read before anything wrote them; each fault beside the twin in which they are written."""

from __future__ import annotations

import pytest

from asmgen.checks.lint.facts import facts_of_text
from asmgen.checks.lint.programlint import lint_program
from asmgen.reader.assembly import read_text

DESCRIPTOR = """\
\t.amdhsa_kernel k
\t.amdhsa_next_free_vgpr 64
\t.amdhsa_next_free_sgpr 40
\t.amdhsa_accum_offset 64
\t.amdhsa_user_sgpr_kernarg_segment_ptr 1
\t.end_amdhsa_kernel
"""
PROLOGUE = """\
s_load_dwordx4 s[4:7], s[0:1], 0x0
s_mov_b32 s10, s2
s_waitcnt lgkmcnt(0)
v_lshlrev_b32 v1, 2, v0
buffer_load_dword v2, v1, s[4:7], s10 offen
s_waitcnt vmcnt(0)
"""
LOOP = """\
{}s_mov_b32 s8, 4
again:
buffer_load_dwordx2 v[4:5], v1, s[4:7], 0 offen
s_waitcnt vmcnt(0)
{}
s_sub_u32 s8, s8, 1
s_cmp_lg_u32 s8, 0
s_cbranch_scc1 again
"""
STORE = "buffer_store_dword v12, v1, s[4:7], 0 offen"


def found(code: str, descriptor: str = DESCRIPTOR) -> list[str]:
    """Severities of R005 in a kernel."""
    text = f"k:\n{PROLOGUE}{code}\ns_endpgm\n"
    (program,) = read_text(text, "gfx942", "k", "k.s")
    facts = facts_of_text(descriptor, "gfx942")
    findings = lint_program(program, "k.s", facts["k"]) if facts else lint_program(program, "k.s")
    return [finding.severity for finding in findings if finding.rule == "R005"]


@pytest.mark.parametrize(("code", "cure"), [
    ("s_mov_b64 exec, s[20:21]\nv_add_f32 v2, v2, v2\nbuffer_store_dword v2, v1, s[4:7], 0 offen", "s_mov_b64 s[20:21], -1\n"),
    ("buffer_load_dword v1, s[4:7], 0 offen lds", "s_mov_b32 m0, 0\ns_nop 0\n"),
    ("buffer_load_dword v3, v9, s[4:7], 0 offen", "v_mov_b32 v9, 0\n"),
    ("buffer_store_dword v2, v9, s[4:7], 0 offen", "v_mov_b32 v9, 0\n"),
    ("ds_write_b32 v9, v2", "v_mov_b32 v9, 0\n"),
    ("buffer_load_dword v3, v1, s[4:7], s12 offen", "s_mov_b32 s12, 0\n"),
    ("s_cbranch_scc1 out\ns_nop 0\nout:", "s_cmp_eq_u32 s10, 0\n"),
    ("v_fmac_f32 v3, v2, v2", "v_mov_b32 v3, 0\n"),
    ("v_mul_f32 v3, v2, v7", "v_mov_b32 v7, 1.0\n"),
    ("v_add_u32 v3, v2, v7", "v_mov_b32 v7, 1\n"),
    ("v_mfma_f32_4x4x4_16b_f16 v[8:11], v[4:5], v[4:5], v[12:15]",
     "".join(f"v_mov_b32 v{number}, 0\n" for number in (4, 5, 12, 13, 14, 15))),
    # An accumulator that the loop alone writes is read before, in the first round.
    (LOOP.format("", "v_add_f32 v3, v3, v4"), "v_mov_b32 v3, 0\n"),
    (LOOP.format("", "v_mfma_f32_4x4x4_16b_f16 a[0:3], v[4:5], v[4:5], a[0:3]"),
     "".join(f"v_accvgpr_write_b32 a{number}, 0\n" for number in range(4))),
])
def test_a_register_of_chance_is_told_and_a_written_one_is_not(code: str, cure: str) -> None:
    assert found(code) == ["warning"]
    assert found(cure + code) == []
    # On one of two ways is enough to say nothing: which way is taken is not known.
    assert found(f"s_cmp_lg_u32 s10, 3\ns_cbranch_scc1 over\n{cure}over:\n{code}") == []


def test_what_the_hardware_fills_or_an_instruction_keeps_is_no_fault() -> None:
    assert found("v_mov_b32_dpp v7, v2 row_shr:1 row_mask:0xa bank_mask:0xf") == []
    assert found("v_cvt_pk_fp8_f32 v7, v2, v2 op_sel:[0,0,1]") == []
    assert found("v_pk_mul_f32 v[8:9], v[2:3], v[2:3] op_sel_hi:[0,0]") == []
    assert found("v_add_u32 v3, v0, v2\ns_add_u32 s9, s2, s0") == []
    assert found("s_getpc_b64 s[20:21]\ns_swappc_b64 s[30:31], s[20:21]\nv_mul_f32 v3, v2, v7") == []
    assert found("v_sub_u32 v3, v3, v3\ns_sub_u32 s20, s20, s20\ns_cmp_eq_u32 s21, s21\nv_xor_b32 v7, v7, v7") == []
    assert found("s_set_gpr_idx_on s10, gpr_idx(DST)\nv_mov_b32 v10, v2\ns_set_gpr_idx_off\nv_add_f32 v3, v11, v2") == []
    assert found("s_mov_b32 m0, 2\ns_movreld_b32 s20, s2\ns_add_u32 s9, s22, s2") == []


def test_parts_of_vectors_that_mean_nothing_are_a_note() -> None:
    assert found("v_cndmask_b32 v3, v2, v7, vcc") == ["note"]
    assert found("v_lshrrev_b32 v3, 16, v7") == ["note"]
    assert found("s_andn2_b64 s[20:21], s[22:23], exec") == ["note"]
    assert found(STORE) == ["note"]


def test_the_upper_half_of_a_sum_of_which_the_lower_one_is_read() -> None:
    # clang adds 32 bits to a product so; v7 reaches the carry of v9 alone.
    sums = "v_mov_b32 v6, 0\nv_mad_u64_u32 v[8:9], s[20:21], s10, v2, v[6:7]\n"
    assert found(f"{sums}buffer_store_dword v8, v1, s[4:7], 0 offen") == ["note"]
    assert found(f"{sums}v_ashrrev_i32 v9, 31, v8\nbuffer_store_dwordx2 v[8:9], v1, s[4:7], 0 offen") == ["note"]
    assert found(f"{sums}buffer_store_dwordx2 v[8:9], v1, s[4:7], 0 offen") == ["warning"]
    lower = sums.replace("v_mov_b32 v6", "v_mov_b32 v7")
    assert found(f"{lower}buffer_store_dword v8, v1, s[4:7], 0 offen") == ["warning"]
    written = f"v_mov_b32 v7, 0\n{sums}"
    assert found(f"{written}buffer_store_dwordx2 v[8:9], v1, s[4:7], 0 offen") == []


def test_nothing_is_said_without_a_descriptor_and_a_note_of_a_fragment() -> None:
    assert found("s_mov_b64 exec, s[20:21]", "") == []
    assert found("s_add_u32 s9, s4, s3") == ["warning"]
    for unknown in ("user_sgpr_kernarg_preload_length ARGUMENTS", "user_sgpr_count 1 + 7", "system_sgpr_workgroup_id_y WITH_Y"):
        assert found("s_add_u32 s9, s4, s3", DESCRIPTOR.replace("\t.end", f"\t.amdhsa_{unknown}\n\t.end")) == []
    accumulators = "v_mfma_f32_4x4x4_16b_f16 v[8:11], v[2:3], v[2:3], v[12:15]"
    assert found(accumulators, DESCRIPTOR.replace("segment_ptr 1", "segment_ptr 0")) == []
    assert found("\n".join(f"v_add_f32 v1, v{number}, v2" for number in range(20, 24))) == ["note"] * 4
