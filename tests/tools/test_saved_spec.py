"""`asmgen run --save-spec DIR`: what it writes is what launch and profile take, and gives the kernel's results again."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner

from asmgen.tools.cli import commands
from asmgen.tools.running.saved_spec import _array_writer

pytestmark = pytest.mark.needs_objdump


def run(*arguments: str) -> str:
    done = CliRunner().invoke(commands, list(arguments), standalone_mode=False, catch_exceptions=False)
    assert done.return_value == 0, done.output
    return done.stdout


def test_the_specification_runs_again(tmp_path: Path) -> None:
    """bf16 in, float32 out: x has its own type, a and b stand as 16-bit integers of the same bits."""
    folder = tmp_path / "made" / "here"
    report = json.loads(run("run", "04-mfma-tile", "--device", "emulator", "--seed", "7", "--save-spec", str(folder), "--json"))
    assert report["passed"] and report["spec"] == str(folder / "spec.json")
    assert [path.name for path in folder.glob("*.json")] == ["spec.json"]
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    again = json.loads(run("launch", report["spec"], "--device", "emulator", "--json"))
    assert again["wave_instructions"] == report["wave_instructions"] and again["findings"] == []
    assert again["executed"] == report["executed"] and 0 < again["executed"]["instructions"] <= again["executed"]["of"]
    a, b = (np.load(folder / f"{name}.npy").view(ml_dtypes.bfloat16).astype(np.float64) for name in ("a", "b"))
    np.testing.assert_allclose(np.load(folder / "d_out.npy"), a @ b.T, atol=1e-4)
    assert {name: (folder / name).read_bytes() for name in before} == before
    assert json.loads(run("profile", report["spec"], "--json"))["cycles"] > 0


def test_scalars_and_the_grid_are_those_of_the_run(tmp_path: Path) -> None:
    run("run", "02-row-sum", "--arch", "gfx942", "--device", "emulator", "-p", "m=3", "-p", "n=70", "--save-spec", str(tmp_path))
    spec = json.loads((tmp_path / "spec.json").read_text())
    assert (spec["grid"], spec["block"], spec["arch"]) == ([3, 1, 1], [64, 1, 1], "gfx942")
    assert spec["args"][2:] == [{"scalar": "u32", "value": 70}]
    run("launch", str(tmp_path / "spec.json"), "--device", "emulator")
    np.testing.assert_allclose(np.load(tmp_path / "d_out.npy"), np.load(tmp_path / "x.npy").sum(axis=1), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_several_launches_run_again(tmp_path: Path) -> None:
    """A product split along K: the parts lie in a workspace that no file has, and the second kernel takes it by name."""
    shape = ["tile=64x64x64", "split_k=3", "m=33", "n=70", "k=256", "ldd=72"]
    made = ["run", "gemm-bf16", "--device", "emulator", "--seed", "1", "--save-spec", str(tmp_path), "--json"]
    report = json.loads(run(*made, *(word for parameter in shape for word in ("-p", parameter))))
    spec = json.loads((tmp_path / "spec.json").read_text())
    assert [len(launch["args"]) for launch in spec["launches"]] == [10, 13] and not (tmp_path / "parts.npy").exists()
    assert spec["launches"][0]["args"][2] == {"undefined": 4 * 3 * 33 * 128, "name": "parts"}
    assert spec["launches"][1]["args"][0] == {"same_as": "parts"}
    again = json.loads(run("launch", report["spec"], "--device", "emulator", "--json"))
    assert again["passed"] and again["findings"] == [] and again["launches"] == report["launches"] and len(again["launches"]) == 2
    a, b, d = (np.load(tmp_path / f"{name}.npy").view(ml_dtypes.bfloat16).astype(np.float64) for name in ("a", "b", "d_out"))
    size = np.abs(a[:, :256]) @ np.abs(b[:, :256]).T
    assert (np.abs(d[:, :70] - a[:, :256] @ b[:, :256].T) <= 2.0**-8 * size).all() and (d[:, 70:] == -123.0).all()
    profile = json.loads(run("profile", report["spec"], "--json"))
    assert [one["kernel"] for one in profile["launches"]] == [launch["kernel"] for launch in spec["launches"]]
    assert profile["seconds_predicted"] == pytest.approx(sum(one["seconds_predicted"] for one in profile["launches"]))
    assert profile["low"] <= profile["seconds_predicted"] <= profile["high"]
    library = json.loads(run("profile", "gemm-bf16", "--json", *(word for parameter in shape for word in ("-p", parameter))))
    assert [one["kernel"] for one in library["launches"]] == [one["kernel"] for one in profile["launches"]]
    assert library["seconds_predicted"] == pytest.approx(profile["seconds_predicted"], rel=0.1)
    assert library["tflops_predicted"] == pytest.approx(2e-12 * 33 * 70 * 256 / library["seconds_predicted"])
    assert library["host_seconds_predicted"] - library["seconds_predicted"] == pytest.approx(1e-6)  # of the first launch alone
    code = next(tmp_path.glob("*.co"))
    executed = json.loads(run("inspect", str(code), "--run", report["spec"], "--json"))["kernels"]
    assert [max(kernel["executions"]) > 0 for kernel in executed] == [True, True]


def test_a_folder_that_cannot_be_made_is_refused_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(commands, ["run", "02-row-sum", "--device", "emulator", "--save-spec", str(tmp_path / "file")],
                              standalone_mode=False)
    assert "cannot make the folder" in str(done.exception) and done.stdout == ""


@pytest.mark.parametrize(("command", "name"), [(["run", "01-vector-add", "--device", "emulator", "-p", "n=100000", "--save-spec"], "x.npy"),
                                               (["build", "gemm-bf16", "-o"], "gemm-bf16_gfx950_128x128x64_interleave.s")])
def test_a_file_that_finds_no_room_is_named(command: list[str], name: str, tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 15, before[1]))
    try:
        done = CliRunner().invoke(commands, [*command, str(tmp_path)], standalone_mode=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert name in str(done.exception) and "File too large" in str(done.exception) and list(tmp_path.iterdir()) == []


def test_arrays_of_any_shape_are_written_as_numpy_writes_them(tmp_path: Path) -> None:
    for number, value in enumerate((np.arange(12, dtype=np.float32).reshape(3, 4), np.zeros((0, 3), np.int8), np.float64(2.5).reshape(()),
                                    np.arange(12, dtype=np.uint16).reshape(3, 4).T, np.ones(3, ml_dtypes.bfloat16))):
        with (tmp_path / f"{number}.npy").open("wb") as file:
            _array_writer(value)(file)
        found = np.load(tmp_path / f"{number}.npy")
        assert found.shape == value.shape and found.dtype.itemsize == value.dtype.itemsize
        assert found.tobytes() == value.tobytes()
