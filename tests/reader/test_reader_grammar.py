"""Operands and modifiers as text, and the instructions they make: typed by hand, and against llvm-objdump's words."""

from __future__ import annotations

import struct

import pytest

from asmgen.isa.errors import AsmgenError
from asmgen.isa.grammar import Literal, OperandTextReader, SyntaxFault
from asmgen.isa.operands import OFF, GprIdx, HwReg, SendMsg, Special, Symbol, Waitcnt
from asmgen.isa.registers import Modified, Reg, a, exec_, m0, s, v, vcc
from asmgen.reader.errors import NeedsAssembler, ReadError, UnknownSpelling
from asmgen.reader.instruction import InstructionReader, parse_instruction
from asmgen.reader.listing import ListingReader, parse_listing
from asmgen.toolchain import assemble, disassemble

TAILS = [
    ("v0, v[2:5],a7 , a[0:15]", (v[0], v[2:5], a[7], a[0:15]), {}),
    ("s[ 4 : 7 ], ttmp[2:3], acc3", (s[4:7], Reg("s", 110, 2), a[3]), {}),
    ("[s2,s3], [ v6 , v7 , v8 ]", (s[2:3], v[6:8]), {}),
    ("vcc, vcc_hi, exec, m0, flat_scratch", (vcc, Reg("s", 107), exec_, m0, Reg("s", 102, 2)), {}),
    ("src_scc, execz, off, src_shared_base", (Special("src_scc"), Special("src_execz"), OFF, Special("src_shared_base")), {}),
    (
        "-v1, |v2|, -|v3|, neg(1.0), -1.0, sext(v4), abs(v5), -|1.0|, -s4",
        (
            Modified(v[1], neg=True),
            Modified(v[2], abs=True),
            Modified(v[3], True, True),
            Modified(1.0, neg=True),
            -1.0,
            Modified(v[4], sext=True),
            Modified(v[5], abs=True),
            Modified(1.0, True, True),
            Modified(s[4], neg=True),
        ),
        {},
    ),
    ("0x1f, -16, 017, 0b101, 2.5, .5, 1e3, -0x10", (31, -16, 15, 5, 2.5, 0.5, 1000.0, -16), {}),
    ("vmcnt(3) & lgkmcnt(15), expcnt(0)", (Waitcnt(vmcnt=3, expcnt=0, lgkmcnt=15),), {}),
    ("vmcnt_sat(99) lgkmcnt(4)", (Waitcnt(lgkmcnt=4),), {}),
    ("s0, hwreg(HW_REG_MODE), hwreg(51, 1, 3)", (s[0], HwReg(1), HwReg(51, 1, 3)), {}),
    ("sendmsg(MSG_INTERRUPT), sendmsg(MSG_GS, GS_OP_EMIT, 1), sendmsg(15, 1, 0)", (SendMsg(1), SendMsg(2, 2, 1), SendMsg(15, 1)), {}),
    ("s3, gpr_idx(SRC0,DST), gpr_idx()", (s[3], GprIdx(9), GprIdx(0)), {}),
    (
        "s0, f@rel32@lo+4, .LBB0_1, (.L1-.L0)&4294967295",
        (s[0], Symbol("f@rel32@lo+4"), Symbol(".LBB0_1"), Symbol("(.L1-.L0)&4294967295")),
        {},
    ),
    ("v0, v1 offset:16 sc0 nt offen", (v[0], v[1]), {"offset": 16, "sc0": True, "nt": True, "offen": True}),
    ("v0, v1, quad_perm:[3,2,1,0] row_mask:0xa bound_ctrl:0", (v[0], v[1]), {"quad_perm": (3, 2, 1, 0), "row_mask": 10, "bound_ctrl": 0}),
    ("v0 dst_sel:BYTE_1 dst_unused:UNUSED_PAD", (v[0],), {"dst_sel": "BYTE_1", "dst_unused": "UNUSED_PAD"}),
    ("v0 format:[BUF_DATA_FORMAT_32,BUF_NUM_FORMAT_FLOAT]", (v[0],), {"format": 0x74}),
    ("v0 offset:swizzle(QUAD_PERM,3,2,1,0)", (v[0],), {"offset": 0x801B}),
    ('v0 offset:swizzle(BITMASK_PERM,"01pip")', (v[0],), {"offset": 0x0907}),
    ("", (), {}),
]


