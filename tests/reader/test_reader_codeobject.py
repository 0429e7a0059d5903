"""Kernels of code objects: what is read with them, what is left out, where lines come from, and what cannot be read."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from asmgen.codeobject.load import CodeObject
from asmgen.isa.codecost import code_bytes
from asmgen.isa.errors import AsmgenError
from asmgen.program.program import Instruction, Label, Program
from asmgen.reader.disassembly import read_functions, read_kernel
from asmgen.reader.errors import ReadError
from asmgen.reader.file import read_file
from asmgen.toolchain import assemble
from tests.clang_objects import SOURCES, hip_object, hip_object_with_lines, needs_clang

pytestmark = [needs_clang, pytest.mark.needs_objdump]


def kernel_text(name: str, body: str, *directives: str) -> str:
    """A kernel with a descriptor; the body's first label is the kernel's."""
    extra = "".join(f"\t.amdhsa_{directive}\n" for directive in directives)
    return (
        f'\t.text\n\t.globl {name}\n\t.p2align 8\n\t.type {name},@function\n{body}\n\t.section .rodata,"a",@progbits\n\t.p2align 6\n'
        f"\t.amdhsa_kernel {name}\n\t.amdhsa_next_free_vgpr 24\n\t.amdhsa_next_free_sgpr 40\n\t.amdhsa_accum_offset 16\n"
        f"\t.amdhsa_user_sgpr_kernarg_segment_ptr 1\n{extra}\t.end_amdhsa_kernel\n"
    )


def load(*parts: str) -> CodeObject:
    return CodeObject.load(assemble("".join(parts), "gfx950"))


def shape(program: Program) -> list[str]:
    return [
        f"{item.name}:" if isinstance(item, Label) else item.text if isinstance(item, Instruction) else str(item) for item in program.items
    ]


def test_addresses_sizes_and_the_accumulation_offset() -> None:
    code_object = load(kernel_text("k", "k:\n s_nop 1\n s_mov_b32 s4, 0x12345678\n s_endpgm\n .size k, .-k"))
    kernel = code_object.kernel()
    program = read_kernel(code_object, kernel)
    assert [(item.text, (item.address or 0) - kernel.entry, item.size) for item in program.instructions] == [
        ("s_nop 1", 0, 4),
        ("s_mov_b32 s4, 0x12345678", 4, 8),
        ("s_endpgm", 12, 4),
    ]
    assert (program.name, program.arch, program.accum_offset, program.entry) == ("k", "gfx950", 16, "")


def test_sizes_are_those_that_codecost_says() -> None:
    lines = ("s_mov_b32 s4, 64", "s_mov_b64 s[4:5], 0x1234567", "s_movk_i32 s4, 0x7fff", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 0x5",
             "s_cmp_eq_u32 s4, 0x1000", "s_waitcnt vmcnt(0)", "s_load_dwordx4 s[8:11], s[0:1], 0x10", "v_mov_b32 v1, 0xff800000",
             "v_add_f32 v1, 1.0, v2", "v_add_f32 v1, 0x3f800001, v2", "v_add_f32_e64 v1, -v1, v2", "v_fmaak_f32 v1, v2, v3, 0x1",
             "v_cmp_le_i32 vcc, 1, v2", "v_cmp_le_i32_e64 s[8:9], 1, v2", "v_cndmask_b32 v1, v2, v3, vcc",
             "v_pk_mul_f32 v[2:3], v[4:5], v[6:7]",
             "v_mov_b32_dpp v1, v2 quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf", "ds_read_b128 v[4:7], v1 offset:16",
             "buffer_load_dwordx4 v[4:7], v1, s[8:11], 0 offen", "v_mfma_f32_16x16x32_bf16 v[4:7], v[8:11], v[12:15], v[4:7]",
             "v_mfma_scale_f32_16x16x128_f8f6f4 v[4:7], v[8:15], v[16:23], v[4:7], v1, v2 op_sel_hi:[0,0,0]",
             "v_permlane32_swap_b32 v1, v2",
             "global_store_dword v[4:5], v1, off", "v_accvgpr_read_b32 v1, a2", "s_endpgm")
    code_object = load(kernel_text("k", "k:\n" + "".join(f" {line}\n" for line in lines) + " .size k, .-k"))
    program = read_kernel(code_object, code_object.kernel())
    assert len(program) == len(lines)
    for item in program.instructions:
        assert code_bytes(item.name, item.form, item.operands) == item.size, item.text


def test_padding_is_dropped_where_nothing_runs_into_it() -> None:
    body = "k:\n s_cbranch_scc1 out\n s_endpgm\nout:\n s_nop 0\n s_nop 0\n s_endpgm\n s_nop 0\n .long 0\n .long 0xbf9f0000\n .p2align 6\n"
    code_object = load(kernel_text("k", body), kernel_text("other", "other:\n s_endpgm\n"))
    program = read_kernel(code_object, code_object.kernel("k"))
    label = program.instructions[0].target
    assert shape(program) == [f"s_cbranch_scc1 {label}", "s_endpgm", f"{label}:", "s_nop 0", "s_nop 0", "s_endpgm"]
    assert shape(read_kernel(code_object, code_object.kernel("other"))) == ["s_endpgm"]
    # Padding that is branched to, or that code runs into, is code.
    code_object = load(kernel_text("k", "k:\n s_branch out\n s_endpgm\n s_nop 0\nout:\n s_nop 0\n"), kernel_text("z", "z:\n s_endpgm\n"))
    assert [item.text for item in read_kernel(code_object, code_object.kernel("k")).instructions][1:5] == [
        "s_endpgm",
        "s_nop 0",
        "s_nop 0",
        "s_nop 0",
    ]


CALLS = """\
 .type near,@function
