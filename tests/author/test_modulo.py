"""The schedule modulo: its reservation table, its barriers, its dependences, what it refuses, and eight vector chains in one step.

tests/random_steps.py runs drawn steps under it against loops written by hand.
"""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.author.loop.pipeline import pipeline
from asmgen.author.schedule.handoffs import FillKind, choose_barriers
from asmgen.author.schedule.reservations import Reservations
from asmgen.author.schedule.stepgraph import dependences
from asmgen.author.schedule.stepscheduler import Modulo
from asmgen.author.schedule.unitcosts import StepMachine, UnitKind, cost_of, kinds_of
from asmgen.author.step.effects import Tag, Unit
from asmgen.author.step.iterations import PipelineError, StepIndex, operation
from asmgen.emulator.scheduling.run import Options
from asmgen.isa.registers import s, v
from asmgen.program.program import Program
from asmgen.reader.assembly import read_text
from asmgen.regalloc.plan import RegisterPlan
from tests.emulator_launch import launch, load_pointers, store_by_item

CHAINS, LINKS, MOST = 8, 5, 4
MACHINE = StepMachine("gfx950")


def units(text: str) -> list[Unit]:
    (program,) = read_text(text + "s_endpgm\n", "gfx950")
    return [Unit(number, (item,), Tag("only", ordinal=number)) for number, item in enumerate(program.instructions[:-1])]


def test_reservations_wrap_around_the_step() -> None:
    table = Reservations(10)
    table.take("port", 8, 4)
    assert [table.free("port", tick) for tick in (7, 8, 9, 10, 11, 12, -2, -1)] == [True, False, False, False, False, True, False, False]
    assert table.first(range(8, 20), ("port", 3)) == 12 and table.first(range(8, 12), ("port", 1)) is None
    table.take("other", 3, 12)
    assert not any(table.left("other")) and table.free("other", 3, 0)


@pytest.mark.parametrize(("holds", "found"), [([(3, 5)], (4,)), ([(3, 5), (13, 15)], (4,)), ([(3, 5), (16, 18)], (4, 6)), ([(5, 4)], None),
                                              ([(9, 9)], None)])
def test_barriers_stand_in_every_hold(holds: list[tuple[int, int]], found: tuple[int, ...] | None) -> None:
    choices = (choose_barriers([], [], holds, [2, 4, 6], 10, count, 1) for count in (1, 2))
    assert next((choice.barriers for choice in choices if choice is not None), None) == found


def test_a_fill_lies_between_the_barriers_after_the_old_read_and_before_the_new_one() -> None:
    kind = FillKind(old=3, new=27, settle=5)
    assert kind.range_of(4, 20) == (4, 19)  # the barrier at 24 comes before the new read, 5 ticks before it the fill has issued
    assert kind.range_of(2, 20) == (22, 17)  # after the old read the next barrier stands in the next step: none is left
    assert choose_barriers([kind], [0], [], [2], 20, 1, 1) is None


def edges(text: str) -> set[tuple[int, int, int]]:
    step = units(text)
    costs = {unit.tag.ordinal: cost_of(unit, MACHINE) for unit in step}
    return {(edge.before, edge.after, edge.distance) for edge in dependences([step], kinds_of(step), costs)}


def test_an_scc_that_nobody_reads_orders_nothing() -> None:
    idle = edges("s_add_u32 s1, s1, 4\ns_add_u32 s2, s2, 4\n")
    assert not {(0, 1, 0), (1, 0, 1)} & idle
    read = edges("s_add_u32 s1, s1, 4\ns_cmp_eq_u32 s3, 0\ns_cselect_b32 s4, s5, s6\n")
    assert {(0, 1, 0), (1, 2, 0), (2, 0, 1)} <= read


def test_units_wait_for_operands_and_overwrite_after_readers() -> None:
    found = edges("v_add_f32 v1, v2, v3\nv_mul_f32 v4, v1, v1\nv_mov_b32 v1, v5\n")
    assert {(0, 1, 0), (1, 2, 0), (0, 2, 0), (2, 0, 1)} <= found and (0, 0, 1) not in found


