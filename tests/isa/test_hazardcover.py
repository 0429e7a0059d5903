"""Lacks of wait states that the hardware covers are no errors; one step further they are."""

import pytest

from asmgen.checks.waitstates.passes import insert, verify, wait_states
from asmgen.program.program import Item, Label, Program
from asmgen.reader.instruction import parse_instruction

MFMA = "v_mfma_f32_16x16x16_f16"  # 4 passes: 7 wait states on gfx942, 8 on gfx950


def program(arch: str, *lines: str) -> Program:
    items: list[Item] = [Label(line[:-1]) if line.endswith(":") else parse_instruction(line, arch) for line in lines]
    return Program("cover", arch, tuple(items))


def severities(arch: str, *lines: str) -> list[tuple[str, str]]:
    return [(finding.rule, finding.severity) for finding in verify(program(arch, *lines))]


@pytest.mark.parametrize(("arch", "others", "severity"), [("gfx942", 1, "error"), ("gfx942", 2, "warning"), ("gfx950", 2, "warning")])
def test_matrix_instructions_between_keep_the_core_busy(arch: str, others: int, severity: str) -> None:
    """The n-th of a row of 4-pass instructions issues 4n slots after the first: one leaves 4 slots, two leave 8."""
    lines = [f"{MFMA} v[0:3], v[20:21], v[22:23], 0",
             *(f"{MFMA} v[{4 * number}:{4 * number + 3}], v[20:21], v[22:23], 0" for number in range(1, others + 1)), "v_mov_b32 v40, v3"]
    assert severities(arch, *lines) == [("xdl-valu-read", severity)]
    assert wait_states(arch, lines[0], lines[-1], lines[1:-1]) == (7 if arch == "gfx942" else 8) - others
    assert not verify(insert(program(arch, *lines)))


def test_a_busy_core_does_not_hide_the_last_matrix_instruction() -> None:
    lines = [f"{MFMA} v[{first}:{first + 3}], v[20:21], v[22:23], 0" for first in (0, 4, 8)]
    assert [severities("gfx942", *lines, f"v_mov_b32 v40, v{read}") for read in (3, 7, 8)] == \
        [[("xdl-valu-read", severity)] for severity in ("warning", "error", "error")]


def test_of_matrix_instructions_that_overwrite_each_other_the_last_is_named() -> None:
    lines = [f"{MFMA} v[0:3], v[20:21], v[22:23], 0"] * 3 + ["v_mov_b32 v40, v3"]
    found = verify(program("gfx942", *lines))
    assert [(finding.severity, finding.have) for finding in found] == [("error", 0)]
    assert wait_states("gfx942", lines[0], lines[-1], lines[1:-1]) == 7  # the figure is that of the last one


def test_who_waits_for_the_last_one_has_waited_for_a_longer_one_before() -> None:
    long, short = "v_mfma_f32_32x32x4_2b_f16 v[0:31], v[40:41], v[42:43], 0", f"{MFMA} v[0:3], v[40:41], v[42:43], 0"
    # After the short one stand the 7 wait states that it needs, after the long one 11 of 19: v4 is the long one's, v3 the short one's.
    assert [rule for rule, _ in severities("gfx942", long, "s_nop 2", short, "s_nop 6", "v_mov_b32 v50, v4")].count("xdl-valu-read") == 1
    assert [rule for rule, _ in severities("gfx942", long, "s_nop 2", short, "s_nop 6", "v_mov_b32 v50, v3")].count("xdl-valu-read") == 0
    assert [rule for rule, _ in severities("gfx942", long, "s_nop 2", short, "s_nop 5", "v_mov_b32 v50, v3")].count("xdl-valu-read") == 1


def test_on_another_way_the_first_one_counts() -> None:
    """On the way round the second one nothing overwrites the first one's result."""
    first = f"{MFMA} v[0:3], v[20:21], v[22:23], 0"
    lines = [first, "s_cbranch_scc0 join", first, "join:", "v_mov_b32 v40, v3"]
    assert severities("gfx942", *lines) == [("xdl-valu-read", "error")] * 2


def test_a_branch_covers_nothing() -> None:
    assert severities("gfx942", f"{MFMA} v[0:3], v[20:21], v[22:23], 0", "s_branch on", "on:", "v_mov_b32 v40, v3") == \
        [("xdl-valu-read", "error")]


def test_the_fastest_path_counts() -> None:
    """One way round passes two matrix instructions, the other none."""
    lines = [f"{MFMA} v[0:3], v[20:21], v[22:23], 0", "s_cbranch_scc0 join", f"{MFMA} v[4:7], v[20:21], v[22:23], 0",
             f"{MFMA} v[8:11], v[20:21], v[22:23], 0", "join:", "v_mov_b32 v40, v3"]
    assert severities("gfx942", *lines) == [("xdl-valu-read", "error")]
    assert severities("gfx942", *lines[:1], *lines[2:]) == [("xdl-valu-read", "warning")]


@pytest.mark.parametrize(("forks", "severity"), [(3, "warning"), (8, "error")])
def test_where_the_ways_are_too_many_nothing_is_excused(forks: int, severity: str) -> None:
    """16 passes: 19 wait states. The cores are busy for 33 slots whichever of 8 or 256 ways is taken."""
    lines = [f"v_mfma_f32_32x32x4_2b_f16 a[{32 * number}:{32 * number + 31}], v[20:21], v[22:23], 0" for number in range(3)]
    for fork in range(forks):
        lines += [f"s_cbranch_scc0 on{fork}", f"v_mov_b32 v{fork}, 0", f"on{fork}:"]
    found = [finding for finding in verify(program("gfx942", *lines, "v_accvgpr_read_b32 v40, a0")) if finding.need == 19]
    assert [(finding.rule, finding.severity, finding.have) for finding in found] == [("xdl-valu-read", severity, forks + 2)]


@pytest.mark.parametrize(("between", "expected"), [
    ("s_and_b32 s4, s4, 15", [("valu-sgpr-constant", "note")]),
    ("s_and_b32 s5, s4, 15", [("valu-sgpr-constant", "error")]),
    ("v_mov_b32 v9, 0", [("valu-sgpr-constant", "error")]),
])
def test_a_scalar_instruction_that_rewrites_the_register(between: str, expected: list[tuple[str, str]]) -> None:
    assert severities("gfx942", "v_readlane_b32 s4, v0, 3", between, "v_add_f32 v1, s4, v2") == expected
    assert wait_states("gfx942", "v_readlane_b32 s4, v0, 3", "v_add_f32 v1, s4, v2", [between]) == 1


def test_half_a_descriptor_rewritten_is_not_enough() -> None:
    lines = ["v_readlane_b32 s4, v0, 0", "v_readlane_b32 s5, v0, 1", "s_and_b32 s5, s5, 0xffff",
             "buffer_load_dword v1, v2, s[4:7], 0 offen"]
    assert severities("gfx950", *lines) == [("valu-sgpr-vmem", "error"), ("valu-sgpr-vmem", "note")]


def test_overwriting_a_vector_register_excuses_nothing() -> None:
    """Lanes that EXEC leaves out keep the old value."""
    found = severities("gfx950", "v_add_f32 v0, v1, v2", "v_mov_b32 v0, 1", "v_permlane32_swap_b32 v0, v3")
    assert found == [("valu-permlane", "error")] * 2
