"""Cold blocks: which ones are refused, that they keep their effect, and that waits, wait states and the frontier know both paths."""

from __future__ import annotations

import numpy as np
import pytest

import asmgen as ag
from asmgen.author.emit.builder import Builder
from asmgen.author.emit.coldblocks import OPPOSITE
from asmgen.author.loop.pipeline import pipeline
from asmgen.checks.waits.insert import insert_waits
from asmgen.checks.waits.verify import verify
from asmgen.checks.waitstates.passes import insert as insert_wait_states
from asmgen.checks.waitstates.passes import verify as verify_wait_states
from asmgen.isa.errors import AsmgenError
from asmgen.isa.registers import s, scc, v
from asmgen.isa.table import find
from asmgen.program.controlflow import control_flow
from asmgen.program.program import Instruction, Label, Program
from asmgen.reader.assembly import read_text
from tests.emulator_launch import launch, load_pointers, store_by_item


def lines(k: Builder) -> list[str]:
    return [f"{item.name}:" if isinstance(item, Label) else str(item) for item in k.items if isinstance(item, Instruction | Label)]


@pytest.mark.parametrize(("branch", "opposite"), [("s_cbranch_vccz", "s_cbranch_vccnz"), ("s_cbranch_vccnz", "s_cbranch_vccz"),
                                                  ("s_cbranch_scc0", "s_cbranch_scc1"), ("s_cbranch_execnz", "s_cbranch_execz")])
def test_the_opposite_branch_enters_and_a_branch_returns(branch: str, opposite: str) -> None:
    """Two blocks in a row, and one that stays."""
    k = Builder("k", "gfx950")
    for number, cold in enumerate((True, True, False)):
        with k.block("raise it", cold=cold):
            k.emit(branch, f"skip{number}")
            k.v_mov_b32(v[1], number)
            k.label(f"skip{number}")
    k.s_endpgm()
    written = lines(k)
    k.place_cold_blocks()
    assert lines(k) == [f"{opposite} raise_it_1", "skip0:", f"{opposite} raise_it_2", "skip1:", *written[6:],
                        "raise_it_1:", "v_mov_b32 v1, 0", "s_branch skip0", "raise_it_2:", "v_mov_b32 v1, 1", "s_branch skip1"]
    k.place_cold_blocks()  # once is enough
    assert lines(k)[-1] == "s_branch skip1" and lines(k).count("s_branch skip1") == 1
    k.program()


def test_scalar_code_that_makes_the_condition_stays() -> None:
    """And what it writes always is not what the block reads, so that merge may place it anywhere."""
    k = Builder("k", "gfx950")
    with k.section() as section:
        for number, front in enumerate((True, False)):
            with k.block("mask", cold=True):
                if front:
                    k.s_cmp_lt_u32(s[8], s[9])
                k.s_cbranch_scc1(f"seen{number}")
                k.v_mov_b32(v[1], number)
                k.s_add_u32(s[10], s[10], 1)
                k.label(f"seen{number}")
    assert [bool(unit.effects.reads & scc.mask) for unit in section.units] == [False, True]
    assert all(unit.effects.reads & one.mask for unit in section.units for one in (v[1], s[10]))
    k.s_endpgm()
    k.place_cold_blocks()
    k.place_cold_blocks()
    assert lines(k)[:4] == ["s_cmp_lt_u32 s8, s9", "s_cbranch_scc0 mask_1", "seen0:", "s_cbranch_scc0 mask_2"]
    assert lines(k)[6:10] == ["mask_1:", "v_mov_b32 v1, 0", "s_add_u32 s10, s10, 1", "s_branch seen0"]


def test_every_conditional_branch_of_the_table_has_its_opposite() -> None:
    assert all(find(name) is not None and OPPOSITE[OPPOSITE[name]] == name != OPPOSITE[name] for name in OPPOSITE)
    assert len(OPPOSITE) == 6


