"""`asmgen bench`: a kernel of the library timed on a GPU by events. There is no timing on the emulator: it would say nothing."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from asmgen.author.family.family import Family
from asmgen.codeobject.load import CodeObject
from asmgen.isa.errors import AsmgenError
from asmgen.launch import hipbinding
from asmgen.launch.device import DeviceError
from asmgen.launch.hip import HipDevice, properties_of, why_no_gpu
from asmgen.launch.launchlist import LaunchList
from asmgen.tools.running.build import Built
from asmgen.tuning.started import launch_list

WARM_UPS, RUNS = 500, 100
"""Launches before the timed ones, and timed launches (HipKittens, arXiv 2511.08083, section 4)."""
LAST_LEVEL_CACHE = 256 << 20
"""Bytes of MI300X's and MI355X's Infinity Cache: the buffers that a launch uses were last touched more bytes ago."""
_MOST_SETS = 64


@dataclass(frozen=True)
class BenchReport:
    """Times of single launches in milliseconds, in their order, and what they were of."""

    kernel: str
    arch: str
    device: str
    parameters: Mapping[str, Any]
    milliseconds: Sequence[float]
    warm_ups: int
    buffer_sets: int
    flops: int | None
    nbytes: int
    environment: Mapping[str, Any]
    predicted: float | None = None  # milliseconds, by the cycle model
    rivals: Mapping[str, Sequence[float]] = field(default_factory=dict)  # times of others on the same problem

    @property
    def median(self) -> float:
        """Of the times."""
        return statistics.median(self.milliseconds)

    def beside(self, milliseconds: float) -> BenchReport:
        """The same times beside the cycle model's prediction."""
        return replace(self, predicted=milliseconds)

    def as_json(self) -> dict[str, Any]:
        """Median and spread, what follows from them, all times, and where they were taken."""
        low, high = (float(np.quantile(self.milliseconds, share)) for share in (0.1, 0.9))
        return {"kernel": self.kernel, "arch": self.arch, "device": self.device, "parameters": dict(self.parameters),
                "milliseconds_median": self.median, "milliseconds_p10": low, "milliseconds_p90": high,
                "tflops": self.flops / self.median * 1e-9 if self.flops else None, "gbytes_per_second": self.nbytes / self.median * 1e-6,
                "warm_ups": self.warm_ups, "runs": len(self.milliseconds), "buffer_sets": self.buffer_sets,
                "milliseconds_predicted": self.predicted,
                "against": {name: statistics.median(times) for name, times in self.rivals.items()},
                "milliseconds": list(self.milliseconds), "environment": dict(self.environment)}

    def text(self) -> str:
        """For people."""
        row = self.as_json()
        rate = f"{row['tflops']:.1f} TFLOPS, " if row["tflops"] else ""
        spread = f"10 to 90 %: {row['milliseconds_p10']:.4f} to {row['milliseconds_p90']:.4f}"
        lines = [f"{self.kernel} ({self.arch}) on {self.device}: measured {self.median:.4f} ms ({spread}), {rate}"
                 f"{row['gbytes_per_second']:.0f} GB/s; {row['runs']} launches after {self.warm_ups}, {self.buffer_sets} sets of buffers"]
        if self.predicted is not None:
            off = self.median / self.predicted - 1
            lines.append(f"  predicted by the cycle model: {self.predicted:.4f} ms, measured {off:+.1%} off it")
        lines += [f"  {name}: measured {statistics.median(times):.4f} ms, {statistics.median(times) / self.median:.2f} times as long"
                  for name, times in self.rivals.items()]
        return "\n".join(lines) + "\n"


def bench_device(kind: str, arch: str | None, command: str = "bench") -> HipDevice:
    """The GPU that a command times on: the first of the architecture, or of all.

    Raises AsmgenError for the emulator, under its own name or as a GPU of `asmgen hip-emulator`, and where there is no GPU.
    """
    needs = f"{command} needs a GPU (--device hip); `asmgen profile` predicts"
    refusal = f"the emulator says what a kernel computes, not how fast: {needs}"
    if kind != "hip":
        raise AsmgenError(refusal if kind == "emulator" else f"{command} knows no device {kind!r}; hip would work")
    try:
        device = HipDevice(arch)
    except DeviceError as error:
        raise AsmgenError(f"{why_no_gpu(error)}; {needs}") from error
    if device.is_emulated:
        device.close()
        raise AsmgenError(f"this is `asmgen hip-emulator`, no GPU: {refusal}")
    return device


def bench_kernel(family: Family, built: Built, parameters: Mapping[str, Any], device: HipDevice, warm_ups: int = WARM_UPS,
                 runs: int = RUNS, seed: int = 1) -> BenchReport:
    """Time launches of a built kernel on random data, which is finite where the seed is odd, each between two events, on sets of buffers
    that take turns."""
    problem = family.problem(parameters, seed)
    contract = built.kernel.contract
    arrays = {name: value for name, value in problem.arguments.items() if isinstance(value, np.ndarray)}
    nbytes = sum(array.nbytes for array in arrays.values())
    sets = min(_MOST_SETS, max(2, -(-2 * LAST_LEVEL_CACHE // max(nbytes, 1))))
    launches = launch_list(CodeObject.load(built.code_object), contract, parameters)
    uploaded = [{name: device.upload(array) for name, array in arrays.items()} for _ in range(sets)]
    values = [{argument.name: one.get(argument.name, problem.arguments[argument.name]) for argument in contract.given} for one in uploaded]
    times = time_launches(device, launches, values, warm_ups, runs)
    return BenchReport(contract.name, device.arch, device.name, parameters, times, warm_ups, sets, floating_operations(parameters),
                       nbytes, environment(device))


def time_launches(device: Any, launches: LaunchList, values: Sequence[Mapping[str, Any]], warm_ups: int, runs: int) -> list[float]:
    """Milliseconds of each of `runs` launches of all kernels, one by one after `warm_ups` others; launch n uses set n of `values`, round
    and round."""
    with device.stream() as stream:
        events = [(device.event(), device.event()) for _ in range(runs)]
        for number in range(warm_ups):
            launches.start(device, values[number % len(values)], stream)
        for number, (begin, end) in enumerate(events, warm_ups):
            begin.record(stream)
            launches.start(device, values[number % len(values)], stream)
            end.record(stream)
        stream.synchronize()
        times = [end.milliseconds_since(begin) for begin, end in events]
        for pair in events:
            for event in pair:
                event.close()
    return times


def floating_operations(parameters: Mapping[str, Any]) -> int | None:
    """Of a matrix product by its m, n and k; None for other kernels."""
    if not {"m", "n", "k"} <= parameters.keys():
        return None
    return 2 * int(parameters["m"]) * int(parameters["n"]) * int(parameters["k"])


def environment(device: HipDevice) -> dict[str, Any]:
    """What a time depends on beside the kernel, as far as HIP tells: None where it does not."""
    properties = properties_of(device.binding, device.gpu.index)
    told = {name: getattr(properties, name, None) for name in ("multiProcessorCount", "clockRate", "memoryClockRate")}
    return {"gpu": device.name, "compute_units": told["multiProcessorCount"], "clock_khz_at_most": told["clockRate"],
            "memory_clock_khz": told["memoryClockRate"], "hip_runtime": device.call("hipRuntimeGetVersion"),
            "hip_driver": device.call("hipDriverGetVersion"), "hip_python": hipbinding.version(),
            "python": platform.python_version(), "system": platform.platform()}
