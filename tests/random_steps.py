"""`python -m tests.random_steps [CASES] [FIRST]`: random steps of a pipeline against the loop written out by hand, over every count.

A case draws operations: loads into registers with several buffers some iterations ahead, copies between them, sums, conditions, masks from
a border on, iteration numbers, rare cold blocks. A schedule draws an order that the dependencies allow, and lets loads run a copy early
where merge allows that. Workgroup (x, y) runs x plain and y masked iterations, 0 to 9 each and not both 0; one more launch has no masks.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from asmgen.author.emit.builder import Builder
from asmgen.author.loop.pipeline import pipeline
from asmgen.author.schedule.schedules import Arrangement
from asmgen.author.schedule.stepscheduler import Modulo
from asmgen.author.schedule.unitcosts import StepMachine
from asmgen.author.step.effects import Unit, depends
from asmgen.author.step.iterations import StepIndex, operation
from asmgen.author.step.merge import MergeError
from asmgen.emulator.scheduling.run import Options
from asmgen.isa.registers import Reg, s, v
from asmgen.program.program import Program
from asmgen.regalloc.plan import RegisterPlan
from tests.emulator_launch import launch, load_pointers, store_by_item

MOST = 9
SUMS = 2  # accumulators of the matrix units
WORD = 0xFFFFFFFF


@dataclass(frozen=True)
class Operation:
    """`kind`: load (value[i] = next += constant), copy (value[i] = source[i] ^ constant), sum (total = total * 3 + source[i]) or rare (a
    cold block: every `constant`-th time total += source[i]). It belongs to iteration t + ahead, under a condition or "".

    Under `masked` a copy or sum uses the constant only from the border on, and a sum adds the iteration's number there.
    """

    kind: str
    ahead: int
    target: int
    source: int
    constant: int
    condition: str = ""


@dataclass
class Drawn:
    """A drawn step: its operations, and the buffers of each value."""

    seed: int
    operations: list[Operation] = field(default_factory=list)
    stages: list[int] = field(default_factory=list)
    totals: int = 2

    @property
    def masked(self) -> bool:
        """Whether an operation is under `masked`."""
        return any(one.condition == "masked" for one in self.operations)


def drawn(seed: int) -> Drawn:
    """The step of a seed."""
    pick = random.Random(seed)
    found = Drawn(seed)
    made: list[int] = []  # by value: the iteration ahead at which it is made
    for number in range(pick.randint(1, 3)):
        ahead = pick.randint(0, 3)
        found.operations.append(Operation("load", ahead, number, 0, pick.randint(1, 99)))
        made.append(ahead)
    for _ in range(pick.randint(1, 6)):
        source = pick.randrange(len(made))
        ahead = pick.randint(0, made[source])
        kind = pick.choice(("copy", "sum", "sum", "rare"))
        condition = pick.choice({"sum": ("", "", "first", "later", "masked"), "copy": ("", "masked"), "rare": ("",)}[kind])
        if kind == "copy":
            found.operations.append(Operation("copy", ahead, len(made), source, pick.randint(1, 99), condition))
            made.append(ahead)
        else:
            found.operations.append(Operation(kind, ahead, pick.randrange(found.totals), source, pick.randint(2, 9), condition))
    found.operations.append(Operation("sum", 0, 0, pick.randrange(len(made)), 0))
    # A value has buffers from the iteration that makes it to the last one that uses it.
    for value, ahead in enumerate(made):
        used = [one.ahead for one in found.operations if one.kind != "load" and one.source == value]
        found.stages.append(ahead - min(used, default=ahead) + pick.randint(1, 2))
    return found


def expected(step: Drawn, plain: int, count: int) -> list[int]:
    """The totals of the loop written out: iteration by iteration as the operations are emitted."""
    values: dict[tuple[int, int], int] = {}
    following, totals, times = [0] * len(step.stages), [0] * step.totals, [0] * len(step.operations)
    for t in range(-max(one.ahead for one in step.operations), count):
        for number, one in enumerate(step.operations):
            i = t + one.ahead
            if not 0 <= i < count or one.condition == "first" and i or one.condition == "later" and not i:
                continue
            inside = one.condition != "masked" or i >= plain
            if one.kind == "load":
                following[one.target] += one.constant
                values[one.target, i] = following[one.target]
            elif one.kind == "copy":
                values[one.target, i] = values[one.source, i] ^ (one.constant if inside else 0)
            elif one.kind == "sum" and one.condition != "masked":
                totals[one.target] = totals[one.target] * 3 + values[one.source, i] + one.constant & WORD
            elif one.kind == "sum":
                totals[one.target] = totals[one.target] + (i + one.constant if inside else 0) & WORD
            else:
                times[number] += 1
                if times[number] % one.constant == 0:
                    totals[one.target] = totals[one.target] + values[one.source, i] & WORD
    return totals


def products(step: Drawn) -> int:
    """The matrix units of a step that the schedule modulo places; each adds 32 to its sum."""
    return -(-len(step.operations) // 2)


class Shuffled:
    """A random order that keeps what depends on each other in order; loads may belong to the next step."""

    name, stagger = "shuffled", 0

    def __init__(self, seed: int, leads: bool) -> None:
        self.seed, self.leads = seed, leads

    def arrange(self, phases: Sequence[Sequence[Unit]], offsets: Mapping[int, int], machine: StepMachine) -> Arrangement:
        """Units in a drawn order of which each phase allows every pair."""
        pick = random.Random(self.seed)
        count = len(phases[0])
        before = {later: {earlier for earlier in range(later) if any(depends(units[later], units[earlier]) for units in phases)}
                  for later in range(count)}
        lead: frozenset[int] = frozenset()
        order: list[int] = []
        left = set(range(count))
        while left:
            ready = sorted(number for number in left if not before[number] & left)
            order.append(pick.choice(ready[:pick.randint(1, 4)]))
            left.remove(order[-1])
        if self.leads:  # the first units of the order run at the end of the copy before
            size = pick.randint(1, max(1, count // 3))
            lead = frozenset(phases[0][number].tag.ordinal for number in order[:size])
            order = order[size:] + order[:size]
        return Arrangement(tuple(phases[0][number].tag.ordinal for number in order), lead)


class Written:
    """The kernel of a drawn step: workgroup (x, y) runs x plain and y masked iterations, and stores its totals."""

    def __init__(self, step: Drawn, leads: bool, plain: bool = True, modulo: bool = False,
                 masked_end: int | None = None) -> None:
        self.drawn, self.modulo = step, modulo
        self.k = k = Builder("drawn", "gfx950", plan := RegisterPlan("gfx950"))
        plan.pin("hardware", s[0:17])
        plan.pin("work_item", v[0:0])
        plan.pin("addresses", v[60:61])
        plan.pin("at", s[90:90])
        self.border, count, unmasked, self.chosen = (plan.sgprs(1, name) for name in ("border", "count", "unmasked", "chosen"))
        self.values = [plan.vgprs(stages, f"value{number}") for number, stages in enumerate(step.stages)]
        self.following, self.totals = plan.vgprs(len(step.stages), "following"), plan.vgprs(step.totals, "totals")
        self.times = plan.sgprs(len(step.operations), "times")
        load_pointers(k, 1, 0)
        for register in (self.following, self.totals):
            for number in range(register.count):
                k.v_mov_b32(register[number], 0)
        for number in range(self.times.count):
            k.s_mov_b32(self.times[number], 0)
        k.s_mov_b32(self.border, s[2])
        k.s_mov_b32(unmasked, s[2])
        k.s_add_u32(count, s[2], s[3])
        k.s_cmp_eq_u32(count, 0)
        k.s_cbranch_scc1("nothing")
        self.only, self.matrix = k.streams("only", "matrix")
        if modulo:
            self.ones, self.sums = plan.vgprs(2, "ones", align=2), plan.vgprs(4 * SUMS, "sums", align=4)
            for number in range(self.sums.count):
                k.v_mov_b32(self.sums[number], 0)
            for number in range(2):
                k.v_mov_b32(self.ones[number], 0x01010101)
            k.s_nop(1)
        pipeline(k, self.step, count, Modulo() if modulo else Shuffled(step.seed, leads),
                 plain=unmasked if step.masked and plain else None, masked_end=masked_end)
        if modulo:  # what the matrix units lost or counted twice spoils a total
            k.s_nop(15)
            k.s_mul_i32(self.border, count, 32 * products(step))
            for number in range(SUMS):
                k.v_add_u32(self.totals[0], self.sums[4 * number], self.totals[0])
            k.v_subrev_u32(self.totals[0], self.border, self.totals[0])
        k.label("nothing")
        k.s_mul_i32(s[2], s[2], MOST + 1)
        k.s_add_u32(s[2], s[2], s[3])
        k.s_mul_i32(s[2], s[2], step.totals)
        for number in range(step.totals):
            store_by_item(k, self.totals[number].index, 64)
            k.s_add_u32(s[2], s[2], 1)
        k.s_endpgm()
        k.place_cold_blocks()

    def step(self, t: StepIndex) -> None:
        """The author's function."""
        for number, one in enumerate(self.drawn.operations):
            if self.modulo and number % 2 == 0:
                with self.k.stage(), self.matrix, operation(self.k, "product", [t]):
                    total = self.sums[4 * (number // 2 % SUMS):4 * (number // 2 % SUMS) + 3]
                    self.k.v_mfma_i32_16x16x32_i8(total, self.ones, self.ones, total)
            index = t + one.ahead
            with self.k.stage(), self.only, operation(self.k, one.kind, [index]):
                if one.kind == "copy" and one.condition:  # all iterations have the copy; what is masked changes it
                    self.k.v_mov_b32(self._buffer(one.target, index), self._buffer(one.source, index))
                if one.condition:
                    with {"first": t.first, "later": t.later, "masked": t.masked}[one.condition]:
                        self.emit(number, one, index)
                else:
                    self.emit(number, one, index)

    def emit(self, number: int, one: Operation, index: StepIndex) -> None:
        """One operation."""
        k, target = self.k, self.totals[one.target] if one.kind in ("sum", "rare") else self._buffer(one.target, index)
        if one.kind == "load":
            k.v_add_u32(self.following[one.target], one.constant, self.following[one.target])
            k.v_mov_b32(target, self.following[one.target])
            return
        source = self._buffer(one.source, index)
        if one.condition == "masked":
            k.s_cmp_ge_u32(index.number, self.border)
        if one.kind == "copy" and one.condition == "masked":
            k.s_cselect_b32(self.chosen, one.constant, 0)
            k.v_xor_b32(target, self.chosen, target)
        elif one.kind == "copy":
            k.v_xor_b32(target, one.constant, source)
        elif one.kind == "sum" and one.condition == "masked":
            k.s_cselect_b32(self.chosen, index.number, 0)
            k.v_add_u32(target, self.chosen, target)
            k.s_cmp_ge_u32(index.number, self.border)
            k.s_cselect_b32(self.chosen, one.constant, 0)
            k.v_add_u32(target, self.chosen, target)
        elif one.kind == "sum":
            k.v_mul_lo_u32(target, target, 3)
            k.v_add_u32(target, source, target)
            k.v_add_u32(target, one.constant, target)
        else:
            with k.block("rare", cold=True):
                skip = k.fresh("usual")
                k.s_add_u32(self.times[number], self.times[number], 1)
                k.s_cmp_lg_u32(self.times[number], one.constant)
                k.s_cbranch_scc1(skip)
                k.s_mov_b32(self.times[number], 0)
                k.v_add_u32(target, source, target)
                k.v_mov_b32(target, target)
                k.label(skip)

    def _buffer(self, value: int, index: StepIndex) -> Reg:
        return self.values[value][index.buffer(self.drawn.stages[value])]


def check(seed: int) -> str:
    """Runs a case; what differs, or an empty text."""
    step = drawn(seed)
    try:
        written = Written(step, leads=seed % 3 == 0)
    except MergeError:  # this order does not go with the next step's units
        written = Written(step, leads=False)
    return compare(written.k.program(), step, seed) or compare(Written(step, leads=False, modulo=True).k.program(), step, seed) or (
        compare(Written(step, leads=False, plain=False).k.program(), step, seed) if step.masked else "")


def compare(program: Program, step: Drawn, seed: int) -> str:
    """One launch of all counts against the loop by hand."""
    size = (MOST + 1, MOST + 1, step.totals, 64)
    for order in ("lockstep", "serial", f"random:{seed}"):
        done = launch("gfx950", program, (MOST + 1, MOST + 1, 1), buffers=[np.zeros(size, np.uint32)], options=Options(True, order))
        if done.findings:
            return f"case {seed}, {order}: {done.findings[0].sentence()}"
        for plain in range(MOST + 1):
            for masked in range(MOST + 1):
                if plain + masked:
                    found, wanted = done.buffers[0][plain, masked], expected(step, plain, plain + masked)
                    if any(set(found[number].tolist()) != {wanted[number]} for number in range(step.totals)):
                        return f"case {seed}, {order}: {plain} plain and {masked} masked iterations give {found[:, 0]}, not {wanted}"
    return ""


def main(arguments: Sequence[str]) -> int:
    """Runs the cases; status 1 if one differs."""
    cases, first = (int(arguments[0]) if arguments else 200), int(arguments[1]) if len(arguments) > 1 else 0
    wrong = [text for seed in range(first, first + cases) if (text := check(seed))]
    print(*wrong, f"{cases - len(wrong)} of {cases} random steps give what the loop by hand gives", sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
