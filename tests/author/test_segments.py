"""Pipelines of two segments: two loops, one after the other, with data in flight over the seam, give what plain loops give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.author.loop.pipeline import pipeline
from asmgen.author.loop.stepunits import Shape
from asmgen.author.schedule.schedules import Arrangement, InOrder, Schedule
from asmgen.author.step.effects import Unit
from asmgen.author.step.iterations import PipelineError, StepIndex, operation
from asmgen.isa.registers import s, v, vcc
from asmgen.program.program import Instruction
from asmgen.regalloc.plan import RegisterPlan
from tests.author.test_pipeline import Early
from tests.emulator_launch import launch, load_pointers, store_by_item

MOST = 7


class Toy:
    """Plain steps: acc = acc * 3 + x(i). Masked ones: acc = ((acc * 3 + x(i)) ^ 5) + 1000 i. x(i) = i + 1 comes `ahead` steps early.

    Masked loads take x(i) times 2; the first step adds 100 where peeled; a block with a rare branch adds 7 in every fifth step. Workgroup
    (n0, n1) runs so many steps of each, or `counts` that are given.
    """

    def __init__(self, schedule: Schedule, ahead: int, stages: int, peel: int = 0, rare: bool = False,
                 counts: tuple[int | None, int | None] = (None, None)) -> None:
        self.k = k = Builder("toy", "gfx950", plan := RegisterPlan("gfx950"))
        plan.pin("hardware", s[0:17])
        plan.pin("work_item", v[0:0])
        plan.pin("addresses", v[60:61])
        plan.pin("at", s[90:90])
        self.n0, self.n1 = plan.sgprs(1, "n0"), plan.sgprs(1, "n1")
        load_pointers(k, 1, 0)
        k.s_mov_b32(self.n0, s[2])
        k.s_mov_b32(self.n1, s[3])
        self.x = [plan.vgprs(1, f"x{stage}") for stage in range(stages)]
        self.acc, self.next, self.fifth, self.number = (plan.vgprs(1, "acc"), plan.vgprs(1, "next"), plan.sgprs(1, "fifth"),
                                                        plan.sgprs(1, "number"))
        self.ahead, self.stages, self.rare, self.peel, self.counts = ahead, stages, rare, peel, counts
        self.given = [self.n0 if counts[0] is None else counts[0], self.n1 if counts[1] is None else counts[1]]
        for register in (self.acc, self.next):
            k.v_mov_b32(register, 0)
        for register in (self.fifth, self.number):
            k.s_mov_b32(register, 0)
        self.memory, self.vector = k.streams("memory", "vector")
        self.skip = k.fresh("nothing_to_do")
        k.s_add_u32(s[12], self.n0, self.n1)
        k.s_cmp_eq_u32(s[12], 0)
        k.s_cbranch_scc1(self.skip)
        segments = [(lambda t: self.step(t, False), self.given[0]), (lambda t: self.step(t, True), self.given[1])]
        self.shape: Shape = pipeline(k, segments, None, schedule, peel=peel)
        k.label(self.skip)
        k.s_mul_i32(s[2], s[2], MOST + 1)
        k.s_add_u32(s[2], s[2], s[3])
        store_by_item(k, self.acc.index, 64)
        k.s_endpgm()

    def step(self, t: StepIndex, masked: bool) -> None:
        k = self.k
        with k.stage(), self.memory, operation(k, "load", [t + self.ahead]):
            k.v_add_u32(self.next, 1, self.next)
            k.v_mov_b32(self.x[(t + self.ahead).buffer(self.stages)], self.next)
            if masked:
                k.v_lshlrev_b32(self.x[(t + self.ahead).buffer(self.stages)], 1, self.x[(t + self.ahead).buffer(self.stages)])
        with k.stage(), self.vector, operation(k, "use", [t]):
            k.v_mul_lo_u32(self.acc, self.acc, 3)
            k.v_add_u32(self.acc, self.acc, self.x[t.buffer(self.stages)])
            if masked:
                k.v_xor_b32(self.acc, 5, self.acc)
                k.v_add_u32(self.acc, self.number, self.acc)
            if t.first:
                k.v_add_u32(self.acc, 100, self.acc)
            k.s_add_u32(self.number, self.number, 1000)
        if self.rare:
            with k.stage(), self.vector, operation(k, "rare", [t]), k.block("rare"):
                skip = k.fresh("skip")
                k.s_add_u32(self.fifth, self.fifth, 1)
                k.s_cmp_lg_u32(self.fifth, 5)
                k.s_cbranch_scc1(skip)
                k.v_add_u32(self.acc, 7, self.acc)
                k.s_mov_b32(self.fifth, 0)
                k.label(skip)

    def expected(self, n0: int, n1: int) -> int:
        acc = 0
        for number in range(n0 + n1):
            masked = number >= n0
            acc = acc * 3 + (number + 1) * (2 if masked else 1)
            acc = (acc ^ 5) + 1000 * number if masked else acc
            acc += 100 if self.peel and number == 0 else 0
            acc += 7 if self.rare and number % 5 == 4 else 0
        return acc & 0xFFFFFFFF

    def check(self) -> None:
        """All workgroups, or the one whose counts are built in."""
        done = launch("gfx950", self.k.program(), (MOST + 1, MOST + 1, 1), buffers=[np.zeros((MOST + 1, MOST + 1, 64), np.uint32)])
        assert not done.findings, done.findings
        for n0 in range(MOST + 1):
            for n1 in range(MOST + 1):
                if n0 + n1:
                    used = [have if have is not None else asked for have, asked in zip(self.counts, (n0, n1), strict=True)]
                    if sum(used):
                        assert set(done.buffers[0][n0, n1].tolist()) == {self.expected(*used)}, (n0, n1)


@pytest.mark.parametrize(("ahead", "stages", "peel", "rare"), [
    (0, 1, 0, False), (0, 1, 1, False),
    (1, 2, 0, False), (1, 2, 1, True), (2, 3, 0, True), (1, 3, 1, True), (2, 4, 1, False), (3, 4, 0, False)])
def test_every_pair_of_counts(ahead: int, stages: int, peel: int, rare: bool) -> None:
    toy = Toy(InOrder(), ahead, stages, peel, rare)
    assert (toy.shape.ahead, toy.shape.unroll) == (ahead, stages)
    toy.check()


@pytest.mark.parametrize("peel", [0, 1])
@pytest.mark.parametrize("counts", [(0, None), (1, None), (6, None), (None, 0), (None, 2), (None, 7), (0, 3), (1, 1), (4, 0), (7, 7)])
def test_counts_that_are_known(counts: tuple[int | None, int | None], peel: int) -> None:
    Toy(InOrder(), 1, 2, peel, counts=counts).check()


@pytest.mark.parametrize("peel", [0, 1])
def test_units_that_lead_run_a_copy_early_over_the_seam_too(peel: int) -> None:
    """The load of iteration t is emitted in step t and runs in the copy before it; at the seam it is the second segment's."""
    def last(numbers: list[int]) -> list[int]:
        return numbers[3:] + numbers[:3]

    def loads(numbers: list[int], offsets: Mapping[int, int]) -> set[int]:
        return set(numbers[:3])

    toy = Toy(Early(last, loads), 0, 2, peel)
    assert toy.shape.ahead == 1
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


