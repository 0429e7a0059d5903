"""`python -m tests.random_lds_steps [CASES] [FIRST]`: random steps over LDS, with waves out of phase, against a product written out.

A case draws a product of small whole numbers: parts of A and B in LDS, each with its iterations ahead and its buffers, and the stages in
which parts are filled, read and multiplied. Eight waves run it half and half a stage apart, or together; four run it interleaved, where
that schedule finds room. Workgroup x runs x steps, 0 to 9, in three orders of waves. Besides, the kernel is built with a buffer that is
filled again in the stage which reads it: where waves are staged, that must be refused.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np

from asmgen.author.builders.tilebuilder import TileBuilder
from asmgen.author.contract.contract import ContractArgument, Formula, KernelContract
from asmgen.author.emit.kernel import Kernel
from asmgen.author.epilogue.stores import Corner, store
from asmgen.author.ops.arithmetic import mma, zero
from asmgen.author.ops.movement import fill, read
from asmgen.author.schedule.schedules import PingPong, Schedule
from asmgen.author.schedule.stagescheduler import PlacedPingPong
from asmgen.author.schedule.stepscheduler import Modulo
from asmgen.author.step.iterations import PipelineError, StepIndex
from asmgen.author.tiles.swizzles import DmaFill, FragmentRead
from asmgen.checks.lint.programlint import lint_program
from asmgen.emulator.scheduling.run import Options
from asmgen.isa.errors import AsmgenError
from tests.emulator_launch import launch

MOST, DEPTH, HIGH, WIDE = 9, 64, 16, 32
"""Steps; columns of a step; rows and columns of a wave's part of a product."""
SCHEDULES: dict[str, tuple[Schedule, int, int]] = {
    "ping-pong": (PingPong(), 4, 2), "placed": (PlacedPingPong(), 4, 2), "in phase": (PingPong(stagger=0), 4, 2),
    "interleave": (Modulo(), 2, 2)}
"""By name: the schedule, and the grid of waves."""


@dataclass(frozen=True)
class Part:
    """A part of A or B: read in memory stage `read` for iteration t + `early` (of B alone, so that a product has an iteration), filled in
    stage `fill` for t + `ahead`, with so many buffers."""

    read: int
    early: int
    fill: int
    ahead: int
    buffers: int


@dataclass(frozen=True)
class LdsStep:
    """A drawn step: pairs of a memory and a matrix stage, parts of A and of B, and the matrix stage of each product."""

    seed: int
    schedule: str
    pairs: int
    a: tuple[Part, ...]
    b: tuple[Part, ...]
    products: dict[tuple[int, int], int]

def drawn(seed: int) -> LdsStep:
    """The step of a seed. Each matrix stage has a product. From a fill to the reads of its data, and from these to the next fill of their
    buffer, passes a pair of stages, and so two barriers."""
    pick = random.Random(seed)
    rows, columns = pick.randint(1, 2), pick.randint(1, 2)
    stages = [pick.randrange(4) for _ in range(rows * columns)]
    used = sorted(set(stages))
    pairs = len(used)
    products = {(i, j): used.index(stages[i * columns + j]) for i in range(rows) for j in range(columns)}

    def part(used: Sequence[int], may_lead: bool = False) -> Part:
        early = int(may_lead and max(used) < pairs - 1 and pick.random() < 0.5)
        reads = pick.randint(max(used) + 1, pairs - 1) if early else pick.randint(0, min(used))
        fills, ahead = pick.randrange(pairs), early + pick.randint(0, 2)
        while (ahead - early) * pairs + reads - fills < 1:
            ahead += 1
        buffers = 1
        while (buffers - ahead + early) * pairs + fills - reads < 1:
            buffers += 1
        return Part(reads, early, fills, ahead, buffers + (pick.random() < 0.2))

    chosen = list(SCHEDULES)[seed % len(SCHEDULES)]
    return LdsStep(seed, chosen, pairs, tuple(part([products[i, j] for j in range(columns)]) for i in range(rows)),
                   tuple(part([products[i, j] for i in range(rows)], True) for j in range(columns)), products)


def spoiled(step: LdsStep) -> LdsStep | None:
    """The step with a part that is filled in the stage which reads the same buffer, behind the read; None where no part can be."""
    for number, part in enumerate(step.a):
        if part.ahead > part.early:
            worse = replace(part, fill=part.read, buffers=part.ahead - part.early)
            return replace(step, a=(*step.a[:number], worse, *step.a[number + 1:]))
    return None


