"""Random programs whose waits are inserted verify clean, every wait of them is needed, and the emulator agrees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asmgen.author.emit.builder import Builder
from asmgen.checks.finding.finding import LintFinding
from asmgen.checks.waits.insert import insert_waits
from asmgen.checks.waits.verify import verify
from asmgen.isa.operands import Waitcnt
from asmgen.isa.registers import s, v
from asmgen.program.program import Instruction, Program
from tests.emulator_launch import launch

ARRIVAL = {"read-before-wait", "overwrite-before-wait", "lds-race", "lds-dma-before-wait"}
MISSING = {"W001", "W002", "W003", "W004", "W009"}

# ---- random programs ----

_STEP = st.one_of(
    st.tuples(st.just("load"), st.integers(0, 7)), st.tuples(st.just("store"), st.integers(0, 7)),
    st.tuples(st.just("lds"), st.integers(0, 7)), st.tuples(st.just("lds_write"), st.integers(0, 7)),
    st.tuples(st.just("scalar"), st.integers(0, 3)), st.tuples(st.just("add"), st.integers(0, 7)),
    st.tuples(st.just("scalar_add"), st.integers(0, 3)), st.tuples(st.just("barrier"), st.just(0)))
_STEPS = st.lists(_STEP, min_size=1, max_size=14)


def emit_step(k: Builder, what: str, number: int) -> None:
    """Addresses: buffer in s[8:9], v1 a lane's offset in it and in LDS. Data: v16 to v23 and s20 to s23."""
    data, scalar = v[16 + number:16 + number], s[20 + number % 4:20 + number % 4]
    if what == "load":
        k.global_load_dword(data, v[1], s[8:9], offset=4 * number)
    elif what == "store":
        k.global_store_dword(v[1], data, s[8:9], offset=4 * number)
    elif what == "lds":
        k.ds_read_b32(data, v[1], offset=4 * number)
    elif what == "lds_write":
        k.ds_write_b32(v[1], data, offset=4 * number)
    elif what == "scalar":
        k.s_load_dword(scalar, s[8:9], 4 * number)
    elif what == "add":
        k.v_add_u32(v[24 + number % 2], v[24 + number % 2], data)
    elif what == "scalar_add":
        k.s_add_u32(s[30], s[30], scalar)
    else:
        k.s_barrier()


def start(k: Builder) -> None:
    k.s_load_dwordx2(s[8:9], s[0:1], 0)
    k.v_and_b32(v[1], 63, v[0])
    k.v_lshlrev_b32(v[1], 6, v[1])
    for number in range(8):
        k.v_mov_b32(v[16 + number], number)
    for number in range(2):
        k.v_mov_b32(v[24 + number], 0)
    k.s_mov_b32(s[30], 0)


def straight(steps: list[tuple[str, int]]) -> Program:
    k = Builder("k", "gfx950")
    start(k)
    for step in steps:
        emit_step(k, *step)
    k.s_endpgm()
    return k.program()


def branching(parts: list[list[tuple[str, int]]]) -> Program:
    """Before, a loop with a half in it that odd rounds skip, and the code after it; the second argument is the number of rounds."""
    k = Builder("k", "gfx950")
    k.s_load_dword(s[41], s[0:1], 8)
    start(k)
    before, first, second, after = parts
    for step in before:
        emit_step(k, *step)
    k.s_mov_b32(s[40], 0)
    k.label("loop")
    for step in first:
        emit_step(k, *step)
    k.s_bitcmp1_b32(s[40], 0)
    k.s_cbranch_scc1("odd")
    for step in second:
        emit_step(k, *step)
    k.label("odd")
    k.s_add_u32(s[40], s[40], 1)
    k.s_cmp_lt_u32(s[40], s[41])
    k.s_cbranch_scc1("loop")
    for step in after:
        emit_step(k, *step)
    k.s_endpgm()
    return k.program()


