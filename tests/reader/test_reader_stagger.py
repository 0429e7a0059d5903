"""The stagger of a program survives its text."""

from __future__ import annotations

from asmgen.author.emit.builder import Builder
from asmgen.program.text import program_text
from asmgen.reader.assembly import read_text


def test_stagger_is_written_and_read_back() -> None:
    for stagger in (0, 1, 2):
        k = Builder("k", "gfx950", stagger=stagger)
        k.s_barrier()
        k.s_endpgm()
        text = program_text(k.program())
        assert ("stagger" in text) == bool(stagger)
        (program,) = read_text(text, "gfx950")
        assert program.stagger == stagger
        assert program_text(program) == text
