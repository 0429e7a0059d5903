"""stream_k=true: workgroups that share tiles make each step of D once, with the same bits in each order, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asmgen.author.contract.contract import ContractError
from asmgen.author.family.family import Family
from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.products.partcounts import split_options
from asmgen.kernels.products.streams import Shares
from asmgen.kernels.registry import family
from asmgen.tools.running.build import Built, build_kernel
from asmgen.tools.running.executed import executed
from asmgen.tools.running.runner import RunReport, run_kernel

LIBRARY = family("gemm-bf16")
SMALL = {"tile": "128x128x64", "schedule": "interleave", "stream_k": True}
ORDERS = ("lockstep", "serial", "random:5")


def parts_by_hand(tiles: int, workgroups: int, steps: int, share: int) -> dict[int, list[tuple[int, int, int, int]]]:
    """By workgroup: tile, first step, steps and slot of each item, walked chunk by chunk; whole tiles have slot -1."""
    shared, chunks = tiles % workgroups, steps // 4
    found: dict[int, list[tuple[int, int, int, int]]] = {number: [] for number in range(workgroups)}
    for chunk in range(shared * chunks):
        tile, own = divmod(chunk, chunks)
        first, last = 4 * own, steps if own == chunks - 1 else 4 * own + 4
        items = found[chunk // share]
        if items and items[-1][0] == tiles - shared + tile:
            items[-1] = (items[-1][0], items[-1][1], last - items[-1][1], items[-1][3])
        else:
            items.append((tiles - shared + tile, first, last - first, chunk // share + tile))
    for number, items in found.items():
        items[:] = [(*item[:3], -1) if item[2] == steps else item for item in items]
        items += [(tile, 0, steps, -1) for tile in range(number, tiles - shared, workgroups)]
    return found


@pytest.mark.parametrize(("tiles", "workgroups", "steps", "share"), [
    (4, 3, 36, 3), (5, 3, 17, 3), (8, 3, 4, 1), (1, 7, 64, None), (300, 256, 64, None), (511, 256, 33, 8), (12, 4, 8, 1),
    (320, 256, 128, None), (3, 256, 7, 1), (7, 4, 32, 7), (64, 256, 128, 9)])
def test_each_step_is_made_once_and_each_slot_is_one_part(tiles: int, workgroups: int, steps: int, share: int | None) -> None:
    shape = {"m": 128, "n": 128 * tiles, "k": 64 * steps, "workgroups": workgroups} | ({} if share is None else {"share": share})
    values = LIBRARY.contract("gfx950", SMALL).resolve_run({**SMALL, **shape})
    shares = Shares.of(values)
    found = parts_by_hand(tiles, workgroups, steps, shares.share)
    made = sorted(item for items in found.values() for item in items)
    at = dict.fromkeys(range(tiles), 0)
    for tile, first, count, _ in made:
        assert first == at[tile] and count >= 4
        at[tile] += count
    assert set(at.values()) == {steps}
    slots = [slot for *_, slot in made if slot >= 0]
    assert slots == sorted(set(slots)) and all(slot < shares.slots for slot in slots)
    for tile in range(shares.streamed):
        assert shares.parts_of(tile) == [count for number, _, count, _ in made if number == shares.alone + tile]
        its = [slot for number, *_, slot in made if number == shares.alone + tile]
        assert its in ([-1], list(range(its[0], its[0] + len(its))))
    assert [sum(item[2] for item in found[number]) for number in range(shares.grid)] == [shares.steps_of(n) for n in range(shares.grid)]
    assert not any(found[number] for number in range(shares.grid, workgroups))
    kept = sum(count < steps for _, _, count, _ in made)
    assert shares.is_cut == (kept > 0) and shares.cost == min(shares.share, steps // 4) * 4 + 20 * kept / workgroups


@pytest.mark.parametrize(("tiles", "workgroups", "steps"), [
    (1, 7, 64), (300, 256, 64), (511, 256, 33), (320, 256, 128), (3, 256, 7), (257, 256, 2048), (8, 4, 32), (1, 256, 9000), (26, 8, 700)])
def test_the_default_share_costs_least_of_all_that_are_tried(tiles: int, workgroups: int, steps: int) -> None:
    shape = {"m": 128, "n": 128 * tiles, "k": 64 * steps, "workgroups": workgroups}
    values = LIBRARY.contract("gfx950", SMALL).resolve_run({**SMALL, **shape})
    shared, chunks = tiles % workgroups, steps // 4
    even = max(1, -(-shared * chunks // workgroups))
    tried = {even, *(-(-chunks // parts) for parts in range(1, min(chunks, 512) + 1))} if shared else {1}
    costs = {share: Shares.of(values, share).cost for share in tried if share >= even}
    assert values["share"] == min(costs, key=lambda share: (costs[share], share))


ANYWHERE = {**SMALL, "any_k": True, "pointers": True}
CASES: list[dict[str, Any]] = [
    # ranges that begin and end within tiles, a K tail, cut rows and columns, alpha and C
    {"m": 17, "n": 260, "k": 1095, "lda": 1096, "ldb": 1104, "workgroups": 4, "share": 3, "beta": 0.5, "alpha": 2.0},
    # in a batch back to the first matrix, a stride that no wide store serves
    {"m": 40, "n": 250, "k": 1191, "lda": 1192, "ldb": 1192, "workgroups": 3, "share": 3, "batch": 2, "beta": 1.0, "ldc": 257},
    # fewer tiles than workgroups, more parts than are asked for together
    {"m": 16, "n": 128, "k": 2307, "lda": 2312, "ldb": 2312, "workgroups": 9, "share": 1},
    # no tile is shared: both ways from an even and an odd number of steps to the next tile
    {"m": 16, "n": 264, "k": 320, "workgroups": 1}, {"m": 16, "n": 256, "k": 256, "workgroups": 1, "batch": 2},
    {"m": 130, "n": 128, "k": 261, "lda": 264, "ldb": 264, "workgroups": 1, "beta": 0.5},
    # K tails that end at each dword of a lane's columns
    *({"m": 16, "n": 128, "k": 256 + left, "lda": 296, "ldb": 296, "workgroups": 1} for left in (1, 33, 35, 37)),
]
BATCH = {"m": 17, "n": 133, "workgroups": 3, "share": 2, "batch": 2}
FORMS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    # scales of each matrix, from the last one back to the first; one beside an epilogue that overlaps; registers of the loop for a tail
    ("gemm-fp8", "gfx950", {"tile": "256x128x128", "schedule": "interleave", "scales": "row", "b_layout": "column"},
     {**BATCH, "n": 132, "ldb": 144, "k": 1024, "beta": 0.5}),
    ("gemm-fp8", "gfx950", {"tile": "128x256x128", "schedule": "ping-pong", "d_layout": "column", "c_layout": "column"},
     {**BATCH, "k": 1024, "n": 512, "m": 128}),
    ("gemm-fp8", "gfx950", {"tile": "256x256x128", "schedule": "ping-pong", "any_k": True},
     {"m": 17, "n": 262, "k": 1101, "lda": 1104, "ldb": 1104, "workgroups": 3, "share": 2, "alpha": 1.5}),
    ("gemm-fp8", "gfx942", {"tile": "128x128x128", "schedule": "interleave", "scales": "row", "any_k": True, "pointers": True},
     {**BATCH, "k": 1025, "lda": 1040, "ldb": 1040, "beta": 1.5}),
    # of 102 SGPRs no two side by side are free where an item's matrix of C is found
    ("gemm-fp8", "gfx942", {"tile": "128x128x128", "schedule": "interleave", "b_layout": "column", "pointers": True, "preload": True,
                            "out": "f16", "window": 8}, {**BATCH, "n": 132, "ldb": 144, "k": 1024, "beta": 0.5}),
    # stored by columns: lines of B whose registers transpose them, then of both
    ("gemm-bf16", "gfx942", {"tile": "128x128x64", "schedule": "interleave", "dtype": "f16", "bias": "column", "b_layout": "column"},
     {**BATCH, "n": 134, "ldb": 136, "k": 512}),
    ("gemm-bf16", "gfx950", {**SMALL, "a_layout": "column", "b_layout": "column"},
     {**BATCH, "m": 18, "n": 134, "lda": 24, "ldb": 136, "k": 576, "beta": 0.5}),
]


def launched(one: Built, library: Family, shape: dict[str, Any], seed: int, order: str) -> RunReport:
    """A run that is right."""
    values = one.kernel.contract.resolve_run({**one.kernel.parameters, **shape})
    report = run_kernel(library, one, values, "emulator", seed, Options(order=order))
    assert report.passed and report.untouched and not report.findings, report
    return report


@pytest.mark.slow
def test_launches_are_right_in_each_order_and_execute_each_instruction() -> None:
    one = build_kernel(LIBRARY, "gfx950", {**ANYWHERE, "stream_k": True})
    missing: dict[str, set[int]] = {}
    programs = {each.resources.name: each.program for each in one.kernel.launches}
    for number, shape in enumerate(CASES):
        order = ORDERS[number % 3] if shape["workgroups"] == 1 else ORDERS[0]  # those that share tiles have all with the forms below
        for run in launched(one, LIBRARY, shape, 2 * number, order).launches:
            its = set(executed(programs[run.kernel], [run.result.counts]).missing)
            missing[run.kernel] = its & missing.get(run.kernel, its)
    assert not any(missing.values()), [programs[name].instructions[at].text for name, its in missing.items() for at in sorted(its)]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(FORMS)))
def test_forms_are_right(number: int) -> None:
    name, arch, build, shape = FORMS[number]
    library = family(name)
    launched(build_kernel(library, arch, {**build, "stream_k": True}), library, shape, number, ORDERS[number % 3])


@pytest.mark.parametrize(("values", "sentence"), [
    ({"k": 192}, "stream_k=true needs a k of at least 4 steps"), ({"k": 255, "lda": 256, "ldb": 256}, "at least 4 steps"),
    ({"split_k": 2}, "needs split_k=1"),
    ({"a_layout": "column", "k": 258, "ldb": 264}, "whole steps where A or B"), ({"invariant": True}, "needs stream_k=false"),
    ({"schedule": "in-order"}, "stream_k"), ({"workgroups": 1 << 29, "m": 1 << 20}, "chunks of 4 steps"),
    ({**SMALL, "workgroups": 3, "m": 1024, "k": 4096, "share": 3}, "share must be at least"),
])
def test_what_no_share_serves_is_refused(values: dict[str, Any], sentence: str) -> None:
    given = {"stream_k": True, "m": 256, "n": 256, "k": 256, **values}
    with pytest.raises(ContractError, match=sentence):
        LIBRARY.contract("gfx950", given).resolve_run(given)


@pytest.mark.parametrize("arch,asked,serves", [
    ("gfx942", {"persistent": True, "scales": "row"}, 1), ("gfx942", {"split_k": 2}, 2), ("gfx942", {"stream_k": True, "bias": "row"}, 1),
    ("gfx942", {"stream_k": True, "preload": True}, 1), ("gfx942", {"stream_k": True, "scales": "row"}, 0),
    ("gfx942", {"stream_k": True, "preload": True, "bias": "row"}, 0),
    ("gfx950", {"stream_k": True}, 2), ("gfx950", {"stream_k": True, "scales": "row"}, 2),
    ("gfx950", {"stream_k": True, "scales": "row", "tile": "128x256x128"}, 1),
    ("gfx950", {"persistent": True, "scales": "row", "tile": "256x256x128"}, 2)])
def test_so_many_sides_of_fp8_by_columns_have_descriptors_for_an_item(arch: str, asked: dict[str, Any], serves: int) -> None:
    library = family("gemm-fp8")
    for sides in (["a_layout"], ["b_layout"], ["a_layout", "b_layout"]):
        build = {"tile": "128x128x128", "schedule": "interleave", **dict.fromkeys(sides, "column"), **asked}
        if len(sides) <= serves:
            library.contract(arch, build).resolve_build(build)
        else:
            with pytest.raises(ContractError, match="A or B must be by rows with persistent=true or stream_k=true on gfx942.*would work"):
                library.contract(arch, build).resolve_build(build)


@pytest.mark.slow
def test_tune_tries_it_where_the_last_round_is_thin() -> None:
    variant = LIBRARY.select("gfx950", {"tile": "256x256x64", "schedule": "interleave"})
    contract = LIBRARY.contract_of(variant, LIBRARY.fixed(variant))

    def tried(m: int, n: int, k: int) -> bool:
        asked = contract.resolve_run({**LIBRARY.fixed(variant), "m": m, "n": n, "k": k})
        return any(build.get("stream_k") for build in split_options(asked, variant, 256))

    assert tried(4352, 4352, 4096) and not tried(4096, 4096, 4096) and not tried(256 * 15, 256 * 17, 4096)
    assert not tried(4352, 4352, 128) and np.any([tried(2048, 2048, 4096)])
