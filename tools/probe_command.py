"""`asmgen probe`: measure rows of the timing table on a GPU, and say what differs from the table.

The same kernels and the same arithmetic run on the cycle model (`--device model`), which gives back its own parameters: that proves the
probes, and is no measurement.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from asmgen.author.emit.kernel import Kernel
from asmgen.codeobject.load import CodeObject
from asmgen.emulator.scheduling.run import Options
from asmgen.emulator.scheduling.trace import Trace
from asmgen.files import write_plain
from asmgen.isa.arch import LANES
from asmgen.isa.errors import AsmgenError
from asmgen.isa.lds import Phases, rule
from asmgen.isa.timing import PARAMETERS, Timing
from asmgen.kernels.probes.catalogue import LAUNCH, NAMES, PHASES, PROBES, UNPROBED
from asmgen.kernels.probes.issue import MATRIX, occupancy
from asmgen.kernels.probes.phases import WAVES, build_phase_probe, phase_ops, solve
from asmgen.kernels.probes.stopwatch import Probe, Times, build_probe
from asmgen.launch.device import Device
from asmgen.launch.emulated import EmulatedDevice
from asmgen.model.cycles import simulate
from asmgen.model.estimate import estimate
from asmgen.model.profile import profile
from asmgen.toolchain import assemble
from asmgen.tools.bench import LAST_LEVEL_CACHE, bench_device

_CLOCK = "s_memtime"
_GPU_ROOM, _MODEL_ROOM = 1 << 30, 1 << 16
_LAUNCHES = 7
"""Of a probe on a GPU: the first warms the caches, and the least time of each piece counts."""
_TIMED_LAUNCHES = 200


class Clock(Protocol):
    """Something that runs a probe's kernel and says what wave 0 read from the clock between its measurements."""

    room: int

    def clocks(self, kernel: Kernel, waves: int, measurements: int, data: np.ndarray[Any, Any], level: str) -> Sequence[float]:
        """clk of each measurement, in order."""
        ...

    def launch_cost(self) -> float:
        """Microseconds that a warm launch of a kernel that does nothing takes."""
        ...


@dataclass
class ModelClock:
    """The cycle model, on what the emulator traces: a measurement is the clk between the issues of its two clock reads."""

    timing: Timing
    room: int = _MODEL_ROOM

    def clocks(self, kernel: Kernel, waves: int, measurements: int, data: np.ndarray[Any, Any], level: str) -> Sequence[float]:
        """As Clock has it."""
        trace = Trace(1)
        with EmulatedDevice(kernel.resources.arch, Options(checks=False, trace=trace), {kernel.resources.name: kernel.program}) as device:
            launch_probe(device, kernel, waves, measurements, data)
        assert trace.program is not None
        wave = simulate(trace.program, list(trace.waves()), self.timing, level).waves[0]
        read = [clock for clock, position in zip(wave.issued, wave.positions, strict=True)
                if trace.program.instructions[position].name == _CLOCK]
        return [end - begin for begin, end in zip(read[::2], read[1::2], strict=True)]

    def launch_cost(self) -> float:
        """As Clock has it."""
        kernel = build_probe(_NOTHING, self.timing.arch).kernel
        trace = Trace(1)
        with EmulatedDevice(kernel.resources.arch, Options(checks=False, trace=trace), {kernel.resources.name: kernel.program}) as device:
            launch_probe(device, kernel, 1, 1, np.zeros(1, np.uint32))
        assert trace.program is not None
        run = profile(trace.program, list(trace.waves()), self.timing)
        whole = estimate(run, 1, 1)
        return whole.host_seconds * 1e6 - run.cycles / whole.clock


