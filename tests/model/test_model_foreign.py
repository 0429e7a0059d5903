"""Code that clang built from HIP goes through the cycle model: calls, diverging waves, scratch, atomics, LDS-DMA."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asmgen.emulator.scheduling.run import Options
from asmgen.emulator.scheduling.trace import Trace
from asmgen.isa.timing import gpu_of, timing
from asmgen.launch.emulated import EmulatedDevice
from asmgen.model.cycles import CAUSES
from asmgen.model.profile import profile
from asmgen.toolchain import find_tool
from tests.clang_objects import hip_object
from tests.hip_launch import floats, ints

pytestmark = pytest.mark.skipif(find_tool("llvm-objdump") is None, reason="needs llvm-objdump")

KERNELS: tuple[tuple[str, str, int, int, list[Any]], ...] = (
    ("vector_add", "vector_add", 4, 256, [np.zeros(1024, np.float32), floats(1024, 1), floats(1024, 2), 1000]),
    ("divergent_calls", "divergent_calls", 2, 128, [np.zeros(256, np.float32), floats(250, 4, 8), 250]),
    ("indirect_calls", "indirect_calls", 3, 64, [np.zeros(192, np.uint32), ints(192, 1, 0, 99).view(np.uint32),
                                                 ints(192, 2, 0, 3).view(np.uint32)]),
    ("scratch_array", "scratch_array", 2, 64, [np.zeros(128, np.int32), ints(128, 3, 0, 99), ints(1024, 4, 0, 15)]),
    ("bitonic_sort", "bitonic_sort", 1, 256, [floats(256, 5)]),
    ("lds_reduce", "lds_reduce", 3, 256, [np.zeros(3, np.float32), floats(700, 6), 700]),
    ("lds_transpose", "lds_transpose", 2, 256, [np.zeros(8192, np.uint16), ints(4096, 7).view(np.uint16)]),
    ("atomics", "histogram", 4, 256, [np.zeros(32, np.uint32), ints(1024, 8, 0, 31).view(np.uint32)]),
    ("lane_ops", "wave_scan", 2, 64, [np.zeros(128, np.int32), ints(128, 9, 0, 9)]),
)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("source,kernel,grid,block,args", KERNELS, ids=[row[1] for row in KERNELS])
def test_profile_of_a_hip_object(source: str, kernel: str, grid: int, block: int, args: list[Any], arch: str) -> None:
    trace = Trace(1)
    with EmulatedDevice(arch, Options(checks=False, trace=trace)) as device:
        copies = [value.copy() if isinstance(value, np.ndarray) else value for value in args]
        device.launch(hip_object(source, arch).kernel(kernel), (grid, 1, 1), (block, 1, 1), copies)
    waves = list(trace.waves())
    assert trace.program is not None and len(waves) == block // 64 and {wave.workgroup for wave in waves} == {0}
    found = profile(trace.program, waves, timing(gpu_of(arch)))
    assert found.cycles >= max(4 * len(wave.positions) for wave in waves)
    for wave in found.timeline.waves:
        assert wave.issued == sorted(wave.issued) and len(wave.issued) == len(wave.positions)
        held = sum(found.timeline.costs[position].hold for position in wave.positions)
        assert held + sum(clocks for *_, clocks in wave.stalls) == wave.issued[-1] + 4
        assert {cause for _, cause, _ in wave.stalls} <= set(CAUSES)
    assert all(loop.distance > -0.05 for loop in found.loops if loop.steady)
    assert sum(row.executed for row in found.instructions) == sum(len(wave.positions) for wave in waves)
