"""Pipelines: one step of a loop, written once, becomes prologues, loops and a drain (docs/ARCHITECTURE.md section 3).

`pipeline(k, step, count, schedule)` calls `step(t)` once and makes all copies from that. Let d be the farthest
iteration ahead that the step names (`t + d`), and u the least common multiple of the buffers of its tiles. A prologue has the parts of
steps -d to -1 whose iterations exist; if they fill LDS, a wait slot and 1 + stagger barriers follow. `looppaths` says which copies stand
where.

With two roles (`ProducerConsumer`) all of this stands twice: each role has its own units of each copy, and all barriers.

`merge` checks the schedule's order in each copy against emission order, over the seam to the next step too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from asmgen.author.emit.coldblocks import Sharing
from asmgen.author.emit.pipelinetext import PipelineText
from asmgen.author.loop.buffercheck import check_buffers
from asmgen.author.loop.chainedpaths import Chain, ChainedPaths
from asmgen.author.loop.copycosts import overlap_pays
from asmgen.author.loop.looponly import loop_only
from asmgen.author.loop.looppaths import emit_paths
from asmgen.author.loop.loopregisters import loop_registers
from asmgen.author.loop.overlap import Then
from asmgen.author.loop.pathcheck import check_paths
from asmgen.author.loop.pathgraph import PathGraph, Way
from asmgen.author.loop.spreading import spread_loads
from asmgen.author.loop.stepcopies import Copies
from asmgen.author.loop.stepunits import Shape, Step, StepUnits
from asmgen.author.schedule.schedules import ProducerConsumer, Schedule, is_matrix
from asmgen.author.step.effects import Unit
from asmgen.author.step.iterations import PipelineError
from asmgen.isa.registers import SGPR_BIT, Reg, mask_names
from asmgen.program.program import Instruction
from asmgen.regalloc.ranges import OwnedReg

if TYPE_CHECKING:
    from asmgen.author.emit.builder import Builder

_PLAIN_REGISTERS = (1 << SGPR_BIT) - 1  # VGPRs and AGPRs


def pipeline(k: Builder, step: Step, count: Reg | int, schedule: Schedule, groups: Reg | None = None, plain: Reg | int | None = None,
             then: Then | None = None, early_exit: Reg | None = None, ends_plain: bool = False, empty: bool = False,
             few: bool = False, chain: Chain | None = None, masked_end: int | None = None,
             meanwhile: Callable[[], None] | None = None) -> Shape:
    """Emit the loop of `count` steps. `count` is an SGPR, which is used up, or a number. It is at least 1; with `empty` an SGPR may be 0,
    and then the waves go on after the loop.

    - `groups`: an SGPR. With a stagger it is 0 for waves of the first group and 1 for waves of the second. With roles it is 0 for
      consumers and 1 for producers; producers end after their loop.
    - `plain`: how many first iterations need no operations of `t.masked`: an SGPR, which is used up, or a number. Data stays in flight
      where the loop without such operations goes over into the one with them. Without it all iterations run them.
    - `masked_end`: no more last iterations than that have operations of `t.masked` to run, whatever `plain` is: `plain` is at least `count`
      less that. Where the drain takes them all, there is no loop with such operations.
    - `ends_plain`: launches usually mask nothing at all. They then have a drain of their own, without masked operations.
    - `then`: the epilogue, as one value. It may overlap the last step and end the kernel there (`asmgen.author.loop.overlap`); the rest
      stands after the pipeline.
    - `early_exit`: an SGPR, the number of last iterations that a wave skips because all that it computes there is masked. It skips fewer
      than all of them; 0 or less skips none (`asmgen.author.loop.earlyexit`).

    - `few`: launches run few steps. Straight code then ends the loop, whatever its text costs: the loop would run as many steps of nothing.

    - `meanwhile`: emits what each prologue does while its loads are in flight; SCC is free there. It moves among the loads as far as
      registers let it (`asmgen.author.loop.spreading`). With `chain` this is `Chain.advance`.

    - `chain`: the pipeline runs for one item after another, each of `count` steps, an SGPR that stays (`asmgen.author.loop.chainedpaths`).
      The kernel ends after it.

    Raises PipelineError for a step that cannot be pipelined, MergeError where the schedule's order would change a result.
    """
    _check_values(k, step, schedule, then)
    _check_count(k, count, plain, empty)
    epilogue = then.overlapped if then is not None else None
    roles = isinstance(schedule, ProducerConsumer)
    if (schedule.stagger or roles) and groups is None:
        does = "gives waves different roles" if roles else "staggers two wave groups"
        raise PipelineError(f"the schedule {schedule.name} {does}; pipeline needs groups=, an SGPR that says which "
                            f"{'role a wave has' if roles else 'half a wave belongs to'}", k.here())
    if empty and roles:
        raise PipelineError(f"empty=True lets waves pass by the loop, and producers of {schedule.name} end after it; branch around the "
                            "pipeline before roles part", k.here())
    if meanwhile is not None and (empty or roles):
        raise PipelineError(f"meanwhile= is what each wave does after its first loads; {'without a step' if empty else 'of two roles'} "
                            "there are none for all of them", k.here())
    if plain == 0:
        plain = None
    if chain is not None:
        _check_chain(k, count, plain, roles or empty or early_exit is not None or meanwhile is not None, then)
    given = {"count": count, "plain": plain, "groups": groups, "early_exit": early_exit}
    k.region("main loop")
    k.counted = {}
    if k.registers is not None:
        k.registers.end_spare()  # the step makes addresses of its own
    with loop_registers(k, count, plain, ends_plain) as own:
        units = StepUnits(k, step, schedule)
        check_buffers(k, units)
        spread_loads(k)
        _check_shape(k, units.shape, plain, early_exit, roles or epilogue is not None)
        _refuse_changes(units, given)
        if schedule.stagger:
            k.stagger = max(k.stagger, schedule.stagger)
        without = k.fresh("no_steps") if empty else ""
        if empty:  # after what was computed before the loop, which later code may use
            k.s_cmp_eq_u32(count, 0)
            k.s_cbranch_scc1(without)
        k.loop_begins(units.shape.ahead)
        begin, chained = len(k.items), None
        if groups is not None and roles:
            _refuse_shared_registers(k, units)
            consumers, producers = k.fresh("consumers"), k.fresh("producers")
            k.s_cmp_eq_u32(groups, 0)
            k.s_cbranch_scc1(consumers)
            k.label(producers)
            copies = Copies(k, units, schedule, groups, units.produces)
            emit_paths(copies, count, plain, k.fresh("pipeline_done"), own, masked_end=masked_end)
            k.s_endpgm()
            k.label(consumers)
            copies = Copies(k, units, schedule, groups, lambda unit: not units.produces(unit), epilogue)
            way = emit_paths(copies, count, plain, k.fresh("pipeline_done"), own, masked_end=masked_end)
            k.roles = consumers, producers
        else:
            copies = Copies(k, units, schedule, groups, epilogue=epilogue, early_exit=early_exit)
            copies.waiting = meanwhile
            if epilogue is not None and not overlap_pays(copies):
                copies.epilogue = None
            done = k.fresh("pipeline_done")
            if chain is None:
                way = emit_paths(copies, count, plain, done, own, few, masked_end)
                copies.emit_early_exits()
            else:
                assert own is not None and isinstance(count, Reg)
                chained = ChainedPaths(copies, count, chain, done, own)
                chained.emit()
                way = chained.way
            sharing = Sharing(copies.loops_at, copies.sharing_end, own.cold) if own is not None and chain is None else None
            leases = len(k.registers.ranges) if k.registers is not None else 0
            changed = reduce(or_, (item.writes for item in k.items[begin:] if isinstance(item, Instruction)), 0)
            spent = changed & sum(reg.mask for reg in (count, plain) if isinstance(reg, Reg))
            k.pipelines.append(PipelineText(sharing, done, copies.filling, copies.lost, spent, leases, *_sums(units.every())))
            if chained is not None:  # its sources are read again after the epilogue
                assert k.registers is not None
                k.registers.spare(*chained.between_items, at_need=True)
                _emit_epilogue(k, then, copies)
                chained.close()
        k.loop_ends()
        k.paths.append(_checked_graph(copies, way, count, plain, chained, masked_end))
    k.steps.append(units.shape.table)
    for report in units.shape.reports:
        k.remarks += report.lines()
    k.remarks += filter(None, [units.shape.arrangement.remark])
    if without:
        k.label(without)
    if chain is None:
        if k.registers is not None:
            k.registers.spare(*loop_only(k, units, begin), at_need=True)
        _emit_epilogue(k, then, copies)
    return units.shape


def _emit_epilogue(k: Builder, then: Then | None, copies: Copies) -> None:
    """What follows the loop, but for what overlaps its last step."""
    if then is None:
        return
    k.region("epilogue")
    if then.overlapped is not None and copies.epilogue is None:
        then.overlapped.follow(k)
    then.follow(k)


def _check_chain(k: Builder, count: Reg | int, plain: Reg | int | None, other: bool, then: Then | None) -> None:
    if not isinstance(count, Reg) or plain is not None or other or then is None:
        raise PipelineError("a chain of items has a count in an SGPR and an epilogue (then=), and neither roles, plain=, empty=, "
                            "meanwhile= nor early_exit=", k.here())


def _checked_graph(copies: Copies, way: Way, count: Reg | int, plain: Reg | int | None, chained: ChainedPaths | None,
                   masked_end: int | None) -> PathGraph:
    """The pipeline's paths. Raises MergeError if one of them breaks the step."""
    shape = copies.units.shape
    least, items = (chained.least, 2) if chained is not None else (1, 1)
    graph = PathGraph(tuple(copies.parts), way, shape.offsets, shape.ahead, shape.unroll, shape.peel,
                      count if isinstance(count, int) and plain is None else None, plain is not None, copies.epilogue is not None,
                      max((skipped for skipped, _, _ in copies.leaves), default=0), least, items, masked_end)
    check_paths(graph, copies.schedule.name)
    return graph


