"""Low bits of counters against the values of short scalar programs, drawn by seed."""

from __future__ import annotations

import random

import numpy as np
import pytest

from asmgen.program.lowbits import wanted_low_bits
from asmgen.program.program import Program
from asmgen.program.wavestate import LowBits, State
from asmgen.program.wavesteps import step
from asmgen.reader.assembly import read_text

WAVES = 4
TWO = ("s_and_b32", "s_or_b32", "s_xor_b32", "s_andn2_b32", "s_add_u32", "s_add_i32", "s_sub_u32", "s_sub_i32", "s_mul_i32",
       "s_lshl1_add_u32", "s_lshl2_add_u32", "s_lshl3_add_u32", "s_lshl4_add_u32")
SHIFTS = ("s_lshl_b32", "s_lshr_b32")


def program_of(lines: list[str]) -> Program:
    (program,) = read_text("\n".join(["k:", *lines, "s_endpgm", ""]), "gfx942", "k", "k.s")
    return program


def drawn_line(draw: random.Random) -> str:
    """An instruction on s0 to s5."""
    one, two, target = (draw.randrange(6) for _ in range(3))
    number = draw.choice([1, 3, 64, 0x1000, 0xFFFFFFFE, 0x3000])
    kind = draw.randrange(8)
    if kind < 4:
        return f"{draw.choice(TWO)} s{target}, s{one}, {draw.choice([f's{two}', number])}"
    if kind == 4:
        return f"{draw.choice(SHIFTS)} s{target}, s{one}, {draw.randrange(32)}"
    if kind == 5:
        return f"s_bfe_u32 s{target}, s{one}, {draw.randrange(32) | draw.randrange(1, 33) << 16:#x}"
    if kind == 6:
        return f"{draw.choice(['s_addk_i32', 's_mulk_i32'])} s{target}, {draw.randrange(-0x8000, 0x8000)}"
    return draw.choice([f"s_mov_b32 s{target}, s{one}", f"s_not_b32 s{target}, s{one}",
                        f"s_bitcmp{draw.randrange(2)}_b32 s{one}, {draw.randrange(32)}"])


def test_low_bits_are_those_of_the_values() -> None:
    draw = random.Random(20261129)
    told = masked = 0
    for _ in range(300):
        program = program_of([drawn_line(draw) for _ in range(12)])
        values = {bit: np.array([draw.randrange(1 << 32) for _ in range(WAVES)], np.int64) for bit in range(128, 134)}
        names = {f"s{number}": program_of([f"s_mov_b32 s{number}, 0"]).instructions[0].writes.bit_length() - 1 for number in range(6)}
        held = dict(zip(names.values(), values.values(), strict=True))
        exact = State(np.ones(WAVES, bool), dict(held))
        low = State(np.ones(WAVES, bool))
        for bit, value in held.items():
            count = draw.choice([0, 1, 2, 5, 13, 31, 32])
            if count == 32:
                low.known[bit] = value
            elif count:
                low.low[bit] = LowBits(value & (1 << count) - 1, count)
        for instruction in program.instructions:
            known = set(low.known)
            step(exact, instruction)
            step(low, instruction)
            for bit, value in low.known.items():
                assert np.array_equal(value, exact.known[bit]), instruction.text
            for bit, some in low.low.items():
                assert bit not in low.known
                assert np.array_equal(some.value, exact.known[bit] & (1 << some.count) - 1), instruction.text
            told += len(low.low)
            masked += len(set(low.known) - known)
    assert told > 1000 and masked > 300


@pytest.mark.parametrize(("lines", "count"), [
    (["s_and_b32 s1, s0, 1"], 1), (["s_and_b32 s1, s0, 0x1000"], 13), (["s_lshl_b32 s1, s0, 12", "s_and_b32 s1, s1, 0x1000"], 1),
    (["s_bfe_u32 s1, s0, 0x20001"], 3), (["s_lshr_b32 s1, s0, 3", "s_and_b32 s2, s1, 1"], 4), (["s_bitcmp1_b32 s0, 2"], 3),
    (["s_and_b32 s1, s0, 1", "s_lshl_b32 s1, s2, 3", "s_and_b32 s1, s1, 0x2000"], 1),  # s1 holds another number before
    (["s_and_b32 s1, s0, 0xfffffffe", "s_and_b32 s1, s1, 7"], 3),
    (["s_add_i32 s1, s0, 1", "s_mov_b32 s2, s1", "s_and_b32 s3, s2, 3"], 2), (["s_andn2_b32 s1, 1, s0"], 1),
    (["s_add_i32 s1, s0, 1", "s_cmp_lt_u32 s1, s2"], 0), (["s_and_b32 s1, s0, s2"], 0)])
def test_how_many_low_bits_code_takes(lines: list[str], count: int) -> None:
    program = program_of(lines)
    place = program_of(["s_mov_b32 s0, 0"]).instructions[0].writes.bit_length() - 1
    assert wanted_low_bits(program).get(place, 0) == count
