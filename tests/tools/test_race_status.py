"""What `asmgen launch` says of races: status 1 for different values, one finding for two instructions, and what --allow does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asmgen.codeobject.directives import KernelResources, header, trailer
from asmgen.codeobject.load import CodeObject
from asmgen.codeobject.metadata import arguments
from asmgen.emulator.arrival.findings import Finding, Findings, allowed_checks
from asmgen.emulator.scheduling.run import Options
from asmgen.isa.errors import AsmgenError
from asmgen.launch.device import LaunchError
from asmgen.launch.emulated import EmulatedDevice
from asmgen.launch.hipemulator.command import environment
from asmgen.launch.hipemulator.hipstate import Runtime
from asmgen.reader.assembly import read_text
from asmgen.toolchain import assemble
from asmgen.tools.cli import main
from tests.planted_faults import BACK, LOOP, Planted
from tests.planted_faults_more import FAULTS

CHOSEN = ("a read that was not waited for, and the next write", "LDS-DMA that is waited for behind the barrier",
          "load of what another wave stored", "an atomic and a store", "two workgroups store", "a workgroup loads what another one stores")
TWINS = [planted for planted in FAULTS if planted.name in CHOSEN and planted.check.endswith("-race")]


def write_launch(folder: Path, planted: Planted, repaired: bool, **more: Any) -> Path:
    """The specification of a planted fault, two workgroups, with a code object that clang made."""
    resources = KernelResources(name="planted", arch=planted.arch, vgprs=32, agprs=8, sgprs=40, lds_bytes=8192,
                                arguments=arguments([("a", "pointer"), ("b", "pointer")]), max_flat_workgroup_size=64 * planted.waves,
                                workgroup_ids=(True, False, False))
    text = header(resources) + planted.text(repaired)[0] + trailer(resources)
    (folder / "k.co").write_bytes(assemble(text, planted.arch))
    spec = folder / "spec.json"
    spec.write_text(json.dumps({"code_object": "k.co", "grid": [2, 1, 1], "block": [64 * planted.waves, 1, 1],
                                "args": [{"zeros": 4096}, {"zeros": 4096}]} | more))
    return spec


def command(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    """The status and the JSON document of a command."""
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments), "--device", "emulator", "--json"])
    return int(ended.value.code or 0), json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("planted", TWINS, ids=lambda planted: planted.name)
@pytest.mark.slow_after_first
def test_racy_twins_exit_1_and_clean_ones_0(planted: Planted, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = write_launch(tmp_path, planted, False)
    status, document = command(capsys, "launch", spec)
    (finding,) = document["findings"]
    assert (status, document["passed"], finding["severity"], finding["check"]) == (1, False, "error", planted.check)
    status, document = command(capsys, "launch", spec, "--allow", "races")
    assert (status, document["passed"], document["findings"]) == (0, True, [finding | {"severity": "warning"}])
    assert command(capsys, "launch", write_launch(tmp_path, planted, False, checks=False))[0] == 0
    status, document = command(capsys, "launch", write_launch(tmp_path, planted, True))
    assert (status, document["passed"], document["findings"]) == (0, True, [])


@pytest.mark.parametrize("planted", TWINS, ids=lambda planted: planted.name)
@pytest.mark.slow_after_first
def test_racy_twins_raise_from_python_and_clean_ones_do_not(planted: Planted, tmp_path: Path) -> None:
    """On an EmulatedDevice at the launch; on the emulated HIP runtime the GPU has a fault."""
    size, memory = (64 * planted.waves, 1, 1), np.zeros((2, 1024), np.uint32)
    for repaired, allow, good in ((False, (), False), (False, ("races",), True), (True, (), True)):
        write_launch(tmp_path, planted, repaired)
        kernel = CodeObject.load(tmp_path / "k.co").kernel()
        with EmulatedDevice(planted.arch, Options(allow=allow)) as device:
            if good:
                assert kernel.launch(device, (2, 1, 1), size, [*memory.copy()]).errors == []
            else:
                with pytest.raises(LaunchError, match=f"planted: {planted.check}: "):
                    kernel.launch(device, (2, 1, 1), size, [*memory.copy()])
        runtime = Runtime([planted.arch], Options(allow=allow), lambda sentence: None)
        runtime.report(runtime.gpus[0], "planted", device.launches[-1].findings)
        assert (runtime.gpus[0].fault is None) == good


def test_a_hip_emulator_that_allows_races(monkeypatch: pytest.MonkeyPatch) -> None:
    for allow in ((), ("races",)):
        for name, value in environment(["gfx950"], allow=allow, variables={}).items():
            if name.startswith("ASMGEN_HIP_EMULATOR"):
                monkeypatch.setenv(name, value)
        assert Runtime.from_environment().gpus[0].device.options.allow == allow


def test_there_are_twins_of_each_kind() -> None:
    assert len(TWINS) == len(CHOSEN) and {planted.check for planted in TWINS} == {"lds-race", "global-race", "workgroup-race"}


ROUNDS = Planted("both race with each other in each round", "lds-race", f"""
        v_xor_b32 v4, 0x100, v2
        ds_write_b32 v2, v2
        s_waitcnt lgkmcnt(0)
        s_barrier
        {LOOP}
        v_add_u32 v5, s21, v2
        ds_write_b32 v2, v5 @p
        + s_waitcnt lgkmcnt(0)
        + s_barrier
        ds_read_b32 v6, v4 @c
        s_waitcnt lgkmcnt(0)
        s_barrier
        {BACK}
    """, waves=2)


@pytest.mark.parametrize("order", ["lockstep", "serial", "random:1"])
def test_two_instructions_are_one_finding_with_a_count(order: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whichever comes first: of waves one after the other a read meets the other's write, and a write the other's read."""
    status, document = command(capsys, "launch", write_launch(tmp_path, ROUNDS, False, order=order))
    (finding,) = document["findings"]
    assert status == 1 and finding["count"] >= 3 and {"ds_write_b32", "ds_read_b32"} == {
        finding[side]["text"].split()[0] for side in ("producer", "consumer")}
    assert command(capsys, "launch", write_launch(tmp_path, ROUNDS, True, order=order))[1]["findings"] == []


def test_counts_of_findings() -> None:
    (program,) = read_text("s_nop 0\ns_nop 1\n", "gfx950")
    one, two = program.instructions
    findings = Findings()
    for check in ("lds-race", "wait-state"):
        findings.add(Finding(check, "warning", "first", one, two, 0, 0))
        findings.add(Finding(check, "error", "second", two, one, 1, 0, count=3))
        findings.add(Finding(check, "error", "third", one, two, 2, 0))
    assert [(found.check, found.severity, found.message, found.count) for found in findings.all()] == [
        ("lds-race", "error", "second", 5), ("wait-state", "error", "third", 2), ("wait-state", "error", "second", 3)]
    assert "5 times, first in wave 1" in findings.all()[0].sentence()
    assert "times" not in Finding("trap", "error", "", None, None, 0, 0).sentence()


def test_only_races_can_be_allowed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fault = next(planted for planted in FAULTS if planted.name == "global load")
    assert command(capsys, "launch", write_launch(tmp_path, fault, False), "--allow", "races")[0] == 1
    assert allowed_checks(()) == allowed_checks([]) == frozenset() and "workgroup-race" in allowed_checks("races")
    with pytest.raises(AsmgenError, match="'everything' cannot be allowed; races can"):
        allowed_checks(["everything"])
