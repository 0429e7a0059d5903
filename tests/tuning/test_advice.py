"""What `asmgen profile` says that a kernel would gain most by, and where its instructions come from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from asmgen.emulator.scheduling.run import Options
from asmgen.emulator.scheduling.trace import Trace, WaveTrace
from asmgen.isa.timing import timing
from asmgen.kernels.registry import family
from asmgen.model.changes import CONFLICTS, loop_changes
from asmgen.model.profile import profile
from asmgen.model.shortened import KEPT_ROUNDS, Shortened, shortened
from asmgen.program.program import Program
from asmgen.reader.assembly import read_text
from asmgen.tools.profile_command import ProfileReport, advised, choose_timing
from asmgen.tuning.origins import Origin, origins
from asmgen.tuning.prediction import predict
from asmgen.tuning.traced import Traced
from tests.emulator_launch import launch
from tests.tools.test_cli import call

LOAD = "global_load_dwordx4 v[4:7], v1, s[10:11]\n"
MFMA = "v_mfma_f32_32x32x16_bf16 a[{0}:{1}], v[8:11], v[12:15], a[{0}:{1}]\n"
ARGUMENTS = "s_load_dwordx2 s[10:11], s[0:1], 0x0\nv_lshlrev_b32 v1, 4, v0\ns_waitcnt lgkmcnt(0)\n"


def loop(body: str, rounds: int) -> str:
    return f"s_mov_b32 s20, {rounds}\nL:\n{body}s_sub_u32 s20, s20, 1\ns_cmp_lg_u32 s20, 0\ns_cbranch_scc1 L\n"


def traced(text: str, block: int = 256, lds: int = 0, buffers: Sequence[Any] = ()) -> tuple[Program, Trace]:
    code = read_text(text + "s_endpgm\n", "gfx950")[0]
    trace = Trace(1)
    launch("gfx950", code, (1, 1, 1), (block, 1, 1), buffers, lds=lds, vgprs=128, options=Options(checks=False, trace=trace))
    return code, trace


def changes(text: str, **options: Any) -> list[tuple[str, float, float]]:
    """(cause, clk stalled, clk saved) of each."""
    code, trace = traced(text, **options)
    waves = list(trace.waves())
    found = profile(code, waves, timing("MI355X"), "l2")
    return [(one.cause, one.stalled, one.saved) for one in loop_changes(found, shortened(code, waves).traces, 3, lambda position: position)]


def report(text: str, **options: Any) -> ProfileReport:
    _, trace = traced(text, **options)
    return advised(Traced("k", trace, 256), timing("MI355X"), "l2", 1)


def test_a_loop_that_waits_for_its_load_gains_by_asking_earlier() -> None:
    """The load takes its latency of each round; without the wait a round takes what its matrix instructions do."""
    body = LOAD + "s_waitcnt vmcnt(0)\n" + "".join(MFMA.format(16 * n, 16 * n + 15) for n in range(4))
    data = [np.zeros(1024, np.uint32)]
    ((cause, stalled, saved),) = changes(ARGUMENTS + loop(body, 12), buffers=data)
    assert cause == "wait vm" and 250 < stalled < 400 and stalled - 150 < saved <= stalled
    found = report(ARGUMENTS + loop("s_barrier\n" + body, 12), buffers=data)
    (best, *_) = found.advice
    assert "wait vm" in best.text and "ask for it 1 stage earlier" in best.text and 0 < best.gain < found.estimate.seconds
    assert f"({best.gain / found.estimate.seconds:.1%}): wait vm" in found.text()
    without = report(ARGUMENTS + loop(LOAD * 0 + body.replace(LOAD, ""), 12), buffers=data)
    assert found.estimate.seconds - best.gain == pytest.approx(without.estimate.seconds, rel=0.1)


def test_a_loop_at_its_bound_gains_nothing_by_fewer_waits() -> None:
    body = LOAD + "".join(MFMA.format(16 * n, 16 * n + 15) for n in range(4)) * 20 + "s_waitcnt vmcnt(0)\n"
    assert changes(ARGUMENTS + loop(body, 12), buffers=[np.zeros(1024, np.uint32)]) == []
    assert changes("s_nop 0\n") == []


def test_bank_conflicts_are_a_change() -> None:
    """Lanes 256 bytes apart meet in the banks; 16 bytes apart they do not."""
    body = "ds_read_b128 v[4:7], v1\n" * 8 + "s_waitcnt lgkmcnt(0)\n"
    for shift, conflicts in ((8, True), (4, False)):
        found = changes(f"v_lshlrev_b32 v1, {shift}, v0\n" + loop(body, 12), block=64, lds=16384)
        assert any(cause == CONFLICTS and saved > 50 for cause, _, saved in found) == conflicts


def test_launches_gain_by_full_rounds_and_short_ends() -> None:
    found = report("s_sleep 20\n" + loop(MFMA.format(0, 15) * 4, 20))
    assert any("before and" in one.text and "shorten them" in one.text for one in found.advice)
    _, trace = traced(loop(MFMA.format(0, 15) * 4, 20), lds=100_000)
    last = advised(Traced("k", trace, 264), timing("MI355X"), "l2", 1)
    assert "the last of 2 rounds has 8 workgroups, where 256 run at once" in last.advice[0].text
    assert last.advice[0].gain == pytest.approx(last.estimate.parts["compute units"] * (1 - 264 / 512))


def test_a_level_that_limits_gains_what_is_left_without_its_limit() -> None:
    """With a rate a hundred times as high the launch takes what the sentence says."""
    body = (LOAD + "v_add_u32 v1, 0x1000, v1\n") * 4 + "s_waitcnt vmcnt(0)\n"
    _, trace = traced(ARGUMENTS + loop(body, 12), buffers=[np.zeros(1 << 16, np.uint32)])
    launched = Traced("k", trace, 2560)
    found, fast = (advised(launched, timing("MI355X", {"hbm_read": rate}), "hbm", 1) for rate in (0.1, 10))
    (best, *_) = found.advice
    assert found.estimate.limit == "hbm" and best.text.startswith("hbm gives the launch's bytes in ") and "each byte goes once" in best.text
    assert found.estimate.seconds - best.gain == pytest.approx(fast.estimate.seconds, rel=0.05)
    assert not any("gives the launch's bytes" in one.text for one in report(loop(MFMA.format(0, 15) * 4, 20)).advice)


def test_fewer_rounds_of_a_trace() -> None:
    """The second and later rounds are alike, so that the loop takes the same clk."""
    code, trace = traced("v_lshlrev_b32 v1, 4, v0\n" + loop("ds_read_b128 v[4:7], v1\ns_waitcnt lgkmcnt(0)\ns_barrier\n", 12), lds=16384)
    waves = list(trace.waves())
    cut = shortened(code, waves)
    short = cut.traces
    assert cut.rounds == 12 - KEPT_ROUNDS
    assert [len(one.costs) for one in short] == [KEPT_ROUNDS] * 4 and len(waves[0].costs) == 12
    assert all(one.positions.count(2) == KEPT_ROUNDS and one.positions[-1] == waves[0].positions[-1] for one in short)
    whole, part = (profile(code, one, timing("MI355X"), "l2").loops[0].cycles for one in (waves, short))
    assert part == pytest.approx(whole, rel=0.02)
    assert shortened(code, short) == Shortened(short)


def test_waves_with_different_barriers_keep_their_rounds() -> None:
    code = read_text("s_mov_b32 s20, 9\nL:\ns_barrier\ns_cbranch_scc0 L\nM:\nv_mov_b32 v1, v0\ns_cbranch_scc1 M\ns_endpgm\n", "gfx950")[0]
    one, other = (WaveTrace(0, 0, (0, *(1, 2) * 9, 3, 4, 5), ()), WaveTrace(0, 1, (0, 1, 2, *(3, 4) * 9, 5), ()))
    assert shortened(code, [one, other]) == Shortened((one, other))
    assert [len(wave.positions) for wave in shortened(code, [one, one]).traces] == [12, 12]  # ten of 22 go
    straight = WaveTrace(0, 0, (0, 5), ())
    assert shortened(code, [straight]) == Shortened((straight,))


@pytest.mark.slow
def test_instructions_of_the_library_name_their_lines(objdump: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(call(capsys, "profile", "gemm-bf16", "-p", "m=512", "-p", "n=512", "-p", "k=640", "--json")[1])
    rows = found["instructions"]
    (first, *_) = [row for row in rows if row["text"].startswith("v_mfma") and row["executed"] > 8]
    assert first["line"].startswith("asmgen/kernels/gemm_bf16/tiled.py:") and first["operation"].startswith("mma C")
    wait = max((row for row in rows if row["text"].startswith("s_waitcnt vmcnt")), key=lambda row: sum(row["stalls"].values()))
    assert "landed" in wait["reason"] and wait["operation"] is None
    assert found["peak"]["tflops"] == pytest.approx(256 * 4096 * 2.4e9 / 1e12)  # docs/facts/microarchitecture.md section 2.6
    assert found["peak"]["share"] == pytest.approx(found["tflops_predicted"] / found["peak"]["tflops"])
    moved = 3 * 512 * 640 * 2 - 512 * 640 * 2 + 512 * 512 * 2
    assert found["gbytes_per_second_predicted"] == pytest.approx(moved / found["seconds_predicted"] / 1e9)
    assert 1 <= len(found["changes"]) <= 3
    assert all(0 < one["gain"] < 1 and one["gain_seconds"] == pytest.approx(one["gain"] * found["seconds_predicted"])
               for one in found["changes"])


def test_a_kernel_without_matrix_instructions_has_the_peak_of_hbm(objdump: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(call(capsys, "profile", "01-vector-add", "-p", "n=1000000", "--json")[1])
    assert found["peak"] == {"tflops": 0.0, "gbytes_per_second": 8000.0, "share": found["gbytes_per_second_predicted"] / 8000}
    assert found["gbytes_per_second_predicted"] == pytest.approx(12e6 / found["seconds_predicted"] / 1e9, rel=0.01)


@pytest.mark.slow
def test_origins_belong_to_the_same_code_only() -> None:
    library = family("gemm-bf16")
    kernel = library.build("gfx950", {"tile": "64x64x64"})
    assert len(origins(kernel.program, kernel.program)) == len(kernel.program.instructions)
    other = library.build("gfx950", {"tile": "128x128x64"}).program
    assert origins(other, kernel.program) == () and origins(other, None) == ()


@pytest.mark.parametrize("reason,awaited", [
    ("Bs[0][1] of buffer_load_dwordx4 landed, 10 newer", "Bs"), ("v[2:5] of ds_read_b128 landed", ""), ("v12 of ds_read_b32 landed", ""),
    ("s[4:5], s[6:7] of s_load_dwordx2 landed", ""), ("a[0:3] of x landed", ""), ("scores of t landed", "scores"), ("", "")])
def test_what_a_wait_is_for(reason: str, awaited: str) -> None:
    assert Origin("f.py:3", "", "", reason).awaited == awaited
    assert str(Origin("f.py:3", "g.py:4", "read A", reason)) == f"{f'for {awaited}' if awaited else 'read A'} at f.py:3 (g.py:4)"
    assert Origin("", "", "", "").as_json() == {"line": None, "helper": None, "operation": None, "reason": None}


def test_a_faster_loop_is_priced_at_its_own_clock(objdump: tuple[str, ...]) -> None:
    """The same launch from the run's summary gives the same time."""
    _, trace = traced(loop(MFMA.format(0, 15) * 4, 20))
    found = predict(Traced("k", trace, 264), choose_timing("gfx950", None, None), "l2", 1)
    assert found.with_run(found.run) == found.estimate
