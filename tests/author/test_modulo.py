"""The schedule modulo: its reservation table, its barriers, its dependences, what it refuses, and eight vector chains in one step.

tests/random_steps.py runs drawn steps under it against loops written by hand.
"""

from __future__ import annotations

import re
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asmgen.author.emit.builder import Builder
from asmgen.author.loop.pipeline import pipeline
from asmgen.author.schedule.barrierchoice import BarrierSearch, FillKind
from asmgen.author.schedule.partialorder import PartialOrder
from asmgen.author.schedule.readtimes import place_reads
from asmgen.author.schedule.reservations import Reservations
from asmgen.author.schedule.stepfacts import NoRoom, StepFacts
from asmgen.author.schedule.stepgraph import dependences
from asmgen.author.schedule.stepscheduler import Modulo
from asmgen.author.schedule.streamtimes import evenly, place_compute
from asmgen.author.schedule.unitcosts import StepMachine, UnitKind, cost_of, kinds_of
from asmgen.author.step.effects import Tag, Unit
from asmgen.author.step.iterations import PipelineError, StepIndex, operation
from asmgen.checks.waitstates.passes import insert
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
    search = BarrierSearch([], [], holds, [2, 4, 6], 10, 1)
    choices = (search.best(count) for count in (1, 2))
    assert next((choice.barriers for choice in choices if choice is not None), None) == found


def test_a_fill_lies_between_the_barriers_after_the_old_read_and_before_the_new_one() -> None:
    kind = FillKind(old=3, new=27, settle=5)
    assert kind.range_of(4, 20) == (4, 19, 19)  # the barrier at 24 comes before the new read, 5 ticks before it the fill has issued
    assert kind.range_of(2, 20) == (22, 19, 17)  # after the old read the next barrier stands in the next step: none is left
    assert BarrierSearch([kind], [0], [], [2], 20, 1).best(1) is None


def test_fills_get_as_much_of_their_round_trip_as_they_can() -> None:
    kinds = [FillKind(old=0, new=60, settle=80), FillKind(old=20, new=90, settle=30)]
    found = BarrierSearch(kinds, [0, 0, 1], [], [5, 25, 45], 50, 4).best(2)
    assert found is not None and found.barriers == (5, 25)
    # The first two issue at 5 and 9: at 55, 46 ticks after the second one, stands the barrier before their read. It lacks 34 of 80.
    assert found.slack == 55 - 80 - 9 and found.ranges[0] == (5, 9) and found.ticks[:2] == (5, 9)
    assert found.ticks[2] == 25  # after the barrier that follows its old read


@pytest.mark.parametrize(("old", "new", "tick", "left"), [
    (3, 30, 12, (9,)), (3, 30, 9, (9,)), (7, 30, 12, (9,)),  # the fill stands after the later barrier, which leaves it more time
    (3, 27, 12, (5,)),  # its new read comes before the later barrier of the next step
    (3, 30, 6, None)])  # it stands after the earlier barrier, and the later one leaves it more time
def test_a_barrier_goes_that_nothing_relies_on_where_fills_stand(old: int, new: int, tick: int, left: tuple[int, ...] | None) -> None:
    search = BarrierSearch([FillKind(old, new, 22)], [0], [], [5, 9], 20, 1)
    both = search.best(2)
    assert both is not None and both.barriers == (5, 9)
    found = search.without_idle(both, [tick])
    assert (None if found is None else found.barriers) == left


def test_a_barrier_stays_that_computed_values_need() -> None:
    kinds = [FillKind(3, 30, 22)]
    for holds, left in (([(8, 10)], (9,)), ([(4, 6), (8, 10)], None)):
        search = BarrierSearch(kinds, [0], holds, [5, 9], 20, 1)
        both = search.best(2)
        assert both is not None and both.barriers == (5, 9)
        found = search.without_idle(both, [12])
        assert (None if found is None else found.barriers) == left


def test_many_equal_choices_of_barriers_take_no_time() -> None:
    """Fills that no choice serves in time: a bound does not cut, and all choices would be 36,000."""
    kinds = [FillKind(old=-number, new=170, settle=400) for number in range(8)]
    found = BarrierSearch(kinds, list(range(8)) * 2, [], list(range(2, 130, 4)), 130, 8).best(4)
    assert found is not None and found.slack < 0


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


