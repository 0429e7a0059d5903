"""What registers hold in the lanes that run, where others are not known, against programs of which all is known, drawn by seed."""

from __future__ import annotations

import random

import numpy as np
import pytest

from asmgen.isa.arch import LANES
from asmgen.program.program import Program
from asmgen.program.wavestate import EXEC_BIT, State
from asmgen.program.wavesteps import step
from asmgen.reader.assembly import read_text

WAVES = 2  # s4 to s7 hold masks, s8 and s9 an EXEC that was saved


def program_of(lines: list[str]) -> Program:
    (program,) = read_text("\n".join(["k:", *lines, "s_endpgm", ""]), "gfx942", "k", "k.s")
    return program


def place(text: str) -> int:
    writes = program_of([text]).instructions[0].writes
    return (writes & -writes).bit_length() - 1


VECTOR = [place(line.format(number)) for line in ("v_mov_b32 v{}, 0", "v_accvgpr_write_b32 a{}, 0") for number in range(6)]
SCALAR = [place(f"s_mov_b32 s{number}, 0") for number in range(4, 10)]


def drawn_line(draw: random.Random) -> str:
    one, two, target = (draw.randrange(6) for _ in range(3))
    mask = draw.choice(["s[4:5]", "s[6:7]"])
    return draw.choice([
        f"v_add_u32 v{target}, v{one}, v{two}", f"v_lshlrev_b32 v{target}, {draw.randrange(9)}, v{one}", f"v_mov_b32 v{target}, v{one}",
        f"v_and_b32 v{target}, {draw.randrange(64)}, v{one}", f"v_lshl_add_u32 v{target}, v{one}, 2, v{two}",
        f"v_add_co_u32 v{target}, s[10:11], v{one}, v{two}", f"v_accvgpr_write_b32 a{target}, v{one}\nv_accvgpr_read_b32 v{two}, a{target}",
        f"v_mul_lo_u32 v{target}, v{one}, v{two}", f"v_mbcnt_lo_u32_b32 v{target}, s4, v{one}",
        f"v_mbcnt_hi_u32_b32 v{target}, exec_hi, v{one}", f"v_cmp_lt_u32 s[6:7], v{one}, v{two}",
        f"s_and_saveexec_b64 s[8:9], {mask}", f"s_andn2_b64 exec, exec, {mask}", f"s_and_b64 exec, {mask}, exec",
        "s_mov_b64 exec, s[8:9]", f"s_or_b64 exec, exec, {mask}", f"s_xor_b64 exec, exec, {mask}", f"s_or_saveexec_b64 s[8:9], {mask}",
        f"s_andn2_saveexec_b64 s[8:9], {mask}", f"s_andn1_saveexec_b64 s[8:9], {mask}", f"s_andn2_b64 exec, {mask}, exec"])


def test_what_is_told_of_running_lanes_is_what_they_hold() -> None:
    draw = random.Random(20261130)
    numbers = np.random.default_rng(20261130)
    told = limited = 0
    for _ in range(300):
        whole = State(np.ones(WAVES, bool))
        for bit in VECTOR:
            whole.known[bit] = numbers.integers(0, 1 << 32, (WAVES, LANES))
        for bit in (*SCALAR, EXEC_BIT, EXEC_BIT + 1):
            whole.known[bit] = numbers.integers(0, 1 << 32, WAVES)
        part = State(whole.waves, {bit: value for bit, value in whole.known.items() if draw.random() < 0.6})
        for instruction in program_of([drawn_line(draw) for _ in range(16)]).instructions:
            step(whole, instruction)
            step(part, instruction)
            exec_ = whole.known_exec
            assert exec_ is not None
            for running, most in zip(whole.pair(EXEC_BIT), part.limit or (), strict=False):
                assert running is not None and not (running & ~most).any(), instruction.text
                limited += 1
            for bit, value in part.known.items():
                assert np.array_equal(value, whole.known[bit]), instruction.text
            for bit, value in part.running.items():
                assert np.array_equal(value[exec_ != 0], whole.known[bit][exec_ != 0]), instruction.text
                told += 1
    assert told > 1500 and limited > 200


@pytest.mark.parametrize(("change", "told"), [
    ("s_and_b64 exec, exec, s[4:5]", True), ("s_or_b64 exec, exec, s[4:5]", False), ("s_mov_b64 exec, -1", False),
    ("s_andn2_b64 exec, s[4:5], exec", False), ("s_mov_b64 s[8:9], exec", True), ("v_mul_f32 v1, v0, v0", False)])
def test_lanes_that_begin_to_run_hold_something_else(change: str, told: bool) -> None:
    state = State(np.ones(WAVES, bool), {VECTOR[0]: np.zeros((WAVES, LANES), np.int64)})
    for instruction in program_of(["v_add_u32 v1, 4, v0", change]).instructions[:2]:
        step(state, instruction)
    assert (VECTOR[1] in state.running) is told
    assert State(state.waves, running=state.running).narrowed(state.waves).running == {}
