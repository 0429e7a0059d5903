"""What an order gives up: the clk for which matrix cores wait, by what stands in the gaps where they do."""

from __future__ import annotations

from collections import Counter

from asmgen.author.schedule.schedules import Arrangement, Sync
from asmgen.author.schedule.stepfacts import StepFacts
from asmgen.author.schedule.unitcosts import UnitKind

_NAMES = {UnitKind.LDS_READ: "reads of LDS", UnitKind.LOAD: "loads", UnitKind.FILL: "fills of LDS", UnitKind.ADDRESS: "writes of M0"}
_SHOWN = 4
_ENDS = "the end of the loop"


def given_up(step: StepFacts, arrangement: Arrangement) -> str:
    """A sentence for the head of the assembly text. By the clock of the order: data from memory have arrived, and all waves go alike."""
    slot = step.machine.timing.clocks("slot")
    time, count = step.clock.time(arrangement), len(step.phases)
    lost: Counter[str] = Counter()
    for held, idle in zip(_gaps(step, arrangement), time.idle, strict=True):
        if idle:
            lost[" and ".join(sorted(held)) or "dependences"] += idle
    if not lost:
        return "matrix cores wait for nothing, by the schedule's arithmetic"
    told = [f"{cause} {slot * ticks / count:.0f}" for cause, ticks in lost.most_common(_SHOWN)]
    rest = slot * sum(ticks for _, ticks in lost.most_common()[_SHOWN:]) / count
    told += [f"others {rest:.0f}"] if rest else []
    return f"matrix cores wait {slot * lost.total() / count:.0f} clk a step, by the schedule's arithmetic, for {', '.join(told)}"


def _gaps(step: StepFacts, arrangement: Arrangement) -> list[set[str]]:
    """What stands before each matrix unit; before the first one, after the last one too."""
    gaps: list[set[str]] = [set()]
    for entry in arrangement.order:
        if isinstance(entry, Sync):
            gaps[-1].add(f"{entry.kind}s")
        elif step.kinds[entry] is UnitKind.MATRIX:
            gaps.append(set())
        elif not step.units[entry].tag.seldom:
            gaps[-1].add(_name(step, entry))
    last = gaps.pop()
    gaps[0] |= {*last, _ENDS}
    return gaps


def _name(step: StepFacts, number: int) -> str:
    kind = step.kinds[number]
    if kind is UnitKind.COMPUTE:
        if step.units[number].effects.memory:
            return "stores and atomics"
        return "packed f32" if step.costs[number].packed else "vector work" if step.costs[number].busy else "scalar work"
    return _NAMES[kind]