@dataclass
class DeviceClock:
    """A GPU: what the kernel itself wrote, the least of several launches."""

    device: Any
    room: int = _GPU_ROOM

    def clocks(self, kernel: Kernel, waves: int, measurements: int, data: np.ndarray[Any, Any], level: str) -> Sequence[float]:
        """As Clock has it. Data of the level "hbm" is pushed out of the caches before each launch."""
        rows = []
        for _ in range(_LAUNCHES):
            if level == "hbm":
                self.device.free(self.device.upload(np.zeros(2 * LAST_LEVEL_CACHE, np.uint8)))
            rows.append(launch_probe(self.device, kernel, waves, measurements, data))
        return [float(clock) for clock in np.min(rows[1:], axis=0)]

    def launch_cost(self) -> float:
        """As Clock has it: the time between two events of many launches in a row."""
        kernel = build_probe(_NOTHING, self.device.arch).kernel
        loaded = CodeObject.load(assemble(kernel.text(), self.device.arch)).kernel()
        empty = self.device.allocate(LANES * 4)
        with self.device.stream() as stream:
            begin, end = self.device.event(), self.device.event()
            for number in range(2 * _TIMED_LAUNCHES):
                if number == _TIMED_LAUNCHES:
                    begin.record(stream)
                loaded.launch(self.device, (1, 1, 1), (LANES, 1, 1), (empty, empty), 0, stream)
            end.record(stream)
            stream.synchronize()
            return float(end.milliseconds_since(begin)) * 1e3 / _TIMED_LAUNCHES


_NOTHING = Probe(LAUNCH, "a kernel that does nothing", lambda watch: None, lambda times, table: {})