def test_what_cannot_be_a_cold_block_is_refused() -> None:
    k = Builder("k", "gfx950")
    with pytest.raises(AsmgenError, match="begin with the conditional branch .* but v_mov_b32 v1, 1 stands there"), \
            k.block("late", cold=True):
        k.v_mov_b32(v[1], 1)
        k.s_cbranch_vccz("skip")
        k.label("skip")
    with pytest.raises(AsmgenError, match="s_branch other stands there"), k.block("always", cold=True):
        k.s_branch("other")
        k.label("other")
    with pytest.raises(AsmgenError, match="it is empty"), k.block("nothing", cold=True):
        pass
    with pytest.raises(AsmgenError, match="its label must be the block's last item, which is v_mov_b32 v2, 1"), k.block("more", cold=True):
        k.s_cbranch_vccz("early")
        k.label("early")
        k.v_mov_b32(v[2], 1)
    k = Builder("k", "gfx950")
    with k.block("rare", cold=True):
        k.s_cbranch_vccz("behind")
        k.v_mov_b32(v[1], 1)
        k.label("behind")
    k.v_mov_b32(v[2], 2)
    with pytest.raises(AsmgenError, match="cold block 'rare' goes after s_endpgm, but the kernel's last instruction is v_mov_b32"):
        k.place_cold_blocks()


def loop(cold: bool) -> Program:
    """A block in a loop whose load and whose address are used behind it: the way past it needs neither a wait nor a nop."""
    k = Builder("k", "gfx950")
    k.label("again")
    with k.block("rare", cold):
        k.s_cbranch_vccz("behind")
        k.v_mov_b32(v[7], 1)
        k.global_load_dword(v[1], v[2], s[4:5])
        k.v_readfirstlane_b32(s[10], v[3])
        k.label("behind")
    k.global_store_dword(v[2], v[4], s[10:11])
    k.v_add_u32(v[6], v[1], v[6])
    k.s_sub_u32(s[8], s[8], 1)
    k.s_cbranch_scc0("again")
    k.global_store_dword(v[2], v[6], s[4:5])
    k.s_endpgm()
    k.place_cold_blocks()
    return k.program()


@pytest.mark.parametrize("cold", [True, False])
def test_waits_and_wait_states_know_the_way_through_the_block(cold: bool) -> None:
    done = insert_wait_states(insert_waits(loop(cold)))
    assert not [one for one in verify(done, notes=False) if one.severity == "error"]
    assert not [one for one in verify_wait_states(done) if one.severity == "error"]
    for gone, check in (("s_waitcnt", lambda program: verify(program, notes=False)), ("s_nop", verify_wait_states)):
        inserted = [place for place, item in enumerate(done.items) if isinstance(item, Instruction) and item.name == gone]
        assert inserted
        for place in inserted:
            without = done.with_items(done.items[:place] + done.items[place + 1:])
            assert [one for one in check(without) if one.severity == "error"], f"{gone} at {place} is not missed"


def odd(k: Builder) -> None:
    """y = work-item, of odd workgroups three times that, in 4 rounds of which each adds 1."""
    load_pointers(k, 1)
    k.v_and_b32(v[1], 0x3FF, v[0])
    k.s_mov_b32(s[20], 3)
    k.label("round")
    k.s_and_b32(s[21], s[2], 1)
    with k.block("odd workgroup", cold=True):
        k.s_cbranch_scc0("even")
        k.v_add_u32(v[1], 2, v[1])
        k.label("even")
    k.v_add_u32(v[1], 1, v[1])
    k.s_sub_u32(s[20], s[20], 1)
    k.s_cbranch_scc0("round")
    store_by_item(k, 1, 64)
    k.s_endpgm()


@pytest.mark.parametrize("placed", [True, False])
def test_the_same_comes_out(placed: bool) -> None:
    def emit(k: Builder) -> None:
        odd(k)
        if placed:
            k.place_cold_blocks()
        assert lines(k)[-1] == ("s_branch even" if placed else "s_endpgm")

    launched = launch("gfx950", emit, (3, 1, 1), buffers=[np.zeros((3, 64), np.uint32)])
    assert not launched.findings
    assert (launched.buffers[0] == np.arange(64) + np.array([[4], [12], [4]])).all()


def test_what_a_block_has_hoisted_is_no_part_of_it() -> None:
    """Lanes of a maximum over gfx942's lanes take an address, made in front of the loop when the step first asks for it."""
    plan = ag.RegisterPlan("gfx942")
    k = Builder("k", "gfx942", plan)
    (vector,) = k.streams("vector")
    total, address, count = plan.vgprs(1, "total"), plan.vgprs(1, "address"), plan.sgprs(1, "count")
    hoisted: list[int] = []

    def step(t: ag.StepIndex) -> None:
        with k.stage(), vector, k.at(t), k.block("rare", cold=True):
            k.s_cbranch_vccz(skip := k.fresh("skip"))
            if not hoisted:
                hoisted.append(k.hoist(lambda: k.v_mov_b32(address, 4)) is not None)
            k.ds_bpermute_b32(total, address, total)
            k.label(skip)

    pipeline(k, step, count, ag.InOrder())
    k.s_endpgm()
    k.place_cold_blocks()
    assert lines(k)[0] == "v_mov_b32 v1, 4" and lines(k).count("v_mov_b32 v1, 4") == 1
    assert next(line for line in lines(k) if line.startswith("s_cbranch_vcc")).startswith("s_cbranch_vccnz rare_")


