"""Races between workgroups: what is one, what orders workgroups, and that the compiled detector is the plain one."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from asmgen.emulator.machine.devicememory import PAGE
from asmgen.emulator.races import workgroupraces, workgrouptraces, workgrouptraces_kernels
from asmgen.emulator.races.workgrouptraces import NEVER, SEVERAL, TAG_SHIFT, Known, MemoryTouch
from asmgen.emulator.scheduling.run import Options
from asmgen.reader.assembly import read_text
from tests.emulator_launch import Launched, launch
from tests.planted_faults import PROLOGUE

ORDERS = ("lockstep", "serial", "random:3")


def run(body: str, groups: int = 2, waves: int = 1, order: str = "lockstep", start: int = 0, checks: bool = True) -> Launched:
    (program,) = read_text(f"{PROLOGUE}{body}\ns_endpgm\n", "gfx950")
    buffers = [np.full(4096, start, np.uint32), np.zeros(4096, np.uint32)]
    return launch("gfx950", program, (groups, 1, 1), (64 * waves, 1, 1), buffers, options=Options(checks=checks, order=order))


def races(launched: Launched) -> list[tuple[str, str]]:
    """The names of both instructions of each race."""
    assert not [finding.sentence() for finding in launched.findings if finding.check != "workgroup-race"]
    return [(finding.producer.name, finding.consumer.name) for finding in launched.findings
            if finding.producer is not None and finding.consumer is not None and finding.severity == "error"]


OWN = "s_lshl_b32 s22, s2, 8\nv_add_u32 v10, s22, v2\nv_mov_b32 v11, s2\nv_xor_b32 v12, 0x100, v10\n"  # v10 own places, v12 another's

RIGHT = {
    "places of its own": OWN + "global_store_dword v10, v11, s[8:9]\ns_waitcnt vmcnt(0)\nglobal_load_dword v5, v10, s[8:9]",
    "read-only data": OWN + "global_load_dword v5, v2, s[8:9]\ns_waitcnt vmcnt(0)\nglobal_store_dword v10, v5, s[10:11]",
    "the same value": "v_mov_b32 v4, 5\nglobal_store_dword v2, v4, s[8:9]\ns_waitcnt vmcnt(0)\nglobal_load_dword v5, v2, s[8:9]",
    "in place": OWN + "global_load_dword v5, v10, s[8:9]\ns_waitcnt vmcnt(0)\nv_add_u32 v5, 1, v5\nglobal_store_dword v10, v5, s[8:9]",
    "atomics": "v_mov_b32 v4, 5\nglobal_atomic_add v3, v4, s[8:9]\nglobal_atomic_pk_add_bf16 v2, v4, s[10:11]",
    "bytes of some dwords": "v_mov_b32 v5, s2\nv_lshl_add_u32 v4, v1, 3, v5\nglobal_store_byte v4, v5, s[8:9]",
    "halves of some dwords": "v_mov_b32 v5, s2\nv_lshlrev_b32 v6, 1, v5\nv_lshl_add_u32 v4, v1, 4, v6\nglobal_store_short v4, v5, s[8:9]\n"
                           "s_waitcnt vmcnt(0)\nglobal_load_ushort v5, v4, s[8:9]",
    "dwords of one cache line": "v_mov_b32 v5, s2\nv_lshl_add_u32 v4, v1, 5, 0\nv_lshl_add_u32 v4, v5, 2, v4\n"
                                    "global_store_dword v4, v5, s[8:9]",
    "scope bits": "v_mov_b32 v5, s2\nglobal_store_dword v2, v5, s[8:9] sc0 sc1\nglobal_load_dword v5, v2, s[8:9] sc1\ns_waitcnt vmcnt(0)",
    "the last store decides": "v_mov_b32 v4, s2\nv_mov_b32 v5, 7\nglobal_store_dword v2, v4, s[8:9]\nglobal_store_dword v2, v5, s[8:9]",
    "the last of three stores decides, and pairs agree before": "s_lshr_b32 s22, s2, 1\nv_mov_b32 v4, s22\nv_mov_b32 v5, 7\n"
        "global_store_dword v2, v4, s[8:9]\nglobal_store_byte v2, v5, s[8:9]\nglobal_store_dword v2, v5, s[8:9]",
    "lanes overlap": "v_mov_b32 v4, 7\nv_mov_b32 v5, s2\ns_mov_b32 exec_hi, 0\nglobal_store_dwordx2 v2, v[4:5], s[8:9]\n"
                     "v_mov_b32 v2, 0x80\nglobal_store_dword v2, v4, s[8:9]",
    "halves that agree": "s_lshl_b32 s22, s2, 16\nv_mov_b32 v4, 5\nv_or_b32 v5, s22, v4\nv_mov_b32 v6, 9\n"
                         "global_store_dword v2, v5, s[8:9]\nglobal_store_short v2, v6, s[8:9] offset:2",
    "lanes that do nothing": "v_mov_b32 v5, s2\ns_mov_b64 exec, 0\nglobal_store_dword v2, v5, s[8:9]",
    "out of the descriptor's range": "s_mov_b32 s10, 0\ns_mov_b32 s11, 0x20000\nv_mov_b32 v5, s2\n"
                                     "buffer_store_dword v5, v2, s[8:11], 0 offen",
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", RIGHT)
def test_what_is_no_race(name: str, order: str) -> None:
    for groups in (2, 5):
        assert races(run(RIGHT[name], groups, order=order)) == [], groups


WRONG = {
    "different values": ("v_mov_b32 v4, s2\nv_add_u32 v4, 1, v4\nglobal_store_dword v2, v4, s[8:9]", {"global_store_dword"}),
    "a shift in place": (OWN + "global_load_dword v5, v10, s[8:9] offset:4\ns_waitcnt vmcnt(0)\nv_add_u32 v5, 3, v5\n"
                         "global_store_dword v10, v5, s[8:9]", {"global_load_dword", "global_store_dword"}),
    "one byte": (OWN + "v_mov_b32 v4, s2\nv_add_u32 v4, 1, v4\nv_min_u32 v5, 30, v4\nv_add_u32 v5, 30, v5\n"
                 "global_store_byte v5, v4, s[8:9]\nglobal_load_ubyte v6, v3, s[8:9] offset:31\n"
                 "s_waitcnt vmcnt(0)", {"global_load_ubyte", "global_store_byte"}),
    "the last store differs": ("v_mov_b32 v4, s2\nv_add_u32 v5, 3, v4\nglobal_store_dword v2, v4, s[8:9]\n"
                               "global_store_dword v2, v5, s[8:9]", {"global_store_dword"}),
    "one byte of a dword": ("v_mov_b32 v5, s2\nv_lshlrev_b32 v5, 16, v5\nv_add_u32 v5, 0x10000, v5\n"
                            "global_store_dword v2, v5, s[8:9]\nglobal_store_short v2, v3, s[8:9]", {"global_store_dword"}),
    "an atomic elsewhere that nobody waits on": (
        "v_mov_b32 v4, s2\nv_add_u32 v4, 1, v4\nglobal_store_dword v2, v4, s[8:9]\nglobal_atomic_add v3, v4, s[10:11]",
        {"global_store_dword"}),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", WRONG)
def test_what_is_a_race(name: str, order: str) -> None:
    body, names = WRONG[name]
    for groups in (2, 3):
        found = races(run(body, groups, order=order))
        assert len(found) >= 1 and {one for pair in found for one in pair} == names
        assert len({frozenset(pair) for pair in found}) == len(found)  # once per pair
    assert run(body, checks=False).findings == []


@pytest.mark.parametrize("order", ORDERS)
def test_a_load_between_stores_of_which_the_last_agree_is_a_race(order: str) -> None:
    body = "v_mov_b32 v4, s2\nv_add_u32 v4, 1, v4\nv_mov_b32 v5, 9\nglobal_store_dword v2, v4, s[8:9]\ns_waitcnt vmcnt(0)\n" \
           "global_load_dword v6, v2, s[8:9]\ns_waitcnt vmcnt(0)\nglobal_store_dword v2, v5, s[8:9]"
    for groups in (2, 3):
        found = races(run(body, groups, order=order))
        assert found and {frozenset(pair) for pair in found} == {frozenset({"global_load_dword", "global_store_dword"})}


STORES = ("byte", "short", "dword", "dwordx2", "dwordx3")


@pytest.mark.parametrize("seed", range(60))
def test_stores_race_where_workgroups_leave_different_bytes(seed: int) -> None:
    """Every lane of every workgroup stores to the same places, several times, values of which some depend on the workgroup.

    The oracle runs each workgroup alone.
    """
    random = np.random.default_rng(seed)
    groups = int(random.choice([2, 3, 6]))
    lines, stores = ["v_mov_b32 v20, s2", f"v_lshlrev_b32 v21, {random.choice([2, 3, 4])}, v1"], []
    for _ in range(int(random.integers(1, 6))):
        name, offset = str(random.choice(STORES)), int(random.integers(4)) * 4
        stores.append(f"global_store_{name} v21, v[{{}}], s[8:9] offset:{offset}")
        for register in range(22, 25):
            shift, bits = int(random.integers(3)), int(random.choice([0, 0, 1, 3]))
            lines += [f"v_lshrrev_b32 v{register}, {shift}, v20", f"v_and_b32 v{register}, {bits}, v{register}",
                      f"v_lshl_or_b32 v{register}, v{register}, {int(random.choice([0, 8, 16]))}, {int(random.integers(1, 3))}"]
        last = 22 + {"dwordx2": 1, "dwordx3": 2}.get(name, 0)
        lines += [stores[-1].format(f"22:{last}").replace("v[22:22]", "v22"), "s_waitcnt vmcnt(0)", "s_nop 1"]
    alone = [run("\n".join(lines).replace("v20, s2", f"v20, {home}"), 1, checks=False).buffers[0] for home in range(groups)]
    racing = any((other != alone[0]).any() for other in alone)
    for order in ORDERS:
        found = races(run("\n".join(lines), groups, order=order))
        assert bool(found) == racing, (order, lines)


# Every workgroup leaves a part in s[8:9], takes a ticket at s[10:11], and the last one adds the parts up.
SPLIT = OWN + """v_add_u32 v11, 3, v11
global_store_dword v10, v11, s[8:9]
s_waitcnt vmcnt(0)
{release}
v_mov_b32 v13, 1
s_mov_b64 s[30:31], exec
s_mov_b64 exec, 1
{ticket}
s_waitcnt vmcnt(0)
s_mov_b64 exec, s[30:31]
s_nop 4
v_readfirstlane_b32 s24, v14
s_nop 4
s_cmp_lg_u32 s24, 3
s_cbranch_scc1 done
{acquire}
global_load_dword v15, v2, s[8:9]
global_load_dword v16, v2, s[8:9] offset:256
global_load_dword v17, v2, s[8:9] offset:512
global_load_dword v18, v2, s[8:9] offset:768
s_waitcnt vmcnt(0)
v_add3_u32 v15, v15, v16, v17
v_add_u32 v15, v15, v18
global_store_dword v2, v15, s[10:11] offset:256
done:"""
TICKET = "global_atomic_add v14, v3, v13, s[10:11] sc0"


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("fences", [("buffer_wbl2 sc1\ns_waitcnt vmcnt(0)", "buffer_inv sc1"), ("", "")])
def test_a_ticket_orders_workgroups(order: str, fences: tuple[str, str]) -> None:
    launched = run(SPLIT.format(release=fences[0], ticket=TICKET, acquire=fences[1]), 4, order=order)
    assert races(launched) == []
    assert launched.buffers[1][64:128].tolist() == [3 + 4 + 5 + 6] * 64


def test_without_a_ticket_the_parts_race() -> None:
    """The fourth workgroup takes itself for the last."""
    body = SPLIT.format(release="", ticket="v_mov_b32 v14, s2", acquire="")
    assert set(races(run(body, 4))) == {("global_store_dword", "global_load_dword")}


FLAG = """s_cmp_eq_u32 s2, 0
s_cbranch_scc0 second
v_mov_b32 v4, 7
global_store_dword v2, v4, s[8:9]
s_waitcnt vmcnt(0)
{release}
s_mov_b64 exec, 1
v_mov_b32 v5, 1
{set}
s_endpgm
second:
{wait}
global_load_dword v6, v2, s[8:9]
s_waitcnt vmcnt(0)
global_store_dword v2, v6, s[10:11] offset:1024"""
SPIN = "again:\nglobal_load_dword v7, v3, s[10:11] sc1\ns_waitcnt vmcnt(0)\ns_nop 4\nv_readfirstlane_b32 s24, v7\ns_nop 4\n" \
       "s_cmp_eq_u32 s24, 0\ns_cbranch_scc1 again\nbuffer_inv sc1"


@pytest.mark.parametrize("order", ORDERS)
def test_a_flag_orders_workgroups(order: str) -> None:
    flag = FLAG.format(release="buffer_wbl2 sc1\ns_waitcnt vmcnt(0)", set="global_store_dword v3, v5, s[10:11] sc1", wait=SPIN)
    launched = run(flag, order=order)
    assert races(launched) == [] and launched.buffers[1][256:320].tolist() == [7] * 64
    assert len(races(run(FLAG.format(release="", set="s_nop 0", wait="s_nop 0"), order=order))) == 1


@pytest.mark.parametrize("order", ORDERS)
def test_a_flag_without_scope_bits_is_believed(order: str) -> None:
    """Others cannot know how it is cached; but the loop that waits for it says what it is."""
    flag = FLAG.format(release="", set="global_store_dword v3, v5, s[10:11]", wait=SPIN.replace(" sc1", "").replace("buffer_inv", ""))
    launched = run(flag, order=order)
    assert races(launched) == [] and launched.buffers[1][256:320].tolist() == [7] * 64


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("bits", ["", " glc"])
def test_a_flag_that_scalar_loads_wait_for_is_believed(bits: str, order: str) -> None:
    """As hand-written kernels have it: the flag's store has no scope bits either."""
    wait = f"again:\ns_load_dword s24, s[10:11], 0x0{bits}\ns_waitcnt lgkmcnt(0)\ns_cmp_eq_u32 s24, 0\ns_cbranch_scc1 again"
    launched = run(FLAG.format(release="", set="global_store_dword v3, v5, s[10:11]", wait=wait), order=order)
    assert races(launched) == [] and launched.buffers[1][256:320].tolist() == [7] * 64
    once = FLAG.format(release="", set="global_store_dword v3, v5, s[10:11]", wait=wait.replace(" glc", "").rpartition("\n")[0])
    assert ("global_store_dword", "global_load_dword") in races(run(once, order="serial"))


