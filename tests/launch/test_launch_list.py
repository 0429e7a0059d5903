"""Several kernels launched as one: on the emulator, on a stand-in of hip-python that records its calls, and through the real one."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asmgen.codeobject.arguments import ArgumentError
from asmgen.codeobject.load import CodeObject
from asmgen.emulator.scheduling.run import Options
from asmgen.launch.device import DeviceError, LaunchError
from asmgen.launch.emulated import EmulatedDevice
from asmgen.launch.hip import HipDevice
from asmgen.launch.launchlist import LaunchList, LaunchStep, WorkspaceBytes
from asmgen.program.program import Instruction
from asmgen.tools.mutate import on_emulator, score
from asmgen.tools.reach import reach
from asmgen.tools.running.build import build_kernel
from asmgen.tools.running.runner import run_kernel
from tests.in_parts import family
from tests.launch.test_hip_device import FakeHip
from tests.launch.test_hip_emulator import asmgen, needs_hip

N = 256
X = np.arange(N, dtype=np.float32)


@cache
def in_parts(again: int = 0, zeroed: bool = False) -> LaunchList:
    """d = 2 x + more, and twice that where `again`; both workgroup sizes differ."""
    built = build_kernel(family(), "gfx950", {"again": again})
    code, contract = CodeObject.load(built.code_object), built.kernel.contract
    resolved = contract.resolve_run({"again": again, "n": N})
    steps = tuple(LaunchStep(code.kernel(kernel.resources.name), kernel.contract.grid_of(resolved), kernel.contract.workgroup,
                             tuple(argument.name for argument in kernel.contract.arguments)) for kernel in built.kernel.launches)
    return LaunchList(steps, tuple(WorkspaceBytes(name, size, zeroed) for name, size in contract.workspace_bytes_of(resolved).items()))


@pytest.mark.parametrize("again", [0, 1])
@pytest.mark.parametrize("order", ["lockstep", "serial", "random:1"])
def test_each_kernel_sees_what_the_one_before_it_left(again: int, order: str) -> None:
    with EmulatedDevice("gfx950", Options(order=order)) as device:
        d = np.zeros(N, np.float32)
        results = in_parts(again).start(device, {"x": X, "d": d, "more": 0.25})
        assert [len(result.findings) for result in results] == [0] * (2 + again)
        np.testing.assert_array_equal(d, (2 * X + 0.25) * 2**again)
        assert not device._held, "workspaces are given back"


def test_what_nobody_wrote_into_a_workspace_is_found_where_the_host_sees_it() -> None:
    """The first kernel misses a workgroup's part; memory that a GPU would show from an earlier launch is undefined here."""
    whole = in_parts()
    missing = replace(whole, steps=(replace(whole.steps[0], grid=(3, 1, 1)), whole.steps[1]))
    with EmulatedDevice("gfx950") as device, pytest.raises(LaunchError, match="stores what nobody wrote: byte 768 of a buffer"):
        missing.start(device, {"x": X, "d": np.zeros(N, np.float32), "more": 0.25})
    zeroed = replace(missing, workspaces=(replace(whole.workspaces[0], zeroed=True),))
    with EmulatedDevice("gfx950") as device:
        d = np.zeros(N, np.float32)
        zeroed.start(device, {"x": X, "d": d, "more": 0.25})
        np.testing.assert_array_equal(d, np.where(np.arange(N) < 192, 2 * X, 0) + 0.25)


def test_a_workspace_may_be_given_and_is_checked() -> None:
    values: dict[str, Any] = {"x": X, "d": np.zeros(N, np.float32), "more": 0.25}
    with EmulatedDevice("gfx950") as device:
        for half in (np.full(N + 3, -7, np.float32), device.upload(np.full(N + 3, -7, np.float32))):
            in_parts(zeroed=True).start(device, values | {"half": half})
            np.testing.assert_array_equal(values["d"], 2 * X + 0.25)
            held = half if isinstance(half, np.ndarray) else device.read(half, np.float32, N + 3)
            np.testing.assert_array_equal(held[N:], np.full(3, 0 if isinstance(half, np.ndarray) else -7))
        for small in (np.zeros(N - 1, np.float32), device.allocate(4 * N - 1)):
            with pytest.raises(DeviceError, match=rf"workspace half has {4 * N - 4 if isinstance(small, np.ndarray) else 4 * N - 1} bytes, "
                                                  r"and these launches need 1024; a larger one would work"):
                in_parts().start(device, values | {"half": small})
        with pytest.raises(ArgumentError, match="in_parts_gfx950_first needs a value for x"):
            in_parts().start(device, {"d": values["d"]})