@pytest.mark.parametrize(("text", "operands", "modifiers"), TAILS, ids=[row[0] for row in TAILS])
def test_tails(text: str, operands: tuple[object, ...], modifiers: dict[str, object]) -> None:
    reader = OperandTextReader()
    for _ in range(2):  # the second time from the remembered shape
        tail = reader.read(text)
        assert tail.operands == operands
        assert [type(found) for found in tail.operands] == [type(wanted) for wanted in operands]
        assert tail.modifiers == modifiers


def test_shapes_are_filled_with_each_texts_own_registers() -> None:
    reader = OperandTextReader()
    assert reader.read("v1, -v2, |s3| clamp").operands == (v[1], Modified(v[2], neg=True), Modified(s[3], abs=True))
    assert reader.read("a9, -a[8:9], |v7| clamp").operands == (a[9], Modified(a[8:9], neg=True), Modified(v[7], abs=True))


def test_literals_that_could_be_inline_stay_literals() -> None:
    one, other = OperandTextReader().read("lit(0x4), lit(0xffffffff)").operands
    assert (one, other) == (4, -1)
    assert isinstance(one, Literal) and isinstance(other, Literal)
    assert (str(one), str(other)) == ("lit(0x4)", "lit(0xffffffff)")
    text = parse_instruction("s_add_u32 s0, s1, lit(0xffffffff)", "gfx950").text
    assert text == "s_add_u32 s0, s1, lit(0xffffffff)"
    assert assemble(f"\t.text\n{text}\n", "gfx950").count(struct.pack("<II", 0x8000FF01, 0xFFFFFFFF)) == 1


FAULTS = [
    ("v0, v256", "v256 is outside of v0 to v255"),
    ("s[100:103]", "s[100:103] is outside of s0 to s101"),
    ("v[5:4]", "outside"),
    ("[v0,v2]", "no list of consecutive"),
    ("v0, , v1", "', v1' is not expected"),
    ("v0, {1}", "'{1}' is not expected"),
    ("v0, |v1", "too early"),
    ("v0 offset:", "too early"),
    ("v0 offset:8 offset:8", "offset stands twice"),
    ("vmcnt(64)", "counts up to 63"),
    ("vmcnt(v0)", "takes 1 number"),
    ("hwreg(HW_REG_NONE)", "HW_REG_NONE"),
    ("sendmsg(MSG_NONE)", "MSG_NONE"),
    ("gpr_idx(SRC9)", "SRC9"),
    ("frob(1)", "frob(...) is no operand"),
    ("v0 row_mask:FOO", "row_mask has a number, not FOO"),
    ("v0 format:[BUF_DATA_FORMAT_NONE]", "no buffer format"),
    ("v0 offset:swizzle(SWAP,77)", "the group size is a power of two from 1 to 16, not 77"),
    ('v0 offset:swizzle(BITMASK_PERM,"01x")', "no swizzle mode"),
    ("1e999", "beyond all floats"),
    ("-|-v1|", "not expected"),
    ("neg(off)", "takes no sign"),
    ("%", "'%' is not expected"),
    ("v0, " * 600, "2000 are the most"),
    ("v\u0663", "not expected"),
    ("v0, \u00e9", "not expected"),
    ("v0 offset:09", "octal"),
    ("lit(0x100000000)", "32 bits"),
]


@pytest.mark.parametrize(("text", "sentence"), FAULTS, ids=[row[0][:30] for row in FAULTS])
def test_faults_are_sentences(text: str, sentence: str) -> None:
    with pytest.raises(SyntaxFault) as caught:
        OperandTextReader().read(text)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(("text", "column"), [("v0, v[10:11], {", 14), ("{", 0), ("v100, v200 {", 11)])
def test_columns_count_in_the_text(text: str, column: int) -> None:
    with pytest.raises(SyntaxFault) as caught:
        OperandTextReader().read(text)
    assert caught.value.column == column


def test_instructions() -> None:
    parsed = parse_instruction("v_add_f32_e64 v3, neg(1.0), -|v1| clamp mul:2 ; why", "gfx942")
    assert (parsed.name, parsed.suffix, parsed.form.encoding) == ("v_add_f32", "_e64", "VOP3")
    assert parsed.modifiers == {"clamp": True, "mul": 2}
    assert parsed.comment == ""
    assert parse_instruction("S_NOP 3", "gfx942").text == "s_nop 3"
    assert parse_instruction("s_waitcnt 0x0f70", "gfx942").operands == (Waitcnt(vmcnt=0),)
    assert parse_instruction("s_waitcnt 0xffff", "gfx942").text == "s_waitcnt 0xffff"
    assert parse_instruction("v_mfma_f32_32x32x8bf16_1k a[0:15], v[0:1], v[2:3], 0", "gfx942").name == "v_mfma_f32_32x32x8_bf16"