def test_a_loop_that_moves_on_is_no_poll() -> None:
    walk = SPIN.replace(" sc1", "").replace("buffer_inv", "").replace("s_cmp_eq_u32 s24, 0", "v_add_u32 v3, 4, v3\ns_cmp_eq_u32 s24, 0")
    flag = FLAG.format(release="", set="global_store_dword v3, v5, s[10:11]", wait=walk)
    assert ("global_store_dword", "global_load_dword") in races(run(flag, order="serial"))


def test_an_acquisition_before_the_release_orders_nothing() -> None:
    flag = FLAG.format(release="buffer_wbl2 sc1\ns_waitcnt vmcnt(0)", set="global_store_dword v3, v5, s[10:11] sc1", wait="s_nop 0")
    assert len(races(run("buffer_inv sc1\n" + flag))) == 1
    assert races(run(flag.replace("second:", "second:\nbuffer_inv sc1"), order="serial")) == []


def test_places_are_taken_by_later_workgroups() -> None:
    """1,500 workgroups do not run together: the last ones race with the first, and on places of their own nobody does."""
    shared = "s_and_b32 s22, s2, 15\ns_lshl_b32 s22, s22, 2\nv_mov_b32 v4, s22\nv_mov_b32 v5, s2\ns_mov_b64 exec, 1\n" \
             "global_store_dword v4, v5, s[8:9]"
    assert races(run(shared, 1500)) == [("global_store_dword", "global_store_dword")]
    assert races(run(shared.replace("s_and_b32 s22, s2, 15", "s_mov_b32 s22, s2"), 1500)) == []


