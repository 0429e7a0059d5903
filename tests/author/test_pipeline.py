"""Pipelines: prologue, unrolled loop, rest and tails of one step give what the plain loop gives, for every count."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.author.loop.pipeline import pipeline
from asmgen.author.loop.stepunits import Shape
from asmgen.author.schedule.schedules import Arrangement, InOrder, PingPong, Schedule
from asmgen.author.schedule.unitcosts import StepMachine
from asmgen.author.step.effects import Unit
from asmgen.author.step.iterations import PipelineError, StepIndex, operation
from asmgen.author.step.merge import MergeError
from asmgen.isa.registers import Reg, s, v
from asmgen.program.program import Instruction, Program
from asmgen.regalloc.plan import RegisterPlan
from tests.emulator_launch import launch, load_pointers, store_by_item


def add_rarely(k: Builder, fifth: Reg, acc: Reg) -> None:
    """A block that adds 7 every fifth time."""
    with k.block("rare"):
        skip = k.fresh("skip")
        k.s_add_u32(fifth, fifth, 1)
        k.s_cmp_lg_u32(fifth, 5)
        k.s_cbranch_scc1(skip)
        k.v_add_u32(acc, 7, acc)
        k.s_mov_b32(fifth, 0)
        k.label(skip)


class Toy:
    """acc = acc * 3 + x(i), x(i) = i + 1 loaded `ahead` steps early into register stages; the first step adds 100 where peeled.

    A rare branch in a block adds 7 in every fifth iteration.
    """

    def __init__(self, schedule: Schedule, count: int, ahead: int, stages: int, peel: int, known: bool, rare: bool = False) -> None:
        self.k = k = Builder("toy", "gfx950", plan := RegisterPlan("gfx950"))
        plan.pin("hardware", s[0:17])
        plan.pin("work_item", v[0:0])
        plan.pin("addresses", v[60:61])
        plan.pin("at", s[90:90])
        load_pointers(k, 1, 1)
        self.x = [plan.vgprs(1, f"x{stage}") for stage in range(stages)]
        self.acc, self.next, self.fifth = plan.vgprs(1, "acc"), plan.vgprs(1, "next"), plan.sgprs(1, "fifth")
        self.ahead, self.stages, self.rare, self.peel = ahead, stages, rare, peel
        k.v_mov_b32(self.acc, 0)
        k.v_mov_b32(self.next, 0)
        k.s_mov_b32(self.fifth, 0)
        self.memory, self.vector = k.streams("memory", "vector")
        self.steps = 0
        self.shape: Shape = pipeline(k, self.step, count if known else s[10:10], schedule)
        store_by_item(k, self.acc.index, 64)
        k.s_endpgm()

    def step(self, t: StepIndex) -> None:
        k = self.k
        with k.stage(), self.memory, operation(k, "load", [t + self.ahead]):
            k.v_add_u32(self.next, 1, self.next)
            k.v_mov_b32(self.x[(t + self.ahead).buffer(self.stages)], self.next)
        with k.stage(), self.vector, operation(k, "use", [t]):
            k.v_mul_lo_u32(self.acc, self.acc, 3)
            k.v_add_u32(self.acc, self.acc, self.x[t.buffer(self.stages)])
            if self.peel:
                with t.first:
                    k.v_add_u32(self.acc, 100, self.acc)
        if self.rare:
            with k.stage(), self.vector, operation(k, "rare", [t]):
                add_rarely(k, self.fifth, self.acc)

    def expected(self, count: int) -> int:
        acc = 0
        for number in range(count):
            acc = acc * 3 + number + 1
            acc += 100 if self.peel and number == 0 else 0
            acc += 7 if self.rare and number % 5 == 4 else 0
        return acc & 0xFFFFFFFF


def result(program: Program, count: int) -> int:
    done = launch("gfx950", program, buffers=[np.zeros(64, np.uint32)], values=[count])
    assert not done.findings, done.findings
    values = set(done.buffers[0].tolist())
    assert len(values) == 1
    return int(values.pop())


@pytest.mark.parametrize(("ahead", "stages", "peel", "rare"), [
    (0, 1, 0, False), (1, 2, 0, False), (1, 2, 1, False), (2, 3, 0, True), (1, 3, 1, True), (3, 4, 0, False), (2, 4, 1, False)])
def test_every_count_gives_what_the_plain_loop_gives(ahead: int, stages: int, peel: int, rare: bool) -> None:
    toy = Toy(InOrder(), 0, ahead, stages, peel, known=False, rare=rare)
    assert (toy.shape.ahead, toy.shape.unroll) == (ahead, stages)
    program = toy.k.program()
    for count in range(1, 4 * stages + ahead + 2):
        assert result(program, count) == toy.expected(count), count


class Line(Toy):
    """The same from one stage: x waits in one register, and before that in another."""

    def step(self, t: StepIndex) -> None:
        k = self.k
        with k.stage(), self.vector, operation(k, "use", [t]):
            k.v_mul_lo_u32(self.acc, self.acc, 3)
            k.v_add_u32(self.acc, self.acc, self.x[0])
        with k.stage(), self.vector, operation(k, "copy", [t + 1]):
            k.v_mov_b32(self.x[0], self.next)
        with k.stage(), self.memory, operation(k, "load", [t + 2]):
            k.v_add_u32(self.next, 1, self.next)


def test_a_loop_that_is_not_unrolled_ends_before_the_paths_of_short_counts() -> None:
    line = Line(InOrder(), 0, 2, 1, 0, known=False)
    assert (line.shape.ahead, line.shape.unroll) == (2, 1)
    for count in range(1, 7):
        assert result(line.k.program(), count) == line.expected(count), count


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 9, 16])
@pytest.mark.parametrize("peel", [0, 1])
def test_a_known_count_needs_no_register_and_gives_the_same(count: int, peel: int) -> None:
    toy = Toy(InOrder(), count, 2, 3, peel, known=True)
    assert result(toy.k.program(), 0) == toy.expected(count)


def test_known_counts_that_are_short_have_no_loop() -> None:
    names = [item.name for item in Toy(InOrder(), 4, 1, 2, 0, known=True).k.program().instructions]
    assert not any(name.startswith("s_cbranch") for name in names)


class Early:
    """A schedule that lets the loads of the next step stand behind the first use of this one."""

    name, stagger = "early", 0

    def __init__(self, order: Callable[[list[int]], list[int]], lead: Callable[[list[int], Mapping[int, int]], set[int]]) -> None:
        self.order, self.lead = order, lead

    def arrange(self, phases: Sequence[Sequence[Unit]], offsets: Mapping[int, int], machine: StepMachine) -> Arrangement:
        numbers = [unit.tag.ordinal for unit in phases[0]]
        return Arrangement(tuple(self.order(numbers)), frozenset(self.lead(numbers, offsets)))


@pytest.mark.parametrize("known", [True, False])
def test_units_that_lead_run_one_copy_early(known: bool) -> None:
    """The loads of iteration t are emitted in step t and run in the copy before it, behind that copy's uses."""
    schedule = Early(lambda numbers: numbers[2:] + numbers[:2], lambda numbers, offsets: set(numbers[:2]))
    for count in range(1, 9):
        toy = Toy(schedule, count, 0, 2, 0, known)
        assert toy.shape.ahead == 1
        assert result(toy.k.program(), count) == toy.expected(count), count


