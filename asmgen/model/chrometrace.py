"""A predicted run as a Chrome trace, which Perfetto opens: a track for each wave, one for each unit. One microsecond there is one clk."""

from __future__ import annotations

from typing import Any

from asmgen.model.costs import CostKind
from asmgen.model.profile import Profile, wave_label

_WAVES, _UNITS = 1, 2
Event = dict[str, Any]


def chrome_trace(profile: Profile) -> dict[str, Any]:
    """The JSON document. The timeline must have been made with `spans` for LDS and vector memory to have tracks."""
    timeline, instructions = profile.timeline, profile.program.instructions
    events = [_name(_WAVES, None, "waves (predicted)"), _name(_UNITS, None, "units (predicted)")]
    units: dict[str, int] = {}
    for number, wave in enumerate(timeline.waves):
        events.append(_name(_WAVES, number, f"{wave_label(wave)}, SIMD {wave.simd}"))
        for at, (position, begin) in enumerate(zip(wave.positions, wave.issued, strict=True)):
            cost = timeline.costs[position]
            events.append(_span(_WAVES, number, instructions[position].text, begin, cost.hold, {"position": position, "execution": at}))
            if cost.kind is CostKind.MATRIX:
                unit = units.setdefault(f"matrix core {wave.simd}", len(units))
                events.append(_span(_UNITS, unit, instructions[position].name, begin + cost.lead, cost.occupancy, {"wave": number}))
        for at, cause, begin, end in wave.stall_spans(timeline.costs):
            events.append(_span(_WAVES, number, cause, begin, end - begin, {"stall": True, "execution": at}))
    for name, position, begin, end in timeline.accesses:
        unit = units.setdefault(name, len(units))
        common = {"name": instructions[position].name, "cat": name, "id": len(events), "pid": _UNITS, "tid": unit}
        events += [common | {"ph": "b", "ts": begin}, common | {"ph": "e", "ts": end}]  # they overlap: asynchronous spans
    events += [_name(_UNITS, unit, name) for name, unit in units.items()]
    return {"traceEvents": events, "displayTimeUnit": "ns",
            "otherData": {"predicted": True, "gpu": profile.timing.gpu, "one_microsecond_is": "one clk"}}


def _name(process: int, thread: int | None, name: str) -> Event:
    kind = "process_name" if thread is None else "thread_name"
    return {"name": kind, "ph": "M", "pid": process, "tid": thread or 0, "args": {"name": name}}


def _span(process: int, thread: int, name: str, begin: int, clocks: int, arguments: dict[str, Any]) -> Event:
    return {"name": name, "ph": "X", "pid": process, "tid": thread, "ts": begin, "dur": clocks, "args": arguments}
