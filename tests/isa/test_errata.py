"""Errata: the packed f32 of gfx950 that takes an odd register for its low half, and the wait states of matrix instructions of different
opcodes on one accumulator. What lint says of each form of operands, in a program with matrix instructions and without."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.author.ops.elementwise import mul
from asmgen.author.ops.vectors import column_vector
from asmgen.checks.finding.finding import LintFinding
from asmgen.checks.finding.rules import rule, rules
from asmgen.checks.lint.linting import lint_file, lint_program
from asmgen.checks.mutants.mutants import Judge, mutants
from asmgen.checks.waitstates.passes import insert
from asmgen.isa.errata import ERRATA, PACKED_ODD_LOW
from asmgen.isa.errors import OperandError
from asmgen.isa.registers import s, v
from asmgen.isa.waitrules import RULES
from asmgen.program.program import Instruction
from asmgen.reader.assembly import read_text
from asmgen.toolchain import assemble
from tests.author.test_tile_math import SMALL, d_fragment
from tests.tile_harness import TileRun

MATRIX = "v_mfma_f32_16x16x32_f16 v[20:23], v[4:7], v[8:11], 0\n"
SPARSE = "v_smfmac_f32_16x16x64_f16 v[20:23], v[4:7], v[8:15], v16\n"
BROADCAST = "v_pk_mul_f32 v[0:1], v[0:1], v[2:3] op_sel:[0,1]"
FORMS = (
    BROADCAST,
    "v_pk_mul_f32 v[0:1], v[2:3], v[0:1] op_sel:[1,0]",
    "v_pk_fma_f32 v[0:1], v[2:3], s[2:3], v[4:5] op_sel:[0,0,1]",
    "v_pk_fma_f32 v[0:1], v[2:3], v[6:7], v[4:5] op_sel:[0,1,0] op_sel_hi:[0,1,0]",
    "v_pk_add_f32 v[0:1], v[2:3], v[4:5] op_sel:[1,1] op_sel_hi:[0,1]",
    "v_pk_add_f32 v[0:1], 0, v[4:5] op_sel:[0,1] neg_lo:[0,1] neg_hi:[0,1]",
)
EXCHANGED = "v_pk_add_f32 v[0:1], v[2:3], v[4:5] op_sel:[0,1] op_sel_hi:[1,0]"
TWINS = (
    "v_pk_mul_f32 v[0:1], v[0:1], v[2:3]",
    "v_pk_mul_f32 v[0:1], v[0:1], v[2:3] op_sel_hi:[1,0]",
    "v_pk_mul_f32 v[0:1], v[0:1], s[2:3] op_sel:[0,1]",
    "v_pk_fma_f32 v[0:1], s[2:3], v[0:1], v[4:5] op_sel:[1,0,0] op_sel_hi:[1,1,0]",
    "v_pk_mul_f32 v[0:1], v[0:1], 1.0 op_sel:[0,1]",
    "v_pk_mul_f16 v0, v1, v2 op_sel:[0,1]",
    "v_pk_mov_b32 v[0:1], v[2:3], v[4:5] op_sel:[1,1]",
)


def found(code: str, arch: str = "gfx950") -> list[LintFinding]:
    (program,) = read_text(code + "\ns_endpgm\n", arch, "k", "k.s")
    return [finding for finding in lint_program(program, "k.s") if finding.rule == PACKED_ODD_LOW.id]


@pytest.mark.parametrize("form", FORMS)
def test_the_low_half_of_an_odd_register_is_an_error_beside_matrix_instructions(form: str) -> None:
    for matrix in (MATRIX, SPARSE):
        (finding,) = found(matrix + form)
        assert (finding.severity, finding.line) == ("error", 2) and "op_sel_hi 0" in finding.message and "SGPR" in finding.message
    (alone,) = found(form)
    assert (alone.severity, alone.line) == ("warning", 1)
    assert not found("v_mfma_f32_16x16x16_f16 v[20:23], v[4:5], v[8:9], 0\n" + form, "gfx942")


def test_registers_that_are_taken_are_named() -> None:
    assert "takes v3 of v[2:3], v5 of v[4:5] for its low half" in found(FORMS[4].replace("op_sel_hi:[0,1]", ""))[0].message


def test_an_exchanged_pair_is_a_warning() -> None:
    assert [finding.severity for code in (MATRIX, "") for finding in found(code + EXCHANGED)] == ["warning"] * 2
    both = "v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7] op_sel:[0,1,1] op_sel_hi:[1,0,1]"
    (finding,) = found(MATRIX + both)
    assert finding.severity == "error" and "v7 of v[6:7]" in finding.message and "v5" not in finding.message.partition("takes")[2]


@pytest.mark.parametrize("twin", TWINS)
def test_even_registers_scalars_and_constants_are_silent(twin: str) -> None:
    assert not found(MATRIX + twin) and not found(twin)


def test_code_that_never_runs_does_not_count() -> None:
    assert not found(f"s_branch L\n{MATRIX}{BROADCAST}\nL:")
    assert [finding.severity for finding in found(f"{BROADCAST}\ns_branch L\n{MATRIX}L:")] == ["warning"]


def test_a_comment_silences_it() -> None:
    assert not found(f"{MATRIX}{BROADCAST} ; lint: off packed-odd-low")


@pytest.mark.needs_objdump
def test_a_code_object_is_judged_as_its_text(tmp_path: Path) -> None:
    text = f'.amdgcn_target "amdgcn-amd-amdhsa--ARCH"\n.text\n.globl k\n.p2align 8\n.type k,@function\nk:\n{MATRIX}{BROADCAST}\n' \
           f"{EXCHANGED}\n{TWINS[1]}\n{TWINS[2]}\ns_endpgm\n.Lend:\n.size k, .Lend-k\n.amdhsa_kernel k\n.amdhsa_next_free_vgpr 24\n" \
           ".amdhsa_next_free_sgpr 4\n.amdhsa_accum_offset 24\n.end_amdhsa_kernel\n"
    for arch, code, expected in (("gfx950", text, ["error", "warning"]),
                                 ("gfx942", text.replace(MATRIX, MATRIX.replace("16x16x32", "16x16x16").replace("v[4:7]", "v[4:5]")
                                                         .replace("v[8:11]", "v[8:9]")), [])):
        path = tmp_path / f"{arch}.co"
        path.write_bytes(assemble(code.replace("ARCH", arch), arch))
        report = lint_file(path)
        mine = [finding for finding in report.findings if finding.rule == PACKED_ODD_LOW.id]
        assert [finding.severity for finding in mine] == expected
        assert all(finding.address is not None for finding in mine)


def test_the_table_is_whole() -> None:
    known = rules()
    rows = {row.id: row for row in RULES}
    for erratum in ERRATA:
        assert erratum.sure in known[erratum.id].text
        assert all((erratum.what, erratum.where, erratum.condition, erratum.cure, erratum.source, erratum.sure))
        assert erratum.mnemonics or rows[erratum.id].archs == set(erratum.archs)
    text = rule("PACKED-ODD-LOW").text
    assert "v_pk_fma_f32" in text and "rocMLIR#2459" in text and "unproven" in text


CHANGE = ("v_mfma_f32_16x16x32_f16 v[20:23], v[4:7], v[8:11], v[20:23]", "v_mfma_f32_16x16x16_f16 v[20:23], v[4:5], v[8:9], v[20:23]")


@pytest.mark.parametrize(("arch", "pair", "states"), [
    ("gfx950", CHANGE, 6), ("gfx950", CHANGE[::-1], 6), ("gfx950", (CHANGE[0], CHANGE[0]), 0),
    ("gfx942", (CHANGE[1], CHANGE[1].replace("_f16", "_bf16")), 5),
])
def test_another_opcode_on_one_accumulator_takes_the_states_of_a_partial_overlap(arch: str, pair: tuple[str, str], states: int) -> None:
    (bare,) = read_text("\n".join([*pair, "s_endpgm"]), arch, "k", "k.s")
    program = insert(bare)
    assert sum(int(item.operands[0]) + 1 for item in program.instructions if item.name == "s_nop") == states  # type: ignore[arg-type]
    notes = [(finding.rule, finding.severity) for finding in lint_program(bare, "k.s") if "opcode" in finding.rule]
    assert notes == [("xdl-srcc-opcode", "note")] * bool(states)
    assert not [finding for finding in lint_program(program, "k.s") if "opcode" in finding.rule]
    if states:
        judge, kinds = Judge(program), []
        for mutant in mutants(program):
            kinds.append(mutant.kind)
            assert judge.notices(mutant), str(mutant)
        assert kinds == ["nop", "nop"]


def test_it_is_a_note_only_though_the_rest_is_an_error() -> None:
    """A reader of D after it stays an error; the note does not make it milder, nor it the note worse."""
    (program,) = read_text("\n".join([*CHANGE, "v_mov_b32 v0, v20", "s_endpgm"]), "gfx950", "k", "k.s")
    severities = {finding.rule: finding.severity for finding in lint_program(program, "k.s")}
    assert severities["xdl-srcc-opcode"] == "note" and severities["xdl-valu-read"] == "error"


def test_the_builder_refuses_the_form_and_names_what_works() -> None:
    k = Builder("k", "gfx950")
    with pytest.raises(OperandError, match=r"takes v3 of v\[2:3\] for its low half.*even register.*SGPR.*two scalar.*despite=") as refused:
        k.v_pk_mul_f32(v[0:1], v[0:1], v[2:3], op_sel=(0, 1))
    assert "test_errata.py" in str(refused.value)
    with pytest.raises(OperandError, match="there is no erratum 'packed'"):
        k.v_pk_mul_f32(v[0:1], v[0:1], v[2:3], op_sel=(0, 1), despite="packed")
    assert not k.items
    accepted = k.v_pk_mul_f32(v[0:1], v[0:1], v[2:3], op_sel=(0, 1), despite="packed-odd-low", comment="on purpose")
    assert accepted.text == BROADCAST and accepted.comment == "on purpose, lint: off packed-odd-low" and k.items == [accepted]


def test_the_builder_takes_the_twins() -> None:
    k = Builder("k", "gfx950")
    k.v_pk_mul_f32(v[0:1], v[0:1], v[2:3], op_sel_hi=(1, 0))
    k.v_pk_mul_f32(v[0:1], v[0:1], s[2:3], op_sel=(0, 1))
    k.v_pk_add_f32(v[0:1], v[2:3], v[4:5], op_sel=(0, 1), op_sel_hi=(1, 0))
    Builder("k", "gfx942").v_pk_mul_f32(v[0:1], v[0:1], v[2:3], op_sel=(0, 1))
    assert len(k.items) == 3


@pytest.mark.parametrize(("arch", "apart", "rows", "copies", "packed", "single"),
                         [("gfx950", True, 32, 0, 8, 0), ("gfx950", False, 32, 2, 8, 0), ("gfx950", False, 16, 0, 2, 4),
                          ("gfx942", False, 32, 0, 8, 0)])
def test_element_operations_take_even_registers_twice(arch: str, apart: bool, rows: int, copies: int, packed: int,
                                                      single: int) -> None:
    """A value for each column of two fragments: side by side in a pair, or each in the even register of a pair of its own.
    The odd one is copied to an even register where more than two pairs take it."""
    run = TileRun(arch)
    x = run.tile("x", (rows, 32), d_fragment(arch, SMALL), np.ones((rows, 32)))
    columns = column_vector(run.k, "columns", x, apart=apart)
    before = len(run.k.items)
    mul(run.k, x, x, columns)
    names = [item.name for item in run.k.items[before:] if isinstance(item, Instruction)]
    assert (names.count("v_pk_mul_f32"), names.count("v_mul_f32")) == (packed, single)
    assert names.count("v_mov_b32") == copies and len(names) == packed + single + copies
