"""Every form of every instruction through the reader: as text, and as llvm-objdump prints what clang made of it."""

from __future__ import annotations

import random

import pytest

from asmgen.codeobject.load import CodeObject
from asmgen.isa import table
from asmgen.isa.check import resolve
from asmgen.isa.operands import Symbol
from asmgen.program.text import program_text
from asmgen.reader.disassembly import read_functions
from asmgen.reader.instruction import InstructionReader
from asmgen.toolchain import assemble
from asmgen.tools.instructionsamples import Sample, legal
from tests.clang_objects import ARCHS, needs_clang

SHARES = (0.0, 0.5, 1.0)


def samples(arch: str, share: float) -> list[Sample]:
    """A random legal instance of each form, modifiers with probability `share`."""
    rng = random.Random(f"{arch} {share}")
    return [legal(rng, table.opcode(name), form, arch, share) for name in table.names(arch) for form in table.opcode(name).forms
            if not form.archs or arch in form.archs]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("share", SHARES)
def test_text_of_every_form_reads_as_what_it_was_made_of(arch: str, share: float) -> None:
    reader = InstructionReader(arch)
    for sample in samples(arch, share):
        text = " ".join(sample.text().split())
        read = reader.read(text)
        assert (read.name, read.suffix, read.text) == (sample.opcode.name, sample.suffix, text)
        assert [str(operand) for operand in read.operands] == [str(operand) for operand in sample.operands], text
        assert read.form == resolve(sample.opcode, sample.operands, sample.modifiers, arch, sample.suffix), text


@needs_clang
@pytest.mark.needs_objdump
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("share", SHARES)
def test_every_form_comes_back_from_a_code_object(arch: str, share: float) -> None:
    made = [sample for sample in samples(arch, share) if not any(isinstance(operand, Symbol) for operand in sample.operands)]
    assert len(made) > 2400
    original = CodeObject.load(assemble("\t.text\n" + "".join(f"\t{sample.text()}\n" for sample in made), arch))
    (program,) = read_functions(original)
    assert [item.name for item in program.instructions] == [sample.opcode.name for sample in made]
    again = CodeObject.load(assemble("\t.text\n" + program_text(program), arch))
    for item, sample in zip(program.instructions, made, strict=True):
        assert item.address is not None
        assert again.read(item.address, item.size) == original.read(item.address, item.size), (sample.text(), item.text)
