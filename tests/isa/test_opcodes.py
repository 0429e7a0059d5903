"""The instruction tables against LLVM 22 and against literals typed from docs/facts/instructions.md sections 1 to 6."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from asmgen.isa import table
from asmgen.isa.check import resolve
from asmgen.isa.errors import OperandError
from asmgen.isa.modifiers import format_modifiers, parse_format, parse_swizzle
from asmgen.isa.opcode import Form, group_of, implicit_reads, is_lds_dma, reads_destination
from asmgen.isa.operands import OFF, HwReg, Operand, Symbol, Waitcnt
from asmgen.isa.registers import Modified, a, exec_, m0, s, v, vcc
from asmgen.tools.instructionsamples import Sample, legal
from tests.instruction_samples import assembler_errors, encodings, meaning, round_trip

ARCHS = ("gfx942", "gfx950")
needs_llvm = pytest.mark.skipif(shutil.which("llvm-mc-22") is None, reason="llvm-mc-22 is not installed")


def form_of(name: str, *operands: Operand, arch: str = "gfx950", suffix: str = "", **modifiers: object) -> Form:
    return resolve(table.opcode(name), operands, modifiers, arch, suffix)


def samples(arch: str, seed: int, share: float) -> list[Sample]:
    """One instance of every form of every opcode of an architecture."""
    rng = random.Random(seed)
    found = []
    for name in table.names(arch):
        opcode = table.opcode(name)
        found += [legal(rng, opcode, form, arch, share) for form in opcode.forms if not form.archs or arch in form.archs]
    return found


@needs_llvm
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_every_form_survives_assembler_and_disassembler(arch: str, share: float) -> None:
    found = samples(arch, 7, share)
    lines = [sample.text() for sample in found]
    assert len(lines) > 2500
    decoded = round_trip(lines, arch)
    # Swizzles are left out: llvm-objdump drops the bits that a mode does not use.
    plain = [number for number, line in enumerate(lines) if not line.startswith("ds_swizzle")]
    assert encodings([decoded[number].split("//")[0] for number in plain], arch) == encodings([lines[number] for number in plain], arch)
    for sample, line, back in zip(found, lines, decoded, strict=True):
        name, operands, modifiers = meaning(line)
        back_name, back_operands, back_modifiers = meaning(back)
        assert name == back_name, (line, back)
        if sample.opcode.name == "ds_swizzle_b32":
            continue
        assert modifiers == back_modifiers, (line, back)
        # Labels, wait counts and 16-bit immediates are spelled anew, floats where they are literals as bits: their bytes were compared.
        if sample.opcode.encoding not in ("SOPP", "SOPK", "SOPC"):
            assert [text for text in operands if "." not in text] == [text for old, text in zip(operands, back_operands, strict=True)
                                                                     if "." not in old], (line, back)


@needs_llvm
@pytest.mark.parametrize("arch", ARCHS)
def test_rows_exist_on_exactly_the_architectures_they_claim(arch: str) -> None:
    rng = random.Random(11)
    lines, expected = [], []
    for name in table.names():
        opcode = table.opcode(name)
        for form in opcode.forms:
            home = "gfx950" if "gfx950" in (form.archs or opcode.archs) else "gfx942"
            lines.append(legal(rng, opcode, form, home).text())
            expected.append(arch in opcode.archs and (not form.archs or arch in form.archs))
    refused = assembler_errors(lines, arch)
    wrong = [(line, refused.get(number)) for number, line in enumerate(lines) if (number not in refused) != expected[number]]
    assert not wrong
    assert len(expected) - sum(expected) > (150 if arch == "gfx942" else 1)


@needs_llvm
@pytest.mark.parametrize("arch", ARCHS)
def test_without_a_suffix_the_assembler_chooses_the_same_form(arch: str) -> None:
    found = [sample for sample in samples(arch, 13, 0.2)
             if not any(isinstance(operand, Modified) and not hasattr(operand.value, "file") for operand in sample.operands)]
    chosen = [resolve(sample.opcode, sample.operands, sample.modifiers, arch) for sample in found]
    back = round_trip([sample.text("") for sample in found], arch)
    assert [sample.opcode.name + form.suffix for sample, form in zip(found, chosen, strict=True)] == [line.split()[0] for line in back]


def inventory() -> list[tuple[str, list[str], list[str]]]:
    lines = (Path(__file__).parents[1] / "isa_inventory.txt").read_text().splitlines()[1:]
    return [(words[0], words[1].split(","), words[2:]) for words in map(str.split, lines)]


def test_every_mnemonic_of_the_inventories_has_a_row_and_its_forms() -> None:
    rows = inventory()
    assert len(rows) > 380
    for name, archs, suffixes in rows:
        opcode = table.find(name)
        assert opcode is not None, name
        assert set(archs) <= opcode.archs, name
        assert {f"_{suffix}" for suffix in suffixes} <= {form.suffix for form in opcode.forms}, name


@needs_llvm
@pytest.mark.parametrize("arch", ARCHS)
def test_aliases_assemble_to_the_canonical_bytes(arch: str) -> None:
    rng = random.Random(17)
    aliases = [(alias, name) for alias, name in table._aliases().items() if arch in table.opcode(name).archs]
    assert len(aliases) > 30
    pairs = []
    for alias, name in aliases:
        sample = legal(rng, table.opcode(name), table.opcode(name).forms[0], arch, 0.0)
        pairs.append((sample.text(), sample.text().replace(name, alias, 1)))
        assert table.canonical(alias) == (name, "")
    assert encodings([new for new, _ in pairs], arch) == encodings([old for _, old in pairs], arch)


def test_names_suffixes_and_the_unknown() -> None:
    assert table.canonical("v_add_f32_e64") == ("v_add_f32", "_e64")
    assert table.canonical("v_mov_b32_sdwa") == ("v_mov_b32", "_sdwa")
    assert table.canonical("v_mfma_f32_32x32x4bf16") == ("v_mfma_f32_32x32x4_2b_bf16", "")
    assert table.canonical("v_mfma_f32_16x16x16bf16_1k") == ("v_mfma_f32_16x16x16_bf16", "")
    assert table.canonical("v_fma_mix_f32") == ("v_fma_mix_f32", "")
    assert table.canonical("nonsense") == ("nonsense", "")
    assert table.opcode("v_add_f32_e64") == table.opcode("v_add_f32")
    assert table.find("v_mad_f32") is None
    with pytest.raises(OperandError, match="v_ad_f32.*v_add_f32"):
        table.opcode("v_ad_f32")
    with pytest.raises(OperandError):
        table.opcode("x" * 10_000)
    assert len(table.names("gfx942")) < len(table.names("gfx950")) < len(table.names())
    assert "v_mfma_f32_16x16x8_xf32" not in table.names("gfx950")


MATRIX = [  # name, vdst, src0, src1, src2 registers (docs/facts/instructions.md section 1)
    ("v_mfma_f32_32x32x8_bf16", 16, 2, 2, 16), ("v_mfma_f32_16x16x32_f16", 4, 4, 4, 4), ("v_mfma_i32_4x4x4_16b_i8", 4, 1, 1, 4),
    ("v_mfma_f32_32x32x1_2b_f32", 32, 1, 1, 32), ("v_mfma_f64_16x16x4_f64", 8, 2, 2, 8), ("v_smfmac_f32_16x16x128_bf8_fp8", 4, 4, 8, 1),
    ("v_mfma_f32_16x16x8_xf32", 4, 2, 2, 4), ("v_smfmac_i32_32x32x32_i8", 16, 2, 4, 1),
]


@pytest.mark.parametrize("name, widths", [(row[0], row[1:]) for row in MATRIX])
def test_matrix_operand_widths(name: str, widths: tuple[int, ...]) -> None:
    opcode = table.opcode(name)
    assert tuple(place.width for place in opcode.forms[0].operands) == widths
    assert opcode.reads == frozenset() and opcode.group == "matrix" and not opcode.vmcnt
    assert opcode.forms[0].operands[0].reads == ("smfmac" in name)


def test_matrix_passes_and_classes() -> None:
    from asmgen.isa.opcodes.mfma import MFMA
    assert len(MFMA) == 70
    assert sum("gfx942" in row.archs for row in MFMA.values()) == 46
    assert sum("gfx950" in row.archs for row in MFMA.values()) == 68
    assert MFMA["v_mfma_f64_16x16x4_f64"].passes_on("gfx942") == 8
    assert MFMA["v_mfma_f64_16x16x4_f64"].passes_on("gfx950") == 16
    scaled = MFMA["v_mfma_scale_f32_32x32x64_f8f6f4"]
    assert [scaled.passes_on("gfx950", *formats) for formats in ((0, 0), (4, 1), (1, 4), (2, 4), (4, 3))] == [16, 16, 16, 8, 8]
    assert scaled.registers(2, 4) == (6, 4, 16) and scaled.formats(3, 1) == ("bf6", "bf8")
    with pytest.raises(KeyError):
        scaled.passes_on("gfx942")
    assert MFMA["v_smfmac_f32_16x16x64_bf16"].kind == "xdl" and MFMA["v_mfma_f32_16x16x4_f32"].kind == "sgemm"


COUNTERS = [  # name, vmcnt, lgkmcnt, group, memory kind, bytes (docs/facts/instructions.md section 4)
    ("buffer_load_dwordx4", 1, 0, "global_load", "load", 16), ("global_store_short", 1, 0, "global_store", "store", 2),
    ("flat_load_ubyte", 1, 1, "global_load", "load", 1), ("scratch_load_dwordx3", 1, 0, "global_load", "load", 12),
    ("ds_read_b64_tr_b16", 0, 1, "lds_read", "load", 8), ("ds_write2_b64", 0, 1, "lds_write", "store", 16),
    ("ds_read2st64_b32", 0, 1, "lds_read", "load", 8), ("s_load_dword", 0, 1, "salu", "load", 4),
    ("s_load_dwordx16", 0, 2, "salu", "load", 64), ("global_atomic_cmpswap_x2", 1, 0, "global_store", "atomic", 8),
    ("ds_bpermute_b32", 0, 1, "lds_read", None, 0), ("s_sendmsg", 0, 1, "other", None, 0), ("buffer_inv", 0, 0, "other", None, 0),
    ("global_load_lds_dwordx4", 1, 0, "lds_dma", "load", 16), ("v_add_f32", 0, 0, "valu", None, 0), ("s_nop", 0, 0, "nop", None, 0),
    ("s_cbranch_scc1", 0, 0, "branch", None, 0), ("s_barrier", 0, 0, "barrier", None, 0), ("v_accvgpr_read_b32", 0, 0, "accvgpr", None, 0),
    ("s_setprio", 0, 0, "other", None, 0), ("s_waitcnt", 0, 0, "wait", None, 0),
    ("buffer_atomic_pk_add_bf16", 1, 0, "global_store", "atomic", 4),
]


@pytest.mark.parametrize("name, vmcnt, lgkmcnt, group, kind, size", COUNTERS)
def test_counters_groups_and_memory(name: str, vmcnt: int, lgkmcnt: int, group: str, kind: str | None, size: int) -> None:
    opcode = table.opcode(name)
    assert (opcode.vmcnt, opcode.lgkmcnt, opcode.group) == (vmcnt, lgkmcnt, group)
    if kind is None:
        assert opcode.memory is None
    else:
        assert opcode.memory is not None
        assert (opcode.memory.kind, opcode.memory.bytes) == (kind, size)


IMPLICIT = [  # name, read, written
    ("s_add_u32", "", "scc"), ("s_addc_u32", "scc", "scc"), ("s_cselect_b32", "scc", ""), ("s_mul_i32", "", ""), ("s_mov_b64", "", ""),
    ("s_and_saveexec_b64", "exec", "exec scc"), ("s_cmp_lt_i32", "", "scc"), ("s_cbranch_vccnz", "vcc", ""),
    ("s_cbranch_execz", "exec", ""),
    ("s_movrels_b32", "m0", ""), ("s_set_gpr_idx_on", "m0", "m0"), ("v_add_f32", "exec", ""), ("v_readlane_b32", "", ""),
    ("v_readfirstlane_b32", "exec", ""), ("v_writelane_b32", "", ""), ("v_div_fmas_f32", "exec vcc", ""), ("v_cmpx_lt_i32", "exec", "exec"),
    ("v_mfma_f32_32x32x8_f16", "", ""), ("ds_read_b128", "exec", ""), ("ds_write_addtid_b32", "exec m0", ""), ("s_mul_hi_u32", "", ""),
    ("global_load_lds_dword", "exec m0", ""), ("s_bcnt1_i32_b64", "", "scc"), ("s_ff1_i32_b32", "", ""), ("s_addk_i32", "", "scc"),
    ("s_cmovk_i32", "scc", ""),
]


@pytest.mark.parametrize("name, read, written", IMPLICIT)
def test_implicit_registers(name: str, read: str, written: str) -> None:
    opcode = table.opcode(name)
    assert opcode.reads == frozenset(read.split())
    assert opcode.writes == frozenset(written.split())


def roles(form: Form) -> dict[str, str]:
    return {place.name: "r" * place.reads + "w" * place.writes for place in form.operands}


def test_operand_roles() -> None:
    assert roles(form_of("v_fmac_f32", v[0], v[1], v[2])) == {"vdst": "rw", "src0": "r", "src1": "r"}
    assert roles(form_of("v_swap_b32", v[0], v[1])) == {"vdst": "rw", "src0": "rw"}
    assert roles(form_of("v_addc_co_u32", v[0], vcc, v[1], v[2], vcc)) == {"vdst": "w", "sdst": "w", "src0": "r", "src1": "r", "vcc": "r"}
    assert roles(form_of("s_cmov_b32", s[0], s[1])) == {"sdst": "rw", "ssrc0": "r"}
    assert roles(form_of("s_cselect_b32", s[0], s[1], s[2])) == {"sdst": "w", "ssrc0": "r", "ssrc1": "r"}
    assert roles(form_of("s_addk_i32", s[0], 5)) == {"sdst": "rw", "simm16": "r"}
    assert roles(form_of("s_cmpk_eq_u32", s[0], 5))["sdst"] == "r"
    assert roles(form_of("buffer_atomic_add", v[0], v[1], s[0:3], 0, offen=True))["vdata"] == "r"
    assert roles(form_of("buffer_atomic_add", v[0], v[1], s[0:3], 0, offen=True, sc0=True))["vdata"] == "rw"
    assert roles(form_of("global_atomic_add", v[0], v[2:3], v[4], OFF, sc0=True)) == {
        "vdst": "w", "vaddr": "r", "vdata": "r", "saddr": "r"}
    assert roles(form_of("global_load_short_d16_hi", v[0], v[2:3], OFF))["vdst"] == "rw"
    assert roles(form_of("global_load_ushort", v[0], v[2:3], OFF))["vdst"] == "w"
    assert roles(form_of("s_atomic_add", s[0], s[2:3], 0, glc=True))["sdata"] == "rw"
    assert roles(form_of("v_writelane_b32", v[0], s[1], 3))["vdst"] == "rw"
    assert roles(form_of("v_cvt_pk_fp8_f32", v[0], v[1], v[2]))["vdst"] == "rw"
    assert roles(form_of("v_cmp_lt_u32", vcc, v[1], v[2])) == {"sdst": "w", "src0": "r", "src1": "r"}


def test_modifiers_that_make_the_destination_a_source() -> None:
    quad = {"quad_perm": (0, 1, 2, 3)}
    dpp = form_of("v_mov_b32", v[0], v[1], **quad)
    assert reads_destination(dpp, quad)
    assert not reads_destination(dpp, {**quad, "bound_ctrl": 1})
    assert reads_destination(dpp, {**quad, "bound_ctrl": 1, "bank_mask": 7})
    sdwa = form_of("v_mov_b32", v[0], v[1], dst_sel="WORD_1")
    assert reads_destination(sdwa, {"dst_sel": "WORD_1"})
    assert not reads_destination(sdwa, {"dst_sel": "WORD_1", "dst_unused": "UNUSED_PAD"})
    assert not reads_destination(sdwa, {"dst_unused": "UNUSED_PRESERVE"})
    fma = form_of("v_fma_f16", v[0], v[1], v[2], v[3])
    assert not reads_destination(fma, {"op_sel": (1, 1, 1, 0)}) and reads_destination(fma, {"op_sel": (0, 0, 0, 1)})
    assert not reads_destination(form_of("v_fma_f32", v[0], v[1], v[2], v[3]), {})


def test_loads_into_lds() -> None:
    opcode = table.opcode("buffer_load_dwordx4")
    plain = form_of("buffer_load_dwordx4", v[0:3], v[4], s[0:3], 0, offen=True)
    dma = form_of("buffer_load_dwordx4", v[4], s[0:3], 0, offen=True, lds=True)
    assert not is_lds_dma(opcode, plain) and is_lds_dma(opcode, dma)
    assert group_of(opcode, plain) == "global_load" and group_of(opcode, dma) == "lds_dma"
    assert implicit_reads(opcode, plain) == {"exec"} and implicit_reads(opcode, dma) == {"exec", "m0"}
    other = table.opcode("global_load_lds_dword")
    assert is_lds_dma(other, other.forms[0]) and group_of(other, other.forms[0]) == "lds_dma"


def test_preference_of_forms() -> None:
    assert form_of("v_add_f32", v[0], s[1], v[2]).suffix == "_e32"
    assert form_of("v_add_f32", v[0], v[1], s[2]).suffix == "_e64"
    assert form_of("v_add_f32", v[0], Modified(v[1], neg=True), v[2]).suffix == "_e64"
    assert form_of("v_add_f32", v[0], v[1], v[2], suffix="_e64").suffix == "_e64"
    assert form_of("v_add_f32", v[0], v[1], v[2], row_newbcast=3).suffix == "_dpp"
    assert form_of("v_and_b32", v[0], Modified(v[1], sext=True), v[2]).suffix == "_sdwa"
    assert form_of("v_cmp_eq_u32", vcc, v[1], v[2]).suffix == "_e32"
    assert form_of("v_cmp_eq_u32", s[0:1], v[1], v[2]).suffix == "_e64"
    assert form_of("v_mul_lo_u32", v[0], v[1], v[2], suffix="_e64").suffix == ""
    assert form_of("v_mfma_f32_32x32x8_f16", a[0:15], v[0:1], a[20:21], a[0:15]).suffix == ""
    with pytest.raises(OperandError, match="no form _dpp"):
        form_of("v_mul_lo_u32", v[0], v[1], v[2], suffix="_dpp")


def test_trans_dot_and_hazard_classes() -> None:
    for name in ("v_exp_f32", "v_rcp_iflag_f32", "v_rsq_f64", "v_sin_f16", "v_log_legacy_f32"):
        assert "trans" in table.opcode(name).classes
    for name in ("v_fract_f32", "v_prng_b32", "v_frexp_mant_f32", "v_ceil_f64"):
        assert "trans" not in table.opcode(name).classes
    for name in ("v_dot2c_f32_bf16", "v_dot2_f32_f16", "v_dot8_u32_u4"):
        assert "dot" in table.opcode(name).classes
    assert {"setreg"} <= table.opcode("s_setreg_imm32_b32").classes and {"lds", "gws"} <= table.opcode("ds_gws_init").classes
    assert {"readlane", "readfirstlane"} <= table.opcode("v_readfirstlane_b32").classes


def test_modifier_text_is_in_the_disassemblers_order() -> None:
    assert format_modifiers({}) == ""
    assert format_modifiers({"sc1": True, "offset": 16, "nt": True, "offen": True, "idxen": True, "sc0": True, "lds": True}) \
        == " idxen offen offset:16 sc0 nt sc1 lds"
    assert format_modifiers({"clamp": True, "mul": 4, "op_sel": (0, 1), "neg_hi": (1, 0)}) == " op_sel:[0,1] neg_hi:[1,0] clamp mul:4"
    assert format_modifiers({"bank_mask": 5, "row_mask": 3, "quad_perm": (3, 2, 1, 0)}) == " quad_perm:[3,2,1,0] row_mask:0x3 bank_mask:0x5"
    assert format_modifiers({"src0_sel": "WORD_1", "dst_sel": "BYTE_0", "dst_unused": "UNUSED_PAD"}) \
        == " dst_sel:BYTE_0 dst_unused:UNUSED_PAD src0_sel:WORD_1"
    assert format_modifiers({"offset": 0, "clamp": False, "sc0": None, "row_newbcast": 0}) == " row_newbcast:0"


def test_buffer_formats_and_swizzles() -> None:
    assert parse_format("22") == 22
    assert parse_format("[BUF_DATA_FORMAT_32,BUF_NUM_FORMAT_FLOAT]") == 4 | 7 << 4
    assert parse_format("[BUF_DATA_FORMAT_10_11_11,BUF_NUM_FORMAT_SNORM]") == 22
    assert parse_swizzle("swizzle(QUAD_PERM,0,1,2,3)") == 0x80E4
    assert parse_swizzle("swizzle(SWAP,16)") == 0x401F
    assert parse_swizzle("swizzle(REVERSE,8)") == 0x1C1F
    assert parse_swizzle("swizzle(BROADCAST,16,3)") == 0x70
    assert parse_swizzle('swizzle(BITMASK_PERM,"01pip")') == 0b0_00010_01000_00111
    assert parse_swizzle("swizzle(ROTATE,1,31)") == 0xC7E0 and parse_swizzle("swizzle(FFT,31)") == 0xE01F
    for text in ("swizzle(NO_SUCH,1)", "[BUF_DATA_FORMAT_NONE]", "swizzle(QUAD_PERM,1)"):
        with pytest.raises(ValueError):
            (parse_format if text[0] == "[" else parse_swizzle)(text)


@pytest.mark.parametrize(("text", "sentence"), [
    ("QUAD_PERM,0,1,2,4", "the lane is a number from 0 to 3, not 4"), ("QUAD_PERM,-1,1,2,3", "not -1"),
    ("SWAP,0", "a power of two from 1 to 16, not 0"), ("SWAP,3", "not 3"), ("SWAP,32", "not 32"), ("REVERSE,1", "from 2 to 32, not 1"),
    ("REVERSE,64", "not 64"), ("BROADCAST,6,0", "not 6"), ("BROADCAST,2,2", "the lane is 2, and a group of 2 has lanes 0 to 1"),
    ("ROTATE,2,0", "the direction is a number from 0 to 1, not 2"), ("ROTATE,0,32", "not 32"), ("FFT,32", "not 32"),
    ("FFT,x", "x is no number"), ("FFT,1,2", "is no swizzle mode"), ('BITMASK_PERM,"01pix"', "x is none of")])
def test_swizzles_that_the_assembler_refuses(text: str, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_swizzle(f"swizzle({text})")
    assert sentence in str(caught.value) and text in str(caught.value)


def test_scalar_operand_kinds() -> None:
    assert form_of("s_waitcnt", Waitcnt(vmcnt=3)) and form_of("s_waitcnt", 0x70)
    assert form_of("s_getreg_b32", s[0], HwReg(1, 4, 2)).operands[0].writes
    assert str(HwReg(18, 0, 32)) == "hwreg(HW_REG_TMA_LO)" and str(HwReg(25, 3, 4)) == "hwreg(25, 3, 4)"
    assert form_of("s_branch", Symbol("loop")) and form_of("s_add_u32", s[0], s[1], Symbol("table@rel32@lo+4"))
    assert form_of("s_mov_b64", exec_, -1) and form_of("s_mov_b32", m0, 0x12345678)
    assert form_of("s_load_dwordx2", s[2:3], s[0:1], s[4], offset=-8).operands[2].name == "soffset"
