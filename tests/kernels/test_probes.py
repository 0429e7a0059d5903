"""Microprobes: on the cycle model they give back its own parameters, whatever these are; the phase probe finds the bank model's table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from asmgen.emulator.scheduling.run import Options
from asmgen.isa.errors import AsmgenError
from asmgen.isa.lds import rule
from asmgen.isa.timing import DEFAULT_GPU, read_overrides, timing
from asmgen.kernels.probes.catalogue import LAUNCH, NAMES, PHASES, PROBES, UNPROBED
from asmgen.kernels.probes.issue import SCALAR
from asmgen.kernels.probes.phases import build_phase_probe
from asmgen.kernels.probes.stopwatch import build_probe
from asmgen.launch.emulated import EmulatedDevice
from asmgen.tools.cli import commands
from asmgen.tools.probe_command import DeviceClock, ModelClock, probe_names, run_probes, write_parameters

# Another machine: every row that a probe fills, as far from the table as the rows around it leave visible.
OTHER = {"valu_issue": 8, "valu_latency": 16, "trans_issue": 16, "trans_latency": 24, "quarter_issue": 32, "quarter_latency": 36,
         "salu_latency": 12, "branch_taken": 40, "branch_not_taken": 12, "sleep_unit": 32, "barrier_release": 20, "mfma_gap": 4,
         "mfma_operand_read": 12, "lds_latency": 100, "lds_crossing": 80, "lds_read_interval": 12, "lds_write_issue": 8,
         "lds_write_issue_dword": 8, "latency_l2": 400, "latency_hbm": 1200, "smem_latency": 120, "tcp_dword": 8, "tcp_wide": 32,
         "vmem_store_rate": 32, "launch": 3.5}


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("changed", [{}, OTHER])
def test_the_model_gives_back_its_own_parameters(arch: str, changed: dict[str, float]) -> None:
    """To an issue slot where something is measured in slots, to 5 % else."""
    chosen = timing(DEFAULT_GPU[arch], changed)
    found = run_probes(probe_names([], arch), ModelClock(chosen), chosen, "model", ops=())
    assert found.parameters.keys() >= OTHER.keys() and found.predicted
    for name, value in found.parameters.items():
        slack = 0 if name == "launch" else 4 if value >= 50 else 0.3
        assert value == pytest.approx(chosen[name], rel=0.05, abs=slack), name
    assert [(clk - chosen["mfma_gap"], table) for _, clk, table in found.occupancies] == [(32, 32)]


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "op", "lanes"), [("gfx950", "ds_read_b128", 32), ("gfx942", "ds_read_b64", 24)])
def test_phases_and_banks_are_those_of_the_bank_model(arch: str, op: str, lanes: int) -> None:
    """Of the first lanes: every phase of the table, as far as it lies among them."""
    chosen = timing(DEFAULT_GPU[arch])
    (name, banks, phases), = run_probes([PHASES], ModelClock(chosen), chosen, "model", ops=(op,), lanes=lanes).phases
    row = rule(arch, op)
    inside = {tuple(sorted(lane for lane in phase if lane < lanes)) for phase in row.phases} - {()}
    assert (name, banks, set(phases)) == (op, row.banks, inside)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_every_probe_is_built(arch: str) -> None:
    for probe in PROBES:
        if arch in probe.archs:
            assert build_probe(probe, arch).pieces
    assert build_phase_probe(arch, "ds_read_b32").measurements == 64 * 63 // 2 + 63 * 3


def test_a_device_gives_what_the_kernel_wrote_and_a_launch_is_timed_there() -> None:
    """The emulator stands for the GPU: its clock only grows."""
    kernel = build_probe(SCALAR, "gfx950")
    with EmulatedDevice("gfx950", Options(), {kernel.kernel.resources.name: kernel.kernel.program}) as device:
        clocks = DeviceClock(device).clocks(kernel.kernel, 1, len(kernel.pieces), np.zeros(4, np.uint32), "l2")
    assert len(clocks) == len(kernel.pieces) and all(clock > 0 for clock in clocks)


def test_names_are_checked() -> None:
    assert probe_names([], "gfx950") == list(NAMES) and "permlane" not in probe_names([], "gfx942")
    assert probe_names([LAUNCH], "gfx942") == [LAUNCH]
    with pytest.raises(AsmgenError, match="no probe 'lsd'; there are vector"):
        probe_names(["lsd"], "gfx950")
    with pytest.raises(AsmgenError, match="permlane is not for gfx942"):
        probe_names(["permlane"], "gfx942")


def test_what_no_probe_finds_is_said() -> None:
    lacking = {name for names in UNPROBED for name in names}
    assert lacking <= timing("MI355X").values.keys() and not lacking & OTHER.keys()
    text = run_probes([LAUNCH], ModelClock(timing("MI355X", {"launch": 3})), timing("MI355X"), "model").text()
    assert "not probed: kernarg_latency; the clock is itself a scalar load" in text and all(name in text for name in lacking)


def test_the_file_is_what_the_model_takes(tmp_path: Path) -> None:
    chosen = timing("MI355X", {"branch_taken": 40})
    report = run_probes(["scalar"], ModelClock(chosen), timing("MI355X"), "model")
    write_parameters(report, tmp_path / "found.json")
    assert timing("MI355X", read_overrides(tmp_path / "found.json"))["branch_taken"] == 40
    marked = [line.split()[0] for line in report.text().splitlines() if "differs from the table" in line]
    assert marked == ["branch_taken"]


def test_the_command() -> None:
    done = CliRunner().invoke(commands, ["probe", "barrier", "--device", "model", "--arch", "gfx942", "--json"])
    document = json.loads(done.output)
    assert document["predicted"] is True and document["parameters"] == {"barrier_release": {"found": 8.0, "table": 8}}
    refused = CliRunner().invoke(commands, ["probe", "--device", "emulator"])
    assert "probe needs a GPU (--device hip)" in str(refused.exception)
    refused = CliRunner().invoke(commands, ["probe", "nosuch"])
    assert "there is no probe 'nosuch'" in str(refused.exception)