def test_a_gpu_gets_them_on_one_stream_in_order() -> None:
    fake = FakeHip()
    whole = in_parts(zeroed=True)
    code = whole.steps[0].kernel.code_object
    assert code is not None
    fake.image_size = len(code.data)
    with HipDevice("gfx950", fake) as device:
        x, d = device.upload(X), device.upload(X)
        for stream in (None, 5, 5):
            whole.start(device, {"x": x, "d": d, "more": 0.25}, stream)
        work = [call for call in fake.calls if call[0] in ("hipMemsetAsync", "hipModuleLaunchKernel")]
        assert [call[0] for call in work] == ["hipMemsetAsync", "hipModuleLaunchKernel", "hipModuleLaunchKernel"] * 3
        assert [call[4] for call in work if call[0] == "hipMemsetAsync"] == [None, 5, 5]
        assert [launch.stream for launch in fake.launches] == [None, None, 5, 5, 5, 5]
        firsts = [int.from_bytes(launch.kernarg[8:16], "little") for launch in fake.launches[::2]]
        seconds = [int.from_bytes(launch.kernarg[:8], "little") for launch in fake.launches[1::2]]
        assert firsts == seconds and firsts[1] == firsts[2] != firsts[0], "each stream has a workspace of its own, which stays"
        assert len(fake.named("hipMalloc")) == 4 and not fake.named("hipFree")
        assert not fake.named("hipDeviceSynchronize") and not fake.named("hipStreamSynchronize")
        for nbytes, made in ((1025, 2048), (2048, 2048), (5000, 5000)):
            larger = replace(whole, workspaces=(replace(whole.workspaces[0], nbytes=nbytes),))
            larger.start(device, {"x": x, "d": d, "more": 0.25}, 5)
            assert fake.named("hipMalloc")[-1] == (made,)
        assert len(fake.named("hipMalloc")) == 6 and not fake.named("hipFree"), "a captured graph may still use the small ones"
    assert fake.memory == {}


def test_tensors_of_pytorch_go_on_its_current_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(
        current_stream=lambda index: SimpleNamespace(cuda_stream=77 + index))))
    tensor = SimpleNamespace(data_ptr=lambda: 4096)
    with HipDevice("gfx950", FakeHip()) as device:
        assert [device.stream_of(*given) for given in (((tensor, 1), None), ((tensor, 1), 5), ((X, 1), None))] == [78, 5, None]


@needs_hip
@pytest.mark.slow
def test_through_hip_python() -> None:
    assert find_spec("hip") is not None
    done: subprocess.CompletedProcess[str] = asmgen("hip-emulator", sys.executable, str(Path(__file__).parents[1] / "hip_programs" /
                                                                                        "in_parts.py"))
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr


def test_run_reports_all_kernels_and_mutants_of_each_are_found() -> None:
    library, build = family(), {"again": 1}
    built = build_kernel(library, "gfx950", build)
    parameters = built.kernel.contract.resolve_run({**build, "n": 128})
    report = run_kernel(library, built, parameters, "emulator", program=built.kernel.program)
    names = [kernel.resources.name for kernel in built.kernel.launches]
    assert report.passed and [run.kernel for run in report.launches] == names and report.own == 1
    assert report.wave_instructions == sum(run.result.wave_instructions for run in report.launches)
    assert report.executed is not None and report.executed.of == sum(len(kernel.program) for kernel in built.kernel.launches)
    for kernel in built.kernel.launches:
        for number, item in enumerate(kernel.program.items):
            if isinstance(item, Instruction) and item.name == "v_add_f32":
                mutant = kernel.program.with_items(kernel.program.items[:number] + kernel.program.items[number + 1:])
                assert not run_kernel(library, built, parameters, "emulator", program=mutant).passed, kernel.name
        found = score(kernel.name, kernel.program, on_emulator(library, built, kernel))
        assert found.total["wait"] and not found.survivors
    assert [one.executed.missing for one in reach(library, built)] == [(), (), ()]
