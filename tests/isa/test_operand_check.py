"""What `resolve` refuses and accepts: compared with llvm-mc on random instructions, and trap by trap with its message."""

from __future__ import annotations

import random
import shutil
from typing import Any

import pytest

from asmgen.isa import table
from asmgen.isa.check import _RESOLVED, resolve
from asmgen.isa.errors import OperandError
from asmgen.isa.operands import OFF, HwReg, Operand, Special, Symbol, Waitcnt
from asmgen.isa.registers import Modified, Reg, a, exec_, m0, s, v, vcc
from asmgen.tools.instructionsamples import Sample
from tests.instruction_samples import assembler_errors, spoilt

CASES = 12_000  # for each architecture
needs_llvm = pytest.mark.skipif(shutil.which("llvm-mc-22") is None, reason="llvm-mc-22 is not installed")


def verdict(sample: Sample, arch: str) -> str:
    """"" where the sample is taken, else why not."""
    try:
        resolve(sample.opcode, sample.operands, sample.modifiers, arch, sample.suffix)
    except OperandError as error:
        return error.sentence
    return ""


def trap(sample: Sample) -> str:
    """Which listed trap a sample is: something that LLVM takes and asmgen refuses on purpose. "" if none."""
    name, operands, modifiers = sample.opcode.name, sample.operands, sample.modifiers
    encoding = sample.opcode.encoding
    first = operands[0] if operands else None
    if encoding in ("MUBUF", "MTBUF") and modifiers.get("offset") == 4096:
        return "a buffer offset of 4096 is encoded as 0"
    if encoding == "SOPP" and any(isinstance(operand, (int, float)) for operand in operands):
        return "an immediate beyond its field is cut"
    if name.startswith("s_atc_probe") and isinstance(first, (int, float)):
        return "an immediate beyond its field is cut"
    if name == "s_setreg_imm32_b32" and (isinstance(operands[-1], float) or operands[-1] == 1 << 32):
        return "a float as immediate is encoded as 0, more than 32 bits are cut"
    if encoding == "MAI":
        if "f8f6f4" in name and any(modifiers.get(key, 0) > 4 for key in ("cbsz", "blgp")):
            return "no such f8f6f4 format"
        if any(isinstance(operand, Special) for operand in operands):
            return "special sources of a matrix instruction cannot be disassembled"
        if isinstance(first, Reg) and first.count > 4 and any(isinstance(other, Reg) and other.overlaps(first) for other in operands[1:3]):
            return "A or B overlaps a wide D"
        if "scale" in name and any(len(modifiers.get(key, ())) == 3 and modifiers[key][2] for key in ("op_sel", "op_sel_hi")):
            return "the third selector of a scaled matrix instruction is dropped"
    if name.startswith("v_div_scale") and any(isinstance(operand, Modified) and operand.abs for operand in operands):
        return "|x| of v_div_scale is dropped"
    if name == "v_cvt_scalef32_sr_pk_fp4_f32" and len(operands) > 1 and not isinstance(operands[1], (Reg, Modified)):
        return "a constant as pair is miscoded"
    if name == "v_pk_fmac_f16" and (modifiers or any(isinstance(operand, Modified) for operand in operands)):
        return "modifiers of v_pk_fmac_f16 are dropped"
    if name in ("buffer_wbl2", "buffer_inv") and "nt" in modifiers:
        return "nt of a cache instruction is dropped"
    if "f64" in name and "atomic" in name and {"sc0", "sc1"} <= modifiers.keys() and any(
            isinstance(operand, Reg) and operand.file == "a" for operand in operands):
        return "sc1 beside AGPRs is dropped"
    return _odd_source(sample)