@pytest.mark.parametrize(
    ("text", "arch", "sentence", "kind"),
    [
        ("v_add_f33 v0, v1, v2", "gfx950", "the nearest mnemonics are v_add_f32", UnknownSpelling),
        ("v_add_f32 v0, v1", "gfx950", "takes 3 operands", UnknownSpelling),
        ("v_bitop3_b32 v0, v1, v2, v3", "gfx942", "does not exist on gfx942", UnknownSpelling),
        ("v_add_f32 v0, v1, v2 offset:4", "gfx950", "no modifier offset", UnknownSpelling),
        ("s_nop 8-4", "gfx950", "takes 1 operand", NeedsAssembler),
        ("s_mov_b32 s0, 4*8", "gfx950", "'*8' is not expected", NeedsAssembler),
        ("v_mov_b32 v[first], 0", "gfx950", "not expected", NeedsAssembler),
        ("s_nop 0", "gfx90a", "unknown architecture 'gfx90a'", ReadError),
    ],
)
def test_refused_instructions(text: str, arch: str, sentence: str, kind: type[AsmgenError]) -> None:
    with pytest.raises(ReadError) as caught:
        parse_instruction(text, arch)
    assert sentence in str(caught.value)
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    "text",
    [
        # What the builder refuses and LLVM takes.
        "s_nop 0x77",
        "v_mfma_f32_32x32x8_f16 v[0:15], v[0:1], v[16:17], v[0:15]",
        "v_div_scale_f32 v0, vcc, |v1|, v2, v3",
        # What only the disassembler prints: registers that do not begin where they must.
        "v_add_f64 v[1:2], v[3:4], v[5:6]",
        "s_mov_b64 s[1:2], s[3:4]",
    ],
)
def test_traps_are_read(text: str) -> None:
    assert parse_instruction(text, "gfx950").text == text


def test_one_shape_has_one_form_whatever_the_order() -> None:
    """Forms are remembered by shape: special registers, constants and literals must not share one."""
    texts = [
        "v_add_f32 v0, v1, v2",
        "v_add_f32 v0, s1, v2",
        "v_add_f32 v0, v1, s2",
        "v_add_f32 v0, 1.0, v2",
        "v_add_f32 v0, 3.0, v2",
        "v_add_f32 v0, v1, 1.0",
        "v_cmp_lt_f32 vcc, v1, v2",
        "v_cmp_lt_f32 s[4:5], v1, v2",
        "v_cndmask_b32 v0, v1, v2, vcc",
        "v_cndmask_b32 v0, v1, v2, s[6:7]",
        "v_add_f32 v0, -v1, v2",
        "v_add_f32 v0, v1, v2 row_shl:1",
        "v_add_f32 v0, v1, v2 src0_sel:BYTE_0",
    ]
    want = ["VOP2", "VOP2", "VOP3", "VOP2", "VOP2", "VOP3", "VOPC", "VOP3", "VOP2", "VOP3", "VOP3", "DPP", "SDWA"]
    for order in (1, -1):
        reader = InstructionReader("gfx950")
        assert [reader.read(text).form.encoding for text in texts[::order]] == want[::order]


@pytest.mark.needs_objdump
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_words_that_llvm_prints_otherwise_than_they_are(arch: str) -> None:
    """Bits that the printed operands leave out are kept: the text assembles to the same words."""
    words = [0xBF8CFFFF, 0xBF8C3F70, 0xBF8CCF7F, 0xBF9001FF, 0xBF900122, 0xBF824000, 0xB8801073]
    swizzles = [0xD87AC234, 0xD87AE234, 0xD87A9234, 0xD87A80E4, 0xD87A0907]
    code = [word for swizzle in swizzles for word in (swizzle, 0x00000001)] + words
    text = "\t.text\n" + "".join(f"\t.long {word:#x}\n" for word in code)
    listing = parse_listing(disassemble(assemble(text, arch), arch))
    read = list(ListingReader(arch, "words").read(listing.lines, {}))
    again = assemble("\t.text\n" + "".join(f"\t{item}\n" for item in read), arch)
    assert struct.pack(f"<{len(code)}I", *code) in again
