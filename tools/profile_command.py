"""`asmgen profile`: a kernel of the library or a launch specification through the cycle model. Everything it says is a prediction."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from asmgen.author.family.family import Family
from asmgen.files import write_plain
from asmgen.isa.timing import Timing, gpu_of, read_overrides, timing
from asmgen.launch.memorylimit import MEMORY_LIMIT
from asmgen.model.chrometrace import chrome_trace
from asmgen.model.profile import LoopProfile, Profile
from asmgen.program.controlflow import control_flow
from asmgen.tools.running.build import Built
from asmgen.tuning.advice import Advice, advise
from asmgen.tuning.loopbounds import LoopBound, loop_bound
from asmgen.tuning.origins import Origin, origins
from asmgen.tuning.prediction import Prediction, predict
from asmgen.tuning.timerange import TimeRange, time_range
from asmgen.tuning.traced import Traced, trace_launch

_WORST = 12  # instructions that the text names


@dataclass(frozen=True)
class ProfileReport(Prediction):
    """What the command says of one kernel. `origins` are those of its instructions, empty where the code's author is not known; `advice`
    is what it would gain most by, `range` how far the ranges of parameters move it."""

    origins: tuple[Origin, ...] = ()
    advice: tuple[Advice, ...] = ()
    range: TimeRange | None = None

    @property
    def host_seconds(self) -> float:
        """As the host sees the launch."""
        return self.estimate.host_seconds

    def as_json(self) -> dict[str, Any]:
        """The fields of docs/ARCHITECTURE.md, and those that stand beside them. `cycles_per_iteration` is one trip through its code."""
        found, whole, code = self.profile, self.estimate, self.profile.program.instructions
        return {
            "kernel": self.name, "arch": found.timing.arch, "gpu": found.timing.gpu, "data": found.level, "predicted": True,
            "cycles": self.cycles, "prologue": found.prologue, "epilogue": found.epilogue, "cold_fetch": self.run.cold,
            "matrix_busy": found.matrix_busy,
            "seconds_predicted": whole.seconds, "time": "device",
            "host_seconds_predicted": whole.host_seconds, "tflops_predicted": whole.tflops, "limit": whole.limit, "clock_mhz": whole.clock,
            "workgroups": whole.workgroups, "workgroups_per_cu": whole.resident, "workgroups_fitting": self.fitting,
            "workgroups_together": whole.together,
            "steps": {"timed": self.steps.traced, "first": int(self.steps.each[0]), "least": int(self.steps.each.min()),
                      "most": int(self.steps.each.max())} if self.steps is not None else None,
            "rounds": whole.rounds, "seconds_by_part": whole.parts, "memory": self._memory(),
            "overridden": sorted(found.timing.overridden),
            **({"low": self.range.low, "high": self.range.high, "tflops_low": self.tflops_range()[0],
                "tflops_high": self.tflops_range()[1], "widest": self.range.widest or None} if self.range is not None else {}),
            "gbytes_per_second_predicted": self.gbytes_per_second,
            "peak": {"tflops": self.peak_tflops, "gbytes_per_second": self.peak_gbytes, "share": self.share_of_peak},
            "changes": [one.as_json(whole.seconds) for one in self.advice],
            "loops": [self._loop(loop) for loop in found.loops],
            "instructions": [{"address": code[row.position].address, "position": row.position, "text": code[row.position].text,
                              "executed": row.executed, "issue": row.issue, "stalls": row.stalls,
                              **(self.origins[row.position].as_json() if self.origins else {})} for row in found.instructions],
        }

    def _memory(self) -> dict[str, Any] | None:
        moved = self.estimate.traffic
        if moved is None:
            return None
        return {"l2_hit": moved.l2_hit, "llc_hit": moved.llc_hit, "l2_bytes": moved.l2, "llc_bytes": moved.llc, "hbm_bytes": moved.hbm,
                "stored_bytes": moved.stored, "by": moved.how,
                "arguments": [{"name": one.name, "loaded": one.loaded, "stored": one.stored} for one in moved.arguments]}

    def _loop(self, loop: LoopProfile) -> dict[str, Any]:
        return {"first": loop.first, "last": loop.last, "unroll": loop.unroll, "rounds": loop.rounds, "waves": loop.waves,
                "steady": loop.steady, "cycles_per_iteration": loop.cycles, "matrix_busy": loop.matrix_busy,
                "lower_bound": self._lower_bound(loop),
                "bounds": loop.bounds.clocks, "binding": loop.bounds.binding, "distance": loop.distance, "stalls": loop.stalls,
                "memory": {"verdict": loop.memory_verdict, "cycles": loop.bounds.memory}}

    def _lower_bound(self, loop: LoopProfile) -> dict[str, Any] | None:
        found = lower_bound(loop, self.profile)
        return None if found is None else {"clocks": found.clocks, "binding": found.binding, "above": loop.cycles / found.least - 1}

    def text(self) -> str:
        """The report for people."""
        found, whole = self.profile, self.estimate
        more = f" ({self.fitting} fit)" if self.fitting > whole.resident else ""
        lines = [f"{self.name} on {found.timing.gpu} ({found.timing.arch}), data in {found.level}: predicted, not measured",
                 f"  {whole.resident} workgroup{'s' * (whole.resident > 1)} on a compute unit{more}: {found.cycles} clk predicted, "
                 f"{found.prologue:.0f} before and {found.epilogue:.0f} after the main loop, matrix cores busy {found.matrix_busy:.1%}",
                 f"  whole launch: {whole.workgroups} workgroup{'s' * (whole.workgroups > 1)} in {whole.rounds} "
                 f"round{'s' * (whole.rounds > 1)}, {whole.together} on a unit, at {whole.clock:.0f} MHz: "
                 f"predicted {whole.seconds * 1e6:.1f} us of the device ({whole.host_seconds * 1e6:.1f} as the host sees it), "
                 f"{whole.tflops:.1f} TFLOPS, limit {whole.limit}",
                 *self._range(), self._rates()]
        if self.run.cold:
            lines[-1:-1] = [f"  an empty instruction cache makes the first round {self.run.cold:.0f} clk longer (predicted)"]
        if self.steps is not None and self.steps.missing.any():
            each = self.steps.each
            lines.insert(2, f"  timed with {self.steps.traced} steps; the first workgroup has {each[0]}: predicted {self.cycles:.0f} clk; "
                            f"workgroups have {each.min()} to {each.max()} steps, {each.mean():.1f} on average")
        if whole.traffic is not None:
            moved = whole.traffic
            lines.append(f"  memory predicted from {moved.how}: L2 hits {moved.l2_hit:.1%}, LLC hits {moved.llc_hit:.1%}; "
                         f"{moved.l2 / 1e9:.3g} GB of L2, {moved.llc / 1e9:.3g} of LLC, {moved.hbm / 1e9:.3g} of HBM, "
                         f"{moved.stored / 1e9:.3g} stored")
        lines.append("  time that each needs alone (us predicted): "
                     + ", ".join(f"{name} {seconds * 1e6:.1f}" for name, seconds in whole.parts.items()))
        if not found.loops and (loops := len(control_flow(found.program).loops())):
            lines.append(f"  no wave comes to a loop: what is to do takes no more than the code around the program's {loops}")
        for loop in found.loops:
            lines += _loop_lines(loop, found)
        lines.append(f"  instructions with the most stalls (clk predicted, all waves together; of {len(found.instructions)}):")
        worst = sorted(found.instructions, key=lambda row: -sum(row.stalls.values()))[:_WORST]
        for row in worst:
            if row.stalls:
                causes = ", ".join(f"{cause} {clocks}" for cause, clocks in sorted(row.stalls.items(), key=lambda item: -item[1]))
                lines.append(f"    {row.position:5} x{row.executed:<6} {found.program.instructions[row.position].text}: {causes}")
                lines += [f"          {self.origins[row.position]}"] if self.origins and str(self.origins[row.position]) else []
        lines += ["  what would gain most, each by itself (predicted):"] if self.advice else []
        lines += [f"    {one.gain * 1e6:.1f} us ({one.gain / whole.seconds:.1%}): {one.text}" for one in self.advice]
        return "\n".join(lines) + "\n"


    def tflops_range(self) -> tuple[float, float]:
        """Least and most of the launch; what is predicted twice without a range."""
        whole = self.estimate
        low, high = (self.range.low, self.range.high) if self.range is not None else (whole.seconds, whole.seconds)
        return whole.tflops * whole.seconds / high, whole.tflops * whole.seconds / low

    def _range(self) -> list[str]:
        if self.range is None:
            return []
        micros = f"{self.range.low * 1e6:,.1f} to {self.range.high * 1e6:,.1f} us"
        low, high = self.tflops_range()
        rate = f"{low:,.0f} to {high:,.0f} TFLOPS, {micros}"
        return [f"  predicted range: {rate if self.estimate.tflops else micros}; binds: {self.estimate.limit}; "
                f"widest: {self.range.widest or 'none'}"]

    def _rates(self) -> str:
        peak = f"{self.peak_tflops:.0f} TFLOPS" if self.peak_tflops else f"{self.peak_gbytes:.0f} GB/s"
        return (f"  predicted {self.gbytes_per_second:.1f} GB/s of the bytes that must move ({self.needed / 1e6:.1f} MB), "
                f"{self.share_of_peak:.1%} of the peak of {peak}")


def _loop_lines(loop: LoopProfile, found: Profile) -> list[str]:
    bounds = ", ".join(f"{name} {clocks:.0f}" for name, clocks in loop.bounds.clocks.items())
    stalls = ", ".join(f"{cause} {clocks:.0f}" for cause, clocks in loop.stalls.items()) or "none"
    ends = "" if loop.steady else " (too few rounds to leave the ends out)"
    least = lower_bound(loop, found)
    return [f"  loop {loop.first}-{loop.last}, unroll {loop.unroll}, {loop.rounds} rounds by {loop.waves} waves{ends}: "
            f"predicted {loop.cycles:.1f} clk a round, matrix cores busy {loop.matrix_busy:.1%}",
            f"    bounds: {bounds}; {loop.bounds.binding} binds, {loop.distance:+.1%} above it; memory pipeline: {loop.memory_verdict} "
            f"({loop.bounds.memory:.0f})",
            *([f"    no run takes less than {least.least:.0f} clk ({least.binding}); the prediction is {loop.cycles / least.least - 1:.1%} "
               "above"] if least is not None else []),
            f"    stalls of a wave in a round: {stalls}"]


def lower_bound(loop: LoopProfile, found: Profile) -> LoopBound | None:
    """The bound of a loop in its steady state; None where its ends count too or a branch skips a part of it."""
    return loop_bound(found.program, loop.first, loop.last, loop.waves, found.timing) if loop.steady else None


def trace_kernel(library: Family, built: Built, parameters: Mapping[str, Any], workgroups: int,
                 memory_limit: int = MEMORY_LIMIT) -> Traced:
    """Run the first workgroups of a library kernel on the emulator."""
    return trace_launch(library, built.kernel, built.code_object, parameters, workgroups, memory_limit)


def choose_timing(arch: str, gpu: str | None, parameters: Path | None) -> Timing:
    """The timing table for a GPU of the architecture, with a user's file of parameters."""
    return timing(gpu_of(arch, gpu), read_overrides(parameters) if parameters is not None else None)


def report_traced(traced: Traced, chosen: Timing, level: str, workgroups: int, spans: bool = False) -> ProfileReport:
    """Profile what was traced. Raises AsmgenError for more workgroups than fit on a compute unit."""
    found = predict(traced, chosen, level, workgroups, spans)
    return ProfileReport(**vars(found))


def advised(traced: Traced, chosen: Timing, level: str, workgroups: int, spans: bool = False) -> ProfileReport:
    """The same with its range, with the origins of instructions and with advice."""
    found = report_traced(traced, chosen, level, workgroups, spans)
    where = origins(found.profile.program, traced.written)
    return replace(found, origins=where, advice=tuple(advise(found, traced, where)), range=time_range(traced, found))


def write_trace(profile: Profile, path: Path) -> None:
    """Write the Chrome trace. Raises FileError where the file cannot be written."""
    write_plain(path, json.dumps(chrome_trace(profile)).encode())
