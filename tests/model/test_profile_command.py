"""`asmgen profile`, the reports of measured kernels and what their predictions are sensitive to."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from asmgen.isa.errors import AsmgenError
from asmgen.isa.timing import PARAMETERS, read_overrides, timing
from asmgen.kernels.registry import family
from asmgen.model.usage import BOUNDS
from asmgen.tools.cli import commands
from asmgen.tools.measured import MEASUREMENTS, attention_report, attention_rows, predict, products_table, report
from asmgen.tools.measured import main as measured
from asmgen.tools.profile_command import report_traced, trace_kernel
from asmgen.tools.running.build import build_kernel
from asmgen.tools.sensitivity import report_table
from asmgen.tuning.traced import smaller


def run(*arguments: str) -> Any:
    return CliRunner().invoke(commands, ["profile", *arguments], catch_exceptions=True)


def test_command_on_a_library_kernel(objdump: tuple[str, ...], tmp_path: Path) -> None:
    overrides = tmp_path / "p.json"
    overrides.write_text('{"latency_llc": 90}')
    assert read_overrides(overrides) == {"latency_llc": 90}
    shape = ("gemm-bf16", "-p", "m=4096", "-p", "n=4096", "-p", "k=640", "--arch", "gfx942", "--gpu", "MI325X")
    done = run(*shape, "--json", "--trace", str(tmp_path / "t.json"))
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert found["workgroups"] == 1024 and found["gpu"] == "MI325X"
    (one, *_) = sorted(found["loops"], key=lambda row: -row["cycles_per_iteration"])
    assert set(one["bounds"]) == set(BOUNDS) and one["binding"] in BOUNDS and 0 < one["matrix_busy"] < 1
    assert one["distance"] == pytest.approx(one["cycles_per_iteration"] / one["bounds"][one["binding"]] - 1)
    assert found["prologue"] + found["epilogue"] < found["cycles"] and all(row["address"] is not None for row in found["instructions"])
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    faster = json.loads(run(*shape, "--json", "--parameters", str(overrides)).output)
    assert faster["cycles"] < found["cycles"] and faster["overridden"] == ["latency_llc"]


def test_only_workgroups_are_left_out_of_the_problem() -> None:
    """Rows of a sum count its workgroups, columns do not; and so many workgroups stay as are asked for."""
    rows = family("02-row-sum")
    assert smaller(rows.contract(), {"m": 1000, "n": 9000}) == {"m": 512, "n": 9000}
    product = family("gemm-bf16").contract("gfx950", {"tile": "256x256x64", "schedule": "ping-pong"})
    asked = product.resolve_run({"m": 4096, "n": 2048, "k": 64})
    for workgroups, m, n in ((1, 512, 512), (5, 512, 2048), (17, 4096, 512), (33, 4096, 2048)):
        found = smaller(product, asked, workgroups)
        assert (found["m"], found["n"]) == (m, n) and math.prod(product.grid_of(found)) >= workgroups


def test_report_of_measurements(objdump: tuple[str, ...]) -> None:
    none = replace(MEASUREMENTS[0], kernel="no-such-kernel")
    every = report([replace(row, kernel="") for row in MEASUREMENTS]).splitlines()
    assert sum("measured" in line and "TFLOPS; no kernel yet" in line or "busy" in line for line in every) == len(MEASUREMENTS) == 17
    assert sum("L2 hits measured" in line for line in every) == 6 and sum("known outlier" in line for line in every) == 1
    assert every[-1] == "0 of 17 rows have a kernel"
    assert "no kernel yet" in report([none]) and predict(none) is None
    assert predict(replace(none, kernel="gemm-bf16", parameters={"tile": "3x5x7"})) is None
    row = replace(none, kernel="gemm-bf16", parameters={"m": "8192", "n": "8192"}, more={"not-a-parameter": "1"})
    text, table = report([row], 128), products_table([row, replace(row, source="elsewhere"), replace(row, kernel="")], 128)
    assert products_table([replace(row, parameters={"tile": "3x5x7"})]).endswith("| 893 | no kernel yet |  |  |\n")
    none_of_it = CliRunner().invoke(measured, ["--products", "--arch", "gfx942"])
    assert none_of_it.exit_code == 0 and none_of_it.output == products_table([]) and len(none_of_it.output.splitlines()) == 2
    assert "x>=0" in CliRunner().invoke(measured, ["--products", "--k", "-5"]).output
    predicted = int(text.split("predicted ")[1].split()[0])
    assert "1 of 1 rows" in text
    *_, line = table.splitlines()
    assert len(table.splitlines()) == 3 and f"| 2 | gemm-bf16: {row.what} | 893 | {predicted} |" in line
    assert float(line.split(" | ")[-1].rstrip(" |")) == pytest.approx(893 / predicted, rel=1e-2)


@pytest.mark.slow
def test_report_of_attention(objdump: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch whose first workgroup has more steps than are timed takes what those take that were timed with as many."""
    rows = {(heads, n): found for _, heads, n, found in attention_rows((512, 2048), "MI355X", (True,))}
    assert len(rows) == 4
    short, long = rows[(16, 16), 512], rows[(16, 16), 2048]
    assert short.steps is not None and long.steps is not None and long.profile.main_loop is not None
    step = long.profile.main_loop.cycles / long.profile.main_loop.unroll
    assert (short.steps.traced, long.steps.traced, int(long.steps.each[0]), int(long.steps.each.min())) == (8, 24, 32, 4)
    assert long.cycles < short.cycles + 24 * step  # more of the short one's loads come from afar
    library = family("attention-forward")
    built = build_kernel(library, "gfx950", {"causal": True})
    near = []
    for n in (512, 2048):
        shape = {**built.kernel.parameters, "b": 16, "hq": 16, "hkv": 16, "sq": n}
        launch_ = trace_kernel(library, built, library.contract("gfx950", shape).resolve_run(shape), 1)
        near.append(report_traced(launch_, timing("MI355X"), "l2", 1))
    loop_ = near[1].profile.main_loop
    assert loop_ is not None and near[1].cycles == pytest.approx(near[0].cycles + 24 * loop_.cycles / loop_.unroll, rel=0.005)
    assert long.as_json()["steps"] == {"timed": 24, "first": 32, "least": 4, "most": 32} and "has 32: predicted" in long.text()
    four = rows[(64, 8), 2048].estimate
    assert four.seconds == pytest.approx(4 * long.estimate.seconds, rel=0.05) and four.workgroups == 4 * long.estimate.workgroups
    monkeypatch.setattr("asmgen.tools.measured.attention_rows", lambda *_: [(True, (16, 16), 2048, long)])
    tflops = 2 * 16 * 16 * 2048**2 * 128 / long.estimate.seconds / 1e12
    assert f"{long.estimate.seconds * 1e6:.1f} us, {tflops:5.0f} TFLOPS" in attention_report().splitlines()[1]


