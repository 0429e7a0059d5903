"""Lint and the emulator judge wait states by walks of their own: on random rows of matrix instructions they name the same faults."""

from __future__ import annotations

import random

import pytest

from asmgen.checks.waitstates.passes import verify
from asmgen.emulator.scheduling.run import Options
from asmgen.program.program import Instruction, Program
from asmgen.reader.instruction import parse_instruction
from tests.emulator_launch import launch

APART = ("s_nop 15", "s_nop 15")  # more than any row asks for
CASES = 150
"""Programs of one launch, after each other."""

# D, A, B and C registers of matrix instructions of 2, 4, 8 and 16 passes; f32 and f64 inputs have rows of their own.
BOTH = (
    ("v_mfma_f32_4x4x4_16b_f16", 4, 2, 2), ("v_mfma_f32_16x16x16_f16", 4, 2, 2), ("v_mfma_f32_32x32x8_f16", 16, 2, 2),
    ("v_mfma_f32_32x32x4_2b_f16", 32, 2, 2), ("v_mfma_i32_16x16x32_i8", 4, 2, 2), ("v_mfma_f32_4x4x1_16b_f32", 4, 1, 1),
    ("v_mfma_f32_16x16x4_f32", 4, 1, 1), ("v_mfma_f32_32x32x2_f32", 16, 1, 1), ("v_mfma_f64_16x16x4_f64", 8, 2, 2),
    ("v_mfma_f64_4x4x4_4b_f64", 2, 2, 2),
)
MATRIX = {"gfx942": (*BOTH, ("v_mfma_f32_16x16x8_xf32", 4, 2, 2)),
          "gfx950": (*BOTH, ("v_mfma_f32_16x16x32_f16", 4, 4, 4), ("v_mfma_f32_32x32x16_f16", 16, 4, 4))}
SPARSE = ("v_smfmac_f32_16x16x32_f16", 4, 2, 4)


def span(first: int, count: int) -> str:
    return f"v[{first}:{first + count - 1}]" if count > 1 else f"v{first}"


def matrix(arch: str, random_: random.Random, d: int, c: int | None = None, a: int = 64) -> str:
    """A matrix instruction that writes from v`d`, and reads C from v`c` (None: a constant) and A from v`a`."""
    if c == d and random_.random() < 0.2:
        name, wide, first, second = SPARSE
        return f"{name} {span(d, wide)}, {span(a, first)}, {span(72, second)}, v80"
    name, wide, first, second = random_.choice(MATRIX[arch])
    return f"{name} {span(d, wide)}, {span(a, first)}, {span(72, second)}, {0 if c is None else span(c, wide)}"


def filler(arch: str, random_: random.Random) -> str:
    kind = random_.randrange(8)
    if kind < 3:
        return matrix(arch, random_, 96)  # far from what the others touch
    if kind == 3:
        return matrix(arch, random_, 0, random_.choice((None, 0)))  # over the producer's result
    return (f"s_nop {random_.randrange(8)}", "v_mov_b32 v90, 0", "s_mov_b32 s30, 0", "v_mov_b32 v91, v92")[kind - 4]


def consumer(arch: str, random_: random.Random) -> str:
    kind = random_.randrange(10)
    if kind < 5:
        return (matrix(arch, random_, 0, 0), matrix(arch, random_, 32, 0), matrix(arch, random_, 32, 2), matrix(arch, random_, 32, None, 0),
                matrix(arch, random_, 32, None, 2))[kind]
    return ("v_add_f32 v90, v1, v91", "v_mov_b32 v1, 0", "ds_write_b64 v93, v[0:1]", "v_fma_f64 v[90:91], v[86:87], v[86:87], v[88:89]",
            "ds_read_b32 v1, v93")[kind - 5]


def case(arch: str, random_: random.Random) -> list[str]:
    lines = [matrix(arch, random_, 0, random_.choice((None, 0, 32)))]
    lines += [filler(arch, random_) for _ in range(random_.choice((0, 1, 1, 1, 2, 2, 3, 5)))]
    return [*lines, consumer(arch, random_)]