def test_an_order_that_breaks_the_step_is_refused_over_the_seam_too() -> None:
    with pytest.raises(MergeError, match=r"the schedule early breaks the step: .* reads v1 from"):
        # One stage: the load of the next iteration would overwrite what this one still reads.
        Toy(Early(lambda numbers: numbers, lambda numbers, offsets: set(numbers[:2])), 3, 0, 1, 0, False)
    with pytest.raises(PipelineError, match="does not place each unit"):
        Toy(Early(lambda numbers: numbers[1:], lambda numbers, offsets: set()), 3, 0, 1, 0, False)


def test_the_mix_of_iterations_is_refused() -> None:
    k = Builder("k", "gfx950")

    def two(t: StepIndex) -> None:
        with operation(k, "write", [t, t + 1]):
            k.v_mov_b32(v[1], 1)

    def none(t: StepIndex) -> None:
        with operation(k, "add", reads=v[1].mask):
            k.v_mov_b32(v[1], 1)

    def raw(t: StepIndex) -> None:
        k.v_mov_b32(v[1], 1)

    def past(t: StepIndex) -> None:
        with k.at(t - 1):
            k.v_mov_b32(v[1], 1)

    for step, what in ((two, r"write names two iterations, t and t\+1"), (none, "add has no iteration"),
                       (raw, "stands in the step outside of any operation"), (past, "names an iteration before t")):
        with pytest.raises(PipelineError, match=what):
            pipeline(k, step, 3, InOrder())
    with pytest.raises(PipelineError, match="0 steps"):
        pipeline(k, raw, 0, InOrder())
    with pytest.raises(PipelineError, match="needs groups="):
        pipeline(k, raw, 2, PingPong())
    with pytest.raises(PipelineError, match="outside of a pipeline"), k.stage():
        pass


def test_an_operation_takes_the_iteration_of_what_it_reads() -> None:
    k = Builder("k", "gfx950")
    seen: list[int] = []

    def step(t: StepIndex) -> None:
        with operation(k, "load", [t + 1], writes=v[1].mask):
            k.v_mov_b32(v[1], 1)
        with operation(k, "square", reads=v[1].mask, writes=v[2].mask):
            k.v_mul_u32_u24(v[2], v[1], v[1])
        seen.append(k.copy.defined(v[2].mask) if k.copy else 99)

    shape = pipeline(k, step, 1, InOrder())
    assert set(seen) == {1} and shape.offsets == {0: 1, 1: 1}
    assert k.program().instructions[0].operations == ("load of t+1",)


def test_what_is_hoisted_stands_once_before_the_pipeline() -> None:
    k = Builder("k", "gfx950", RegisterPlan("gfx950"))
    made: dict[str, Reg] = {}

    def address() -> Reg:
        if "address" not in made:
            made["address"] = k.hoist(compute)
        return made["address"]

    def compute() -> Reg:
        assert k.registers is not None
        reg = k.registers.vgprs(1, "address")
        k.v_lshlrev_b32(reg, 4, reg)
        return reg

    def step(t: StepIndex) -> None:
        with k.at(t):
            k.v_mov_b32(address(), 0)

    k.s_nop(0)
    pipeline(k, step, 1, InOrder())
    names = [item.name for item in k.items if isinstance(item, Instruction)]
    assert names == ["s_nop", "v_lshlrev_b32", "v_mov_b32"]