def _odd_source(sample: Sample) -> str:
    """Traps of single sources and destinations."""
    operands, modifiers = sample.operands, sample.modifiers
    places = [form.operands for form in sample.opcode.forms if len(form.operands) == len(operands)]
    if any(key.startswith(("row_", "wave_", "quad_perm")) for key in modifiers) and any(
            isinstance(getattr(operand, "value", operand), Reg) for operand in operands):
        wide = [getattr(operand, "value", operand) for operand in operands[1:]]
        if any(isinstance(reg, Reg) and reg.file == "v" and all(reg.count != place[number].width for place in places)
               for number, reg in enumerate(wide, 1)):
            return "DPP sources of any width are taken"
    sixteen = any(place.type in ("i16", "u16", "b16") for specs in places for place in specs)
    if sixteen and any(isinstance(operand, float) or operand in (0xFFFF, 0x3C00) for operand in operands):
        return "a constant as 16-bit integer: a float is encoded as 0, a negative number is two's complement in SDWA only"
    if sample.opcode.name.startswith("v_cvt_scalef32_sr_") and any(
            isinstance(operand, int) and not -16 <= operand <= 64 for operand in operands):
        return "bits of another format are taken for an inline constant"
    for number, operand in enumerate(operands):
        if isinstance(operand, Special) and any(
                specs[number].writes or specs[number].name in ("saddr", "sdata", "sdst", "offset", "soffset")
                or "s" in specs[number].accepts and "p" not in specs[number].accepts for specs in places):
            return "a constant register where one is written or an address stands"
    return ""


@pytest.mark.slow
@needs_llvm
@pytest.mark.parametrize("arch, seed", [("gfx942", 1), ("gfx950", 2)])
def test_verdicts_agree_with_the_assembler(arch: str, seed: int) -> None:
    rng = random.Random(seed)
    names = table.names(arch)
    samples = [spoilt(rng, table.opcode(names[number % len(names)]), arch) for number in range(CASES)]
    verdicts = [verdict(sample, arch) for sample in samples]
    refused = assembler_errors([sample.text() for sample in samples], arch)
    # Both verdicts must be common, or the comparison says little.
    assert CASES * 0.3 < sum(map(bool, verdicts)) < CASES * 0.7
    wrong = []
    for number, (sample, reason) in enumerate(zip(samples, verdicts, strict=True)):
        if bool(reason) == (number in refused):
            continue
        # What the assembler refuses is never taken; what it takes is refused for a listed reason only.
        if number in refused or not trap(sample):
            wrong.append((sample.text(), reason, refused.get(number)))
    assert not wrong


def refusal(name: str, *operands: Operand, arch: str = "gfx950", suffix: str = "", **modifiers: object) -> str:
    return verdict(Sample(table.opcode(name), list(operands), dict(modifiers), suffix), arch)


