"""The frontier against the whole program's solution: on random programs both say the same of an instruction that would come next."""

from __future__ import annotations

import random

import pytest

from asmgen.author.emit.builder import Builder
from asmgen.author.emit.ldsmap import LdsMap, LdsRange
from asmgen.author.emit.lookahead import Lookahead
from asmgen.checks.counters.flow import WaitFlow
from asmgen.checks.frontier.frontier import Frontier, Needed
from asmgen.checks.waitstates.passes import needed
from asmgen.isa.operands import OFF
from asmgen.isa.registers import a, exec_, m0, s, v, vcc
from asmgen.program.program import Instruction, Program


def whole(k: Builder, candidate: Instruction) -> tuple[dict[str, int], int]:
    """Waits and wait states of an instruction after what was built, from the program's solution."""
    program = Program("k", k.arch, (*k.items, candidate), k.stagger)
    position = len(program) - 1
    flow = WaitFlow(program, lambda at: program.instructions[at].waits in ("", "auto"))
    need = flow.need(flow.before(position), position)
    return (need.counts if need is not None else {}), needed(program).get(position, (0, ()))[0]


def emit(k: Builder, pick: random.Random, tokens: list[LdsRange]) -> Instruction:
    """A random instruction of few registers: loads, stores, LDS, scalar loads, matrix and vector instructions, waits, barriers, tokens."""
    d, x, y = (v[4 * number:4 * number + 3] for number in (pick.randrange(5) for _ in range(3)))
    base = 4 * pick.randrange(2, 5)
    scalar = s[base:base + 3]
    token = pick.choice(tokens)
    return pick.choice([
        lambda: k.global_load_dwordx4(d, v[20:21], OFF),
        lambda: k.global_store_dwordx4(v[20:21], d, OFF),
        lambda: k.ds_read_b128(d, v[22]),
        lambda: k.ds_read_b128(d, v[22], uses=token),
        lambda: k.ds_write_b128(v[22], d),
        lambda: k.ds_write_b128(v[22], d, fills=token),
        lambda: k.s_load_dwordx4(scalar, s[0:1], 0),
        lambda: k.buffer_load_dword(v[22], s[4:7], 0, offen=True, lds=True, fills=token),
        lambda: k.buffer_load_dword(v[22], s[4:7], 0, offen=True, lds=True),
        lambda: k.v_mfma_f32_16x16x16_f16(d, x[0:1], y[0:1], pick.choice((0, x))),
        lambda: k.v_mfma_f32_32x32x8_f16(a[0:15], x[0:1], y[0:1], pick.choice((0, a[0:15]))),
        lambda: k.v_accvgpr_read_b32(d[0], a[pick.randrange(16)]),
        lambda: k.v_add_f32(d[0], x[1], y[2]),
        lambda: k.v_exp_f32(d[1], x[1]),
        lambda: k.v_readfirstlane_b32(scalar[0], x[0]),
        lambda: k.v_add_u32(d[0], scalar[0], x[0]),
        lambda: k.v_cmpx_lt_f32(vcc, d[0], x[0]),
        lambda: k.s_mov_b64(exec_, -1),
        lambda: k.s_mov_b32(m0, scalar[1]),
        lambda: k.s_add_u32(scalar[0], scalar[1], 4),
        lambda: k.s_waitcnt(vmcnt=pick.randrange(4)),
        lambda: k.s_waitcnt(lgkmcnt=pick.randrange(4)),
        lambda: k.s_barrier(),
        lambda: k.s_nop(pick.randrange(6)),
    ])()


def trial(k: Builder, pick: random.Random, tokens: list[LdsRange]) -> Instruction:
    """A random instruction that the builder does not keep."""
    instruction = emit(k, pick, tokens)
    k.cut(len(k.items) - 1)
    return instruction


def compare(k: Builder, frontier: Frontier, pick: random.Random, tokens: list[LdsRange]) -> Needed:
    candidate = trial(k, pick, tokens)
    found, expected = frontier.need(candidate), whole(k, candidate)
    assert (found.waits, found.wait_states) == expected, (candidate.text, found, [str(item) for item in k.items[-40:]])
    return found


def start(pick: random.Random) -> tuple[Builder, list[LdsRange]]:
    k = Builder("k", pick.choice(("gfx942", "gfx950")), stagger=pick.randrange(2))
    lds = LdsMap(k.arch)
    return k, [lds.take(name, 1024) for name in ("one", "two")]


@pytest.mark.parametrize("seed", range(12))
def test_straight_code(seed: int) -> None:
    pick = random.Random(seed)
    k, tokens = start(pick)
    frontier = Frontier(k.arch, k.stagger)
    asked = 0
    for number in range(120):
        mode = pick.choice(("auto", "auto", "auto", "verify")) if seed % 3 == 0 else "auto"
        with k.waits(mode):
            frontier.issue(emit(k, pick, tokens))
        for _ in range(number % 3):
            seen = compare(k, frontier, pick, tokens)
            asked += bool(seen.waits or seen.wait_states)
            assert seen.path == ""
    assert asked > 10  # of 120


