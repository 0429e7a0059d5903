"""Early exit: where waves leave the end of a pipeline, which units stay required, and that other waves find what they wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.author.emit.ldsmap import LdsMap
from asmgen.author.loop.earlyexit import early_exits
from asmgen.author.loop.pipeline import pipeline
from asmgen.author.schedule.schedules import Arrangement, InOrder, Sync
from asmgen.author.schedule.unitcosts import StepMachine
from asmgen.author.step.effects import Tag, Unit
from asmgen.author.step.iterations import PipelineError, StepIndex
from asmgen.codeobject.load import CodeObject
from asmgen.emulator.scheduling.run import Options
from asmgen.isa.registers import s, v
from asmgen.kernels.attention_forward.library import ATTENTION
from asmgen.kernels.attention_forward.problem import make_problem
from asmgen.launch.emulated import EmulatedDevice
from asmgen.program.program import Instruction, Label, Program
from asmgen.regalloc.plan import RegisterPlan
from asmgen.tools.profile_command import trace_kernel
from asmgen.tools.running.build import Built, build_kernel

WAIT, BARRIER = Sync("wait"), Sync("barrier")
COMPUTE, LOAD, TURN, WRITE, READ = range(5)
OFFSETS = {COMPUTE: 0, LOAD: 2, TURN: 1, WRITE: 1, READ: 0}


def step() -> list[Unit]:
    """Load x(t + 2), turn x(t + 1), write it to LDS, read it in the step of its iteration, compute with that."""
    k, lds = Builder("k", "gfx950"), LdsMap("gfx950")
    held = lds.take("x", 1024)
    made = [k.v_add_f32(v[9], v[9], v[8]), k.global_load_dword(v[1], v[2], s[4:5]), k.v_mul_f32(v[3], 2.0, v[1]),
            k.ds_write_b32(v[4], v[3], fills=held), k.ds_read_b32(v[8], v[4], uses=held)]
    return [Unit(number, (item,), Tag("one", ordinal=number)) for number, item in enumerate(made)]


def test_a_wave_exits_where_only_required_units_are_left() -> None:
    """The last two copies. Behind the first barrier only what the write is made of is left beside iterations of the last copy; a wave that
    skips both exits at once."""
    compute, _, turn, write, read = step()
    copies: list[list[Sync | Unit]] = [[read, WAIT, BARRIER, turn, write, WAIT, BARRIER, compute, WAIT, BARRIER],
                                       [read, WAIT, BARRIER, compute]]
    early, late = sorted(early_exits(copies, OFFSETS, -1), key=lambda exit_: -exit_.skipped)
    assert (late.skipped, late.copy, late.at, late.code) == (1, 1, 0, (WAIT, BARRIER)) and not late.reads
    assert (early.skipped, early.copy, early.at) == (2, 0, 0)
    assert early.code == (WAIT, BARRIER, turn, write, WAIT, BARRIER, WAIT, BARRIER, WAIT, BARRIER)
    # Behind the barrier that ends the first of the two copies, the others read what the last one uses.
    assert {position: [str(use) for use in uses] for position, uses in early.reads.items()} == {7: ["lds read x 0x0:0x400"]}


def test_iterations_that_no_wave_does_without() -> None:
    compute, _, turn, write, read = step()
    copies: list[list[Sync | Unit]] = [[read, WAIT, BARRIER, turn, write, WAIT, BARRIER, compute, WAIT, BARRIER],
                                       [read, WAIT, BARRIER, compute]]
    assert [exit_.skipped for exit_ in early_exits(copies, OFFSETS, 0)] == [1]
    assert early_exits([[compute, read]], OFFSETS, 0) == []


def test_scc_that_is_still_read_keeps_waves_there() -> None:
    """The branch of an early exit decides by SCC."""
    k = Builder("k", "gfx950")
    made = [k.s_cmp_eq_u32(s[8], 0), k.s_cselect_b32(s[9], s[8], 0), k.v_mov_b32(v[1], 1)]
    test, use, other = (Unit(number, (item,), Tag("one", ordinal=number)) for number, item in enumerate(made))
    for after, exits in ((use, [(0, 0)]), (other, [(1, 2), (0, 0)])):
        copy: list[Sync | Unit] = [test, BARRIER, after]
        assert [(exit_.copy, exit_.at) for exit_ in early_exits([copy, copy], dict.fromkeys(range(3), 0), -1)] == exits


class Leading(InOrder):
    """The first unit runs a copy early."""

    def arrange(self, phases: Sequence[Sequence[Unit]], offsets: Mapping[int, int], machine: StepMachine) -> Arrangement:
        return Arrangement(tuple(unit.tag.ordinal for unit in phases[0]), frozenset({0}))


def test_operations_that_lead_cannot_be_left() -> None:
    k = Builder("k", "gfx950", plan := RegisterPlan("gfx950"))
    x, count, skipped = plan.vgprs(1, "x"), plan.sgprs(1, "count"), plan.sgprs(1, "skipped")

    def one(t: StepIndex) -> None:
        with k.stage(), k.streams("only")[0], k.at(t):
            k.v_mov_b32(x, 1)

    with pytest.raises(PipelineError, match="operations of the next step that run across it"):
        pipeline(k, one, count, Leading(), early_exit=skipped)


@cache
def causal(arch: str, waves: int = 8) -> Built:
    return build_kernel(ATTENTION, arch, {"causal": True, "waves": waves})


def products_of_diagonal_block(waves: int) -> list[int]:
    """By wave, of 256 queries and as many keys; all pass the same barriers."""
    parameters = ATTENTION.contract("gfx950", {"causal": True, "waves": waves}).resolve_run({"hq": 1, "sq": 256, "sk": 256, "causal": True})
    traced = trace_kernel(ATTENTION, causal("gfx950", waves), parameters, 1)
    assert traced.trace.program is not None
    names = [instruction.name for instruction in traced.trace.program.instructions]
    assert len({sum(names[position] == "s_barrier" for position in trace.positions) for trace in traced.trace.waves()}) == 1
    products = {trace.wave: sum("32x32x16" in names[position] for position in trace.positions) for trace in traced.trace.waves()}
    return [products[wave] for wave in range(waves)]


def test_waves_of_the_diagonal_block_skip_tiles() -> None:
    """256 queries, four tiles of 64 keys, of which waves 0 and 1 see one, 2 and 3 two, ...: the two products of 16 of iterations that
    are left out, from the third stage's barrier of the last but two steps on."""
    products = products_of_diagonal_block(8)
    assert products[6:] == [128] * 2 and products[4:6] == [112] * 2 and all(number <= 80 for number in products[:4])