# Instruction, what the sentence must say, and the same instruction mended.
TRAPS = [
    (("v_mfma_f32_16x16x32_bf16", v[0:1], v[4:7], v[8:11], v[0:3]), {}, "vdst expects 4 registers, got v[0:1] (2)",
     ("v_mfma_f32_16x16x32_bf16", v[0:3], v[4:7], v[8:11], v[0:3]), {}),
    (("buffer_load_dword", v[0], OFF, s[0:3], 0), {"offset": 4096}, "offset expects 0 to 4095 bytes, got 4096",
     ("buffer_load_dword", v[0], OFF, s[0:3], 0), {"offset": 4095}),
    (("buffer_load_dword", v[0], v[1], s[0:3], 0), {}, "need the modifier offen",
     ("buffer_load_dword", v[0], v[1], s[0:3], 0), {"offen": True}),
    (("buffer_load_dword", v[0], v[1], s[2:5], 0), {"offen": True}, "srsrc expects a range that starts at a multiple of 4, got s[2:5]",
     ("buffer_load_dword", v[0], v[1], s[4:7], 0), {"offen": True}),
    (("buffer_load_dword", v[0], v[1], s[4:7], 65), {"offen": True}, "soffset expects",
     ("buffer_load_dword", v[0], v[1], s[4:7], 64), {"offen": True}),
    (("s_nop", 16), {}, "simm16 expects a number from 0 to 15, got 16", ("s_nop", 15), {}),
    (("v_mfma_f32_32x32x8_f16", v[0:15], v[14:15], v[20:21], v[0:15]), {}, "src0 v[14:15] must not overlap vdst v[0:15]",
     ("v_mfma_f32_32x32x8_f16", v[0:15], a[14:15], v[20:21], v[0:15]), {}),
    (("v_mfma_f32_32x32x8_f16", v[0:15], v[16:17], v[12:13], 0), {}, "src1 v[12:13] must not overlap vdst",
     ("v_mfma_f32_16x16x16_f16", v[0:3], v[0:1], v[2:3], 0), {}),
    (("v_mfma_f32_32x32x8_f16", v[0:15], v[40:41], v[42:43], v[8:23]), {}, "src2 v[8:23] must be vdst v[0:15] itself or not overlap it",
     ("v_mfma_f32_32x32x8_f16", v[0:15], v[40:41], v[42:43], v[16:31]), {}),
    (("v_mfma_f32_32x32x8_f16", v[0:15], v[40:41], v[42:43], a[0:15]), {}, "vdst and src2 must be in one register file",
     ("v_mfma_f32_16x16x16_f16", v[0:3], v[40:41], v[42:43], v[2:5]), {}),
    (("v_mfma_f32_32x32x8_f16", v[0:15], v[40:41], s[42:43], 0), {}, "src1 expects 2 VGPRs or 2 AGPRs, got s[42:43]",
     ("v_mfma_f32_32x32x8_f16", v[0:15], v[40:41], v[42:43], 1.0), {}),
    (("v_mfma_f32_16x16x128_f8f6f4", v[0:3], v[4:11], v[12:15], 0), {"cbsz": 2, "blgp": 4}, "src0 expects 6 registers, got v[4:11] (8)",
     ("v_mfma_f32_16x16x128_f8f6f4", v[0:3], v[4:9], v[12:15], 0), {"cbsz": 2, "blgp": 4}),
    (("v_mfma_scale_f32_32x32x64_f8f6f4", v[0:15], v[16:23], v[24:31], 0, v[32], s[3]), {}, "scale_src1 expects a VGPR, got s3",
     ("v_mfma_scale_f32_32x32x64_f8f6f4", v[0:15], v[16:23], v[24:31], 0, v[32], v[33]), {}),
    (("v_readfirstlane_b32", m0, v[0]), {}, "sdst expects a scalar register other than m0, got m0",
     ("v_readfirstlane_b32", s[0], v[0]), {}),
    (("v_fma_f32", v[0], s[0], s[1], v[1]), {}, "at most one scalar register or literal, got s0 and s1",
     ("v_fma_f32", v[0], s[0], s[0], v[1]), {}),
    (("v_fma_f32", v[0], 2.5, v[0], v[1]), {}, "2.5 needs a literal", ("v_fma_f32", v[0], 2.0, v[0], v[1]), {}),
    (("v_pk_fma_f32", v[0:1], s[0:1], s[2:3], v[2:3]), {}, "at most one scalar register",
     ("v_pk_fma_f32", v[0:1], s[0:1], v[4:5], v[2:3]), {}),
    (("v_cndmask_b32", v[0], s[0], v[1], vcc), {}, "got s0 and vcc", ("v_cndmask_b32", v[0], v[2], v[1], vcc), {}),
    (("v_div_fmas_f32", v[0], s[0], v[1], v[2]), {}, "got s0 and vcc (implicit)", ("v_div_fmas_f32", v[0], 1.0, v[1], v[2]), {}),
    (("v_add_f32", v[0], s[0], v[1]), {"row_shl": 1}, "src0 expects a VGPR, got s0", ("v_add_f32", v[0], v[2], v[1]), {"row_shl": 1}),
    (("v_add_f32", v[0], v[2], v[1]), {"row_shl": 16}, "row_shl expects 1 to 15, got 16", ("v_add_f32", v[0], v[2], v[1]), {"row_shl": 15}),
    (("v_add_f32", v[0], v[2], v[1]), {"row_shl": 1, "row_mirror": True}, "exactly one of",
     ("v_add_f32", v[0], v[2], v[1]), {"row_mirror": True}),
    (("v_mov_b64", v[0:1], v[2:3]), {"row_shl": 1}, "no modifier row_shl", ("v_mov_b64", v[0:1], v[2:3]), {"row_newbcast": 1}),
    (("v_add_f32", v[0], 2.5, v[1]), {"src0_sel": "BYTE_0"}, "needs a literal", ("v_add_f32", v[0], 2.0, v[1]), {"src0_sel": "BYTE_0"}),
    (("v_add_f32", v[0], v[1], v[2]), {"dst_sel": "BYTE_4"}, "dst_sel expects one of BYTE_0",
     ("v_add_f32", v[0], v[1], v[2]), {"dst_sel": "BYTE_3"}),
    (("v_add_f32", v[0], v[1], v[2]), {"mul": 3}, "mul expects 2 or 4, got 3", ("v_add_f32", v[0], v[1], v[2]), {"mul": 4}),
    (("v_add_f64", v[1:2], v[2:3], v[4:5]), {}, "vdst expects a range that starts at an even register, got v[1:2]",
     ("v_add_f64", v[0:1], v[2:3], v[4:5]), {}),
    (("ds_read_b96", v[1:3], v[0]), {}, "even register", ("ds_read_b96", v[2:4], v[0]), {}),
    (("ds_write2_b32", v[0], v[1], a[2]), {}, "data0 and data1 must be in one register file, got v1 and a2",
     ("ds_write2_b32", v[0], a[1], a[2]), {}),
    (("ds_read_b32", v[0], a[1]), {}, "addr expects a VGPR, got a1", ("ds_read_b32", a[0], v[1]), {}),
    (("ds_read_b32", v[0], v[1]), {"offset": 65536}, "offset expects 0 to 65535", ("ds_read_b32", v[0], v[1]), {"offset": 65535}),
    (("ds_gws_init", v[1]), {"gds": True}, "data0 expects an even register", ("ds_gws_init", v[2]), {"gds": True}),
    (("global_atomic_add", v[0], v[2:3], v[4], OFF), {}, "need the modifier sc0",
     ("global_atomic_add", v[0], v[2:3], v[4], OFF), {"sc0": True}),
    (("global_atomic_add", a[0], v[2:3], v[4], OFF), {"sc0": True}, "vdst and vdata must be in one register file",
     ("global_atomic_add", a[0], v[2:3], a[4], OFF), {"sc0": True}),
    (("global_load_dword", v[0], v[2:3], OFF), {"offset": -4097}, "offset expects -4096 to 4095",
     ("global_load_dword", v[0], v[2:3], OFF), {"offset": -4096}),
    (("flat_load_dword", v[0], v[2:3]), {"offset": -1}, "offset expects 0 to 4095", ("flat_load_dword", v[0], v[2:3]), {"offset": 1}),
    (("global_load_dword", v[0], v[2], OFF), {}, "vaddr expects 2 registers, got v2 (1)", ("global_load_dword", v[0], v[2], s[2:3]), {}),
    (("s_add_u32", s[0], 0x1234, 0x1235), {}, "only one literal fits, got 0x1234 and 0x1235", ("s_add_u32", s[0], 0x1234, 0x1234), {}),
    (("s_mov_b64", s[1:2], 0), {}, "even register, got s[1:2]", ("s_mov_b64", s[2:3], 0), {}),
    (("s_mov_b64", s[2:3], 1 << 32), {}, "needs a literal", ("s_mov_b64", s[2:3], (1 << 32) - 1), {}),
    (("s_load_dwordx8", s[6:13], s[0:1], 0), {}, "multiple of 4", ("s_load_dwordx8", s[4:11], s[0:1], 0), {}),
    (("s_load_dword", m0, s[0:1], 0), {}, "sdata expects a scalar register other than exec and m0, got m0",
     ("s_load_dword", s[4], s[0:1], 0), {}),
    (("s_load_dword", s[4], s[0:1], 1 << 20), {}, "offset expects a number from -1048576 to 1048575", ("s_load_dword", s[4], s[0:1],
     (1 << 20) - 1), {}),
    (("s_load_dwordx4", Reg("s", 100, 4), s[0:1], 0), {}, "inside s0 to s101", ("s_load_dwordx4", s[96:99], s[0:1], 0), {}),
    (("s_cmpk_eq_u32", s[0], -1), {}, "number from 0 to 65535", ("s_cmpk_eq_i32", s[0], -1), {}),
    (("s_waitcnt", Waitcnt(vmcnt=64)), {}, "vmcnt up to 63", ("s_waitcnt", Waitcnt(vmcnt=63)), {}),
    (("s_getreg_b32", s[0], HwReg(1, 0, 33)), {}, "size 1 to 32", ("s_getreg_b32", s[0], HwReg(1, 0, 32)), {}),
    (("v_accvgpr_write_b32", v[0], v[1]), {}, "vdst expects an AGPR, got v0", ("v_accvgpr_write_b32", a[0], v[1]), {}),
    (("v_add_f32", a[0], v[1], v[2]), {}, "vdst expects a VGPR, got a0", ("v_add_f32", v[0], v[1], v[2]), {}),
    (("v_div_scale_f32", v[0], vcc, Modified(v[1], abs=True), v[2], v[3]), {}, "without the modifier",
     ("v_div_scale_f32", v[0], vcc, Modified(v[1], neg=True), v[2], v[3]), {}),
    (("v_and_b32", v[0], Modified(v[1], neg=True), v[2]), {}, "without the modifier, got -v1",
     ("v_and_b32", v[0], Modified(v[1], sext=True), v[2]), {}),
    (("v_pk_add_f16", v[0], v[1], v[2]), {"op_sel": (0, 1, 1)}, "op_sel expects a tuple of 2",
     ("v_pk_add_f16", v[0], v[1], v[2]), {"op_sel": (0, 1)}),
    (("v_writelane_b32", v[0], s[0], s[1]), {}, "got s0 and s1", ("v_writelane_b32", v[0], s[0], m0), {}),
    (("v_fmamk_f32", v[0], s[0], 2.5, v[1]), {}, "got s0 and 2.5", ("v_fmamk_f32", v[0], v[2], 2.5, v[1]), {}),
    (("v_cmp_eq_u32", exec_, v[0], v[1]), {"row_shl": 1}, "no modifier row_shl", ("v_cmp_eq_u32", exec_, v[0], v[1]), {}),
    (("v_add_f32", v[0], v[1]), {}, "it takes 3 operands (vdst, src0, src1), got 2", ("v_sqrt_f32", v[0], v[1]), {}),
    (("s_branch", s[0]), {}, "simm16 expects a branch target, got s0", ("s_branch", Symbol("loop")), {}),
]