def faults(program: Program) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """(producer, consumer) of lint's errors, and of the emulator's findings."""
    where = {id(instruction): position for position, instruction in enumerate(program.instructions)}

    def place(instruction: Instruction | None) -> int:
        return where[id(instruction)]

    lint = {(place(finding.producer), finding.position) for finding in verify(program) if finding.severity == "error"}
    launched = launch(program.arch, program, lds=4096, vgprs=512, options=Options(checks={"wait-state"}))
    found = [finding for finding in launched.findings if finding.check == "wait-state"]
    return lint, {(place(finding.producer), place(finding.consumer)) for finding in found}


def judged(arch: str, *cases: list[str]) -> tuple[list[list[str]], list[list[str]]]:
    """The text of the pairs that lint and the emulator find, cases far apart."""
    lines = ["v_mov_b32 v93, 0", *APART]
    for one in cases:
        lines += [*one, *APART]
    items = tuple(parse_instruction(line, arch) for line in [*lines, "s_waitcnt lgkmcnt(0)", "s_endpgm"])
    both = faults(Program("agree", arch, items))
    texts = [[[items[producer].text, items[last].text] for producer, last in sorted(found)] for found in both]
    return texts[0], texts[1]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_the_same_errors(arch: str, seed: int) -> None:
    random_ = random.Random(seed)
    cases = [case(arch, random_) for _ in range(CASES)]
    lines = ["v_mov_b32 v93, 0", *APART]
    origin = [-1] * len(lines)
    for number, one in enumerate(cases):
        lines += [*one, *APART]
        origin += [number] * (len(one) + len(APART))
    items = tuple(parse_instruction(line, arch) for line in [*lines, "s_waitcnt lgkmcnt(0)", "s_endpgm"])
    lint, emulator = faults(Program("agree", arch, items))
    differing = {origin[last] for _, last in lint ^ emulator}
    assert len(lint) > CASES // 4
    assert not differing, [(cases[number], [pair for pair in sorted(lint ^ emulator) if origin[pair[1]] == number])
                           for number in sorted(differing)]


FAR = "v_mfma_f32_32x32x8_f16 v[96:111], v[64:65], v[72:73], 0"  # 8 passes
FIRST = "v_mfma_f32_16x16x16_f16 v[0:3], v[64:65], v[72:73], 0"  # 4 passes


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_the_consumers_own_wait_for_the_matrix_core_is_no_excuse(arch: str) -> None:
    """After FAR the core is busy for 8 slots, so that LAST begins late; nothing says when it reads its sources."""
    last = "v_mfma_f32_16x16x16_f16 v[32:35], v[0:1], v[72:73], 0"
    assert judged(arch, [FIRST, FAR, last]) == ([[FIRST, last]], [[FIRST, last]])
    assert judged(arch, [FIRST, FAR, FAR, last]) == ([], [])  # the second one waits for the first, for all to see


@pytest.mark.parametrize("accumulator", ["0", "v[0:3]"])
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_one_finding_where_the_next_matrix_instruction_overwrites_the_result(arch: str, accumulator: str) -> None:
    second = f"v_mfma_f32_16x16x16_f16 v[0:3], v[66:67], v[72:73], {accumulator}"
    last = "v_add_f32 v90, v1, v91"
    expected = [[second, last]]
    assert judged(arch, [FIRST, second, last]) == (expected, expected)
    narrow = f"v_mfma_f64_4x4x4_4b_f64 v[2:3], v[66:67], v[72:73], {'0' if accumulator == '0' else 'v[2:3]'}"
    reads = "v_add_f32 v90, v1, v3"  # v1 is still the first one's
    found = judged(arch, [FIRST, narrow, reads])
    assert all([FIRST, reads] in side and [narrow, reads] in side for side in found)