def check_written(k: Builder, given: Mapping[str, Reg | int | None]) -> None:
    """Refuse, with a PipelineError, an SGPR of the plan's pool that nothing has written: the pipeline would go by what it happens to
    hold."""
    for name, reg in given.items():
        held = k.registers.owner(reg) if isinstance(reg, OwnedReg) and k.registers is not None else None
        if held is not None and held.kind == "pool" and held.reg.file == "s" \
                and not any(isinstance(item, Instruction) and item.writes & held.reg.mask for item in k.items):
            raise PipelineError(f"{name}={reg}: nothing has written {held.name!r} before the pipeline, which goes by it", k.here())


def _refuse_changes(units: StepUnits, given: Mapping[str, Reg | int | None]) -> None:
    """Refuse a step that writes a register by which the pipeline goes."""
    for name, reg in given.items():
        for unit in units.every() if isinstance(reg, Reg) else ():
            assert isinstance(reg, Reg)
            if unit.effects.writes & reg.mask:
                raise PipelineError(f"{unit} changes {reg} in the step, and the pipeline goes by it: {name}=. A register of the step's "
                                    "own, copied before the pipeline, would do", unit.first.where())


def _check_shape(k: Builder, shape: Shape, plain: Reg | int | None, early_exit: Reg | None, ends_otherwise: bool) -> None:
    if shape.masked is None and plain is not None:
        raise PipelineError("plain= says how many iterations need no masked operations, and the step has none; write them within "
                            "`with t.masked:`", k.here())
    if early_exit is not None and (shape.arrangement.lead or ends_otherwise):
        other = "operations of the next step that run across it" if not ends_otherwise else "roles or an overlapped epilogue"
        raise PipelineError(f"early_exit= lets waves leave the loop after a barrier, which does not go with {other}", k.here())


