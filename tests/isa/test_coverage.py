"""The coverage table: what is read, executed and tested, against the inventory of mnemonics that real kernels use."""

from __future__ import annotations

from pathlib import Path

import pytest

from asmgen.emulator.scheduling.coverage import executed, plain_instance
from asmgen.isa.check import resolve
from asmgen.isa.table import names, opcode
from asmgen.tools.list_command import instruction_rows, instruction_table

INVENTORY = {line.split()[0] for line in (Path(__file__).parents[1] / "isa_inventory.txt").read_text().splitlines()
             if line and not line.startswith("#")}


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_what_real_kernels_use_is_executed(arch: str) -> None:
    assert len(INVENTORY) > 350
    assert (INVENTORY & set(names(arch))) - executed(arch) == set()


def test_what_real_kernels_use_is_tested() -> None:
    tested = {row["mnemonic"] for row in instruction_rows(None) if row["tested"]}
    assert INVENTORY - tested - _CONTROL == set()


# What has no result of its own to compare with; the scheduler's and the arrival model's tests are about these.
_CONTROL = {"s_nop", "s_waitcnt", "s_setprio", "v_nop"}


def test_nothing_is_called_tested_that_is_not_executed() -> None:
    assert [row["mnemonic"] for row in instruction_rows(None) if row["tested"] and not row["executed"]] == []


def test_a_mnemonic_without_semantics_is_not_called_executed() -> None:
    assert "v_screen_partition_4se_b32" not in executed("gfx942")
    assert "v_permlane16_swap_b32" in executed("gfx950") and "v_permlane16_swap_b32" not in executed("gfx942")


def test_plain_instances_are_legal() -> None:
    for arch in ("gfx942", "gfx950"):
        for name in names(arch):
            instruction = plain_instance(opcode(name), arch)
            resolve(instruction.opcode, instruction.operands, instruction.modifiers, arch)


def test_the_table_for_people() -> None:
    text = instruction_table(instruction_rows("gfx942"))
    assert text.splitlines()[0].split() == ["mnemonic", "formats", "architecture", "read", "executed", "tested"]
    (line,) = [line for line in text.splitlines() if line.startswith("v_mfma_f32_16x16x8_xf32 ")]
    assert line.split()[-4:] == ["gfx942", "yes", "yes", "yes"]