def test_interleaved_waves_skip_tiles_too() -> None:
    """Four waves of 64 queries, whose products are 32 instructions: the last sees four tiles, each before it one less. Places to leave are
    fewer, as there are no stages that barriers end."""
    first, second, *others = products_of_diagonal_block(4)
    assert others == [256] * 2 and first <= 128 and second <= 256 - 63


def launched(waves: int, program: Program) -> list[str]:
    """The checks that find something in a causal launch of two steps more than the tile is wide."""
    built = causal("gfx950", waves)
    name = built.kernel.resources.name
    device = EmulatedDevice("gfx950", Options(), {name: program}, keep_errors=True)
    p = built.kernel.contract.resolve_run({"causal": True, "waves": waves, "hq": 1, "sq": 256, "sk": 384})
    problem = make_problem(p, 3, 1.0)
    done = device.launch(CodeObject.load(built.code_object).kernel(name), built.kernel.contract.grid_of(p), built.kernel.contract.workgroup,
                         problem.arguments)
    output = next(output for output in problem.outputs if output.argument == "o")
    assert done.findings or np.abs(problem.arguments["o"][output.select].astype(float) - output.expected).max() < 0.05
    return [finding.check for finding in done.findings]


@pytest.mark.parametrize("waves", [8, 4])
def test_fills_of_a_wave_that_leaves_have_landed_for_the_others(waves: int) -> None:
    """Without its waits on the way out, another wave's read finds what it filled on its way."""
    program = causal("gfx950", waves).kernel.program
    assert not launched(waves, program)
    kept, inside = [], False
    for item in program.items:
        if isinstance(item, Label):
            inside = inside and not item.name.startswith(("all_done", "raise")) or item.name.startswith("leaves")
        if not (inside and isinstance(item, Instruction) and item.name == "s_waitcnt"):
            kept.append(item)
    assert len(kept) < len(program.items)
    assert launched(waves, program.with_items(kept))
