"""Workgroups that do the same in LDS are judged as one: what is found is what judging each of them finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asmgen.emulator.arrival import ldsraces
from asmgen.emulator.arrival.findings import Finding
from asmgen.emulator.arrival.ldscells import INACTIVE, Toucher, repeating, same_locations
from asmgen.emulator.arrival.races_kernels import locations_repeat, repeats
from asmgen.emulator.scheduling.run import Options
from asmgen.reader.assembly import read_text
from tests.emulator_launch import Launched, launch
from tests.planted_faults import PROLOGUE

WAVES, WORKGROUPS, LDS = 3, 4, 256


def alike(rng: np.random.Generator) -> tuple[Any, list[Any], list[Any]]:
    """What repeating workgroups ask: addresses, (waves, numbers, tickets, intervals), (settled, done)."""
    some = np.sort(rng.choice(WAVES, int(rng.integers(1, WAVES + 1)), replace=False))
    home = np.arange(WORKGROUPS)
    waves = (home[:, None] * WAVES + some).ravel()
    lanes = np.where(rng.random((len(some), 5)) < 0.7, rng.integers(0, LDS - 16, (len(some), 5)), INACTIVE)
    at = np.concatenate([np.where(lanes >= 0, lanes + LDS * number, INACTIVE) for number in home])
    tickets = np.tile(rng.integers(1, 9, len(some)), WORKGROUPS).astype(np.int32)
    counters = [np.tile(rng.integers(0, 9, (4, WAVES)), WORKGROUPS).astype(np.int32) for _ in range(2)]
    return at, [waves, waves % WAVES, tickets, np.full(len(waves), 7)], counters


@pytest.mark.parametrize(("function", "same"), [(repeating, same_locations), (repeats, locations_repeat)])
def test_what_repeats(function: Any, same: Any) -> None:
    """Any single difference in any workgroup but the first is seen, and so is one in the first."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        at, who, counters = alike(rng)
        count = len(at) // WORKGROUPS
        assert function(Toucher(*who), WAVES, *counters) == count and same(at, count, LDS)
        changed = rng.choice(["lane", "inactive", "wave", "ticket", "interval", "settled", "done"])
        row = int(rng.integers(len(at)))
        if changed in ("lane", "inactive"):
            lane = int(rng.integers(at.shape[1]))
            at[row, lane] = INACTIVE if changed == "inactive" and at[row, lane] >= 0 else int(at[row, lane]) + 16 + LDS * (row // count)
        elif changed in ("settled", "done"):
            counters[changed == "done"][int(rng.integers(4)), int(rng.integers(WAVES * WORKGROUPS))] += 1
        elif changed == "wave":
            at, who = np.delete(at, row, 0), [np.delete(column, row) for column in who]
        else:
            who[2 if changed == "ticket" else 3][row] += 1
        found = function(Toucher(*who), WAVES, *counters)
        found = found if same(at[:len(at) // count * count], count, LDS) else 0
        assert found == (1 if changed == "wave" and count == 1 and row == WORKGROUPS - 1 else 0)  # then fewer workgroups repeat
    assert function(Toucher(*(column[:0] for column in who)), WAVES, *counters) == 0


def body(rng: np.random.Generator, same: bool) -> str:
    """Accesses, waits and barriers at random; where not the `same` in all workgroups, some of them go by the workgroup's number."""
    accesses = ["ds_write_b32 v5, v7", "ds_write_b64 v5, v[6:7]", "ds_read_b32 v8, v5", "ds_read_b64 v[8:9], v5", "ds_add_u32 v5, v4",
                "ds_add_rtn_u32 v9, v5, v4", "ds_write_b8 v5, v7", "ds_read_b32 v8, v2", "s_mov_b32 m0, 0x100\ns_nop 0\n"
                "global_load_lds_dword v2, s[8:9]"]
    places = ["v_mov_b32 v5, v2", "v_xor_b32 v5, 0x100, v2", "v_lshlrev_b32 v5, 1, v2", "v_lshrrev_b32 v5, 3, v2\nv_and_b32 v5, -8, v5"]
    lines = ["v_mov_b32 v4, 1", "v_mov_b32 v5, v2", "v_mov_b32 v6, 7", "s_mul_i32 s23, s2, s20",
             f"v_mov_b32 v7, {rng.choice(['s20', 's23', 'v1'])}", "v_mov_b32 v8, 0", "v_mov_b32 v9, 0"]
    if rng.random() < 0.7:  # all of LDS is written
        lines += [f"ds_write_b32 v2, v4 offset:{offset}" for offset in range(0, 2048, 512)]
        lines += ["s_waitcnt lgkmcnt(0)", "s_barrier"]
    for number in range(14):
        line = str(rng.choice([*accesses, *places, "s_waitcnt lgkmcnt(0)", "s_waitcnt vmcnt(0)", "s_waitcnt lgkmcnt(1)", "s_barrier",
                               "s_barrier"]))
        kind = rng.random()
        if not same and number > 5 and kind < 0.3:
            line = f"s_cmp_eq_u32 s2, {int(rng.integers(4))}\ns_cbranch_scc1 after{number}\n{line}\nafter{number}:"
        elif not same and number > 5 and kind < 0.4:
            line = f"s_lshl_b32 s22, s2, 2\nv_add_u32 v5, s22, v5\n{line}"
        lines.append(line)
    return "\n".join([*lines, "s_waitcnt vmcnt(0) lgkmcnt(0)", "global_store_dword v2, v8, s[10:11]"])


def run(code: str) -> Launched:
    (program,) = read_text(f"{PROLOGUE}{code}\ns_endpgm\n", "gfx950")
    buffers = [np.arange(4096, dtype=np.uint32), np.zeros(4096, np.uint32)]
    checks = ["lds-race", "lds-dma-before-wait", "uninitialised-lds-read", "uninitialised-use", "uninitialised-read"]
    return launch("gfx950", program, (4, 1, 1), (128, 1, 1), buffers, lds=4096, options=Options(checks=checks))


def pair(finding: Finding) -> tuple[str, ...]:
    """A finding without the place: where workgroups write other values, which of them changes something is not told apart."""
    both = (finding.producer, finding.consumer)
    return finding.severity, finding.check, *(str(one.source) if one is not None else "" for one in both)


@pytest.mark.parametrize("same", [True, False])
def test_what_is_found_is_what_each_workgroup_alone_shows(same: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found: set[str] = set()
    shared = parted = 0
    original = ldsraces.LdsArrival.access
    for seed in range(16):
        code = body(np.random.default_rng(seed), same)
        states: list[int] = []

        def access(self: ldsraces.LdsArrival, *given: Any, states: list[int] = states, **more: Any) -> None:
            original(self, *given, **more)
            states.append(self._alike)

        with monkeypatch.context() as patch:
            patch.setattr(ldsraces.LdsArrival, "access", access)
            together = run(code)
        with monkeypatch.context() as patch:
            patch.setattr(ldsraces.LdsArrival, "_repeating", lambda *given: 0)
            apart = run(code)
        for what in (pair, Finding.sentence) if "v7, s23" not in code else (pair,):  # the same values in all workgroups
            assert [what(finding) for finding in together.findings] == [what(finding) for finding in apart.findings], seed
        found |= {finding.check for finding in together.findings}
        shared += max(states, default=0) == 4
        parted += 1 in states
    assert shared >= 8 and parted >= 4
    assert found >= {"lds-race", "lds-dma-before-wait", "uninitialised-lds-read"}


def test_waves_that_agree_in_the_first_workgroup_only() -> None:
    """Both waves write their number times the workgroup's to one place."""
    code = "s_mul_i32 s23, s2, s20\nv_mov_b32 v7, s23\nds_write_b32 v3, v7\n"
    for text, severity in ((code, "error"), (code.replace("s2, s20", "s2, s2"), "warning")):
        assert [(finding.severity, finding.check) for finding in run(text).findings] == [(severity, "lds-race")]


def test_reads_that_live_on_behind_a_barrier_that_the_first_workgroup_has_not() -> None:
    """All but the first workgroup pass a barrier with reads in flight; after it each wave writes what the other reads."""
    code = ("ds_write_b32 v2, v2\ns_waitcnt lgkmcnt(0)\ns_barrier\nv_xor_b32 v5, 0x100, v2\nds_read_b32 v8, v5\n"
            "s_cmp_eq_u32 s2, 0\ns_cbranch_scc1 after\ns_barrier\nds_write_b32 v2, v3\nafter:\ns_waitcnt lgkmcnt(0)")
    (finding,) = run(code).findings
    assert finding.severity == "error" and "did not wait for it before the barrier" in finding.message and finding.workgroup == 1
