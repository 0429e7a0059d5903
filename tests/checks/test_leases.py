"""Lifetimes on placed code: a read under one lease never meets what another owner left, on any path; views are one owner."""

from __future__ import annotations

import random

import pytest

from asmgen.author.emit.builder import Builder
from asmgen.checks.leases.leases import check_leases, sentence, stale_reads
from asmgen.isa.operands import OFF
from asmgen.isa.registers import a, s, v, vcc
from asmgen.program.controlflow import control_flow
from asmgen.regalloc.plan import RegisterPlan
from asmgen.regalloc.ranges import OwnedReg, PlanError
from asmgen.regalloc.sets import RegisterSet


def start() -> tuple[Builder, RegisterPlan]:
    plan = RegisterPlan("gfx950")
    return Builder("k", "gfx950", plan), plan


def faults(k: Builder) -> list[tuple[int, int, int, str, str]]:
    """(reader, writer, mask, read as, written as) of each."""
    assert k.registers is not None
    return [(found.reader, found.writer, found.mask, found.read_as.name, found.written_as.name)
            for found in stale_reads(k.program(), k.registers.ranges)]


def test_the_next_owner_writes_before_it_reads() -> None:
    for writes in (True, False):
        k, plan = start()
        old = plan.vgprs(2, "old")
        k.v_mov_b32(old[1], 1)
        k.v_mov_b32(old[0], 0)
        plan.release(old)
        new = plan.vgprs(2, "new")
        out = plan.pin("out", v[8:8])
        if writes:
            k.v_mov_b32(new[0], 2)
            k.v_mov_b32(new[1], 2)
        k.v_add_f32(out, new[0], new[1])
        # The nearest writer is named; each reading operand is told once.
        assert faults(k) == ([] if writes else [(2, 1, 1, "new", "old"), (2, 0, 2, "new", "old")])
    with pytest.raises(PlanError) as caught:
        check_leases(k.program(), plan.ranges)
    said = str(caught.value)
    lines = [instruction.source.line for instruction in k.program().instructions if instruction.source is not None]
    assert f"test_leases.py:{lines[2]}" in said and f"line {lines[1]}" in said
    assert "v_add_f32 v8, v0, v1 reads v0 as 'new' (v[0:1], line" in said and "v_mov_b32 v0, 0" in said and "'old' (v[0:1]" in said


def test_what_nobody_wrote_is_no_fault() -> None:
    """The hardware fills some registers; others belong to nobody."""
    k, plan = start()
    item = plan.pin("work_item", v[0:0])
    k.v_mov_b32(plan.pin("out", v[1:1]), item)
    plan.release(item)
    k.v_mov_b32(v[1], plan.pin("after", v[0:0]))
    assert faults(k) == []


def test_a_view_reads_what_its_range_wrote_and_a_share_does_not() -> None:
    for kind, stale in (("view", False), ("share", True)):
        k, plan = start()
        scores = plan.pin("scores", v[0:7])
        second = plan.view("packed", scores[2:3]) if kind == "view" else plan.share("packed", scores[2:3])
        out = plan.pin("out", v[8:8])
        k.v_mov_b32(scores[2], 0)
        k.v_mov_b32(out, second[0])
        assert bool(faults(k)) is stale
    k, plan = start()
    scores = plan.pin("scores", v[0:7])
    turn = plan.share("turn", scores[0:3])
    inner = plan.view("inner", turn[2:3])  # a view of a share is the share's
    k.v_mov_b32(turn[2], 0)
    k.v_mov_b32(turn[1], inner[0])
    k.v_mov_b32(scores[7], inner[0])
    assert faults(k) == []
    k.v_mov_b32(turn[1], scores[2])
    assert faults(k) == [(3, 0, 1 << 2, "scores", "turn")]


def test_a_fault_that_only_the_back_edge_brings() -> None:
    """In emission order all is well: the second round reads what the share left in the first."""
    for again in (False, True):
        k, plan = start()
        data = plan.pin("data", v[0:0])
        out = plan.pin("out", v[1:1])
        turn = plan.share("turn", data)
        k.v_mov_b32(data, 5)
        k.label("loop")
        if again:
            k.v_mov_b32(data, 6)
        k.v_mov_b32(out, data)
        k.v_mov_b32(turn, 0)
        k.v_mov_b32(out, turn)
        k.s_cbranch_scc1("loop")
        assert faults(k) == ([] if again else [(1, 2, 1, "data", "turn")])


def test_a_fault_on_one_of_two_paths() -> None:
    k, plan = start()
    data = plan.pin("data", v[0:0])
    out = plan.pin("out", v[1:1])
    turn = plan.share("turn", data)
    k.v_mov_b32(turn, 0)
    k.s_cbranch_scc1("over")
    k.v_mov_b32(data, 1)
    k.label("over")
    k.v_mov_b32(out, data)
    assert faults(k) == [(3, 0, 1, "data", "turn")]
    assert "on every path" in sentence(stale_reads(k.program(), plan.ranges)[0], k.program())