@pytest.mark.parametrize("bad, bad_modifiers, sentence, good, good_modifiers", TRAPS)
def test_traps_fire_and_their_mended_twins_do_not(bad: tuple[Any, ...], bad_modifiers: dict[str, Any], sentence: str,
                                                  good: tuple[Any, ...], good_modifiers: dict[str, Any]) -> None:
    said = refusal(*bad, **bad_modifiers)
    assert sentence in said and said.startswith(bad[0])
    assert refusal(*good, **good_modifiers) == ""


def test_architecture_is_part_of_the_verdict() -> None:
    operands = (v[0:3], v[4:7], v[8:11], v[0:3])
    assert "does not exist on gfx942, only on gfx950" in refusal("v_mfma_f32_16x16x32_bf16", *operands, arch="gfx942")
    assert refusal("v_mfma_f32_16x16x32_bf16", *operands) == ""
    dma = ("buffer_load_dwordx4", v[4], s[0:3], 0)
    assert "gfx950 only" in refusal(*dma, arch="gfx942", offen=True, lds=True)
    assert refusal(*dma, offen=True, lds=True) == ""
    assert refusal("buffer_load_dword", v[4], s[0:3], 0, arch="gfx942", offen=True, lds=True) == ""


def test_what_is_no_operand_at_all_is_named() -> None:
    assert "vdst expects a VGPR, got 'v0'" in refusal("v_mov_b32", "v0", v[1])  # type: ignore[arg-type]
    assert "got None" in refusal("v_mov_b32", v[0], None)  # type: ignore[arg-type]


