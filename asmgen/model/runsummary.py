"""What the time of a launch depends on in a profile of its first workgroups: all that `asmgen.model.estimate` reads of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from asmgen.isa.opcodes.mfma import F8F6F4_FORMATS, MFMA
from asmgen.isa.timing import Timing
from asmgen.model.costs import CostKind, IssueCost
from asmgen.model.farmemory import FarMemory
from asmgen.model.profile import LoopProfile, Profile
from asmgen.model.usage import UnitLoad
from asmgen.program.program import Instruction


@dataclass(frozen=True)
class RunSummary:
    """Workgroups that were timed together on a compute unit, of so many `waves` in all. `load_free_ends` are the clk of their ends that
    come on top of the time of their loads' bytes, with the round trips of loads of the arguments `first_loads`. `matrix_busy` is the share
    of `cycles` in which matrix cores work, `load` what all instructions ask of the unit's parts, None where nobody needs it. Of the main
    loop: whether it has matrix and transcendental instructions, the class of its `products`, and whether it leaves all stores to what is
    after it, where a workgroup takes `storing` clk from its first one to its last one. A workgroup of the last round takes `last_round`
    times as long as the others: fewer of them share what far memory gives. The first round takes `cold` clk more, with an empty instruction
    cache. Where there are more workgroups on the unit than were timed, each takes `beside` times as long. `needed_flops` are those of the
    launch's problem, where they are known: tiles have more beyond its edges."""

    timing: Timing
    level: str
    far: FarMemory
    cycles: float
    prologue: float
    epilogue: float
    load_free_ends: float
    matrix_busy: float
    flops: float
    main_loop: LoopProfile | None
    load: UnitLoad | None
    mixed: bool
    products: str
    stores_at_the_end: bool
    waves: int = 0
    last_round: float = 1.0
    cold: float = 0.0
    needed_flops: float | None = None
    beside: float = 1.0
    storing: float = 0.0
    first_loads: tuple[int, ...] = ()


def summary_of(found: Profile, load: UnitLoad | None = None) -> RunSummary:
    """The summary of a profile."""
    return RunSummary(found.timing, found.level, found.far, float(found.cycles), found.prologue, found.epilogue,
                      found.load_free_ends, found.matrix_busy, found.flops, found.main_loop, load, transcendental(found),
                      product_class(found), _stores_at_the_end(found), len(found.timeline.waves), storing=_storing(found),
                      first_loads=found.first_loads)


def transcendental(found: Profile) -> bool:
    """Whether the main loop has both matrix and transcendental instructions."""
    return {"mfma", "trans"} <= {one for instruction in _main_code(found) for one in instruction.opcode.classes}


def product_class(found: Profile) -> str:
    """What decides the power that the main loop's products draw: "f16", "fp8" or "fp4" (6-bit floats too, which are as fast), "" for any
    other type. Of several, that of most instructions."""
    classes = Counter(_class_of(one) for one in _main_code(found) if one.name in MFMA)
    return max(classes, key=lambda name: classes[name], default="")


def _class_of(instruction: Instruction) -> str:
    row, modifiers = MFMA[instruction.name], instruction.modifiers
    if row.f8f6f4:
        types = [F8F6F4_FORMATS[int(modifiers.get(name, 0))] for name in ("cbsz", "blgp")]
        return "fp8" if {"fp8", "bf8"} & set(types) else "fp4"
    return "f16" if row.a_type == "f16" else "fp8" if row.a_type in ("fp8", "bf8") else ""


def _main_code(found: Profile) -> Sequence[Instruction]:
    loop = found.main_loop
    return found.program.instructions[loop.first:loop.last + 1] if loop is not None else ()


def _stores_at_the_end(found: Profile) -> bool:
    """Whether the main loop leaves all stores to what is after it."""
    loop, costs = found.main_loop, found.timeline.costs
    return loop is not None and not any(_is_store(one) for one in costs[loop.first:loop.last + 1])


def _storing(found: Profile) -> float:
    """clk from the first store of a workgroup after the main loop to its last one; the longest."""
    loop = found.main_loop
    costs, spans = found.timeline.costs, dict[int, tuple[int, int]]()
    for wave in found.timeline.waves:
        looped = [number for number, position in enumerate(wave.positions) if loop is not None and loop.first <= position <= loop.last]
        after = looped[-1] + 1 if looped else 0
        times = [(at, at + costs[position].issue) for position, at in zip(wave.positions[after:], wave.issued[after:], strict=True)
                 if _is_store(costs[position])]
        if times:
            begin, end = spans.get(wave.workgroup, (times[0][0], 0))
            spans[wave.workgroup] = min(begin, times[0][0]), max(end, times[-1][1])
    return float(max((end - begin for begin, end in spans.values()), default=0))


def _is_store(cost: IssueCost) -> bool:
    return cost.kind is CostKind.VMEM and cost.store