def build(drawn: LdsStep) -> Kernel:
    """Workgroup x runs x steps and stores its product as tile x of d. Raises AsmgenError for what the schedule refuses."""
    schedule, down, across = SCHEDULES[drawn.schedule]
    arguments = tuple([ContractArgument(name, "pointer", "") for name in "abd"]
                      + [ContractArgument(name, "u32", "") for name in ("m", "n", "k", "lda", "ldd", "rows")])
    contract = KernelContract("drawn", "drawn", ("gfx950",), (), arguments, (64 * down * across, 1, 1), Formula("one", lambda _: (1, 1, 1)))
    k = TileBuilder(contract, "gfx950", {}, waves=down * across // 4, workgroup_ids="xyz")
    M = k.matrix_shape("f32_16x16x32_bf16")
    C = k.tile("C", HIGH, WIDE, M.d.T, grid=(len(drawn.a), len(drawn.b)))
    A = [k.tile(f"A{i}", HIGH, DEPTH, M.a) for i in range(len(drawn.a))]
    B = [k.tile(f"B{j}", WIDE, DEPTH, M.b) for j in range(len(drawn.b))]
    count, group, row, none = (k.registers.sgprs(1, name) for name in ("count", "group", "row", "no_row"))
    tall, broad = HIGH * down, WIDE * across  # rows and columns of a part
    As = [k.shared(f"As{i}", "bf16", tall, DEPTH, part.buffers, (), (FragmentRead(M.a), DmaFill())) for i, part in enumerate(drawn.a)]
    Bs = [k.shared(f"Bs{j}", "bf16", broad, DEPTH, part.buffers, (), (FragmentRead(M.b), DmaFill())) for j, part in enumerate(drawn.b)]
    wm, wn = k.wave_grid(down, across)
    k.s_lshr_b32(group, k.wave.register, 2)
    k.s_mov_b32(none, 0)
    k.s_mov_b32(count, k.ids["x"])
    a = k.matrix("a", "bf16", "m", "k", "lda").rows(none, len(A) * tall).parts(len(A))
    b = k.matrix("b", "bf16", "n", "k", "lda").rows(none, len(B) * broad).parts(len(B))
    zero(k, *C)
    memory, matrix = k.streams("memory", "matrix")

    def step(t: StepIndex) -> None:
        for pair in range(drawn.pairs):
            with k.stage(), memory:
                for tiles, cells, parts, wave in ((A, As, drawn.a, wm), (B, Bs, drawn.b, wn)):
                    for number, part in enumerate(parts):
                        if part.read == pair:
                            read(k, tiles[number], cells[number][t + part.early].part(wave))
                for cells, sources, parts in ((As, a, drawn.a), (Bs, b, drawn.b)):
                    for number, part in enumerate(parts):
                        if part.fill == pair:
                            fill(k, cells[number][t + part.ahead], sources[number].k(t + part.ahead))
            with k.stage(), matrix:
                for (i, j), at in drawn.products.items():
                    if at == pair:
                        mma(k, C[i, j], A[i], B[j])

    end = k.fresh("no_steps")
    k.s_cmp_eq_u32(count, 0)
    k.s_cbranch_scc1(end)
    k.pipeline(step, count, schedule, group if schedule.stagger else None)
    k.label(end)
    k.s_mul_i32(row, k.ids["x"], len(A) * tall)
    out = k.matrix("d", "f32", "rows", "n", "ldd").rows(row, len(A) * tall)
    store(k, out, none, [Corner(C[i, j], i * tall, j * broad) for i in range(len(A)) for j in range(len(B))], wm, wn, len(B) * broad)
    k.s_endpgm()
    return k.finish()


def refused(drawn: LdsStep) -> str:
    """What the build or lint says against a step, or an empty text."""
    try:
        kernel = build(drawn)
    except AsmgenError as error:
        return str(error)
    return next(iter(_errors(kernel)), "")


def _errors(kernel: Kernel) -> list[str]:
    return [finding.message for finding in lint_program(kernel.program, "drawn.s", notes=False, warnings=False)]


def compare(drawn: LdsStep, kernel: Kernel, orders: Sequence[str]) -> str:
    """Launches of all counts against the product by hand; what differs, or an empty text."""
    _, down, across = SCHEDULES[drawn.schedule]
    m, n, k = len(drawn.a) * HIGH * down, len(drawn.b) * WIDE * across, DEPTH * MOST
    pick = np.random.default_rng(drawn.seed)
    a, b = (pick.integers(-4, 5, (rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n))
    d = np.full((MOST + 1, m, n), 7.0, np.float32)
    for order in orders:
        done = launch("gfx950", kernel.program, (MOST + 1, 1, 1), (64 * down * across, 1, 1), [a.view(np.uint16), b.view(np.uint16), d],
                      [m, n, k, k, n, m * (MOST + 1)], kernel.resources.lds_bytes, vgprs=512, options=Options(True, order))
        if done.findings:
            return f"case {drawn.seed}, {order}: {done.findings[0].sentence()}"
        for count in range(MOST + 1):
            left, right = (one[:, :DEPTH * count].astype(np.float32) for one in (a, b))
            if not np.array_equal(done.buffers[2][count], left @ right.T):
                return f"case {drawn.seed}, {order}: {count} steps give another product"
    return ""


def check(seed: int) -> str:
    """Runs a case; what is wrong, or an empty text."""
    step = drawn(seed)
    worse = spoiled(step)
    if worse is not None and worse.schedule != "interleave" and not refused(worse):
        return f"case {seed}: a buffer is filled in the stage that reads it, and nothing refuses that: {worse}"
    try:
        kernel = build(step)
    except PipelineError as error:
        if step.schedule != "interleave":
            return f"case {seed}: {error}"
        step = replace(step, schedule="in phase")  # the step is too short for that schedule
        kernel = build(step)
    if errors := _errors(kernel):
        return f"case {seed}: {errors[0]}"
    return compare(step, kernel, ("lockstep", "serial", f"random:{seed}"))


def main(arguments: Sequence[str]) -> int:
    """Runs the cases; status 1 if one is wrong."""
    cases, first = (int(arguments[0]) if arguments else 200), int(arguments[1]) if len(arguments) > 1 else 0
    wrong = 0
    for done, seed in enumerate(range(first, first + cases), 1):
        if text := check(seed):
            wrong += 1
            print(text, flush=True)
        if done % 20 == 0:
            print(f"{done} of {cases} cases, {wrong} wrong", flush=True)
    print(f"{cases - wrong} of {cases} random steps over LDS give the product, and refuse what fills too early")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
