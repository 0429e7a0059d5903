"""W015: a missing barrier in anyone's code, where the workgroup's size and addresses are known."""

from __future__ import annotations

import pytest

from asmgen.checks.lint.facts import KernelFacts
from asmgen.checks.lint.programlint import lint_program
from asmgen.reader.assembly import read_text

# Each wave writes its own dwords and reads those of the other one (v3), round after round.
LOOP = """v_and_b32 v0, 0x3ff, v0
v_lshlrev_b32 v1, 2, v0
v_xor_b32 v3, 0x100, v1
s_load_dword s4, s[0:1], 0
s_waitcnt lgkmcnt(0)
loop:
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
{after_write}
ds_read_b32 v2, v3
s_waitcnt lgkmcnt(0)
{after_read}
s_sub_u32 s4, s4, 1
s_cmp_lg_u32 s4, 0
s_cbranch_scc1 loop
s_endpgm
"""


def races(after_write: str, after_read: str, block: int | None, notes: bool = True) -> list[tuple[str, str]]:
    """(severity, the second instruction's name) of each W015."""
    (program,) = read_text(LOOP.format(after_write=after_write, after_read=after_read), "gfx942", "k")
    found = lint_program(program, "", KernelFacts(block=(block, 1, 1) if block else None), notes)
    return [(one.severity, one.consumer.name) for one in found if one.rule == "W015" and one.consumer is not None]


@pytest.mark.parametrize(("after_write", "after_read"), [("", "s_barrier"), ("s_barrier", ""), ("", "")])
def test_a_missing_barrier_is_an_error(after_write: str, after_read: str) -> None:
    assert [severity for severity, _ in races(after_write, after_read, 128)] == ["error"]
    assert [severity for severity, _ in races(after_write, after_read, 1024)] == ["warning"]  # code for one wave, perhaps
    assert races(after_write, after_read, 64) == [] == races(after_write, after_read, None) == races(after_write, after_read, 128, False)


def test_barriers_that_stand_are_enough() -> None:
    assert races("s_barrier", "s_barrier", 128) == [] == races("s_barrier", "s_barrier", 1024)


def test_a_race_that_waits_show_is_named_once() -> None:
    """The wait before the barrier is missing: W002 says so."""
    whole = LOOP.format(after_write="s_barrier", after_read="s_barrier")
    (program,) = read_text(whole.replace("s_waitcnt lgkmcnt(0)\ns_barrier\nds_read", "s_barrier\nds_read"), "gfx942", "k")
    found = lint_program(program, "", KernelFacts(block=(128, 1, 1)))
    assert [one.rule for one in found if one.severity == "error"] == ["W002"]
