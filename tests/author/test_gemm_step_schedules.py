"""A GEMM step of eight stages on both schedules: waits, prologue and values for 1 to 7 steps, masked and first steps, a rare branch."""

from __future__ import annotations

import functools
import itertools
import re
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

from asmgen.author.builders.tilebuilder import TileBuilder
from asmgen.author.contract.contract import ContractArgument, Formula, KernelContract
from asmgen.author.emit.kernel import Kernel
from asmgen.author.epilogue.stores import Corner, store
from asmgen.author.ops.arithmetic import mma, zero
from asmgen.author.ops.movement import fill, read
from asmgen.author.schedule.schedules import PingPong, Schedule
from asmgen.author.schedule.stepscheduler import Modulo
from asmgen.author.step.iterations import StepIndex
from asmgen.author.tiles.fragments import mfma
from asmgen.author.tiles.swizzles import DmaFill, FragmentRead
from asmgen.checks.lint.programlint import lint_program
from asmgen.emulator.scheduling.run import Options
from asmgen.isa.operands import Waitcnt
from tests.emulator_launch import launch

MOST = 7
RARE = 3
NUMBERS = ("m", "n", "k", "lda", "ldd", "rows")


@dataclass(frozen=True)
class Form:
    """What of the example is varied. `masked`: masked steps add 64 to an element of each lane. `first`: the first step does not add to C.
    The count is the workgroup's, or a number."""

    schedule: str
    tile: int = 128
    masked: bool = False
    first: bool = False
    rare: bool = False
    count: int | None = None


def schedule_of(form: Form) -> tuple[Schedule, int, int]:
    """The schedule, and the grid of waves."""
    return (PingPong(), 2, 4) if form.schedule == "ping-pong" else (Modulo(), 2, 2)