def test_after_a_merge_the_placed_order_counts() -> None:
    """Two streams take turns with one register. Each order that merge accepts keeps definitions; moved by hand, the fault shows."""
    k, plan = start()
    first = plan.pin("first", v[0:0])
    second = plan.share("second", first)
    one, two = plan.pin("one", v[1:1]), plan.pin("two", v[2:2])
    memory, matrix = k.streams("memory", "matrix")
    with k.section() as section:
        with memory:
            k.v_mov_b32(first, 1)
            k.v_mov_b32(one, first)
        with matrix:
            k.v_mov_b32(second, 2)
            k.v_mov_b32(two, second)
    section.merge_streams(["memory", "memory", "matrix", "matrix"])
    assert faults(k) == []
    program = k.program()
    items = [program.items[number] for number in (0, 2, 1, 3)]
    found = stale_reads(program.with_items(items), plan.ranges)
    assert [(fault.reader, fault.writer, fault.read_as.name, fault.written_as.name) for fault in found] == [(2, 1, "first", "second")]


def test_implicit_writes_and_half_words_begin_a_value() -> None:
    k, plan = start()
    mask = plan.pin("mask", vcc)
    k.s_mov_b64(mask, -1)
    plan.release(mask)
    other = plan.pin("other", vcc)
    address = plan.pin("address", v[2:3])
    old = plan.pin("old", v[4:4])
    k.v_mov_b32(old, 0)
    plan.release(old)
    half = plan.pin("half", v[4:4])
    k.global_load_short_d16(half, address, OFF)
    k.global_load_short_d16_hi(half, address, OFF)
    k.v_mov_b32(plan.pin("out", v[5:5]), half)
    assert faults(k) == []
    saved = plan.pin("saved", s[0:1])
    k.s_mov_b64(saved, other)
    assert [fault[3:] for fault in faults(k)] == [("other", "mask")]
    k.v_cmp_lt_f32(vcc, half, half)  # without a lease: anyone's
    k.s_mov_b64(saved, other)
    assert len(faults(k)) == 1


def test_a_set_over_two_files_and_its_reordered_view() -> None:
    k, plan = start()
    keys = plan.pin("K", (a[0:3], v[8:11]))
    assert isinstance(keys, RegisterSet)
    turned = plan.view("KT", keys.reordered([7, 6, 5, 4, 3, 2, 1, 0]))
    out = plan.pin("out", v[0:0])
    for number in range(8):
        if number < 4:
            k.v_accvgpr_write_b32(keys.operand(number, 1), number)
        else:
            k.v_mov_b32(keys.operand(number, 1), number)
    k.v_mov_b32(out, turned.operand(0, 1))
    k.v_accvgpr_read_b32(out, turned.operand(4, 1))
    assert faults(k) == []
    guest = plan.share("guest", keys)
    k.v_mov_b32(out, guest.operand(4, 1))
    assert [fault[3:] for fault in faults(k)] == [("guest", "K")]
    k.v_accvgpr_write_b32(guest.operand(1, 1), 0)
    k.v_accvgpr_read_b32(out, turned.operand(6, 1))
    assert [fault[3:] for fault in faults(k)] == [("guest", "K"), ("KT", "guest")]


@pytest.mark.parametrize("seed", range(30))
def test_random_code_against_walks_of_it(seed: int) -> None:
    """The owners that reach a read, against what walks of the program meet: over enough random walks the two are the same."""
    pick = random.Random(seed)
    k, plan = start()
    base = plan.pin("base", v[0:3])
    owners = [base, plan.view("view", base), plan.share("share", base), plan.share("other", base)]
    out = plan.pin("out", v[8:8])
    labels = [f"L{number}" for number in range(3)]
    for number in range(18):
        if number % 6 == 3:
            k.label(labels[number // 6])
        what = pick.randrange(8)
        if what == 0:
            k.s_cbranch_scc1(pick.choice(labels))
        elif what < 4:
            k.v_mov_b32(out, pick.choice(owners)[pick.randrange(2)])
        else:
            k.v_mov_b32(pick.choice(owners)[pick.randrange(2)], number)
    k.s_endpgm()
    program = k.program()
    expected = set()
    family = {base.lease: 0, owners[1].lease: 0, owners[2].lease: 1, owners[3].lease: 2}
    flow = control_flow(program)
    for _ in range(600):
        wrote: dict[int, int] = {}
        number = 0
        for _ in range(12):
            block = flow.blocks[number]
            for position in range(block.first, block.last + 1):
                instruction = program.instructions[position]
                if instruction.name == "v_mov_b32":
                    target, source = instruction.operands
                    if isinstance(source, OwnedReg) and wrote.get(source.mask, family[source.lease]) != family[source.lease]:
                        expected.add((position, wrote[source.mask]))
                    if isinstance(target, OwnedReg) and target.lease in family:
                        wrote[target.mask] = family[target.lease]
            if not block.successors:
                break
            number = pick.choice(block.successors)
    found = {(fault.reader, family[fault.written_as.lease]) for fault in stale_reads(program, plan.ranges)}
    assert found == expected
