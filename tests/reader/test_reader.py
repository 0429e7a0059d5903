"""Assembly text to Programs: comments, labels, directives, tokens, what goes through clang, and what is no assembly text at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from asmgen.isa.errors import AsmgenError
from asmgen.isa.registers import v
from asmgen.program.program import Align, Instruction, Label, Program, Region, SourceLine, TokenUse
from asmgen.program.text import program_text
from asmgen.reader.assembly import read_text
from asmgen.reader.errors import NeedsAssembler, ReadError
from asmgen.reader.file import read_file
from asmgen.toolchain import AssemblyError, disassemble
from tests.clang_objects import hip_assembly, hip_object, needs_clang


def one(text: str, arch: str = "gfx950") -> Program:
    (program,) = read_text(text, arch, "test", "k.s")
    return program


def texts(program: Program) -> list[str]:
    return [instruction.text for instruction in program.instructions]


def test_comments_of_all_kinds() -> None:
    program = one("""\
# 1 "preprocessed.s"
  s_nop 0 ; a; b // c
\ts_nop 1// d
/* one */ s_nop /* two */ 2 /* three
 s_nop 9
*/ s_nop 3
/**/s_nop 4;
// s_nop 5
; s_nop 6
v_mov_b32 v0, v1 ; /* not opened
v_mov_b32 v1, v2 // ; e
""")
    assert texts(program) == ["s_nop 0", "s_nop 1", "s_nop 2", "s_nop 3", "s_nop 4", "v_mov_b32 v0, v1", "v_mov_b32 v1, v2"]
    assert [item.source.line for item in program.instructions if item.source] == [2, 3, 4, 6, 7, 10, 11]
    first, second, *_, last = program.instructions
    assert (first.reason, first.comment) == ("a", "b // c")
    assert (second.reason, second.comment) == ("d", "")
    assert (last.reason, last.comment) == ("", "; e")


def test_tokens_regions_labels_and_alignment() -> None:
    program = one("""\
\ts_branch loop
\t.p2align 8
\t; region main loop
loop: inner:\tds_read_b128 v[0:3], v4 offset:16 ; lds read A[1] 0x4000:0x8000; lds write B 0x0:0x10; two; parts
\ts_waitcnt lgkmcnt(0) ; lds read A[1] 0x4000:0x8000; A[1] landed; mine
\t.balign 64
\ts_cbranch_scc1 inner
\ts_endpgm
""")
    assert [item if not isinstance(item, Instruction) else item.text for item in program.items] == [
        "s_branch loop",
        Align(256),
        Region("main loop"),
        Label("loop", SourceLine("k.s", 4)),
        Label("inner", SourceLine("k.s", 4)),
        "ds_read_b128 v[0:3], v4 offset:16",
        "s_waitcnt lgkmcnt(0)",
        Align(64),
        "s_cbranch_scc1 inner",
        "s_endpgm",
    ]
    read, wait = program.instructions[1:3]
    assert read.tokens == (TokenUse("read", "A[1]", 0x4000, 0x8000), TokenUse("write", "B", 0, 16))
    assert (read.reason, read.comment) == ("", "two; parts")
    assert wait.tokens == (TokenUse("read", "A[1]", 0x4000, 0x8000),)
    assert (wait.reason, wait.comment) == ("A[1] landed", "mine")
    assert program_text(one(program_text(program))) == program_text(program)


FUNCTIONS = """\
\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-"
\t.text
\t.p2align 2
\t.type helper,@function
helper:
\ts_setpc_b64 s[30:31]
.Lfunc_end0:
\t.size helper, .Lfunc_end0-helper
\t.section .rodata,"a",@progbits
data:
\t.long 1, 2, 3
\t.byte 'x'
\t.section .text.main,"ax",@progbits
\t.globl main
\t.p2align 8
\t.type main,@function
main:
\t.loc 1 3 0 prologue_end
\tv_mov_b32_e32 v0, 1.0
\ts_branch .Lbody
\t.p2alignl 8, 3212836864
.Lbody:
\tv_add_f64 v[2:3], v[4:5], v[6:7]
\ts_endpgm
\t.size main, .-main
\t.p2alignl 6, 3212836864
\t.fill 256, 4, 3212836864
\t.section .rodata,"a",@progbits
\t.amdhsa_kernel main
\t\t.amdhsa_next_free_vgpr max(8, 3)
\t\t.amdhsa_accum_offset 12
\t\t.amdhsa_user_sgpr_kernarg_preload_length 4
\t.end_amdhsa_kernel
\t.set main.num_vgpr, 8
\t.amdgpu_metadata
---
amdhsa.version: [1, 2]
s_bogus: {x: y}
...
\t.end_amdgpu_metadata
"""


def test_functions_kernels_sections_and_descriptors() -> None:
    helper, main = read_text(FUNCTIONS)
    assert (helper.name, helper.arch, texts(helper), helper.accum_offset) == ("helper", "gfx942", ["s_setpc_b64 s[30:31]"], None)
    assert texts(main) == ["v_mov_b32_e32 v0, 1.0", "s_branch .Lbody", "v_add_f64 v[2:3], v[4:5], v[6:7]", "s_endpgm"]
    assert (main.name, main.accum_offset, main.entry, main.labels) == ("main", 12, ".Lbody", {".Lbody": 2})
    assert main.items[2] == Align(256)


@pytest.mark.parametrize(
    ("text", "where", "sentence"),
    [
        (
            "s_nop 0\nv_add_f33 v0, v1, v2",
            "k.s:2",
            "`v_add_f33 v0, v1, v2`: no instruction 'v_add_f33' is known; the nearest mnemonics are v_add_f32",
        ),
        ("\n\n\tglobal_load_dword v0, s0, off", "k.s:3", "vaddr expects"),
        ("a:\na:\ns_nop 0", "k.s:2", "the label 'a' is placed twice"),
        ("s_nop 0\n/* s_nop 1\n", "k.s:2", "this comment does not end"),
        ("s_nop 0\ns_nop \x00", "k.s:2", "control character 0x00"),
        ("\x1b[31ms_nop 0", "k.s:1", "control character 0x1b"),
        ('.amdgcn_target "amdgcn-amd-amdhsa--gfx1100"', "", "gfx942, gfx950 can be read"),
        ('.amdgcn_target "amdgcn-amd-amdhsa--gfx942"', "k.s", "the text is for gfx942, not for gfx950"),
    ],
)
def test_faults_name_the_line(text: str, where: str, sentence: str) -> None:
    with pytest.raises(ReadError) as caught:
        read_text(text, "gfx950", file="k.s")
    assert caught.value.where == where
    assert sentence in caught.value.sentence
    assert not isinstance(caught.value, NeedsAssembler)


def test_an_architecture_is_asked_for() -> None:
    with pytest.raises(ReadError, match="name one of gfx942, gfx950"):
        read_text("s_nop 0")


@pytest.mark.parametrize(
    "text",
    [
        ".macro m\ns_nop 0\n.endm",
        ".rept 3\ns_nop 0\n.endr",
        ".if 1\ns_nop 0\n.endif",
        ".set n, 3\ns_nop n",
        "n = 3\ns_nop n",
        "s_nop 1+2",
        ".set r, 4\nv_mov_b32 v[r], 0",
        "s_branch nowhere",
        "s_branch .+8",
        "1:\ns_branch 1b",
        "s_nop 0\n.long 0xbf800000\ns_endpgm",
        '.include "x"',
        "s_mov_b32 s0, undefined",
        "s_nop 0\n.p2align 4, 0\ns_endpgm",
        "s_nop 0\n.fill 2, 4, 0xbf800000\ns_endpgm",
        "s_nop 0\n.org 64",
    ],
)
def test_text_that_computes_is_reported(text: str) -> None:
    with pytest.raises(NeedsAssembler):
        read_text(text, "gfx950")


def test_symbols_with_values_that_no_instruction_uses_do_no_harm() -> None:
    assert texts(one(".set unused, 3\nother = 4\ns_nop 0")) == ["s_nop 0"]


COMPUTED = """\
\t.text
.set first, 4
.macro twice instruction, register
  \\instruction v\\register, 1.0
  \\instruction v[first + \\register], -1.0
.endm
start:
  v_mov_b32 v0, v1
  twice v_mov_b32, 2
.rept 2
  s_nop 3*2
.endr
  s_cbranch_scc1 start
1:
  s_branch 1b
  s_endpgm
"""


@needs_clang
@pytest.mark.needs_objdump
def test_computed_text_keeps_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "computed.s"
    path.write_text(COMPUTED)
    result = read_file(path, "gfx942")
    (program,) = result.programs
    assert (result.arch, program.name, result.code_object is not None) == ("gfx942", "computed", True)
    lines = [(item.text.replace("_e32", ""), item.source.line if item.source else 0) for item in program.instructions]
    start, loop = program.labels
    assert lines == [
        ("v_mov_b32 v0, v1", 8),
        ("v_mov_b32 v2, 1.0", 9),
        ("v_mov_b32 v6, -1.0", 9),
        ("s_nop 6", 10),
        ("s_nop 6", 10),
        (f"s_cbranch_scc1 {start}", 13),
        (f"s_branch {loop}", 15),
        ("s_endpgm", 16),
    ]
    assert {item.source.file for item in program.instructions if item.source} == {str(path)}


@needs_clang
@pytest.mark.needs_objdump
def test_included_files_are_found_and_named(tmp_path: Path) -> None:
    (tmp_path / "part.inc").write_text("s_nop 5\ns_nop 6\n")
    (tmp_path / "k.s").write_text('s_nop 4\n.include "part.inc"\ns_endpgm\n')
    (program,) = read_file(tmp_path / "k.s", "gfx950").programs
    assert [(item.text, Path(item.source.file).name, item.source.line) for item in program.instructions if item.source] == [
        ("s_nop 4", "k.s", 1),
        ("s_nop 5", "part.inc", 1),
        ("s_nop 6", "part.inc", 2),
        ("s_endpgm", "k.s", 3),
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (".rept 99999999\ns_nop 0\n.endr", "more than"),
        (".space 0x7fffffff", "more than"),
        ('.include "k.s"', "includes itself"),
        ('.include "/dev/zero"', "no plain file"),
    ],
)
def test_text_that_would_keep_clang_busy_for_ever(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "k.s").write_text(f"s_nop 0\n{text}\ns_endpgm\n")
    with pytest.raises(ReadError, match=sentence) as caught:
        read_file(tmp_path / "k.s", "gfx950")
    assert caught.value.where == f"{tmp_path / 'k.s'}:2"


ENDLESS = """\
s_nop 1+1
.rept 900000
.rept 900000
s_nop 0
.endr
.endr
"""


@needs_clang
@pytest.mark.slow
def test_clang_itself_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nested repetition asks for 810,000,000,000 instructions; the limit is shortened here from three seconds to one."""
    monkeypatch.setattr("asmgen.reader.limits._SECONDS", 1)
    path = tmp_path / "k.s"
    path.write_text(ENDLESS)
    with pytest.raises(ReadError, match="does not come to an end") as caught:
        read_file(path, "gfx950")
    assert caught.value.where == str(path)


@needs_clang
def test_what_clang_refuses_too(tmp_path: Path) -> None:
    path = tmp_path / "k.s"
    path.write_text(".macro m\n.endm\ns_nop 0\nv_add_f33 v0, v1, v2\n")
    with pytest.raises(ReadError, match="nearest mnemonics are v_add_f32") as unknown:
        read_file(path, "gfx950")
    assert unknown.value.where == f"{path}:4"
    path.write_text("s_nop 0\ns_branch 1 +* 2\n")
    with pytest.raises(AssemblyError) as refused:
        read_file(path, "gfx950")
    assert refused.value.where == f"{path}:2"
    # Behind an included file the lines are still the file's own.
    (tmp_path / "part.inc").write_text("s_nop 5\ns_nop 6\ns_nop 7\n")
    path.write_text('.include "part.inc"\ns_nop 1 + 1\ns_branch 1 +* 2\n')
    with pytest.raises(AssemblyError, match=r"rejects `s_branch 1 \+\* 2`") as refused:
        read_file(path, "gfx950")
    assert refused.value.where == f"{path}:3"
    (tmp_path / "part.inc").write_text("s_nop 5\nv_bogus v0\n")
    path.write_text('.include "part.inc"\ns_endpgm\n')
    with pytest.raises(AssemblyError, match="part.inc:2"):
        read_file(path, "gfx950")


@needs_clang
@pytest.mark.needs_objdump
@pytest.mark.parametrize("options", [(), ("--symbolize-operands",), ("--no-leading-addr",), ("--line-numbers",)])
def test_listings(options: tuple[str, ...]) -> None:
    """A listing in a file: functions by symbol, padding left out, labels from the encodings whatever the operands are called."""
    code_object = hip_object("divergent_calls", "gfx950")
    text = disassemble(code_object.data, "gfx950", *options)
    programs = read_text(text, "gfx950", file="k.lst")
    by_text = {program.name: program for program in read_text(hip_assembly("divergent_calls", "gfx950"))}
    if "--no-leading-addr" in options:
        assert sum(len(program) for program in programs) >= sum(len(program) for program in by_text.values())
    else:
        assert {program.name for program in programs} == set(by_text)
        for program in programs:
            want = by_text[program.name]
            assert [item.name for item in program.instructions] == [item.name for item in want.instructions]
            assert [(item.target and program.labels[item.target]) for item in program.instructions] == [
                (item.target and want.labels[item.target]) for item in want.instructions
            ]


def test_listing_faults() -> None:
    heading = "\nk.co:\tfile format elf64-amdgpu\n\n0000000000001900 <k>:\n"
    good = "\ts_nop 0                                                    // 000000001900: BF800000\n"
    with pytest.raises(ReadError, match="the nearest mnemonics are v_add_f32") as unknown:
        read_text(heading + good + "\tv_add_f33 v0, v1, v2          // 000000001904: 02000501\n", "gfx950", file="k.lst")
    assert "0x1904" in str(unknown.value)
    with pytest.raises(ReadError, match="DEADBEEF is no instruction of gfx950") as data:
        read_text(heading + good + "\t.long 0xdeadbeef     // 000000001904: DEADBEEF\n", "gfx950", file="k.lst")
    assert "0x1904" in str(data.value)
    with pytest.raises(ReadError, match="without an address"):
        read_text(heading + good + "\ts_nop 1\n", "gfx950")
    with pytest.raises(ReadError, match="before 0x1904"):
        read_text(heading + good + good, "gfx950")


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "name one of gfx942"),
        (b"\xff\xfe\x00s", "neither a code object nor text"),
        (b"\x7fELF" + bytes(60), "code object"),
        (b"\x7fELF", "cut off"),
        (b"__CLANG_OFFLOAD_BUNDLE__\xff\xff\xff\xff\xff\xff\xff\xff", "bundle"),
        (bytes(range(1, 9)) * 50, "control character"),
        ("\u00e9\u2028".encode() * 10, "name one of"),
    ],
)
def test_files_that_are_nothing(tmp_path: Path, data: bytes, sentence: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(AsmgenError) as caught:
        read_file(path)
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.s", tmp_path, Path("a\0b")):
        with pytest.raises(ReadError, match="cannot be read"):
            read_file(path)
    (tmp_path / "empty.s").write_text("; nothing\n")
    with pytest.raises(ReadError, match="no instruction"):
        read_file(tmp_path / "empty.s", "gfx950")


LONG = 10 * 1024 * 1024


@pytest.mark.parametrize(
    "piece",
    [
        "v0, ",
        "x",
        ".a:",
        "a: ",
        "/*",
        '"',
        "; lds write A 0x0:0x1",
        ";",
        "/* */",
        "#",
        "[v0,",
        "-",
        "0",
        ".rept 2 ",
        "(",
        "%",
        "\t",
        "= ",
        "// 000000001900: BF800000 ",
    ],
)
@pytest.mark.parametrize("start", ["", "v_add_f32 v0, ", "\ts_nop 0 ; ", ".set ", "\ts_nop 0 // 000000001900: BF800000\n\t"])
def test_endless_lines_end(start: str, piece: str) -> None:
    """Lines of a megabyte: a quadratic step anywhere would take hours."""
    try:
        read_text(start + piece * (LONG // 10 // len(piece)), "gfx950")
    except AsmgenError as error:
        assert len(str(error)) < 1000


@pytest.mark.parametrize("piece", ["v0, ", "x", ".a:"])
def test_a_line_of_ten_megabytes(tmp_path: Path, piece: str) -> None:
    path = tmp_path / "long.s"
    path.write_text("s_nop 0\n" + piece * (LONG // len(piece)))
    with pytest.raises(AsmgenError) as caught:
        read_file(path, "gfx950")
    assert caught.value.where == f"{path}:2"


def test_what_is_read_is_typed() -> None:
    (instruction,) = one("v_mfma_f32_32x32x16_bf16 v[0:15], v[16:19], v[20:23], v[0:15]").instructions
    assert instruction.written_registers == (v[0:15],)
    assert instruction.read_registers == (v[16:19], v[20:23], v[0:15])


def test_sentences_are_printable() -> None:
    swizzle = 'ds_swizzle_b32 v0, v1 offset:swizzle(BITMASK_PERM,"0\x85pip")'
    for text in (swizzle, "v_\x85", "v_mov_b32 v0, \u2028", "s_getreg_b32 s0, hwreg(\x9b)"):
        with pytest.raises(ReadError) as caught:
            one(text)
        assert str(caught.value).isprintable()