@functools.cache
def build(form: Form) -> Kernel:
    """Workgroup (x, y): y plain steps and x masked ones, into tile y * (MOST + 1) + x of d; without `masked`, x + 1 steps."""
    schedule, down, across = schedule_of(form)
    waves = down * across
    arguments = tuple([ContractArgument(name, "pointer", "") for name in "abd"] + [ContractArgument(name, "u32", "") for name in NUMBERS])
    contract = KernelContract("example", "example", ("gfx950",), (), arguments, (64 * waves, 1, 1), Formula("one", lambda _: (1, 1, 1)))
    k = TileBuilder(contract, "gfx950", {}, waves=2, workgroup_ids="xyz")
    t, depth = form.tile, 64
    M = k.matrix_shape("f32_16x16x32_bf16")
    C = k.tile("C", t // 2 // down, t // 2 // across, M.d.T, grid=(2, 2))
    A, B = k.tile("A", t // 2 // down, depth, M.a), k.tile("B", t // 2 // across, depth, M.b, grid=(2,))
    first, second, group, row, zero_row, rare = (k.registers.sgprs(1, name) for name in ("n0", "n1", "group", "row", "zero_row", "rare"))
    border, raised = k.registers.sgprs(1, "border"), k.registers.sgprs(1, "raised")
    As = k.shared("As", "bf16", t // 2, depth, 2, (2,), (FragmentRead(M.a), DmaFill()))
    Bs = k.shared("Bs", "bf16", t // 2, depth, 2, (2,), (FragmentRead(M.b), DmaFill()))
    wm, wn = k.wave_grid(down, across)
    k.s_lshr_b32(group, k.wave.register, 2)
    k.s_mov_b32(zero_row, 0)
    k.s_mov_b32(rare, 0)
    k.s_mul_i32(row, k.ids["y"], MOST + 1)
    k.s_add_u32(row, row, k.ids["x"])
    k.s_mul_i32(row, row, t)
    k.s_mov_b32(first, k.ids["y"])
    k.s_mov_b32(border, first)
    k.s_add_u32(second, first, k.ids["x"])
    a, b = (k.matrix(name, "bf16", "m", "k", "lda").rows(zero_row, t).halves() for name in "ab")
    zero(k, *C)
    memory, matrix, scalar = k.streams("memory", "matrix", "scalar")

    def product(t: StepIndex, i: int, j: int) -> None:
        if not form.first:
            mma(k, C[i, j], A, B[j])
            return
        with t.first:
            mma(k, C[i, j], A, B[j], first=True)
        with t.later:
            mma(k, C[i, j], A, B[j])

    def step(t: StepIndex) -> None:
        with k.stage(), memory:
            read(k, B[0], Bs[t, 0].part(wn))
            read(k, A, As[t, 0].part(wm))
            fill(k, As[t + 1, 1], a[1].k(t + 1))
        with k.stage(), matrix:
            product(t, 0, 0)
        with k.stage(), memory:
            read(k, B[1], Bs[t, 1].part(wn))
            fill(k, Bs[t + 2, 0], b[0].k(t + 2))
        with k.stage(), matrix:
            product(t, 0, 1)
        with k.stage(), memory:
            read(k, A, As[t, 1].part(wm))
            fill(k, As[t + 2, 0], a[0].k(t + 2))
        with k.stage(), matrix:
            product(t, 1, 0)
        with k.stage(), memory:
            fill(k, Bs[t + 2, 1], b[1].k(t + 2))
        with k.stage():
            with matrix:
                product(t, 1, 1)
            if form.masked:
                with scalar, t.masked, k.at(t):
                    k.s_cmp_ge_u32(t.number, border)
                    k.s_cselect_b32(raised, 64.0, 0)
                    k.v_add_f32(C[1, 1].base(0, 0)[0], raised, C[1, 1].base(0, 0)[0])
            if form.rare:
                with scalar, k.at(t), k.block("rare"):
                    skip = k.fresh("skip")
                    k.s_add_u32(rare, rare, 1)
                    k.s_cmp_lg_u32(rare, RARE)
                    k.s_cbranch_scc1(skip)
                    k.v_add_f32(C[1, 1].base(0, 0)[0], 64.0, C[1, 1].base(0, 0)[0])
                    k.label(skip)

    groups = group if schedule.stagger else None
    if form.masked:
        skip = k.fresh("nothing")
        k.s_cmp_eq_u32(second, 0)
        k.s_cbranch_scc1(skip)
        k.pipeline(step, second, schedule, groups, plain=first)
        k.label(skip)
    else:
        k.s_add_u32(second, second, 1)
        k.pipeline(step, second if form.count is None else form.count, schedule, groups)
    k.registers.release("A", "B")
    d = k.matrix("d", "bf16", "rows", "n", "ldd").rows(row, t)
    store(k, d, zero_row, [Corner(C[i, j], i * t // 2, j * t // 2) for i in range(2) for j in range(2)], wm, wn, t)
    k.s_endpgm()
    return k.finish()


def raised_by_the_block(form: Form) -> tuple[list[int], list[int]]:
    """The places of register 0 of C[1, 1] in every wave."""
    _, down, across = schedule_of(form)
    half = form.tile // 2
    lanes = mfma("f32_16x16x32_bf16", "gfx950").d.T.table[0]
    places = [(half + wm * half // down + row, half + wn * half // across + column)
              for wm in range(down) for wn in range(across) for row, column in lanes]
    return [row for row, _ in places], [column for _, column in places]


def run(form: Form, most: int = MOST, rare_at: int = RARE) -> None:
    """Every count of steps up to `most` (plain and masked), against what the formats allow."""
    kernel, t = build(form), form.tile
    depth = 64 * 2 * (MOST + 1)
    random = np.random.default_rng(3)
    a, b = (random.standard_normal((t, depth)).astype(ml_dtypes.bfloat16) for _ in range(2))
    down = MOST + 1 if form.masked else 1
    d = np.zeros((down, MOST + 1, t, t), ml_dtypes.bfloat16)
    grid = (most + 1, most + 1, 1) if form.masked else (most, 1, 1)
    values = [t, t, depth, depth, t, d.shape[0] * d.shape[1] * t]
    _, rows, columns = schedule_of(form)
    done = launch("gfx950", kernel.program, grid, (64 * rows * columns, 1, 1), [a.view(np.uint16), b.view(np.uint16), d.view(np.uint16)],
                  values, kernel.resources.lds_bytes, vgprs=512,
                  options=Options(True, "lockstep"))
    assert not done.findings, [finding.sentence() for finding in done.findings][:3]
    found = done.buffers[2].view(ml_dtypes.bfloat16).astype(np.float64)
    left, right = (one.astype(np.float64) for one in (a, b))
    for y, x in itertools.product(range(grid[1]), range(grid[0])):
        plain, more = (y, x) if form.masked else (x + 1, 0)
        if plain + more == 0:
            continue
        expected = left[:, :64 * (plain + more)] @ right[:, :64 * (plain + more)].T
        if form.masked:
            expected[raised_by_the_block(form)] += 64 * more
        if form.rare and plain + more >= rare_at:
            expected[raised_by_the_block(form)] += 64
        np.testing.assert_allclose(found[y, x], expected, rtol=2**-8, atol=1e-3, err_msg=f"{plain} and {more} steps")


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["ping-pong", "interleave"])
def test_steps_1_to_7(schedule: str) -> None:
    run(Form(schedule))


@pytest.mark.slow
@pytest.mark.parametrize(("schedule", "first"), [("ping-pong", True), ("interleave", False)])
def test_plain_and_masked_steps(schedule: str, first: bool) -> None:
    run(Form(schedule, masked=True, first=first), 3)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["ping-pong", "interleave"])
def test_a_rare_branch_in_a_stage_and_a_first_step(schedule: str) -> None:
    run(Form(schedule, first=True, rare=True), 4)


def test_a_wrong_value_is_seen() -> None:
    """The comparison has teeth: with the rare product, one step too early."""
    with pytest.raises(AssertionError, match="3 and 0 steps"):
        run(Form("ping-pong", first=True, rare=True), 3, rare_at=4)


def events(kernel: Kernel) -> list[str]:
    """Fills and reads by token, waits by their vmcnt, barriers and runs of matrix instructions, in order."""
    found = []
    for item in kernel.program.instructions:
        if item.name == "s_waitcnt" and isinstance(item.operands[0], Waitcnt) and item.operands[0].vmcnt is not None:
            found.append(str(item.operands[0].vmcnt))
        elif item.name == "s_barrier":
            found.append("|")
        found += [("" if use.action == "write" else "read ") + use.name for use in item.tokens]
    return found


@pytest.mark.parametrize(("steps", "counts"), [(1, "4 2 0"), (2, "10 10 8 4 2 0"), (3, "10 10 10 10 10 8 4 2 0")])
def test_waits_of_ping_pong(steps: int, counts: str) -> None:
    """Prologue, then stage by stage; the third memory stage waits for no load, and with two stages nothing is asked for too early."""
    found = events(build(Form("ping-pong", 256, count=steps)))
    assert " ".join(one for one in found if one.isdigit()) == counts
    if steps > 1:
        fills = list(dict.fromkeys(one for one in found[:found.index("|")] if one.startswith(("A", "B"))))
        assert fills == ["Bs[0][0]", "As[0][0]", "Bs[0][1]", "As[0][1]", "Bs[1][0]", "As[1][0]", "Bs[1][1]"]
    assert found[found.index("|") + 1] == "|"
    for name in {one for one in found if one.startswith(("A", "B"))}:
        places = [number for number, one in enumerate(found) if one == name and f"read {name}" in found[:number]]
        if places:
            last = max(number for number in range(places[0]) if found[number] == f"read {name}")
            assert found[last:places[0]].count("|") == (2 if name == "Bs[0][0]" else 4), name


def test_ping_pong_waits_for_nothing_between_matrix_instructions() -> None:
    """Barriers end stages; the last step's have none left, and the priority of a memory stage ends the matrix stage before it."""
    items = build(Form("ping-pong", 256, count=3)).program.instructions
    products = [number for number, item in enumerate(items) if item.name == "v_mfma_f32_16x16x32_bf16"]
    stages = 0
    for ends, group in itertools.groupby(items[:products[-1] + 1], lambda item: item.text in ("s_barrier", "s_setprio 1")):
        names = [one.name for one in group]
        if not ends and "v_mfma_f32_16x16x32_bf16" in names:
            stages += 1
            assert not any(re.match("s_waitcnt|s_nop|ds_|buffer_", name) for name in names), names
    assert stages == 12


def test_lint_has_nothing_against_masked_steps_in_ping_pong() -> None:
    found = [one for one in lint_program(build(Form("ping-pong", masked=True, first=True)).program) if one.severity != "note"]
    assert not found, found[:3]
