"""Pipelines: one step of a loop, written once, becomes a prologue, an unrolled loop, a drain and a path for each count.

`pipeline(k, step, count, schedule)` calls `step(t)` once for each phase of the unroll and makes all copies from that. Let d be the farthest
iteration ahead that the step names (`t + d`), and u the least common multiple of the buffers of its tiles. The code is then

    prologue      the parts of steps -d to -1 whose iterations exist; if they fill LDS, a wait slot and 1 + stagger barriers
    rest          for each remainder r of count - d by u: a prologue of its own and r copies, so that the loop begins in phase 0
    loop          u copies, as long as u steps are left before the last d
    drain         the last d steps without iterations beyond the end; a count below d has a prologue of its own and enters the drain late

With two roles (`ProducerConsumer`) all of this stands twice: each role has its own units of each copy, and all barriers.

`merge` checks the schedule's order in each copy against emission order, over the seam to the next step too. `segmentpaths` emits two
segments: one loop after the other, with data in flight over the seam.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from asmgen.author.loop.overlap import Epilogue
from asmgen.author.loop.segmentpaths import emit_segments, emit_to_the_end, first_loop
from asmgen.author.loop.stepcopies import Copies
from asmgen.author.loop.stepunits import Shape, Step, StepUnits
from asmgen.author.schedule.schedules import ProducerConsumer, Schedule
from asmgen.author.step.iterations import PipelineError
from asmgen.isa.registers import Reg, mask_names

if TYPE_CHECKING:
    from asmgen.author.emit.builder import Builder

Segments = Sequence[tuple[Step, "Reg | int"]]


def pipeline(k: Builder, step: Step | Segments, count: Reg | int | None, schedule: Schedule, groups: Reg | None = None,
             peel: int = 0, least: tuple[int, int] | None = None, epilogue: Epilogue | None = None,
             early_exit: Reg | None = None) -> Shape:
    """Emit the loop of `count` steps. `count` is an SGPR, which is used up, or a number. It is at least 1.

    Two segments [(plain, n0), (masked, n1)] with the count None run n0 steps of the first, then n1 of the second. Data stays in flight
    over the border. n0 + n1 is at least 1, and both steps have the same stages.

    - `groups`: an SGPR. With a stagger it is 0 for waves of the first group and 1 for waves of the second. With roles it is 0 for
      consumers and 1 for producers; producers end after their loop.
    - `peel=1`: `t.first` is true for the operations of the first iteration, wherever in the code they stand.
    - `least`: `segmentpaths.lend_steps` has set the counts of the two segments so; the loop then has fewer paths.
    - `epilogue`: an epilogue that overlaps the last step and ends the kernel (`asmgen.author.loop.overlap`); for one step function.
    - `early_exit`: an SGPR, the number of last iterations that a wave skips because all that it computes there is masked. It skips fewer
      than all of them and none of the first of two segments; 0 or less skips none (`asmgen.author.loop.earlyexit`).

    Raises PipelineError for a step that cannot be pipelined, MergeError where the schedule's order would change a result.
    """
    segments = _segments(k, step, count)
    roles = isinstance(schedule, ProducerConsumer)
    if (schedule.stagger or roles) and groups is None:
        does = "gives waves different roles" if roles else "staggers two wave groups"
        raise PipelineError(f"the schedule {schedule.name} {does}; pipeline needs groups=, an SGPR that says which "
                            f"{'role a wave has' if roles else 'half a wave belongs to'}", k.here())
    units = StepUnits(k, [one for one, _ in segments], schedule, peel)
    if epilogue is not None and len(segments) > 1:
        raise PipelineError("epilogue= needs a pipeline of one step function; this one has two segments", k.here())
    if early_exit is not None and (units.shape.arrangement.lead or roles or epilogue is not None):
        other = "roles" if roles else "an epilogue" if epilogue is not None else "operations of the next step that run across it"
        raise PipelineError(f"early_exit= lets waves leave the loop after a barrier, which does not go with {other}", k.here())
    if schedule.stagger:
        k.stagger = max(k.stagger, schedule.stagger)
    k.loop_begins(units.shape.ahead)
    if groups is not None and roles:
        _refuse_shared_registers(k, units)
        consumers, producers = k.fresh("consumers"), k.fresh("producers")
        k.s_cmp_eq_u32(groups, 0)
        k.s_cbranch_scc1(consumers)
        k.label(producers)
        _emit(Copies(k, units, schedule, groups, peel, units.produces), segments, least)
        k.s_endpgm()
        k.label(consumers)
        _emit(Copies(k, units, schedule, groups, peel, lambda unit: not units.produces(unit), epilogue), segments, least)
        k.roles = consumers, producers
    else:
        copies = Copies(k, units, schedule, groups, peel, epilogue=epilogue, early_exit=early_exit)
        _emit(copies, segments, least)
        copies.emit_early_exits()
    for report in units.shape.reports:
        k.remarks += report.lines()
    return units.shape


def _refuse_shared_registers(k: Builder, units: StepUnits) -> None:
    """Raises PipelineError if a unit of one role reads a register that units of the other role write: registers belong to one wave."""
    for unit in units.every():
        for other in units.every():
            shared = unit.effects.reads & other.effects.writes if units.produces(unit) != units.produces(other) else 0
            if shared:
                raise PipelineError(f"{unit} reads {', '.join(mask_names(shared))} of {other}, which waves of the other role execute: "
                                    "roles exchange data through LDS only", unit.first.where())


def _emit(copies: Copies, segments: Segments, least: tuple[int, int] | None) -> None:
    """Emit all paths."""
    k, ahead, peel = copies.k, copies.ahead, copies.peel
    done = k.fresh("pipeline_done")
    if len(segments) == 1:
        _emit_one(copies, segments[0][1], done)
        return
    wanted = ahead + peel, ahead
    if least is not None and any(given < some for given, some in zip(least, wanted, strict=True)):
        raise PipelineError(f"counts were made {least[0]} and {least[1]} or more, and this step, which looks {ahead} iterations ahead, "
                            f"wants at least {wanted}", k.here())
    emit_segments(copies, segments[0][1], segments[1][1], done, least is not None)


def _segments(k: Builder, step: Step | Segments, count: Reg | int | None) -> Segments:
    if callable(step):
        if count is None:
            raise PipelineError("a pipeline of one step function wants its count: an SGPR or a number", k.here())
        segments: Segments = [(step, count)]
    else:
        segments = list(step)
        if count is not None or not 1 <= len(segments) <= 2:
            raise PipelineError(f"a pipeline of segments takes one or two of them, each with its own count, and None as count, not "
                                f"{len(segments)} and {count}", k.here())
    counts = [number for _, number in segments]
    numbers = [number for number in counts if isinstance(number, int)]
    if any(number < 0 for number in numbers) or len(numbers) == len(counts) and sum(numbers) < 1:
        raise PipelineError(f"a pipeline of {' and '.join(map(str, counts))} steps: there is at least one", k.here())
    return [(step, number) for step, number in segments if number != 0]


def _emit_one(copies: Copies, count: Reg | int, done: str) -> None:
    """Emit all paths of one segment."""
    k, ahead, peel = copies.k, copies.ahead, copies.peel
    if isinstance(count, int):
        if (count - ahead - peel) // copies.unroll < 2:  # straight code if the loop would not run twice
            copies.straight(count)
            return
        copies.prologue(0)
        copies.steady(copies.span(0, peel, 0, 0))
        emit_to_the_end(copies, count, peel, None, done, peel)
        return
    shorts = [(number, k.fresh(f"steps_{number}")) for number in range(1, ahead + peel)]
    drains = {} if peel else {number: k.fresh(f"tail_{number}") for number, _ in shorts}
    for number, label in shorts:
        k.s_cmp_eq_u32(count, number)
        k.s_cbranch_scc1(label)
    first_loop(copies, count)
    copies.last(copies.span(0, ahead, 0, stop=ahead), entries=drains)
    for number, label in shorts:
        if number == 1 or not drains:  # code after a path that enters the drain is reached by its label alone
            k.s_branch(done)
        k.label(label)
        if number in drains:
            copies.prologue(ahead - number, stop=number, join=drains[number])
            k.s_branch(drains[number])
        else:
            copies.straight(number)
    k.label(done)
