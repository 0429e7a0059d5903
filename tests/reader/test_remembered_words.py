"""Tails that are put together of remembered words are what the grammar makes of the whole text."""

from __future__ import annotations

import random

import pytest

from asmgen.isa.arch import ARCHITECTURES
from asmgen.isa.grammar import OperandText, OperandTextReader, SyntaxFault
from asmgen.program.program import SourceLine
from asmgen.reader import instruction as reading
from asmgen.reader.instruction import InstructionReader

WORDS = [
    "v0", "v[2:3]", "-v4", "|v5|", "-|a6|", "neg(v1)", "abs(v1)", "sext(v1)", "s[4:7]", "vcc", "off", "exec_lo", "0", "-1",
    "0x1f", "017", "1.0", "-4.0", "lit(0x42280000)", "lit(-1)", "src_scc", "label+4", "offset:16", "offset:0x10", "offset0:3",
    "offset1:-2", "glc", "sc0", "offen", "op_sel:[0,1]", "quad_perm:[0,1,2,3]", "dst_sel:BYTE_0", "vmcnt(3)", "lgkmcnt(0)",
    "expcnt(1)", "hwreg(HW_REG_MODE, 0, 4)", "sendmsg(3)", "v1,v2", "[v4, v5]", "%", "&", "-", "|v0", "v0 |", "089", "offset:",
    "offset: 4", "1e400", "(a - b) & 7", "a-b", "8-4", "v999", "\t", "v0\tv1", "v0\fv1", "v0\u00a0", "", " ", ",",
    "swizzle(BROADCAST,2,0)", "offset:swizzle(BROADCAST,2,0)", "lit(5", "5)",
]


def outcome(text: str, whole: bool) -> OperandText | str:
    reader = OperandTextReader()
    try:
        return reader._parsed(text) if whole else reader.read(text)
    except SyntaxFault as fault:
        return f"{fault.sentence} at {fault.column}"


@pytest.mark.slow
def test_words_together_are_the_whole() -> None:
    rng = random.Random("words")
    between = [", ", " ", ",", "  ", " , ", ", , "]
    texts = ["", *WORDS, *(rng.choice(between).join(rng.choices(WORDS, k=rng.randint(2, 5))) for _ in range(1500))]
    plain = WORDS[:31]
    ends = ["", " offset:64", " glc", " offen offset:1"]
    texts += [", ".join(rng.choices(plain, k=rng.randint(1, 4))) + rng.choice(ends) for _ in range(700)]
    joined = 0
    for text in texts:
        made = outcome(text, False)
        assert repr(made) == repr(outcome(text, True)), text
        joined += OperandTextReader()._joined(text) is not None
    assert joined > 400, "few of the texts were put together of words"


def test_a_remembered_instruction_stands_at_its_own_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_TEXTS", 2)
    reader = InstructionReader("gfx950")
    text = "v_add_f32_e32 v1, v2, v3"
    first, again = reader.plain(text).placed(SourceLine("a.s", 1), 0, 4), reader.plain(text).placed(None, 64, 4)
    assert first == reader.read(text, "", SourceLine("a.s", 1)).placed(SourceLine("a.s", 1), 0, 4)
    assert (first.address, again.address, first.source, again.source) == (0, 64, SourceLine("a.s", 1), None)
    assert (first.reads, first.writes, first.operands) == (again.reads, again.writes, again.operands)
    for number in range(5):  # what is remembered is bounded
        reader.plain(f"s_mov_b32 s{number}, 0")
        assert len(reader.texts) <= 2


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_masks_of_remembered_and_fresh_instructions_agree(arch: str) -> None:
    reader = InstructionReader(arch)
    for text in ("v_mfma_f32_16x16x16_f16 a[0:3], v[4:5], v[6:7], a[0:3]", "s_cmp_lt_u32 s4, 5", "v_addc_co_u32_e32 v1, vcc, 0, v2, vcc"):
        fresh, placed = reader.read(text), reader.plain(text).placed(None, 8, 4)
        assert (fresh.reads, fresh.writes) == (placed.reads, placed.writes)