def _check_values(k: Builder, step: object, schedule: object, then: object) -> None:
    if not callable(step):
        raise PipelineError(f"step={step!r}: a pipeline takes a function of the iteration t, not what a call of it returns", k.here())
    if isinstance(schedule, type) or not hasattr(schedule, "arrange"):
        made = f"{schedule.__name__}()" if isinstance(schedule, type) else "InOrder(), PingPong() or Modulo()"
        raise PipelineError(f"schedule={schedule!r} is no schedule; {made} would do", k.here())
    if then is not None and not hasattr(then, "follow"):
        raise PipelineError(f"then={then!r}: what follows is one value, such as FollowingEpilogue(body) of a function without arguments",
                            k.here())


def _check_count(k: Builder, count: Reg | int, plain: Reg | int | None, empty: bool) -> None:
    if k.copy is not None:
        raise PipelineError("a pipeline stands in the step of another one. Write the inner loop out in the step, or the outer one around "
                            "the pipeline", k.here())
    for name, number in (("count", count), ("plain", plain)):
        if number is not None and not (isinstance(number, int) or isinstance(number, Reg) and number.file == "s" and number.count == 1):
            raise PipelineError(f"{name}={number}: a pipeline takes a whole number or one SGPR", k.here())
    if isinstance(count, int) and empty:
        raise PipelineError(f"a pipeline of {count} steps is empty or not for every launch; empty=True is for a count in an SGPR", k.here())
    if isinstance(count, int) and count < 1:
        raise PipelineError(f"a pipeline of {count} steps: there is at least one", k.here())
    if isinstance(plain, int) and plain < 0:
        raise PipelineError(f"plain={plain}: 0 or more first iterations need no masked operations", k.here())


def _sums(units: Sequence[Unit]) -> tuple[int, Instruction | None]:
    """The registers (as bits) to which only matrix units add and which no other unit reads, and the last instruction that adds."""
    added = other = 0
    last = None
    for unit in units:
        effects = unit.effects
        if is_matrix(unit) and effects.writes & effects.reads:
            added |= effects.writes & effects.reads
            other |= effects.reads & ~effects.writes | effects.writes & ~effects.reads
            last = unit.first
        else:
            other |= effects.reads | effects.writes
    sums = added & ~other & _PLAIN_REGISTERS
    return (sums, last) if sums else (0, None)


def _refuse_shared_registers(k: Builder, units: StepUnits) -> None:
    """Raises PipelineError if a unit of one role reads a register that units of the other role write: registers belong to one wave."""
    for unit in units.every():
        for other in units.every():
            shared = unit.effects.reads & other.effects.writes if units.produces(unit) != units.produces(other) else 0
            if shared:
                raise PipelineError(f"{unit} reads {', '.join(mask_names(shared))} of {other}, which waves of the other role execute: "
                                    "roles exchange data through LDS only", unit.first.where())