def test_what_finds_no_tick_is_refused_with_what_asks_before_and_after() -> None:
    products = [f"v_mfma_f32_16x16x32_bf16 v[{to}:{to + 3}], v[{of}:{of + 3}], v[8:11], v[{to}:{to + 3}]" for to, of in
                ((0, 4), (16, 4), (24, 20))]
    lines = products[0], "ds_read_b128 v[4:7], v12", products[1], "v_exp_f32 v20, v16", products[2]
    order = PartialOrder(StepFacts([units("\n".join(lines) + "\n")], dict.fromkeys(range(5), 0), MACHINE), 20)
    order.at = {0: 8, 2: 9, 4: 16}
    order.bound()
    with pytest.raises(NoRoom) as caught:
        place_reads(order, [1], {0: 12, 2: 10, 4: 16})
    assert re.fullmatch(r"ds_read_b128 .* has no tick: v_mfma\S* v\[0:3\].* needs what it overwrites up to tick \d+ of 20, and v_mfma\S* "
                        r"v\[16:19\].* needs what it reads at tick \d+", caught.value.sentence)
    order.latest[3] = 9
    with pytest.raises(NoRoom) as caught:
        place_compute(order)
    assert re.fullmatch(r"v_exp_f32 v20, v16 has no tick: its operands are there at tick \d+ of 20, after v_mfma\S* v\[16:19\].*, and "
                        r"v_mfma\S* v\[24:27\].* needs its result at tick 9", caught.value.sentence)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=12), st.integers(0, 60))
def test_work_is_spread_between_its_bounds(units: list[tuple[int, int, int]], end: int) -> None:
    done = list(accumulate((work for work, _, _ in units), initial=0))
    low = list(accumulate((first for _, first, _ in units), max))
    high = [first + slack for first, (_, _, slack) in zip(low, units, strict=True)]
    high = list(accumulate(reversed(high), min))[::-1]
    low = [min(first, last) for first, last in zip(low, high, strict=True)]
    found = evenly(done[:-1], low, high, (done[-1], max(end, high[-1])))
    assert len(found) == len(units) and found[0] == low[0]
    assert all(first - 1e-6 <= at <= last + 1e-6 for first, at, last in zip(low, found, high, strict=True))


def test_work_is_spread_evenly_where_bounds_allow() -> None:
    assert evenly([0, 2, 4, 6], [0] * 4, [99] * 4, (8, 20)) == pytest.approx([0, 5, 10, 15], abs=0.01)
    assert evenly([0, 2, 4, 6], [0, 0, 12, 0], [99] * 4, (8, 20)) == pytest.approx([0, 6, 12, 16], abs=0.01)  # a late operand
    assert evenly([0, 2, 4, 6], [0] * 4, [0, 4, 6, 99], (8, 20)) == pytest.approx([0, 3, 6, 13], abs=0.01)  # an early user


def scaled() -> Program:
    """Two products into each of two accumulators, scaled in place by packed multiplications, whose results are summed over the steps."""
    k = Builder("scaled", "gfx950", plan := RegisterPlan("gfx950"))
    plan.pin("hardware", s[0:17])
    plan.pin("work_item", v[0:0])
    plan.pin("addresses", v[60:61])
    plan.pin("at", s[90:90])
    count = plan.sgprs(1, "count")
    ones, products = plan.vgprs(4, "ones", align=2), [plan.vgprs(16, name, align=4) for name in ("p0", "p1")]
    factor, totals = plan.vgprs(2, "factor", align=2), plan.vgprs(2, "totals")
    load_pointers(k, 1, 0)
    for register in (*ones, *factor):
        k.v_mov_b32(register, 0x3F803F80 if register in list(ones) else 0.5)  # bf16 1 twice
    for register in totals:
        k.v_mov_b32(register, 0)
    k.s_add_u32(count, s[2], 1)
    matrix, vector = k.streams("matrix", "vector")

    def step(t: StepIndex) -> None:
        for number, product in enumerate(products):
            with k.stage(), matrix, operation(k, "product", [t]):
                k.v_mfma_f32_32x32x16_bf16(product, ones, ones, 0)
                k.v_mfma_f32_32x32x16_bf16(product, ones, ones, product)
            with k.stage(), vector, operation(k, "scale", [t]):
                for pair in range(0, 16, 2):
                    k.v_pk_mul_f32(product[pair:pair + 1], product[pair:pair + 1], factor)
                for item in range(16):
                    k.v_add_f32(totals[number], totals[number], product[item])

    pipeline(k, step, count, Modulo())
    k.s_mul_i32(s[2], s[2], 2)
    for number in range(2):
        k.v_cvt_u32_f32(totals[number], totals[number])
        store_by_item(k, totals[number].index, 64)
        k.s_add_u32(s[2], s[2], 1)
    k.s_endpgm()
    return insert(k.program())


@pytest.mark.slow
def test_packed_results_of_matrix_units_are_scaled_in_place() -> None:
    done = launch("gfx950", scaled(), (MOST, 1, 1), buffers=[np.zeros((MOST, 2, 64), np.uint32)], options=Options(True, "lockstep"))
    assert not done.findings
    for step in range(MOST):
        assert set(done.buffers[0][step].reshape(-1).tolist()) == {16 * 16 * (step + 1)}  # 2 x 16 products of 1, halved, by 16 registers


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
