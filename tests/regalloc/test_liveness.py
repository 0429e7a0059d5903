"""Liveness against a search over paths, and its counts on programs small enough to count by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asmgen.isa.registers import Reg, a, exec_, s, scc, v, vcc
from asmgen.regalloc.liveness import DeadWrite, Liveness, LivenessBlock, Pressure, RegisterAccess, pressure

BITS = 5


def op(writes: Reg | None = None, *reads: Reg, full: bool = True) -> RegisterAccess:
    """An instruction by its registers."""
    read = 0
    for reg in reads:
        read |= reg.mask
    written = writes.mask if writes is not None else 0
    return RegisterAccess(read, written, written if full else 0)


# ---- against a search over paths ----


def wanted(blocks: list[LivenessBlock], number: int, index: int, bit: int) -> bool:
    """Whether some path from before that instruction reads the bit before it is fully written; written without fixed points."""
    todo, seen = [(number, index)], set()
    while todo:
        place = todo.pop()
        if place in seen:
            continue
        seen.add(place)
        block, at = blocks[place[0]], place[1]
        if at == len(block.instructions):
            if block.live_out >> bit & 1:
                return True
            todo.extend((successor, 0) for successor in block.successors)
            continue
        access = block.instructions[at]
        if access.reads >> bit & 1:
            return True
        if not access.full_writes >> bit & 1:
            todo.append((place[0], at + 1))
    return False


@st.composite
def graphs(draw: st.DrawFn) -> list[LivenessBlock]:
    count = draw(st.integers(1, 6))
    mask = st.integers(0, 2**BITS - 1).map(lambda m: m & m >> 1)  # sparse
    blocks = []
    for _ in range(count):
        accesses = []
        for _ in range(draw(st.integers(0, 4))):
            writes = draw(mask)
            accesses.append(RegisterAccess(draw(mask), writes, writes & draw(st.integers(0, 2**BITS - 1))))
        successors = draw(st.lists(st.integers(0, count - 1), max_size=2))
        blocks.append(LivenessBlock(accesses, successors, draw(st.sampled_from([0, 0, 0, 1, 8]))))
    return blocks


@pytest.mark.slow
@settings(max_examples=400, deadline=None, derandomize=True)
@given(graphs())
def test_random_graphs_against_paths(blocks: list[LivenessBlock]) -> None:
    live = Liveness(blocks)
    position = 0
    dead = {}
    for number, block in enumerate(blocks):
        masks = [sum(wanted(blocks, number, index, bit) << bit for bit in range(BITS)) for index in range(len(block.instructions) + 1)]
        assert live.block_masks(number) == masks
        assert (live.live_in[number], live.live_out[number]) == (masks[0], masks[-1])
        for index, access in enumerate(block.instructions):
            assert live.live_before(position) == masks[index]
            assert live.locate(position) == (number, index)
            if lost := access.writes & ~masks[index + 1]:
                dead[position] = (lost, lost == access.writes)
            position += 1
    assert len(live) == position
    assert {d.position: (d.mask, d.whole) for d in live.dead_writes()} == dead


# ---- by hand ----


def loop_program() -> list[LivenessBlock]:
    """0: k = load; acc = 0 | loop 2: t = load; 3: acc += k * t; 4: t += 1 partly; 5: branch on scc | 6: store acc."""
    return [
        LivenessBlock([op(v[0:3]), op(a[0:3])], [1]),
        LivenessBlock([op(v[8:9]), op(a[0:3], a[0:3], v[0:3], v[8:9]), op(v[9], s[4], full=False), op(None, scc)], [1, 2]),
        LivenessBlock([op(None, a[0:3], s[0:1])], []),
    ]


def test_loop_keeps_its_operands_alive_over_the_back_edge() -> None:
    live = Liveness(loop_program())
    around = a[0:3].mask | v[0:3].mask | s[0:1].mask | s[4].mask | scc.mask
    assert live.live_in == (around & ~a[0:3].mask & ~v[0:3].mask, around, a[0:3].mask | s[0:1].mask)
    # v9 is written in part after its last read and not live: the loop's load overwrites both.
    assert live.dead_writes() == [DeadWrite(4, v[9].mask, True)]


def test_a_partial_write_ends_no_value() -> None:
    def before(full: bool) -> int:
        return Liveness([LivenessBlock([op(v[1], v[0], full=full), op(None, v[1])])]).live_in[0]

    assert before(True) == v[0].mask
    assert before(False) == v[0:1].mask


def test_registers_read_and_written_by_one_instruction_are_live_before() -> None:
    live = Liveness([LivenessBlock([op(v[0], v[0]), op(None, v[0])])])
    assert live.live_in == (v[0].mask,) and live.live_before(1) == v[0].mask


def test_two_ways_on() -> None:
    blocks = [LivenessBlock([op(v[5])], [1, 2]), LivenessBlock([op(v[5]), op(None, v[5])]), LivenessBlock([op(None, v[6])])]
    live = Liveness(blocks)
    assert live.live_in[0] == v[6].mask
    assert [d.position for d in live.dead_writes()] == [0]
    blocks[2] = LivenessBlock([op(None, v[5])])
    assert Liveness(blocks).dead_writes() == []


def test_pressure_counts_files_and_leaves_specials_out() -> None:
    mask = v[0:2].mask | a[4:9].mask | s[100:101].mask | vcc.mask | exec_.mask | scc.mask
    assert pressure(mask) == Pressure(3, 6, 2)


def test_dead_parts() -> None:
    blocks = [LivenessBlock([op(v[0:3]), op(s[0]), RegisterAccess(0, s[1].mask | scc.mask, s[1].mask | scc.mask), op(v[4:5]),
                             op(None, v[0:2], s[1])])]
    live = Liveness(blocks)
    assert live.dead_writes() == [DeadWrite(0, v[3].mask, False), DeadWrite(1, s[0].mask, True), DeadWrite(3, v[4:5].mask, True)]
    # SCC is looked at when asked for.
    assert DeadWrite(2, scc.mask, False) in live.dead_writes(ignore=0)


def test_empty_blocks_and_wrong_graphs() -> None:
    live = Liveness([LivenessBlock([], [2]), LivenessBlock([op(None, v[3])], []), LivenessBlock([], [1], v[4].mask)])
    assert live.live_in == (v[3:4].mask, v[3].mask, v[3:4].mask) and live.locate(0) == (1, 0)
    with pytest.raises(IndexError):
        live.live_before(1)
    with pytest.raises(ValueError, match="block 7"):
        Liveness([LivenessBlock([], [7])])
    assert len(Liveness([])) == 0
