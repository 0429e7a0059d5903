"""Merging streams: whatever order is accepted gives what emission order gives, and one that changes a reaching definition is refused."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from asmgen.author.builders.tilebuilder import TileBuilder
from asmgen.author.contract.contract import Alias, ContractArgument, Formula, KernelContract
from asmgen.author.emit.builder import Builder, Section
from asmgen.author.emit.ldsmap import LdsRange
from asmgen.author.step.effects import MemoryAccess
from asmgen.author.step.merge import MergeError
from asmgen.isa.errors import AsmgenError
from asmgen.isa.operands import OFF
from asmgen.isa.registers import Reg, exec_, m0, s, v, vcc
from asmgen.program.program import Instruction, Program
from asmgen.regalloc.plan import RegisterPlan
from tests.emulator_harness import run

Emit = Callable[[Builder], None]
V, S = [v[number:number] for number in range(6)], [s[number:number] for number in range(4)]


def random_instruction(k: Builder, pick: random.Random) -> None:
    """One instruction on a few registers, SCC, VCC, M0 and EXEC among what it reads and writes."""
    d, x, y = pick.choice(V), pick.choice(V), pick.choice(V)
    sd, sx, sy = pick.choice(S), pick.choice(S), pick.choice(S)
    pick.choice([
        lambda: k.v_add_u32(d, x, y),
        lambda: k.v_xor_b32(d, sx, y),
        lambda: k.v_mov_b32(d, x),
        lambda: k.v_mov_b32(d, pick.randrange(64)),
        lambda: k.v_cndmask_b32(d, x, y, vcc),
        lambda: k.v_cmp_lt_u32(vcc, x, y),
        lambda: k.v_add_co_u32(d, vcc, x, y),
        lambda: k.v_mad_u32_u24(d, x, y, d),
        lambda: k.v_readfirstlane_b32(sd, x),
        lambda: k.v_mov_b32_sdwa(d, x, dst_sel="WORD_1", dst_unused="UNUSED_PRESERVE", src0_sel="WORD_0"),
        lambda: k.s_add_u32(sd, sx, sy),
        lambda: k.s_addc_u32(sd, sx, sy),
        lambda: k.s_cselect_b32(sd, sx, sy),
        lambda: k.s_mov_b32(m0, sx),
        lambda: k.v_add_u32(d, m0, x),
        lambda: k.s_and_saveexec_b64(s[4:5], vcc),
        lambda: k.s_mov_b64(exec_, -1),
        lambda: k.s_mov_b64(exec_, s[4:5]),
        lambda: k.s_xor_b64(exec_, exec_, s[6:7]),
    ])()


def random_streams(seed: int, count: int) -> tuple[Builder, Section]:
    pick = random.Random(seed)
    k = Builder("streams", "gfx950")
    streams = k.streams("one", "two", "three")[:pick.choice((2, 3))]
    with k.section() as section:
        for _ in range(count):
            with pick.choice(streams):
                random_instruction(k, pick)
    return k, section


def state(program: Program) -> tuple[np.ndarray, ...]:
    """All registers behind a program that starts from values of its own in every lane."""
    random_values = np.random.default_rng(7)
    vgprs = {number: random_values.integers(0, 2**32, 64, dtype=np.uint32) for number in range(6)}
    sgprs = {number: int(value) for number, value in enumerate(random_values.integers(0, 2**32, 8))}

    def emit(k: Builder) -> None:
        k.items.extend(program.items)

    result = run("gfx950", emit, vgprs=vgprs, sgprs=sgprs, exec_mask=0xFFFF0000FF00F0F3, vcc=0x123456789ABCDEF0, m0=3, scc=True)
    return result.machine.vector[:6].copy(), result.machine.scalar.copy(), result.machine.scc.copy()


def same(first: tuple[np.ndarray, ...], second: tuple[np.ndarray, ...]) -> bool:
    return all(np.array_equal(left, right) for left, right in zip(first, second, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("group", range(4))
def test_accepted_orders_give_what_emission_order_gives(group: int) -> None:
    counts = [try_orders(seed) for seed in range(15 * group, 15 * group + 15)]
    assert sum(accepted for accepted, _ in counts) > 30 and sum(refused for _, refused in counts) > 300


def try_orders(seed: int) -> tuple[int, int]:
    """(accepted, refused) of 40 orders of the same streams; whatever is accepted must give the same registers."""
    pick = random.Random(1000 + seed)
    accepted = refused = 0
    reference = None
    for _ in range(40):
        k, section = random_streams(seed, 9)
        reference = reference or state(k.program())
        order = list(range(len(section.units)))
        for _ in range(pick.choice((1, 2, 4))):  # swaps of neighbours: near enough to be accepted now and then
            at = pick.randrange(len(order) - 1)
            order[at], order[at + 1] = order[at + 1], order[at]
        before = list(k.items)
        try:
            section.merge(order)
        except MergeError as error:
            assert k.items == before, "a refused order changes nothing"
            assert "from" in error.sentence or "behind" in error.sentence or "before" in error.sentence
            refused += 1
        else:
            assert same(state(k.program()), reference), order
            accepted += 1
    return accepted, refused


def test_every_order_that_changes_a_result_is_refused() -> None:
    """All orders of short sequences: what is accepted gives the same, and something is accepted beyond emission order."""
    from itertools import permutations

    wider = 0
    for seed in range(12):
        k, section = random_streams(500 + seed, 4)
        reference = state(k.program())
        for order in permutations(range(len(section.units))):
            k, section = random_streams(500 + seed, 4)
            try:
                section.merge(order)
            except MergeError:
                continue
            wider += order != tuple(range(len(order)))
            assert same(state(k.program()), reference), (seed, order)
    assert wider > 12


def section_of(emit: Callable[[Builder, Section], None]) -> tuple[Builder, Section]:
    k = Builder("k", "gfx950")
    with k.section() as section:
        emit(k, section)
    return k, section


def refusal(order: list[int], *emitted: Callable[[Builder], object]) -> str:
    k = Builder("k", "gfx950")
    streams = k.streams(*(f"s{number}" for number in range(len(emitted))))
    with k.section() as section:
        for stream, emit in zip(streams, emitted, strict=True):
            with stream:
                emit(k)
    with pytest.raises(MergeError) as caught:
        section.merge(order)
    assert caught.value.where.startswith("tests/author/test_merge.py:")
    return caught.value.sentence


def accepts(order: list[int], *emitted: Callable[[Builder], object]) -> list[str]:
    k = Builder("k", "gfx950")
    with k.section() as section:
        for emit in emitted:
            emit(k)
    section.merge(order)
    return [item.text for item in k.items if isinstance(item, Instruction)]


def test_a_refusal_names_reader_definition_and_intruder() -> None:
    sentence = refusal([0, 2, 1], lambda k: k.v_mov_b32(v[1], 1), lambda k: k.v_add_u32(v[2], v[1], v[1]), lambda k: k.v_mov_b32(v[1], 3))
    assert sentence.startswith("v_add_u32 v2, v1, v1 reads v1 from v_mov_b32 v1, 1 (tests/author/test_merge.py:")
    assert "but v_mov_b32 v1, 3 (tests/author/test_merge.py:" in sentence and sentence.endswith("is placed between")


def test_flags_m0_and_exec_count_as_registers() -> None:
    assert "scc" in refusal([0, 2, 1], lambda k: k.s_add_u32(s[0], s[1], s[2]), lambda k: k.s_addc_u32(s[3], s[4], s[5]),
                            lambda k: k.s_add_u32(s[6], s[1], s[2]))
    assert "m0" in refusal([1, 0], lambda k: k.s_mov_b32(m0, 64), lambda k: k.buffer_load_dword(v[1], s[8:11], 0, offen=True, lds=True))
    assert "exec" in refusal([1, 0], lambda k: k.s_mov_b64(exec_, s[0:1]), lambda k: k.v_mov_b32(v[1], 2))


def test_overwriting_after_a_read_is_an_edge() -> None:
    """The reader of v1 may stand anywhere between its definition and the next one, and no further."""
    emitted = (lambda k: k.v_mov_b32(v[1], 1), lambda k: k.v_mov_b32(v[3], 5), lambda k: k.v_add_u32(v[2], v[1], v[1]),
               lambda k: k.v_mov_b32(v[1], 3))
    assert accepts([0, 2, 3, 1], *emitted)[1] == "v_add_u32 v2, v1, v1"


def test_a_full_write_ends_what_partial_writes_left() -> None:
    """Under one EXEC the second write covers the first, so the first may not move behind it; under two both count."""
    refusal([2, 1, 0], lambda k: k.v_mov_b32(v[1], 1), lambda k: k.s_mov_b64(exec_, s[0:1]), lambda k: k.v_mov_b32(v[1], 2))


def test_lds_ranges_keep_their_order_and_others_may_change_places() -> None:
    a0, a1 = LdsRange("A[0]", 0, 1024), LdsRange("A[1]", 1024, 2048)
    fill, read = (lambda r: lambda k: k.ds_write_b32(v[1], v[2], offset=r.low, fills=r)), \
        (lambda r: lambda k: k.ds_read_b32(v[3], v[1], offset=r.low, uses=r))
    assert "LDS A[0]" in refusal([1, 0], fill(a0), read(a0))
    assert accepts([1, 0], fill(a0), read(a1))[0].startswith("ds_read")
    assert "LDS" in refusal([1, 0], fill(a0), lambda k: k.ds_read_b32(v[3], v[1]))


def test_two_parts_of_one_fill_may_change_places() -> None:
    a0 = LdsRange("A[0]", 0, 1024)
    emitted = [lambda k, n=n: k.ds_write_b32(v[1], v[2], offset=n, fills=a0) for n in (0, 512)]
    assert accepts([1, 0], *emitted)[0].endswith("offset:512")


def test_global_stores_keep_their_order_and_loads_need_not() -> None:
    load = lambda n: lambda k: k.global_load_dword(v[n], v[8:9], OFF)  # noqa: E731
    assert accepts([1, 0], load(1), load(2))[0].startswith("global_load_dword v2")
    assert "global memory" in refusal([1, 0], load(1), lambda k: k.global_store_dword(v[8:9], v[3], OFF))


def test_nothing_crosses_a_barrier() -> None:
    sentence = refusal([1, 0], lambda k: k.v_mov_b32(v[1], 1), lambda k: k.s_barrier())
    assert "nothing crosses a barrier" in sentence


def test_a_priority_keeps_its_position_in_its_own_stream_only() -> None:
    k = Builder("k", "gfx950")
    memory, matrix = k.streams("memory", "matrix")
    with k.section() as section:
        with memory:
            k.s_setprio(1)
            k.v_mov_b32(v[1], 1)
        with matrix:
            k.v_mov_b32(v[2], 1)
    with pytest.raises(MergeError, match="may not move in its stream"):
        section.merge([1, 0, 2])
    section.merge([2, 0, 1])
    assert [str(item) for item in k.items] == ["v_mov_b32 v2, 1", "s_setprio 1", "v_mov_b32 v1, 1"]


def rescale(k: Builder) -> None:
    with k.block("rescale"):
        k.s_cbranch_scc0("skip")
        k.v_mul_f32(v[1], v[2], v[1])
        k.label("skip")


def test_a_block_is_placed_whole_and_its_writes_end_no_definition() -> None:
    k = Builder("k", "gfx950")
    matrix, vector = k.streams("matrix", "vector")
    with k.section() as section:
        with matrix:
            k.v_mov_b32(v[1], 1)
            k.v_mov_b32(v[5], 1)
        with vector:
            rescale(k)
        with matrix:
            k.v_mov_b32(v[6], 1)
            k.v_add_f32(v[3], v[1], v[1])
    assert [len(unit.items) for unit in section.units] == [1, 1, 3, 1, 1]
    with pytest.raises(MergeError, match=r"block 'rescale#1' .*reads v1|reads v1 from block"):
        section.merge([0, 1, 3, 4, 2])
    section.merge([0, 2, 3, 1, 4])
    texts = [str(item.name if not isinstance(item, Instruction) else item) for item in k.items]
    assert texts[1:4] == ["s_cbranch_scc0 skip", "v_mul_f32 v1, v2, v1", "skip"]


def test_a_block_has_one_exit_and_no_barrier() -> None:
    k = Builder("k", "gfx950")
    with pytest.raises(AsmgenError, match="branches to 'out', which stands outside"), k.block("b"):
        k.s_cbranch_scc0("out")
    with pytest.raises(AsmgenError, match="holds s_barrier"), k.block("c"):
        k.s_barrier()
    with pytest.raises(AsmgenError, match="blocks do not nest"), k.block("d"), k.block("e"):
        pass


def test_turns_and_their_refusals() -> None:
    k = Builder("k", "gfx950")
    one, two = k.streams("one", "two")
    with k.section() as section:
        with one:
            k.v_mov_b32(v[1], 1)
            k.v_mov_b32(v[2], 1)
        with two:
            k.v_mov_b32(v[3], 1)
    for turns, what in ((["one", "two", "two"], "one more unit of stream 'two'"), (["one", "two"], "leaves units over: 1 of 'one'")):
        with pytest.raises(MergeError, match=what):
            section.merge_streams(turns)
    section.merge_streams(["one", "two", "one"])
    assert [str(item) for item in k.items] == ["v_mov_b32 v1, 1", "v_mov_b32 v3, 1", "v_mov_b32 v2, 1"]
    with pytest.raises(MergeError, match="the order names 2 of 3 units"):
        section.merge([0, 1])


def test_streams_have_temporaries_of_their_own() -> None:
    k = Builder("k", "gfx950", RegisterPlan("gfx950"))
    one, two = k.streams("one", "two")
    one.reserve("v", 4)
    two.reserve("v", 2)
    taken: list[Reg] = []
    with k.section() as section:
        for stream in (one, two, one, two):
            with stream, k.scratch("t", 2) as t:
                taken.append(t)
                k.v_mov_b32(t[0], len(taken))
                k.v_add_u32(t[1], t[0], t[0])
    assert taken[0] == v[0:1] and taken[2] == v[2:3] and taken[1] == taken[3] == v[4:5]
    section.merge_streams(["two", "one", "two", "one", "one", "two", "one", "two"])
    with two, pytest.raises(AsmgenError, match="wants 3 temporaries"), k.scratch("t", 3):
        pass


def test_memory_of_two_arguments_needs_no_order() -> None:
    """A load of one argument may pass a store of another; of one argument, or of two that may share memory, it may not."""
    arguments = tuple(ContractArgument(name, "pointer", "") for name in "abcd") + (ContractArgument("m", "u32", ""),)
    contract = KernelContract("example", "example", ("gfx950",), (), arguments, (64, 1, 1), Formula("one", lambda _: (1, 1, 1)),
                              aliases=(Alias(("c", "d"), "m is m"),))
    k = TileBuilder(contract, "gfx950", {}, waves=1)
    zero, data = k.registers.sgprs(1, "zero"), k.registers.vgprs(1, "data")
    rows = {name: k.matrix(name, "f32", "m", 4, 4).rows(zero, 16).resource(k) for name in "abcd"}
    stream, = k.streams("only")
    accesses = {}
    for name, descriptor in rows.items():
        with k.section() as section, stream:
            k.buffer_load_dword(data, data, descriptor, 0, offen=True)
            k.buffer_store_dword(data, data, descriptor, 0, offen=True)
        accesses[name] = [access for unit in section.units for access in unit.effects.memory]
        k.cut(section.start)
    load, store = accesses["a"]
    assert load.part == "a" and store.conflicts(load) and not store.conflicts(accesses["b"][0])
    assert accesses["d"][1].conflicts(accesses["c"][0]) and not accesses["d"][1].conflicts(load)
    assert store.conflicts(MemoryAccess("global", False))  # who knows which memory that is