def launch_probe(device: Device, kernel: Kernel, waves: int, measurements: int, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Run the kernel once; the measurements that work-item 0 wrote."""
    loaded = CodeObject.load(assemble(kernel.text(), kernel.resources.arch)).kernel()
    out, given = device.upload(np.zeros((LANES * waves, max(1, measurements)), np.uint32)), device.upload(data)
    loaded.launch(device, (1, 1, 1), (LANES * waves, 1, 1), (out, given))
    device.synchronize()
    found = device.read(out, np.uint32, measurements)
    device.free(out)
    device.free(given)
    return found


@dataclass(frozen=True)
class ProbeReport:
    """What was found on `device`: parameters of the table, occupancies as (instruction, clk, the table's), and for LDS instructions
    (name, banks, phases); what no probe finds is said with it. Where `predicted`, the cycle model was probed and nothing measured."""

    device: str
    timing: Timing
    predicted: bool
    parameters: dict[str, float]
    occupancies: tuple[tuple[str, float, float], ...]
    phases: tuple[tuple[str, int, Phases], ...]

    def as_json(self) -> dict[str, Any]:
        """All of it, with the table's values."""
        return {"device": self.device, "arch": self.timing.arch, "gpu": self.timing.gpu, "predicted": self.predicted,
                "parameters": {name: {"found": value, "table": self.timing[name]} for name, value in self.parameters.items()},
                "not_probed": [{"parameters": names, "why": why} for names, why in UNPROBED.items()],
                "occupancies": [{"instruction": name, "found": found, "table": table} for name, found, table in self.occupancies],
                "phases": [{"instruction": op, "banks": banks, "phases": phases, "as_the_table": self._agrees(op, banks, phases)}
                           for op, banks, phases in self.phases]}

    def _agrees(self, op: str, banks: int, phases: Phases) -> bool:
        row = rule(self.timing.arch, op)
        return banks == row.banks and set(phases) == {tuple(sorted(phase)) for phase in row.phases}

    def text(self) -> str:
        """For people: a row each, marked where it leaves the range of the table's sources."""
        word = "predicted by the cycle model (this proves the probes and measures nothing)" if self.predicted else "measured"
        rows = {row.name: row for row in PARAMETERS}
        lines = [f"{self.device} ({self.timing.arch}), {word}; the table is {self.timing.gpu}'s",
                 f"  {'parameter':24} {'found':>10} {'table':>10}  unit"]
        for name, value in sorted(self.parameters.items()):
            row, table = rows[name], self.timing[name]
            ends = row.range_on(self.timing.gpu)
            off = abs(value - table) > max(_slack(row.unit, self.timing), 0.05 * abs(table)) and not min(ends) <= value <= max(ends)
            lines.append(f"  {name:24} {value:10.4g} {table:10.4g}  {row.unit}{'   differs from the table' if off else ''}")
        for name, found, expected in self.occupancies:
            lines.append(f"  {name}: {found:g} clk, table {expected:g}")
        for op, banks, phases in self.phases:
            verdict = "as the table has it" if self._agrees(op, banks, phases) else f"not as the table has it: {phases}"
            lines.append(f"  {op}: {banks} banks, {len(phases)} phases, {verdict}")
        lines += [f"  not probed: {', '.join(names)}; {why}" for names, why in UNPROBED.items()]
        return "\n".join(lines) + "\n"


def _slack(unit: str, timing: Timing) -> float:
    """What a probe cannot tell apart: an issue slot."""
    return timing["slot"] if unit == "clk" else 0.0


def check_names(names: Sequence[str]) -> None:
    """Raises AsmgenError for a probe that no architecture has."""
    for name in names:
        if name not in NAMES:
            raise AsmgenError(f"there is no probe {name!r}; there are {', '.join(NAMES)}")


def probe_names(names: Sequence[str], arch: str) -> list[str]:
    """The probes asked for, all of the architecture where none is. Raises AsmgenError for those that it has not."""
    check_names(names)
    lacking = {probe.name for probe in PROBES if arch not in probe.archs}
    for name in names:
        if name in lacking:
            raise AsmgenError(f"the probe {name} is not for {arch}, which has nothing of the kind")
    return list(names) or [name for name in NAMES if name not in lacking]


def run_probes(names: Sequence[str], clock: Clock, timing: Timing, device: str, ops: Sequence[str] = phase_ops(),
               lanes: int = LANES) -> ProbeReport:
    """Run probes by name; `ops` and `lanes` are those of the phase probe."""
    found: dict[str, float] = {}
    occupancies, phases = [], []
    for probe in (probe for probe in PROBES if probe.name in names):
        made = build_probe(probe, timing.arch)
        data = np.asarray(probe.data(clock.room), np.uint32)
        clocks = clock.clocks(made.kernel, probe.waves, len(made.pieces), data, probe.level)
        times = Times(dict(zip(made.pieces, clocks, strict=True)))
        found |= probe.solve(times, timing)
        if probe is MATRIX:
            occupancies.append(occupancy(times, timing.arch))
    if LAUNCH in names:
        found["launch"] = clock.launch_cost()
    if PHASES in names:
        for op in ops:
            asked = build_phase_probe(timing.arch, op, lanes)
            clocks = clock.clocks(asked.kernel, WAVES, asked.measurements, np.zeros(1, np.uint32), "l2")
            phases.append((op, *solve(asked, clocks)))
    return ProbeReport(device, timing, isinstance(clock, ModelClock), found, tuple(occupancies), tuple(phases))


def probe_device(kind: str, names: Sequence[str], arch: str | None, timing_of: Any) -> ProbeReport:
    """Probe a GPU ("hip") or the cycle model ("model"). Raises AsmgenError for the emulator, which has no clock."""
    check_names(names)
    if kind == "model":
        timing = timing_of(arch or "gfx950")
        return run_probes(probe_names(names, timing.arch), ModelClock(timing), timing, f"the cycle model of {timing.gpu}")
    with bench_device(kind, arch, "probe") as device:
        timing = timing_of(device.arch)
        return run_probes(probe_names(names, timing.arch), DeviceClock(device), timing, device.name)


def write_parameters(report: ProbeReport, path: Path) -> None:
    """The file that `asmgen profile --parameters` takes. Raises FileError where it cannot be written."""
    parameters = {name: max(0.0, value) for name, value in sorted(report.parameters.items())}
    write_plain(path, (json.dumps(parameters, indent=1) + "\n").encode())