# A mnemonic with its suffix, operands that it takes, and operands like them that it does not.
ALIKE: list[tuple[str, str, tuple[Any, ...], tuple[Any, ...]]] = [
    ("v_mfma_f32_32x32x8_f16", "", (v[0:15], v[16:17], v[20:21], v[0:15]), (v[0:15], v[14:15], v[20:21], v[0:15])),
    ("v_add_f32", "_e64", (v[1], 0.0, v[2]), (v[1], -0.0, v[2])),
    ("v_add_f32", "", (v[1], Modified(0.0, neg=True), v[2]), (v[1], Modified(-0.0, neg=True), v[2])),
    ("s_movk_i32", "", (s[1], 1), (s[1], True)),
    ("v_mov_b64", "", (v[2:3], v[4:5]), (v[2:3], v[5:6])),
    ("v_mov_b64", "", (v[2:3], s[4:5]), (v[2:3], s[5:6])),
]


@pytest.mark.parametrize(("name", "suffix", "good", "bad"), ALIKE)
def test_what_is_remembered_of_one_instruction_is_not_taken_for_another(name: str, suffix: str, good: tuple[Any, ...], bad: tuple[Any, ...]
                                                                        ) -> None:
    """Whichever is asked for first, and each twice."""
    for order in ((False, True, False, True), (True, False, True)):
        _RESOLVED.clear()
        assert [bool(refusal(name, *(bad if wrong else good), suffix=suffix)) for wrong in order] == list(order)