@pytest.mark.parametrize(("text", "kind"), [
    ("v_mfma_f32_16x16x32_bf16 v[0:3], v[4:7], v[8:11], v[0:3]", UnitKind.MATRIX), ("ds_read_b128 v[0:3], v4", UnitKind.LDS_READ),
    ("buffer_load_dwordx4 v[0:3], v4, s[0:3], 0 offen", UnitKind.LOAD), ("ds_write_b32 v4, v5", UnitKind.COMPUTE),
    ("s_mov_b32 m0, s1", UnitKind.ADDRESS),
    ("buffer_load_dwordx4 v4, s[0:3], 0 offen lds", UnitKind.FILL), ("v_exp_f32 v0, v1", UnitKind.COMPUTE)])
def test_kinds(text: str, kind: UnitKind) -> None:
    assert kinds_of(units(text + "\n"))[0] is kind


def test_costs_come_from_the_timing_table() -> None:
    def cost(text: str) -> tuple[int, int, int]:
        found = cost_of(units(text + "\n")[0], MACHINE)
        return found.issue, found.busy, found.ready

    assert cost("v_add_f32 v0, v1, v2") == (1, 1, 1)
    assert cost("v_exp_f32 v0, v1") == (1, 2, 3)
    assert cost("v_mfma_f32_16x16x32_bf16 v[0:3], v[4:7], v[8:11], v[0:3]")[:2] == (2, 4)
    assert cost("v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:19], v[0:3], v20, v21")[:2] == (3, 8)
    assert cost("ds_read_b128 v[0:3], v4") == (1, 4, 32)  # 16 clk for four waves; 64 clk and a full queue of eight


def test_a_step_without_matrix_instructions_is_refused() -> None:
    with pytest.raises(PipelineError, match="this step has none"):
        Modulo().arrange([units("v_mov_b32 v0, v1\n")], {0: 0}, MACHINE)


def chains() -> Program:
    """Eight chains of five instructions beside four matrix units; workgroup x runs x + 1 steps and stores what the chains end with."""
    k = Builder("chains", "gfx950", plan := RegisterPlan("gfx950"))
    plan.pin("hardware", s[0:17])
    plan.pin("work_item", v[0:0])
    plan.pin("addresses", v[60:61])
    plan.pin("at", s[90:90])
    count, links, made = plan.sgprs(1, "count"), plan.vgprs(CHAINS, "links"), plan.vgprs(CHAINS, "made")
    ones, total = plan.vgprs(4, "ones", align=2), plan.vgprs(16, "total", align=4)
    load_pointers(k, 1, 0)
    for register in (links, made, ones, total):
        for number in range(register.count):
            k.v_mov_b32(register[number], number if register is links else 0)
    k.s_add_u32(count, s[2], 1)
    matrix, vector = k.streams("matrix", "vector")

    def step(t: StepIndex) -> None:
        with k.stage(), matrix, operation(k, "product", [t]):
            for _ in range(4):
                k.v_mfma_f32_32x32x16_bf16(total, ones, ones, total)
        with k.stage(), vector, operation(k, "chains", [t]):
            for chain in range(CHAINS):
                k.v_mul_lo_u32(made[chain], links[chain], 3)
                for number in range(LINKS - 2):
                    k.v_add_u32(made[chain], chain + number, made[chain])
                k.v_xor_b32(links[chain], t.number, made[chain])

    pipeline(k, step, count, Modulo())
    k.s_mul_i32(s[2], s[2], CHAINS)
    for chain in range(CHAINS):
        store_by_item(k, links[chain].index, 64)
        k.s_add_u32(s[2], s[2], 1)
    k.s_endpgm()
    return k.program()


def test_eight_vector_chains_give_what_their_loop_gives() -> None:
    done = launch("gfx950", chains(), (MOST, 1, 1), buffers=[np.zeros((MOST, CHAINS, 64), np.uint32)], options=Options(True, "lockstep"))
    assert not done.findings
    links = list(range(CHAINS))
    for step in range(MOST):
        links = [(3 * value + sum(chain + number for number in range(LINKS - 2)) & 0xFFFFFFFF) ^ step for chain, value in enumerate(links)]
        assert [set(row.tolist()) for row in done.buffers[0][step]] == [{value} for value in links]