def weaker(program: Program) -> list[tuple[Instruction, Program]]:
    """Each inserted wait removed; each of two fields removed."""
    out = []
    for number, item in enumerate(program.items):
        if isinstance(item, Instruction) and item.inserted:
            out.append((item, program.with_items(program.items[:number] + program.items[number + 1:])))
            operand = item.operands[0]
            assert isinstance(operand, Waitcnt)
            if operand.vmcnt is not None and operand.lgkmcnt is not None:
                for field in ("vmcnt", "lgkmcnt"):
                    lesser = Waitcnt(**{name: getattr(operand, name) for name in ("vmcnt", "lgkmcnt") if name != field})
                    changed = Instruction(item.opcode, item.form, (lesser,), source=item.source, reason=item.reason)
                    out.append((item, program.with_items((*program.items[:number], changed, *program.items[number + 1:]))))
    return out


def missing(program: Program) -> list[LintFinding]:
    """What inserted waits must settle. These programs have no tokens and no known addresses: that other waves may write what a read in
    flight at a barrier reads is a note of W004, and nothing that insertion can know."""
    return [finding for finding in verify(program) if finding.rule in MISSING and not finding.message.startswith("LDS reads are in flight")]


@settings(max_examples=120)
@given(_STEPS)
def test_straight_programs_are_clean_and_every_wait_is_needed(steps: list[tuple[str, int]]) -> None:
    program = insert_waits(straight(steps))
    assert missing(program) == []
    assert not [finding for finding in verify(program) if finding.rule in ("W005", "W006") and finding.consumer.inserted
                and finding.need is not None and not _mixed(finding)]
    for item, mutant in weaker(program):
        assert missing(mutant), item.text


def _mixed(finding: LintFinding) -> bool:
    """Waits for LDS beside scalar loads are taken to 0 where that spares a wait."""
    operand = finding.consumer.operands[0]
    return isinstance(operand, Waitcnt) and operand.lgkmcnt == 0


@settings(max_examples=80)
@given(st.tuples(_STEPS, _STEPS, _STEPS, _STEPS))
def test_branching_and_looping_programs_are_clean_and_every_wait_is_needed(parts: tuple[list[tuple[str, int]], ...]) -> None:
    program = insert_waits(branching(list(parts)))
    assert missing(program) == []
    for item, mutant in weaker(program):
        assert missing(mutant), item.text


def faults(program: Program, data: np.ndarray[Any, Any]) -> list[str]:
    """The emulator's arrival checks that found something; vector-memory loads over each other land in order and are no fault."""
    found = []
    for rounds in (1, 2, 3, 4) if "loop" in program.labels else (1,):
        found += launch("gfx950", program, buffers=[data], values=[rounds], lds=8192).findings
    return [finding.check for finding in found if finding.check in ARRIVAL and not (
            finding.producer is not None and finding.consumer is not None and
            finding.producer.name == finding.consumer.name == "global_load_dword")]


@pytest.mark.parametrize("shape", ["straight", "branching"])
def test_the_emulator_agrees(shape: str) -> None:
    """Auto-inserted programs are clean under the independent arrival checks; without an inserted wait for a register they are not."""
    random = np.random.default_rng(5)
    names = ["load", "store", "lds", "lds_write", "scalar", "add", "scalar_add"]

    def steps(count: int) -> list[tuple[str, int]]:
        return [(names[int(random.integers(len(names)))], int(random.integers(8))) for _ in range(count)]

    data = random.integers(0, 1 << 32, 64 * 16 + 16, np.uint64).astype(np.uint32)
    judged = 0
    for _ in range(8):
        program = insert_waits(straight(steps(12)) if shape == "straight" else branching([steps(5) for _ in range(4)]))
        assert faults(program, data) == []
        for item, mutant in weaker(program):
            judged += 1
            assert {"read-before-wait", "overwrite-before-wait"} & set(faults(mutant, data)), (item.text, item.reason)
    assert judged > 15