@pytest.mark.slow
def test_sensitivity_of_the_report(objdump: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks move a kernel of products; what is measured is not asked for. Every fifth parameter; test_model_profile.py scales all."""
    asked = tuple(one for at, one in enumerate(PARAMETERS) if at % 5 == 0 or one.name in ("clock_dense", "valu_latency"))
    monkeypatch.setattr("asmgen.tools.sensitivity.PARAMETERS", asked)
    row = replace(MEASUREMENTS[0], what="a row", kernel="gemm-bf16", parameters={"m": "8192", "n": "8192", "tile": "64x64x64"})
    text = report_table([row, replace(row, kernel="")], 192)
    assert "(a) a row" in text and "1 rows have no kernel yet" in text
    moved = {line.split()[0]: line for line in text.splitlines() if "%" in line}
    assert "clock_dense" in moved and "valu_latency" not in moved


def test_workgroups_that_do_not_fit_together_are_refused(objdump: tuple[str, ...]) -> None:
    shape = ("gemm-bf16", "-p", "m=256", "-p", "n=256", "-p", "k=64")
    two = json.loads(run(*shape, "--json", "--workgroups", "2").output)
    assert two["workgroups_per_cu"] == two["workgroups_fitting"] == 2  # 64 KB of 160 each
    problem = run(*shape, "--workgroups", "3").exception
    assert isinstance(problem, AsmgenError) and "room for 2" in str(problem)


def test_command_on_a_specification(objdump: tuple[str, ...], tmp_path: Path) -> None:
    from asmgen.toolchain import assemble

    text = """.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
.text
.globl k
.p2align 8
.type k,@function
k:
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_lshlrev_b32 v1, 2, v0
  s_mov_b32 s6, 9
  s_waitcnt lgkmcnt(0)
L:
  global_load_dword v2, v1, s[4:5]
  s_waitcnt vmcnt(0)
  v_add_u32 v2, 1, v2
  global_store_dword v1, v2, s[4:5]
  s_sub_u32 s6, s6, 1
  s_cmp_lg_u32 s6, 0
  s_cbranch_scc1 L
  s_endpgm
.rodata
.p2align 6
.amdhsa_kernel k
  .amdhsa_next_free_vgpr 8
  .amdhsa_next_free_sgpr 16
  .amdhsa_accum_offset 8
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_kernarg_size 8
.end_amdhsa_kernel
"""
    (tmp_path / "k.co").write_bytes(assemble(text, "gfx950", None, name="k.s"))
    spec = {"code_object": "k.co", "grid": [3, 1, 1], "block": [64, 1, 1], "args": [{"zeros": 256, "save": "o.bin"}]}
    (tmp_path / "s.json").write_text(json.dumps(spec))
    done = run(str(tmp_path / "s.json"))
    assert done.exit_code == 0, done.output
    assert "predicted" in done.output and "loop 4-10" in done.output and "wait vm" in done.output
    assert not (tmp_path / "o.bin").exists()
    found = json.loads(run(str(tmp_path / "s.json"), "--json", "--data", "hbm").output)
    assert found["workgroups"] == 3 and found["loops"][0]["stalls"]["wait vm"] > 800
    assert isinstance(run(str(tmp_path / "s.json"), "--gpu", "MI300X").exception, AsmgenError)