class Seen:
    """Emission order, and what was arranged."""

    name, stagger = "seen", 0

    def __init__(self) -> None:
        self.entries: list[str] = []

    def arrange(self, phases: Sequence[Sequence[Unit]], offsets: Mapping[int, int]) -> Arrangement:
        self.entries = [f"{unit.first.text} {offsets[unit.tag.ordinal]}" for unit in phases[0]]
        return Arrangement(tuple(unit.tag.ordinal for unit in phases[0]))


def arranged(*steps: Callable[[Builder, StepIndex], object]) -> list[str]:
    k, seen = Builder("k", "gfx950"), Seen()
    pipeline(k, [(lambda t, step=step: step(k, t), 2) for step in steps], None, seen)  # type: ignore[misc]
    return seen.entries


def test_variants_share_what_they_have_in_common() -> None:
    def plain(k: Builder, t: StepIndex) -> None:
        with k.at(t + 1):
            k.v_mov_b32(v[1], 1)
            k.v_mul_f32(v[2], 1.0, v[1])
        with k.at(t):
            k.v_add_f32(v[3], v[2], v[3])

    def masked(k: Builder, t: StepIndex) -> None:
        with k.at(t + 1):
            k.v_mov_b32(v[1], 2)  # another source: the same entry
            k.v_max_f32(v[2], 1.0, v[1])  # another instruction: an entry of its own, in its iteration's place
        with k.at(t):
            k.v_cndmask_b32(v[2], 0, v[2], vcc)
            k.v_add_f32(v[3], v[2], v[3])

    assert arranged(plain, masked) == ["v_mov_b32 v1, 1 1", "v_mul_f32 v2, 1.0, v1 1", "v_max_f32 v2, 1.0, v1 1",
                                       "v_cndmask_b32 v2, 0, v2, vcc 0", "v_add_f32 v3, v2, v3 0"]


def test_segments_that_do_not_fit_are_refused() -> None:
    k = Builder("k", "gfx950")

    def plain(t: StepIndex) -> None:
        with k.stage(), k.at(t):
            k.v_mov_b32(v[1], 1)

    def longer(t: StepIndex) -> None:
        plain(t)
        plain(t)

    with pytest.raises(PipelineError, match="have 1 and 2 stages; all of them have the same"):
        pipeline(k, [(plain, 3), (longer, s[4:4])], None, InOrder())
    with pytest.raises(PipelineError, match="of 0 and 0 steps"):
        pipeline(k, [(plain, 0), (plain, 0)], None, InOrder())
    with pytest.raises(PipelineError, match="one or two of them"):
        pipeline(k, [(plain, 1)] * 3, None, InOrder())
    with pytest.raises(PipelineError, match="wants its count"):
        pipeline(k, plain, None, InOrder())