near:
 s_nop 5
 s_setpc_b64 s[30:31]
 .size near, .-near
 .type far,@function
far:
 s_nop 6
 s_setpc_b64 s[30:31]
 .size far, .-far
"""


def call(name: str) -> str:
    address = f" s_getpc_b64 s[4:5]\n s_add_u32 s4, s4, {name}@rel32@lo+4\n"
    return f"{address} s_addc_u32 s5, s5, {name}@rel32@hi+12\n s_swappc_b64 s[30:31], s[4:5]\n"


@pytest.mark.parametrize(
    ("body", "functions"),
    [
        (" s_nop 0\n", []),
        (call("near"), ["near"]),
        (call("far") + call("near"), ["near", "far"]),
        (" s_call_b64 s[30:31], far\n", ["far"]),
        (" s_load_dwordx2 s[4:5], s[0:1], 0\n s_swappc_b64 s[30:31], s[4:5]\n", ["near", "far"]),
        (" s_cbranch_scc1 near\n", ["near"]),
        (call("near").replace("s_swappc", "s_mov_b32 s4, 1\n s_swappc"), ["near", "far"]),
        (" s_getpc_b64 s[4:5]\n s_add_u32 s4, s4, near@rel32@lo+4\n s_addc_u32 s5, s5, near@rel32@hi+12\n s_setpc_b64 s[4:5]\n", ["near"]),
    ],
)
def test_functions_that_may_be_called_come_too(body: str, functions: list[str]) -> None:
    other = kernel_text("other", "other:\n s_endpgm\n .size other, .-other")
    code_object = load(" .text\n", CALLS, kernel_text("k", f"k:\n{body} s_endpgm\n .size k, .-k"), other)
    program = read_kernel(code_object, code_object.kernel("k"))
    assert [name for name in program.labels if not name.startswith("L_")] == functions
    assert program.guessed == ("near" if "s_load" in body or "s4, 1" in body else "")
    for name in functions:
        address = program.instructions[program.labels[name]].address
        assert address == code_object.symbols[name].address


def test_an_instruction_after_the_entry_is_where_waves_begin() -> None:
    body = "k:\n s_load_dword s8, s[0:1], 0\n s_waitcnt lgkmcnt(0)\n s_branch body\n .p2align 8\nbody:\n s_nop 7\n s_endpgm\n .size k, .-k"
    code_object = load(kernel_text("k", body, "user_sgpr_kernarg_preload_length 1", "kernarg_size 8"))
    program = read_kernel(code_object, code_object.kernel())
    assert len(program) == 5
    first = program.instructions[program.labels[program.entry]]
    assert (first.text, first.address) == ("s_nop 7", code_object.kernel().entry + 256)
    assert program.instructions[2].target == program.entry
    short = load(kernel_text("k", "k:\n s_endpgm\n .size k, .-k", "user_sgpr_kernarg_preload_length 1", "kernarg_size 8"))
    with pytest.raises(ReadError, match="no instruction stands at"):
        read_kernel(short, short.kernel())


def test_data_between_instructions_is_an_error() -> None:
    code_object = load(kernel_text("k", "k:\n s_nop 0\n .long 0xdeadbeef\n s_endpgm\n .size k, .-k"))
    kernel = code_object.kernel()
    with pytest.raises(ReadError) as caught:
        read_kernel(code_object, kernel)
    assert "DEADBEEF is no instruction of gfx950" in caught.value.sentence
    assert f"{kernel.entry + 4:#x}" in caught.value.where


def test_branches_out_of_the_code_keep_their_number() -> None:
    code_object = load(kernel_text("k", "k:\n s_cbranch_scc0 0x4000\n s_cbranch_scc1 0xfff0\n s_endpgm\n .size k, .-k"))
    program = read_kernel(code_object, code_object.kernel())
    assert shape(program) == ["s_cbranch_scc0 0x4000", "s_cbranch_scc1 0xfff0", "s_endpgm"]


def test_lines_of_the_source() -> None:
    code_object = hip_object_with_lines("divergent_calls", "gfx942")
    program = read_kernel(code_object, code_object.kernel())
    source = (SOURCES / "divergent_calls.hip").read_text().split("\n")
    files = {item.source.file for item in program.instructions if item.source}
    assert str(SOURCES / "divergent_calls.hip") in files
    converting = next(item for item in program.instructions if item.name == "v_cvt_f32_i32")
    assert converting.source is not None
    assert "collatz(i + 1, 100)" in source[converting.source.line - 1]
    plain = hip_object("divergent_calls", "gfx942")
    assert all(item.source is None for item in read_kernel(plain, plain.kernel()).instructions)


def test_every_function_alone() -> None:
    programs = read_functions(hip_object("divergent_calls", "gfx950"))
    assert [program.name for program in programs][-1] == "divergent_calls"
    assert len(programs) == 3
    assert all(program.instructions[-1].name in ("s_setpc_b64", "s_endpgm") for program in programs)
    assert [item.name for item in read_functions(CodeObject.load(assemble("s_nop 1\ns_endpgm", "gfx950")))[0].instructions] == [
        "s_nop",
        "s_endpgm",
    ]


def test_damaged_files_are_sentences(tmp_path: Path) -> None:
    data = hip_object("vector_add", "gfx950").data
    path = tmp_path / "k.co"
    for cut in (3, 30, 64, 200, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        try:
            read_file(path)
        except AsmgenError as error:
            assert str(path) in str(error)


def test_a_disassembler_that_crashes_is_reported(tmp_path: Path) -> None:
    """LLVM 22 aborts on some SDWA words; a kernel beside such words is read all the same."""
    bad = "bad:\n" + "".join(f" .long {word:#x}\n" for word in (0x442E3CF9, 0x9755D4C1)) + " s_endpgm\n .size bad, .-bad"
    code_object = load(kernel_text("bad", bad), kernel_text("good", "good:\n s_nop 3\n s_endpgm\n .size good, .-good"))
    assert shape(read_kernel(code_object, code_object.kernel("good"))) == ["s_nop 3", "s_endpgm"]
    try:
        read_kernel(code_object, code_object.kernel("bad"))
    except ReadError as error:
        assert str(error).isprintable()


@pytest.mark.slow
def test_large_objects_are_read_in_parts() -> None:
    """More than a megabyte of code: each kernel is disassembled alone, with the same result."""
    filler = "".join(
        kernel_text(f"k{number}", f"k{number}:\n .fill 40000, 4, {0x7E000280 | number << 17:#x}\n s_endpgm\n .size k{number}, .-k{number}")
        for number in range(8)
    )
    code_object = load(filler)
    program = read_kernel(code_object, code_object.kernel("k5"))
    assert len(program) == 40001
    assert program.instructions[0].text == "v_mov_b32_e32 v5, 0"
    assert struct.unpack("<I", code_object.read(program.instructions[9].address or 0, 4)) == (0x7E0A0280,)
