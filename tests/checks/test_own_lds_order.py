"""What one wave's own LDS operations need among themselves: LDS operations nothing, loads into LDS a wait. Lint, the race proof and the
emulator say so alike, for bytes of tokens too; where another wave touches the bytes, waits and barriers are asked for."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.checks.lint.facts import KernelFacts
from asmgen.checks.lint.programlint import lint_program
from asmgen.checks.raceproofs.outcome import PROVEN
from asmgen.checks.raceproofs.raceproof import prove_races
from asmgen.checks.waits.insert import insert_waits
from tests.checks.test_lds_races import program_of
from tests.emulator_launch import launch

# v3: this work-item's dword of its wave's 256 bytes; v4: another one's of the same wave; v5: one's of the other wave.
BEGIN = """s_load_dwordx2 s[8:9], s[0:1], 0
v_and_b32 v0, 0x3ff, v0
v_lshlrev_b32 v3, 2, v0
v_xor_b32 v4, 0x80, v3
v_xor_b32 v5, 0x100, v3
v_lshrrev_b32 v6, 6, v0
s_nop 4
v_readfirstlane_b32 s20, v6
s_lshl_b32 m0, s20, 8
s_waitcnt lgkmcnt(0)
"""
FILLS, USES = " ; lds write X[0] 0x0:0x200\n", " ; lds read X[0] 0x0:0x200\n"
WRITE, DMA = f"ds_write_b32 v3, v0{FILLS}", f"global_load_lds_dword v3, s[8:9]{FILLS}"
READ, OTHERS = f"ds_read_b32 v8, v4{USES}", f"ds_read_b32 v8, v5{USES}"
BARRIER, LANDED, DONE = "s_barrier\n", "s_waitcnt vmcnt(0)\n", "s_waitcnt lgkmcnt(0)\n"
TAKEN = "v_add_u32 v9, v8, v8\n"
END = "s_waitcnt vmcnt(0) lgkmcnt(0)\ns_endpgm\n"
CASES = [  # code, work-items, what lint says, whether it is proven, what the emulator finds
    (WRITE + READ, 64, set(), True, set()),
    (WRITE + READ, 128, set(), True, set()),
    (WRITE + READ + WRITE.replace("v0 ;", "v3 ;"), 128, set(), True, set()),
    (WRITE + BARRIER + READ, 128, set(), True, set()),
    (WRITE + OTHERS, 128, {"W003"}, False, {"lds-race"}),
    (WRITE + BARRIER + OTHERS, 128, {"W002"}, False, {"lds-race"}),
    (WRITE + DONE + BARRIER + OTHERS, 128, set(), True, set()),
    (DMA + READ, 64, {"W001"}, False, {"lds-dma-before-wait"}),
    (DMA + LANDED + READ, 64, set(), True, set()),
    (READ + DMA, 64, {"W001"}, False, {"lds-dma-before-wait"}),
    (READ + DONE + DMA, 64, set(), True, set()),
    (WRITE + DMA, 64, {"W001"}, False, {"lds-dma-before-wait"}),
    (WRITE + DONE + DMA, 64, set(), True, set()),
    # A barrier asks nothing of a wave's own bytes, and does not bring them either.
    (DMA + BARRIER + READ, 64, {"W001"}, False, {"lds-dma-before-wait"}),
    (READ + BARRIER + DMA, 64, {"W001"}, False, {"lds-dma-before-wait"}),
    (READ + BARRIER + TAKEN + WRITE, 64, {"W001"}, True, {"read-before-wait"}),
    (READ + BARRIER + TAKEN + WRITE, 128, {"W001"}, True, {"read-before-wait"}),
    (READ + BARRIER + DONE + TAKEN + WRITE, 128, set(), True, set()),
]


@pytest.mark.parametrize(("code", "block", "lint", "proven", "seen"), CASES)
def test_waits_and_barriers_are_asked_for_where_they_are_needed(code: str, block: int, lint: set[str], proven: bool, seen: set[str]
                                                                ) -> None:
    program = program_of(BEGIN + code + END)
    size = (block, 1, 1)
    assert {one.rule for one in lint_program(program, "k.s", KernelFacts(block=size)) if one.severity != "note"} == lint
    assert (prove_races(program, size).status == PROVEN) is proven
    checks = launch("gfx950", program, block=size, buffers=[np.arange(256, dtype=np.uint32)], lds=1024).checks
    assert {check for check in checks if check != "uninitialised-lds-read"} == seen


@pytest.mark.parametrize(("code", "waits"), [(WRITE + READ, 0), (READ + WRITE, 0), (DMA + READ, 1), (READ + DMA, 1), (WRITE + DMA, 1),
                                             (DMA + DMA, 0)])
def test_insertion_waits_between_loads_into_lds_and_lds_operations_alone(code: str, waits: int) -> None:
    program = program_of(BEGIN + code + END)
    inserted = insert_waits(program)
    assert len(inserted.instructions) - len(program.instructions) == waits
