"""Code object -> Program -> text -> clang: the same bytes, for the library's kernels and for what clang makes of HIP sources."""

from __future__ import annotations

from typing import Any

import pytest

from asmgen.codeobject.load import CodeObject
from asmgen.isa.operands import Symbol
from asmgen.kernels.registry import family
from asmgen.program.program import Align, Instruction, Program
from asmgen.program.text import program_text
from asmgen.reader.assembly import read_text
from asmgen.reader.disassembly import read_functions, read_kernel
from asmgen.toolchain import assemble
from tests.clang_objects import ARCHS, LEVELS, NAMES, hip_assembly, hip_object, hip_objects, needs_clang

pytestmark = [needs_clang, pytest.mark.needs_objdump]


def code_of(code_object: CodeObject) -> bytes:
    return next(part.data for part in code_object.image if part.executable)


def differences(programs: list[Program], original: CodeObject) -> list[str]:
    """Instructions whose bytes are not the original's after assembling the programs' text one behind the other."""
    lines = ["\t.text"]
    for program in programs:
        lines += ["\t.p2align 8", program_text(program)]
    code = code_of(CodeObject.load(assemble("\n".join(lines), original.arch)))
    found = []
    at = 0
    for program in programs:
        at += -at % 256
        for item in program.items:
            if isinstance(item, Align):
                at += -at % item.bytes
            elif isinstance(item, Instruction):
                assert item.address is not None
                assert item.size
                got, want = code[at:at + item.size], original.read(item.address, item.size)
                if got != want:
                    found.append(f"{program.name} {item.address:#x} {item.text}: {want.hex()} became {got.hex()}")
                at += item.size
    return found


def flow(program: Program) -> list[tuple[str, Any]]:
    """The instructions, branch targets by position: labels have other names in other texts."""
    return [(instruction.text.replace(str(operand), ""), program.labels[operand.name])
            if isinstance(operand := instruction.operands[-1] if instruction.operands else None, Symbol) else (instruction.text, None)
            for instruction in program.instructions]


@pytest.mark.parametrize("preload", [False, True])
@pytest.mark.parametrize("arch", ARCHS)
def test_library_kernel(arch: str, preload: bool) -> None:
    built = family("gemm-bf16").build(arch, {"preload": preload})
    text = built.text()
    code_object = CodeObject.load(assemble(text, arch))
    read = read_kernel(code_object, code_object.kernel())
    assert len(read) == len(built.program)
    assert differences([read], code_object) == []
    assert read.accum_offset == built.resources.accum_offset
    assert (read.labels.get(read.entry), read.entry == "") == (built.program.labels.get(built.program.entry), built.program.entry == "")

    # And text -> Program -> text: the very same lines, comments, tokens and regions included.
    (again,) = read_text(text)
    assert program_text(again) == program_text(built.program)
    assert again.entry == built.program.entry
    assert [item.tokens for item in again.instructions] == [item.tokens for item in built.program.instructions]
    assert [(item.reason, item.comment) for item in again.instructions if item.name not in ("s_waitcnt", "s_nop")] == \
           [(item.reason, item.comment) for item in built.program.instructions if item.name not in ("s_waitcnt", "s_nop")]


def test_there_are_enough_sources() -> None:
    assert len(NAMES) >= 25
    assert len(NAMES) * len(ARCHS) * len(LEVELS) >= 100


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("arch", ARCHS)
def test_clang_objects(arch: str, level: int) -> None:
    for name, code_object in hip_objects(arch, level).items():
        programs = read_functions(code_object)
        assert differences(programs, code_object) == [], name
        by_name = {program.name: program for program in programs}
        for found in code_object.kernels.values():
            # What is left out is padding: nothing of the kernel's own symbol.
            assert sum(item.size for item in by_name[found.name].instructions) == found.code_size, (name, found.name)
            read = read_kernel(code_object, found)
            own = [item for item in read.instructions if found.entry <= (item.address or 0) < found.entry + found.code_size]
            assert [item.address for item in own] == [item.address for item in read.instructions][:len(own)], (name, found.name)
            if found.descriptor.preload_length:
                assert read.instructions[read.labels[read.entry]].address == found.entry + 256


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", ["divergent_calls", "mfma_half", "lane_ops", "atomics"])
def test_kernel_with_its_functions(name: str, arch: str) -> None:
    code_object = hip_object(name, arch)
    for found in code_object.kernels.values():
        read = read_kernel(code_object, found)
        assert differences([read], code_object) == [], found.name


# Without calls: those name functions in the text and have distances in the object.
@pytest.mark.parametrize("name", ["vector_add", "bitonic_sort", "masked_gemm", "softmax", "packed_half", "switch_state", "preload_args",
                                  "mfma_scaled"])
def test_clang_assembly_reads_as_its_object(name: str) -> None:
    text = {program.name: program for program in read_text(hip_assembly(name, "gfx950"), file=f"{name}.s")}
    code_object = hip_object(name, "gfx950")
    for found in code_object.kernels.values():
        from_object, from_text = read_kernel(code_object, found), text[found.name]
        assert flow(from_text) == flow(from_object)
        assert from_text.accum_offset == from_object.accum_offset
        assert from_text.labels.get(from_text.entry) == from_object.labels.get(from_object.entry)
