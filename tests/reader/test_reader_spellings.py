"""Every spelling that LLVM's assembler takes is read, to the same bytes: a sample of what tests/spelling_scan.py asks in full."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from asmgen.isa import table
from asmgen.reader.errors import UnknownSpelling
from asmgen.reader.file import read_file
from asmgen.reader.instruction import parse_instruction
from asmgen.reader.limits import Limited
from asmgen.toolchain import AssemblyError, ToolError
from tests.clang_objects import ARCHS, needs_clang
from tests.spelling_scan import form_spellings, judge, special_cases

needs_llvm_mc = pytest.mark.skipif(shutil.which("llvm-mc-22") is None, reason="llvm-mc-22 is not installed")


@pytest.mark.slow
@needs_llvm_mc
@pytest.mark.parametrize("arch", ARCHS)
def test_spellings_of_a_sample_of_forms(arch: str) -> None:
    names = random.Random(f"{arch} spellings").sample(table.names(arch), 14)
    verdict = judge(form_spellings(arch, 2, 0.4, names), arch)
    assert verdict.taken > 500
    assert not verdict.faults, "\n".join(f"{fault.text}: {fault.why}" for fault in verdict.faults)


@needs_llvm_mc
@pytest.mark.parametrize("arch", ARCHS)
def test_operands_with_a_language_of_their_own(arch: str) -> None:
    verdict = judge(special_cases(), arch)
    assert verdict.taken > 400
    assert not verdict.faults, "\n".join(f"{fault.text}: {fault.why}" for fault in verdict.faults)


@pytest.mark.parametrize(("text", "whole"), [
    ("v_cmpx_gt_u32_e32 32, v0", "v_cmpx_gt_u32_e32 vcc, 32, v0"),
    ("v_cmpx_gt_u32 s1, v0", "v_cmpx_gt_u32 vcc, s1, v0"),
    ("v_cmp_eq_f64_e32 vcc, v[2:3]", "v_cmp_eq_f64_e32 vcc, vcc, v[2:3]"),
    ("v_add_co_u32 v0, v1, v2", "v_add_co_u32 v0, vcc, v1, v2"),
    ("v_cndmask_b32_e32 v0, v1, v2", "v_cndmask_b32_e32 v0, v1, v2, vcc"),
    ("v_addc_co_u32_e32 v0, v1, v2", "v_addc_co_u32_e32 v0, vcc, v1, v2, vcc"),
    ("s_load_dword s0, s[2:3]", "s_load_dword s0, s[2:3], 0"),
    ("s_load_dword s0, s[2:3] glc", "s_load_dword s0, s[2:3], 0 glc"),
    ("global_load_dword v0, v[2:3], off nont sc1", "global_load_dword v0, v[2:3], off sc1"),
    ("v_smfmac_f32_32x32x32fp8bf8 a[0:15], v[0:1], v[4:7], v8", "v_smfmac_f32_32x32x32_fp8_bf8 a[0:15], v[0:1], v[4:7], v8"),
])
def test_what_may_be_left_out_is_filled_in(text: str, whole: str) -> None:
    read = parse_instruction(text, "gfx942")
    assert read.text == whole
    assert (read.reads, read.writes) == (parse_instruction(whole, "gfx942").reads, parse_instruction(whole, "gfx942").writes)


@pytest.mark.parametrize("text", ["v_cmpx_gt_u32_e64 32, v0", "s_load_dword s[2:3]", "v_add_f32 v0, v1 nont", "s_mov_b32 s0, --4.0"])
def test_what_may_not_be_left_out_is_asked_for(text: str) -> None:
    with pytest.raises(Exception, match="expects|takes|two signs|has no modifier"):
        parse_instruction(text, "gfx942")


ODD = """\
\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
\t.text
f:
\tv_mov_b32 v0, 1.0
\ttbuffer_load_format_x v1, off, s[4:7], dfmt:4, nfmt:7, 0
\ts_endpgm
"""


@needs_clang
@pytest.mark.needs_objdump
def test_a_file_with_a_spelling_that_only_the_assembler_knows_is_read(tmp_path: Path) -> None:
    path = tmp_path / "odd.s"
    path.write_text(ODD)
    (program,) = read_file(path).programs
    load = program.instructions[1]
    assert load.name == "tbuffer_load_format_x" and load.where().endswith("odd.s:5")
    path.write_text(ODD.replace("dfmt:4, nfmt:7", "dfmt:4, nfmt:7, v3"))
    with pytest.raises((UnknownSpelling, AssemblyError), match="tbuffer_load_format_x"):
        read_file(path)


def test_without_an_assembler_the_reader_speaks_for_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(limits: Limited) -> object:
        raise ToolError("no clang here")

    monkeypatch.setattr(Limited, "toolchain", none)
    path = tmp_path / "odd.s"
    path.write_text(ODD)
    with pytest.raises(UnknownSpelling, match="no modifier dfmt"):
        read_file(path)
