"""Waves of different roles: barriers meet by ordinal on every path, waits follow, and what races is found."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.author.emit.ldsmap import LdsMap, LdsRange
from asmgen.author.loop.pipeline import pipeline
from asmgen.author.ops.arithmetic import mma, zero
from asmgen.author.ops.movement import fill as fill_tile
from asmgen.author.ops.movement import read as read_tile
from asmgen.author.ops.tilememory import store_tile
from asmgen.author.schedule.schedules import ProducerConsumer
from asmgen.author.step.iterations import PipelineError, StepIndex, operation
from asmgen.author.tiles.fragments import mfma
from asmgen.author.tiles.swizzles import DmaFill, FragmentRead
from asmgen.author.tiles.tiles import TileError
from asmgen.checks.mutants.mutants import Judge, mutants
from asmgen.checks.waits.verify import verify
from asmgen.checks.waits.waitmodes import apply_waits
from asmgen.isa.registers import m0, s, v
from asmgen.kernels.registry import family
from asmgen.program.program import Instruction, Program
from asmgen.program.text import program_text
from asmgen.reader.assembly import ReadError, read_text
from tests.author.test_tile_memory import matrix
from tests.tile_harness import Array, TileRun, rounded

A, B = LdsRange("A", 0, 1024), LdsRange("B", 1024, 2048)
Part = Callable[[Builder], object]


def fill(k: Builder, token: LdsRange) -> None:
    k.s_mov_b32(m0, token.low)
    k.s_nop(0)
    k.buffer_load_dwordx4(v[0], s[4:7], 0, offen=True, lds=True, fills=token)


def read(k: Builder, token: LdsRange) -> None:
    k.ds_read_b128(v[4:7], v[1], uses=token)


def roles(consumers: Part, producers: Part) -> Builder:
    k = Builder("k", "gfx950")
    k.s_cmp_eq_u32(s[2], 0)
    k.s_cbranch_scc1("consumers")
    k.label("producers")
    producers(k)
    k.s_endpgm()
    k.label("consumers")
    consumers(k)
    k.s_endpgm()
    k.roles = "consumers", "producers"
    return k


def errors(program: Program | Builder) -> list[tuple[str, str, str]]:
    """(rule, producer, consumer) of each error."""
    findings = verify(program.program() if isinstance(program, Builder) else program)
    return [(row.rule, row.producer.name if row.producer else "", row.consumer.name) for row in findings if row.severity == "error"]


def once(wait: int | None = 0, barrier: bool = True, late: bool = False) -> Builder:
    """A is filled by one role, and read by the other after a barrier; `late` puts the barrier after the read."""
    def producers(k: Builder) -> None:
        fill(k, A)
        fill(k, B)
        if wait is not None:
            k.s_waitcnt(vmcnt=wait)
        if barrier:
            k.s_barrier()

    def consumers(k: Builder) -> None:
        if late:
            read(k, A)
        k.s_barrier()
        if not late:
            read(k, A)
        k.s_waitcnt(lgkmcnt=0)

    return roles(consumers, producers)


def test_a_fill_is_waited_for_before_the_barrier_that_meets_the_readers() -> None:
    assert errors(once(1)) == errors(once(0)) == []
    for wait in (2, None):
        assert errors(once(wait)) == [("W002", "buffer_load_dwordx4", "s_barrier")]


def test_no_role_reads_what_another_fills_between_the_same_barriers() -> None:
    assert errors(once(late=True)) == [("W003", "buffer_load_dwordx4", "ds_read_b128")]
    assert errors(once(barrier=False)) == []  # a barrier does not wait for waves that have ended


def test_a_read_is_waited_for_before_the_barrier_that_meets_the_refill() -> None:
    def producers(k: Builder) -> None:
        k.s_barrier()
        fill(k, A)

    for wait in (True, False):
        def consumers(k: Builder, wait: bool = wait) -> None:
            read(k, A)
            if wait:
                k.s_waitcnt(lgkmcnt=0)
            k.s_barrier()

        assert errors(roles(consumers, producers)) == ([] if wait else [("W002", "ds_read_b128", "s_barrier")])


def loops(count: str = "s20", more: str = "") -> Program:
    """A is filled while B is read, and the other way round. Producers count in `count`, `more` stands in their loop."""
    fill_a, fill_b = (f"buffer_load_dwordx4 v0, s[4:7], 0 offen lds ; {token.written()}\n s_waitcnt vmcnt(0)" for token in (A, B))
    read_a, read_b = (f"ds_read_b128 v[4:7], v1 ; {token.read()}\n s_waitcnt lgkmcnt(0)" for token in (A, B))
    (program,) = read_text(f"""
        ; roles consumers producers
        s_cmp_eq_u32 s2, 0
        s_cbranch_scc1 consumers
        producers:
        {fill_a}
        s_barrier
        fills:
        {fill_b}
        s_barrier
        {fill_a}
        {more}
        s_sub_u32 {count}, {count}, 1
        s_barrier
        s_cbranch_scc0 fills
        s_endpgm
        consumers:
        s_barrier
        reads:
        {read_a}
        s_barrier
        {read_b}
        s_barrier
        s_sub_u32 s20, s20, 1
        s_cbranch_scc0 reads
        {read_a}
        {read_b}
        s_endpgm""", "gfx950", "k")
    return program


def test_loops_that_count_alike_are_followed_round_by_round() -> None:
    assert loops().roles == ("consumers", "producers") and errors(loops()) == []


def test_loops_that_count_otherwise_may_meet_anywhere() -> None:
    """Producers that go on may refill B, which consumers read after their loop: with a count of their own, or one they alone change."""
    assert {rule for rule, _, _ in errors(loops("s21"))} == {"W003"}
    assert {rule for rule, _, _ in errors(loops(more="s_mov_b32 s20, 7"))} == {"W003"}
    assert errors(loops(more="s_mov_b32 s21, 7")) == []


def test_a_barrier_too_few_or_too_many_shifts_all_that_follow() -> None:
    program = loops()
    places = [number for number, item in enumerate(program.items) if isinstance(item, Instruction) and item.name == "s_barrier"]
    assert len(places) == 6
    for place in places:
        assert errors(program.with_items(program.items[:place] + program.items[place + 1:])), place
    assert errors(loops(more="s_barrier"))


def test_waits_are_inserted_for_the_other_role() -> None:
    lds = LdsMap("gfx950")
    stages = [lds.take(name, 1024) for name in "AB"]

    def producers(k: Builder) -> None:
        for token in stages:
            fill(k, token)
        for _ in stages:
            k.s_barrier()

    def consumers(k: Builder) -> None:
        for token in stages:
            k.s_barrier()
            read(k, token)

    program = apply_waits(roles(consumers, producers).program(), "auto")
    waits = [instruction.text for instruction in program.instructions if instruction.text.startswith("s_waitcnt vmcnt")]
    assert waits == ["s_waitcnt vmcnt(1)", "s_waitcnt vmcnt(0)"] and errors(program) == []


def test_roles_are_written_and_read_back() -> None:
    text = program_text(once().program())
    assert "; roles consumers producers" in text
    (program,) = read_text(text, "gfx950")
    assert program.roles == ("consumers", "producers") and program_text(program) == text
    with pytest.raises(ReadError, match="roles names the label nowhere, which is not there"):
        read_text("\t; roles nowhere\n\ts_endpgm\n", "gfx950")


def test_a_pipeline_of_roles_says_what_it_needs() -> None:
    k = Builder("k", "gfx950")

    def step(t: StepIndex) -> None:
        with k.at(t + 1):
            fill(k, A)
        with k.at(t):
            k.s_mov_b32(s[9], m0)

    with pytest.raises(PipelineError, match=r"gives waves different roles; pipeline needs groups=.* which role a wave has"):
        pipeline(k, step, 3, ProducerConsumer())
    with pytest.raises(PipelineError, match="s_mov_b32 s9, m0 reads m0 of s_mov_b32 m0, 0, which waves of the other role execute"):
        pipeline(k, step, 3, ProducerConsumer(), s[3])


def test_roles_have_the_same_barriers_on_every_path() -> None:
    """A step is filled one step early: so many barriers stand on either way through, for every count."""
    for count in (1, 2, 3, 4):
        k = Builder("k", "gfx950")

        def step(t: StepIndex, k: Builder = k) -> None:
            with k.stage(), operation(k, "fill", [t + 1]):
                fill(k, (A, B)[(t + 1).buffer(2)])
            with k.stage(), operation(k, "read", [t]):
                read(k, (A, B)[t.buffer(2)])

        pipeline(k, step, count, ProducerConsumer(), s[3])
        program = apply_waits(k.program(), "auto")
        assert errors(program) == []
        parts = program_text(program).split("consumers_")
        barriers = [part.count("s_barrier") for part in (parts[-2], parts[-1])]
        assert program.roles and barriers[0] == barriers[1] > 0
        assert "buffer_load" in parts[-2] and "ds_read" not in parts[-2] and "buffer_load" not in parts[-1] and "ds_read" in parts[-1]


def test_a_role_without_waves_is_refused() -> None:
    for producers in (0, 4):
        with pytest.raises(TileError, match=f"{producers} of 4 waves cannot be producers; 1 to 3 can"):
            TileRun("gfx950", 4).k.cast(producers)


def product(count: int, again: bool = False) -> tuple[Array, Array, list[str]]:
    """(what the kernel gives, A B^T, its code) with 64 columns a step: a wave fills A one step ahead and B two, another one multiplies.
    With `again` the wave fills twice from one view of A."""
    values = [np.random.default_rng(seed).normal(size=(16, 64 * count)) for seed in (1, 2)]
    run = TileRun("gfx950", waves=2)
    k, M = run.k, mfma("f32_16x16x32_bf16", "gfx950")
    first = k.registers.sgprs(1, "first")
    k.s_mov_b32(first, 0)
    a, b = (matrix(run, one, "bf16", 16, 64 * count).rows(first, 16) for one in values)
    out = matrix(run, np.zeros((16, 16)), "f32", 16, 16).rows(first, 16)
    role = k.cast(1)
    X, Y, C = run.tile("X", (16, 64), M.a), run.tile("Y", (16, 64), M.b), run.tile("C", (16, 16), M.d)
    zero(k, C)
    As, Bs = (k.shared(name, "bf16", 16, 64, stages=3, serves=(FragmentRead(side), DmaFill())) for name, side in (("As", M.a), ("Bs", M.b)))

    def step(t: StepIndex) -> None:
        with k.stage():
            read_tile(k, X, As[t])
            read_tile(k, Y, Bs[t])
            fill_tile(k, As[t + 1], a.k(t + 1))
            if again:
                fill_tile(k, Bs[t + 1], a.k(t + 1))
            else:
                fill_tile(k, Bs[t + 2], b.k(t + 2))
        with k.stage():
            mma(k, C, X, Y)

    k.pipeline(step, count, ProducerConsumer(), groups=role)
    store_tile(k, out, C)
    found = run.launch().buffers[4].view(np.float32)
    one, other = (rounded(part, "bf16", "gfx950") for part in values)
    return found.reshape(16, 16), one @ other.T, [instruction.text for instruction in run.program.instructions]


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_a_producers_source_goes_on_where_m0_wants_a_wait_state(count: int) -> None:
    found, exact, code = product(count)
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-3)
    after = [code[number + 1] for number, text in enumerate(code) if text.startswith("s_add_u32 m0")]
    assert len(after) >= 2 * min(count, 3) and all(re.fullmatch(r"s_add_u32 (s\d+), \1, 0x80", text) for text in after)


def test_a_producers_source_serves_one_fill_of_a_step() -> None:
    with pytest.raises(TileError, match=r"p2.k\(t\+1\) fills twice in a step, and counts its steps by that: another view"):
        product(3, again=True)


def test_lint_finds_every_weaker_wait_and_barrier_of_the_librarys_roles() -> None:
    program = family("gemm-bf16").build("gfx950", {"schedule": "producer-consumer"}).program
    judge = Judge(program)
    changed = [mutant for mutant in mutants(program) if mutant.kind in ("wait", "count", "barrier")]
    assert [str(mutant) for mutant in changed if not judge.notices(mutant)] == []
    assert {mutant.kind for mutant in changed} == {"wait", "count", "barrier"}