def test_a_race_within_a_workgroup_is_told_once() -> None:
    body = "v_and_b32 v2, 0xff, v2\nv_add_u32 v4, s2, v1\nglobal_store_dword v2, v4, s[8:9]"
    assert [finding.check for finding in run(body, waves=2).findings] == ["global-race"]


def test_a_race_within_a_workgroup_hides_none_elsewhere() -> None:
    """Waves store different values to 64 dwords, and workgroups to 64 others."""
    body = "v_and_b32 v2, 0xff, v2\nv_and_b32 v4, 64, v1\nglobal_store_dword v2, v4, s[8:9]\nv_mov_b32 v5, s2\nv_add_u32 v5, 1, v5\n" \
           "global_store_dword v2, v5, s[8:9] offset:1024"
    found = [finding for finding in run(body, waves=2, order="serial").findings if finding.severity == "error" or
             finding.check == "workgroup-race"]
    assert [finding.check for finding in found] == ["global-race", "workgroup-race"]
    assert [finding.consumer.text.endswith("1024") for finding in found if finding.consumer is not None] == [False, True]


def test_a_launch_of_one_workgroup_is_not_watched() -> None:
    (body, _) = WRONG["different values"]
    assert run(body, 1).findings == []


@pytest.mark.parametrize("seed", range(20))
def test_the_compiled_detector_is_the_plain_one(seed: int) -> None:
    random = np.random.default_rng(seed)
    shift, groups, numbers = int(random.integers(3)), 5, 6
    count = 200
    states: list[tuple[Any, Any, Any, Known]] = []
    for module in (workgrouptraces, workgrouptraces_kernels):
        cells = np.zeros((2, count + 1), np.uint32)
        memory = np.zeros(count << shift, np.uint8)
        known = Known(np.arange(-1, 2 * groups), np.full(2 * groups + 1, NEVER), np.zeros((numbers, numbers), np.int32),
                      np.zeros((numbers, numbers), np.int32))
        known.homes[1:] = np.arange(2 * groups) % groups
        known.released[1:1 + groups] = [int(NEVER), 3, 5, int(NEVER), 8]
        states.append((module, cells, memory, known))
    acquired = np.array([-1, 4, 6, 9, -1])
    for _ in range(40):
        homes = np.sort(random.choice(groups, int(random.integers(1, groups + 1)), replace=False))
        tags = homes + 1 + groups * random.integers(2, size=len(homes))
        addresses = np.stack([random.choice(count // 2, 64, replace=False) * 2 for _ in homes]) * (1 << shift) + PAGE
        if random.random() < 0.5:  # lanes that follow each other
            first = 2 * random.integers(count // 2 - 64, size=(len(homes), 1))
            addresses = (int(random.integers(1, 3)) * np.arange(64) + first << shift) + PAGE
        counts = random.integers(0, 2 + (shift < 2), size=addresses.shape)
        counts[random.random(len(counts)) < 0.5] = 2
        size = 1 << shift
        data = random.integers(0, 2, size=(len(homes), 64, 2 * size)).astype(np.uint8) if random.random() < 0.5 else None
        number = int(random.integers(numbers))
        touch = MemoryTouch(addresses, counts, size, PAGE, shift, tags, homes, acquired[homes], number, data)
        for module, cells, memory, known in states:
            module.trace(cells[0], cells[1], memory, touch, known)
        (_, plain, memory, known), (_, compiled, other_memory, other_known) = states
        assert (plain == compiled).all() and (memory == other_memory).all() and (known.told == other_known.told).all()
    assert known.told.any() and (plain >> TAG_SHIFT == SEVERAL).any() and "numba" in sys.modules


def test_loads_that_are_put_off_count_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random accesses of three sizes to two buffers, with releases and acquisitions: the findings are those of loads looked at at once."""
    sizes = (("ubyte", "byte"), ("ushort", "short"), ("dword", "dword"))
    loads = [f"global_load_{load} v6, v5, s[{first}:{first + 1}]" for first in (8, 10) for load, _ in sizes]
    stores = [f"global_store_{store} v5, v7, s[{first}:{first + 1}]" for first in (8, 10) for _, store in sizes]
    orders = ["buffer_wbl2 sc1", "buffer_inv sc1", "global_atomic_add v6, v3, v4, s[10:11] offset:4092 sc0"]
    racing = 0
    for seed in range(16):
        random = np.random.default_rng(seed)
        lines = [OWN, "v_mov_b32 v4, 1", "v_mov_b32 v7, s2"]
        for line in random.choice([*loads, *loads, *stores, *orders], 10).tolist():
            lines += [f"v_add_u32 v5, {4 * int(random.integers(3))}, v{int(random.choice([2, 10, 12]))}", line]
        found = []
        for limit in (0, 700, 1 << 26):
            monkeypatch.setattr(workgroupraces, "_PUT_OFF_BYTES", limit)
            found.append([re.sub("byte 0x[0-9a-f]*", "", finding.sentence()) for finding in run("\n".join(lines), 3).findings
                          if finding.check == "workgroup-race"])
        assert found[0] == found[1] == found[2]
        racing += bool(found[0])
    assert racing >= 4


@pytest.mark.parametrize("name", ["read-only data", "different values"])
def test_one_instruction_in_two_places(name: str) -> None:
    """As builders put copies of a step: what is found is what two equal instructions show."""
    body = RIGHT[name] if name in RIGHT else WRONG[name][0]
    (program,) = read_text(f"{PROLOGUE}{body}\n{body.splitlines()[-1]}\ns_endpgm\n", "gfx950")
    items = list(program.items)
    assert items[-2] is not items[-3] and str(items[-2]) == str(items[-3])
    found = []
    for last in (items[-2], items[-3]):
        buffers = [np.zeros(4096, np.uint32), np.zeros(4096, np.uint32)]
        found.append(set(races(launch("gfx950", replace(program, items=(*items[:-2], last, items[-1])), (2, 1, 1), (64, 1, 1), buffers))))
    assert found[0] == found[1] and bool(found[0]) == (name in WRONG)