def looping(test_after: bool = False) -> tuple[Builder, Program]:
    """Two loops, plain and masked, each of two copies with a cold block of nine instructions; workgroup (x, y): x plain, y masked steps."""
    k = Builder("shares", "gfx950", plan := ag.RegisterPlan("gfx950"))
    plan.pin("hardware", s[0:17])
    plan.pin("work_item", v[0:0])
    plan.pin("addresses", v[60:61])
    plan.pin("at", s[90:90])
    total, plain, seen, held = plan.sgprs(1, "total"), plan.sgprs(1, "plain"), plan.sgprs(1, "seen"), plan.vgprs(2, "held")
    load_pointers(k, 1, 0)
    k.s_mov_b32(plain, s[2])
    k.s_add_u32(total, s[2], s[3])
    k.s_add_u32(total, total, 1)
    k.s_mov_b32(seen, 0)
    for register in (held[0], held[1]):
        k.v_mov_b32(register, 0)
    only, = k.streams("only")

    def step(t: ag.StepIndex) -> None:
        with k.stage(), only, k.at(t):
            k.v_add_u32(held[0], 1, held[0])
            k.s_nop(t.buffer(2))
            with t.masked:
                k.v_add_u32(held[0], 0, held[0])
            with k.block("rare", cold=True):
                skip = k.fresh("usual")
                k.s_add_u32(seen, seen, 1)
                k.s_bitcmp1_b32(seen, 1)
                k.s_cbranch_scc0(skip)
                for number in range(9):
                    k.v_add_u32(held[1], number, held[1])
                k.label(skip)
            if test_after:
                k.s_addc_u32(seen, seen, 0)

    pipeline(k, step, total, ag.InOrder(), plain=plain)
    k.v_lshl_or_b32(held[0], held[1], 8, held[0])
    k.s_mul_i32(s[2], s[2], 8)
    k.s_add_u32(s[2], s[2], s[3])
    store_by_item(k, held[0].index, 64)
    k.s_endpgm()
    k.place_cold_blocks()
    return k, k.program()


def test_equal_cold_blocks_of_the_loops_become_one_for_each_phase() -> None:
    k, program = looping()
    written = lines(k)
    assert sum(line.startswith("shared_rare") for line in written) == 2 and written.count("s_waitcnt vmcnt(0)") == 2
    assert written.count("v_add_u32 v1, 8, v1") + written.count("v_add_u32 v2, 8, v2") < 4
    done = launch("gfx950", program, (8, 8, 1), buffers=[np.zeros((8, 8, 64), np.uint32)])
    assert not done.findings
    for n0, n1 in np.ndindex(8, 8):
        count = n0 + n1 + 1
        rare = sum(number >> 1 & 1 for number in range(1, count + 1))
        assert set(done.buffers[0][n0, n1].tolist()) == {36 * rare << 8 | count}, (n0, n1)


def test_a_cold_block_is_not_shared_where_an_scc_from_before_it_is_read() -> None:
    k, _ = looping(test_after=True)
    assert not [line for line in lines(k) if line.startswith("shared_")]


def test_loops_with_shared_blocks_are_those_without() -> None:
    _, program = looping()
    flow = control_flow(program)
    found = [(program.instructions[loop.first:loop.last + 1], loop) for loop in flow.loops()]
    assert len(found) == 2 and len(flow.shared) == 8
    assert [sum(one.name == "v_add_u32" for one in inside) for inside, _ in found] == [2, 4]


@pytest.mark.parametrize("text", [
    # the number is not known on one way in; another block leads in as well; the comparisons lead nowhere else
    "s_mov_b32 s9, s8\ns_branch shared\nsecond:\ns_mov_b32 s9, 1\n",
    "s_mov_b32 s9, 0\ns_cbranch_vccz shared\ns_branch shared\nsecond:\ns_mov_b32 s9, 1\n"])
def test_what_is_no_shared_block_keeps_its_edges(text: str) -> None:
    whole = f"{text}shared:\nv_mov_b32 v1, 0\ns_cmp_eq_u32 s9, 0\ns_cbranch_scc1 second\ns_branch last\nlast:\ns_endpgm\n"
    assert not control_flow(read_text(whole, "gfx950")[0]).shared
