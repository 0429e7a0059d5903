"""Steps with operations under `t.masked`, `t.first` and `t.later`, over every count, give what a plain loop gives."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.author.loop.pipeline import pipeline
from asmgen.author.loop.stepunits import Shape
from asmgen.author.schedule.schedules import InOrder, Schedule
from asmgen.author.step.iterations import PipelineError, StepIndex, operation
from asmgen.isa.registers import Reg, s, v
from asmgen.program.program import Instruction
from asmgen.regalloc.plan import RegisterPlan
from tests.author.test_pipeline import Early, add_rarely
from tests.emulator_launch import launch, load_pointers, store_by_item

MOST = 7


class Toy:
    """acc = acc * 3 + x(i), and from iteration n0 on also (acc ^ 5) + 1000 i. x(i) = i + 1 comes `ahead` steps early, doubled from n0 on.

    `first`: iteration 0 adds 100, the others 10, `first_ahead` steps early. A block with a rare branch adds 7 in every fifth step.
    Workgroup (n0, n1) runs n0 + n1 steps, or `counts` that are given.
    """

    def __init__(self, schedule: Schedule, ahead: int, stages: int, first: int | None = None, rare: bool = False,
                 counts: tuple[int | None, int | None] = (None, None)) -> None:
        self.k = k = Builder("toy", "gfx950", plan := RegisterPlan("gfx950"))
        plan.pin("hardware", s[0:17])
        plan.pin("work_item", v[0:0])
        plan.pin("addresses", v[60:61])
        plan.pin("at", s[90:90])
        self.n0, self.total, self.border = plan.sgprs(1, "n0"), plan.sgprs(1, "total"), plan.sgprs(1, "border")
        load_pointers(k, 1, 0)
        k.s_mov_b32(self.border, s[2] if counts[0] is None else counts[0])
        k.s_mov_b32(self.n0, self.border)
        k.s_add_u32(self.total, self.border, s[3] if counts[1] is None else counts[1])
        self.x = [plan.vgprs(1, f"x{stage}") for stage in range(stages)]
        self.acc, self.next, self.fifth, self.factor = plan.vgprs(1, "acc"), plan.vgprs(1, "next"), plan.sgprs(1, "fifth"), plan.sgprs(
            1, "factor")
        self.ahead, self.stages, self.rare, self.first, self.counts = ahead, stages, rare, first, counts
        for register in (self.acc, self.next):
            k.v_mov_b32(register, 0)
        k.s_mov_b32(self.fifth, 0)
        self.memory, self.vector = k.streams("memory", "vector")
        self.skip = k.fresh("nothing_to_do")
        k.s_cmp_eq_u32(self.total, 0)
        k.s_cbranch_scc1(self.skip)
        known = None not in counts
        self.shape: Shape = pipeline(k, self.step, sum(counts) if known else self.total, schedule,  # type: ignore[arg-type]
                                     plain=self.n0 if counts[0] is None else counts[0])
        k.label(self.skip)
        k.s_mul_i32(s[2], s[2], MOST + 1)
        k.s_add_u32(s[2], s[2], s[3])
        store_by_item(k, self.acc.index, 64)
        k.s_endpgm()

    def factor_of(self, t: StepIndex, inside: int, outside: int) -> Reg:
        """An SGPR: one value from iteration n0 on, another one before."""
        k = self.k
        k.s_cmp_ge_u32(t.number, self.border)
        k.s_cselect_b32(self.factor, inside, outside)
        return self.factor

    def step(self, t: StepIndex) -> None:
        k, early = self.k, t + self.ahead
        x = self.x[early.buffer(self.stages)]
        with k.stage(), self.memory, operation(k, "load", [early]):
            k.v_add_u32(self.next, 1, self.next)
            k.v_mov_b32(x, self.next)
            with t.masked:
                k.v_mul_lo_u32(x, x, self.factor_of(early, 2, 1))
        if self.first is not None:
            with k.stage(), self.vector, operation(k, "start", [t + self.first]):
                with t.first:
                    k.v_add_u32(self.acc, 100, self.acc)
                with t.later:
                    k.v_add_u32(self.acc, 10, self.acc)
        with k.stage(), self.vector, operation(k, "use", [t]):
            k.v_mul_lo_u32(self.acc, self.acc, 3)
            k.v_add_u32(self.acc, self.acc, self.x[t.buffer(self.stages)])
            with t.masked:
                k.v_xor_b32(self.acc, self.factor_of(t, 5, 0), self.acc)
                k.s_mul_i32(self.factor, t.number, self.factor_of(t, 1000, 0))
                k.v_add_u32(self.acc, self.factor, self.acc)
        if self.rare:
            with k.stage(), self.vector, operation(k, "rare", [t]):
                add_rarely(k, self.fifth, self.acc)

    def expected(self, n0: int, n1: int) -> int:
        """Step by step, as the operations are emitted: those of `first` run ahead."""
        acc, count = 0, n0 + n1
        for step in range(-max(self.ahead, self.first or 0), count):
            if self.first is not None and 0 <= step + self.first < count:
                acc += 10 if step + self.first else 100
            if step >= 0:
                masked = step >= n0
                acc = acc * 3 + (step + 1) * (2 if masked else 1)
                acc = (acc ^ 5) + 1000 * step if masked else acc
                acc += 7 if self.rare and step % 5 == 4 else 0
            acc &= 0xFFFFFFFF
        return acc

    def check(self) -> None:
        """All workgroups, or the one whose counts are built in."""
        done = launch("gfx950", self.k.program(), (MOST + 1, MOST + 1, 1), buffers=[np.zeros((MOST + 1, MOST + 1, 64), np.uint32)])
        assert not done.findings, done.findings
        for n0 in range(MOST + 1):
            for n1 in range(MOST + 1):
                used = [have if have is not None else asked for have, asked in zip(self.counts, (n0, n1), strict=True)]
                if sum(used):
                    assert set(done.buffers[0][n0, n1].tolist()) == {self.expected(*used)}, (n0, n1)


@pytest.mark.parametrize(("ahead", "stages", "first", "rare"), [
    (0, 1, None, False), (0, 1, 0, False), (1, 2, None, False), (1, 2, 0, True), (1, 2, 1, False), (2, 3, None, True), (1, 3, 0, True),
    (2, 4, 1, False), (3, 4, None, False), (2, 3, 2, True)])
def test_every_pair_of_counts(ahead: int, stages: int, first: int | None, rare: bool) -> None:
    toy = Toy(InOrder(), ahead, stages, first, rare)
    assert (toy.shape.ahead, toy.shape.unroll, toy.shape.peel, toy.shape.masked) == (ahead, stages, int(first == 0), ahead)
    toy.check()


@pytest.mark.parametrize("first", [None, 0])
@pytest.mark.parametrize("counts", [(0, None), (1, None), (6, None), (None, 0), (None, 2), (None, 7), (0, 3), (1, 1), (4, 0), (7, 7)])
def test_counts_that_are_known(counts: tuple[int | None, int | None], first: int | None) -> None:
    Toy(InOrder(), 1, 2, first, counts=counts).check()


def test_units_that_lead_run_a_copy_early_over_the_border_too() -> None:
    """The load of iteration t is emitted in step t and runs in the copy before it; at the border it may be masked already."""
    def last(numbers: list[int]) -> list[int]:
        return numbers[6:] + numbers[:6]

    def loads(numbers: list[int], offsets: Mapping[int, int]) -> set[int]:
        return set(numbers[:6])

    toy = Toy(Early(last, loads), 0, 2)
    assert (toy.shape.ahead, toy.shape.masked) == (1, 1)
    toy.check()


def test_each_loop_stands_once_and_has_no_branch_inside() -> None:
    items = Toy(InOrder(), 1, 2).k.program().items
    names = [item.name for item in items]
    loops = []
    for number, item in enumerate(items):
        if isinstance(item, Instruction) and item.is_branch and item.target in names[:number]:
            loops.append([one for one in items[names.index(item.target):number] if isinstance(one, Instruction)])
    assert len(loops) == 2
    assert not any(one.is_branch for loop in loops for one in loop)
    assert [sum(one.name == "v_xor_b32" for one in loop) for loop in loops] == [0, 2]


def test_conditions_are_no_truth_values_and_do_not_nest() -> None:
    k = Builder("k", "gfx950")

    def asks(t: StepIndex) -> None:
        if t.first:
            k.v_mov_b32(v[1], 0)

    def nests(t: StepIndex) -> None:
        with t.first, t.masked, k.at(t):
            k.v_mov_b32(v[1], 0)

    for step, sentence in ((asks, r"`t.first` is no truth value: .* Write `with t.first:`"),
                           (nests, "`with t.masked:` stands inside of `with t.first:`")):
        with pytest.raises(PipelineError, match=rf"test_masked_steps.py:\d+: {sentence}"):
            pipeline(k, step, 3, InOrder())


def test_plain_wants_masked_operations_and_a_number_of_steps() -> None:
    k = Builder("k", "gfx950", RegisterPlan("gfx950"))

    def step(t: StepIndex) -> None:
        with k.at(t):
            k.s_nop(0)

    with pytest.raises(PipelineError, match="the step has none; write them within `with t.masked:`"):
        pipeline(k, step, 3, InOrder(), plain=2)
    with pytest.raises(PipelineError, match="plain=-1: 0 or more"):
        pipeline(k, step, 3, InOrder(), plain=-1)


def test_registers_of_iterations_ahead_are_refused_after_the_pipeline() -> None:
    """What a prologue reads for iterations that a short count does not have is nobody's: a read of it after the loop is refused."""
    for after in (False, True):
        k = Builder("k", "gfx950", plan := RegisterPlan("gfx950"))
        plan.pin("hardware", s[0:17])
        total, x, acc = plan.sgprs(1, "total"), plan.vgprs(3, "x"), plan.vgprs(1, "acc")

        def step(t: StepIndex, k: Builder = k, x: Reg = x, acc: Reg = acc) -> None:
            with k.stage(), operation(k, "make", [t + 2]):
                k.v_mov_b32(x[(t + 2).buffer(3)], 7)
            with k.stage(), operation(k, "use", [t]):
                k.v_add_u32(acc, x[t.buffer(3)], acc)

        k.v_mov_b32(acc, 0)
        k.s_mov_b32(total, s[2])
        pipeline(k, step, total, InOrder())
        k.v_add_u32(acc, x[2] if after else x[1], acc)  # x[1] is that of the last iteration, for every count
        k.s_endpgm()
        if not after:
            k.place_cold_blocks()
            continue
        with pytest.raises(PipelineError, match=r"v_add_u32 v3, v2, v3 reads v2 after the pipeline, .* belongs to no iteration"):
            k.place_cold_blocks()