@pytest.mark.parametrize("seed", range(12))
def test_branches_over_code_and_loops(seed: int) -> None:
    """Forward branches join at their labels; a loop that is closed is solved with its back-edge."""
    pick = random.Random(100 + seed)
    k, tokens = start(pick)
    ahead = Lookahead(k.arch, k.stagger)
    waiting: list[str] = []
    heads: list[str] = []
    for number in range(90):
        what = pick.randrange(12)
        if what == 0 and len(waiting) < 2:
            waiting.append(k.fresh("over"))
            k.s_cbranch_scc1(waiting[-1])
        elif what == 1 and waiting:
            k.label(waiting.pop(0))
        elif what == 2 and len(heads) < 2 and not waiting:
            heads.append(k.fresh("loop"))
            k.label(heads[-1])
        elif what == 3 and heads and not waiting:
            k.s_cbranch_scc0(heads.pop())
        else:
            emit(k, pick, tokens)
        if number % 3 == 0:
            seen = compare(k, ahead.frontier_after(k.items), pick, tokens)
            assert ("for the way in" in seen.path) == bool(heads)


def test_a_copy_goes_its_own_way() -> None:
    pick = random.Random(5)
    k, tokens = start(pick)
    frontier = Frontier(k.arch, k.stagger)
    for _ in range(300):
        frontier.issue(emit(k, pick, tokens))
    other = frontier.copy()
    load = k.global_load_dwordx4(v[0:3], v[20:21], OFF)
    use = k.v_add_f32(v[30], v[0], v[1])
    before = frontier.need(use)
    other.issue(load)
    assert dict(other.need(use).waits) == {"vmcnt": 0} and frontier.need(use) == before
    assert len(frontier.instructions) < 200 and other.position == frontier.position + 1


def test_what_other_waves_fill_is_waited_for_at_the_barrier() -> None:
    """The wait for a fill stands before the barrier after which it is read, so that the read itself needs none; without one it does."""
    for barrier in (True, False):
        k = Builder("k", "gfx950")
        filled = LdsMap("gfx950").take("filled", 1024)
        k.buffer_load_dword(v[22], s[4:7], 0, offen=True, lds=True, fills=filled)
        k.global_load_dword(v[0], v[20:21], OFF)
        if barrier:
            k.s_barrier()
        seen = k.peek("ds_read_b32", v[1], v[22], uses=filled)
        assert dict(seen.waits) == ({} if barrier else {"vmcnt": 1})
        k.ds_read_b32(v[1], v[22], uses=filled)
        assert [row.brings for row in k.peek("s_nop", 0).in_flight] == ["v0", "v1"]


def test_a_wait_slot_takes_what_stands_before_it() -> None:
    k = Builder("k", "gfx950")
    k.global_load_dword(v[0], v[20:21], OFF)
    k.wait_slot()
    k.global_load_dword(v[1], v[20:21], OFF)
    assert dict(k.peek("v_mov_b32", v[2], v[0]).waits) == {}
    assert dict(k.peek("v_mov_b32", v[2], v[1]).waits) == {"vmcnt": 0}


def test_peek_in_an_unfinished_loop_says_so() -> None:
    k = Builder("k", "gfx950")
    k.label("loop")
    seen = k.peek("v_mov_b32", v[1], v[0])
    assert dict(seen.waits) == {} and "for the way in from above: no branch to loop" in seen.path
    k.v_mov_b32(v[1], v[0])
    k.global_load_dword(v[0], v[20:21], OFF)
    k.global_load_dword(v[3], v[20:21], OFF)
    k.s_cbranch_scc1("loop")
    seen = k.peek("v_mov_b32", v[1], v[3])
    assert dict(seen.waits) == {"vmcnt": 0} and seen.path == ""
    k.s_branch("end")
    assert "nothing that is placed so far leads here" in k.peek("s_nop", 0).path
    k.label("end")
    assert dict(k.peek("v_mov_b32", v[1], v[0]).waits) == {"vmcnt": 1}


def test_peek_follows_what_is_moved() -> None:
    """Merging a section changes the order after which the next instruction stands."""
    k = Builder("k", "gfx950")
    memory, matrix = k.streams("memory", "matrix")
    k.v_mov_b32(v[30], 0)
    with k.section() as section:
        with memory:
            k.global_load_dword(v[0], v[20:21], OFF)
        with matrix:
            k.global_load_dword(v[1], v[20:21], OFF)
        assert dict(k.peek("v_mov_b32", v[2], v[0]).waits) == {"vmcnt": 1}
    section.merge_streams(["matrix", "memory"])
    assert dict(k.peek("v_mov_b32", v[2], v[0]).waits) == {"vmcnt": 0}
    k.cut(len(k.items) - 1)
    assert dict(k.peek("v_mov_b32", v[2], v[0]).waits) == {}
